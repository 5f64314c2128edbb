#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How far collectives are, by PyTorch's flight recorders: real process groups of NCCL on the simulated device.

What the ranks' own recorders tell them, in a thread of their own, is the truth."""
import collections
import contextlib
import json
import os
import re
import subprocess
import time

import nursery
from harness import (CACHE, COMPLETE, SOURCE, check, diag_codes, equal, main, report, report_json, schema_errors, scratch, thread_names,
                     wait_until)
from triage import VERSION, are_running, by_pid, triage

JOB = os.path.join(SOURCE, "tests", "targets", "triage_collectives.py")
ENV = dict(os.environ, SIMCUDA_DEVICES="1", SIMCUDA_MEM_MB="1024")
CTL = os.path.join(CACHE, "simcuda", "simcuda-ctl")
LATE_S = 3.2  # from when on one is behind


class Job:
    def __init__(self, proc, errors):
        self.proc = proc
        self.errors = errors
        self.ranks = json.loads(proc.ready_line.split(None, 1)[1])
        self.ready = time.monotonic()

    def ask(self, line):
        self.proc.stdin.write(line)
        self.proc.stdin.flush()
        return json.loads(self.proc.stdout.readline())

    def told(self):
        """What each rank's recorder tells it."""
        return self.ask(b"tell\n")

    def printed(self):
        """How much the ranks have on standard error."""
        return os.path.getsize(self.errors)

    def wait(self):
        time.sleep(max(0, self.ready + LATE_S - time.monotonic()))

    def triage(self, expect=COMPLETE):
        _, found, text = triage("--inject", "--children-of", self.proc.pid, "--width", "160", expect=expect)
        return found, text


@contextlib.contextmanager
def job(trouble, *options, ranks=4, of=2, version=VERSION, **env):
    command = [JOB, "--trouble", trouble, "--ranks", str(ranks), "--of", str(of), *options]
    errors = scratch("errors")
    with open(errors, "wb") as file, nursery.child(version, command, env=dict(ENV, **env), stderr=file) as proc:
        try:
            yield Job(proc, errors)
        finally:
            proc.stdin.close()
            proc.wait(20)
            proc.stdin = open(os.devnull, "rb")


def numbers(text):
    """[0, 1, 2, 5] of "0-2,5"."""
    return [i for part in text.split(",") for i in range(int(part.split("-")[0]), int(part.split("-")[-1]) + 1)]


def check_told(groups, told):
    """Ours are what the recorder tells, group by group. There are no transfers here, and nothing fell out of the recorder."""
    equal({g["group"] for g in groups}, set(told["pg_config"]), "the groups")
    for ours in groups:
        theirs, entries = told["pg_config"][ours["group"]], [e for e in told["entries"] if e["process_group"][0] == ours["group"]]
        status = told["pg_status"][str(entries[-1]["pg_id"])]
        equal((ours["backend"], ours["description"]), ("nccl", theirs["desc"]), "kind and description")
        equal(numbers(ours["ranks"]), json.loads(theirs["ranks"]), "ranks of the group")
        equal(ours["last_enqueued"], int(status["last_enqueued_collective"]), "the last collective")
        # PyTorch's watchdog notes it a little later than the entries have it.
        over = [e["collective_seq_id"] for e in entries if e["state"] == "completed"]
        equal(ours["last_completed"], max(over + [int(status["last_completed_collective"])]), "the last one that is over")
        equal("nccl:" + ours["operation"], entries[-1]["profiling_name"], "what the last one is")
        pending = [e for e in entries if e["state"] != "completed"]
        equal(ours["pending"], len(pending), "collectives that are not over")
        if not pending:
            equal(ours["oldest_pending"], None, "the oldest of none")
            continue
        oldest, want = ours["oldest_pending"], pending[0]
        equal(("nccl:" + oldest["name"], oldest["number"], oldest["point_to_point"], oldest["timeout_ms"]),
              (want["profiling_name"], want["collective_seq_id"], want["is_p2p"], want["timeout_ms"]), "the oldest that is not over")
        equal(oldest["input"], f"{want['input_sizes'][0]} {want['input_dtypes'][0]}", "what it was given")
        equal(oldest["started"], None, "whether it was started, which is not recorded")
    return groups


def check_age(collectives, told):
    """The time since it was called, by the clock that the recorder has."""
    for ours in collectives["groups"]:
        if ours["oldest_pending"]:
            want = next(e for e in told["entries"] if e["process_group"][0] == ours["group"] and e["state"] != "completed")
            began = collectives["told_at_ms"] - ours["oldest_pending"]["age_ms"]
            check(abs(began - want["time_created_ns"] / 1e6) < 50, "when it was called", began, want)


def verdicts(found, code):
    return [v for v in found["found"]["verdicts"] if v["code"] == code]


def outliers(found):
    return [m["rank"] for m in found["members"] if m["outlier"]]


def test_rank_that_misses_a_collective():
    # The old name of the variable: PyTorch prints a line about it for each recorder that comes into use. The ranks use the second device only.
    with job("missing", SIMCUDA_DEVICES="2", TORCH_NCCL_TRACE_BUFFER_SIZE="1000") as running:
        time.sleep(0.5)  # for the watchdogs
        printed = running.printed()
        before = [sorted(thread_names(pid)) for pid in running.ranks]
        told = running.told()
        one = report_json(running.ranks[0], "--collectives", expect=COMPLETE)
        check_told(one["pytorch"]["collectives"]["groups"], told[0])
        equal(schema_errors(one), [], "what the schema does not allow")
        _, text, _ = report(running.ranks[0], "--collectives", "--width", "160")
        check(re.search(r"default_pg +0-3 +4 +3 +all_reduce number 4 for \d+ s: \[64, 32\] Float", text), "the text", text)
        running.wait()
        found, text = running.triage()
        for pid, truth in zip(running.ranks, running.told()):
            m = by_pid(found)[pid]
            check_told(m["collectives"]["groups"], truth)
            check_age(m["collectives"], truth)
        equal(len(verdicts(found, "behind")), 1, "the ranks that are behind")
        v = verdicts(found, "behind")[0]
        check(v["alarm"] and v["text"].startswith(
            "rank 2 has not begun all_reduce number 4 of process group default_pg, the last one there was number 3; ranks 0-1,3 wait in it "),
              "the message", v)
        equal(outliers(found), [2], "the ranks that differ")
        check("skip_collective" in text and re.search(r"default_pg +0-1,3 \[3\] +4 +3 +all_reduce number 4", text), "the summary", text)
        # All are as before: no new thread, none that is stopped, and they still answer.
        equal([sorted(thread_names(pid)) for pid in running.ranks], before, "threads")
        equal(running.printed(), printed, "what is on standard error")
        are_running(running.ranks)
        after = running.told()
        equal([t["pg_status"] for t in after], [t["pg_status"] for t in told], "what they tell afterwards")
        equal([t["contexts_created"] for t in after], [1] * len(after), "contexts: none on the device that no rank uses")


def test_wait_for_one_who_is_waited_for():
    """Ranks 1 and 3 wait for ranks 0 and 2; rank 0 waits for rank 2 in another group: it is rank 2."""
    with job("subgroup") as running:
        running.wait()
        found, _ = running.triage()
        said = [v["text"] for v in verdicts(found, "behind")]
        equal(len(said), 2, "groups with a rank behind")
        check(said[0].startswith("rank 2 has not begun all_reduce number 2 of process group 1, "), "the first", said)
        check(said[1].startswith("ranks 0,2 have not begun all_reduce number 4 of process group default_pg, ") and
              said[1].endswith("; rank 0 waits in another operation"), "the second", said)
        equal(outliers(found), [2], "the ranks that differ")


def test_release_with_another_backend():
    """Since 2.15 "nccl" is another backend, with a recorder of its own, whose numbers of groups are of no use."""
    # That one takes the first device of several.
    with job("missing", ranks=2, of=1, version="2.15.0", SIMCUDA_DEVICES="1") as running:
        running.wait()
        found, _ = running.triage()
        v = verdicts(found, "behind")
        check(v and v[0]["text"].startswith("rank 1 has not begun all_reduce number 4 of process group default_pg, the last one there was number 3; "),
              "the message", found["found"]["verdicts"])
        for pid, told in zip(running.ranks, running.told()):
            groups = by_pid(found)[pid]["collectives"]["groups"]
            equal({g["group"]: (g["backend"], g["last_enqueued"]) for g in groups},
                  {name: ("nccl2", max(e["collective_seq_id"] for e in told["entries"] if e["process_group"][0] == name)) for name in told["pg_config"]},
                  "groups and their last collectives")


def test_different_collectives():
    with job("different", ranks=3, of=1) as running:
        running.wait()
        found, _ = running.triage()
        v = verdicts(found, "mismatched-collective")
        check(v and v[0]["text"].startswith("rank 1 began broadcast as number 4 of process group default_pg, ranks 0,2 all_reduce"), "the message",
              found["found"]["verdicts"])


def test_job_that_runs():
    """Its ranks are never equally far, and none is to blame. Nor does it stop."""
    with job("none", ranks=2) as running:
        time.sleep(LATE_S)
        seen = []
        for _ in range(3):
            found, _ = running.triage()
            equal([v["text"] for v in found["found"]["verdicts"] if v["alarm"]], [], "alarms")
            m = by_pid(found)[running.ranks[0]]
            seen.append(next(g["last_enqueued"] for g in m["collectives"]["groups"] if g["group"] == "0"))
        check(seen == sorted(set(seen)), "it goes on", seen)


def test_recorder_is_off():
    with job("off", ranks=2, of=1) as running:
        found, text = running.triage()
        for pid in running.ranks:
            equal(by_pid(found)[pid]["collectives"]["groups"], [], "groups")
            check("TORCH_FR_BUFFER_SIZE=2000" in by_pid(found)[pid]["collectives"]["why_none"], "why", by_pid(found)[pid])
        check("0-1: not known: PyTorch's flight recorder is off" in text, "the summary", text)
        one = report_json(running.ranks[0], "--collectives", expect=COMPLETE)
        check("flight-off" in diag_codes(one), "the note", one["diagnostics"])
        equal(schema_errors(one), [], "what the schema does not allow")


def test_driver_hangs():
    """Asked whether an event is over, the driver no longer answers: the report says so, and all is well when it answers again."""
    control = scratch("control")
    with job("missing", ranks=2, of=1, SIMCUDA_CTL=control) as running:
        time.sleep(0.5)  # for the watchdogs
        before = [sorted(thread_names(pid)) for pid in running.ranks]
        subprocess.run([CTL, control, "fault", "cudaEventQuery:block"], check=True)
        found, _ = running.triage()
        why = by_pid(found)[running.ranks[0]]["collectives"]["why_none"]
        check("did not answer" in why and "still holds the GIL" in why, "why", why)
        equal(by_pid(found)[running.ranks[1]]["collectives"]["why_none"], None, "the other, whose collectives are all over")
        subprocess.run([CTL, control, "clear"], check=True)
        wait_until(lambda: [sorted(thread_names(pid)) for pid in running.ranks] == before, 10, "the helper's thread ends")
        equal(len(running.told()), 2, "ranks that answer")
        # Nor can it be asked without harm to a graph that is captured: then there are no operations, and that is not taken for none.
        subprocess.run([CTL, control, "fault", "cuThreadExchangeStreamCaptureMode:error=1"], check=True)
        found, _ = running.triage()
        groups = [g for pid in running.ranks for g in by_pid(found)[pid]["collectives"]["groups"]]
        equal({(g["last_enqueued"], g["last_completed"], g["pending"]) for g in groups}, {(None, None, 0)}, "how far the groups are")


def ends_of_captures(asks):
    """What CUDA says of the end of each rank's capture when asks(job) happens before."""
    with job("missing", "--capture", ranks=2, of=1) as running:
        asks(running)
        codes = running.ask(b"end\n")
        equal([begin for begin, _ in codes], [0, 0], "begin of the captures")
        return [end for _, end in codes]


def test_captures_are_spared():
    """A thread captures a graph while a collective is under way: what is asked does not spoil it, as the rank does that asks itself."""
    def triage_asks(running):
        found, _ = running.triage()
        equal([m["collectives"]["groups"][0]["pending"] for m in by_pid(found).values() if m["role"] == "rank"], [1, 0], "operations under way")

    equal(ends_of_captures(triage_asks), [0, 0], "end of the captures")
    check(ends_of_captures(Job.told)[0], "nothing can be spoilt here")


def test_gil_is_kept():
    """One keeps the GIL: it is not asked, and others are."""
    with job("gil", ranks=2, of=1) as running:
        # PyTorch starts the last of them a moment after the rank says that it is ready.
        wait_until(lambda: {"pt_nccl_heartbt": 2, "pt_nccl_watchdg": 2}.items() <= collections.Counter(sorted(thread_names(running.ranks[1]))).items(), 10,
                   "the threads of both groups")
        before = sorted(thread_names(running.ranks[1]))
        found, text = running.triage()
        members = by_pid(found)
        check(re.search(r"thread \d+ holds the GIL", members[running.ranks[1]]["collectives"]["why_none"]), "why", members[running.ranks[1]])
        equal({g["group"] for g in members[running.ranks[0]]["collectives"]["groups"]}, {"0", "1"}, "the other's groups")
        check("1: not known: PyTorch was not asked" in text, "the summary", text)
        equal(sorted(thread_names(running.ranks[1])), before, "threads")


if __name__ == "__main__":
    main(globals())
