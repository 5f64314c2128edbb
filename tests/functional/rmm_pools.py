#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""RMM's real pools on the simulated device: what the report says against RMM's own pool_size() and statistics, against what its
upstream gave, and against the blocks that the program has. RMM_VERSIONS names other releases than those marked "run" in
tests/setup/rmm-versions."""
import json
import os

from core import gcore
from harness import (CACHE, COMPLETE, PARTIAL, QUICK, SETUP, SOURCE, Job, Skip, check, check_schema, equal, main, releases, report,
                     report_json, vramtap)

VERSIONS = releases("rmm", "RMM_VERSIONS")
PROGRAM = os.path.join(SOURCE, "tests", "targets", "rmm_pools.py")
ANY = (COMPLETE, PARTIAL)
MIB = 1 << 20


class Rmm(Job):
    """A process with RMM. It runs lines of Python; an expression's value is the answer."""

    def __init__(self, version, **env):
        if not os.path.exists(os.path.join(CACHE, "rmm", version, ".done-smoke")):
            raise Skip(f"RMM {version} is not set up: sh tests/setup/rmm.sh {version}")
        super().__init__(["sh", os.path.join(SETUP, "run-rmm.sh"), version, "-B", PROGRAM], ready="ready",
                         env=dict(os.environ, **{"SIMCUDA_DEVICES": "2", "SIMCUDA_MEM_MB": "4096", **env}))

    def __call__(self, line):
        return json.loads(self.ask(line))


def read(rmm, *args):
    data = report_json(rmm.pid, *args, expect=ANY)
    check_schema(data)
    return data


def pools_of(data):
    return [p for p in data["libpools"]["pools"] if p["library"] == "rmm"] if data["libpools"] else []


def only(data, device=0):
    pools = [p for p in pools_of(data) if p["device"] == device]
    equal(len(pools), 1, "pools on the device")
    return pools[0]


def spans(pieces):
    return sorted((int(p["address"], 16), p["bytes"]) for p in pieces)


def is_exact(pool, truth):
    """Every byte is a block of the program's, or free."""
    equal(pool["state"], "exact", "state")
    equal(truth["asked"], truth["sizes"], "RMM's statistics and the program")
    equal(truth["blocks"], len(truth["live"]), "RMM's statistics and the program")
    equal(pool["held_bytes"], truth["held"], "what it holds")
    equal(pool["used_bytes"], sum(size for _, size in truth["live"]), "what is in use")
    equal(spans(pool["regions"]), sorted(tuple(r) for r in truth["regions"]), "what it got from below")
    check(not any(c["in_use"] for c in pool["chunks"]) and not pool["used_chunks_known"], "RMM knows no boundaries", pool)
    tiles = sorted(spans(pool["chunks"]) + [tuple(block) for block in truth["live"]])
    for (start, size), (after, _) in zip(tiles, tiles[1:]):
        check(start + size <= after, "a free piece is in use", hex(start), hex(after))
    equal(sum(size for _, size in tiles), truth["held"], "blocks and free pieces")


def row(text, label):
    """The words of a row of the memory table after its label."""
    line = next((line.strip() for line in text.split("\n") if line.strip().startswith(label + "  ")), None)
    check(line, f"no row {label}", text)
    return line[len(label):].split()


def claimed(data, library="rmm", device=0):
    return next(d for d in data["ledger"]["devices"] if d["device"] == device)["claimed"][library]


# ---- what is right ----

def test_exact():
    for version in VERSIONS:
        with Rmm(version) as rmm:
            rmm("work = Work(64 * MIB)")
            rmm("work.run(600, 300000)")
            for option in ((), ("--read-only",), ("--no-stop",)):
                data = read(rmm, *option)
                is_exact(only(data), rmm("work.truth()"))
                rmm("work.run(50, 400000)")
            data = read(rmm)
            truth = rmm("work.truth()")
            is_exact(only(data), truth)
            equal((claimed(data)["bytes"], claimed(data)["ranges"], claimed(data)["without_memory_bytes"]),
                  (truth["held"], len(truth["regions"]), 0), "the ledger's line")


def test_grows():
    """From nothing, region by region, with free pieces at the ends of some."""
    for version in VERSIONS:
        with Rmm(version) as rmm:
            rmm("work = Work(0)")
            equal(pools_of(read(rmm)), [], "a pool that has nothing")
            rmm("[work.allocate(n * 1000003) for n in range(1, 30)]")
            rmm("[work.free() for n in range(15)]")
            truth = rmm("work.truth()")
            pool = only(read(rmm))
            check(len(truth["regions"]) > 2, "it did not grow", truth["regions"])
            is_exact(pool, truth)
            equal(pool["limit_bytes"], None, "its limit")


def test_limit():
    """It grows by half of what is left, at last in odd sizes."""
    for version in VERSIONS:
        with Rmm(version) as rmm:
            rmm("work = Work(0, maximum=128 * MIB)")
            rmm("[work.allocate(n * 1000003) for n in range(1, 14)]")
            pool, truth = only(read(rmm)), rmm("work.truth()")
            check(len(truth["regions"]) > 1, "it did not grow", truth["regions"])
            is_exact(pool, truth)
            equal(pool["limit_bytes"], 128 * MIB, "its limit")


def test_all_in_use_and_all_free():
    for version in VERSIONS:
        with Rmm(version) as rmm:
            rmm("work = Work(16 * MIB)")
            is_exact(only(read(rmm)), rmm("work.truth()"))
            rmm("work.allocate(16 * MIB)")
            pool = only(read(rmm))
            is_exact(pool, rmm("work.truth()"))
            equal((pool["used_bytes"], pool["chunks"]), (16 * MIB, []), "all of it")


def test_text():
    for version in VERSIONS:
        with Rmm(version) as rmm:
            rmm("work = Work(512 * MIB, maximum=1024 * MIB)")
            rmm("[work.allocate(100 * MIB) for _ in range(3)]")
            _, text, _ = report(rmm.pid, expect=ANY)
            equal(row(text, "in use by RMM"), ["300", "MiB", "7", "%"], "the row of what is in use, without a number of blocks")
            equal(row(text, "cached by RMM")[:3], ["212", "MiB", "1"], "the row of what is free")
            check("RMM: may hold 1.00 GiB" in text, "the limit", text)


def test_many_pools():
    """Two of one device, and one of another; two that are no resource of any device; one that is gone."""
    for version in VERSIONS:
        with Rmm(version) as rmm:
            rmm("works = [Work(8 * MIB, seed=1), Work(24 * MIB, seed=2), Work(40 * MIB, seed=3)]")
            rmm("[work.run(300, 100000) for work in works]")
            rmm("mr.set_current_device_resource(works[0].top)")
            rmm("rmm._cuda.gpu.setDevice(1)")
            rmm("other = Work(12 * MIB, seed=4)")
            rmm("other.run(200, 50000)")
            rmm("gone = works.pop(1)")
            rmm("[gone.free(at) for at in list(gone.live)]")
            rmm("del gone")
            data = read(rmm)
            truths = rmm("[work.truth() for work in works]")
            equal(len(pools_of(data)), 3, "pools")
            for truth in truths:
                first = min(address for address, _ in truth["regions"])
                is_exact(next(p for p in pools_of(data) if spans(p["regions"])[0][0] == first), truth)
            is_exact(only(data, 1), rmm("other.truth()"))
            equal((claimed(data)["asked_bytes"], claimed(data, device=1)["asked_bytes"]),
                  (sum(t["held"] for t in truths), rmm("other.truth()")["held"]), "the ledger's lines")


def test_threads():
    """Pools that threads made are in their arenas of malloc()."""
    for version in VERSIONS:
        with Rmm(version) as rmm:
            rmm("import threading")
            rmm("works = []")
            rmm("threads = [threading.Thread(target=lambda: works.append(Work(4 * MIB))) for _ in range(4)]")
            rmm("[thread.start() for thread in threads]")
            rmm("[thread.join() for thread in threads]")
            equal([p["held_bytes"] for p in pools_of(read(rmm))], [4 * MIB] * 4, "pools")


def test_core():
    with Rmm(VERSIONS[-1], SIMCUDA_MEM_MB="256", SIMCUDA_DEVICES="1", SIMCUDA_CTX_MB="16") as rmm:
        rmm("work = Work(16 * MIB)")
        rmm("work.run(200, 50000)")
        truth = rmm("work.truth()")
        with gcore(rmm.pid) as core:
            _, out, _ = vramtap("report", "--json", "-", f"--core={core}", expect=ANY, timeout=120)
            is_exact(only(json.loads(out)), truth)


# ---- pools within pools, and memory that is not the device's ----

def test_pool_of_a_pool():
    for version in VERSIONS:
        with Rmm(version) as rmm:
            rmm("outer = Work(256 * MIB)")
            rmm("inner = Work(64 * MIB, below=Below(outer.pool))")
            rmm("inner.run(200, 100000)")
            data = read(rmm)
            pools = {p["held_bytes"]: p for p in pools_of(data)}
            equal(sorted(pools), [64 * MIB, 256 * MIB], "pools")
            is_exact(pools[64 * MIB], rmm("inner.truth()"))
            equal(pools[256 * MIB]["used_bytes"], 64 * MIB, "what the outer one has handed out")
            equal((claimed(data)["asked_bytes"], claimed(data)["without_memory_bytes"]), (256 * MIB, 0), "the ledger's line")
            _, text, _ = report(rmm.pid, expect=ANY)
            equal((row(text, "in use by RMM")[:2], row(text, "cached by RMM")[:2]), (["64.0", "MiB"], ["192", "MiB"]), "rows")


def test_cupy_on_rmm():
    """CuPy's arrays in RMM's pool, then CuPy's own pool there: each byte is once in the ledger."""
    cupy = (releases("cupy", "CUPY_VERSIONS") or [None])[-1]
    if not os.path.exists(os.path.join(CACHE, "cupy", cupy or "none", ".done-smoke")):
        raise Skip("CuPy is not set up")
    for version in VERSIONS:
        if version.startswith("24."):
            continue  # its package "cuda" hides what CuPy needs
        with Rmm(version, RMM_TEST_CUPY=cupy) as rmm:
            rmm("import cupy, rmm.allocators.cupy")
            rmm("below = Below()")
            rmm("pool = mr.PoolMemoryResource(below.resource, initial_pool_size=256 * MIB)")
            rmm("mr.set_current_device_resource(pool)")
            rmm("cupy.cuda.set_allocator(rmm.allocators.cupy.rmm_cupy_allocator)")
            arrays = rmm("keep.update({i: cupy.ndarray((1000, i), dtype='f4') for i in range(1, 30)})")
            arrays = rmm("sum((a.nbytes + 255) // 256 * 256 for a in keep.values())")
            equal(only(read(rmm))["used_bytes"], arrays, "CuPy's arrays")
            rmm("above = cupy.cuda.MemoryPool(rmm.allocators.cupy.rmm_cupy_allocator)")
            rmm("blocks = [above.malloc(i * MIB) for i in range(1, 9)]")
            rmm("blocks.pop(3) and None")
            total, used = rmm("[above.total_bytes(), above.used_bytes()]")
            data = read(rmm)
            equal(only(data)["used_bytes"], arrays + total, "what CuPy has of RMM's")
            theirs = [p for p in data["libpools"]["pools"] if p["library"] == "cupy"]
            equal([(p["held_bytes"], p["used_bytes"]) for p in theirs], [(total, used)], "CuPy's pool")
            equal((claimed(data)["bytes"], claimed(data)["ranges"]), (256 * MIB, 1), "RMM's line")
            equal((claimed(data, "cupy")["bytes"], claimed(data, "cupy")["without_memory_bytes"]), (0, 0), "CuPy's line")
            _, text, _ = report(rmm.pid, expect=ANY)
            check("by CuPy" not in text and "of CuPy's" not in text, "the same memory twice", text)


def test_other_memory():
    """Managed and pinned memory are pools, but no memory of the device."""
    for version in VERSIONS:
        with Rmm(version) as rmm:
            rmm("managed = mr.PoolMemoryResource(mr.ManagedMemoryResource(), initial_pool_size=16 * MIB)")
            rmm("work = Work(8 * MIB)")
            rmm("work.allocate(5 * MIB)")
            data = read(rmm)
            equal(sorted(p["held_bytes"] for p in pools_of(data)), [8 * MIB, 16 * MIB], "pools")
            equal((claimed(data)["asked_bytes"], claimed(data)["without_memory_bytes"]), (8 * MIB, 0), "the ledger's line")
            _, text, _ = report(rmm.pid, expect=ANY)
            check("without memory" not in text, "managed memory is missing", text)
            equal(row(text, "in use by RMM")[:2], ["5.00", "MiB"], "the row of what is in use")


# ---- what cannot be known, and what is damaged ----

# Addresses of the words of a pool, by the address that the report has for it.
WORDS = """
import ctypes
at = lambda address: ctypes.c_uint64.from_address(address)
def nodes(node): return [node] + nodes(at(node + 16).value) + nodes(at(node + 24).value) if node else []
def links(head, link): return [] if link == head else [link] + links(head, at(link).value)
def sizes(pool): return next(pool + o for o in range(152, 240, 8) if at(pool + o).value == work.pool.pool_size())
def lists(pool): return nodes(at(pool + 16).value)
def objects(pool): return [(n, 80) for n in lists(pool) + nodes(at(sizes(pool) + 40).value)] + free(pool)
def free(pool): return [(link, 40) for n in lists(pool) for link in links(n + 56, at(n + 56).value)[:2]]
def words(pool): return [*range(pool + 8, sizes(pool) + 72, 8)] + [a + o for a, size in objects(pool) for o in range(0, size, 8)]
"""
HOSTILE = ("0", "8", "0x414141414141", "(1 << 64) - 1", "1 << 63", "place")


def test_damaged():
    """Words of its objects overwritten while it stands there: never a crash, and nothing exact that is not so."""
    for version in VERSIONS[-1:] if QUICK else VERSIONS:  # each is a report for each word
        with Rmm(version) as rmm:
            rmm("work = Work(0, streams=3)")
            rmm("work.run(40, 3 * MIB)")
            for line in WORDS.strip().split("\n"):
                rmm(line)
            truth, refused = rmm("work.truth()"), 0
            places = rmm(f"words({int(only(read(rmm))['object'], 16)})")
            check(len(places) > 60, "too few places", len(places))
            for n, place in enumerate(places):
                value = HOSTILE[n % len(HOSTILE)].replace("place", hex(place))
                rmm(f"was = at({place}).value; at({place}).value = {value}")
                data = report_json(rmm.pid, "--read-only", "--no-owners", expect=ANY)
                rmm(f"at({place}).value = was")
                what = f"{place:#x}, place {n}, {value}"
                refused += not any(p["state"] == "exact" for p in pools_of(data))
                for pool in pools_of(data):
                    equal(pool["held_bytes"], truth["held"], what)
                    if pool["used_bytes"] is None:
                        equal(pool["regions"], [], what)
                    else:
                        equal(spans(pool["regions"]), sorted(tuple(r) for r in truth["regions"]), what)
                        equal(pool["used_bytes"], sum(s for _, s in truth["live"]), what)
                    if pool["state"] != "exact":
                        equal(pool["chunks"], [], what)
            check(refused > len(places) / 3, "too little is refused", refused, len(places))
            is_exact(only(read(rmm)), truth)


def test_locked():
    """A thread that has its lock is about to change it, so what is in use is not known."""
    for version in VERSIONS:
        with Rmm(version) as rmm:
            rmm("work = Work(16 * MIB)")
            rmm("work.run(50, 50000)")
            rmm("import ctypes")
            lock = int(only(read(rmm))["object"], 16) + 104
            rmm(f"lock = ctypes.c_int.from_address({lock})")
            equal(rmm("lock.value"), 0, "its lock")
            rmm("lock.value = 1")
            pool = only(read(rmm))
            equal((pool["state"], pool["held_bytes"], pool["chunks"]), ("changing", 16 * MIB, []), "the pool")
            _, text, _ = report(rmm.pid, expect=ANY)
            check("in use by RMM" not in text and row(text, "held by RMM")[:2] == ["16.0", "MiB"], "a number that is not known", text)
            rmm("lock.value = 0")
            is_exact(only(read(rmm)), rmm("work.truth()"))


def test_while_it_runs():
    """Each answer is of a moment, or says that it is not."""
    for version in VERSIONS:
        with Rmm(version) as rmm:
            rmm("work = Work(64 * MIB)")
            rmm("work.run(400, 200000)")
            rmm("import threading, time")
            rmm("busy = lambda: [(work.run(50, 200000), time.sleep(work.random.choice((0, 0.003)))) for _ in iter(int, 1)]")
            rmm("threading.Thread(target=busy, daemon=True).start()")
            exact = seen = 0
            for _ in range(10):
                for pool in pools_of(report_json(rmm.pid, "--read-only", "--no-owners", expect=ANY)):
                    seen += 1
                    held = sum(r["bytes"] for r in pool["regions"])
                    if pool["used_bytes"] is not None:
                        equal(held, pool["held_bytes"], "what it holds")
                    if pool["state"] == "exact":
                        exact += 1
                        equal(sum(c["bytes"] for c in pool["chunks"]) + pool["used_bytes"], held, "free and in use")
                    else:
                        equal(pool["chunks"], [], "blocks of a pool that is not exact")
            check(seen > 5, "not seen", seen)
            print(f"of 10 looks {seen} saw the pool, {exact} were exact", flush=True)


if __name__ == "__main__":
    main(globals())
