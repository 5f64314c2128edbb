#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What it costs to name the owners of blocks: for how long the process stands still, the report's wall time, memory of the tool.

usage: owners.py VRAMTAP [RUNS [BASE]]

The target is full PyTorch on the simulated device (sh tests/run.sh sets it up), or with BENCH_PYTHON=python3 that one on a real GPU. It
has 20,000 tensors: with the objects that "import torch" makes, some 300,000; with 300,000 more, also with a workspace of cuBLAS, which
no tensor holds; and with 3,000,000 more. Another target has 20,000 arrays of CuPy's instead, without PyTorch. RUNS (10) is how often; the smallest and the median are printed. BASE is an older vramtap, to
which a report without owners is compared. Exits with 1 if the smallest missed a figure that must be reached: see TARGETS. On a machine
that is busy with other things, "chrt -r 1 python3 owners.py ..." keeps those out of the way.
"""
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

if len(sys.argv) not in (2, 3, 4):
    sys.exit(__doc__)
os.environ["VRAMTAP"] = os.path.abspath(sys.argv[1])
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "functional"))
import harness  # noqa: E402
import report_torch  # noqa: E402

TENSORS = 20000
# By number of objects beside those of import torch: stopped for at most so many milliseconds, the whole report in so many, with so many MB of memory.
MUST = {"stopped ms": 30, "wall ms": 400, "memory MB": 256}
TARGETS = {0: MUST, 300000: MUST, 3000000: {"stopped ms": 300, "wall ms": 4000}}
CASES = ((0, "cupy"), (0, "plain"), (300000, "plain"), (300000, "workspace"), (3000000, "plain"))
WITHOUT = 1.03  # times the wall time of BASE, without owners

# Each Obj is six objects: itself, a list, a dict, a tuple, an inner list, a string.
TARGET = """
import gc, sys, torch
class Obj:
    def __init__(self, i):
        self.number, self.items, self.by_key = i, [i, str(i)], {"number": i, "pair": (i, [])}
gc.disable()
before = len(gc.get_objects())
kept = [Obj(i) for i in range(int(sys.argv[1]) // 6)]
tensors = {f"tensor {i}": torch.zeros(1 + i % 100, device="cuda") for i in range(int(sys.argv[2]))}
if sys.argv[3] == "workspace":
    a = torch.ones(64, 64, device="cuda")
    torch.mm(a, a, out=a)
print("READY", before, len(gc.get_objects()), flush=True)
sys.stdin.readline()
"""

# In the directory of the targets: CuPy's runtime is made to call the simulated one.
CUPY_TARGET = """
import ctypes, gc, os, sys
import cupy, cupy_backends.cuda.api.runtime as runtime
from cupy_pools import redirect
redirect(os.path.realpath(runtime.__file__), ctypes.CDLL(os.environ["CUPY_TEST_RUNTIME"]))
gc.disable()
before = len(gc.get_objects())
tensors = {f"tensor {i}": cupy.ndarray((1 + i % 100,), dtype="f4") for i in range(int(sys.argv[2]))}
print("READY", before, len(gc.get_objects()), flush=True)
sys.stdin.readline()
"""


class Series:
    def __init__(self, name, tool, *options):
        self.name, self.tool, self.options = name, tool, options
        self.samples = {}

    def add(self, name, value):
        self.samples.setdefault(name, []).append(value)

    def run(self, pid):
        with tempfile.NamedTemporaryFile() as out:
            begin = time.monotonic()
            done = subprocess.run([self.tool, "report", "--json", out.name, *self.options, str(pid)], stdin=subprocess.DEVNULL,
                                  stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False)
            self.add("wall ms", (time.monotonic() - begin) * 1e3)
            harness.equal(done.returncode, harness.COMPLETE, f"exit code ({done.stderr.decode()[:500]})")
            with open(out.name, encoding="utf-8") as file:
                report = json.load(file)
        self.add("stopped ms", report["timing"]["stopped_ms"])
        owners = report.get("owners", {"state": "off"})
        if owners["state"] != "off":
            harness.equal(owners["state"], "read", "owners")
            harness.check(owners["whole"], "the graph is not whole")
            self.add("owners ms", report["timing"]["owners_ms"])
            self.objects = owners["objects"]
            # Each tensor has its name, or the figure is of something else.
            blocks = [b for a in report["pytorch"]["allocators"] for s in a["segments"] for b in s["blocks"] if "owner" in b]
            blocks += owners.get("arrays", [])
            harness.check(sum((b["owner"]["name"] or "").startswith("tensors['tensor ") for b in blocks) >= TENSORS, "names are missing")

    def measure_memory(self, pid):
        code, mib = harness.peak_memory_of([self.tool, "report", "--json", "/dev/null", *self.options, str(pid)])
        harness.equal(code, harness.COMPLETE, "exit code")
        self.add("memory MB", mib * 1.048576)

    def show(self, targets):
        missed = 0
        for name, values in self.samples.items():
            verdict = ""
            if name in targets:
                met = min(values) <= targets[name]
                missed += not met
                verdict = f"  at most {targets[name]}: {'reached' if met else 'MISSED'}"
            print(f"  {self.name:<12} {name:<16} smallest {min(values):9.1f}  median {statistics.median(values):9.1f}{verdict}")
        return missed


def measure(objects, kind, runs, base):
    real = None if kind == "cupy" else os.environ.get("BENCH_PYTHON")
    version = "of a real GPU" if real else report_torch.versions()[0]
    tool = harness.VRAMTAP
    series = [Series("default", tool), Series("--no-stop", tool, "--no-stop"), Series("--read-only", tool, "--read-only"),
              Series("--no-owners", tool, "--no-owners")]
    if base:
        series.append(Series("BASE", base))
    python, env = real.split() if real else harness.simulated_python(version), dict(os.environ)
    if kind == "cupy":
        version = harness.releases("cupy", "CUPY_VERSIONS")[-1]
        python = ["sh", os.path.join(harness.SETUP, "run-cupy.sh"), version, "-B"]
        env["PYTHONPATH"] = os.path.join(harness.SOURCE, "tests", "targets")
    command = [*python, "-c", CUPY_TARGET if kind == "cupy" else TARGET, str(objects), str(TENSORS), kind]
    with harness.target(command, ready="READY", env=env) as proc:
        before, after = proc.ready_line.split()[1:]
        for number in range(runs + 1):
            for one in series:
                one.run(proc.pid)
                if number == 0:  # files come from the disk
                    one.samples = {}
        for one in series:
            one.measure_memory(proc.pid)
    print(f"{kind}, {objects} objects and {TENSORS} tensors, {'CuPy' if kind == 'cupy' else 'PyTorch'} {version}; tracked by the collector: {after}, of them {before} of "
          f"import torch; the report's graph: {series[0].objects} objects")
    targets = TARGETS[objects]
    missed = sum(one.show({} if one.name in ("--no-owners", "BASE") else
                          {k: v for k, v in targets.items() if one.name == "default" or k == "memory MB"}) for one in series)
    if base:
        ratio = min(series[3].samples["wall ms"]) / min(series[4].samples["wall ms"])
        print(f"  without owners, in times of BASE: {ratio:.3f}, at most {WITHOUT}: {'reached' if ratio <= WITHOUT else 'MISSED'}")
        missed += ratio > WITHOUT
    return missed


def main():
    runs = int(sys.argv[2]) if len(sys.argv) > 2 else 10
    base = os.path.abspath(sys.argv[3]) if len(sys.argv) > 3 else None
    print(f"{len(os.sched_getaffinity(0))} processors, load {os.getloadavg()[0]:.1f}, {runs} runs")
    cases = [case for case in CASES if case[1] != "cupy" or not os.environ.get("BENCH_PYTHON")]
    missed = sum(measure(objects, kind, runs if objects < 1000000 else max(1, runs // 3), base) for objects, kind in cases)
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
