# SPDX-License-Identifier: Apache-2.0
"""A seeded training, alone and with many reports and the recorder switched on and off meanwhile: the same bits, and hardly slower."""
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time

from triage import HERE, WORLD, count_gpus, together
from harness import COMPLETE, PARTIAL, VRAMTAP, Job, Skip, check, equal, main

REPORTS, SWITCHES = 200, 50
# In turn; a report that names owners takes much longer than one without.
OPTIONS = [[], *[["--no-owners"], ["--no-owners", "--read-only"], ["--no-owners"], ["--no-owners", "--no-streams"], ["--no-owners", "--again=2x50ms"]] * 3]
SPREAD_S = 25  # the attacks, at least
SLOWER = 0.01  # of that, beyond the pauses that vramtap states
# Sequences of a batch, and steps that are timed together: what a step waits for is the GPU, or Python.
LARGE, SMALL = (64, 20), (8, 100)


class Trainer(Job):
    def __init__(self, store, rank, world, batch):
        env = dict(os.environ, RANK=str(rank), WORLD_SIZE=str(world), CUBLAS_WORKSPACE_CONFIG=":4096:8")
        super().__init__([sys.executable, os.path.join(HERE, "survives_target.py"), store, str(batch)], env=env)


def run_tool(*words):
    """Its exit code, and what it says as JSON."""
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "said.json")
        done = subprocess.run([VRAMTAP, *words, "--json", path], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                              timeout=60, check=False)
        check(done.returncode in (COMPLETE, PARTIAL), f"{words}: exit code {done.returncode}", done.stderr)
        with open(path, encoding="utf-8") as file:
            return done.returncode, json.load(file)


class Attacks:
    """Reports and switches, spread over the time that the steps take; in turn on each of the processes."""

    def __init__(self, pids):
        self.pids = pids
        self.codes, self.pauses_ms, self.walls_ms = [], [], []
        self.switched = 0
        self.wrong = None
        self.thread = threading.Thread(target=self.run)

    def run(self):
        try:
            self.attack()
        except BaseException as err:
            self.wrong = err

    def attack(self):
        begin = time.monotonic()
        for i in range(REPORTS):
            pid = str(self.pids[i // 4 % len(self.pids)])
            if i % 4 == 0:
                self.switch(pid, "on")
            self.report(pid, *OPTIONS[i % len(OPTIONS)])
            if i % 4 == 3:
                self.switch(pid, "off")
            time.sleep(max(0.0, begin + SPREAD_S * (i + 1) / REPORTS - time.monotonic()))
        self.took = time.monotonic() - begin

    def switch(self, pid, what):
        code, data = run_tool("record", *(["--both"] if what == "on" else []), pid, what)
        check(code == COMPLETE, f"record {what}", code)
        self.pauses_ms.append(data["borrowed_us"] / 1e3)
        self.switched += what == "on"

    def report(self, pid, *options):
        begin = time.monotonic()
        code, data = run_tool("report", *options, pid)
        self.walls_ms.append((time.monotonic() - begin) * 1e3)
        self.codes.append(code)
        said = data["timing"]
        looks = sum(look["stopped_ms"] or 0 for look in (data["streams"] or {"looks": []})["looks"])
        if len(self.codes) % 25 == 1:
            print(f"  report {len(self.codes)} {' '.join(options)}: {self.walls_ms[-1]:.0f} ms", flush=True)
        self.pauses_ms.append((said["stopped_ms"] or 0) + looks + (said["borrowed_us"] or 0) / 1e3)


class Run:
    """Chunks of steps on each rank: so many, or while the attacks last."""

    def __init__(self, world, size, chunks=None):
        """chunks: None while it is attacked."""
        batch, steps = size
        attacked = chunks is None
        self.attacks = None
        self.chunks = self.seconds = self.longest_ms = 0
        with tempfile.TemporaryDirectory() as directory, \
                together([Trainer(os.path.join(directory, "store"), rank, world, batch) for rank in range(world)]) as ranks:
            if attacked:
                self.attacks = Attacks([rank.pid for rank in ranks])
                self.attacks.thread.start()
            while self.attacks.thread.is_alive() if attacked else self.chunks < chunks:
                said = [json.loads(line) for line in self.ask(ranks, str(steps))]
                self.chunks += 1
                self.seconds += max(one["seconds"] for one in said)
                self.longest_ms = max(self.longest_ms, *(one["longest_ms"] for one in said))
            if attacked and self.attacks.wrong:
                raise self.attacks.wrong
            self.bits = [json.loads(line) for line in self.ask(ranks, "bits")]

    @staticmethod
    def ask(ranks, line):
        for rank in ranks:
            rank.start(line)
        return [rank.answer() for rank in ranks]


def survives(world, size):
    """Returns by how much it was slower, beyond the pauses that were stated."""
    before = Run(world, size, 2)  # the device's clocks, the libraries' files
    attacked = Run(world, size)
    alone = [Run(world, size, attacked.chunks) for _ in range(2)]
    equal(alone[0].bits, alone[1].bits, "the training itself is not deterministic here: nothing can be said")
    equal(attacked.bits, alone[0].bits, "losses, parameters and the optimizer's state, as bits")
    check(before.bits != alone[0].bits, "more steps, and the same bits")
    attacks = attacked.attacks
    equal((len(attacks.codes), attacks.switched), (REPORTS, SWITCHES), "reports, and times that recording was switched on and off")
    pauses = sum(attacks.pauses_ms) / 1e3
    seconds = statistics.mean(run.seconds for run in alone)
    slower = (attacked.seconds - seconds - pauses) / seconds
    print(f"  FIGURE {attacked.chunks * size[1]} steps of {size[0]} sequences on {world} GPUs: {alone[0].seconds:.2f} and {alone[1].seconds:.2f} s alone, "
          f"{attacked.seconds:.2f} s with {REPORTS} reports ({attacks.codes.count(COMPLETE)} complete, median {statistics.median(attacks.walls_ms):.0f} ms) and "
          f"{SWITCHES} times recording on and off in {attacks.took:.0f} s; stated pauses {pauses * 1e3:.0f} ms; {100 * slower:+.2f} % beyond them; "
          f"longest ten steps {alone[0].longest_ms:.0f} ms alone, {attacked.longest_ms:.0f} ms; last loss {attacked.bits[0]['last']:.6f}, bit for bit the same",
          flush=True)
    return slower


def survives_all(world):
    slower = survives(world, LARGE)
    survives(world, SMALL)  # what its processes do takes as long as what we do there
    check(slower < SLOWER, "slower beyond the stated pauses", slower)


def test_survives_alone():
    survives_all(1)


def test_survives_nccl():
    if count_gpus() < WORLD:
        raise Skip("needs two GPUs")
    survives_all(WORLD)


if __name__ == "__main__":
    main(globals())
