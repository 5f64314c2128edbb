#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# torch-python.sh VERSION PYTHON...: an official PyTorch release for each of these interpreters (3.8, 3.13t: free-threaded), ready
# to run on the simulated device. The second time it does nothing. Nothing is written into the repository.
#
#   $cache/torch-python/VERSION-PYTHON/site     the wheel, and what "import torch" needs besides
#   $cache/torch-python/VERSION-PYTHON/python   a link to the interpreter
#   $cache/torch-python/VERSION/{site,stubs}    the wheel of one of them, and the libraries in the place of NVIDIA's
#
# The wheels of a release differ in libtorch_python.so and _C.so; the large libraries have the same code. So one wheel is
# downloaded whole, and of the others those two (wheel-members.py, 9 MB); the rest are hard links. Where torch.sh has the whole
# wheel, that one serves. Measured on 2 cores: 20 s and 1 GB a release, 4 s and 40 MB for each further interpreter.
#
# The interpreters are those of pyenv, of the machine, and those that python.sh brings. Which wheels there are is in
# torch-python-versions. VRAMTAP_PYTHON, VRAMTAP_CACHE and VRAMTAP_SETUP_LIMIT: see torch.sh.
set -u
version=${1:?usage: torch-python.sh VERSION PYTHON...}
shift
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
cache=${VRAMTAP_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/vramtap}
limit=${VRAMTAP_SETUP_LIMIT:-900}
all=$cache/torch-python
base=$all/$version
dest=$base
# shellcheck disable=SC1091 # it is looked at by itself
. "$here/common.sh"

# What the releases from 2.0 on import, if only for DTensor, checkpoints and parametrizations.
packages='typing-extensions sympy mpmath networkx filelock jinja2 markupsafe fsspec setuptools'

# What differs between the wheels of a release.
own='torch/_C.*.so functorch/_C.*.so torch/lib/libtorch_python.so torch/lib/libshm.so'

# interpreter_of PYTHON: its program.
interpreter_of()
{
	case $1 in
	*t)
		kind=free-threaded
		bare=${1%t}
		;;
	*)
		kind=debian
		bare=$1
		;;
	esac
	set -- "$1" "$HOME/.pyenv/versions/$bare".*/bin/python "/usr/bin/python$1" "$cache/python/$kind-$bare/python"
	want=$1
	shift
	for p; do
		"$p" -c 'import sys, sysconfig
free = "t" * bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
sys.exit("%d.%d" % sys.version_info[:2] + free != sys.argv[1])' "$want" 2>/dev/null || continue
		echo "$p"
		return 0
	done
	return 1
}

# What of a wheel no program needs that only runs.
trim()
{
	rm -rf "$1/torch/include" "$1/torch/share" "$1/torch/bin/protoc"* "$1/caffe2"
}

base_step()
{
	rm -rf "$base"
	mkdir -p "$base"
	if [ -e "$cache/torch/$version/.done-smoke" ]; then
		cp -al "$cache/torch/$version/site" "$base/site"
	else
		say "downloading the wheel for Python $1"
		foreign_pip install "$1" --no-compile --target "$base/site" "torch==$version" 2>>"$base/log" || return 1
	fi
	trim "$base/site"
	sh "$here/stub-libs.sh" "$base/site/torch/lib" "$base/stubs"
}

packages_step()
{
	dest=$all/packages-$1
	! done_before packages "$packages" || return 0
	rm -rf "$dest"
	mkdir -p "$dest"
	# shellcheck disable=SC2086 # words
	foreign_pip install "$1" --no-compile --target "$dest/site" $packages 2>>"$dest/log" && mark_done packages "$packages"
}

# one PYTHON: exits with 0 if it is there.
one()
{
	python=$(interpreter_of "$1") || {
		say "no Python $1 here"
		return 1
	}
	packages_step "$1" || {
		say "pip could not install $packages for Python $1"
		return 1
	}
	dest=$all/$version-$1
	rm -rf "$dest"
	mkdir -p "$dest"
	url=$(address_of "$1" "torch==$version")
	[ -n "$url" ] || {
		say "there is no wheel for Python $1"
		return 1
	}
	if [ ! -e "$base/.done-base" ]; then
		dest=$base
		base_step "$1" || return 1
		mark_done base "$version"
		dest=$all/$version-$1
	fi
	cp -al "$base/site" "$dest/site"
	cp -alf "$all/packages-$1/site/." "$dest/site/"
	# Another file, not other contents of the one that is linked to.
	for pattern in $own; do
		# shellcheck disable=SC2086 # a pattern
		rm -f "$dest/site/"$pattern
	done
	# shellcheck disable=SC2086 # words
	timeout "$limit" "$pip" "$here/wheel-members.py" "$url" "$dest/site" $own >>"$dest/log" 2>&1 || {
		say "the members of the wheel for Python $1 cannot be had: $(tail -n 1 "$dest/log")"
		return 1
	}
	ln -s "$python" "$dest/python"
	ln -s "../$version/stubs" "$dest/stubs"
	env -u PYTHONDONTWRITEBYTECODE timeout "$limit" sh "$here/run-sim.sh" "$version-$1" -- python -c '
import torch
assert torch.cuda.is_available()
torch.ones(8, device="cuda")' >>"$dest/log" 2>&1 || {
		say "the wheel for Python $1 does not run: $(tail -n 1 "$dest/log")"
		return 1
	}
	mark_done whole "$version"
}

# Two runs at the same time would tread on each other.
mkdir -p "$all" || exit 1
if command -v flock >/dev/null 2>&1 && [ -z "${VRAMTAP_SETUP_LOCKED:-}" ]; then
	VRAMTAP_SETUP_LOCKED=1
	export VRAMTAP_SETUP_LOCKED
	exec flock "$all/.lock" sh "$0" "$version" "$@"
fi
sh "$here/../simcuda/build.sh" "$cache/simcuda" || fail 'the simulated device does not build'
pip=$(find_pip "$(find_python)") || fail 'no CPython 3.11 to 3.14 with pip here; set VRAMTAP_PYTHON'
status=0
for wanted; do
	dest=$all/$version-$wanted
	[ ! -e "$dest/python" ] || ! done_before whole "$version" || continue
	one "$wanted" || status=1
done
exit $status
