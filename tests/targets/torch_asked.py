# SPDX-License-Identifier: Apache-2.0
"""A program that notices if code of its own runs, or if a reference to its objects is kept or lost, while something asks its
interpreter. Standard input: "arm" begins to notice, "tell" answers with what was noticed, as JSON in one line. The names of POKES
do what has to be noticed."""
import gc
import json
import os
import sys
import types
import warnings
import weakref

import torch
from torch import nn

RAN = []
ARMED = [False]
SIZE = 1000


def note(what):
    if ARMED[0]:
        RAN.append(what)


def audited(event, _args):
    note(f"audit event {event}")


def noticing(base, *methods):
    """A class with methods that are noticed, and do what those of the base class do."""
    def method(name):
        inherited = getattr(base, name, None)

        def noticed(self, *args, **kwargs):
            note(f"{base.__name__}.{name}")
            return inherited(self, *args, **kwargs) if inherited else None
        return noticed
    return {name: method(name) for name in methods}


ANY = ("__getattribute__", "__repr__", "__eq__", "__hash__", "__del__", "__str__", "__bool__")
CONTAINER = ("__len__", "__iter__", "__getitem__", "__contains__")


class Meta(type):
    def __instancecheck__(cls, instance):
        note("__instancecheck__")
        return type.__instancecheck__(cls, instance)

    def __subclasscheck__(cls, subclass):
        note("__subclasscheck__")
        return type.__subclasscheck__(cls, subclass)

    def __getattribute__(cls, name):
        note("attribute of a class")
        return type.__getattribute__(cls, name)


def has_class(self):
    note("__class__")
    return dict


def has_dict(self):
    note("__dict__")
    return {}


Object = Meta("Object", (), dict(noticing(object, *ANY[:4], "__del__"), __class__=property(has_class)))
Hidden = Meta("Hidden", (Object,), {"__dict__": property(has_dict)})
Dict = Meta("Dict", (dict,), noticing(dict, "__getattribute__", *CONTAINER, "keys", "items", "values"))
List = Meta("List", (list,), noticing(list, "__getattribute__", *CONTAINER))
Tuple = Meta("Tuple", (tuple,), noticing(tuple, "__getattribute__", *CONTAINER))


class Key(str):
    """Has the hash of a name that is looked for, so that a dictionary would compare it with that."""
    __slots__ = ()

    def __hash__(self):
        note("hash of a key")
        return hash(str(self)[1:])

    def __eq__(self, other):
        note("comparison of a key")
        return False


class Tensor(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, kinds, args=(), kwargs=None):
        note(f"__torch_function__ {func}")
        return super().__torch_function__(func, kinds, args, kwargs or {})

    def __getattribute__(self, name):
        note(f"attribute {name} of a tensor")
        return super().__getattribute__(name)


class Module(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(30, 40)
        self.register_buffer("scale", torch.zeros(SIZE))

    def __getattribute__(self, name):
        note(f"attribute {name} of a module")
        return super().__getattribute__(name)

    def __getattr__(self, name):
        note(f"missing attribute {name} of a module")
        return super().__getattr__(name)


class Optimizer(torch.optim.SGD):
    def __getattribute__(self, name):
        note(f"attribute {name} of an optimizer")
        return super().__getattribute__(name)


class Lazy(types.ModuleType):
    def __getattribute__(self, name):
        note(f"attribute {name} of an imported module")
        return super().__getattribute__(name)


def new(cls=None):
    new.n += 8
    tensor = torch.zeros(SIZE + new.n, device="cuda")
    return tensor if cls is None else tensor.as_subclass(cls)


new.n = 0
gc.disable()
sys.addaudithook(audited)
warnings.simplefilter("always")
warnings.showwarning = lambda *args, **kwargs: note(f"warning {args[0]}")

plain = new()
subclassed = new(Tensor)
in_object, in_hidden = Object(), Hidden()
object.__setattr__(in_object, "kept", new())
object.__setattr__(in_hidden, "kept", new())
in_dict = Dict(key=new())
in_dict[Key("xsomething")] = 1
in_list, in_tuple, in_set = List([1, new()]), Tuple((1, new())), {new()}
by_key = {Key("xkey"): new(), 3: new(), (1, 2): new()}
model = Module().to("cuda")
optimizer = Optimizer(model.parameters(), lr=0.1, momentum=0.9)
model.linear(torch.zeros(2, 30, device="cuda")).sum().backward()
optimizer.step()
leaf = new().requires_grad_()
result = leaf * 2
result.sum().backward()
view = leaf[10:].view(-1)
sparse = torch.eye(20, device="cuda").to_sparse()
meta = torch.zeros(10, device="meta")
weak = weakref.ref(plain, lambda _: note("callback of a weak reference"))
lazy = Lazy("lazy")
lazy.kept = new()
sys.modules["lazy"] = lazy


def hide(namespace, name):
    """Puts a key before that one which a look-up has to compare first."""
    real = namespace.pop(name)
    namespace[Key("x" + name)] = lazy
    namespace[name] = real


for hidden in ("torch", "torch._C", "torch.nn.parameter", "torch.nn.modules.module"):
    hide(sys.modules, hidden)
hide(torch.__dict__, "Tensor")
hide(torch._C.__dict__, "TensorBase")
hide(torch._C.__dict__, "_data_address")
hide(torch.nn.parameter.__dict__, "Parameter")
hide(globals(), "model")

WATCHED = [plain, subclassed, in_object, in_hidden, in_dict, in_list, in_tuple, in_set, by_key, model, model.linear, optimizer,
           leaf, result, view, sparse, meta, lazy, Object, Hidden, Dict, List, Tuple, Tensor, Module, Optimizer, Lazy, Meta, Key,
           torch.Tensor, torch.nn.Parameter, nn.Linear, torch._C.TensorBase, torch.float32, torch.Size, dict, list, tuple, str,
           sys.modules, torch._C._data_address, sys.modules["__main__"].__dict__, sys._getframe().f_code, types.FrameType,
           *model.parameters(), *(p.grad for p in model.parameters()), leaf.grad, *model.buffers(), object]


def references():
    return [sys.getrefcount(one) for one in WATCHED]


KEPT = []
POKES = {
    "repr": lambda: repr(in_object),
    "key": lambda: sys.modules.get("torch.nn.parameter"),
    "tensor": lambda: subclassed.shape,
    "dict": lambda: in_dict["key"],
    "module": lambda: model.scale,
    "keep": lambda: KEPT.append(plain),
    "drop": KEPT.clear,
}


def run():
    """Three variables of a function that runs."""
    local, nested = new(), [new()]
    before = ()
    print("ready", flush=True)
    for line in sys.stdin:
        if line.strip() in POKES:
            POKES[line.strip()]()
            print("ok", flush=True)
            continue
        if line.strip() == "arm":
            RAN.clear()
            before = (references(), len(gc.get_objects()), sys.getallocatedblocks())
            ARMED[0] = True
            print("ok", flush=True)
            continue
        ARMED[0] = False
        after = (references(), len(gc.get_objects()), sys.getallocatedblocks())
        changed = [f"{type(one).__name__} {was} {now}" for one, was, now in zip(WATCHED, before[0], after[0]) if was != now]
        print(json.dumps({"ran": RAN, "references": changed, "objects": after[1] - before[1], "blocks": after[2] - before[2]}),
              flush=True)
    os._exit(0)
    return local, nested


run()
