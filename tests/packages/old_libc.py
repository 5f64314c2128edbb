#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The program, which brings its own C library, with those of others: processes of distributions with glibc 2.27, 2.31 and the newest,
and with musl, looked at from outside their root and from inside it; and from a root that has nothing but the program. Roots are those
of tests/setup/root.sh, below an overlay; this script runs in namespaces of its own."""
import contextlib
import json
import os
import re
import shutil
import subprocess
import sys

from roots import has, mount, own_namespaces, root, scratch_root  # finds harness
from harness import COMPLETE, NOTHING, PARTIAL, VRAMTAP, Job, Skip, check, equal, main, target  # pylint: disable=wrong-import-order

LIBCS = ("glibc-2.27", "glibc-2.31", "newest")
MIB = 1 << 20
PYTHON = "import sys, threading\ndef waits_long(event):\n    print('READY', flush=True)\n    event.wait()\nwaits_long(threading.Event())"
MUSL = r'''
#include <stdio.h>
#include <unistd.h>
static int __attribute__((noinline)) waits_here(void) { return pause(); }
int main(void) { puts("READY"); fflush(stdout); return waits_here() + 1; }
'''


def libcs():
    """Each root that is there; a skip if none is."""
    found = [name for name in LIBCS if has(name)]
    if not found:
        raise Skip("no roots: sh tests/setup/prepare.sh")
    return [(name, root(name, VRAMTAP)) for name in found]


def run(where, *args, expect=(COMPLETE,)):
    """The program, from outside (where is None) or in a root."""
    command = ["chroot", where, "/vramtap"] if where else [VRAMTAP]
    done = subprocess.run([*command, *map(str, args)], stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False)
    check(done.returncode in expect, f"{args} in {where}: exit code", done.returncode, done.stderr, done.stdout[-1500:])
    return done.stdout.decode(), done.stderr.decode()


def libc_of(name, pid):
    with open(f"/proc/{pid}/maps", encoding="utf-8") as maps:
        return f"{name}: {', '.join(sorted(set(re.findall('libc[-.][^/ ]*$|ld-musl[^/ ]*$', maps.read(), re.M))))}"


def test_python():
    for name, path in libcs():
        with target(["chroot", path, "/usr/bin/python3", "-c", PYTHON], ready="READY") as process:
            print("  ", libc_of(name, process.pid))
            for where in (None, path):
                text, _ = run(where, "stacks", "--once", process.pid, expect=(COMPLETE, PARTIAL))
                if name == "glibc-2.27":
                    check("a CPython older than 3.7" in text and "PyRun_StringFlags" in text, "what is missing of 3.6 is said", text)
                else:
                    check("waits_long" in text and "<string>:4" in text and "Complete." in text, f"the Python frame, {name}", text)


@contextlib.contextmanager
def calls(path, program="ledger_calls", *args):
    command = ["chroot", path, "/usr/bin/env", "LD_LIBRARY_PATH=/sim", "SIMCUDA_DEVICES=1", "SIMCUDA_MEM_MB=8192", "/sim/" + program, *args]
    with Job(command, ready="ready") as job:
        yield job


def test_injection():
    """The helper runs in the process, with its own C library, and undoes what it did."""
    for name, path in libcs():
        with calls(path) as job:
            check(job.ask(f"malloc {64 * MIB}").startswith("0x"), "malloc")
            for where in (None, path):
                report = json.loads(run(where, "report", "--once", "--json", "-", job.pid)[0])
                equal(report["diagnostics"], [], f"diagnostics, {name}")
                memory = report["cuda"]["devices"][0]["memory"]
                equal(memory["used_bytes"], (64 + 256) * MIB, f"memory, {name}")
            check(job.ask(f"malloc {MIB}").startswith("0x"), "it goes on")


def test_recorder():
    for name, path in libcs():
        with calls(path, "cuda_calls", "init") as job:
            for where in (None, path):
                run(where, "record", job.pid, "on", "--cupti", expect=(COMPLETE, PARTIAL))
                address = int(job.ask(f"malloc {32 * MIB}"), 16)
                report = json.loads(run(where, "report", "--once", "--json", "-", job.pid, expect=(COMPLETE, PARTIAL))[0])
                blocks = [(int(b["address"], 16), b["bytes"]) for b in report["recorder"]["driver"]["blocks"]]
                check((address, 32 * MIB) in blocks, f"what was recorded, {name}", blocks)
                run(where, "record", job.pid, "off")


def test_musl():
    """Stacks of a dynamic and a static musl program; no code is run in either, and the report says why."""
    path = root("newest", VRAMTAP)
    with open(path + "/tmp/musl.c", "w", encoding="ascii") as out:
        out.write(MUSL)
    for flags in ((), ("-static",)):
        subprocess.run(["chroot", path, "musl-gcc", "-g", "-O1", *flags, "-o", "/tmp/musl", "/tmp/musl.c"], check=True)
        with target(["chroot", path, "/tmp/musl"], ready="READY") as process:
            for where in (None, path):
                text, _ = run(where, "stacks", "--once", process.pid, expect=(COMPLETE, PARTIAL))
                # Debian's musl has no unwind information: the stack ends in it, and says so.
                check("waits for a signal" in text and ("waits_here" in text or "ends here: no unwind information" in text),
                      "the function that waits, or why not", flags, text)
                text, _ = run(where, "report", "--once", process.pid, expect=(COMPLETE, PARTIAL))
                check("does not use CUDA" in text, "a report", flags, text)


def test_nothing_but_the_program():
    """No shell, no /etc, no /dev; first without /proc, which is said, then with it."""
    path = scratch_root("bare")
    shutil.copy(VRAMTAP, path + "/vramtap")
    with target([sys.executable, "-c", PYTHON], ready="READY") as process:
        check("vramtap" in run(path, "--version")[0], "the version")
        _, err = run(path, "stacks", process.pid, expect=(NOTHING,))
        check("/proc" in err, "that /proc is missing is said", err)
        os.mkdir(path + "/proc")
        mount("-t", "proc", "proc", path + "/proc")
        text, _ = run(path, "stacks", "--once", process.pid, expect=(COMPLETE, PARTIAL))
        check("waits_long" in text, "stacks", text)
        run(path, "report", "--once", process.pid, expect=(COMPLETE, PARTIAL))
        run(path, "ps", expect=(0, 1))
        text, _ = run(path, "triage", process.pid, expect=(COMPLETE, PARTIAL))
        check("waits_long" in text, "triage", text)


if __name__ == "__main__":
    own_namespaces()
    main(globals())
