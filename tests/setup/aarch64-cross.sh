#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# aarch64-cross.sh: what builds vramtap for aarch64 on an x86-64 machine and runs its unit tests there, in the cache. Nothing is installed:
# Debian's cross compiler and gcc-multilib, which other tests need, exclude each other. The second time it does nothing.
#
#   $cache/aarch64/cross/bin     aarch64-linux-gnu-gcc, -g++, -pkg-config and the other tools, for PATH; qemu-aarch64-static
#   $cache/aarch64/cross: root     they, and the libraries of aarch64
#
# Measured: a minute, 680 MB of disk. Needs apt, dpkg-deb, debian-archive-keyring, pkg-config; a C library that is not older than
# Debian 12's. VRAMTAP_SETUP_LIMIT is how many seconds one step may take.
# shellcheck disable=SC2034,SC2154 # what apt.sh reads and sets
set -u
cache=${VRAMTAP_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/vramtap}
home=$cache/aarch64
limit=${VRAMTAP_SETUP_LIMIT:-900}
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
# shellcheck disable=SC1091 # it is looked at by itself
. "$here/apt.sh"
# That of the oldest machine which runs the compilers, and not newer than that of tests/aarch64/run, where what they make runs.
suite=bookworm
triplet=aarch64-linux-gnu
tools='gcc-aarch64-linux-gnu g++-aarch64-linux-gnu qemu-user-static'
libraries='libc6-dev libdw-dev libelf-dev libiberty-dev libzstd-dev liblzma-dev libbz2-dev zlib1g-dev libjansson-dev libcmocka-dev'

say()
{
	printf 'aarch64-cross.sh: %s\n' "$*" >&2
}

# Links of Debian's that begin with a slash would lead out of the tree.
make_links_relative()
{
	find "$tree" -type l -lname '/*' | while read -r link; do
		ln -sfnr "$tree$(readlink "$link")" "$link" || exit 1
	done
}

# launcher NAME PROGRAM ARGUMENT...: a program of the tree, with its libraries.
launcher()
{
	into=$work/bin/$1
	shift
	{
		echo '#!/bin/sh'
		echo "LD_LIBRARY_PATH=$its/usr/lib/x86_64-linux-gnu exec $* \"\$@\""
	} >"$into" && chmod +x "$into"
}

# The compilers find what belongs to them by their own place, all else by --sysroot. Their include directories have a C library's headers
# of the cross packages first, which are the same.
make_launchers()
{
	for program in "$tree/usr/bin/$triplet"-*; do
		name=${program##*/}
		case $name in
		*-gcc | *-g++ | *-cpp) launcher "$name" "$its/usr/bin/$name" "--sysroot=$its" ;;
		*) launcher "$name" "$its/usr/bin/$name" ;;
		esac || return 1
	done
	cp "$tree/usr/bin/qemu-aarch64-static" "$work/bin/" || return 1
	cat >"$work/bin/$triplet-pkg-config" <<-LAUNCHER
		#!/bin/sh
		PKG_CONFIG_SYSROOT_DIR=$its PKG_CONFIG_LIBDIR=$its/usr/lib/$triplet/pkgconfig exec pkg-config "\$@"
	LAUNCHER
	chmod +x "$work/bin/$triplet-pkg-config"
}

make_cross()
{
	shift # the stamp
	# shellcheck disable=SC2086 # words
	(architecture=amd64 && download $suite $tools) || return 1
	# shellcheck disable=SC2086 # words
	(architecture=arm64 && download $suite $libraries) || return 1
	tree=$work/root
	its=$dest/root # where it will be
	mkdir -p "$work/bin"
	make_links_relative && make_launchers
}

for program in apt-get dpkg-deb timeout pkg-config; do
	command -v $program >/dev/null 2>&1 || {
		say "no $program here"
		exit 1
	}
done
mkdir -p "$home" || exit 1
if command -v flock >/dev/null 2>&1 && [ -z "${VRAMTAP_SETUP_LOCKED:-}" ]; then
	VRAMTAP_SETUP_LOCKED=1
	export VRAMTAP_SETUP_LOCKED
	exec flock "$home/.lock" sh "$0" "$@"
fi
provide cross make_cross "$(cksum <"$0")"
