#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""vramtap watch of several processes, of descendants that come later, and for errors and growth at once."""
import glob
import json
import os
import re
import signal
import subprocess
import time

from harness import (NOTHING, PARTIAL, SOURCE, USAGE, VRAMTAP, COMPLETE, check, check_schema, equal, main, scratch, simulated_python, target,
                     vramtap, wait_until)
from recorder_oom import NO_EVENT, Failing, status
from report_torch import versions

RANKS = os.path.join(SOURCE, "tests", "targets", "torch_ranks.py")


class Watching:
    """vramtap watch, in a directory and a process group of its own."""

    def __init__(self, *args, armed=0):
        self.where, self.log, self.text, self.armed = scratch(), scratch("log"), scratch("text"), armed
        with open(self.log, "wb") as log, open(self.text, "wb") as text:
            self.proc = subprocess.Popen([VRAMTAP, "watch", *(str(a) for a in args)], stdin=subprocess.DEVNULL, stdout=text, stderr=log,
                                         cwd=self.where, start_new_session=True)

    def err(self):
        with open(self.log, encoding="utf-8") as file:
            return file.read()

    def out(self):
        with open(self.text, encoding="utf-8") as file:
            return file.read()

    def wait_armed(self, n):
        wait_until(lambda: self.err().count(": armed, ") >= n or self.proc.poll() is not None, 60, "armed")
        check(self.proc.poll() is None, "it ended", self.proc.returncode, self.err())

    def __enter__(self):
        self.wait_armed(self.armed)
        return self

    def __exit__(self, *exc):
        if self.proc.poll() is None:
            self.proc.kill()
            self.proc.wait()

    def end(self, how=signal.SIGINT, expect=(COMPLETE, PARTIAL)):
        if how:
            os.killpg(self.proc.pid, how)
        self.proc.wait(timeout=60)
        check(self.proc.returncode in (expect if isinstance(expect, tuple) else (expect,)), f"exit code {self.proc.returncode}", self.err(), self.out()[-3000:])
        return self.out()

    def reports(self, pattern="*.json"):
        return sorted(glob.glob(os.path.join(self.where, pattern)))


def load(path):
    with open(path, encoding="utf-8") as file:
        data = json.load(file)
    check_schema(data)
    return data


def test_two_processes():
    """Both run out of memory at once; each has its own file, and nobody waits for the other's report. Recording is off afterwards."""
    with Failing() as one, Failing() as two, Watching("--on-oom", one.pid, two.pid, armed=2) as watch:
        for job in (one, two):
            job.ask("fill 300 5")
        for job in (one, two):
            job.start("fail 400")
        for job in (one, two):
            result = job.answer()
            check(result["type"] == "torch.OutOfMemoryError" and result["ms"] < 2500, "the exception", result)
        wait_until(lambda: len(watch.reports()) == 2, 30, "two files")
        text = watch.end()
        for job in (one, two):
            name = os.path.basename(next(n for n in watch.reports() if f"-{job.pid}-" in n))
            equal(load(os.path.join(watch.where, name))["process"]["pid"], job.pid, "the process")
            equal(text.count(f" JSON: {name}\n"), 1, "the text of each is whole")
            check(f"({job.pid}): out of memory; the report of that moment is {name}\n" in watch.err(), "the log", watch.err())
            equal(status(job.pid)["state"], "off", "recording afterwards")
        # One report after the other: what is printed is not mixed.
        reports = text.split("Complete. JSON: ") if text.count("Complete. JSON: ") == 2 else []
        for part in reports[:2]:
            check(len(set(re.findall(r"pid (\d+)", part))) <= 1, "texts are mixed", part)
        check("interrupted again" not in watch.err(), "each was told once", watch.err())


def test_then():
    with Failing() as one, Failing() as two, Watching("--on-oom", "--then", "oom.json", "--count", "2", one.pid, two.pid, armed=2) as watch:
        for job in (one, two):
            equal(job.ask("fail 600")["type"], "torch.OutOfMemoryError", "the exception")
        watch.end(how=None)
        equal([os.path.basename(n) for n in watch.reports()], sorted(f"oom-{job.pid}.json" for job in (one, two)), "files")
        equal([status(job.pid)["state"] for job in (one, two)], ["off", "off"], "recording afterwards")


def test_count():
    with Failing() as job, Watching("--on-oom", "--count=1", job.pid, armed=1) as watch:
        job.ask("fail 600")
        watch.end(how=None)
        equal(len(watch.reports()), 1, "files")
        equal(job.ask("fail 600")["type"], "torch.OutOfMemoryError", "it goes on")


def test_descendants():
    """A launcher that starts its ranks later, which die of it."""
    words = ["2", "fill", "1", "sleep", "8", "fill", "100", "die", "600"]
    env = dict(os.environ, SIMCUDA_DEVICES="1", SIMCUDA_MEM_MB="512", SIMCUDA_CTX_MB="16")
    with target(["sh", "-c", 'sleep 3; "$@"; true', "sh", *simulated_python(versions()[0]), RANKS, *words], env=env, stderr=subprocess.DEVNULL) as job, \
            Watching("--on-oom", "--children-of", job.pid) as watch:
        watch.wait_armed(2)
        # Nothing is said of those that use no CUDA: the shell and the launcher.
        equal(job.wait(timeout=60), 0, "it goes on")
        watch.end(how=None)
        equal(len(watch.reports()), 2, f"files {watch.err()}")
        found = [load(path) for path in watch.reports()]
        check(all(data["caught"]["verdict"] == "too-large" for data in found), "the reports")
        equal(len({data["process"]["pid"] for data in found}), 2, "the processes")


def ranks(*words):
    env = dict(os.environ, SIMCUDA_DEVICES="1", SIMCUDA_MEM_MB="512", SIMCUDA_CTX_MB="16")
    return target(["sh", "-c", '"$@"; true', "sh", *simulated_python(versions()[0]), RANKS, *words], env=env, stderr=subprocess.DEVNULL)


def test_forked():
    """A forked loader worker has the driver's library mapped, and does not use it: nothing is put into it."""
    with ranks("1", "fill", "1", "fork", "60", "sleep", "60") as job, Watching("--on-oom", "--children-of", job.pid, armed=1) as watch:
        child = int(job.stdout.readline().split()[1])
        time.sleep(2)  # some searches
        with open(f"/proc/{child}/maps", encoding="utf-8") as maps:
            check("libcuda.so" in maps.read(), "the worker has the library")
        watch.end(expect=NO_EVENT)
        check(str(child) not in watch.err() and watch.err().count(": armed, ") == 1, "the worker is left alone", watch.err())
        os.kill(child, signal.SIGKILL)


def test_tried_again():
    """Another one watches the rank when it is found: it is tried again later."""
    with ranks("1", "fill", "1", "fork", "0", "sleep", "60") as job:
        child = int(job.stdout.readline().split()[1])
        with open(f"/proc/{child}/stat", encoding="utf-8") as stat:
            rank = int(stat.read().rpartition(")")[2].split()[1])
        with Watching("--on-oom", rank, armed=1) as first, Watching("--on-oom", "--children-of", job.pid) as second:
            wait_until(lambda: "another vramtap already watches" in second.err(), 30, "it fails")
            equal(second.err().count(": armed, "), 0, "armed")
            first.end(expect=NO_EVENT)
            second.wait_armed(1)
            second.end(expect=NO_EVENT)


def test_nobody_comes():
    # A zombie at the end: nobody waits for it.
    with target(["sleep", "2"]) as job:
        start = time.monotonic()
        code, _, err = vramtap("watch", "--on-oom", "--children-of", str(job.pid))
        equal((code, err), (NO_EVENT, ""), "no descendant uses CUDA")
        check(1 < time.monotonic() - start < 20, "it ends with the process")
    with target(["sleep", "60"]) as job:
        equal(vramtap("watch", "--on-oom", "--timeout=1", "--children-of", str(job.pid))[0], NO_EVENT, "the time is over")
        equal(vramtap("watch", "--on-oom", str(job.pid), "1" if os.geteuid() else str(os.getpid()))[0], NOTHING, "nothing to watch")


def test_errors_and_growth():
    """Both at once; each line says which process it is of."""
    with Failing() as job, Watching("--on-oom", "--grow", "--every=1s", "--read-only", "--width=120", job.pid, armed=1) as watch:
        for _ in range(60):  # on a busy machine a look takes longer than a second
            job.ask("fill 5 1")
            time.sleep(0.8)
            if watch.out().count("allocate torch_oom.py") >= 7:
                break
        equal(job.ask("fail 600")["type"], "torch.OutOfMemoryError", "the exception")
        wait_until(watch.reports, 30, "a file")
        text = watch.end()
        check(f"JSON: {os.path.basename(watch.reports()[0])}" in text, "the report", text)
        looks = re.findall(rf"^ *{job.pid}  \d\d:\d\d:\d\d +\S+ MiB", text, re.M)
        check(len(looks) >= 5, "the looks", text)
        check(re.search(rf"^python\S* \({job.pid}\)$", text, re.M) and "torch_oom.py" in text.partition("Grows, allocated by")[2], "what grows", text)
        equal(status(job.pid)["state"], "off", "recording afterwards")


def test_killed():
    """Whoever watches ends by itself when the one that was started is killed, and leaves the process as it was."""
    with Failing() as one, Failing() as two, Watching("--on-oom", one.pid, two.pid, armed=2) as watch:
        watch.proc.kill()
        watch.proc.wait()
        for job in (one, two):
            wait_until(lambda job=job: status(job.pid)["state"] == "off", 30, "recording is off again")
            result = job.ask("fail 600")
            check(result["type"] == "torch.OutOfMemoryError" and result["ms"] < 2500, "the exception", result)


def test_usage():
    for args in (["--on-oom"], ["--on-oom", "--count=0", "1"], ["--grow", "--count=1", "1"], ["--on-oom", "--then=-", "1", "2"],
                 ["--on-oom", "--children-of=x"]):
        equal(vramtap("watch", *args)[0], USAGE, f"usage {args}")
    code, _, err = vramtap("watch", "--on-oom", "--then=100%.json", "1", "2")
    check(code == NOTHING and "%h (the host)" in err, "a name that is no pattern", err)


if __name__ == "__main__":
    main(globals())
