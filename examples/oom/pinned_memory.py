# SPDX-License-Identifier: Apache-2.0
"""Pinned memory of the host: PyTorch rounds each buffer up to a power of two, caches it, and gives nothing back to the host.

Each batch is a little larger than the last, so none of the cached buffers is of use again.

Remedy: one buffer of the largest size, which each batch uses a part of.
"""
import torch
from scene import MIB, REMEDY, done, start, wait

SIZES = [(65 << k) * MIB for k in range(4)]  # each of them a little more than a power of two
LARGEST = SIZES[-1]


def send(size, buffer):
    batch = buffer[:size] if REMEDY else torch.empty(size, dtype=torch.uint8).pin_memory()
    return batch[:MIB].to("cuda", non_blocking=True)


def rounded(size):
    return 1 << (size - 1).bit_length()


def main():
    start()
    buffer = torch.empty(LARGEST, dtype=torch.uint8).pin_memory() if REMEDY else None
    for size in SIZES:
        send(size, buffer)
    torch.cuda.synchronize()
    torch.empty(8, dtype=torch.uint8).pin_memory()  # PyTorch looks now what the device has done
    if REMEDY:
        done(rounded(LARGEST) < 2 * LARGEST, pinned=rounded(LARGEST), needed=LARGEST)
    wait(pinned=8 + sum(rounded(size) for size in SIZES), needed=LARGEST)


if __name__ == "__main__":
    main()
