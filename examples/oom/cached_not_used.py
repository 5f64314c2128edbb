# SPDX-License-Identifier: Apache-2.0
"""Cached against allocated: PyTorch had a peak, uses little now, and keeps the rest. It would use that again itself, but to all
others, such as a library in the same process, the device is full.

Remedy: torch.cuda.empty_cache() after the peak, before the others come.
"""
import ctypes

import torch
from scene import REMEDY, done, empty, room, start, wait


def others_allocate(size):
    """As a library that does not use PyTorch's allocator."""
    driver, address = ctypes.CDLL("libcuda.so.1"), ctypes.c_uint64()
    return driver.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(size)) == 0


def main():
    start()
    size = room()
    model = empty(size * 0.05)
    peak = [empty(size * 0.1) for _ in range(8)]  # a validation with everything at once
    del peak
    if REMEDY:
        torch.cuda.empty_cache()
    request = size // 2
    served = others_allocate(request)
    if REMEDY:
        done(served, request=request)
    wait(request=request, served=served, used=model.numel())


if __name__ == "__main__":
    main()
