#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Makes the seeds of fuzz_elf: ELF files of some kilobytes, one for each way in which a linker or a distribution lays out symbols,
# unwind information and DWARF. Those in the repository were made by Debian 12's gcc; make them again when there are new ways.
#
# usage: seeds.sh DIRECTORY
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
out=$(CDPATH='' cd -- "$1" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
cp "$here/seed.c" "$here/seed.S" .

library() { # NAME FLAG...
	name=$1
	shift
	gcc -shared -nostdlib -fPIC -O1 -Wl,-z,noseparate-code -Wl,-z,max-page-size=4096 "$@" -o "$name.so" seed.c seed.S
	add "$name" "$name.so"
}

# The 16 bytes that come before the file tell how it is read, how long those behind it are, and that it is sound (fuzz_elf.c).
add() { # NAME FILE [DEBUG-FILE SHARED-FILE ADDRESS]
	name=$1
	shift
	python3 - "$out/$name" "$@" <<'PROGRAM'
import struct
import sys

files = [open(path, "rb").read() for path in sys.argv[2:5]]
behind = files[1:] or [b"", b""]
fnv = 2166136261
for byte in files[0]:
    fnv = (fnv ^ byte) * 16777619 & 0xffffffff
how, number, address = (8 | 32, 0x5d, int(sys.argv[5], 16)) if files[1:] else (8, 3, len(files[0]) // 8)
with open(sys.argv[1], "wb") as out:
    out.write(struct.pack("<BBHIII", how, number, len(behind[1]), address, len(behind[0]), fnv) + b"".join(files))
PROGRAM
}

# A file without DWARF, what has it, and what dwz puts into a file of its own.
with_debug_files() { # NAME FLAG...
	name=$1
	shift
	for n in 1 2; do
		gcc -shared -nostdlib -fPIC -O1 -g -gdwarf-5 -fno-asynchronous-unwind-tables -Wl,-z,noseparate-code,-z,norelro \
			-Wl,-z,max-page-size=4096,-z,common-page-size=16 "$@" -o "$name$n.so" "$here/small.c" "-DNAME=top$n"
		objcopy --only-keep-debug "$name$n.so" "$name$n.debug"
	done
	dwz -m alt.dwz -M /lib/alt.dwz "${name}1.debug" "${name}2.debug"
	strip --strip-debug "${name}1.so"
	objcopy --add-gnu-debuglink="${name}1.debug" "${name}1.so"
	add "$name" "${name}1.so" "${name}1.debug" alt.dwz "$(nm "${name}1.so" | sed -n 's/ T top1$//p')"
}

library gnu -g -gdwarf-5 -Wl,--hash-style=gnu -Wl,--build-id
g++ -shared -nostdlib -fPIC -O2 -g -gdwarf-5 -fno-exceptions -ffunction-sections -Wl,-z,noseparate-code -o cxx.so "$here/seed.cc"
add cxx cxx.so
g++ -shared -nostdlib -fPIC -O2 -g -gdwarf-4 -fno-exceptions -freorder-blocks-and-partition -Wl,-z,noseparate-code -o cxx4.so "$here/seed.cc"
add cxx4 cxx4.so
library sysv -g1 -gdwarf-4 -Wl,--hash-style=sysv -Wl,--build-id=none -fno-asynchronous-unwind-tables
library packed -g -gz=zlib -Wl,--hash-style=both -Wl,-z,now -Wl,-z,relro
library lazy -g0 -fplt -fcf-protection=none -Wl,-z,lazy
library endbr -g0 -fplt -fcf-protection=full -Wl,-z,ibtplt
library no-header -g0 -Wl,--no-eh-frame-hdr
library strip -g0 -s
with_debug_files debug-link -Wl,--build-id=none
with_debug_files debug-id -Wl,--build-id
xz -k9 -c strip.so >debugdata.xz
objcopy -S --add-section .gnu_debugdata=debugdata.xz gnu.so fedora.so
add fedora fedora.so
cp strip.so bare.so
python3 - bare.so <<'PROGRAM'
import sys
data = bytearray(open(sys.argv[1], "rb").read())
data[40:48] = bytes(8)   # e_shoff
data[58:64] = bytes(6)   # e_shentsize, e_shnum, e_shstrndx
open(sys.argv[1], "wb").write(data)
PROGRAM
add bare bare.so
ls -l "$out"
