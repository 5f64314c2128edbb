#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What others than the walk say of PyTorch's memory: the driver's pools, and PyTorch itself through its interpreter."""
import contextlib
import json
import os

from harness import CACHE, COMPLETE, PARTIAL, Skip, check, diag_codes, equal, main, report, report_json, target
from report_torch import RUN_SIM, versions


@contextlib.contextmanager
def torch_program(version, program, *args, **env):
    """A Python program with the PyTorch wheel of that version on the simulated device; it prints a line with READY and JSON."""
    if not os.path.exists(os.path.join(CACHE, "torch", version, "site", "torch")):
        raise Skip(f"the Python part of PyTorch {version} is not set up: sh tests/setup/torch.sh {version}")
    with target(["sh", RUN_SIM, version, "--", "python", "-c", program, *args], ready="READY", env=dict(os.environ, **env)) as proc:
        yield proc, json.loads(proc.ready_line[len("READY"):] or "null")


# ---- the driver's pools ----

ASYNC = """
import json, sys, torch
kept = [torch.empty((i + 1) * 3000000, dtype=torch.uint8, device="cuda:0") for i in range(30)]
del kept[3::2]
torch.cuda.synchronize()
print("READY", json.dumps(torch.cuda.memory_stats()), flush=True)
sys.stdin.read()
"""


def the_pool(data):
    devices = data["cuda"]["devices"]
    equal([(p["kind"]) for p in devices[0]["memory_pools"]], ["default"], "pools of GPU 0")
    equal(devices[1]["memory_pools"], None, "pools of a device without a context")
    return devices[0]["memory_pools"][0]


def async_backend(version):
    with torch_program(version, ASYNC, PYTORCH_CUDA_ALLOC_CONF="backend:cudaMallocAsync") as (proc, theirs):
        data = report_json(proc.pid, expect=COMPLETE)
        pool = the_pool(data)
        equal(data["pytorch"]["state"], "cudaMallocAsync", "backend")
        for ours, name in (("used_bytes", "allocated_bytes.all.current"), ("used_high_bytes", "allocated_bytes.all.peak"),
                           ("reserved_bytes", "reserved_bytes.all.current"), ("reserved_high_bytes", "reserved_bytes.all.peak")):
            equal(pool[ours], theirs[name], f"{ours}, in PyTorch's words {name}")
        check(pool["used_bytes"] < pool["reserved_bytes"], "nothing is kept: the test has nothing to tell apart", pool)
        _, out, _ = report(proc.pid, "--width", "100")
        check("in use from the driver's pool" in out and "kept by the driver's pool" in out, "the text", out)

        data = report_json(proc.pid, "--read-only", expect=PARTIAL)
        check("backend-not-native" in diag_codes(data), "nothing says what is missing", data["diagnostics"])
        check(all(d["memory_pools"] is None for d in data["cuda"]["devices"]), "pools without asking the driver", data["cuda"])


def test_async_backend():
    for version in versions():
        async_backend(version)


# Beside PyTorch's own allocator, something else takes from the driver's pool.
BESIDE = """
import ctypes, json, sys, torch
kept = torch.empty(50 << 20, dtype=torch.uint8, device="cuda:0")
cuda, pool, threshold = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(), ctypes.c_uint64(1 << 62)
assert cuda.cuDeviceGetDefaultMemPool(ctypes.byref(pool), 0) == 0
assert cuda.cuMemPoolSetAttribute(pool, 4, ctypes.byref(threshold)) == 0
addresses = [ctypes.c_uint64() for _ in range(3)]
for address in addresses:
    assert cuda.cuMemAllocAsync(ctypes.byref(address), ctypes.c_size_t(10 << 20), None) == 0
assert cuda.cuMemFreeAsync(addresses.pop(), None) == 0
print("READY", json.dumps([20 << 20, 30 << 20]), flush=True)
sys.stdin.read()
"""


def test_pool_beside_native_backend():
    with torch_program(versions()[-1], BESIDE) as (proc, (used, reserved)):
        data = report_json(proc.pid, expect=COMPLETE)
        pool = the_pool(data)
        equal((pool["used_bytes"], pool["reserved_bytes"]), (used, reserved), "the pool")
        check(data["pytorch"]["allocators"][0]["totals"]["everything_else_bytes"] >= reserved, "everything else", data["pytorch"])
        _, out, _ = report(proc.pid, "--width", "100")
        check("of which in the driver's pools" in out and "cudaMallocAsync, 20" in out, "the text", out)


if __name__ == "__main__":
    main(globals())
