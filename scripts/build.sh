#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Builds vramtap outside the source tree; quick when nothing changed.
#
# usage: build.sh BUILD_DIRECTORY CUDA_HEADERS [CONFIGURE-ARGUMENT...]
set -eu

source_dir=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
build_dir=$1
headers=$2
shift 2

if [ -z "$(find "$source_dir/configure" -newer "$source_dir/configure.ac" 2>/dev/null)" ]; then
	(cd "$source_dir" && autoreconf -fi >/dev/null 2>&1) || (cd "$source_dir" && autoreconf -fi)
	touch "$source_dir/configure"
fi
mkdir -p "$build_dir"
cd "$build_dir"
# Its flags are in objects that do not depend on it.
wish="$* $headers $source_dir $(cksum <"$source_dir/configure.ac")"
if ! { [ -f Makefile ] && [ "$(cat .configured 2>/dev/null)" = "$wish" ]; }; then
	# What an earlier build knows of its sources (.deps) names them by path: a tree that moved, or another clone, begins
	# from nothing. config.status: only what configure made here is removed.
	[ ! -f config.status ] || find . -mindepth 1 -delete
	"$source_dir/configure" --quiet --with-cuda-headers="$headers" "$@"
	printf '%s' "$wish" >.configured
fi
make -s -j"$(nproc)"
