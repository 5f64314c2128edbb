#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# run-sim.sh VERSION -- COMMAND...: runs COMMAND with the libraries of the simulated device and, for Python, with the PyTorch
# wheel of that version. COMMAND may be "python ..." (the interpreter of the wheel) or "c10_driver", for which torch-lib.sh
# VERSION is enough. VERSION-PYTHON (2.6.0-3.9) is what torch-python.sh made. It replaces this shell, so its pid is the one that the
# caller knows. Knobs such as SIMCUDA_CTL: see tests/simcuda/README.md.
set -eu
version=${1:?usage: run-sim.sh VERSION -- COMMAND...}
shift
[ "${1:-}" = -- ] && shift
cache=${VRAMTAP_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/vramtap}
dest=$cache/torch/$version
[ -x "$dest/python" ] || [ "$1" != python ] || dest=$cache/torch-python/$version
[ -x "$dest/python" ] || [ "$1" != c10_driver ] || dest=$cache/torch-lib/$version
if [ ! -x "$dest/python" ] && [ ! -x "$dest/c10_driver" ]; then
	echo "run-sim.sh: torch $version is not set up: sh tests/setup/torch.sh $version" >&2
	exit 77
fi
LD_LIBRARY_PATH=$cache/simcuda:$dest/stubs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
PYTHONPATH=$dest/site${PYTHONPATH:+:$PYTHONPATH}
# There is no NumPy, which PyTorch would complain about.
PYTHONWARNINGS='ignore:Failed to initialize NumPy'
export LD_LIBRARY_PATH PYTHONPATH PYTHONWARNINGS
case $1 in
python)
	# The real path, because that is what a process list shows.
	python=$(readlink -f "$dest/python")
	shift
	exec "$python" "$@"
	;;
c10_driver)
	shift
	exec "$dest/c10_driver" "$@"
	;;
*) exec "$@" ;;
esac
