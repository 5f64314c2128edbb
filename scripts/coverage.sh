#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# How much of each room the unit tests run: lines and branches, the rooms with the least first.
#
# usage: coverage.sh [BUILD_DIRECTORY]     (default: below the cache of tests/run.sh; needs gcovr)
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
cache=${VRAMTAP_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/vramtap}
build=${1:-$cache/build/coverage}
headers=$(sh "$here/scripts/deps.sh" coverage | sed -n 's/^CUDA_HEADERS=//p')

sh "$here/scripts/build.sh" "$build" "$headers" --disable-static CFLAGS='-O0 -g --coverage' >/dev/null
find "$build" -name '*.gcda' -delete
make -s -C "$build" -j"$(nproc)" check >"$build/check.log" 2>&1 || grep -E '^(FAIL|ERROR):' "$build/check.log" >&2 || true
(cd "$build" && gcovr --gcov-ignore-parse-errors --root "$here" --filter "$here/src/" --filter "$here/helper/" --json-summary "$build/coverage.json" .) \
	>/dev/null 2>"$build/gcovr.log" || {
	tail -n 5 "$build/gcovr.log" >&2
	exit 1
}
python3 - "$build/coverage.json" <<'PROGRAM'
import collections
import json
import os
import sys

rooms = collections.defaultdict(lambda: [0, 0, 0, 0])
with open(sys.argv[1], encoding="utf-8") as file:
    for entry in json.load(file)["files"]:
        counts = (entry["line_covered"], entry["line_total"], entry["branch_covered"], entry["branch_total"])
        for room in (os.path.dirname(entry["filename"]), "all"):
            rooms[room] = [a + b for a, b in zip(rooms[room], counts)]


def percent(covered, total):
    return f"{100 * covered / total:5.1f} %" if total else "      -"


print(f"{'room':24}{'lines':>8}{'run':>10}{'branches':>12}")
for room, (lines, of_lines, branches, of_branches) in sorted(rooms.items(), key=lambda r: (r[0] == "all", r[1][0] / max(1, r[1][1]))):
    print(f"{room:24}{of_lines:8}{percent(lines, of_lines):>10}{percent(branches, of_branches):>12}")
PROGRAM
