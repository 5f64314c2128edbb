#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# From a fresh clone to a report in one command: installs the build packages, builds vramtap, starts an example process
# that trains a little and then hangs, attaches to it and prints the report. The example runs PyTorch on the GPU when the
# machine has both, else on the simulated device of tests/simcuda. It says first how much it will download, and asks nothing.
#
# usage: quickstart.sh [--no-torch]
#   --no-torch      the example is a C program that is stuck (stuck.c), on the simulated device: no PyTorch is downloaded
#   VRAMTAP         a vramtap that is there already: nothing is built
#   VRAMTAP_CACHE   build trees and wheels go there (default: ~/.cache/vramtap)
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
VRAMTAP_CACHE=${VRAMTAP_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/vramtap}
export VRAMTAP_CACHE
vramtap=${VRAMTAP:-}
torch=yes
case ${1:-} in
'') ;;
--no-torch) torch= ;;
*)
	echo 'usage: quickstart.sh [--no-torch]' >&2
	exit 64
	;;
esac
version=$(sed -n 's/^\([0-9][0-9.]*\).*/\1/p' "$here/tests/setup/torch-versions" | tail -n 1)
work=$(mktemp -d)
pid=

say() {
	printf 'quickstart: %s\n' "$*" >&2
}

# shellcheck disable=SC2317 # called by the trap
clean_up() {
	# The example's own process, by its id.
	if [ -n "$pid" ]; then
		kill -9 "$pid" 2>/dev/null || true
	fi
	rm -rf "$work"
}
trap clean_up EXIT
trap 'exit 130' INT TERM

has_gpu() {
	command -v nvidia-smi >/dev/null 2>&1 && python3 -c 'import torch; assert torch.cuda.is_available()' 2>/dev/null
}

# Sizes as PyPI and Debian had them in November 2026; those of packages as apt says them here.
announce() {
	if [ -z "$vramtap" ]; then
		size=$(sh "$here/scripts/deps.sh" size)
		case $size in
		0) say 'packages to build with: all are here' ;;
		'') say 'packages to build with: some 90 MB to download, by a fresh Debian 12 (apt has no lists here)' ;;
		*) say "packages to build with: $size MB to download" ;;
		esac
	fi
	if [ -z "$torch" ]; then
		say 'PyTorch: not needed'
	elif has_gpu; then
		say "PyTorch: python3's own, on the GPU"
	elif [ -e "$VRAMTAP_CACHE/torch/$version/.done-smoke" ]; then
		say "PyTorch $version: is here"
	else
		say "PyTorch $version: 550 MB to download, 1.2 GB on disk; --no-torch does without"
	fi
	say "everything goes to $VRAMTAP_CACHE"
}

build_vramtap() {
	say 'build packages'
	CUDA_HEADERS=$(sh "$here/scripts/deps.sh" build | sed -n 's/^CUDA_HEADERS=//p')
	[ -n "$CUDA_HEADERS" ] || {
		say 'the build packages could not be installed (see above); nothing was built'
		exit 1
	}
	say 'building: about a minute on two quiet processors, the first time'
	sh "$here/scripts/build.sh" "$VRAMTAP_CACHE/build/quickstart" "$CUDA_HEADERS" >"$work/build.log" 2>&1 || {
		cat "$work/build.log" >&2
		say 'the build failed'
		exit 1
	}
	vramtap=$VRAMTAP_CACHE/build/quickstart/vramtap
}

simulated_device() {
	sh "$here/tests/simcuda/build.sh" "$VRAMTAP_CACHE/simcuda" >&2 || {
		say 'the simulated device could not be built (see above)'
		exit 1
	}
}

# Starts what the arguments are.
start() {
	"$@" >"$work/example.log" 2>&1 &
	pid=$!
}

c_example() {
	simulated_device
	lib=$VRAMTAP_CACHE/simcuda
	cc -g -O1 -o "$work/stuck" "$here/examples/stuck.c" "$lib/libcudart.so.13" -Wl,-rpath-link,"$lib" -pthread || {
		say 'the example could not be compiled (see above)'
		exit 1
	}
	say 'starting examples/stuck.c on the simulated device'
	start env SIMCUDA_DEVICES=1 SIMCUDA_MEM_MB=4096 LD_LIBRARY_PATH="$lib" "$work/stuck"
}

torch_example() {
	if has_gpu; then
		say 'starting the example on the GPU'
		start python3 "$here/examples/stuck.py"
		return
	fi
	say "no GPU with PyTorch here: PyTorch $version on the simulated device"
	simulated_device
	if ! sh "$here/tests/setup/torch.sh" "$version" >&2; then
		say "PyTorch could not be set up (see above). $vramtap is built; --no-torch shows it without PyTorch"
		exit 1
	fi
	start sh "$here/tests/setup/run-sim.sh" "$version" -- python "$here/examples/stuck.py"
}

wait_for_example() {
	tries=0
	until grep -q '^READY' "$work/example.log"; do
		if ! kill -0 "$pid" 2>/dev/null || [ "$tries" -ge 1200 ]; then
			cat "$work/example.log" >&2
			say 'the example did not start'
			exit 1
		fi
		tries=$((tries + 1))
		sleep 0.1
	done
	target=$(sed -n 's/^READY *//p' "$work/example.log" | head -n 1)
}

announce
mkdir -p "$VRAMTAP_CACHE"
[ -n "$vramtap" ] || build_vramtap
if [ -n "$torch" ]; then
	torch_example
else
	c_example
fi
wait_for_example
say "vramtap report $target"
status=0
"$vramtap" report "$target" || status=$?
say "exit status $status; the program is $vramtap"
exit "$status"
