# SPDX-License-Identifier: Apache-2.0
"""A training loop with leaks. A line of standard input says what to let go of: the name of a global variable, "sys.last_value",
or "gc.collect()". The answer is how many bytes PyTorch's allocator has less in use then."""
import gc
import sys

import torch
from torch import nn

DEVICE = "cuda"
N = 256


class Node:
    pass


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(N, 4 * N), nn.GELU(), nn.Linear(4 * N, N)) for _ in range(4))
        self.head = nn.Linear(N, N)

    def forward(self, x):
        for block in self.blocks:
            x = x + block(x)
        return self.head(x)


gc.disable()
data = torch.randn(8, 64, N, device=DEVICE)
model = Model().to(DEVICE)
optimizer = torch.optim.AdamW(model.parameters())
losses, outputs, shared = [], [], []
model.blocks[2].register_forward_hook(lambda module, args, out: outputs.append(out))


def fail():
    big = torch.zeros(17 << 18, device=DEVICE)
    raise ValueError(big.shape)


def make_garbage():
    node = Node()
    node.me = node
    node.tensor = torch.zeros(18 << 18, device=DEVICE)


def bytes_of(name):
    before = torch.cuda.memory_allocated()
    if name == "gc.collect()":
        gc.collect()
    elif name == "sys.last_value":
        sys.last_value = None
    else:
        del globals()[name]
    return before - torch.cuda.memory_allocated()


def train_step(number):
    batch = data[number:number + 1].repeat(16, 1, 1)
    loss = (model(batch) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append((model(batch) ** 2).mean())
    if number == 4:
        shared.extend(losses)  # so that neither list alone keeps anything
    if number < 7:
        return
    late = model(batch)
    print("ready", flush=True)
    for line in sys.stdin:
        print(bytes_of(line.strip()), flush=True)
    del late


make_garbage()
try:
    fail()
except ValueError as err:
    sys.last_value = err
for i in range(8):
    train_step(i)
