# SPDX-License-Identifier: Apache-2.0
"""The recorder in PyTorch on a real GPU: what it records against PyTorch's own words, what it must not change, and the driver's
allocations of other libraries through the real CUPTI. Where there is no GPU but the simulated device ("sh tests/run.sh" sets it up), that is
used: all but the figures and the device's own work is the same."""
import contextlib
import json
import os
import re
import select
import signal
import statistics
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "functional"))
import recorder_truth as truth  # noqa: E402
import report_torch  # noqa: E402
import torch_history  # noqa: E402
from harness import CACHE, COMPLETE, NOTHING, PARTIAL, VRAMTAP, Skip, check, equal, main, report, scratch, vramtap, wait_until  # noqa: E402


def version():
    """None: the installed PyTorch, on a real device."""
    here = [v for v in report_torch.versions() if os.path.exists(os.path.join(CACHE, "torch", v, "python"))]
    return here[0] if here else None


DRIVER = re.compile(r"libcuda\.so|libcudart|libsimcuda|libcupti|(lib|memfd:)?vramtap-recorder")  # whoever called these wanted the memory
SIMULATED = version() is not None
GIGABYTES = 1 << (27 if SIMULATED else 32)  # of one block of many that fill the device


def job(**kwargs):
    return truth.Recorded(version(), **kwargs)


def real_device(why):
    if SIMULATED:
        raise Skip(f"the device is simulated: {why}")


def show(pid, *args):
    """Prints the text, for people who read the log; not what threads do."""
    _, out, err = report(pid, "--width", "120", *args)
    print("  | " + (out.partition("\nThreads ")[0] + err).replace("\n", "\n  | "))


def ours_of_size(data, size):
    """The backtrace (names of Python functions) of the block that asked for so many bytes, which is recorded by us."""
    found = [b for b in truth.recorded_blocks(data) if b["requested_bytes"] == size]
    check(found, f"no recorded block of {size} bytes", data["diagnostics"],
          [(b.get("requested_bytes"), b.get("backtrace")) for b in torch_history.blocks_of(data).values()][:30])
    return truth.names(data, found[0])


# ---- agreement with PyTorch's history ----------------------------------------------------------------

def test_recorder_python_frames():
    """Thousands of blocks from training and from odd places: each one's Python frames are those that PyTorch recorded."""
    with job() as it:
        agreement = truth.places_agree(it, 20, 2000, truth.look_at_python)
        print(f"  FIGURE Python frames of {agreement.blocks} blocks: {agreement.python} equal, {len(agreement.wrong)} blocks differ")
        truth.nothing_wrong(agreement)
        it.unharmed()


def test_recorder_native_frames():
    """The return addresses are those that PyTorch's own unwinder found, from the allocator's caller outward."""
    with job() as it:
        agreement = truth.places_agree(it, 5, 400, truth.look_at_native)
        good = agreement.blocks - len(agreement.wrong)
        print(f"  FIGURE native frames of {agreement.blocks} blocks: {good} agree ({100 * good / agreement.blocks:.2f} %), "
              f"{agreement.native} frames; PyTorch has outer frames that we have not: {agreement.ends_early} blocks")
        truth.nothing_wrong(agreement)


# ---- it changes nothing -------------------------------------------------------------------------------

def trained(meanwhile):
    with job() as it:
        it("trainer", 256, 4, 64, 8, "deterministic")
        with meanwhile(it):
            result = it("losses", 0 if meanwhile is contextlib.nullcontext else 8, 200)
        it.unharmed()
        return result


@contextlib.contextmanager
def switching(it):
    """Another process switches the recorder on and off, a second each."""
    program = ("import subprocess, sys, time\n"
               "while True:\n"
               "    for what in (['on', '--both'], ['off']):\n"
               "        code = subprocess.call([sys.argv[1], 'record', sys.argv[2], *what], stdout=subprocess.DEVNULL)\n"
               "        print(what[0], code, flush=True)\n"
               "        time.sleep(1)\n")
    with subprocess.Popen([sys.executable, "-c", program, VRAMTAP, str(it.pid)], stdout=subprocess.PIPE) as other:
        yield
        other.terminate()
        said = other.stdout.read().decode().splitlines()
    print(f"  switched {len(said)} times: {sorted(set(said))}")
    check(set(said) <= {"on 0", "on 1", "off 0"} and len(said) >= 5, "switching", said)  # 1: not the driver
    vramtap("record", str(it.pid), "off")


def test_recorder_losses():
    """A seeded training gives the same bits, with nothing and with the recorder switched on and off every second."""
    alone = trained(contextlib.nullcontext)
    again = trained(contextlib.nullcontext)
    check(alone["losses"] == again["losses"], "the training itself is not deterministic here: nothing can be said")
    switched = trained(switching)
    first = next((i for i, (a, b) in enumerate(zip(alone["losses"], switched["losses"])) if a != b), None)
    equal(first, None, "the first step whose loss differs")
    equal(switched["digest"], alone["digest"], "sums of the parameters' bits")
    print(f"  FIGURE {len(alone['losses'])} losses and the parameters after them are bit-identical ({switched['steps']} steps in all, last loss "
          f"{float.fromhex(alone['losses'][-1]):.6f})")


# ---- every place that PyTorch allocates from ------------------------------------------------------------

def test_recorder_pools():
    """Private pools of CUDA graphs and MemPool, other streams, expandable segments."""
    for conf in ("", "expandable_segments:True"):
        with job(env={"PYTORCH_CUDA_ALLOC_CONF": conf}) as it:
            it.on("--both")
            it("graph")
            it("streams")
            it("step")
            data = it.report()
            for size, function in ((4567, "do_graph"), (7654, "do_graph"), (5432, "do_streams"), (4321, "by_function")):
                equal(ours_of_size(data, size)[:1], [function], f"the function that asked for {size} bytes with {conf!r}")
            it.off()
            it.unharmed()
            print(f"  {conf or 'native'}: {len(truth.recorded_blocks(data))} blocks have a backtrace")


def test_recorder_async_backend():
    """cudaMallocAsync: another allocator. Recorded by the driver's level, or said that it is not."""
    with job(env={"PYTORCH_CUDA_ALLOC_CONF": "backend:cudaMallocAsync"}) as it:
        said = it.on("--both", expect=(COMPLETE, PARTIAL, NOTHING))
        print(f"  on says: {said.strip()}")
        it("step")
        data = it.report()
        if "nothing to record" in said:
            check("cudaMallocAsync" in said, "it does not say why")
            return
        print(f"  recorded: {len(outside_of(data))} allocations of the driver; {[d['text'] for d in data['diagnostics']][:4]}")
        check(any(a["bytes"] >= 4321 and a["kind"] == "async" for a in outside_of(data)) or "cudaMallocAsync" in said or
              any("cudaMallocAsync" in d["text"] for d in data["diagnostics"]), "neither recorded nor said")
        it.off(expect=truth.EITHER)
        it.unharmed()


def test_recorder_run():
    """From the very first allocation."""
    with job(command=[VRAMTAP, "run", "--", *truth.python_of(version())], env={"VRAMTAP_FIRST": "12345"}) as it:
        data = it.report()
        called = ours_of_size(data, 12345)
        print(f"  the first block: {called}")
        equal(called, ["by_function", "main", "<module>"], "backtrace of the first block")
        it("step")
        equal(ours_of_size(it.report(), 4321)[:2], ["by_function", "do_step"], "a later block")
        it.off()
        it.unharmed()


# ---- out of memory -----------------------------------------------------------------------------------

@contextlib.contextmanager
def watching(it, *options):
    """vramtap watch --on-oom; yields the process when the trap is armed, and ends it."""
    proc = subprocess.Popen([VRAMTAP, "watch", "--on-oom", *options, str(it.pid)], stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, bufsize=0)
    try:
        said = next_line(proc, 15)
        check("armed" in said, "the trap is not armed", proc.poll(), said)
        yield proc
    finally:
        if proc.poll() is None:
            proc.send_signal(signal.SIGINT)
            try:
                proc.wait(10)
            except subprocess.TimeoutExpired:
                proc.kill()
        print("  watch says:\n  | " + proc.stdout.read().decode("utf-8", "replace").replace("\n", "\n  | "))
        proc.stdout.close()


def next_line(proc, seconds):
    ready, _, _ = select.select([proc.stdout], [], [], seconds)
    check(ready, f"not a word within {seconds} s")
    return proc.stdout.readline().decode("utf-8", "replace").strip()


def without_numbers(text):
    return "".join("#" if c.isdigit() or c == "." else c for c in text).replace("#", "")


def test_recorder_out_of_memory():
    """The failing line is named, and what filled the device; the job's exception is what it was, and not late."""
    with job() as it:
        alone = it("out_of_memory", GIGABYTES)
        quick = [it("fail_once")["s"] for _ in range(3)]
        path = scratch("oom.json")
        with watching(it, "--then", path):
            caught = it("out_of_memory", GIGABYTES)
            wait_until(lambda: os.path.exists(path), 20, "the report of the failure")
            late = [it("fail_once")["s"] for _ in range(3)]
        for what in ("type", "line", "frames", "blocks"):
            equal(caught[what], alone[what], f"the exception's {what}")
        equal(without_numbers(caught["text"]), without_numbers(alone["text"]), "the exception's text")
        with open(path, encoding="utf-8") as file:
            data = json.load(file)
        event = data["recorder"]["out_of_memory"][-1]
        print("  event: " + json.dumps(event)[:1500])
        equal(event["requested_bytes"], GIGABYTES, "the request that failed")
        failed = [f for f in frames_of_event(data, event) if f["kind"] == "python"]
        equal((failed[0]["function"], failed[0]["line"]), tuple(caught["frames"][-1]), "the failing line")
        filled = [b for b in truth.recorded_blocks(data) if truth.names(data, b)[:1] == ["fill_the_device"]]
        equal(len(filled), caught["blocks"], "blocks that filled the device")
        check(event["waited_ms"] < 1000, "for how long the job was kept", event)
        print(f"  FIGURE the job was kept for {event['waited_ms']:.1f} ms; {len(filled)} blocks of {GIGABYTES} bytes are named")
        print(f"  FIGURE a request that fails: {statistics.median(quick) * 1e3:.2f} ms alone, {statistics.median(late) * 1e3:.1f} ms with a watcher")
        it.unharmed()


def frames_of_event(data, event):
    recorded = data["pytorch"]["recorded"]
    return [recorded["frames"][i] for i in recorded["backtraces"][event["backtrace"]]["frames"]]


def test_recorder_watch_killed():
    """kill -9 of the watcher: the job's next failure is not kept waiting for ever, and a later vramtap finds the trap."""
    with job() as it:
        with watching(it, "--then", scratch("oom.json")) as watcher:
            watcher.kill()
            watcher.wait()
            times = [it("fail_once")["s"] for _ in range(3)]
            print(f"  failures without the watcher took {', '.join(f'{t * 1e3:.1f}' for t in times)} ms")
            check(times[0] < 2 and times[-1] < 0.5, "a trap without a watcher keeps the job", times)
            print("  status: " + json.dumps(it.status())[:600])
        path = scratch("oom.json")
        with watching(it, "--then", path):
            it("fail_once")
            wait_until(lambda: os.path.exists(path), 20, "the report of a later watcher")
        it.off(expect=truth.EITHER)
        truth.record(it.pid, "status", expect=truth.EITHER + (2,))
        it("fail_once")
        it.unharmed()


# ---- the driver -----------------------------------------------------------------------------------------

def outside_of(data):
    """The driver's allocations that are not PyTorch's, each with the library that wanted it (the first that is not the driver or the
    runtime) and its Python frames."""
    recorded = data["pytorch"]["recorded"] or {"backtraces": [], "frames": []}
    out = []
    for block in data["recorder"]["driver"]["blocks"]:
        if block["of_pytorch"]:
            continue
        trace = recorded["backtraces"][block["backtrace"]]["frames"] if block["backtrace"] is not None else []
        frames = [recorded["frames"][i] for i in trace]
        libraries = [f["module"] for f in frames if f["kind"] == "native" and not DRIVER.match(f["module"] or "")]
        python = [f"{f['function']}:{f['line']}" for f in frames if f["kind"] == "python"]
        out.append(dict(block, libraries=libraries, python=python))
    return out


def with_size(data, size, what):
    found = [a for a in outside_of(data) if a["bytes"] == size]
    if data["recorder"]["driver"]["seen_by"] is None:
        real_device("neither CUPTI nor a table to patch")
    check(found, f"{what}: no allocation of {size} bytes", [(a["kind"], a["bytes"]) for a in outside_of(data)][:20], data["diagnostics"])
    return found[0]


def method_of(it):
    return it.status()["driver"]


def test_recorder_driver():
    """Raw allocations of the runtime by ctypes, of every kind: found with address, size and the Python line."""
    with job() as it:
        print("  " + it.on("--both", "--cupti").strip())
        print(f"  method: {method_of(it)}")
        raw = it("raw", 1 << 20)
        data = it.report()
        for i, name in enumerate(("cudaMalloc", "cudaMallocAsync", "cudaMallocManaged", "cudaMallocHost")):
            found = with_size(data, (1 << 20) + 512 * i, name)
            equal(int(found["address"], 16), raw[name], f"address from {name}")
            print(f"  {name}: {found['kind']}, device {found['device']}, age {found['age_s']} s, by {found['libraries'][:2]}, {found['python'][:2]}")
            equal(found["python"][0].partition(":")[0], "raw_allocation", f"the caller of {name}")
        show(it.pid, "--sites")
        it("raw_free")
        left = {int(a["address"], 16) for a in outside_of(it.report())}
        check(raw["cudaMalloc"] not in left and raw["cudaMallocAsync"] not in left, "freed allocations are shown", left)
        it.off()
        it.unharmed()


def no_more_than_the_device(before, after, new):
    """What is recorded of a device is no more than what it has less now (memory that is mapped twice counts once)."""
    used = [{d["ordinal"]: d["memory"]["used_bytes"] for d in data["cuda"]["devices"] if d["memory"]} for data in (before, after)]
    for device in used[1]:
        ours = sum(a["bytes"] for a in new if a["device"] == device and a["kind"] in ("device", "async", "mapped"))
        grown = used[1][device] - used[0].get(device, 0)
        print(f"  GPU {device}: {ours} bytes recorded, {grown} bytes less free")
        check(ours <= grown + (64 << 20), f"GPU {device}: more is recorded than was allocated", ours, grown)


def library_allocations(command, library, *arguments):
    """What a library allocates while the recorder is on, and which library that is."""
    with job() as it:
        it.on("--both", "--cupti")
        before = it.report()
        known = {a["address"] for a in outside_of(before)}
        answer = it(command, *arguments)
        after = it.report()
        new = [a for a in outside_of(after) if a["address"] not in known]
        no_more_than_the_device(before, after, new)
        print(f"  {command}: {answer}; {len(new)} new allocations: " +
              "; ".join(f"{a['kind']} {a['bytes']} by {a['libraries'][:1]}" for a in new[:20]))
        named = {name for a in new for name in a["libraries"][:3]}
        print(f"  groups: {json.dumps(it.report()['recorder']['driver']['groups'])[:1500]}")
        check(any(library in name for name in named), f"none by {library}", named)
        it.off()
        it.unharmed()


def needs(module):
    done = subprocess.run([sys.executable, "-c", f"import {module}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    if done.returncode:
        raise Skip(f"there is no {module}")


def test_recorder_cupy():
    real_device("no CuPy")
    needs("cupy")
    library_allocations("cupy", "runtime.cpython", 3 << 20)  # cupy_backends/cuda/api/runtime


def test_recorder_jax():
    real_device("no JAX")
    needs("jax")
    library_allocations("jax", "xla", 3 << 20)


def test_recorder_nccl():
    """A communicator's buffers; of one rank, or of two where there are two devices."""
    real_device("NCCL is a stub")
    library_allocations("nccl", "nccl", scratch("store"))


def test_recorder_cublas():
    """PyTorch gives cuBLAS its workspace from its own allocator: a block like others, whose native frames show the code that wanted it."""
    with job() as it:
        it.on("--both")
        it("cublas")
        data = it.report()
        found = [b for b in truth.recorded_blocks(data) if "do_cublas" in truth.names(data, b)]
        workspaces = [b for b in found if any("orkspace" in (f["function"] or "") for f in torch_history.frames_of(data, b))]
        print(f"  {len(found)} blocks by the product, workspaces: {[b['bytes'] for b in workspaces]}")
        check(len(found) >= 2, "blocks by a product", found)
        check(workspaces or SIMULATED, "no workspace")
        it.off()
        it.unharmed()


def test_recorder_with_profiler():
    """Another tool that uses CUPTI: before us, and while we record."""
    with job() as it:
        alone = it("profiled", 20)
        print(f"  torch.profiler alone: {alone}")
        it("profiler", "on")
        said = it.on("--both", "--cupti", expect=truth.EITHER)
        print(f"  on, while it profiles, says: {said.strip()}; method {method_of(it)}, "
              f"{it.status()['driver_why_not']}, CUPTI said {it.status()['cupti_error']}")
        raw = it("raw", 1 << 20)
        it("step")
        data = it.report()
        equal(ours_of_size(data, 4321)[:2], ["by_function", "do_step"], "PyTorch's level, beside a profiler")
        seen = [a for a in outside_of(data) if a["bytes"] == 1 << 20]
        print(f"  an allocation by ctypes, which goes through no table of a library: {'seen' if seen else 'not seen'}")
        if method_of(it) == "CUPTI":
            equal([int(a["address"], 16) for a in seen], [raw["cudaMalloc"]], "the driver's level, beside a profiler")
        else:
            check("subscribed" in said or "not recorded: " in said, "it does not say what is not seen, or why", said)
        print(f"  profiled {it('profiler', 'off')}")
        it.off()
        it.on("--both")
        print(f"  method {method_of(it)}")
        during = it("profiled", 20)
        print(f"  torch.profiler while we record: {during}")
        it("step")
        it.off()
        after = it("profiled", 20)
        print(f"  torch.profiler afterwards: {after}")
        equal(during["device"] > 0, alone["device"] > 0, "events of the device, while we record as before")
        equal(after["device"] > 0, alone["device"] > 0, "events of the device, afterwards as before")
        it.unharmed()


if __name__ == "__main__":
    main(globals())
