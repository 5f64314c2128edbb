#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# build.sh OUTDIR: the simulated device as shared libraries, with nothing but a C compiler.
#
#   libsimcuda.so                        the device itself
#   libcuda.so.1                         the driver API
#   libcudart.so.11.0, .so.12, .so.13    the runtime API, with the symbol versions of the real ones
#   libcupti.so.11.7, .so.12, .so.13     CUPTI's callbacks for the driver's calls
#   libnccl.so.2                         NCCL among the processes of one host
#   libnvidia-ml.so.1                    the little of the management library that is asked for
#   simcuda-ctl                          changes a control file from a shell
#
# Does nothing when OUTDIR is newer than every source. CC and CFLAGS are honoured. No CUDA header
# is used; where one is to be had (CUDA_INCLUDE), the layouts are checked against it.
set -eu

out=${1:?usage: build.sh OUTDIR}
src=$(cd "$(dirname "$0")" && pwd)
cc=${CC:-cc}
# A call of the driver has a frame of the driver in the real one, too.
flags="-std=gnu11 -O2 -g -fPIC -fno-optimize-sibling-calls -Wall -Wextra -Wshadow -Werror ${CFLAGS:-}"

mkdir -p "$out"
out=$(cd "$out" && pwd)
stamp=$out/.simcuda-built
if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$cc $flags" ] &&
	[ -z "$(find "$src" -newer "$stamp" \( -name '*.[ch]' -o -name '*.list' -o -name '*.awk' \
		-o -name build.sh \) -print)" ]; then
	exit 0
fi
# Two test programs may want the libraries at the same time: build aside, then move into place.
tmp=$(mktemp -d "$out/.build.XXXXXX")
trap 'rm -rf "$tmp"' EXIT
trap 'exit 1' HUP INT TERM

# library SONAME VERSION-SCRIPT-TEXT SOURCE...
library()
{
	soname=$1
	printf '%s\n' "$2" >"$tmp/$soname.map"
	shift 2
	# shellcheck disable=SC2086 # the flags are words
	$cc $flags -shared -Wl,-soname,"$soname" -Wl,--version-script,"$tmp/$soname.map" \
		-Wl,-z,defs -Wl,-rpath,"\$ORIGIN" -o "$tmp/$soname" "$@" -lpthread -ldl
}

awk -f "$src/stubs.awk" "$src/driver/stubs.list" >"$tmp/driver_stubs.c"
awk -f "$src/stubs.awk" "$src/runtime/stubs.list" >"$tmp/runtime_stubs.c"
awk -v answer=0 -f "$src/stubs.awk" "$src/cupti/stubs.list" >"$tmp/cupti_stubs.c"
awk -v answer=0 -f "$src/stubs.awk" "$src/nccl/stubs.list" >"$tmp/nccl_stubs.c"

library libsimcuda.so '{ global: sim_*; simcuda_*; local: *; };' "$src"/core/*.c
library libcuda.so.1 '{ global: cu*; local: *; };' "$src"/driver/*.c "$tmp/driver_stubs.c" \
	"$tmp/libsimcuda.so"
library libnvidia-ml.so.1 '{ global: nvml*; local: *; };' "$src"/nvml/*.c "$tmp/libsimcuda.so"
library libnccl.so.2 '{ global: nccl[A-Z]*; local: *; };' "$src"/nccl/*.c "$tmp/nccl_stubs.c" "$tmp/libsimcuda.so"
for v in 11.0 12 13; do
	library libcudart.so.$v "libcudart.so.$v { global: cuda*; __cuda*; local: *; };" \
		-DSIMCUDA_CUDART=${v%.*} "$src"/runtime/*.c "$tmp/runtime_stubs.c" "$tmp/libsimcuda.so"
done
for v in 11.7 12 13; do
	library libcupti.so.$v "libcupti.so.$v { global: cupti*; local: *; };" "$src"/cupti/*.c "$tmp/cupti_stubs.c" \
		"$tmp/libsimcuda.so"
done
# shellcheck disable=SC2086
$cc $flags -o "$tmp/simcuda-ctl" "$src/simcuda_ctl.c"
if [ -n "${CUDA_INCLUDE:-}" ]; then
	# shellcheck disable=SC2086
	$cc $flags -isystem "$CUDA_INCLUDE" -fsyntax-only "$src/abi_check.c"
fi
for f in libsimcuda.so libcuda.so.1 libcudart.so.11.0 libcudart.so.12 libcudart.so.13 \
	libcupti.so.11.7 libcupti.so.12 libcupti.so.13 libnccl.so.2 libnvidia-ml.so.1 simcuda-ctl; do
	mv -f "$tmp/$f" "$out/$f"
done
printf '%s\n' "$cc $flags" >"$stamp"
