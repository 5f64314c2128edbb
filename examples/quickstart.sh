#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# From a fresh clone to a report in one command: installs the build packages, builds vramtap, starts an example process
# that trains a little and then hangs, attaches to it and prints the report. The example runs PyTorch on the GPU when the
# machine has both, else on the simulated device of tests/simcuda (PyTorch is then fetched once, 0.5 GB).
#
# usage: quickstart.sh        build trees and wheels go to ${VRAMTAP_CACHE:-~/.cache/vramtap}
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
VRAMTAP_CACHE=${VRAMTAP_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/vramtap}
export VRAMTAP_CACHE
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

mkdir -p "$VRAMTAP_CACHE"
say 'build packages'
CUDA_HEADERS=$(sh "$here/scripts/deps.sh" build | sed -n 's/^CUDA_HEADERS=//p')
[ -n "$CUDA_HEADERS" ] || {
	say 'the build packages could not be installed (see above); nothing was built'
	exit 1
}
say 'building'
sh "$here/scripts/build.sh" "$VRAMTAP_CACHE/build/quickstart" "$CUDA_HEADERS" >"$work/build.log" 2>&1 || {
	cat "$work/build.log" >&2
	say 'the build failed'
	exit 1
}
vramtap=$VRAMTAP_CACHE/build/quickstart/vramtap

example() {
	if command -v nvidia-smi >/dev/null 2>&1 && python3 -c 'import torch; assert torch.cuda.is_available()' 2>/dev/null; then
		say 'starting the example on the GPU'
		set -- python3 "$here/examples/stuck.py"
	else
		version=$(sed -n 's/^\([0-9][0-9.]*\).*/\1/p' "$here/tests/setup/torch-versions" | tail -n 1)
		say "no GPU with PyTorch here: PyTorch $version on the simulated device"
		if ! { sh "$here/tests/simcuda/build.sh" "$VRAMTAP_CACHE/simcuda" && sh "$here/tests/setup/torch.sh" "$version"; } >&2; then
			say 'PyTorch could not be set up (see above); the program is built:' "$vramtap"
			exit 1
		fi
		set -- sh "$here/tests/setup/run-sim.sh" "$version" -- python "$here/examples/stuck.py"
	fi
	"$@" >"$work/example.log" 2>&1 &
	pid=$!
}

example
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
say "vramtap report $target"
status=0
"$vramtap" report "$target" || status=$?
say "exit status $status; the program is $vramtap"
exit "$status"
