#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""examples/quickstart.sh: what it says before it begins, and that --no-torch shows a program that is stuck. What is built is the
program under test; the build is what tests/run.sh has done by then."""
import os
import re
import subprocess
import time

from harness import CACHE, COMPLETE, SOURCE, USAGE, VRAMTAP, Skip, check, equal, main, scratch

SCRIPT = os.path.join(SOURCE, "examples", "quickstart.sh")


def quickstart(*args, **env):
    done = subprocess.run(["sh", SCRIPT, *args], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=False,
                          env=dict(os.environ, VRAMTAP_CACHE=CACHE, **env))
    return done.returncode, done.stdout, done.stderr


def processes(name):
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", encoding="utf-8", errors="replace") as file:
                if name in file.read():
                    found.append(pid)
        except OSError:
            pass
    return found


def test_no_torch():
    if not os.path.exists(os.path.join(CACHE, "simcuda", ".simcuda-built")):
        raise Skip("the simulated device is not built: sh tests/simcuda/build.sh")
    temporary, begin = scratch(), time.monotonic()
    code, out, err = quickstart("--no-torch", VRAMTAP=VRAMTAP, TMPDIR=temporary)
    equal(code, COMPLETE, "exit status: " + err + out)
    check(time.monotonic() - begin < 60, "it takes too long", time.monotonic() - begin)
    check(re.search(r"^! deadlock: \d+ \(stuck\) waits for a lock that \d+ \(loader\) holds; \d+\s+waits", out, re.M), "the deadlock", out)
    check(re.search(r"raw cudaMalloc, unattributed +896 MiB +10 ", out), "what it has allocated", out)
    check("PyTorch: not needed" in err.split("starting examples/stuck.c")[0], "what it says before it begins", err)
    equal(os.listdir(temporary), [], "what it leaves behind")
    equal(processes(temporary), [], "processes that it leaves behind")


def test_what_it_will_download():
    """In an empty cache, with no program to build packages with: it says how much, and does nothing yet."""
    where = scratch()
    tools = os.path.join(where, "bin")
    os.mkdir(tools)
    for name, script in (("dpkg-query", 'echo not-installed'), ("sudo", "exit 1"), ("nvidia-smi", "exit 1"), ("id", "echo 1000"),
                         ("apt-get", r"printf \"'file:%s' x_1.deb 41500000 SHA256:0\n\" a b")):
        with open(os.path.join(tools, name), "w", encoding="utf-8") as file:
            file.write("#!/bin/sh\n" + script.replace('\\"', '"') + "\n")
        os.chmod(os.path.join(tools, name), 0o755)
    done = subprocess.run(["sh", SCRIPT], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False,
                          env=dict(os.environ, VRAMTAP_CACHE=os.path.join(where, "cache"), PATH=tools + ":" + os.environ["PATH"]))
    before = done.stderr.split("quickstart: build packages")[0]
    check("83 MB to download" in before, "the packages", done.stderr)
    check(re.search(r"PyTorch [\d.]+: \d{3} MB to download", before), "PyTorch", done.stderr)
    equal(done.returncode, 1, "exit status without the packages")
    check("apt-get install" in done.stderr, "how to get the packages", done.stderr)


def test_usage():
    code, out, err = quickstart("--torch")
    equal((code, out), (USAGE, ""), "a wrong option")
    check(err.startswith("usage: "), "what it says", err)


if __name__ == "__main__":
    main(globals())
