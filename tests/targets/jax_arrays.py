# SPDX-License-Identifier: Apache-2.0
"""JAX's own arrays, on the CPU, in a process that also uses the CUDA driver. A line "more" makes more; each answer is JSON: JAX's own
list of live arrays, by the place in this file that made them."""
import collections
import ctypes
import json
import sys

import jax
import jax.numpy as jnp


def weights(n):
    return [jnp.ones((n, 100 + i)) for i in range(5)]


def activations(n):
    return jnp.zeros((n, n)) + 1


@jax.jit
def multiply(a, b):
    return a @ b


def truth():
    found = collections.Counter()
    for array in jax.live_arrays():
        found[PLACES.get(id(array), "?")] += array.nbytes
    return {"bytes": sum(array.nbytes for array in jax.live_arrays()), "count": len(jax.live_arrays()), "by": dict(found)}


cuda = ctypes.CDLL("libcuda.so.1")
context = ctypes.c_void_p()
assert cuda.cuInit(0) == 0 and cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0 and cuda.cuCtxSetCurrent(context) == 0
PLACES = {}
kept = {"weights": weights(1000), "activations": [activations(512)]}
kept["product"] = [multiply(kept["activations"][0], kept["activations"][0])]
jax.block_until_ready(kept)
for name, arrays in kept.items():
    PLACES.update({id(array): name for array in arrays})
print("ready", flush=True)
for line in sys.stdin:
    if line.strip() == "spin":  # the interpreter is busy for ever
        while True:
            pass
    if line.strip() == "more":
        kept["weights"] += weights(300)
        PLACES.update({id(array): "weights" for array in kept["weights"]})
        kept["activations"].clear()
    jax.block_until_ready(kept)
    print(json.dumps(truth()), flush=True)
