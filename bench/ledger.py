#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the ledger costs: listing the driver's allocations inside the process, and what that adds to a report.

usage: ledger.py VRAMTAP [RUNS [BASE]]

The target is a C program (tests/targets/ledger_calls.c) with so many small allocations, on the simulated device where
"sh tests/run.sh" has set that up; with LEDGER_DEVICE=real on the machine's own. RUNS (10) is how often; the smallest and the median
are printed. BASE is an older vramtap, whose wall time is printed, too. Exits with 1 if the smallest missed a figure that must be
reached: see TARGETS. A simulated driver answers in less time than a real one, so only a run on a device proves anything about it.
"""
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
import ledger  # noqa: E402

# By number of allocations: milliseconds inside; the whole ledger, without the account.
TARGETS = {0: {"all": 10}, 1000: {"inside": 2, "all": 10}, 100000: {"inside": 150}}


def wall(program, pid):
    with tempfile.TemporaryFile() as out:
        begin = time.perf_counter()
        subprocess.run([program, "report", "--no-owners", str(pid)], stdout=out, stderr=subprocess.STDOUT, check=False)
        return (time.perf_counter() - begin) * 1e3


def main():
    runs = int(sys.argv[2]) if len(sys.argv) > 2 else 10
    missed = False
    real = os.environ.get("LEDGER_DEVICE") == "real"
    for count, targets in TARGETS.items():
        with ledger.Calls(env=dict(os.environ) if real else ledger.simulated()) as calls:
            calls.allocate("malloc", 64 << 20)
            calls("many", count, 4096)
            figures = {}
            for _ in range(runs):
                data = harness.report_json(calls.pid, "--no-owners")
                figures.setdefault("inside", []).append(data["ledger"]["inside_ms"])
                figures.setdefault("all", []).append(data["ledger"]["total_ms"])
                figures.setdefault("wall", []).append(wall(os.environ["VRAMTAP"], calls.pid))
                if len(sys.argv) > 3:
                    figures.setdefault("wall of BASE", []).append(wall(sys.argv[3], calls.pid))
            print(f"{count:,} allocations, {data['ledger']['probes']:,} addresses asked for:")
            for name, values in figures.items():
                print(f"  {name:14} {min(values):8.2f} ms, median {statistics.median(values):8.2f}"
                      + (f"  at most {targets[name]}" if name in targets else ""))
            missed |= any(min(figures[name]) > most for name, most in targets.items())
            missed |= not count <= len(data["ledger"]["ranges"])
    sys.exit(1 if missed else 0)


main()
