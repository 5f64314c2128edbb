#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A job that runs out of GPU memory when it is told to, catches that, and goes on; on a simulated or on a real device.

It prints "READY pid=PID" and then obeys lines on its standard input, each answered with one line of JSON:

    fill MIB BLOCKS    allocates so much, in so many blocks, on the line marked below
    holes MIB BLOCKS   the same, and every second block is freed
    splinter MIB KEPT N   N segments of so much are freed, but for so much of each
    drop               frees all of it
    fail MIB           asks for so much, on the line marked below; tells the exception's type and text, and how long that took
    die MIB            the same, and ends at once
    twice MIB          two threads do so at once
    fraction F         limits what PyTorch may use of the device
    sum N              computes with the CPU: a process that is well has time for it
    quit
"""
import json
import os
import sys
import threading
import time

import torch

MIB = 1 << 20
KEPT = []


def allocate(size):
    return torch.empty(size, dtype=torch.uint8, device="cuda")


def fill(mib, blocks):
    for _ in range(blocks):
        KEPT.append(allocate(mib * MIB // blocks))  # line: fill
    return {}


def holes(mib, blocks):
    fresh = [allocate(mib * MIB // blocks) for _ in range(blocks)]  # line: holes
    KEPT.extend(fresh[::2])
    del fresh
    return {}


def splinter(mib, kept, n):
    blocks = [allocate(mib * MIB) for _ in range(n)]
    fillers = []
    for _ in range(n):
        blocks.pop(0)
        KEPT.append(allocate(kept * MIB))
        fillers.append(allocate((mib - kept) * MIB))
    return {}


def drop():
    KEPT.clear()
    torch.cuda.empty_cache()
    return {}


def request(mib):
    return allocate(mib * MIB)  # line: fail


def fail(mib):
    start = time.monotonic()
    try:
        request(mib)
    except torch.OutOfMemoryError as error:
        return {"type": f"{type(error).__module__}.{type(error).__qualname__}", "text": str(error),
                "ms": (time.monotonic() - start) * 1000, "tid": threading.get_native_id()}
    return {"type": None}


def die(mib):
    try:
        request(mib)
    except torch.OutOfMemoryError:
        os._exit(3)


def twice(mib):
    results = []
    barrier = threading.Barrier(2)

    def run():
        barrier.wait()
        results.append(fail(mib))

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return {"results": results}


def fraction(value):
    torch.cuda.set_per_process_memory_fraction(value)
    return {}


def obey(words):
    commands = {
        "fill": lambda: fill(int(words[1]), int(words[2])),
        "holes": lambda: holes(int(words[1]), int(words[2])),
        "splinter": lambda: splinter(int(words[1]), int(words[2]), int(words[3])),
        "drop": drop,
        "fail": lambda: fail(int(words[1])),
        "die": lambda: die(int(words[1])),
        "twice": lambda: twice(int(words[1])),
        "fraction": lambda: fraction(float(words[1])),
        "sum": lambda: {"sum": sum(range(int(words[1])))},
    }
    return commands[words[0]]()


def main():
    allocate(512)
    print(f"READY pid={os.getpid()}", flush=True)
    for line in sys.stdin:
        words = line.split()
        if words[0] == "quit":
            break
        print(json.dumps(obey(words)), flush=True)


if __name__ == "__main__":
    main()
