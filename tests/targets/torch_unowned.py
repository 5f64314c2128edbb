# SPDX-License-Identifier: Apache-2.0
"""A PyTorch program with memory that no variable holds, and some that has a name of its own. Says "ready", and what it knows as JSON."""
import ctypes
import gc
import json
import os

import torch
from torch import nn

gc.disable()
known = {}


def big(name, n):
    tensor = torch.zeros(n, device="cuda")
    known[name] = [tensor.untyped_storage().data_ptr(), tensor.untyped_storage().nbytes()]
    return tensor


def leak(n):
    """Code in C++ that forgets a reference does the same."""
    tensor = big("leaked", n)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(tensor))


leak(300000)
known["raw"] = [torch.cuda.caching_allocator_alloc(1 << 20), 1 << 20]  # no tensor knows of it
losses = [big(f"losses[{i}]", 50000 + 1000 * i) for i in range(3)]
tied = big("tied", 70000)
box = {"a": tied, "b": [tied, tied]}
model = nn.Sequential(*(nn.Sequential(nn.Linear(200, 200), nn.ReLU(), nn.Linear(200, 200)) for _ in range(12))).cuda()
model.head = nn.Linear(300, 300).cuda()
optimizer = torch.optim.AdamW(model.parameters())
for parameter in model.parameters():
    parameter.grad = torch.ones_like(parameter)
del parameter
optimizer.step()
known["step"] = [next(iter(optimizer.state.values()))["exp_avg"].data_ptr(), 0]


def serve():
    inside = big("inside", 90000)
    print("ready", flush=True)
    for line in iter(os.sys.stdin.readline, ""):
        with open(line.strip(), "w", encoding="utf-8") as file:
            json.dump(known, file)
        print("ok", flush=True)
    return inside


serve()
