# SPDX-License-Identifier: Apache-2.0
"""A training program whose device has come to a kernel that does not end, for trying vramtap's gdb commands on.

It has PyTorch record where it allocates, as many jobs do, so that each block is known by the line that asked for it. Its
main thread waits for the device; its loader thread has loaded ahead and waits until batches are wanted again.
"""
import os
import queue
import threading

import torch

batches = queue.Queue()
loaded = threading.Event()
wanted = threading.Event()


def load_batches():
    while True:
        for _ in range(3):
            batches.put(torch.empty(64, 1024, device="cuda"))
        loaded.set()
        wanted.wait()
        wanted.clear()


def train_step(layers, batch, losses):
    x = batch
    for weight in layers:
        x = torch.empty(x.shape[0], weight.shape[1], device="cuda")
    losses.append(x)
    # A kernel that waits for what never comes, as when another rank has died.
    torch.cuda._sleep(1 << 62)
    torch.cuda.synchronize()


def main():
    torch.cuda.memory._record_memory_history(stacks="python")
    layers = [torch.empty(1024, 1024, device="cuda") for _ in range(8)]
    validation = torch.empty(24, 1 << 20, device="cuda")
    del validation
    threading.Thread(target=load_batches, name="loader", daemon=True).start()
    loaded.wait()
    threading.Timer(0.5, lambda: print("READY", os.getpid(), flush=True)).start()
    train_step(layers, batches.get(), [])


if __name__ == "__main__":
    main()
