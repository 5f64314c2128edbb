#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Merging the saved reports of many ranks into one: time and memory, and whether both grow as the number of ranks does.

usage: triage_merge.py JOB_DEMO [RANKS...]

JOB_DEMO is tests/unit/job/job_demo of a build tree: it loads the documents, accounts and says what that cost (it writes nothing here).
RANKS (1024 2048 4096 8192 16384): each has 100 threads of 20 frames, in 30 stacks: 25 are the same in all ranks, and 5 are of
one rank alone; half of the threads run Python, so that they are in the tree. They are saved as one document, as documents of eight
ranks (a node each), and as one document for each rank. The best of three runs counts.

Must reach: 16,384 ranks in 2 s and 256 MB, however they are saved; linear to there: processor time and memory for each rank at most
twice those at 1,024, whose tables fit in the processor's cache (other work on the machine makes the clock's time useless for that).
"""
import json
import os
import re
import subprocess
import sys
import tempfile

THREADS, FRAMES, STACKS, OWN = 100, 20, 30, 5
RUNS = 3
MOST_S, MOST_MB, MOST_GROWTH = 2.0, 256.0, 2.0


def frames_of(stack, rank):
    """Twenty frames; stacks have their outer half in common with others."""
    whose = f"_{rank}" if stack < OWN else ""
    python = stack % 2
    frames = []
    for i in range(FRAMES):
        name = f"function_{stack if i < FRAMES // 2 else stack % 3}_{i}{whose if i < FRAMES // 2 else ''}"
        if python:
            frames.append({"kind": "python", "function": name, "file": f"/home/user/project/package/module_{i}.py", "line": 10 * i + 7})
        else:
            frames.append({"kind": "native", "function": f"at::native::{name}(at::Tensor const&)", "module": "libtorch_cpu.so"})
    return frames


class Document:
    """Members with their stacks, each once."""

    def __init__(self):
        self.frames, self.stacks, self.doings, self.members = {}, {}, {}, []
        self.known = {}

    def index(self, table, value):
        return table.setdefault(json.dumps(value), len(table))

    def doing(self, stack, rank, is_main):
        key = stack, rank if stack < OWN else -1, is_main
        if key not in self.known:
            self.known[key] = self.make_doing(stack, rank, is_main)
        return self.known[key]

    def make_doing(self, stack, rank, is_main):
        indices = [self.index(self.frames, frame) for frame in frames_of(stack, rank)]
        value = {"name": "python3", "stack": self.index(self.stacks, indices), "state": "S"}
        if stack % 2:
            value["python"] = True
        if is_main:
            value["main"] = True
        return self.index(self.doings, value)

    def add(self, rank):
        first = 1 + 1000 * (rank % 8)
        self.members.append({
            "host": f"node{rank // 8}", "pid": first, "parent": 1, "name": "python3", "command_line": "python3 train.py", "role": "rank",
            "rank": rank, "local_rank": rank % 8, "world_size": 1 << 14, "in_job": True, "report": f"node{rank // 8}-{first}.json",
            "completeness": "complete", "total_ms": 41.5, "stopped_ms": 3.25, "stopped_at_ns": 1000000 + rank, "released_at_ns": 4000000,
            "process_state": "S",
            "memory": [{"ordinal": 0, "uuid": f"GPU-{rank:08x}-0000-0000-0000-000000000000", "reserved_bytes": 48 << 30,
                        "allocated_bytes": 40 << 30, "cached_bytes": 8 << 30, "device_total_bytes": 80 << 30,
                        "device_free_bytes": 31 << 30}],
            "threads": [first + i for i in range(THREADS)],
            "threads_do": [self.doing((STACKS - 1 - i) % STACKS, rank, i == 0) for i in range(THREADS)],
        })

    def write(self, path):
        with open(path, "w", encoding="ascii") as file:
            json.dump({"schema": "vramtap-triage", "schema_version": 1, "time": "2026-11-21T23:55:08.123456789Z", "members": self.members,
                       **{key: [json.loads(value) for value in getattr(self, key)] for key in ("doings", "stacks", "frames")}}, file)


def make(directory, ranks, together):
    """Documents of so many ranks each; returns their paths and bytes."""
    paths = []
    for first in range(0, ranks, together):
        document = Document()
        for rank in range(first, min(first + together, ranks)):
            document.add(rank)
        paths.append(os.path.join(directory, f"{first}.json"))
        document.write(paths[-1])
    return paths, sum(os.path.getsize(path) for path in paths)


def measure(demo, paths, ranks, runs=RUNS):
    """Seconds (of the clock, of processor time) and megabytes of the best run."""
    best = None
    for _ in range(runs):
        run = subprocess.run([demo, "--cost", "--quiet", "--load", *paths], check=True, stderr=subprocess.PIPE, text=True)
        cost = {key: float(value) for key, value in re.findall(r"(\w+) ([0-9.]+)", run.stderr)}
        assert cost["members"] == ranks, run.stderr
        seconds = (cost["load_ms"] + cost["account_ms"]) / 1e3
        if not best or seconds < best[0]:
            best = seconds, cost["cpu_ms"] / 1e3, cost["max_mb"], cost
    return best


def main():
    demo, sizes = sys.argv[1], [int(word) for word in sys.argv[2:]] or [1024, 2048, 4096, 8192, 16384]
    first, failed = {}, False
    print(f"{'ranks':>6} {'documents':>9} {'MB':>8} {'load s':>8} {'account s':>9} {'sum s':>8} {'CPU s':>7} {'memory MB':>9} {'stacks':>7} {'nodes':>7}")
    for ranks in sizes:
        for together in (ranks, 8, 1):
            with tempfile.TemporaryDirectory() as directory:
                paths, size = make(directory, ranks, together)
                seconds, cpu, memory, cost = measure(demo, paths, ranks)
            print(f"{ranks:6} {len(paths):9} {size / 1e6:8.1f} {cost['load_ms'] / 1e3:8.3f} {cost['account_ms'] / 1e3:9.3f} {seconds:8.3f} "
                  f"{cpu:7.3f} {memory:9.1f} {cost['stacks']:7.0f} {cost['nodes']:7.0f}", flush=True)
            kind = min(together, 9)
            base = first.setdefault(kind, (ranks, cpu, memory))
            if ranks <= 16384 and (seconds > MOST_S or memory > MOST_MB):
                print(f"       must reach {MOST_S:g} s and {MOST_MB:g} MB")
                failed = True
            growth = max(cpu / base[1], memory / base[2]) * base[0] / ranks
            if growth > MOST_GROWTH:
                print(f"       not linear: {growth:.2f} times as much for each rank as at {base[0]}")
                failed = True
    sys.exit(failed)


if __name__ == "__main__":
    main()
