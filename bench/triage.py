#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""vramtap triage of 1 and of several full PyTorch processes: wall time, for how long they stood still, and how far apart.

usage: triage.py VRAMTAP [RUNS [RANKS [LOADERS [THREADS]]]]

The job is tests/targets/triage_job.py on the simulated device: RANKS (8) processes with THREADS (4) threads beside the main one, in turn
with one of them; and, with LOADERS (0) loader workers for each rank, all of them. RUNS (30) is how often; of each figure the smallest
and the median are printed. On a machine that is busy with other things, "chrt -r 1 python3 triage.py ..." keeps those out of the way.
Exits with 1 if the smallest missed one of the figures that must be reached: 3 times the wall time of one with 2 processors and 1.5
times with 16, stopped for 20 ms, 10 ms apart.
"""
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time

if len(sys.argv) < 2:
    sys.exit(__doc__)
os.environ["VRAMTAP"] = os.path.abspath(sys.argv[1])
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "functional"))
import harness  # noqa: E402
import triage as functional  # noqa: E402

DEFAULTS = ("30", "8", "0", "4")


class Series:
    def __init__(self, name, options):
        self.name, self.options = name, options
        self.wall, self.stopped, self.skew, self.cpu = [], [], [], []

    def run(self, vramtap, directory):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        begin = time.monotonic()
        done = subprocess.run([vramtap, "triage", "-q", "-o", directory, *map(str, self.options)], stdin=subprocess.DEVNULL,
                              capture_output=True, check=False)
        self.wall.append((time.monotonic() - begin) * 1e3)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        harness.check(done.returncode in (harness.COMPLETE, harness.PARTIAL), "exit code", done.returncode, done.stderr)
        self.cpu.append((after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1e3)
        with open(os.path.join(directory, "report.json"), encoding="utf-8") as file:
            members = [m for m in json.load(file)["members"] if m["in_job"]]
        begins = [m["stopped_at_ns"] for m in members]
        self.n, self.threads = len(members), sum(len(m["threads"]) for m in members)
        self.stopped.append(max(m["stopped_ms"] for m in members))
        self.skew.append((max(begins) - min(begins)) / 1e6)

    def line(self):
        def both(values):
            return f"{min(values):8.1f} {statistics.median(values):8.1f}"
        return f"{self.name:<22} {self.n:5} {self.threads:7}  {both(self.wall)} {both(self.stopped)} {both(self.skew)} {both(self.cpu)}"


def main():
    if len(sys.argv) > 6:
        sys.exit(__doc__)
    vramtap = sys.argv[1]
    runs, ranks, loaders, threads = (int(word) for word in [*sys.argv[2:], *DEFAULTS[len(sys.argv) - 2:]])
    functional.ENV["SIMCUDA_MEM_MB"] = "2048"
    with functional.fake_job("elsewhere", "--ranks", str(ranks), "--workers", str(loaders), "--threads", str(threads)) as (_, job), \
            tempfile.TemporaryDirectory(prefix="vramtap-bench-") as base:
        series = [Series("one rank", job["ranks"][:1]), Series(f"all {ranks} ranks", job["ranks"])]
        for number in range(runs + 1):
            for s in series:
                s.run(vramtap, os.path.join(base, "out"))
                if number == 0:  # files come from the disk
                    s.wall, s.stopped, s.skew, s.cpu = [], [], [], []
    processors = len(os.sched_getaffinity(0))
    print(f"{processors} processors, load {os.getloadavg()[0]:.1f}, {runs} runs; of each figure the smallest and the median")
    print(f"{'':<22} {'procs':>5} {'threads':>7}  {'wall ms':>17} {'stopped ms':>17} {'apart ms':>17} {'processor ms':>17}")
    for s in series:
        print(s.line())
    one, many = series
    ratio = min(many.wall) / min(one.wall)
    allowed = 1.5 if processors >= 16 else 3
    print(f"wall time of all / of one: {ratio:.2f} (medians {statistics.median(many.wall) / statistics.median(one.wall):.2f})")
    missed = [text for text, bad in ((f"{ratio:.2f} times the wall time of one", ratio > allowed and ranks == 8 and not loaders),
                                     ("stopped for more than 20 ms", min(many.stopped) > 20),
                                     ("more than 10 ms apart", min(many.skew) > 10)) if bad]
    if missed:
        sys.exit("missed: " + "; ".join(missed))


if __name__ == "__main__":
    main()
