#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Random commands of vramtap, and kills, on random hostile targets, each of which checks itself. See doc/HOWTO_TEST.md.

Without arguments: a slice that is bounded by time. A failure prints the attack's seed; --seed KIND/N.M does that one again.
"""
import argparse
import collections
import contextlib
import ctypes
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, *(os.path.join(os.path.dirname(HERE), room) for room in ("functional", "packages"))]

import census  # noqa: E402
import hostile  # noqa: E402
from attacks import Attack, fault_points  # noqa: E402
from harness import CLEAN_UP, Skip  # noqa: E402

SETTLE_S = 0.5  # until the kernel has let go of all threads
PATIENCE_S = 12  # a helper whose tool was killed ends by itself within 5 s
HUNG_S = 20  # a busy machine may take this long for what takes a fraction of a second
PROGRESS_EVERY = 5  # a look whether all threads go on takes as long as the slowest one's round
MAPS_SLACK = 24  # the recorder, and what the C library keeps: stacks of threads, arenas of malloc (hostile.FEW_ARENAS)
LOOKS = 10  # before anything is done
INSIDE_MS = 1000

COUNTS = "attacks", "wanted", "injected", "in_time", "killed", "eintr", "late_twin", "failures"


class Totals:
    """What was done so far, of each kind of target; kept in a file, so that a campaign can go on."""

    def __init__(self, path, seed):
        self.path, self.lock = path, threading.Lock()
        self.kinds, self.failures, self.why_not = {}, [], collections.Counter()
        self.seed, self.next = seed, 0
        if path and os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                saved = json.load(file)
            self.kinds, self.failures, self.seed, self.next = saved["kinds"], saved["failures"], saved["seed"], saved["next"]
            self.why_not = collections.Counter(saved["why_not"])

    def add(self, kind, **counts):
        with self.lock:
            row = self.kinds.setdefault(kind, dict.fromkeys(COUNTS, 0))
            for name, n in counts.items():
                row[name] += n

    def fail(self, kind, text):
        self.add(kind, failures=1)
        with self.lock:
            self.failures.append(text)
        print(f"FAILED {text}", flush=True)

    def sum(self, name):
        with self.lock:
            return sum(row[name] for row in self.kinds.values())

    def take_number(self):
        with self.lock:
            self.next += 1
            return self.next

    def save(self):
        if not self.path:
            return
        with self.lock, open(self.path + ".new", "w", encoding="utf-8") as file:
            json.dump({"seed": self.seed, "next": self.next, "kinds": self.kinds, "failures": self.failures, "why_not": self.why_not}, file,
                      indent=1)
        os.replace(self.path + ".new", self.path)

    def print(self):
        print(f"{'target':<16}{'attacks':>9}{'injected':>10}{'of wanted':>11}{'in 1 s':>8}{'killed':>8}{'EINTR':>7}{'failures':>10}")
        for name, row in [*sorted(self.kinds.items()), ("all", {c: self.sum(c) for c in COUNTS})]:
            ratio = f"{100 * row['in_time'] / row['wanted']:.1f} %" if row["wanted"] else "-"
            print(f"{name:<16}{row['attacks']:>9}{row['injected']:>10}{row['wanted']:>11}{ratio:>8}{row['killed']:>8}{row['eintr']:>7}"
                  f"{row['failures']:>10}")
        if self.why_not:
            print("not injected:", ", ".join(f"{why} {n}" for why, n in self.why_not.most_common()))


def wait_for(condition, seconds):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.005)
    return True


class Control:
    """What the machine does to somebody that nobody touches: how much longer than it should a short sleep takes."""

    def __init__(self):
        self.worst = collections.deque([0.0], maxlen=600)  # of each second
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        second = 0
        while True:
            begin = time.monotonic()
            time.sleep(0.01)
            late = time.monotonic() - begin - 0.01
            if int(begin) != second:
                second = int(begin)
                self.worst.append(late)
            self.worst[-1] = max(self.worst[-1], late)

    def longest(self):
        return max(self.worst)


CONTROL = Control()


def lateness(text):
    """By how many seconds something was too late, if that is what a target says: spy_check_duration()."""
    found = re.search(r"took ([0-9.]+) ms, not ([0-9.]+)$", text)
    return (float(found.group(1)) - float(found.group(2))) / 1000 if found else -1


class Round:
    """One target, its twin that nobody touches, and a number of attacks on it."""

    def __init__(self, kind, seed, totals, usual, points):
        self.seed, self.kind, self.totals, self.usual, self.points = seed, kind, totals, usual.setdefault(kind.name, {}), points
        self.recent = collections.deque(maxlen=PROGRESS_EVERY)
        self.errors = self.eintr = 0
        self.broken = False

    def __enter__(self):
        self.target = hostile.Target(self.kind, self.seed)
        try:
            self.twin = hostile.Target(self.kind, self.seed) if self.kind.twin else None
        except BaseException:
            self.target.kill()
            raise
        time.sleep(0.1)
        self.before = self.census()
        for _ in range(LOOKS):
            time.sleep(0.01)
            self.before.add(self.census())
        return self

    def __exit__(self, *exc):
        for one in filter(None, (self.target, self.twin)):
            one.kill()

    def census(self):
        return census.Census(self.target.pid, [t.tid for t in self.target.stats.threads()], self.kind.by_range)

    def fail(self, text):
        """Anything after it would be the first one's doing."""
        self.broken = True
        self.totals.fail(self.kind.name, f"{self.kind.name}/{self.seed}: {text}; after: {'; '.join(map(str, self.recent))}")

    def attack(self, seed):
        attack = Attack(seed, self.usual, self.points, self.kind.patient, self.kind.executes)
        self.recent.append(attack)
        outcome = attack.run(self.target.pid)
        self.totals.add(self.kind.name, attacks=1, injected=outcome.injected, killed=outcome.killed, wanted=outcome.wanted and self.kind.injectable,
                        in_time=bool(outcome.wanted and self.kind.injectable and not outcome.why_not and outcome.attach_ms <= INSIDE_MS))
        if outcome.why_not and self.kind.injectable:
            with self.totals.lock:
                self.totals.why_not[f"{self.kind.name} {outcome.why_not}"] += 1
        for problem in outcome.problems:
            self.fail(problem)
        # EINTR that a fault may cause shows in the round that each thread is in: it must not be taken for the next attack's doing.
        if (outcome.eintr_allowed and self.kind.counts_eintr) or len(self.recent) == PROGRESS_EVERY:
            self.gets_on(outcome.eintr_allowed or not self.kind.counts_eintr)
            if len(self.recent) == PROGRESS_EVERY and not self.broken:
                self.recent.clear()
        else:
            self.look(False)

    def look(self, eintr_allowed):
        """What can be seen at once."""
        if self.target.proc.poll() is not None:
            self.fail(f"it is dead, status {self.target.proc.returncode}")
            return
        if not wait_for(lambda: not census.disturbed(self.target.pid), SETTLE_S):
            self.fail(f"disturbed: {census.disturbed(self.target.pid)}")
        self.judge_errors(eintr_allowed)

    def judge_errors(self, eintr_allowed):
        threads = list(self.target.stats.threads())
        errors = sum(t.errors for t in threads)
        # The reader of interrupted-read counts its signals there, the signaller those that came too early.
        eintr = sum(t.eintr for t in threads if t.name not in ("interrupted-read", "signaller"))
        if errors > self.errors:
            text = self.target.stats.first_error()
            if self.is_machines_doing(text):
                self.totals.add(self.kind.name, late_twin=1)
                self.broken = True
            else:
                self.fail(f"it saw {text}")
        if eintr > self.eintr:
            self.totals.add(self.kind.name, eintr=eintr - self.eintr)
            if not eintr_allowed:
                self.fail(f"EINTR in {[t.name for t in threads if t.eintr]}")
        self.errors, self.eintr = errors, eintr

    def is_machines_doing(self, text):
        """Somebody that nobody touches saw it, too."""
        twin = self.twin.stats.first_error() if self.twin else ""
        longest, late = CONTROL.longest(), lateness(text)
        if late < 0 or (lateness(twin) < 0 and longest < late / 2):
            return False
        print(f"# {self.kind.name}: {text}; its twin: {twin or 'nothing'}; the runner slept {longest:.1f} s too long", flush=True)
        return True

    def gets_on(self, eintr_allowed=False):
        before = [t.rounds for t in self.target.stats.threads()]

        def stuck():
            return [t.name for t, rounds in zip(self.target.stats.threads(), before) if t.rounds == rounds]

        if not wait_for(lambda: not stuck() or self.target.proc.poll() is not None, HUNG_S):
            self.fail(f"these do not get on: {stuck()}")
        self.look(eintr_allowed)

    def finish(self):
        """What is left of us, when all has settled; and what it says at its end."""
        pid = self.target.pid
        if self.broken:
            return
        if not wait_for(lambda: not census.ours(pid), PATIENCE_S):
            self.fail(f"threads of ours are left: {census.ours(pid)}")
        self.gets_on()
        if self.broken:
            return
        if not wait_for(lambda: not self.changes(self.census()), 2):
            self.fail(f"changed: {self.changes(self.census())}")
        self.judge_errors(False)
        if self.broken:
            return
        code = self.target.end()
        if self.kind.exit_code is not None and code != self.kind.exit_code:
            self.fail(f"its exit code is {code}, {self.target.stats.first_error()}")

    def changes(self, after):
        before, found = self.before, []
        for one, seen in after.signals.items():
            if not seen <= before.signals.get(one, seen):
                found.append(f"{one} {before.signals[one]} {seen}")
        if after.ours or after.recorder > census.RECORDER_MAPPINGS:
            found.append(f"{after.ours} mappings of ours, {after.recorder} of the recorder")
        if after.locked != before.locked:
            found.append(f"locked {before.locked} {after.locked}")
        if after.rest != before.rest:
            found.append(f"{before.rest} {after.rest}")
        if self.kind.steady:
            for name, slack in (("threads", 0), ("descriptors", 0), ("maps", MAPS_SLACK)):
                if getattr(after, name) > getattr(before, name) + slack:
                    found.append(f"{name} {getattr(before, name)} {getattr(after, name)}")
        return found


class Campaign:
    def __init__(self, options):
        self.options = options
        self.totals = Totals(options.state, options.campaign_seed)
        self.points = fault_points()
        self.usual = {}
        self.left_out = {}
        self.end = time.monotonic() + options.minutes * 60 if options.minutes else None
        self.stop = False

    def kinds(self):
        return [k for k in hostile.KINDS.values() if (not self.options.kinds or k.name in self.options.kinds) and k.name not in self.left_out]

    def is_done(self):
        if self.stop or (self.end and time.monotonic() > self.end) or len(self.totals.failures) >= self.options.max_failures:
            return True
        return self.totals.sum("injected") >= self.options.injections and self.totals.sum("killed") >= self.options.kills

    def work(self):
        while not self.is_done():
            kinds = self.kinds()
            if not kinds:
                break
            number = self.totals.take_number()
            kind = random.Random(f"{self.totals.seed}.{number}").choices(kinds, [k.weight for k in kinds])[0]
            try:
                with Round(kind, f"{self.totals.seed}.{number}", self.totals, self.usual, self.points) as one:
                    for i in range(min(kind.attacks, self.options.attacks)):
                        if one.broken or (self.is_done() and i):
                            break
                        one.attack(f"{kind.name}/{self.totals.seed}.{number}.{i}")
                    one.finish()
            except Skip as reason:
                self.left_out[kind.name] = str(reason)
            except Exception as err:  # the runner's own fault is a failure, too
                self.totals.fail(kind.name, f"{kind.name}/{self.totals.seed}.{number}: {err!r}")
                self.left_out[kind.name] = "after that"
            self.totals.save()

    def run(self):
        print(f"campaign {self.totals.seed}, from round {self.totals.next}; fault points: {len(self.points) or 'not in this build'}", flush=True)
        workers = [threading.Thread(target=self.work) for _ in range(self.options.jobs)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        self.totals.print()
        for name, reason in self.left_out.items():
            print(f"left out: {name}: {reason}")
        return 1 if self.totals.failures else 0


def repeat(seed):
    """One attack, on a fresh target."""
    totals = Totals(None, 0)
    kind, numbers = seed.split("/")
    with Round(hostile.KINDS[kind], numbers.rpartition(".")[0], totals, {}, fault_points()) as one:
        one.attack(seed)
        print(one.recent[-1] if one.recent else seed)
        one.finish()
    totals.print()
    return 1 if totals.failures else 0


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--injections", type=int, default=1 << 60)
    parser.add_argument("--kills", type=int, default=1 << 60)
    parser.add_argument("--minutes", type=float, default=1.5, help="0: until the counts are reached")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--attacks", type=int, default=100, help="on one target, at most")
    parser.add_argument("--kinds", type=lambda text: text.split(","))
    parser.add_argument("--state", help="a file to go on from, outside the source tree")
    parser.add_argument("--campaign-seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument("--max-failures", type=int, default=20)
    parser.add_argument("--seed", help="do this attack again: KIND/CAMPAIGN.ROUND.ATTACK")
    return parser.parse_args()


def own_mounts():
    """What is mounted for the targets is gone with the campaign."""
    clone_newns = 0x20000
    if ctypes.CDLL(None, use_errno=True).unshare(clone_newns) == 0:
        subprocess.run(["mount", "--make-rprivate", "/"], check=False, stderr=subprocess.DEVNULL)


def main():
    options = arguments()
    own_mounts()
    try:
        if options.seed:
            return repeat(options.seed)
        campaign = Campaign(options)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: setattr(campaign, "stop", True))
        return campaign.run()
    finally:
        for path in CLEAN_UP:
            with contextlib.suppress(OSError):
                shutil.rmtree(path)


if __name__ == "__main__":
    sys.exit(main())
