#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs clang-tidy over the sources with the checks of .clang-tidy. Files that did not change since they were last found
# clean are left out.
#
# usage: tidy.sh BUILD_DIRECTORY (configured: for config.h)
set -u
here=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
build=$1
stamps=$build/tidy
mkdir -p "$stamps"
cd "$here" || exit 1
headers=$(cat .clang-tidy include/vramtap/*.h src/*/*.h | cksum | tr -d ' ')
flags=$(sed -n 's/^VT_CUDA_CPPFLAGS = //p' "$build/Makefile")
status=0
for file in src/*/*.c helper/*.c; do
	key=$(printf '%s' "$file" | tr / _).$(cksum <"$file" | tr -d ' ').$headers
	[ -f "$stamps/$key" ] && continue
	# shellcheck disable=SC2086 # a list of flags
	if clang-tidy --quiet "$file" -- -std=gnu11 -D_GNU_SOURCE -include "$build/config.h" -Iinclude -Isrc -I"$build" $flags \
		2>/dev/null >"$stamps/out"; then
		: >"$stamps/$key"
	else
		cat "$stamps/out"
		status=1
	fi
done
exit $status
