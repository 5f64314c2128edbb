#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What each of gdb's commands takes, in gdb that is attached to a full PyTorch process: until gdb has printed all of the answer.

usage: gdb.py VRAMTAP [GDB [RUNS [BLOCKS]]]

The process is PyTorch of a pinned wheel on the simulated device (sh tests/run.sh sets it up) with BLOCKS (1,000) blocks in use and 64 threads,
and hangs in torch.cuda.synchronize(). GDB (gdb) runs each command RUNS (10) times in one session. The time is that between two clocks that
gdb has the shell read; what that takes by itself is said and subtracted. The median of each command must be within 300 ms. refresh is only
shown: gdb detaches and attaches, which takes what it takes. Exits with 1 if a command was too slow.
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

LIMIT_MS = 300
COMMANDS = ["info", "blocks", "blocks all", "sites", "block ADDRESS", "stacks", "stacks all", "bt", "locals", "pyframe", "save /dev/null"]


def script(vramtap, commands, runs, path):
    lines = [subprocess.run([vramtap, "gdb-script"], stdout=subprocess.PIPE, check=True).stdout.decode(), "set height 0", "set width 100",
             # Once, since what a gdb has not looked at yet it reads then.
             "vramtap blocks 1", "vramtap bt"]
    for command in commands:
        for _ in range(runs):
            lines += ["shell echo; date +@%s%N", command]
        lines.append("shell echo; date +@%s%N")
    with open(path, "w", encoding="utf-8") as out:
        out.write("\n".join(lines) + "\n")


def times(gdb, pid, path, commands, runs):
    done = subprocess.run([gdb, "-nx", "-batch", "-iex", "set auto-load no", "-p", str(pid), "-x", path], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=1200, check=False)
    out = done.stdout.decode("utf-8", "replace")
    wrong = re.findall(r"^vramtap: .*", out, re.M)
    harness.check(not wrong, "a command failed:", wrong[:1])
    stamps = [int(stamp) / 1e6 for stamp in re.findall(r"^@(\d{16,})$", out, re.M)]
    harness.equal(len(stamps), len(commands) * (runs + 1), "clocks that were read: " + out[-1000:])
    return [[b - a for a, b in zip(part, part[1:])] for part in (stamps[i * (runs + 1):(i + 1) * (runs + 1)] for i in range(len(commands)))]


def largest_block(data):
    return max((b["bytes"], b["address"]) for a in data["pytorch"]["allocators"] for s in a["segments"] for b in s["blocks"])[1]


def show(command, found, note=""):
    print(f"{command:26}{statistics.median(found):8.0f}{max(found):9.0f}{note}")


def measure(vramtap, gdb, pid, runs):
    """Whether each command was quick enough."""
    data = harness.report_json(pid, expect=(harness.COMPLETE, harness.PARTIAL))
    blocks = sum(len(s["blocks"]) for a in data["pytorch"]["allocators"] for s in a["segments"])
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "commands.gdb")
        commands = ["echo"] + [f"vramtap {c}" for c in COMMANDS]
        script(vramtap, [c.replace("ADDRESS", largest_block(data)) for c in commands], runs, path)
        clock, *found = times(gdb, pid, path, commands, runs)
        clock = statistics.median(clock)
        name = subprocess.run([gdb, "--version"], stdout=subprocess.PIPE, check=True).stdout.decode().splitlines()[0]
        print(f"{name}; {blocks} blocks, {len(data['threads'])} threads; {runs} runs; reading the clock takes {clock:.1f} ms")
        print(f"{'':26}{'median':>8}{'slowest':>9} ms")
        found = [[t - clock for t in of_one] for of_one in found]
        slow = [statistics.median(of_one) > LIMIT_MS for of_one in found]
        for command, of_one, is_slow in zip(commands[1:], found, slow):
            show(command, of_one, "   TOO SLOW" if is_slow else "")
        script(vramtap, ["vramtap refresh"], 3, path)
        show("vramtap refresh", [t - clock for t in times(gdb, pid, path, ["vramtap refresh"], 3)[0]], "   with detach and attach")
    return not any(slow)


def main():
    if not 2 <= len(sys.argv) <= 5:
        sys.exit(__doc__)
    vramtap, gdb, runs, blocks = (sys.argv[1:] + ["gdb", "10", "1000"][len(sys.argv) - 2:])
    vramtap = harness.VRAMTAP = os.path.abspath(vramtap)
    argv = ["sh", harness.RUN_SIM, report_torch.versions()[0], "--", "python",
            os.path.join(harness.SOURCE, "tests", "targets", "torch_train.py"), "--hang", "sync", "--threads", "64", "--blocks", blocks]
    with harness.target(argv, ready="READY") as proc:
        sys.exit(0 if measure(vramtap, gdb, proc.pid, int(runs)) else 1)


if __name__ == "__main__":
    main()
