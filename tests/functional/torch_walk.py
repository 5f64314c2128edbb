#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Discovery and walk from outside (torch_walk.c), on the real libc10_cuda.so of each wheel: every block, segment and statistic
against the library's own snapshot, on random sequences and on the special cases."""
import os
import random
import re
import subprocess

from harness import BUILD, CACHE, QUICK, Skip, check, compile_c, main, scratch, target
from report_torch import RUN_SIM, Driver, versions

TOOL = os.path.join(BUILD, "tests/functional/torch_walk")


def tool(*args):
    done = subprocess.run([TOOL, *map(str, args)], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60,
                          check=False)
    check(done.returncode == 0, f"torch_walk {args}:", done.stdout, done.stderr)
    return done.stdout


def compare(driver, what):
    path = scratch("snapshot")
    driver(f"snapshot {path}")
    last = tool(driver.pid, path).splitlines()[-1]
    check(last.endswith(" 0 differences"), what, last)
    return int(re.search(r"(\d+) blocks", last).group(1)), float(re.search(r"in ([\d.]+) ms", last).group(1))


def each_version(test):
    def run():
        reasons = []
        for version in versions():
            try:
                with Driver(version) as driver:
                    print(f"  {test.__name__} {version}: {test(driver, version) or 'equal'}", flush=True)
            except Skip as reason:
                reasons.append(str(reason))
        if len(reasons) == len(versions()):
            raise Skip("; ".join(reasons))
    return run


@each_version
def test_fresh(driver, version):
    """Initialised, nothing allocated: the layout is found, and there is nothing."""
    out = tool(driver.pid)
    check(out.startswith(f"native, version '{version}+"), out)
    check(compare(driver, "fresh")[0] == 0, "blocks in a fresh allocator")
    return re.search(r"layout '[^']*'", out).group(0)


@each_version
def test_special_cases(driver, version):
    del version
    cases = [
        ["alloc 10 1000"], ["private 5 3000000"], ["private 3 100"], ["pending 4 70000"], ["release"],
        ["stream 2", "alloc 5 70000"],
        ["free 7"], ["expandable on", "alloc 30 1500000"], ["free 12"], ["private 4 5000000"], ["emptycache"],
        ["device 1", "alloc 3 30000000", "pending 2 500"], ["release", "expandable off", "alloc 4 600"], ["free all"],
        ["emptycache"],
    ]
    blocks = 0
    for commands in cases:
        for command in commands:
            driver(command)
        blocks += compare(driver, commands)[0]
    return f"{blocks} blocks in {len(cases)} states equal"


@each_version
def test_random(driver, version):
    rng = random.Random(version)
    blocks, states = 0, 12 if QUICK else 200
    for step in range(states):
        driver(f"expandable {rng.choice(['on', 'off'])}")
        driver(f"device {rng.randrange(2)}")
        driver(f"random {rng.randrange(10 ** 6)} {rng.randrange(20, 800)}")
        blocks += compare(driver, f"random step {step}")[0]
    return f"{blocks} blocks in {states} states equal"


@each_version
def test_many(driver, version):
    """100,000 blocks take 15 ms on a quiet machine; the bound is generous because this one may be busy."""
    del version
    driver("alloc 100000 700")
    blocks, ms = compare(driver, "many")
    for _ in range(2):
        ms = min(ms, compare(driver, "many")[1])
    check(ms < 500, "the walk is slow", ms)
    return f"{blocks} blocks in {ms} ms"


@each_version
def test_lock_held(driver, version):
    """A thread sits in cudaMalloc with the mutex: nothing changes, so everything is exact."""
    del version
    driver("alloc 200 70000")
    driver("holdlock")
    out = tool("-r", 5, driver.pid)
    check(" 0 unstable" in out and " 0 dropped" in out, out)
    driver("unlock")
    compare(driver, "after unlock")


@each_version
def test_running(driver, version):
    """Threads allocate and free as fast as they can: marked unstable or exact, never impossible."""
    del version
    driver("alloc 2000 7000")
    driver("busy 0")
    driver("busy 50")
    for attempt in range(6):  # one look at a moving target may find nothing; vramtap looks again, and at last while it stands still
        try:
            out = tool("-r", 100 if QUICK else 3000, driver.pid)
            break
        except AssertionError as error:
            if attempt == 5 or "no native allocator" not in str(error):
                raise
    driver("idle")
    compare(driver, "after all")
    return out.splitlines()[-1]


# Python programs that end up with each backend; the line they print says that they are there.
PROGRAMS = {
    "unused": ("import torch", {}),
    "native": ("import torch; x = torch.empty(9, device='cuda')", {}),
    "async": ("import torch; x = torch.empty(9, device='cuda')", {"PYTORCH_CUDA_ALLOC_CONF": "backend:cudaMallocAsync"}),
    "pluggable": ("import sys, torch; a = torch.cuda.memory.CUDAPluggableAllocator(sys.argv[1], 'get', 'give'); "
                  "torch.cuda.memory.change_current_allocator(a); x = torch.empty(9, device='cuda')", {}),
}
PLUGGED = """
extern int cudaMalloc(void **p, unsigned long size), cudaFree(void *p);
void *get(long size, int device, void *stream) { void *p = 0; return cudaMalloc(&p, size) ? 0 : p; }
void give(void *p, long size, int device, void *stream) { cudaFree(p); }
"""


def test_backends():
    """What PyTorch uses is named, and only the native allocator is walked."""
    version = versions()[0]
    if not os.path.exists(os.path.join(CACHE, "torch", version, "python")):
        raise Skip(f"PyTorch {version} is not set up: sh tests/setup/torch.sh {version}")
    plugged = compile_c(PLUGGED, "-shared", "-fPIC")
    for backend, (program, env) in PROGRAMS.items():
        program += "; import sys; print('ready', flush=True); sys.stdin.read()"
        with target(["sh", RUN_SIM, version, "--", "python", "-c", program, plugged], ready="ready",
                    env=dict(os.environ, **env)) as proc:
            out = tool(proc.pid)
            check(out.startswith(f"{backend}, version '{version}"), backend, out)


if __name__ == "__main__":
    main(globals())
