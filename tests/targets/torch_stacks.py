#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Threads that stand still deep inside PyTorch: in backward passes on a CPU and on a device, in the dispatcher, in hooks, in a
writer of files. Prints "ready" when all are in their places."""
import io
import threading
import time

import torch

in_place = threading.Semaphore(0)


def stand_still():
    in_place.release()
    time.sleep(600)


class Sleeps(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        stand_still()
        return grad


class Dispatches(torch.Tensor):
    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        stand_still()


class Writes(io.RawIOBase):
    def writable(self):
        return True

    def write(self, data):
        stand_still()


def backward_on_device():
    x = torch.ones(8, device="cuda", requires_grad=True)
    Sleeps.apply(x).sum().backward()


def backward_on_cpu():
    x = torch.ones(8, requires_grad=True)
    Sleeps.apply(x * 2).sum().backward()


def in_dispatcher():
    torch.nn.functional.layer_norm(torch.Tensor._make_subclass(Dispatches, torch.ones(3)), (3,))


def in_hook():
    x = torch.ones(4, requires_grad=True)
    y = x * 3
    y.register_hook(lambda grad: stand_still())
    torch.autograd.grad(y.sum(), x)


def in_writer():
    torch.save({"a": torch.ones(10)}, Writes())


def after_parallel_work():
    torch.set_num_threads(4)
    torch.ones(1 << 20).exp().sum()
    stand_still()


def main():
    entries = (backward_on_device, backward_on_cpu, in_dispatcher, in_hook, in_writer, after_parallel_work)
    for entry in entries:
        threading.Thread(target=entry, daemon=True, name=entry.__name__).start()
    for _ in entries:
        in_place.acquire()
    print("ready", flush=True)
    time.sleep(600)


if __name__ == "__main__":
    main()
