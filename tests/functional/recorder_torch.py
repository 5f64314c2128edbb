#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The recorder in real PyTorch on the simulated device: its backtraces against PyTorch's own, under threads, forks, functions that
come and go, and a bound on its memory; and that nothing of it stays."""
import os
import random
import re
import signal
import subprocess
import time

import recorder_truth as truth
from harness import COMPLETE, NOTHING, PARTIAL, QUICK, VRAMTAP, check, equal, main, proc_state, report, vramtap, wait_until
from report_torch import versions


def one_of(i):
    """The releases of PyTorch that a test takes: all, or when it must be quick one, which is not the same for all tests."""
    return [versions()[i % len(versions())]] if QUICK else versions()


def test_python_frames_agree():
    """Of each block, function by function and line by line."""
    for version in one_of(1):
        with truth.Recorded(version) as job:
            agreement = truth.places_agree(job, 3 if QUICK else 40, 250, truth.look_at_python)
            truth.nothing_wrong(agreement)
            check(agreement.python > 3000, "too few frames", str(agreement))
            job.unharmed()


def test_native_frames_agree():
    for version in one_of(0):
        with truth.Recorded(version) as job:
            agreement = truth.places_agree(job, 1 if QUICK else 20, 80, truth.look_at_native)
            truth.nothing_wrong(agreement)
            check(agreement.native > 1000, "too few frames", str(agreement))


# ---- functions that come and go ------------------------------------------------------------------

MADE = re.compile(r"made_(\d+)$")
CELL = re.compile(r"/nowhere/cell_(\d+)\.py$")
MAKERS = ("make_functions", "make_cells", "make_editions")


def says_who(frame, size):
    """Whether the innermost frame of a block is right: its function's name, its file or its line goes with the bytes asked for. None: it
    does not say, since its code object is gone."""
    name, file = (frame["function"] or "").rpartition(".")[2], frame["file"] or ""
    if MADE.match(name):
        return int(MADE.match(name)[1]) == size
    if CELL.match(file):
        return int(CELL.match(file)[1]) == size and name == "<module>"
    if name == "edited":
        return (frame["line"] or 0) == size % 100 + 2 if frame["line"] else None
    return None if name not in MAKERS else False


def made_by_the_right_one(data):
    """Where a code object is gone there is no name, and never another's."""
    named = gone = 0
    recorded = data["pytorch"]["recorded"]
    for block in truth.recorded_blocks(data):
        frames = truth.python_frames([recorded["frames"][i] for i in truth.backtrace_of(data, block)["frames"]])
        called = truth.names(data, block)
        if not set(called) & set(MAKERS):
            continue
        right = says_who(frames[0], block["requested_bytes"])
        check(right is not False, f"another one's name, file or line for the block of {block['requested_bytes']} bytes", frames[0], called)
        named += right is True
        gone += right is None
        check(called[1] in MAKERS, "its caller", called)
    return named, gone


def test_functions_that_are_freed():
    """Their code objects, names, files and line tables lie where those of the next ones come to lie."""
    for version in one_of(0):
        with truth.Recorded(version, env={"SIMCUDA_MEM_MB": "16384"}) as job:  # on a busy machine much is allocated between two reports
            job.on("--python")
            count = 500 if QUICK else 15000
            job("made_functions", 1000, 1000 + count)
            named, gone = made_by_the_right_one(job.report())
            equal((named, gone), (3, 3 * count - 3), "blocks of functions that live, and of others")
            job("keep_making_functions", 4)
            for _ in range(3 if QUICK else 50):
                made_by_the_right_one(job.report())
            job("rest")
            job.off()
            job.unharmed()
            print(f"  PyTorch {version}: {named} blocks with the right name, {gone} of a function that is gone")


# ---- threads ----------------------------------------------------------------------------------------

def made_where(data):
    """allocate_and_free() itself asks for 300 floats, and for all else another function."""
    seen = 0
    for block in truth.recorded_blocks(data):
        called = truth.names(data, block)
        if not called or "allocate_and_free" not in called:
            continue
        equal(called[0], "allocate_and_free" if block["requested_bytes"] == 1200 else "allocate",
              f"the function that asked for {block['requested_bytes']} bytes at {block['address']}: {called}")
        seen += 1
    return seen


class Before:
    """What the process has before the recorder comes; afterwards it must have the same."""

    def __init__(self, job):
        self.job = job
        job("fork", 0)  # what the first of these leaves behind for good
        self.tables = truth.table_addresses(job.pid)
        self.descriptors = truth.descriptors(job.pid)
        self.threads = truth.threads(job.pid)

    def is_again(self):
        pid = self.job.pid
        wait_until(lambda: truth.threads(pid) == self.threads, 15, f"threads {truth.threads(pid)}, before {self.threads}")
        equal(truth.descriptors(pid), self.descriptors, "descriptors")
        equal(truth.tables(pid, self.tables), (0, 0), "memory of the recorder's tables, mapped and resident")
        check(len(truth.libraries(pid)) <= 1, "more than one recorder is loaded", truth.libraries(pid))


def test_on_and_off_under_load():
    """Eight threads allocate; reports during that are right, and nothing is left afterwards."""
    rng = random.Random(3)
    for version in one_of(1):
        with truth.Recorded(version) as job:
            before, seen = Before(job), 0
            job("load", 8)
            rounds = 6 if QUICK else 500
            for i in range(rounds):
                job.on(("--python", "--both", "--native")[i % 3])
                if i % 3 != 2:
                    seen += made_where(job.report(*(["--read-only"] if i % 2 else [])))
                else:
                    time.sleep(rng.random() / 20)
                job.off()
            job("rest")
            check(seen > rounds, "blocks that were looked at", seen)
            before.is_again()
            job.unharmed()
            print(f"  PyTorch {version}: {rounds} times on and off, {seen} backtraces looked at")


# ---- processes -----------------------------------------------------------------------------------------

def in_the_child(job):
    """A forked child has the hook, but no tables; it allocates nothing on the device, and is no place to record."""
    child = job("fork", 30)["pid"]
    try:
        equal(truth.tables(child), (0, 0), "tables in a child")
        code, out, err = vramtap("record", str(child), "status")
        print(f"  status of a forked child: {code}, {(out + err).strip().splitlines()[:1]}")
        check(code in (COMPLETE, PARTIAL, NOTHING), "status of a child", code, out, err)
        check(proc_state(child) in "SR", "the child's state", proc_state(child))
    finally:
        os.kill(child, signal.SIGKILL)
        job("wait", child)


def threads_that_come_and_go(job):
    job.on("--both")
    job("short_threads")
    for _ in range(2 if QUICK else 100):
        data = job.report()
        check(data["pytorch"]["allocators"], "no allocator", data["diagnostics"])
    job("rest")
    job.off()
    job.unharmed()


def test_short_threads_fork_and_exec():
    with truth.Recorded(versions()[0]) as job:
        threads_that_come_and_go(job)
        job.on("--both")
        for _ in range(3):
            equal(job("fork", 0), {"status": 0}, "how a child ended")
        equal(job("spawn"), {"out": ["42", "42"], "status": 0}, "other programs")
        in_the_child(job)
        job("load", 4)
        for _ in range(5 if QUICK else 300):
            equal(job("fork", 0), {"status": 0}, "how a child ended that was forked while others allocate")
        job("rest")
        job("step")
        check(any(truth.names(d, b)[:2] == ["by_function", "do_step"] for d in [job.report()] for b in truth.recorded_blocks(d)),
              "the parent's recording goes on")
        equal(job("become_another"), "changed", "exec")
        code, out, err = vramtap("record", str(job.pid), "status")
        print(f"  status after exec: {code}, {(out + err).strip().splitlines()[:1]}")
        check(code in (COMPLETE, PARTIAL, NOTHING), "status after exec", code, out, err)
        check(proc_state(job.pid) in "SR", "the new program's state", proc_state(job.pid))


# ---- the bound -----------------------------------------------------------------------------------------

def test_memory_is_bounded():
    """It samples when there is no more room, and says so; what it has is right."""
    with truth.Recorded(versions()[0]) as job:
        before = Before(job)
        job.on("--both", "--max-memory", "4M")
        job("blocks", 150000)
        mapped, _ = truth.tables(job.pid, before.tables)
        state = job.status()
        check(mapped <= 4 << 20, "bytes mapped", mapped, state)
        check(state["memory_bytes"] <= 4 << 20, "bytes that it says", state)
        check(state["sample_now_bytes"] > 0, "sampling", state)
        data = job.report()
        ours = truth.recorded_blocks(data)
        check(1000 < len(ours) < 150000, "blocks with a backtrace", len(ours), state)
        for block in ours:
            called = truth.names(data, block)
            check(not called or called[0] == "by_function", "a sampled backtrace", called)
        check(data["recorder"]["sample_now_bytes"] > 0, "the report does not say that it is a sample", data["recorder"])
        equal(len(ours) + data["pytorch"]["recorded"]["without"]["sampled"]["blocks"], 150000, "recorded and left out")
        _, out, _ = report(job.pid)
        check("are sampled, one per" in out, "the text does not say that it is a sample", out)
        job.off()
        before.is_again()
        job.unharmed()
        print(f"  bound 4 MiB: {mapped} bytes mapped, {len(ours)} of 150,000 blocks have a backtrace, sample {state['sample_now_bytes']} bytes")


# ---- all at once ---------------------------------------------------------------------------------------

class Storm:
    """One vramtap after the other, and several at a time, some of them killed, on a process that does all kinds of things and is
    stopped now and then."""

    def __init__(self, pid, seed):
        self.pid, self.rng, self.codes, self.tools = pid, random.Random(seed), {}, []

    def command(self):
        pid = str(self.pid)
        return self.rng.choice((["record", pid, "on"], ["record", pid, "on", "--both"], ["record", pid, "on", "--python"],
                                ["record", pid, "on", "--native", "--max-memory", "4M"], ["record", pid, "off"], ["record", pid, "off"],
                                ["record", pid, "status"], ["report", pid], ["report", "--sites", "--no-stop", pid],
                                ["report", "--read-only", pid], ["stacks", pid]))

    def start(self):
        words = self.command()
        tool = subprocess.Popen([VRAMTAP, *words], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        self.tools.append((words, tool, time.monotonic()))

    def reap(self, wait):
        for entry in list(self.tools):
            words, tool, since = entry
            if tool.poll() is None and not wait:
                check(time.monotonic() - since < 60, "a command does not end", words)
                continue
            _, err = tool.communicate(timeout=60)
            name = words[0] if words[0] != "record" else "record " + words[2]
            self.codes.setdefault(name, {}).setdefault(tool.returncode, err.decode("utf-8", "replace")[-300:])
            self.tools.remove(entry)

    def act(self):
        what = self.rng.random()
        if what < 0.6:
            if len(self.tools) < 3:
                self.start()
        elif what < 0.8 and self.tools:
            self.rng.choice(self.tools)[1].kill()
        elif what < 0.85:
            os.kill(self.pid, signal.SIGSTOP)
            time.sleep(self.rng.random() / 10)
            os.kill(self.pid, signal.SIGCONT)
        time.sleep(self.rng.random() ** 3 / 4)
        self.reap(wait=False)


def test_storm():
    """On and off, reports, tools that are killed, a target that is stopped: it lives, and can be switched off."""
    seed = int(os.environ.get("VRAMTAP_SEED", "1"))
    with truth.Recorded(versions()[0], env={"OMP_NUM_THREADS": "1"}) as job:
        job("trainer", 64, 1, 8, 2, "fast")  # autograd's thread stays for good
        before = Before(job)
        job("storm")
        storm = Storm(job.pid, seed)
        end = time.monotonic() + float(os.environ.get("VRAMTAP_STORM_S", 3 if QUICK else 600))
        while time.monotonic() < end:
            storm.act()
            check(proc_state(job.pid) not in "ZX", f"the target died; VRAMTAP_SEED={seed}", job.proc.poll())
        storm.reap(wait=True)
        for name, codes in sorted(storm.codes.items()):
            print(f"  {name}: {dict(sorted((code, text.splitlines()[-1:]) for code, text in codes.items()))}")
            wrong = [code for code in codes if code not in (COMPLETE, PARTIAL, NOTHING, -signal.SIGKILL)]
            check(not wrong, f"exit code of {name}; VRAMTAP_SEED={seed}", codes)
        job("rest")
        job.on(expect=(COMPLETE, PARTIAL, NOTHING))
        job.off()
        job.unharmed()
        before.is_again()


if __name__ == "__main__":
    main(globals())
