#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""All figures of speed in one table: what must be reached, vramtap, an older vramtap, and the peers, in turn on the same processes.

usage: all.py VRAMTAP [--base VRAMTAP] [--rounds N] [PART...]

PART: stacks, first, walk, busy, gdb, long, merge, recorder; none: all of them, some 15 minutes. The targets are PyTorch of the newest
pinned wheel on the simulated device (sh tests/run.sh sets it up). Both vramtaps are programs of build trees: tests/unit/job/job_demo
of each tree is measured, too (make check TESTS= builds it).

Each round runs every program once, and every second round begins with the last one, so that what else the machine does hits all alike. A
figure is the median of its rounds; "of base" is the median of the rounds' own ratios. A peer is py-spy or pystack (tests/setup/peers.sh),
or PyTorch's own _snapshot(); "stop" is the floor of any tool that uses ptrace (bench/stop.c): it only stops all threads and lets them go.
Exit code 1 when a figure of vramtap's is above what it must reach."""
import argparse
import collections
import contextlib
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "tests", "functional")]
import gdb_long  # noqa: E402
import harness  # noqa: E402
import heartbeats  # noqa: E402
import report  # noqa: E402
import report_torch  # noqa: E402
import stacks  # noqa: E402
import triage_merge  # noqa: E402
import walk  # noqa: E402

OURS, BASE = "vramtap", "base"
RANKS = 16384


class Table:
    """Rows by what they measure; a row has the samples of each program, by round."""

    def __init__(self):
        self.rows, self.missed = {}, 0

    def take(self, what, unit, must, program, value, i=None):
        samples = self.rows.setdefault(what, (unit, must, collections.defaultdict(dict)))[2][program]
        samples[len(samples) if i is None else i] = value

    def show(self):
        """And forgets what it has shown."""
        for what, (unit, must, samples) in self.rows.items():
            middle = {program: statistics.median(values.values()) for program, values in samples.items()}
            ours = middle.pop(OURS, None)
            over = must is not None and (ours is None or ours > must)
            self.missed += over
            limit = "" if must is None else f"must {must:g}"
            figure = "not measured" if ours is None else f"{ours:9.2f} {unit:3}"
            words = [f"{what:52} {figure} {limit:>9} {'MISS' if over else '':4}"]
            middle.pop(BASE, None)
            ratios = [samples[OURS][i] / base for i, base in samples.get(BASE, {}).items() if base and i in samples[OURS]]
            if ratios:
                words.append(f"{statistics.median(ratios):5.2f} of base")
            words += [f"{program} {value:.1f} (x {value / ours:.2g})" if ours else f"{program} {value:.1f}" for program, value in middle.items()]
            print("  ".join(words), flush=True)
        self.rows.clear()


class Bench:
    def __init__(self, options):
        self.rounds = options.rounds
        self.tools = {OURS: os.path.abspath(options.vramtap)}
        if options.base:
            self.tools[BASE] = os.path.abspath(options.base)
        self.version = report_torch.versions()[-1]
        self.table = Table()

    def in_turn(self, programs, rounds=None):
        """(number of the round, name, command or path) of each run; -1 is the round that warms up."""
        names = list(programs)
        for i in range(-1, rounds or self.rounds):
            for name in names if i % 2 else reversed(names):
                yield i, name, programs[name]

    @contextlib.contextmanager
    def using(self, tool):
        """What the helpers of the functional tests run."""
        before, harness.VRAMTAP = harness.VRAMTAP, tool
        try:
            yield
        finally:
            harness.VRAMTAP = before

    # ---- the parts ----

    def stacks(self):
        """160 threads: the wall time beside the peers, and the pause that the process's own threads see."""
        peers = os.path.join(harness.CACHE, "peers", "bin")
        subprocess.run(["sh", os.path.join(harness.SOURCE, "tests", "setup", "peers.sh")], check=False, stdout=subprocess.DEVNULL)
        with open(os.path.join(HERE, "stop.c"), encoding="utf-8") as file:
            stop = harness.compile_c(file.read(), "-D_GNU_SOURCE")
        both = {name: [tool, "stacks", "--json", "-", "{}"] for name, tool in self.tools.items()}
        python = {name: [tool, "stacks", "--python", "--json", "-", "{}"] for name, tool in self.tools.items()}
        dump = {"py-spy dump": [os.path.join(peers, "py-spy"), "dump", "-p", "{}"]}
        native = {"py-spy dump --native": [os.path.join(peers, "py-spy"), "dump", "--native", "-p", "{}"],
                  "pystack --native-all": [os.path.join(peers, "pystack"), "remote", "--native-all", "{}"]}
        beats = heartbeats.Heartbeats()
        with report_torch.Python(self.version, "sync", "--threads", str(stacks.THREADS - 3), "--heartbeat", beats.library, beats.path) as target:
            pid = target.proc.pid
            for what, programs, rounds in (("stacks, native and Python", {**both, **dump}, 2 * self.rounds), ("stacks --python", {**python, **dump}, self.rounds),
                                           ("stacks, native and Python, and native peers", {**both, **native}, max(3, self.rounds // 4))):
                samples = {name: stacks.Tool(name, command, good=(0, 1)) for name, command in programs.items() if shutil.which(command[0])}
                for i, name, tool in self.in_turn(samples, rounds):
                    wall, _, _ = tool.run(pid, beats)
                    if i >= 0:
                        self.table.take(what + ", 160 threads: wall", "ms", None, name, wall, i)
            self.beside_the_peer("stacks, native and Python", "py-spy dump", 1)
            self.beside_the_peer("stacks --python", "py-spy dump", 0.5)
            pauses = {**both, "stop": [stop, "{}"], "no tool": ["sleep", "0.03"]}
            for i, name, tool in self.in_turn({name: stacks.Tool(name, command, good=(0, 1)) for name, command in pauses.items()}, 4 * self.rounds):
                _, pause, _ = tool.run(pid, beats)
                if i >= 0:
                    self.table.take("pause of 160 threads, median", "ms", None, name, pause, i)
        samples = self.table.rows["pause of 160 threads, median"][2]
        for name, values in samples.items():
            self.table.take("pause of 160 threads, p99", "ms", 5, name, stacks.percentile(list(values.values()), 99))

    def beside_the_peer(self, what, peer, share):
        """Must be at most that share of the peer's median."""
        what += ", 160 threads: wall"
        unit, _, samples = self.table.rows[what]
        if peer in samples:
            self.table.rows[what] = unit, share * statistics.median(samples[peer].values()), samples

    def first(self):
        """A process that nobody has looked at; then a second look."""
        for i, name, tool in self.in_turn(self.tools, max(3, self.rounds // 4)):
            with report_torch.Python(self.version, "sync") as target, self.using(tool):
                for what, must in (("first", 40), ("second", 15)):
                    begin = time.monotonic()
                    harness.report_json(target.proc.pid, "--once", "--no-owners", expect=(0, 1))
                    if i >= 0:
                        self.table.take(f"report --no-owners of PyTorch, {what} look: wall", "ms", must, name, (time.monotonic() - begin) * 1e3, i)

    def walk(self):
        for blocks, must in ((100000, 7), (1000000, 70)):
            with report_torch.Driver(self.version, SIMCUDA_DEVICES="1", SIMCUDA_MEM_MB="8192") as driver:
                driver(f"alloc {blocks} 600")
                for i, name, tool in self.in_turn(self.tools, self.rounds if blocks < 1000000 else max(3, self.rounds // 4)):
                    _, data = report.one(tool, driver.pid, "--no-owners")
                    allocator = data["pytorch"]["allocators"][0]
                    if i >= 0:
                        self.table.take(f"walk inside, {blocks:,} blocks", "ms", must, name, allocator["walk_ns"] / 1e6, i)
                        self.table.take("  its part under the lock", "ms", must / 2, name, allocator["read_ns"] / 1e6, i)
            self.table.show()

    def busy(self):
        """An allocation each millisecond, read from outside."""
        with walk.Target(self.version, 100000) as target:
            target("busy")
            for i, name, tool in self.in_turn(self.tools):
                with self.using(tool):
                    data, _ = walk.report(target, "--read-only", "--no-owners")
                if i < 0 or data["pytorch"]["allocators"][0]["result"] != "complete":
                    continue
                self.table.take("outside, 100,000 blocks, busy allocator: stopped", "ms", 5, name, data["timing"]["blocks_stopped_ms"], i)
                self.table.take("outside, 100,000 blocks, busy allocator: read", "ms", 20, name, data["timing"]["blocks_read_ms"], i)
            target("idle")
            for _ in range(3):
                self.table.take("outside, 100,000 blocks, busy allocator: read", "ms", 20, "_snapshot()", target("snapshot"))

    def gdb(self):
        gdb = shutil.which("gdb")
        with report_torch.Driver(self.version, SIMCUDA_DEVICES="1", SIMCUDA_MEM_MB="2048") as driver:
            driver("alloc 20000 600")
            for i, name, tool in self.in_turn(self.tools, 3):
                values, _ = gdb_long.measure(gdb, tool, driver.pid, 3)
                if i >= 0:
                    self.table.take("gdb: vramtap blocks all, 20,000 blocks", "ms", 500, name, statistics.median(values), i)

    def long(self):
        with report_torch.Driver(self.version, SIMCUDA_DEVICES="1", SIMCUDA_MEM_MB="8192") as driver:
            driver(f"alloc {report.MILLION} 600")
            for what, options, must in report.LONG:
                for place, outside in (("inside", []), ("outside", ["--read-only"])):
                    for i, name, tool in self.in_turn(self.tools, max(3, self.rounds // 4)):
                        wall, _, mib, _ = report.whole(tool, driver.pid, *outside, *options)
                        if i >= 0:
                            self.table.take(f"1,000,000 blocks, {what}, {place}: wall", "ms", must, name, wall, i)
                            self.table.take("  memory", "MiB", report.LONG_MIB, name, mib, i)
                    self.table.show()

    def merge(self):
        demos = {name: os.path.join(os.path.dirname(tool), "tests", "unit", "job", "job_demo") for name, tool in self.tools.items()}
        for together, how in ((RANKS, "one document"), (8, "one a node of 8"), (1, "one a rank")):
            with tempfile.TemporaryDirectory() as directory:
                paths, _ = triage_merge.make(directory, RANKS, together)
                for i, name, demo in self.in_turn(demos, 3):
                    seconds, processor, mib, _ = triage_merge.measure(demo, paths, RANKS, 1)
                    if i >= 0:
                        self.table.take(f"merging {RANKS:,} ranks, {how}: wall", "s", 2, name, seconds, i)
                        self.table.take("  processor", "s", None, name, processor, i)
                        self.table.take("  memory", "MB", 256, name, mib, i)
            self.table.show()

    def recorder(self):
        """The recorder's own benchmark, which measures against nothing recorded, in the same process. Where memory lies differs between
        processes, and that makes a difference of some 40 ns: so there are several."""
        rows = {"more with vramtap record --python": ("recorder, Python: an allocation takes more", 150),
                "more with vramtap record --both": ("recorder, Python and native: it takes more", 300),
                "bytes in memory": ("recorder: a live block takes", 40)}
        environment = {"VRAMTAP_ROUNDS": "5", **os.environ}
        for i, name, tool in self.in_turn(self.tools, max(3, self.rounds // 4)):
            if i < 0:
                continue
            done = subprocess.run([sys.executable, os.path.join(HERE, "recorder.py"), tool, "allocation", *(["memory"] if i == 0 else [])],
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False, env=environment)
            found = re.findall(r"^  (?:ok  |MISS) (.*): ([0-9.e+-]+) (ns|bytes),", done.stdout, re.MULTILINE)
            for text, value, unit in found:
                for word, (what, must) in rows.items():
                    if word in text:
                        self.table.take(what, {"bytes": "B"}.get(unit, unit), must, name, float(value), i)
            if not found:
                print(f"NOT RUN: recorder, {name}: {done.stderr.strip().splitlines()[-1:]}", flush=True)


PARTS = [Bench.stacks, Bench.first, Bench.walk, Bench.busy, Bench.gdb, Bench.long, Bench.merge, Bench.recorder]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("vramtap")
    parser.add_argument("--base")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("part", nargs="*")
    options = parser.parse_intermixed_args()
    unknown = set(options.part) - {part.__name__ for part in PARTS}
    if unknown:
        parser.error(f"no such part: {', '.join(unknown)}")
    bench = Bench(options)
    for part in PARTS:
        if options.part and part.__name__ not in options.part:
            continue
        stacks.machine()
        try:
            part(bench)
        except (AssertionError, harness.Skip) as err:
            print(f"NOT RUN: {part.__name__}: {err}")
        bench.table.show()
    for directory in harness.CLEAN_UP:
        shutil.rmtree(directory, ignore_errors=True)
    sys.exit(1 if bench.table.missed else 0)


if __name__ == "__main__":
    main()
