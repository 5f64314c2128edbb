#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# torch-lib.sh VERSION...: of official PyTorch wheels, what the caching allocator alone needs. The second time it does nothing.
# Nothing is written into the repository.
#
#   $cache/torch-lib/VERSION/torch/lib        libc10.so and libc10_cuda.so
#   $cache/torch-lib/VERSION/torch/include    c10's headers
#   $cache/torch-lib/VERSION/torch/version.py with the CUDA release
#   $cache/torch-lib/VERSION/cuda-include     NVIDIA's headers of that release
#   $cache/torch-lib/VERSION/c10_driver       tests/targets/c10_driver.cc
#
# Only those members of the wheels are downloaded where the server allows that (wheel-members.py): 5 MB of half a gigabyte. A
# version takes 6 s, mostly for pip to find the wheel, and 6 s more to compile c10_driver. An interpreter that the wheel is
# for is not needed. Where torch.sh has put the whole wheel into the cache, that one serves.
#
# VERSION-debian is Debian's own build of that release, with the new C++ ABI and a newer C library (torch-debian.sh).
#
# Needs a C and a C++ compiler, binutils, and CPython 3.11 to 3.14 with pip or with venv. VRAMTAP_PYTHON names an interpreter; VRAMTAP_CACHE the cache;
# VRAMTAP_SETUP_LIMIT the seconds that one step may take.
set -u
version=${1:?usage: torch-lib.sh VERSION...}
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
cache=${VRAMTAP_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/vramtap}
limit=${VRAMTAP_SETUP_LIMIT:-600}
# shellcheck disable=SC1091 # it is looked at by itself
. "$here/common.sh"

# The wheels of a release differ in nothing that matters here between interpreters; one of these there is of each.
pythons='3.11 3.12 3.13 3.14'

# bring REQUIREMENT DIRECTORY PATTERN...: those members of that wheel.
bring()
{
	requirement=$1
	into=$2
	shift 2
	for tag in $pythons; do
		url=$(address_of "$tag" "$requirement")
		[ -n "$url" ] || continue
		timeout "$limit" "$pip" "$here/wheel-members.py" "$url" "$into" "$@" >>"$dest/log" 2>&1 && return 0
		say "the whole wheel of $requirement is downloaded"
		rm -rf "$dest/wheel"
		foreign_pip download "$tag" --dest "$dest/wheel" "$requirement" >>"$dest/log" 2>&1 &&
			"$pip" "$here/wheel-members.py" "$dest"/wheel/*.whl "$into" "$@" >>"$dest/log" 2>&1
		status=$?
		rm -rf "$dest/wheel"
		return $status
	done
	return 1
}

wheel_step()
{
	rm -rf "$dest"
	mkdir -p "$dest"
	if [ -e "$whole/site/torch/lib/libc10_cuda.so" ]; then
		ln -s "$whole/site/torch" "$dest/torch"
		return
	fi
	say "bringing the allocator's libraries"
	bring "torch==$version" "$dest" 'torch/lib/libc10*.so*' 'torch/include/c10/*' 'torch/include/torch/headeronly/*' \
		torch/version.py
}

headers_step()
{
	rm -rf "$dest/headers" "$dest/cuda-include"
	if [ -e "$whole/cuda-include/cuda_runtime_api.h" ]; then
		ln -s "$whole/cuda-include" "$dest/cuda-include"
		return
	fi
	for wheel in $(cuda_header_wheels "$(cuda_of "$dest/torch/version.py")"); do
		bring "$wheel" "$dest/headers" 'nvidia/*/include/*' || return 1
	done
	mv "$dest"/headers/nvidia/cu*/include "$dest/cuda-include" && rm -rf "$dest/headers"
}

# A wheel that is linked to may be gone, or be made anew.
something_missing()
{
	[ ! -e "$dest/torch/lib/libc10_cuda.so" ] || [ ! -e "$dest/cuda-include/cuda_runtime_api.h" ]
}

one_version()
{
	dest=$cache/torch-lib/$version
	whole=$cache/torch/$version
	if ! done_before wheel "$version" || something_missing; then
		python=$(find_python) || fail 'no CPython 3.11 to 3.14 here; set VRAMTAP_PYTHON'
		pip=$(find_pip "$python") || fail "$python has neither pip nor venv (on Debian: apt install python3-venv)"
		wheel_step || {
			say "torch==$version cannot be had: $(tail -n 1 "$dest/log")"
			return 1
		}
		headers_step || {
			say "NVIDIA's headers cannot be had: $(tail -n 1 "$dest/log")"
			return 1
		}
		mark_done wheel "$version"
	fi
	want=$(driver_stamp)
	if ! done_before driver "$want" || [ ! -x "$dest/c10_driver" ]; then
		build_driver "$dest/torch" "$dest/cuda-include" "$dest/c10_driver" || {
			say 'c10_driver does not compile with the headers of this wheel'
			return 1
		}
		mark_done driver "$want"
	fi
}

# Two runs at the same time would tread on each other.
mkdir -p "$cache/torch-lib" || exit 1
if command -v flock >/dev/null 2>&1 && [ -z "${VRAMTAP_SETUP_LOCKED:-}" ]; then
	VRAMTAP_SETUP_LOCKED=1
	export VRAMTAP_SETUP_LOCKED
	exec flock "$cache/torch-lib/.lock" sh "$0" "$@"
fi
sh "$here/../simcuda/build.sh" "$cache/simcuda" || fail 'the simulated device does not build'
status=0
for version; do
	case $version in
	*-debian)
		version=${version%-debian}
		one_version && sh "$here/torch-debian.sh" "$version"
		;;
	*) one_version ;;
	esac || status=1
done
exit $status
