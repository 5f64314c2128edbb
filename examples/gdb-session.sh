#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The session of vramtap-gdb(7), in batch mode: starts a PyTorch process that waits for a kernel which does not end (hung.py),
# attaches gdb, and prints each command and its answer. On the GPU when the machine has one, else on the simulated device of
# tests/simcuda; or in a process that is there already.
#
# usage: gdb-session.sh [PID]
#   GDB       gdb or cuda-gdb (default: gdb)
#   VRAMTAP   the program (default: the one in PATH, else what quickstart.sh has built)
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
VRAMTAP_CACHE=${VRAMTAP_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/vramtap}
export VRAMTAP_CACHE
gdb=${GDB:-gdb}
vramtap=${VRAMTAP:-$(command -v vramtap || printf '%s' "$VRAMTAP_CACHE/build/quickstart/vramtap")}
target=${1:-}
work=$(mktemp -d)
pid=

say() {
	printf 'gdb-session: %s\n' "$*" >&2
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

[ -x "$vramtap" ] || {
	say "no vramtap in PATH: name one in VRAMTAP, or run examples/quickstart.sh first, which builds it"
	exit 1
}
command -v "$gdb" >/dev/null 2>&1 || {
	say "there is no $gdb: install it, or name another in GDB"
	exit 1
}

start_example() {
	if command -v nvidia-smi >/dev/null 2>&1 && python3 -c 'import torch; assert torch.cuda.is_available()' 2>/dev/null; then
		set -- python3 hung.py
	else
		version=$(sed -n 's/^\([0-9][0-9.]*\).*/\1/p' "$here/tests/setup/torch-versions" | head -n 1)
		if ! { sh "$here/tests/simcuda/build.sh" "$VRAMTAP_CACHE/simcuda" && sh "$here/tests/setup/torch.sh" "$version"; } >"$work/setup.log" 2>&1; then
			cat "$work/setup.log" >&2
			say 'no GPU with PyTorch here, and PyTorch on the simulated device could not be set up (see above)'
			exit 1
		fi
		SIMCUDA_DEVICES=${SIMCUDA_DEVICES:-1} SIMCUDA_MEM_MB=${SIMCUDA_MEM_MB:-2048}
		export SIMCUDA_DEVICES SIMCUDA_MEM_MB
		set -- sh "$here/tests/setup/run-sim.sh" "$version" -- python hung.py
	fi
	cd "$here/examples"
	: >"$work/example.log"
	"$@" >"$work/example.log" 2>&1 &
	pid=$!
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

# An address inside of the block that the program allocated last, of those in use: what a pointer somewhere would be.
find_address() {
	"$vramtap" report --read-only --blocks "$target" 2>/dev/null | sed -n 's/^ *\(0x[0-9a-f]*\)00 .* in use.*/\180/p' | tail -n 1
}

# What is typed.
commands() {
	printf '%s\n' 'vramtap info' 'vramtap bt' 'vramtap pyframe up' 'vramtap locals' 'vramtap sites' 'vramtap blocks 3'
	if [ -n "$address" ]; then
		printf '%s\n' "vramtap block $address" "print \$vt_block_requested"
	fi
	printf '%s\n' 'vramtap refresh' "print \$vt_device_free"
}

# Each is echoed as if it had been typed. What gdb says while it attaches goes before it, and is left out unless it fails.
script() {
	printf 'set width %s\nset height 0\n' "${COLUMNS:-80}"
	commands | while IFS= read -r line; do
		printf 'echo (gdb) %s\\n\n%s\n' "$(printf '%s' "$line" | sed 's/[\\"$]/\\&/g')" "$line"
	done
}

[ -n "$target" ] || start_example
address=$(find_address)
script >"$work/session.gdb"
"$vramtap" gdb-script "$gdb" -nx -q -batch -iex 'set auto-load no' -p "$target" -x "$work/session.gdb" >"$work/session.log" 2>&1 || true
if ! grep -q '^(gdb) ' "$work/session.log"; then
	cat "$work/session.log" >&2
	say "gdb did not get as far as the first command"
	exit 1
fi
sed -n '/^(gdb) /,$p' "$work/session.log"
