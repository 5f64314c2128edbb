#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A job that leaks at one place, and at others does not: a saw-tooth, a buffer made once, memory made anew in each step.

It prints "READY pid=PID", and obeys lines on its standard input: "step N", "once", "free", "snapshot FILE", "record
on|off", "quit".
"""
import argparse
import json
import os
import sys

import torch

DEVICE = "cuda"
LEAK = 70000
TOOTH = 300000
KEPT, TEETH, STEP, ONCE = [], [], [], []


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


def step():
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
