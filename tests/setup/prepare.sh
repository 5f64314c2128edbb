#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Brings what the functional tests run against into the cache: the simulated device, the pinned PyTorch wheels, the allocators
# of other releases, the programs that drive them, interpreters and gdbs that the machine lacks, NCCL, JAX's plugin, CuPy, RMM, and what
# starts programs on many machines. Quick the second time. Says what it could not do; the tests that need it are then skipped.
set -u
here=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
cache=${VRAMTAP_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/vramtap}

from_pypi() {
	status=0
	while read -r version; do
		case $version in
		'' | \#*) continue ;;
		esac
		sh "$here/setup/torch.sh" "$version" || status=1
	done <"$here/setup/torch-versions"
	while read -r version mark; do
		[ "$mark" != run ] || sh "$here/setup/torch-lib.sh" "$version" || status=1
	done <"$here/setup/torch-lib-versions"
	# Without it the test of the real RAS is skipped.
	sh "$here/setup/nccl.sh" 2.28.9
	# Without these the tests of XLA's allocator, of JAX, and of CuPy's and RMM's pools are skipped.
	for library in jax jax-python cupy rmm; do
		while read -r version rest; do
			case $rest in
			*run) sh "$here/setup/$library.sh" "$version" ;;
			esac
		done <"$here/setup/$library-versions"
	done
	return $status
}

from_debian() {
	status=0
	while read -r word rest; do
		case $word in
		'' | \#*) continue ;;
		esac
		# shellcheck disable=SC2086 # words
		if [ "$word" = try ]; then
			sh "$here/setup/python.sh" $rest
		else
			sh "$here/setup/python.sh" "$word" $rest || status=1
		fi
	done <"$here/setup/python-versions"
	# Without one of these the tests of gdb's commands say so and go on with the machine's own.
	sh "$here/setup/gdb.sh" new gdb trixie forky
	sh "$here/setup/gdb.sh" minimal gdb-minimal bookworm
	sh "$here/setup/gdb.sh" old gdb-minimal bullseye
	# Without it the profiles that are written for it are read by nobody.
	sh "$here/setup/pprof.sh"
	# Without these the tests of vramtap triage on many nodes are skipped.
	sh "$here/setup/cluster.sh" slurm openmpi mpich clustershell kubectl
	return $status
}

# Without one of these tests/packages/ says so and goes on with the others.
roots() {
	while read -r name _ _ _ mark; do
		case $name,$mark,${VRAMTAP_SOAK:-} in
		,* | \#* | *,soak,) continue ;;
		esac
		sh "$here/setup/root.sh" "$name"
	done <"$here/setup/roots"
}

sh "$here/simcuda/build.sh" "$cache/simcuda" || exit 1
# Side by side: neither needs what the other one brings.
from_pypi &
pypi=$!
from_debian
debian=$?
roots
wait $pypi && exit $debian
exit 1
