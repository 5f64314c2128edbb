# SPDX-License-Identifier: Apache-2.0
"""record --launches in PyTorch on a real GPU: kernels of PyTorch, cuBLAS, cuDNN and of NVRTC have their names, grids and Python lines; one
that does not end is among the candidates; what a graph captured is not told as executed; computations are the same bit for bit; what a
launch costs. Prints FIGURE lines."""
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "functional"))
from harness import COMPLETE, PARTIAL, VRAMTAP, Skip, check, equal, main, target, vramtap  # noqa: E402

REPORT_MS = 50
LAUNCH_NS = 150
START = """
import os, sys, time, torch
import torch.nn.functional as F
torch.manual_seed(0)
x = torch.randn(1024, 1024, device="cuda"); image = torch.randn(8, 16, 32, 32, device="cuda"); weight = torch.randn(16, 16, 3, 3, device="cuda")
def everything():
    a = x * 2 + 1
    b = a @ x
    c = F.conv2d(image, weight)
    return float(b.sum() + c.sum())
want = everything()
torch.cuda.synchronize()
print("READY", os.getpid(), flush=True)
sys.stdin.readline()
"""
# A kernel of PyTorch's NVRTC, launched by the driver's cuLaunchKernel; it takes about 10 minutes.
HUNG = START + """
spin = torch.cuda.jiterator._create_jit_fn("template <typename T> T never_ends(T x, T y) { long long t = clock64(); while (clock64() - t < (long long)y) ; return x; }", y=0.0)
stream, small = torch.cuda.Stream(), torch.zeros(8, device="cuda")
spin(small, y=1.0); torch.cuda.synchronize()
print("AGAIN", flush=True); sys.stdin.readline()
assert everything() == want
def before():
    for _ in range(20): small.add_(1)
def hang_here():
    spin(small, y=1e12)  # LINE
def after():
    for _ in range(5): small.mul_(2)
with torch.cuda.stream(stream):
    before(); hang_here(); after()
print("LAUNCHED", flush=True)
torch.cuda.synchronize()
"""
SLEEPS = START + """
y = torch.zeros(8, device="cuda"); y.add_(1); torch.cuda._sleep(1); torch.cuda.synchronize()
torch.cuda._sleep(1 << 40)
n, begin = 1, time.monotonic()
import threading
def tell():
    last = 0
    while True:
        time.sleep(0.3)
        if n == last: print("BLOCKED", n, flush=True); return
        last = n
threading.Thread(target=tell).start()
print("LAUNCHED", flush=True)
while n < 5000:
    y.add_(1); n += 1
"""
GRAPH = START + """
graph, y = torch.cuda.CUDAGraph(), torch.zeros(8, device="cuda")
y.add_(0); torch.cuda.synchronize()
with torch.cuda.graph(graph):
    for _ in range(7): y.add_(1)
for _ in range(3): graph.replay()
torch.cuda.synchronize()
graph.replay()
print("LAUNCHED", flush=True)
sys.stdin.readline()
print("DONE", float(y[0]), flush=True)
"""
TIMES = START + """
def block():
    torch.cuda.synchronize(); total = 0
    for _ in range(20):
        begin = time.perf_counter_ns()
        for _ in range(500): launch(0)
        total += time.perf_counter_ns() - begin
        torch.cuda.synchronize()
    return total / 10000
launch = torch._C._cuda_sleep
os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[4]})
import gc; gc.disable()
block()
while True:
    print("TIME", min(block() for _ in range(6)), flush=True)
    if sys.stdin.readline() == "end\\n": break
"""
TRAINS = START + """
import hashlib
net = torch.nn.Sequential(torch.nn.Conv2d(16, 32, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(32 * 900, 64)).cuda()
opt = torch.optim.AdamW(net.parameters(), lr=1e-3)
torch.use_deterministic_algorithms(True)
for i in range(int(sys.argv[1])):
    loss = (net(image) ** 2).mean(); loss.backward(); opt.step(); opt.zero_grad()
    if i % 100 == 99: print("STEP", i, flush=True)
    if i % 10 == 9: loss.item()
print("DONE", hashlib.sha256(b"".join(p.detach().cpu().numpy().tobytes() for p in net.parameters())).hexdigest(), flush=True)
"""

# The last rank does not come to the fourth collective.
NCCL = """
import os, sys, torch, torch.distributed as dist
rank = int(os.environ["RANK"])
torch.cuda.set_device(rank)
dist.init_process_group("nccl", device_id=torch.device("cuda", rank))
x = torch.ones(1 << 20, device="cuda")
dist.all_reduce(x); torch.cuda.synchronize()
print("READY", os.getpid(), flush=True)
sys.stdin.readline()
def reduce_all(): dist.all_reduce(x)
for _ in range(2): reduce_all()
torch.cuda.synchronize()
if rank == 0: reduce_all()
print("LAUNCHED", flush=True)
sys.stdin.readline()
"""

# The recorder sees pointers in the data of libraries: not those of ctypes. So a small library calls, as cuBLAS does.
VALUES = START + """
import ctypes, traceback
sys.excepthook = lambda *what: (traceback.print_exception(*what), os._exit(1))  # else it waits for its streams, for ever
lib = ctypes.CDLL(sys.argv[1])
assert lib.init()
lib.wait_value.argtypes = lib.write_value.argtypes = (ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint)
a, b, c = (torch.cuda.Stream() for _ in range(3))
host = torch.zeros(64, dtype=torch.int32).pin_memory()
at, on_device = host.data_ptr(), torch.zeros(64, dtype=torch.int32, device="cuda")
torch.cuda.synchronize()
print("AGAIN", flush=True); sys.stdin.readline()
def wait_for_the_other(stream, offset): assert lib.wait_value(stream.cuda_stream, at + offset, 1) == 0
def tell_the_other(stream, offset): assert lib.write_value(stream.cuda_stream, at + offset, 1) == 0
wait_for_the_other(a, 0); tell_the_other(a, 4)
wait_for_the_other(b, 4); tell_the_other(b, 0)
wait_for_the_other(c, 8)  # the host writes that
assert lib.wait_value(c.cuda_stream, on_device.data_ptr(), 0) == 0
print("LAUNCHED", hex(a.cuda_stream), hex(b.cuda_stream), hex(c.cuda_stream), hex(at), flush=True)
sys.stdin.readline()
host[2] = 1; c.synchronize()
host[0] = 1; a.synchronize(); b.synchronize()
print("DONE", host[1].item(), flush=True)
sys.stdin.readline()
"""


def program(text, *args, **more):
    env = dict(os.environ, CUBLAS_WORKSPACE_CONFIG=":4096:8", **more)
    return target([sys.executable, "-c", text, *args], ready="READY", env=env)


def until(proc, word):
    for line in iter(proc.stdout.readline, b""):
        line = line.decode().split()
        if line and line[0] == word:
            return line[1:]
    raise AssertionError(f"no {word}")


def go_on(proc, text="\n"):
    proc.stdin.write(text.encode())
    proc.stdin.flush()


def record(proc, *words):
    begin = time.monotonic()
    code, out, err = vramtap("record", str(proc.pid), *words)
    check(code in (COMPLETE, PARTIAL), "record", code, out, err)
    return out, 1000 * (time.monotonic() - begin)


def read(proc, *options):
    begin = time.monotonic()
    code, out, err = vramtap("report", "--json", "-", "--once", *options, str(proc.pid))
    took = 1000 * (time.monotonic() - begin)
    check(code in (COMPLETE, PARTIAL), "report", code, err)
    data = json.loads(out)
    return data, {int(s["stream"], 16): s for s in data["recorder"]["launches"]["streams"]}, took


def frames_of(data, launch):
    recorded = data["pytorch"]["recorded"]
    if launch["backtrace"] is None:
        return []
    return [recorded["frames"][i] for i in recorded["backtraces"][launch["backtrace"]]["frames"]]


def test_launches_hung():
    with program(HUNG) as proc:
        go_on(proc)
        until(proc, "AGAIN")
        out, took = record(proc, "on", "--launches")
        print("  | " + out.replace("\n", "\n  | "))
        print(f"  FIGURE launches: record on took {took:.0f} ms")
        go_on(proc)
        until(proc, "LAUNCHED")
        time.sleep(1)
        for options in ((), ("--no-owners",), ("--read-only",)):
            data, streams, took = read(proc, *options)
            print(f"  FIGURE launches: report {' '.join(options)} with a hung kernel took {took:.0f} ms")
        begin = time.monotonic()
        text = vramtap("report", "--width", "150", str(proc.pid))[1]
        print(f"  FIGURE launches: text report took {1000 * (time.monotonic() - begin):.0f} ms")
        text = text[text.index("Launches"):]
        print("  | " + text[:text.index("\n\n")].replace("\n", "\n  | "))
        default = streams[0]
        names = [x["name"] for x in default["last"]]
        print("  default stream:", default["launches"], default["ended_to"], default["may_run"], names)
        equal(default["may_run"], 0, "float() has waited for all of the default stream")
        (handle, stream), = [(h, s) for h, s in streams.items() if s["may_run"]]
        print("  hung stream:", hex(handle), stream["may_run"], [(x["name"] or "")[:60] for x in stream["last"]])
        hung = [x for x in stream["last"] if "never_ends" in (x["name"] or "")]
        equal(len(hung), 1, "the kernel")
        equal((stream["may_run"], hung[0]["number"] - stream["ended_to"]), (26, 21), "candidates, its place")
        equal((hung[0]["fate"], hung[0]["grid"]), ("may-run", [1, 1, 1]), "fate, grid")
        where = frames_of(data, hung[0])
        print("  frames", [(f.get("function"), f.get("file"), f.get("line")) for f in where])
        check("hang_here" in [f.get("function") for f in where], "the Python frames", where)
        record(proc, "off")


def test_launches_names():
    """Each library's kernels are seen."""
    with program(START + "for _ in range(3): assert everything() == want\nprint('DONE', flush=True); sys.stdin.readline()\n"
                 "y = x @ x; z = F.conv2d(image, weight); w = x + 1\nprint('LAUNCHED', flush=True); sys.stdin.readline()") as proc:
        record(proc, "on", "--launches")
        go_on(proc)
        until(proc, "DONE")
        go_on(proc)
        until(proc, "LAUNCHED")
        _, streams, _ = read(proc)
        names = [x["name"] or hex(int(x["what"], 16)) for x in streams[0]["last"]]
        print("  kernels:", [n[:100] for n in names])
        check(any("elementwise" in n for n in names), "PyTorch", names)
        check(any("gemm" in n for n in names), "cuBLAS", names)
        check(any("conv" in n or "xmma" in n or "cudnn" in n or "implicit" in n for n in names), "cuDNN", names)
        record(proc, "off")


def test_launches_queue():
    """How many launches a stream takes behind a kernel that does not end: that one must still be kept then."""
    with program(SLEEPS) as proc:
        record(proc, "on", "--launches")
        go_on(proc)
        until(proc, "LAUNCHED")
        n = int(until(proc, "BLOCKED")[0])
        data, streams, took = read(proc)
        stream = streams[0]
        print(f"  FIGURE launches: {n} launches until the thread blocks; report took {took:.0f} ms; {stream['may_run']} may run, {stream['not_kept']} not kept")
        first = stream["last"][0]
        check("spin_kernel" in (first["name"] or ""), "the first", first)
        equal(stream["not_kept"], 0, "all are kept")
        equal(stream["last"][-1]["fate"], "in-call", "the last call has not returned")


def test_launches_graph():
    with program(GRAPH) as proc:
        record(proc, "on", "--launches")
        go_on(proc)
        until(proc, "LAUNCHED")
        _, streams, _ = read(proc)
        seen = {hex(h): [(x["kind"], x["fate"]) for x in s["last"]] for h, s in streams.items()}
        print("  ", seen)
        everything = [x for s in seen.values() for x in s]
        equal(everything.count(("kernel", "captured")), 7, "captured")
        equal([x for x in everything if x[0] == "graph" and x[1] == "may-run"], [("graph", "may-run")], "the last replay")
        equal(sum(s["may_run"] for s in streams.values()), 1, "candidates")
        record(proc, "off")
        go_on(proc)
        equal(until(proc, "DONE"), ["28.0"], "the result")


def test_launches_cost():
    """By turns with and without. What disturbs makes a launch longer: it is measured a third time, without again, and how much those
    two differ is what this machine can tell apart."""
    with program(TIMES) as proc:
        go_on(proc)
        until(proc, "TIME")
        taken = {"without": [], "with": [], "again": []}
        for _ in range(10):
            for way in taken:
                record(proc, *(("on", "--launches") if way == "with" else ("off",)))
                go_on(proc)
                taken[way].append(float(until(proc, "TIME")[0]))
        go_on(proc, "end\n")

        def more(way):
            pairs = [b - a for a, b in zip(taken["without"], taken[way])]
            return min(min(taken[way]) - min(taken["without"]), statistics.median(pairs)), pairs
        least, noise = more("with")[0], more("again")[0]
        print(f"  FIGURE launches: a launch {min(taken['without']):.0f} ns without, {min(taken['with']):.0f} with; {least:.0f} ns more; without once more {noise:.0f}")
        print("  ", *(f"{way}: more in pairs {[round(x) for x in more(way)[1]]}" for way in ("with", "again")))
        if abs(noise) > LAUNCH_NS / 3:
            raise Skip(f"launches differ by {noise:.0f} ns without us, too")
        check(least <= LAUNCH_NS, "ns more for a launch", least)


def values_library(where):
    """The library of values.c: that beside vramtap, else one made in this directory."""
    brought = os.path.join(os.path.dirname(os.path.abspath(os.environ["VRAMTAP"])), "values.so")
    if os.path.exists(brought):
        return brought
    if not shutil.which("cc"):
        raise Skip("values.so (tests/gpu/values.c) is not beside vramtap, and there is no C compiler")
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", f"{where}/values.so", os.path.join(HERE, "values.c"), "-ldl"], check=True)
    return f"{where}/values.so"


def test_launches_deadlock():
    """Two streams that wait for each other's value are called a deadlock; one that waits for the host is not, and they go on when it writes."""
    with tempfile.TemporaryDirectory() as where:
        with program(VALUES, values_library(where)) as proc:
            go_on(proc)
            until(proc, "AGAIN")
            record(proc, "on", "--launches")
            go_on(proc)
            a, b, c, at = (int(x, 16) for x in until(proc, "LAUNCHED"))
            data, streams, _ = read(proc)
            equal([s["deadlock"] for s in streams.values() if s["deadlock"]], [], "the host may still write")
            time.sleep(6)
            data, streams, took = read(proc)
            print(f"  FIGURE launches: report of two streams that wait for each other took {took:.0f} ms")
            handles = [int(s["stream"], 16) for s in data["recorder"]["launches"]["streams"]]
            rings = {h: handles[s["deadlock"]["waits_for"]] for h, s in streams.items() if s["deadlock"]}
            equal(rings, {a: b, b: a}, f"who waits for whom, of {[streams[h] for h in (a, b, c)]}")
            equal([(x["what"], x["value_now"], x["is_there"]) for x in streams[a]["last"] if x["kind"] == "wait-for-value"], [(hex(at), "0x0", False)], "the value")
            equal([x["value_now"] for x in streams[c]["last"] if x["kind"] == "wait-for-value"], ["0x0", None], "memory of the device is not looked at")
            frames = [f.get("function") for f in frames_of(data, streams[a]["deadlock"]["wait"])]
            check("wait_for_the_other" in frames, "the Python frames", frames)
            alarms = [h["text"] for h in data["headlines"] if h["code"] == "stream-deadlock"]
            print("  ", alarms)
            equal(len(alarms), 1, "headlines")
            check(alarms[0].startswith("likely a deadlock between streams"), "how sure it is", alarms)
            go_on(proc)
            equal(until(proc, "DONE"), ["1"], "the result")
            _, streams, _ = read(proc)
            equal([s["deadlock"] for s in streams.values() if s["deadlock"]], [], "the host wrote")
            equal([streams[h]["may_run"] for h in (a, b, c)], [0, 0, 0], "they have ended")
            record(proc, "off")


def test_launches_training():
    results, steps = [], 9000
    for recorded in (False, True):
        with program(TRAINS, str(steps)) as proc:
            go_on(proc)
            n = 0
            if recorded:
                until(proc, "STEP")
                for n in range(50):
                    record(proc, "on", "--launches")
                    time.sleep(0.02)
                    record(proc, "off")
            results.append(until(proc, "DONE"))
            if recorded:
                print(f"  FIGURE launches: {n + 1} times on and off while {steps} steps were trained")
    equal(results[1], results[0], "the parameters")


def test_launches_nccl():
    """Needs two GPUs: a collective that waits for the other rank is the launch that may run; nothing else is on its stream."""
    count = subprocess.run([sys.executable, "-c", "import torch; print(torch.cuda.device_count())"], capture_output=True, text=True, check=False)
    if int(count.stdout or 0) < 2:
        raise Skip("two GPUs are needed")
    common = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29541", "TORCH_NCCL_ASYNC_ERROR_HANDLING": "0"}
    ranks = [subprocess.Popen([sys.executable, "-c", NCCL], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              env=dict(os.environ, RANK=str(rank), **common)) for rank in range(2)]
    try:
        for rank in ranks:
            until(rank, "READY")
            record(rank, "on", "--launches")
        for rank in ranks:
            go_on(rank)
        for rank in ranks:
            until(rank, "LAUNCHED")
        time.sleep(1)
        _, streams, took = read(ranks[0], "--no-owners")
        running = [x for s in streams.values() for x in s["last"] if x["fate"] in ("may-run", "in-call")]
        print(f"  FIGURE launches: report of a rank that waits took {took:.0f} ms; may run: {[x['name'] for x in running]}")
        kernels = [x for x in running if "nccl" in (x["name"] or "")]
        equal(len(kernels), 1, "the collective")
        print("  ", kernels, [(hex(h), s["device"], s["launches"], s["ended_to"], s["may_run"]) for h, s in streams.items()])
        _, streams, _ = read(ranks[1], "--no-owners")
        equal([x["name"] for s in streams.values() for x in s["last"] if x["fate"] == "may-run" and "nccl" in (x["name"] or "")], [],
              "of the rank that does not come")
    finally:
        for rank in ranks:
            rank.kill()
            rank.wait()


if __name__ == "__main__":
    main(globals())
