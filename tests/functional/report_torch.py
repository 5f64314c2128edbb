#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The report of real PyTorch allocators on the simulated device against the library's own snapshot, block for block."""
import json
import os
import random
import subprocess
import time

import torch_truth
from harness import (CACHE, COMPLETE, PARTIAL, QUICK, RUN_SIM, SOURCE, Skip, check, diag_codes, equal, main, report,
                     report_json, schema_errors, scratch, target)
from nursery import Nursed


def versions():
    with open(os.path.join(SOURCE, "tests", "setup", "torch-versions"), encoding="ascii") as file:
        return [line.strip() for line in file if line.strip() and not line.startswith("#")]


def usual_versions():
    """For what takes long and is alike in all: the newest; the matrix of releases has others, and VRAMTAP_SOAK all."""
    return versions()[-1:] if QUICK else versions()


class Driver:
    """c10_driver with the libc10_cuda.so of one PyTorch version."""

    def __init__(self, version, **env):
        if not os.path.exists(os.path.join(CACHE, "torch", version, "c10_driver")):
            raise Skip(f"PyTorch {version} is not set up: sh tests/setup/torch.sh {version}")
        self.control = scratch("control")
        self.context = target(["sh", RUN_SIM, version, "--", "c10_driver"], ready="ok ready", bufsize=0,
                              env=dict(os.environ, SIMCUDA_CTL=self.control, **env))

    def __enter__(self):
        self.proc = self.context.__enter__()
        self.pid = int(self("pid").split()[-1])
        return self

    def __exit__(self, *exc):
        return self.context.__exit__(*exc)

    def __call__(self, command):
        self.proc.stdin.write(command.encode() + b"\n")
        answer = self.proc.stdout.readline().decode().strip()
        check(answer.startswith("ok"), f"the driver's answer to {command!r}: {answer!r}")
        return answer

    def snapshot(self):
        path = scratch("snapshot")
        self(f"snapshot {path}")
        return torch_truth.of_driver_snapshot(path)

    def contexts_created(self):
        with open(self.control, "rb") as file:
            return int.from_bytes(file.read(16)[12:16], "little")


def compare(driver, *args, expect=COMPLETE, method="inside"):
    """One report must equal the library's snapshot and statistics; returns the report."""
    theirs, stats = driver.snapshot()
    data = report_json(driver.pid, *args, expect=expect)
    torch_truth.same_as_snapshot(data, theirs, stats, method)
    return data


def for_each_version(test):
    for version in versions():
        test(version)


def random_sequences(version, expandable):
    with Driver(version) as driver:
        driver(f"expandable {'on' if expandable else 'off'}")
        for seed in range(5 if QUICK else 100):
            driver(f"device {seed % 2}")
            driver(f"random {seed} 2000")
            compare(driver)
            if seed == 0:
                compare(driver, "--read-only", expect=(COMPLETE, PARTIAL), method="outside")


def test_random_sequences():
    for_each_version(lambda version: random_sequences(version, expandable=False))


def test_random_sequences_with_expandable_segments():
    for_each_version(lambda version: random_sequences(version, expandable=True))


def private_and_pending(version):
    with Driver(version) as driver:
        driver("alloc 100 5000")
        driver("private 20 100000")
        driver("private 3 30000000")
        driver("stream 1")
        driver("pending 7 2000000")
        driver("stream 0")
        driver("alloc 5 30000000")
        driver("free 40")
        data = compare(driver)
        states = [b["state"] for a in data["pytorch"]["allocators"] for s in a["segments"] for b in s["blocks"]]
        check("awaiting-free" in states, "no block awaits its free")
        check(any(s["private_pool"] for a in data["pytorch"]["allocators"] for s in a["segments"]), "no private pool")
        compare(driver, "--read-only", expect=(COMPLETE, PARTIAL), method="outside")


def test_private_pools_and_pending_frees():
    for_each_version(private_and_pending)


def test_no_context_is_created():
    """Only device 0 is in use: asking about memory must not create a context on device 1."""
    version = versions()[0]
    with Driver(version) as driver:
        driver("alloc 1 1000")
        before = driver.contexts_created()
        data = report_json(driver.pid)
        devices = data["cuda"]["devices"]
        equal(driver.contexts_created(), before, "contexts created")
        equal([d["context_active"] for d in devices], [True, False], "active contexts")
        equal([d["context_threads"] for d in devices], [[driver.pid], []], "threads that hold a context")
        check(devices[0]["memory"] and not devices[1]["memory"], "memory of the devices", devices)
        memory = devices[0]["memory"]
        equal(memory["used_bytes"] + memory["free_bytes"], memory["total_bytes"], "used + free")
        check(memory["used_bytes"] >= data["pytorch"]["allocators"][0]["totals"]["reserved_bytes"], "used", memory)


def every_thread_asked(pid):
    """A report for which all threads stopped. On a busy machine one may get no processor to stop on; the report then says so, and
    which threads hold a context is not known."""
    for _ in range(20):
        data = report_json(pid, expect=(COMPLETE, PARTIAL))
        if "ran" not in diag_codes(data):
            return data
        equal([d["context_threads"] for d in data["cuda"]["devices"]], [None, None], "threads that hold a context, not all asked")
    raise AssertionError("in no report all threads stopped")


def test_context_threads():
    """Wherever the driver's pthread key lies, the threads that hold a context are found."""
    for keys in ("0", "20", "40", "200"):
        with Driver(versions()[0], SIMCUDA_KEYS=keys) as driver:
            driver("alloc 1 1000")
            # The second thread finds the cache filled: it may never call the driver to allocate.
            for _ in range(2):
                driver("busy 1000")
                devices = every_thread_asked(driver.pid)["cuda"]["devices"]
                held = devices[0]["context_threads"]
                check(held and driver.pid in held and len(held) == 2, f"threads that hold a context, {keys} keys before", held)
                equal(devices[1]["context_threads"], [], "threads that hold a context of an unused device")
                driver("idle")


def lock_held(version):
    with Driver(version) as driver:
        driver("alloc 1000 3000")
        theirs, _ = driver.snapshot()
        driver("holdlock")
        data = report_json(driver.pid, expect=(COMPLETE, PARTIAL))
        check("lock-held" in diag_codes(data), "no diagnostic says that the lock is held", data["diagnostics"])
        allocator = data["pytorch"]["allocators"][0]
        owner = allocator["lock"]["owner_tid"]
        check(owner in [t["tid"] for t in data["threads"]], "the holder is no thread of the process", owner)
        stack = next(t for t in data["threads"] if t["tid"] == owner)["stack"]["frames"]
        check(any("cudaMalloc" in (f["function"] or "") for f in stack), "the holder's stack", stack)
        ours = torch_truth.of_report(data)
        torch_truth.same_blocks([b for b in ours if b[5] == "allocated"], [b for b in theirs if b[5] == "allocated"],
                                "with the lock held")
        check(data["cuda"]["devices"][0]["memory"], "no cudaMemGetInfo with the lock held")
        driver("unlock")
        compare(driver)


def test_lock_held():
    for_each_version(lock_held)


# Makes and gives back segments of changing size all the time.
RESERVE_AND_RELEASE = """
import itertools, threading, time, torch
kept = torch.zeros(1000, device="cuda:0")
def churn():
    for i in itertools.count():
        torch.empty((40 + i % 7 * 20) << 20, dtype=torch.uint8, device="cuda:0")
        time.sleep(0.0005)
        torch.cuda.empty_cache()
threading.Thread(target=churn, daemon=True).start()
print("READY", flush=True)
time.sleep(1 << 30)
"""


def test_everything_else_is_of_one_moment():
    """What the device has in use beside PyTorch is the context, always the same here: or it is not said."""
    version = versions()[0]
    if not os.path.exists(os.path.join(CACHE, "torch", version, "site", "torch")):
        raise Skip(f"the Python part of PyTorch {version} is not set up")

    def everything_else(pid):
        data = report_json(pid, "--no-owners", expect=(COMPLETE, PARTIAL))
        totals = data["pytorch"]["allocators"][0]["totals"]
        return totals and totals["everything_else_bytes"], data

    with Driver(version) as driver:
        driver("alloc 1 1000")
        truth, _ = everything_else(driver.pid)
        check(truth, "a quiet process has nothing but PyTorch's memory", truth)
    with target(["sh", RUN_SIM, version, "--", "python", "-c", RESERVE_AND_RELEASE], ready="READY") as proc:
        for _ in range(20 if QUICK else 200):
            got, data = everything_else(proc.pid)
            check(got in (None, truth), "everything else", got, "is not", truth)
            check(got or data["completeness"] == "partial", "not known, but called complete", data["diagnostics"])


def test_wrong_numbers_are_never_printed():
    """While other threads allocate and free, a report is exact, or says that it is not; inside it holds the lock."""
    rng = random.Random(7)
    for version in versions():
        with Driver(version) as driver:
            driver("alloc 2000 2000")
            driver("busy 0")
            driver("busy 50")
            locks = []
            for i in range(20 if QUICK else 500):
                data = report_json(driver.pid, *(["--read-only"] if i % 4 == 3 else []), expect=(COMPLETE, PARTIAL))
                for allocator in data["pytorch"]["allocators"]:
                    if allocator["result"] == "complete":
                        torch_truth.totals_agree([allocator])
                        current = allocator["statistics"]["allocated_bytes"]["current"]
                        equal(allocator["totals"]["allocated"]["bytes"], current, "sum of the blocks and statistic")
                    else:
                        check(data["completeness"] == "partial", "not exact, but called complete", allocator["result"])
                    locks.append(allocator["lock"]["state"])
                    if locks[-1] == "taken":
                        equal(allocator["result"], "complete", f"walk under the lock ({allocator['why']})")
                time.sleep(rng.random() * 0.01)
            print(f"  PyTorch {version}: the lock was {', '.join(f'{s} {locks.count(s)} times' for s in sorted(set(locks)))}")
            check("taken" in locks, "the lock was never taken", locks)
            driver("idle")
            compare(driver)


def test_allocator_not_initialised_and_no_blocks():
    for version in versions():
        with Driver(version) as driver:
            data = report_json(driver.pid)
            check(not torch_truth.of_report(data), "blocks before the first allocation")


class Python(Nursed):
    """torch_train.py with full PyTorch of one version."""

    def __init__(self, version, hang, *args, **env):
        self.path = scratch("snapshot.json")
        command = [os.path.join(SOURCE, "tests", "targets", "torch_train.py"), "--hang", hang, "--snapshot", self.path, *args]
        super().__init__(version, command, env=dict(os.environ, SIMCUDA_CTL=scratch("control"), **env))

    def __enter__(self):
        super().__enter__()
        with open(self.path, encoding="utf-8") as file:
            snapshot = json.load(file)
        self.blocks = torch_truth.of_python_snapshot(snapshot["segments"])
        return self


def functions(data, kind=None):
    return [f["function"] or "" for t in data["threads"] for f in t["stack"]["frames"] if kind in (None, f["kind"])]


def full_pytorch(version, hang, word, *args):
    with Python(version, hang, *args) as python:
        data = report_json(python.proc.pid, expect=(COMPLETE, PARTIAL))
        if hang != "free":  # there the cache is being emptied, and its lock is held
            equal(data["completeness"], "complete", f"a process that hangs in {hang} ({data['diagnostics']})")
            ours, theirs = torch_truth.of_report(data), python.blocks
            if hang == "oom":  # the cache was emptied for the failing request, after the snapshot
                ours, theirs = ([b for b in blocks if b[5] == "allocated"] for blocks in (ours, theirs))
            torch_truth.same_blocks(ours, theirs, f"hang {hang}")
        equal(data["versions"]["pytorch"].split("+")[0], version, "version of PyTorch")
        check(any(word in f for f in functions(data)), f"no {word} in any stack of a process that hangs in {hang}",
              sorted(set(functions(data)))[:80])
        check("main" in functions(data, "python"), "no Python frame of main", functions(data, "python"))
        check(not any(t["stack"]["merge_uncertain"] for t in data["threads"]), "a merge was uncertain")


HANGS = (("sleep", "sleep"), ("sync", "Synchronize"), ("free", "cudaFree"), ("lock", "main"), ("queue", "get"), ("event", "main"),
         ("oom", "main"), ("gil", "main"))


def test_full_pytorch():
    for version in versions():
        for hang, word in HANGS if not QUICK or version == versions()[-1] else HANGS[:3]:
            full_pytorch(version, hang, word)


def test_full_pytorch_with_100_threads():
    with Python(versions()[0], "sync", "--threads", "100") as python:
        data = report_json(python.proc.pid)
        check(len(data["threads"]) > 100, "threads", len(data["threads"]))
        _, out, _ = report(python.proc.pid, "--width", "80", expect=COMPLETE)
        check(len(out.splitlines()) < 200, "100 equal threads are not grouped", len(out.splitlines()))


def test_schema():
    with Python(versions()[-1], "sync") as python:
        data = report_json(python.proc.pid)
        equal(schema_errors(data), [], "what the schema does not allow")
        equal(data["pytorch"]["recorded"], None, "backtraces that were not recorded")
    with subprocess.Popen(["sleep", "60"]) as sleep:
        equal(schema_errors(report_json(sleep.pid, expect=(COMPLETE, PARTIAL))), [], "what the schema does not allow")
        sleep.kill()


if __name__ == "__main__":
    main(globals())
