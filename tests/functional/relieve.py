#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""vramtap relieve: what it gives back, against PyTorch's own counters; what it refuses, and that nothing was done then; and that a
process goes on whatever happens to vramtap meanwhile. tests/gpu/relieve.py runs the same program on a real GPU."""
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time

import nursery
from harness import (BUILD, CACHE, COMPLETE, NOTHING, PARTIAL, QUICK, VRAMTAP, Skip, check, equal, main, schema_errors, scratch, target,
                     thread_names, vramtap, wait_until)
from report_torch import RUN_SIM, usual_versions, versions

MIB = 1 << 20
USAGE = 64

# Standard input is a list of expressions, each answered as JSON. Where device memory holds what is written there (on a real GPU), tensors
# know what is in them.
PROGRAM = """
import ctypes, gc, json, os, sys, threading, time, torch
gc.disable()
def new(mib, value=None):
    t = torch.empty(mib << 20, dtype=torch.uint8, device="cuda:0")
    return t if value is None else t.fill_(value)
def counters():
    return {"allocated": torch.cuda.memory_allocated(0), "reserved": torch.cuda.memory_reserved(0), "free": torch.cuda.mem_get_info(0)[0]}
def run(code):
    exec(code, globals())
kept = [new(3 + i, i) for i in range(20)]
cache = [new(64) for _ in range(6)]
del cache
places = [(t.data_ptr(), t.numel()) for t in kept]
torch.cuda.synchronize()
has_memory = int(kept[3][0]) == 3
def whole():
    # Every tensor is where it was, in memory that the allocator has in use, and has its contents.
    used = [(s["device"], b["address"], b["size"]) for s in torch.cuda.memory_snapshot() for b in s["blocks"] if "allocated" in b["state"]]
    return (places == [(t.data_ptr(), t.numel()) for t in kept] and all(any(a == at and n >= size for _, a, n in used) for at, size in places) and
            (not has_memory or all(int(t[0]) == int(t[-1]) == i for i, t in enumerate(kept))))
pinned = [torch.empty(8 << 20, dtype=torch.uint8).pin_memory() for _ in range(3)]
del pinned[1:]
class Node: pass
def garbage(n, mib):
    for _ in range(n):
        node = Node()
        node.me, node.tensor = node, new(mib)
torch.cuda.synchronize()
print("READY", flush=True)
for line in sys.stdin:
    print(json.dumps(eval(line)), flush=True)
"""


def has_ctx_event():
    path = os.path.join(CACHE, "simcuda", "libcuda.so.1")
    with open(path, "rb") as file:
        return b"cuCtxRecordEvent" in file.read()


class Program:
    """The program with PyTorch on the simulated device."""

    def __init__(self, version=None, prepare="", **env):
        version = version or versions()[-1]
        if not os.path.exists(os.path.join(CACHE, "torch", version, "site", "torch")):
            raise Skip(f"the Python part of PyTorch {version} is not set up: sh tests/setup/torch.sh {version}")
        path = scratch("program.py")
        with open(path, "w", encoding="utf-8") as file:
            file.write(prepare + PROGRAM)
        self.context = nursery.child(version, [path], env=dict(os.environ, **env))

    def __enter__(self):
        self.proc = self.context.__enter__()
        self.pid = self.proc.pid
        return self

    def __exit__(self, *exc):
        return self.context.__exit__(*exc)

    def start(self, line):
        self.proc.stdin.write(line.encode() + b"\n")
        self.proc.stdin.flush()

    def __call__(self, line):
        self.start(line)
        answer = self.proc.stdout.readline()
        check(answer, "the program has ended", self.proc.poll())
        return json.loads(answer)

    def do(self, code):
        return self(f"run({code!r})")


def relieve(pid, *args, expect=COMPLETE, timeout=60, env=None):
    _, out, err = vramtap("relieve", str(pid), *args, "--json", "-", expect=expect, timeout=timeout, env=env)
    check(out, "no JSON", err)
    data = json.loads(out)
    with contextlib.suppress(Skip):
        equal(schema_errors(data, schema_file="relieve.schema.json"), [], "what the schema does not allow")
    return data


def refused(program, what, code, *args, words=()):
    """It is refused for that reason, and nothing has changed."""
    data = relieve(program.pid, what, *args, expect=NOTHING)
    equal((data["outcome"], data["refused"]["code"]), ("refused", code), f"{what}: {data['refused']}")
    equal(data["timing"]["call_ms"], None, "a call")
    for word in words:
        check(word in data["refused"]["text"], "the reason", data["refused"])
    return data


def nothing_is_left(pid):
    def left():
        with open(f"/proc/{pid}/maps", encoding="utf-8", errors="replace") as maps:
            return "vramtap" in thread_names(pid) or "/memfd:vramtap" in maps.read()

    wait_until(lambda: not left(), 20, "no thread and no mapping of ours is left")


def is_whole(program):
    """Every tensor still has what the program wrote, and it can allocate and free."""
    check(program("whole()"), "the program's tensors")
    program.do("x = new(7); del x; torch.cuda.synchronize()")



# ---- what it does ----

def empties(version):
    with Program(version) as program:
        before = program("counters()")
        check(before["reserved"] - before["allocated"] >= 384 * MIB, "the program has no cache", before)
        foretold = relieve(program.pid, "--empty-cache", "--dry-run")["at_most_bytes"]
        data = relieve(program.pid, "--empty-cache")
        after = program("counters()")
        equal(foretold, before["reserved"] - after["reserved"], "what the dry run foretold")
        equal(data["outcome"], "done", "outcome")
        check(data["gpu_asked"], "the GPU was not asked")
        device = data["devices"][0]
        for ours, theirs in (("allocated_bytes", "allocated"), ("reserved_bytes", "reserved"), ("free_bytes", "free")):
            equal(device[ours], {"before": before[theirs], "after": after[theirs]}, ours)
        equal(after["allocated"], before["allocated"], "memory in use")
        check(before["reserved"] - after["reserved"] >= 384 * MIB, "nothing was given back", before, after)
        nothing_is_left(program.pid)
        again = relieve(program.pid, "--empty-cache")
        equal(again["devices"][0]["reserved_bytes"], {"before": after["reserved"], "after": after["reserved"]}, "the second time")
        is_whole(program)


def test_relieve_empty_cache():
    for version in usual_versions():
        empties(version)


def test_relieve_expandable_segments():
    with Program(PYTORCH_CUDA_ALLOC_CONF="expandable_segments:True") as program:
        before = program("counters()")
        foretold = relieve(program.pid, "--empty-cache", "--dry-run")["at_most_bytes"]
        check(foretold >= 384 * MIB, "what the dry run foretold", foretold)
        relieve(program.pid, "--empty-cache")
        after = program("counters()")
        check(before["reserved"] - after["reserved"] >= 300 * MIB, "nothing was given back", before, after)
        is_whole(program)


def test_relieve_collect_garbage():
    with Program() as program:
        program("garbage(5, 40)")
        before = program("counters()")
        data = relieve(program.pid, "--collect-garbage")
        after = program("counters()")
        equal(before["allocated"] - after["allocated"], 200 * MIB, "tensors in cycles")
        equal(after["reserved"], before["reserved"], "reserved")
        check(data["collected_objects"] >= 10, "objects", data)
        equal(data["devices"][0]["allocated_bytes"], {"before": before["allocated"], "after": after["allocated"]}, "allocated")
        check(not program("gc.isenabled()"), "the collector was switched on")
        is_whole(program)
        nothing_is_left(program.pid)


DEEP = """
def deep(n):
    return 0 if not n else sorted([n], key=lambda _: deep(n - 1))[0]
class Last:
    def __del__(self):
        global seen
        seen = [threading.current_thread().name, threading.get_native_id() != os.getpid(), deep(120)]
last = Last(); last.me = last; del last
"""


def test_relieve_finalisers_run():
    """Also those that recurse deeply in C: the helper's stack is as large as that of a thread of Python's."""
    with Program() as program:
        program.do(DEEP)
        relieve(program.pid, "--collect-garbage")
        seen = program("seen")
        check(seen[1] and seen[2] == 120, "what the finaliser saw", seen)
        program.do("class Bad:\n    def __del__(self): raise ValueError('from a finaliser')\nb = Bad(); b.me = b; del b")
        equal(relieve(program.pid, "--collect-garbage")["outcome"], "done", "with a finaliser that raises")


def test_relieve_trim_pinned():
    with Program() as program:
        check(program("hasattr(torch._C, '_host_emptyCache')"), "this release cannot")
        data = relieve(program.pid, "--trim-pinned")
        pinned = data["pinned_bytes"]
        check(24 * MIB <= pinned["before"] < 25 * MIB, "pinned memory before", pinned)  # a byte through which tensors were read
        equal(pinned["after"], 8 * MIB, "pinned memory after")
        equal(program("int(pinned[0].is_pinned())"), 1, "the buffer in use")


def test_relieve_dry_run():
    with Program() as program:
        before = program("counters()")
        for what in ("--empty-cache", "--collect-garbage", "--trim-pinned"):
            data = relieve(program.pid, what, "--dry-run")
            equal((data["outcome"], data["dry_run"], data["devices"]), ("would-be-done", True, []), what)
        equal(program("counters()"), before, "what the program has")


def test_relieve_text():
    with Program() as program:
        _, out, _ = vramtap("relieve", str(program.pid), "--empty-cache", "--width", "90", "--ascii", expect=COMPLETE)
        for word in ("Called torch.cuda.empty_cache(): there is 384 MiB less", "reserved by PyTorch in all", "-384 MiB", "What it costs"):
            check(word in out, f"no {word!r}", out)
        check("GPU 1" not in out, "a device that is not used", out)
        check(all(len(line) <= 90 for line in out.splitlines()), "a line is too wide", out)


# ---- what it refuses ----

def test_relieve_usage():
    for args in (["1"], ["--empty-cache"], ["1", "--empty-cache", "--trim-pinned"], ["1", "2", "--empty-cache"], ["x", "--empty-cache"]):
        vramtap("relieve", *args, expect=USAGE)
    _, _, err = vramtap("relieve", "999999999", "--empty-cache", expect=NOTHING)
    check("999999999" in err, "which process", err)


ON_A_SIDE = """
side = torch.cuda.Stream()
with torch.cuda.stream(side):
    torch.cuda._sleep({cycles})
"""
CYCLES = 1785000000  # of a second


def test_relieve_gpu_hangs():
    """On a stream that has no block of the allocator: nobody but the driver knows of it."""
    with Program() as program:
        program.do(ON_A_SIDE.format(cycles=CYCLES * 1000))
        for what in ("--empty-cache", "--trim-pinned", "--collect-garbage"):
            refused(program, what, "gpu-works", "--timeout", "1", words=("GPU 0",))
        check(program("counters()")["reserved"] >= 384 * MIB, "the cache was emptied")
        is_allocating(program)
        nothing_is_left(program.pid)


def is_allocating(program):
    program.do("x = torch.empty(1 << 20, device='cuda:0'); del x")


def test_relieve_gpu_works():
    """Work that ends is waited for."""
    with Program() as program:
        program.do(ON_A_SIDE.format(cycles=CYCLES))
        begin = time.monotonic()
        data = relieve(program.pid, "--empty-cache", "--timeout", "20")
        equal(data["outcome"], "done", "outcome")
        if time.monotonic() - begin < 2:  # else the work had ended before
            check(data["timing"]["gpu_wait_ms"] > 100, "it was not waited for", data["timing"])
        check(data["timing"]["call_ms"] < 500, "the call waited for the GPU", data["timing"])
        is_whole(program)


def test_relieve_lock_is_held():
    """A thread is in cudaMalloc(), with the lock of the allocator."""
    more = """
stuck = threading.Thread(target=lambda: torch.empty(500 << 20, dtype=torch.uint8, device="cuda:0"), daemon=True)
"""
    with Program() as program:
        program.do(more)
        program("ctypes.CDLL('libsimcuda.so').simcuda_set_fault(b'cudaMalloc:block') and None or stuck.start()")
        tid = program("stuck.native_id")
        wait_until(lambda: "lock-held" in vramtap("report", str(program.pid), "--read-only", "--json", "-", "--no-owners")[1], 20, "lock")
        for what in ("--empty-cache", "--trim-pinned", "--collect-garbage"):
            data = refused(program, what, "allocator-locked", words=(f"thread {tid} holds the lock",))
            equal((data["refused"]["thread"], data["refused"]["device"]), (tid, 0), "who and where")
        program("ctypes.CDLL('libsimcuda.so').simcuda_clear_faults() and None or stuck.join()")
        equal(relieve(program.pid, "--empty-cache")["outcome"], "done", "once it is free")


def is_in_sleep(pid):
    with open(f"/proc/{pid}/syscall", encoding="ascii") as file:
        return file.read().startswith("230 ")  # clock_nanosleep


def test_relieve_gil_is_held():
    with Program() as program:
        program.start("ctypes.PyDLL(None).sleep(1000000)")
        wait_until(lambda: is_in_sleep(program.pid), 20, "the main thread sleeps in C")
        for what in ("--empty-cache", "--collect-garbage"):
            refused(program, what, "gil-held", words=(f"thread {program.pid} holds the GIL",))
        nothing_is_left(program.pid)


CAPTURE = """
graph, side = torch.cuda.CUDAGraph(), torch.cuda.Stream()
static = new(4)
def begin():
    torch.cuda.synchronize()
    torch.cuda.set_stream(side)
    graph.capture_begin()
def end():
    out = static + 1
    graph.capture_end()
    torch.cuda.set_stream(torch.cuda.default_stream())
    return True
"""


def test_relieve_capture():
    """The graph is whole afterwards, and the program's next garbage collection and empty_cache() work."""
    for version in usual_versions():
        with Program(version) as program:
            program.do(CAPTURE)
            program("begin()")
            for what in ("--empty-cache", "--trim-pinned", "--collect-garbage"):
                refused(program, what, "capture", words=("captured on GPU 0",))
            check(program("end()"), "the capture ended")
            program.do("graph.replay(); torch.cuda.synchronize()")
            equal(relieve(program.pid, "--empty-cache")["outcome"], "done", "after the capture")


def test_relieve_capture_of_each_release():
    """With the library alone: it is in the middle of an allocation for a private pool."""
    releases = [v for v in sorted(os.listdir(os.path.join(CACHE, "torch-lib")))
                if os.path.exists(os.path.join(CACHE, "torch-lib", v, "c10_driver"))]
    if not releases:
        raise Skip("no library alone is set up: sh tests/setup/torch-lib.sh")
    for version in releases:
        control = scratch("control")
        with target(["sh", RUN_SIM, version, "--", "c10_driver"], ready="ok ready", bufsize=0,
                    env=dict(os.environ, SIMCUDA_CTL=control)) as proc:
            proc.stdin.write(b"alloc 2 1000\n")
            proc.stdout.readline()
            data = relieve(proc.pid, "--empty-cache", expect=NOTHING)
            equal(data["refused"]["code"], "no-interpreter", f"{version}, without a capture: {data['refused']}")
            subprocess.run([os.path.join(CACHE, "simcuda", "simcuda-ctl"), control, "fault", "cudaMalloc:block"], check=True)
            proc.stdin.write(b"private 1 30000000\n")
            wait_until(lambda p=proc: relieve(p.pid, "--empty-cache", expect=NOTHING)["refused"]["code"] == "capture", 20,
                       f"{version}: the capture is seen")


MAP_LIBRARY = """
import mmap
os.makedirs({folder!r}, exist_ok=True)
with open(os.path.join({folder!r}, {name!r}), "w+b") as file:
    file.truncate(4096)
    mapped = mmap.mmap(file.fileno(), 4096)
"""


def with_library(name):
    return MAP_LIBRARY.format(folder=scratch("libraries"), name=name)


def test_relieve_library_captures():
    """The garbage is collected, and the driver is not asked for the event that would end a capture."""
    for name in ("libnvinfer.so.10", "libnvinfer_lean.so.10", "libggml-cuda.so"):
        with Program() as program:
            program.do(with_library(name))
            program("ctypes.CDLL('libsimcuda.so').simcuda_set_fault(b'cuCtxRecordEvent:error=801')")
            for what in ("--empty-cache", "--trim-pinned"):
                refused(program, what, "may-capture")
            data = relieve(program.pid, "--collect-garbage")
            equal((data["outcome"], data["gpu_asked"]), ("done", False), name)
    with Program(PYTORCH_CUDA_ALLOC_CONF="backend:cudaMallocAsync") as program:
        program("ctypes.CDLL('libsimcuda.so').simcuda_set_fault(b'cuCtxRecordEvent:error=801')")
        data = relieve(program.pid, "--collect-garbage")
        equal((data["outcome"], data["gpu_asked"]), ("done", False), "captures of this allocator are not seen")
        _, out, _ = vramtap("relieve", str(program.pid), "--collect-garbage", "--width", "200", expect=COMPLETE)
        check("less GPU memory is in use is not known" in out and "Next:" not in out, "what is known", out)
        check("found no unreachable objects (or was collecting already" in out, "nothing collected", out)


def test_relieve_allocator_calls_python():
    with Program() as program:
        program.do(with_library("cumem_allocator.abi3.so"))
        refused(program, "--empty-cache", "calls-python", words=("cumem_allocator",))
        equal(relieve(program.pid, "--collect-garbage")["outcome"], "done", "it frees no segment")


def test_relieve_capture_begins_meanwhile():
    """Between the check and the question, which does not return so soon here."""
    control = scratch("control")
    with Program(SIMCUDA_CTL=control) as program:
        program.do(CAPTURE)
        program("ctypes.CDLL('libsimcuda.so').simcuda_set_fault(b'cuCtxRecordEvent:block')")
        with subprocess.Popen([VRAMTAP, "relieve", str(program.pid), "--empty-cache", "--timeout", "10", "--width", "200"],
                              stdout=subprocess.PIPE) as tool:
            wait_until(lambda: "\nblocked 1" in simcuda_shows(control), 30, "the driver is asked")
            program("begin()")
            program("ctypes.CDLL('libsimcuda.so').simcuda_clear_faults()")
            out = tool.communicate(timeout=60)[0].decode()
        equal(tool.returncode, NOTHING, out)
        check("Nothing was called: " in out and "ended that capture with an error" in out, "what is said", out)


def test_relieve_history():
    with Program() as program:
        program.do("torch.cuda.memory._record_memory_history()")
        refused(program, "--empty-cache", "history")
        equal(relieve(program.pid, "--collect-garbage")["outcome"], "done", "the collector needs no stack")
        program.do("torch.cuda.memory._record_memory_history(enabled=None)")
        equal(relieve(program.pid, "--empty-cache")["outcome"], "done", "without a history")


def test_relieve_driver_says_no():
    with Program() as program:
        program("ctypes.CDLL('libsimcuda.so').simcuda_set_fault(b'cuCtxRecordEvent:error=801')")
        data = refused(program, "--empty-cache", "driver-error", words=("801",))
        equal(data["refused"]["cuda_error"], 801, "the error")
        program("ctypes.CDLL('libsimcuda.so').simcuda_clear_faults()")
        program("ctypes.CDLL('libsimcuda.so').simcuda_set_fault(b'cuThreadExchangeStreamCaptureMode:error=1')")
        refused(program, "--empty-cache", "no-capture-mode")


def test_relieve_driver_is_silent():
    """The helper's thread hangs in the driver, and holds nothing."""
    with Program() as program:
        program("ctypes.CDLL('libsimcuda.so').simcuda_set_fault(b'cuCtxRecordEvent:block')")
        data = refused(program, "--empty-cache", "driver-silent", "--timeout", "1", words=("holds nothing",))
        check(data["timing"]["total_ms"] < 20000, "it took too long", data["timing"])
        equal(data["timing"]["gpu_wait_ms"], None, "a wait that did not end")
        is_whole(program)
        program("ctypes.CDLL('libsimcuda.so').simcuda_clear_faults()")
        nothing_is_left(program.pid)
        check(program("counters()")["reserved"] >= 384 * MIB, "it was done all the same")


def test_relieve_replaced_function():
    with Program() as program:
        program.do("real = torch._C._cuda_emptyCache; torch._C._cuda_emptyCache = lambda: real()")
        refused(program, "--empty-cache", "no-function")


def test_relieve_other_allocators():
    with Program(PYTORCH_CUDA_ALLOC_CONF="backend:cudaMallocAsync") as program:
        refused(program, "--empty-cache", "no-allocator", words=("cudaMallocAsync",))
        equal(relieve(program.pid, "--collect-garbage")["outcome"], "done", "the collector")


def test_relieve_without_pytorch():
    with target([sys.executable, "-c", "import sys; print('READY', flush=True); sys.stdin.read()"], ready="READY") as proc:
        data = relieve(proc.pid, "--empty-cache", expect=NOTHING)
        equal(data["refused"]["code"], "no-allocator", "the reason")
    with target(["sleep", "1000"]) as proc:
        for what in ("--empty-cache", "--collect-garbage"):
            data = relieve(proc.pid, what, expect=NOTHING)
            check(data["refused"]["code"] in ("no-allocator", "no-interpreter"), "the reason", data)


def test_relieve_call_raises():
    """cudaFree() fails: PyTorch's exception ends in the interpreter, and the process goes on."""
    with Program() as program:
        program("ctypes.CDLL('libsimcuda.so').simcuda_set_fault(b'cudaFree:error=1')")
        data = relieve(program.pid, "--empty-cache", expect=PARTIAL)
        equal(data["outcome"], "raised", "outcome")
        program("ctypes.CDLL('libsimcuda.so').simcuda_clear_faults()")
        equal(program("1 + 1"), 2, "the program goes on")


def test_relieve_call_does_not_return():
    """A free that hangs although the GPU was idle: it is said, and ends when the free does."""
    control = scratch("control")
    with Program(SIMCUDA_CTL=control) as program:
        program("ctypes.CDLL('libsimcuda.so').simcuda_set_fault(b'cudaFree:block')")
        with subprocess.Popen([VRAMTAP, "relieve", str(program.pid), "--empty-cache", "--timeout", "1"], stdout=subprocess.PIPE) as tool:
            wait_until(lambda: "\nblocked 1" in simcuda_shows(control), 30, "the helper's thread waits in the free")
            equal(program("1 + 1"), 2, "Python goes on: it is called without the GIL")
            program("ctypes.CDLL('libsimcuda.so').simcuda_clear_faults()")
            out = tool.communicate(timeout=60)[0].decode()
        check("there is 384 MiB less" in out, "the output", out)
        is_whole(program)


def simcuda_shows(control):
    return subprocess.run([os.path.join(CACHE, "simcuda", "simcuda-ctl"), control, "show"], capture_output=True, check=True).stdout.decode()


# ---- whatever happens to vramtap ----

def test_relieve_killed_is_not_done():
    """vramtap is killed while the GPU still works: nobody waits for it any more, so it is not begun."""
    with Program() as program:
        before = program("counters()")
        program.do(ON_A_SIDE.format(cycles=4 * CYCLES))
        with subprocess.Popen([VRAMTAP, "relieve", str(program.pid), "--empty-cache", "--timeout", "20"], stdout=subprocess.DEVNULL) as tool:
            wait_until(lambda: "vramtap" in thread_names(program.pid), 20, "it is inside")
            time.sleep(0.7)
            tool.kill()
        program.do("torch.cuda.synchronize()")
        nothing_is_left(program.pid)
        equal(program("counters()"), before, "what the program has")


def waits_for_gil(program, control):
    """A vramtap whose helper waits for the GIL, which the main thread holds for 2 s."""
    program("ctypes.CDLL('libsimcuda.so').simcuda_set_fault(b'cuCtxRecordEvent:block')")
    tool = subprocess.Popen([VRAMTAP, "relieve", str(program.pid), "--empty-cache", "--timeout", "20"], stdout=subprocess.DEVNULL,
                            stderr=subprocess.PIPE)
    wait_until(lambda: "\nblocked 1" in simcuda_shows(control), 30, "the driver is asked")
    program.start("ctypes.PyDLL(None).usleep(2000000)")
    time.sleep(0.3)
    subprocess.run([os.path.join(CACHE, "simcuda", "simcuda-ctl"), control, "clear"], check=True)
    time.sleep(0.9)
    equal(tool.poll(), None, "it waits")
    return tool


def test_relieve_killed_at_the_gil():
    """Also a moment before the helper gets it: who was there a moment ago is not there now."""
    for end, word in ((signal.SIGKILL, ""), (signal.SIGINT, "nothing was called"), (signal.SIGTERM, "nothing was called")):
        control = scratch("control")
        with Program(SIMCUDA_CTL=control) as program:
            before = program("counters()")
            with waits_for_gil(program, control) as tool:
                tool.send_signal(end)
                err = tool.communicate(timeout=20)[1].decode()
            check(word in err, "what it says", err)
            equal(json.loads(program.proc.stdout.readline()), 0, "the sleep")
            nothing_is_left(program.pid)
            equal(program("counters()"), before, f"what the program has, after {end.name}")


def test_relieve_interrupted_in_the_call():
    control = scratch("control")
    with Program(SIMCUDA_CTL=control) as program:
        program("ctypes.CDLL('libsimcuda.so').simcuda_set_fault(b'cudaFree:block')")
        with subprocess.Popen([VRAMTAP, "relieve", str(program.pid), "--empty-cache"], stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE) as tool:
            wait_until(lambda: "\nblocked 1" in simcuda_shows(control), 30, "the helper's thread waits in the free")
            tool.send_signal(signal.SIGINT)
            err = tool.communicate(timeout=20)[1].decode()
        check("the call had begun, and goes on" in err, "what it says", err)
        program("ctypes.CDLL('libsimcuda.so').simcuda_clear_faults()")
        nothing_is_left(program.pid)
        is_whole(program)


def test_relieve_process_ends_in_the_call():
    """Then it is not said that nothing was done."""
    control = scratch("control")
    with Program(SIMCUDA_CTL=control) as program:
        program("ctypes.CDLL('libsimcuda.so').simcuda_set_fault(b'cudaFree:block')")
        with subprocess.Popen([VRAMTAP, "relieve", str(program.pid), "--empty-cache", "--json", "-"], stdout=subprocess.PIPE) as tool:
            wait_until(lambda: "\nblocked 1" in simcuda_shows(control), 30, "the helper's thread waits in the free")
            os.kill(program.pid, signal.SIGKILL)
            data = json.loads(tool.communicate(timeout=60)[0])
        equal((tool.returncode, data["outcome"], data["timing"]["call_ms"]), (PARTIAL, "process-ended", None), "the answer")
        with contextlib.suppress(Skip):
            equal(schema_errors(data, schema_file="relieve.schema.json"), [], "what the schema does not allow")


def test_relieve_process_ends():
    with Program() as program:
        program.do(ON_A_SIDE.format(cycles=100 * CYCLES))
        with subprocess.Popen([VRAMTAP, "relieve", str(program.pid), "--empty-cache", "--timeout", "20"], stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE) as tool:
            wait_until(lambda: "vramtap" in thread_names(program.pid), 20, "it is inside")
            time.sleep(0.5)
            os.kill(program.pid, signal.SIGKILL)
            err = tool.communicate(timeout=60)[1].decode()
        equal(tool.returncode, NOTHING, err)
        check("ended" in err or "no such" in err.lower() or "not exist" in err, "the message", err)


POINTS = ("relieve.begin", "relieve.inside", "relieve.answered", "relieve.left")


def test_relieve_killed_at_each_point():
    with open(os.path.join(BUILD, "config.h"), encoding="utf-8") as file:
        if "#define VT_FAULT_POINTS 1" not in file.read():
            raise Skip("built without --enable-fault-points")
    with Program() as program:
        for what in ("--empty-cache", "--collect-garbage", "--trim-pinned"):
            for point in POINTS:
                done = subprocess.run([VRAMTAP, "relieve", str(program.pid), what], env=dict(os.environ, VRAMTAP_FAULT=f"kill:{point}"),
                                      stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=60, check=False)
                equal(done.returncode, -signal.SIGKILL, f"{what}: killed at {point}")
                is_whole(program)
                equal(relieve(program.pid, what)["outcome"], "done", f"{what} after a kill at {point}")
        nothing_is_left(program.pid)


BUSY = """
errors, rounds, stop = [], [0] * 4, False
def work(n):
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        while not stop:
            sizes = [(n * 7919 + rounds[n] * 104729 + i * 31) % (9 << 20) + 1 for i in range(8)]
            tensors = [torch.empty(s, dtype=torch.uint8, device="cuda:0") for s in sizes]
            if len({t.data_ptr() for t in tensors}) != 8 or any(t.numel() != s for t, s in zip(tensors, sizes)):
                errors.append(n)
            node = Node(); node.me, node.t = node, torch.empty(1000, dtype=torch.uint8, device="cuda:0")
            del tensors, node
            time.sleep(0.001)
            rounds[n] += 1
threads = [threading.Thread(target=work, args=(n,), daemon=True) for n in range(4)]
for t in threads: t.start()
"""


def test_relieve_soak():
    """Four threads allocate and make garbage; relieved again and again, half of the time by a vramtap that is killed at a random instant."""
    rng = random.Random(17)
    with Program() as program:
        program.do(BUSY)
        outcomes = {}
        for i in range(12 if QUICK else 40):
            what = rng.choice(("--empty-cache", "--collect-garbage", "--trim-pinned"))
            with subprocess.Popen([VRAMTAP, "relieve", str(program.pid), what], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as tool:
                if i % 2:
                    time.sleep(rng.uniform(0, 0.6))
                    tool.kill()
                tool.wait(timeout=60)
            outcomes[tool.returncode] = outcomes.get(tool.returncode, 0) + 1
        check(outcomes.get(COMPLETE, 0) >= 3, "none was done", outcomes)
        rounds = program("rounds")
        wait_until(lambda: all(b > a for a, b in zip(rounds, program("rounds"))), 20, "all threads go on")
        program.do("stop = True\nfor t in threads: t.join()")
        equal(program("errors"), [], "errors")
        is_whole(program)
        nothing_is_left(program.pid)


if __name__ == "__main__":
    if not has_ctx_event():
        print("skip: the simulated device is an older one: sh tests/simcuda/build.sh")
        sys.exit(77)
    main(globals())
