#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The program that users get is hardened as SECURITY.md says: read from its ELF headers, and from what our own objects call (the C
# library that is linked into it brings the same functions for itself).
set -eu
build=${VRAMTAP_BUILD_DIR:-.}
program=$build/vramtap
grep -q '^VT_SANITIZE = ..*' "$build/Makefile" && {
	echo 'a build with sanitizers: these are instead of the rest'
	exit 77
}
status=0

# What must be in a text, or must not.
must() {
	grep -Eq -- "$2" "$1" || {
		echo "not hardened: $3"
		status=1
	}
}
never() {
	! grep -Eq -- "$2" "$1" || {
		echo "not hardened: $3"
		status=1
	}
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
readelf -hlW "$program" >"$work/segments"
readelf -dW "$program" >"$work/dynamic"
must "$work/segments" '^ *Type: *DYN' 'it is loaded where it was linked (no PIE)'
must "$work/segments" '^ *GNU_RELRO ' 'no RELRO'
must "$work/dynamic" 'BIND_NOW|Flags:.* NOW' 'RELRO is not full (no BIND_NOW)'
never "$work/dynamic" 'TEXTREL' 'its code is relocated'
must "$work/segments" '^ *GNU_STACK .* RW  *0x' 'the stack is executable'
never "$work/segments" '^ *LOAD .* RWE' 'a segment can be written and executed'

# Where a thing is not called at all nothing says so: these rooms write text and parse for sure.
for room in base json report target explain; do
	for function in __stack_chk_fail '__(v?s?n?printf|memcpy|memset|strcpy|read|fgets|realpath|readlink)_chk'; do
		find "$build/src/$room" -name '*.a' -exec nm -u {} + >"$work/calls"
		case $function in
		*_chk) grep -q '^VT_HARDEN = .*FORTIFY' "$build/Makefile" || continue ;;
		esac
		must "$work/calls" "U $function" "src/$room has no $function (compiled without the option)"
	done
done
exit $status
