#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The documents for people who change vramtap: the table of rooms in doc/INTERNALS.md is that of
# tests/unit/layers.sh, paths that they name exist, and only rows of tables are over 100 columns.
#
# usage: docs.sh [--write]   --write: puts the table of tests/unit/layers.sh into doc/INTERNALS.md
set -eu
cd "${VRAMTAP_SOURCE_DIR:-$(dirname "$0")/../..}"

map=doc/INTERNALS.md
status=0
complain() {
	printf '%s\n' "$*"
	status=1
}

# As the document has it: a row over 100 columns goes on in the next line.
checked=$(sed -n "/^rooms='/,/^'/p" tests/unit/layers.sh | sed '1d; $d' | awk '{
	line = sprintf("    %-20s", $1)
	for (i = 2; i <= NF; i++) {
		if (length(line) + 1 + length($i) > 100) {
			print line
			line = sprintf("%24s", "")
		}
		line = line " " $i
	}
	sub(/ +$/, "", line)
	print line
}')
if [ "${1:-}" = --write ]; then
	awk -v rooms="$checked" '
		/^<!-- edges/ { print $0 "\n\n" rooms "\n"; skip = 1; next }
		skip && (/^$/ || /^    /) { next }
		{ skip = 0; print }' "$map" >"$map.new"
	mv "$map.new" "$map"
fi
written=$(sed -n '/^<!-- edges/,/^[^ <]/p' "$map" | grep '^    ')
if [ -z "$checked" ] || [ "$checked" != "$written" ]; then
	complain "$map does not have the table of tests/unit/layers.sh; tests/unit/docs.sh --write puts it there:"
	printf '%s\n' "$checked" "$written" | sort | uniq -u
fi

set -- "$map" doc/internals/*.md doc/GLOSSARY.md doc/SAFETY.md doc/RELEASING.md HACKING.md \
	CONTRIBUTING.md SECURITY.md packaging/README.md
# shellcheck disable=SC2016 # quotes of Markdown
paths=$(grep -ohE '`(src|helper|include|tests|scripts|doc|examples|bench|gdbcmds|packaging)/[A-Za-z0-9_./*-]*`' "$@" |
	tr -d '`' | sort -u)
[ -n "$paths" ] || complain 'the documents name no path'
for path in $paths; do
	for file in $path; do
		[ -e "$file" ] || complain "no such file: $path, in $(grep -lF "\`$path\`" "$@" | tr '\n' ' ')"
	done
done
for page in doc/internals/*.md; do
	grep -qF "](${page#doc/})" "$map" || complain "$map does not name $page"
	grep -qF "$page" doc/local.mk || complain "doc/local.mk does not name $page"
done

long=$(LC_ALL=C awk '
	/^\|/ { next }
	{ line = $0; gsub(/[\200-\277]/, "", line) }
	length(line) > 100 { print FILENAME ":" FNR }' "$@")
[ -z "$long" ] || complain "over 100 columns: $long"
exit $status
