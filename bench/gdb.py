#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How long each of gdb's commands takes, in a gdb that is attached to a PyTorch process with 150 threads and 20,000 blocks.

usage: gdb.py VRAMTAP [RUNS [GDB...]]

The target is full PyTorch of a pinned wheel on the simulated device (sh tests/run.sh sets it up). RUNS (10) is how often each command
runs, in one gdb session; GDB: the machine's own, and tests/setup/prepare.sh's. A time is what lies between two looks at the clock
by gdb's shell, less what two such looks in a row lie apart; the first run of a command, which may find cold caches, is among them and
shown. What the tool itself takes of it is measured by a wrapper around the program; the rest is gdb's. Exit code 1 when a median is
more than 300 ms.
"""
import os
import re
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "functional"))
import harness  # noqa: E402
import report_torch  # noqa: E402

THREADS, BLOCKS, LIMIT_MS = 140, 20000, 300
CLOCK = "shell date +@@%s.%N"
COMMANDS = ["info", "blocks", "sites", "block {address}", "stacks", "stacks main", "bt", "locals", "pyframe", "pyframe up", "save {file}"]
# All blocks and all frames: as long as they are.
LONG = ["blocks all", "stacks all"]


def script(vramtap, where):
    """gdb's commands with a program in vramtap's place that writes down when it began and ended."""
    wrapper, path = os.path.join(where, "vramtap"), os.path.join(where, "vramtap.gdb")
    with open(wrapper, "w", encoding="utf-8") as out:
        out.write(f'#!/bin/sh\necho "$3 $(date +%s.%N)" >>{where}/times\n"{vramtap}" "$@"\nstatus=$?\necho "$3 $(date +%s.%N)" >>{where}/times\n'
                  "exit $status\n")
    os.chmod(wrapper, 0o755)
    text = subprocess.run([vramtap, "gdb-script"], capture_output=True, check=True, timeout=60).stdout.decode()
    with open(path, "w", encoding="utf-8") as out:
        out.write(text.replace(os.path.realpath(vramtap), wrapper))
    return path


def measure(gdb, path, pid, runs, where, commands):
    """{command: [ms]} as gdb's user sees it."""
    lines = [CLOCK, CLOCK]
    for _ in range(runs):
        for command in commands:
            lines += [CLOCK, f"vramtap {command}", CLOCK]
    commands_file = os.path.join(where, "commands.gdb")
    with open(commands_file, "w", encoding="utf-8") as out:
        out.write("\n".join(lines) + "\n")
    done = subprocess.run([gdb, "-nx", "-batch", "-x", path, "-p", str(pid), "-x", commands_file], stdin=subprocess.DEVNULL, capture_output=True,
                          timeout=550, check=False)
    clocks = [float(t) * 1e3 for t in re.findall(r"^@@(\d+\.\d+)$", done.stdout.decode("utf-8", "replace"), re.MULTILINE)]
    harness.check(len(clocks) == 2 + 2 * runs * len(commands), "gdb ended before all was done", done.stderr[-500:], done.stdout[-500:])
    alone = clocks[1] - clocks[0]
    taken = [clocks[i + 1] - clocks[i] - alone for i in range(2, len(clocks), 2)]
    return {command: taken[i::len(commands)] for i, command in enumerate(commands)}


def tool_times(where):
    """{verb: [ms]}: how long the program ran for each."""
    found, open_ = {}, {}
    with open(os.path.join(where, "times"), encoding="ascii") as file:
        for line in file:
            verb, at = line.split()
            if verb in open_:
                found.setdefault(verb, []).append((float(at) - open_.pop(verb)) * 1e3)
            else:
                open_[verb] = float(at)
    return found


def show(gdb, times, tool):
    missed = 0
    version = subprocess.run([gdb, "--version"], capture_output=True, check=False, timeout=60).stdout.decode().splitlines()[0]
    print(f"{version}\n{'':24} {'median ms':>10} {'max':>8} {'first':>8} {'the tool':>9}")
    for command, ms in times.items():
        median = statistics.median(ms)
        over = median > LIMIT_MS and command not in LONG
        missed += over
        verb = command.split()[0]
        mine = statistics.median(tool[verb]) if verb in tool else 0
        words = re.sub(r"\S*/saved.json", "FILE", command)
        print(f"{words:24} {median:10.1f} {max(ms):8.1f} {ms[0]:8.1f} {mine:9.1f}{'  MISS, must be at most %d ms' % LIMIT_MS if over else ''}")
    return missed


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    vramtap = os.path.abspath(sys.argv[1])
    harness.VRAMTAP = vramtap
    runs = int(sys.argv[2]) if len(sys.argv) > 2 else 10
    cached = [os.path.join(harness.CACHE, "gdb", name, "gdb") for name in ("new", "minimal")]
    gdbs = sys.argv[3:] or ["gdb", *(path for path in cached if os.access(path, os.X_OK))]
    missed = 0
    with report_torch.Python(report_torch.versions()[0], "sleep", "--threads", str(THREADS), "--blocks", str(BLOCKS), SIMCUDA_DEVICES="1",
                             SIMCUDA_MEM_MB="2048") as target:
        pid = target.proc.pid
        print(f"{harness.thread_count(pid)} threads, {len(target.blocks)} blocks")
        for gdb in gdbs:
            with tempfile.TemporaryDirectory(prefix="vramtap-bench-") as where:
                names = {"address": hex(target.blocks[len(target.blocks) // 2][2]), "file": os.path.join(where, "saved.json")}
                path = script(vramtap, where)
                commands = [command.format(**names) for command in COMMANDS]
                times = measure(gdb, path, pid, runs, where, commands)
                tool = tool_times(where)
                missed += show(gdb, {**times, **measure(gdb, path, pid, 1, where, LONG)}, tool)
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
