#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# aarch64.sh [KERNEL...]: what tests/aarch64/run needs to boot a whole Debian of aarch64 in an emulated machine, in the cache: QEMU, the
# kernels (names of tests/setup/aarch64-kernels; the first without an argument), and a disk with a C compiler, Python, gdb and elfutils.
# All from Debian's packages; nothing is installed, and nothing of aarch64 runs here: packages are unpacked, and what their scripts would
# do a few lines do. The second time it does nothing.
#
#   $cache/aarch64/qemu/qemu               the emulator, with the C library and the libraries of its suite
#   $cache/aarch64/root: root.ext4         the disk; the machine writes into a copy that is thrown away
#   $cache/aarch64/kernel-NAME/vmlinuz     and initrd, which has the modules for the disk
#
# Measured on 2 busy cores: all of it 2 minutes, and 1 to 5 more to compile Python's library (left out without qemu-user-static); another
# kernel 40 s. 36 MB of QEMU, 130 MB of the disk and 60 MB of a kernel to download; 600 MB of disk, 40 MB for each other kernel.
# Needs apt, dpkg-deb, debian-archive-keyring, busybox, mke2fs, xz. VRAMTAP_SETUP_LIMIT is how many seconds one step may take.
# shellcheck disable=SC2034,SC2154 # what apt.sh reads and sets
set -u
cache=${VRAMTAP_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/vramtap}
home=$cache/aarch64
limit=${VRAMTAP_SETUP_LIMIT:-900}
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
# shellcheck disable=SC1091 # it is looked at by itself
. "$here/apt.sh"
PATH=$PATH:/usr/sbin:/sbin
# A root that is not older than this machine's own: programs that were built here run in it. Its own packages use pointer
# authentication (-mbranch-protection=standard).
suite=trixie
# The essential packages, which nothing depends on; what tests use; libraries of the unit tests.
packages='base-files bash coreutils dash diffutils findutils grep gzip hostname mawk mount sed tar util-linux busybox-static
python3 gdb elfutils procps gcc g++ libc6-dev libc6-dbg libcmocka0 libdw1t64 libelf1t64 libjansson4 libasan8'

say()
{
	printf 'aarch64.sh %s: %s\n' "$name" "$*" >&2
}

# An emulated processor takes long to compile what a script imports. Emulating one program is quicker than a machine; it need not be here.
compile_python()
{
	command -v qemu-aarch64-static >/dev/null 2>&1 || return 0
	tree=$work/root
	library=$(find "$tree/usr/lib" -maxdepth 1 -name 'python3.*' | head -n 1)
	timeout "$limit" qemu-aarch64-static -L "$tree" "$tree/usr/bin/python3" -I -m compileall -q -s "$tree" -p / \
		-x '/(_pyrepl|curses|dbm|encodings|ensurepip|idlelib|pydoc_data|sqlite3|tkinter|turtledemo|unittest|venv|wsgiref|xml|xmlrpc)/' "$library" >>"$work/log" 2>&1
}

# No journal: it is thrown away.
make_root()
{
	architecture=arm64
	download "$@" || return 1
	(
		cd "$work/root" || exit 1
		mkdir -p usr/bin usr/sbin usr/lib proc sys dev tmp run root etc var/tmp mnt
		for directory in bin sbin lib; do
			[ -e $directory ] || ln -s usr/$directory $directory || exit 1
		done
		[ -e usr/bin/sh ] || ln -s dash usr/bin/sh
		[ -e usr/bin/awk ] || ln -s mawk usr/bin/awk
		rm -rf usr/share/bash-completion usr/lib/systemd
		printf 'root:x:0:0::/root:/bin/sh\nnobody:x:65534:65534::/:/bin/sh\nuser:x:1000:1000::/tmp:/bin/sh\n' >etc/passwd
		printf 'root:x:0:\nnogroup:x:65534:\nuser:x:1000:\n' >etc/group
		printf '127.0.0.1 localhost\n' >etc/hosts
		chmod 1777 tmp var/tmp
	) >>"$work/log" 2>&1 || return 1
	compile_python
	truncate -s 3G "$work/root.ext4" &&
		mke2fs -q -t ext4 -O ^has_journal -E lazy_itable_init=1 -m 0 -d "$work/root" "$work/root.ext4" >>"$work/log" 2>&1 || return 1
	rm -rf "$work/root"
}

# make_kernel SUITE PACKAGE ...: the package with that name depends on the newest of that suite. Since Debian 14 the kernel itself is in
# another one than its modules.
make_kernel()
{
	architecture=arm64
	prepare_apt "$1" main || return 1
	release=$(apt-cache depends "$2" 2>>"$work/log" | sed -n 's/^ *Depends: *linux-image-//p' | head -n 1)
	[ -n "$release" ] || return 1
	packages=busybox-static
	for package in "linux-image-$release" "linux-binary-$release" "linux-modules-$release"; do
		! apt-cache show "$package" >/dev/null 2>&1 || packages="$packages $package"
	done
	# shellcheck disable=SC2086 # words
	(cd "$work" && timeout "$limit" apt-get download -qq $packages) >>"$work/log" 2>&1 || return 1
	for deb in "$work"/*.deb; do
		dpkg-deb -x "$deb" "$work/root" || return 1
	done
	find "$work/root" -name 'vmlinuz*' -type f -exec mv {} "$work/vmlinuz" \;
	make_initrd || return 1
	rm -rf "$work/lists" "$work/archives" "$work"/*cache.bin "$work"/*.deb "$work/root" "$work/initrd.d"
	[ -s "$work/vmlinuz" ]
}

# busybox, and those modules that lead to the disk.
make_initrd()
{
	modules=$(find "$work/root" -type d -path "*lib/modules/$release/kernel" | head -n 1)
	[ -n "$modules" ] || return 1
	into=$work/initrd.d/lib/modules/$release
	mkdir -p "$into" "$work/initrd.d/bin" "$work/initrd.d/proc" "$work/initrd.d/sys" "$work/initrd.d/dev" "$work/initrd.d/new"
	for part in fs/ext4 fs/jbd2 fs/mbcache.ko lib/crc lib/libcrc crypto/crc32c drivers/virtio drivers/block/virtio_blk.ko; do
		(cd "$modules" && find . -path "./$part*" -name '*.ko*' -exec cp -p {} "$into" \;)
	done
	find "$into" -name '*.xz' -exec xz -d {} + >>"$work/log" 2>&1 || return 1
	busybox depmod -b "$work/initrd.d" "$release" >>"$work/log" 2>&1 || return 1
	cp "$(find "$work/root" -path '*bin/busybox' -type f | head -n 1)" "$work/initrd.d/bin/busybox" &&
		cp "$here/../aarch64/initrd.sh" "$work/initrd.d/init" && chmod +x "$work/initrd.d/init" || return 1
	(cd "$work/initrd.d" && busybox find . | busybox cpio -o -H newc -R 0:0) >"$work/initrd" 2>>"$work/log"
}

kernel()
{
	row=$(sed -n "s/^$name //p" "$here/aarch64-kernels")
	[ -n "$row" ] || {
		say 'tests/setup/aarch64-kernels has no such row'
		return 1
	}
	# shellcheck disable=SC2086 # words
	provide "kernel-$name" make_kernel $row "$(cat "$0" "$here/../aarch64/initrd.sh" | cksum)"
}

name=machine
for program in apt-get dpkg-deb timeout busybox mke2fs xz; do
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
[ $# -gt 0 ] || set -- "$(sed -n 's/^\([^# ]*\) .*/\1/p' "$here/aarch64-kernels" | head -n 1)"
machine=aarch64
provide qemu make_qemu $suite qemu-system-arm || exit 1
# shellcheck disable=SC2086 # words
(provide root make_root $suite $packages) || exit 1
for name; do
	(kernel) || exit 1
done
