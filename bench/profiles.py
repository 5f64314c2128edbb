#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What it costs to write profiles: vramtap report without them, and with each, of a PyTorch process on the simulated device with
100,000 blocks that have names of their own.

usage: profiles.py VRAMTAP [RUNS [BLOCKS]]

Runs take turns. Times of the processor tell more than those of a clock on a busy machine; both are shown, and what is more than without.
"""
import os
import resource
import statistics
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "functional"))
import harness  # noqa: E402
import report_torch  # noqa: E402

FORMATS = ("", "--json", "--pprof", "--speedscope", "--folded")


def one(tool, pid, *options):
    """(wall, processor) seconds of one run."""
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = subprocess.run([tool, "report", "--read-only", "--once", *options, str(pid)], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                          check=False)
    wall, after = time.monotonic() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
    harness.equal(done.returncode, 0, "exit code")
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    tool, runs, blocks = os.path.abspath(sys.argv[1]), *(int(n) for n in sys.argv[2:4] + ["9", "100000"][len(sys.argv) - 2:])
    program = os.path.join(harness.SOURCE, "tests", "targets", "torch_profile.py")
    env = dict(os.environ, SIMCUDA_CTL=harness.scratch("control"), SIMCUDA_DEVICES="1", SIMCUDA_MEM_MB=str(512 + blocks // 500))
    with harness.target([*harness.simulated_python(report_torch.versions()[-1]), program, f"--blocks={blocks}"], ready="READY", env=env) as proc:
        pid = int(proc.ready_line.partition("=")[2])
        times = {option: [] for option in FORMATS}
        file = harness.scratch("out")
        for _ in range(runs):
            for option, rows in times.items():
                rows.append(one(tool, pid, *((option, file) if option else ())))
    plain = [statistics.median(column) for column in zip(*times[""])]
    for option, rows in times.items():
        wall, cpu = (statistics.median(column) for column in zip(*rows))
        print(f"{blocks} blocks {option:14} {wall:7.3f} s ({wall - plain[0]:+.3f})   processor {cpu:7.3f} s ({cpu - plain[1]:+.3f})   median of {runs}")


if __name__ == "__main__":
    main()
