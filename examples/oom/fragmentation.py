# SPDX-License-Identifier: Apache-2.0
"""Fragmentation: most of PyTorch's memory is cached and free, but in pieces that are all smaller than the request.

The first batch is the largest: one big block, which PyTorch keeps and splits up later. The next batches leave a small result
behind each piece of work space, so that the block can never be whole again, and can not be given back either.

Remedy: PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, which maps free pages together, wherever they are.
"""
import os
import sys

if "--remedy" in sys.argv[1:]:
    os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True"

from scene import REMEDY, done, empty, fits, room, start, wait  # noqa: E402


def small_batches(size):
    work, results = [], []
    for _ in range(40):
        work.append(empty(size // 50))
        results.append(empty(size // 500))
    return results  # work is free again: 40 holes, with a result between any two


def main():
    start()
    size = room()
    first = empty(size * 0.99)
    del first
    results = small_batches(size)
    request = size // 4
    served = fits(empty, request)
    if REMEDY:
        done(served, request=request)
    wait(request=request, holes=40, kept=sum(r.numel() for r in results))


if __name__ == "__main__":
    main()
