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

ROUNDS = 50  # of each: recording is switched on, four reports, recording is switched off
REPORTS = 4 * ROUNDS
# In turn; a report that names owners takes much longer than one without.
OPTIONS = [[], *[["--no-owners"], ["--no-owners", "--read-only"], ["--no-owners"], ["--no-owners", "--no-streams"], ["--no-owners", "--again=2x50ms"]] * 3]
SLOWER = 0.01  # beyond the pauses that vramtap states
# Sequences of a batch, and steps that are timed together: what a step waits for is the GPU, or Python. A round takes as long as these.
LARGE, SMALL = (64, 4), (8, 20)


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
    """Rounds of reports and switches; in turn on each of the processes."""

    def __init__(self, pids):
        self.pids = [str(pid) for pid in pids]
        self.codes, self.pauses_ms, self.walls_ms = [], [], []
        self.wrong = None

    def round(self, number, seconds):
        """Spread over so many seconds, if they are enough. In a thread of its own: what went wrong is kept."""
        try:
            pid, begin = self.pids[number % len(self.pids)], time.monotonic()
            self.switch(pid, "on")
            for i in range(4 * number, 4 * number + 4):
                self.report(pid, *OPTIONS[i % len(OPTIONS)])
                time.sleep(max(0.0, begin + seconds * (i % 4 + 1) / 4 - time.monotonic()))
            self.switch(pid, "off")
        except BaseException as err:
            self.wrong = err

    def switch(self, pid, what):
        code, data = run_tool("record", *(["--both"] if what == "on" else []), pid, what)
        check(code == COMPLETE, f"record {what}", code)
        self.pauses_ms.append(data["borrowed_us"] / 1e3)

    def report(self, pid, *options):
        begin = time.monotonic()
        code, data = run_tool("report", *options, pid)
        self.walls_ms.append((time.monotonic() - begin) * 1e3)
        self.codes.append(code)
        said = data["timing"]
        looks = sum(look["stopped_ms"] or 0 for look in (data["streams"] or {"looks": []})["looks"])
        self.pauses_ms.append((said["stopped_ms"] or 0) + looks + (said["borrowed_us"] or 0) / 1e3)


def start_training(world, batch, directory):
    return together([Trainer(os.path.join(directory, "store"), rank, world, batch) for rank in range(world)])


def ask(ranks, line):
    for rank in ranks:
        rank.start(line)
    return [rank.answer() for rank in ranks]


def train(ranks, steps):
    """The seconds that it took."""
    return max(json.loads(line) for line in ask(ranks, str(steps)))


def bits_alone(world, size):
    with tempfile.TemporaryDirectory() as directory, start_training(world, size[0], directory) as ranks:
        train(ranks, 2 * ROUNDS * size[1])
        return ask(ranks, "bits")


def attacked(world, size):
    """
    Seconds of each round, and of as many steps just before it without one: the time of a step changes by a fifth within seconds on some machines,
    in both alike.
    """
    quiet, loud = [], []
    with tempfile.TemporaryDirectory() as directory, start_training(world, size[0], directory) as ranks:
        attacks = Attacks([rank.pid for rank in ranks])
        before = ask(ranks, "bits")
        for i in range(ROUNDS):
            quiet.append(train(ranks, size[1]))
            thread = threading.Thread(target=attacks.round, args=(i, 0.9 * quiet[-1]))
            thread.start()
            loud.append(train(ranks, size[1]))
            thread.join()
            if attacks.wrong:
                raise attacks.wrong
        bits = ask(ranks, "bits")
    check(bits[0] != before[0], "more steps, and the same bits")
    return quiet, loud, attacks, bits


def survives(world, size):
    """Returns by how much it was slower, beyond the pauses that were stated."""
    quiet, loud, attacks, bits = attacked(world, size)
    alone = bits_alone(world, size)
    if bits != alone:
        equal(bits_alone(world, size), alone, "the training itself is not deterministic here: nothing can be said")
    equal(bits, alone, "losses, parameters and the optimizer's state, as bits")
    equal(len(attacks.codes), REPORTS, "reports")
    pauses = sum(attacks.pauses_ms) / 1e3
    slower = sum(loud) / sum(quiet) - 1
    pairs = statistics.quantiles([100 * (one / other - 1) for one, other in zip(loud, quiet)], n=4)
    print(f"  FIGURE {2 * ROUNDS * size[1]} steps of {size[0]} sequences on {world} GPUs: {sum(quiet):.2f} s alone, {sum(loud):.2f} s with "
          f"{REPORTS} reports ({attacks.codes.count(COMPLETE)} complete, median {statistics.median(attacks.walls_ms):.0f} ms) and {ROUNDS} times "
          f"recording on and off: {100 * slower:+.2f} % (quartiles of pairs {pairs[0]:+.1f}, {pairs[1]:+.1f}, {pairs[2]:+.1f}); stated pauses "
          f"{pauses * 1e3:.0f} ms: {100 * (slower - pauses / sum(quiet)):+.2f} % beyond them; the slowest {1e3 * max(quiet):.0f} ms alone, "
          f"{1e3 * max(loud):.0f} ms; last loss {json.loads(bits[0])['last']:.6f}, bit for bit the same", flush=True)
    return slower - pauses / sum(quiet)


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
