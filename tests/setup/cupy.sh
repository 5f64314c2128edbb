#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# cupy.sh VERSION [PYTHON]: an official CuPy wheel in the cache, ready to run on the simulated device with that CPython (3.12), or
# with one of 3.11 to 3.14. The second time it does nothing. Nothing is written into the repository.
#
#   $cache/cupy/VERSION/site    the wheel and what it needs (pip --target)
#   $cache/cupy/VERSION/stubs   tiny libraries in the place of cuBLAS and so on (stub-libs.sh), which 12.x is linked with;
#                               libmissing.so has what it imports from CUDA and the simulated device lacks
#   $cache/cupy/VERSION/python  a link to the interpreter that the wheel is for
#
# 110 to 140 MB to download, 400 MB of disk, 15 s on 2 cores. Needs a C compiler, binutils, and a CPython with pip or with venv.
# VRAMTAP_PYTHON names an interpreter; VRAMTAP_CACHE the cache; VRAMTAP_SETUP_LIMIT the seconds that one step may take.
set -u
version=${1:?usage: cupy.sh VERSION [PYTHON]}
wanted=${2:-}
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
tests=$(dirname -- "$here")
cache=${VRAMTAP_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/vramtap}
limit=${VRAMTAP_SETUP_LIMIT:-900}
dest=$cache/cupy/$version
# shellcheck disable=SC1091 # it is looked at by itself
. "$here/common.sh"

wheel_step()
{
	python=$(wanted_python "$wanted") || fail 'no CPython 3.11 to 3.14 here; set VRAMTAP_PYTHON'
	pip=$(find_pip "$python") || fail "$python has neither pip nor venv (on Debian: apt install python3-venv)"
	say "downloading for $("$python" -V) ($python)"
	rm -rf "$dest"
	mkdir -p "$dest"
	timeout "$limit" "$pip" -m pip install --quiet --disable-pip-version-check --root-user-action=ignore --only-binary :all: \
		--no-compile --target "$dest/site" "cupy-cuda12x==$version" || fail "pip could not install cupy-cuda12x==$version"
	ln -s "$python" "$dest/python"
}

# stub-libs.sh takes libraries by their names.
stubs_step()
{
	rm -rf "$dest/stubs" "$dest/libs"
	mkdir -p "$dest/libs" "$dest/stubs"
	find "$dest/site/cupy" "$dest/site/cupy_backends" -name '*.so' | awk -v to="$dest/libs" \
		'{ printf "ln -s \"%s\" \"%s/lib%d.so\"\n", $0, to, NR }' | sh || return 1
	sh "$here/stub-libs.sh" "$dest/libs" "$dest/stubs" || return 1
	nm -D --defined-only "$cache"/simcuda/libcudart.so.12 "$cache/simcuda/libcuda.so.1" "$cache/simcuda/libnccl.so.2" |
		awk 'NF == 3 { sub(/@.*/, "", $3); print $3 }' >"$dest/.have"
	for lib in "$dest"/libs/lib*.so; do
		nm -D --undefined-only "$lib"
	done | awk -v have="$dest/.have" '
		BEGIN { while ((getline name <have) > 0) known[name] = 1 }
		{ sub(/@.*/, "", $2) }
		$2 ~ /^(__cuda|cuda|cu|nccl)[A-Z]/ && $2 !~ /^cu(blas|dnn|fft|rand|solver|sparse|tensor)/ && !($2 in known) && !seen[$2]++ {
			# cudaErrorNotSupported, CUDA_ERROR_NOT_SUPPORTED
			printf "int %s(void);\nint %s(void)\n{\n\treturn 801;\n}\n", $2, $2
		}' >"$dest/missing.c"
	rm -rf "$dest/libs"
	${CC:-cc} -O1 -fPIC -shared -o "$dest/stubs/libmissing.so" "$dest/missing.c"
}

# What needs no kernel.
smoke_step()
{
	printf 'pool.malloc(1000).ptr > 0\n' | env -u PYTHONDONTWRITEBYTECODE timeout "$limit" sh "$here/run-cupy.sh" "$version" \
		"$tests/targets/cupy_pools.py" | grep -qx true
}

# Two runs at the same time would tread on each other.
mkdir -p "$cache/cupy" || exit 1
if command -v flock >/dev/null 2>&1 && [ -z "${VRAMTAP_SETUP_LOCKED:-}" ]; then
	VRAMTAP_SETUP_LOCKED=1
	export VRAMTAP_SETUP_LOCKED
	exec flock "$cache/cupy/.lock" sh "$0" "$@"
fi

sh "$tests/simcuda/build.sh" "$cache/simcuda" || fail 'the simulated device does not build'
if ! done_before wheel "$version" || [ ! -x "$dest/python" ]; then
	wheel_step
	mark_done wheel "$version"
fi
want=$(stamp "$here/stub-libs.sh" "$here/stub-answers" "$here/cupy.sh")
if ! done_before stubs "$want"; then
	stubs_step || fail 'the stub libraries do not build'
	mark_done stubs "$want"
fi
if ! done_before smoke "$version"; then
	smoke_step || fail 'the wheel does not run on the simulated device'
	mark_done smoke "$version"
fi
