#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""matrix.py [--run | --patches | VERSION...] [--seed N] [--operations N] [--jobs N]: the real libc10_cuda.so of each PyTorch
release on the simulated device, through a random sequence of a million allocations, frees, streams, private pools, pending frees,
two devices and expandable segments on and off. After every thousand the walk from outside, the walk by the injected helper and the
library's own snapshot must be equal, block for block and number for number (matrix_compare.c); after every hundred thousand so
must be what "vramtap report --json" and "--read-only" print.

The sequence depends on the seed alone. What a release does not have is counted, and said. Prints a line for each release and
at last the table that doc/matrix.md keeps. The releases are in tests/setup/torch-lib-versions; --run takes those marked "run"."""
import argparse
import collections
import concurrent.futures
import os
import random
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "functional"))

import torch_truth  # noqa: E402
from harness import BUILD, CACHE, COMPLETE, PARTIAL, SOURCE, check, equal, report_json, target  # noqa: E402

COMPARE = os.path.join(BUILD, "tests", "matrix", "matrix_compare")
BETWEEN = 1000      # operations between two comparisons
REPORT_EVERY = 100  # comparisons
LIMIT = 3600        # seconds for a release, after which something hangs
COLUMNS = ("release", "CUDA", "C++ ABI", "layout", "operations", "comparisons", "reports", "blocks compared", "most at once",
           "private", "expandable", "pending", "result")  # of the table; a row has "seconds" besides


def listed(mark):
    """The releases of the list that have this mark; all that are no mere patches without one."""
    with open(os.path.join(SOURCE, "tests", "setup", "torch-lib-versions"), encoding="ascii") as file:
        lines = [line.split() for line in file if line.strip() and not line.startswith("#")]
    return [words[0] for words in lines if (mark in words if mark else "patch" not in words)]


class NotThere(Exception):
    """The release has no such feature."""


class Allocator:
    """c10_driver with the allocator of one release, and matrix_compare attached to it."""

    def __init__(self, version, directory):
        program = os.path.join(CACHE, "torch-lib", version, "c10_driver")
        check(os.path.exists(program), f"PyTorch {version} is not set up: sh tests/setup/torch-lib.sh {version}")
        self.path = os.path.join(directory, "snapshot")
        self.log = collections.deque(maxlen=60)
        # So much memory that the allocator never waits for pending frees when it runs out: they end when the sequence says so.
        env = dict(os.environ, LD_LIBRARY_PATH=os.path.join(CACHE, "simcuda"), SIMCUDA_MEM_MB="65536")
        self.errors = open(os.path.join(directory, "errors"), "a+", encoding="utf-8", errors="replace")
        self.context = target([program], ready="ok ready", bufsize=0, env=env, stderr=self.errors)

    def __enter__(self):
        self.proc = self.context.__enter__()
        self.pid = self.proc.pid
        self.compare = self.comparer()
        return self

    def __exit__(self, *exc):
        self.kill()
        if self.compare.returncode is None:
            self.compare.communicate()
        self.errors.close()
        return self.context.__exit__(*exc)

    def kill(self):
        self.compare.kill()
        self.proc.kill()

    def end(self):
        """Both are well after all that, and end as they should (with sanitizers: without leaks)."""
        out, _ = self.compare.communicate()
        equal((out, self.compare.returncode), ("", 0), "the end of matrix_compare")
        self("quit")
        equal(self.proc.wait(60), 0, "the end of the target")

    def last_errors(self):
        """What the library said at last: that memory was spent, which the sequence does on purpose, or why it gave up."""
        self.errors.seek(0)
        return "".join(self.errors.readlines()[-5:])

    def comparer(self):
        return subprocess.Popen([COMPARE, str(self.pid)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __call__(self, command):
        self.log.append(command)
        self.proc.stdin.write(command.encode() + b"\n")
        answer = self.proc.stdout.readline().decode().strip()
        if answer.startswith("n/a"):
            raise NotThere(answer)
        check(answer.startswith("ok"), f"the driver's answer to {command!r}: {answer!r}")
        return answer[3:]

    def snapshot(self):
        self(f"snapshot {self.path}")
        return self.path

    def views_equal(self):
        """The three views are equal; returns what was counted, and the layout's name."""
        self.compare.stdin.write(self.snapshot() + "\n")
        self.compare.stdin.flush()
        answer = self.compare.stdout.readline()
        if not answer.startswith("equal "):
            check(False, f"the views differ:\n{answer}{self.compare.communicate()[0]}")
        words = answer.rstrip("\n").split(" ", 8)
        return [int(w) for w in words[1:8]], words[8]

    def reports_equal(self):
        """What the program prints is equal as well. On a machine that is busy an injection may not be in time."""
        blocks, stats = torch_truth.of_driver_snapshot(self.snapshot())
        for args, method in (((), "inside"), (("--read-only",), "outside")):
            for attempt in range(10):
                data = report_json(self.pid, *args, expect=(COMPLETE, PARTIAL), timeout=600)
                if all(a["method"] == method for a in data["pytorch"]["allocators"]) or attempt == 9:
                    break
            torch_truth.same_as_snapshot(data, blocks, stats, method)


# What to change in a snapshot, so that it is no longer true: which lines, which word of them, and into what.
LIES = (
    ("block", 4, lambda word: str(int(word) + 512)),
    ("block", 3, lambda word: hex(int(word, 16) + 512)),
    ("block", 6, lambda word: "inactive" if word != "inactive" else "active_allocated"),
    ("block", 7, lambda word: hex(int(word, 16) + 64)),
    ("block", 8, lambda word: "0.999999999"),
    ("block", 10, lambda word: "small" if word == "large" else "large"),
    ("stats", 3, lambda word: str(int(word) + 1)),
    ("stats", 4, lambda word: str(int(word) + 1)),
    ("block", None, None),  # the line is left out
)


def lies_are_noticed(allocator, rng):
    """A comparison that cannot fail would be worth nothing."""
    with open(allocator.snapshot(), encoding="ascii") as file:
        lines = file.read().splitlines()
    for kind, at, change in LIES:
        lie = list(lines)
        i = rng.choice([i for i, line in enumerate(lines) if line.startswith(kind)])
        words = lie[i].split()
        if change:
            words[at] = change(words[at])
            lie[i] = " ".join(words)
        else:
            del lie[i]
        with open(allocator.path, "w", encoding="ascii") as file:
            file.write("\n".join(lie) + "\n")
        out, _ = allocator.comparer().communicate(allocator.path + "\n")
        check(out.startswith("differs"), f"a wrong snapshot was taken for right: {lines[i]} became {lie[i]}:", out)


class Sequence:
    """A random sequence of commands; counts what they do. What may wait for pending frees is not done while there are some."""

    def __init__(self, allocator, rng):
        self.do, self.rng = allocator, rng
        self.pending = False
        self.operations = 0
        self.not_there = set()

    def some(self):
        """Exactly BETWEEN operations."""
        end = self.operations + BETWEEN
        for _ in range(self.rng.randrange(4)):
            self.switch()
            self.special()
            self.random(self.rng.randrange(1, 100))
        self.switch()
        self.random(end - self.operations)

    def switch(self):
        self.do(f"device {self.rng.randrange(2)}")
        if self.rng.random() < 0.2:
            try:
                self.do(f"expandable {self.rng.choice(['on', 'off'])}")
            except NotThere as reason:
                self.not_there.add(str(reason).removeprefix("n/a "))

    def random(self, count):
        self.do(f"random {self.rng.randrange(1 << 30)} {count}")
        self.operations += count

    def special(self):
        what = self.rng.random()
        if what < 0.25:
            self.count("pending", self.rng.randrange(1, 20))
            self.pending = True
        elif what < 0.5 and self.pending:
            self.do("release")
            self.pending = False
        elif what < 0.55:
            self.count("private", self.rng.randrange(1, 20))
        elif what < 0.65:
            self.do(f"stream {self.rng.randrange(4)}")
        elif what < 0.7:
            self.count("alloc", self.rng.choice([1, 10, 230]))
        elif what < 0.72:
            self.do("free all")
            self.operations += 1
        elif what < 0.8 and not self.pending:
            self.do(self.rng.choice(["emptycache", "oom"]))
            self.operations += 1

    def count(self, command, n):
        self.do(f"{command} {n} {int(2 ** self.rng.uniform(1, 24))}")
        self.operations += n


def run_release(version, options):
    """A row of the table, or an exception."""
    totals, most, layouts = [0] * 7, [0, 0], set()
    comparisons = reports = 0
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="vramtap-matrix-") as directory, Allocator(version, directory) as allocator:
        sequence = Sequence(allocator, random.Random(options.seed))
        watchdog = threading.Timer(LIMIT, allocator.kill)
        watchdog.start()
        try:
            about = allocator("about").split()
            while sequence.operations < options.operations:
                sequence.some()
                counts, layout = allocator.views_equal()
                layouts.add(layout)
                comparisons += 1
                totals = [a + b for a, b in zip(totals, counts)]
                most = [max(a, b) for a, b in zip(most, counts)]
                if comparisons % REPORT_EVERY == 0:
                    allocator.reports_equal()
                    reports += 2
                if comparisons == 20:
                    lies_are_noticed(allocator, random.Random(options.seed))
            allocator.end()
        except (AssertionError, OSError, subprocess.TimeoutExpired) as error:
            raise AssertionError(f"after {sequence.operations} operations and {comparisons} comparisons: {error}\n"
                                 f"{allocator.last_errors()}the last commands: {'; '.join(allocator.log)}\n"
                                 f"again: matrix.py --seed {options.seed} --operations {options.operations} {version}") from error
        finally:
            watchdog.cancel()
    blocks, _, pending, _, private, expandable, unknown = totals
    check(blocks and pending and private, "some kinds of blocks never came", totals)
    check(expandable or sequence.not_there, "no block was in an expandable segment", totals)
    check(len(layouts) == 1, "more than one layout was found:", layouts)
    result = "equal"
    if sequence.not_there:
        result += "; n/a: " + ", ".join(sorted(sequence.not_there))
    if unknown:
        result += f"; n/a: the snapshot does not say in which pool {unknown} blocks were"
    row = dict(zip(COLUMNS, (version, about[1], about[3], layouts.pop(), sequence.operations, comparisons, reports, blocks,
                              f"{most[0]} in {most[1]} segments", private, expandable or "n/a", pending, result)))
    row["seconds"] = time.monotonic() - begin
    return row


def grouped(value):
    return f"{value:,}" if isinstance(value, int) else str(value)


def table(rows):
    print("| " + " | ".join(COLUMNS) + " |\n|" + "---|" * len(COLUMNS))
    for row in rows:
        print("| " + " | ".join(grouped(row[c]) for c in COLUMNS) + " |")


def arguments():
    parser = argparse.ArgumentParser(description="The matrix of PyTorch releases.")
    parser.add_argument("--run", action="store_true")
    parser.add_argument("--patches", action="store_true")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--operations", type=int, default=1000000)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--no-setup", action="store_true", help="what is not in the cache is not fetched")
    parser.add_argument("versions", nargs="*")
    return parser.parse_args()


def main():
    options = arguments()
    versions = options.versions or (listed("run") if options.run else listed(None) + (listed("patch") if options.patches else []))
    if not options.no_setup:
        subprocess.run(["sh", os.path.join(SOURCE, "tests", "setup", "torch-lib.sh"), *versions], check=False)
    rows, failed, begin = [], 0, time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        jobs = [pool.submit(run_release, version, options) for version in versions]
        for version, job in zip(versions, jobs):
            try:
                rows.append(job.result())
                row = rows[-1]
                print(f"ok {version}: {row['operations']:,} operations, {row['comparisons']:,} comparisons, "
                      f"{row['blocks compared']:,} blocks (at most {row['most at once']}), {row['seconds']:.0f} s: "
                      f"{row['result']}", flush=True)
            except AssertionError as error:
                failed += 1
                print(f"FAILED {version}: {error}", flush=True)
    table(rows)
    print(f"{len(rows)} of {len(versions)} releases, {sum(r['operations'] for r in rows):,} operations, "
          f"{sum(r['comparisons'] for r in rows):,} comparisons, {sum(r['blocks compared'] for r in rows):,} blocks, "
          f"seed {options.seed}, {time.monotonic() - begin:.0f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
