#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# torch-debian.sh VERSION: the caching allocator of the PyTorch that Debian 13 builds with CUDA: the new C++ ABI where the wheels of
# the time have the old one, and the C library, compiler and loader of another distribution. The second time it does nothing.
# Nothing is installed; see apt.sh. Called by torch-lib.sh, which has the lock, the wheel of the same release and its headers of CUDA.
#
#   $cache/torch-lib/VERSION-debian/...    as torch-lib.sh makes it
#   $cache/torch-lib/VERSION-debian/root   the libraries of Debian 13
#
# Downloads 480 MB, and drops nearly all of it: half a minute on 2 cores.
set -u
version=${1:?usage: torch-debian.sh VERSION}
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
cache=${VRAMTAP_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/vramtap}
limit=${VRAMTAP_SETUP_LIMIT:-900}
dest=$cache/torch-lib/$version-debian
work=$dest/work
libraries=usr/lib/x86_64-linux-gnu
minor=${version%.*}
# shellcheck disable=SC1091 # they are looked at by themselves
. "$here/common.sh"
# shellcheck disable=SC1091
. "$here/apt.sh"

# What libc10.so and libc10_cuda.so need of that suite.
packages='libc6 libstdc++6 libgcc-s1 libnuma1 libcpuinfo0'

# unpack PACKAGE PATTERN...
unpack()
{
	package=$1
	shift
	(cd "$work/archives" && timeout "$limit" apt-get download -qq "$package") >>"$work/log" 2>&1 &&
		dpkg-deb --fsys-tarfile "$work/archives/$package"_*.deb | tar -x -C "$dest/root" --wildcards "$@" >>"$work/log" 2>&1 &&
		rm -f "$work/archives/$package"_*.deb
}

packages_step()
{
	rm -rf "$dest"
	mkdir -p "$dest/root" "$dest/torch/lib" "$work"
	prepare_apt trixie main contrib || return 1
	unpack "libtorch-cuda-$minor" '*/libc10.so*' '*/libc10_cuda.so*' || return 1
	for package in $packages; do
		unpack "$package" '*.so*' || return 1
	done
	unpack libtorch-cuda-dev './usr/include/c10' || return 1
	for name in libc10 libc10_cuda; do
		ln -s "../../root/$libraries/$name.so.$version" "$dest/torch/lib/$name.so" || return 1
	done
	ln -s ../root/usr/include "$dest/torch/include" && ln -s "../../$version/torch/version.py" "$dest/torch/version.py" &&
		ln -s "../$version/cuda-include" "$dest/cuda-include" && rm -rf "$work"
}

if ! done_before packages "$version" || [ ! -e "$dest/torch/lib/libc10_cuda.so" ]; then
	say "bringing Debian's build"
	packages_step || fail "Debian's packages cannot be had: $(grep -v '^$' "$work/log" | tail -n 2 | tr '\n' ' ')"
	mark_done packages "$version"
fi
want=$(driver_stamp)
if ! done_before driver "$want" || [ ! -x "$dest/c10_driver" ]; then
	# Its loader looks for libraries where it was configured to, which is where this machine has its own; and RUNPATH, unlike
	# RPATH, does not count for the libraries of libraries.
	root=$(readlink -f "$dest/root")
	build_driver "$dest/torch" "$dest/cuda-include" "$dest/c10_driver" -Wl,--disable-new-dtags \
		"-Wl,--dynamic-linker=$root/usr/lib64/ld-linux-x86-64.so.2" "-Wl,-rpath,$root/$libraries" ||
		fail 'c10_driver does not compile with the headers of this release'
	mark_done driver "$want"
fi
