#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs what building (and with "test": testing) vramtap needs on Debian 12 or Ubuntu 24.04. Does nothing when it is
# all there. Prints one line for each thing that could not be had, and fails then.
#
# usage: deps.sh [build|cross|test|coverage|fuzz|size]
#   cross     what building for aarch64 on an x86-64 machine needs, and running unit tests of it (qemu's user mode):
#             ./configure --host=aarch64-linux-gnu PKG_CONFIG_LIBDIR=/usr/lib/aarch64-linux-gnu/pkgconfig
#             Debian's cross compiler and gcc-multilib, which "test" needs, exclude each other: the later one stays.
#   size      installs nothing: prints how many MB of packages "build" would download here, and nothing if it cannot be known
# On success the last line of standard output is CUDA_HEADERS=DIR, for configure --with-cuda-headers; building needs none, and
# "no" says that there are none.
set -eu

want=${1:-build}
cache=${VRAMTAP_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/vramtap}
cuda_headers_version='13.0.*'

build_packages='gcc make autoconf automake pkg-config libc6-dev libdw-dev libelf-dev libiberty-dev libzstd-dev
liblzma-dev libbz2-dev zlib1g-dev libjansson-dev python3 python3-venv g++' # g++: for what drives the simulated device's allocator
test_packages='clang clang-tidy clang-format-14 shellcheck libcmocka-dev mandoc jq elfutils gdb dwz python3-jsonschema musl-tools gcc-multilib
libclang-rt-14-dev xz-utils procps util-linux zsh fish chromium chromium-driver python3-selenium python3-prometheus-client podman busybox-static
mmdebstrap debhelper lintian rpm libjemalloc2 libtcmalloc-minimal4 libmimalloc2.0'

# Libraries of the other architecture (Debian's multiarch), and the programs of this one that build and run it.
cross_libraries='libdw-dev libelf-dev libiberty-dev libzstd-dev liblzma-dev libbz2-dev zlib1g-dev libjansson-dev libcmocka-dev'
cross_packages="crossbuild-essential-arm64 qemu-user-static $(printf '%s' "$cross_libraries" | sed 's/ /:arm64 /g; s/$/:arm64/')"

say() {
	printf 'deps: %s\n' "$*" >&2
}

# Of the architecture that its name has, else of this machine's: dpkg lists all that are there.
installed() {
	case $1 in
	*:*) of=${1#*:} ;;
	*) of=$(dpkg --print-architecture) ;;
	esac
	dpkg-query -W -f '${db:Status-Status} ${Architecture}\n' "$1" 2>/dev/null | grep -qxE "installed ($of|all)"
}

missing_packages() {
	for package in "$@"; do
		installed "$package" || printf '%s ' "$package"
	done
}

as_root() {
	if [ "$(id -u)" = 0 ]; then
		"$@"
	elif command -v sudo >/dev/null 2>&1; then
		sudo -n "$@"
	else
		return 1
	fi
}

install_packages() {
	# Ubuntu 24.04 names the compiler's run-time libraries after its own clang.
	packages=
	for package in "$@"; do
		case $package in
		chromium | chromium-driver) # Ubuntu's are snaps: pages are not tested there
			grep -q '^ID=ubuntu' /etc/os-release && continue ;;
		libclang-rt-14-dev)
			apt-cache show "$package" >/dev/null 2>&1 || package=libclang-rt-18-dev ;;
		esac
		packages="$packages $package"
	done
	say "installing:$packages"
	# shellcheck disable=SC2086 # a list of names
	as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends $packages >&2
}

# Sizes are in the lists of packages that are here, which need not be there on a fresh machine.
download_size() {
	missing=$(missing_packages "$@")
	[ -n "$missing" ] || {
		echo 0
		return
	}
	# shellcheck disable=SC2086 # a list of names
	apt-get -qq -o Debug::NoLocking=true --print-uris -y --no-install-recommends install $missing 2>/dev/null |
		awk '{ bytes += $3 } END { if (bytes) printf "%d\n", (bytes + 999999) / 1000000 }'
}

# dpkg has to know it before apt can see its packages.
add_architecture() {
	command -v dpkg >/dev/null 2>&1 || return 0
	! dpkg --print-foreign-architectures | grep -qx "$1" || return 0
	as_root dpkg --add-architecture "$1" || {
		say "not root and no sudo: run as root: dpkg --add-architecture $1"
		return 1
	}
}

need_packages() {
	command -v dpkg-query >/dev/null 2>&1 || {
		say "this is not Debian or Ubuntu: install by hand what these packages bring: $*"
		return 0
	}
	missing=$(missing_packages "$@")
	[ -n "$missing" ] || return 0
	as_root true || {
		say "not root and no sudo: run as root: apt-get install $missing"
		return 1
	}
	as_root apt-get update -q >&2 || say 'apt-get update failed; trying with the lists that are there'
	# shellcheck disable=SC2086
	install_packages $missing || {
		say "could not install: $missing"
		return 1
	}
}

# The CUDA Toolkit's headers (2 MB), with which tests compare: from an installed toolkit, else from the official wheel.
cuda_headers() {
	for dir in /usr/local/cuda/include /usr/include /usr/local/cuda-*/include "$cache/cuda-headers/nvidia/cu13/include"; do
		[ ! -f "$dir/cuda.h" ] || {
			printf '%s\n' "$dir"
			return 0
		}
	done
	if [ "$want" = build ] || [ "$want" = cross ]; then
		echo no
		return 0
	fi
	say 'fetching the CUDA headers with pip'
	[ -x "$cache/pip/bin/python" ] || python3 -m venv "$cache/pip" >&2
	"$cache/pip/bin/python" -m pip install -q --no-deps --target "$cache/cuda-headers" \
		"nvidia-cuda-runtime==$cuda_headers_version" >&2
	printf '%s\n' "$cache/cuda-headers/nvidia/cu13/include"
}

if [ "$want" = size ]; then
	# shellcheck disable=SC2086 # a list of names
	! command -v dpkg-query >/dev/null 2>&1 || download_size $build_packages
	exit
fi
mkdir -p "$cache"
# shellcheck disable=SC2086 # lists of names
case $want in
build) need_packages $build_packages ;;
cross)
	add_architecture arm64
	need_packages $build_packages $cross_packages
	;;
test) need_packages $build_packages $test_packages ;;
coverage) need_packages $build_packages $test_packages gcovr ;;
fuzz) need_packages $build_packages clang libclang-rt-14-dev llvm gdb xz-utils ;;
*)
	say 'usage: deps.sh [build|cross|test|coverage|fuzz|size]'
	exit 64
	;;
esac
headers=$(cuda_headers) || {
	say 'the CUDA headers could not be fetched: give configure --with-cuda-headers=DIR'
	exit 1
}
printf 'CUDA_HEADERS=%s\n' "$headers"
