#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# run-rmm.sh VERSION PROGRAM...: runs a Python program with RMM's wheels of that version (rmm.sh) on the simulated device. It replaces
# this shell, so its pid is the one that the caller knows. RMM_TEST_CUPY=RELEASE: with that CuPy (cupy.sh) beside it. Knobs such as
# SIMCUDA_CTL: see tests/simcuda/README.md.
set -eu
version=${1:?usage: run-rmm.sh VERSION PROGRAM...}
shift
cache=${VRAMTAP_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/vramtap}
dest=$cache/rmm/$version
cupy=$cache/cupy/${RMM_TEST_CUPY:-none}
if [ ! -x "$dest/python" ]; then
	echo "run-rmm.sh: RMM $version is not set up: sh tests/setup/rmm.sh $version" >&2
	exit 77
fi
LD_LIBRARY_PATH=$cache/simcuda${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
PYTHONPATH=$dest/site${PYTHONPATH:+:$PYTHONPATH}
RMM_TEST_RUNTIME=$cache/simcuda/libcudart.so.12
RMM_DEBUG_LOG_FILE=/dev/null # else it makes rmm_log.txt where it runs
if [ -d "$cupy/site" ]; then
	LD_LIBRARY_PATH=$LD_LIBRARY_PATH:$cupy/stubs
	PYTHONPATH=$PYTHONPATH:$cupy/site
	[ ! -s "$cupy/missing.c" ] || export LD_PRELOAD="$cupy/stubs/libmissing.so${LD_PRELOAD:+:$LD_PRELOAD}"
fi
export LD_LIBRARY_PATH PYTHONPATH RMM_TEST_RUNTIME RMM_DEBUG_LOG_FILE
exec "$(readlink -f "$dest/python")" "$@"
