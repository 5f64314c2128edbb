#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What others than the walk say of PyTorch's memory: the driver's pools, and PyTorch itself through its interpreter."""
import concurrent.futures
import contextlib
import json
import os
import re
import struct
import subprocess
import tempfile

import torch_truth
from harness import (BUILD, CACHE, COMPLETE, PARTIAL, QUICK, SOURCE, Skip, check, diag_codes, equal, main, report, report_json, scratch, target,
                     thread_names, wait_until)
from report_torch import RUN_SIM, Driver, usual_versions, versions

TARGETS = os.path.join(SOURCE, "tests", "targets")
CTL = os.path.join(CACHE, "simcuda", "simcuda-ctl")


@contextlib.contextmanager
def torch_program(version, program, *args, **env):
    """A Python program with the PyTorch wheel of that version on the simulated device; it prints a line with READY and JSON."""
    if not os.path.exists(os.path.join(CACHE, "torch", version, "site", "torch")):
        raise Skip(f"the Python part of PyTorch {version} is not set up: sh tests/setup/torch.sh {version}")
    with target(["sh", RUN_SIM, version, "--", "python", "-c", program, *args], ready="READY",
                env=dict(os.environ, **env)) as proc:
        yield proc, json.loads(proc.ready_line[len("READY"):] or "null")


# ---- the driver's pools ----

ASYNC = """
import json, sys, torch
kept = [torch.empty((i + 1) * 3000000, dtype=torch.uint8, device="cuda:0") for i in range(30)]
del kept[3::2]
torch.cuda.synchronize()
print("READY", json.dumps(torch.cuda.memory_stats()), flush=True)
sys.stdin.read()
"""


def the_pool(data):
    devices = data["cuda"]["devices"]
    equal([(p["kind"]) for p in devices[0]["memory_pools"]], ["default"], "pools of GPU 0")
    equal(devices[1]["memory_pools"], None, "pools of a device without a context")
    return devices[0]["memory_pools"][0]


def async_backend(version):
    with torch_program(version, ASYNC, PYTORCH_CUDA_ALLOC_CONF="backend:cudaMallocAsync") as (proc, theirs):
        data = report_json(proc.pid, expect=COMPLETE)
        pool = the_pool(data)
        equal(data["pytorch"]["state"], "cudaMallocAsync", "backend")
        for ours, name in (("used_bytes", "allocated_bytes.all.current"), ("used_high_bytes", "allocated_bytes.all.peak"),
                           ("reserved_bytes", "reserved_bytes.all.current"), ("reserved_high_bytes", "reserved_bytes.all.peak")):
            equal(pool[ours], theirs[name], f"{ours}, in PyTorch's words {name}")
        check(pool["used_bytes"] < pool["reserved_bytes"], "nothing is kept: the test has nothing to tell apart", pool)
        _, out, _ = report(proc.pid, "--width", "100")
        check(re.search(r"cudaMallocAsync pools .* in use$", out, re.M), "the text", out)

        data = report_json(proc.pid, "--ask-pytorch", expect=COMPLETE)
        check("native allocator is not in use" in why_not(data), "the reason", why_not(data))
        data = report_json(proc.pid, "--read-only", expect=PARTIAL)
        check("backend-not-native" in diag_codes(data), "nothing says what is missing", data["diagnostics"])
        check(all(d["memory_pools"] is None for d in data["cuda"]["devices"]), "pools without asking the driver", data["cuda"])


def test_async_backend():
    for version in usual_versions():
        async_backend(version)


# Beside PyTorch's own allocator, something else takes from the driver's pool.
BESIDE = """
import ctypes, json, sys, torch
kept = torch.empty(50 << 20, dtype=torch.uint8, device="cuda:0")
cuda, pool, threshold = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(), ctypes.c_uint64(1 << 62)
assert cuda.cuDeviceGetDefaultMemPool(ctypes.byref(pool), 0) == 0
assert cuda.cuMemPoolSetAttribute(pool, 4, ctypes.byref(threshold)) == 0
addresses = [ctypes.c_uint64() for _ in range(3)]
for address in addresses:
    assert cuda.cuMemAllocAsync(ctypes.byref(address), ctypes.c_size_t(10 << 20), None) == 0
assert cuda.cuMemFreeAsync(addresses.pop(), None) == 0
print("READY", json.dumps([20 << 20, 32 << 20]), flush=True)
sys.stdin.read()
"""


def test_pool_beside_native_backend():
    with torch_program(versions()[-1], BESIDE) as (proc, (used, reserved)):
        data = report_json(proc.pid, expect=COMPLETE)
        pool = the_pool(data)
        equal((pool["used_bytes"], pool["reserved_bytes"]), (used, reserved), "the pool")
        totals = data["pytorch"]["allocators"][0]["totals"]
        check(totals["everything_else_bytes"] >= reserved, "everything else", totals)
        _, out, _ = report(proc.pid, "--width", "100")
        check(re.search(r"cudaMallocAsync pools +32.0 MiB .*20.0 MiB in use$", out, re.M), "the text", out)


# While a thread captures a graph, asking for a pool can spoil that.
CAPTURING = """
import json, sys, torch
sys.path.insert(0, sys.argv[1])
import graph_capture
kept = torch.empty(50 << 20, dtype=torch.uint8, device="cuda:0")
capture = graph_capture.Capture(0)
print("READY", flush=True)
for _ in sys.stdin:
    print(json.dumps(capture.end()), flush=True)
"""


def captured(*options, fault=None):
    """What CUDA returned at the begin and the end of a capture, and the report in between."""
    control = scratch("control")
    with torch_program(versions()[-1], CAPTURING, TARGETS, SIMCUDA_CTL=control) as (proc, _):
        if fault:
            subprocess.run([CTL, control, "fault", fault], check=True)
        data = report_json(proc.pid, *options, expect=COMPLETE)
        proc.stdin.write(b"end\n")
        proc.stdin.flush()
        return json.loads(proc.stdout.readline()), data


def test_capture_is_spared():
    for options in (), ("--ask-pytorch",):
        results, data = captured(*options)
        equal(results, [0, 0], "begin and end of the capture")
        the_pool(data)
    # By a driver that cannot be told to spare it, the pools are not asked for.
    results, data = captured(fault="cuThreadExchangeStreamCaptureMode:error=1")
    equal(results, [0, 0], "begin and end of the capture")
    equal(data["cuda"]["devices"][0]["memory_pools"], None, "pools")
    check(any("could break a CUDA graph" in d["text"] for d in data["diagnostics"]), "why", data["diagnostics"])


# ---- PyTorch itself ----

# Everything that a snapshot can show. The target tells its own on request, so that nothing changes between the two.
MEMORY = """
import json, sys, threading, torch
def fill():
    keep = [torch.empty(512 * (i % 9 + 1), dtype=torch.uint8, device="cuda:0") for i in range(3000)]
    del keep[::7]
    big = [torch.empty(i * 1000003 + 1, dtype=torch.uint8, device="cuda:1") for i in range(30)]
    del big[::3]
    side = torch.cuda.Stream(device="cuda:0")
    with torch.cuda.stream(side):
        keep.append(torch.empty(7000000, device="cuda:0"))
    if hasattr(torch.cuda, "MemPool"):
        pool = torch.cuda.MemPool()
        with torch.cuda.use_mem_pool(pool):
            keep += [torch.empty(100000 * i + 1, device="cuda:0") for i in range(12)]
        del keep[-5:-2]
        keep.append(pool)
    return keep, big
kept = fill()
def compute():
    n = 0
    while True:
        n = (n * 31 + 7) % 1000003
"""
ANSWER = """
print("READY", flush=True)
for line in sys.stdin:
    print(json.dumps(eval(line)), flush=True)
"""
SNAPSHOT = "[torch.cuda.memory._snapshot()['segments'], [torch.cuda.memory_stats(i) for i in range(2)]]"


def tell(proc, expression):
    proc.stdin.write(expression.encode() + b"\n")
    proc.stdin.flush()
    return json.loads(proc.stdout.readline())


def methods(data):
    return {a["method"] for a in data["pytorch"]["allocators"]}


def why_not(data):
    """What the report says about why PyTorch was not asked."""
    said = [d["text"] for d in data["diagnostics"] if d["text"].startswith("PyTorch itself was not asked")]
    check(said, "no diagnostic says why PyTorch was not asked", data["diagnostics"])
    return said[0]


def same_as(data, snapshot):
    """The report of --ask-pytorch against PyTorch's own words, taken by the process itself."""
    segments, stats = snapshot
    equal(methods(data), {"interpreter"}, "how the blocks came about")
    torch_truth.same_blocks(torch_truth.of_report(data), torch_truth.of_python_snapshot(segments), "as PyTorch tells them")
    torch_truth.totals_agree(data["pytorch"]["allocators"])
    for allocator in data["pytorch"]["allocators"]:
        theirs = stats[allocator["device"]]
        for name, values in allocator["statistics"].items():
            if isinstance(values, dict):
                equal(values, {key: theirs[f"{name}.all.{key}"] for key in values}, f"counter {name}")
            else:
                equal(values, theirs["num_" + name], f"counter {name}")


def whole_blocks(data):
    """All that both ways of reading know of each block."""
    return sorted((a["device"], s["address"], s["stream"], s["pool"], s["private_pool"] or "", s["expandable"], b["address"],
                   b["bytes"], b["state"], b.get("requested_bytes", 0)) for a in data["pytorch"]["allocators"] for s in a["segments"]
                  for b in s["blocks"] if b["state"] != "unmapped")


def told_like_walked(proc):
    """Told and walked are the same, and nothing in the interpreter has changed."""
    told = report_json(proc.pid, "--ask-pytorch", expect=COMPLETE)
    same_as(told, tell(proc, SNAPSHOT))
    walked = report_json(proc.pid, expect=COMPLETE)
    equal(methods(walked), {"inside"}, "how the blocks came about")
    equal(whole_blocks(told), whole_blocks(walked), "told and walked")
    equal(*([a["totals"] for a in data["pytorch"]["allocators"]] for data in (told, walked)), "totals")
    check(told["timing"]["gil_held_ms"] > 0 and walked["timing"]["gil_held_ms"] == 0, "time of the GIL", told["timing"])
    check("asked-pytorch" in diag_codes(told), "no diagnostic says that PyTorch was asked", told["diagnostics"])
    equal(tell(proc, "__import__('gc').isenabled() and threading.active_count()"), 1, "the interpreter afterwards")
    print(f"  {len(whole_blocks(told))} blocks, GIL held for {told['timing']['gil_held_ms']:.1f} ms")


def told_while_python_computes(proc):
    """The holder of the GIL runs Python code all the time, so it gives it up when asked. The device hangs: it is not needed."""
    tell(proc, "threading.Thread(target=compute, daemon=True).start() or torch.cuda._sleep(1 << 62)")
    for _ in range(5):  # on a busy machine its thread may get no processor while it is watched
        data = report_json(proc.pid, "--ask-pytorch", expect=(COMPLETE, PARTIAL))
        if methods(data) == {"interpreter"}:
            break
    same_as(data, tell(proc, SNAPSHOT))


def spoil_layout(pid, data):
    """Changes the load factor of PyTorch's hash tables a little: PyTorch does not mind, but no release looks like that."""
    half, other = struct.pack("<f", 0.5), struct.pack("<f", 0.49)
    with open(f"/proc/{pid}/mem", "r+b", buffering=0) as memory:
        for allocator in data["pytorch"]["allocators"]:
            start = int(allocator["object"], 16)
            memory.seek(start)
            bytes_ = memory.read(2600)
            for offset in range(4, len(bytes_) - 4, 8):
                if bytes_[offset:offset + 4] == half:
                    memory.seek(start + offset)
                    memory.write(other)


def told_without_layout(proc):
    spoil_layout(proc.pid, report_json(proc.pid))
    data = report_json(proc.pid, "--read-only", expect=PARTIAL)
    check("layout-refused" in diag_codes(data), "the layout is understood in spite of all", data["diagnostics"])
    equal(data["pytorch"]["allocators"], [], "allocators of a refused layout")
    data = report_json(proc.pid, expect=COMPLETE)
    same_as(data, tell(proc, SNAPSHOT))
    check("asked-pytorch" in diag_codes(data), "no diagnostic says that PyTorch was asked", data["diagnostics"])
    memory = data["cuda"]["devices"][0]["memory"]["used_bytes"]
    totals = data["pytorch"]["allocators"][0]["totals"]
    equal(totals["everything_else_bytes"], memory - totals["reserved_bytes"], "everything else")
    _, out, _ = report(proc.pid, "--width", "100")
    check("PyTorch itself was asked" in " ".join(out.split()), "the text", out)


def test_ask_pytorch():
    for version in usual_versions():
        with torch_program(version, MEMORY + ANSWER) as (proc, _):
            told_like_walked(proc)
            told_without_layout(proc)
            told_while_python_computes(proc)


def test_ask_pytorch_with_expandable_segments():
    with torch_program(versions()[-1], MEMORY + ANSWER, PYTORCH_CUDA_ALLOC_CONF="expandable_segments:True") as (proc, _):
        told_like_walked(proc)


def is_in_sleep(pid):
    with open(f"/proc/{pid}/syscall", encoding="ascii") as file:
        return file.read().startswith("230 ")  # clock_nanosleep


def nothing_is_left(pid):
    def left():
        with open(f"/proc/{pid}/maps", encoding="utf-8", errors="replace") as maps:
            return "vramtap" in thread_names(pid) or "/memfd:vramtap" in maps.read()

    wait_until(lambda: not left(), 20, "no thread and no mapping of ours is left")


def refused(proc, *words, expect=COMPLETE):
    """PyTorch is not asked, the report has the reason, and the blocks come from the walk."""
    data = report_json(proc.pid, "--ask-pytorch", expect=expect)
    text = why_not(data)
    check(all(word in text for word in words), "the reason", text)
    check("interpreter" not in methods(data), "it was asked all the same", methods(data))
    equal(data["timing"]["gil_held_ms"], 0, "the GIL was held")
    nothing_is_left(proc.pid)
    return data


def test_somebody_would_wait():
    """A history that is recorded, a mutex and then the GIL that are held for ever."""
    more = """
import ctypes
ask = ctypes.CDLL("libsimcuda.so").simcuda_set_fault
stuck = threading.Thread(target=lambda: torch.empty(500 << 20, dtype=torch.uint8, device="cuda:0"), daemon=True)
"""
    with torch_program(versions()[-1], MEMORY + more + ANSWER) as (proc, _):
        tell(proc, "torch.cuda.memory._record_memory_history()")
        data = report_json(proc.pid, "--ask-pytorch", expect=COMPLETE)
        check("history" in why_not(data) and methods(data) == {"inside"}, "PyTorch was asked", data["diagnostics"])
        tell(proc, "torch.cuda.memory._record_memory_history(enabled=None)")

        # In cudaMalloc, with the mutex of GPU 0: with the GIL we would wait for it.
        tell(proc, "ask(b'cudaMalloc:block') and None or stuck.start()")
        tid = tell(proc, "stuck.native_id")
        wait_until(lambda: "lock-held" in diag_codes(report_json(proc.pid, expect=(COMPLETE, PARTIAL))), 20, "the lock is held")
        refused(proc, f"thread {tid} holds the lock of PyTorch's allocator of GPU 0", expect=(COMPLETE, PARTIAL))

        tell(proc, "ctypes.CDLL('libsimcuda.so').simcuda_clear_faults() and None or stuck.join()")
        proc.stdin.write(b"ctypes.PyDLL(None).sleep(1000000)\n")
        proc.stdin.flush()
        wait_until(lambda: is_in_sleep(proc.pid), 20, "the main thread sleeps in C")
        refused(proc, f"thread {proc.pid} holds the GIL")


# The thread that computes gives the GIL up when asked, but is only asked after a thousand seconds: the helper's waits.
STINGY = """
import ctypes
def compute():
    n = 0
    access = ctypes.PyDLL(None).access  # with the GIL
    sys.setswitchinterval(1000)
    while access(sys.argv[1].encode(), 0):
        for _ in range(100000):
            n = (n * 31 + 7) % 1000003
    sys.setswitchinterval(0.005)
print("READY", flush=True)
threading.Thread(target=compute, daemon=True).start()
sys.stdin.read()
"""


def test_gil_is_not_given_up():
    """The message says what is left in the process."""
    with tempfile.TemporaryDirectory() as directory:
        end = os.path.join(directory, "end")
        with torch_program(versions()[-1], MEMORY + STINGY, end) as (proc, _):
            for _ in range(5):  # on a busy machine it may get no processor while it is watched
                data = report_json(proc.pid, "--ask-pytorch", "--timeout", "2", expect=(COMPLETE, PARTIAL))
                said = [d["text"] for d in data["diagnostics"] if d["code"] == "no-answer"]
                if said:
                    break
            check(said and "still waits for it, holds nothing" in said[0], "what is left is not said", data["diagnostics"])
            equal(methods(data), {"outside"}, "how the blocks came about")
            check("vramtap" in thread_names(proc.pid), "no thread waits for the GIL")
            with open(end, "w", encoding="ascii"):
                nothing_is_left(proc.pid)


def test_interpreter_is_ending():
    """Python code that runs while the interpreter goes down: a thread that takes the GIL then is ended by CPython."""
    ending = """
import os, time
class Last:
    def __del__(self, write=os.write, sleep=time.sleep):
        write(1, b"READY\\n")
        sleep(1000000)
sys.modules["zz_last"] = last = Last()
sys.stdout.flush()
"""
    with torch_program(versions()[-1], MEMORY + ending) as (proc, _):
        data = report_json(proc.pid, "--ask-pytorch", expect=(COMPLETE, PARTIAL))
        check("interpreter" not in methods(data), "it was asked", data["diagnostics"])
        check(any(words in why_not(data) for words in ("is ending", "no interpreter", "not imported")), why_not(data))


def test_no_python():
    """The allocator in a process without an interpreter."""
    with Driver(versions()[0]) as driver:
        driver("alloc 100 5000")
        data = report_json(driver.pid, "--ask-pytorch")
        check("no Python interpreter" in why_not(data), "the reason", why_not(data))
        equal(methods(data), {"inside"}, "how the blocks came about")


# ---- the helper and the GIL, on every interpreter ----

def ask_directly(pid, wait_ms=20000, *mutex):
    """Takes the GIL whoever holds it; what came back."""
    done = subprocess.run([os.path.join(BUILD, "tests", "functional", "ask_python"), str(pid), str(wait_ms), *mutex],
                          capture_output=True, text=True, timeout=120, check=False)
    equal(done.returncode, 0, f"ask_python: {done.stderr}")
    return done.stdout.strip()


def interpreters():
    """(path, version, free-threaded) of each that is here; some have the interpreter in a library, some in the executable."""
    import python_frames  # looks for them all
    return [(path, version, free) for path, (version, free) in sorted(python_frames.INTERPRETERS.items())]


ECHO = "import sys\nprint('READY', flush=True)\nfor line in sys.stdin:\n    print(eval(line), flush=True)\n"


def with_each(test, minimum=(3, 10)):
    """Runs test(path) for every release with a GIL, all at once."""
    paths = [path for path, version, free in interpreters() if version >= minimum and not free]
    if not paths:
        raise Skip("no CPython 3.10 to 3.14 here")
    with concurrent.futures.ThreadPoolExecutor() as pool:
        list(pool.map(test, paths))
    print(f"  {len(paths)} interpreters")


def still_works(proc):
    proc.stdin.write(b"sum(range(10))\n")
    proc.stdin.flush()
    equal(proc.stdout.readline(), b"45\n", "what the interpreter computes afterwards")
    nothing_is_left(proc.pid)


# A thread runs in a subinterpreter, which from 3.12 on has a GIL of its own; ours is that of the main one.
BESIDE_SUBINTERPRETER = """
import threading
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters
inner = interpreters.create()
program = "import time\\nwhile True: time.sleep(0.001)"
threading.Thread(target=interpreters.run_string, args=(inner, program), daemon=True).start()
"""


def test_every_interpreter_gives_its_gil():
    def give(path):
        with target([path, "-c", ECHO], ready="READY") as proc:
            answer = ask_directly(proc.pid)
            check("has not imported torch" in answer, path, answer)
            still_works(proc)

    with_each(give)


def test_subinterpreters():
    """Up to 3.11 a thread in one can keep the GIL from others for ever (this one does not): no thread of ours waits for it."""
    def beside(path):
        with target([path, "-c", BESIDE_SUBINTERPRETER + ECHO], ready="READY") as proc:
            version = next(v for p, v, _ in interpreters() if p == path)
            answer = ask_directly(proc.pid, 20000, "watch")
            check(("subinterpreters share the GIL" if version < (3, 12) else "has not imported torch") in answer, path, answer)
            still_works(proc)

    with_each(beside)


def test_interpreters_that_are_not_asked():
    for path, version, free in interpreters():
        if not free and version >= (3, 10):
            continue
        with target([path, "-c", ECHO], ready="READY") as proc:
            answer = ask_directly(proc.pid)
            check(("free-threaded" if free else "only 3.10 and later") in answer, path, answer)
            still_works(proc)


# Objects in place of PyTorch's, in an interpreter without it: only built-in functions are called, so these are some that give
# back what they were made with (dict.copy takes no argument, as the function does up to PyTorch 2.10).
PRETEND = """
import ctypes, sys, types
mutex = ctypes.create_string_buffer(40)
c = sys.modules["torch._C"] = types.ModuleType("torch._C")
def stat(current):
    return {"all": {"current": current, "peak": current, "allocated": current, "freed": 0}}
def block(address, size, state="inactive", requested=0):
    return {"address": address, "size": size, "state": state, "requested_size": requested}
def segment(address, blocks, /, **more):
    return dict({"device": 0, "address": address, "total_size": sum(b["size"] for b in blocks if b["size"] != "x"), "stream": 0,
                 "segment_type": "large", "segment_pool_id": (0, 0), "is_expandable": False, "blocks": blocks}, **more)
def pretend(segments, allocated=600, blocks=2, count=5, **more):
    reserved = 1 << 20
    stats = dict({name: stat(0) for name in ("inactive_split_bytes", "requested_bytes")}, num_alloc_retries=0, num_ooms=0,
                 allocation=stat(blocks), active=stat(blocks), segment=stat(count), inactive_split=stat(count),
                 allocated_bytes=stat(allocated), active_bytes=stat(allocated), reserved_bytes=stat(reserved))
    stats.update(more)
    c._cuda_getAllocatorBackend = (["native"] * 9).pop
    c._cuda_isHistoryEnabled = ([False] * 9).pop
    c._cuda_memoryStats = {0: stats}.__getitem__
    c._cuda_memorySnapshot = {"segments": segments}.copy
good = [block(0x1000, 500, "active_allocated", 400), block(0x1000 + 500, 100, "active_allocated", 100),
        block(0x1000 + 600, (1 << 20) - 600)]
print("READY", hex(ctypes.addressof(mutex)), flush=True)
for line in sys.stdin:
    exec(line)
    print("done", flush=True)
"""
# What the "PyTorch" is made to say, and what becomes of it.
PRETENCES = [
    ("pretend([segment(0x1000, good)])", "3 blocks, 3 of GPU 0, result 0"),
    ("pretend([segment(0x1000, good)], allocated=601)", "result 2: the blocks' sizes do not add up"),
    ("pretend([segment(0x1000, good)], blocks=3)", "result 2: PyTorch's counters are of another number of blocks"),
    ("pretend([segment(0x1000, good, segment_pool_id=(7, 1), is_expandable=True, segment_type='small')])", "result 0"),
    ("pretend([segment(0x1000, good), segment(0x1100, [block(0x1100, 1)])])", "result 2: a block lies in the one before it"),
    ("pretend([segment(0x1000, good, device=1)])", "describes a segment in a way"),
    ("pretend([segment(0x1000, good, device=-1)])", "describes a segment in a way"),
    ("pretend([segment(0x1000, good, address=-5)])", "describes a segment in a way"),
    ("pretend([segment(0x1000, good, address=1 << 70)])", "describes a segment in a way"),
    ("pretend([segment(0x1000, good, segment_type=None)])", "describes a segment in a way"),
    ("pretend([segment(0x1000, good, segment_type='middle')])", "describes a segment in a way"),
    ("pretend([segment(0x1000, good, segment_pool_id=())])", "describes a segment in a way"),
    ("pretend([segment(0x1000, good, segment_pool_id=7)])", "describes a segment in a way"),
    ("pretend([segment(0x1000, good, blocks=3)])", "describes a segment in a way"),
    ("pretend([segment(0x1000, good, total_size=1)])", "do not fill it"),
    ("pretend([segment(0x1000, [block(0x1001, 1 << 20)])])", "describes a block in a way"),
    ("pretend([segment(0x1000, [block(0x1000, -1)], total_size=1)])", "describes a block in a way"),
    ("pretend([segment(0x1000, [block(0x1000, 'x')], total_size=1)])", "describes a block in a way"),
    ("pretend([segment(0x1000, [block(0x1000, 1, 'new')])])", "describes a block in a way"),
    ("pretend([segment(0x1000, [block(0x1000, 1, 5)])])", "describes a block in a way"),
    ("pretend([segment(0x1000, [block(0x1000, 0)])])", "result 2: a block lies in"),
    ("pretend([segment(0x1000, good, blocks=[7])])", "describes a block in a way"),
    ("pretend([7])", "describes a segment in a way"),
    ("pretend(7)", "no list of segments"),
    ("x = []; x.append(x); pretend(x)", "describes a segment in a way"),
    ("pretend([]); c._cuda_memorySnapshot = [].pop", "snapshot function failed"),
    ("pretend([]); c._cuda_memorySnapshot = lambda: {}", "snapshot function failed or is not known"),
    ("pretend([]); c._cuda_memorySnapshot = [7].copy", "no list of segments"),
    ("pretend([], count=10**9)", "too many blocks"),
    ("pretend([], count=-1)", "too many blocks"),
    ("pretend([segment(0x1000, [block(0x1000 + i, 1) for i in range(15000)])], count=4000)", "15000 blocks"),
    ("pretend([segment(0x1000, [block(0x1000 + i, 1) for i in range(60000)])], count=0)", "too many blocks"),
    ("pretend([], num_ooms='many')", "counters are not known"),
    ("pretend([], active=7)", "counters are not known"),
    ("pretend([]); c._cuda_memoryStats = {}.__getitem__", "counters are not known"),
    ("pretend([]); c._cuda_isHistoryEnabled = [True].pop", "records its memory's history"),
    ("pretend([]); del c._cuda_isHistoryEnabled", "does not say whether it records"),
    ("pretend([]); c._cuda_getAllocatorBackend = ['other'].pop", "is the native one"),
    ("pretend([]); c._cuda_getAllocatorBackend = [7].pop", "is the native one"),
    ("sys.modules['torch._C'] = 7", "has not imported torch"),
]


def test_whatever_pytorch_says():
    """Nothing that comes back harms the process, and only what adds up counts."""
    def say(path):
        with target([path, "-c", PRETEND], ready="READY") as proc:
            mutex, share = proc.ready_line.split()[1], paths.index(path) % 3
            # Each interpreter does a third of them, and all do the first.
            for line, expected in (PRETENCES[:1] + PRETENCES[share::3] if QUICK else PRETENCES):
                proc.stdin.write(line.encode() + b"\n")
                proc.stdin.flush()
                equal(proc.stdout.readline(), b"done\n", f"{path}: {line}")
                answer = ask_directly(proc.pid, 20000, mutex)
                check(expected in answer, f"{path}: {line}: {answer!r}")
            proc.stdin.write(b"import gc; assert gc.isenabled() and sys.exc_info()[1] is None\n")
            proc.stdin.flush()
            equal(proc.stdout.readline(), b"done\n", f"{path} afterwards")
            nothing_is_left(proc.pid)

    paths = [path for path, _, _ in interpreters()]
    with_each(say)


# The main thread has the GIL until it gets a byte, in a C function that does not let it go.
STUCK = """
import ctypes, sys
{before}
print('READY', flush=True)
ctypes.PyDLL(None).read(0, ctypes.create_string_buffer(1), 1)
{after}
"""


@contextlib.contextmanager
def one_that_waits(path, before, after):
    """An interpreter whose GIL a helper's thread waits for, after its tool has gone."""
    with target([path, "-c", STUCK.format(before=before, after=after)], ready="READY", bufsize=0) as proc:
        answer = ask_directly(proc.pid, 300)
        check("did not answer in time" in answer, path, answer)
        check("vramtap" in thread_names(proc.pid), f"{path}: no thread waits for the GIL")
        proc.stdin.write(b"x")
        yield proc


def test_gil_comes_too_late():
    """The helper's thread waits for the GIL longer than the tool does: it takes nothing, gives it back, and ends."""
    def wait(path):
        with one_that_waits(path, "", ECHO) as proc:
            equal(proc.stdout.readline(), b"READY\n", path)
            still_works(proc)

    with_each(wait)


def test_interpreter_ends_while_helper_waits():
    """CPython up to 3.13 ends a thread that wants the GIL of an interpreter that has gone, later ones leave it hanging."""
    def end(path):
        with one_that_waits(path, "sys.setswitchinterval(1000)", "sys.exit(7)") as proc:
            equal(proc.wait(timeout=60), 7, f"{path}: exit status")

    with_each(end)


if __name__ == "__main__":
    main(globals())
