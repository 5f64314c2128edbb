#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Stacks of a PyTorch process with 160 threads: vramtap and its peers, one after the other on the same process.

usage: stacks.py VRAMTAP [RUNS [TOOL...]]

The target is full PyTorch of a pinned wheel on the simulated device (sh tests/run.sh sets it up); the peers are py-spy and
pystack from PyPI (tests/setup/peers.sh brings them into the cache), eu-stack and gdb from the system. RUNS (100) is how often
vramtap runs; a slow peer runs less often. What cannot be run is named. TOOL: only the peers whose names contain it; none is none.

Pause: for how long the process as a whole stood still, as its own threads saw it. Eight of them look at the clock every 100 µs
(tests/targets/heartbeat.c), the first and the last thread among them; it is the longest time that one of them could not,
together with those of the others that overlap it: from the first that stood to the last that ran again. Other work on the
machine makes such gaps too; the first line shows them without any tool. On a machine that is busy with other things,
"chrt -r 1 python3 stacks.py ..." keeps those out of the way, for all programs alike.
"""
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "functional"))
import harness  # noqa: E402
import heartbeats  # noqa: E402
import report_torch  # noqa: E402

THREADS = 160


class Tool:
    """A command, {} for the pid; share: how often it runs for each run of vramtap; thread: what starts a thread's stack; good: exit
    codes of a run that counts."""

    def __init__(self, name, command, share=1.0, thread=None, good=(0,)):
        self.name, self.command, self.share, self.good = name, command, share, good
        self.thread = re.compile(thread, re.MULTILINE) if thread else None
        self.threads = None
        self.wall, self.pause, self.told = [], [], []
        self.memory = 0.0

    def run(self, pid, beats):
        beats.mark()
        with tempfile.TemporaryFile() as out:
            begin = time.monotonic()
            with subprocess.Popen([word.replace("{}", str(pid)) for word in self.command], stdin=subprocess.DEVNULL, stdout=out,
                                  stderr=subprocess.DEVNULL) as proc:
                proc.wait()
            wall = (time.monotonic() - begin) * 1e3
            pause = beats.pause_ms()
            out.seek(0)
            text = out.read().decode("utf-8", "replace")
        harness.check(proc.returncode in self.good, f"exit code {proc.returncode} of {self.name}")
        return wall, pause, text

    def warm_up(self, pid, beats):
        self.run(pid, beats)
        self.memory = harness.peak_memory_of([word.replace("{}", str(pid)) for word in self.command])[1]

    def sample(self, pid, beats):
        wall, pause, text = self.run(pid, beats)
        self.wall.append(wall)
        self.pause.append(pause)
        if self.thread:
            self.threads = len(self.thread.findall(text))
        elif text:
            data = report_of(text)
            self.threads = len(data["threads"])
            self.told.append(data["timing"]["stopped_ms"])


def percentile(values, p):
    """The smallest value that p percent of them do not exceed."""
    return sorted(values)[max(0, -(-len(values) * p // 100) - 1)]


def ours(vramtap):
    return [vramtap, "stacks", "--json", "-", "{}"]


def report_of(text):
    return json.loads(text)["processes"][0]


def tools(vramtap, wanted):
    peers = os.path.join(harness.CACHE, "peers", "bin")
    pyspy, pystack = os.path.join(peers, "py-spy"), os.path.join(peers, "pystack")
    found = [
        Tool("no tool", ["sleep", "0.05"]),
        # On a busy machine a thread may not stop in time: said, and partial.
        Tool("vramtap", ours(vramtap), good=(harness.COMPLETE, harness.PARTIAL)),
        Tool("py-spy dump", [pyspy, "dump", "-p", "{}"], 0.3, r"^Thread "),
        Tool("py-spy dump --native", [pyspy, "dump", "--native", "-p", "{}"], 0.3, r"^Thread "),
        Tool("pystack remote", [pystack, "remote", "{}"], 0.3, r"^Traceback for thread "),
        Tool("pystack remote --native-all", [pystack, "remote", "--native-all", "{}"], 0.3, r"^Traceback for thread "),
        Tool("eu-stack", ["eu-stack", "-p", "{}"], 0.1, r"^TID "),
        Tool("gdb", ["gdb", "-nx", "-batch", "-p", "{}", "-ex", "thread apply all bt"], 0.03, r"^Thread "),
    ]
    if wanted:
        found = found[:2] + [tool for tool in found[2:] if any(word in tool.name for word in wanted)]
    for tool in found:
        if not shutil.which(tool.command[0]):
            print(f"NOT RUN: {tool.name}: there is no {tool.command[0]} (tests/setup/peers.sh says what to install)")
    return [tool for tool in found if shutil.which(tool.command[0])]


def measure(tool_list, runs, pid, beats):
    """Everybody in turn, so that what else goes on hits all alike."""
    for tool in list(tool_list):
        try:
            tool.warm_up(pid, beats)
        except AssertionError as err:
            print(f"NOT RUN: {tool.name}: {err}")
            tool_list.remove(tool)
    for i in range(runs):
        for tool in tool_list:
            if int((i + 1) * tool.share) > int(i * tool.share) or i == 0:
                tool.sample(pid, beats)


def show(tool_list):
    print(f"{'':28} {'runs':>4} {'threads':>7} {'pause ms: median':>17} {'p99':>8} {'max':>8} {'wall ms: median':>16} {'p99':>8}"
          f" {'MiB':>6}")
    for tool in tool_list:
        print(f"{tool.name:28} {len(tool.wall):4} {tool.threads or '':>7} {statistics.median(tool.pause):17.2f}"
              f" {percentile(tool.pause, 99):8.2f} {max(tool.pause):8.2f} {statistics.median(tool.wall):16.1f}"
              f" {percentile(tool.wall, 99):8.1f} {tool.memory:6.1f}")


def verdict(text, value, limit, unit=""):
    print(f"{'ok  ' if value <= limit else 'MISS'} {text}: {value:.3g}{unit}, must be at most {limit:.3g}{unit}")


def judge(tool_list):
    by_name = {tool.name: tool for tool in tool_list}
    ours = by_name["vramtap"]
    p99 = percentile(ours.pause, 99)
    print(f"vramtap's own word (stopped_ms): median {statistics.median(ours.told):.2f}, p99 {percentile(ours.told, 99):.2f}, max"
          f" {max(ours.told):.2f} ms")
    verdict("pause, 99th percentile", p99, 5, " ms")
    for name in ("py-spy dump --native", "pystack remote"):
        if name in by_name:
            verdict(f"our 99th percentile of the pause to the median of {name}", p99 / statistics.median(by_name[name].pause), 0.5)
    for name in ("py-spy dump --native", "pystack remote --native-all"):
        if name in by_name:
            verdict(f"wall time to that of {name} (medians)",
                    statistics.median(ours.wall) / statistics.median(by_name[name].wall), 0.2)


DEEP = """
import sys, threading, time
sys.setrecursionlimit(20000)
threading.stack_size(256 << 20)
def recurse(n):
    if n:
        return recurse(n - 1)
    print("READY", flush=True)
    time.sleep(1 << 30)
for i in range(158):
    threading.Thread(target=time.sleep, args=(1 << 30,), daemon=True).start()
threading.Thread(target=recurse, args=(10000 - 1,), daemon=True).start()
time.sleep(1 << 30)
"""


def deep_recursion(vramtap, version):
    """10,000 frames of one of 160 threads, all of them, and what that costs."""
    with harness.target(["sh", report_torch.RUN_SIM, version, "--", "python", "-c", DEEP], ready="READY") as proc:
        command = [word.replace("{}", str(proc.pid)) for word in ours(vramtap)]
        begin = time.monotonic()
        data = report_of(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
        wall = (time.monotonic() - begin) * 1e3
        frames = max(sum(f["function"] == "recurse" for f in t["stack"]["frames"]) for t in data["threads"])
        print(f"deep recursion in one of {len(data['threads'])} threads: {frames} frames of 10,000 shown, report {data['completeness']},"
              f" {wall:.0f} ms, stopped for {data['timing']['stopped_ms']:.2f} ms")
        verdict("frames that are missing", 10000 - frames, 0)
        verdict("memory with deep recursion", harness.peak_memory_of(command)[1], 64, " MiB")


STUCK = r"""
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>
static void *wait_for_signal(void *arg) { for (;;) pause(); }
/* The parent of a vfork() sleeps uninterruptibly until the child ends, which is never. */
static void *stuck(void *arg) { if (vfork() == 0) { prctl(PR_SET_PDEATHSIG, 9L, 0, 0, 0); for (;;) pause(); } return arg; }
int main(int argc, char **argv)
{
	int n = atoi(argv[1]);
	pthread_t thread;
	for (int i = 0; i < 159; i++)
		pthread_create(&thread, NULL, i < n ? stuck : wait_for_signal, NULL);
	usleep(300000);
	puts("READY");
	fflush(stdout);
	for (;;) pause();
}
"""


def uninterruptible(vramtap, runs):
    """What threads cost that cannot be stopped: once their deadline, however many they are, and nobody else's time."""
    binary = harness.compile_c(STUCK, "-pthread")
    medians = {}
    for n in (0, 1, 5):
        with harness.target([binary, str(n)], ready="READY") as proc:
            command = [word.replace("{}", str(proc.pid)) for word in ours(vramtap)]
            wall, stopped = [], []
            for _ in range(runs):
                begin = time.monotonic()
                done = subprocess.run(command, stdout=subprocess.PIPE, check=False)
                wall.append((time.monotonic() - begin) * 1e3)
                data = report_of(done.stdout)
                stopped.append(data["timing"]["stopped_ms"])
                harness.equal(len(data["threads"]), THREADS, "threads in the report")
                harness.check(done.returncode in (harness.COMPLETE, harness.PARTIAL), "exit code", done.returncode)
        medians[n] = statistics.median(wall)
        print(f"{n} of {THREADS} threads sleep uninterruptibly: wall median {medians[n]:.1f} ms,"
              f" the others stopped for {statistics.median(stopped):.2f} ms")
    verdict("what 5 such threads add to the wall time", medians[5] - medians[0], 110, " ms")


def machine():
    with open("/proc/loadavg", encoding="ascii") as file:
        load = file.read().split()[0]
    print(f"{len(os.sched_getaffinity(0))} processors, kernel {os.uname().release}, load {load}", flush=True)


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    vramtap = harness.VRAMTAP = os.path.abspath(sys.argv[1])
    runs = int(sys.argv[2]) if len(sys.argv) > 2 else 100
    subprocess.run(["sh", os.path.join(harness.SOURCE, "tests", "setup", "peers.sh")], check=False)
    beats = heartbeats.Heartbeats()
    version = report_torch.versions()[-1]
    with report_torch.Python(version, "sync", "--threads", str(THREADS - 3), "--heartbeat", beats.library, beats.path) as python:
        pid = python.proc.pid
        machine()
        print(f"PyTorch {version}, {harness.thread_count(pid)} threads")
        tool_list = tools(vramtap, sys.argv[3:])
        measure(tool_list, runs, pid, beats)
        machine()
    show(tool_list)
    judge(tool_list)
    deep_recursion(vramtap, version)
    uninterruptible(vramtap, max(3, runs // 10))
    for directory in harness.CLEAN_UP:
        shutil.rmtree(directory)


if __name__ == "__main__":
    main()
