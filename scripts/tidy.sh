#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs clang-tidy over the sources with the checks of .clang-tidy. Files that did not change since they were last found
# clean are left out.
#
# usage: tidy.sh BUILD_DIRECTORY (configured: for config.h)
#        tidy.sh --one BUILD_DIRECTORY FILE STAMP (the script calls itself so)
set -u
here=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
cd "$here" || exit 1

one=false
if [ "$1" = --one ]; then
	one=true
	shift
elif [ $# != 1 ]; then
	echo 'usage: tidy.sh BUILD_DIRECTORY' >&2
	exit 2
fi
build=$1
if $one; then
	flags=$(sed -n 's/^VT_CUDA_CPPFLAGS = //p' "$build/Makefile")
	# shellcheck disable=SC2086 # a list of flags
	if out=$(clang-tidy --quiet "$2" -- -std=gnu11 -D_GNU_SOURCE -include "$build/config.h" -Iinclude -Isrc -Ihelper -I. -I"$build" \
		$flags 2>/dev/null); then
		: >"$3"
		exit 0
	fi
	printf '%s\n' "$out"
	exit 1
fi

stamps=$build/tidy
mkdir -p "$stamps"
headers=$({ cat .clang-tidy; find include src helper -name '*.h' | sort | xargs cat; } | cksum | tr -d ' ')
# What is of another architecture's kernel does not compile here; what is data of all (src/target/arch, but for live.c) does.
arch=$(sed -n 's/^VT_ARCH = //p' "$build/Makefile")
find src helper \( -path 'src/*/arch/*/*' ! -path 'src/target/*' -o -path 'src/target/arch/*/live.c' \) ! -path "*/arch/$arch/*" -prune \
	-o -name '*.c' -print | sort | while read -r file; do
	stamp=$stamps/$(printf '%s' "$file" | tr / _).$(cksum <"$file" | tr -d ' ').$headers
	[ -f "$stamp" ] || printf '%s %s %s\n' "$build" "$file" "$stamp"
done | xargs -r -n 3 -P "$(nproc)" sh "$0" --one
