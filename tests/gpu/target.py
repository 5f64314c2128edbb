# SPDX-License-Identifier: Apache-2.0
"""A PyTorch process on a real GPU that gets into a chosen state and stays there.

usage: target.py MODE [--blocks N] [--threads N] [--snapshot FILE] [--rank N --store FILE]

Prints "READY" (and the pid of a forked child) when the state is reached. Before that it writes torch.cuda.memory._snapshot()["segments"] as JSON (with
--snapshot), taken after the last allocation. Reads lines from standard input: "check" computes on the CPU, and in the modes
where the device is free on the GPU too, and answers "ok" or "wrong"; "contexts" answers the number of devices with an active
primary context; "keep N" allocates N bytes and answers their address; "frames" answers what sys._current_frames() says, by thread. In the mode "gil" the main thread keeps the GIL
from then on, and answers nothing. The modes "nccl" and "nccl-init" are for two processes, --rank 0 and --rank 1: the first
waits for ever in a collective that the second does not join, after one that both have, or in the very first.
"""
import argparse
import ctypes
import json
import os
import sys
import threading
import time

import torch

FOREVER = 1 << 30
FOREVER_CYCLES = 1 << 62  # of the SM clock: a century
KEEP = []


def fill(count):
    """count live blocks of mixed sizes, with holes between them."""
    sizes = (512, 2048, 4096, 65536, 1 << 20, 3 << 20)
    tensors = [torch.empty(sizes[i % len(sizes)] if i % 97 == 0 else 512 * (1 + i % 7), dtype=torch.uint8, device="cuda")
               for i in range(count + count // 10)]
    KEEP.extend(t for i, t in enumerate(tensors) if i % 11)


def idle():
    pass


def use_streams():
    """Blocks of other streams, one that awaits its free on another stream's event, and a private pool of a CUDA graph."""
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        KEEP.append(torch.empty(5 << 20, dtype=torch.uint8, device="cuda"))
        KEEP.append(torch.empty(1000, dtype=torch.uint8, device="cuda"))
    pool = torch.cuda.graph_pool_handle()
    graph = torch.cuda.CUDAGraph()
    static = torch.ones(1 << 20, device="cuda")
    with torch.cuda.graph(graph, pool=pool):
        KEEP.append(static * 2)
        temporary = static + 1
        del temporary
    KEEP.extend((side, graph, static))


def await_free():
    side = torch.cuda.Stream()
    block = torch.empty(7 << 20, dtype=torch.uint8, device="cuda")
    with torch.cuda.stream(side):
        torch.cuda._sleep(FOREVER_CYCLES)
    block.record_stream(side)
    del block


def train():
    """One real training step, so that parameters, gradients, optimizer state and library workspaces exist."""
    model = torch.nn.Sequential(*[torch.nn.Linear(512, 512) for _ in range(8)]).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    loss = model(torch.randn(64, 512, device="cuda")).square().mean()
    loss.backward()
    optimizer.step()
    KEEP.extend((model, optimizer, loss))


def hang_in_synchronize():
    torch.cuda._sleep(FOREVER_CYCLES)
    thread = threading.Thread(target=torch.cuda.synchronize, name="synchroniser", daemon=True)
    thread.start()


def hang_in_free():
    cached = torch.empty(64 << 20, dtype=torch.uint8, device="cuda")
    torch.cuda._sleep(FOREVER_CYCLES)
    del cached
    thread = threading.Thread(target=torch.cuda.empty_cache, name="freer", daemon=True)
    thread.start()


def out_of_memory():
    try:
        while True:
            KEEP.append(torch.empty(1 << 30, dtype=torch.uint8, device="cuda"))
    except torch.cuda.OutOfMemoryError as error:
        print("caught", str(error)[:60], flush=True)


def want_the_gil():
    while True:
        time.sleep(0.001)


def before_holding_the_gil():
    torch.cuda._sleep(FOREVER_CYCLES)
    threading.Thread(target=want_the_gil, name="wants-gil", daemon=True).start()


def hold_the_gil():
    """As an extension does that waits for the device without releasing the GIL; PyDLL keeps it, unlike CDLL."""
    ctypes.PyDLL("libcuda.so.1").cuCtxSynchronize()


RANK = {}


def join_group():
    torch.distributed.init_process_group("nccl", init_method="file://" + RANK["store"], rank=RANK["rank"], world_size=2)


def reduce_alone(tensor):
    torch.distributed.all_reduce(tensor)
    torch.cuda.synchronize()


def collective_that_one_never_joins():
    tensor = torch.ones(1 << 20, device="cuda")
    join_group()
    torch.distributed.all_reduce(tensor)
    torch.cuda.synchronize()
    KEEP.append(tensor)
    if RANK["rank"] == 0:
        threading.Thread(target=reduce_alone, args=(tensor,), name="reducer", daemon=True).start()


def first_collective_that_one_never_joins():
    tensor = torch.ones(1 << 20, device="cuda")
    join_group()
    KEEP.append(tensor)
    if RANK["rank"] == 0:
        threading.Thread(target=reduce_alone, args=(tensor,), name="reducer", daemon=True).start()


CHILDREN = []


def fork_child():
    """A worker as a data loader forks it: it must not use CUDA, and holds none of it."""
    child = os.fork()
    if child == 0:
        while os.getppid() != 1:
            time.sleep(0.1)
        os._exit(0)
    CHILDREN.append(child)


def snapshot(path):
    native = torch.cuda.get_allocator_backend() == "native"  # the others have no list of blocks
    segments = torch.cuda.memory._snapshot()["segments"] if native else []
    keep = ("device", "address", "total_size", "stream", "segment_type", "segment_pool_id", "is_expandable")
    out = [dict({k: s[k] for k in keep},
                blocks=[{k: b[k] for k in ("address", "size", "requested_size", "state")} for b in s["blocks"]])
           for s in segments]
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"segments": out, "stats": torch.cuda.memory_stats()}, file)


def active_contexts():
    driver = ctypes.CDLL("libcuda.so.1")
    flags, active = ctypes.c_uint(), ctypes.c_int()
    count = 0
    for device in range(torch.cuda.device_count()):
        driver.cuDevicePrimaryCtxGetState(device, ctypes.byref(flags), ctypes.byref(active))
        count += active.value
    return count


def frames():
    """Python's own view of the stacks, innermost first, by thread number; this function left out."""
    tids = {thread.ident: thread.native_id for thread in threading.enumerate()}
    out = {}
    for ident, frame in sys._current_frames().items():
        stack = []
        while frame:
            if frame.f_code is not frames.__code__:
                stack.append([frame.f_code.co_qualname, os.path.basename(frame.f_code.co_filename), frame.f_lineno])
            frame = frame.f_back
        out[tids.get(ident)] = stack
    return json.dumps(out)


def compute(gpu):
    values = torch.arange(100000, dtype=torch.int64)
    right = int((values * values).sum()) == 333328333350000
    if gpu:
        again = torch.arange(100000, dtype=torch.int64, device="cuda")
        right = right and int((again * again).sum()) == 333328333350000
    return right


def keep(size):
    """One more block; its address."""
    KEEP.append(torch.empty(size, dtype=torch.uint8, device="cuda"))
    return KEEP[-1].data_ptr()


MODES = {
    "idle": idle,
    "synchronize": hang_in_synchronize,
    "free": hang_in_free,
    "awaiting": await_free,
    "oom": out_of_memory,
    "forked": fork_child,
    "gil": before_holding_the_gil,
    "nccl": collective_that_one_never_joins,
    "nccl-init": first_collective_that_one_never_joins,
}
DEVICE_IS_FREE = ("idle", "oom", "forked")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("mode", choices=MODES)
    parser.add_argument("--blocks", type=int, default=1000)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--heartbeat", nargs=2, metavar=("LIBRARY", "FILE"),
                        help="eight more threads tell when they could not run (tests/targets/heartbeat.c)")
    parser.add_argument("--snapshot")
    parser.add_argument("--rank", type=int, default=0)
    parser.add_argument("--store")
    parser.add_argument("--plain", action="store_true", help="no streams, graphs or training step")
    args = parser.parse_args()
    RANK.update(rank=args.rank, store=args.store)
    torch.cuda.set_device(args.rank % torch.cuda.device_count())
    if not args.plain:
        train()
        use_streams()
    fill(args.blocks)
    torch.cuda.synchronize()
    for i in range(args.threads):
        threading.Thread(target=threading.Event().wait, name=f"extra-{i}", daemon=True).start()
    for i in range(8 if args.heartbeat else 0):
        threading.Thread(target=ctypes.CDLL(args.heartbeat[0]).heartbeat, args=(args.heartbeat[1].encode(), i), daemon=True).start()
    if args.mode == "free":
        # The snapshot would wait for the lock that the freeing thread holds for ever: take it just before.
        if args.snapshot:
            snapshot(args.snapshot)
        MODES[args.mode]()
    else:
        MODES[args.mode]()
        if args.snapshot:
            snapshot(args.snapshot)
    time.sleep(0.5)
    print("READY", *CHILDREN, flush=True)
    if args.mode == "gil":
        hold_the_gil()
    for line in sys.stdin:
        if line.startswith("contexts"):
            print(active_contexts(), flush=True)
        elif line.startswith("frames"):
            print(frames(), flush=True)
        elif line.startswith("keep "):
            print(keep(int(line.split()[1])), flush=True)
        elif line.startswith("check"):
            print("ok" if compute(args.mode in DEVICE_IS_FREE and args.mode != "oom") else "wrong", flush=True)


if __name__ == "__main__":
    main()
