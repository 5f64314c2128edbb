#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Builds the package of RPM from the archive of a release, with Debian's rpmbuild; what it has is what make install puts there. The objects
# are those of the build, so that little is compiled.
#
# usage: rpm.sh     in a build tree where release/ has the archive
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
build=$PWD
archive=$(echo "$build"/release/vramtap-*.tar.xz)
command -v rpmbuild >/dev/null || {
	echo 'skip: no rpmbuild'
	exit 77
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# --nodeps: this is no machine of RPM's. make_build is what %build calls.
rpmbuild -tb --nodeps --quiet --define "_topdir $work" --define "_dbpath $work/db" --define 'debug_package %{nil}' \
	--define "make_build sh '$here/seed.sh' '$build' \"\$PWD\" && make -s -j$(nproc)" "$archive" >"$work/log" 2>&1 || {
	tail -n 40 "$work/log"
	exit 1
}
package=$(echo "$work"/RPMS/x86_64/vramtap-*.x86_64.rpm)

# Licences are in a directory of their own, and man pages may be packed.
rpm -qlp --dbpath "$work/db" "$package" | sed 's/\.gz$//' | grep -v '/licenses/\|^/usr/share/doc/vramtap$\|^/usr/share/doc/vramtap/pictures$\|^/usr/share/vramtap$' |
	grep -v '^/usr/lib/\.build-id' | sort >"$work/has"
grep -v '/LICENSE$\|/NOTICES.md$\|/licenses/' "$here/../unit/install.list" | sort >"$work/wants"
diff -u "$work/wants" "$work/has"
rpm -qlp --dbpath "$work/db" "$package" | grep -q '^/usr/share/licenses/vramtap.*/LICENSE$'
rpm -qp --dbpath "$work/db" --requires "$package" | grep -q 'libdw.so.1'
rpm -qp --dbpath "$work/db" --qf 'vramtap %{version}, %{license}, %{arch}\n' "$package"
