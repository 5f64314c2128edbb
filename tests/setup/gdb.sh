#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# gdb.sh NAME PACKAGE SUITE...: a gdb in the cache that the machine does not have: newer, older, or without Python. PACKAGE is gdb, with
# which comes gdbserver, or gdb-minimal. The second time it does nothing. Nothing is installed: see apt.sh. The first SUITE that has it
# serves.
#
#   $cache/gdb/NAME/gdb, gdbserver   launchers: the programs with the C library and the libraries of that suite
#
# Measured on 2 cores: gdb 18 s, 37 MB to download and 100 MB of disk, gdb-minimal 7 s and 50 MB of disk.
# Needs apt, dpkg-deb, debian-archive-keyring. VRAMTAP_SETUP_LIMIT is how many seconds one step may take.
set -u
name=${1:?usage: gdb.sh NAME PACKAGE SUITE...}
package=$2
shift 2
cache=${VRAMTAP_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/vramtap}
limit=${VRAMTAP_SETUP_LIMIT:-900}
dest=$cache/gdb/$name
# shellcheck disable=SC1091 # it is looked at by itself
. "$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)/apt.sh"

say()
{
	printf 'gdb.sh %s: %s\n' "$name" "$*" >&2
}

fail()
{
	say "cannot go on: $*"
	exit 1
}

# launcher PROGRAM VARIABLES ARGUMENTS. Old packages have the loader's own name in /lib64 as a link with an absolute path.
launcher()
{
	cat >"$work/$1" <<LAUNCHER
#!/bin/sh
root=$dest/root
for loader in "\$root"/usr/lib64/ld-linux-x86-64.so.2 "\$root"/lib64/ld-linux-x86-64.so.2 "\$root"/lib/x86_64-linux-gnu/ld-*.so; do
	[ ! -x "\$loader" ] || break
done
$2 exec "\$loader" --library-path "\$root/usr/lib/x86_64-linux-gnu:\$root/lib/x86_64-linux-gnu" "\$root/usr/bin/$1" $3 "\$@"
LAUNCHER
	chmod +x "$work/$1"
}

# apt finds what it depends on by itself, for in its state no package is installed. The program that gdb runs must not get the
# place of gdb's Python.
unpack_packages()
{
	case $package in
	*-minimal) wanted=$package ;;
	*) wanted="$package gdbserver" ;;
	esac
	# shellcheck disable=SC2086 # a list of names
	timeout "$limit" apt-get install -qq -y --download-only --no-install-recommends $wanted >>"$work/log" 2>&1 || return 1
	mkdir -p "$work/root"
	for deb in "$work"/archives/*.deb; do
		dpkg-deb -x "$deb" "$work/root" || return 1
	done
	[ -x "$work/root/usr/bin/gdb" ] || return 1
	# shellcheck disable=SC2016 # the launcher expands it
	launcher gdb 'PYTHONHOME=$root/usr' '"--data-directory=$root/usr/share/gdb" -iex "unset environment PYTHONHOME"'
	! [ -x "$work/root/usr/bin/gdbserver" ] || launcher gdbserver '' ''
	rm -rf "$work/root/usr/share/doc" "$work/root/usr/share/locale" "$work/root/usr/share/man" "$work/root/usr/share/info"
}

# It is made under another name and then renamed: what is half done is never taken for whole. Paths inside name the last place.
make_one()
{
	work=$dest.new
	rm -rf "$work"
	prepare_apt "$1" main || {
		say "apt-get update for $1 failed: $(tail -n 1 "$work/log")"
		return 1
	}
	unpack_packages || {
		say "$1 does not serve: $(grep -v '^$' "$work/log" | tail -n 2 | tr '\n' ' ')"
		return 1
	}
	rm -rf "$work/archives" "$work/lists" "$work"/*cache.bin
}

# With Python or without, as it is wanted: the minimal package of some suites is the full one under another name.
starts()
{
	[ -x "$dest/gdb" ] || return 1
	answer=$("$dest/gdb" -nx -batch -ex 'echo with\n' -ex 'python print("Python")' 2>&1)
	case $package$answer in
	gdb-minimal*Python*not*supported* | gdbwith*Python) return 0 ;;
	esac
	return 1
}

[ "$(uname -m)" = x86_64 ] || fail 'only x86-64 is supported'
mkdir -p "$cache/gdb" || exit 1
if command -v flock >/dev/null 2>&1 && [ -z "${VRAMTAP_SETUP_LOCKED:-}" ]; then
	VRAMTAP_SETUP_LOCKED=1
	export VRAMTAP_SETUP_LOCKED
	exec flock "$cache/gdb/.lock" sh "$0" "$name" "$package" "$@"
fi
starts && exit 0
for program in apt-get dpkg-deb timeout; do
	command -v $program >/dev/null 2>&1 || fail "no $program here"
done
for suite; do
	say "from Debian $suite"
	make_one "$suite" || continue
	rm -rf "$dest"
	mv "$dest.new" "$dest"
	starts && exit 0
	say "what was made from $suite does not serve: $(printf '%s' "$answer" | tail -n 1)"
done
rm -rf "$dest.new"
fail "none of the suites $* had it"
