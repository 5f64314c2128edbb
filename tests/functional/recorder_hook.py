#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The recorder's hooks in PyTorch's allocator: vramtap record on, status and off, on the real libc10_cuda.so of each release. Every
allocation is seen once, by PyTorch's own count; nothing that the process does has another result; and nothing of it stays."""
import contextlib
import ctypes
import glob
import importlib.util
import json
import os
import re
import shutil
import signal
import subprocess
import time

import torch_truth
from harness import (BUILD, CACHE, COMPLETE, NOTHING, PARTIAL, QUICK, SOURCE, USAGE, VRAMTAP, Skip, check, compile_c, equal, main, scratch,
                     target, thread_names, vramtap, wait_until)
from report_torch import RUN_SIM, versions
from torch_layouts import Library, listed

EITHER = (COMPLETE, PARTIAL)


def record(pid, *words, expect=EITHER, timeout=60):
    """vramtap record PID ...; what it says as JSON."""
    _, out, _ = vramtap("record", str(pid), *words, "--json", "-", expect=expect, timeout=timeout)
    return json.loads(out)


def slots_of(library):
    """{function: index} of the virtual table of a library with symbols, as its own ELF tables say."""
    spec = importlib.util.spec_from_file_location("gen_torch_slots", os.path.join(SOURCE, "scripts", "gen-torch-slots.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.table(library)


class Census:
    """What a recording may not leave behind in a process: threads, descriptors, mappings (but for the library's own)."""

    def __init__(self, pid):
        with open(f"/proc/{pid}/maps", encoding="utf-8", errors="replace") as file:
            lines = file.read().splitlines()
        self.pid = pid
        self.library = [line for line in lines if "/memfd:vramtap-recorder-" in line]
        self.copies = sum("/memfd:vramtap-recorder-" in line and "r-xp" in line for line in lines)
        self.helper = [line for line in lines if "/memfd:vramtap-helper-" in line]
        # The C library keeps the stack of a thread that ended, and an arena, for the next one: once.
        self.maps = len(lines)
        self.threads = len(os.listdir(f"/proc/{pid}/task"))
        self.fds = sorted(os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd"))

    def unchanged_since(self, before):
        equal(self.helper, [], "mappings of the helper")
        equal(len(self.library), len(before.library), "mappings of the library")
        equal(self.threads, before.threads, "threads")
        equal(self.fds, before.fds, "descriptors")
        check(self.maps <= before.maps + 2, "mappings", before.maps, self.maps)


def census_when_quiet(pid):
    """The helper's thread is on its way out when the command ends."""
    wait_until(lambda: not Census(pid).helper and "vramtap" not in thread_names(pid), 5, "the helper is gone")
    return Census(pid)


def word_at(pid, address):
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as file:
        return int.from_bytes(os.pread(file.fileno(), 8, address), "little")


def allocator_of(pid):
    # Where threads allocate all the time the layout may be refused: it is known all the same where the allocator is.
    return int(json.loads(vramtap("layouts", "--json", "-", str(pid), expect=(*EITHER, NOTHING))[1])["allocator"], 16)


def touch(path):
    with open(path, "w", encoding="ascii"):
        pass


def for_each_release(function):
    """All that are set up; few of them when it must be quick."""
    wanted = listed("run" if QUICK else None) + ["2.6.0-debian"]
    done = 0
    for version in wanted:
        if os.path.exists(os.path.join(CACHE, "torch-lib", version, "c10_driver")):
            function(version)
            done += 1
    if not done:
        raise Skip("no release is set up: sh tests/setup/torch-lib.sh")


class Python:
    """tests/targets/torch_hooked.py with PyTorch of a version."""

    def __init__(self, version, **env):
        if not os.path.exists(os.path.join(CACHE, "torch", version, "python")):
            raise Skip(f"PyTorch {version} is not set up: sh tests/setup/torch.sh {version}")
        env = dict(os.environ, SIMCUDA_CTL=scratch("control"), SIMCUDA_DEVICES="1", SIMCUDA_MEM_MB="2048", **env)
        self.context = target(["sh", RUN_SIM, version, "--", "python", os.path.join(SOURCE, "tests", "targets", "torch_hooked.py")],
                              ready="READY", env=env)
        self.library = os.path.join(CACHE, "torch", version, "site", "torch", "lib", "libc10_cuda.so")

    def __enter__(self):
        self.proc = self.context.__enter__()
        self.pid = self.proc.pid
        self.allocator = allocator_of(self.pid)
        return self

    def __exit__(self, *exc):
        return self.context.__exit__(*exc)

    def __call__(self, expression):
        self.proc.stdin.write(expression.encode() + b"\n")
        self.proc.stdin.flush()
        answer = json.loads(self.proc.stdout.readline())
        check(not (isinstance(answer, dict) and "error" in answer), f"the target could not do {expression}", answer)
        return answer


# ---- every release -------------------------------------------------------------------------------

WORK = ["random 7 300", "private 3 70000", "stream 1", "alloc 20 3000", "stream 0", "pending 5 9000", "release", "free 10", "random 8 300"]


def places(blocks):
    """Blocks relative to their segment, in the order of addresses, which differ from process to process: (device, place, bytes, ...)."""
    segments = sorted({(block[0], block[1]) for block in blocks})
    return sorted((segments.index((b[0], b[1])), b[0], b[2] - b[1], *b[3:6]) for b in blocks)


def counted(driver):
    """How many allocations PyTorch counts, and its blocks."""
    path = scratch("snapshot")
    driver(f"snapshot {path}")
    blocks, stats = torch_truth.of_driver_snapshot(path)
    return sum(numbers["allocation"][2] for numbers in stats.values()), places(blocks)


def work(driver):
    for command in WORK:
        driver(command)


def every_allocation_is_seen_once(version):
    with Library(version) as driver, Library(version) as other:
        pid = driver.proc.pid
        driver("alloc 3 1000")
        other("alloc 3 1000")
        allocator = allocator_of(pid)
        vptr = word_at(pid, allocator)
        before, _ = counted(driver)
        said = said_on = record(pid, "on")
        equal((said["state"], said["torch"], said["hooks"]["in_place"] > 0), ("on", True, True), f"{version}: state")
        check(word_at(pid, allocator) != vptr, "nothing was hooked")
        work(driver)
        after, blocks = counted(driver)
        said = record(pid, "status")
        equal(said["torch_allocations"], after - before, f"{version}: allocations seen")
        check(0 < said["records"] <= after - before and said["stacks"] > 0, "records", said)
        equal((said["lost"], said["without_stack"], said["evicted"], said["borrowed_us"]), (0, 0, 0, None), "lost; nothing runs there for a look")
        check(driver("oom").endswith("oom"), "no exception came")
        equal(record(pid, "status")["out_of_memory"], said["out_of_memory"] + 1, f"{version}: out of memory")
        said = record(pid, "off", expect=COMPLETE)
        equal((said["state"], said["hooks"]["in_place"], said["kept_bytes"]), ("off", 0, 0), f"{version}: off")
        check(0 < said["borrowed_us"] < 1e6 and 0 < said_on["borrowed_us"] < 1e6, "how long a thread was borrowed", said, said_on)
        equal(word_at(pid, allocator), vptr, "the pointer to the virtual table")
        work(other)
        equal(blocks, counted(other)[1], f"{version}: blocks with and without the recorder")
        driver("alloc 3 1000")
        equal(record(pid, "status", expect=COMPLETE)["state"], "off", "state at the end")


def test_every_allocation_is_seen_once():
    for_each_release(every_allocation_is_seen_once)


def stripped(version):
    """The library without symbols is known by its release, and gives the same table."""
    where = scratch()
    library = os.path.join(CACHE, "torch-lib", version, "torch", "lib")
    lib = os.path.join(where, "torch", "lib")
    os.makedirs(lib)
    for path in glob.glob(os.path.join(library, "libc10.so*")):
        os.symlink(path, os.path.join(lib, os.path.basename(path)))
    copy = os.path.join(lib, "libc10_cuda.so")
    if subprocess.run(["strip", "-o", copy, os.path.join(library, "libc10_cuda.so")], check=False).returncode:
        raise Skip("no strip")
    shutil.copy(os.path.join(library, "..", "version.py"), os.path.join(where, "torch", "version.py"))
    with Library(version, LD_LIBRARY_PATH=lib) as driver:
        pid = driver.proc.pid
        driver("alloc 3 1000")
        with open(f"/proc/{pid}/maps", encoding="utf-8") as file:
            check(copy in file.read(), "the stripped library is not the one in use")
        before, _ = counted(driver)
        equal(record(pid, "on")["torch"], True, f"{version}, stripped: recorded")
        work(driver)
        equal(record(pid, "status")["torch_allocations"], counted(driver)[0] - before, f"{version}, stripped: allocations seen")
        equal(record(pid, "off")["state"], "off", "off")
        driver("alloc 3 1000")
        # A library whose release is not known is left alone.
        os.unlink(os.path.join(where, "torch", "version.py"))
        _, _, err = vramtap("record", str(pid), "on", "--no-driver", expect=NOTHING)
        check("its release is unknown" in err, "why", err)
        driver("alloc 3 1000")


def test_libraries_without_symbols():
    for version in listed("run" if QUICK else None):
        if os.path.exists(os.path.join(CACHE, "torch-lib", version, "torch", "lib", "libc10_cuda.so")):
            stripped(version)


# ---- with Python ---------------------------------------------------------------------------------


def each_entry(job):
    slots = slots_of(job.library)
    a = job.allocator
    record(job.pid, "on", "--no-driver")
    before = job("allocations()")
    made = [job(f"raw_alloc({a}, {slots['raw_alloc']}, 5000)"),
            job(f"raw_alloc_with_stream({a}, {slots['raw_alloc_with_stream']}, 7000)"), *job("alloc(3, 9000)")]
    if isinstance(slots["allocate_with_address"], int):
        # Where a block was that is free again.
        free = job("alloc(1, 30000000)")[0]
        job("kept.pop() is None")
        equal(job(f"allocate_at({a}, {slots['allocate_with_address']}, 30000000, {free})"), free, "the address")
        made += [free, free]
    check(all(made), "addresses", made)
    said = record(job.pid, "status")
    equal(said["torch_allocations"], job("allocations()") - before, "allocations seen, by PyTorch's count")
    equal(said["torch_allocations"], len(made), "allocations seen")
    # Nothing is allocated for no bytes.
    equal(job(f"raw_alloc({a}, {slots['raw_alloc']}, 0)"), 0, "the address of nothing")
    equal(record(job.pid, "status")["torch_allocations"], len(made), "allocations seen of no bytes")
    equal(job("errno_is_kept()"), 4711, "errno")
    record(job.pid, "off")


def exceptions_pass(job):
    """Out of memory is what it was for the program, on and off; and is noted."""
    want = ["OutOfMemoryError", True, True, 1]
    equal(job("oom()"), want, "without the recorder")
    record(job.pid, "on")
    noted = record(job.pid, "status")["out_of_memory"]
    equal([job("oom()") for _ in range(3)], [want] * 3, "with the recorder")
    equal(record(job.pid, "status")["out_of_memory"], noted + 3, "errors noted")
    record(job.pid, "off")
    equal(job("oom()"), want, "afterwards")


def test_each_entry_and_exceptions_in_python():
    for version in versions():
        with Python(version) as job:
            each_entry(job)
            exceptions_pass(job)


def test_fork_and_exec():
    """A child is not recorded, and a program that is executed has nothing of it."""
    with Python(versions()[0]) as job:
        want = job("child_s_error()")
        vptr = word_at(job.pid, job.allocator)
        record(job.pid, "on")
        for _ in range(3):
            equal(job("child_s_error()"), want, "what an allocation in a child says")
        job("alloc(5, 600)")
        equal(record(job.pid, "status")["torch_allocations"], 5, "allocations seen, none of a child")
        child = job("fork_and_keep()")
        try:
            check(word_at(child, job.allocator) != vptr, "the child has not inherited the hook")
            equal(record(child, "status", expect=COMPLETE)["state"], "off", "state of the child")
            record(child, "off")
            equal(word_at(child, job.allocator), vptr, "the child's pointer after off")
        finally:
            os.kill(child, signal.SIGKILL)
        equal(record(job.pid, "status")["state"], "on", "state of the parent")
        record(job.pid, "off")
        equal(word_at(job.pid, job.allocator), vptr, "the pointer afterwards")
        record(job.pid, "on")
        job.proc.stdin.write(b'os.execvp("sleep", ["sleep", "60"])\n')
        job.proc.stdin.flush()
        wait_until(lambda: "python" not in os.readlink(f"/proc/{job.pid}/exe"), 20, "exec")
        said = record(job.pid, "status", expect=COMPLETE)
        equal((said["state"], said["loaded"]), ("off", False), "state after exec")


def test_another_tool_replaced_the_table():
    """Its pointer stays, whatever we do; ours are out as far as they are ours."""
    with Python(versions()[0]) as job:
        record(job.pid, "on", "--no-driver")
        theirs = job(f"replace_table({job.allocator}, 40)")
        said = record(job.pid, "status", expect=PARTIAL)
        equal((said["hooks"]["in_place"], said["hooks"]["replaced"]), (0, 1), "hooks")
        code, out, _ = vramtap("record", str(job.pid), "off")
        equal(code, PARTIAL, "exit code of off")
        check("replaced" in out, "it is not said", out)
        equal(word_at(job.pid, job.allocator), theirs, "their pointer")
        check(all(job("alloc(3, 5000)")), "allocations through their copy of our table")
        # Now it is not PyTorch's own table that would be hooked.
        _, _, err = vramtap("record", str(job.pid), "on", "--no-driver", expect=NOTHING)
        check("something else has replaced it" in err, "why", err)
        equal(word_at(job.pid, job.allocator), theirs, "their pointer at the end")


SLOW_LIBRARY = r"""
#include <unistd.h>
__attribute__((constructor)) static void slow(void)
{
	while (access(UNTIL, F_OK))
		usleep(10000);
}
"""


def test_the_loader_is_busy():
    """A thread has the loader's lock: the request times out, and what is loaded later records nothing."""
    until = scratch("until")
    library = compile_c(SLOW_LIBRARY, "-shared", "-fPIC", f'-DUNTIL="{until}"')
    with Python(versions()[0]) as job:
        vptr = word_at(job.pid, job.allocator)
        job(f"load_in_thread({json.dumps(library)})")
        # On a busy machine it may not even get inside in that time: then it has loaded nothing.
        for _ in range(5):
            _, _, err = vramtap("record", str(job.pid), "on", "--timeout", "2", expect=NOTHING)
            if "is loading a library" in err:
                break
        check("is loading a library" in err, "why", err)
        check(all(job("alloc(3, 5000)")), "the process goes on")
        touch(until)
        wait_until(lambda: Census(job.pid).library, 20, "it is loaded when the lock is free")
        census_when_quiet(job.pid)
        said = record(job.pid, "status", expect=COMPLETE)
        equal((said["state"], said["loaded"], word_at(job.pid, job.allocator)), ("off", True, vptr), "state")
        equal(record(job.pid, "on")["state"], "on", "on, with the one that is there")
        equal(Census(job.pid).copies, 1, "libraries")
        record(job.pid, "off")


def test_the_loader_is_busy_for_one_that_is_killed():
    """Its helper loads the recorder later: the next vramtap waits for that, and does not load a second one."""
    until = scratch("until")
    library = compile_c(SLOW_LIBRARY, "-shared", "-fPIC", f'-DUNTIL="{until}"')
    with Python(versions()[0]) as job:
        job(f"load_in_thread({json.dumps(library)})")
        with subprocess.Popen([VRAMTAP, "record", str(job.pid), "on", "--timeout", "30"], stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL) as first:
            # For a moment there are two while it gets inside, too.
            seen = [time.monotonic()]

            def has_waited():
                if thread_names(job.pid).count("vramtap") != 2:
                    seen[0] = time.monotonic()
                return time.monotonic() - seen[0] > 1
            wait_until(has_waited, 20, "the helper and the thread with the file wait")
            first.kill()
        with subprocess.Popen([VRAMTAP, "record", str(job.pid), "on", "--timeout", "30"], stdout=subprocess.DEVNULL) as second:
            wait_until(lambda: thread_names(job.pid).count("vramtap") == 3, 20, "another helper")
            time.sleep(5.5)  # after 5 s a helper ends that hears nothing
            touch(until)
            equal(second.wait(40), COMPLETE, "exit code")
        equal(Census(job.pid).copies, 1, "libraries")
        equal(record(job.pid, "status")["state"], "on", "state")
        record(job.pid, "off")


# ---- again and again -----------------------------------------------------------------------------


def busy(driver, threads=8):
    driver("alloc 50 3000")
    for _ in range(threads):
        driver("busy 0")


def still_works(driver):
    driver("idle")
    driver("alloc 10 2000")


def test_on_and_off_while_threads_allocate():
    """In one session, as fast as it goes."""
    with Library(versions()[0]) as driver:
        pid = driver.proc.pid
        busy(driver)
        command = [os.path.join(BUILD, "tests", "functional", "recorder_switch"), str(pid)]

        def switch(times):
            done = subprocess.run([*command, str(times)], capture_output=True, text=True, timeout=600, check=False)
            check(done.returncode == 0, "recorder_switch", done.stdout, done.stderr)
            return int(re.search(r"(\d+) allocations", done.stdout)[1])

        switch(20)
        before = census_when_quiet(pid)
        check(switch(200 if QUICK else 10000) > 0, "no allocation was seen")
        census_when_quiet(pid).unchanged_since(before)
        still_works(driver)
        equal(record(pid, "status", expect=COMPLETE)["state"], "off", "state")


def test_commands_while_threads_allocate():
    with Library(versions()[0]) as driver:
        pid = driver.proc.pid
        busy(driver)
        vptr = word_at(pid, allocator_of(pid))
        before = None
        for i in range(6 if QUICK else 300):
            equal(record(pid, "on")["state"], "on", "on")
            equal(record(pid, "off", expect=COMPLETE)["state"], "off", "off")
            if i == 2:
                before = census_when_quiet(pid)
        census_when_quiet(pid).unchanged_since(before)
        equal(word_at(pid, allocator_of(pid)), vptr, "the pointer to the virtual table")
        still_works(driver)


# The library is loaded once only, so those two come first.
QUICK_POINTS = {"on": ["record.load", "record.loaded", "inject.requested", "record.on", "record.on-done"],
                "off": ["inject.requested", "record.off", "record.off-done"]}
INJECTION = ["inject.stub-placed", "inject.seized", "inject.interrupted", "inject.stopped", "inject.block-written", "inject.committed",
             "inject.masked", "inject.detached", "inject.memfd-writing", "inject.ready-to-go", "inject.go", "inject.mapped",
             "inject.request"]
POINTS = QUICK_POINTS if QUICK else {action: points + INJECTION for action, points in QUICK_POINTS.items()}


def killed_at(pid, action, point):
    """False: it came through, for the point was not on the way."""
    done = subprocess.run([VRAMTAP, "record", str(pid), action], env=dict(os.environ, VRAMTAP_FAULT=f"kill:{point}"),
                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=60, check=False)
    return done.returncode == -signal.SIGKILL


def test_killed_at_each_point():
    """
    The process lives and allocates, and a later vramtap finds what there is, and ends it: at once, while the helper of the one that was
    killed is still there.
    """
    with open(os.path.join(BUILD, "config.h"), encoding="utf-8") as file:
        if "#define VT_FAULT_POINTS 1" not in file.read():
            raise Skip("built without --enable-fault-points")
    with Library(versions()[0]) as driver:
        pid = driver.proc.pid
        allocator = allocator_of(pid)
        vptr = word_at(pid, allocator)
        busy(driver, 2)
        for action, points in POINTS.items():
            for point in points:
                if action == "off":
                    equal(record(pid, "on")["state"], "on", f"on before a kill at {point}")
                check(killed_at(pid, action, point) or point in INJECTION, f"{action}: it was not killed at {point}")
                driver("alloc 1 1000")
                check(record(pid, "status")["state"] in ("on", "off"), "status")
                equal(record(pid, "off", expect=COMPLETE)["kept_bytes"], 0, f"memory kept after {action} killed at {point}")
                equal(word_at(pid, allocator), vptr, f"the pointer after {action} killed at {point}")
        wait_until(lambda: not Census(pid).helper, 20, "the helpers of those that were killed end")
        still_works(driver)


# ---- in the way ----------------------------------------------------------------------------------

PTRACE_SEIZE, PTRACE_INTERRUPT, PTRACE_DETACH = 0x4206, 0x4207, 17


@contextlib.contextmanager
def traced(pid):
    """As a debugger that lets it run."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    equal(libc.ptrace(PTRACE_SEIZE, pid, None, None), 0, "attach")
    try:
        yield
    finally:
        libc.ptrace(PTRACE_INTERRUPT, pid, None, None)
        os.waitpid(pid, 0x40000000)  # __WALL
        libc.ptrace(PTRACE_DETACH, pid, None, None)


def test_a_debugger_is_there():
    with Library(versions()[0]) as driver:
        pid = driver.proc.pid
        driver("alloc 3 1000")
        with traced(pid):
            _, _, err = vramtap("record", str(pid), "on", "--timeout", "1", expect=NOTHING)
            check("trac" in err, "the tracer is named", err)
            equal(record(pid, "status", expect=COMPLETE)["state"], "off", "state")
        equal(record(pid, "on")["state"], "on", "on, without it")
        record(pid, "off", expect=COMPLETE)


def test_off_from_outside():
    """No thread can be borrowed: the pointers are changed back all the same, and the memory when one can."""
    with Python(versions()[0]) as job:
        vptr = word_at(job.pid, job.allocator)
        record(job.pid, "on", "--no-driver")
        job("alloc(10, 5000)")
        until = scratch("until")
        equal(job(f"spin({json.dumps(until)})"), True, "it runs")
        said = record(job.pid, "off", "--timeout", "1", expect=PARTIAL)
        equal((said["state"], said["hooks"]["out"]), ("off", 1), "hooks")
        check(said["kept_bytes"] > 0, "memory kept", said)
        equal(word_at(job.pid, job.allocator), vptr, "the pointer")
        touch(until)
        equal(json.loads(job.proc.stdout.readline()), True, "it has spun")
        equal(record(job.pid, "status", expect=PARTIAL)["hooks"]["in_place"], 0, "hooks in place")
        equal(record(job.pid, "on", "--no-driver")["torch_allocations"], 0, "on again")
        check(word_at(job.pid, job.allocator) != vptr, "nothing is hooked")
        equal(record(job.pid, "off", expect=COMPLETE)["kept_bytes"], 0, "memory kept")
        equal(word_at(job.pid, job.allocator), vptr, "the pointer at the end")


def head_of(pid):
    """The address of the recorder's head: struct vt_recorder_head begins with its magic."""
    for line in Census(pid).library:
        start, end = (int(word, 16) for word in line.split()[0].split("-"))
        if " rw-p " in line:
            for address in range(start, end, 8):
                if word_at(pid, address) == 0x4443455241525655:
                    return address
    raise AssertionError("no recorder")


def test_a_recorder_of_another_version():
    """Whatever its later parts mean, its hooks can be taken out."""
    with Library(versions()[0]) as driver:
        pid = driver.proc.pid
        driver("alloc 3 1000")
        allocator = allocator_of(pid)
        vptr = word_at(pid, allocator)
        record(pid, "on", "--no-driver")
        with open(f"/proc/{pid}/mem", "r+b", buffering=0) as memory:
            os.pwrite(memory.fileno(), (99).to_bytes(4, "little"), head_of(pid) + 8)
        said = record(pid, "status", expect=PARTIAL)
        equal((said["state"], said["other_version"], said["hooks"]["in_place"]), ("on", True, 1), "state")
        _, _, err = vramtap("record", str(pid), "on", "--no-driver", expect=NOTHING)
        check("another version" in err, "why not", err)
        said = record(pid, "off", expect=EITHER)
        equal((said["state"], said["hooks"]["out"], word_at(pid, allocator)), ("off", 1, vptr), "off")
        equal(record(pid, "status", expect=COMPLETE)["state"], "off", "state afterwards")
        # Ours is another library, beside it.
        equal(record(pid, "on", "--no-driver")["state"], "on", "our own")
        equal(len([line for line in Census(pid).library if " r-xp " in line]), 2, "libraries")
        driver("alloc 5 5000")
        record(pid, "off", expect=COMPLETE)
        equal(word_at(pid, allocator), vptr, "the pointer at the end")


def test_a_debugger_can_attach_afterwards():
    """The name that the loader keeps for the library is no file's, and stops no debugger."""
    if not shutil.which("gdb"):
        raise Skip("no gdb")
    with Library(versions()[0]) as driver:
        driver("alloc 3 1000")
        record(driver.proc.pid, "on")
        done = subprocess.run(["gdb", "-nx", "-p", str(driver.proc.pid), "-batch", "-ex", "bt", "-ex", "info sharedlibrary"],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False)
        check("main" in done.stdout and "/memfd:vramtap-recorder-" in done.stdout, "gdb", done.stdout, done.stderr)
        driver("alloc 3 1000")
        record(driver.proc.pid, "off", expect=COMPLETE)


LATE = r"""
import sys
print("READY", flush=True)
for line in sys.stdin:
    exec(line)
    print("done", flush=True)
"""


def test_pytorch_comes_later():
    """It is recorded from before its first allocation on, when it is there; and "on" may be said again."""
    with target(["sh", RUN_SIM, versions()[0], "--", "python", "-c", LATE], ready="READY",
                env=dict(os.environ, SIMCUDA_CTL=scratch("control"))) as proc:
        def do(what):
            proc.stdin.write(what.encode() + b"\n")
            proc.stdin.flush()
            equal(proc.stdout.readline().strip(), b"done", what)

        _, _, err = vramtap("record", str(proc.pid), "on", expect=NOTHING)
        check("neither PyTorch nor libcuda is loaded" in err, "why", err)
        equal(Census(proc.pid).library, [], "the library")
        do("import torch")
        equal(record(proc.pid, "on")["torch"], True, "recorded")
        do("keep = [torch.empty(1000, device='cuda') for _ in range(5)]")
        equal(record(proc.pid, "on")["torch_allocations"], 5, "on again: allocations seen")
        _, _, err = vramtap("record", str(proc.pid), "on", "--python", expect=NOTHING)
        check("other settings" in err, "why not", err)
        said = record(proc.pid, "status")
        check(said["driver"] != "not recorded" or said["driver_why_not"], "no reason", said)
        record(proc.pid, "off", expect=COMPLETE)


def test_nothing_to_record():
    with target(["sleep", "60"]) as proc:
        _, out, err = vramtap("record", str(proc.pid), "on", expect=NOTHING)
        check("nothing to record: neither PyTorch nor libcuda is loaded" in err and not out, "why", out, err)
        equal(record(proc.pid, "status", expect=COMPLETE)["state"], "off", "status")
        equal(record(proc.pid, "off", expect=COMPLETE)["state"], "off", "off")
        equal(Census(proc.pid).library, [], "the library")


def test_usage():
    for words in ([], ["1"], ["on"], ["1", "sometimes"], ["1", "on", "off"], ["1", "2", "on"], ["1", "off", "--python"],
                  ["1", "on", "--max-memory", "1"], ["1", "on", "--max-memory", "12X"], ["1", "on", "--sample", "-1"],
                  ["1", "on", "--max-memory", "99999999999999999999G"]):
        vramtap("record", *words, expect=USAGE)


if __name__ == "__main__":
    main(globals())
