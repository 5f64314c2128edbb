#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""torch_gdb.py TRUTH [spin]: PyTorch, and Python stacks that say of themselves what they are.

Writes TRUTH (JSON): PyTorch's own snapshot, and by thread id the Python frames, innermost first, each with function, line and the text
of some local variables. Prints "READY". One byte on standard input is answered with the count of a thread that counts all the
time; with spin, the main thread runs on the processor in the innermost frame instead, and reads nothing.
"""
import json
import os
import sys
import threading
import time

import torch

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import torch_train  # noqa: E402

counted = [0]
in_place = threading.Semaphore(0)
gate = threading.Lock()
gate.acquire()


def count():
    while True:
        counted[0] += 1
        time.sleep(0.001)


def third(depth, melody):
    harmony = [depth, melody]
    if depth:
        return third(depth - 1, melody)
    in_place.release()
    gate.acquire()
    return harmony


def second(melody):
    number = 4711
    return third(number - 4708, melody + "a")


def worker():
    return second("oboe")


def frames_of(tid_of):
    truth = {}
    for ident, frame in sys._current_frames().items():
        frames = []
        while frame:
            values = {k: repr(v) for k, v in frame.f_locals.items() if isinstance(v, (int, str, list)) and len(repr(v)) < 50
                      and not k.startswith("__")} if frame.f_code.co_name != "<module>" else {}
            frames.append({"function": frame.f_code.co_name, "line": frame.f_lineno, "locals": values})
            frame = frame.f_back
        truth[tid_of[ident]] = frames
    return truth


def write_truth(path):
    torch_train.write_snapshot(path)
    with open(path, encoding="utf-8") as file:
        truth = json.load(file)
    truth["threads"] = frames_of({t.ident: t.native_id for t in threading.enumerate()})
    with open(path, "w", encoding="utf-8") as file:
        json.dump(truth, file)


def serve():
    """What main knows of its innermost frame is of a moment before: only the functions count there."""
    while sys.stdin.read(1):
        print("count", counted[0], flush=True)


def spin():
    turns = 0
    while True:
        turns += 1


def main():
    kept = [torch.empty(1000 * (i + 1), dtype=torch.uint8, device="cuda") for i in range(40)]
    large = torch.empty(9 << 20, dtype=torch.uint8, device="cuda")
    del kept[7], kept[11]
    for _ in range(2):
        threading.Thread(target=worker, daemon=True).start()
        in_place.acquire()
    threading.Thread(target=count, daemon=True).start()
    time.sleep(0.1)
    write_truth(sys.argv[1])
    print("READY", flush=True)
    (spin if sys.argv[2:] == ["spin"] else serve)()
    return kept, large


if __name__ == "__main__":
    main()
