#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What is put into foreign processes must need nothing of them: the helper library has no imports, no dependencies, no
# constructors, no thread-local storage, no executable stack, and only relocations that add the load address; neither has the
# recorder, which the loader loads all the same, so that exceptions find its call frame information, and which leaves the state of
# the x87 and mxcsr alone; the stub is position-independent code without relocations, and touches vector registers only to save and
# restore them.
set -eu

build=${VRAMTAP_BUILD_DIR:-.}
helper=$build/helper/vramtap-helper.so
recorder=$build/helper/vramtap-recorder.so
stub=$build/src/inject/stub/stub.elf

# Prints what is wrong with a library.
problems() {
	readelf -dW "$1" | grep -E '\((NEEDED|INIT|FINI|INIT_ARRAY|FINI_ARRAY|PREINIT_ARRAY|TEXTREL|JMPREL|RPATH|RUNPATH)\)' || :
	readelf --dyn-syms -W "$1" | awk '$7 == "UND" && $1 != "0:" { print "undefined: " $8 }'
	readelf -rW "$1" | awk '/R_X86_64_/ && !/R_X86_64_RELATIV/ { print "relocation: " $0 }'
	readelf -lW "$1" | grep -E '^ +TLS|^ +INTERP' || :
	readelf -lW "$1" | awk '$1 == "GNU_STACK" { seen = 1; if ($7 ~ /E/) print "executable stack" }
		$1 == "LOAD" && /RWE/ { print "a segment that is writable and executable" }
		END { if (!seen) print "no GNU_STACK: executable stack" }'
}

fail() {
	echo "FAILED: $*"
	exit 1
}

# What the recorder has the program's C library for, as its InitializeInjection() runs before it could be told where that is; weak.
allowed() {
	if [ "$1" = "$recorder" ]; then grep -vE '[: ](getenv|unsetenv)( |$)' || :; else cat; fi
}
for library in "$helper" "$recorder"; do
	found=$(problems "$library" | allowed "$library")
	[ -z "$found" ] || fail "$library: $found"
	[ "$(readelf -hW "$library" | awk '/Entry point/ { print $4 }')" != 0x0 ] || fail "$library has no entry point"
	readelf -nW "$library" | grep -q 'Build ID' || fail "$library has no build id"
	echo "ok: $library needs nothing"
done
strong=$(readelf --dyn-syms -W "$recorder" | awk '$7 == "UND" && $1 != "0:" && $5 != "WEAK"')
[ -z "$strong" ] || fail "$recorder cannot do without $strong"
readelf -lW "$recorder" | grep -q GNU_EH_FRAME || fail "$recorder has no call frame information"
state=$(objdump -d "$recorder" | grep -E '%st|ldmxcsr|fldcw|emms|vzero' || :)
[ -z "$state" ] || fail "$recorder changes the floating point state: $state"
entry=$(readelf -hW "$recorder" | awk '/Entry point/ { print $4 }')
control=$(readelf --dyn-syms -W "$recorder" | awk '$8 == "vt_recorder_control" { print $2 }')
[ "$((entry))" = "$((0x${control:-0}))" ] || fail "the entry point of $recorder is not vt_recorder_control()"

# The check itself must be able to find something: an ordinary library has all of it.
libc=$(awk '/libc\.so\.6|libc-2/ { print $6; exit }' /proc/self/maps)
if [ -n "$libc" ]; then
	[ -n "$(problems "$libc")" ] || fail "the check finds nothing in $libc either"
	echo "ok: the check finds $(problems "$libc" | wc -l) things in $libc"
fi

[ -z "$(readelf -rW "$stub" | grep R_X86_64 || :)" ] || fail "$stub has relocations"
sections=$(readelf -SW "$stub" | awk '$0 ~ /\] \./ && $0 ~ / (A|AX|WA|WAX|AMS|AM) +[0-9]+ / { sub(/^ *\[ *[0-9]+\] */, ""); print $1 }')
[ "$sections" = .text ] || fail "$stub has the sections $sections"
vector=$(objdump -d "$stub" | grep -E '%[xyz]?mm[0-9]|%st' || :)
[ -z "$vector" ] || fail "$stub uses $vector"
saves=$(objdump -d "$stub" | grep -cE 'xsave64|xrstor64')
[ "$saves" = 2 ] || fail "$stub saves and restores the extended state $saves times"
size=$(wc -c <"$build/src/inject/stub/stub.bin")
[ "$size" -le 3072 ] || fail "the stub has $size bytes: the unused bytes behind libc's code are about 3,800"
echo "ok: $stub is code alone, $size bytes"
