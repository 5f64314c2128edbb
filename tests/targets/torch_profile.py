#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A program for the tests of profiles: modules in modules, a list, an optimizer's state, names that are hostile, memory that is cached, and
memory of the driver that is not PyTorch's. With --record, recording begins when a part of this is there already; with
--native it has native frames, too. With --blocks=N it has N tensors more, each with a name of its own.

It prints "READY pid=PID" and waits."""
import ctypes
import os
import sys
import time

import torch

DEVICE = "cuda"
HOSTILE = ("a;b", "two\nlines\r", "\x1b]0;title\x07\x1b[31m", "</script><script>alert(1)</script>", "\u202etxt.exe", "\ud800 no UTF-8", "x" * 10000,
           "ключ 鍵", "a] owner:[b", "")


class Mlp(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = torch.nn.Linear(64, 256), torch.nn.Linear(256, 64)

    def forward(self, x):
        return self.down(self.up(x).relu())


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(Mlp() for _ in range(3))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


def raw(size):
    driver, pointer = ctypes.CDLL("libcuda.so.1"), ctypes.c_uint64()
    assert not driver.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(size))


def train(net, optimizer):
    optimizer.zero_grad()
    net(torch.ones(32, 64, device=DEVICE)).mean().backward()
    optimizer.step()


def main():
    count = next((int(a.partition("=")[2]) for a in sys.argv if a.startswith("--blocks=")), 0)
    net = Net().to(DEVICE)
    raw(3 << 20)
    if "--record" in sys.argv:
        torch.cuda.memory._record_memory_history(context="all", stacks="all" if "--native" in sys.argv else "python")
    optimizer = torch.optim.Adam(net.parameters())
    train(net, optimizer)
    losses = [net(torch.ones(32, 64, device=DEVICE)).mean() for _ in range(5)]
    keys = {key: torch.empty(1000 * (i + 1), dtype=torch.uint8, device=DEVICE) for i, key in enumerate(HOSTILE)}
    many = [torch.empty(8, device=DEVICE) for _ in range(count)]
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        beside = torch.empty(5 << 20, dtype=torch.uint8, device=DEVICE)
    torch.empty(9 << 20, dtype=torch.uint8, device=DEVICE)
    print(f"READY pid={os.getpid()}", flush=True)
    time.sleep(600)
    return losses, keys, many, beside


main()
