# SPDX-License-Identifier: Apache-2.0
"""A PyTorch program that knows what each of its tensors is and what keeps it alive.

usage: torch_owners.py STATE [FILE]      after_loss, in_backward, after_step; gil_held: what is planted is in FILE

It plants tensors in every kind of holder, trains a small model, gets into the state, and says "ready". On a line of standard
input it writes what it knows as JSON to the file of that name: for each piece of memory its address, its size, the category
and patterns of which one must match the whole name. Parameters, gradients, states, and what graphs saved are only listed then,
since asking for them makes Python objects."""
import asyncio
import collections
import contextvars
import ctypes
import dataclasses
import functools
import gc
import json
import queue
import re
import sys
import threading
import time
import types
import typing
import weakref

import torch
from torch import nn
from torch.utils import checkpoint as checkpoints

DEVICE = "cuda"
STATE = sys.argv[1]
TRUTH = []
SKIPPED = []


def expect(tensor, case, category, *names):
    """Remembers the memory of a tensor; holds nothing of it."""
    storage = tensor.untyped_storage() if hasattr(tensor, "untyped_storage") else tensor.storage().untyped()
    TRUTH.append([storage.data_ptr(), storage.nbytes(), case, category, list(names)])
    return tensor


def fresh(n=1000):
    return torch.zeros(n, device=DEVICE)


def plant(case, category, *names):
    """A new tensor of a size of its own, so that no two cases are alike."""
    plant.n += 1
    return expect(fresh(1000 + 8 * plant.n), case, category, *names)


plant.n = 0
gc.disable()

# ---- variables, containers ----

variable = plant("variable", "python", r"variable")
in_list = [0, plant("list", "python", r"in_list\[1\]")]
in_dict = {"key": plant("dict", "python", r"in_dict\['key'\]")}
in_tuple = (plant("tuple", "python", r"in_tuple\[0\]"),)
nested = {"a": [{"b": (1, plant("nested", "python", r"nested\['a'\]\[0\]\['b'\]\[1\]"))}]}
in_set = {plant("set", "python", r"in_set\{…\}")}
by_tensor = {plant("dict key", "python", r"by_tensor.*"): 1}
ordered = collections.OrderedDict(one=plant("OrderedDict", "python", r"ordered\['one'\]"))
defaults = collections.defaultdict(list)
defaults["x"].append(plant("defaultdict", "python", r"defaults\['x'\]\[0\]"))
ring = collections.deque([0, plant("deque", "python", r"ring\[1\]")])
space = types.SimpleNamespace(inner=plant("SimpleNamespace", "python", r"space\.inner"))
Pair = collections.namedtuple("Pair", "left right")
pair = Pair(1, plant("namedtuple", "python", r"pair(\[1\]|\.right)"))
fifo = queue.Queue()
fifo.put(plant("queue.Queue", "python", r"fifo\.queue\[0\]"))
simple = queue.SimpleQueue()
simple.put(plant("SimpleQueue", "python", r"simple.*"))
chained = iter([plant("iterator", "python", r"chained.*"), 0])


@dataclasses.dataclass
class Plain:
    field: typing.Any


class Slotted:
    __slots__ = ("first", "second")


class WithProperty:
    shared = plant("class attribute", "python", r"WithProperty\.shared")

    def __init__(self, value):
        self._value = value

    @property
    def value(self):
        return self._value

    def method(self):
        return self._value


plain = Plain(plant("dataclass", "python", r"plain\.field"))
slotted = Slotted()
slotted.second = plant("slots", "python", r"slotted\.second")
with_property = WithProperty(plant("property", "python", r"with_property\._value"))
bound = WithProperty(plant("bound method", "python", r"bound\.__self__\._value")).method

# ---- functions ----


def with_default(value=plant("default argument", "python", r"with_default\.__defaults__\[0\]")):
    return value


def with_attribute():
    return with_attribute.kept


with_attribute.kept = plant("function attribute", "python", r"with_attribute\.kept")


def make_closure():
    captured = plant("closure", "python", r"captured of a closure, kept by closure.*")

    def inner():
        return captured

    return inner


closure = make_closure()
part = functools.partial(print, plant("partial", "python", r"part\.args\[0\]"))


@functools.lru_cache(maxsize=4)
def cached(number):
    return plant(f"lru_cache {number}", "python", r"cached.*")


cached(1)
cached(2)


def generate():
    suspended = plant("generator", "python", r"suspended in generate \(torch_owners\.py:\d+\), kept by generator")
    yield 1
    yield suspended


generator = generate()
next(generator)


async def wait_for_ever():
    awaiting = plant("coroutine", "python", r"awaiting in wait_for_ever \(torch_owners\.py:\d+\), kept by coroutine")
    await asyncio.sleep(0)
    return awaiting


coroutine = wait_for_ever()
coroutine.send(None)

# ---- threads ----

local = threading.local()
local.value = plant("threading.local", "python", r".*")
context = contextvars.ContextVar("context")
context.set(plant("contextvar", "python", r".*"))


def run_thread():
    in_thread = plant("another thread's local", "frame", r"in_thread in run_thread \(torch_owners\.py:\d+\)")
    started.set()
    threading.Event().wait()
    return in_thread


started = threading.Event()
threading.Thread(target=run_thread, daemon=True).start()
started.wait()

# ---- storages ----

view = plant("view of a deleted base", "python", r"view")[10:20]
shared_one = plant("shared storage", "python", r"shared_(one|two)")
shared_two = shared_one.view(2, -1)
if hasattr(torch.Tensor, "untyped_storage"):
    storage = plant("storage alone", "python", r"storage").untyped_storage()
else:
    SKIPPED.append("storage alone")
in_place = plant("in-place on a view", "python", r"in_place")
in_place[5:10].add_(1)


class Sub(torch.Tensor):
    pass


subclass = plant("tensor subclass", "python", r"subclass").as_subclass(Sub)
attributed = fresh()
attributed.extra = plant("attribute of a tensor", "python", r"attributed\.extra")
capsule = torch.utils.dlpack.to_dlpack(plant("dlpack", None, r".*"))

# ---- what must not count, garbage, exceptions ----

weakly = plant("weak reference", "python", r"weakly")
weak = weakref.ref(weakly)
weak_values = weakref.WeakValueDictionary(x=weakly)


class Node:
    pass


def make_cycles():
    one = Node()
    one.me = one
    one.held = plant("cycle", "garbage", r"garbage: Node\.held")
    two, three = [], []
    two.append(three)
    three.append(two)
    two.append(plant("cycle of lists", "garbage", r"garbage: .*"))


make_cycles()


def fail(case):
    lost = plant(case, "exception", r"lost in fail \(torch_owners\.py:\d+\), kept by .*")
    raise ValueError(lost.shape)


try:
    fail("exception in a variable")
except ValueError as err:
    kept_error = err
try:
    fail("sys.last_value")
except ValueError as err:
    sys.last_value = err

# ---- a model ----


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        if STATE != "after_step":  # where the graph is gone
            ctx.extra = plant("ctx attribute", None, r".*")
        return x * x

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 2 * x * grad


class Block(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.norm = nn.LayerNorm(n)
        self.mlp = nn.Sequential(nn.Linear(n, 2 * n), nn.GELU(), nn.Linear(2 * n, n))
        self.register_buffer("scale", torch.ones(n, n))

    def forward(self, x):
        return x + self.mlp(self.norm(x)) @ self.scale


class Model(nn.Module):
    def __init__(self, n, depth):
        super().__init__()
        self.first = nn.Linear(n, n)
        self.blocks = nn.ModuleList(Block(n) for _ in range(depth))
        self.last = nn.Linear(n, n, bias=False)
        self.last.weight = self.first.weight  # tied

    def forward(self, x):
        x = self.first(x)
        for number, block in enumerate(self.blocks):
            x = checkpoints.checkpoint(block, x, use_reentrant=True) if number == 1 else block(x)
        return Square.apply(self.last(x))


model = Model(32, 3).to(DEVICE)
average = {name: expect(p.detach().clone(), "EMA copy", "python", rf"average\['{re.escape(name)}'\]") for name, p in model.named_parameters()}
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
hooked = []
model.blocks[0].register_forward_hook(lambda module, args, out: hooked.append(out))
losses = []


def train_step(batch):
    out = model(batch)
    loss = (out ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.detach()


def names_of(path):
    """model.blocks.0.mlp.1.weight as a pattern: model.blocks[0].mlp[1].weight"""
    return re.escape(re.sub(r"\.(\d+)(?=\.|$)", r"[\1]", path))


def list_model():
    seen = set()
    for name, p in model.named_parameters():
        if p.data_ptr() in seen:
            continue
        seen.add(p.data_ptr())
        tied = r"|model\.last\.weight" if p is model.first.weight else ""
        expect(p.data, "parameter", "parameter", rf"model\.{names_of(name)}{tied}")
        if p.grad is not None:
            expect(p.grad, "gradient", "gradient", rf"model\.({names_of(name)}{tied.replace('model', '').replace(chr(92) + '.', '', 1)})\.grad")
        for key, value in optimizer.state.get(p, {}).items():
            if value.device.type == DEVICE:
                expect(value, "optimizer state", "optimizer",
                       rf"optimizer\.state\[model\.({names_of(name)}|last\.weight)\]\['{key}'\]")
    for name, buffer in model.named_buffers():
        expect(buffer, "buffer", "buffer", rf"model\.{names_of(name)}")


def list_graph(roots):
    """What the nodes that these tensors lead to saved, by a walk of our own."""
    known = {address for address, *_ in TRUTH}
    nodes, seen = [root.grad_fn for root in roots if root.grad_fn], set()
    while nodes:
        node = nodes.pop()
        if node in seen:
            continue
        seen.add(node)
        nodes += [following for following, _ in node.next_functions if following]
        for attribute in dir(node):
            if attribute.startswith("_raw_saved") or not attribute.startswith("_saved_"):
                continue
            try:
                value = getattr(node, attribute)
            except RuntimeError:
                continue  # freed
            if isinstance(value, torch.Tensor) and value.device.type == DEVICE and value.data_ptr() not in known:
                known.add(value.data_ptr())
                expect(value, "saved", "activation", r"saved by \w+ ← .*", r".*\.grad_fn.*")


def tell(path, roots=()):
    list_model()
    list_graph([*roots, *losses, *hooked])
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"truth": TRUTH, "skipped": SKIPPED}, file)


def answer(roots=()):
    print("ready", flush=True)
    for line in sys.stdin:
        tell(line.strip(), roots)
        print("ok", flush=True)
    sys.exit(0)


def stop_here(grad):
    in_hook = plant("local of a hook in backward", "frame", r"in_hook in stop_here \(torch_owners\.py:\d+\)")
    answer()
    return grad, in_hook


data = expect(torch.randn(16, 8, 32, device=DEVICE), "data set", None, r"data")


def main():
    batch = data[0]
    if STATE == "after_step":
        for i in range(2):
            train_step(data[i])
        hooked.clear()
        answer()
    loss = (model(batch) ** 2).mean()
    losses.append(loss)
    if STATE == "in_backward":
        loss.register_hook(stop_here)
        loss.backward()
    temporary = plant("local", "frame", r"temporary in main \(torch_owners\.py:\d+\)")
    if STATE == "gil_held":
        with open(sys.argv[2], "w", encoding="utf-8") as file:
            json.dump({"truth": TRUTH, "skipped": SKIPPED}, file)
        print("ready", flush=True)
        ctypes.PyDLL(None).sleep(10000)  # a PyDLL keeps the GIL
    answer([loss])
    del temporary


main()
