#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# vm.sh [KERNEL...]: what tests/vm/machine.py needs to boot a kernel of Debian's in a virtual machine, in the cache: QEMU, the kernels (names
# of tests/setup/vm-kernels; the first without an argument), and a small root with Python, setpriv, AppArmor's and SELinux's compilers.
# From Debian's packages; nothing is installed: see apt.sh. The second time it does nothing.
#
#   $cache/vm/qemu/qemu          the emulator, with the C library and the libraries of its suite
#   $cache/vm/root/root.cpio     the root, to be unpacked by the kernel
#   $cache/vm/kernel-NAME/vmlinuz
#
# Measured on 2 busy cores: QEMU and the root 2 minutes, 80 MB to download and 200 MB of disk; a kernel 45 s, 27 MB to download and
# 14 MB of disk.
# Needs apt, dpkg-deb, debian-archive-keyring, busybox. VRAMTAP_SETUP_LIMIT is how many seconds one step may take.
# shellcheck disable=SC2034,SC2154 # what apt.sh reads and sets
set -u
cache=${VRAMTAP_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/vramtap}
home=$cache/vm
limit=${VRAMTAP_SETUP_LIMIT:-900}
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
# shellcheck disable=SC1091 # it is looked at by itself
. "$here/apt.sh"
# A root that is not older than this machine's own: programs that were built here run in it.
suite=trixie

say()
{
	printf 'vm.sh %s: %s\n' "$name" "$*" >&2
}

# The kernel unpacks it into memory: what nobody needs there is left out.
make_root()
{
	download "$@" || return 1
	(
		cd "$work/root" || exit 1
		mkdir -p usr/bin usr/sbin usr/lib usr/lib64 proc sys dev tmp run root
		for directory in bin sbin lib lib64; do
			[ -e $directory ] || ln -s usr/$directory $directory
		done
		rm -rf usr/share/zoneinfo usr/share/perl usr/share/bash-completion usr/lib/systemd var usr/lib/x86_64-linux-gnu/perl* usr/lib/x86_64-linux-gnu/gconv
		printf 'root:x:0:0::/root:/bin/sh\nuser:x:1000:1000::/tmp:/bin/sh\nnobody:x:65534:65534::/:/bin/sh\n' >etc/passwd
		printf 'root:x:0:\nuser:x:1000:\nnogroup:x:65534:\n' >etc/group
		busybox find . | busybox cpio -o -H newc -R 0:0
	) >"$work/root.cpio" 2>>"$work/log" || return 1
	rm -rf "$work/root"
}

# make_kernel SUITE PACKAGE: the package with that name depends on the newest of that suite. Since Debian 14 the kernel itself is in
# another one than its modules.
make_kernel()
{
	prepare_apt "$1" main || return 1
	release=$(apt-cache depends "$2" 2>>"$work/log" | sed -n 's/^ *Depends: *linux-image-//p' | head -n 1)
	[ -n "$release" ] || return 1
	package=linux-binary-$release
	apt-cache show "$package" >/dev/null 2>&1 || package=linux-image-$release
	(cd "$work" && timeout "$limit" apt-get download -qq "$package") >>"$work/log" 2>&1 || return 1
	dpkg-deb --fsys-tarfile "$work"/linux-*.deb | tar -x -C "$work" --wildcards '*/vmlinuz*' || return 1
	find "$work" -name 'vmlinuz*' -type f -exec mv {} "$work/vmlinuz" \;
	rm -rf "$work/lists" "$work"/*cache.bin "$work"/*.deb "${work:?}/boot" "${work:?}/usr"
	[ -s "$work/vmlinuz" ]
}

kernel()
{
	row=$(sed -n "s/^$name //p" "$here/vm-kernels")
	[ -n "$row" ] || {
		say 'tests/setup/vm-kernels has no such row'
		return 1
	}
	# shellcheck disable=SC2086 # words
	provide "kernel-$name" make_kernel $row
}

name=machine
for program in apt-get dpkg-deb timeout busybox tar; do
	command -v $program >/dev/null 2>&1 || {
		say "no $program here"
		exit 1
	}
done
mkdir -p "$cache/vm" || exit 1
if command -v flock >/dev/null 2>&1 && [ -z "${VRAMTAP_SETUP_LOCKED:-}" ]; then
	VRAMTAP_SETUP_LOCKED=1
	export VRAMTAP_SETUP_LOCKED
	exec flock "$cache/vm/.lock" sh "$0" "$@"
fi
[ $# -gt 0 ] || set -- "$(sed -n 's/^\([^# ]*\) .*/\1/p' "$here/vm-kernels" | head -n 1)"
machine=x86_64
provide qemu make_qemu $suite qemu-system-x86 || exit 1
provide root make_root $suite python3 util-linux busybox-static apparmor secilc || exit 1
for name; do
	kernel || exit 1
done
