#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs in the machine of tests/aarch64/run: stacks of C programs with signal frames and signed return addresses, and of Debian's Python,
against gdb, eu-stack and sys._current_frames(); cores, by gcore and by the kernel, against the process and against gdb. What belongs to a
core is left in /vm/results/cores, for the vramtap of the machine outside to read."""
import json
import os
import re
import shutil
import subprocess
import sys
import time

import core
from harness import COMPLETE, Skip, check, compile_c, equal, main, scratch, stacks_json, target, vramtap

CORES = "/vm/results/cores"
PROGRAM = r"""
#include <alloca.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static volatile int sink;
static char alternate[65536];

__attribute__((noinline)) static void stand_still(int n)
{
	if (n == 1) {
		printf("ready\n");
		fflush(stdout);
	}
	for (;;)
		pause();
}

__attribute__((noinline)) static void deeper(int n)
{
	char *some = alloca(16 * n + 1);

	memset(some, n, 16 * n + 1);
	if (n == 1)
		raise(SIGUSR1);
	else
		deeper(n - 1);
	sink += some[n];
}

static void handler(int signo)
{
	stand_still(signo == SIGUSR1);
	sink++;
}

static void fault_handler(int signo)
{
	stand_still(signo);
	sink++;
}

/* No prologue: the return address is in x30 alone. */
__attribute__((noinline)) static int leaf(volatile int *p)
{
	return *p;
}

static void *faulting(void *unused)
{
	stack_t stack = { .ss_sp = alternate, .ss_size = sizeof(alternate) };

	sigaltstack(&stack, NULL);
	sink += leaf(unused);
	return NULL;
}

static int compare(const void *a, const void *b)
{
	stand_still(0);
	return *(const int *)a - *(const int *)b;
}

#include <stdlib.h>
static void *sorting(void *unused)
{
	int values[] = { 3, 2, 1 };

	qsort(values, 3, sizeof(values[0]), compare);
	return unused;
}

int main(void)
{
	struct sigaction usr = { .sa_handler = handler }, segv = { .sa_handler = fault_handler, .sa_flags = SA_ONSTACK };
	pthread_t thread;

	sigaction(SIGUSR1, &usr, NULL);
	sigaction(SIGSEGV, &segv, NULL);
	pthread_create(&thread, NULL, faulting, NULL);
	pthread_create(&thread, NULL, sorting, NULL);
	usleep(300000);
	deeper(20);
	return 0;
}
"""
VARIANTS = {
    "plain": ("-O2", "-fomit-frame-pointer", "-mbranch-protection=none"),
    "unoptimised": ("-O0", "-g", "-mbranch-protection=none"),
    "signed": ("-O2", "-fomit-frame-pointer", "-mbranch-protection=standard"),
    "signed-leaves": ("-O1", "-mbranch-protection=pac-ret+leaf+b-key"),
    "static": ("-O2", "-static", "-mbranch-protection=standard"),
}
# As gdb has it: (tid, [(pc, name)]).
GDB_FRAMES = """
import gdb, json
answer = {}
for thread in gdb.selected_inferior().threads():
    thread.switch()
    frames, frame = [], gdb.newest_frame()
    while frame is not None:
        if frame.type() not in (gdb.INLINE_FRAME, gdb.TAILCALL_FRAME):  # they have no frame on the stack
            frames.append((frame.pc(), frame.type() == gdb.SIGTRAMP_FRAME, frame.name()))
        frame = frame.older()
    answer[thread.ptid[1]] = frames
print("FRAMES", json.dumps(answer))
"""


def gdb_frames(*args):
    script = scratch("frames.py")
    with open(script, "w", encoding="ascii") as file:
        file.write(GDB_FRAMES)
    done = subprocess.run(["gdb", "--nx", "--batch", "-iex", "set backtrace past-main on", *args, "-x", script], stdin=subprocess.DEVNULL,
                          capture_output=True, timeout=300, check=False, text=True)
    found = re.search("^FRAMES (.*)$", done.stdout, re.M)
    check(found, "what gdb says", done.stdout[-1000:], done.stderr[-1000:])
    return {int(tid): frames for tid, frames in json.loads(found[1]).items()}


def native(document):
    """{tid: [(pc, name)]}; frames of inlined functions have no pc of their own."""
    return {thread["tid"]: [(int(f["pc"], 16) if isinstance(f["pc"], str) else f["pc"], f["function"]) for f in thread["stack"]["frames"]
                            if f["kind"] == "native" and not f["inlined"]] for thread in document["threads"]}


def plain(name):
    """A function of the C library has several names."""
    return re.sub(r"^(__libc_|__GI_|__new_|_)*|_impl$", "", re.split("[@.]", name)[0])


def same_frames(got, want, where):
    """Every frame that gdb shows is there, at the same address; gdb may not know when to end at the outermost one."""
    equal(sorted(got), sorted(want), f"threads, {where}")
    for tid, frames in want.items():
        mine, theirs = [pc for pc, _ in got[tid]], [pc for pc, _, _ in frames]
        while theirs and theirs[-1] == 0:
            theirs.pop()
        equal([hex(pc) for pc in mine], [hex(pc) for pc in theirs], f"frames of {tid}, {where}: {got[tid]} and {frames}")
        for (_, name), (_, trampoline, wanted) in zip(got[tid], frames):
            check(trampoline or not wanted or not name or plain(name) == plain(wanted), f"name, {where}", name, wanted)


def eu_addresses(*args):
    done = subprocess.run(["eu-stack", "-n", "0", *args], capture_output=True, check=False, timeout=300, text=True)
    threads = {}
    for line in done.stdout.splitlines():
        tid = re.match(r"TID (\d+):", line)
        frame = re.match(r"#\d+\s+(0x[0-9a-f]+)", line)
        if tid:
            frames = threads.setdefault(int(tid[1]), [])
        elif frame:
            frames.append(int(frame[1], 16))
    return threads


def build(variant):
    return compile_c(PROGRAM, "-w", "-D_GNU_SOURCE", "-pthread", *VARIANTS[variant])


def expected_functions(frames):
    names = [[name for _, name in stack] for stack in frames.values()]
    for wanted in (["stand_still", "handler", *["deeper"] * 20, "main"], ["stand_still", "fault_handler", "leaf", "faulting"],
                   ["stand_still", "compare", "sorting"]):
        rest = (iter(stack) for stack in names)
        check(any(all(name in r for name in wanted) for r in rest), "no such stack", wanted, names)


def each_variant(test):
    for variant in VARIANTS:
        try:
            binary = build(variant)
        except Skip as reason:
            raise AssertionError(f"{variant}: {reason}") from None
        with target([binary], ready="ready", preexec_fn=core.allow_cores, cwd=scratch()) as proc:
            time.sleep(0.5)
            test(variant, binary, proc)


def test_against_gdb():
    def run(variant, _binary, proc):
        got = native(stacks_json(proc.pid, "--native"))
        expected_functions(got)
        same_frames(got, gdb_frames("-p", str(proc.pid)), variant)
        print(f"  {variant}: {sum(map(len, got.values()))} frames as gdb has them")
    each_variant(run)


def test_against_eu_stack():
    """Up to the frame of a signal: there the eu-stack of Debian 13 takes a wrong turn. Where it ends earlier, what it has is the same."""
    def run(variant, _binary, proc):
        got, want = native(stacks_json(proc.pid, "--native")), eu_addresses("-p", str(proc.pid))
        equal(sorted(got), sorted(want), "threads")
        ended = 0
        for tid, theirs in want.items():
            mine = [pc for pc, _ in got[tid]]
            signal = next((i for i, (_, name) in enumerate(got[tid]) if name == "<signal handler called>"), len(mine))
            theirs = theirs[:signal + 1]
            ended += len(mine) - len(theirs)
            equal(mine[:len(theirs)], theirs, f"{variant}: {got[tid]}")
        print(f"  {variant}: {sum(map(len, got.values())) - ended} frames as eu-stack has them, {ended} more")
    each_variant(run)


PYTHON = """
import json, sys, threading, time
def waits(event):
    event.wait()
def sleeps(n):
    if n:
        return sleeps(n - 1)
    time.sleep(1000)
def sorts():
    sorted([2, 1], key=lambda v: sleeps(3))
threads = [threading.Thread(target=waits, args=(threading.Event(),), daemon=True), threading.Thread(target=sorts, daemon=True)]
for thread in threads:
    thread.start()
time.sleep(1)
def stack(frame):
    while frame:
        yield frame.f_code.co_qualname, frame.f_lineno
        frame = frame.f_back
def tell():
    frames = sys._current_frames()
    print("ready", json.dumps({t.native_id: list(stack(frames[t.ident])) for t in threads}), flush=True)
    time.sleep(1000)
tell()
"""


def python_target():
    return target([sys.executable, "-c", PYTHON], ready="ready", preexec_fn=core.allow_cores, cwd=scratch())


def python_frames(document):
    return {thread["tid"]: [[f["function"].removeprefix("__main__."), f["line"]] for f in thread["stack"]["frames"]
                            if f["kind"] == "python"] for thread in document["threads"]}


def test_python():
    with python_target() as proc:
        time.sleep(0.5)
        got = python_frames(stacks_json(proc.pid))
        wanted = {int(tid): frames for tid, frames in json.loads(proc.ready_line[len("ready "):]).items()}
        equal(len(got), len(wanted) + 1, "threads")
        for tid, frames in wanted.items():
            equal([line for _, line in got[tid]], [line for _, line in frames], f"lines of {tid}")
            equal([name.split(".")[-1] for name, _ in got[tid]], [name.split(".")[-1] for name, _ in frames], f"functions of {tid}")
        equal([name for name, _ in got[proc.pid]], ["tell", "<module>"], "the main thread")
        same_frames(native(stacks_json(proc.pid, "--native")), gdb_frames("-p", str(proc.pid)), "Python")


def debug_files(path):
    """Those of Debian's packages with symbols."""
    notes = subprocess.run(["eu-readelf", "-n", path], capture_output=True, check=False, text=True).stdout
    build_id = re.search(r"Build ID: ([0-9a-f]+)", notes)
    file = f"/usr/lib/debug/.build-id/{build_id[1][:2]}/{build_id[1][2:]}.debug" if build_id else ""
    return [file] if os.path.exists(file) else []


def keep(path, name, document):
    """For the machine outside: the core, what is said of it here, and the files that it names."""
    os.makedirs(os.path.join(CORES, "sysroot"), exist_ok=True)
    shutil.copy(path, os.path.join(CORES, name + ".core"))
    with open(os.path.join(CORES, name + ".json"), "w", encoding="utf-8") as file:
        json.dump(document, file)
    listed = subprocess.run(["eu-readelf", "-n", path], capture_output=True, check=True, text=True).stdout
    for mapped in set(re.findall(r"^ +[0-9a-f]+-[0-9a-f]+ [0-9a-f]+ \d+ +(/\S+)$", listed, re.M)):
        if os.path.isfile(mapped):
            for file in (mapped, *debug_files(mapped)):
                into = CORES + "/sysroot" + file
                os.makedirs(os.path.dirname(into), exist_ok=True)
                shutil.copy(file, into)


def read_core(path, *args):
    return json.loads(vramtap("stacks", "--json", "-", *args, "--core", path, expect=COMPLETE)[1])


def check_core(path, name, binary, live):
    """As gdb has it, and as the process had it, but for the thread that was killed on its way."""
    document = read_core(path, "--native")
    got = native(document["processes"][0])
    equal(got, live, f"frames of the process and of its core, {name}")
    same_frames(got, gdb_frames(binary, path), name)
    keep(path, name, read_core(path))


def test_gcore():
    def run(variant, binary, proc):
        live = native(stacks_json(proc.pid, "--native"))
        with core.gcore(proc.pid) as path:
            check_core(path, f"gcore-{variant}", binary, live)
    each_variant(run)


def test_kernel_core():
    def run(variant, binary, proc):
        live = native(stacks_json(proc.pid, "--native"))
        with core.kernel_core(proc.pid, proc.wait, os.readlink(f"/proc/{proc.pid}/cwd")) as path:
            check_core(path, f"kernel-{variant}", binary, live)
    each_variant(run)


def test_python_cores():
    with python_target() as proc:
        time.sleep(0.5)
        live = python_frames(stacks_json(proc.pid))
        check(sum(map(len, live.values())) > 8, "too few frames", live)
        with core.gcore(proc.pid) as path:
            document = read_core(path)
            equal(python_frames(document["processes"][0]), live, "gcore")
            keep(path, "gcore-python", document)
        with core.kernel_core(proc.pid, proc.wait, os.readlink(f"/proc/{proc.pid}/cwd")) as path:
            document = read_core(path)
            equal(python_frames(document["processes"][0]), live, "the kernel's core")
            keep(path, "kernel-python", document)


if __name__ == "__main__":
    main(globals())
