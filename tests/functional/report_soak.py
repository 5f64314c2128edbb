#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Many whole reports of a victim that checks itself, under load, and many that are killed at a random instant.

Default: 60 and 60 a victim; VRAMTAP_SOAK=1: 1,000 and 500, the numbers that doc/results.md quotes.
"""
import contextlib
import json
import os
import random
import signal
import subprocess
import time

import report_hostile
import report_torch
from harness import (BUILD, CACHE, COMPLETE, PARTIAL, QUICK, SOURCE, VRAMTAP, Skip, check, equal, main, proc_state, target, wait_until)
from victims import Stats

REPORTS = 60 if QUICK else 1000
KILLS = 60 if QUICK else 500
PATIENCE_S = 12  # a helper whose tool was killed ends by itself within 5 s

class Victim:
    """tests/targets/victim: threads in every kind of system call, each checking what it sees."""

    args = ()
    share = 1

    def __init__(self):
        self.stats = Stats()
        self.context = self.start()

    def start(self):
        # Only a process that has the driver mapped is injected into.
        return target([os.path.join(BUILD, "tests", "targets", "victim"), self.stats.path],
                      env=dict(os.environ, LD_PRELOAD=report_hostile.fake_libcuda()))

    def __enter__(self):
        self.proc = self.context.__enter__()
        self.pid = self.proc.pid
        wait_until(self.stats.is_ready, 60, "victim ready")
        return self

    def __exit__(self, *exc):
        return self.context.__exit__(*exc)

    def check_unharmed(self):
        before = {t.name: t.rounds for t in self.stats.threads()}
        wait_until(lambda: all(t.rounds > before[t.name] for t in self.stats.threads()), 20, "every thread of the victim gets on")
        errors = {t.name: t.errors for t in self.stats.threads() if t.errors}
        equal(errors, {}, f"errors that the victim saw ({self.stats.first_error()})")


class Busy:
    """The real allocator with threads that allocate and free all the time."""

    args = ()
    share = 1

    def __init__(self):
        self.driver = report_torch.Driver(report_torch.versions()[0])

    def __enter__(self):
        self.driver.__enter__()
        self.pid = self.driver.pid
        self.driver("alloc 2000 4000")
        for _ in range(3):
            self.driver("busy 20")
        return self

    def __exit__(self, *exc):
        return self.driver.__exit__(*exc)

    def check_unharmed(self):
        theirs, _ = self.driver.snapshot()
        check(sum(b[5] == "allocated" and b[4] == 4000 for b in theirs) >= 2000, "blocks of the target")


class Asked(Victim):
    """A process that uses PyTorch, and that is asked for its blocks through its interpreter; victim.py checks itself."""

    args = ("--ask-pytorch",)
    share = 6 if QUICK else 1  # a sixth as many: its threads leave little of the processors

    def start(self):
        version = report_torch.versions()[-1]
        if not os.path.exists(os.path.join(CACHE, "torch", version, "site", "torch")):
            raise Skip(f"the Python part of PyTorch {version} is not set up")
        return target(["sh", report_torch.RUN_SIM, version, "--", "python", os.path.join(SOURCE, "tests", "targets", "victim.py"),
                       self.stats.path, "torch"])


REASONS = {}  # why reports were partial
METHODS = {}  # how their blocks came about


@contextlib.contextmanager
def nothing_left_behind(victim):
    """No thread, descriptor or mapping more than before, apart from the helper's image."""
    def census():
        with open(f"/proc/{victim.pid}/maps", encoding="utf-8", errors="replace") as maps:
            ours = sum("vramtap-helper" in line for line in maps)
        return len(os.listdir(f"/proc/{victim.pid}/task")), len(os.listdir(f"/proc/{victim.pid}/fd")), ours

    run(victim)  # the first one brings the image in
    time.sleep(0.3)
    threads, descriptors, mapped = census()
    yield
    wait_until(lambda: census()[0] <= threads, PATIENCE_S, "no thread of ours is left")
    wait_until(lambda: census()[1] <= descriptors, 5, "no descriptor of ours is left")
    print(f"  mappings of the image: {mapped} before, {census()[2]} after")
    check(proc_state(victim.pid) in "SR", "state", proc_state(victim.pid))
    victim.check_unharmed()


def run(victim):
    done = subprocess.run([VRAMTAP, "report", "--json", "-", *victim.args, str(victim.pid)], stdin=subprocess.DEVNULL,
                          capture_output=True, timeout=60, check=False)
    check(done.returncode in (COMPLETE, PARTIAL), "exit code", done.returncode, done.stderr)
    data = json.loads(done.stdout)
    METHODS[data["pytorch"]["method"]] = METHODS.get(data["pytorch"]["method"], 0) + 1
    for diag in data["diagnostics"]:
        if diag["level"] == "missing":
            REASONS[diag["code"]] = REASONS.get(diag["code"], 0) + 1
    return done.returncode


def reports(victim):
    codes = {}
    wanted = REPORTS // victim.share
    for i in range(wanted):
        code = run(victim)
        codes[code] = codes.get(code, 0) + 1
        if i % 100 == 99:
            victim.check_unharmed()
    print(f"  FIGURE {wanted} reports in a row: exit codes {codes} {REASONS} {METHODS}, target unharmed")


def kills(victim):
    rng = random.Random(2026)
    killed = attempts = 0
    begin = time.monotonic()
    run(victim)
    length = max(time.monotonic() - begin, 0.02)
    wanted = KILLS // victim.share
    while killed < wanted and attempts < 5 * wanted:  # some finish before
        attempts += 1
        tool = subprocess.Popen([VRAMTAP, "report", *victim.args, str(victim.pid)], stdin=subprocess.DEVNULL,
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(rng.random() * length)
        tool.send_signal(signal.SIGKILL)
        killed += tool.wait() == -signal.SIGKILL
        check(proc_state(victim.pid) != "T", "the target stayed stopped after kill", killed)
        if attempts % 50 == 0:
            victim.check_unharmed()
    print(f"  FIGURE {attempts} reports, {killed} of them killed at a random instant: target unharmed")


def test_victim_reports():
    with Victim() as victim, nothing_left_behind(victim):
        reports(victim)


def test_victim_kills():
    with Victim() as victim, nothing_left_behind(victim):
        kills(victim)


def test_busy_allocator_reports():
    with Busy() as victim, nothing_left_behind(victim):
        reports(victim)


def test_busy_allocator_kills():
    with Busy() as victim, nothing_left_behind(victim):
        kills(victim)


def test_asked_reports():
    METHODS.clear()
    with Asked() as victim, nothing_left_behind(victim):
        reports(victim)
        check(METHODS.get("interpreter", 0) > REPORTS // victim.share // 2, "PyTorch was hardly ever asked", METHODS)


def test_asked_kills():
    with Asked() as victim, nothing_left_behind(victim):
        kills(victim)


if __name__ == "__main__":
    main(globals())
