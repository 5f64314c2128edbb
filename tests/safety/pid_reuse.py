#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A process ends while vramtap looks at it, and another one gets its number. That one must be left alone: it is neither stopped nor
injected into, and nothing of it is taken for the first one's.

vramtap stands still meanwhile (SIGSTOP, at each fault point where the build has them, and at random instants). What it may do depends
on whether it had come to know the first process: then it has a file of that one's /proc open, or a lock on it.
"""
import collections
import contextlib
import os
import random
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "functional"))
import attacks  # pylint: disable=wrong-import-position
import census  # pylint: disable=wrong-import-position
import report_hostile  # pylint: disable=wrong-import-position
from harness import BUILD, QUICK, VRAMTAP, Skip, check, main, wait_until  # pylint: disable=wrong-import-position
from victims import Stats  # pylint: disable=wrong-import-position

ROUNDS = 60 if QUICK else 600
REBORN = os.path.join(BUILD, "tests", "safety", "reborn")
FIRST, SECOND = (os.path.join(BUILD, "tests", "safety", f"hostile_{name}") for name in ("state", "calls"))
COMMANDS = [["report", "--json", "-", "PID"], ["report", "--read-only", "--json", "-", "PID"], ["stacks", "--json", "-", "PID"],
            ["report", "--again=2x20ms", "PID"], ["record", "PID", "on"], ["record", "PID", "status"], ["triage", "PID"]]


class Second:
    """The one that has the number now."""

    def __init__(self, pid):
        self.pid, self.stats = pid, Stats()
        done = subprocess.run([REBORN, str(pid), SECOND, self.stats.path], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL, check=False, env=dict(os.environ, LD_PRELOAD=report_hostile.fake_libcuda()))
        if done.returncode:
            raise Skip("clone3() gives no process a given number here")
        wait_until(self.stats.is_ready, 30, "the second process is ready")

    def unharmed(self, what):
        check(not census.ours(self.pid), f"{what}: no thread of ours is in the second process")
        check(census.maps(self.pid, True)[1:] == (0, 0), f"{what}: nothing of ours is mapped there", census.maps(self.pid, True))
        errors = sum(t.errors for t in self.stats.threads())
        check(not errors, f"{what}: the second process saw {self.stats.first_error()}")

    def was_stopped(self):
        """A stop shows as EINTR in some calls where nobody takes it back, and in the number of switches; here the first is enough."""
        return sum(t.eintr for t in self.stats.threads())

    def end(self):
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)


def start_first():
    stats = Stats()
    proc = subprocess.Popen([FIRST, stats.path], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                            env=dict(os.environ, LD_PRELOAD=report_hostile.fake_libcuda()))
    wait_until(stats.is_ready, 30, "the first process is ready")
    return proc


def knows(tool, pid):
    """Whether it holds something of the process: a directory or file of its /proc, or a pidfd."""
    for fd in census.entries(tool, "fd"):
        with contextlib.suppress(OSError):
            link = os.readlink(f"/proc/{tool}/fd/{fd}")
            if link.startswith(f"/proc/{pid}/") or link == f"/proc/{pid}" or "pidfd" in link:
                return True
    return False


def is_traced_by(pid, tool):
    tracers = {s.get("TracerPid") for s in census.statuses(pid).values()}
    return bool(tracers & set(census.entries(tool, "task")))


def tool_is_stopped(tool):
    return census.status(tool).get("State", "Z")[0] in "TZX"


def replaced(first, tool):
    """Ends the first process for good, if it can be: as long as vramtap traces it, its number is not free."""
    pid = first.pid
    if is_traced_by(pid, tool):
        return None
    first.kill()
    first.wait()
    return Second(pid)


def goes_on(tool):
    """It may come to the same point again."""
    for _ in range(300):
        tool.send_signal(signal.SIGCONT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            return tool.communicate(timeout=0.2)
    raise AssertionError("vramtap did not end in 60 s")


def attack(command, point, delay, counts):
    first = start_first()
    pid, env = first.pid, dict(os.environ)
    if point:
        env["VRAMTAP_FAULT"] = f"stop:{point}"
    tool = subprocess.Popen([VRAMTAP, *(str(pid) if a == "PID" else a for a in command)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, env=env)
    second = None
    try:
        if point:
            wait_until(lambda: tool_is_stopped(tool.pid), 60, "vramtap stands, or has ended")
        else:
            time.sleep(delay)
            tool.send_signal(signal.SIGSTOP)
            wait_until(lambda: tool_is_stopped(tool.pid), 60, "vramtap stands, or has ended")
        known = knows(tool.pid, pid)
        if tool.poll() is None and known:
            second = replaced(first, tool.pid)
        counts["replaced" if second else "not replaced"] += 1
        out, err = goes_on(tool)
        if second:
            what = f"{' '.join(command)}, {point or f'{delay:.4f} s'}"
            counts[f"exit {tool.returncode}"] += 1
            check(tool.returncode in attacks.DOCUMENTED, f"{what}: exit code", tool.returncode, err)
            check(b"hostile_calls" not in out, f"{what}: nothing of the second process is in the output", err, out[-2000:])
            second.unharmed(what)
            check(not second.was_stopped(), f"{what}: the second process was stopped")
    finally:
        for one in (tool, first):
            if one.poll() is None:
                one.send_signal(signal.SIGCONT)
                one.kill()
                one.wait()
        if second:
            second.end()


def needs_root():
    if os.geteuid():
        raise Skip("only root can give a process its number")


def test_at_fault_points():
    needs_root()
    points, counts = attacks.fault_points(), collections.Counter()
    if not points:
        raise Skip("this build has no fault points")
    for point in points:
        for command in COMMANDS[:1] + ([["record", "PID", "on"]] if point.startswith("record") else []):
            attack(command, point, 0, counts)
    print(f"  FIGURE {dict(counts)}")


def duration(command):
    """Of a command that nobody disturbs."""
    first = start_first()
    begin = time.monotonic()
    subprocess.run([VRAMTAP, *(str(first.pid) if a == "PID" else a for a in command)], stdin=subprocess.DEVNULL, capture_output=True,
                   timeout=60, check=False)
    took = time.monotonic() - begin
    first.kill()
    first.wait()
    return took


def test_at_random_instants():
    needs_root()
    rng, counts = random.Random(), collections.Counter()
    usual = [duration(command) for command in COMMANDS]
    for _ in range(ROUNDS):
        which = rng.randrange(len(COMMANDS))
        attack(COMMANDS[which], None, rng.random() * usual[which], counts)
    print(f"  FIGURE {dict(counts)}")
    check(counts["replaced"], "rounds in which the process was replaced", counts)


if __name__ == "__main__":
    main(globals())
