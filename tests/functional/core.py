#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Cores, of gdb's gcore and of the kernel, against what the live process, elfutils and PyTorch's own snapshot say."""
import contextlib
import glob
import json
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import torch_truth
from harness import (CACHE, COMPLETE, NOTHING, PARTIAL, QUICK, SOURCE, VRAMTAP, Skip, check, check_schema, compile_c, diag_codes,
                     equal, main, report_json, scratch, stacks_json, target, vramtap, wait_until)
from report_torch import RUN_SIM, Driver, functions, versions

SANITIZED = b"__asan_init" in open(VRAMTAP, "rb").read()  # slower, and with shadow memory


def allow_cores():
    resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


def core_pattern():
    with open("/proc/sys/kernel/core_pattern", encoding="ascii") as file:
        pattern = file.read().strip()
    if pattern.startswith("|") or pattern.startswith("@"):
        raise Skip(f"the kernel hands cores to a program: {pattern}")
    return pattern


def settle(pid):
    """Waits until no thread of a process has run for a while: what is read of it now is what a core has."""
    def look():
        seen = []
        for tid in sorted(os.listdir(f"/proc/{pid}/task")):
            with open(f"/proc/{pid}/task/{tid}/syscall", encoding="ascii") as file:
                syscall = file.read()
            with open(f"/proc/{pid}/task/{tid}/status", encoding="ascii", errors="replace") as file:
                seen.append((tid, syscall, re.findall(r"ctxt_switches:\s*(\d+)", file.read())))
        return seen

    def same():
        before = look()
        time.sleep(0.1)
        return before == look() and not any("running" in syscall for _, syscall, _ in before)
    wait_until(same, 60, "all threads sleep")


@contextlib.contextmanager
def kernel_core(pid, wait, where, signo=signal.SIGABRT):
    """The core that the kernel writes of a process (started with allow_cores in the directory where) when signo kills it."""
    pattern = re.sub("%.", "*", core_pattern())
    os.kill(pid, signo)
    os.kill(pid, signal.SIGCONT)
    wait()
    found = [path for path in glob.glob(os.path.join(where, pattern + "*")) if os.path.isfile(path)]
    found = sorted(found, key=os.path.getmtime)
    if not found:
        raise Skip("the kernel wrote no core")
    try:
        yield found[-1]
    finally:
        os.unlink(found[-1])


@contextlib.contextmanager
def gcore(pid, *commands):
    """The core that gdb writes; the process goes on."""
    path = scratch("core")
    commands = [word for command in commands for word in ("-ex", command)]
    try:
        done = subprocess.run(["gdb", "--nx", "--batch", "--readnever", "-iex", "set auto-solib-add off", "-p", str(pid), *commands,
                               "-ex", f"gcore {path}", "-ex", "detach"], stdin=subprocess.DEVNULL, capture_output=True, timeout=250,
                              check=False)
    except FileNotFoundError:
        raise Skip("no gdb") from None
    check(os.path.exists(path), "gdb wrote no core", done.stderr[-500:])
    try:
        yield path
    finally:
        os.unlink(path)


def report_core(path, *args, expect=(COMPLETE,)):
    code, out, err = vramtap("report", "--json", "-", "--core", path, *args)
    data = json.loads(out) if out else {}
    check(code in expect, f"exit code {code}, not {expect}", err, data.get("diagnostics"))
    equal((data["origin"], data["core"]["path"]), ("core", path), "origin")
    equal(data["core"]["size_bytes"], os.path.getsize(path), "size of the core")
    return data


def stacks_core(path, *args, expect=(COMPLETE,)):
    code, out, err = vramtap("stacks", "--json", "-", "--core", path, *args)
    check(code in expect, f"exit code {code}, not {expect}", err, out[:1500])
    return json.loads(out)["processes"][0]


def frames_of(data, lines=True):
    """By thread: all that a frame says. Without lines only what needs no debug information."""
    return {t["tid"]: [(f["kind"], f["function"] if lines or f["kind"] == "python" else None, f["file"] if lines else None,
                        f["line"] if lines else None, f.get("pc"), f.get("build_id"), f.get("module_offset"))
                       for f in t["stack"]["frames"] if lines or not f.get("inlined")] for t in data["threads"]}


def same_threads(core, live):
    # Reading debug information has a time limit, which a busy machine may exceed; then a note says so.
    lines = not any("source lines" in d["text"] for d in core["diagnostics"] + live["diagnostics"])
    ours, theirs = frames_of(core, lines), frames_of(live, lines)
    equal(sorted(ours), sorted(theirs), "threads")
    for tid, frames in theirs.items():
        check(ours[tid] == frames, f"frames of thread {tid}", [f for f in ours[tid] if f not in frames],
              [f for f in frames if f not in ours[tid]], core["diagnostics"], live["diagnostics"])
    for one, other in zip(core["threads"], live["threads"]):
        for field in ("tid", "main", "holds_gil", "idle", "python", "syscall", "verdict"):
            equal(one[field], other[field], f"{field} of thread {one['tid']}")
    check(core["stacks_coherent"], "a core is of one instant")


def native_pcs(data):
    return {t["tid"]: [int(f["pc"], 16) for f in t["stack"]["frames"] if not f["inlined"]] for t in data["threads"]}


def eu_stack(path):
    """Program counters by thread, as elfutils unwinds them."""
    try:
        done = subprocess.run(["eu-stack", "-n", "0", "--core", path], capture_output=True, timeout=250, check=False)
    except FileNotFoundError:
        raise Skip("no eu-stack") from None
    stacks, tid = {}, 0
    for line in done.stdout.decode().splitlines():
        if line.startswith("TID"):
            tid = int(line.split()[1].rstrip(":"))
            stacks[tid] = []
        elif line.startswith("#"):
            stacks[tid].append(int(line.split()[1], 16))
    return stacks


# Threads of all kinds: in Python and called back from C, waiting for a lock, and one that spins.
PROGRAM = """
import ctypes, sys, threading, time
libc = ctypes.CDLL(None)
numbers = (ctypes.c_int * 2)(2, 1)
lock = threading.Lock()
lock.acquire()

@ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
def compare(a, b):
    ready.release()
    lock.acquire()
    return 0

def sorts(secret):
    libc.qsort(numbers, 2, 4, compare)

def waits():
    ready.release()
    lock.acquire()

ready = threading.Semaphore(0)
for function, arguments in ((sorts, ("bassoon",)), (waits, ()), (waits, ())):
    threading.Thread(target=function, args=arguments, daemon=True).start()
for _ in range(3):
    ready.acquire()
time.sleep(0.2)

def outer():
    inner(7)

def inner(depth):
    if depth:
        return inner(depth - 1)
    print("READY", flush=True)
    if sys.argv[1:] == ["segv"]:
        sys.stdin.read(1)
        ctypes.string_at(0x10)
    while True:
        time.sleep(1000)

outer()
"""


@contextlib.contextmanager
def python_target(*args, **kwargs):
    with target([sys.executable, "-c", PROGRAM, *args], ready="READY", preexec_fn=allow_cores, **kwargs) as proc:
        settle(proc.pid)
        yield proc


def check_python_core(path, live, locals_too=True):
    core = stacks_core(path)
    same_threads(core, live)
    equal(native_pcs(stacks_core(path, "--native")), eu_stack(path), "program counters as eu-stack has them")
    if locals_too:
        values = [v["value"] for t in stacks_core(path, "--locals")["threads"] for f in t["stack"]["frames"] if f["kind"] == "python"
                  for v in (f["locals"] or {"variables": []})["variables"]]
        check("'bassoon'" in values, "a local variable", values)
    report = report_core(path)
    same_threads(report, live)
    equal(report["versions"]["cpython"], live["versions"]["cpython"], "version of CPython")
    return report


def test_gcore():
    with python_target() as proc:
        live = stacks_json(proc.pid)
        with gcore(proc.pid) as path:
            report = check_python_core(path, live)
        equal(report["core"]["signal"], None, "a process that was well")
        equal(report["process"]["pid"], proc.pid, "pid")
        equal(report["process"]["command_line"], live["process"]["command_line"], "command line")
        equal(report["process"]["executable"], live["process"]["executable"], "executable")
        check("core" in diag_codes(report), "a diagnostic for what no core has", report["diagnostics"])


def test_kernel():
    where = scratch()
    with python_target(cwd=where, env=dict(os.environ, RANK="3", WORLD_SIZE="8")) as proc:
        live = stacks_json(proc.pid)
        with kernel_core(proc.pid, proc.wait, where) as path:
            report = check_python_core(path, live)
            equal({k: report["core"]["signal"][k] for k in ("name", "killed", "address")},
                  {"name": "SIGABRT", "killed": True, "address": None}, "signal")
            for field in ("pid", "name", "command_line", "executable", "uid", "rank", "world_size", "threads"):
                equal(report["process"][field], live["process"][field], field)
            equal(report["threads"][0]["name"], live["threads"][0]["name"], "name of the main thread")
            _, text, _ = vramtap("report", "--width", "80", "--core", path, expect=COMPLETE)
            check(f"core {path} of pid {proc.pid}" in text and "killed by SIGABRT" in text, "text", text)
            check_schema(report)
            check_schema(stacks_core(path), "stacks")



def test_crash():
    """Which thread got which signal, for which address, and where."""
    where = scratch()
    with python_target("segv", cwd=where) as proc:
        with kernel_core_after(proc, where) as path:
            report = report_core(path)
    signal_ = report["core"]["signal"]
    equal((signal_["name"], signal_["tid"], signal_["address"]), ("SIGSEGV", proc.pid, "0x10"), "signal")
    check("SIGSEGV at address 0x10, in the main thread" in report["headlines"][0]["text"], "headline", report["headlines"])
    check(report["headlines"][0]["alarm"], "alarm")
    check("inner" in functions(report, "python") and any("string_at" in f for f in functions(report)), "where", functions(report))


STRAY = """
#include <stdio.h>
int main(void)
{
	puts("READY");
	fflush(stdout);
	getchar();
	return *(volatile char *)0x1234567800000000ul;
}
"""


def test_no_address():
    """The processor does not say which address it was when that is not canonical; 0 would be a wrong one."""
    where = scratch()
    with target([compile_c(STRAY)], ready="READY", cwd=where, preexec_fn=allow_cores) as proc:
        with kernel_core_after(proc, where) as path:
            signal_ = stacks_core(path)["core"]["signal"]
    equal((signal_["name"], signal_["tid"], signal_["address"]), ("SIGSEGV", proc.pid, None), "signal")


@contextlib.contextmanager
def kernel_core_after(proc, where):
    """The same for a process that crashes by itself when it is told to."""
    pattern = re.sub("%.", "*", core_pattern())
    proc.stdin.write(b"x")
    proc.stdin.flush()
    proc.wait()
    found = glob.glob(os.path.join(where, pattern + "*"))
    if not found:
        raise Skip("the kernel wrote no core")
    yield found[0]


DEADLOCK = """
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
static pthread_mutex_t first = PTHREAD_MUTEX_INITIALIZER, second = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t both;
static void *other(void *arg)
{
	pthread_mutex_lock(&second);
	pthread_barrier_wait(&both);
	pthread_mutex_lock(&first);
	return arg;
}
int main(void)
{
	pthread_t thread;
	pthread_barrier_init(&both, NULL, 2);
	pthread_create(&thread, NULL, other, NULL);
	pthread_mutex_lock(&first);
	pthread_barrier_wait(&both);
	puts("READY");
	fflush(stdout);
	pthread_mutex_lock(&second);
	return 0;
}
"""


def test_deadlock_and_missing_threads():
    """Owners of locks are in memory. The C library's count tells when threads are missing, as cuda-gdb leaves them out."""
    program, where = compile_c(DEADLOCK, "-pthread"), scratch()
    with target([program], ready="READY", cwd=where, preexec_fn=allow_cores) as proc:
        settle(proc.pid)
        live = stacks_json(proc.pid)
        with kernel_core(proc.pid, proc.wait, where) as path:
            core = stacks_core(path)
            without_thread(path, live["threads"][1]["tid"])
            less = stacks_core(path, expect=(PARTIAL,))
    for data in (live, core):
        equal([(t["deadlock"], t["waits_for_tid"]) for t in data["threads"]],
              [(True, live["threads"][1]["tid"]), (True, live["threads"][0]["tid"])], "the waiting threads and their owners")
        check("deadlock" in [h["code"] for h in data["headlines"]], "headline", data["headlines"])
    equal(len(less["threads"]), 1, "threads that are left")
    check("1 of the 2 threads" in text_of(less, "threads-missing"), "named", less["diagnostics"])
    equal(less["threads"][0]["waits"], f"waits for a lock held by thread {live['threads'][1]['tid']}, which is not in the core", "owner")


GIL_HOLDER = """
import ctypes, threading
def holds():
    print("READY", flush=True)
    ctypes.PyDLL(None).sleep(1000)
threading.Thread(target=holds, daemon=True).start()
threading.Event().wait()
"""


def without_thread(path, tid):
    """The core with the notes of a thread as something that is not known."""
    with open(path, "rb") as file:
        data = bytearray(file.read())
    status, at = (5).to_bytes(4, "little") + (336).to_bytes(4, "little") + (1).to_bytes(4, "little") + b"CORE", -1
    while True:
        at = data.index(status, at + 1)
        if int.from_bytes(data[at + 20 + 32:at + 20 + 36], "little") == tid:
            break
    data[at + 8:at + 10] = b"\x77\x77"
    with open(path, "wb") as file:
        file.write(data)


def test_gil_holder_missing():
    where = scratch()
    with target([sys.executable, "-c", GIL_HOLDER], ready="READY", cwd=where, preexec_fn=allow_cores) as proc:
        wait_until(lambda: any(t["holds_gil"] for t in stacks_json(proc.pid)["threads"]), 60, "the GIL is held")
        holder = next(t["tid"] for t in stacks_json(proc.pid)["threads"] if t["holds_gil"])
        check(holder != proc.pid, "another thread holds it", holder)
        with kernel_core(proc.pid, proc.wait, where) as path:
            whole = stacks_core(path)
            without_thread(path, holder)
            less = stacks_core(path, expect=(PARTIAL,))
            _, text, _ = vramtap("stacks", "--core", path, expect=PARTIAL)
    check(any(t["tid"] == holder and t["holds_gil"] for t in whole["threads"]), "the holder of the GIL", whole["threads"])
    check("gil-holder-missing" in diag_codes(less) and str(holder) in text_of(less, "gil-holder-missing"), "named", less["diagnostics"])
    check("GIL is free" not in text, "text", text)
    equal((whole["gil"], less["gil"]), ("held", None), "the GIL of the whole core, and without the thread")


# ---- PyTorch

def same_memory(core, theirs, stats):
    for allocator in core["pytorch"]["allocators"]:
        equal((allocator["method"], allocator["result"]), ("outside", "complete"), f"result ({allocator['why']})")
        for name, values in stats[allocator["device"]].items():
            got = allocator["statistics"][name]
            equal((got["current"], got["peak"], got["allocated"], got["freed"]), values, f"statistic {name}")
    torch_truth.same_blocks(torch_truth.of_report(core), theirs, "the core")
    torch_truth.totals_agree(core["pytorch"]["allocators"])


def allocator(version, of_kernel):
    where = scratch()
    os.chdir(where)
    # gdb writes the simulated device's addresses, too
    with Driver(version, SIMCUDA_DEVICES="1", SIMCUDA_CTX_MB="16", SIMCUDA_MEM_MB="4096" if of_kernel else "128") as driver:
        resource.prlimit(driver.pid, resource.RLIMIT_CORE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        if of_kernel:
            driver("random 5 2000")
        driver("alloc 500 3000")
        driver("free 40")
        driver("private 3 100000")
        driver("pending 30 5000")
        theirs, stats = driver.snapshot()
        settle(driver.pid)
        live = report_json(driver.pid, "--read-only", expect=(COMPLETE, PARTIAL))
        with kernel_core(driver.pid, driver.proc.wait, where) if of_kernel else gcore(driver.pid) as path:
            core = report_core(path)
    check(len(theirs) > 100, "blocks", len(theirs))
    same_memory(core, theirs, stats)
    for key in ("totals", "waits"):
        equal(core["pytorch"]["allocators"][0][key], live["pytorch"]["allocators"][0][key], key)
    equal([(w["kind"], w["number"], w["blocks"]) for w in core["pytorch"]["allocators"][0]["waits"]["streams"]][-1:], [("pool", 2, 30)], "what blocks wait for")
    equal(core["versions"]["pytorch"], live["versions"]["pytorch"], "version of PyTorch")
    equal(core["cuda"]["devices"], [], "devices")
    # The simulated driver has no threads of its own, so that the process looks like a forked one.
    check("maybe-inherited" in diag_codes(core), "doubt", core["diagnostics"])
    same_threads(core, live)


def test_allocator():
    for version in versions():
        allocator(version, of_kernel=True)
    allocator(versions()[0], of_kernel=False)


def test_lock_held():
    """All readable blocks of a core are shown, and the thread that holds the lock."""
    where = scratch()
    os.chdir(where)
    with Driver(versions()[-1], SIMCUDA_DEVICES="1", SIMCUDA_MEM_MB="1024") as driver:
        resource.prlimit(driver.pid, resource.RLIMIT_CORE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        driver("alloc 1000 3000")
        theirs, _ = driver.snapshot()
        driver("holdlock")
        live = report_json(driver.pid, "--read-only", expect=(COMPLETE, PARTIAL))
        with kernel_core(driver.pid, driver.proc.wait, where) as path:
            core = report_core(path, expect=(COMPLETE, PARTIAL))
    check("lock-held" in diag_codes(core), "no diagnostic says that the lock is held", core["diagnostics"])
    equal(core["pytorch"]["allocators"][0]["lock"]["owner_tid"], live["pytorch"]["allocators"][0]["lock"]["owner_tid"], "owner")
    torch_truth.same_blocks([b for b in torch_truth.of_report(core) if b[5] == "allocated"],
                            [b for b in theirs if b[5] == "allocated"], "with the lock held")


# Runs a command and counts what it read from files and its memory. A zombie still has its counters.
MEASURE = """
import os, sys, time
begin = time.monotonic()
pid = os.fork()
if pid == 0:
    os.dup2(os.open(os.devnull, os.O_RDWR), 1)
    os.execvp(sys.argv[1], sys.argv[1:])
os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
wall = time.monotonic() - begin
with open(f"/proc/{pid}/io") as file:
    read = int(file.readline().split()[1])
_, status, usage = os.wait4(pid, 0)
print(os.waitstatus_to_exitcode(status), usage.ru_maxrss, read, wall, usage.ru_utime + usage.ru_stime)
"""


def measure(*command):
    done = subprocess.run([sys.executable, "-I", "-S", "-c", MEASURE, *command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          timeout=100, check=True)
    code, rss, read, wall, cpu = done.stdout.split()
    return int(code), int(rss) / 1024, int(read), float(wall), float(cpu)


def test_full_pytorch():
    """Blocks, frames and merged stacks; and what it costs: 2 s, 256 MB, and a small part of the core."""
    version = versions()[0]
    if not os.path.exists(os.path.join(CACHE, "torch", version, "python")):
        raise Skip(f"PyTorch {version} is not set up: sh tests/setup/torch.sh {version}")
    where, snapshot = scratch(), scratch("snapshot.json")
    command = ["sh", RUN_SIM, version, "--", "python", os.path.join(SOURCE, "tests", "targets", "torch_train.py"), "--hang", "lock",
               "--snapshot", snapshot]
    env = dict(os.environ, SIMCUDA_CTL=scratch("control"), SIMCUDA_DEVICES="1", SIMCUDA_MEM_MB="512")
    with target(command, ready="READY", env=env, cwd=where, preexec_fn=allow_cores) as proc:
        with open(snapshot, encoding="utf-8") as file:
            theirs = torch_truth.of_python_snapshot(json.load(file)["segments"])
        settle(proc.pid)
        live = report_json(proc.pid, "--read-only", expect=(COMPLETE, PARTIAL))
        with kernel_core(proc.pid, proc.wait, where) as path:
            core = report_core(path, "--no-owners")
            equal(native_pcs(stacks_core(path, "--native")), eu_stack(path), "program counters as eu-stack has them")
            size = os.path.getsize(path)
            code, mib, read, wall, cpu = min((measure(VRAMTAP, "report", "--no-owners", "--core", path) for _ in range(3)),
                                                 key=lambda m: m[3])
            with_owners = measure(VRAMTAP, "report", "--core", path)
            # PyTorch's files as on another machine: what is not in the core takes no memory.
            with open(path, "r+b") as file:
                head = file.read(1 << 22)
                file.seek(0)
                file.write(head.replace(b"/torch/lib/", b"/hcrot/lib/"))
            away = report_core(path, expect=(PARTIAL,))
            away_mib = measure(VRAMTAP, "report", "--core", path)[1]
    check("libc10_cuda.so is needed" in text_of(away, "layout-refused") and not away["pytorch"]["allocators"], "why", away["diagnostics"])
    torch_truth.same_blocks(torch_truth.of_report(core), theirs, "the core")
    torch_truth.totals_agree(core["pytorch"]["allocators"])
    equal(core["pytorch"]["allocators"][0]["totals"], live["pytorch"]["allocators"][0]["totals"], "totals")
    same_threads(core, live)
    for field in ("state", "totals", "blocks"):
        equal(core["pytorch"]["pinned_host_memory"][field], live["pytorch"]["pinned_host_memory"][field], f"pinned memory: {field}")
    for field in ("pytorch", "pytorch_layout", "cpython"):
        equal(core["versions"][field], live["versions"][field], field)
    print(f"  FIGURE core of {size >> 20} MiB: report in {wall * 1000:.0f} ms ({cpu * 1000:.0f} ms of processor time), {mib:.0f} MiB, "
          f"{core['core']['read_bytes'] / 2**20:.1f} MiB of the core and {read / 2**20:.1f} MiB in all read")
    equal(code, COMPLETE, "exit code")
    check(core["core"]["read_bytes"] < size / 20, "read of the core", core["core"]["read_bytes"], size)
    if not SANITIZED:
        # Wall clock and libraries' symbol tables are the machine's; what it computes is ours.
        check(cpu < 2, "seconds of processor time", cpu)
        check(mib < 256, "MiB", mib)
        check(with_owners[4] < 2, "seconds of processor time with owners", with_owners[4])
        check(with_owners[1] < 512, "MiB with owners", with_owners[1])
        check(away_mib < 64, "MiB without PyTorch's files", away_mib)
        check(read < size / 4, "bytes read in all", read, size)


# ---- files

# Not in memory: what lies between the data and .symtab keeps that off the last page that is mapped.
LIBRARY = """
#include <unistd.h>
__asm__(".pushsection .junk,\\"\\",@progbits; .zero 20000; .popsection");
static __attribute__((noinline)) int deeper(int n) { %s pause(); return n + 1; }
__attribute__((noinline)) int work(int n) { return deeper(n + 1) + 1; }
"""
WORKER = """
#include <stdio.h>
int work(int n);
int main(int argc, char **argv) { (void)argv; puts("READY"); fflush(stdout); return work(argc) + 1; }
"""


class Worker:
    """A program and its library in a directory of their own, and a core of it."""

    def __init__(self, coredump_filter=None):
        self.home = os.path.realpath(scratch())
        self.library, self.exe = (os.path.join(self.home, name) for name in ("libwork.so", "worker"))
        self.build(self.library, "")
        with open(self.exe + ".c", "w", encoding="ascii") as file:
            file.write(WORKER)
        subprocess.run(["gcc", "-O1", "-Wl,--build-id=sha1", "-o", self.exe, self.exe + ".c", self.library, "-Wl,-rpath,$ORIGIN"],
                       check=True)
        self.core = scratch("core")
        where = scratch()
        with target([self.exe], ready="READY", cwd=where, preexec_fn=allow_cores) as proc:
            if coredump_filter is not None:
                with open(f"/proc/{proc.pid}/coredump_filter", "w", encoding="ascii") as file:
                    file.write(hex(coredump_filter))
            settle(proc.pid)
            with kernel_core(proc.pid, proc.wait, where) as path:
                shutil.copy(path, self.core)

    @staticmethod
    def build(path, text):
        source = scratch("work.c")
        with open(source, "w", encoding="ascii") as file:
            file.write(LIBRARY % text)
        subprocess.run(["gcc", "-O1", "-shared", "-fPIC", "-Wl,--build-id=sha1", "-o", path, source], check=True)

    def stack(self, *args, expect=(COMPLETE,)):
        data = stacks_core(self.core, "--native", *args, expect=expect)
        return data, [(f["function"], f["module"]) for f in data["threads"][0]["stack"]["frames"]]


WHOLE = [("deeper", "libwork.so"), ("work", "libwork.so"), ("main", "worker")]


def text_of(data, code):
    return next(d["text"] for d in data["diagnostics"] if d["code"] == code)


def link_build_ids(worker, root):
    """A directory .build-id as distributions have it."""
    for path in (worker.library, worker.exe):
        notes = subprocess.run(["readelf", "-n", path], capture_output=True, check=True).stdout.decode()
        build_id = re.search("Build ID: ([0-9a-f]+)", notes)[1]
        link = os.path.join(root, build_id[:2], build_id[2:])
        os.makedirs(os.path.dirname(link), exist_ok=True)
        shutil.copy(path, link)


def test_files():
    worker = Worker()
    whole = worker.stack()[1]
    equal(whole[1:4], WHOLE, "frames, all files in place")

    by_id = scratch()
    link_build_ids(worker, os.path.join(by_id, ".build-id"))
    by_debug_id = scratch()
    link_build_ids(worker, os.path.join(by_debug_id, "usr", "lib", "debug", ".build-id"))
    by_name = scratch()
    os.makedirs(os.path.join(by_name, "some", "where"))
    away = scratch("away")
    by_path = scratch()
    shutil.copytree(worker.home, by_path + worker.home)
    shutil.copy(worker.library, os.path.join(by_name, "some", "where"))
    os.rename(worker.home, away)
    exe = os.path.join(away, "worker")

    data, frames = worker.stack(expect=(PARTIAL,))
    check(worker.library in text_of(data, "files-missing") and worker.exe in text_of(data, "files-missing"), "named", data)
    # What is exported is named by the core itself: its first page has the dynamic symbols of so small a library.
    check("deeper" not in [f for f, _ in frames], "no function of a file that is not there", frames)
    unnamed = [f for f in data["threads"][0]["stack"]["frames"] if f["module"] == "libwork.so"]
    check(unnamed and unnamed[0]["build_id"] and unnamed[0]["module_offset"], "module, offset and build id", unnamed)

    for args in (("--sysroot", by_path), ("--sysroot", by_id), ("--sysroot", by_debug_id), ("--sysroot", by_name, "--exe", exe)):
        equal(worker.stack(*args)[1], whole, f"frames with {args}")
    data, _ = worker.stack("--sysroot", by_name, expect=(PARTIAL,))
    check("worker" in text_of(data, "files-missing") and "libwork" not in text_of(data, "files-missing"), "the executable alone", data)

    # The same build id, but no code: the file with the debug information.
    only_debug = os.path.join(scratch(), "worker.debug")
    subprocess.run(["objcopy", "--only-keep-debug", exe, only_debug], check=True)
    data, _ = worker.stack("--sysroot", by_name, "--exe", only_debug, expect=(PARTIAL,))
    check(worker.exe in text_of(data, "files-differ"), "named", data["diagnostics"])
    subprocess.run(["strip", exe, "-o", only_debug], check=True)
    frames = [frame[1] for frame in worker.stack("--sysroot", by_name, "--exe", only_debug)[1]]
    equal(frames, [frame[1] for frame in whole], "frames, the executable without symbols")

    # Another build in its place is not used, here and in a sysroot; nor is a link that leaves the sysroot, or what is no file.
    os.mkdir(worker.home)
    worker.build(worker.library, "if (n > 100) n = deeper(n / 2) * 3;")
    shutil.copy(exe, worker.exe)
    data, frames = worker.stack(expect=(PARTIAL,))
    check(worker.library in text_of(data, "files-differ") and "files-missing" not in diag_codes(data), "named", data["diagnostics"])
    check("deeper" not in [f for f, _ in frames], "functions of another build", frames)
    in_root = by_path + worker.library
    os.unlink(in_root)
    os.unlink(worker.library)
    os.symlink(os.path.join(away, "libwork.so"), in_root)
    data, frames = worker.stack("--sysroot", by_path, expect=(PARTIAL,))
    check(worker.library in text_of(data, "files-missing"), "behind a link out of the sysroot", data["diagnostics"])
    os.unlink(in_root)
    os.mkfifo(in_root)
    worker.stack("--sysroot", by_path, expect=(PARTIAL,))
    # A link that stays in it is followed.
    os.unlink(in_root)
    shutil.copy(os.path.join(away, "libwork.so"), os.path.join(by_path, "real.so"))
    os.symlink("/real.so", in_root)
    equal(worker.stack("--sysroot", by_path)[1], whole, "frames behind a link within the sysroot")


def test_filters():
    """What the kernel was told to leave out: without the first pages no file can be checked, and the report says so."""
    for coredump_filter in (0x31, 0x33, 0x7f):
        equal(Worker(coredump_filter).stack()[1][1:4], WHOLE, f"frames with coredump_filter {coredump_filter:#x}")
    worker = Worker(0x3)
    data, frames = worker.stack(expect=(PARTIAL,))
    equal(frames[1:4], WHOLE, "frames without the first pages")
    check("libwork.so" in text_of(data, "files-unchecked"), "what was not checked is named", data["diagnostics"])
    os.unlink(worker.library)
    worker.build(worker.library, "if (n > 100) n = deeper(n / 2) * 3;")
    data, frames = worker.stack(expect=(PARTIAL,))
    check("libwork.so" in text_of(data, "files-differ"), "another build", data["diagnostics"])
    check("deeper" not in [f for f, _ in frames], "functions of another build", frames)
    # Nothing of its memory
    data, _ = Worker(0).stack(expect=(PARTIAL,))
    check(data["threads"][0]["stack"]["why"], "why there are no more frames", data["threads"][0]["stack"])


def test_cut_short():
    worker = Worker()
    size = os.path.getsize(worker.core)
    with open(worker.core, "rb") as file:
        whole = file.read()
    for keep in (0, 1, 63, 64, 1000, 4096, size // 4, size // 2, size - 20000, size - 1):
        with open(worker.core, "wb") as file:
            file.write(whole[:keep])
        code, out, err = vramtap("stacks", "--json", "-", "--core", worker.core)
        if code == NOTHING and not json.loads(out)["processes"][0].get("diagnostics"):
            check("cut short" in err or "not a core" in err, "message", err)
            continue
        data = json.loads(out)["processes"][0]
        check(code in (PARTIAL, NOTHING) and "cut-short" in diag_codes(data), f"{keep} of {size} bytes", code, data["diagnostics"])
        check("files-differ" not in diag_codes(data), "what cannot be compared is no other build", data["diagnostics"])
        # There is some room before the first segment.
        check(size - keep - 8192 <= data["core"]["missing_bytes"] <= size - keep, "missing", data["core"], size - keep)


def test_refused():
    where = scratch()

    def refused(name, contents, word):
        path = os.path.join(where, name)
        with open(path, "wb") as file:
            file.write(contents)
        _, out, err = vramtap("report", "--core", path, expect=NOTHING)
        check(word in err and path in err and len(err.splitlines()) == 1 and not out, name, err)

    refused("core.zst", b"\x28\xb5\x2f\xfd" + bytes(100), "zstd -d")
    refused("core.lz4", b"\x04\x22\x4d\x18" + bytes(100), "lz4 -d")
    refused("core.gz", b"\x1f\x8b" + bytes(100), "gzip -d")
    refused("text", b"hello\n", "not a core")
    refused("empty", b"", "not a core")
    with open(sys.executable, "rb") as file:
        refused("program", file.read(4096), "not a core")
    header = bytearray(b"\x7fELF\x02\x01\x01" + bytes(9) + b"\x04\x00" + (190).to_bytes(2, "little") + bytes(44))
    refused("core.nvcudmp", bytes(header), "core of a GPU")
    header[18:20] = (21).to_bytes(2, "little")
    refused("core.ppc64", bytes(header), "x86-64 or aarch64")
    header[4], header[18:20] = 1, (3).to_bytes(2, "little")
    refused("core.i386", bytes(header), "x86-64 or aarch64")
    fifo = os.path.join(where, "fifo")
    os.mkfifo(fifo)
    for path, word in ((fifo, "regular file"), (where, "regular file"), (os.path.join(where, "none"), "No such file")):
        check(word in vramtap("report", "--core", path, expect=NOTHING)[2], path)
    for args in (("--core", fifo, "1"), ("--exe", "x", "1"), ("--sysroot", "x"), ("--core", fifo, "--allow-resume"), ("--core", fifo, "--no-stop"),
                 ("--core", fifo, "--core", where)):
        vramtap("report", *args, expect=64)


def test_permission():
    if os.getuid() != 0:
        raise Skip("needs root to become somebody else")
    path = scratch("core")
    os.chmod(os.path.dirname(path), 0o755)
    with open(path, "wb") as file:
        file.write(b"\x7fELF")
    os.chmod(path, 0o600)
    with tempfile.TemporaryDirectory() as home:
        program = shutil.copy(VRAMTAP, home)
        os.chmod(home, 0o755)
        done = subprocess.run([program, "report", "--core", path], stdin=subprocess.DEVNULL, capture_output=True, check=False,
                              user=65534, group=65534, extra_groups=[])
    equal(done.returncode, 3, "exit code")
    check(b"not permitted" in done.stderr and b"user 0" in done.stderr, "message", done.stderr)


def test_hostile():
    """Mutations of a real core: whatever is in it, the report ends, and soon, with one of its exit codes."""
    worker = Worker()
    with open(worker.core, "rb") as file:
        whole = bytearray(file.read())
    end_of_notes = 64 + 56 * int.from_bytes(whole[56:58], "little") + 4096
    rng = random.Random(7)
    slowest = 0
    for number in range((40 if SANITIZED else 200) if QUICK else 5000):
        data = bytearray(whole)
        for _ in range(rng.choice((1, 1, 2, 5, 30))):
            # Headers and notes more often than memory
            at = rng.randrange(rng.choice((64, end_of_notes, end_of_notes, len(data) - 8)))
            kind = rng.randrange(4)
            if kind == 0:
                data[at] = rng.randrange(256)
            elif kind == 1:
                data[at] ^= 1 << rng.randrange(8)
            elif kind == 2:
                data[at:at + 8] = rng.choice((0, 1, 2**63, 2**64 - 1, 0x7fffffff, 4096, len(data))).to_bytes(8, "little")
            else:
                size = rng.randrange(64)
                source = rng.randrange(len(data) - 64)
                data[at:at + size] = data[source:source + size]
        data = data[:len(whole) if rng.random() < 0.9 else rng.randrange(len(whole))]
        with open(worker.core, "wb") as file:
            file.write(data)
        begin = time.monotonic()
        code, _, err = vramtap(rng.choice(("report", "stacks")), "--core", worker.core, timeout=100)
        slowest = max(slowest, time.monotonic() - begin)
        if code not in (COMPLETE, PARTIAL, NOTHING) or "Sanitizer" in err:
            keep = os.path.join(tempfile.gettempdir(), f"vramtap-hostile-core.{number}")
            shutil.copy(worker.core, keep)
            check(False, f"mutation {number}, kept as {keep}: exit code {code}", err[-1500:])
    print(f"  slowest {slowest * 1000:.0f} ms")


if __name__ == "__main__":
    main(globals())
