#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""vramtap triage of planted hangs, each with a known culprit, in one job of real ranks over gloo; and of the same job when it is well."""
import atexit
import contextlib
import functools
import json
import os
import subprocess
import time

from core import SANITIZED
from harness import CACHE, COMPLETE, PARTIAL, SOURCE, check, compile_c, equal, main, proc_state, scratch, simulated_python, target, wait_until
from triage import are_running, by_pid, triage

VERSION = "2.11.0"
JOB = os.path.join(SOURCE, "tests", "targets", "triage_hangs.py")
RANKS = 4

# The child shares the memory, and the parent waits for it in the kernel, where no signal but the last one reaches it.
NAP = r"""
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
int nap(volatile char *over)
{
	struct timespec ms = { 0, 1000000 };
	pid_t child = vfork();

	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		while (!*over)
			nanosleep(&ms, 0);
		_exit(0);
	}
	return waitpid(child, 0, 0) < 0;
}
"""


class Hangs:
    """The job, and the trouble that it is in."""

    def __init__(self):
        self.ends = contextlib.ExitStack()
        torchrun = scratch("torchrun")
        os.symlink(JOB, torchrun)
        env = dict(os.environ, SIMCUDA_DEVICES="1", SIMCUDA_MEM_MB="128", SIMCUDA_CTX_MB="16",
                   TRIAGE_HANGS_CTL=os.path.join(CACHE, "simcuda", "simcuda-ctl"))
        command = [*simulated_python(VERSION), torchrun, "--nap", compile_c(NAP, "-shared", "-fPIC"), "--ranks", str(RANKS)]
        self.proc = self.ends.enter_context(target(command, ready="READY", env=env))
        atexit.register(self.end)

    def end(self):
        """The launcher ends its ranks when its input ends."""
        self.proc.stdin.close()
        self.proc.stdin = open(os.devnull, "rb")
        with contextlib.suppress(Exception):
            self.proc.wait(10)
        self.ends.close()

    def ask(self, line):
        self.proc.stdin.write(line.encode() + b"\n")
        self.proc.stdin.flush()
        for raw in self.proc.stdout:
            if raw.startswith(b"THERE"):
                return json.loads(raw.split(None, 1)[1])
        raise AssertionError(f"the job has ended: {line}")

    @contextlib.contextmanager
    def trouble(self, what, of, where):
        try:
            yield self.ask(f"do {what} {of} {where}")
        finally:
            self.ask("over")


@functools.cache
def hangs():
    return Hangs()


def has_run(out, report):
    """A thread got no processor to stop on for 100 ms, and ran while it was read: on a busy machine that is no news."""
    for member in report["members"]:
        if member["completeness"] == "partial" and member["report"]:
            with open(os.path.join(out, member["report"]), encoding="utf-8") as file:
                if "ran" in {d["code"] for d in json.load(file)["diagnostics"]}:
                    return True
    return False


def look(*args, expect=(COMPLETE, PARTIAL)):
    for _ in range(10):
        out, report, text = triage(*args, "--width", "200", expect=(COMPLETE, PARTIAL))
        if not has_run(out, report):
            break
        time.sleep(0.5)
    check((COMPLETE if report["found"]["completeness"] == "complete" else PARTIAL) in (expect if isinstance(expect, tuple) else (expect,)),
          "completeness", report["found"]["completeness"], report["diagnostics"])
    return report, text


def pids_of(report, verdict):
    return [report["members"][i]["pid"] for first, last in verdict["members"] for i in range(first, last + 1)]


def verdicts_of(report, of):
    """(whether it is an alarm, code, text) of each verdict on exactly these."""
    return [(v["alarm"], v["code"], v["text"]) for v in report["found"]["verdicts"] if pids_of(report, v) == of]


def check_accused(report, of, *words):
    """An alarm about exactly these says all of these words."""
    told = verdicts_of(report, of)
    check(any(alarm and all(word in text for word in words) for alarm, _, text in told), f"no finding says {words} of {of}", told,
          report["found"]["verdicts"])


def check_innocent(report, concerned):
    """Alarms, and outliers, are only for the ranks concerned."""
    alarms = {pid for v in report["found"]["verdicts"] if v["alarm"] for pid in pids_of(report, v)}
    check(alarms <= concerned, "innocent ones are accused", report["found"]["verdicts"], concerned)
    outliers = {m["pid"] for m in report["members"] if m["outlier"]}
    check(outliers and outliers <= concerned, "the ranks that differ", outliers, concerned)


def check_completeness(report, partial, cut=()):
    """These are the ones that are not fully known; in the stacks of others, callers may be missing."""
    not_complete = {pid for pid, m in by_pid(report).items() if m["completeness"] != "complete"} - set(cut)
    equal(not_complete, partial, "the ranks that are not fully known")


def first_line(text):
    return next((line for line in text.splitlines() if line.startswith("! ")), "")


# What the trouble is, whose it is, where the others are, and the words for the rank, and for its first worker.
PLANTED = [
    ("elsewhere", 2, "all_reduce", ["is not in all_reduce", "save_metrics"], None),
    ("loop", 1, "all_reduce", ["is not in all_reduce", "runs", "spin"], None),
    ("checkpoint", 0, "barrier", ["is not in barrier", "Slow.write"], None),
    ("evaluation", 0, "monitored_barrier", ["is not in monitored_barrier", "runs", "evaluate"], None),
    ("pdb", 3, "all_reduce", ["is not in all_reduce", "in Python's debugger (pdb)", "debug"], None),
    ("oom-retry", 2, "all_reduce", ["retries an allocation", "gives back cached memory, in cudaFree", "allocate_again"], None),
    ("oom-failed", 2, "all_reduce", ["is not in all_reduce", "wait_for_memory", "after 1 failed request for GPU memory"], None),
    ("worker-stopped", 2, "all_reduce", ["waits for loader workers", "drain"], ["is stopped by a signal", "read_sample"]),
    ("worker-sleeps", 2, "all_reduce", ["waits for loader workers", "drain"], ["is in uninterruptible sleep (D)", "read_sample"]),
    ("worker-locked", 2, "all_reduce", ["waits for loader workers", "drain"],
     ["waits for a lock or semaphore of multiprocessing", "take_twice"]),
    ("worker-killed", 2, "all_reduce", ["is not in all_reduce", "give_up"], None),
    ("sleeps", 2, "all_reduce", ["is in uninterruptible sleep (D)", "nap"], None),
    ("stopped", 2, "all_reduce", ["is stopped by a signal", "stop"], None),
]
OTHERS = f"; the other {RANKS - 1} wait in "
# What else can be done about it than to look with vramtap.
COMMANDS = {"stopped": "kill -CONT {rank}", "worker-stopped": "kill -CONT {worker}", "oom-retry": "vramtap report {rank}"}


def check_chain(report, text, what, where, rank, worker):
    """The first chain begins with the culprit, and all others hang on it."""
    chain = report["found"]["causes"][0]
    told = [link["text"] for link in chain["links"]]
    links = [pids_of(report, link) for link in chain["links"]]
    others = sorted(pid for pid, m in by_pid(report).items() if m["role"] == "rank" and pid != rank)
    equal([links[0], *map(sorted, links[1:])], [[worker], [rank], others] if worker else [[rank], others], f"links: {told}")
    check(f"(pid {worker or rank}) " in told[0] and f" wait in {where} (triage_hangs.py:" in told[-1], "words", told)
    equal(chain["ranks_waiting"], RANKS - 1 + bool(worker), "how many wait")
    check(chain["certain"], "doubt", chain)
    command = COMMANDS.get(what, "vramtap stacks {worker}" if worker else "vramtap stacks {rank}").format(rank=rank, worker=worker)
    check(command in [step["command"] for step in chain["remedy"]["steps"]], f"no {command}", chain["remedy"])
    check(text.index("START HERE: " + told[0][:40]) < text.index("\n! ") and f"\n    {command} " in text, "the text", text[:800])
    return chain


def check_planted(what, of, where, of_rank, of_worker):
    with hangs().trouble(what, of, where) as job:
        rank, worker = job["ranks"][of], job["workers"][of][0]
        report, text = look("--children-of", hangs().proc.pid)
        check_accused(report, [rank], f"rank {of} ", OTHERS + where, *of_rank)
        check(f"rank {of} " in first_line(text), "the summary does not begin with it", text[:600])
        check("What differs" in text, "who differs is not shown", text[:1500])
        if of_worker:
            check_accused(report, [worker], f"worker 0 of rank {of} ", *of_worker)
        if what == "worker-killed":
            check(any("has loader workers: 0; most ranks have 1" in told for _, _, told in verdicts_of(report, [rank])), "the worker",
                  report["found"]["verdicts"])
        check_innocent(report, {rank, worker} if of_worker else {rank})
        chain = check_chain(report, text, what, where, rank, worker if of_worker else None)
        # MKL's kernels have no unwind information. Of one that is not stopped, not all registers are known.
        check_completeness(report, set(), {rank, worker} if what in ("evaluation", "sleeps", "worker-sleeps") else ())
        # vramtap waits 100 ms for one in uninterruptible sleep before it stops all.
        moments = [m["stopped_at_ns"] for m in report["members"] if "stopped_at_ns" in m]
        check(what != "sleeps" or "stopped_at_ns" in by_pid(report)[rank], "the other threads of the one that sleeps are not stopped")
        check(max(moments) - min(moments) < 60e6, "how far the stops are apart", moments)
        # One alone: there is no other one to compare it with.
        report, text = look(rank)
        check(any(of_rank[-1] in v["text"] or "triage_hangs.py" in v["text"] for v in report["found"]["verdicts"]), "alone", text[:600])
        are_running([pid for pid in by_pid(report) if proc_state(pid) in "SR"])
        # What it says helps.
        if what == "stopped":
            subprocess.run(chain["remedy"]["steps"][0]["command"].split(), check=True)
            wait_until(lambda: proc_state(rank) in "SR", 10, "it does not go on")


def test_planted_hangs():
    for planted in PLANTED:
        try:
            check_planted(*planted)
        except AssertionError as error:
            raise AssertionError(f"{planted[0]}: {error}") from error


def test_healthy_training():
    """In each step some wait for others, for some milliseconds: that is no alarm at any moment."""
    with hangs().trouble("together", -1, "train"):
        seen = set()
        for _ in range(5 if SANITIZED else 20):
            report, _ = look("--children-of", hangs().proc.pid)
            equal([v["text"] for v in report["found"]["verdicts"] if v["alarm"]], [], "alarms")
            equal(report["found"]["causes"], [], "causes")
            seen |= {v["code"] for v in report["found"]["verdicts"]}
        check(seen, "no words", seen)


def test_healthy_groups():
    """Two process groups in collectives of their own, and stages of a pipeline: half of the ranks wait, and the others compute."""
    for where in ("pairs_apart", "pipeline", "work"):
        with hangs().trouble("together", -1, where):
            report, _ = look("--children-of", hangs().proc.pid)
            equal([v["text"] for v in report["found"]["verdicts"] if v["alarm"]], [], f"alarms of {where}")
            equal(report["found"]["causes"], [], f"causes of {where}")


def test_killed_rank():
    """The last one here: it cannot be brought back."""
    of = 2
    pid = hangs().ask(f"do killed {of} store")["ranks"][of]
    for _ in range(10):
        report, text = look("--children-of", hangs().proc.pid, expect=PARTIAL)
        does = {m["does"] for m in by_pid(report).values() if m["role"] == "rank"}
        if does == {"store"}:
            break
        time.sleep(0.2)  # others are on their way to the store
    check_accused(report, [pid], f"rank {of} of {RANKS} has ended or was killed", str(pid), "zombie")
    equal((by_pid(report)[pid]["process_state"], by_pid(report)[pid]["completeness"]), ("Z", "nothing"), "the member")
    check(f"rank {of} of {RANKS} has ended" in first_line(text), "the summary does not begin with it", text[:600])
    check_innocent(report, {pid})
    check_completeness(report, {pid})
    equal(does, {"store"}, "what the others do")
    chain = report["found"]["causes"][0]
    equal((chain["code"], chain["certain"], chain["ranks_waiting"]), ("missing-rank", True, RANKS - 1), "the chain")
    equal(chain["links"][0]["text"], f"rank {of} of {RANKS} (pid {pid}) has ended or was killed", "its beginning")
    hangs().ask(f"reap {of}")
    report, text = look("--children-of", hangs().proc.pid, expect=COMPLETE)
    check(f"rank {of} of {RANKS} is missing" in first_line(text), "the summary does not begin with it", text[:600])
    check_completeness(report, set())
    chain = report["found"]["causes"][0]
    equal((chain["links"][0]["text"], chain["doubt"], chain["ranks_waiting"]), (f"rank {of} of {RANKS} is missing", "left-out", RANKS - 1), "the chain")


if __name__ == "__main__":
    main(globals())
