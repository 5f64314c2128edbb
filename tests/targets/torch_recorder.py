#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A job whose allocations are recorded, by vramtap and by PyTorch itself; on a simulated or on a real device.

It prints "READY pid=PID" and then obeys lines on its standard input, each answered with a line of JSON: the function do_...
below that has the command's name says what it does. An exception is answered as {"error": its text}.
"""
import asyncio
import concurrent.futures
import contextlib
import ctypes
import functools
import gc
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
import weakref

import torch

import torch_history as places

DEVICE = "cuda"
KEPT = places.KEPT  # of the functions of torch_history.py, too
STOP = threading.Event()
THREADS, FAILED = [], []


def simulated():
    return torch.cuda.get_device_name(0).startswith("Simulated")


# ---- what an allocation costs --------------------------------------------------------------------


def deep(depth, function, *args):
    return deep(depth - 1, function, *args) if depth else function(*args)


def allocate(n):
    return torch.empty(n, dtype=torch.uint8, device=DEVICE)


def batches(count, each):
    """The time of one torch.empty() and its free, in ns, of each batch."""
    out = []
    empty, clock = torch.empty, time.perf_counter_ns
    for _ in range(count):
        begin = clock()
        for _ in range(each):
            empty(64, device="cuda")
        out.append((clock() - begin) / each)
    return out


def batches_in_turn(count, each):
    """The same, from eight depths in turn: no stack is that of the allocation before."""
    out = []
    clock = time.perf_counter_ns
    for _ in range(count):
        begin = clock()
        for i in range(each):
            deep(i & 7, allocate, 64)
        out.append((clock() - begin) / each)
    return out


@contextlib.contextmanager
def undisturbed():
    """On one processor, ahead of other work on it if that is allowed; the threads of this process that are made later, too."""
    processors = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(processors)})
    ahead = True
    try:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    except PermissionError:
        ahead = False
    gc.disable()
    try:
        yield ahead
    finally:
        gc.enable()
        if ahead:
            os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
        os.sched_setaffinity(0, processors)


def do_second_thread():
    """As each job that trains has some. Until the first is made, glibc and libstdc++ do without atomic instructions, and never again."""
    thread = threading.Thread(target=time.sleep, args=(0,))
    thread.start()
    thread.join()


def do_cost(count, each, how="same"):
    """20 Python frames deep: this one's callers and deep() among them."""
    run = {"same": batches, "turns": batches_in_turn}[how]
    depth = 0
    frame = sys._getframe()
    while frame:
        depth, frame = depth + 1, frame.f_back
    with undisturbed() as ahead:
        deep(18 - depth, run, 3, int(each))
        return {"ns": deep(18 - depth, run, int(count), int(each)), "ahead": ahead}


# ---- blocks ----------------------------------------------------------------------------------------


def do_history(what):
    if what == "off":
        torch.cuda.memory._record_memory_history(None)
    else:
        torch.cuda.memory._record_memory_history(context="alloc" if what == "python" else "all", stacks=what, max_entries=1000)


def do_blocks(count):
    """So many more live blocks, from 20 depths of one place."""
    for i in range(int(count)):
        places.by_recursion(i % 20, 512 + i % 7 * 100)


def do_drop():
    KEPT.clear()
    gc.collect()
    torch.cuda.empty_cache()


def do_snapshot(path):
    begin = time.perf_counter()
    data = torch.cuda.memory._snapshot()
    taken = time.perf_counter() - begin
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"segments": data["segments"]}, file)
    return taken


def do_step():
    """One line of the program that is known to the test."""
    places.by_function(4321)


# ---- odd places -----------------------------------------------------------------------------------


def empty(n):
    return places.keep(torch.empty(n, dtype=torch.uint8, device=DEVICE))


async def in_coroutine(n):
    await asyncio.sleep(0)
    empty(n)

    async def numbers():
        for i in range(3):
            await asyncio.sleep(0)
            empty(n + i)
            yield i

    return [i async for i in numbers()]


def by_coroutines():
    async def several():
        await asyncio.gather(*[in_coroutine(1500 + 10 * i) for i in range(5)])
    asyncio.run(several())


class Finalised:
    def __del__(self):
        empty(1600)


def by_finaliser():
    Finalised()
    obj = Finalised()
    weakref.finalize(obj, empty, 1610)
    del obj


class Strange:
    def __getattr__(self, name):
        return empty(1700)

    def __iter__(self):
        return (empty(1710 + i) for i in range(2))

    def __enter__(self):
        empty(1720)

    def __exit__(self, *exc):
        empty(1730)
        return True

    def __lt__(self, other):
        empty(1740)
        return False

    def __repr__(self):
        empty(1750)
        return "strange"

    def __call__(self):
        return empty(1760)


def by_slots():
    strange = Strange()
    _ = strange.anything
    list(strange)
    with strange:
        raise ValueError("let go")
    sorted([strange, Strange()])
    f"{strange!r}"
    functools.partial(strange)()
    KEPT.append(list(filter(None, map(lambda n: empty(n).numel(), (1770, 1771)))))


def by_generator_in_threads():
    def run(n):
        yield from (empty(n + i) for i in range(3))

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda n: list(run(n)), range(1800, 1900, 10)))


def by_exception():
    def fail(depth):
        if depth:
            return fail(depth - 1)
        raise KeyError(empty(1900).numel())
    try:
        fail(5)
    except KeyError:
        empty(1910)
        try:
            fail(2)
        except KeyError:
            empty(1920)
        finally:
            empty(1930)


def by_hooks():
    layer = torch.nn.Linear(32, 32).to(DEVICE)
    layer.register_forward_hook(lambda *_: empty(2000).numel() == 0 or None)
    layer.register_full_backward_hook(lambda *_: empty(2010).numel() == 0 or None)
    layer.weight.register_hook(lambda gradient: gradient + 1)
    x = torch.ones(4, 32, device=DEVICE, requires_grad=True)
    places.keep(layer(x)).sum().backward()
    places.keep(layer)
    x.register_hook(lambda gradient: gradient * 2)
    y = torch.utils.checkpoint.checkpoint(lambda v: (v * 2).relu() * v, x, use_reentrant=False)
    places.keep(y).sum().backward()
    y = torch.utils.checkpoint.checkpoint(lambda v: (v * 3).relu() * v, x, use_reentrant=True)
    places.keep(y).sum().backward()
    places.keep(x)


class Numbers(torch.utils.data.Dataset):
    def __len__(self):
        return 12

    def __getitem__(self, index):
        return torch.full((4,), float(index))


def by_loader(workers):
    """Batches that are moved to the device; with workers, children are forked while the recorder is on."""
    loader = torch.utils.data.DataLoader(Numbers(), batch_size=3, num_workers=workers, pin_memory=workers == 0)
    for batch in loader:
        KEPT.append(batch.to(DEVICE, non_blocking=True))


def by_deep_recursion():
    """Deeper than what is kept of a stack."""
    places.by_recursion(200, 2100)


def by_long_function():
    """Instructions that lie far from the beginning, and lines that go up and down."""
    body = "\n".join("    a = (0,\n  1)[0]" if i % 50 == 0 else f"    a = {i}" for i in range(20000))
    scope = {"empty": empty}
    exec(compile(f"def long():\n    empty(2200)\n{body}\n    empty(2210)\n", "<long>", "exec"), scope)
    scope["long"]()


def by_compiled():
    """torch.compile, where there is what it needs."""
    try:
        function = torch.compile(lambda x: (x.sin() + x.cos()).relu() * 2)
        x = torch.ones(1000, device=DEVICE)
        for _ in range(3):
            places.keep(function(x))
    except Exception as error:  # what it needs is many things
        return f"not there: {type(error).__name__}"
    return "there"


def do_places(repeat):
    """Blocks from all of them."""
    compiled = "not tried: the device is simulated" if simulated() else by_compiled()
    for _ in range(int(repeat)):
        for name in ("by_generator", "by_comprehension", "by_class", "by_exec", "by_callback", "views", "train", "in_thread"):
            getattr(places, name)()
        for depth in range(20):
            places.by_recursion(depth, 900 + depth)
        for function in (by_coroutines, by_finaliser, by_slots, by_generator_in_threads, by_exception, by_hooks, by_deep_recursion,
                         by_long_function):
            function()
        by_loader(0)
    by_loader(2)
    return {"blocks": len(KEPT), "compiled": compiled}


# ---- training -------------------------------------------------------------------------------------


class Trainer:
    """A small transformer whose losses depend on the seed alone."""

    def __init__(self, width, layers, tokens, batch, deterministic):
        torch.manual_seed(20)
        torch.use_deterministic_algorithms(deterministic)
        torch.backends.cuda.enable_cudnn_sdp(False)
        torch.backends.cuda.enable_flash_sdp(not deterministic)
        torch.backends.cuda.enable_mem_efficient_sdp(not deterministic)
        self.shape = (batch, tokens)
        self.embed = torch.nn.Embedding(1000, width)
        layer = torch.nn.TransformerEncoderLayer(width, max(width // 64, 1), 4 * width, dropout=0.1, batch_first=True)
        self.model = torch.nn.Sequential(self.embed, torch.nn.TransformerEncoder(layer, layers, enable_nested_tensor=False),
                                         torch.nn.Linear(width, 1000)).to(DEVICE)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3)
        self.generator = torch.Generator(device="cpu").manual_seed(7)
        self.losses = []

    def step(self):
        data = torch.randint(0, 1000, self.shape, generator=self.generator).to(DEVICE)
        with torch.autocast("cuda", torch.bfloat16):
            out = self.model(data)
            loss = torch.nn.functional.cross_entropy(out.flatten(0, 1).float(), data.roll(1, 1).flatten())
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    def digest(self):
        """Of all bits of the parameters: sums of integers, which have no rounding."""
        return [int(p.detach().view(torch.int32).long().sum()) for p in self.model.parameters()]


TRAINER = []


def do_trainer(width, layers, tokens, batch, deterministic):
    TRAINER[:] = [Trainer(int(width), int(layers), int(tokens), int(batch), deterministic == "deterministic")]
    for _ in range(3):
        TRAINER[0].step()
    torch.cuda.synchronize()


def do_steps(count):
    """The time of each step in ms, the device's work included; and how many allocations each made."""
    trainer = TRAINER[0]
    before = torch.cuda.memory_stats()["allocation.all.allocated"]
    out = []
    torch.cuda.synchronize()
    for _ in range(int(count)):
        begin = time.perf_counter()
        trainer.step()
        torch.cuda.synchronize()
        out.append((time.perf_counter() - begin) * 1e3)
    return {"ms": out, "allocations": (torch.cuda.memory_stats()["allocation.all.allocated"] - before) // int(count)}


def do_losses(seconds, steps):
    """Trains: the exact losses, and of the parameters at the end the sum of their bits. At least so many steps and so long, but the
    losses are those of the first steps."""
    trainer = TRAINER[0]
    losses, digest = [], None
    end = time.monotonic() + float(seconds)
    while len(losses) < int(steps) or time.monotonic() < end:
        losses.append(trainer.step())
        if len(losses) == int(steps):
            digest = trainer.digest()
    return {"losses": [float(loss).hex() for loss in losses[:int(steps)]], "digest": digest, "steps": len(losses)}


# ---- threads that allocate ------------------------------------------------------------------------


def in_background(function, *args):
    def run():
        try:
            function(*args)
        except BaseException as error:
            FAILED.append(f"{function.__name__}: {type(error).__name__}: {error}"[:1000])

    thread = threading.Thread(target=run, daemon=True)
    THREADS.append(thread)
    thread.start()


def allocate_and_free(seed):
    """All kinds of sizes and depths: 1200 bytes are asked for here, all others in allocate()."""
    rng = random.Random(seed)
    kept = []
    while not STOP.is_set():
        for _ in range(200):
            kept.append(deep(rng.randrange(30), allocate, rng.choice((100, 5000, 70000))) if rng.random() < 0.5 else
                        torch.empty(300, device=DEVICE))
            if len(kept) > 40:
                del kept[rng.randrange(len(kept))]


def do_load(threads):
    STOP.clear()
    for i in range(int(threads)):
        in_background(allocate_and_free, i)


def do_rest():
    STOP.set()
    for thread in THREADS:
        thread.join()
    THREADS.clear()
    if FAILED:
        raise RuntimeError(f"threads failed: {FAILED}")


def come_and_go():
    while not STOP.is_set():
        threads = [threading.Thread(target=deep, args=(5, allocate, 100)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            list(pool.map(allocate, range(100, 110)))


def do_short_threads():
    STOP.clear()
    in_background(come_and_go)


LAST = []
SOURCE = "def {name}():\n    return torch.empty({size}, dtype=torch.uint8, device='cuda')\n"


def make_functions(low, high, keep):
    """Functions that are made, called once and freed; the next one's code object lies where theirs was. Names are as long as each
    other, and say how many bytes are asked for."""
    for size in range(low, high):
        scope = {"torch": torch}
        exec(SOURCE.format(name=f"made_{size:08}", size=size), scope)
        function = scope.pop(f"made_{size:08}")
        tensor = function()
        if keep(size):
            KEPT.append(tensor)
        if size < high - 1:
            del function
    return function


CELL = "tensor = torch.empty({size}, dtype=torch.uint8, device='cuda')\n"


def make_cells(low, high):
    """As a notebook runs its cells: always <module>, line 1, of a file whose name is as long as the others'."""
    for size in range(low, high):
        scope = {"torch": torch}
        code = compile(CELL.format(size=size), f"/nowhere/cell_{size:08}.py", "exec")
        exec(code, scope)
        KEPT.append(scope["tensor"])
        if size < high - 1:
            del code
    return code


def make_editions(low, high):
    """One function of one file, compiled again and again with its only line further down."""
    for size in range(low, high):
        scope = {"torch": torch}
        lines = "\n" * (size % 100 + 1)
        exec(compile(f"def edited():{lines}    return torch.empty({size}, dtype=torch.uint8, device='cuda')\n", "/nowhere/edited.py", "exec"),
             scope)
        function = scope.pop("edited")
        KEPT.append(function())
        if size < high - 1:
            del function
    return function


def do_made_functions(low, high):
    """The sizes say which; cells follow functions, editions follow cells. The last of each lives on, where many before it were."""
    low, high = int(low), int(high)
    LAST.extend((make_functions(low, high, lambda size: True), make_cells(high, 2 * high - low),
                 make_editions(2 * high - low, 3 * high - 2 * low)))


def functions_that_come_and_go(seed):
    low = 10000 + 100000 * seed
    while not STOP.is_set():
        make_functions(low, low + 500, lambda size: size % 20 == 0 and len(KEPT) < 20000)
        low += 500


def do_keep_making_functions(threads):
    """Until told to rest; some of the tensors stay."""
    STOP.clear()
    for i in range(int(threads)):
        in_background(functions_that_come_and_go, i)


def fail_and_recover(seed):
    """Exceptions that pass through the allocator, from deep within Python, and that of Python itself when it is too deep."""
    def endless(depth):
        if depth % 100 == 0:
            allocate(100)
        return endless(depth + 1)

    while not STOP.is_set():
        try:
            deep(random.randrange(100), allocate, 1 << 46)
        except torch.cuda.OutOfMemoryError:
            pass
        try:
            endless(0)
        except RecursionError:
            pass


def keep_forking():
    while not STOP.is_set():
        if do_fork(0) != {"status": 0}:
            print(json.dumps({"error": "a child was harmed"}), flush=True)
        time.sleep(0.05)


def be_interrupted():
    """Signals that arrive in the middle of anything."""
    while not STOP.is_set():
        os.kill(os.getpid(), signal.SIGUSR1)
        time.sleep(0.003)


def keep_training():
    trainer = Trainer(64, 1, 8, 2, False)
    while not STOP.is_set():
        trainer.step()


def do_storm():
    STOP.clear()
    in_background(allocate_and_free, 1)
    in_background(allocate_and_free, 2)
    in_background(come_and_go)
    in_background(fail_and_recover, 1)
    in_background(keep_forking)
    in_background(be_interrupted)
    in_background(keep_training)
    in_background(functions_that_come_and_go, 3)


# ---- processes ------------------------------------------------------------------------------------


def do_fork(sleep):
    """A child as data loaders fork them: it allocates on the CPU and ends well. The answer is how it ended, or its pid if it sleeps."""
    child = os.fork()
    if child == 0:
        code = 0
        try:
            a = torch.ones(1000)
            code = 0 if float((a + a).sum()) == 2000.0 else 7
            if float(sleep):
                time.sleep(float(sleep))
        except BaseException:
            code = 8
        finally:
            os._exit(code)
    if float(sleep):
        return {"pid": child}
    return {"status": os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])}


def do_spawn():
    """exec by other programs, from this one, by fork+exec and by posix_spawn."""
    done = [subprocess.run([sys.executable, "-c", "print(6 * 7)"], stdout=subprocess.PIPE, check=False, close_fds=close) for close in
            (True, False)]
    pid = os.posix_spawn("/bin/true", ["true"], os.environ)
    return {"out": [d.stdout.decode().strip() for d in done], "status": os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])}


def do_become_another():
    """This program becomes another one, which then is no job any more."""
    os.execv(sys.executable, [sys.executable, "-c", "import time; print('\"changed\"', flush=True); time.sleep(1000)"])


def do_wait(pid):
    return os.waitstatus_to_exitcode(os.waitpid(int(pid), 0)[1])


# ---- out of memory ------------------------------------------------------------------------------------


def fill_the_device(size, kept):
    while True:
        kept.append(torch.empty(size, dtype=torch.uint8, device=DEVICE))


def do_out_of_memory(size):
    """Fills the device until it is full. What is told is what the program sees: the exception, how long the last request took."""
    kept = []
    try:
        fill_the_device(int(size), kept)
    except torch.cuda.OutOfMemoryError as error:
        begin = time.perf_counter()
        text, kind, line = str(error), type(error).__name__, error.__traceback__.tb_next.tb_lineno
        frames = []
        at = error.__traceback__
        while at:
            frames.append((at.tb_frame.f_code.co_name, at.tb_lineno))
            at = at.tb_next
        del at, error
    blocks = len(kept)
    kept.clear()
    torch.cuda.empty_cache()
    return {"text": text, "type": kind, "line": line, "frames": frames, "blocks": blocks, "freed_s": time.perf_counter() - begin}


def do_fail_once():
    """A request that is too large for any device; how long it took to fail."""
    begin = time.perf_counter()
    try:
        torch.empty(1 << 46, dtype=torch.uint8, device=DEVICE)
    except torch.cuda.OutOfMemoryError as error:
        return {"s": time.perf_counter() - begin, "text": str(error)}
    return None


# ---- the driver, not through PyTorch ------------------------------------------------------------------

RAW = []


def runtime():
    """The CUDA runtime that PyTorch uses."""
    with open("/proc/self/maps", encoding="utf-8") as file:
        paths = {line.split(None, 5)[5].strip() for line in file if "libcudart" in line}
    return ctypes.CDLL(sorted(paths)[0])


def raw_allocation(function, size, *args):
    pointer = ctypes.c_void_p()
    error = getattr(runtime(), function)(ctypes.byref(pointer), ctypes.c_size_t(size), *args)
    if error:
        raise RuntimeError(f"{function}: {error}")
    return pointer.value


def do_raw(size):
    """Straight from the runtime, by ctypes: device, pool, managed and pinned memory. Answers addresses by kind."""
    size = int(size)
    out = {"cudaMalloc": raw_allocation("cudaMalloc", size), "cudaMallocAsync": raw_allocation("cudaMallocAsync", size + 512, None),
           "cudaMallocManaged": raw_allocation("cudaMallocManaged", size + 1024, 1),
           "cudaMallocHost": raw_allocation("cudaMallocHost", size + 1536)}
    RAW.append(out)
    return out


def do_raw_free():
    """All of them but the managed ones and the pinned ones."""
    library = runtime()
    for each in RAW:
        library.cudaFree(ctypes.c_void_p(each["cudaMalloc"]))
        library.cudaFreeAsync(ctypes.c_void_p(each["cudaMallocAsync"]), None)
    library.cudaDeviceSynchronize()


def do_cublas():
    """A matrix product, for which cuBLAS takes a workspace; PyTorch gives it one of its own unless told otherwise."""
    a = torch.ones(512, 512, device=DEVICE)
    KEPT.append(a @ a)
    torch.cuda.synchronize()


def do_cupy(size):
    import cupy
    array = cupy.zeros(int(size), dtype=cupy.uint8)
    KEPT.append(array)
    return {"address": array.data.ptr, "pool": cupy.get_default_memory_pool().total_bytes()}


def do_jax(size):
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    import jax
    array = jax.numpy.ones(int(size), dtype=jax.numpy.uint8)
    array.block_until_ready()
    KEPT.append(array)
    return {"backend": jax.default_backend(), "address": array.unsafe_buffer_pointer()}


def do_nccl(store):
    """A group of one process, on two devices where there are two."""
    torch.distributed.init_process_group("nccl", init_method="file://" + store, rank=0, world_size=1)
    torch.distributed.all_reduce(torch.ones(1 << 20, device=DEVICE))
    torch.cuda.synchronize()
    if torch.cuda.device_count() > 1:
        torch.cuda.nccl.all_reduce([torch.ones(1 << 20, device=f"cuda:{i}") for i in range(torch.cuda.device_count())])
        torch.cuda.synchronize()
    return torch.cuda.nccl.version()


def do_profiled(steps):
    """The same work under torch.profiler; answers how many events of the device and of memory it saw."""
    from torch.profiler import ProfilerActivity, profile
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], profile_memory=True) as profiler:
        for i in range(int(steps)):
            KEPT.append(torch.ones(1000 + i, device=DEVICE) * 2)
        torch.cuda.synchronize()
    events = profiler.events()
    return {"events": len(events), "device": sum(e.device_type.name == "CUDA" for e in events)}


PROFILER = []


def do_profiler(what):
    from torch.profiler import ProfilerActivity, profile
    if what == "on":
        PROFILER.append(profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]))
        PROFILER[0].__enter__()
        return None
    PROFILER[0].__exit__(None, None, None)
    return {"events": len(PROFILER.pop().events())}


def do_graph():
    """A CUDA graph with its private pool, and a pool of its own."""
    static = places.keep(torch.ones(100000, device=DEVICE))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        KEPT.append(static * 2)
        KEPT.append(torch.empty(4567, dtype=torch.uint8, device=DEVICE))
    graph.replay()
    KEPT.append(graph)
    if hasattr(torch.cuda, "MemPool"):
        pool = torch.cuda.MemPool()
        with torch.cuda.use_mem_pool(pool):
            KEPT.append(torch.empty(7654, dtype=torch.uint8, device=DEVICE))
        KEPT.append(pool)


def do_streams():
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        KEPT.append(torch.empty(5432, dtype=torch.uint8, device=DEVICE))
    KEPT.append(side)


def do_compute():
    """Of what the device computes, if it does: must be what it always is."""
    values = torch.arange(100000, dtype=torch.int64)
    right = int((values * values).sum()) == 333328333350000
    if not simulated():
        values = values.to(DEVICE)
        right = right and int((values * values).sum()) == 333328333350000
    return right


def do_backend():
    return {"torch": torch.__version__, "python": sys.version.split()[0], "device": torch.cuda.get_device_name(0), "simulated": simulated(),
            "allocator": torch.cuda.get_allocator_backend(), "devices": torch.cuda.device_count()}


def obey(words):
    try:
        return globals()["do_" + words[0]](*words[1:])
    except Exception as error:  # told, so that the test can say what it was
        return {"error": f"{type(error).__name__}: {error}"[:2000]}


def main():
    if os.environ.get("VRAMTAP_FIRST"):
        places.by_function(int(os.environ["VRAMTAP_FIRST"]))  # the very first allocation
    torch.cuda.init()
    signal.signal(signal.SIGUSR1, lambda *_: None)
    print(f"READY pid={os.getpid()}", flush=True)
    for line in sys.stdin:
        print(json.dumps(obey(line.split())), flush=True)


if __name__ == "__main__":
    main()
    os._exit(0)
