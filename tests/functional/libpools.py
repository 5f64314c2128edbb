#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Memory pools of other libraries. XLA's real allocator, of JAX's own plugin (tests/targets/xla_bfc.cc), over invented addresses and over
those of the simulated device: what the report says against the allocator's own GetStats() and against what the program allocated."""
import json
import os
import re

from core import gcore
from harness import CACHE, COMPLETE, PARTIAL, Job, Skip, check, check_schema, equal, main, releases, report, report_json, vramtap

MIB = 1 << 20
LIMIT = 1 << 30
VERSIONS = releases("jax", "JAX_VERSIONS")
# AllocatorStats, by word.
STATS = {"allocations": 0, "used_bytes": 1, "peak_bytes": 2, "limit_bytes": 4}


class Bfc(Job):
    """XLA's allocator of a release."""

    def __init__(self, version, device=False, name="GPU_0_bfc", growth=1, fixed=False):
        where = os.path.join(CACHE, "jax", version)
        if not os.path.exists(os.path.join(where, "xla_bfc")):
            raise Skip(f"JAX's plugin {version} is not set up: sh tests/setup/jax.sh {version}")
        with open(os.path.join(where, "symbols"), encoding="ascii") as file:
            self.symbols = file.read()
        self.first = f"make {name} {LIMIT} {growth}"
        env = dict(os.environ, LD_LIBRARY_PATH=os.path.join(CACHE, "simcuda"), SIMCUDA_MEM_MB="8192")
        super().__init__([*(["setarch", "-R"] if fixed else []), os.path.join(where, "xla_bfc"), os.path.join(where, "xla_cuda_plugin.so"), *(["cuda"] if device else [])],
                         ready=None, env=env)

    def __enter__(self):
        super().__enter__()
        self.start(self.symbols.strip())
        ready = self.answer()
        check(ready.startswith("ready"), "the plugin cannot be loaded", ready)
        self.object = self.ask(self.first)
        return self

    def __call__(self, *words):
        return self.ask(" ".join(str(w) for w in words))

    def stats(self):
        words = [int(w) for w in self("stats").split()]
        held = next((words[at] for at in (11, 12) if words[at + 1] == 1), None)  # optional; one word further since 0.11
        return dict({key: words[at] for key, at in STATS.items()}, held_bytes=held)

    def alive(self):
        """What the program has: size by address."""
        return {int(at, 16): int(size) for at, size in (pair.split(":") for pair in self("list").split())}


def pools(data, library="xla"):
    check_schema(data)
    return [p for p in (data["libpools"] or {"pools": []})["pools"] if p["library"] == library]


def the_pool(bfc, *args, expect=(COMPLETE,)):
    found = [p for p in pools(report_json(bfc.pid, *args, expect=expect)) if p["object"] == bfc.object]
    equal(len(found), 1, "the allocator")
    return found[0]


def agrees(bfc, pool):
    """All that the report says of it is what the allocator and the program say."""
    equal(pool["state"], "exact", "state")
    stats = bfc.stats()
    for key in ("used_bytes", "peak_bytes", "limit_bytes"):
        equal(pool[key], stats[key], key)
    equal(pool["held_bytes"], sum(r["bytes"] for r in pool["regions"]), "regions")
    if stats["held_bytes"] is not None:
        equal(pool["held_bytes"], stats["held_bytes"], "held_bytes")
    used = {int(c["address"], 16): c["requested_bytes"] for c in pool["chunks"] if c["in_use"]}
    equal(used, bfc.alive(), "what is alive")
    equal(sum(c["bytes"] for c in pool["chunks"] if c["in_use"]), pool["used_bytes"], "sum of what is in use")
    equal(sum(c["bytes"] for c in pool["chunks"]), pool["held_bytes"], "sum of all chunks")


def each(test):
    for version in VERSIONS:
        test(version)


def test_agrees():
    def one(version):
        with Bfc(version) as bfc:
            for seed in range(1, 6):
                bfc("random", seed, 400)
                agrees(bfc, the_pool(bfc))
            for addr in list(bfc.alive()):
                bfc("free", hex(addr))
            agrees(bfc, the_pool(bfc))
    each(one)


def test_preallocated():
    """One region from the beginning, most of it a hole."""
    def one(version):
        with Bfc(version, growth=0) as bfc:
            bfc("alloc", 5 * MIB)
            pool = the_pool(bfc)
            agrees(bfc, pool)
            equal(len(pool["regions"]), 1, "regions")
            _, out, _ = report(bfc.pid, "--width", "100")
            check(re.search(r"XLA +GPU_0_bfc +1\.00 GiB +5\.00 MiB +5\.00 MiB +1\.00 GiB", out), "the table", out)
    each(one)


def test_host():
    def one(version):
        with Bfc(version, name="xla_gpu_host_bfc") as bfc:
            bfc("alloc", 3 * MIB)
            pool = the_pool(bfc)
            agrees(bfc, pool)
            equal((pool["host"], pool["device"]), (True, None), "it is memory of the host")
    each(one)


def test_traced():
    """What a chunk is for, since 0.11."""
    def one(version):
        with Bfc(version) as bfc:
            addr = bfc("traced", 2 * MIB, "jit_multiply")
            if addr == "0":
                return
            bfc("traced", 4 * MIB, "jit_\x1b[31mred")
            bfc("alloc", MIB)
            notes = {c["bytes"]: c["for"] for c in the_pool(bfc)["chunks"] if c["in_use"]}
            equal(notes, {2 * MIB: "jit_multiply (xla.execute)", 4 * MIB: "jit_\x1b[31mred (xla.execute)", MIB: None}, "notes")
            _, out, _ = report(bfc.pid, "--width", "100")
            check("jit_multiply (xla.execute)" in out and "\x1b[31m" not in out, "the groups", out)
    each(one)


def test_changing():
    """While a thread allocates and frees all the time, the numbers are the allocator's own, of a moment or told as changing."""
    def one(version):
        with Bfc(version) as bfc:
            bfc("random", 7, 2000)
            before = bfc.stats()
            bfc("churn")
            for _ in range(5):
                pool = the_pool(bfc, expect=(COMPLETE, PARTIAL))
                check(pool["state"] in ("exact", "changing"), "state", pool["state"])
                check(0 <= pool["used_bytes"] - before["used_bytes"] <= 106 << 10, "in use", pool["used_bytes"], before)
                if pool["state"] == "exact":
                    equal(sum(c["bytes"] for c in pool["chunks"] if c["in_use"]), pool["used_bytes"], "sum of what is in use")
                else:
                    equal(pool["chunks"], [], "chunks of no moment")
            bfc("rest")
            agrees(bfc, the_pool(bfc))
    each(one)


def from_a_core(bfc):
    with gcore(bfc.pid) as core:
        code, out, err = vramtap("report", "--json", "-", "--core", core)
        check(code in (COMPLETE, PARTIAL), "the core", code, err)
        found = [p for p in pools(json.loads(out)) if p["object"] == bfc.object]
        equal(len(found), 1, "the allocator in the core")
        agrees(bfc, found[0])


def test_ways():
    """From outside only, without a stop, and from a core."""
    def one(version):
        for fixed in (False, True):  # where addresses are fixed, the heap follows the program's data without a gap
            with Bfc(version, fixed=fixed) as bfc:
                bfc("random", 3, 500)
                for way in ("--read-only", "--no-stop"):
                    agrees(bfc, the_pool(bfc, way, expect=(COMPLETE, PARTIAL)))
                from_a_core(bfc)
    each(one)


def test_ledger():
    """Its regions claim what the driver knows: nothing is left over."""
    def one(version):
        with Bfc(version, device=True) as bfc:
            bfc("random", 5, 800)
            data = report_json(bfc.pid)
            pool = pools(data)[0]
            agrees(bfc, pool)
            equal(pool["device"], 0, "device")
            line = data["ledger"]["devices"][0]
            equal((line["claimed"]["xla"]["bytes"], line["device_memory"]["bytes"]), (pool["held_bytes"], 0), "claimed, raw")
            equal(line["claimed"]["xla"]["without_memory_bytes"], 0, "without memory")
            equal({r["claimed_by"] for r in data["ledger"]["ranges"]}, {"xla"}, "who claims the ranges")
            _, out, _ = report(bfc.pid, "--width", "100", "--ranges")
            check(re.search(r"GPU 0: \S+ \S+ free; XLA uses \S+ MiB and caches \S+ MiB, largest hole", out), "the headline", out)
            check("PyTorch" not in out, "a process without PyTorch", out)
            check(re.search(r"^  in use by XLA  +[0-9.]+ MiB", out, re.M) and re.search(r"^  cached by XLA +[0-9.]+ MiB", out, re.M)
                  and "raw cudaMalloc" not in out.split("Allocations of the driver", maxsplit=1)[0], "the table", out)
    each(one)


def test_without():
    """A process without such a library has none, and it costs nothing."""
    with Job(["python3", "-c", "print('READY', flush=True); input()"]) as job:
        data = report_json(job.pid)
        equal(data["libpools"], None, "pools")


if __name__ == "__main__":
    main(globals())
