# SPDX-License-Identifier: Apache-2.0
"""Arrays of CuPy's on the simulated device, held in each way that a program has. PLANTED says of each who holds it, without numbers of
lines. Lines of Python on stdin are run in this module; an expression's value is the answer, as JSON."""
import collections
import ctypes
import functools
import gc
import json
import os
import sys
import threading

import cupy
import cupy_backends.cuda.api.runtime as static_runtime
from cupy_pools import redirect

KIB, MIB = 1 << 10, 1 << 20
PLANTED = {}  # address of memory → what is expected; numbers only: it must hold no array
number = 0


def make(name, category="python", keep=True, **expected):
    """An array of a size of its own."""
    global number
    number += 1
    array = cupy.ndarray((number, 1000 + number), dtype=expected.pop("dtype", "f4"))
    if keep:
        tell(array, name, category, **expected)
    return array


def tell(array, name, category="python", **expected):
    memory = array.data.mem
    PLANTED[memory.ptr] = {"name": name, "category": category, "bytes": memory.size, "shape": list(array.shape), "dtype": array.dtype.name,
                           "arrays": 1, "certain": True, **expected}


class Holder:
    def __init__(self, name):
        self.weights = make(f"{name}.weights", dtype="f8")
        self.parts = {"a": [make(f"{name}.parts['a'][0]"), make(f"{name}.parts['a'][1]", dtype="c8")], 7: make(f"{name}.parts[7]")}


class Slotted:
    __slots__ = ("kept",)

    def __init__(self, name):
        self.kept = make(f"{name}.kept", dtype="?")


class MyArray(cupy.ndarray):
    pass


def closure():
    hidden = make("hidden of a closure, kept by function")
    return lambda: hidden.shape


def generator(name):
    inside = make(f"inside in generator (cupy_owners.py), kept by {name}")
    yield inside.shape


def wait(barrier, leave):
    local = make("local in wait (cupy_owners.py)", "frame")
    inner = {"x": make("inner['x'] in wait (cupy_owners.py)", "frame")}
    barrier.wait()
    leave.wait()
    return local, inner


def raise_with():
    lost = make("lost in raise_with (cupy_owners.py), kept by error", "exception")
    raise ValueError(lost.size)


def plant():
    g = globals()
    g["big"] = make("big", dtype="f2")
    g["holder"] = Holder("holder")
    g["slotted"] = Slotted("slotted")
    g["nested"] = {"list": [(make("nested['list'][0][0]", dtype="i8"), 1)], "deque": collections.deque([make("nested['deque'][0]")])}
    g["function"] = closure()
    # Two places, two references to the array.
    g["twice"] = make("twice")
    g["also"] = [g["twice"]]
    # A view has a pointer of its own, and its base.
    g["base"] = make("base", arrays=3)
    g["view"] = g["base"][:, 100:200]
    g["flipped"] = g["base"].T
    # Of this one only a view is left: its base has no name any more.
    base = make("?", keep=False)
    g["only_view"] = base[:, 5:]
    tell(base, "only_view", arrays=2, shape=list(base.shape))
    del base
    g["pointer"] = cupy.cuda.alloc(5 * KIB)
    PLANTED[g["pointer"].mem.ptr] = {"name": "pointer", "category": "python", "bytes": g["pointer"].mem.size, "arrays": 0, "shape": None,
                                     "dtype": None, "certain": True}
    g["iterator"] = iter([make("iterator→[0]")])
    g["partial"] = functools.partial(print, make("partial.args[0]"))
    g["running"] = generator("running")
    next(g["running"])
    g["mine"] = make("?", keep=False).view(MyArray)
    tell(g["mine"], "mine", arrays=2)
    g["one"] = cupy.ndarray((), dtype="f8")
    tell(g["one"], "one", shape=[])
    g["reversed"] = make("?", keep=False)[::-1]
    tell(g["reversed"], "reversed", arrays=2)
    g["wide"] = make("?", keep=False)
    tell(g["wide"], "wide", arrays=2)
    g["broadcast"] = cupy.broadcast_to(g["wide"], (50,) + g["wide"].shape)
    # Freed: their memory is in the pool, or given out again.
    for _ in range(5):
        make("?", keep=False)
    # Memory that is in no pool.
    raw = cupy.cuda.memory.Memory(3 * MIB)
    g["raw"] = cupy.ndarray((300, 1000), dtype="f4", memptr=cupy.cuda.MemoryPointer(raw, 0))
    tell(g["raw"], "raw")
    # And what only borrows it, from an array that has a name itself.
    lent = cupy.cuda.UnownedMemory(g["big"].data.ptr, g["big"].nbytes, g["big"], 0)
    g["borrowed"] = cupy.ndarray(g["big"].shape, dtype="f2", memptr=cupy.cuda.MemoryPointer(lent, 0))
    # Garbage, as the collector is off.
    ring = [make("garbage: list[0]", "garbage")]
    ring.append(ring)
    del ring
    try:
        raise_with()
    except ValueError as error:
        g["error"] = error
    barrier, leave = threading.Barrier(2), threading.Event()
    threading.Thread(target=wait, args=(barrier, leave), daemon=True).start()
    barrier.wait()
    g["leave"] = leave


def main():
    redirect(os.path.realpath(static_runtime.__file__), ctypes.CDLL(os.environ["CUPY_TEST_RUNTIME"]))
    gc.collect()
    gc.disable()
    if "bare" not in sys.argv:
        plant()
    print("ready", os.getpid(), cupy.__version__, flush=True)
    for line in sys.stdin:
        try:
            answer = eval(line, globals())  # pylint: disable=eval-used
        except SyntaxError:
            exec(line, globals())  # pylint: disable=exec-used
            answer = None
        print(json.dumps(answer, default=repr), flush=True)


if __name__ == "__main__":
    main()
