#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Formats the C and C++ sources that git tracks with .clang-format. Generated tables are left as
# their scripts write them.
#
# usage: format.sh [--check] [FILE...]
#   --check   changes nothing: names what differs, and comments over 100 columns
set -eu

# Another release breaks other lines.
want=14
check=false
if [ "${1:-}" = --check ]; then
	check=true
	shift
fi
for formatter in clang-format-$want clang-format none; do
	! "$formatter" --version 2>/dev/null | grep -q "version $want\." || break
done
[ "$formatter" != none ] || {
	printf 'format: clang-format %s is needed (Debian: clang-format-%s)\n' "$want" "$want" >&2
	exit 1
}

if [ $# = 0 ]; then
	cd "$(dirname "$0")/.."
	# shellcheck disable=SC2046 # none of our names has a space
	set -- $(git ls-files '*.c' '*.h' '*.cc' | grep -vE \
		'^src/(walk/torch/(layouts|slots_table)|walk/python/layouts|explain/syscall_names)\.h$')
fi
if ! $check; then
	"$formatter" -i "$@"
	exit
fi

status=0
found=$("$formatter" --dry-run "$@" 2>&1 | sed -n 's/: warning: .*//p' | sort -u -t: -k1,1)
[ -z "$found" ] || {
	printf 'not as scripts/format.sh would have it:\n%s\n' "$found"
	status=1
}
# clang-format wraps no comment (ReflowComments). A tab counts up to the next multiple of 8; a byte
# that continues a character of UTF-8 does not count.
found=$(LC_ALL=C awk '
	FNR == 1 { inside = 0 }
	{
		line = $0
		begins = line ~ /^[ \t]*\/\*/ || inside
		if (line ~ /\/\*/ && line !~ /\*\//)
			inside = 1
		else if (line ~ /\*\//)
			inside = 0
		if (length(line) < 60 || !(begins || line ~ /\*\/$/))
			next
		gsub(/[\200-\277]/, "", line)
		width = 0
		n = split(line, parts, "\t")
		for (i = 1; i < n; i++)
			width += length(parts[i]) + 8 - (width + length(parts[i])) % 8
		if (width + length(parts[n]) > 100)
			print FILENAME ":" FNR
	}' "$@")
[ -z "$found" ] || {
	printf 'comments over 100 columns:\n%s\n' "$found"
	status=1
}
exit $status
