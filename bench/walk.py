#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The walk of PyTorch's allocator in a live process, from outside and inside, beside PyTorch's own snapshot; all in one run.

usage: walk.py VRAMTAP [BLOCKS [RUNS]]

The target is full PyTorch: on the simulated device where "sh tests/run.sh" has set that up, else (as on a machine with a GPU) the
PyTorch of the python3 that runs this script. Nothing is compiled. Each round has a report of each kind and one _snapshot(), so that
all of them see the same machine. How long the process stood still is what the tool says, and what a thread of the process saw:
its longest sleep of 0.1 ms, which the rows "no tool" show without any tool.

For the walk alone, of synthetic allocators, see bench/walk.c.
"""
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "functional"))
import harness  # noqa: E402
import report_torch  # noqa: E402

# Commands on stdin: snapshot, gap, busy, idle. Each is answered with a line.
TARGET = """
import sys, threading, time
import torch

def beat():
    global longest
    before = time.perf_counter()
    while True:
        time.sleep(0.0001)
        now = time.perf_counter()
        longest = max(longest, now - before)
        before = now

def use():
    while True:
        wanted.wait()
        torch.empty(100000, device="cuda")
        time.sleep(0.001)

longest = 0
wanted = threading.Event()
kept = [torch.empty(150, device="cuda") for _ in range(int(sys.argv[1]))]
for function in (beat, use):
    threading.Thread(target=function, daemon=True).start()
print("ready", torch.__version__, flush=True)
for line in sys.stdin:
    answer = 0
    if line == "snapshot\\n":
        begin = time.perf_counter()
        torch.cuda.memory._snapshot()
        answer = time.perf_counter() - begin
    elif line == "gap\\n":
        answer, longest = longest, 0
    elif line == "busy\\n":
        wanted.set()
    elif line == "idle\\n":
        wanted.clear()
    print(answer * 1e3, flush=True)
"""

MUST = {"outside: reading": 20, "outside: reading while stopped": 5, "no stop: threads stopped": 0}


class Target:
    def __init__(self, version, blocks):
        command = ["sh", report_torch.RUN_SIM, version, "--", "python"] if version else [sys.executable]
        self.context = harness.target([*command, "-c", TARGET, str(blocks)], ready="ready")

    def __enter__(self):
        self.proc = self.context.__enter__()
        self.version = self.proc.ready_line.split()[1]
        return self

    def __exit__(self, *exc):
        return self.context.__exit__(*exc)

    def __call__(self, command):
        self.proc.stdin.write(command.encode() + b"\n")
        self.proc.stdin.flush()
        return float(self.proc.stdout.readline())


def report(target, *options):
    """(the report, the target's longest gap during it)"""
    with tempfile.NamedTemporaryFile() as out:
        target("gap")
        subprocess.run([harness.VRAMTAP, "report", "--json", out.name, *options, str(target.proc.pid)], check=False,
                       stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        gap = target("gap")
        with open(out.name, encoding="utf-8") as file:
            return json.load(file), gap


def take(rows, name, value):
    rows.setdefault(name, []).append(value)


def one_round(target, rows, blocks, tell):
    target("gap")
    time.sleep(0.05)
    take(rows, "no tool: longest gap of the target's own clock", target("gap"))
    for name, options in (("outside", ["--read-only"]), ("no stop", ["--no-stop"]), ("inside", [])):
        data, gap = report(target, *options)
        allocator, timing = data["pytorch"]["allocators"][0], data["timing"]
        exact = allocator["result"] == "complete"
        take(tell, name, f"{allocator['result']} ({allocator['consistency'] or allocator['why']})")
        if not exact:
            continue
        harness.check(sum(len(s["blocks"]) for s in allocator["segments"]) >= blocks, "blocks are missing")
        if name == "inside":
            take(rows, "inside: walk", allocator["walk_ns"] / 1e6)
            take(rows, "inside: its half under the lock", allocator["read_ns"] / 1e6)
            continue
        take(rows, f"{name}: reading", timing["blocks_read_ms"])
        take(rows, f"{name}: reading while stopped", timing["blocks_stopped_ms"])
        take(rows, f"{name}: all of the walk", timing["walk_ms"])
        take(rows, f"{name}: threads stopped", timing["stopped_ms"])
        take(rows, f"{name}: longest gap of the target's own clock", gap)
        take(rows, f"{name}: start to finished report", timing["total_ms"])
    take(rows, "_snapshot()", target("snapshot"))


def show(rows, tell):
    for name, values in rows.items():
        must = MUST.get(name)
        verdict = "" if must is None else f"   must: <= {must}{'' if statistics.median(values) <= must else ', MISSED'}"
        print(f"  {name:50} median {statistics.median(values):8.2f}  min {min(values):8.2f}  max {max(values):8.2f} ms{verdict}")
    for name, words in tell.items():
        print(f"  {name}: {', '.join(f'{words.count(w)} {w}' for w in sorted(set(words)))}")
    snapshot = statistics.median(rows["_snapshot()"])
    for name in ("outside: reading", "outside: all of the walk", "no stop: reading", "inside: walk"):
        if name in rows:
            print(f"  _snapshot() takes {snapshot / statistics.median(rows[name]):.1f} times as long as {name!r}")


def measure(version, blocks, runs):
    with Target(version, blocks) as target:
        print(f"{blocks} live blocks, PyTorch {target.version}{' on the simulated device' if version else ''}, {runs} rounds, "
              f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors")
        one_round(target, {}, blocks, {})
        for busy in (False, True):
            rows, tell = {}, {}
            target("busy" if busy else "idle")
            for _ in range(runs if not busy else max(runs // 3, 1)):
                one_round(target, rows, blocks, tell)
            print(" a thread allocates and frees every millisecond" if busy else " nobody uses the allocator")
            show(rows, tell)


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    harness.VRAMTAP = os.path.abspath(sys.argv[1])
    blocks = int(sys.argv[2]) if len(sys.argv) > 2 else 100000
    runs = int(sys.argv[3]) if len(sys.argv) > 3 else 30
    here = [v for v in report_torch.versions() if os.path.exists(os.path.join(harness.CACHE, "torch", v, "python"))]
    for version in here or [None]:
        measure(version, blocks, runs)


if __name__ == "__main__":
    main()
