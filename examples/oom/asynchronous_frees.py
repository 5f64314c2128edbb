# SPDX-License-Identifier: Apache-2.0
"""Frees that have not happened yet: tensors that were given to another stream (record_stream) and deleted stay until that stream
has come to the end of what it had to do at that time. It is far behind.

Remedy: wait for the other stream now and then (torch.cuda.current_stream().wait_stream(side)) and delete afterwards, without
record_stream(): then the block is free at once for the stream that it is of.
"""
import torch
from scene import MIB, REMEDY, allocated, done, fits, limit, start, wait

SIZE = 32 * MIB


def use(side):
    for _ in range(12):
        batch = torch.empty(SIZE, dtype=torch.uint8, device="cuda")
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            batch[:MIB].add_(1)
        if REMEDY:
            torch.cuda.current_stream().wait_stream(side)
        else:
            batch.record_stream(side)
        del batch


def main():
    start()
    side = torch.cuda.Stream()
    limit(8 * SIZE)
    with torch.cuda.stream(side):
        torch.cuda._sleep(1 << 30 if REMEDY else 1 << 62)  # much work
    finished = fits(use, side)
    if REMEDY:
        done(finished)
    wait(awaiting=torch.cuda.memory_stats()["active_bytes.all.current"] - allocated(), blocks=8)


if __name__ == "__main__":
    main()
