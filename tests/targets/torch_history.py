#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A job that has PyTorch record how its memory is allocated, by all kinds of Python code, on a simulated or on a real device.

It prints "READY pid=PID" and then obeys lines on its standard input: "snapshot FILE" writes PyTorch's own view of its memory,
"churn" starts threads that allocate and free all the time, "quit" ends it.
"""
import argparse
import contextlib
import functools
import json
import os
import sys
import threading
import time

import torch

DEVICE = "cuda"
KEPT = []


def keep(tensor):
    KEPT.append(tensor)
    return tensor


def by_function(n):
    return keep(torch.empty(n, dtype=torch.uint8, device=DEVICE))


def by_recursion(depth, n):
    return by_recursion(depth - 1, n) if depth else by_function(n)


def generate(count, n):
    for i in range(count):
        yield torch.empty(n + i, dtype=torch.uint8, device=DEVICE)


def by_generator():
    for tensor in generate(5, 3000):
        keep(tensor)
    KEPT.extend(generate(3, 4000))


def by_comprehension():
    KEPT.extend([torch.zeros(i + 100, device=DEVICE) for i in range(4)])
    KEPT.extend({i: torch.ones(i + 200, device=DEVICE) for i in range(2)}.values())


def counted(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        return function(*args, **kwargs)
    return wrapper


class Holder:
    def __init__(self, n):
        self.tensor = torch.empty(n, dtype=torch.uint8, device=DEVICE)

    @property
    def made(self):
        return torch.empty_like(self.tensor)

    @counted
    def method(self):
        return (lambda: torch.empty_strided((10, 20), (20, 1), device=DEVICE))()

    def __add__(self, other):
        return self.tensor + other.tensor


def by_class():
    a, b = Holder(700), Holder(700)
    keep(a.tensor)
    keep(b.tensor)
    keep(a.made)
    keep(a.method())
    keep(a + b)


def by_exec():
    exec("keep(torch.empty(1234, dtype=torch.uint8, device=DEVICE))", globals())


def by_callback():
    """Python called by C, called by Python."""
    KEPT.extend(sorted([by_function(810), by_function(820)], key=lambda t: keep(t.clone()).numel()))
    KEPT.extend(map(torch.clone, [by_function(830)]))
    with contextlib.ExitStack() as stack:
        stack.callback(by_function, 840)


def views():
    base = by_function(100000)
    KEPT.extend([base[10:20], base.view(-1, 10), base.reshape(10, -1).t()])


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, gradient):
        x, = ctx.saved_tensors
        return keep(gradient * x * 2)


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(*[torch.nn.Linear(64, 64) for _ in range(3)])

    def forward(self, x):
        for layer in self.layers:
            x = keep(torch.relu(layer(x)))
        return Square.apply(x)


def train():
    net = keep(Net().to(DEVICE))
    optimizer = torch.optim.AdamW(net.parameters())
    net(torch.zeros(8, 64, device=DEVICE)).sum().backward()
    optimizer.step()
    KEPT.append(optimizer)


def in_thread():
    thread = threading.Thread(target=by_recursion, args=(3, 5000))
    thread.start()
    thread.join()


# What each allocates, so that a backtrace can be checked by the size of its block.
def churn_of(n):
    def churn():
        kept = []
        while True:
            kept.append(torch.empty(n, dtype=torch.uint8, device=DEVICE))
            if len(kept) > 50:
                kept.clear()
    churn.__qualname__ = churn.__name__ = f"churn_{n}"
    return churn


def one(n):
    return torch.empty(n, dtype=torch.uint8, device=DEVICE)


def two(n):
    return torch.empty(n, dtype=torch.uint8, device=DEVICE)


def churn_in_turn():
    """The same memory, for the context too, in turn: 1001 bytes by one() and 1002 by two(), which are rounded up alike."""
    while True:
        tensor = one(1001)
        del tensor
        tensor = two(1002)
        del tensor


def snapshot(path):
    data = torch.cuda.memory._snapshot()
    with open(path + ".tmp", "w", encoding="utf-8") as file:
        json.dump({"segments": data["segments"]}, file)
    os.rename(path + ".tmp", path)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--stacks", choices=("python", "all"), default="python")
    parser.add_argument("--blocks", type=int, default=0, help="live blocks, all by one place through 20 ways")
    args = parser.parse_args()
    torch.cuda.init()
    early = [by_function(2222) for _ in range(3)]
    torch.cuda.memory._record_memory_history(context="all", stacks=args.stacks, max_entries=1000)
    by_function(600)
    by_recursion(15, 900)
    by_generator()
    by_comprehension()
    by_class()
    by_exec()
    by_callback()
    views()
    train()
    in_thread()
    for i in range(args.blocks):
        by_recursion(i % 20, 512 + i % 7 * 100)
    torch.cuda.memory._record_memory_history(None)
    late = [by_function(3333) for _ in range(2)]
    print(f"READY pid={os.getpid()}", flush=True)
    for line in sys.stdin:
        command = line.split()
        if command[0] == "snapshot":
            snapshot(command[1])
        elif command[0] == "churn":
            torch.cuda.memory._record_memory_history(context="all", stacks=args.stacks, max_entries=1000)
            for function in (churn_of(1003), churn_of(5003), churn_of(70003), churn_in_turn):
                threading.Thread(target=function, daemon=True).start()
        elif command[0] == "quit":
            break
        print("ok", flush=True)
    return early, late


if __name__ == "__main__":
    main()
    os._exit(0)
