#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Streams that wait for each other, on the simulated device, and such as only look like it: what the report says of them."""
import json
import os
import re
import sys
import time

from harness import COMPLETE, PARTIAL, SOURCE, Job, check, compile_c, equal, main, scratch, vramtap
from recorder_launches import AND, EQ, GEQ, SIMCUDA, Launches, on

STANDS = 5.3  # seconds: a wait of 5 is judged
LIBRARY = """
#include <stdint.h>
int cudaStreamCreate(void **), cudaMallocHost(void **, unsigned long);
int cuStreamWaitValue32_v2(void *, uint64_t, unsigned, unsigned), cuStreamWriteValue32_v2(void *, uint64_t, unsigned, unsigned);
void *new_stream(void) { void *s = 0; cudaStreamCreate(&s); return s; }
void *pinned(void) { void *p = 0; cudaMallocHost(&p, 4096); return p; }
int wait_value(void *s, uint64_t at, unsigned v) { return cuStreamWaitValue32_v2(s, at, v, 0); }
int write_value(void *s, uint64_t at, unsigned v) { return cuStreamWriteValue32_v2(s, at, v, 0); }
"""
PROGRAM = """
import ctypes, os, sys
lib = ctypes.CDLL(sys.argv[1])
lib.new_stream.restype = lib.pinned.restype = ctypes.c_void_p
a, b, at = lib.new_stream(), lib.new_stream(), lib.pinned()
lib.wait_value.argtypes = lib.write_value.argtypes = (ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint)
def wait_for_the_other(stream, offset):
    lib.wait_value(stream, at + offset, 1)
def tell_the_other(stream, offset):
    lib.write_value(stream, at + offset, 1)
print("ready", os.getpid(), flush=True)
sys.stdin.readline()
wait_for_the_other(a, 0); tell_the_other(a, 8)
wait_for_the_other(b, 8); tell_the_other(b, 0)
print("done", hex(a), hex(b), flush=True)
sys.stdin.readline()
"""


class Waits(Launches):
    """Streams and memory have names: at("x") is an address, which holds 0 at first."""

    def __init__(self, kind="pinned"):
        super().__init__()
        self.base, self.offsets, self.streams, self.kind = None, {}, {}, kind

    def at(self, name):
        if self.base is None:
            self.base = self.memory(self.kind)
        return self.base + 8 * self.offsets.setdefault(name, len(self.offsets))

    def of(self, stream):
        if stream not in self.streams:
            self.streams[stream] = self.stream()
        return self.streams[stream]

    def give(self, stream, *what):
        """("wait", "x", 1), ("write", "y", 1), ("event",): each to the stream in turn."""
        for op, *args in what:
            if args and op in ("wait", "write"):
                name, value, compare, bits = (*args, GEQ, 32)[:4]
                self.do(op, self.of(stream), self.at(name), value, compare, bits)
            else:
                self.do(op, self.of(stream), *args)

    def deadlocks(self):
        """{stream: (number of its wait, the stream that it waits for, number of what would end the wait)}"""
        got = self.recorded()
        handles = [int(s["stream"], 16) for s in self.launches["streams"]]
        names = {handle: name for name, handle in self.streams.items()}
        return {names[h]: (s["deadlock"]["wait"]["number"], names[handles[s["deadlock"]["waits_for"]]], s["deadlock"]["ends_with"]["number"])
                for h, s in got.items() if s["deadlock"]}


def test_rings():
    with Waits() as job:
        on(job)
        job.give("a", ("wait", "x", 1), ("write", "y", 1))
        job.give("b", ("runtime", 1), ("wait", "y", 1), ("write", "x", 1))
        job.give("onlooker", ("wait", "x", 1), ("write", "nobody's", 1))
        # Three, with other comparisons and widths.
        job.give("c", ("wait", "p", 7, EQ), ("write", "q", 1 << 40, 0, 64))
        job.give("d", ("wait", "q", 1 << 40, AND, 64), ("write", "r", 3))
        job.give("e", ("wait", "r", 2, AND), ("write", "p", 7))
        # One alone.
        job.give("self", ("runtime", 3), ("wait", "s", 1), ("runtime", 2), ("write", "s", 2))
        # An event in between: what it is recorded behind waits itself.
        job.give("f", ("wait", "m", 1), ("event",))
        job.give("g", ("await",), ("write", "m", 1))
        equal(job.deadlocks(), {}, "the host may still write")
        time.sleep(STANDS)
        want = {"a": (1, "b", 3), "b": (2, "a", 2), "c": (1, "e", 2), "d": (1, "c", 2), "e": (1, "d", 2), "self": (4, "self", 7), "f": (1, "g", 2),
                "g": (1, "f", 2)}
        equal(job.deadlocks(), want, "deadlocks")
        text = " ".join(job.text("--width", "200").split())
        equal(text.count("likely a deadlock between streams, as what"), 4, "headlines")
        for first, second in (("a", "b"), ("b", "a")):
            check(f"stream {job.of(first):#x} waits for a value at" in text, "the headline", text)
            check(f"likely a deadlock: only stream {job.of(second):#x} writes that, after its own wait" in text, "the list", text)
        check("streams wait for each other, and none of them goes on" in text, "the advice", text)
        # A record that is missing might be of a write.
        job.give("more", ("runtime", 3000))
        equal(job.deadlocks(), {}, "records are missing")
        job.do("sync", job.of("more"))
        equal(job.deadlocks(), want, "none is missing any more")
        job.do("poke", job.at("x"), 1)
        for stream in ("a", "b", "onlooker"):
            job.do("sync", job.of(stream))
        equal(sorted(job.deadlocks()), ["c", "d", "e", "f", "g", "self"], "the host wrote")


def test_counters():
    """Streams that take turns, and come to an end of that."""
    with Waits() as job:
        on(job)
        job.give("a", ("wait", "x", 1), ("write", "y", 1), ("wait", "x", 3), ("write", "y", 2))
        job.give("b", ("write", "x", 1), ("wait", "y", 1), ("write", "x", 2), ("wait", "y", 2), ("write", "x", 3))
        time.sleep(STANDS)
        equal(job.deadlocks(), {"a": (3, "b", 5), "b": (4, "a", 4)}, "deadlocks")


def test_healthy():
    with Waits() as job:
        on(job)
        # The host lets one of them go on, later.
        job.give("a", ("wait", "host's", 1), ("wait", "x", 1), ("write", "y", 1))
        job.give("b", ("wait", "y", 1), ("write", "x", 1))
        job.give("c", ("wait", "host's", 1), ("write", "z", 1))
        job.give("d", ("wait", "z", 1))
        # A token that is taken: the one that has it is past its wait, in something that takes long; nothing is as it was then.
        job.do("poke", job.at("p"), 1)
        job.give("e", ("wait", "p", 1, EQ), ("write", "p", 0), ("wait", "host's", 1), ("write", "q", 1))
        job.give("f", ("wait", "q", 1, EQ), ("write", "q", 0), ("write", "p", 1))
        # Somebody outside of the ring writes when the host lets it, or behind a kernel that does not end.
        job.give("g", ("wait", "m", 1), ("write", "n", 1))
        job.give("h", ("wait", "n", 1), ("write", "m", 1))
        job.give("j", ("wait", "u", 1), ("write", "v", 1))
        job.give("k", ("wait", "v", 1), ("write", "u", 1))
        job.give("l", ("wait", "host's", 1), ("write", "u", 1))
        job.do("hang", 1)
        job.give("i", ("runtime", 1), ("write", "m", 1))
        time.sleep(STANDS)
        # a and b are: whatever the host writes to its own word.
        equal(job.deadlocks(), {}, "deadlocks")
        check("deadlock" not in job.text(), "the text", job.text())


def test_not_known():
    """Memory of a device cannot be read; that of a file may be another process's, too."""
    with Waits("memory") as of_device, Waits("shared") as of_file:
        for job in (of_device, of_file):
            on(job)
            job.give("a", ("wait", "x", 1), ("write", "y", 1))
            job.give("b", ("wait", "y", 1), ("write", "x", 1))
        time.sleep(STANDS)
        for job, words in ((of_device, "what is there is not known"), (of_file, "is not there yet")):
            equal(job.deadlocks(), {}, job.kind)
            check(words in " ".join(job.text().split()), "the text", job.text())


def test_python():
    """The lines of Python that launched both."""
    library = compile_c(LIBRARY, "-shared", "-fPIC", "-w", "-L" + SIMCUDA, "-l:libcudart.so.13", "-l:libcuda.so.1")
    path = scratch("two_streams.py")
    with open(path, "w", encoding="utf-8") as file:
        file.write(PROGRAM)
    env = dict(os.environ, LD_LIBRARY_PATH=os.pathsep.join(p for p in (SIMCUDA, os.environ.get("LD_LIBRARY_PATH")) if p))
    with Job([sys.executable, path, library], ready="ready", env=env) as job:
        on(job)
        a, b = job.ask("").split()[1:]
        time.sleep(STANDS)
        text = " ".join(vramtap("report", "--width", "200", str(job.pid), expect=(COMPLETE, PARTIAL))[1].split())
        line = {name: [i + 1 for i, x in enumerate(PROGRAM.split("\n")) if f"lib.{name}(" in x][0] for name in ("wait_value", "write_value")}
        wait = rf"\(two_streams.py:{line['wait_value']} wait_for_the_other\)"
        write = rf"\(two_streams.py:{line['write_value']} tell_the_other\)"
        for x, y in ((a, b), (b, a)):
            check(re.search(rf"stream {x} waits for a value at 0x[0-9a-f]+ {wait} that only stream {y} writes {write}", text), "the headline", x, text)


# Calls through variables of a small library that is loaded behind others with much data.
BEHIND = """
import ctypes, os, sys
big = [ctypes.CDLL(path) for path in sys.argv[3:]]
streams, lib = ctypes.CDLL(sys.argv[1]), ctypes.CDLL(sys.argv[2])
assert lib.init()
streams.new_stream.restype = streams.pinned.restype = ctypes.c_void_p
lib.wait_value.argtypes = lib.write_value.argtypes = (ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint)
a, at = streams.new_stream(), streams.pinned()
print("ready", os.getpid(), flush=True)
for line in sys.stdin:
    lib.write_value(a, at, 1); lib.wait_value(a, at + 8, 1)
    print("done", hex(a), flush=True)
"""
MIB = 1100


def test_pointers_behind_much_data():
    """Variables with the driver's functions are found whatever other libraries have; what is not searched is said."""
    streams = compile_c(LIBRARY, "-shared", "-fPIC", "-w", "-L" + SIMCUDA, "-l:libcudart.so.13", "-l:libcuda.so.1")
    with open(os.path.join(SOURCE, "tests", "gpu", "values.c"), encoding="utf-8") as file:
        values = compile_c(file.read(), "-shared", "-fPIC")
    big = [compile_c(f"static char data[{MIB}ul << 20] __attribute__((used));", "-shared", "-fPIC") for _ in range(2)]
    script = scratch("behind.py")
    with open(script, "w", encoding="utf-8") as file:
        file.write(BEHIND)
    env = dict(os.environ, LD_LIBRARY_PATH=os.pathsep.join(p for p in (SIMCUDA, os.environ.get("LD_LIBRARY_PATH")) if p))
    for n in (1, 2):
        with Job([sys.executable, script, streams, values, *big[:n]], ready="ready", env=env) as job:
            code, out, err = vramtap("record", "--launches", "--json", "-", str(job.pid), "on")
            check(code in (COMPLETE, PARTIAL), "record", code, err)
            left = json.loads(out)["launch_bytes_not_searched"] >> 20
            equal(left, 0 if n == 1 else MIB, "MiB that were not searched")
            handle = int(job.ask("go").split()[1], 16)
            code, out, err = vramtap("report", "--json", "-", "--once", "--no-owners", str(job.pid))
            check(code in (COMPLETE, PARTIAL), "report", code, err)
            found = {int(s["stream"], 16): s["launches"] for s in json.loads(out)["recorder"]["launches"]["streams"]}
            equal(found, {handle: 2}, "launches")


if __name__ == "__main__":
    main(globals())
