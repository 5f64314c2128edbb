#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# jax-python.sh VERSION: JAX for the CPU in the cache, from its wheels. The second time it does nothing. Nothing is written into the
# repository.
#
#   $cache/jax-python/VERSION/site    JAX and what it needs (pip --target)
#   $cache/jax-python/VERSION/python  a link to the interpreter that the wheels are for
#
# 160 MB to download, 500 MB of disk. Needs CPython 3.11 to 3.14 with pip or with venv. VRAMTAP_PYTHON names an interpreter;
# VRAMTAP_CACHE the cache; VRAMTAP_SETUP_LIMIT the seconds that one step may take.
set -u
version=${1:?usage: jax-python.sh VERSION}
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
cache=${VRAMTAP_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/vramtap}
limit=${VRAMTAP_SETUP_LIMIT:-900}
dest=$cache/jax-python/$version
# shellcheck disable=SC1091 # it is looked at by itself
. "$here/common.sh"

mkdir -p "$cache/jax-python" || exit 1
if command -v flock >/dev/null 2>&1 && [ -z "${VRAMTAP_SETUP_LOCKED:-}" ]; then
	VRAMTAP_SETUP_LOCKED=1
	export VRAMTAP_SETUP_LOCKED
	exec flock "$cache/jax-python/.lock" sh "$0" "$@"
fi
done_before wheel "$version" && [ -x "$dest/python" ] && exit 0
python=$(find_python) || fail 'no CPython 3.11 to 3.14 here; set VRAMTAP_PYTHON'
pip=$(find_pip "$python") || fail "$python has neither pip nor venv (on Debian: apt install python3-venv)"
say "downloading for $("$python" -V) ($python)"
rm -rf "$dest"
mkdir -p "$dest"
timeout "$limit" "$pip" -m pip install --quiet --disable-pip-version-check --root-user-action=ignore --only-binary :all: \
	--target "$dest/site" "jax[cpu]==$version" || fail "pip could not install jax[cpu]==$version"
ln -s "$python" "$dest/python"
mark_done wheel "$version"
