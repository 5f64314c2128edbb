#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Builds the package of Debian from the sources as they are here, with what git does not know yet left out, in a tree of its own in the
# cache. The unit tests are those of other steps. lintian finds nothing.
#
# usage: deb.sh      the last line is the path of the package
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")/../.." && pwd)
cache=${VRAMTAP_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/vramtap}
tree=$cache/deb/vramtap
mkdir -p "$tree"

# git writes the files that differ, and no others.
commit=$(git -C "$here" stash create)
git_dir=$(git -C "$here" rev-parse --absolute-git-dir)
GIT_INDEX_FILE=$cache/deb/index git --git-dir="$git_dir" --work-tree="$tree" read-tree -u --reset "${commit:-HEAD}"

cd "$tree"
# All is made anew: debhelper configures without dependency tracking, so objects of other headers would be kept. What has gone from the
# sources does not matter to it.
rm -rf debian/build debian/debhelper-build-stamp debian/.debhelper debian/autoreconf.before debian/autoreconf.after debian/vramtap debian/files debian/vramtap.substvars "$cache"/deb/*.deb
if ! DEB_BUILD_OPTIONS="nocheck parallel=$(nproc)" dpkg-buildpackage -us -uc -b -nc -d >"$cache/deb/log" 2>&1; then
	tail -n 40 "$cache/deb/log" >&2
	exit 1
fi
package=$(ls "$cache"/deb/vramtap_*_amd64.deb)
if command -v lintian >/dev/null 2>&1; then
	found=$(lintian --allow-root --pedantic "$package")
	[ -z "$found" ] || {
		printf 'lintian:\n%s\n' "$found" >&2
		exit 1
	}
fi
printf '%s\n' "$package"
