#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Puts objects of a build into an unpacked and configured archive of the same sources, so that make compiles only the others there: the
# sources of an archive are as old as their commit. With them come the stamps of directories, which objects must not be older than.
#
# usage: seed.sh BUILD TREE [CONDITION...]     conditions of find: which of the objects below src/
set -eu
tree=$2
cd "$1"
shift 2
find src \( -name .dirstamp -o -name '*.o' "$@" \) -print0 | tar -cf - --mtime=now --null -T - | tar -C "$tree" -xf -
