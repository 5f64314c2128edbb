#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# root.sh NAME: the root of a distribution in the cache, unpacked once, for tests/packages/: never changed there (tests lay an overlay
# over it). tests/setup/roots has them: bare ones, to install packages in, and ones with a compiler, in which the simulated device and
# programs for it are built with that distribution's C library. Signatures are checked; nothing is installed on this machine.
#
#   $cache/roots/NAME            the root
#   $cache/roots/NAME/sim        libraries of the simulated device, ledger_calls, cuda_calls (where there is a compiler)
#
# Measured on 2 busy cores: a bare root 60 s and 150 to 250 MB of disk, one with a compiler 90 s and 400 MB.
# Needs root, mmdebstrap, debian-archive-keyring. VRAMTAP_SETUP_LIMIT is how many seconds one step may take.
set -u
name=${1:?usage: root.sh NAME}
cache=${VRAMTAP_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/vramtap}
limit=${VRAMTAP_SETUP_LIMIT:-900}
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
dest=$cache/roots/$name
work=$cache/roots/.keyring

say()
{
	printf 'root.sh %s: %s\n' "$name" "$*" >&2
}

fail()
{
	say "cannot go on: $*"
	exit 1
}

# What signs Ubuntu's packages is a package of Debian's.
ubuntu_keyring()
{
	ring=$cache/roots/.keyring/root/usr/share/keyrings/ubuntu-archive-keyring.gpg
	[ ! -s "$ring" ] || return 0
	mkdir -p "$work"
	# shellcheck disable=SC1091 # it is looked at by itself
	. "$here/apt.sh"
	(prepare_apt trixie main && cd "$work" && timeout "$limit" apt-get download -qq ubuntu-keyring ubuntu-archive-keyring) \
		>>"$work/log" 2>&1 || return 1
	for deb in "$work"/*.deb; do
		dpkg-deb -x "$deb" "$work/root" || return 1
	done
	[ -s "$ring" ] || ring=$(find "$work/root" -name 'ubuntu-archive-keyring.gpg' | head -n 1)
	[ -s "$ring" ]
}

# Built in the root, with its compiler; nothing of this machine is in it but the sources.
build_programs()
{
	mkdir -p "$1/src/tests" "$1/sim"
	cp -r "$here/../simcuda" "$here/../targets" "$1/src/tests/" &&
		chroot "$1" sh -ec 'sh /src/tests/simcuda/build.sh /sim >/dev/null
			cd /src/tests/targets
			gcc -g -O1 -o /sim/ledger_calls ledger_calls.c -pthread -ldl
			gcc -g -O1 -o /sim/cuda_calls cuda_calls.c -pthread -L/sim -l:libcudart.so.13 -l:libcuda.so.1 -ldl -Wl,-rpath-link,/sim'
}

row=$(sed -n "s/^$name //p" "$here/roots")
[ -n "$row" ] || fail 'tests/setup/roots has no such row'
stamp=$(printf '%s\n' "$row" | cat - "$here/../targets/ledger_calls.c" "$here/../targets/cuda_calls.c" | cksum)
[ "$(cat "$dest/.made-of" 2>/dev/null)" != "$stamp" ] || exit 0
[ "$(id -u)" = 0 ] || fail 'only root can make one'
for program in mmdebstrap dpkg-deb timeout; do
	command -v $program >/dev/null 2>&1 || fail "no $program here"
done
mkdir -p "$cache/roots"
if command -v flock >/dev/null 2>&1 && [ -z "${VRAMTAP_SETUP_LOCKED:-}" ]; then
	VRAMTAP_SETUP_LOCKED=1
	export VRAMTAP_SETUP_LOCKED
	exec flock "$cache/roots/.lock" sh "$0" "$name"
fi
# shellcheck disable=SC2086 # words
set -- $row
kind=$1 suite=$2 packages=$3
case $kind in
debian) set -- --keyring=/usr/share/keyrings/debian-archive-keyring.gpg "$suite" "$dest.new" ${VRAMTAP_DEBIAN_MIRROR:+"$VRAMTAP_DEBIAN_MIRROR"} ;;
ubuntu)
	ubuntu_keyring || fail "no keyring of Ubuntu's: $(tail -n 1 "$work/log")"
	# Where its packages are mmdebstrap knows.
	set -- --keyring="$ring" --components=main,universe "$suite" "$dest.new" ${VRAMTAP_UBUNTU_MIRROR:+"$VRAMTAP_UBUNTU_MIRROR"}
	;;
esac
unset APT_CONFIG
rm -rf "$dest.new"
timeout "$limit" mmdebstrap --quiet --mode=root --variant=minbase --include="$packages" "$@" >"$cache/roots/$name.log" 2>&1 ||
	fail "$(grep -E '^E:|error' "$cache/roots/$name.log" | head -n 1)"
case ,$packages, in
*,gcc,*) build_programs "$dest.new" >>"$cache/roots/$name.log" 2>&1 || fail "$(tail -n 1 "$cache/roots/$name.log")" ;;
esac
printf '%s\n' "$stamp" >"$dest.new/.made-of"
rm -rf "$dest"
mv "$dest.new" "$dest"
