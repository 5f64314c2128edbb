#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Makes a release twice, the second time where everything differs that must not matter, and compares: from the unpacked archive, in
# another directory, with another clock, umask, locale and time zone. The Debian package is left out: its tools have tests of their own.
#
# usage: reproducible.sh [--quick]     in a build tree
#   --quick   release/ is made; compiled again is only what gets into other processes, what has files embedded, and the main file; the
#             clock is that of some seconds later
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
quick=false
[ "${1:-}" != --quick ] || quick=true
first=$PWD
set -- 'PARTS=archive wheel image'
# As tests/run.sh packs it.
! $quick || set -- "$@" XZ_OPT=-1
unset MAKEFLAGS MFLAGS MAKELEVEL

$quick || make -s release "$@" >/dev/null
archive=$(echo "$first"/release/*.tar.xz)
work=$(mktemp -d)
trap 'chmod -R u+w "$work" && rm -rf "$work"' EXIT
second=$work/another/directory/$(basename "$archive" .tar.xz)
arguments=$(./config.status --config)

# What is said of the surroundings holds for this and for what it starts.
again() (
	umask 077
	TZ=Pacific/Kiritimati LC_ALL=C.UTF-8 HOME=$work CCACHE_DISABLE=1
	export TZ LC_ALL HOME CCACHE_DISABLE
	unset SOURCE_DATE_EPOCH
	later=
	if $quick; then
		: # some seconds later
	elif command -v faketime >/dev/null; then
		later='faketime -f +400d'
	else
		echo 'reproducible: no faketime here: the clock is the same'
	fi
	mkdir -p "$work/another/directory"
	tar -C "$work/another/directory" -xf "$archive"
	cd "$second"
	eval "./configure --quiet $arguments"
	! $quick || sh "$here/seed.sh" "$first" "$second" ! -name embed.o ! -name script.o ! -path src/cmd/main.o ! -name '*.asker.o' \
		! -name '*.stub.o'
	# __DATE__ and __TIME__ are in no source (below), and faketime costs much: the compiler gets the real clock.
	make -s -j"$(nproc)"
	# shellcheck disable=SC2086 # a command with arguments
	$later make -s release "$@"
)

again "$@" >"$first/packaging/again.log" 2>&1 || {
	tail -n 30 "$first/packaging/again.log"
	exit 1
}
grep '^reproducible:' "$first/packaging/again.log" || true
if ! diff "$first/release/SHA256SUMS" "$second/release/SHA256SUMS"; then
	echo 'reproducible: the second time made something else'
	exit 1
fi
modes() (
	cd "$1/release"
	stat -c '%a %n' -- *
)
if [ "$(modes "$first")" != "$(modes "$second")" ]; then
	modes "$second"
	echo 'reproducible: the second time some modes differ'
	exit 1
fi
if grep -rlE '__(DATE|TIME|TIMESTAMP)__' "$second/src" "$second/helper" "$second/include" --include='*.[chS]'; then
	echo 'reproducible: these know when they are compiled'
	exit 1
fi
sed 's/^/the same, twice: /' "$first/release/SHA256SUMS"
