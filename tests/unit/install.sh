#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# make install puts the files of tests/unit/install.list below DESTDIR and no others, and make uninstall leaves none.
#
# usage: install.sh [--write]   --write: puts what is installed into the list
set -eu
list=${VRAMTAP_SOURCE_DIR:-$(dirname "$0")/../..}/tests/unit/install.list
build=${VRAMTAP_BUILD_DIR:-.}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset MAKEFLAGS MFLAGS MAKELEVEL DESTDIR

make -s -C "$build" install DESTDIR="$work/root" prefix=/usr sysconfdir=/etc gdbinitdir=/etc/gdb/gdbinit.d >"$work/log" 2>&1 || {
	cat "$work/log"
	exit 1
}
# The one of gdb is there only if configure was told where gdb looks.
(cd "$work/root" && find . ! -type d -printf '/%P\n') | grep -v '^/etc/gdb/' | sort >"$work/files"
[ "${1:-}" != --write ] || cp "$work/files" "$list"
diff -u "$list" "$work/files" || {
	echo 'what make install puts there differs from tests/unit/install.list (< the list); install.sh --write makes it anew'
	exit 1
}
# README's links end beside it.
cd "$work/root/usr/share/doc/vramtap"
sed -n 's/.*](\([a-z][A-Za-z_/]*\.[a-z]*\)).*/\1/p' README.md | while read -r path; do
	[ -e "$path" ] || {
		echo "README.md as it is installed points to $path, which is not installed"
		exit 1
	}
done
cd /
make -s -C "$build" uninstall DESTDIR="$work/root" prefix=/usr sysconfdir=/etc gdbinitdir=/etc/gdb/gdbinit.d >"$work/log" 2>&1
left=$(find "$work/root" ! -type d)
[ -z "$left" ] || {
	printf 'make uninstall leaves %s\n' "$left"
	exit 1
}
