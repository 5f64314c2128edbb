#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What "make release" runs, in the build tree: puts into release/ what is published of a version. packaging/README.md says what
# that is. packaging/vramtap, the program stripped, is made.
#
# usage: release.sh SOURCE VERSION URL PART...      parts, besides the program: archive wheel image debian
set -eu
umask 022
source_dir=$1
version=$2
url=$3
shift 3
parts=$*
packaging=$source_dir/packaging
release=$PWD/release
work=$PWD/packaging/work
name=vramtap-$version
program=$release/$name-x86_64
# What the program contains (NOTICES.md), as SPDX writes it.
licenses='Apache-2.0 AND LGPL-2.1-or-later AND LGPL-3.0-or-later AND LGPL-2.0-or-later AND GPL-3.0-or-later WITH GCC-exception-3.1 AND MIT'
licenses="$licenses AND BSD-3-Clause AND BSD-4-Clause-UC AND Zlib AND bzip2-1.0.6 AND 0BSD"
SOURCE_DATE_EPOCH=$(sh "$packaging/epoch.sh")
TZ=UTC0
LC_ALL=C
export SOURCE_DATE_EPOCH TZ LC_ALL

say() {
	printf 'release: %s\n' "$*"
}

fail() {
	printf 'release: %s\n' "$*" >&2
	exit 1
}

# It asks nothing of the machine that it runs on: no interpreter, no library.
check_static() {
	! readelf -lW "$1" | grep -q INTERP || fail "$1 asks for an interpreter"
	! readelf -dW "$1" | grep -q NEEDED || fail "$1 needs a library"
	[ "$("$1" --version)" = "vramtap $version" ] || fail "$1 --version does not say $version"
}

# With all that must go with the program wherever it is without the rest.
make_program() {
	cp packaging/vramtap "$program"
	# The linker gave it the mode that the umask of the build left.
	chmod 755 "$program"
	check_static "$program"
	(cd "$source_dir" && cat LICENSE NOTICES.md licenses/*) >"$release/$name-licenses.txt"
}

part_archive() {
	"$MAKE" -s dist
	mv -f "$name.tar.xz" "$release/"
	sum=$(sha256sum "$release/$name.tar.xz")
	sed "s/@VERSION@/$version/; s/@SHA256@/${sum%% *}/" "$packaging/spack/package.py.in" >"$release/$name-spack.py"
}

part_wheel() {
	rm -rf "$work/root"
	"$MAKE" -s install DESTDIR="$work/root" prefix=/usr >/dev/null
	"$PYTHON" -B "$packaging/wheel.py" "$release" "$program" "$work/root/usr/share" "$version" "$source_dir" \
		"$licenses" "$url"
	rm -rf "$work/root"
}

part_image() {
	"$PYTHON" -B "$packaging/image.py" "$release/$name-image.tar" "$packaging/Containerfile" "$release" VERSION "$version" \
		LICENSES "$licenses"
}

# The package of the distribution that this is: with the archive as its original source, and debian/ of the tree.
part_debian() {
	if ! [ -d "$source_dir/debian" ] || ! command -v dpkg-buildpackage dh >/dev/null; then
		say 'no debian/ or no debhelper here: no Debian package'
		return 0
	fi
	[ -f "$release/$name.tar.xz" ] || fail 'the part "debian" needs the part "archive"'
	rm -rf "$work/debian"
	mkdir -p "$work/debian"
	ln "$release/$name.tar.xz" "$work/debian/vramtap_$version.orig.tar.xz"
	tar -C "$work/debian" -xf "$release/$name.tar.xz"
	cp -r "$source_dir/debian" "$work/debian/$name/"
	(
		cd "$work/debian/$name"
		unset MAKEFLAGS MFLAGS MAKELEVEL
		DEB_BUILD_OPTIONS="nocheck parallel=$(nproc)" dpkg-buildpackage -us -uc -F
	) >"$work/debian.log" 2>&1 || {
		tail -n 30 "$work/debian.log" >&2
		fail "dpkg-buildpackage failed: $work/debian.log"
	}
	# Not what says when and where it was built (.buildinfo, .changes).
	for file in "$work"/debian/*.deb "$work"/debian/*.dsc "$work"/debian/*.debian.tar.* "$work"/debian/*.orig.tar.xz; do
		mv "$file" "$release/"
	done
	rm -rf "$work/debian"
}

rm -rf "$release"
mkdir -p "$release" "$work"
make_program
for part in $parts; do
	"part_$part"
done
sums=$(cd "$release" && sha256sum -- *)
printf '%s\n' "$sums" >"$release/SHA256SUMS"
if git -C "$source_dir" rev-parse >/dev/null 2>&1 && [ -n "$(git -C "$source_dir" status --porcelain)" ]; then
	say 'the tree has changes that are in no commit: not to be published'
fi
say "in $release:"
cat "$release/SHA256SUMS"
