#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Dependencies point one way: cmd -> {report, walk, inject} -> target -> base. Fails on an include against it.
set -eu
cd "${VRAMTAP_SOURCE_DIR:-$(dirname "$0")/../..}"

# check DIRECTORY ALLOWED...: its quoted includes may only name these layers.
failed=0
check() {
	directory=$1
	shift
	pattern=$(printf '%s|' "$@")
	found=$(grep -rnE '^#[[:space:]]*include "' --include='*.[chS]' "$directory" | grep -E '"[a-z_]+/' |
		grep -vE "\"(${pattern%|})/" || true)
	[ -z "$found" ] || {
		printf '%s may only include %s:\n%s\n' "$directory" "$*" "$found"
		failed=1
	}
}

check include vramtap
check src/base base
check src/target base target vramtap
check src/inject base target inject vramtap
# merge and wait fill the model; the model knows no walker.
check src/walk base target walk vramtap report model explain
check src/report base report vramtap json model job
check src/cmd base target inject walk report cmd vramtap json model job explain collect record gdb triage
check helper helper walk vramtap
found=$(grep -rlE '^#[[:space:]]*include "report/' --include='*.[ch]' src/walk | grep -vE '/(merge|wait|verdict)[a-z_]*\.[ch]$' || true)
[ -z "$found" ] || {
	printf 'only merging and waiting may know the model, not: %s\n' "$found"
	failed=1
}
exit $failed
