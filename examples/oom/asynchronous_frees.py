# SPDX-License-Identifier: Apache-2.0
"""Frees that have not happened yet: tensors that were given to another stream (record_stream) and deleted stay until that stream
has come to the end of what it had to do at that time. It is far behind.

Remedy: wait for the other stream now and then (torch.cuda.current_stream().wait_stream(side)) and delete afterwards, without
record_stream(): then the block is free at once for the stream that it is of.
"""
import torch
from scene import MIB, REMEDY, allocated, done, room, start, wait

BATCHES = 12


def use(side, size):
    for _ in range(BATCHES):
        batch = torch.empty(size, dtype=torch.uint8, device="cuda")
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
    size = int(room() * 0.99 / BATCHES) // (2 * MIB) * 2 * MIB
    begin = torch.cuda.memory_reserved()
    with torch.cuda.stream(side):
        torch.cuda._sleep(1 << 30 if REMEDY else 1 << 62)  # much work
    use(side, size)
    if REMEDY:
        done(torch.cuda.memory_reserved() - begin <= 2 * size)
    # A request for more would not fail, but wait until the other stream is done.
    wait(awaiting=torch.cuda.memory_stats()["active_bytes.all.current"] - allocated(), blocks=BATCHES)


if __name__ == "__main__":
    main()
