#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""gdb's commands about threads, in every gdb: native frames against gdb's own, Python frames and values against what the program says."""
import json
import os
import re

from session import SMALL, attached, batch, check_line, for_each_gdb, machine_gdb, one, variables, wait_until

import core
from harness import CACHE, SOURCE, Skip, check, compile_c, equal, main, proc_state, scratch, target
from report_torch import RUN_SIM, versions

TARGETS = os.path.join(SOURCE, "tests", "targets")

# Every thread, and of each the place of every frame: gdb's own word.
OWN_FRAMES = """define own_one
  printf "thread %d\\n", $_thread
  frame apply all -q -s printf "frame %lx %lx\\n", $pc, $sp
end
set backtrace past-main on
set backtrace past-entry on
thread apply all -q -s own_one"""
OWN_THREADS = re.compile(r"^[* ] (\d+) .*?(?:LWP |process )(\d+)", re.MULTILINE)


def own_frames(text, threads):
    """{tid: program counters}: frames of inlined functions, which have the registers of what they are in, are left out."""
    tid_of = {int(number): int(tid) for number, tid in OWN_THREADS.findall(threads)}
    check(tid_of, "gdb's threads", threads)
    stacks, last, current = {}, None, None
    for line in text.splitlines():
        word = line.split()
        if word[:1] == ["thread"]:
            current, last = stacks.setdefault(tid_of[int(word[1])], []), None
        elif word[:1] == ["frame"] and word != last:
            current.append(int(word[1], 16))
            last = word
    return stacks


def load(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def native_pcs(data):
    """By thread; of frames that Python ones stand for there are none."""
    return {t["tid"]: [int(f["pc"], 16) for f in t["stack"]["frames"] if f["kind"] == "native" and not f["inlined"]]
            for t in data["threads"]}


def check_native(gdb, *where, merged=False):
    """All native frames of a saved report against gdb's, or, where Python frames stand for some, those that there are; returns the
    report."""
    saved = scratch("saved.json")
    run = batch(gdb, [f"vramtap save {saved}", "info threads", OWN_FRAMES], *where)
    data = load(saved)
    ours, theirs = native_pcs(data), own_frames(run.text[2], run.text[1])
    equal(sorted(ours), sorted(theirs), f"threads, {gdb}")
    for tid, pcs in theirs.items():
        if merged:
            pcs = [pc for pc in pcs if pc in ours[tid]]
        equal([hex(pc) for pc in ours[tid]], [hex(pc) for pc in pcs], f"frames of thread {tid}, {gdb}")
    return data


FLAVOURS = ("-fomit-frame-pointer", "-fno-omit-frame-pointer", "-fno-omit-frame-pointer -mno-omit-leaf-frame-pointer -g")


def spinning(flags):
    with open(os.path.join(TARGETS, "gdb_spin.c"), encoding="utf-8") as file:
        return target([compile_c(file.read(), *flags.split(), "-O2", "-pthread", "-fno-optimize-sibling-calls")], ready="READY", bufsize=0)


CALLERS = ["spin_innermost", "spin_with_array", "spin_outermost"]


def test_running_threads():
    """Threads on the processor, in functions with and without frame pointers: every frame is found, by gdb's registers."""
    def check_one(gdb):
        for _ in range(2):
            data = check_native(gdb, "-p", str(proc.pid))
            for thread, function in ((data["threads"][1], "first_thread"), (data["threads"][2], "second_thread")):
                names = [f["function"] for f in thread["stack"]["frames"] if f["function"] != "step_leaf"]
                equal(names[:4], CALLERS + [function], f"functions, {gdb}")
    for flags in FLAVOURS:
        with spinning(flags) as proc:
            for_each_gdb(check_one)
            with core.gcore(proc.pid) as path:
                for_each_gdb(lambda gdb: check_native(gdb, f"/proc/{proc.pid}/exe", "-c", path))


def test_selected_thread():
    """bt is of the thread that is selected, and says what it is; a selected frame does not matter."""
    def check_one(gdb):
        run = attached(gdb, proc.pid, "info threads", *(c for n in (1, 2, 3) for c in (f"thread {n}", "vramtap bt", "show convenience")),
                       "frame 2", "vramtap bt", "frame", "thread")
        tid_of = {int(n): int(tid) for n, tid in OWN_THREADS.findall(run.text[0])}
        for n in (1, 2, 3):
            got = variables(run.text[3 * n])
            equal(got["vt_tid"], tid_of[n], f"$vt_tid of gdb's thread {n}, {gdb}")
            text = run.text[3 * n - 1]
            place = {"main": "main", "1": "first_thread", "2": "second_thread"}[
                "main" if tid_of[n] == proc.pid else "1" if tid_of[n] == min(t for t in tid_of.values() if t != proc.pid) else "2"]
            check(place in text and ("spin_with_array" in text) == (place != "main"), f"the frames of gdb's thread {n}", text)
            equal(got["vt_pyframes"], 0, "$vt_pyframes")
            check(got["vt_frames"] >= text.count("0x") > 0 or got["vt_frames"] > 3, "$vt_frames", got)
        equal(run.text[11], run.text[8], f"bt with a frame selected, {gdb}")
        check(run.text[12].startswith("#2"), "the selected frame", run.text[12])
        check("[Current thread is 3 " in run.text[13], "the selected thread", run.text[13])
    with spinning(FLAVOURS[0]) as proc:
        for_each_gdb(check_one)


class Torch:
    """torch_gdb.py; the truth that it wrote."""

    def __init__(self, *args, **env):
        version = versions()[0]
        if not os.path.exists(os.path.join(CACHE, "torch", version, "python")):
            raise Skip(f"PyTorch {version} is not set up: sh tests/setup/torch.sh {version}")
        self.path = scratch("truth.json")
        self.context = target(["sh", RUN_SIM, version, "--", "python", os.path.join(TARGETS, "torch_gdb.py"), self.path, *args],
                              ready="READY", bufsize=0, env=dict(os.environ, SIMCUDA_CTL=scratch("control"), OMP_NUM_THREADS="2",
                                                                 **{**SMALL, **env}))

    def __enter__(self):
        self.proc = self.context.__enter__()
        self.pid = self.proc.pid
        self.truth = load(self.path)
        self.threads = {int(tid): frames for tid, frames in self.truth["threads"].items()}
        return self

    def __exit__(self, *exc):
        return self.context.__exit__(*exc)

    def count(self):
        self.proc.stdin.write(b"x")
        line = self.proc.stdout.readline().decode().split()
        equal(line[:1], ["count"], "the program's answer")
        return int(line[1])

    def workers(self):
        """Those whose frames do not change."""
        return {tid: frames for tid, frames in self.threads.items() if frames[0]["function"] == "third"}

    def numbers(self, gdb):
        """{tid: gdb's number}"""
        text = one(gdb, self.pid, "info threads", symbols=False)
        return {int(tid): int(n) for n, tid in OWN_THREADS.findall(text)}


def check_python(gdb, torch, where, numbers):
    """bt, pyframe, up, down, numbers and locals of each thread that stands still, against its own words."""
    for tid, frames in torch.workers().items():
        n = len(frames)
        commands = [f"thread {numbers[tid]}", "vramtap bt", "show convenience", "vramtap pyframe", "show convenience"]
        for i in range(n):
            commands += [f"vramtap pyframe {i}", "show convenience", "vramtap locals"]
        commands += ["vramtap pyframe 0"] + ["vramtap pyframe up", "show convenience"] * n + ["vramtap pyframe down 2", "show convenience",
                                                                                              "vramtap pyframe down 100", "show convenience",
                                                                                              "vramtap pyframe down", "vramtap pyframe up 100",
                                                                                              "show convenience", f"vramtap pyframe {n}",
                                                                                              "show convenience"]
        run = batch(gdb, commands, *where, symbols=False)
        text = run.text
        what = f"thread {tid}, {gdb}"
        equal(variables(text[2])["vt_pyframes"], n, f"$vt_pyframes, {what}")
        equal(variables(text[2])["vt_tid"], tid, "$vt_tid")
        shown = [line for line in text[1].splitlines() if "torch_gdb.py" in line or "threading.py" in line]
        equal(len(shown), n, f"Python frames in bt, {what}: {text[1]}")
        for line, frame in zip(shown, frames):
            check(frame["function"] in line and re.search(rf":{frame['line']}\b", line), f"a frame in bt, {what}", line, frame)
        for i, frame in enumerate(frames):
            base = 5 + 3 * i
            got = variables(text[base + 1])
            equal((got["vt_pyframe"], got["vt_pyframe_function"].rpartition(".")[2], got["vt_pyframe_line"]), (i, frame["function"], frame["line"]),
                  f"frame {i}, {what}")
            check(frame["function"] in text[base], f"pyframe {i}", text[base])
            for name, value in frame["locals"].items():
                check(re.search(rf"\b{name}\b.*{re.escape(value)}", text[base + 2]), f"{name} = {value} in the locals of frame {i}, {what}",
                      text[base + 2])
        base = 5 + 3 * n + 1
        for i in range(n):
            equal(variables(text[base + 2 * i + 1])["vt_pyframe"], i + 1 if i + 1 < n else None, f"after {i + 1} times up, {what}")
        check_line(text[base + 2 * n - 2], "outermost", what=what)
        end = base + 2 * n
        equal(variables(text[end + 1])["vt_pyframe"], n - 3, "after down 2")
        equal(variables(text[end + 3])["vt_pyframe"], 0, "after down 100")
        check_line(text[end + 4], "innermost")
        equal(variables(text[end + 6])["vt_pyframe"], n - 1, "after up 100")
        check_line(text[end + 7], f"{n} Python frames")
        equal(variables(text[end + 8])["vt_pyframe"], None, "after a frame that there is not")


def test_python_frames():
    with Torch() as torch:
        for_each_gdb(lambda gdb: check_python(gdb, torch, ("-p", str(torch.pid)), torch.numbers(gdb)), few=True)


def test_python_frames_of_a_core():
    def check_one(gdb):
        text = batch(gdb, ["info threads"], "-c", path, symbols=False).text[0]
        check_python(gdb, torch, ("-c", path), {int(tid): int(n) for n, tid in OWN_THREADS.findall(text)})
    with Torch() as torch:
        with core.gcore(torch.pid) as path:
            for_each_gdb(check_one, few=True)


def test_frame_of_another_thread():
    """A Python frame is selected in one thread: another one's is its innermost; back again, that is forgotten, or still so."""
    with Torch() as torch:
        gdb = machine_gdb()
        number = torch.numbers(gdb)
        one_, other = sorted(torch.workers())
        run = attached(gdb, torch.pid, f"thread {number[one_]}", "vramtap pyframe 3", f"thread {number[other]}", "vramtap pyframe",
                       "show convenience", "vramtap locals", "vramtap bt", f"thread {number[torch.pid]}", "vramtap pyframe up",
                       "show convenience", symbols=False)
        got = variables(run.text[4])
        equal((got["vt_pyframe"], got["vt_tid"]), (0, other), "the frame of another thread")
        check("harmony" in run.text[5], "its variables", run.text[5])
        equal(variables(run.text[9])["vt_pyframe"], 1, "up in the main thread")
        equal(variables(run.text[9])["vt_pyframe_function"], "main", "its function")


def test_spinning_python():
    """The main thread of PyTorch on the processor, in the interpreter: native and Python frames, live and in a core."""
    def check_one(gdb, *where):
        run = batch(gdb, ["thread 1", "vramtap bt", "vramtap pyframe up", "show convenience", "vramtap locals", "vramtap stacks python"], *where, symbols=False)
        functions = [line.split("torch_gdb.py")[0].split()[-2] for line in run.text[1].splitlines() if "torch_gdb.py" in line]
        equal(functions, ["spin", "main", "<module>"], f"Python frames of the main thread, {gdb}: {run.text[1]}")
        equal(variables(run.text[3])["vt_pyframe_function"], "main", "up")
        check("kept" in run.text[4], "locals", run.text[4])
        for word in ("third", "second", "worker", "spin", "count"):
            check(word in run.text[5], "stacks python", word, run.text[5])
    with Torch("spin") as torch:
        wait_until(lambda: proc_state(torch.pid) == "R", 10, "it runs")
        for_each_gdb(check_one, "-p", str(torch.pid), few=True)
        check_native(machine_gdb(), "-p", str(torch.pid), merged=True)
        with core.gcore(torch.pid) as path:
            for_each_gdb(check_one, "-c", path, few=True)


def test_stacks():
    """stacks and its arguments: which threads are in it."""
    def check_one(gdb):
        run = attached(gdb, torch.pid, "vramtap stacks", "vramtap stacks all", "vramtap stacks python", "vramtap stacks main", "show convenience",
                       "vramtap stacks some", "vramtap stacks all main", "info threads", symbols=False)
        tids = {int(tid) for _, tid in OWN_THREADS.findall(run.text[7])}
        equal(variables(run.text[4])["vt_threads"], len(tids), "$vt_threads")
        for tid in tids:
            check(str(tid) in run.text[1], f"thread {tid} is not in stacks all", run.text[1])
        for tid in torch.threads:
            check(str(tid) in run.text[2], f"thread {tid} is not in stacks python", run.text[2])
        check(not any(f" {tid} " in run.text[2] for tid in tids - set(torch.threads)), "threads without Python", run.text[2])
        check(str(torch.pid) in run.text[3] and not any(f" {tid} " in run.text[3] for tid in tids - {torch.pid}), "stacks main", run.text[3])
        check("third" in run.text[0], "stacks", run.text[0])
        for i in (5, 6):
            check_line(run.text[i], "usage: vramtap stacks [all|python|main]")
    with Torch() as torch:
        for_each_gdb(check_one)


def test_no_python():
    """In a process without Python locals and pyframe are one line each."""
    with spinning(FLAVOURS[1]) as proc:
        run = attached(machine_gdb(), proc.pid, "vramtap locals", "vramtap pyframe", "vramtap pyframe up", "vramtap pyframe 0", "vramtap stacks python",
                       "vramtap locals x", "vramtap pyframe x", "vramtap pyframe up x", "vramtap pyframe -1", "vramtap pyframe up 1 1",
                       "vramtap bt x", "vramtap bt")
        for i in range(4):
            check_line(run.text[i], "no Python frames")
        for i in range(6, 10):
            check_line(run.text[i], "usage: vramtap pyframe [up|down [COUNT]|NUMBER]")
        check("main" in run.text[11], "bt", run.text[11])


if __name__ == "__main__":
    main(globals())
