#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Stuck or slow: what report and stacks find in a second look, which stops nothing, and when they take one."""
import contextlib
import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time

from harness import (COMPLETE, NOTHING, PARTIAL, SOURCE, USAGE, VRAMTAP, check, equal, main, report_json, run_stacks,
                     schema_errors, scratch, simulated_python, stacks_json, target, vramtap, wait_until)

PROGRAM = r"""
import os, queue, select, socket, sys, threading, time
def heartbeat():
    while True:
        time.sleep(0.3)
def waits_for_lock():
    threading.Thread(target=heartbeat, daemon=True).start()
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()
def spins():
    n = 0
    while True: n += 1
def serves():
    threading.Thread(target=queue.Queue().get, daemon=True).start()
    s = socket.socket()
    s.bind(("127.0.0.1", 0))
    s.listen()
    p = select.epoll()
    p.register(s, select.EPOLLIN)
    p.poll()
def accepts():
    s = socket.socket()
    s.bind(("127.0.0.1", 0))
    s.listen()
    s.accept()
def sleeps():
    time.sleep(600)
def polls():
    while True: time.sleep(0.05)
def receives():
    a, b = socket.socketpair()
    a.recv(1)
def computes():
    t = threading.Thread(target=spins, daemon=True)
    t.start()
    t.join()
def ends():
    time.sleep(0.7)
def becomes_another():
    time.sleep(0.7)
    os.execv(sys.executable, [sys.executable, "-c", "import time; time.sleep(600)"])
def brief(): time.sleep(0.5)
def thread_ends():
    threading.Thread(target=brief).start()
    time.sleep(600)
def thread_starts():
    time.sleep(0.6)
    threading.Thread(target=sleeps).start()
    time.sleep(600)
LINES
def creeps():
    while True: walk()
print("ready", flush=True)
globals()[sys.argv[1]]()
""".replace("LINES", "def walk():\n" + "    time.sleep(0.1)\n" * 47)


@contextlib.contextmanager
def program(what):
    with target([sys.executable, "-c", PROGRAM, what], ready="ready") as proc:
        time.sleep(0.25)
        yield proc


def again(pid, looks="2", expect=(COMPLETE, PARTIAL), command="stacks"):
    """A target that moves may leave a partial report behind; that is not the matter here."""
    if command == "report":
        return report_json(pid, "--again", looks, expect=expect)
    return stacks_json(pid, "--again", looks, expect=expect)


def headline(data):
    found = [h for h in data["headlines"] if h["code"] == "again"]
    check(len(found) <= 1, "one headline of the second look", found)
    return found[0] if found else None


def judged(what, verdict, alarm=False, looks="2"):
    with program(what) as proc:
        data = again(proc.pid, looks)
    second = data["again"]
    equal((second["verdict"], second["alarm"]), (verdict, alarm), f"{what}: {headline(data)}")
    equal(headline(data)["alarm"], alarm, "alarm of the headline")
    equal(["stuck"] if alarm else [], [a["rule"] for a in data["advice"]], "what to do")
    check(second["span_ms"] >= 990, "the time between", second["span_ms"])
    return data


def main_thread(data):
    return data["again"]["threads"][0]


def test_lock():
    """Asleep at one place, no processor: an alarm. A thread that wakes up now and then is no work."""
    data = judged("waits_for_lock", "stuck", alarm=True)
    thread = main_thread(data)
    equal((thread["moved"], thread["how"], thread["looks"], len(thread["places"])), (False, "still", 2, 1), "main thread")
    equal(thread["cpu_ns"], 0, "processor time of a thread that slept")
    equal(data["again"]["thread"], thread["tid"], "the thread that it is about")
    equal(thread["places"][0]["function"], "waits_for_lock", "where")
    equal(data["headlines"][0]["code"], "again", "the alarm comes first")
    equal(data["again"]["threads"][1]["moved"], False, "the other thread's place")


def test_spins():
    data = judged("spins", "spins")
    thread = main_thread(data)
    equal((thread["how"], thread["places"][0]["function"]), ("same", "spins"), "main thread")
    check(20e6 < thread["cpu_ns"] < 1e6 * (data["again"]["span_ms"] + 50), "its processor time", thread["cpu_ns"])


def test_slow():
    """It creeps from line to line, for a moment of processor time each: slow, not stuck."""
    data = judged("creeps", "moves", looks="4x1s")
    thread = main_thread(data)
    equal((thread["moved"], thread["looks"]), (True, 4), "main thread")
    check(len(thread["places"]) > 1 and sum(p["looks"] for p in thread["places"]) == 4, "places", thread["places"])
    equal({p["function"] for p in thread["places"]}, {"walk"}, "where it was")


def test_idle():
    """What waits for something to do, or sleeps, is no alarm."""
    for what in ("serves", "accepts", "sleeps"):
        judged(what, "idle")
    with program("polls") as proc:  # a look can find it awake
        data = again(proc.pid)
        check((data["again"]["verdict"], data["again"]["alarm"]) in (("idle", False), ("polls", False)), "polls", headline(data))


def test_unknown_wait():
    """A read from a peer may take any time: that it has not moved is said, without an alarm."""
    data = judged("receives", "stands")
    check("has not moved for 1.0 s, 0 ms of processor" in headline(data)["text"], "headline", headline(data))


def test_others_work():
    data = judged("computes", "others-work")
    equal(main_thread(data)["how"], "still", "main thread")
    check(str(data["again"]["threads"][1]["tid"]) in headline(data)["text"], "the one that works is named", headline(data))


def test_ends():
    for what, verdict in (("ends", "ended"), ("becomes_another", "exec")):
        with program(what) as proc:
            data = again(proc.pid)
        equal((data["again"]["verdict"], data["again"]["looks"]), (verdict, 1), what)
        equal(data["again"]["thread"], None, "the whole process")
        check("before a second look" in headline(data)["text"], "headline", headline(data))


def test_threads_come_and_go():
    for what, how in (("thread_ends", "ended"), ("thread_starts", "new")):
        with program(what) as proc:
            data = again(proc.pid)
        equal([t["how"] for t in data["again"]["threads"]][1:], [how], what)
        equal([t["moved"] for t in data["again"]["threads"]][1:], [None], what)


def test_reads_only():
    """Only the first look stops the threads: the others wake up nothing."""
    def switches(pid):
        with open(f"/proc/{pid}/status", encoding="utf-8") as status:
            return [int(n) for n in re.findall(r"ctxt_switches:\s+(\d+)", status.read())]
    with program("sleeps") as proc:
        tool = subprocess.Popen([VRAMTAP, "stacks", "--json", "-", "--again", "5x300ms", str(proc.pid)], stdout=subprocess.PIPE)
        time.sleep(0.7)
        before = switches(proc.pid)
        out, _ = tool.communicate(timeout=60)
        equal(switches(proc.pid), before, "switches of the sleeping thread")
    second = json.loads(out)["processes"][0]["again"]
    equal((second["looks"], second["threads"][0]["how"]), (5, "still"), "looks")


def test_scripts_do_not_wait():
    """Without being asked, no second look at a pipe or for JSON."""
    with program("waits_for_lock") as proc:
        begin = time.monotonic()
        _, text, _ = vramtap("stacks", str(proc.pid), expect=COMPLETE)
        data = stacks_json(proc.pid)
        check(time.monotonic() - begin < 1 or os.getloadavg()[0] > 4, "it took", time.monotonic() - begin)
        equal((data["again"], headline(data)), (None, None), "no second look in the JSON")
        check("Again" not in text and "not moved" not in text, "no second look in the text", text)


def test_text_in_one():
    """To a pipe, all is one document: the answer on top, the looks before the threads."""
    with program("waits_for_lock") as proc:
        out = run_stacks(("--again", "3x500ms", str(proc.pid)), 60, (COMPLETE,))
    first = out.split("\n\n")[1]
    check(first.startswith("! likely stuck: main thread has not moved for 1.0 s, 0 ms of processor"), "the answer", first)
    check(out.index("likely stuck") < out.index("Again   pid") < out.index("\nThreads"), "order", out)
    check(f"Again   pid {proc.pid}: 3 looks in 1.0 s" in out and "3 of 3: waits for a Python lock" in out, "the looks", out)


def test_several():
    """One wait for all of them."""
    with program("waits_for_lock") as first, program("sleeps") as last:
        begin = time.monotonic()
        _, out, _ = vramtap("stacks", "--again", "2", str(first.pid), str(last.pid), "--json", "-", expect=(COMPLETE, PARTIAL))
        took = time.monotonic() - begin
    equal([p["again"]["verdict"] for p in json.loads(out)["processes"]], ["stuck", "idle"], "verdicts")
    check(took < 1.9 or os.getloadavg()[0] > 4, "it took", took)


class Terminal:
    """vramtap on a terminal: what it has written so far, with the time of each piece."""

    def __init__(self, *args):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.environ["TERM"] = "xterm"
            os.execv(VRAMTAP, [VRAMTAP, *args])
        self.text, self.begin = "", time.monotonic()

    def read_until(self, part, seconds=30):
        """The time at which the text has the part; None: it ended without."""
        end = time.monotonic() + seconds
        while part not in self.text:
            check(time.monotonic() < end, f"no {part!r} in time", self.text)
            if not select.select([self.fd], [], [], 0.1)[0]:
                continue
            try:
                self.text += os.read(self.fd, 65536).decode("utf-8", "replace")
            except OSError:
                return None
        return time.monotonic() - self.begin

    def end(self):
        self.read_until("\0never")
        os.close(self.fd)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def test_terminal():
    """The first look is shown at once, the second one below it, a second later."""
    with program("waits_for_lock") as proc:
        for command in ("stacks", "report"):
            terminal = Terminal(command, "--color", "never", str(proc.pid))
            first = terminal.read_until("JSON: vramtap")
            second = terminal.read_until("likely stuck")
            check(second - first > 0.5, f"{command}: the first text came before the wait", first, second)
            check(terminal.end() in (COMPLETE, PARTIAL, NOTHING), "exit code")
            equal((terminal.text.count("\nAgain"), terminal.text.count("\nThreads")), (1, 1), "parts of the text")
            equal(terminal.text.count("What to do"), 1, "what to do")
        terminal = Terminal("stacks", "--once", str(proc.pid))
        terminal.end()
        check("Again" not in terminal.text, "--once looks once", terminal.text)


def test_interrupt():
    """Ctrl-C while it waits: what there is counts, and the file is written."""
    path = scratch("report.json")
    with program("waits_for_lock") as proc:
        terminal = Terminal("report", "--read-only", "--again", "5x20s", "--json", path, str(proc.pid))
        terminal.read_until("JSON: vramtap")
        time.sleep(0.3)
        os.write(terminal.fd, b"\x03")
        code = terminal.end()
        check(time.monotonic() - terminal.begin < 15, "it ended at once")
    check(code in (COMPLETE, PARTIAL, NOTHING), "exit code", code, terminal.text)
    check("interrupted" not in terminal.text, "quietly", terminal.text)
    with open(path, encoding="utf-8") as file:
        data = json.load(file)
    equal((data["again"], data["process"]["pid"]), (None, proc.pid), "the file")


def test_nothing_to_look_at():
    """A stopped process does not move: that is not news, and no wait."""
    with program("sleeps") as proc:
        os.kill(proc.pid, signal.SIGSTOP)
        wait_until(lambda: open(f"/proc/{proc.pid}/stat", encoding="utf-8").read().split()[2] == "T", 20, "it is stopped")
        data = again(proc.pid, "100")
        equal((data["again"], headline(data)), (None, None), "of a stopped process")


def test_usage():
    for args in (("--again", "1", "1"), ("--again", "x", "1"), ("--again", "2x", "1"), ("--again", "2x1ms", "1"), ("--again", "2x2h", "1"),
                 ("--again", "-3", "1"), ("--again", "2", "--once", "1"), ("--again", "2", "--core", "/dev/null")):
        for command in ("stacks", "report"):
            vramtap(command, *args, expect=USAGE)


def test_schema():
    with program("creeps") as proc:
        _, out, _ = vramtap("stacks", "--json", "-", "--again", "3x100ms", str(proc.pid))
        equal(schema_errors(json.loads(out), "stacks_document"), [], "what the schema does not allow")
        data = again(proc.pid, "2x100ms", expect=(COMPLETE, PARTIAL, NOTHING), command="report")
        equal(schema_errors(data), [], "what the schema does not allow")
        path = scratch("report.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(data, file)
        _, out, err = vramtap("diff", path, path)
        check("Nothing can be compared" in out, "the file is loaded", err)
        data["again"]["verdict"] = "of-a-later-version"
        with open(path, "w", encoding="utf-8") as file:
            json.dump(data, file)
        _, out, err = vramtap("diff", path, path)
        check("Nothing can be compared" in out, "the file is loaded", err)


def test_hung_gpu():
    """A kernel that does not end: the main thread has not moved, and the report says so first."""
    with target(simulated_python("2.11.0") + [os.path.join(SOURCE, "examples", "hung.py")], ready="READY") as proc:
        pid = int(proc.ready_line.split()[1])
        data = again(pid, command="report")
        equal((data["again"]["verdict"], data["again"]["alarm"], data["advice"]), ("stands", False, []), "a second is a step")
        check("has not moved for 1.0 s, 0 ms of processor" in headline(data)["text"], "headline", headline(data))
        data = again(pid, "2x29s", command="report")
        second = data["again"]
        equal((second["verdict"], second["alarm"], second["thread"]), ("stuck", True, pid), "verdict")
        place = main_thread(data)["places"][0]
        equal((place["verdict_function"], place["function"]), ("cudaDeviceSynchronize", "train_step"), "where")
        equal(second["pytorch_blocks"], 0, "PyTorch did nothing")
        check("the GPU hangs, or works on something long" in data["headlines"][0]["text"], "headline", data["headlines"])
        advice = [(a["rule"], a["remedy"]["code"]) for a in data["advice"]]
        equal(advice, [("stuck", "find-kernel")], "what to do")
        equal(data["next"][0]["command"], f"vramtap report --kernels {pid}", "next")
        check(second["longest_look_ms"] < 200 or os.getloadavg()[0] > 4, "a look took", second["longest_look_ms"])


# All on one line, so that each look finds the same place.
STEPS = """
import os, time, torch
def step():
    while True: x = torch.empty(1 << 20, device="cuda"); y = sum(range(200000))
torch.empty(1, device="cuda")
print("READY", os.getpid(), flush=True)
step()
"""


def test_pytorch_moves():
    """Each look finds it at the same place, but PyTorch's counters tell that it works."""
    with target(simulated_python("2.11.0") + ["-c", STEPS], ready="READY") as proc:
        pid = int(proc.ready_line.split()[1])
        for command in ("stacks", "report"):
            data = again(pid, command=command)
            equal((data["again"]["verdict"], data["again"]["alarm"]), ("moves", False), command)
            check(data["again"]["pytorch_blocks"] > 2, "blocks", data["again"]["pytorch_blocks"])
            check("handed out and took back" in headline(data)["text"], "headline", headline(data))


if __name__ == "__main__":
    main(globals())
