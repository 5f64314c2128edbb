#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A training job that gets stuck in a chosen way, on a simulated or on a real device.

It builds a small network with AdamW, takes a few steps, keeps some tensors, prints one line

    READY pid=PID hang=MODE device=D

and then hangs: the main thread is at the end of main -> train -> hang_MODE. With --snapshot,
PyTorch's own view of its memory is written just before, to compare with.
"""
import argparse
import collections
import ctypes
import json
import os
import queue
import sys
import threading
import time

import torch

FOREVER = 1 << 30


class Net(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.embed = torch.nn.Embedding(1000, width)
        self.layers = torch.nn.ModuleList(torch.nn.Linear(width, width) for _ in range(3))
        self.norm = torch.nn.LayerNorm(width)
        self.head = torch.nn.Linear(width, 10)
        self.register_buffer("running", torch.zeros(width))

    def forward(self, tokens):
        x = self.embed(tokens)
        for layer in self.layers:
            x = torch.relu(layer(x))
        return self.head(self.norm(x))


class Trainer:
    """Holds what a report has to find again: parameters, gradients, optimizer state, activations."""

    def __init__(self, device, width, blocks):
        self.device = device
        self.model = Net(width).to(device)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3)
        self.activations = []
        self.kept = [torch.empty(512 + i % 7 * 100, dtype=torch.uint8, device=device)
                     for i in range(blocks)]
        self.by_name = {"mask": torch.zeros(64, 64, device=device),
                        "cache": collections.deque([torch.empty(1000, device=device)])}
        # Another view of a storage that is held above: no block of its own.
        self.alias = self.by_name["mask"][8:16]

    def step(self, batch):
        tokens = torch.zeros(batch, 16, dtype=torch.long, device=self.device)
        out = self.model(tokens)
        loss = out.float().sum()
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        self.activations.append(out.detach())
        return loss


# ---- ways to hang -------------------------------------------------------------------------------

def spin_device(device):
    """A kernel that takes years. It is what hangs a device: real, or simulated."""
    with torch.cuda.device(device):
        torch.cuda._sleep(1 << 62)


def hang_sleep(trainer):
    time.sleep(FOREVER)


def hang_sync(trainer):
    spin_device(trainer.device)
    torch.cuda.synchronize(trainer.device)


def hang_free(trainer):
    # A cached segment, so that there is something to give back.
    torch.empty(64 << 20, dtype=torch.uint8, device=trainer.device)
    spin_device(trainer.device)
    torch.cuda.empty_cache()


def hang_cudaevent(trainer):
    spin_device(trainer.device)
    event = torch.cuda.Event()
    with torch.cuda.device(trainer.device):
        event.record()
    event.synchronize()


def hang_item(trainer):
    spin_device(trainer.device)
    trainer.by_name["mask"].sum().item()


def hang_lock(trainer):
    lock = threading.Lock()

    def holder():
        with lock:
            time.sleep(FOREVER)

    threading.Thread(target=holder, name="lock-holder", daemon=True).start()
    while not lock.locked():
        time.sleep(0.001)
    lock.acquire()


def hang_gil(trainer):
    # PyDLL, unlike CDLL, keeps the GIL during the call.
    ctypes.PyDLL(None).sleep(FOREVER)


def hang_queue(trainer):
    queue.Queue().get()


def hang_event(trainer):
    threading.Event().wait()


def hang_oom(trainer):
    total = torch.cuda.get_device_properties(trainer.device).total_memory
    try:
        torch.empty(2 * total, dtype=torch.uint8, device=trainer.device)
    except torch.cuda.OutOfMemoryError as err:
        print("OOM " + str(err).split("\n", 1)[0], flush=True)
        caught = err  # its traceback keeps frames, and so tensors, alive
        time.sleep(FOREVER)
        del caught


def hang_spin(trainer):
    count = 0
    while True:
        count += 1


HANGS = {name[5:]: f for name, f in list(globals().items()) if name.startswith("hang_")}


# ---- the truth, to compare with -----------------------------------------------------------------

def hexed(value, key=""):
    """Addresses as hexadecimal strings, everywhere in a snapshot."""
    if isinstance(value, dict):
        return {str(k): hexed(v, k) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [hexed(v) for v in value]
    if key in ("address", "addr", "stream") and isinstance(value, int):
        return hex(value)
    return value


def write_snapshot(path):
    snapshot = torch.cuda.memory._snapshot()
    # Only these: a question about another device would give it a context.
    devices = sorted({s["device"] for s in snapshot["segments"]})
    data = hexed(snapshot)
    data["pid"] = os.getpid()
    data["torch"] = torch.__version__
    data["memory_stats"] = {d: torch.cuda.memory_stats(d) for d in devices}
    data["mem_get_info"] = {d: torch.cuda.mem_get_info(d) for d in devices}
    with open(path + ".tmp", "w") as f:
        f.write(json.dumps(data))
    os.rename(path + ".tmp", path)


# ---- extra threads ------------------------------------------------------------------------------

def worker_wait(go_on):
    go_on.wait()


def worker_sleep(go_on):
    while not go_on.is_set():
        time.sleep(0.05)


def heartbeat(library, path, number):
    ctypes.CDLL(library).heartbeat(path.encode(), number)


def start_threads(count, beats):
    """beats: arguments of heartbeat(), for threads that are spread evenly among the others, the first and the last included."""
    go_on = threading.Event()
    places = {round(i * (count - 1) / max(len(beats) - 1, 1)): args for i, args in enumerate(beats)}
    for i in range(count):
        target = worker_sleep if i % 4 == 0 else worker_wait
        if i in places:
            thread = threading.Thread(target=heartbeat, args=places[i], name=f"heartbeat-{i}", daemon=True)
        else:
            thread = threading.Thread(target=target, args=(go_on,), name=f"worker-{i}", daemon=True)
        thread.start()
    return go_on


def churn(device, usec):
    """Allocates and frees all the time, as a data loader that prefetches does."""
    kept = collections.deque(maxlen=32)
    size = 1
    while True:
        size = size * 1103515245 + 12345 & 0x7FFFFF
        kept.append(torch.empty(size + 1, dtype=torch.uint8, device=device))
        if usec:
            time.sleep(usec / 1e6)


# ---- main ---------------------------------------------------------------------------------------

def train(args):
    device = torch.device("cuda", args.device)
    trainer = Trainer(device, args.width, args.blocks)
    for _ in range(args.steps):
        loss = trainer.step(args.batch)
    beats = [(*args.heartbeat, i) for i in range(os.path.getsize(args.heartbeat[1]) >> 16)] if args.heartbeat else []
    threads = start_threads(args.threads, beats)
    if args.churn is not None:
        threading.Thread(target=churn, args=(device, args.churn), name="churn",
                         daemon=True).start()
    if args.snapshot:
        write_snapshot(args.snapshot)
    print(f"READY pid={os.getpid()} hang={args.hang} device={args.device}", flush=True)
    HANGS[args.hang](trainer)
    return threads, loss


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--hang", choices=sorted(HANGS), default="sleep")
    parser.add_argument("--device", type=int, default=0)
    parser.add_argument("--threads", type=int, default=0, help="extra idle threads")
    parser.add_argument("--heartbeat", nargs=2, metavar=("LIBRARY", "FILE"),
                        help="some of them tell when they could not run; FILE has 64 KiB for each (heartbeat.c)")
    parser.add_argument("--blocks", type=int, default=100, help="small tensors to keep")
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--churn", type=int, metavar="USEC",
                        help="a thread allocates and frees, sleeping USEC between")
    parser.add_argument("--snapshot", metavar="FILE", help="write PyTorch's own snapshot, as JSON")
    parser.add_argument("--history", action="store_true",
                        help="switch PyTorch's memory history on")
    args = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit("torch_train.py: no CUDA device")
    torch.cuda.set_device(args.device)
    if args.history:
        torch.cuda.memory._record_memory_history(max_entries=100000, stacks="python")
    train(args)


if __name__ == "__main__":
    main()
