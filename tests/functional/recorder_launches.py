#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""vramtap record --launches on the simulated device: a C program launches as it is told. What the report says of each stream is
compared with that."""
import json
import os
import re
import struct
import subprocess
import time

import recorder_truth as truth
from core import allow_cores, kernel_core, report_core
from harness import (CACHE, COMPLETE, PARTIAL, QUICK, SOURCE, VRAMTAP, Job, Skip, check, check_schema, compile_c, equal, main, report_json, scratch,
                     vramtap)

SIMCUDA = os.path.join(CACHE, "simcuda")
BINARIES = {}
LIBRARY = """
extern void *dlsym(void *, const char *);
static int (*launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **);
int launch_of_library(void *f, void *stream)
{
	if (!launch)
		*(void **)&launch = dlsym((void *)0, "cuLaunchKernel");
	return launch(f, 1, 2, 3, 4, 5, 6, 7, stream, 0, 0);
}
"""


def program():
    if not BINARIES:
        binary = scratch("cuda_launches")
        done = subprocess.run(["gcc", "-g", "-O1", "-rdynamic", "-o", binary, os.path.join(SOURCE, "tests/targets/cuda_launches.c"),
                               "-pthread", "-L" + SIMCUDA, "-l:libcudart.so.13", "-l:libcuda.so.1", "-ldl",
                               "-Wl,-rpath-link," + SIMCUDA], capture_output=True, check=False)
        if done.returncode:
            raise Skip("cuda_launches.c does not build: " + done.stderr.decode()[:300])
        BINARIES[0] = binary
    return BINARIES[0]


class Launches(Job):
    def __init__(self, **kwargs):
        path = os.pathsep.join(p for p in (SIMCUDA, os.environ.get("LD_LIBRARY_PATH")) if p)
        super().__init__([program()], ready="ready", env=dict(os.environ, LD_LIBRARY_PATH=path, SIMCUDA_DEVICES="2"), **kwargs)

    def __call__(self, *words):
        return self.ask(" ".join(str(w) for w in words))

    def do(self, *words):
        equal(self(*words), "0", str(words))

    def stream(self):
        return int(self("stream"), 16)

    def memory(self, kind):
        return int(self(kind, 4096), 16)

    def text(self, *options):
        return vramtap("report", *options, str(self.pid), expect=(COMPLETE, PARTIAL))[1]

    def recorded(self):
        data = report_json(self.pid, expect=(COMPLETE, PARTIAL))
        check_schema(data)
        self.launches = data["recorder"]["launches"]
        return {int(s["stream"], 16): s for s in self.launches["streams"]}


def on(job, *options):
    return truth.record(job.pid, "on", "--launches", *options, expect=(COMPLETE, PARTIAL))


def off(job):
    return truth.record(job.pid, "off")


def fates(stream):
    return [launch["fate"] for launch in stream["last"]]


def test_what_is_recorded():
    with Launches() as job:
        on(job)
        a, b = job.stream(), job.stream()
        job.do("runtime", a, 2)
        job.do("driver", a, 1, "a_kernel")
        job.do("ex", b, 1, "_Z7mangledIiEvT_")
        job.do("kernel", b, 1, "of_a_kernel")
        at = job.memory("pinned")
        job.do("wait", b, at, 42)
        job.do("runtime", 0, 1)
        job.do("host", 1)
        got = job.recorded()
        equal(sorted(got), sorted([0, a, b]), "streams")
        kinds = {s: [(x["kind"], x["name"], x.get("grid"), x.get("block"), x.get("shared_bytes")) for x in got[s]["last"]] for s in got}
        runtime = ("kernel", "launched_by_runtime", [11, 12, 13], [14, 15, 16], 17)
        equal(kinds[a], [runtime, runtime, ("kernel", "a_kernel", [31, 32, 33], [34, 35, 36], 37)], "of the first stream")
        equal(kinds[b], [("kernel", "mangled<int>", [21, 22, 23], [24, 25, 26], 27),
                         ("kernel", "of_a_kernel", [31, 32, 33], [34, 35, 36], 37),
                         ("wait-for-value", None, None, None, None)], "of the second stream")
        equal((got[b]["last"][2]["what"], got[b]["last"][2]["value"]), (hex(at), "0x2a"), "what is waited for")
        equal([k[:2] for k in kinds[0]], [("kernel", "launched_by_runtime"), ("host-function", "at_host")], "of the default stream")
        equal((got[0]["device"], got[a]["device"], got[b]["device"]), (0, 0, None), "the driver launches on streams of any device")
        for s in got.values():
            equal((s["may_run"], s["not_kept"], s["ended_to"]), (len(s["last"]), 0, 0), "nothing waited")
            equal([x["number"] for x in s["last"]], list(range(1, len(s["last"]) + 1)), "numbers")
            for launch in s["last"]:
                equal((launch["tid"], launch["fate"]), (job.pid, "may-run"), "thread and fate")
                check(0 <= launch["age_s"] < 60, "age", launch)
        text = job.text()
        check("launched_by_runtime, grid 11x12x13, block 14x15x16" in text, "the text", text)
        check("of 3 launches, 3 are not known to have ended" in text, "the text", text)


def test_waits():
    with Launches() as job:
        on(job)
        a, b = job.stream(), job.stream()
        for wait in (("sync", a), ("query", a)):
            job.do("runtime", a, 3)
            job.do("runtime", b, 1)
            before = job.recorded()[a]
            job.do(*wait)
            got = job.recorded()
            equal((got[a]["may_run"], got[a]["ended_to"]), (0, before["launches"]), f"after {wait}")
            equal(set(fates(got[a])), {"ended"}, "their fates")
            check(got[b]["may_run"] > 0, "the other stream goes on", got[b])
        job.do("device")
        equal({s["may_run"] for s in job.recorded().values()}, {0}, "after a wait for the device")
        job.do("runtime", b, 1)
        equal(job.recorded()[b]["may_run"], 1, "exactly one")
        text = job.text()
        check("only this one is not known to have ended" in text, "the text", text)
        job.do("setdevice", 1)
        job.do("runtime", 0, 1)
        job.do("setdevice", 0)
        job.do("runtime", 0, 1)
        job.do("device")
        got = {(s["device"], int(s["stream"], 16)): s["may_run"] for s in [*job.recorded().values(), *job.launches["streams"]]}
        equal((got[1, 0], got[0, 0]), (1, 0), "a wait is for one device")


def test_hung():
    """Behind a device that makes no progress more is launched than is kept, and the first is named as long as it is there."""
    with Launches() as job:
        on(job)
        a = job.stream()
        job.do("runtime", a, 5)
        job.do("sync", a)
        job.do("hang", 1)
        job.do("driver", a, 1, "never_ends")
        job.do("runtime", a, 1500)
        equal(job("query", a), "600", "not ready")
        begin = time.monotonic()
        got = job.recorded()[a]
        print(f"  report of 1,501 launches: {1000 * (time.monotonic() - begin):.0f} ms")
        equal((got["may_run"], got["not_kept"], got["ended_to"], got["launches"]), (1501, 0, 5, 1506), "what may run")
        equal((got["last"][0]["name"], got["last"][0]["number"]), ("never_ends", 6), "the first")
        equal(got["omitted"] + len(got["last"]), 1501, "all are told of")
        job.do("runtime", a, 1000)
        got = job.recorded()[a]
        equal((got["may_run"], got["not_kept"]), (2501, 2501 - 2048), "what is not kept")
        job.do("hang", 0)
        job.do("sync", a)
        equal(job.recorded()[a]["may_run"], 0, "in the end")


def test_captures():
    with Launches() as job:
        a, b = job.stream(), job.stream()
        job.do("begin", a)
        job.do("runtime", a, 1)
        on(job)  # in the middle of one
        job.do("runtime", a, 2)
        job.do("runtime", b, 1)
        job.do("end", a)
        job.do("runtime", a, 1)
        got = job.recorded()
        equal((fates(got[a]), fates(got[b])), (["captured", "captured", "may-run"], ["may-run"]), "fates")
        equal(got[a]["may_run"], 1, "what is captured does not run")
        job.do("begin", b)
        job.do("driver", b, 1, "captured_by_driver")
        job.do("runtime", a, 1)
        job.do("end", b)
        job.do("graph", b)
        got = job.recorded()
        equal(fates(got[b]), ["may-run", "captured", "may-run"], "fates")
        equal([x["kind"] for x in got[b]["last"]], ["kernel", "kernel", "graph"], "kinds")
        equal(got[b]["may_run"], 2, "the graph may run")


def test_not_seen():
    """A list of candidates says what may be missing in it; so do streams without room."""
    with Launches() as job:
        on(job)
        first = job.stream()
        job.do("runtime", first, 1)
        check("not seen, and perhaps what runs: launches before the recording" in " ".join(job.text().split()), "the text", job.text())
        job.do("sync", first)
        check("not seen" not in job.text(), "nothing waits", job.text())
        for _ in range(260):
            job.do("runtime", job.stream(), 1)
        job.recorded()
        equal(job.launches["lost"], 261 - 256, "streams without room")
        text = job.text()
        check("5 more have no record: no room for their streams" in text, "the text", text)


def test_events():
    """Which event a stream waits for, and where it is recorded."""
    with Launches() as job:
        on(job)
        a, b = job.stream(), job.stream()
        job.do("runtime", a, 1)
        job.do("event", a)
        job.do("await", b)
        job.do("runtime", b, 1)
        got = job.recorded()
        equal([x["kind"] for x in got[a]["last"]], ["kernel", "record-event"], "the one stream")
        equal([x["kind"] for x in got[b]["last"]], ["wait-for-event", "kernel"], "the other")
        equal(got[a]["last"][1]["what"], got[b]["last"][0]["what"], "the event")
        equal((got[a]["may_run"], got[b]["may_run"]), (1, 2), "recording an event runs nothing")
        check(f"wait for event {got[b]['last'][0]['what']}" in job.text(), "the text")


GEQ, EQ, AND, NOR = range(4)


def of_values(stream):
    """What is waited for and written, and what is there."""
    return [tuple(x.get(key) for key in ("kind", "what", "value", "bits", "compare", "value_now", "is_there")) for x in stream["last"]]


def test_values():
    """Waits for values and writes of them, with what is at their addresses now."""
    with Launches() as job:
        on(job)
        a, b = job.stream(), job.stream()
        at = job.memory("pinned")
        job.do("poke", at, 3)
        job.do("wait", a, at, 5)
        job.do("write", a, at + 8, 7)
        job.do("write", b, at + 16, 1 << 40, 0, 64)
        job.do("batch", b, at, 6, at + 24, 2)
        got = job.recorded()
        equal(of_values(got[a]), [("wait-for-value", hex(at), "0x5", 32, "geq", "0x3", False),
                                  ("write-value", hex(at + 8), "0x7", 32, None, None, None)], "of the one stream")
        equal(of_values(got[b]), [("write-value", hex(at + 16), hex(1 << 40), 64, None, None, None),
                                  ("wait-for-value", hex(at), "0x6", 32, "geq", "0x3", False),
                                  ("write-value", hex(at + 24), "0x2", 32, None, None, None)], "of the other")
        equal([x["number"] for x in got[b]["last"]], [1, 2, 3], "numbers of a batch")
        equal((got[a]["may_run"], got[b]["may_run"]), (1, 1), "a write is nothing that lasts")
        text = " ".join(job.text().split())
        check(f"wait for a value that is not there yet: {at:#x} must be >= 5, is 3" in text, "the text", text)
        check("deadlock" not in text, "the host may write it", text)
        job.do("poke", at, 6)
        job.do("sync", a)
        job.do("sync", b)
        got = job.recorded()
        equal((got[a]["may_run"], got[b]["may_run"]), (0, 0), "at the end")


def test_values_compared():
    """Each comparison by what the device itself does: a stream that is past its wait is idle."""
    cases = [(GEQ, 0x7fffffff, 0xffffffff, 32), (GEQ, 0x80000001, 1, 32), (GEQ, 5, 5, 32), (EQ, 7, 7, 32), (EQ, 7, 8, 32), (AND, 6, 1, 32), (AND, 6, 3, 32),
             (NOR, 0xfffffffe, 1, 32), (NOR, 0xfffffffe, 2, 32), (GEQ, 1 << 33, 1, 64), (EQ, 1, 1, 64)]
    with Launches() as job:
        on(job)
        streams = []
        for compare, value, there, bits in cases:
            at = job.memory("pinned")
            job.do("poke", at, there)
            streams.append(job.stream())
            job.do("wait", streams[-1], at, value, compare, bits)
        time.sleep(0.3)
        got = job.recorded()
        for case, stream in zip(cases, streams):
            equal([x["is_there"] for x in got[stream]["last"]], [job("query", stream) == "0"], str(case))


def test_values_elsewhere():
    """What is in memory of a device is not known."""
    with Launches() as job:
        on(job)
        for kind in ("memory", "plain"):
            at, stream = job.memory(kind), job.stream()
            job.do("wait", stream, at, 1)
            got = of_values(job.recorded()[stream])
            now = (None, None) if kind == "memory" else ("0x0", False)
            equal(got, [("wait-for-value", hex(at), "0x1", 32, "geq", *now)], kind)
        check("what is there is not known" in " ".join(job.text().split()), "the text", job.text())


def test_failed():
    with Launches() as job:
        on(job)
        check(job("fail", 0) != "0", "a launch that must fail succeeds")
        job.do("runtime", 0, 1)
        streams = job.recorded()
        equal(sorted(fate for s in streams.values() for fate in fates(s)), ["failed", "may-run"], "fates")
        equal(sum(s["may_run"] for s in streams.values()), 1, "what failed does not run")


def test_reused_handle():
    with Launches() as job:
        on(job)
        job.do("driver", 0, 1, "first_name")
        job.do("unload")
        job.do("driver", 0, 1, "second_name")
        last = job.recorded()[0]["last"]
        equal([x["name"] for x in last], ["first_name", "second_name"], "names")
        equal(len({x["what"] for x in last}), 1, "handles")


def pointers(pid, binary):
    """What the variables and tables of the program hold: by readelf, not by us."""
    with open(f"/proc/{pid}/maps", encoding="utf-8") as maps:
        base = int(next(line for line in maps if line.rstrip().endswith(os.path.basename(binary))).split("-")[0], 16)
    relocated = subprocess.run(["readelf", "-rW", binary], capture_output=True, text=True, check=True).stdout
    symbols = subprocess.run(["readelf", "-sW", binary], capture_output=True, text=True, check=True).stdout
    where = {name: base + int(at, 16) for at, name in re.findall(r"^([0-9a-f]{12,}) .* (cu\w+)@?", relocated, re.M)}
    where.update({name: base + int(at, 16) for at, name in re.findall(r": ([0-9a-f]{16}) .* (launch|launch_ex)$", symbols, re.M)})
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as mem:
        return {name: struct.unpack("<Q", os.pread(mem.fileno(), 8, at))[0] for name, at in where.items()}


def test_off_restores():
    with Launches() as job:
        job.do("runtime", 0, 1)
        job.do("driver", 0, 1, "a_kernel")  # binds the words that no recorder changes
        before = pointers(job.pid, program())
        check({"launch", "launch_ex", "cudaLaunchKernel", "cudaStreamSynchronize"} <= set(before), "words", before)
        for _ in range(2 if QUICK else 10):
            on(job)
            now = pointers(job.pid, program())
            for name in ("launch", "launch_ex", "cudaLaunchKernel", "cudaStreamSynchronize", "cudaDeviceSynchronize"):
                check(now[name] != before[name], "a word that is not changed", name)
            job.do("runtime", 0, 1)
            job.do("driver", 0, 1, "a_kernel")
            equal(job.recorded()[0]["launches"], 2, "each time anew")
            off(job)
            equal(pointers(job.pid, program()), before, "the words afterwards")
            job.do("driver", 0, 1, "a_kernel")
        truth.record(job.pid, "on", expect=(COMPLETE, PARTIAL))
        now = pointers(job.pid, program())
        equal(sorted(n for n in now if now[n] != before[n]), ["cudaFree", "cudaMalloc", "cudaMallocHost"], "what is changed without --launches")
        check(report_json(job.pid, expect=(COMPLETE, PARTIAL))["recorder"]["launches"] is None, "launches are not recorded")


def test_off_from_outside():
    """No thread can be borrowed: the pointers are changed back all the same, by a vramtap that need not be the same."""
    with Launches() as job:
        job.do("runtime", 0, 1)
        job.do("driver", 0, 1, "a_kernel")
        before = pointers(job.pid, program())
        on(job)
        job.do("runtime", 0, 1)
        check(pointers(job.pid, program()) != before, "nothing is changed")
        until = scratch("until")
        job.proc.stdin.write(f"spin {until}\n".encode())
        job.proc.stdin.flush()
        time.sleep(0.1)
        said = json.loads(truth.record(job.pid, "off", "--timeout", "1", "--json", "-", expect=(PARTIAL,)))
        check(said["state"] == "off" and said["kept_bytes"] > 0, "what it says", said)
        equal(pointers(job.pid, program()), before, "the words afterwards")
        with open(until, "w", encoding="utf-8"):
            pass
        equal(job.proc.stdout.readline().strip(), b"0", "it has spun")
        job.do("runtime", 0, 3)
        on(job)
        job.do("runtime", 0, 2)
        equal(job.recorded()[0]["launches"], 2, "on again")
        off(job)
        equal(pointers(job.pid, program()), before, "the words at the end")


def test_run():
    """From the first launch on, in a program that vramtap starts."""
    path = os.pathsep.join(p for p in (SIMCUDA, os.environ.get("LD_LIBRARY_PATH")) if p)
    with Job([VRAMTAP, "run", "-q", "--launches", "--", program()], ready="ready", env=dict(os.environ, LD_LIBRARY_PATH=path)) as job:
        pid = int(job.proc.ready_line.split()[1])
        equal(job.ask("runtime 0 5"), "0", "launches")
        data = report_json(pid, expect=(COMPLETE, PARTIAL))
        equal([(s["stream"], s["launches"]) for s in data["recorder"]["launches"]["streams"]], [("0x0", 5)], "what is recorded")


def told(stream):
    return [(x["number"], x["name"], x["fate"], x["what"]) for x in stream["last"]]


def test_core():
    """What was launched last is in a core, too."""
    where = os.path.dirname(scratch("core"))
    with Launches(preexec_fn=allow_cores, cwd=where) as job:
        on(job)
        job.do("runtime", 0, 3)
        job.do("sync", 0)
        job.do("driver", 0, 2, "a_kernel")
        job.do("runtime", job.stream(), 5000)
        live = job.recorded()
        with kernel_core(job.pid, job.proc.wait, where) as path:
            core = report_core(path)
        check_schema(core)
        got = {int(s["stream"], 16): s for s in core["recorder"]["launches"]["streams"]}
        equal({h: (told(s), s["may_run"], s["not_kept"]) for h, s in got.items()}, {h: (told(s), s["may_run"], s["not_kept"]) for h, s in live.items()},
              "streams of a core")


def test_library_closed():
    path = compile_c(LIBRARY, "-shared", "-fPIC", "-w")
    with Launches() as job:
        on(job)
        job.do("dlopen", path)
        job.do("library", 0, 1)
        equal(job.recorded(), {}, "a library that came later is not seen")
        on(job)
        job.do("library", 0, 1)
        equal(job.recorded()[0]["launches"], 1, "now it is")
        job.do("dlclose")
        job.do("runtime", 0, 1)
        off(job)
        job.do("dlopen", path)
        job.do("library", 0, 1)


def test_threads():
    """While eight threads launch and wait, it is switched on and off; then each launch is counted."""
    with Launches() as job:
        job.do("runtime", 0, 1)
        job.proc.stdin.write(f"race 8 {20000 if QUICK else 200000}\n".encode())
        job.proc.stdin.flush()
        for _ in range(4 if QUICK else 20):
            on(job)
            report_json(job.pid, expect=(COMPLETE, PARTIAL))
            off(job)
        two = [int(x, 16) for x in job.proc.stdout.readline().split()]
        on(job)
        equal([int(x, 16) for x in job("race", 8, 8192).split()], two, "the same streams")
        got = job.recorded()
        # One that meets a stream which is just being entered is lost, and counted.
        equal(sum(got[s]["launches"] for s in two) + job.launches["lost"], 8 * 8192, "launches")
        check(job.launches["lost"] < 8, "lost", job.launches["lost"])
        equal({got[s]["launches"] - got[s]["ended_to"] - got[s]["may_run"] for s in two}, {0}, "what may run")
        job.do("device")
        equal({s["may_run"] for s in job.recorded().values()}, {0}, "in the end")


def test_fork():
    with Launches() as job:
        on(job)
        job.do("fork")
        job.do("runtime", 0, 1)
        equal(job.recorded()[0]["launches"], 1, "the child's is not counted")


def test_status():
    with Launches() as job:
        said = on(job)
        check("launches" in said, "on tells of launches", said)
        job.do("runtime", 0, 7)
        status = truth.status(job.pid)
        equal((status["launches"], status["launches_lost"]), (7, 0), "status")
        equal((status["launch_words_without_room"], status["launch_words_unchanged"]), (0, 0), "pointers that are not changed")
        check("7 so far" in truth.record(job.pid, "status", expect=(COMPLETE, PARTIAL)), "the text")


if __name__ == "__main__":
    main(globals())
