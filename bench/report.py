#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The figures of vramtap report: time from start to finished report, the walk, memory of the tool.

usage: report.py VRAMTAP [RUNS]
       report.py VRAMTAP [RUNS] long      of 1,000,000 blocks only: text, the list of all, JSON

The target is the real libc10_cuda.so of the pinned wheels on the simulated device (sh tests/run.sh sets both up). On a GPU,
tests/gpu/run prints the same figures. Times depend on the machine and on what else runs on it: quote medians, and ratios
where two programs are compared.
"""
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "functional"))
import harness  # noqa: E402
import report_torch  # noqa: E402


def one(tool, pid, *options):
    """(wall milliseconds, the report) of one run that writes text and JSON."""
    with tempfile.NamedTemporaryFile() as out:
        begin = time.monotonic()
        done = subprocess.run([tool, "report", "--json", out.name, *options, str(pid)], stdin=subprocess.DEVNULL,
                              stdout=subprocess.DEVNULL, check=False)
        wall = (time.monotonic() - begin) * 1e3
        harness.equal(done.returncode, 0, "exit code")
        with open(out.name, encoding="utf-8") as file:
            return wall, json.load(file)


def show(name, values, unit):
    print(f"{name:55} median {statistics.median(values):9.2f}  min {min(values):9.2f}  max {max(values):9.2f} {unit}")


def measure(tool, runs, version, blocks, *options):
    with report_torch.Driver(version) as driver:
        driver(f"alloc {blocks} 600")
        samples = [one(tool, driver.pid, *options) for _ in range(runs + 1)][1:]  # the first one warms the caches
        memory = [harness.peak_memory_mib(driver.pid, "--json", "/dev/null", *options) for _ in range(3)]
    label = f"{blocks} blocks, PyTorch {version}{' ' + ' '.join(options) if options else ''}: "
    show(label + "start to finished report", [s[0] for s in samples], "ms")
    show(label + "peak memory", memory, "MiB")
    allocators = [s[1]["pytorch"]["allocators"][0] for s in samples]
    walked = [sum(len(segment["blocks"]) for segment in a["segments"]) for a in allocators]
    show(label + "walk", [n / a["walk_ns"] * 1e3 for n, a in zip(walked, allocators)], "million blocks a second")
    show(label + "its half that reads", [n / a["read_ns"] * 1e3 for n, a in zip(walked, allocators)], "million blocks a second")
    if not options:
        show(label + "borrowed thread away", [s[1]["timing"]["borrowed_us"] for s in samples], "us")
    show(label + "threads stopped for stacks", [s[1]["timing"]["stopped_ms"] for s in samples], "ms")


MILLION = 1000000
LONG = [("text", [], 300), ("the list of all blocks", ["--blocks"], 300), ("JSON", ["--json", "-"], 1000)]
LONG_MIB = 128


def whole(tool, pid, *options):
    """(wall milliseconds, its own processor milliseconds, peak MiB, bytes) of one run with all of its output in a file."""
    with tempfile.TemporaryFile() as out:
        begin = time.monotonic()
        with subprocess.Popen([tool, "report", *options, str(pid)], stdin=subprocess.DEVNULL, stdout=out) as proc:
            _, status, used = os.wait4(proc.pid, 0)
            wall = (time.monotonic() - begin) * 1e3
            proc.returncode = os.waitstatus_to_exitcode(status)
        harness.equal(proc.returncode, 0, "exit code")
        return wall, (used.ru_utime + used.ru_stime) * 1e3, used.ru_maxrss / 1024, os.fstat(out.fileno()).st_size


def measure_long(tool, runs, version):
    with report_torch.Driver(version, SIMCUDA_DEVICES="1", SIMCUDA_MEM_MB="8192") as driver:
        driver(f"alloc {MILLION} 600")
        for name, options, must_ms in LONG:
            for outside in ([], ["--read-only"]):
                samples = [whole(tool, driver.pid, *outside, *options) for _ in range(runs)]
                wall, own, mib = (statistics.median(s[i] for s in samples) for i in range(3))
                missed = f"  MISS, must be {must_ms} ms, {LONG_MIB} MiB" if wall > must_ms or mib > LONG_MIB else ""
                print(f"{MILLION} blocks, {name}, {'from outside' if outside else 'inside':12} {samples[0][3] / 1e6:6.1f} MB: median {wall:7.0f} ms, "
                      f"{own:5.0f} ms of processors, {mib:4.0f} MiB{missed}")


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    tool = harness.VRAMTAP = os.path.abspath(sys.argv[1])
    runs = int(sys.argv[2]) if len(sys.argv) > 2 else 20
    if sys.argv[3:] == ["long"]:
        measure_long(tool, runs, report_torch.versions()[-1])
        return
    for version in report_torch.versions():
        for blocks in (1000, 10000, 100000):
            measure(tool, runs, version, blocks)
        measure(tool, runs, version, 100000, "--read-only")


if __name__ == "__main__":
    main()
