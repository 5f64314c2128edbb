# SPDX-License-Identifier: Apache-2.0
"""Dangling tensors in garbage: objects that refer to each other are not freed when the last variable goes, but when Python's
collector comes. Here it is off, "for speed".

Remedy: gc.collect() now and then, or no cycles (weakref).
"""
import gc

import torch
from scene import MIB, REMEDY, allocated, done, start, wait


class Request:
    def __init__(self):
        self.batch = torch.zeros(24 * MIB, dtype=torch.uint8, device="cuda")
        self.finish = self.give_back  # a bound method refers to its object

    def give_back(self):
        self.batch = None


def main():
    start()
    gc.disable()
    begin = allocated()
    for step in range(8):
        Request()
        if REMEDY and step % 4 == 3:
            gc.collect()
    held = allocated() - begin
    if REMEDY:
        done(held == 0, held=held)
    wait(held=held)


if __name__ == "__main__":
    main()
