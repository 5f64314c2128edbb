#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""vramtap report --again asks the streams that had unfinished work once more, in a session of its own after the last look; with the
recorder of launches it says whether some ended in between. What it says is compared with what the program does."""
import fcntl
import json
import os
import re
import signal
import subprocess
import time

import recorder_truth as truth
from harness import COMPLETE, PARTIAL, VRAMTAP, check, check_schema, equal, main, proc_state, report_json, vramtap, wait_until
from streams import Program, by_handle, helper_is_there

SPAN = "2x500ms"


def again(program, *args, looks=SPAN):
    data = report_json(program.pid, "--again", looks, "--no-owners", *args, expect=(COMPLETE, PARTIAL))
    check_schema(data)
    return data


def text(program, looks=SPAN):
    _, out, _ = vramtap("report", "--again", looks, "--no-owners", str(program.pid), expect=(COMPLETE, PARTIAL))
    return " ".join(out.split())


def tool(program, looks):
    """A report that is underway, all of the first look behind it."""
    process = subprocess.Popen([VRAMTAP, "report", "--json", "-", "--again", looks, "--no-owners", str(program.pid)], stdout=subprocess.PIPE)
    wait_until(lambda: program.counts()[0] >= 12, 10, "the streams are asked twice")
    return process


def states(data):
    return [look["state"] for look in data["streams"]["looks"]]


def test_busy_throughout():
    """Stuck, as far as one can see: busy each time; all streams are asked a third time, at the end of the span."""
    with Program() as program:
        program.do("spin(pool[2], 100)")
        data = again(program)
        streams = data["streams"]
        equal(states(data), ["asked"] * 3, "looks")
        found = by_handle(streams)
        stuck = found.pop(program.handles[2])
        equal((stuck["state"], stuck["looks"], stuck["launches_ended"]), ("busy", ["busy"] * 3, None), "the one with work")
        equal({(s["state"], tuple(s["looks"])) for s in found.values()}, {("idle", ("idle",) * 3)}, "the others")
        check(streams["apart_ms"] >= data["again"]["span_ms"] >= 500, "the time from the first to the last", streams["apart_ms"])
        check(data["again"]["borrowed_ms"] > 0 and streams["looks"][2]["stopped_ms"] > 0, "what it cost", data["again"], streams["looks"])
        equal(program.counts(), (18, 0), "questions")
        out = text(program)
        for part in ("Streams asked three times in ", "PyTorch stream 2 busy each time", "then threads stopped for ", "5 others are idle",
                     "PyTorch stream 2 of GPU 0: busy each time, asked 3 times in 0."):
            check(part in out, part, out)
        check("no thread stopped" not in out, "it does not claim less", out)


def test_moves():
    """Work that ends during the span."""
    with Program() as program:
        program.do("spin(pool[2], 0.8)")
        data = again(program, looks="2x1s")
        found = by_handle(data["streams"])[program.handles[2]]
        equal((found["state"], found["looks"]), ("moving", ["busy", "busy", "idle"]), "stream")
        program.do("spin(pool[2], 0.8)")
        out = text(program, looks="2x1s")
        check("PyTorch stream 2 of GPU 0: busy, then idle, asked 3 times in 1." in out, "text", out)


def test_goes_on():
    """The work ends after the last look, but before the streams are asked: what waited for it has moved, what waits for a stream that
    nobody knows has not. (The lock holds vramtap up in between.)"""
    with Program() as program:
        program.do("own = ctypes.c_void_p(); ours(); cuda.cuStreamCreate(ctypes.byref(own), 1); spin(torch.cuda.ExternalStream(own.value), 1000)")
        program.do("tids = [0, 0]")
        program.do("def wait(i, stream): tids[i] = threading.get_native_id(); ours(); cuda.cuStreamSynchronize(stream); time.sleep(1000)")
        program.do("spin(pool[0], 1.6); thread(lambda: wait(0, ctypes.c_void_p(pool[0].cuda_stream))); thread(lambda: wait(1, own)); time.sleep(0.2)")
        process = tool(program, "2x1s")
        wait_until(lambda: not helper_is_there(program.pid), 1, "the first session has ended")
        with open(f"/proc/{program.pid}/status", encoding="utf-8") as status:
            wait_until(lambda: locked(status), 5, "it is ours")
            time.sleep(1.5)
        data = json.loads(process.communicate(timeout=30)[0])
        equal(by_handle(data["streams"])[program.handles[0]]["looks"], ["busy", "busy", "idle"], "stream")
        threads = {t["tid"]: t for t in data["again"]["threads"]}
        goes_on, waits = (threads[tid] for tid in eval(program.ask("tids")))
        equal((goes_on["how"], goes_on["moved"], waits["moved"]), ("moved", True, False), f"threads, {threads}")


def locked(file):
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def test_not_asked_again():
    """Nothing that was busy, or nothing that may be stopped or asked: no third question, and no thread of ours."""
    with Program() as program:
        data = again(program)
        equal((states(data), data["again"]["borrowed_ms"]), (["asked"] * 2, None), "all idle")
        equal(program.counts()[0], 12, "questions")
        check("no thread stopped" in text(program), "said")
        program.do("spin(pool[2], 100)")
        before = program.counts()
        for option in ("--no-streams", "--read-only", "--no-stop"):
            data = again(program, option)
            equal((data["streams"], data["again"]["borrowed_ms"]), (None, None), option)
        equal(program.counts(), before, "questions")
        data = report_json(program.pid, "--once", "--no-owners", expect=COMPLETE)
        equal(len(data["streams"]["looks"]), 2, "--once")


def test_nothing_is_kept_between():
    """vramtap's thread is not in the process while it waits, and has gone at the end."""
    with Program() as program:
        program.do("spin(pool[2], 100)")
        process = tool(program, "2x2s")
        wait_until(lambda: not helper_is_there(program.pid), 1, "the first session has ended")
        for _ in range(10):
            time.sleep(0.05)
            check(not helper_is_there(program.pid), "it is there while vramtap waits")
        data = json.loads(process.communicate(timeout=30)[0])
        equal(states(data), ["asked"] * 3, "looks")
        check(not helper_is_there(program.pid), "it has gone")


def test_stopped_meanwhile():
    """A signal stops the process while vramtap waits: it stays so, and is not asked."""
    with Program() as program:
        program.do("spin(pool[2], 100)")
        process = tool(program, "2x1s")
        wait_until(lambda: not helper_is_there(program.pid), 1, "the first session has ended")
        os.kill(program.pid, signal.SIGSTOP)
        data = json.loads(process.communicate(timeout=30)[0])
        equal(proc_state(program.pid), "T", "it is stopped")
        equal(states(data), ["asked", "asked", "not-inside"], "looks")
        stream = by_handle(data["streams"])[program.handles[2]]
        equal((stream["state"], stream["looks"]), ("busy", ["busy", "busy", "not-asked"]), "stream")
        equal(program.counts()[0], 12, "questions")
        os.kill(program.pid, signal.SIGCONT)


def test_ends_meanwhile():
    """Nothing is asked of a process that has ended, or is another program."""
    for what, verdict in (("os._exit(0)", "ended"), ("os.execv('/bin/sleep', ['sleep', '60'])", "exec")):
        with Program() as program:
            program.do("spin(pool[2], 100)")
            program.do(f"thread(lambda: (time.sleep(1), {what}))")
            data = again(program, looks="2x2s")
            equal((data["again"]["verdict"], states(data)), (verdict, ["asked"] * 2), what)


def test_capture_meanwhile():
    """One that begins during the span is told so, and is whole; so are those that begin and end all the time."""
    with Program() as program:
        program.do("spin(pool[2], 100); thread(lambda: (time.sleep(0.6), ours(),"
                   " cuda.cuStreamBeginCapture_v2(ctypes.c_void_p(pool[3].cuda_stream), 0)))")
        found = by_handle(again(program, looks="2x1s")["streams"])[program.handles[3]]
        equal((found["state"], found["looks"][2]), ("capturing", "capturing"), f"{found}")
        equal(program.counts()[1], 0, "questions that spoil a capture")
    with Program() as program:
        program.do("spin(pool[2], 1000); thread(lambda: capture_on(pool[0])); thread(lambda: capture_on(pool[1]))")
        program.slow_queries(100)
        seen = [states(again(program, looks="2x50ms"))[2:] for _ in range(20)]
        program.do("stop = True; time.sleep(0.2)")
        whole, spoilt = eval(program.ask("captures"))
        equal((spoilt, program.counts()[1]), (0, 0), "spoilt captures")
        check(whole > 1000 and seen.count(["asked"]) > 3, "it was asked", seen, whole)


def test_driver_does_not_answer():
    """The process is held for no longer than at the first two moments."""
    with Program() as program:
        program.do("spin(pool[2], 100); thread(beat)")
        process = tool(program, "2x1s")
        wait_until(lambda: not helper_is_there(program.pid), 1, "the first session has ended")
        program.fault("fault", "cuStreamQuery:block")
        data = json.loads(process.communicate(timeout=30)[0])
        equal(states(data), ["asked", "asked", "late"], "looks")
        check(data["streams"]["looks"][2]["stopped_ms"] < 100 and float(program.ask("gap")) < 0.5, "it was held", data["streams"]["looks"])
        program.fault("clear")
        wait_until(lambda: not helper_is_there(program.pid), 20, "the helper has ended")


def test_interrupted():
    """SIGTERM in the middle of the last question: all runs on, and no more than what was on its way is asked."""
    with Program() as program:
        program.do("spin(pool[2], 100)")
        process = tool(program, "2x1s")
        program.slow_queries(5000)
        while program.counts()[0] <= 12:
            check(process.poll() is None, "it is asked once more", process.poll())
            time.sleep(0.0001)
        process.send_signal(signal.SIGTERM)
        equal(process.wait(10), 128 + signal.SIGTERM, "exit code")
        process.stdout.close()
        check(program.counts()[0] <= 14, "questions", program.counts())
        check(proc_state(program.pid) in "RS", "it runs", proc_state(program.pid))
        wait_until(lambda: not helper_is_there(program.pid), 20, "the helper has ended")


STEPS = "thread(lambda: [(spin(pool[1], 0.02), pool[1].synchronize()) for _ in iter(lambda: stop, True)])"


def test_launches():
    """With the recorder: a loop of launches moves although it is busy each time; in one that stands none ends."""
    with Program() as program:
        truth.record(program.pid, "on", "--launches", expect=(COMPLETE, PARTIAL))
        program.do("spin(pool[2], 1000); torch.cuda._sleep(1785000000000)")
        data = again(program)
        default = by_handle(data["streams"])[0]
        equal((default["state"], default["launches_ended"]), ("busy", 0), "the default stream")
        stuck = by_handle(data["streams"])[program.handles[2]]
        equal((stuck["state"], stuck["launches_ended"], data["again"]["launches_ended"]), ("busy", 0, 0), "one that stands")
        program.do(STEPS)
        for _ in range(20):
            begin = time.monotonic()
            data = again(program)
            seconds = time.monotonic() - begin
            moves, stuck = (by_handle(data["streams"])[program.handles[i]] for i in (1, 2))
            if moves["looks"] == ["busy"] * 3:
                break
        equal((moves["state"], stuck["state"], stuck["launches_ended"]), ("moving", "busy", 0), f"{moves}")
        check(5 < moves["launches_ended"] <= seconds / 0.02, f"launches of 20 ms in less than {seconds} s", moves)
        equal(data["again"]["launches_ended"], moves["launches_ended"], "all of them")
        check(data["again"]["verdict"] in ("moves", "others-work"), "verdict", data["again"]["verdict"])
        out = text(program)
        check(re.search(r"PyTorch stream 1 of GPU 0: [a-z, ]*, asked 3 times in [0-9.]+ s; between the looks [0-9]+ of its launches ended", out), "moves", out)
        check("none of its launches is known to have ended between the looks" in out, "stands", out)
        check(re.search(r"; [0-9]+ launches on the GPU ended", out), "headline", out)
        process = tool(program, "2x2s")
        time.sleep(0.5)
        truth.record(program.pid, "off")
        truth.record(program.pid, "on", "--launches", expect=(COMPLETE, PARTIAL))
        data = json.loads(process.communicate(timeout=30)[0])
        ended = {s["launches_ended"] for s in data["streams"]["streams"]}
        equal((data["again"]["launches_ended"], ended), (None, {None}), "another recording counts from 0")
        program.do("stop = True")


if __name__ == "__main__":
    main(globals())
