#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Brings what the functional tests run against into the cache: the simulated device, the pinned PyTorch wheels, and the
# programs that drive them. Quick the second time. Says what it could not do; the tests that need it are then skipped.
set -u
here=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
cache=${VRAMTAP_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/vramtap}
status=0

sh "$here/simcuda/build.sh" "$cache/simcuda" || status=1
while read -r version; do
	case $version in
	'' | \#*) continue ;;
	esac
	sh "$here/setup/torch.sh" "$version" || status=1
done <"$here/setup/torch-versions"
exit $status
