#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# rmm.sh VERSION [PYTHON]: official wheels of RMM in the cache, ready to run on the simulated device with that CPython (3.12), or with one
# of 3.11 to 3.13. The second time it does nothing. Nothing is written into the repository.
#
#   $cache/rmm/VERSION/site    the wheels: rmm, librmm, and what they need (pip --target)
#   $cache/rmm/VERSION/python  a link to the interpreter that they are for
#
# 30 MB to download (24.12: 50 MB), 130 MB of disk, 10 s on 2 cores. Needs a C compiler, and a CPython with pip or with venv.
# VRAMTAP_PYTHON names an interpreter; VRAMTAP_CACHE the cache; VRAMTAP_SETUP_LIMIT the seconds that one step may take.
set -u
version=${1:?usage: rmm.sh VERSION [PYTHON]}
wanted=${2:-}
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
tests=$(dirname -- "$here")
cache=${VRAMTAP_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/vramtap}
limit=${VRAMTAP_SETUP_LIMIT:-600}
dest=$cache/rmm/$version
# shellcheck disable=SC1091 # it is looked at by itself
. "$here/common.sh"

# 24.12 asks for numba, which has the size of all others together and of which nothing is used.
wheels()
{
	case $version in
	24.*) echo "--no-deps rmm-cu12==$version librmm-cu12==$version cuda-python==12.6.0 numpy<3" ;;
	*) echo "rmm-cu12==$version librmm-cu12==$version cuda-bindings==12.9.* numpy" ;;
	esac
}

wheel_step()
{
	python=$(wanted_python "$wanted") || fail 'no CPython 3.11 to 3.13 here; set VRAMTAP_PYTHON'
	pip=$(find_pip "$python") || fail "$python has neither pip nor venv (on Debian: apt install python3-venv)"
	say "downloading for $("$python" -V) ($python)"
	rm -rf "$dest"
	mkdir -p "$dest"
	# shellcheck disable=SC2046 # words
	timeout "$limit" "$pip" -m pip install --quiet --disable-pip-version-check --root-user-action=ignore --only-binary :all: \
		--no-compile --target "$dest/site" $(wheels) || fail "pip could not install rmm-cu12==$version"
	ln -s "$python" "$dest/python"
}

smoke_step()
{
	printf 'mr.PoolMemoryResource(mr.CudaMemoryResource(), 1 << 20).pool_size()\n' | timeout "$limit" sh "$here/run-rmm.sh" "$version" \
		-B "$tests/targets/rmm_pools.py" | grep -qx 1048576
}

# Two runs at the same time would tread on each other.
mkdir -p "$cache/rmm" || exit 1
if command -v flock >/dev/null 2>&1 && [ -z "${VRAMTAP_SETUP_LOCKED:-}" ]; then
	VRAMTAP_SETUP_LOCKED=1
	export VRAMTAP_SETUP_LOCKED
	exec flock "$cache/rmm/.lock" sh "$0" "$@"
fi

sh "$tests/simcuda/build.sh" "$cache/simcuda" || fail 'the simulated device does not build'
if ! done_before wheel "$version" || [ ! -x "$dest/python" ]; then
	wheel_step
	mark_done wheel "$version"
fi
if ! done_before smoke "$version"; then
	smoke_step || fail 'the wheels do not run on the simulated device'
	mark_done smoke "$version"
fi
