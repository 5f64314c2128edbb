#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How long gdb takes for an answer of a megabyte: vramtap blocks all of a process with 20,000 blocks, in each gdb.

usage: gdb_long.py VRAMTAP [RUNS [BASE]]

The target is the real libc10_cuda.so of a pinned wheel on the simulated device (sh tests/run.sh sets it up). RUNS (5) is how often each
is asked, in one gdb session; gdb: the machine's own, and tests/setup/prepare.sh's. A gdb that has Python is asked as if it had none,
too. BASE is an older vramtap, whose answer must be the same. A time is what lies between two looks at the clock by gdb's shell, less what
two such looks in a row lie apart. Exit code 1 when a median of this vramtap is more than 500 ms. On a busy machine: chrt -r 1.
"""
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "functional"))
import harness  # noqa: E402
import report_torch  # noqa: E402

BLOCKS, LIMIT_MS = 20000, 500
CLOCK = "shell date +@@%s.%N"
# What only a gdb with Python prints is in this command's answer.
SEES_PYTHON = "  help function\n"


def script(vramtap, where, python):
    path = os.path.join(where, "vramtap.gdb")
    text = subprocess.run([vramtap, "gdb-script"], capture_output=True, check=True, timeout=60).stdout.decode()
    with open(path, "w", encoding="utf-8") as out:
        out.write(text if python else text.replace(SEES_PYTHON, ""))
    return path


def without_moment(text):
    """Without how long it took and since when the process is up."""
    return re.sub(r"up \d+ s |in [0-9.]+ .?s |\d\d:\d\d:\d\d|   +pid", "", text)


def measure(gdb, vramtap, pid, runs, python=True):
    """([ms], the answer)"""
    with tempfile.TemporaryDirectory(prefix="vramtap-bench-") as where:
        commands = os.path.join(where, "commands.gdb")
        with open(commands, "w", encoding="utf-8") as out:
            out.write(f"{CLOCK}\n" * 2 + f"{CLOCK}\nvramtap blocks all\n{CLOCK}\n" * runs)
        done = subprocess.run([gdb, "-nx", "-batch", "-iex", "set auto-solib-add off", "-x", script(vramtap, where, python), "-p", str(pid), "-x", commands],
                              stdin=subprocess.DEVNULL, capture_output=True, timeout=550, check=False)
    out = done.stdout.decode("utf-8", "replace")
    clocks = [float(t) * 1e3 for t in re.findall(r"^@@(\d+\.\d+)$", out, re.MULTILINE)]
    harness.equal(len(clocks), 2 + 2 * runs, f"looks at the clock; gdb said {done.stderr[-500:]!r}")
    alone = clocks[1] - clocks[0]
    return [clocks[i + 1] - clocks[i] - alone for i in range(2, len(clocks), 2)], without_moment(re.split(r"^@@.*\n", out, flags=re.MULTILINE)[-2])


def has_python(gdb):
    return b"4711" in subprocess.run([gdb, "-nx", "-batch", "-ex", "python print(4711)"], capture_output=True, check=False, timeout=60).stdout


def show(gdb, vramtap, base, pid, runs):
    """The number of figures that were missed."""
    version = subprocess.run([gdb, "--version"], capture_output=True, check=False, timeout=60).stdout.decode().splitlines()[0]
    python, missed, answers = has_python(gdb), 0, []
    print(f"{version}, {'with' if python else 'without'} Python")
    ways = [("this vramtap", vramtap, True)] + [("as if there were no Python", vramtap, False)] * python + [("the base", base, True)] * bool(base)
    for name, tool, use_python in ways:
        ms, answer = measure(gdb, tool, pid, runs, use_python)
        median = statistics.median(ms)
        over = median > LIMIT_MS and (tool, use_python) == (vramtap, True)
        missed += over
        answers.append(answer)
        print(f"  {name:28} median {median:8.1f}  min {min(ms):8.1f}  max {max(ms):8.1f} ms{f'  MISS, must be at most {LIMIT_MS} ms' if over else ''}")
    harness.check(all(answer == answers[0] for answer in answers), "the answers differ")
    print(f"  the answers are equal: {len(answers[0].encode()):,} bytes")
    return missed


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    vramtap = harness.VRAMTAP = os.path.abspath(sys.argv[1])
    runs = int(sys.argv[2]) if len(sys.argv) > 2 else 5
    base = os.path.abspath(sys.argv[3]) if len(sys.argv) > 3 else None
    cached = [os.path.join(harness.CACHE, "gdb", name, "gdb") for name in ("new", "minimal", "old")]
    gdbs = [path for path in (shutil.which("gdb"), *cached) if path and os.access(path, os.X_OK)]
    with report_torch.Driver(report_torch.versions()[-1], SIMCUDA_DEVICES="1", SIMCUDA_MEM_MB="2048") as driver:
        for size, n in ((600, 12000), (3000, 6000), (70000, 1900), (1500000, 100)):
            driver(f"alloc {n} {size}")
        driver("random 1 2000")
        missed = sum(show(gdb, vramtap, base, driver.pid, runs) for gdb in gdbs)
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
