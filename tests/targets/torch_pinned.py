#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A process with pinned host memory, on a simulated or on a real device. Commands come on stdin, each is answered by one line:

    ok JSON     {"live": [[address, bytes asked for], ...], "stats": host_memory_stats() or null, ...}
"""
import ctypes
import json
import os
import random
import sys
import threading
import time

import torch

kept = {}
graphs = []


def pinned(size):
    return torch.empty(size, dtype=torch.uint8, pin_memory=True)


def keep(tensor):
    kept[tensor.data_ptr()] = tensor


def cmd_nothing():
    """Only the answer."""


def cmd_init():
    """CUDA is used, pinned memory is not."""
    torch.empty(1, device="cuda")


def cmd_empty(count, size):
    for _ in range(count):
        keep(pinned(size))


def cmd_random(seed, steps):
    rng = random.Random(seed)
    for _ in range(steps):
        if kept and rng.random() < 0.45:
            del kept[rng.choice(list(kept))]
        else:
            keep(pinned(1 << rng.randrange(4, 21) | rng.randrange(16)))


def cmd_pin(count, size):
    """Tensor.pin_memory()"""
    for _ in range(count):
        keep(torch.zeros(size, dtype=torch.uint8).pin_memory())


def cmd_drop(count):
    for key in list(kept)[:count]:
        del kept[key]


def cmd_drop_address(address):
    del kept[address]


def cmd_using(count, size):
    """Copies by a stream of blocks that stay in use."""
    for _ in range(count):
        tensor = pinned(size)
        tensor.to("cuda", non_blocking=True)
        keep(tensor)


def cmd_pending(count, size):
    """Copies that a stream has not begun: the blocks are freed, and wait for an event. The stream hangs from here on."""
    tensors = [pinned(size) for _ in range(count)]
    with torch.cuda.stream(torch.cuda.Stream()):
        torch.cuda._sleep(1 << 62)
        for tensor in tensors:
            tensor.to("cuda", non_blocking=True)


def cmd_loader(batches):
    """torch.utils.data.DataLoader(pin_memory=True)"""
    data = [torch.full((1000 + i,), 1.0) for i in range(batches)]
    for (tensor,) in torch.utils.data.DataLoader(data, batch_size=None, pin_memory=True, collate_fn=lambda x: [x]):
        keep(tensor)


def cmd_graph(size):
    """Pinned memory of a captured graph is in a private pool, since 2.11."""
    graph, device = torch.cuda.CUDAGraph(), torch.zeros(size, dtype=torch.uint8, device="cuda")
    with torch.cuda.graph(graph):
        tensor = pinned(size)
        device.copy_(tensor, non_blocking=True)
    graphs.append((graph, device))
    keep(tensor)


def empty_cache():
    if hasattr(torch._C, "_host_emptyCache"):
        torch._C._host_emptyCache()
    else:  # PyTorch 2.1 has it in C++ only; without the GIL, as there
        ctypes.CDLL("libtorch_cuda.so")._ZN2at4cuda31CachingHostAllocator_emptyCacheEv()


def cmd_empty_cache():
    empty_cache()


def churn(size, usec):
    held = []
    while True:
        held.append(pinned(size * (1 + len(held) % 5)))
        if len(held) > 20:
            held.clear()
            if usec < 0:
                empty_cache()
        time.sleep(abs(usec) / 1e6)


def cmd_churn(size, usec):
    """From here on a thread allocates and frees; usec below 0: and gives the cache back."""
    threading.Thread(target=churn, args=(size, usec), daemon=True).start()


def cmd_fork():
    pid = os.fork()
    if pid == 0:
        time.sleep(1000)
    return {"child": pid}


def truth():
    stats = getattr(torch.cuda, "host_memory_stats", None)
    return {
        "pid": os.getpid(),
        "torch": torch.__version__,
        "live": [[key, tensor.numel() * tensor.element_size()] for key, tensor in kept.items()],
        "stats": dict(stats()) if stats and torch.cuda.is_initialized() else None,
    }


def main():
    print("READY", flush=True)
    for line in sys.stdin:
        name, *args = line.split()
        more = globals()["cmd_" + name](*map(int, args)) or {}
        print("ok", json.dumps({**truth(), **more}), flush=True)


if __name__ == "__main__":
    main()
