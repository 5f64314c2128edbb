#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Memory of all kinds for the pages' pictures: categories, streams, pools, holes, sites. READY, then "more" on a line: more of it, "ok"."""
import sys

import torch


class Block(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.attention = torch.nn.Linear(width, 3 * width)
        self.out = torch.nn.Linear(width, width)
        self.norm = torch.nn.LayerNorm(width)

    def forward(self, x):
        return x + self.out(torch.relu(self.attention(self.norm(x)))[..., :x.shape[-1]])


class Net(torch.nn.Module):
    def __init__(self, width, layers):
        super().__init__()
        self.embed = torch.nn.Embedding(4000, width)
        self.blocks = torch.nn.ModuleList(Block(width) for _ in range(layers))
        self.head = torch.nn.Linear(width, 100)

    def forward(self, tokens):
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


class Trainer:
    def __init__(self, width, layers):
        self.model = Net(width, layers).cuda()
        self.optimizer = torch.optim.AdamW(self.model.parameters())
        self.losses, self.cache = [], {}

    def step(self, number):
        tokens = torch.zeros(4, 32, dtype=torch.long, device="cuda")
        self.model(tokens).sum().backward()
        self.optimizer.step()
        self.losses.append(self.model(tokens).sum())  # a leak: with the graph
        self.cache[f"step {number}"] = torch.empty(50000 + 7001 * number, dtype=torch.uint8, device="cuda")


def fragment(count, size):
    """Every third goes: holes."""
    kept = [torch.empty(size + 512 * (i % 5), dtype=torch.uint8, device="cuda") for i in range(count)]
    del kept[::3]
    return kept


def main():
    trainer = Trainer(width=256, layers=6)
    trainer.step(0)
    small, large = fragment(300, 3000), fragment(9, 3 << 20)
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        copies = [torch.empty(1 << 18, device="cuda") for _ in range(5)]
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        pooled = torch.empty(1 << 20, device="cuda")
    print("READY", flush=True)
    for number, _ in enumerate(sys.stdin, 1):
        trainer.step(number)
        small += fragment(30, 5000)
        print("ok", flush=True)
    return trainer, small, large, copies, pooled


if __name__ == "__main__":
    main()
