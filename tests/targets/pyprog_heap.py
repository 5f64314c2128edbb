# SPDX-License-Identifier: Apache-2.0
"""A program that knows what its objects refer to: it keeps some of every kind, and writes down what the collector says.

    ready TID
    truth FILE   → done: a line for each object that the collector tracks: "ID TYPE ID-OF-TYPE ID…", those that it refers to
    counts FILE  → done: "ID COUNT" for the planted objects
    run          → done, and then it changes for ever
"""
import ast  # noqa: F401  many classes
import asyncio  # noqa: F401
import atexit
import collections
import contextvars
import dataclasses  # noqa: F401
import encodings.ascii  # noqa: F401  before the truth is written
import enum
import functools
import gc
import itertools
import logging  # noqa: F401
import queue
import sys
import threading
import types
import typing  # noqa: F401
import weakref


class Thing:
    """What others hold: the collector tracks it."""


class Plain:
    def __init__(self, value):
        self.value = value
        self.other = [value]


class Slots:
    __slots__ = ("first", "second", "__weakref__")

    def __init__(self, value):
        self.first = value
        self.second = (value,)


class MoreSlots(Slots):
    __slots__ = ("third",)

    def __init__(self, value):
        super().__init__(value)
        self.third = {"x": value}


class SlotsAndDict(Slots):
    def __init__(self, value):
        super().__init__(value)
        self.late = value


class Many:
    """More attributes than fit into the object."""

    def __init__(self, value):
        for i in range(60):
            setattr(self, f"a{i}", value)


class ListOf(list):
    pass


class TupleOf(tuple):
    pass


class DictOf(dict):
    __slots__ = ("extra",)


class IntOf(int):
    pass


class StrOf(str):
    pass


class SetOf(set):
    pass


class Meta(type):
    pass


class OfMeta(metaclass=Meta):
    kept = Thing()


class Colour(enum.Enum):
    RED = 1
    BLUE = (1, 2)


class Failure(Exception):
    def __init__(self, value):
        super().__init__(value)
        self.value = value


class Mixin:
    def __init__(self):
        self.mixed = Thing()


class Both(Mixin, DictOf):
    def __init__(self):
        Mixin.__init__(self)
        self.extra = Thing()
        self["x"] = Thing()


Named = collections.namedtuple("Named", "a b")


def closure(value, other):
    def inner():
        return value, other
    return inner


def generate(value):
    local = [value]
    for item in (value, local):
        yield item


async def coroutine(value):
    held = {"v": value}
    await pause()
    return held


@types.coroutine
def pause():
    yield


async def agenerate(value):
    held = [value]
    yield held


def fail(value):
    local = {"local": value}
    try:
        raise Failure(value)
    except Failure as first:
        raise ValueError(local) from first


def caught(value):
    try:
        fail(value)
    except ValueError as exc:
        return exc
    return None


@functools.lru_cache(maxsize=4)
def cached(x):
    return [x]


@functools.lru_cache(maxsize=None)
def cached_all(x):
    return [x]


def plant():
    """Everything by name; each object holds at least one Thing."""
    p = {}
    thing = Thing
    p["plain"] = Plain(thing())
    p["plain_with_dict"] = Plain(thing())
    p["plain_with_dict"].__dict__["more"] = thing()
    p["plain_late"] = Plain(thing())
    p["plain_late"].unusual = thing()
    p["deleted"] = Plain(thing())
    del p["deleted"].other
    p["slots"] = Slots(thing())
    p["more_slots"] = MoreSlots(thing())
    p["slots_and_dict"] = SlotsAndDict(thing())
    p["many"] = Many(thing())
    p["list"] = [thing(), 1, "x", None, [thing()], (thing(),)]
    p["long_list"] = [thing() for _ in range(3000)]
    p["tuple"] = (thing(), 1, [2, thing()])
    p["dict"] = {"a": thing(), "b": [thing()]}
    p["dict_holes"] = {f"k{i}": thing() for i in range(50)}
    for i in range(0, 50, 3):
        del p["dict_holes"][f"k{i}"]
    p["general"] = {1: thing(), (1, 2): thing(), thing(): [thing()], "s": thing()}
    p["large"] = {i: thing() for i in range(5000)}
    p["set"] = {thing(), thing(), 3}
    p["large_set"] = {thing() for _ in range(300)}
    p["holes_set"] = {i for i in range(40)} | {thing()}
    for i in range(30):
        p["holes_set"].discard(i)
    p["frozenset"] = frozenset([thing(), thing()])
    p["deque"] = collections.deque([thing() for _ in range(200)])
    p["deque_shifted"] = collections.deque([thing() for _ in range(130)])
    for _ in range(70):
        p["deque_shifted"].popleft()
    p["ordered"] = collections.OrderedDict((f"k{i}", thing()) for i in range(5))
    p["defaultdict"] = collections.defaultdict(thing, {"x": thing()})
    p["counter"] = collections.Counter([1, 2])
    p["chain"] = collections.ChainMap({"x": thing()}, {"y": thing()})
    p["list_of"] = ListOf([thing()])
    p["list_of"].attribute = thing()
    p["tuple_of"] = TupleOf([thing(), thing()])
    p["tuple_of"].attribute = thing()
    p["dict_of"] = DictOf(x=thing())
    p["dict_of"].extra = thing()
    p["int_of"] = IntOf(1 << 70)
    p["int_of"].attribute = thing()
    p["str_of"] = StrOf("text")
    p["str_of"].attribute = thing()
    p["set_of"] = SetOf([thing()])
    p["set_of"].attribute = thing()
    p["named"] = Named(thing(), [thing()])
    p["both"] = Both()
    p["of_meta"] = OfMeta()
    p["colour"] = Colour.RED
    p["closure"] = closure(thing(), [thing()])
    p["default"] = lambda x=thing(), *, y=[thing()]: (x, y)
    p["attributed"] = closure(thing(), thing())
    p["attributed"].attribute = thing()
    p["method"] = p["plain"].__init__
    p["builtin"] = p["list"].append
    p["partial"] = functools.partial(closure, thing(), other=thing())
    p["generator"] = generate(thing())
    next(p["generator"])
    p["generator_new"] = generate(thing())
    p["generator_ended"] = generate(thing())
    list(p["generator_ended"])
    p["coroutine"] = coroutine(thing())
    p["coroutine"].send(None)
    p["agenerator"] = agenerate(thing())
    p["expression"] = (x for x in [thing(), thing()])
    next(p["expression"])
    p["exception"] = caught(thing())
    p["weakref"] = weakref.ref(p["plain"])
    p["weakref_callback"] = weakref.ref(p["plain"], lambda _, kept=thing(): kept)
    p["weak_values"] = weakref.WeakValueDictionary(x=p["plain"])
    p["weak_keys"] = weakref.WeakKeyDictionary({p["plain"]: thing()})
    p["proxy"] = weakref.proxy(p["slots"])
    p["iterator"] = iter([thing(), thing()])
    p["zip"] = zip([thing()], [thing()])
    p["map"] = map(closure(thing(), thing()), [thing()])
    p["enumerate"] = enumerate([thing()])
    p["chain_iterator"] = itertools.chain([thing()], [thing()])
    p["tee"] = itertools.tee(iter([thing(), thing()]))
    next(p["tee"][0])
    p["items"] = p["dict"].items()
    p["namespace"] = types.SimpleNamespace(x=thing())
    p["proxy_mapping"] = types.MappingProxyType({"x": thing()})
    p["slice"] = slice(thing(), None)
    p["property"] = property(closure(thing(), thing()))
    p["classmethod"] = classmethod(closure(thing(), thing()))
    p["staticmethod"] = staticmethod(closure(thing(), thing()))
    p["super"] = super(MoreSlots, p["more_slots"])
    p["queue"] = queue.Queue()
    p["queue"].put(thing())
    p["simple_queue"] = queue.SimpleQueue()
    for _ in range(6):
        p["simple_queue"].put(thing())
    for _ in range(3):
        p["simple_queue"].get()
    for _ in range(4):
        p["simple_queue"].put(thing())
    p["lru"] = [cached(i) for i in range(6)]
    p["lru_all"] = [cached_all(i) for i in range(6)]
    p["context"] = contextvars.ContextVar("v")
    p["token"] = p["context"].set([thing()])
    p["copied_context"] = contextvars.copy_context()
    p["module"] = types.ModuleType("planted")
    p["module"].held = thing()
    p["memory"] = memoryview(bytearray(8))
    p["cycle"] = []
    p["cycle"].append(p["cycle"])
    atexit.register(closure(thing(), [thing()]))
    sys.last_value = caught(thing())
    return p


THREADS = []


def work(started, go):
    for_worker = [Thing(), Thing()]
    local = threading.local()
    local.value = Thing()
    THREADS.append((for_worker, local))
    started.set()
    go.wait()


LEAFS = tuple({int, bool, float, complex, str, bytes, bytearray, type(None), type(...), type(NotImplemented),
               type(work.__code__), range, types.GetSetDescriptorType, types.MemberDescriptorType,
               types.WrapperDescriptorType, types.MethodDescriptorType, types.ClassMethodDescriptorType,
               type(threading.Lock()), type(getattr(functools, "Placeholder", None))})
BASES = (int, float, complex, str, bytes, bytearray)


def is_leaf(obj):
    kind = type(obj)
    return kind in LEAFS or (issubclass(kind, BASES) and not kind.__dictoffset__ and
                             not any(getattr(k, "__slots__", ()) for k in kind.__mro__))


def truth(path):
    with open(path, "w", encoding="ascii") as out:
        for obj in gc.get_objects():
            kind = type(obj)
            held = [f"{id(x):x}" for x in gc.get_referents(obj) if x is not kind and not is_leaf(x)]
            name = f"{kind.__module__}.{kind.__qualname__}".encode("ascii", "replace").decode().replace(" ", "_")
            out.write(f"{id(obj):x} {name} {id(kind):x} {' '.join(held)}\n")


def references(values):
    """How many each of them has besides those that asking needs, which differ from release to release."""
    return [sys.getrefcount(value) for value in values]


def counts(path, planted):
    asking = references([object()])[0] - 1
    with open(path, "w", encoding="ascii") as out:
        for value, count in zip(planted.values(), references(planted.values())):
            out.write(f"{id(value):x} {count - asking}\n")


def churn():
    """Makes and drops objects for ever: what is read meanwhile is torn."""
    some = {}
    while True:
        some[len(some) * 0.1] = [{}, (len(some), Slots([])), Plain({"a": [some]})]
        if len(some) > 20000:
            some.clear()


def main():
    planted = plant()
    started, go = threading.Event(), threading.Event()
    threading.Thread(target=work, args=(started, go), daemon=True).start()
    started.wait()
    gc.collect()
    gc.collect()
    gc.disable()
    gc.freeze() if "freeze" in sys.argv else None
    names = {f"{id(value):x}": name for name, value in planted.items()}
    print("ready", *(f"{key}:{name}" for key, name in names.items()), flush=True)
    for line in sys.stdin:
        words = line.split()
        if words[0] == "run":
            print("done", flush=True)
            churn()
        if words[0] == "truth":
            truth(words[1])
        elif words[0] == "counts":
            counts(words[1], planted)
        print("done", flush=True)


main()
