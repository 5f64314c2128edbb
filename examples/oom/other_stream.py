# SPDX-License-Identifier: Apache-2.0
"""Another stream's cache: what was allocated on a stream is cached for that stream. The others can not use it.

A stream that prefetches had large batches once, and still uses a little of each segment: so nothing can be given back.

Remedy: allocate on the stream that uses the memory, and let the other one only copy into it.
"""
import torch
from scene import REMEDY, done, empty, fits, room, start, wait


def main():
    start()
    size = room()
    side = torch.cuda.Stream()
    with torch.cuda.stream(torch.cuda.current_stream() if REMEDY else side):
        first = empty(size * 0.8)
        del first
        small = empty(size * 0.01)
    request = size // 2
    served = fits(empty, request)
    if REMEDY:
        done(served, request=request)
    wait(request=request, used=small.numel(), stream=side.cuda_stream)


if __name__ == "__main__":
    main()
