#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# nccl.sh VERSION: NVIDIA's own NCCL, from its wheel. The second time it does nothing. Nothing is written into the repository.
#
#   $cache/nccl/VERSION/libnccl.so.2   400 MB, of a wheel of 300 MB
#   $cache/nccl/VERSION/symbols        where functions of RAS are that it does not export, for tests/targets/nccl_ras.py
#
# Needs binutils, and CPython 3.11 to 3.14 with pip or with venv. VRAMTAP_PYTHON names an interpreter; VRAMTAP_CACHE the cache;
# VRAMTAP_SETUP_LIMIT the seconds that one step may take.
set -u
version=${1:?usage: nccl.sh VERSION}
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
cache=${VRAMTAP_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/vramtap}
limit=${VRAMTAP_SETUP_LIMIT:-600}
dest=$cache/nccl/$version
# shellcheck disable=SC1091 # it is looked at by itself
. "$here/common.sh"

bring()
{
	rm -rf "$dest"
	mkdir -p "$dest"
	timeout "$limit" "$pip" -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: \
		--platform manylinux_2_18_x86_64 --platform manylinux_2_17_x86_64 --platform manylinux2014_x86_64 \
		--dest "$dest/wheel" "nvidia-nccl-cu12==$version" >>"$dest/log" 2>&1 &&
		"$pip" "$here/wheel-members.py" "$dest"/wheel/*.whl "$dest/wheel" nvidia/nccl/lib/libnccl.so.2 >>"$dest/log" 2>&1 &&
		mv "$dest/wheel/nvidia/nccl/lib/libnccl.so.2" "$dest/libnccl.so.2" &&
		nm -C "$dest/libnccl.so.2" | grep -E ' t (ncclRasCommInit|ncclRasAddRanks)\([^)]*\)$' >"$dest/symbols"
	status=$?
	rm -rf "$dest/wheel"
	return $status
}

# Two runs at the same time would tread on each other.
mkdir -p "$cache/nccl" || exit 1
if command -v flock >/dev/null 2>&1 && [ -z "${VRAMTAP_SETUP_LOCKED:-}" ]; then
	VRAMTAP_SETUP_LOCKED=1
	export VRAMTAP_SETUP_LOCKED
	exec flock "$cache/nccl/.lock" sh "$0" "$@"
fi
done_before nccl "$version" && [ -e "$dest/libnccl.so.2" ] && exit 0
python=$(find_python) || fail 'no CPython 3.11 to 3.14 here; set VRAMTAP_PYTHON'
pip=$(find_pip "$python") || fail "$python has neither pip nor venv (on Debian: apt install python3-venv)"
say "bringing NVIDIA's library"
bring || fail "nvidia-nccl-cu12==$version cannot be had: $(tail -n 1 "$dest/log")"
mark_done nccl "$version"
