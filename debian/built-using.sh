#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Of which source packages the program has parts, from the linker's map, as substitution variables.
#
# usage: built-using.sh MAP
set -eu
archives=$(awk '/^Archive member included/ { inside = 1; next } /^[A-Z]/ { inside = 0 }
	inside && /^\/.*\.a\(/ { sub(/\(.*/, "", $1); print $1 }' "$1" | sort -u | xargs -r realpath)

# sources ARCHIVE...: "glibc (= 2.36-9), ...". Files of a merged /usr may be registered under /lib.
# shellcheck disable=SC2016 # dpkg-query expands it
sources() {
	for archive; do
		dpkg-query -S "$archive" 2>/dev/null || dpkg-query -S "${archive#/usr}"
	done | sed 's/: .*//' | sort -u | xargs -r dpkg-query -W -f '${source:Package} (= ${source:Version})\n' | sort -u |
		paste -sd, | sed 's/,/, /g'
}

# shellcheck disable=SC2086 # a list
all=$(sources $archives)
# Those whose licence asks for their source: GPL and LGPL. GCC's exception frees libgcc of that.
# shellcheck disable=SC2046
copyleft=$(sources $(printf '%s\n' "$archives" | grep -E '/lib(c|dw|elf|iberty|pthread|m)\.a$'))
printf 'vramtap:Static-Built-Using=%s\n' "$all"
printf 'vramtap:Built-Using=%s\n' "$copyleft"
