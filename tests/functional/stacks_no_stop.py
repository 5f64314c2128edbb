#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""vramtap stacks --no-stop: the same stacks as with a stop, of a process that does not notice; and never a mixture."""
import ctypes
import os
import signal
import sys
import time

from harness import COMPLETE, NOTHING, PARTIAL, check, compile_c, equal, main, stacks_json, target, vramtap, wait_until
from native_stacks import interpreters

PTRACE_DETACH, PTRACE_SEIZE = 17, 0x4206

# One thread for each kind of wait; their stacks are those of Python, C and the C library.
SLEEPERS = """
import functools, os, queue, select, socket, threading, time
def on_queue():
    queue.Queue().get()
def on_lock():
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()
def reads():
    os.read(os.pipe()[0], 1)
def in_callback():
    sorted([2, 1], key=lambda n: functools.reduce(lambda a, b: time.sleep(600), [1, 2]))
def on_sockets():
    pair = socket.socketpair()
    select.select([pair[0]], [], [])
def waits(n):
    return waits(n - 1) if n else time.sleep(600)
for function in (on_queue, on_lock, reads, in_callback, on_sockets):
    threading.Thread(target=function, daemon=True).start()
time.sleep(0.3)
print("ready", flush=True)
waits(20)
"""


def read(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def switches(pid):
    """How often each thread was switched off a processor: a stop would add to it."""
    out = {}
    for tid in os.listdir(f"/proc/{pid}/task"):
        status = read(f"/proc/{pid}/task/{tid}/status").splitlines()
        out[int(tid)] = [line for line in status if "ctxt_switches" in line]
    return out


def settle(pid):
    def asleep():
        before = switches(pid)
        time.sleep(0.1)
        return switches(pid) == before
    wait_until(asleep, 20, "the target sleeps")


def frames(thread):
    """Without what native frames have from debug information: on a busy machine there is not always time to read it."""
    return [(f["kind"], f["function"], *((f["file"], f["line"]) if f["kind"] == "python" else (None, None)), f.get("module"),
             f.get("module_offset")) for f in thread["stack"]["frames"] if not f.get("inlined")]


def shown(thread):
    """Without the function that waits: a wait that a stop has interrupted goes on at another instruction of it."""
    return [(kind, function, file, line, module) for kind, function, file, line, module, _ in frames(thread)]


def test_same_as_with_a_stop():
    """For every interpreter: the frames of all threads, which one has the GIL, what they wait for; and none was stopped."""
    tested = 0
    for path, version in interpreters():
        with target([path, "-c", SLEEPERS], ready="ready") as proc:
            settle(proc.pid)
            before = switches(proc.pid)
            without = stacks_json(proc.pid, "--no-stop")
            equal(switches(proc.pid), before, f"{path}: context switches")
            stopped = stacks_json(proc.pid)
            equal(len(without["threads"]), 6, "threads")
            for a, b in zip(without["threads"], stopped["threads"]):
                equal((a["taken"], b["taken"]), ("asleep", "stopped"), f"{path}: how they were read")
                python = [f for f in frames(a) if f[0] == "python"]
                equal(python, [f for f in frames(b) if f[0] == "python"], f"{path}: Python frames")
                if a["stack"]["why"] is None:
                    equal(shown(a), shown(b), f"{path} {version}: frames")
                    tested += 1
                else:
                    # A register that is not known ends it; what was found before that is right.
                    check("register" in a["stack"]["why"], "why it ends", a["stack"]["why"])
                    native = [f for f in shown(a) if f[0] == "native"]
                    equal(native, [f for f in shown(b) if f[0] == "native"][:len(native)], f"{path} {version}: the inner frames")
    check(tested >= 3, "stacks that were complete without a stop", tested)


def test_a_traced_process():
    """Another tracer is in the way of a stop, but not of a look."""
    libc = ctypes.CDLL(None, use_errno=True)
    with target([sys.executable, "-c", SLEEPERS], ready="ready") as proc:
        settle(proc.pid)
        equal(libc.ptrace(PTRACE_SEIZE, proc.pid, 0, 0), 0, "PTRACE_SEIZE")
        data = stacks_json(proc.pid, "--no-stop")
        equal({t["taken"] for t in data["threads"]}, {"asleep"}, "how they were read")
        code, out, _ = vramtap("stacks", str(proc.pid))
        check(code in (PARTIAL, NOTHING), "exit status with a stop", code)
        check(code == NOTHING or "traced" in out, "the other tracer is not named", out)
        os.kill(proc.pid, signal.SIGKILL)


# Two ways to one sleep of a millisecond, through functions of their own and frames of different sizes.
MIXER = r"""
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

volatile int result;

__attribute__((noinline)) void nap(void)
{
	struct timespec ts = { .tv_nsec = 1000000 };

	nanosleep(&ts, NULL);
	result++;
}

#define WAY(name, inner, bytes)                              \
	__attribute__((noinline)) void name(void)            \
	{                                                    \
		volatile char room[bytes];                   \
		room[0] = (char)result;                      \
		inner();                                     \
		result += room[0];                           \
	}
WAY(left_inner, nap, 300)
WAY(left_middle, left_inner, 40)
WAY(left_outer, left_middle, 1000)
WAY(right_inner, nap, 40)
WAY(right_outer, right_inner, 2000)

static void *naps(void *arg)
{
	for (;;) {
		left_outer();
		right_outer();
	}
	return arg;
}

static void *spins(void *arg)
{
	for (;;)
		result++;
	return arg;
}

int main(void)
{
	pthread_t thread;

	for (int i = 0; i < 4; i++)
		pthread_create(&thread, NULL, naps, NULL);
	pthread_create(&thread, NULL, spins, NULL);
	puts("ready");
	fflush(stdout);
	for (;;)
		pause();
}
"""


def test_never_a_mixture():
    """Threads that wake up all the time: a shown stack existed; else the report says that the thread ran."""
    binary = compile_c(MIXER, "-pthread", "-fno-optimize-sibling-calls")
    ways = (["nap", "left_inner", "left_middle", "left_outer", "naps"], ["nap", "right_inner", "right_outer", "naps"])
    seen = {0: 0, 1: 0}
    with target([binary], ready="ready") as proc:
        def enough():
            data = stacks_json(proc.pid, "--no-stop", expect=(COMPLETE, PARTIAL))
            ran = 0
            for thread in data["threads"]:
                names = [f["function"] for f in thread["stack"]["frames"]]
                ran += thread["taken"] == "running"
                if thread["main"]:
                    equal((thread["taken"], "main" in names), ("asleep", True), "the main thread")
                elif thread["taken"] == "running":
                    equal(names, [], "frames of a thread that ran")
                    check(thread["stack"]["why"], "it does not say why there is no stack")
                elif "nap" in names:
                    way = names[names.index("nap"):names.index("naps") + 1] if "naps" in names else names
                    check(way in ways, "a stack that there never was", names)
                    seen[ways.index(way)] += 1
            equal(data["completeness"], "partial" if ran else "complete", f"completeness when {ran} threads ran")
            check(any("ran" == d["code"] for d in data["diagnostics"]) == bool(ran), "diagnostics", data["diagnostics"])
            return min(seen.values()) >= 10
        wait_until(enough, 120, "both ways were seen ten times")


PYTHON_BUSY = """
import threading, time
def burns():
    x = 0
    while True:
        x += 1
def naps():
    while True:
        time.sleep(0.0005)
for function in (burns, burns, naps):
    threading.Thread(target=function, daemon=True).start()
print("ready", flush=True)
time.sleep(600)
"""


def test_python_that_runs():
    """What is shown of a thread that runs is a chain that it had; the report is partial and says so."""
    want = {("burns", "run"), ("naps", "run")}
    with target([sys.executable, "-c", PYTHON_BUSY], ready="ready") as proc:
        ran, looks, end = 0, 0, time.monotonic() + 30
        # On a busy machine none of its threads may get a processor for many looks in a row.
        while looks < 10 or (not ran and time.monotonic() < end):
            looks += 1
            data = stacks_json(proc.pid, "--no-stop", expect=(COMPLETE, PARTIAL))
            for thread in data["threads"][1:]:
                names = [f["function"].split(".")[-1] for f in thread["stack"]["frames"] if f["kind"] == "python"]
                check(not names or tuple(names[:2]) in want, "Python frames", names)
                if thread["taken"] == "running":
                    ran += 1
                    equal({f["kind"] for f in thread["stack"]["frames"]} <= {"python"}, True, "kinds of frames of a running thread")
                    check(thread["stack"]["why"], "it does not say what is missing")
                check(not (thread["holds_gil"] and (thread["verdict"] or "").startswith("waits for the GIL")), "has and waits for the GIL",
                      thread)
            equal(data["threads"][0]["taken"], "asleep", "the main thread")
            check(sum(bool(t["holds_gil"]) for t in data["threads"]) <= 1, "two threads hold the GIL", data["threads"])
        check(ran > 0, "no thread ran in any look", looks)


if __name__ == "__main__":
    main(globals())
