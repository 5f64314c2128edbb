#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A job that leaks into a list of losses, a dict, a cache of keys and values that is made anew each time, an attribute of an object
whose other attribute comes and goes, and blocks without a tensor; and that trains, which does not grow. It says how many bytes of
PyTorch's allocator each of these has taken.

It prints "ready", and obeys lines on its standard input: "step N", "forget" (the dict), "rename" (it), "truth FILE", "quit". Its
arguments are the leaks that it has: losses, answers, past, history, raw."""
import json
import os
import sys

import torch

DEVICE = "cuda"


class Job:
    def __init__(self, leaks):
        self.leaks = leaks
        self.taken = dict.fromkeys(LEAKS, 0)
        self.model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 64)).to(DEVICE)
        self.optimizer = torch.optim.Adam(self.model.parameters())
        self.recent, self.history = [], []

    def train(self):
        self.optimizer.zero_grad()
        self.model(torch.ones(32, 64, device=DEVICE)).mean().backward()
        self.optimizer.step()
        self.recent.append(torch.empty(30000, dtype=torch.uint8, device=DEVICE))
        if len(self.recent) > 7:
            self.recent.clear()


renamed, raw = [], []
losses, answers, past = [], {}, [torch.empty(0, 64, device=DEVICE) for _ in range(4)]


def lose(job):
    losses.append(job.model(torch.ones(32, 64, device=DEVICE)).mean())


def answer(_):
    answers["prompt %d" % len(answers)] = torch.empty(70000, dtype=torch.uint8, device=DEVICE)


def attend(_):
    for i, keys in enumerate(past):
        past[i] = torch.cat([keys, torch.ones(16, 64, device=DEVICE)])


def remember(job):
    job.history.append(torch.empty(50000, dtype=torch.uint8, device=DEVICE))


def take(_):
    raw.append(torch.cuda.caching_allocator_alloc(90000))


LEAKS = {"losses": lose, "answers": answer, "past": attend, "history": remember, "raw": take}


def step(job):
    job.train()
    for name in job.leaks:
        before = torch.cuda.memory_allocated()
        LEAKS[name](job)
        job.taken[name] += torch.cuda.memory_allocated() - before


def tell(job, path):
    counts = {"losses": len(losses), "answers": len(answers), "past": len(past), "history": len(job.history), "raw": len(raw)}
    with open(path + ".tmp", "w", encoding="utf-8") as file:
        json.dump({name: {"items": counts[name], "bytes": taken} for name, taken in job.taken.items()}, file)
    os.rename(path + ".tmp", path)


def main():
    job = Job(sys.argv[1:])
    for _ in range(3):
        step(job)
    print("ready", flush=True)
    for line in sys.stdin:
        command, *rest = line.split()
        if command == "step":
            for _ in range(int(rest[0])):
                step(job)
        elif command == "forget":
            answers.clear()
            job.taken["answers"] = 0
        elif command == "rename":
            renamed.extend(answers.values())
            answers.clear()
        elif command == "truth":
            tell(job, rest[0])
        else:
            break
        print("ok", flush=True)


main()
