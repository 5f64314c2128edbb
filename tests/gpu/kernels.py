# SPDX-License-Identifier: Apache-2.0
"""report --kernels with the real cuda-gdb on a real GPU: kernels that do not end, alone and several, in a CUDA graph, compiled with line
information; a process that is well. The process goes on afterwards, and has computed right. Prints FIGURE lines.
VRAMTAP_CUDA_GDB names a cuda-gdb (default: the one that vramtap finds)."""
import contextlib
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "functional"))
from harness import COMPLETE, PARTIAL, VRAMTAP, Skip, check, equal, main, target, vramtap, wait_until  # noqa: E402

LIMIT_S = 10  # to name a kernel
# flag[0] and flag[1] end the kernel, whose blocks count in flag[2]; flag[3] shows that it goes on.
KERNEL = """
extern "C" __global__ void spin_until(volatile int *flag)
{
    if (threadIdx.x >= 64)
        while (!*flag)
            ;
    else
        while (!flag[1]) {
            __nanosleep(100);
            if (!threadIdx.x && !blockIdx.x)
                flag[3] = flag[3] + 1;
        }
    if (!threadIdx.x)
        atomicAdd((int *)flag + 2, 1);
}
"""
LINES = {5, 6, 8, 9, 10, 11}  # of the loops
# Serves the host for as long as that wants.
SERVES = """
extern "C" __global__ void serve(volatile int *box)
{
    for (int last = 0; !box[1];) {
        int asked = box[0];
        if (asked == last)
            continue;
        last = asked;
        box[2] = 3 * asked + 1;
        __threadfence_system();
    }
}
"""
# Builds KERNEL and launches it; flags are in memory that the host can write while it runs.
PROGRAM = """
import ctypes, glob, os, sys, threading, time
import torch
torch.zeros(1, device="cuda"); torch.cuda.synchronize()
cuda = ctypes.CDLL("libcuda.so.1")
for path in glob.glob(os.path.join(os.path.dirname(torch.__file__), "../nvidia/*/lib/libnvrtc.so.1*")) + ["libnvrtc.so", "/usr/local/cuda/lib64/libnvrtc.so"]:
    try: rtc = ctypes.CDLL(path); break
    except OSError: pass
source = open(sys.argv[1]).read()
def ok(result): assert result == 0, result
def build(*options, name=b"spin_until"):
    program, size, module, function = ctypes.c_void_p(), ctypes.c_size_t(), ctypes.c_void_p(), ctypes.c_void_p()
    ok(rtc.nvrtcCreateProgram(ctypes.byref(program), source.encode(), sys.argv[1].encode(), 0, None, None))
    options = [b"--gpu-architecture=sm_%d%d" % torch.cuda.get_device_capability(), *options]
    ok(rtc.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options)))
    ok(rtc.nvrtcGetCUBINSize(program, ctypes.byref(size)))
    code = ctypes.create_string_buffer(size.value)
    ok(rtc.nvrtcGetCUBIN(program, code))
    ok(cuda.cuModuleLoadData(ctypes.byref(module), code))
    ok(cuda.cuModuleGetFunction(ctypes.byref(function), module, name))
    return function
host = torch.zeros(16, dtype=torch.int32, pin_memory=True)
def launch(function, blocks, threads, stream):
    values = [ctypes.c_void_p(host.data_ptr())]
    args = (ctypes.c_void_p * 1)(*[ctypes.cast(ctypes.pointer(value), ctypes.c_void_p) for value in values])
    ok(cuda.cuLaunchKernel(function, blocks, 1, 1, threads, 1, 1, 0, ctypes.c_void_p(stream.cuda_stream), args, None))
def wait_for(blocks):
    def obey():
        while sys.stdin.readline() == "count\\n": print("COUNT", int(host[3]), flush=True)
        host[0] = host[1] = 1
    threading.Thread(target=obey).start()
    print("READY", os.getpid(), flush=True)
    torch.cuda.synchronize()
    x = torch.arange(1000, device="cuda")
    print("DONE", int(host[2]) == blocks and int((x * x).sum()) == 332833500, flush=True)
"""
STREAM = PROGRAM + """
stream = torch.cuda.Stream()
launch(build(b"-lineinfo"), 40, 128, stream)
wait_for(40)
"""
# The larger one has more blocks than the device can hold.
TWO = PROGRAM + """
function = build()
launch(function, 1, 32, torch.cuda.Stream()); launch(function, 5000, 1024, torch.cuda.Stream())
wait_for(1 + 5000)
"""
GRAPH = PROGRAM + """
function, stream, graph = build(), torch.cuda.Stream(), torch.cuda.CUDAGraph()
with torch.cuda.graph(graph, stream=stream):
    launch(function, 3, 96, stream)
graph.replay()
wait_for(3)
"""
PERSISTENT = PROGRAM + """
stream, x, n = torch.cuda.Stream(), torch.zeros(1000, device="cuda"), 0
x.add_(1); x.sub_(1); assert int(x[7]) == 0  # kernels that are loaded later wait for the one that does not end (lazy loading)
launch(build(name=b"serve"), 1, 1, stream)
print("READY", os.getpid(), flush=True)
while not os.path.exists(os.environ["VRAMTAP_TEST_END"]):
    n += 1; host[0] = n
    while int(host[2]) != 3 * n + 1: pass
    x.add_(1)
    assert int(x[7]) == n
    time.sleep(0.001)
host[1] = 1
torch.cuda.synchronize()
print("DONE", n > 100, flush=True)
"""
# Each step's result is known; a wrong one ends it.
TRAINS = """
import os, torch
torch.manual_seed(0)
net = torch.nn.Linear(512, 512, device="cuda")
x = torch.randn(4096, 512, device="cuda")
with torch.no_grad(): want = net(x).sum().item()
print("READY", os.getpid(), flush=True)
n = 0
while not os.path.exists(os.environ["VRAMTAP_TEST_END"]):
    with torch.no_grad():
        for _ in range(50): y = net(x)
        assert y.sum().item() == want
    y = (net(x) ** 2).mean(); y.backward(); net.zero_grad()
    n += 1
torch.cuda.synchronize()
print("DONE", n > 0, flush=True)
"""
IDLE = """
import os, sys, torch
x = torch.arange(1000, device="cuda"); torch.cuda.synchronize()
print("READY", os.getpid(), flush=True)
sys.stdin.readline()
print("DONE", int((x * x).sum()) == 332833500, flush=True)
"""


def program(text, kernel=KERNEL, **env):
    source = os.path.join(os.environ.get("TMPDIR", "/tmp"), "vramtap_spin.cu")
    with open(source, "w", encoding="utf-8") as file:
        file.write(kernel)
    return target([sys.executable, "-c", text, source], ready="READY", stderr=subprocess.DEVNULL, env=dict(os.environ, **env))


def need_debugger():
    named = os.environ.get("VRAMTAP_CUDA_GDB")
    if not (named or shutil.which("cuda-gdb") or os.path.exists("/usr/local/cuda/bin/cuda-gdb")):
        raise Skip("there is no cuda-gdb")


def ask(proc, label, *args, expect=(COMPLETE, PARTIAL)):
    """The report, its kernels and how long all took."""
    begin = time.monotonic()
    code, out, err = vramtap("report", "--json", "-", "--no-owners", "--once", *(args or ("--kernels",)), str(proc.pid))
    took = time.monotonic() - begin
    check(code in expect, "exit code", code, err)
    data = json.loads(out)
    kernels = data["kernels"]
    print(f"  FIGURE kernels {label}: {kernels['state']}, {kernels['took_ms']:.0f} ms of {1000 * took:.0f}, {os.path.basename(kernels['debugger'])}, "
          f"{[(k['name'], k['sms'], k['threads'], len(k['places'])) for k in kernels['kernels']]} {kernels['why'] or ''}", flush=True)
    return data, kernels, took


def show(proc):
    _, out, _ = vramtap("report", "--kernels", "--no-owners", "--once", "--width", "120", str(proc.pid))
    head = out.split("\nMemory of GPU", 1)[0]
    print("    | " + head.strip().replace("\n", "\n    | "), flush=True)


def runs_on(proc):
    with open(f"/proc/{proc.pid}/status", encoding="ascii") as file:
        status = file.read()
    check("TracerPid:\t0\n" in status and (status.split("State:\t", 1)[1][0] in "RSD"), "it runs", status[:300])


def answer(proc, line):
    """The process may not go on, or its device may not."""
    with contextlib.suppress(BrokenPipeError):
        proc.stdin.write(line)
        proc.stdin.flush()
    check(select.select([proc.stdout], [], [], 30)[0], "it does not answer", line)
    return proc.stdout.readline().decode().split()


def wait_for_debugger(tool):
    """Its pid, once the tool has started it."""
    until = time.monotonic() + 20
    while tool.poll() is None and time.monotonic() < until:
        found = subprocess.run(["ps", "--ppid", str(tool.pid), "-o", "pid=,comm="], capture_output=True, text=True, check=False).stdout
        for line in found.splitlines():
            if "cuda-gdb" in line:
                return int(line.split()[0])
    return None


def debuggers_of(pid):
    """Those that are at work on it: they need not trace it yet."""
    found = subprocess.run(["ps", "-eo", "pid=,stat=,args="], capture_output=True, text=True, check=False).stdout
    return [line for line in found.splitlines() if "cuda-gdb" in line and f" -p {pid} " in line and line.split()[1][0] != "Z"]


def is_traced(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        return "TracerPid:\t0\n" not in file.read() or debuggers_of(pid)


def device_goes_on(proc):
    first = answer(proc, b"count\n")
    time.sleep(0.2)
    check(first != answer(proc, b"count\n"), "the kernel runs on the device", first)


def ends_well(proc):
    runs_on(proc)
    equal(answer(proc, b"\n"), ["DONE", "True"], "what the process computed")
    equal(proc.wait(60), 0, "exit status")


def told(data, kernels, took):
    equal(kernels["state"], "told", f"state: {kernels['why']} {data['diagnostics']}")
    check(took < LIMIT_S, "it took", took)


def headline(data):
    return [line["text"] for line in data["headlines"] if line["code"] == "main-thread"][0]


def test_kernels_in_a_stream():
    need_debugger()
    with program(STREAM) as proc:
        data, kernels, took = ask(proc, "lineinfo")
        told(data, kernels, took)
        kernel = kernels["kernels"][0]
        equal((kernel["name"], kernel["grid_dim"], kernel["block_dim"], kernel["device"]), ("spin_until", [40, 1, 1], [128, 1, 1], 0), "kernel")
        check(1 <= kernel["sms"] <= 40, "multiprocessors", kernel)
        equal(kernel["threads"], 40 * 128, f"threads, {kernels}")
        check({place["line"] for place in kernel["places"]} <= LINES, "lines", kernel["places"])
        check(all(place["offset"] is not None for place in kernel["places"]), "offsets", kernel["places"])
        check("spin_until runs on GPU 0 (40 blocks of 128 threads)" in headline(data), "headline", headline(data))
        show(proc)
        device_goes_on(proc)
        ends_well(proc)


def test_kernels_two():
    need_debugger()
    with program(TWO) as proc:
        data, kernels, took = ask(proc, "two")
        told(data, kernels, took)
        by_blocks = {kernel["grid_dim"][0]: kernel for kernel in kernels["kernels"]}
        equal(set(by_blocks), {1, 5000}, "kernels")
        equal(by_blocks[1]["threads"], 32, "threads of the small one")
        check(by_blocks[5000]["threads"] % 1024 == 0 and by_blocks[5000]["threads"] >= 1024, "threads", by_blocks[5000])
        check("2 kernels run on GPU 0, one of them spin_until (5,000 blocks of 1,024 threads)" in headline(data), "headline", headline(data))
        show(proc)
        ends_well(proc)


def test_kernels_in_a_graph():
    need_debugger()
    with program(GRAPH) as proc:
        data, kernels, took = ask(proc, "graph")
        told(data, kernels, took)
        equal([(kernel["name"], kernel["grid_dim"]) for kernel in kernels["kernels"]], [("spin_until", [3, 1, 1])], "kernel")
        ends_well(proc)


def test_kernels_none():
    need_debugger()
    with program(IDLE) as proc:
        _, kernels, _ = ask(proc, "idle", expect=(COMPLETE,))
        equal((kernels["state"], kernels["kernels"]), ("none", []), "kernels")
        ends_well(proc)


def alarms(data):
    return [line for line in data["headlines"] if line["alarm"]]


def test_kernels_persistent():
    """A kernel that is there as long as the program, and serves it: nobody is accused, and its work goes on."""
    path = os.path.join(os.environ.get("TMPDIR", "/tmp"), f"vramtap-end-{os.getpid()}")
    with program(PERSISTENT, SERVES, VRAMTAP_TEST_END=path) as proc:
        for i in range(10):
            begin = time.monotonic()
            code, out, err = vramtap("report", "--json", "-", "--no-owners", *(["--once"] if i < 8 else []), str(proc.pid))
            check(code in (COMPLETE, PARTIAL), "exit code", code, err)
            data = json.loads(out)
            equal(alarms(data), [], "alarms")
            busy = [(s["kind"], s["number"]) for s in data["streams"]["streams"] if s["state"] == "busy"]
            print(f"  FIGURE kernels persistent {i}: busy {busy}, {[look['state'] for look in data['streams']['looks']]}, {1000 * (time.monotonic() - begin):.0f} ms",
                  flush=True)
        if shutil.which("cuda-gdb") or os.path.exists("/usr/local/cuda/bin/cuda-gdb"):
            for _ in range(3):
                equal(alarms(ask(proc, "persistent")[0]), [], "alarms")
        with open(path, "w", encoding="ascii"):
            pass
        equal(proc.stdout.readline().decode().split(), ["DONE", "True"], "what it computed")
        os.unlink(path)
        equal(proc.wait(60), 0, "exit status")


def test_kernels_training():
    """A process that is well and works: it is not given to the debugger, which could lock up with it; no wrong result."""
    need_debugger()
    end = os.path.join(os.environ.get("TMPDIR", "/tmp"), f"vramtap-end-{os.getpid()}")
    os.environ["VRAMTAP_TEST_END"] = end
    with program(TRAINS) as proc:
        for i in range(3):
            data, kernels, _ = ask(proc, f"training {i}")
            check(kernels["state"] == "refused" and "goes on" in kernels["why"], "state", kernels)
            check(not [line for line in data["headlines"] if line["alarm"]], "no alarm", data["headlines"])
            runs_on(proc)
        with open(end, "w", encoding="ascii"):
            pass
        ends_well(proc)
    os.unlink(end)


# Its child has the driver's memory, and none of its threads.
FORKS = """
import os, sys, time, torch
x = torch.arange(1000, device="cuda"); torch.cuda.synchronize()
child = os.fork()
if child == 0:
    while True:
        with open(sys.argv[1] + ".ticks", "a") as file: file.write("x")
        time.sleep(0.02)
print("READY", os.getpid(), child, flush=True)
sys.stdin.readline()
print("DONE", int((x * x).sum()) == 332833500, flush=True)
os.kill(child, 9)
"""
TRITON = """
import os, sys, threading
import torch, triton, triton.language as tl

@triton.jit
def spin_triton(flag, out):
    value = tl.load(flag, volatile=True)
    while value == 0:
        value = tl.load(flag, volatile=True)
    tl.store(out, value)

host = torch.zeros(16, dtype=torch.int32, pin_memory=True)
out = torch.zeros(1, dtype=torch.int32, device="cuda")
host[0] = 1; spin_triton[(1,)](host, out); torch.cuda.synchronize(); host[0] = 0
spin_triton[(1,)](host, out)
def obey():
    sys.stdin.readline()
    host[0] = 7
threading.Thread(target=obey).start()
print("READY", os.getpid(), flush=True)
torch.cuda.synchronize()
print("DONE", int(out) == 7, flush=True)
"""


def ticks(path):
    return os.path.getsize(path) if os.path.exists(path) else 0


def test_kernels_of_a_forked_child():
    """cuda-gdb would wait for its driver, and hold it, for good."""
    need_debugger()
    path = os.path.join(os.environ.get("TMPDIR", "/tmp"), "vramtap_spin.cu.ticks")
    with program(FORKS) as proc:
        child = int(proc.ready_line.split()[2])
        code, out, err = vramtap("report", "--kernels", "--json", "-", str(child))
        check(code == PARTIAL, "exit code", code, err)
        kernels = json.loads(out)["kernels"]
        print(f"  FIGURE kernels of a forked child: {kernels['state']}: {kernels['why']}", flush=True)
        equal(kernels["state"], "refused", "state")
        _, (member,), _, _ = triage(type("Child", (), {"pid": child}))
        check("kernels" not in member or member["kernels"]["state"] == "refused", "from outside", member.get("kernels"))
        before = ticks(path)
        time.sleep(0.5)
        check(ticks(path) > before, "the child goes on", before)
        ends_well(proc)


def test_kernels_triton():
    """cuda-gdb has the line. Triton 3.6 without line information has no place in its cache either."""
    need_debugger()
    directory = tempfile.mkdtemp()
    script = os.path.join(directory, "spins.py")
    with open(script, "w", encoding="utf-8") as file:
        file.write(TRITON)
    for off in ("0", "1"):
        env = dict(os.environ, TRITON_DISABLE_LINE_INFO=off, TRITON_CACHE_DIR=os.path.join(directory, off))
        with target([sys.executable, script], ready="READY", stderr=subprocess.DEVNULL, env=env) as proc:
            data, kernels, took = ask(proc, f"triton {off}")
            told(data, kernels, took)
            kernel = kernels["kernels"][0]
            print(f"  FIGURE kernels triton: {kernel}", flush=True)
            equal(kernel["name"], "spin_triton", "kernel")
            check((kernel["places"][0]["file"] == script) == (off == "0"), "lines", kernel)
            check(all(one["file"] == script for one in kernel.get("sources", [])), "source", kernel)
            ends_well(proc)


# The device is never idle for long.
INDUCTOR = """
import os, sys, threading, torch
step = torch.compile(lambda x: (x.sin() + 1).relu() * 2)
x = torch.randn(1 << 30, device="cuda")
out = step(x); torch.cuda.synchronize()
ends = threading.Event()
def work():
    while not ends.is_set():
        for _ in range(800): step(x) # 2 s of work, which is then waited for
        torch.cuda.synchronize()
thread = threading.Thread(target=work)
thread.start()
print("READY", os.getpid(), flush=True)
sys.stdin.readline()
ends.set()
thread.join()
print("DONE", True, flush=True)
"""


def test_kernels_inductor():
    need_debugger()
    cache = tempfile.mkdtemp()
    with program(INDUCTOR, TRITON_DISABLE_LINE_INFO="1", TORCHINDUCTOR_CACHE_DIR=cache) as proc:
        for _ in range(12):
            _, kernels, _ = ask(proc, "inductor")
            if kernels["state"] == "told":
                break
        kernel = kernels["kernels"][0]
        print(f"  FIGURE kernels inductor: {kernel}", flush=True)
        show(proc)
        check(kernel["name"].startswith("triton_poi_fused_"), "kernel", kernel)
        (source,) = kernel["sources"]
        with open(source["file"], encoding="utf-8") as file:
            line = file.read().split("\n")[source["line"] - 1]
        check(source["file"].startswith(cache) and line.startswith(("def " + kernel["name"], "@")), "source", source, line)
        check(kernel["sources_whole"], "all of it", kernel)


def rank(number, of):
    return {"RANK": str(number), "LOCAL_RANK": str(number), "WORLD_SIZE": str(of)}


def triage(*processes):
    """The members of the job document in their order, what was printed, and how long it took."""
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as directory:
        code, text, err = vramtap("triage", "--kernels", "--width", "120", "-o", os.path.join(directory, "out"), *(str(p.pid) for p in processes))
        check(code in (COMPLETE, PARTIAL), "exit code", code, err, text)
        with open(os.path.join(directory, "out", "report.json"), encoding="utf-8") as file:
            report = json.load(file)
    took = time.monotonic() - begin
    members = {m["pid"]: m for m in report["members"]}
    print("    | " + text.strip().replace("\n", "\n    | "), flush=True)
    for p in processes:
        print(f"  FIGURE triage --kernels: rank {members[p.pid]['rank']}: {members[p.pid].get('kernels')}; all {1000 * took:.0f} ms", flush=True)
    return report, [members[p.pid] for p in processes], text, took


def test_kernels_triage():
    """Two processes on one device, held at the same time: one hangs, one is idle. Both go on, and have computed right."""
    need_debugger()
    with program(STREAM, **rank(0, 2)) as hung, program(IDLE, **rank(1, 2)) as idle:
        report, members, text, took = triage(hung, idle)
        equal([(m["kernels"]["state"], [k["name"] for k in m["kernels"]["kernels"]]) for m in members], [("told", ["spin_until"]), ("none", [])], "what runs")
        check("  spin_until<<<40, 128>>> on " in text and "nothing" in text.split("What the GPUs run", 1)[1], "text", text)
        check(took < LIMIT_S, "it took", took)
        equal([v["text"] for v in report["found"]["verdicts"] if v["code"] in ("gpu-exception", "gpus-differ")], [], "accused")
        device_goes_on(hung)
        ends_well(hung)
        ends_well(idle)


def test_kernels_triage_two_hang():
    """Both on one device, whose debuggers share it."""
    need_debugger()
    with program(STREAM, **rank(0, 2)) as first, program(GRAPH, **rank(1, 2)) as second:
        for _ in range(3):
            _, members, _, _ = triage(first, second)
            equal([(m["kernels"]["state"], [k["name"] for k in m["kernels"]["kernels"]]) for m in members], [("told", ["spin_until"])] * 2, "what runs")
        ends_well(first)
        ends_well(second)


def test_kernels_vramtap_killed():
    """At any moment of the debugger's work, which it goes on with; so does the process. (Killed itself, the debugger can take the process
    with it.)"""
    need_debugger()
    with program(STREAM) as proc:
        for delay in (0.02, 0.1, 0.15, 0.2, 0.3, 0.4):
            with subprocess.Popen([VRAMTAP, "report", "--kernels", "--no-owners", "--once", str(proc.pid)], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as tool:
                begun = wait_for_debugger(tool)
                time.sleep(delay)
                tool.kill()
            wait_until(lambda: not is_traced(proc.pid), 20, "the debugger has let it go")
            print(f"  FIGURE kernels vramtap killed after {delay} s: debugger {begun}", flush=True)
            runs_on(proc)
            device_goes_on(proc)
        left = subprocess.run(["ps", "--ppid", str(proc.pid), "-o", "stat=,comm="], capture_output=True, text=True, check=False).stdout
        print(f"  FIGURE kernels children of the process: {left.split()}", flush=True)
        data, kernels, took = ask(proc, "after kills")
        told(data, kernels, took)
        ends_well(proc)


if __name__ == "__main__":
    main(globals())
