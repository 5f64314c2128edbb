#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Prints the moment that everything in a release is dated with, in seconds since 1970: SOURCE_DATE_EPOCH if that is set; in a
# tar ball, the moment that it was made with; the day of the release in NEWS; before there is one, that of the last commit.
#
# usage: epoch.sh
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)

if [ -n "${SOURCE_DATE_EPOCH:-}" ]; then
	printf '%s\n' "$SOURCE_DATE_EPOCH"
elif [ -f "$here/source-date" ]; then
	cat "$here/source-date"
else
	day=$(sed -n 's/^Version [0-9.]*, \([0-9]\{4\}-[0-9][0-9]-[0-9][0-9]\)$/\1/p; /^Version /q' "$here/../NEWS")
	if [ -n "$day" ]; then
		date -u -d "$day" +%s
	else
		git -C "$here" log -1 --format=%ct
	fi
fi
