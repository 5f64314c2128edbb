#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Cores of the tests' own targets, for fuzz_report: one that has PyTorch, one that has CuPy, and so on. A core is made by gdb's gcore,
and stays in the directory that is named; those that are there are not made again. What is not set up here is left out, and said.

usage: VRAMTAP_BUILD_DIR=BUILD cores.py DIRECTORY [NAME...]"""
import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "functional"))
import torch_history  # noqa: E402
import ask_jax  # noqa: E402
import asyncio_tasks  # noqa: E402
import core  # noqa: E402
import cupy_owners  # noqa: E402
import libpools  # noqa: E402
import owners  # noqa: E402
import python_frames  # noqa: E402
import recorder_launches  # noqa: E402
import recorder_truth  # noqa: E402
import report_pinned  # noqa: E402
import report_torch  # noqa: E402
import rmm_pools  # noqa: E402
import nccl_memory  # noqa: E402  (after that: it makes targets of this name found)
from harness import SOURCE, Skip, scratch, target  # noqa: E402

ROOM = 20 << 30  # a core takes up to 5 GiB before its zeros are left out
TARGETS = os.path.join(SOURCE, "tests", "targets")


@contextlib.contextmanager
def owned(version, state):
    with owners.job(version, state) as program:
        yield program.pid


@contextlib.contextmanager
def history(version):
    with torch_history.simulated(version, "all") as job:
        yield job.pid


@contextlib.contextmanager
def pinned(version):
    with report_pinned.Pinned(version, SIMCUDA_DEVICES="1", SIMCUDA_MEM_MB="512") as job:
        yield job.pid


@contextlib.contextmanager
def recorded(version):
    with recorder_truth.Recorded(version, env={"SIMCUDA_MEM_MB": "512"}) as job:
        recorder_truth.record(job.pid, "on", "--launches", expect=(0, 1, 2))
        job("places", 3)
        yield job.pid


@contextlib.contextmanager
def launches():
    with recorder_launches.Launches() as job:
        recorder_launches.on(job)
        a, b = job.stream(), job.stream()
        job.do("runtime", a, 2)
        job.do("ex", b, 1, "_Z7mangledIiEvT_")
        job("value", b)
        job("host", 1)
        yield job.pid


@contextlib.contextmanager
def cupy(version):
    with cupy_owners.CuPy(version, SIMCUDA_DEVICES="1", SIMCUDA_MEM_MB="1024") as job:
        job.planted()
        yield job.pid


@contextlib.contextmanager
def rmm(version):
    with rmm_pools.Rmm(version, SIMCUDA_DEVICES="1", SIMCUDA_MEM_MB="1024") as job:
        job("work = Work(16 * MIB, maximum=256 * MIB)")
        job("[work.allocate(n * 1000003) for n in range(1, 14)]")
        job("[work.free() for n in range(7)]")
        yield job.pid


@contextlib.contextmanager
def xla(version):
    with libpools.Bfc(version) as bfc:
        bfc("random", 7, 1500)
        for size in (100, 5000, 70000, 1 << 20):
            bfc("alloc", size)
        bfc("traced", 2 << 20, "jit_multiply")
        yield bfc.pid


@contextlib.contextmanager
def jax(version):
    ask_jax.PROGRAM = os.path.join(TARGETS, "jax_owners.py")
    with ask_jax.Jax(version) as job:
        yield job.pid


@contextlib.contextmanager
def nccl(size):
    with nccl_memory.Nccl(size) as job:
        ranges = nccl_memory.read(job)["ledger"]["ranges"]
        yield job.proc.pid, [(int(r["address"], 16), r["bytes"]) for r in ranges]


@contextlib.contextmanager
def asyncio(python):
    with asyncio_tasks.program(python, "idle") as proc:
        yield proc.pid


@contextlib.contextmanager
def program(*argv):
    with target(list(argv), ready="ready") as proc:
        time.sleep(0.3)
        yield proc.pid


def interpreters():
    """One of each release: path by version."""
    found = {}
    for path, (version, free) in sorted(python_frames.INTERPRETERS.items()):
        found.setdefault(("%d%d" % version[:2]) + "t" * free, (version, path))
    return found


def wanted():
    """Context managers that give a pid, by name."""
    all_of_them = {}
    for version in report_torch.versions():
        for state in ("after_loss", "in_backward"):
            all_of_them[f"torch-{version}-{state}"] = (owned, version, state)
        all_of_them[f"torch-{version}-history"] = (history, version)
        all_of_them[f"torch-{version}-pinned"] = (pinned, version)
        all_of_them[f"torch-{version}-recorded"] = (recorded, version)
    for version in cupy_owners.VERSIONS:
        all_of_them[f"cupy-{version}"] = (cupy, version)
    for version in rmm_pools.VERSIONS:
        all_of_them[f"rmm-{version}"] = (rmm, version)
    for version in libpools.VERSIONS:
        all_of_them[f"xla-{version}"] = (xla, version)
    for version in ask_jax.VERSIONS:
        all_of_them[f"jax-{version}"] = (jax, version)
    for size in ("904", "2088"):
        all_of_them[f"nccl-{size}"] = (nccl, size)
    all_of_them["launches"] = (launches,)
    for name, (version, path) in interpreters().items():
        if version >= (3, 11):
            all_of_them[f"asyncio-{name}"] = (asyncio, path)
        if version[:2] == (3, 13) and name == "313":  # some gigabytes of stacks
            all_of_them[f"frames-{name}"] = (program, path, f"{TARGETS}/pyprog_frames.py")
        all_of_them[f"locals-{name}"] = (program, path, f"{TARGETS}/pyprog_locals.py", scratch("truth"))
        if not name.endswith("t") and version >= (3, 10):
            all_of_them[f"interpreters-{name}"] = (program, path, f"{TARGETS}/pyprog_cases.py", "gil_each" if version >= (3, 12) else "gil_sub")
    return all_of_them


def make(directory, name, how, *args):
    path = os.path.join(directory, name + ".core")
    if os.path.exists(path):
        return
    for where in (directory, tempfile.gettempdir()):
        if shutil.disk_usage(where).free < ROOM:
            raise Skip(f"less than {ROOM >> 30} GiB are free in {where}")
    with how(*args) as told, contextlib.ExitStack() as stack:
        pid, shareable = told if isinstance(told, tuple) else (told, [])
        made = stack.enter_context(core.gcore(pid))
        with open(path + ".shareable", "w", encoding="ascii") as file:  # what the driver would say (fuzz_walkers.c)
            file.writelines(f"{start:x} {size:x}\n" for start, size in sorted(shareable))
        subprocess.run(["cp", "--sparse=always", made, path + ".new"], check=True, timeout=300)
    os.rename(path + ".new", path)


def main(directory, *names):
    os.makedirs(directory, exist_ok=True)
    for name, (how, *args) in wanted().items():
        if names and not any(name.startswith(n) for n in names):
            continue
        begin = time.monotonic()
        try:
            make(directory, name, how, *args)
            print(f"{name}: {time.monotonic() - begin:.1f} s", flush=True)
        except (Skip, AssertionError, OSError, subprocess.SubprocessError) as error:
            print(f"{name}: left out: {str(error)[:300]}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
