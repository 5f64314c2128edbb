#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# common.sh: what torch.sh and torch-lib.sh share: messages, steps with stamps, an interpreter and a pip, and what an official wheel
# asks of the compiler. To be sourced; the script has set version, cache (the cache) and dest (what is made).
# shellcheck disable=SC2154 # they are variables of the script that reads this

say()
{
	printf '%s %s: %s\n' "${0##*/}" "$version" "$*" >&2
}

fail()
{
	say "cannot go on: $*"
	exit 1
}

# CPython 3.12 first, as on the GPU machine; what merely exists in PATH may be a launcher that does not start.
find_python()
{
	for p in "${VRAMTAP_PYTHON:-}" "$HOME"/.pyenv/versions/3.12.*/bin/python \
		"$HOME"/.pyenv/versions/3.11.*/bin/python /usr/bin/python3.12 /usr/bin/python3 \
		/usr/local/bin/python3 "$(command -v python3)"; do
		[ -x "$p" ] || continue
		"$p" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 14))' 2>/dev/null || continue
		echo "$p"
		return 0
	done
	return 1
}

# wanted_python RELEASE: the CPython of this release ("3.12"), or any.
wanted_python()
{
	wanted=$1
	for p in "${VRAMTAP_PYTHON:-}" "$HOME"/.pyenv/versions/"$wanted".*/bin/python /usr/bin/"python$wanted" \
		"$(command -v "python$wanted")"; do
		[ -n "$wanted" ] && [ -x "$p" ] && "$p" -c "import sys; sys.exit('%d.%d' % sys.version_info[:2] != '$wanted')" \
			2>/dev/null && echo "$p" && return 0
	done
	find_python
}

# What this python can run as pip; Debian's has none of its own, but can make an environment with one.
find_pip()
{
	if "$1" -m pip --version >/dev/null 2>&1; then
		echo "$1"
		return 0
	fi
	venv=$cache/torch/pip-env
	if [ ! -x "$venv/bin/pip" ] && ! "$1" -m venv "$venv" >&2; then
		rm -rf "$venv"
		return 1
	fi
	echo "$venv/bin/python"
}

# foreign_pip COMMAND VERSION ARGUMENT...: pip ($pip) for the wheels of another interpreter than the one that it runs with. A
# version with a "t" is a free-threaded one.
foreign_pip()
{
	command=$1
	tag=$2
	shift 2
	abi=
	case $tag in
	*t)
		tag=${tag%t}
		abi="--abi cp${tag%.*}${tag#*.}t --abi none"
		;;
	esac
	# shellcheck disable=SC2086 # the ABI is several words, or none
	timeout "$limit" "$pip" -m pip "$command" --quiet --disable-pip-version-check --no-deps --only-binary :all: \
		--implementation cp --python-version "$tag" $abi --platform manylinux_2_35_x86_64 --platform manylinux_2_31_x86_64 \
		--platform manylinux_2_28_x86_64 --platform manylinux_2_27_x86_64 --platform manylinux_2_17_x86_64 \
		--platform manylinux2014_x86_64 --platform manylinux1_x86_64 --platform linux_x86_64 "$@"
}

# Where pip would download REQUIREMENT from.
address_of()
{
	foreign_pip install "$1" --dry-run --ignore-installed --target "$dest/nowhere" --report - "$2" 2>>"$dest/log" |
		"$pip" -c 'import json, sys; print(json.load(sys.stdin)["install"][0]["download_info"]["url"])' 2>>"$dest/log"
}

# A step is done when its stamp says from what it was done.
stamp()
{
	cat "$@" | cksum
}

done_before()
{
	[ "$(cat "$dest/.done-$1" 2>/dev/null)" = "$2" ]
}

mark_done()
{
	printf '%s\n' "$2" >"$dest/.done-$1"
}

# The CUDA release that the wheel whose version.py this is was built with.
cuda_of()
{
	sed -n "s/^cuda.*= '\([0-9]*\.[0-9]*\)'.*/\1/p" "$1"
}

# The wheels that have the headers of this CUDA release, for PyTorch's own headers include them.
cuda_header_wheels()
{
	case $1 in
	11.*) echo "nvidia-cuda-runtime-cu11==$1.*" ;;
	12.*) echo "nvidia-cuda-runtime-cu12==$1.*" ;;
	*) echo "nvidia-cuda-runtime==$1.* nvidia-cuda-crt==$1.*" ;;
	esac
}

# The wheel decides which std::string its interfaces have: c10's own functions tell, for both kinds have some of libstdc++.
cxx11_abi()
{
	nm -D --defined-only "$1" | grep -q '_ZN3c10.*NSt7__cxx1112basic_string' && echo 1 || echo 0
}

# The runtime library of the simulated device that goes with a CUDA release.
cudart_of()
{
	case $1 in
	11.*) echo libcudart.so.11.0 ;;
	*) echo "libcudart.so.${1%%.*}" ;;
	esac
}

driver_stamp()
{
	stamp "$here/common.sh" "$here/../targets/c10_driver.cc"
}

# build_driver TORCH CUDA_INCLUDE PROGRAM [FLAG...]: tests/targets/c10_driver.cc for the wheel whose directory "torch" this is.
build_driver()
{
	torch=$1
	include=$2
	program=$3
	shift 3
	lib=$(readlink -f "$torch/lib")
	# -fPIC, so that the program has no copy relocation of c10's allocator pointer: Python has none either.
	${CXX:-c++} -std=c++20 -O1 -g -fPIC -Wall -Wextra -Wshadow -Werror \
		"-D_GLIBCXX_USE_CXX11_ABI=$(cxx11_abi "$lib/libc10.so")" -isystem "$torch/include" -isystem "$include" \
		-o "$program.new" "$here/../targets/c10_driver.cc" -L"$lib" -lc10_cuda -lc10 -L"$cache/simcuda" \
		"-l:$(cudart_of "$(cuda_of "$torch/version.py")")" -ldl -lpthread -Wl,-rpath,"$lib" \
		-Wl,--allow-shlib-undefined "$@" &&
		mv -f "$program.new" "$program"
}
