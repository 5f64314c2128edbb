# SPDX-License-Identifier: Apache-2.0
"""The ledger on a real GPU that nothing else uses: the same C program as on the simulated device (functional/ledger.py), also while a
stream is captured and while a kernel hangs and a thread frees memory; and PyTorch. What is in no line may grow by 1 % of the used
memory at most, compared with the same process before it allocated. Prints FIGURE lines."""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "functional"))
import ledger  # noqa: E402
from harness import COMPLETE, PARTIAL, Job, Skip, check, equal, main, report, report_json, vramtap  # noqa: E402

GIB, MIB = 1 << 30, 1 << 20
UNEXPLAINED = 1  # per cent of the device's used memory
INSIDE_MS = {1000: 2, 100000: 150}  # by number of allocations
FIRST_MS, SECOND_MS = 150, 60  # a process with PyTorch, JAX and CuPy


def used(data, ordinal=0):
    return next(d["memory"]["used_bytes"] for d in data["cuda"]["devices"] if d["ordinal"] == ordinal)


def figure(label, data, ordinal=0):
    parts, line = data["ledger"], ledger.the_line(data, ordinal)
    print(f"  FIGURE ledger {label}: {len(parts['ranges'])} ranges, {parts['probes']} probes, inside {parts['inside_ms']:.2f} ms, all "
          f"{parts['total_ms']:.2f} ms of {data['timing']['total_ms']:.1f}; found {line['found_bytes'] / MIB:.2f} MiB, rest "
          f"{(line['rest_bytes'] or 0) / MIB:.2f} MiB, dropped {parts['dropped']}, whole {parts['whole']}, pools {parts['pools_known']}")
    print("    " + ", ".join(f"{name} {value['bytes'] / MIB:.2f}" for name, value in [*line.items(), *line["claimed"].items()] if isinstance(value, dict) and value.get("ranges")))


def show(pid):
    _, out, _ = report(pid, "--width", "120", "--no-owners")
    print("    | " + out.split("\nMemory of GPU", 1)[-1].split("\n\n")[0].replace("\n", "\n    | "))


def smi(pid):
    """The kernel's own figure for the process, MiB; None where it cannot be had."""
    if not shutil.which("nvidia-smi"):
        return None
    done = subprocess.run(["nvidia-smi", "--query-compute-apps=pid,used_memory", "--format=csv,noheader,nounits"], capture_output=True,
                          text=True, check=False)
    return next((int(line.split(",")[1]) for line in done.stdout.splitlines() if line.split(",")[0].strip() == str(pid)), None)


def explained(label, before, after):
    """The rest has not grown, except for managed memory, of which nobody tells how much is on the device."""
    allowance = ledger.the_line(after)["managed"]["asked_bytes"] - ledger.the_line(before)["managed"]["asked_bytes"]
    rests = [ledger.the_line(data)["rest_bytes"] for data in (before, after)]
    check(None not in rests, "no rest: the used memory changed", rests)
    unexplained = rests[1] - rests[0]
    share = 100 * unexplained / used(after)
    print(f"  FIGURE ledger {label}: unexplained {unexplained / MIB:.2f} MiB, {share:.2f} % of {used(after) / MIB:.0f} MiB used")
    check(abs(unexplained) - allowance <= UNEXPLAINED / 100 * used(after), "unexplained memory", rests, used(after))


def a_program():
    return ledger.Calls(env=dict(os.environ))


def settled(calls):
    """The driver sets things up at the first use of each kind; that is no allocation of the program."""
    for what in ("async", "graph", "malloc"):
        calls(what, MIB)
    return ledger.read(calls.pid)


def test_ledger_every_kind():
    with a_program() as calls:
        before = settled(calls)
        figure("context", before)
        ledger.every_kind(calls)
        data = ledger.read(calls.pid, expect=COMPLETE)
        figure("every kind", data)
        print(f"    nvidia-smi says {smi(calls.pid)} MiB")
        show(calls.pid)
        ledger.has_all(calls, data)
        ledger.adds_up(data)
        explained("every kind", before, data)
        line = ledger.the_line(data)
        equal(line["mapped"]["bytes"], 26 * MIB, "memory that is mapped twice counts once")
        equal(calls("contexts"), "1", "a context came about")


def test_ledger_capture():
    with a_program() as calls:
        before = settled(calls)
        data = ledger.captured(calls)
        figure("capture", data)
        explained("capture", before, data)


def test_ledger_hung():
    with a_program() as calls:
        settled(calls)
        data, wall = ledger.hung(calls)
        figure("hung", data)
        print(f"    wall {wall:.2f} s with the schema's check")
        check(wall < 20, "a question waited", wall)


def test_ledger_local_memory():
    """What is computed is what the driver takes when the limit changes."""
    with a_program() as calls:
        settled(calls)
        before = None
        for stack in (1024, 4096, 16384, 1024):
            calls.succeeds("stack", stack)
            line = ledger.the_line(ledger.read(calls.pid))
            check(line["local_memory"], "not asked for", line)
            local, rest = line["local_memory"]["bytes"], line["rest_of_process_bytes"]
            print(f"  FIGURE ledger local memory: {line['local_memory']}, rest of the process {(rest or 0) / MIB:.2f} MiB, in all {line['rest_bytes'] / MIB:.2f}")
            if before:
                equal(line["rest_bytes"] - before[1], local - before[0], "what the driver takes")
            before = local, line["rest_bytes"]


def test_ledger_fault():
    """After a kernel has faulted, all that has attributes is still found."""
    with a_program() as calls:
        settled(calls)
        ledger.every_kind(calls)
        whole = ledger.read(calls.pid)
        equal(calls("fault"), "700", "the kernel faults")
        data = ledger.read(calls.pid)
        figure("after a fault", data)
        check(data["ledger"]["after_fault"], "it is not told", data["ledger"])
        kinds = [{r["address"]: r["kind"] for r in d["ledger"]["ranges"]} for d in (whole, data)]
        missing = {at: kind for at, kind in kinds[0].items() if at not in kinds[1]}
        print(f"    missing after the fault: {missing}")
        check(set(missing.values()) <= {"array", "graph", "pool"}, "allocations are missing", missing)


def test_ledger_holes():
    """Small allocations, most of them freed: pages whose first bytes are free. What is missing is smaller than the distance that the
    report tells, and only its pages are in the rest."""
    with a_program() as calls:
        before = settled(calls)
        sizes = [size for _ in range(400) for size in (1, 512, 5000, 100000, 300000, 900000)]
        at = {calls.allocate("malloc", size): size for size in sizes}
        for k, addr in enumerate(list(at)):
            if k * 7919 % 5:
                calls.succeeds("free", hex(addr))
                del at[addr]
        data = min((ledger.read(calls.pid) for _ in range(3)), key=lambda d: d["ledger"]["inside_ms"])
        found = {int(r["address"], 16) for r in data["ledger"]["ranges"]} & set(at)
        pages, found_pages = ({addr >> 21 for addr in some} for some in (at, found))
        figure("holes", data)
        print(f"  FIGURE ledger holes: {len(found)} of {len(at)} allocations and {len(found_pages)} of {len(pages)} pages found, "
              f"step {data['ledger']['step_bytes']}")
        missing = [at[addr] for addr in set(at) - found]
        check(all(size < data["ledger"]["step_bytes"] for size in missing), "a large one is missing", sorted(missing)[-5:])
        rests = [ledger.the_line(d)["rest_bytes"] for d in (before, data)]
        equal(rests[1] - rests[0], len(pages - found_pages) * 2 * MIB, "the rest has the pages that were not found")


def test_ledger_many():
    for count, most in INSIDE_MS.items():
        with a_program() as calls:
            calls("malloc", MIB)
            before = ledger.read(calls.pid)
            calls("many", count, 4096)
            runs = [ledger.read(calls.pid) for _ in range(5)]
            data = min(runs, key=lambda d: d["ledger"]["inside_ms"])
            figure(f"{count} allocations", data)
            ledger.adds_up(data)
            equal(ledger.the_line(data)["device_memory"]["ranges"] >= count, True, "all are listed")
            explained(f"{count} allocations", before, data)
            check(data["ledger"]["inside_ms"] <= most, "too slow", data["ledger"]["inside_ms"])


# Reads lines: "grow" takes more of everything, "raw" is memory beside PyTorch's.
TORCH = """
import ctypes, sys, torch
kept = [torch.randn(1024, 1024, device="cuda")]
def work():
    x = kept[0] @ kept[0]
    torch.nn.functional.conv2d(x.view(1, 1, 1024, 1024), torch.ones(1, 1, 3, 3, device="cuda"))
    torch.cuda.synchronize()
work()
print("READY", flush=True)
for line in sys.stdin:
    if line == "grow\\n":
        kept += [torch.empty(64 << 20, dtype=torch.uint8, device="cuda") for _ in range(32)]
        kept += [torch.empty(1000, device="cuda") for _ in range(5000)]
        del kept[2:20]
    else:
        cuda, at = ctypes.CDLL("libcuda.so.1"), ctypes.c_uint64()
        assert cuda.cuMemAlloc_v2(ctypes.byref(at), ctypes.c_size_t(512 << 20)) == 0
    work()
    print("done", flush=True)
"""


def with_torch(label, **env):
    with tempfile.TemporaryDirectory() as where:
        path = os.path.join(where, "program.py")
        with open(path, "w", encoding="ascii") as file:
            file.write(TORCH)
        with Job([sys.executable, path], env=dict(os.environ, **env)) as job:
            before = ledger.read(job.proc.pid)
            figure(f"{label} at first", before)
            for step in ("grow", "raw"):
                equal(job.ask(step), "done", step)
                data = ledger.read(job.proc.pid)
                figure(f"{label} {step}", data)
                ledger.adds_up(data)
                explained(f"{label} {step}", before, data)
                line, totals = ledger.the_line(data), data["pytorch"]["allocators"][0]["totals"]
                equal(line["claimed"]["pytorch"]["bytes"], totals["reserved_bytes"], "PyTorch's segments")
                equal(line["claimed"]["pytorch"]["without_memory_bytes"], 0, "all of them are found")
            check(line["device_memory"]["bytes"] >= 512 * MIB, "the raw allocation", json.dumps(line))
            print(f"    nvidia-smi says {smi(job.proc.pid)} MiB")
            show(job.proc.pid)


def test_ledger_torch():
    with_torch("torch")


def test_ledger_torch_expandable():
    with_torch("torch, expandable", PYTORCH_CUDA_ALLOC_CONF="expandable_segments:True")


# ---- other libraries ----

# Prints its library's own numbers as JSON for each line it reads.
JAX = """
import json, sys
import jax, jax.numpy as jnp
@jax.jit
def multiply(a, b):
    return a @ b
x = jnp.ones((2048, 2048)); kept = [multiply(x, x) for _ in range(5)] + [jnp.ones((1000, 100 + i)) for i in range(20)]
jax.block_until_ready(kept)
print("READY", flush=True)
for line in sys.stdin:
    kept += [jnp.ones((4096, 1024)) + len(kept) for _ in range(8)]
    del kept[5:9]
    jax.block_until_ready(kept)
    stats = jax.devices()[0].memory_stats() or {}
    print(json.dumps(dict(stats, live_bytes=sum(a.nbytes for a in jax.live_arrays()))), flush=True)
"""
# Beside JAX: PyTorch, CuPy, numba if it is there, and the driver itself.
BESIDE = """
import ctypes, torch, cupy
t = torch.randn(1024, 1024, device="cuda"); u = t @ t; torch.cuda.synchronize()
c = cupy.ones((1024, 1024)); d = c @ c; cupy.cuda.Stream.null.synchronize()
cuda, at = ctypes.CDLL("libcuda.so.1"), ctypes.c_uint64()
assert cuda.cuMemAlloc_v2(ctypes.byref(at), ctypes.c_size_t(300 << 20)) == 0
try:
    import numba.cuda
    n = numba.cuda.device_array(1 << 20)
except ImportError:
    pass
"""
CUPY = """
import json, sys, cupy
kept = [cupy.ones((1024, 1024)) for _ in range(5)]
kept.append(kept[0] @ kept[1]); cupy.cuda.Stream.null.synchronize()
pool = cupy.get_default_memory_pool()
print("READY", flush=True)
for line in sys.stdin:
    kept += [cupy.ones((1000, 100 + i)) for i in range(50)]
    del kept[1:3]
    cupy.cuda.Stream.null.synchronize()
    print(json.dumps({"bytes_in_use": pool.used_bytes(), "pool_bytes": pool.total_bytes()}), flush=True)
"""


def with_program(label, program, look, last=None, **env):
    """look(label, report, what the library says) after each of three steps. The rest must not grow beyond 1 %."""
    with tempfile.TemporaryDirectory() as where:
        path = os.path.join(where, "program.py")
        with open(path, "w", encoding="ascii") as file:
            file.write(program)
        with Job([sys.executable, "-W", "ignore", path], env=dict(os.environ, **env)) as job:
            first = ledger.read(job.proc.pid)
            figure(f"{label} at first", first)
            for step in range(3):
                says = json.loads(job.ask(""))
                data = ledger.read(job.proc.pid)
                look(label, data, says)
                ledger.adds_up(data)
            if last:
                last(label, job.proc.pid, says)
            figure(label, data)
            explained(label, first, data)
            print(f"    nvidia-smi says {smi(job.proc.pid)} MiB; report {data['timing']['total_ms']:.0f} ms; pools "
                  f"{(data['libpools'] or {}).get('total_ms')} ms")
            show(job.proc.pid)


def pools_of(data, library):
    return [p for p in (data["libpools"] or {"pools": []})["pools"] if p["library"] == library and not p["host"]]


def says_xla(label, data, says):
    pools = pools_of(data, "xla")
    if "bytes_in_use" not in says:  # the platform's own allocator: there is no pool
        equal(pools, [], "pools")
        return
    equal(len(pools), 1, f"{label}: pools of XLA")
    pool = pools[0]
    equal((pool["used_bytes"], pool["peak_bytes"], pool["limit_bytes"], pool["state"]),
          (says["bytes_in_use"], says["peak_bytes_in_use"], says["bytes_limit"], "exact"), f"{label}: XLA's own numbers")
    if says.get("pool_bytes"):
        equal(pool["held_bytes"], says["pool_bytes"], f"{label}: XLA's own pool")
    line = ledger.the_line(data)["claimed"]["xla"]
    equal((line["asked_bytes"], line["without_memory_bytes"]), (pool["held_bytes"], 0), f"{label}: all of it is found")
    notes = [c["for"] for c in pool["chunks"] if c["in_use"]]
    print(f"    {len(notes)} chunks in use, {sum(n is not None for n in notes)} say what for: {sorted({n for n in notes if n})[:4]}")


def asked(label, pid, says):
    """What JAX says when the report asks it, against its own list of live arrays."""
    data = report_json(pid, "--ask-jax", expect=(COMPLETE, PARTIAL))
    arrays = [s for s in data["jax"]["sites"] if s["kind"] == "array"]
    owned = data["owners"].get("jax_arrays", [])
    print(f"  FIGURE owners {label}: {sum((a['name'] or '').startswith('kept[') for a in owned)} of {len(owned)} arrays are in the program's list; "
          f"others {sorted({str(a['name']) for a in owned if not (a['name'] or '').startswith('kept[')})}, {data['timing']['owners_ms']:.0f} ms")
    equal(len(owned), sum(s["count"] for s in arrays), "JAX's arrays")
    equal(sum(s["bytes"] for s in arrays), says["live_bytes"], "JAX's live arrays")
    print(f"  FIGURE ask-jax {label}: {len(arrays)} places, {sum(s['count'] for s in arrays)} arrays on {sorted({s['device'] for s in arrays})}, "
          f"GIL held {data['timing']['gil_held_ms']:.2f} ms")


def test_ledger_jax():
    with_program("JAX", JAX, says_xla, last=asked, XLA_PYTHON_CLIENT_MEM_FRACTION=".3")


def test_ledger_jax_growing():
    with_program("JAX growing", JAX, says_xla, XLA_PYTHON_CLIENT_PREALLOCATE="false")


def test_ledger_jax_platform():
    with_program("JAX platform", JAX, says_xla, XLA_PYTHON_CLIENT_ALLOCATOR="platform")


def says_cupy(label, data, says):
    for pool in pools_of(data, "cupy"):
        equal((pool["used_bytes"], pool["held_bytes"]), (says["bytes_in_use"], says["pool_bytes"]), f"{label}: CuPy's own numbers")


def held(label, pid, _):
    """Who holds CuPy's arrays: all are in a list of the program."""
    data = report_json(pid, expect=(COMPLETE, PARTIAL))
    chunks = [c for p in pools_of(data, "cupy") for c in p["chunks"] if c["in_use"]]
    named = [c for c in chunks if (c["owner"] or "").startswith("kept[")]
    print(f"  FIGURE owners {label}: {len(named)} of {len(chunks)} blocks have their owner, {data['timing']['owners_ms']:.0f} ms, report "
          f"{data['timing']['total_ms']:.0f} ms, stopped {data['timing']['stopped_ms']:.1f} ms")
    equal(len(named), len(chunks), "blocks with an owner")


def test_ledger_cupy():
    with_program("CuPy", CUPY, says_cupy, last=held)


RMM = """
import json, sys, rmm, rmm.mr
pool = rmm.mr.PoolMemoryResource(rmm.mr.CudaMemoryResource(), 64 << 20, 1 << 30)
counted = rmm.mr.StatisticsResourceAdaptor(pool)
rmm.mr.set_current_device_resource(counted)
kept = [rmm.DeviceBuffer(size=(i + 1) * 100000) for i in range(30)]
print("READY", flush=True)
for line in sys.stdin:
    kept += [rmm.DeviceBuffer(size=(i + 1) * 250000) for i in range(40)]
    del kept[3:20]
    print(json.dumps({"held": pool.pool_size(), "used": counted.allocation_counts.current_bytes, "live": len(kept)}), flush=True)
"""


def test_ledger_rmm():
    if subprocess.run([sys.executable, "-c", "import rmm"], capture_output=True, check=False).returncode:
        raise Skip("there is no RMM")

    def says_rmm(label, data, says):
        pool, = pools_of(data, "rmm")
        print(f"    RMM says {says}; found {pool['held_bytes']} held, {pool['used_bytes']} used, {pool['state']}")
        equal((pool["held_bytes"], pool["state"]), (says["held"], "exact"), f"{label}: RMM's own numbers")
        # RMM rounds each allocation up to 256 bytes and does not count that
        check(0 <= pool["used_bytes"] - says["used"] <= 256 * says["live"], "in use", pool["used_bytes"], says)
        line = ledger.the_line(data)["claimed"]["rmm"]
        equal((line["asked_bytes"], line["without_memory_bytes"]), (pool["held_bytes"], 0), f"{label}: all of it is found")
    with_program("RMM", RMM, says_rmm)


def test_ledger_watch():
    """A raw leak is named by its line, and nothing else is."""
    with a_program() as calls:
        settled(calls)
        out = ledger.watch(calls, lambda i: calls.allocate("malloc", 32 * MIB), 6)
        equal([label for label, _ in ledger.grows(out)], ["raw cudaMalloc, unattributed on GPU 0"], out)
        print("    | " + out.strip().replace("\n", "\n    | "))


# One rank; with NCCL_RANKS as many as there are devices. A buffer that is made to be shared is the user's, though NCCL reduces it.
NCCL = """
import ctypes, json, os, sys, torch, torch.distributed as dist
rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
torch.cuda.set_device(rank)
x = torch.ones(1 << 20, device="cuda"); y = x[:1024].view(32, 32) @ x[:1024].view(32, 32)
cuda = ctypes.CDLL("libcuda.so.1")
handle, at, size = ctypes.c_uint64(), ctypes.c_uint64(), ctypes.c_size_t(32 << 20)
prop, access = (ctypes.c_int * 8)(1, 1, 1, rank), (ctypes.c_int * 3)(1, rank, 3)
assert not cuda.cuMemCreate(ctypes.byref(handle), size, prop, ctypes.c_ulonglong(0)) and not cuda.cuMemAddressReserve(
    ctypes.byref(at), size, ctypes.c_size_t(0), ctypes.c_uint64(0), ctypes.c_ulonglong(0)) and not cuda.cuMemMap(
    at, size, ctypes.c_size_t(0), handle, ctypes.c_ulonglong(0)) and not cuda.cuMemSetAccess(at, size, access, ctypes.c_size_t(1))
class Mine:
    __cuda_array_interface__ = dict(shape=(1 << 20,), typestr="<f4", data=(at.value, False), version=3)
mine = torch.as_tensor(Mine(), device="cuda")
torch.cuda.synchronize()
print("READY", flush=True)
sys.stdin.readline()
dist.init_process_group("nccl", device_id=torch.device("cuda", rank))
groups = [None, dist.new_group(list(range(ranks)))]
for group in groups:
    for tensor in (x, mine):
        dist.all_reduce(tensor, group=group)
torch.cuda.synchronize()
print(json.dumps({"users": [at.value], "communicators": len(groups)}), flush=True)
sys.stdin.readline()
"""


def with_nccl(ranks):
    """Before NCCL, and when it has two communicators: what it took is NCCL's, and nothing else is."""
    with tempfile.TemporaryDirectory() as where:
        path = os.path.join(where, "program.py")
        with open(path, "w", encoding="ascii") as file:
            file.write(NCCL)
        jobs = []
        try:
            for rank in range(ranks):
                env = dict(os.environ, RANK=str(rank), WORLD_SIZE=str(ranks), MASTER_ADDR="127.0.0.1", MASTER_PORT="29517", NCCL_NVLS_ENABLE="0")
                job = Job([sys.executable, "-W", "ignore", path], env=env)
                job.__enter__()
                jobs.append(job)
            before = [ledger.read(job.proc.pid, "--no-owners") for job in jobs]
            for job in jobs:
                job.start("go")
            says = [json.loads(job.answer()) for job in jobs]
            for rank, job in enumerate(jobs):
                data = ledger.read(job.proc.pid, "--no-owners")
                line, was = ledger.the_line(data, rank), ledger.the_line(before[rank], rank)
                ranges = {int(r["address"], 16): r for r in data["ledger"]["ranges"]}
                figure(f"NCCL, rank {rank} of {ranks}", data, rank)
                pools = pools_of(data, "nccl")
                print(f"  FIGURE ledger NCCL, rank {rank} of {ranks}: {[(len(p['regions']), p['held_bytes'] // MIB) for p in pools]} allocations and MiB by "
                      f"communicator, of {line['shareable']['ranges']} more nobody knows; pools {data['libpools']['total_ms']} ms; rest grew by "
                      f"{((line['rest_bytes'] or 0) - (was['rest_bytes'] or 0)) / MIB:.2f} MiB; nvidia-smi says {smi(job.proc.pid)} MiB")
                ledger.adds_up(data)
                equal(len(pools), says[rank]["communicators"], "communicators")
                equal([ranges[at]["claimed_by"] for at in says[rank]["users"]], [None], "the user's buffer")
                show(job.proc.pid)
                if ranks == 1:
                    equal(line["shareable"]["ranges"], len(says[rank]["users"]), "all but the user's buffer is NCCL's")
                    explained("NCCL", data, ledger.read(job.proc.pid, "--no-owners"))
        finally:
            for job in jobs:
                job.__exit__(None, None, None)


def test_ledger_nccl():
    with_nccl(1)


def test_ledger_nccl_two():
    done = subprocess.run([sys.executable, "-c", "import torch; print(torch.cuda.device_count())"], capture_output=True, text=True, check=False)
    if int(done.stdout or 0) < 2:
        raise Skip("needs two GPUs")
    with_nccl(2)


def test_ledger_all():
    with_program("all libraries", BESIDE + JAX, says_xla, XLA_PYTHON_CLIENT_MEM_FRACTION=".3")


def looks(pid, *args):
    """Milliseconds of two reports as a person waits for them; parts of the work from the second."""
    walls = []
    for _ in range(2):
        began = time.monotonic()
        code, out, err = vramtap("report", "--json", "-", *args, str(pid))
        walls.append((time.monotonic() - began) * 1e3)
        check(code in (COMPLETE, PARTIAL), "report", code, err)
    data = json.loads(out)
    print(f"  FIGURE looks {' '.join(args)}: first {walls[0]:.0f} ms, second {walls[1]:.0f} ms; ledger {data['ledger']['total_ms']:.1f}, pools "
          f"{data['libpools']['total_ms']:.1f}, " + ", ".join(f"{k} {v:.1f}" for k, v in data["timing"].items() if v))
    return walls


def test_ledger_looks():
    """How long a person waits for the first and for the second report of a process with three libraries."""
    for args in (["--no-owners"], []):
        with tempfile.TemporaryDirectory() as where:
            path = os.path.join(where, "program.py")
            with open(path, "w", encoding="ascii") as file:
                file.write(BESIDE + JAX)
            with Job([sys.executable, "-W", "ignore", path], env=dict(os.environ, XLA_PYTHON_CLIENT_MEM_FRACTION=".3")) as job:
                walls = looks(job.proc.pid, *args)
                if args:
                    check(walls[0] <= FIRST_MS and walls[1] <= SECOND_MS, "too slow", walls)


def test_ledger_eight():
    """Eight processes on one device: each has its own part, and all of them the whole."""
    jobs = []
    try:
        for i in range(8):
            job = a_program()
            job.__enter__()
            jobs.append(job)
            job.allocate("malloc", (64 + 16 * i) * MIB)
        data = [ledger.read(job.pid) for job in jobs]
        lines = [ledger.the_line(d) for d in data]
        check(all(line["rest_of_process_bytes"] is not None for line in lines), "the kernel driver's count", lines)
        own = sum(line["found_bytes"] + line["rest_of_process_bytes"] for line in lines)
        share = 100 * (used(data[-1]) - own) / used(data[-1])
        print(f"  FIGURE ledger eight processes: {own / MIB:.2f} of {used(data[-1]) / MIB:.2f} MiB used, unexplained {share:.2f} %")
        check(0 <= share <= UNEXPLAINED, "unexplained memory", share)
    finally:
        for job in jobs:
            job.__exit__(None, None, None)


if __name__ == "__main__":
    main(globals())
