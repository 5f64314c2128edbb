# SPDX-License-Identifier: Apache-2.0
"""A training program with a classic leak and a classic hang, for trying vramtap on.

It keeps the loss of every step in a list, and with it the whole graph; then its main thread waits for a queue that its
loader thread, which waits for a lock, never fills.
"""
import os
import queue
import threading

import torch

history = []
batches = queue.Queue()
lock = threading.Lock()


class Layer(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.empty(width, width, device="cuda"))
        self.bias = torch.nn.Parameter(torch.empty(width, device="cuda"))

    def forward(self, x):
        # Memory only: the simulated device computes nothing, so no kernel's result matters.
        return torch.empty(x.shape[0], self.weight.shape[1], device="cuda")


def load_batches():
    with lock:
        batches.put(torch.empty(64, 1024, device="cuda"))


def train_step(model, batch):
    x = batch
    activations = []
    for layer in model:
        x = layer(x)
        activations.append(x)
    history.append(activations)


def train(model):
    for _ in range(20):
        train_step(model, torch.empty(64, 1024, device="cuda"))
    train_step(model, batches.get())


def main():
    model = torch.nn.ModuleList(Layer(1024) for _ in range(6))
    state = {p: (torch.empty_like(p), torch.empty_like(p)) for p in model.parameters()}
    lock.acquire()
    threading.Thread(target=load_batches, name="loader", daemon=True).start()
    threading.Timer(0.2, lambda: print("READY", os.getpid(), flush=True)).start()
    train(model)
    return state


if __name__ == "__main__":
    main()
