# SPDX-License-Identifier: Apache-2.0
"""A PyTorch program whose variables hold known memory. It says "ready"; then answers each line, an expression that it deletes, with the
bytes of the allocator that this freed, and "collect" with what a collection frees. Each is tried in a child of its own, where
nothing of CUDA is called: freeing a block is the allocator's own bookkeeping. "names" answers the names of variables that hold memory."""
import gc
import os
import sys

import torch
from torch import nn

gc.disable()
MIB = 1 << 18  # elements


def big(mib=1):
    return torch.zeros(mib * MIB, device="cuda")


# What one variable holds alone.
alone = big(3)
in_list = [big() for _ in range(7)]
in_dict = {i: big() for i in range(5)}
nested = {"left": [big() for _ in range(4)], "right": [big() for _ in range(6)]}
view_of_much = big(4)[:10]


# What several hold: none of these frees it.
one_name = another_name = big(5)
one_view = big(5)
another_view = one_view.view(2, -1)
in_two_lists = [[big(2)]]
in_two_lists.append(in_two_lists[0])
both_hold = big(2)
also_holds = {"x": both_hold, "own": big(2)}


def close_over():
    kept = big(3)
    return lambda: kept


closure = close_over()


def generate():
    kept = big(2)
    yield kept


generator = generate()
next(generator)


class Holder:
    pass


holder = Holder()
holder.kept = big(2)
holder.more = [big() for _ in range(5)]


def fail():
    lost = big(6)
    raise ValueError(lost.shape)


try:
    fail()
except ValueError as failure:
    sys.last_value = failure


def make_garbage():
    cycle = Holder()
    cycle.me, cycle.kept = cycle, big(4)


make_garbage()

# Training: what is saved for the losses is also in the list of a hook, in part.
model = nn.Sequential(nn.Linear(512, 512), nn.GELU(), nn.Linear(512, 512)).cuda()
optimizer = torch.optim.AdamW(model.parameters())
hooked = []
model[1].register_forward_hook(lambda module, args, out: hooked.append(out))
losses = [model(torch.ones(512, 512, device="cuda")).square().mean() for _ in range(4)]
losses[0].backward(retain_graph=True)
optimizer.step()
outputs = [model[0](torch.ones(512, 512, device="cuda")).detach() for _ in range(4)]

NAMES = ("alone", "in_list", "in_dict", "nested", "nested['left']", "nested['right']", "view_of_much", "one_name", "another_name",
         "one_view", "another_view", "in_two_lists", "both_hold", "also_holds", "closure", "generator", "holder", "holder.kept",
         "holder.more", "sys.last_value", "model", "optimizer", "hooked", "losses", "outputs")


def in_use():
    return torch._C._cuda_memoryStats(0)["allocated_bytes"]["all"]["current"]  # noqa: SLF001


def freed_by(text):
    before = in_use()
    if text == "collect":
        gc.collect()
    else:
        exec("del " + text, globals())  # noqa: S102
    return before - in_use()


print("ready", flush=True)
for line in sys.stdin:
    text = line.strip()
    if text == "names":
        print(repr(NAMES), flush=True)
        continue
    child = os.fork()
    if not child:
        print(freed_by(text), flush=True)
        os._exit(0)
    os.waitpid(child, 0)
