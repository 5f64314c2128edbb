#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# jax.sh VERSION: JAX's own CUDA plugins, from their wheels. The second time it does nothing. Nothing is written into the repository.
#
#   $cache/jax/VERSION/xla_cuda_plugin.so   400 MB, of a wheel of 130 MB
#   $cache/jax/VERSION/symbols              where its allocator's functions are, which it does not export: see tests/targets/xla_bfc.cc
#   $cache/jax/VERSION/xla_bfc              tests/targets/xla_bfc.cc
#
# Needs a C++ compiler, binutils, and CPython 3.11 to 3.14 with pip or with venv. VRAMTAP_PYTHON names an interpreter; VRAMTAP_CACHE the
# cache; VRAMTAP_SETUP_LIMIT the seconds that one step may take.
set -u
version=${1:?usage: jax.sh VERSION}
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
cache=${VRAMTAP_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/vramtap}
limit=${VRAMTAP_SETUP_LIMIT:-600}
dest=$cache/jax/$version
# shellcheck disable=SC1091 # it is looked at by itself
. "$here/common.sh"

# Of the symbols "ADDRESS NAME" the first one that begins with NAME; 0: none.
address()
{
	awk -v name="$1" 'index($2, name) == 1 && ($2 == name || !exact) { print "0x" $1; found = 1; exit } END { if (!found) print 0 }' \
		exact="${2:-}" "$dest/all"
}

# The order is that of xla_bfc's standard input.
symbols()
{
	readelf -sW "$dest/xla_cuda_plugin.so" | awk '$4 == "FUNC" { print $2, $8 }' >"$dest/all" &&
		{
			address _ZN3tsl12BFCAllocatorC1E
			address _ZN3tsl12BFCAllocator11AllocateRawEmm exact
			address _ZN3tsl12BFCAllocator13DeallocateRawEPv exact
			address _ZN3tsl12BFCAllocator8GetStatsEv exact
			address _ZN3tsl21ScopedAllocationTraceC1ESt17basic_string_view
			address _ZN3tsl21ScopedAllocationTraceD1Ev exact
			address _ZN3tsl21ScopedAllocationTrace3ArgC1E
		} >"$dest/symbols"
	status=$?
	rm -f "$dest/all"
	return $status
}

bring()
{
	rm -rf "$dest"
	mkdir -p "$dest"
	for cuda in 13 12; do
		timeout "$limit" "$pip" -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: \
			--platform manylinux_2_27_x86_64 --platform manylinux2014_x86_64 --platform manylinux_2_17_x86_64 \
			--dest "$dest/wheel" "jax-cuda$cuda-pjrt==$version" >>"$dest/log" 2>&1 || continue
		"$pip" "$here/wheel-members.py" "$dest"/wheel/*.whl "$dest/wheel" \
			"jax_plugins/xla_cuda$cuda/xla_cuda_plugin.so" >>"$dest/log" 2>&1 &&
			mv "$dest/wheel/jax_plugins/xla_cuda$cuda/xla_cuda_plugin.so" "$dest/xla_cuda_plugin.so" && symbols
		status=$?
		rm -rf "$dest/wheel"
		return $status
	done
	return 1
}

compile()
{
	${CXX:-c++} -g -O1 -o "$dest/xla_bfc" "$here/../targets/xla_bfc.cc" -pthread -ldl >>"$dest/log" 2>&1
}

# Two runs at the same time would tread on each other.
mkdir -p "$cache/jax" || exit 1
if command -v flock >/dev/null 2>&1 && [ -z "${VRAMTAP_SETUP_LOCKED:-}" ]; then
	VRAMTAP_SETUP_LOCKED=1
	export VRAMTAP_SETUP_LOCKED
	exec flock "$cache/jax/.lock" sh "$0" "$@"
fi
if ! done_before jax "$version" || [ ! -e "$dest/xla_cuda_plugin.so" ]; then
	python=$(find_python) || fail 'no CPython 3.11 to 3.14 here; set VRAMTAP_PYTHON'
	pip=$(find_pip "$python") || fail "$python has neither pip nor venv (on Debian: apt install python3-venv)"
	say "bringing JAX's plugin"
	bring || fail "jax-cuda*-pjrt==$version cannot be had: $(tail -n 1 "$dest/log")"
	mark_done jax "$version"
fi
source=$(stamp "$here/../targets/xla_bfc.cc")
if ! done_before program "$source"; then
	compile || fail "xla_bfc.cc does not build: $(tail -n 1 "$dest/log")"
	mark_done program "$source"
fi
