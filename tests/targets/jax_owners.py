# SPDX-License-Identifier: Apache-2.0
"""JAX's own arrays, on the CPU, in a process that also uses the CUDA driver; the program knows what holds each. Lines of Python on
stdin are run in this module; an expression's value is the answer, as JSON."""
import collections
import ctypes
import gc
import json
import sys
import threading

import jax
import jax.numpy as jnp

PLANTED = {}  # id → what is expected; numbers only: it must hold no array


def make(name, shape, dtype="float32", category="python", certain=True):
    array = jnp.full(shape, 1, dtype=dtype)
    jax.block_until_ready(array)
    PLANTED[id(array)] = {"name": name, "category": category, "dtype": dtype, "shape": list(shape), "bytes": array.nbytes, "certain": certain}
    return array


class Model:
    def __init__(self, name):
        self.kernel = make(f"{name}.kernel", (300, 400))
        self.layers = [make(f"{name}.layers[{i}]", (10 + i, 20), "bfloat16") for i in range(3)]


State = collections.namedtuple("State", "mu nu")


def closure():
    hidden = make("hidden of a closure, kept by function", (77,), "int8")
    return lambda: hidden


def wait(barrier, leave):
    local = make("local in wait (jax_owners.py)", (55, 5), category="frame")
    barrier.wait()
    leave.wait()
    return local


cuda = ctypes.CDLL("libcuda.so.1")
context = ctypes.c_void_p()
assert cuda.cuInit(0) == 0 and cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0 and cuda.cuCtxSetCurrent(context) == 0
gc.collect()
gc.disable()
model = Model("model")
params = {"dense": make("params['dense']", (204, 208)), "deep": {"bias": make("params['deep']['bias']", (208,), "int32")}}
state = State(make("state[0]", (9, 9)), (make("state[1][0]", (2, 3, 4, 5), "bool"),))
function = closure()
scalar = make("scalar", ())
empty = make("empty", (0, 5))
deleted = make("?", (1000, 10))
PLANTED.pop(id(deleted))
deleted.delete()
ring = [make("garbage: list[0]", (66, 6), category="garbage")]
ring.append(ring)
del ring
barrier, leave = threading.Barrier(2), threading.Event()
threading.Thread(target=wait, args=(barrier, leave), daemon=True).start()
barrier.wait()
print("ready", flush=True)
for line in sys.stdin:
    try:
        answer = eval(line, globals())  # pylint: disable=eval-used
    except SyntaxError:
        exec(line, globals())  # pylint: disable=exec-used
        answer = None
    print(json.dumps(answer, default=repr), flush=True)
