#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""owners_matrix.py [--run | VERSION... | VERSION-PYTHON...] [--jobs N] [--no-setup]: the owners that reports name, against
tests/targets/torch_owners.py, a program that knows them: each official PyTorch release on each interpreter that it has a wheel
for, on the simulated device.

A row is three processes: one after its forward pass, which is asked as usual, with --read-only and with --no-stop; one within
backward(), after a step of the optimizer; and tests/targets/torch_checkpoint.py. The rows marked "all" have all states, one with
the GIL held for ever among them, and a core. Each answer is judged block by block (tests/functional/owners_truth.py). What that
file lists as not told yet is counted as wrong in the table; anything else that is wrong fails.

Prints a line for each row and at last the table that doc/matrix.md keeps. The rows are in tests/setup/torch-python-versions;
--run takes those marked "run", and nothing that takes long."""
import argparse
import concurrent.futures
import json
import os
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "functional"))

from core import gcore, report_core  # noqa: E402
from harness import CACHE, CLEAN_UP, COMPLETE, PARTIAL, RUN_SIM, SOURCE, Job, check, equal, report_json, scratch  # noqa: E402
from owners_truth import judge  # noqa: E402

PROGRAM = os.path.join(SOURCE, "tests", "targets", "torch_owners.py")
CHECKPOINTS = os.path.join(SOURCE, "tests", "targets", "torch_checkpoint.py")
SETUP = os.path.join(SOURCE, "tests", "setup")
# The simulated device's memory is the process's own, and gdb writes all of it into a core.
SMALL = {"SIMCUDA_DEVICES": "1", "SIMCUDA_CTX_MB": "16", "SIMCUDA_MEM_MB": "512"}
COLUMNS = ("PyTorch", "Python", "reports", "blocks compared", "right", "certain", "wrong", "wrong cases")


def listed(mark):
    """[(release, interpreter)] of the list; with a mark, those that have it (3.8:run)."""
    rows = []
    with open(os.path.join(SETUP, "torch-python-versions"), encoding="ascii") as file:
        for line in file:
            words = line.split("#")[0].split()
            for word in words[1:]:
                python, _, marks = word.partition(":")
                if not mark or mark in marks.split(","):
                    rows.append((words[0], python))
    return rows


def program(row, *args, path=PROGRAM):
    argv = ["sh", RUN_SIM, "-".join(row), "--", "python", "-W", "ignore", path, *args]
    return Job(argv, ready="ready", env=dict(os.environ, **SMALL), stderr=subprocess.DEVNULL)


def read(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


class Row:
    """What was found for one release on one interpreter."""

    def __init__(self, row):
        self.row = row
        self.reports = self.judged = self.right = self.doubted = 0
        self.known, self.unforeseen, self.skipped, self.doubts = {}, {}, set(), set()

    def take(self, what, report, truth):
        equal(report["owners"]["state"], "read", f"owners of the report {what}")
        result = judge(report, truth)
        check(result.judged > 250, f"few blocks were compared in the report {what}", result.judged)
        equal(result.lies, [], f"what is wrong and certain in the report {what}")
        self.reports += 1
        self.judged += result.judged
        self.right += result.right
        self.doubted += len(result.doubted)
        self.doubts.update(result.doubted)
        unforeseen = set(result.unforeseen())
        for line in unforeseen:
            self.unforeseen.setdefault(line, []).append(what)
        for line in set(result.wrong + result.facts) - unforeseen:
            self.known[line.split(": ")[0]] = line
        self.skipped.update(truth["skipped"])

    def table(self):
        cases = sorted(self.known) + sorted({line.split(": ")[0] for line in self.unforeseen})
        return dict(zip(COLUMNS, (*self.row, self.reports, self.judged, self.right, self.judged - self.doubted,
                                  self.judged - self.right, ", ".join(cases))))


def ask(job):
    path = scratch("truth")
    job.do(path)
    return read(path)


STATES = {"after_loss": ((), ("--read-only",), ("--no-stop",)), "in_backward": ((),)}
MORE_STATES = {"in_forward": ((),), "in_expression": ((), ("--read-only",)), "in_step": ((),), "after_step": ((),)}


def run_row(row, options):
    found = Row(row)
    everything = row in listed("all") and not options.run
    for state, ways in dict(STATES, **(MORE_STATES if everything else {})).items():
        with program(row, state) as job:
            reports = [(" ".join((state, *args)), report_json(job.pid, *args, expect=(COMPLETE, PARTIAL))) for args in ways]
            if state == "after_loss" and everything:
                with gcore(job.pid) as core:
                    reports.append(("core", report_core(core, expect=(COMPLETE, PARTIAL))))
            truth = ask(job)
        for what, report in reports:
            found.take(what, report, truth)
    with program(row, path=CHECKPOINTS) as job:
        report = report_json(job.pid, expect=(COMPLETE, PARTIAL))
        found.take("checkpoints", report, ask(job))
    if everything:
        path = scratch("truth")
        with program(row, "gil_held", path) as job:
            report = report_json(job.pid, "--read-only", expect=(COMPLETE, PARTIAL))
        found.take("gil_held --read-only", report, read(path))
    return found


def grouped(value):
    return f"{value:,}" if isinstance(value, int) else str(value)


def print_table(rows):
    print("| " + " | ".join(COLUMNS) + " |\n|" + "---|" * len(COLUMNS))
    for found in rows:
        row = found.table()
        print("| " + " | ".join(grouped(row[c]) for c in COLUMNS) + " |")


def set_up(rows):
    for version in dict.fromkeys(version for version, _ in rows):
        pythons = [python for other, python in rows if other == version]
        subprocess.run(["sh", os.path.join(SETUP, "torch-python.sh"), version, *pythons], check=False)


def arguments():
    parser = argparse.ArgumentParser(description="The matrix of PyTorch releases and interpreters.")
    parser.add_argument("--run", action="store_true")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--no-setup", action="store_true", help="what is not in the cache is not fetched")
    parser.add_argument("versions", nargs="*")
    return parser.parse_args()


def main():
    options = arguments()
    rows = listed("run" if options.run else None)
    if options.versions:
        rows = [row for row in rows if row[0] in options.versions or "-".join(row) in options.versions]
    if not rows:
        print(f"no row of {' '.join(options.versions)}")
        return 0
    if not options.no_setup:
        set_up(rows)
    wanted = rows
    rows = [row for row in rows if os.path.exists(os.path.join(CACHE, "torch-python", "-".join(row), "python"))]
    for row in wanted:
        if row not in rows:
            print(f"skip PyTorch {row[0]} on Python {row[1]}: it is not set up", flush=True)
    done, failed, begin = [], 0, time.monotonic()
    try:
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            for row, job in [(row, pool.submit(run_row, row, options)) for row in rows]:
                label = f"PyTorch {row[0]} on Python {row[1]}"
                try:
                    found = job.result()
                except (AssertionError, OSError, ValueError, KeyError, subprocess.SubprocessError) as error:
                    failed += 1
                    print(f"FAILED {label}: {error}", flush=True)
                    continue
                done.append(found)
                failed += bool(found.unforeseen)
                print(f"{'FAILED' if found.unforeseen else 'ok'} {label}: {found.reports} reports, {found.judged} blocks, "
                      f"{found.right} right, {found.judged - found.right} wrong ({', '.join(sorted(found.known))}), "
                      f"{found.doubted} not certain ({', '.join(sorted(found.doubts))}); "
                      f"skipped: {', '.join(sorted(s.split(': ')[0] for s in found.skipped))}", flush=True)
                for line, reports in sorted(found.unforeseen.items()):
                    print(f"    {line[:300]} ({', '.join(reports)})", flush=True)
    finally:
        for path in CLEAN_UP:
            subprocess.run(["rm", "-rf", path], check=False)
    print_table(done)
    print(f"{len(done) - sum(bool(f.unforeseen) for f in done)} of {len(wanted)} rows as they should be, {sum(f.judged for f in done):,} blocks compared, "
          f"{time.monotonic() - begin:.0f} s")
    return 1 if failed or not done else 0


if __name__ == "__main__":
    sys.exit(main())
