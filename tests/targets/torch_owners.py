# SPDX-License-Identifier: Apache-2.0
"""A PyTorch program that knows what each of its tensors is and what keeps it alive.

usage: torch_owners.py STATE [FILE]      in_forward, after_loss, in_expression, in_backward, in_step, after_step;
                                         gil_held, spinning: the truth is in FILE before that

It plants tensors in every kind of holder, trains a small model, gets into the state, and says "ready". On a line of standard
input it writes what it knows to the file of that name (owners_planted.py). OWNERS_DEVICE=cpu to try it without a device. Written for
CPython 3.8 and PyTorch 2.0 and later; what a release does not have is skipped, and the file says so."""
import asyncio
import atexit
import builtins
import collections
import concurrent.futures
import contextlib
import contextvars
import copy
import ctypes
import dataclasses
import enum
import functools
import gc
import hashlib
import heapq
import itertools
import operator
import os
import queue
import sys
import threading
import types
import typing
import weakref

import torch
from torch import nn
from torch.utils import checkpoint as checkpoints

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import owners_planted as planted  # noqa: E402
from owners_planted import DEVICE, expect, new, plant, skip  # noqa: E402

STATE = sys.argv[1]
HERE = r" \(torch_owners\.py:\d+\)"
gc.disable()  # so that cycles stay

# ---- variables, containers ----

variable = plant("variable", "python", r"variable")
in_list = [0, plant("list", "python", r"in_list\[1\]")]
in_dict = {"key": plant("dict", "python", r"in_dict\['key'\]")}
by_number = {-7: plant("dict with numbers", "python", r"by_number\[-7\]")}
by_tuple = {("a", 1): plant("dict with tuples", "python", r"by_tuple\[.*\]")}
odd_key = {"it's\n": plant("dict with an odd key", "python", r"odd_key\[.*it.*s.*\]")}
in_tuple = (plant("tuple", "python", r"in_tuple\[0\]"),)
nested = {"a": [{"b": (1, plant("nested", "python", r"nested\['a'\]\[0\]\['b'\]\[1\]"))}]}
in_set = {plant("set", "python", r"in_set\{…\}")}
in_frozenset = frozenset([plant("frozenset", "python", r"in_frozenset\{…\}")])
by_tensor = {plant("dict key", "python", r"by_tensor.*key.*"): 1}
ordered = collections.OrderedDict(one=plant("OrderedDict", "python", r"ordered\['one'\]"))
defaults = collections.defaultdict(list)
defaults["x"].append(plant("defaultdict", "python", r"defaults\['x'\]\[0\]"))
ring = collections.deque([0, plant("deque", "python", r"ring\[1\]")])
long_ring = collections.deque(range(200))
long_ring.rotate(3)
long_ring[150] = plant("deque of several parts", "python", r"long_ring\[150\]")
chain_map = collections.ChainMap({}, {"k": plant("ChainMap", "python", r"chain_map\.maps\[1\]\['k'\]")})
user_dict = collections.UserDict(k=plant("UserDict", "python", r"user_dict\.data\['k'\]"))
space = types.SimpleNamespace(inner=plant("SimpleNamespace", "python", r"space\.inner"))
proxy = types.MappingProxyType({"k": plant("mappingproxy", "python", r"proxy.*\['k'\]")})
Pair = collections.namedtuple("Pair", "left right")
pair = Pair(1, plant("namedtuple", "python", r"pair(\[1\]|\.right)"))
fifo = queue.Queue()
fifo.put((0, plant("queue.Queue", "python", r"fifo\.queue\[0\]\[1\]")))
lifo = queue.LifoQueue()
lifo.put(plant("queue.LifoQueue", "python", r"lifo\.queue\[0\]"))
by_priority = queue.PriorityQueue()
by_priority.put((1, plant("queue.PriorityQueue", "python", r"by_priority\.queue\[0\]\[1\]")))
simple = queue.SimpleQueue()
simple.put(plant("queue.SimpleQueue", "python", r"simple.*"))
heap = []
heapq.heappush(heap, (3, 0, plant("heap", "python", r"heap\[0\]\[2\]")))
listed = iter([plant("list iterator", "python", r"listed.*"), 0])
zipped = zip([plant("zip", "python", r"zipped.*")], [0])
counted = enumerate([plant("enumerate", "python", r"counted.*")])
joined = itertools.chain([plant("itertools.chain", "python", r"joined.*")])
teed, ahead = itertools.tee(iter([0, plant("itertools.tee", "python", r"(teed|ahead).*")]))
collections.deque(ahead, maxlen=0)
mapped = map(abs, [plant("map", "python", r"mapped.*")])
values_of = {"k": plant("view of a dict", "python", r"values_of.*")}.values()
packed = ctypes.py_object(plant("ctypes.py_object", "python", r"packed.*"))


class Colour(enum.Enum):
    RED = (plant("enum", "python", r"Colour\.(RED|_.*)\b.*"),)


class Typed(typing.NamedTuple):
    value: typing.Any


typed = Typed(plant("typing.NamedTuple", "python", r"typed(\[0\]|\.value)"))


@dataclasses.dataclass
class Plain:
    field: typing.Any


@dataclasses.dataclass(frozen=True)
class Frozen:
    field: typing.Any


class Slotted:
    __slots__ = ("first", "second")


class SlottedBelow(Slotted):
    __slots__ = ("third", "__dict__")


plain = Plain(plant("dataclass", "python", r"plain\.field"))
frozen = Frozen(plant("frozen dataclass", "python", r"frozen\.field"))
slotted = Slotted()
slotted.second = plant("slots", "python", r"slotted\.second")
below = SlottedBelow()
below.first = plant("slots of a base class", "python", r"below\.first")
below.other = plant("slots and a dict", "python", r"below\.other")
if sys.version_info >= (3, 10):
    DataSlots = dataclasses.make_dataclass("DataSlots", [("a", typing.Any), ("b", typing.Any)], slots=True) \
        if sys.version_info >= (3, 12) else dataclasses.dataclass(slots=True)(type("DataSlots", (), {"__annotations__": {"a": object, "b": object}}))
    data_slots = DataSlots(1, plant("dataclass with slots", "python", r"data_slots\.b"))
else:
    skip("dataclass with slots", "from Python 3.10 on")


class Meta(type):
    pass


class WithProperty(metaclass=Meta):
    shared = plant("class attribute", "python", r"WithProperty\.shared")

    def __init__(self, value):
        self._value = value
        self.__private = plant("private attribute", "python", r"with_property\._WithProperty__private|bound\.__self__\..*private")

    @property
    def value(self):
        return self._value

    def method(self):
        return self._value


class OneMore:
    @functools.cached_property
    def lazily(self):
        return plant("cached_property", "python", r"one_more\.lazily")


class Descriptor:
    def __init__(self):
        self.by_owner = weakref.WeakKeyDictionary()

    def __get__(self, instance, owner):
        return self.by_owner.get(instance) if instance else self


class WithDescriptor:
    described = Descriptor()


Meta.kept = plant("attribute of a metaclass", "python", r"Meta\.kept")
with_property = WithProperty(plant("property", "python", r"with_property\._value"))
one_more = OneMore()
one_more.lazily  # noqa: B018
with_descriptor = WithDescriptor()
WithDescriptor.described.by_owner[with_descriptor] = plant("WeakKeyDictionary", "python", r"WithDescriptor\.described\.by_owner.*")
many = Plain(0)
for attribute in range(40):  # more than inline values hold
    setattr(many, "a%d" % attribute, attribute)
many.last = plant("object with many attributes", "python", r"many\.last")
many.__dict__["not a name"] = plant("attribute that is no name", "python", r"many\['not a name'\]")
globals()["no name"] = plant("variable that is no name", "python", r"globals\(\)\['no name'\]")
setattr(many, "it's\n", plant("attribute with odd characters", "python", r"many\[\"it's\\n\"\]"))
emptied = Plain(plant("attribute behind a deleted one", "python", r"emptied\.(field|moved)"))
emptied.moved = emptied.field
del emptied.field

# ---- functions ----


def with_default(value=plant("default argument", "python", r"with_default\.__defaults__\[0\]")):
    return value


def with_keyword(*, value=plant("default of a keyword argument", "python", r"with_keyword\.__kwdefaults__\['value'\]")):
    return value


def with_attribute():
    return with_attribute.kept


with_attribute.kept = plant("function attribute", "python", r"with_attribute\.kept")


def make_closure(case, pattern):
    captured = plant(case, "python", pattern)

    def inner():
        return captured

    return inner


bound = WithProperty(plant("bound method", "python", r"bound\.__self__\._value")).method
closure = make_closure("closure", r"captured of a closure, kept by closure.*")
as_property = property(make_closure("property of a closure", r"captured of a closure, kept by as_property.*"))
as_classmethod = classmethod(make_closure("classmethod of a closure", r"captured of a closure, kept by as_classmethod.*"))
part = functools.partial(print, plant("partial", "python", r"part\.args\[0\]"),
                         end=plant("keyword of a partial", "python", r"part\.keywords\['end'\]"))
getter = operator.methodcaller("f", plant("methodcaller", "python", r"getter.*"))


@functools.wraps(closure)
def wrapper():
    pass


wrapper.__wrapped__ = make_closure("__wrapped__", r"captured of a closure, kept by wrapper\.__wrapped__.*")


@functools.lru_cache(maxsize=4)
def cached(number):
    return plant("lru_cache", "python", r"cached.*")


@functools.lru_cache(maxsize=None)
def cached_all(number):
    return plant("lru_cache(None)", "python", r"cached_all.*")


@functools.lru_cache(maxsize=4)
def cached_argument(tensor):
    return 0


cached(1)
cached(2)
cached_all(1)
cached_argument(plant("argument in an lru_cache", "python", r"cached_argument.*"))


def generate():
    suspended = plant("generator", "python", r"suspended in generate%s, kept by generator" % HERE)
    yield 1
    yield suspended


def delegate():
    outer = plant("generator that delegates", "python", r"outer in delegate%s, kept by delegating" % HERE)
    yield from generate_inside()
    yield outer


def generate_inside():
    inner = plant("generator inside another", "python", r"inner in generate_inside%s, kept by .*delegating.*" % HERE)
    yield 1
    yield inner


generator, delegating = generate(), delegate()
next(generator)
next(delegating)
never_begun = (lambda argument: (yield argument))(plant("generator that never began", "python", r"argument .*kept by never_begun.*"))
expression = (tensor for tensor in [plant("generator expression", "python", r"\.0→?\[0\] in <genexpr>%s, kept by expression" % HERE)])
exhausted = generate()
collections.deque(exhausted, maxlen=0)


async def wait_for_ever():
    awaiting = plant("coroutine", "python", r"awaiting in wait_for_ever%s, kept by coroutine" % HERE)
    await asyncio.sleep(0)
    return awaiting


async def agenerate():
    between = plant("async generator", "python", r"between in agenerate%s, kept by .*async_generator.*" % HERE)
    yield 1
    yield between


async def outside():
    before = plant("coroutine that awaits another", "python", r"before in outside%s, kept by awaiter" % HERE)
    await inside()
    return before


async def inside():
    after = plant("awaited coroutine", "python", r"after in inside%s, kept by .*awaiter.*" % HERE)
    await asyncio.sleep(0)
    return after


coroutine, awaiter, async_generator = wait_for_ever(), outside(), agenerate()
coroutine.send(None)
awaiter.send(None)
stepping = async_generator.asend(None)
try:
    stepping.send(None)
except StopIteration:
    pass
del stepping


@contextlib.contextmanager
def entered():
    managed = plant("context manager", "python", r"managed in entered%s, kept by manager\.gen" % HERE)
    yield
    del managed


manager = entered()
manager.__enter__()
exits = contextlib.ExitStack()
exits.callback(print, plant("ExitStack", "python", r".*exits.*"))
finalizer = weakref.finalize(plain, print, plant("weakref.finalize", "python", r".*finalize.*|.*_registry.*"))
future = concurrent.futures.Future()
future.set_result(plant("Future", "python", r"future\._result"))
loop = asyncio.new_event_loop()
task_result = loop.create_future()
task_result.set_result(plant("asyncio.Future", "python", r"task_result.*"))
loop.call_soon(print, plant("callback of an event loop", "python", r"loop\._ready\[0\]\._args\[0\]"))


def keep_frame():
    in_frame = plant("kept frame", "python", r"in_frame in keep_frame%s, kept by kept_frame" % HERE)
    return sys._getframe(), in_frame  # noqa: SLF001


kept_frame = keep_frame()[0]
# Up to 3.9 the list of these is in the memory of a module that is written in C.
atexit.register(print, plant("atexit", ("python", "native"), r".*interpreter.*|.*atexit.*" if sys.version_info >= (3, 10)
                             else r"native code's tuple\[0\]"))
builtins.kept_builtin = plant("builtins", "python", r"(__)?builtins(__)?\.kept_builtin")
home_made = types.ModuleType("home_made")
home_made.inside = plant("module", "python", r"home_made\.inside")
sys.modules["only_in_sys_modules"] = types.ModuleType("only_in_sys_modules")
sys.modules["only_in_sys_modules"].inside = plant("sys.modules", "python", r"(sys\.modules\[')?only_in_sys_modules('\])?\.inside")
with_default.__annotations__["value"] = plant("annotation", "python", r"with_default\.__annotations__\['value'\]")

# ---- threads ----

local = threading.local()
local.value = plant("threading.local", "python", r"local.*")
context = contextvars.ContextVar("context")
context.set(plant("contextvar", "python", r"(context|copied_context|thread \d+).*"))
copied_variable = contextvars.ContextVar("copied_variable")
copied_variable.set(plant("copied context", "python", r"copied_context.*"))
copied_context = contextvars.copy_context()
copied_variable.set(None)


def run_thread(argument):
    in_thread = plant("another thread's local", "frame", r"in_thread in run_thread%s" % HERE)
    local.value = plant("another thread's threading.local", "python", r"local.*|thread \d+.*")
    started.set()
    threading.Event().wait()
    return in_thread


started = threading.Event()
thread = threading.Thread(target=run_thread, daemon=True,
                          args=(plant("argument of a thread", ("frame", "python"), r"argument in run_thread%s|thread\._args\[0\]" % HERE),))
thread.start()
started.wait()
timer = threading.Timer(1e6, print, [plant("Timer", "python", r"timer\.args\[0\]")])

# ---- storages ----

view = plant("view of a deleted base", "python", r"view", facts=False)[10:20]
second_view = plant("view of a view", "python", r"second_view", facts=False)[10:900].view(-1, 2)[:, 1]
shared_one = plant("shared storage", "python", r"shared_(one|two)", facts=False)
shared_two = shared_one.view(2, -1)
storage = plant("storage alone", "python", r"storage", facts=False).untyped_storage()
typed_storage = plant("TypedStorage", "python", r"typed_storage.*", facts=False)
typed_storage = torch.storage.TypedStorage(wrap_storage=typed_storage.untyped_storage(), dtype=torch.float32, _internal=True)
in_place = plant("in-place on a view", "python", r"in_place", facts=False)
in_place[5:10].add_(1)
transposed = plant("transposed", "python", r"transposed", facts=False).view(2, -1).t()
detached = plant("detached", "python", r"detached").requires_grad_().detach()
planted.PLANTED[-1]["requires_grad"] = False
small = plant("two dtypes", "python", r"small|as_bytes", facts=False)
as_bytes = small.view(torch.uint8)
swapped = new(10)
swapped.data = plant(".data that was put in its place", "python", r"swapped")
resized = torch.empty(0, device=DEVICE)
resized.resize_(5000)
expect(resized, "resized", "python", r"resized")
sparse_indices = torch.zeros(1, 3000, dtype=torch.int64, device=DEVICE)
sparse_values = new(2000)[:3000]
sparse = torch.sparse_coo_tensor(sparse_indices[:, :2000], sparse_values[:2000], (4000,))
expect(sparse._indices(), "indices of a sparse tensor", "python", r"(sparse|sparse_indices).*", facts=False)
expect(sparse._values(), "values of a sparse tensor", "python", r"(sparse|sparse_values).*", facts=False)
del sparse_indices, sparse_values


class Sub(torch.Tensor):
    pass


class Wrapper(torch.Tensor):
    """Has no storage; another tensor has the data."""

    @staticmethod
    def __new__(cls, inner):
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype, device=inner.device)

    def __init__(self, inner):
        self.inner = inner

    @classmethod
    def __torch_dispatch__(cls, func, kinds, args=(), kwargs=None):
        raise NotImplementedError


subclass = plant("tensor subclass", "python", r"subclass").as_subclass(Sub)
wrapping = Wrapper(plant("wrapper subclass", "python", r"wrapping\.inner"))
attributed = new()
attributed.extra = plant("attribute of a tensor", "python", r"attributed\.extra")
expect(attributed, "tensor with an attribute", "python", r"attributed")
capsule = torch.utils.dlpack.to_dlpack(plant("dlpack capsule", None, r".*capsule.*", facts=False))
imported = torch.utils.dlpack.from_dlpack(torch.utils.dlpack.to_dlpack(plant("from dlpack", "python", r"imported", facts=False)))
skip("numpy array", "shares memory of the CPU only, where the allocator has no block")
loose_parameter = nn.Parameter(plant("Parameter outside of modules", "parameter", r"loose_parameter", facts=False))


def in_job_of_one():
    """DTensor of one rank. The gloo backend needs no network with this store."""
    from torch import distributed
    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    try:
        from torch.distributed.tensor import DTensor
    except ImportError:
        from torch.distributed._tensor import DTensor
    try:
        from torch.distributed.device_mesh import DeviceMesh
    except ImportError:
        from torch.distributed._tensor import DeviceMesh
    mesh = DeviceMesh(DEVICE, [0])
    return DTensor.from_local(new(), mesh, run_check=False)


try:
    distributed_tensor = in_job_of_one()
    expect(distributed_tensor._local_tensor, "DTensor", "python", r"distributed_tensor\._local_tensor")
except (ImportError, AttributeError, RuntimeError, AssertionError, ValueError) as err:
    skip("DTensor", str(err).split("\n")[0])

# ---- what must not count, garbage, exceptions ----

weakly = plant("weak reference", "python", r"weakly")
a_first_weak = weakref.ref(weakly)
a_weak_values = weakref.WeakValueDictionary(x=weakly)
a_weak_set = weakref.WeakSet([weakly])
a_weak_proxy = weakref.proxy(weakly)
weak_object = Plain(plant("attribute of a weakly held object", "python", r"weak_object\.field"))
a_weak_object = weakref.ref(weak_object)


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
    inner = {"t": plant("cycle of a dict", "garbage", r"garbage: .*")}
    inner["me"] = inner
    selfish = plant("cycle through a tensor's attribute", "garbage", r"garbage: .*")
    selfish.me = selfish


def make_cycle_of_an_exception():
    in_cycle = plant("cycle of an exception and its frame", "garbage", r"garbage: .*|in_cycle in make_cycle_of_an_exception.*garbage.*")
    try:
        raise ValueError(in_cycle.shape)
    except ValueError as caught:
        own = caught  # the frame holds the exception, which holds the frame
    return own is None


def make_cycle_of_a_generator():
    box = []

    def run():
        kept = plant("cycle of a generator", "garbage", r"garbage: .*|kept in .*run.*garbage.*")
        yield box
        yield kept

    box.append(run())
    next(box[0])


make_cycles()
make_cycle_of_an_exception()
make_cycle_of_a_generator()


def fail(case, kind=ValueError, holder=r".+"):
    lost = plant(case, "exception", r"lost in fail%s, kept by %s" % (HERE, holder))
    raise kind(lost.shape)


def fail_below():
    try:
        fail("context of an exception", ValueError, r"chained.*")
    except ValueError:
        raise KeyError(1)


def fail_from():
    try:
        fail("cause of an exception", ValueError, r"caused.*")
    except ValueError as failure:
        raise KeyError(1) from failure


def caught_from(function, *args):
    try:
        function(*args)
    except Exception as failure:  # noqa: BLE001
        return failure


kept_error = caught_from(fail, "exception in a variable", ValueError, r"kept_error.*")
errors = [caught_from(fail, "exception in a list", ValueError, r"errors\[0\].*")]
chained, caused = caught_from(fail_below), caught_from(fail_from)
sys.last_value = caught_from(fail, "sys.last_value", ValueError, r"sys\.last_(value|exc|traceback).*")
kept_traceback = caught_from(fail, "traceback in a variable", ValueError, r"kept_traceback.*").__traceback__
if sys.version_info >= (3, 11):
    group = builtins.ExceptionGroup("several", [caught_from(fail, "ExceptionGroup", ValueError, r"group.*")])
else:
    skip("ExceptionGroup", "from Python 3.11 on")
failed_future = concurrent.futures.Future()
failed_future.set_exception(caught_from(fail, "exception of a Future", ValueError, r"failed_future.*"))
with_note = ValueError(plant("argument of an exception", ("python", "exception"), r"with_note\.args\[0\]"))

# ---- autograd ----


class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(expect(x * 3, "save_for_backward", "activation", r"saved by .*Twice\w* ← .*twice.*", facts=False))
        ctx.side = plant("attribute of ctx", ("activation", "python"), r".*twice.*\.side")
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * 2


def product(case, pattern):
    """Its input is only in the graph."""
    leaf = new().requires_grad_()
    expect(leaf, case, "activation", pattern + r"\.variable", facts=False)
    return (leaf * 2).exp().sum()


twice = Twice.apply(new().requires_grad_()).sum()
checkpointed = new().requires_grad_()
expect(checkpointed, "leaf before a checkpoint", ("python", "input"), r"checkpointed")
kept_by_checkpoint = checkpoints.checkpoint(lambda x: (x * 2).exp().sum(), checkpointed, use_reentrant=False)
checkpoint_input = new().requires_grad_() * 2
expect(checkpoint_input, "input of a checkpoint", "activation", r"(saved by _NoopSaveInputsBackward ← )?.+ kept by checkpoint_only.*", facts=False)
checkpoint_only = checkpoints.checkpoint(lambda x: x.exp().sum(), checkpoint_input, use_reentrant=False)
del checkpoint_input
with torch.autograd.graph.saved_tensors_hooks(lambda x: (x.clone(),), lambda held: held[0]):
    hooks_saved = new().requires_grad_()
    hooks_packed = hooks_saved.exp().sum()
expect(hooks_saved, "leaf of saved_tensors_hooks", ("python", "input"), r"hooks_saved")
big_leaf = new().requires_grad_()
(big_leaf * 2).sum().backward()
expect(big_leaf, "leaf that is no Parameter", ("python", "parameter", "input"), r"big_leaf")
expect(big_leaf.grad, "gradient of a leaf", "gradient", r"big_leaf\.grad")
not_leaf = (new().requires_grad_() * 2)
not_leaf.retain_grad()
not_leaf.sum().backward()
expect(not_leaf, "tensor with a graph", ("python", "input"), r"not_leaf")
expect(not_leaf.grad, "retain_grad", "gradient", r"not_leaf\.grad")
second = new().requires_grad_()
expect(second, "leaf that a second graph saved", ("python", "input"), r"second")
gradient_of, = torch.autograd.grad((second ** 3).sum(), second, create_graph=True)
expect(gradient_of, "gradient with a graph", ("python", "gradient", "input"), r"gradient_of")
out_of_graph = product("leaf that only a graph holds", r"out_of_graph.*")
changed = new().requires_grad_() * 2
changed_view = changed[:100]
changed_view.mul_(3.)
expect(changed, "in-place on a view with a graph", "python", r"changed(_view)?", facts=False)
hooked = new().requires_grad_()


def register_hooks():
    caught = plant("closure of a tensor's hook", "python", r"caught of a closure, kept by hooked.*")
    hooked.register_hook(lambda grad: (caught, None)[1])
    if hasattr(hooked, "register_post_accumulate_grad_hook"):
        after = plant("closure of a hook after accumulation", "python", r"after of a closure, kept by .*hook.*")
        hooked.register_post_accumulate_grad_hook(lambda tensor: (after, None)[1])
    else:
        skip("hook after accumulation", "from PyTorch 2.1 on")
    in_node = plant("closure of a node's hook", ("python", "activation"), r"in_node of a closure, kept by .*hooked_node.*")
    hooked_node.register_hook(lambda grads, outs: (in_node, None)[1])


hooked_node = (hooked * 2).grad_fn
register_hooks()
expect(hooked, "leaf with hooks", ("python", "input"), r"hooked")

# ---- models ----


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
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
        self.register_buffer("unsaved", torch.ones(n), persistent=False)

    def forward(self, x):
        return x + self.mlp(self.norm(x)) @ self.scale


class Model(nn.Module):
    def __init__(self, n, depth):
        super().__init__()
        self.first = nn.Linear(n, n)
        self.blocks = nn.ModuleList(Block(n) for _ in range(depth))
        self.named = nn.ModuleDict({"a": nn.Linear(n, n, bias=False)})
        self.extra = nn.ParameterList([nn.Parameter(torch.ones(n))])
        self.frozen = nn.Linear(n, n).requires_grad_(False)
        self.last = nn.Linear(n, n, bias=False)
        self.last.weight = self.first.weight  # tied

    def forward(self, x):
        x = self.first(x)
        for number, block in enumerate(self.blocks):
            x = checkpoints.checkpoint(block, x, use_reentrant=True) if number == 1 else block(x)
        return Square.apply(self.last(self.frozen(self.named["a"](x)) + self.extra[0]))


class Outside:
    """Not a module; has one."""

    def __init__(self):
        self.net = nn.Linear(40, 41).to(DEVICE)


model = Model(32, 3).to(DEVICE)
average = {name: expect(p.detach().clone(), "copy of the weights", "python", r"average\['%s'\]" % name.replace(".", r"\."))
           for name, p in model.named_parameters()}
averaged = torch.optim.swa_utils.AveragedModel(model)
cloned = copy.deepcopy(model)
in_a_list = [nn.Linear(33, 34).to(DEVICE)]
outside_of_modules = Outside()
normed = nn.utils.parametrizations.weight_norm(nn.Linear(50, 51)).to(DEVICE) \
    if hasattr(nn.utils.parametrizations, "weight_norm") else skip("parametrization", "from PyTorch 2.1 on")
recurrent = nn.LSTM(16, 16).to(DEVICE) if DEVICE == "cpu" else skip("nn.LSTM", "cuDNN is not simulated")
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, amsgrad=True)
other_optimizer = torch.optim.SGD(in_a_list[0].parameters(), lr=1e-3, momentum=0.9)
hook_kept = []
model.blocks[0].register_forward_hook(lambda module, args, out: hook_kept.append(out))  # expect()ed by list_hook()
losses = []


def train_step(batch):
    out = model(batch)
    loss = (out ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.detach()


def train_other():
    for parameter in in_a_list[0].parameters():
        parameter.grad = torch.ones_like(parameter)
    other_optimizer.step()


def list_models():
    planted.list_module(model, "model", optimizer=(optimizer, "optimizer"))
    planted.list_module(averaged, "averaged", case="AveragedModel")
    planted.list_module(cloned, "cloned", case="deepcopy")
    planted.list_module(in_a_list[0], r"in_a_list\[0\]", case="module in a list", optimizer=(other_optimizer, "other_optimizer"))
    planted.list_module(outside_of_modules.net, r"outside_of_modules\.net", case="module of an object")
    if normed:
        planted.list_module(normed, "normed", case="parametrization")


def list_hook():
    for number, tensor in enumerate(hook_kept):
        expect(tensor, "kept by a forward hook", ("python", "activation"), r"hook_kept\[%d\]" % number)


def list_graphs(*roots):
    def lister():
        planted.list_graph(*roots, *losses, *hook_kept, twice, kept_by_checkpoint, hooks_packed, out_of_graph, changed,
                           changed_view, not_leaf, gradient_of)
    return lister


def serve(*roots):
    planted.serve(list_models, list_hook, list_graphs(*roots))


def stop_in_hook(grad):
    in_hook = plant("local of a hook in backward", "frame", r"in_hook in stop_in_hook%s" % HERE)
    serve()
    return grad, in_hook


def stop_in_forward(module, args):
    in_forward_hook = plant("local of a hook in forward", "frame", r"in_forward_hook in stop_in_forward%s" % HERE)
    serve(*args)
    return in_forward_hook


def stop_and_be_zero():
    serve()
    return 0


data = expect(torch.randn(16, 8, 32, device=DEVICE), "data set", ("python", "input"), r"data")


def main():
    train_other()
    batch = data[0]
    argument_of_main = plant("local that a cell holds", "frame", r"argument_of_main in main%s" % HERE)
    use = lambda: argument_of_main  # noqa: E731
    if STATE in ("in_step", "after_step", "in_backward"):
        train_step(data[0])
        hook_kept.clear()
    if STATE == "in_step":
        optimizer.register_step_pre_hook(lambda *args: serve())
        train_step(data[1])
    if STATE == "after_step":
        train_step(data[1])
        hook_kept.clear()
        serve()
    if STATE == "in_forward":
        model.blocks[2].register_forward_pre_hook(stop_in_forward)
    loss = (model(batch) ** 2).mean()
    losses.append(loss)
    if STATE == "in_backward":
        loss.register_hook(stop_in_hook)
        loss.backward()
    temporary = plant("local", "frame", r"temporary in main%s" % HERE)
    if STATE == "in_expression":
        print(plant("temporary of an expression", "frame", r"a temporary in main%s" % HERE) + stop_and_be_zero())
    if STATE == "gil_held":
        planted.tell(sys.argv[2], list_models)
        print("ready", flush=True)
        ctypes.PyDLL(None).sleep(100000)  # a PyDLL keeps the GIL
    if STATE == "spinning":
        planted.tell(sys.argv[2], list_models)
        print("ready", flush=True)
        hashlib.pbkdf2_hmac("sha256", b"", b"", 2**31 - 1)  # no system call, and no GIL: as in cudaDeviceSynchronize()
    serve(loss)
    del temporary, use


main()
