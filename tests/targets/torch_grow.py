#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A job that leaks at one place, and at others does not: a saw-tooth, a buffer made once, memory made anew in each step.

It prints "READY pid=PID", and obeys lines on its standard input: "step N", "once", "free", "snapshot FILE", "record
on|off", "quit". With --raw, each step also leaks memory of the driver that is not PyTorch's.
"""
import argparse
import ctypes
import json
import os
import sys

import torch

DEVICE = "cuda"
LEAK = 70000
TOOTH = 300000
RAW = 2 << 20
KEPT, TEETH, STEP, ONCE = [], [], [], []
RAW_TOO, STEADY = "--raw" in sys.argv, "--steady" in sys.argv


def leak():
    KEPT.append(torch.empty(LEAK, dtype=torch.uint8, device=DEVICE))


def saw_tooth():
    if len(TEETH) == 7:
        TEETH.clear()
    TEETH.append(torch.empty(TOOTH, dtype=torch.uint8, device=DEVICE))


def anew():
    STEP.clear()
    for _ in range(10):
        STEP.append(torch.empty(5000, dtype=torch.uint8, device=DEVICE))


def once():
    ONCE.append(torch.empty(9000000, dtype=torch.uint8, device=DEVICE))


def raw():
    """A leak outside PyTorch, and what is freed at once."""
    driver, pointer = ctypes.CDLL("libcuda.so.1"), ctypes.c_uint64()
    for free in (False, True):
        assert not driver.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(RAW))
        if free:
            assert not driver.cuMemFree_v2(pointer)


def step():
    if RAW_TOO:
        raw()
    if STEADY:
        anew()
        return
    leak()
    saw_tooth()
    anew()


def record(on):
    torch.cuda.memory._record_memory_history(*([] if on else [None]), **({"context": "all", "stacks": "python"} if on else {}))


def snapshot(path):
    with open(path + ".tmp", "w", encoding="utf-8") as file:
        json.dump({"segments": torch.cuda.memory._snapshot()["segments"]}, file)
    os.rename(path + ".tmp", path)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--raw", action="store_true", help="leak memory of the driver, too")
    parser.add_argument("--steady", action="store_true", help="PyTorch's memory does not grow")
    args = parser.parse_args()
    torch.cuda.init()
    early = [torch.empty(123456, dtype=torch.uint8, device=DEVICE) for _ in range(3)]
    record(args.record)
    step()
    print(f"READY pid={os.getpid()}", flush=True)
    for line in sys.stdin:
        command, *rest = line.split()
        if command == "step":
            for _ in range(int(rest[0])):
                step()
        elif command == "once":
            once()
        elif command == "record":
            record(rest[0] == "on")
        elif command == "snapshot":
            snapshot(rest[0])
        elif command == "free":
            early.clear()
        elif command == "quit":
            break
        print("ok", flush=True)


if __name__ == "__main__":
    main()
    os._exit(0)
