#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""vramtap stacks: several processes, the views, what is left of the process, and the formats."""
import fcntl
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import unicodedata

from harness import (COMPLETE, NOTHING, PARTIAL, VRAMTAP, Skip, check, equal, main, proc_state, run_stacks, schema_errors, stacks,
                     stacks_json, target, thread_count, vramtap, wait_until)
from native_stacks import interpreters

# Threads: the main one sleeps below a C function that Python called, three wait for one lock, one reads from a pipe.
PROGRAM = """
import os, threading, time, sys
lock = threading.Lock()
lock.acquire()
def waits_for_lock():
    lock.acquire()
def reads():
    os.read(os.pipe()[0], 1)
def sleeps(depth):
    if depth:
        return sleeps(depth - 1)
    print("ready", flush=True)
    return sorted([1, 2], key=lambda n: time.sleep(600))
for function in (waits_for_lock, waits_for_lock, waits_for_lock, reads):
    threading.Thread(target=function, daemon=True).start()
time.sleep(0.2)
sleeps(3)
"""


def python_target():
    return target([sys.executable, "-c", PROGRAM], ready="ready")


def settle(pid):
    """Until no thread runs: the line that we waited for came before the last steps."""
    def asleep():
        for tid in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{tid}/stat", encoding="utf-8", errors="replace") as file:
                if file.read().rpartition(")")[2].split()[0] != "S":
                    return False
        return True
    wait_until(asleep, 20, "the target's threads sleep")


def functions(thread, kind=None):
    return [f["function"] for f in thread["stack"]["frames"] if kind in (None, f["kind"])]


def test_several_processes():
    """Each has its own section; those that cannot be looked at stop no other; the exit status is the worst."""
    gone = subprocess.Popen(["true"])
    gone.wait()
    zombie = subprocess.Popen(["true"])
    wait_until(lambda: proc_state(zombie.pid) == "Z", 20, "a zombie")
    with target(["sleep", "600"]) as first, target(["sleep", "600"]) as last:
        time.sleep(0.2)
        pids = [str(p) for p in (first.pid, gone.pid, zombie.pid, last.pid)]
        _, out, err = vramtap("stacks", *pids, expect=NOTHING)
        equal([int(p) for p in re.findall(r"pid (\d+)", out)], [first.pid, last.pid], "processes in the text")
        check(f"no process {gone.pid}" in err and "zombie" in err, "messages", err)
        _, out, _ = vramtap("stacks", "--json", "-", *pids, expect=NOTHING)
        document = json.loads(out)
        equal([str(p["pid"]) for p in document["processes"]], pids, "processes in the JSON")
        equal([p["error"] and p["error"]["code"] for p in document["processes"]], [None, "gone", "gone", None], "errors")
        run_stacks(("--quiet", pids[0], pids[3]), 60, (COMPLETE,))
        with tempfile.TemporaryDirectory(prefix="vramtap-test-") as directory:
            path = os.path.join(directory, "stacks.json")
            _, out, _ = vramtap("stacks", "--json", path, *pids, expect=NOTHING)
            check(out.count("Threads") == 2, "with a file there is the text as well", out)
            with open(path, encoding="utf-8") as file:
                equal(len(json.load(file)["processes"]), 4, "processes in the file")
            equal(os.listdir(directory), ["stacks.json"], "files left")
    zombie.wait()


def test_nothing_runs_in_the_process():
    """The same mappings, threads and open files before and after, and no thread has run."""
    def look(pid):
        with open(f"/proc/{pid}/maps", encoding="utf-8") as maps:
            return maps.read(), sorted(os.listdir(f"/proc/{pid}/task")), sorted(os.listdir(f"/proc/{pid}/fd"))
    with python_target() as proc:
        settle(proc.pid)
        before = look(proc.pid)
        for args in ((), ("--read-only",), ("--no-stop",), ("--native",), ("--locals",)):
            stacks(proc.pid, *args)
        equal(look(proc.pid), before, "the process")


def test_views():
    with python_target() as proc:
        settle(proc.pid)
        merged, native, python = (stacks_json(proc.pid, view) for view in ("--merged", "--native", "--python"))
        equal([d["view"] for d in (merged, native, python)], ["merged", "native", "python"], "view")
        for one, other, third in zip(merged["threads"], native["threads"], python["threads"]):
            equal({f["kind"] for f in other["stack"]["frames"]}, {"native"}, "kinds of frames with --native")
            equal(functions(third), functions(one, "python"), "--python and the Python frames of --merged")
            check(set(functions(one, "native")) <= set(functions(other)), "native frames of --merged are of --native",
                  functions(one), functions(other))
            check(len(functions(other)) > len(functions(one, "native")), "--native has the interpreter's own frames", functions(other))
            for field in ("tid", "verdict", "waits", "holds_gil", "python"):
                equal(other[field], one[field], f"{field} in both views")
        main_thread = merged["threads"][0]
        equal([f.split(".")[-1] for f in functions(main_thread, "python")], ["<lambda>", "sleeps", "sleeps", "sleeps", "sleeps", "<module>"], "Python frames")


# C calls Python back, twice: qsort() of the C library, and the interpreter's own sort.
CALLBACKS = """
import ctypes, time
libc = ctypes.CDLL(None)
numbers = (ctypes.c_int * 2)(2, 1)
function = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_int), ctypes.POINTER(ctypes.c_int))
def key(n):
    print("ready", flush=True)
    time.sleep(600)
def compare(a, b):
    return len(sorted([1, 2], key=key))
def calls_qsort():
    libc.qsort(numbers, 2, 4, function(compare))
calls_qsort()
"""


def test_callbacks():
    """Python frames stand where C called them: between the C functions that did, in every interpreter."""
    tested = 0
    for path, version in interpreters():
        try:
            with target([path, "-c", CALLBACKS], ready="ready", stderr=subprocess.DEVNULL) as proc:
                settle(proc.pid)
                data = stacks_json(proc.pid)
        except AssertionError:
            if subprocess.run([path, "-c", "import ctypes"], capture_output=True, check=False).returncode:
                continue
            raise
        thread = data["threads"][0]
        names = [f["function"] for f in thread["stack"]["frames"]]
        check(not thread["stack"]["merge_uncertain"], f"{path}: the merge is uncertain", names)
        equal(functions(thread, "python"), ["key", "compare", "calls_qsort", "<module>"], f"{path}: Python frames")
        at = {name: names.index(name) for name in functions(thread, "python")}
        check(at["key"] > 0 and at["compare"] < min(i for i, n in enumerate(names) if n and "qsort" in n and n != "calls_qsort")
              < at["calls_qsort"], f"{path}: qsort() is not between compare and calls_qsort", names)
        if "list_sort" in names:
            check(at["key"] < names.index("list_sort") < at["compare"], f"{path}: list_sort is out of place", names)
        tested += 1
    if not tested:
        raise Skip("no interpreter has ctypes")


def test_threads_option():
    with python_target() as proc:
        settle(proc.pid)
        count = {which: len(re.findall(r"^  [●○] ", stacks(proc.pid, "--threads", which), re.M))
                 for which in ("all", "python", "main", "groups")}
        equal(count, {"all": 5, "python": 5, "main": 1, "groups": 3}, "threads and groups shown")
        data = stacks_json(proc.pid, "--threads", "main")
        equal(len(data["threads"]), 5, "JSON has all threads")
        sizes = sorted(len(group["tids"]) for group in data["thread_groups"])
        equal(sizes, [1, 1, 3], "groups")


def width(line):
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in line)


def test_text():
    """No line is wider than asked for; no control character; the first lines are the answer; colour only when asked for."""
    with python_target() as proc:
        settle(proc.pid)
        for columns in (40, 80, 160):
            for args in ((), ("--threads=all",), ("--no-stop",), ("--ascii",)):
                out = stacks(proc.pid, f"--width={columns}", *args)
                for line in out.splitlines():
                    check(width(line) <= columns, f"wider than {columns}", line)
                    check(not any(unicodedata.category(c) == "Cc" for c in line), "a control character", line)
                    check("--ascii" not in args or line.isascii(), "not ASCII", line)
        plain = stacks(proc.pid, "--width=100")
        head = plain[:plain.index("\nThreads")]
        check(re.search(r"main thread is in (clock_nanosleep|select)", head), "the answer is not at the top", head)
        check("\033[" in stacks(proc.pid, "--color=always"), "no colour with --color=always")


def test_name_of_the_target_is_escaped():
    with target([sys.executable, "-c", "import ctypes, time\nctypes.CDLL(None).prctl(15, b'\\x1b[31m\\n')\n"
                 "print('ready', flush=True)\nexec(compile('def \\N{LATIN SMALL LETTER E WITH ACUTE}(): time.sleep(600)',"
                 "'/tmp/\\x1b]0;x\\x07.py', 'exec'))\n\N{LATIN SMALL LETTER E WITH ACUTE}()"], ready="ready") as proc:
        settle(proc.pid)
        out = stacks(proc.pid, "--threads=all")
        check("\033" not in out and "\007" not in out, "a raw escape", out)
        check("\\x1b" in out, "the name is not there", out)


def test_schema():
    with python_target() as proc, target(["sleep", "600"]) as other:
        settle(proc.pid)
        gone = subprocess.Popen(["true"])
        gone.wait()
        for args in ((), ("--no-stop",), ("--native",), ("--locals",)):
            _, out, _ = vramtap("stacks", "--json", "-", *args, str(proc.pid), str(gone.pid), str(other.pid), expect=NOTHING)
            document = json.loads(out)
            equal(schema_errors(document, "stacks_document"), [], "what the schema does not allow")
        # A schema that accepts anything would be no test.
        document["processes"][0]["unheard_of"] = 1
        check(schema_errors(document, "stacks_document"), "the schema accepts an unknown field")


def full_pipe():
    """Whoever writes to it waits."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    try:
        while True:
            os.write(writer, b"x" * 4096)
    except BlockingIOError:
        pass
    os.set_blocking(writer, True)
    return reader, writer


def catches(pid, signum):
    with open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as file:
        return int(re.search(r"SigCgt:\s*([0-9a-f]+)", file.read()).group(1), 16) >> (signum - 1) & 1


def test_interrupts():
    """It ends at once, even when it cannot say so."""
    with target(["sleep", "600"]) as proc, open(f"/proc/{proc.pid}/status", encoding="utf-8") as status:
        fcntl.flock(status, fcntl.LOCK_EX)  # so that it waits
        for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
            reader, writer = full_pipe()
            tool = subprocess.Popen([VRAMTAP, "stacks", "--timeout=600", str(proc.pid)],
                                    stdout=subprocess.DEVNULL, stderr=writer)
            wait_until(lambda: catches(tool.pid, signal.SIGQUIT), 20, "its handlers are set")
            tool.send_signal(signum)
            try:
                equal(tool.wait(20), 128 + signum, "exit status")
            finally:
                tool.kill()
                os.close(reader)
                os.close(writer)


def test_many_threads():
    program = "import threading, time\nfor i in range(300): threading.Thread(target=time.sleep, args=(600,), daemon=True).start()\n" \
              "print('ready', flush=True)\ntime.sleep(600)"
    with target([sys.executable, "-c", program], ready="ready") as proc:
        wait_until(lambda: thread_count(proc.pid) == 301, 20, "301 threads")
        settle(proc.pid)
        for args in ((), ("--no-stop",)):
            data = stacks_json(proc.pid, *args)
            equal(len(data["threads"]), 301, "threads")
            check(len(data["thread_groups"]) <= 4, "groups", data["thread_groups"])
            check(len(stacks(proc.pid, *args).splitlines()) < 60, "equal threads are not grouped")


# Four threads start four at a time that end at once.
COME_AND_GO = """
import threading, time
def churn():
    while True:
        threads = [threading.Thread(target=str) for _ in range(4)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
for _ in range(4): threading.Thread(target=churn, daemon=True).start()
print("ready", flush=True)
time.sleep(600)
"""


def test_threads_that_come_and_go():
    """Only what was there when everything stood still is shown, and that with its stack."""
    with target([sys.executable, "-c", COME_AND_GO], ready="ready") as proc:
        for _ in range(30):
            data = stacks_json(proc.pid, expect=(COMPLETE, PARTIAL))
            codes = {d["code"] for d in data["diagnostics"]}
            # On a busy machine one may not stop in time.
            if not codes & {"ran", "not-stopped"}:
                equal(data["completeness"], "complete", f"{data['diagnostics']}")
            check(len(data["threads"]) >= 5, "threads", len(data["threads"]))


if __name__ == "__main__":
    main(globals())
