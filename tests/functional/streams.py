#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Which streams have unfinished work, against PyTorch's own handles; and that the question spoils no capture, waits for nobody and
costs the rest of a report nothing. tests/gpu/streams.py does it on a real GPU."""
import contextlib
import json
import os
import re
import signal
import struct
import subprocess
import time

import nursery
from harness import (CACHE, COMPLETE, PARTIAL, QUICK, RUN_SIM, VRAMTAP, Job, Skip, check, check_schema, equal, main, proc_state, report, report_json,
                     scratch, stop_tool, target, thread_names, wait_until)
from report_torch import usual_versions, versions

SECOND = 1785000000  # cycles of torch.cuda._sleep() on the simulated device
# Standard input is a list of expressions, each answered by its value, and of statements behind a "!".
PROGRAM = """
import ctypes, os, sys, threading, time, torch
x = torch.zeros(10, device="cuda:0")
pool = [torch.cuda.Stream(device="cuda:0") for _ in range(4)]
high = torch.cuda.Stream(device="cuda:0", priority=-1)
handles = [s.cuda_stream for s in pool] + [high.cuda_stream]
cuda = ctypes.CDLL("libcuda.so.1")
context = ctypes.c_void_p()
cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
def ours():
    assert not cuda.cuCtxSetCurrent(context)
def thread(function):
    threading.Thread(target=function, daemon=True).start()
def spin(stream, seconds):
    with torch.cuda.stream(stream):
        torch.cuda._sleep(int(%d * seconds))
captures = [0, 0]  # begun and ended well; spoilt
def capture_on(stream):
    ours()
    graph = ctypes.c_void_p()
    while not stop:
        if cuda.cuStreamBeginCapture_v2(ctypes.c_void_p(stream.cuda_stream), 0) == 0:
            captures[cuda.cuStreamEndCapture(ctypes.c_void_p(stream.cuda_stream), ctypes.byref(graph)) != 0] += 1
gap = 0
def beat():
    global gap
    last = time.monotonic()
    while not stop:
        now = time.monotonic()
        gap = max(gap, now - last)
        last = now
        time.sleep(0.0005)
stop = False
torch.cuda.synchronize()
print("READY", flush=True)
for line in sys.stdin:
    if line.startswith("!"):
        exec(line[1:])
    print("ok" if line.startswith("!") else eval(line), flush=True)
""" % SECOND


class Program(Job):
    def __init__(self, version=None, **env):
        path = scratch("program.py")
        with open(path, "w", encoding="utf-8") as file:
            file.write(PROGRAM)
        self.control = scratch("control")
        self.context = nursery.child(version or versions()[-1], [path], env=dict(os.environ, SIMCUDA_CTL=self.control, **env))

    def __enter__(self):
        super().__enter__()
        self.handles = eval(self.ask("handles"))
        return self

    def do(self, line):
        super().do("!" + line)

    def fault(self, *words):
        subprocess.run([os.path.join(CACHE, "simcuda", "simcuda-ctl"), self.control, *words], check=True)

    def counts(self):
        """Questions whether a stream has work; those of a stream that captured."""
        with open(self.control, "rb") as file:
            return struct.unpack("ii", file.read()[32 + 16 * 64:][:8])

    def slow_queries(self, us):
        with open(self.control, "r+b") as file:
            file.seek(32 + 16 * 64 + 8)
            file.write(struct.pack("i", us))

    def report(self, *args, expect=COMPLETE):
        data = report_json(self.pid, "--once", "--no-owners", *args, expect=expect)
        check_schema(data)
        return data

    def streams(self, *args, expect=COMPLETE):
        return self.report(*args, expect=expect)["streams"]


def by_handle(streams):
    return {int(s["handle"], 16): s for s in streams["streams"]}


def asked(streams):
    equal([look["state"] for look in streams["looks"]], ["asked", "asked"], f"looks of {streams}")
    return by_handle(streams)


def test_streams_states():
    """Each by its handle, in all releases that are here."""
    for version in versions():
        with Program(version) as program:
            found = asked(program.streams())
            equal(set(found), {0, *program.handles}, "streams")
            equal({s["state"] for s in found.values()}, {"idle"}, "states")
            equal([(found[h]["kind"], found[h]["priority"], found[h]["number"]) for h in program.handles],
                  [("pool", 0, 0), ("pool", 0, 1), ("pool", 0, 2), ("pool", 0, 3), ("pool", -1, 0)], "names")
            program.do("spin(pool[2], 100); spin(high, 100)")
            streams = program.streams()
            found = asked(streams)
            equal({h for h, s in found.items() if s["state"] == "busy"}, {program.handles[2], program.handles[4]}, "busy streams")
            equal({tuple(found[h]["looks"]) for h in program.handles[:2]}, {("idle", "idle")}, "idle ones")
            check(streams["apart_ms"] > 1, "time between them", streams)


def test_streams_of_all_releases():
    """The pools in the libraries of all releases that are here: blocks that the allocator made for a pool's stream have that one."""
    releases = sorted(v for v in os.listdir(os.path.join(CACHE, "torch-lib")) if os.path.exists(os.path.join(CACHE, "torch-lib", v, "c10_driver")))
    if not releases:
        raise Skip("no release is set up: sh tests/setup/torch-lib.sh")
    for version in releases:
        env = dict(os.environ, SIMCUDA_CTL=scratch("control"))
        with target(["sh", RUN_SIM, version, "--", "c10_driver"], ready="ok ready", bufsize=0, env=env) as proc:
            def tell(command):
                proc.stdin.write(command.encode() + b"\n")
                return proc.stdout.readline().decode().split()  # noqa: B023
            pid = int(tell("pid")[-1])
            for command in ("device 0", "stream 2", "alloc 1 3000000", "device 1", "stream 3", "alloc 1 5000000", "device 0", "pending 1 70000"):
                equal(tell(command)[0], "ok", command)
            found = [s for s in report_json(pid, "--once", "--no-owners", expect=COMPLETE)["streams"]["streams"] if s["kind"] != "default"]
            equal({s["kind"] for s in found}, {"pool"}, f"{version}: all are known, {found}")
            by_bytes = {(s["device"], s["number"]): s["bytes"] for s in found if s["bytes"]}
            check(by_bytes[0, 1] >= 3000000 and by_bytes[1, 2] >= 5000000, f"{version}: whose blocks", by_bytes)
            equal(len([s for s in found if s["state"] == "busy"]), 1, f"{version}: busy, {found}")
            print(f"  {version}: {len(found)} streams", flush=True)


def waits_of(allocator):
    """{(device, handle or name): (blocks, bytes)} that wait, where all of it is known."""
    waits = allocator["waits"]
    equal((waits["state"], waits["eventless"]), ("known", {"bytes": 0, "blocks": 0}), "what is known of waits")
    return {(w["device"], int(w["handle"], 16) if w["handle"] else (w["kind"], w["priority"], w["number"])): (w["blocks"], w["bytes"])
            for w in waits["streams"]}


AWAITING = """
made = ctypes.c_void_p()
ours()
cuda.cuStreamCreate(ctypes.byref(made), 1)
own = torch.cuda.ExternalStream(made.value, device="cuda:0")
MIB = 1 << 20
def used(mib, *streams, on=None):
    with torch.cuda.stream(on or torch.cuda.default_stream()):
        memory = torch.empty(mib * MIB, dtype=torch.uint8, device="cuda:0")
    for stream in streams:
        memory.record_stream(stream)
def pending():
    blocks = [b for s in torch.cuda.memory_snapshot() for b in s["blocks"] if b["state"] in ("active_pending_free", "active_awaiting_free")]
    return len(blocks), sum(b["size"] for b in blocks)
def loop():
    while not stop:
        spin(pool[1], 0.0005)
        spin(pool[2], 0.001)
        used(2, pool[1], pool[2])
        time.sleep(0.0001)
"""
MIB = 1 << 20


def test_streams_awaiting():
    """Blocks that were freed, by the stream that they wait for, against the program that used them and PyTorch's own snapshot."""
    for version in versions():
        with Program(version) as program:
            program.do(f"exec({AWAITING!r})")
            program.do("used(2, pool[0])")  # idle: it is over at the next allocation
            program.do("[spin(s, 100) for s in (pool[1], pool[2], high, own, torch.cuda.default_stream())]")
            program.do("used(40, pool[1]); used(24, pool[1], pool[2]); used(2, high); used(32, own, pool[2], high); used(2, pool[1])")
            program.do("used(20, torch.cuda.default_stream(), on=pool[3])")
            _, one, two, _, high = program.handles
            want = {(0, one): (3, 66 * MIB), (0, two): (2, 56 * MIB), (0, high): (2, 34 * MIB), (0, int(program.ask("made.value"))): (1, 32 * MIB),
                    (0, 0): (1, 20 * MIB)}
            pending = eval(program.ask("pending()"))
            data = program.report()
            allocator = data["pytorch"]["allocators"][0]
            equal(waits_of(allocator), want, f"{version}: what they wait for")
            equal((allocator["totals"]["awaiting_free"]["blocks"], allocator["totals"]["awaiting_free"]["bytes"]), pending, "PyTorch's own")
            equal(pending, (6, 120 * MIB), "as the program did it")
            found = {(0, h): s["awaiting_free"] for h, s in asked(data["streams"]).items()}
            equal({k: (a["blocks"], a["bytes"]) for k, a in found.items() if a["blocks"]}, want, "beside the streams")
            for how in ("--read-only", "--no-stop"):
                names = {one: ("pool", 0, 1), two: ("pool", 0, 2), high: ("pool", -1, 0)}
                equal(waits_of(program.report(how)["pytorch"]["allocators"][0]), {(0, names.get(h, h)): v for (_, h), v in want.items()}, how)
            for width in ("80", "160"):
                out = report(program.pid, "--once", "--no-owners", "--width", width, expect=COMPLETE)[1]
                check(max(map(len, out.splitlines())) <= int(width), "width", out)
                text = " ".join(out.split())
                check("3 blocks (66.0 MiB) that were freed wait for its work; they cannot be used again until it is done" in text, "several", text)
                check("1 block (20.0 MiB) that was freed waits for its work; it cannot be used again until that is done" in text, "one", text)
                check("wait for PyTorch stream 1 66.0 MiB 3 wait for PyTorch stream 2 56.0 MiB 2 wait for stream 0, priority -1 34.0 MiB 2 "
                      "wait for another stream 32.0 MiB 1" in text, "in the table of memory, the largest first", text)


def test_streams_awaiting_what_is_over():
    """The work is over, and PyTorch has not looked since: it is said so."""
    with Program() as program:
        program.do(f"exec({AWAITING!r})")
        program.do("spin(pool[1], 0.05); used(40, pool[1]); torch.cuda.synchronize()")
        data = program.report()
        equal(waits_of(data["pytorch"]["allocators"][0]), {(0, program.handles[1]): (1, 40 * MIB)}, "waits")
        text = " ".join(report(program.pid, "--once", "--no-owners", expect=COMPLETE)[1].split())
        check("waited for its work, which is over; PyTorch sees that at its next allocation" in text and "5 others are idle" in text, "text", text)
        program.do("used(2)")
        equal(waits_of(program.report()["pytorch"]["allocators"][0]), {}, "it has looked")


def test_streams_awaiting_a_capture():
    """What is freed during a capture gets its event at the end of it."""
    for version in usual_versions():
        with Program(version) as program:
            program.do(f"exec({AWAITING!r})")
            program.do("spin(pool[1], 100); memory = torch.empty(40 * MIB, dtype=torch.uint8, device='cuda'); memory.record_stream(pool[1])")
            program.do("g = torch.cuda.CUDAGraph(); torch.cuda.set_stream(pool[3]); g.capture_begin(); del memory")
            equal(eval(program.ask("pending()")), (1, 40 * MIB), "PyTorch's own")
            waits = program.report("--read-only")["pytorch"]["allocators"][0]["waits"]
            equal(waits, {"state": "known", "eventless": {"blocks": 1, "bytes": 40 * MIB}, "streams": []}, f"{version}: waits")
            out = report(program.pid, "--once", "--no-owners", "--read-only", expect=COMPLETE)[1]
            check("wait for the end of a capture" in out, "text", out)


def test_streams_awaiting_of_a_busy_program():
    """It frees, and PyTorch looks, all the time: what is said to be known is the whole truth."""
    with Program() as program:
        program.do(f"exec({AWAITING!r})")
        program.do("thread(loop)")
        states = {}
        for how in ((), ("--read-only",), ("--no-stop",)):
            for _ in range(4 if QUICK else 40):
                allocator = program.report(*how, expect=(COMPLETE, PARTIAL))["pytorch"]["allocators"][0]
                waits, totals = allocator["waits"], allocator["totals"]
                states[waits["state"]] = states.get(waits["state"], 0) + 1
                if waits["state"] != "known":
                    equal((waits["streams"], waits["eventless"]["blocks"]), ([], 0), "nothing is said")
                    continue
                # Each waits for both streams, or still for one of them.
                numbers = {w["number"]: w["blocks"] for w in waits["streams"]}
                check(max(numbers.values(), default=0) <= totals["awaiting_free"]["blocks"] <= sum(numbers.values()), "all of them", numbers, totals)
                check(set(numbers) <= {1, 2}, "the streams", numbers)
        program.do("stop = True")
        print(f"  {states}", flush=True)
        check(states.get("known", 0) > sum(states.values()) / 4, "known", states)


def pending_in(path):
    """{device: (blocks, bytes)} that await their free in a file that c10_driver wrote."""
    pending = {}
    with open(path, encoding="utf-8") as file:
        for line in map(str.split, file):
            if line[0] == "block" and line[6] == "active_pending_free":
                blocks, size = pending.get(int(line[1]), (0, 0))
                pending[int(line[1])] = (blocks + 1, size + int(line[4]))
    return pending


def test_streams_awaiting_of_all_releases():
    """In the libraries of all releases that are here, from inside and outside, against the library's own snapshot."""
    releases = sorted(v for v in os.listdir(os.path.join(CACHE, "torch-lib")) if os.path.exists(os.path.join(CACHE, "torch-lib", v, "c10_driver")))
    if not releases:
        raise Skip("no release is set up: sh tests/setup/torch-lib.sh")
    for version in releases:
        env = dict(os.environ, SIMCUDA_CTL=scratch("control"))
        with target(["sh", RUN_SIM, version, "--", "c10_driver"], ready="ok ready", bufsize=0, env=env) as proc:
            def tell(command):
                proc.stdin.write(command.encode() + b"\n")
                return proc.stdout.readline().decode().split()  # noqa: B023
            pid, path = int(tell("pid")[-1]), scratch("snapshot")
            for command in ("device 0", "alloc 2 3000000", "pending 45 70000", "private 2 5000", "pending 3 5000000", "device 1", "pending 2 3000000",
                            f"snapshot {path}"):
                equal(tell(command)[0], "ok", command)
            pending = pending_in(path)
            equal([pending[0][0], pending[1][0]], [48, 2], f"{version}: PyTorch's own, {pending}")
            for how in ((), ("--read-only",), ("--no-stop",)):
                for allocator in report_json(pid, "--once", "--no-owners", *how, expect=COMPLETE)["pytorch"]["allocators"]:
                    found = waits_of(allocator)
                    equal(list(found.values()), [pending[allocator["device"]]], f"{version} {how}: GPU {allocator['device']}")
                    equal([(w["device"], w["kind"], w["number"]) for w in allocator["waits"]["streams"]], [(allocator["device"], "pool", 2)], "the stream")
            print(f"  {version}: {pending}", flush=True)


def test_streams_default():
    with Program() as program:
        program.do("torch.cuda._sleep(%d)" % (100 * SECOND))
        found = asked(program.streams())
        equal((found[0]["state"], found[0]["kind"]), ("busy", "default"), "default stream")
        equal({found[h]["state"] for h in program.handles}, {"idle"}, "others")
        check(found[0]["bytes"] > 0, "blocks made for it", found[0])


def test_streams_moving():
    """Work that ends between the two questions."""
    with Program() as program:
        states = set()
        for i in range(50):
            program.do("spin(pool[1], %f)" % (0.02 + 0.02 * (i % 10)))
            states.add(tuple(asked(program.streams())[program.handles[1]]["looks"]))
            program.do("torch.cuda.synchronize()")
            if ("busy", "idle") in states:
                break
        check(("busy", "idle") in states, "seen", states)


def test_streams_text():
    with Program() as program:
        for _ in range(10):
            _, out, _ = report(program.pid, "--once", "--no-owners", expect=COMPLETE)
            part = out.split("\nStreams", 1)[1].split("\n\n", 1)[0]
            if "They could not be asked" not in part:  # a busy machine
                break
        check(re.fullmatch(r"   all 6 that can be asked are idle +asked twice, [0-9.]+ ms apart", part.rstrip()), "one line", part)
        program.do("spin(pool[2], 100)")
        for width in ("80", "160"):
            _, out, _ = report(program.pid, "--once", "--no-owners", "--width", width, expect=COMPLETE)
            part = out.split("\nStreams", 1)[1].split("\n\n", 1)[0]
            check("PyTorch stream 2" in part and "busy both times" in part and "5 others are idle" in part, "text", part)
            check(max(map(len, out.splitlines())) <= int(width), "width", part)


def test_streams_of_others():
    """One that the program made itself is busy: nothing says that all are idle."""
    with Program() as program:
        program.do("own = ctypes.c_void_p(); ours(); cuda.cuStreamCreate(ctypes.byref(own), 1); spin(torch.cuda.ExternalStream(own.value), 100)")
        equal({s["state"] for s in asked(program.streams()).values()}, {"idle"}, "known ones")
        _, out, _ = report(program.pid, "--once", "--no-owners", expect=COMPLETE)
        check("all 6 that can be asked are idle" in out and "in use are idle" not in out, "text", out)


def test_streams_what_they_cost():
    """How long threads were stopped is said with the stops for this."""
    with Program() as program:
        program.slow_queries(300)
        _, out, _ = report(program.pid, "--once", "--no-owners", expect=COMPLETE)
        said = re.search(r"threads stopped for ([0-9.]+) ms", out)
        check(said and float(said[1]) >= 2 * 6 * 0.3, "time", out)


def test_streams_many_threads():
    """1,000 of them: asked, though stopping them takes long. With sanitizers beside other programs (load 6) that was so in half of the looks."""
    with Program() as program:
        program.do("[thread(lambda: time.sleep(1000)) for _ in range(1000)]")
        looks = [look for _ in range(5) for look in program.streams()["looks"]]
        check(sum(look["state"] == "asked" for look in looks) > 2, "asked", looks)


def test_streams_thread_that_cannot_be_stopped():
    """It sleeps in the kernel (vfork()): two tries are enough to know."""
    with Program() as program:
        program.do("libc = ctypes.CDLL(None); thread(lambda: libc.syscall(58) or (libc.sleep(3), libc._exit(0)))")
        task = f"/proc/{program.pid}/task"
        wait_until(lambda: any(proc_state(tid) == "D" for tid in os.listdir(task)), 5, "a thread sleeps")
        equal([(look["state"], look["tries"]) for look in program.streams(expect=PARTIAL)["looks"]], [("not-stopped", 2)] * 2, "looks")


def stopped_between_looks(program, vramtap):
    """False: it was quicker."""
    end = time.monotonic() + 5
    while program.counts()[0] < 6:
        check(time.monotonic() < end, "no first answer")
        time.sleep(0.0005)
    return stop_tool(vramtap, program.pid) and program.counts()[0] == 6


def test_streams_late_report():
    """vramtap was long away, and the helper has ended: it is said so, and nothing is stopped for it."""
    for _ in range(50):
        with Program() as program, tool(program.pid, "--json", "-") as vramtap:
            if not stopped_between_looks(program, vramtap):
                continue
            wait_until(lambda: not helper_is_there(program.pid), 20, "the helper has ended")
            vramtap.send_signal(signal.SIGCONT)
            look = json.loads(vramtap.stdout.read())["streams"]["looks"][1]
            equal((look["state"], look["tries"], look["stopped_ms"]), ("no-helper", 0, 0), "look")
            return
    check(False, "never stopped between its looks")


def test_streams_not_to_be_asked():
    with Program() as program:
        for option in ("--no-streams", "--read-only", "--no-stop"):
            equal(program.streams(option), None, option)
        equal(program.counts(), (0, 0), "questions")


def test_streams_capture():
    """One that captures is told so, and its graph is whole."""
    for version in usual_versions():
        with Program(version) as program:
            program.do("g = torch.cuda.CUDAGraph(); c = torch.cuda.graph(g, stream=pool[3]); c.__enter__(); y = torch.ones(64, device='cuda')")
            found = asked(program.streams())
            equal({h for h, s in found.items() if s["state"] == "capturing"}, {program.handles[3]}, "captures")
            equal({s["state"] for h, s in found.items() if h != program.handles[3]}, {"idle"}, "others")
            program.do("c.__exit__(None, None, None); g.replay(); torch.cuda.synchronize()")
            equal(program.counts()[1], 0, "questions that spoil a capture")
            equal(asked(program.streams())[program.handles[3]]["state"], "idle", "afterwards")


def test_streams_waits_for_the_device():
    """Threads that wait in the driver are no obstacle; nor is a device that hangs."""
    for call in ("cuCtxSynchronize()", "cuStreamSynchronize(ctypes.c_void_p(pool[0].cuda_stream))"):
        with Program() as program:
            program.do("spin(pool[0], 1000)")
            program.fault("hang", "1")
            program.do(f"thread(lambda: (ours(), cuda.{call}))")
            time.sleep(0.2)
            found = asked(program.streams())
            equal(found[program.handles[0]]["state"], "busy", f"during {call}: {found}")


def test_streams_waits_before_work():
    """A call that waits for the device before it takes a lock is an obstacle only at first."""
    with Program() as program:
        program.do("spin(pool[0], 1000); memory = ctypes.c_uint64(); ours(); cuda.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(1 << 21))")
        program.fault("fault", "cuMemFree_v2:block:count=1")
        program.do("thread(lambda: (ours(), cuda.cuMemFree_v2(memory)))")
        time.sleep(0.2)
        streams = program.streams()
        equal(asked(streams)[program.handles[0]]["state"], "busy", f"stream, {streams}")
        check(streams["looks"][0]["tries"] > 2 >= streams["looks"][1]["tries"], "tries", streams["looks"])
        program.fault("clear")


def test_streams_thread_in_driver():
    """It is said, and costs only this; the process goes on."""
    with Program() as program:
        program.fault("fault", "cuMemGetInfo_v2:block:count=1")
        program.do("thread(lambda: (ours(), cuda.cuMemGetInfo_v2(ctypes.byref(ctypes.c_size_t()), ctypes.byref(ctypes.c_size_t()))))")
        time.sleep(0.2)
        before = program.counts()
        data = program.report()
        equal([look["state"] for look in data["streams"]["looks"]], ["in-driver", "in-driver"], "looks")
        equal({s["state"] for s in data["streams"]["streams"]}, {"unknown"}, "states")
        equal(program.counts(), before, "questions")
        check(data["pytorch"]["allocators"], "the rest is there", data["pytorch"])
        _, out, _ = report(program.pid, "--once", "--no-owners", expect=COMPLETE)
        check("a thread was, or may have been, inside the CUDA driver at each try" in " ".join(out.split()), "text", out)
        program.fault("clear")
        asked(program.streams())
        program.do("torch.cuda.synchronize()")


def test_streams_driver_does_not_answer():
    """The process is held for no longer than the 5 ms, and the rest of the report is whole."""
    with Program() as program:
        program.do("thread(beat)")
        program.fault("fault", "cuStreamQuery:block")
        data = program.report()
        equal([look["state"] for look in data["streams"]["looks"]], ["late", "late"], "looks")
        check(data["pytorch"]["allocators"], "the rest is there", data["pytorch"])
        check(data["streams"]["looks"][0]["stopped_ms"] < 100, "stopped", data["streams"]["looks"])
        check(float(program.ask("gap")) < 0.5, "it was held", program.ask("gap"))
        program.fault("clear")
        wait_until(lambda: not helper_is_there(program.pid), 20, "the helper has ended")
        asked(program.streams())
        equal(program.counts()[1], 0, "questions that spoil a capture")


def helper_is_there(pid):
    return "vramtap" in thread_names(pid)


def test_streams_captures_under_reports():
    """Threads begin and end captures all the time, on streams that are asked. No question ever meets one."""
    with Program() as program:
        program.do("thread(lambda: capture_on(pool[0])); thread(lambda: capture_on(pool[1]))")
        program.slow_queries(100)  # else the moment between the two questions is too short to be hit
        seen, n = {}, 30 if QUICK else 1000
        for _ in range(n):
            for look in program.streams()["looks"]:
                seen[look["state"]] = seen.get(look["state"], 0) + 1
        program.do("stop = True; time.sleep(0.2)")
        whole, spoilt = eval(program.ask("captures"))
        queries, spoiling = program.counts()
        print(f"  {n} reports, {seen}; {whole} captures, {queries} questions", flush=True)
        equal((spoilt, spoiling), (0, 0), "spoilt captures")
        check(seen.get("asked", 0) > n / 4 and whole > 1000 and queries > n, "it was asked", seen, whole, queries)


def test_streams_question_on_its_way():
    """Time is up in the middle of a question: it is not left behind for a capture that begins then."""
    with Program() as program:
        program.do("thread(lambda: capture_on(pool[0])); thread(lambda: capture_on(pool[1]))")
        program.slow_queries(4000)  # the second one, of pool[0], is asked when the 5 ms are over
        for _ in range(10 if QUICK else 100):
            for look in program.streams()["looks"]:
                check(look["state"] in ("late", "in-driver", "not-stopped") and look["stopped_ms"] < 500, "look", look)
        program.do("stop = True; time.sleep(0.2)")
        queries, spoiling = program.counts()
        equal((eval(program.ask("captures"))[1], spoiling), (0, 0), f"spoilt captures, {queries} questions")
        check(queries > 10, "it was asked", queries)


def test_streams_interrupted_vramtap():
    """Nothing is asked any more when it has ended, but for what was on its way."""
    later = []
    for _ in range(10):
        with Program() as program:
            program.slow_queries(600)
            with tool(program.pid) as vramtap:
                while not program.counts()[0]:
                    check(vramtap.poll() is None, "it was asked", vramtap.poll())
                    time.sleep(0.0001)
                vramtap.send_signal(signal.SIGTERM)
                equal(vramtap.wait(10), 128 + signal.SIGTERM, "exit code")
                seen = program.counts()[0]
            time.sleep(0.02)
            later.append(program.counts()[0] - seen)
    check(max(later) <= 1, "questions afterwards", later)


@contextlib.contextmanager
def tool(pid, *options):
    """A report that is underway; it is ended, also if a test has stopped it."""
    with subprocess.Popen([VRAMTAP, "report", "--no-owners", "--once", *options, str(pid)],
                          stdout=subprocess.PIPE if options else subprocess.DEVNULL, stderr=subprocess.DEVNULL) as vramtap:
        try:
            yield vramtap
        finally:
            vramtap.kill()


def test_streams_stopped_vramtap():
    """Nothing of it is left when vramtap is killed at any moment."""
    with Program() as program:
        program.do("thread(lambda: capture_on(pool[0]))")
        for i in range(20 if QUICK else 300):
            with tool(program.pid) as vramtap:
                time.sleep(0.01 + 0.004 * (i % 40))
                vramtap.kill()
            check(proc_state(program.pid) in "RS", "it runs", proc_state(program.pid))
        program.do("stop = True; time.sleep(0.2)")
        equal(eval(program.ask("captures"))[1], 0, "spoilt captures")
        wait_until(lambda: not helper_is_there(program.pid), 20, "the helper has ended")
        asked(program.streams())


if __name__ == "__main__":
    main(globals())
