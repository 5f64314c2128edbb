#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# torch.sh VERSION: an official PyTorch wheel in the cache, ready to run on the simulated device. The second time it does
# nothing (0.02 s). Nothing is written into the repository.
#
#   $cache/torch/VERSION/site          the wheel and the packages that "import torch" needs besides (pip --target)
#   $cache/torch/VERSION/stubs         tiny libraries in the place of cuBLAS, cuDNN and so on (stub-libs.sh)
#   $cache/torch/VERSION/cuda-include  NVIDIA's headers, from two small wheels, to compile c10_driver
#   $cache/torch/VERSION/c10_driver    tests/targets/c10_driver.cc
#   $cache/torch/VERSION/python        a link to the interpreter that the wheel is for
#
# Measured on 2 cores, for one version: 535 MB downloaded in 8 s, installed in 10 s, headers 3 s, stubs 2.5 s, c10_driver
# 7 s, first import 8 s: under a minute and 1.2 GB of disk. The NVIDIA wheels that are left out would be 2.5 GB more to download.
#
# Needs a C and a C++ compiler, binutils, and CPython 3.11 to 3.14 with pip or with venv (on Debian: g++ python3-venv).
# VRAMTAP_PYTHON names an interpreter; VRAMTAP_CACHE the cache; VRAMTAP_SETUP_LIMIT the seconds that one step may take.
set -u
version=${1:?usage: torch.sh VERSION}
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
tests=$(dirname -- "$here")
cache=${VRAMTAP_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/vramtap}
limit=${VRAMTAP_SETUP_LIMIT:-900}
dest=$cache/torch/$version
# shellcheck disable=SC1091 # it is looked at by itself
. "$here/common.sh"

install()
{
	target=$1
	shift
	timeout "$limit" "$pip" -m pip install --quiet --disable-pip-version-check --root-user-action=ignore \
		--only-binary :all: --no-deps --no-compile --upgrade --target "$target" "$@"
}

wheel_step()
{
	python=$(find_python) || fail 'no CPython 3.11 to 3.14 here; set VRAMTAP_PYTHON'
	pip=$(find_pip "$python") || fail "$python has neither pip nor venv (on Debian: apt install python3-venv)"
	say "downloading for $("$python" -V) ($python)"
	rm -rf "$dest"
	mkdir -p "$dest"
	install "$dest/site" "torch==$version" || fail "pip could not install torch==$version"
	ln -s "$python" "$dest/python"
}

# Of all that the wheel asks for, "import torch" and torch.optim need only these; the others serve torch.compile.
packages='typing-extensions sympy mpmath'

packages_step()
{
	pip=$(find_pip "$dest/python") || fail "$dest/python has neither pip nor venv"
	# shellcheck disable=SC2086 # they are words
	install "$dest/site" $packages
}

# The headers of the CUDA version that the wheel was built with, for its own headers include them.
headers_step()
{
	python=$dest/python
	pip=$(find_pip "$python") || fail "$python has neither pip nor venv"
	rm -rf "$dest/headers"
	# shellcheck disable=SC2046 # they are words
	install "$dest/headers" $(cuda_header_wheels "$(cuda_of "$dest/site/torch/version.py")") || return 1
	rm -rf "$dest/cuda-include"
	mv "$dest"/headers/nvidia/cu*/include "$dest/cuda-include"
	rm -rf "$dest/headers"
}

driver_step()
{
	build_driver "$dest/site/torch" "$dest/cuda-include" "$dest/c10_driver"
}

stubs_step()
{
	rm -rf "$dest/stubs"
	sh "$here/stub-libs.sh" "$dest/site/torch/lib" "$dest/stubs"
}

# The first import writes the byte code, without which every later one takes 4 s longer; it also shows that all is well.
smoke_step()
{
	env -u PYTHONDONTWRITEBYTECODE timeout "$limit" sh "$here/run-sim.sh" "$version" -- python -c '
import torch
assert torch.cuda.is_available()
p = torch.nn.Parameter(torch.ones(8, device="cuda"))
p.grad = torch.ones_like(p)
torch.optim.AdamW([p]).step()'
}

# What the wheel imports from the CUDA runtime or NCCL and the simulated device lacks would fail at its first use.
missing_symbols()
{
	nm -D --defined-only "$cache"/simcuda/libcudart.so.1* "$cache/simcuda/libcuda.so.1" "$cache/simcuda/libnccl.so.2" |
		awk 'NF == 3 { sub(/@.*/, "", $3); print $3 }' >"$dest/.have"
	for lib in "$dest"/site/torch/lib/lib*.so; do
		nm -D --undefined-only "$lib" 2>/dev/null
	done | awk -v have="$dest/.have" '
		BEGIN { while ((getline name <have) > 0) known[name] = 1 }
		{ sub(/@.*/, "", $2) }
		$2 ~ /^(__cuda|cuda|cu|nccl)[A-Z]/ && $2 !~ /^cuFile/ && !($2 in known) && !seen[$2]++ { print $2 }'
}

# Two runs at the same time would tread on each other.
mkdir -p "$cache/torch" || exit 1
if command -v flock >/dev/null 2>&1 && [ -z "${VRAMTAP_SETUP_LOCKED:-}" ]; then
	VRAMTAP_SETUP_LOCKED=1
	export VRAMTAP_SETUP_LOCKED
	exec flock "$cache/torch/.lock" sh "$0" "$@"
fi

sh "$tests/simcuda/build.sh" "$cache/simcuda" || fail 'the simulated device does not build'
if ! done_before wheel "$version" || [ ! -x "$dest/python" ]; then
	wheel_step
	mark_done wheel "$version"
fi
if ! done_before packages "$packages"; then
	packages_step || fail "pip could not install $packages"
	mark_done packages "$packages"
fi
want=$(stamp "$here/stub-libs.sh" "$here/stub-answers")
if ! done_before stubs "$want"; then
	stubs_step || fail 'the stub libraries do not build'
	missing=$(missing_symbols | tr '\n' ' ')
	[ -z "$missing" ] || say "add to tests/simcuda/*/stubs.list, this wheel imports them: $missing"
	mark_done stubs "$want"
fi
if ! done_before headers "$version"; then
	headers_step || fail "pip could not install NVIDIA's headers; c10_driver is not built"
	mark_done headers "$version"
fi
want=$(driver_stamp)
if ! done_before driver "$want" || [ ! -x "$dest/c10_driver" ]; then
	driver_step || fail 'c10_driver does not compile with the headers of this wheel'
	mark_done driver "$want"
fi
if ! done_before smoke "$version"; then
	smoke_step || fail 'the wheel does not run on the simulated device'
	mark_done smoke "$version"
fi
exit 0
