#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# pprof.sh: the reader of profiles that comes with Go, from Debian's package into the cache: $cache/pprof/pprof. It is one static
# program; nothing else of the package is kept, and nothing is installed (see apt.sh). The second time it does nothing.
#
# Measured on 2 cores: 6 s, 38 MB to download and 13 MB of disk.
# Needs apt, dpkg-deb, debian-archive-keyring. VRAMTAP_SETUP_LIMIT is how many seconds one step may take.
set -u
# The first one that can be had serves. Go 1.25 and later build it only when it is called.
packages='trixie:golang-1.24-go bookworm:golang-1.19-go'
cache=${VRAMTAP_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/vramtap}
limit=${VRAMTAP_SETUP_LIMIT:-900}
dest=$cache/pprof
# shellcheck disable=SC1091 # it is looked at by itself
. "$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)/apt.sh"

say() {
	printf 'pprof.sh: %s\n' "$*" >&2
}

# bring SUITE PACKAGE
bring() {
	prepare_apt "$1" main || return 1
	(cd "$work" && timeout "$limit" apt-get download -qq "$2") >>"$work/log" 2>&1 || return 1
	dpkg-deb --fsys-tarfile "$work/$2"_*.deb | tar -xf - -C "$work" --wildcards './usr/lib/go-*/pkg/tool/*/pprof' || return 1
	mv "$work"/usr/lib/go-*/pkg/tool/*/pprof "$work/pprof" && chmod +x "$work/pprof"
}

! [ -x "$dest/pprof" ] || exit 0
case $(uname -m) in
x86_64) ;;
*)
	say 'only x86-64 is supported'
	exit 1
	;;
esac
mkdir -p "$cache" || exit 1
work=$(mktemp -d "$cache/pprof.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
for candidate in $packages; do
	say "from Debian ${candidate%%:*}"
	if bring "${candidate%%:*}" "${candidate#*:}"; then
		mkdir -p "$dest" && mv "$work/pprof" "$dest/pprof" && exit 0
	fi
	say "it does not serve: $(grep -v '^$' "$work/log" | tail -n 1)"
	rm -rf "${work:?}"/*
done
say "cannot go on: none of $packages could be had"
exit 1
