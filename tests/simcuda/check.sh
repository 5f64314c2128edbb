#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# check.sh OUTDIR: builds the simulated device into OUTDIR and checks that it behaves, with and without a control file.
set -eu
out=${1:?usage: check.sh OUTDIR}
src=$(cd "$(dirname "$0")" && pwd)
sh "$src/build.sh" "$out"
out=$(cd "$out" && pwd)
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 1' HUP INT TERM
for v in 11.0 12 13; do
	${CC:-cc} -std=gnu11 -O1 -g -Wall -Wextra -Wshadow -Werror -o "$tmp/selftest$v" "$src/selftest.c" \
		-L"$out" -l:libcudart.so.$v -l:libcuda.so.1 -l:libsimcuda.so -lpthread
	LD_LIBRARY_PATH=$out timeout 60 "$tmp/selftest$v"
	LD_LIBRARY_PATH=$out SIMCUDA_CTL=$tmp/ctl$v timeout 60 "$tmp/selftest$v"
	# A change from outside releases a thread: the third call blocks until the faults are cleared.
	"$out/simcuda-ctl" "$tmp/ctl$v" fault cudaMalloc:block:count=1
	LD_LIBRARY_PATH=$out SIMCUDA_CTL=$tmp/ctl$v timeout 60 "$tmp/selftest$v" >"$tmp/log" &
	i=0
	while [ $i -lt 500 ] && [ "$("$out/simcuda-ctl" "$tmp/ctl$v" show | sed -n 's/^blocked //p')" = 0 ]; do
		sleep 0.01
		i=$((i + 1))
	done
	"$out/simcuda-ctl" "$tmp/ctl$v" clear
	wait $!
	cat "$tmp/log"
done
