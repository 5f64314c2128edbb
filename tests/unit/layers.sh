#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Which room may include which: one row a room, the rooms that it knows behind the colon. A room is a folder of sources;
# include/vramtap is known to all. An edge that is not in the table fails, and so do a room without a row, a row without a
# room, an edge that nothing uses, and an include by a path with dots.
set -eu
cd "${VRAMTAP_SOURCE_DIR:-$(dirname "$0")/../..}"

rooms='
helper:             walk/torch
helper/recorder:    target/arch/x86_64 walk/native walk/python
src/base:
src/json:           base
src/prometheus:     base
src/target:         base target/arch
src/target/arch:
src/target/arch/aarch64: target/arch
src/target/arch/x86_64: target/arch
src/target/core:    base target target/arch
src/faults:         base
src/usage:          base
src/usage/asker:
src/inject:         base target target/arch inject/arch inject/stub
src/inject/arch:    base inject/arch/aarch64 inject/arch/x86_64 inject/stub
src/inject/arch/aarch64: target target/arch target/arch/aarch64 inject/arch inject/stub
src/inject/arch/x86_64: target/arch target/arch/x86_64 inject/arch inject/stub
src/inject/stub:    inject/arch
src/inject/recorder: base target inject
src/walk/heap:      base target
src/walk/native:    base target target/arch
src/walk/python:    base target
src/walk/pyheap:    base walk/heap walk/python
src/walk/tensors:   base walk/heap walk/native walk/python
src/walk/arrays:    base walk/heap walk/pyheap
src/walk/asyncio:   base target walk/heap walk/native walk/pyheap walk/python
src/walk/libpools:  base target walk/heap walk/native walk/python walk/pyheap
src/walk/torch:     base target walk/native walk/python
src/walk/recorder:  base target walk/python
src/model:          base json
src/kernels:        base model
src/advise:         base model
src/explain:        base target target/arch model walk/native walk/python
src/owners:         base model walk/heap walk/pyheap walk/python walk/tensors walk/arrays
src/collect:        base advise owners walk/heap target target/arch target/core inject walk/torch walk/python walk/native walk/recorder walk/libpools walk/asyncio model explain usage faults kernels
src/report:         base model
src/report/text:    base model report
src/report/profile: base json model report
src/report/snapshot: base model report
src/report/json:    base json model report
src/report/html:    base json model report report/json
src/report/diff:    base json model report report/text report/json
src/job:            base model
src/job/rules:      base model job
src/job/ras:        base json job
src/job/html:       base report report/html job job/json
src/job/json:       base json model report job job/ras
src/job/prometheus: base prometheus report job job/json
src/job/text:       base model report report/text job
src/job/profile:    base report report/profile job job/text
src/record:         base target target/arch inject inject/recorder walk/torch walk/recorder collect model report
src/relieve:        base json target inject walk/torch walk/python model report report/text report/diff collect
src/cluster:        base
src/triage:         base target walk/native report collect job job/ras job/json
src/ps:             base json prometheus target target/arch model explain collect report report/text report/json
src/gdb:            base model report/text collect
src/cmd:            base advise json target inject/recorder kernels walk/torch model collect report report/text report/json report/profile report/snapshot report/html report/diff
                    job/rules job/html job/json job/prometheus job/profile job/text record relieve triage cluster ps gdb
'

# The includes of all sources, "ROOM INCLUDED-ROOM FILE:LINE", one a line; the room of a name without a folder is its own.
edges=$(find src helper include -name '*.[chS]' -exec grep -nE '^#[[:space:]]*include "' {} + |
	awk -F: '{
		room = $1; sub("/[^/]*$", "", room)
		name = $3; sub("^[^\"]*\"", "", name); sub("\".*", "", name)
		at = name; if (!sub("/[^/]*$", "", at)) at = "."
		print room, at, $1 ":" $2
	}')

printf '%s\n' "$rooms" | awk -v edges="$edges" '
	function complain(text) { print text; failed = 1 }
	NF {
		first = 1
		if ($1 ~ /:$/) {
			room = $1; sub(":", "", room); rooms[room] = 1
			first = 2
		}
		for (i = first; i <= NF; i++)
			allowed[room, $i] = 1
	}
	END {
		n = split(edges, lines, "\n")
		for (i = 1; i <= n; i++) {
			split(lines[i], edge, " ")
			room = edge[1]; to = edge[2]; where = edge[3]; own = room; sub("^src/", "", own)
			seen[room] = 1
			if (to ~ /\.\./)
				complain(where ": an include names its room, not the way there")
			else if (to == "." || to == own || to == "vramtap" || to == "vramtap/arch" || to == "cuda")
				continue
			else if (room == "include/vramtap")
				complain(where ": include/vramtap includes nothing of ours")
			else if (!(room in rooms))
				complain(where ": " room " has no row in tests/unit/layers.sh")
			else if (!((room, to) in allowed))
				complain(where ": " room " may not include " to)
			used[room, to] = 1
		}
		for (room in rooms)
			if (!(room in seen))
				complain("tests/unit/layers.sh: there is no room " room)
		for (pair in allowed) {
			split(pair, edge, SUBSEP)
			if (!((edge[1], edge[2]) in used))
				complain("tests/unit/layers.sh: nothing in " edge[1] " includes " edge[2])
		}
		exit failed
	}'
