#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Native stacks and their names against eu-stack, frame for frame; merged stacks and waits as the report shows them.

The interpreters are those of $VRAMTAP_PYTHONS (paths, separated by colons), or python3 of $PATH, /usr/bin/python3 and all of
pyenv.
"""
import contextlib
import glob
import os
import re
import shutil
import signal
import subprocess
import time

import report_torch
from harness import (BUILD, CACHE, SOURCE, Skip, check, compile_c, equal, main, report_json, scratch, stacks_json, target)

STACKS = os.path.join(BUILD, "tests/functional/native_stacks")
TARGET = os.path.join(BUILD, "tests/functional/native_stacks_target")
CODE = os.path.join(SOURCE, "tests/functional")


def frames_of(text):
    """{tid: [(address, symbol without version)]} of eu-stack's output, or of ours, which looks the same."""
    threads, frames = {}, None
    for line in text.splitlines():
        tid = re.match(r"TID (\d+):", line)
        frame = re.match(r"#\d+\s+(0x[0-9a-f]+)(?: - 1)?\s*([^\s(\[]*)", line)
        if tid:
            frames = threads.setdefault(int(tid.group(1)), [])
        elif frame:
            frames.append((frame.group(1), frame.group(2).split("@")[0]))
    return threads


def ours(pid, *options):
    done = subprocess.run([STACKS, *options, str(pid)], capture_output=True, check=False, timeout=120)
    equal(done.returncode, 0, "native_stacks: " + done.stderr.decode())
    return done.stdout.decode(errors="replace"), done.stderr.decode()


def eu_stack(pid):
    """Frames, and the threads where eu-stack gave up."""
    if not shutil.which("eu-stack"):
        raise Skip("no eu-stack (package elfutils)")
    done = subprocess.run(["eu-stack", "-n", "0", "-r", "-p", str(pid)], capture_output=True, check=False, timeout=300)
    failed = {int(n) for n in re.findall(r"tid (\d+) at", done.stderr.decode(errors="replace"))}
    return frames_of(done.stdout.decode(errors="replace")), failed


def compare(pid):
    """Every thread has the frames that eu-stack shows; more only where eu-stack gives up, or at a null pointer."""
    text, _ = ours(pid)
    got = frames_of(text)
    want, gave_up = eu_stack(pid)
    equal(sorted(got), sorted(want), "threads")
    frames = 0
    for tid, expected in want.items():
        mine = got[tid]
        if tid in gave_up or "0x" + "0" * 16 in [a for a, _ in mine]:
            check(len(mine) >= len(expected), "fewer frames than eu-stack", tid, mine, expected)
            mine = mine[:len(expected)]
        equal([a for a, _ in mine], [a for a, _ in expected], f"addresses of thread {tid}")
        # eu-stack names nothing at the first byte of a signal trampoline in some releases
        differ = [(m, e) for m, e in zip(mine, expected) if m[1] != e[1] and e[1] and m[1] != "__restore_rt"]
        equal(differ, [], f"names in thread {tid}")
        frames += len(expected)
    return frames, text


@contextlib.contextmanager
def stopped(pid):
    """While the process is stopped by a signal, both tools see the same instant."""
    os.kill(pid, signal.SIGSTOP)
    time.sleep(0.2)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def check_c_program(binary, names):
    with target([binary], ready="ready") as proc:
        time.sleep(0.3)
        with stopped(proc.pid):
            frames, text = compare(proc.pid)
    check(frames > 3000, "too few frames", frames)
    threads = frames_of(text).values()
    if names:
        for name in names:
            check(any(name in [n for _, n in t] for t in threads), f"{name} is in no stack")
        crashed = next(t for t in threads if "crashed" in [n for _, n in t])
        handler = next(i for i, (_, n) in enumerate(crashed) if n == "fault_handler")
        equal(crashed[handler + 2][0], "0x" + "0" * 16, "the null pointer that was called")
        equal([n for _, n in crashed[handler + 3:handler + 5]], ["call_null", "crashed"], "its callers")
    # code that was generated at run time has no unwind information, and the text says so
    check("in no mapped file: callers may be missing" in text, "no note about generated code")
    check("incomplete" not in text, "a stack is incomplete", text[-2000:])


NAMES = ("deep", "in_handler", "varying", "in_callback", "coroutine", "call_null", "in_generated_code", "is_jumped_to",
         "at_tail", "never_returns", "at_the_end", "in_cold_part", "asking_the_time")


def test_c_program():
    """Deep recursion, signal handlers, alloca, callbacks, coroutines, generated code, the vDSO; no frame pointers."""
    check_c_program(TARGET, NAMES)


def test_stripped():
    binary = scratch("stripped")
    if not shutil.which("strip"):
        raise Skip("no strip")
    subprocess.run(["strip", "-o", binary, TARGET], check=True)
    check_c_program(binary, ())


def test_static():
    """A static program: no loader, no .eh_frame_hdr."""
    with open(os.path.join(CODE, "native_stacks_target.c"), encoding="utf-8") as source:
        text = source.read()
    check_c_program(compile_c(text, "-w", "-D_GNU_SOURCE", "-static", "-O2", "-fomit-frame-pointer", "-pthread"), NAMES)


def test_cxx_program():
    compiler = shutil.which("c++") or shutil.which("g++") or shutil.which("clang++")
    if not compiler:
        raise Skip("no C++ compiler")
    binary = scratch("cxx")
    subprocess.run([compiler, "-std=c++17", "-O2", "-pthread", "-o", binary, os.path.join(CODE, "native_stacks_cxx.cc")],
                   check=True)
    with target([binary], ready="ready") as proc:
        time.sleep(0.3)
        frames, text = compare(proc.pid)
    check(frames > 40, "too few frames", frames)
    for name in ("[std::thread::join]", "[handles]", "[std::_Function_handler<...>::_M_invoke]", "[stand_still]"):
        check(name in text, f"{name} is not there", text)


def test_libtorch():
    """Threads that are blocked deep inside PyTorch, with a gigabyte of libraries."""
    version = report_torch.versions()[0]
    if not os.path.exists(os.path.join(CACHE, "torch", version, "python")):
        raise Skip(f"PyTorch {version} is not set up: sh tests/setup/torch.sh {version}")
    script = os.path.join(SOURCE, "tests", "targets", "torch_stacks.py")
    env = dict(os.environ, SIMCUDA_CTL=scratch("control"))
    with target(["sh", report_torch.RUN_SIM, version, "--", "python", script], ready="ready", env=env) as proc:
        time.sleep(0.3)
        with stopped(proc.pid):
            frames, text = compare(proc.pid)
    check(frames > 150, "too few frames", frames)
    for name in ("torch::autograd::Engine::evaluate_function", "torch::autograd::PyNode::apply", "torch::autograd::ReadyQueue::pop",
                 "torch::autograd::Engine::thread_main", "at::_ops::"):
        check(f"[{name}" in text, f"{name} is not there", text)


def test_memory_and_time():
    with target([TARGET, "still"], ready="ready") as proc:
        _, err = ours(proc.pid, "--time")
    peak = int(re.search(r"VmHWM:\s*(\d+) kB", err).group(1))
    check(peak < 64 * 1024, "peak memory in kB", peak)
    unwound = float(re.search(r"unwound in ([0-9.]+) ms", err).group(1))
    check(unwound < 5000, "3,000 frames took ms", unwound)


def interpreters():
    if os.environ.get("VRAMTAP_PYTHONS"):
        paths = os.environ["VRAMTAP_PYTHONS"].split(":")
    else:
        paths = [shutil.which("python3") or "", "/usr/bin/python3"]
        paths += sorted(glob.glob(os.path.expanduser("~/.pyenv/versions/3.*/bin/python3")))
    found = {}
    for path in paths:
        with contextlib.suppress(OSError, subprocess.CalledProcessError, ValueError):
            out = subprocess.run([path, "-c", "import sys, os; print(*sys.version_info[:2], os.path.realpath(sys.executable))"],
                                 capture_output=True, check=True, text=True, timeout=60).stdout.split()
            version = (int(out[0]), int(out[1]))
            if (3, 8) <= version <= (3, 13):
                found.setdefault(os.path.realpath(out[2]), (path, version))
    return list(found.values())


PROGRAM = r"""
import functools, queue, re, threading, time
def numbers():
    while True:
        yield deepest()
def deepest():
    print("ready", flush=True)
    time.sleep(300)
class Called:
    def __init__(self, n):
        self(n)
    def __call__(self, n):
        return sorted([2, 1], key=lambda v: next(numbers()))
def waits_for_queue():
    queue.Queue().get()
def waits_for_lock():
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()
def in_substitution():
    re.sub("a", lambda m: time.sleep(300), "xax")
def in_reduce():
    functools.reduce(lambda a, b: exec("time.sleep(300)"), [1, 2, 3])
for entry in (waits_for_queue, waits_for_lock, in_substitution, in_reduce):
    threading.Thread(target=entry, daemon=True).start()
time.sleep(0.3)
Called(1)
"""


def each_interpreter(test):
    pythons = interpreters()
    if not pythons:
        raise Skip("no Python from 3.8 to 3.13")
    for path, version in pythons:
        with target([path, "-c", PROGRAM], ready="ready") as proc:
            time.sleep(0.3)
            try:
                test(proc.pid, version)
            except AssertionError as error:
                raise AssertionError(f"{path}: {error}") from None


def test_python_native():
    """Interpreters, split by their optimisers into hot and cold parts, against eu-stack."""
    each_interpreter(lambda pid, version: check(compare(pid)[0] > 60, "too few frames"))


def names(thread):
    """A frame as its last name; native ones in brackets."""
    out = []
    for frame in thread["stack"]["frames"]:
        name = (frame["function"] or "?").split(".")[-1]
        out.append(name if frame["kind"] == "python" else f"[{name}]")
    return out


def in_order(wanted, got):
    rest = iter(got)
    return all(w in rest for w in wanted)


def check_merged(pid, version):
    threads = report_json(pid, "--read-only", expect=(0, 1))["threads"]
    stacks = [names(t) for t in threads]
    main_stack = next(names(t) for t in threads if t["main"])
    text = repr((version, main_stack))
    check(not any(t["stack"]["merge_uncertain"] for t in threads), "a stack could not be merged", stacks)
    # C code between Python functions keeps its place, where the interpreter has names
    python = [n for n in main_stack if not n.startswith("[")]
    equal(python, ["deepest", "numbers", "<lambda>", "__call__", "__init__", "<module>"], "Python frames of " + text)
    if "[list_sort]" in main_stack:
        check(in_order(["[time_sleep]", "deepest", "numbers", "<lambda>", "[list_sort]", "__call__"], main_stack), text)
    check(main_stack[-1] == "<module>", "start-up code is left: " + text)
    for noise in ("_PyEval_EvalFrameDefault", "_PyFunction_Vectorcall", "call_function", "PyObject_Vectorcall", "slot_tp_call"):
        check(not any(f"[{noise}]" in s for s in stacks), f"{noise} is left", stacks)
    wanted = (["get", "waits_for_queue", "run"], ["waits_for_lock", "run"], ["<lambda>", "in_substitution", "run"],
              ["<module>", "<lambda>", "in_reduce", "run"])
    for frames in wanted:
        check(any(in_order(frames, s) for s in stacks), "no thread has", frames, stacks)


def test_python_merged():
    each_interpreter(check_merged)


def test_lines_of_merged_frames():
    """Lines are looked up of the frames that are shown only: those have the lines that the native stacks show there."""
    def places(threads):
        return {(t["tid"], f["pc"]): (f["function"], f["file"], f["line"]) for t in threads for f in t["stack"]["frames"]
                if f["kind"] == "native" and not f["inlined"]}

    def run(pid, version):
        native, merged = places(stacks_json(pid, "--native")["threads"]), places(stacks_json(pid)["threads"])
        check(merged, "no native frame is merged", version)
        equal(merged, {place: native[place] for place in merged}, f"native frames of the merged stacks, {version}")
    each_interpreter(run)


def test_waits():
    """What the report says about threads that wait, found from their real stacks."""
    def run(pid, version):
        threads = report_json(pid, "--read-only", expect=(0, 1))["threads"]
        first = next(t for t in threads if t["main"])
        check(first["waits"] and re.match(r"in (clock_nanosleep|select|pselect6)", first["waits"]), "main waits", first["waits"])
        verdicts = {t["verdict"] for t in threads}
        check({"waits on a Python condition", "waits on a Python queue"} & verdicts, "verdicts", verdicts, version)
    each_interpreter(run)


if __name__ == "__main__":
    main(globals())
