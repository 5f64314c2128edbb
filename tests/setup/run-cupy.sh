#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# run-cupy.sh VERSION PROGRAM...: runs a Python program with the CuPy wheel of that version (cupy.sh) on the simulated device. It
# replaces this shell, so its pid is the one that the caller knows. Knobs such as SIMCUDA_CTL: see tests/simcuda/README.md.
set -eu
version=${1:?usage: run-cupy.sh VERSION PROGRAM...}
shift
cache=${VRAMTAP_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/vramtap}
dest=$cache/cupy/$version
if [ ! -x "$dest/python" ]; then
	echo "run-cupy.sh: CuPy $version is not set up: sh tests/setup/cupy.sh $version" >&2
	exit 77
fi
LD_LIBRARY_PATH=$cache/simcuda:$dest/stubs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
PYTHONPATH=$dest/site${PYTHONPATH:+:$PYTHONPATH}
CUPY_TEST_RUNTIME=$cache/simcuda/libcudart.so.12
export LD_LIBRARY_PATH PYTHONPATH CUPY_TEST_RUNTIME
# What it has no use for would hide that a wheel came to need it.
[ ! -s "$dest/missing.c" ] || export LD_PRELOAD="$dest/stubs/libmissing.so${LD_PRELOAD:+:$LD_PRELOAD}"
exec "$(readlink -f "$dest/python")" "$@"
