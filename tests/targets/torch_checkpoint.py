# SPDX-License-Identifier: Apache-2.0
"""A model all of whose layers are computed anew in backward(): whatever a node of its graph saved is behind pack hooks, so nothing
else shows where a node has it. Tells what it knows as torch_owners.py does."""
import os
import sys

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import owners_planted as planted  # noqa: E402
from owners_planted import DEVICE, expect  # noqa: E402


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(64, 64)

    def forward(self, x):
        return x + torch.relu(self.inner(x))


layers = nn.ModuleList(Layer() for _ in range(300)).to(DEVICE)


def forward(x):
    for layer in layers:
        # Held by the checkpoint: by a closure (2.0), a node (2.1 to 2.11), or a SavedTensor (2.12 on).
        expect(x, "input of a checkpoint", "activation", r"(saved by _NoopSaveInputsBackward ← )?.+ kept by loss.*")
        x = checkpoint(layer, x, use_reentrant=False)
    return x.sum()


loss = forward(torch.zeros(512, 64, device=DEVICE))
planted.serve(lambda: planted.list_module(layers, "layers"))
