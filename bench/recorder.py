#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the recorder costs the job that it is switched on in, beside PyTorch's own recorder; all in one run.

usage: recorder.py VRAMTAP [PART...]      PART: allocation, turns, memory, report, training; none: all, 3 to 5 minutes

The target is full PyTorch: on the simulated device where "sh tests/run.sh" has set that up, else (as on a machine with a GPU) the
PyTorch of the python3 that runs this script. Nothing is compiled. VRAMTAP_ROUNDS: rounds of "allocation" and "turns" (15).

allocation: torch.empty(64, device="cuda") and its free, 20 Python frames deep, on one processor that it has for itself (as far as
the machine permits). Every round switches through all recorders in another order. What a recorder costs is measured between two
measurements of nothing; where these two differ by more than 5 % the machine was changing, and that is done again. A figure is a median of
rounds, and one of a round a median of batches. "Nothing" is measured in the same process before the recorder was ever loaded, and after
it was switched off: each between two measurements of a second process in which nothing is ever recorded.

turns: the same, but each allocation has another stack than the one before: eight depths in turn.

memory: what the kernel says that the recorder's tables take, for more and more live blocks.

report: 20,000 live blocks that were recorded with native and Python frames, and PyTorch's own snapshot of as many in a second process.

training: step time of a real training loop with the recorder on and off in turn.
"""
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time

if len(sys.argv) < 2:
    sys.exit(__doc__)
os.environ["VRAMTAP"] = os.path.abspath(sys.argv[1])  # which is what the next ones use
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "functional"))
import harness  # noqa: E402
import recorder_truth as truth  # noqa: E402
import report_torch  # noqa: E402

EACH = 500  # allocations of a batch: less than what a scheduler gives at a time
BATCHES = 15
VERDICTS = []


def verdict(text, value, limit, unit):
    good = value <= limit
    VERDICTS.append(good)
    print(f"  {'ok  ' if good else 'MISS'} {text}: {value:.4g} {unit}, must be at most {limit:g} {unit}", flush=True)


def machine(job):
    about = job("backend")
    load = f"load {os.getloadavg()[0]:.1f} on {len(os.sched_getaffinity(0))} processors"
    print(f"PyTorch {about['torch']}, CPython {about['python']}, {about['device']}, {load}", flush=True)
    return about


# ---- allocation ------------------------------------------------------------------------------------

NOTHING, OFF = "nothing recorded", "nothing recorded, after on and off"
OURS = {"vramtap record --python": "--python", "vramtap record --both": "--both"}
THEIRS = {'PyTorch context="alloc", stacks="python"': "python", 'PyTorch context="all", stacks="all"': "all"}
MUST = {"vramtap record --python": 150, "vramtap record --both": 300}


def cost(job, how="same"):
    return statistics.median(job("cost", BATCHES, EACH, how)["ns"])


def cost_with(job, recorder, how="same"):
    if recorder in OURS:
        job.on(OURS[recorder])
    else:
        job("history", THEIRS[recorder])
    value = cost(job, how)
    if recorder in OURS:
        job.off()
    else:
        job("history", "off")
    return value


def between(outer, inner):
    """What inner() measures, and the mean of what outer() does before and after that, if the machine was as fast after as before."""
    for _ in range(20):
        before = outer()
        value = inner()
        after = outer()
        if abs(before - after) <= 0.05 * before:
            return value, (before + after) / 2
    raise AssertionError("the machine is too busy to measure anything: it is never as fast after as before")


def allocation(version):
    rounds, rng = int(os.environ.get("VRAMTAP_ROUNDS", "15")), random.Random(1)
    with truth.Recorded(version) as job, truth.Recorded(version) as control:
        print("allocation and free of 64 floats, 20 Python frames deep")
        machine(job)
        for each in (job, control):
            each("second_thread")
        print("  the measuring thread " + ("has its processor for itself" if job("cost", 1, 10)["ahead"] else
                                           "may not go ahead of others (no permission): figures of a busy machine mean little"))
        rows = {NOTHING: [between(lambda: cost(control), lambda: cost(job)) for _ in range(rounds)]}
        job.on("--both")
        job.off()
        names = [OFF, *OURS, *THEIRS]
        rows.update({name: [] for name in names})
        for _ in range(rounds):
            rng.shuffle(names)
            for name in names:
                rows[name].append(between(lambda: cost(control), lambda: cost(job)) if name == OFF else
                                  between(lambda: cost(job), lambda name=name: cost_with(job, name)))
    for name, pairs in rows.items():
        values = [value for value, _ in pairs]
        print(f"  {name:42} median {statistics.median(values):8.1f}  min {min(values):8.1f}  max {max(values):8.1f} ns")
    judge(rows)


def judge(rows):
    extra = {name: statistics.median(value - around for value, around in rows[name]) for name in (*OURS, *THEIRS)}
    for name, value in extra.items():
        if name in MUST:
            verdict(f"an allocation costs more with {name}", value, MUST[name], "ns")
        else:
            print(f"       an allocation costs more with {name}: {value:.4g} ns")
    for ours, theirs in zip(OURS, THEIRS):
        print(f"       {theirs} costs {extra[theirs] / extra[ours]:.1f} times as much as {ours}")
    # Against the second process; what cannot be told from nothing is what its ratios differ by among each other, and 1 %.
    ratios = {name: [value / around for value, around in rows[name]] for name in (NOTHING, OFF)}
    middle = {name: statistics.median(values) for name, values in ratios.items()}
    noise = max(statistics.median(abs(v - middle[name]) for v in values) for name, values in ratios.items())
    changed = 100 * (middle[OFF] / middle[NOTHING] - 1)
    verdict(f"after on and off it costs {changed:+.2f} % of what it cost before; the size of that, against the noise", abs(changed),
            round(max(1, 200 * noise), 2), "%")


def turns(version):
    rounds, rng = int(os.environ.get("VRAMTAP_ROUNDS", "15")), random.Random(1)
    names = [*OURS, *THEIRS]
    rows = {name: [] for name in names}
    with truth.Recorded(version) as job:
        print("allocation and free of 64 bytes, 21 to 28 Python frames deep in turn")
        machine(job)
        job("second_thread")
        for _ in range(rounds):
            rng.shuffle(names)
            for name in names:
                rows[name].append(between(lambda: cost(job, "turns"), lambda name=name: cost_with(job, name, "turns")))
    for name, pairs in rows.items():
        extra = statistics.median(value - around for value, around in pairs)
        print(f"       each allocation with another stack costs more with {name}: {extra:.4g} ns, {extra + pairs[0][1]:.0f} in all")


# ---- memory -----------------------------------------------------------------------------------------

def said_memory(job):
    return job.status()["memory_bytes"]


def memory(version):
    print("memory of the recorder's tables (both kinds of frames), as the kernel has it")
    with truth.Recorded(version) as job:
        machine(job)
        before = truth.table_addresses(job.pid)
        job.on("--both")
        live, empty = 0, truth.tables(job.pid, before)
        print(f"  {'live blocks':>12} {'mapped':>12} {'in memory':>12} {'vramtap says':>13} {'bytes a block: mapped':>22} {'in memory':>10}")
        for wanted in (0, 1000, 20000, 200000):
            job("blocks", wanted - live)
            live = wanted
            mapped, resident = truth.tables(job.pid, before)
            each = [(now - then) / live if live else 0 for now, then in zip((mapped, resident), empty)]
            print(f"  {live:12} {mapped:12} {resident:12} {said_memory(job):13} {each[0]:22.1f} {each[1]:10.1f}")
        verdict("bytes in memory for each of 200,000 live blocks, stacks included", each[1], 40, "bytes")
        job.off()
        mapped, _ = truth.tables(job.pid, before)
        verdict("mapped after off", mapped, 0, "bytes")


# ---- report ----------------------------------------------------------------------------------------

def timed_report(job, *options):
    with tempfile.NamedTemporaryFile() as out:
        begin = time.monotonic()
        done = subprocess.run([harness.VRAMTAP, "report", "--sites", *options, "--json", out.name, str(job.pid)], check=False,
                              stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        wall = time.monotonic() - begin
        harness.check(done.returncode in truth.EITHER, "exit code", done.returncode, done.stderr)
        with open(out.name, encoding="utf-8") as file:
            return wall, json.load(file)


def with_backtrace(data):
    return sum("backtrace" in b for b in truth.torch_history.blocks_of(data).values())


def report(version):
    """With --no-stop nothing at all is stopped: threads' own stacks are another matter than the blocks'."""
    blocks = 20000
    print(f"report of {blocks} live blocks with native and Python frames")
    with truth.Recorded(version) as job, truth.Recorded(version) as theirs:
        machine(job)
        job.on("--both")
        theirs("history", "all")
        for each in (job, theirs):
            each("blocks", blocks)
        first = [theirs("snapshot", os.path.join(theirs.where, "s")) for _ in range(2)]
        rows = {(): [], ("--no-stop",): []}
        stopped = {options: [] for options in rows}
        later, traced = [], set()
        for _ in range(5):
            for options, values in rows.items():
                wall, data = timed_report(job, *options)
                values.append(wall)
                stopped[options].append(data["timing"]["stopped_ms"])
                traced.add(with_backtrace(data))
            later.append(theirs("snapshot", os.path.join(theirs.where, "s")))
        for options, values in rows.items():
            print(f"  vramtap report --sites --json {' '.join(options):10} first {values[0]:.3f}  median {statistics.median(values):.3f}  "
                  f"max {max(values):.3f} s, threads stopped for {statistics.median(stopped[options]):.2f} ms")
        print(f"  PyTorch's _snapshot(), GIL held, names by dladdr  first {first[0]:.3f}  "
              f"second {first[1]:.3f}  later {statistics.median(later):.3f} s")
        verdict("blocks without a backtrace", blocks - min(traced), 0, "")
        verdict("report, the first", rows[()][0], 1, "s")
        verdict("report --no-stop, median", statistics.median(rows[("--no-stop",)]), 1, "s")
        verdict("stopped by report --no-stop", max(stopped[("--no-stop",)]), 0, "ms")


# ---- training ---------------------------------------------------------------------------------------

SHAPES = {  # width, layers, tokens, batch; the first is what a device is bought for, the second waits for the processor
    "the device is busy": (2048, 12, 1024, 16),
    "the processor is busy (small model)": (128, 4, 32, 8),
}


def ratio(job, blocks, steps):
    """Median over pairs of blocks of steps, one with the recorder and one without, in an order that changes."""
    on, off, pairs = [], [], []
    for i in range(blocks):
        pair = {}
        for recording in ((True, False), (False, True))[i % 2]:
            if recording:
                job.on("--both")
            job("steps", 2)
            times = job("steps", steps)["ms"]
            if recording:
                job.off()
            pair[recording] = statistics.median(times)
        on.append(pair[True])
        off.append(pair[False])
        pairs.append(pair[True] / pair[False])
    return statistics.median(on), statistics.median(off), pairs


def training(version):
    print("training steps with the recorder on (both kinds of frames) and off, in turn")
    for name, shape in SHAPES.items():
        with truth.Recorded(version) as job:
            about = machine(job)
            if about["simulated"] and name.startswith("the device"):
                print(f"  {name}: left out, the device is simulated")
                continue
            job("trainer", *shape, "fast")
            allocations = job("steps", 5)["allocations"]
            on, off, pairs = ratio(job, 20, 10)
            middle = statistics.median(pairs)
            print(f"  {name}: {allocations} allocations a step; on {on:.3f} ms, off {off:.3f} ms; ratio of pairs: median {middle:.4f}, "
                  f"min {min(pairs):.4f}, max {max(pairs):.4f}")
            if name.startswith("the device"):
                verdict("a step takes more, in percent", (middle - 1) * 100, 1, "%")


PARTS = {"allocation": allocation, "turns": turns, "memory": memory, "report": report, "training": training}


def main():
    here = [v for v in report_torch.versions() if os.path.exists(os.path.join(harness.CACHE, "torch", v, "python"))]
    for name in sys.argv[2:] or PARTS:
        PARTS[name](here[0] if here else None)
    for directory in harness.CLEAN_UP:
        subprocess.run(["rm", "-rf", directory], check=False)
    sys.exit(not all(VERDICTS))


if __name__ == "__main__":
    main()
