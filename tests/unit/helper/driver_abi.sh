#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What include/vramtap/driver_abi.h says of the driver API is true by NVIDIA's own header, where there is one: each type has the same
# size, each constant the same value. VRAMTAP_CUDA_CPPFLAGS says where it is; empty: the system's directories.
set -eu
header=${VRAMTAP_SOURCE_DIR:-$(dirname "$0")/../../..}/include/vramtap/driver_abi.h
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

types=$(sed -n 's/^typedef .*[ *]\([A-Za-z_]*\);$/\1/p; s/^} \([A-Za-z_]*\);$/\1/p' "$header")
constants=$(sed -n 's/^\t\([A-Z0-9_]*\) = .*/\1/p' "$header")
for found in "$types" "$constants"; do
	[ "$(printf '%s\n' "$found" | wc -l)" -ge 12 ] || {
		echo "$header: too few declarations are found"
		exit 1
	}
done

# An enum whose only value is not negative may be signed or not: the size tells all that a call depends on.
{
	printf '#include VT_HEADER\n#include <stdio.h>\nint main(void)\n{\n'
	for type in $types; do
		printf '\tprintf("sizeof %s %%zu\\n", sizeof(%s));\n' "$type" "$type"
	done
	for constant in $constants; do
		printf '\tprintf("%s %%d\\n", (int)%s);\n' "$constant" "$constant"
	done
	printf '}\n'
} >"$work/values.c"
# values HEADER [FLAG...]
values() {
	which=$1
	shift
	${CC:-cc} "$@" -DVT_HEADER="$which" -o "$work/values" "$work/values.c" && "$work/values"
}
# shellcheck disable=SC2086 # words
printf '#include <cuda.h>\n' | ${CC:-cc} ${VRAMTAP_CUDA_CPPFLAGS:-} -E -o /dev/null - 2>/dev/null || {
	echo 'SKIP: no cuda.h here'
	exit 77
}
values "\"$header\"" >"$work/ours"
# shellcheck disable=SC2086
values '<cuda.h>' ${VRAMTAP_CUDA_CPPFLAGS:-} >"$work/theirs"
diff "$work/theirs" "$work/ours"
