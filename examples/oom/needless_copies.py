# SPDX-License-Identifier: Apache-2.0
"""Needless copies: the best state so far, cloned on the device; and a second model in float() that only the evaluation uses.

Remedy: keep the state on the CPU, and evaluate under autocast instead of with a copy.
"""
import copy

import torch
from scene import MIB, REMEDY, allocated, done, fits, limit, start, wait

best_state = {}
evaluated = None


def note_best(model):
    for name, value in model.state_dict().items():
        best_state[name] = value.cpu() if REMEDY else value.clone()


def evaluate(model, batch):
    global evaluated
    with torch.no_grad(), torch.autocast("cuda", enabled=REMEDY):
        if REMEDY:
            return model(batch).mean()
        evaluated = copy.deepcopy(model).float().eval()
        return evaluated(batch.float()).mean()


def train(model, batch):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    model(batch).square().mean().backward()
    optimizer.step()


def main():
    start()
    begin = allocated()
    limit(256 * MIB)
    model = torch.nn.Sequential(*(torch.nn.Linear(2048, 2048) for _ in range(4))).cuda()
    size = allocated() - begin
    evaluate(model, torch.randn(64, 2048, device="cuda"))
    note_best(model)
    copies = allocated() - begin - size
    finished = fits(train, model, torch.randn(64, 2048, device="cuda"))
    if REMEDY:
        done(finished and copies < size, copies=copies, model=size)
    wait(copies=copies, model=size)


if __name__ == "__main__":
    main()
