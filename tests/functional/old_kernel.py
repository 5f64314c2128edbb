#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""On Linux 4.18: without the system calls and flags that are younger (tests/targets/old_kernel.c) vramtap says what it says with them,
of a process that has the simulated device's memory and of a Python process, below the same filter or not."""
import contextlib
import json
import os
import subprocess
import sys

import recorder_driver
from harness import COMPLETE, PARTIAL, SOURCE, VRAMTAP, Skip, check, compile_c, diag_codes, equal, main, scratch, stacks_json, target, wait_until
from ledger import MIB, Calls

LAUNCHER = []
PYTHON = """
import threading
def waits_long(event):
    print("READY", flush=True)
    event.wait()
waits_long(threading.Event())
"""


def launcher():
    if not LAUNCHER:
        with open(os.path.join(SOURCE, "tests", "targets", "old_kernel.c"), encoding="ascii") as file:
            LAUNCHER.append(compile_c(file.read()))
        if subprocess.run([LAUNCHER[0], "true"], check=False).returncode == 77:
            raise Skip("no filters of system calls here")
    return LAUNCHER[0]


def run(before, *args, expect=(COMPLETE,)):
    done = subprocess.run([*before, VRAMTAP, *args], stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False)
    check(done.returncode in expect, f"{' '.join(args)}: exit code", done.returncode, done.stderr, done.stdout[-1500:])
    return done.stdout.decode()


@contextlib.contextmanager
def calls(*before):
    """What allocates is not below the filter unless before says so; its libraries need not be old."""
    with Calls(command=before) as process:
        process.allocate("malloc", 64 * MIB)
        process.allocate("async", 48 * MIB)
        yield process


def functions(thread):
    return [frame["function"] for frame in thread["stack"]["frames"]]


def without_times(report):
    """What two reports of a process that does nothing have in common."""
    return {"diagnostics": sorted(diag_codes(report)), "headlines": [h["code"] for h in report["headlines"]],
            "cuda": [(d["ordinal"], *sorted((d["memory"] or {}).items())) for d in report["cuda"]["devices"]],
            "threads": sorted((t["tid"], functions(t)) for t in report["threads"])}


def read(process, *launch):
    report = json.loads(run(launch, "report", "--once", "--json", "-", str(process.pid)))
    check(report["cuda"]["devices"][0]["memory"]["used_bytes"] >= 112 * MIB, "the device's memory is known", report["cuda"])
    return without_times(report)


def test_report():
    with calls() as process:
        equal(read(process, launcher()), read(process), "the report with and without newer system calls")


def test_report_of_a_process_there():
    """The helper and its loader, too, are without newer calls. Below a filter vramtap may not read that of another process
    (PTRACE_SECCOMP_GET_FILTER), so only one of them is."""
    with calls(launcher(), "--calls") as process:
        report = read(process)
        equal((report["diagnostics"], len(report["cuda"])), ([], 2), "nothing is missing")


def test_record():
    for tool, before in (((launcher(),), ()), ((), (launcher(), "--calls"))):
        with recorder_driver.Calls("init", command=before) as process:
            pid = str(process.pid)
            run(tool, "record", pid, "on", "--cupti", expect=(COMPLETE, PARTIAL))
            address = process.allocate("malloc", 32 * MIB)
            report = json.loads(run(tool, "report", "--once", "--json", "-", pid, expect=(COMPLETE, PARTIAL)))
            equal([(int(b["address"], 16), b["bytes"]) for b in report["recorder"]["driver"]["blocks"]], [(address, 32 * MIB)],
                  "what was recorded")
            run(tool, "record", pid, "off")


def test_python_stacks():
    with target([sys.executable, "-c", PYTHON], ready="READY") as process:
        # It says so before it waits.
        wait_until(lambda: any("PyThread_acquire_lock_timed" in frames for frames in map(functions, stacks_json(process.pid, "--once")["threads"])), 20, "it waits")
        new, old = (json.loads(run(launch, "stacks", "--once", "--json", "-", str(process.pid)))["processes"][0]
                    for launch in ((), (launcher(),)))
        names = list(map(functions, old["threads"]))
        check(any("waits_long" in name for name in names), "the Python frame", names)
        equal(names, list(map(functions, new["threads"])), "frames")
        equal(diag_codes(old), diag_codes(new), "diagnostics")


def test_debug_file_of_a_root():
    """Separate debug files are found in the target's root, without openat2()."""
    source = "#include <unistd.h>\nstatic int __attribute__((noinline)) waits_here(void) { return pause(); }\n" \
             "int main(void) { return write(1, \"READY\\n\", 6) + waits_here(); }\n"
    binary = compile_c(source, "-g", "-fno-omit-frame-pointer")
    directory = os.path.dirname(binary)
    subprocess.run(["objcopy", "--only-keep-debug", binary, binary + ".debug"], check=True)
    subprocess.run(["objcopy", "--strip-all", "--add-gnu-debuglink=" + binary + ".debug", binary], cwd=directory, check=True)
    with target([binary], ready="READY") as process:
        for launch in ((), (launcher(),)):
            out = run(launch, "stacks", "--once", str(process.pid))
            check("waits_here" in out and "t.c:2" in out, "the function and its line", launch, out)


def test_triage_and_ps():
    with calls() as process:
        text = run([launcher()], "triage", "-o", scratch("triage"), str(process.pid))
        check("ledger_calls" in text, "triage", text)
        check(str(process.pid) in run([launcher()], "ps", expect=(0, 1)), "ps")


def test_filter():
    """The launcher does what it says."""
    probe = "import ctypes; l = ctypes.CDLL(None, use_errno=True); print(l.syscall(434, 1, 0), ctypes.get_errno(), l.syscall(319, b'x', 9), ctypes.get_errno())"
    done = subprocess.run([launcher(), sys.executable, "-c", probe], capture_output=True, check=True)
    equal(done.stdout.split(), [b"-1", b"38", b"-1", b"22"], "pidfd_open() and MFD_NOEXEC_SEAL")


if __name__ == "__main__":
    main(globals())
