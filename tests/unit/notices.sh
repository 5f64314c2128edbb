#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# NOTICES.md names every library of which the linker took a part into the program, and each file of libiberty, whose files differ in
# their licence; in a static program nothing is named that could not be in it. The linker's map tells.
set -eu
notices=${VRAMTAP_SOURCE_DIR:-$(dirname "$0")/../..}/NOTICES.md
map=${VRAMTAP_BUILD_DIR:-.}/vramtap.map
status=0

complain() {
	printf '%s\n' "$*"
	status=1
}

# "Archive member included ...": libraries of the system have an absolute path, our own a relative one.
members=$(awk '/^Archive member included/ { inside = 1; next } /^[A-Z]/ { inside = 0 }
	inside && /^\/.*\.a\(/ { sub(/.*\//, "", $1); print $1 }' "$map" | sort -u)
[ -n "$members" ] || complain "$map names no member of a library of the system"

# Rows of the two tables: a library, a file of libiberty.
rows=$(sed -n 's/^| \([a-z0-9_-]*\) |.*/\1/p' "$notices")
# A dynamic program has a part of glibc in itself, libc_nonshared.a.
for library in $(printf '%s\n' "$members" | sed 's/\.a(.*//; s/^libc_nonshared$/libc/' | sort -u); do
	printf '%s\n' "$rows" | grep -qx "$library" || complain "NOTICES.md does not name $library, which the program is linked with"
done
for file in $(printf '%s\n' "$members" | sed -n 's/^libiberty\.a(\(.*\)\.o)$/\1/p'); do
	printf '%s\n' "$rows" | grep -qx "$file" || complain "NOTICES.md does not say under which licence $file of libiberty is"
done
# Whether the linker was given an archive that it took nothing from depends on its release; a dynamic program has shared libraries.
if grep -q '^LOAD .*/libc\.a$' "$map"; then
	for library in $(printf '%s\n' "$rows" | grep '^lib' | grep -v '^library$'); do
		grep -q "^LOAD .*/$library\.a\$" "$map" || complain "NOTICES.md names $library, which the linker was not given"
	done
fi
for file in $(sed -n 's/^| [a-z0-9_-]* | .* | .*\(LGPL 2.1\|LGPL 3\|GPL 3\).*/\1/p' "$notices" | sort -u | tr ' ' -); do
	[ -s "$(dirname "$notices")/licenses/$file.txt" ] || complain "licenses/ lacks $file"
done
exit $status
