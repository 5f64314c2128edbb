#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""vramtap triage on a fake job of full PyTorch processes, and on processes that do what makes collecting hard."""
import contextlib
import fcntl
import json
import os
import random
import re
import shutil
import signal
import subprocess
import time

import nursery
import prometheus_text
from core import SANITIZED, gcore
from harness import (COMPLETE, NOT_PERMITTED, NOTHING, PARTIAL, SOURCE, USAGE, VRAMTAP, Skip, check, compile_c, equal, main, proc_state,
                     schema_errors, scratch, stacks_json, target, vramtap, wait_until)
from report_torch import Driver
from stacks_no_stop import settle, switches

VERSION = "2.11.0"
JOB = os.path.join(SOURCE, "tests", "targets", "triage_job.py")
ENV = dict(os.environ, SIMCUDA_DEVICES="1", SIMCUDA_MEM_MB="128", SIMCUDA_CTX_MB="16")


def triage(*args, expect=COMPLETE, timeout=60, **kwargs):
    """Runs vramtap triage into a new directory; returns (directory, report, summary on the terminal)."""
    out, metrics = scratch(), scratch("job.prom")
    args = [str(arg) for arg in args]
    with_metrics = not any(arg.startswith("--kernels") for arg in args)  # these exclude each other
    asked = ["--prometheus", metrics] if with_metrics else []
    code, text, err = vramtap("triage", "-o", out, *asked, *args, timeout=timeout, **kwargs)
    check(code in (expect if isinstance(expect, tuple) else (expect,)), f"exit code {code}, not {expect}:", err, text[-1500:])
    report = load(out)
    if with_metrics:
        with open(metrics, "rb") as file:
            prometheus_text.same_job(prometheus_text.parse(file.read()), report)
    return out, report, text


def load(directory):
    with open(os.path.join(directory, "report.json"), encoding="utf-8") as file:
        return json.load(file)


def by_pid(report):
    return {m["pid"]: m for m in report["members"] if m["in_job"]}


@contextlib.contextmanager
def fake_job(trouble="none", *args, **env):
    """A job with one in trouble, its launcher called torchrun; yields (pid of the launcher, {"ranks": …, "workers": …})."""
    torchrun = scratch("torchrun")
    os.symlink(JOB, torchrun)
    with nursery.child(VERSION, [torchrun, "--trouble", trouble, *args], env=dict(ENV, **env)) as proc:
        try:
            yield proc.pid, json.loads(proc.ready_line.split(None, 1)[1])
        finally:
            with contextlib.suppress(OSError):
                proc.stdin.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                proc.wait(10)
            proc.stdin = open(os.devnull, "rb")


def are_running(pids):
    """Nobody is stopped, nor traced."""
    for pid in pids:
        with open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as file:
            status = file.read()
        check("TracerPid:\t0" in status, f"{pid} is traced")
        check(not re.search(r"^State:\s+[tT]", status, re.M), f"{pid} is stopped", status[:200])


# ---- which processes are found, and their roles ----

def test_job_is_labelled():
    with fake_job("none", "--ranks", "2", "--workers", "2") as (launcher, job):
        out, report, text = triage("--children-of", launcher)
        members = by_pid(report)
        ranks, workers = job["ranks"], job["workers"]
        equal(set(members), {launcher, *ranks, *workers[0], *workers[1]}, "the members")
        equal(members[launcher]["role"], "launcher", "role of the launcher")
        for number, pid in enumerate(ranks):
            m = members[pid]
            equal((m["role"], m["rank"], m["local_rank"], m["world_size"], m["job"]), ("rank", number, number, 2, "torchrun 4711"),
                  f"label of {pid}")
            equal(m["memory"][0]["allocated_bytes"], 20 << 20, "what it holds")
            for index, worker in enumerate(workers[number]):
                m = members[worker]
                equal((m["role"], m["rank"], m["of"], m["worker"]), ("loader", number, pid, index), f"label of worker {worker}")
        # They all do the same, and are of one job: none differs, and none is wrong.
        equal([v["text"] for v in report["found"]["verdicts"] if v["alarm"]], [], "alarms")
        check("not-compared" not in {d["code"] for d in report["diagnostics"]}, "ranks of one job were not compared", report["diagnostics"])
        # One rank alone comes with its workers and its launcher, but not with the others.
        equal(set(by_pid(triage(ranks[1])[1])), {launcher, ranks[1], *workers[1]}, "the members by PID")
        equal(set(by_pid(triage("--match", r"torchrun .*--workers 2")[1])) >= {launcher, *ranks}, True, "the members by command line")
        check_files(out, report, text)
        are_running(members)


def check_files(out, report, text):
    names = set(os.listdir(out))
    equal(names, {"report.json", "summary.txt"} | {m["report"] for m in report["members"]}, "the files")
    equal(os.stat(out).st_mode & 0o777, 0o700, "mode of the directory")
    for m in report["members"]:
        with open(os.path.join(out, m["report"]), encoding="utf-8") as file:
            one = json.load(file)
        equal((one["schema"], one["process"]["pid"]), ("vramtap-report", m["pid"]), "report of one")
        with contextlib.suppress(Skip):
            equal(schema_errors(one), [], "what the schema does not allow")
    with open(os.path.join(out, "summary.txt"), encoding="utf-8") as file:
        check(file.read().strip(), "the summary is empty")
    check(text.strip(), "no summary on the terminal")


def functions_of(report, pid):
    """The functions in the stack of the main thread of a member."""
    m = by_pid(report)[pid]
    doing = report["doings"][m["threads_do"][m["threads"].index(pid)]]
    return [report["frames"][i]["function"] for i in report["stacks"][doing["stack"]]]


def check_stack(report, pid, function):
    functions = functions_of(report, pid)
    check(any(name and name.endswith(function) for name in functions), f"{function} is not in the stack of {pid}", functions)


def check_named(report, text, *words):
    """A line of the answer, which is on the terminal, too, has all of these words."""
    told = [v["text"] for v in report["found"]["verdicts"]]
    check(any(all(word in line for word in words) for line in told), f"no finding says {words}", told)
    check(words[-1] in " ".join(text.split()), f"the summary does not say {words[-1]}", text)


def test_ranks_in_trouble_are_named():
    for trouble, function in (("elsewhere", "save_metrics"), ("loop", "spin"), ("oom", "allocate_again")):
        with fake_job(trouble, "--workers", "0", "--ranks", "3") as (launcher, job):
            _, report, text = triage("--children-of", launcher, "--width", "200", expect=(COMPLETE, PARTIAL))
            for rank in (0, 2):
                check_stack(report, job["ranks"][rank], "all_reduce")
            check_stack(report, job["ranks"][1], function)
            check_named(report, text, "rank 1", function)
            are_running(job["ranks"])


def test_killed_rank_is_named():
    with fake_job("killed", "--workers", "0") as (launcher, job):
        _, report, text = triage("--children-of", launcher, "--width", "200", expect=PARTIAL)
        members = by_pid(report)
        check_stack(report, job["ranks"][0], "all_reduce")
        check("zombie" in members[job["ranks"][1]]["error"], "the error of the killed rank", members[job["ranks"][1]])
        check_named(report, text, str(job["ranks"][1]), "local rank 1 of 2 has ended or was killed")


def test_workers_in_trouble_are_named():
    for trouble, state, words in (("stopped", "T", "is stopped"), ("sleep", "D", "is in uninterruptible sleep")):
        with fake_job(trouble) as (launcher, job):
            _, report, text = triage("--children-of", launcher, "--width", "200", expect=(COMPLETE, PARTIAL))
            members = by_pid(report)
            culprit = job["workers"][1][0]
            equal((members[culprit]["role"], members[culprit]["process_state"]), ("loader", state), "the worker in trouble")
            check_stack(report, culprit, "read_sample")
            check_stack(report, job["ranks"][1], "_next_data")
            check_named(report, text, f"worker 0 of rank 1 {words}")
            equal(proc_state(culprit), state, "state of the worker afterwards")


def test_all_are_stopped_together():
    with fake_job("none", "--workers", "1", "--threads", "10", "--ranks", "3") as (launcher, job):
        moments = []
        for i in range(6):
            _, report, _ = triage("--children-of", launcher, *["--owners"] * (i % 2))
            members = [m for m in report["members"] if m["in_job"]]
            equal(len(members), 7, "members")
            begins = [m["stopped_at_ns"] for m in members]
            check(all(0 < m["released_at_ns"] - m["stopped_at_ns"] < 1e9 for m in members), "times", members)
            moments.append(((max(begins) - min(begins)) / 1e6, max(m["stopped_ms"] for m in members)))
            check(abs(report["found"]["skew_ms"] - moments[-1][0]) < 0.01, "the skew in the report", report["found"], moments)
        # On a busy machine one of three is enough. Looking for owners keeps none of them stopped.
        for some in (moments[::2], moments[1::2]):
            check(min(skew for skew, _ in some) < 10 and min(stopped for _, stopped in some) < 20, "skew and stops", moments)


def owners_of(report, pid):
    return by_pid(report)[pid].get("owners")


def test_memory_by_category():
    """One rank keeps a graph."""
    kept = 600 << 20
    with fake_job("keeps", "--workers", "0", "--ranks", "3", SIMCUDA_MEM_MB="2048") as (launcher, job):
        out, report, text = triage("--children-of", launcher, "--owners", "--width", "120")
        with contextlib.suppress(Skip):
            equal(schema_errors(report, schema_file="triage.schema.json"), [], "what the schema does not allow")
        for rank, pid in enumerate(job["ranks"]):
            m = by_pid(report)[pid]
            owners = m["owners"]
            equal((owners["state"], owners["ran"], owners["whole"]), ("read", False, True), f"owners of rank {rank}")
            equal(sum(owners["bytes"].values()), m["memory"][0]["allocated_bytes"], f"bytes by category of rank {rank}: {owners}")
            with open(os.path.join(out, m["report"]), encoding="utf-8") as file:
                one = json.load(file)["owners"]
            equal({c["category"]: c["bytes"] for c in one["categories"]}, owners["bytes"], "in its own report")
            equal(owners["bytes"].get("activation", 0), kept * (rank == 1), f"activations of rank {rank}")
        equal(owners_of(report, launcher), None, "owners of the launcher")
        told = [v["text"] for v in report["found"]["verdicts"] if v["code"] == "imbalance-category"]
        equal(told[0], "rank 1 has 600 MiB of activations, the others none", "what is told")
        check("What the memory in use is" in text and re.search(r"ranks 0,2 +rank 1\n", text), "the table", text)
        check(re.search(r"activations held by a graph +- +600 MiB\n", text), "the table's activations", text)
        # Saved ones, and those of a vramtap that knew no owners.
        code, again, err = vramtap("triage", "--from", out, "--json=-")
        equal((code, err), (COMPLETE, ""), "--from")
        again = json.loads(again)
        equal([owners_of(again, pid) for pid in job["ranks"]], [owners_of(report, pid) for pid in job["ranks"]], "owners of saved ones")
        equal([v["text"] for v in again["found"]["verdicts"]], [v["text"] for v in report["found"]["verdicts"]], "verdicts of saved ones")
        for m in report["members"]:
            m.pop("owners", None)
        with open(os.path.join(out, "report.json"), "w", encoding="utf-8") as file:
            json.dump(report, file)
        code, old, err = vramtap("triage", "--from", out)
        equal((code, err), (COMPLETE, ""), "--from of an old one")
        check("What the memory in use is" not in old and "activations" not in old, "what is told of an old one", old)
        # Only if asked for.
        _, without, text = triage("--children-of", launcher)
        check(owners_of(without, job["ranks"][0]) is None and "What the memory in use is" not in text, "without --owners", text)


def test_memory_of_ranks_that_train():
    """Each rank tells what its blocks are, from PyTorch's own list; one keeps the graphs of more losses than the others."""
    with fake_job("trains", "--workers", "0", "--ranks", "4", "--of", "2", SIMCUDA_MEM_MB="2048") as (launcher, job):
        _, report, text = triage("--children-of", launcher, "--owners", "--width", "80")
        for rank, pid in enumerate(job["ranks"]):
            equal(owners_of(report, pid)["bytes"], job["truth"][rank], f"what the memory of rank {rank} is")
        kept = [truth["activation"] for truth in job["truth"]]
        check(kept[2] > 512 << 20 and kept[0] == kept[1] == kept[3] == 32 << 20, "what they keep", job["truth"])
        told = [(v["text"], v["alarm"], v["members"]) for v in report["found"]["verdicts"] if v["code"] == "imbalance-category"]
        member = [m["pid"] for m in report["members"]].index(job["ranks"][2])
        text_of_it = f"rank 2 has {kept[2] >> 20} MiB of activations, the others 32.0 MiB"
        equal(told, [(text_of_it, False, [[member, member]])], "what is told, and of whom")
        check(re.search(r"What the memory in use is +ranks 0-1,3 +rank 2\n +activations held by a graph +32.0 MiB +576 MiB\n", text), "the table", text)
        check(all(len(line) <= 80 for line in text.splitlines()), "lines of 80 columns", text)
        are_running(job["ranks"])


def test_memory_of_one_that_runs():
    """What is found after the stop is of other blocks perhaps: it is not compared."""
    with fake_job("allocates", "--workers", "0", "--ranks", "3") as (launcher, job):
        _, report, text = triage("--children-of", launcher, "--owners", "--width", "120", expect=(COMPLETE, PARTIAL))
        owners = [owners_of(report, pid) for pid in job["ranks"]]
        equal([(o["state"], o["ran"]) for o in (owners[0], owners[2])], [("read", False)] * 2, "those that wait")
        # It has only tensors that come and go. On a busy machine none of them may stay long enough to show how they are laid out.
        check(owners[1]["state"] == "no-layout" or (owners[1]["state"] == "read" and owners[1]["ran"]), "the one that went on", owners[1])
        check("Not known of rank 1: still running" in " ".join(text.split()), "what is said of it", text)
        are_running(job["ranks"])


def test_others_on_the_device_are_only_read():
    """A process outside the job that holds memory is not stopped, and does not count."""
    with Driver(VERSION, **{k: v for k, v in ENV.items() if k.startswith("SIMCUDA")}) as driver, unrest("sleep", 1) as proc:
        driver("alloc 1 3000000")
        settle(driver.pid)
        before = switches(driver.pid)
        with hold(driver.pid):  # nor is it waited for
            _, report, _ = triage("--match", f"{os.path.basename(proc.args[0])} sleep")
        equal(switches(driver.pid), before, "it was not woken")
        m = next(m for m in report["members"] if m["pid"] == driver.pid)
        equal((m["in_job"], m.get("stopped_at_ns"), len(m["threads"])), (False, None, 0), "the other one")
        check(m["memory"][0]["allocated_bytes"] >= 3000000, "its memory", m["memory"])
        equal(set(by_pid(report)), {proc.pid, *children_of(proc.pid)}, "the job")
        # Named by its PID it is looked at as any other.
        _, report, _ = triage(driver.pid)
        m = by_pid(report)[driver.pid]
        check(m["role"] == "rank" and m["stopped_at_ns"] and m["threads"], "named by its PID", m)


def test_without_a_stop_and_from_inside():
    with fake_job("none", "--workers", "0", "--threads", "2") as (launcher, job):
        for pid in job["ranks"]:
            settle(pid)
        before = {pid: switches(pid) for pid in job["ranks"]}
        _, report, _ = triage("--no-stop", "--children-of", launcher)
        equal({pid: switches(pid) for pid in job["ranks"]}, before, "no rank was woken")
        for pid in job["ranks"]:
            check_stack(report, pid, "all_reduce")
            equal(by_pid(report)[pid]["memory"][0]["allocated_bytes"], 20 << 20, "what it holds")
        out, report, _ = triage("--inject", "--children-of", launcher)
        for pid in job["ranks"]:
            m = by_pid(report)[pid]
            check_stack(report, pid, "all_reduce")
            check(m["memory"][0].get("device_total_bytes"), "what the driver says of the device", m["memory"])
            with open(os.path.join(out, m["report"]), encoding="utf-8") as file:
                equal(json.load(file)["pytorch"]["method"], "inside", "method")
        are_running(job["ranks"])


# ---- processes that make it hard ----

# They exit, fork, execute themselves again, or start and end threads, all the time; or do nothing.
UNREST = r"""
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <signal.h>
#include <unistd.h>
static void *end(void *arg) { usleep(500); return arg; }
static void live(const char *what, char **argv)
{
	pthread_t thread;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;;) {
		if (!strcmp(what, "sleep"))
			pause();
		usleep(1000 + rand() % 3000);
		if (!strcmp(what, "exit") && rand() % 100 == 0)
			_exit(0);
		if (!strcmp(what, "fork") && fork() == 0)
			_exit(usleep(1000));
		if (!strcmp(what, "exec"))
			execv("/proc/self/exe", argv);
		if (!strcmp(what, "threads") && !pthread_create(&thread, NULL, end, NULL))
			pthread_detach(thread);
		while (!strcmp(what, "fork") && waitpid(-1, NULL, WNOHANG) > 0)
			;
	}
}
int main(int argc, char **argv)
{
	int n = argc > 2 ? atoi(argv[2]) : 0;
	if (!n)
		live(argv[1], argv);
	for (int i = 0; i < n; i++)
		if (fork() == 0) {
			char *again[] = { argv[0], argv[1], NULL };
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			execv("/proc/self/exe", again);
			_exit(1);
		}
	puts("ready");
	fflush(stdout);
	close(1);
	return read(0, &n, 1) < 0;
}
"""


def unrest(what, n):
    return target([compile_c(UNREST, "-pthread"), what, str(n)], ready="ready")


def test_500_processes():
    with unrest("sleep", 500) as proc:
        begin = time.monotonic()
        _, report, _ = triage("--children-of", proc.pid)
        seconds = time.monotonic() - begin
        members = by_pid(report)
        equal(len(members), 501, "members")
        equal({m["error"] for m in members.values()}, {None}, "errors")
        check(seconds < (200 if SANITIZED else 30), "too slow", seconds)
        # Not all at once: each would be stopped for as long as it takes to read them all.
        stopped = sorted(m["stopped_ms"] for m in members.values())
        check(SANITIZED or stopped[len(stopped) // 2] < 20, "for how long they were stopped", stopped[::25])
        print(f"  {seconds:.1f} s, stopped within {report['found']['skew_ms']:.0f} ms, for {stopped[len(stopped) // 2]:.1f} ms", flush=True)


def test_few_files_and_processes_are_allowed():
    """Those that cannot be looked at beside the others come after them."""
    program = compile_c(UNREST, "-pthread")
    os.chmod(os.path.dirname(program), 0o755)
    # The user nobody may not reach the build tree.
    tool = shutil.copy(VRAMTAP, os.path.join(os.path.dirname(program), "tool"))
    nobody = [] if os.geteuid() else ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    with target([*nobody, program, "sleep", "40"], ready="ready") as proc:
        # The other limit is one of all processes of a user, and none of root's.
        for limit in ("nofile=40:40", "nproc=50:50")[:2 if nobody else 1]:
            out = scratch()
            if nobody:
                os.chown(out, 65534, 65534)
            done = subprocess.run([*nobody, "prlimit", f"--{limit}", tool, "triage", "-q", "-o", out, "--children-of", str(proc.pid)],
                                  capture_output=True, timeout=60, check=False)
            equal((done.returncode, done.stderr), (COMPLETE, b""), f"exit code and messages, {limit}")
            equal({m["error"] for m in by_pid(load(out)).values()}, {None}, f"errors, {limit}")


# One that sleeps for good, one that sleeps and goes on, one that polls, and one that runs.
GOES_ON = r"""
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
int main(int argc, char **argv)
{
	(void)argc;
	puts("ready");
	fflush(stdout);
	for (volatile int n = 0;; n++) {
		if (!strcmp(argv[1], "sleeps"))
			pause();
		else if (!strcmp(argv[1], "goes on"))
			poll(NULL, 0, 10);
		else if (!strcmp(argv[1], "polls"))
			usleep(10000);
	}
}
"""


def test_who_goes_on():
    program = compile_c(GOES_ON)
    want = {"sleeps": False, "goes on": True, "polls": None, "runs": None}
    with contextlib.ExitStack() as stack:
        pids = {what: stack.enter_context(target([program, what], ready="ready")).pid for what in want}
        # While it is stopped it goes nowhere.
        stopped = stack.enter_context(target([program, "goes on"], ready="ready")).pid
        os.kill(stopped, signal.SIGSTOP)
        wait_until(lambda: proc_state(stopped) == "T", 5, "it is stopped")
        _, report, _ = triage(*pids.values(), stopped)
        members = by_pid(report)
        equal({what: members[pid].get("moved") for what, pid in pids.items()}, want, "which ones have gone on")
        check(members[stopped].get("moved") is not True, "one that is stopped", members[stopped])
        os.kill(stopped, signal.SIGCONT)


# Deep in functions of its own, with debug information.
LINES = """
#include <stdio.h>
#include <unistd.h>
static __attribute__((noinline)) int inner(int n) { return n ? inner(n - 1) + 1 : getchar(); }
static __attribute__((noinline)) int other(void) { return getchar() + 1; }
int main(int argc, char **argv) { (void)argv; puts("ready"); fflush(stdout); return argc > 1 ? other() + 1 : inner(7) + 1; }
"""


def test_lines_are_those_of_one_alone():
    """They are read once for all processes with the same file: the first says to the others what it found. Some are elsewhere."""
    program = compile_c(LINES, "-g")
    with contextlib.ExitStack() as stack:
        elsewhere = [stack.enter_context(target([program, "elsewhere"], ready="ready")).pid for _ in range(2)]
        pids = [*elsewhere, *(stack.enter_context(target([program], ready="ready")).pid for _ in range(6))]
        out, report, _ = triage(*pids)
        for pid in pids:
            with open(os.path.join(out, by_pid(report)[pid]["report"]), encoding="utf-8") as file:
                frames = json.load(file)["threads"][0]["stack"]["frames"]
            alone = stacks_json(pid)["threads"][0]["stack"]["frames"]
            equal(frames, alone, "the stack")
            function, line, n = ("other", 5, 1) if pid in elsewhere else ("inner", 4, 8)
            equal(len([f for f in frames if f["function"] == function and f["line"] == line]), n, "frames with lines")


def test_restless_processes():
    """They go on, and whoever is not gone is there."""
    for what in ("exit", "fork", "exec", "threads"):
        with unrest(what, 8) as proc:
            for _ in range(3):
                _, report, _ = triage("--children-of", proc.pid, expect=(COMPLETE, PARTIAL))
                members = by_pid(report)
                check(not members[proc.pid]["error"], "the parent", members[proc.pid])
                for m in members.values():
                    check(not m["error"] or re.search(r"zombie|there is no process|does not exist|ended|gone", m["error"]), f"{what}: a row", m["error"])
            with open(f"/proc/{proc.pid}/task/{proc.pid}/children", encoding="ascii") as file:
                are_running([pid for pid in file.read().split() if proc_state(pid) not in "ZX"])


def hold(pid):
    """As another vramtap does that works on this process: triage's worker waits for it."""
    file = open(f"/proc/{pid}/status", encoding="utf-8", errors="replace")
    fcntl.flock(file, fcntl.LOCK_EX)
    return file


def children_of(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
        return [int(word) for word in file.read().split()]


def test_late_one_does_not_hold_up_the_others():
    with unrest("sleep", 4) as proc:
        late = children_of(proc.pid)[2]
        file = hold(late)
        vramtap_proc = subprocess.Popen([VRAMTAP, "triage", "-q", "-o", (out := scratch()), "--children-of", str(proc.pid)])
        time.sleep(3)
        file.close()
        equal(vramtap_proc.wait(30), COMPLETE, "exit code")
        members = by_pid(load(out))
        first = [m["stopped_at_ns"] for pid, m in members.items() if pid != late]
        check(max(first) - min(first) < 5e8, "the others were stopped together", first)
        check(members[late]["stopped_at_ns"] - max(first) > 3e8, "the late one was stopped later", first, members[late])
        with open(os.path.join(out, members[late]["report"]), encoding="utf-8") as report:
            check("late" in {d["code"] for d in json.load(report)["diagnostics"]}, "no diagnostic says that it was late")


def test_time_is_over():
    with unrest("sleep", 4) as proc:
        pids = children_of(proc.pid)
        with hold(pids[1]):
            begin = time.monotonic()
            _, report, text = triage("--children-of", proc.pid, "--timeout", "2", expect=PARTIAL)
            check(time.monotonic() - begin < 4, "it took too long")
        members = by_pid(report)
        equal([pid for pid, m in members.items() if m["error"]], [pids[1]], "rows with an error")
        check("--timeout" in members[pids[1]]["error"], "why", members[pids[1]]["error"])
        equal({m["completeness"] for pid, m in members.items() if pid != pids[1]}, {"complete"}, "the others")
        check("--timeout" in text, "the summary says it", text)


def workers_of(pid):
    """Not the process that asks NVML, where another program of the machine is on a device."""
    found = []
    for child in children_of(pid):
        with contextlib.suppress(OSError):
            if os.readlink(f"/proc/{child}/exe") == os.readlink(f"/proc/{pid}/exe"):
                found.append(child)
    return found


def test_worker_that_dies_is_a_row():
    with unrest("sleep", 3) as proc:
        pids = children_of(proc.pid)
        with hold(pids[0]):
            vramtap_proc = subprocess.Popen([VRAMTAP, "triage", "-q", "-o", (out := scratch()), "--children-of", str(proc.pid)])
            # Their files are there before they end; at the start there is one child for a moment, too.
            others = [proc.pid, *pids[1:]]
            wait_until(lambda: all(any(name.endswith(f"-{pid}.json") for name in os.listdir(out)) for pid in others), 20, "the others are saved")
            wait_until(lambda: len(workers_of(vramtap_proc.pid)) == 1, 20, "the others are done")
            os.kill(workers_of(vramtap_proc.pid)[0], signal.SIGKILL)
            equal(vramtap_proc.wait(30), PARTIAL, "exit code")
        members = by_pid(load(out))
        equal([pid for pid, m in members.items() if m["error"]], [pids[0]], "rows with an error")
        check("signal 9" in members[pids[0]]["error"], "why", members[pids[0]]["error"])


def test_worker_that_ends_late():
    """What it said counts: a busy machine may take longer to end a process than it is waited for."""
    with unrest("sleep", 2) as proc:
        late = ["strace", "-f", "-qq", "-o", os.devnull, "-e", "trace=exit_group", "-e", "inject=exit_group:delay_enter=2s"]
        env = dict(os.environ, ASAN_OPTIONS="detect_leaks=0")  # it needs ptrace for itself
        done = subprocess.run([*late, VRAMTAP, "triage", "-q", "-o", (out := scratch()), "--children-of", str(proc.pid)], env=env, timeout=60,
                              check=False)
        equal([m["error"] for m in by_pid(load(out)).values()], [None] * 3, "errors")
        equal(done.returncode, COMPLETE, "exit code")


def test_interrupted():
    """What there is is written, and nothing stays stopped."""
    for signo, seconds in ((signal.SIGINT, 0.3), (signal.SIGTERM, 3)):
        with unrest("sleep", 4) as proc:
            pids = children_of(proc.pid)
            with hold(pids[3]):
                vramtap_proc = subprocess.Popen([VRAMTAP, "triage", "-q", "-o", (out := scratch()), "--children-of", str(proc.pid)])
                time.sleep(seconds)
                vramtap_proc.send_signal(signo)
                equal(vramtap_proc.wait(10), 128 + signo, "exit code")
            members = by_pid(load(out))
            equal(len(members), 5, "members")
            check("interrupted" in members[pids[3]]["error"], "the message", members[pids[3]])
            if seconds > 2:
                equal(len([m for m in members.values() if not m["error"]]), 4, "those that were done")
            are_running([proc.pid, *pids])


def test_killed_at_any_time():
    """kill -9: the kernel releases everything, and the workers end."""
    with unrest("threads", 6) as proc:
        pids = [proc.pid, *children_of(proc.pid)]
        for _ in range(15):
            vramtap_proc = subprocess.Popen([VRAMTAP, "triage", "-q", "-o", scratch(), *map(str, pids)])
            time.sleep(random.uniform(0, 0.15))
            workers = children_of(vramtap_proc.pid)
            vramtap_proc.kill()
            vramtap_proc.wait()
            wait_until(lambda workers=workers: not any(os.path.exists(f"/proc/{pid}") for pid in workers), 5, "the workers end")
            are_running(pids)


def test_not_permitted():
    """Another user's processes have rows; one's own have everything."""
    if os.geteuid():
        raise Skip("needs root")
    out = scratch()
    os.chown(out, 65534, 65534)
    nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    program = compile_c(UNREST, "-pthread")
    os.chmod(os.path.dirname(program), 0o755)

    def run(*pids):
        done = subprocess.run([*nobody, VRAMTAP, "triage", "-q", "-o", out, *map(str, pids)], capture_output=True, timeout=60, check=False)
        return done.returncode, done.stderr
    with target([program, "sleep", "1"], ready="ready") as theirs, target([*nobody, program, "sleep", "1"], ready="ready") as own:
        if run(own.pid)[0] != COMPLETE:
            raise Skip("this user may not look at its own processes (Yama?), or not run the program")
        equal(run(theirs.pid)[0], NOT_PERMITTED, "exit code of all unreadable")
        equal(run(theirs.pid, own.pid)[0], PARTIAL, "exit code of some unreadable")
        members = by_pid(load(out))
        equal({pid: bool(m["error"]) for pid, m in members.items()},
              {pid: pid in (theirs.pid, *children_of(theirs.pid)) for pid in members}, "which ones have an error")
        check("not permitted" in members[theirs.pid]["error"], "why", members[theirs.pid])


# ---- what comes of it ----

def test_saved_ones_together():
    with unrest("sleep", 2) as one, unrest("sleep", 3) as two:
        base = scratch()
        for name, proc in (("a", one), ("b", two)):
            vramtap("triage", "-q", "-o", os.path.join(base, name), "--children-of", str(proc.pid), expect=COMPLETE)
        code, text, err = vramtap("triage", "-o", base, "--from", os.path.join(base, "a"), os.path.join(base, "b"))
        equal((code, err), (COMPLETE, ""), "exit code, standard error")
        check(text.strip(), "no summary")
        members = load(base)["members"]
        ours = [m for m in members if m["in_job"]]
        equal(len(ours), 7, "members")
        check(all(os.path.exists(os.path.join(base, m["report"])) for m in ours), "the files' names", [m["report"] for m in ours])
        # Again, and into nowhere; and with one that is not there.
        code, text, err = vramtap("triage", "--json", "-", "--from", base)
        equal((code, len(json.loads(text)["members"])), (COMPLETE, len(members)), "the merged one")
        code, text, err = vramtap("triage", "--from", base, "/nonexistent")
        equal(code, PARTIAL, "exit code with one missing")
        check("/nonexistent" in err and text.strip(), "the message", err)
        equal(vramtap("triage", "--from", "/nonexistent")[0], NOTHING, "exit code with all missing")
        # What may never be written to, and what has no end.
        odd = scratch()
        for make in (os.mkfifo, lambda path: os.symlink("/dev/zero", path), os.mkdir):
            make(os.path.join(odd, "report.json"))
            code, text, err = vramtap("triage", "--from", base, odd, timeout=20)
            equal(code, PARTIAL, "exit code with one that is no file")
            check("report.json is not a regular file" in err and text.strip(), "the message", err)
            with contextlib.suppress(OSError):
                os.unlink(os.path.join(odd, "report.json"))


def test_core_beside_the_living():
    with unrest("sleep", 1) as proc:
        env = dict(os.environ, RANK="5", WORLD_SIZE="8")
        with target([compile_c(UNREST, "-pthread"), "sleep", "1"], ready="ready", env=env) as crashed, gcore(crashed.pid) as path:
            pid = crashed.pid
            _, report, _ = triage(proc.pid, "--with-core", path, expect=(COMPLETE, PARTIAL))
            members = by_pid(report)
            # Where the program is elsewhere.
            away = scratch()
            exe = os.path.join(away, os.path.basename(crashed.args[0]))
            os.rename(crashed.args[0], exe)
            for args in ((), ("--exe", exe), ("--sysroot", away)):
                _, report, _ = triage(proc.pid, "--with-core", path, *args, expect=(COMPLETE, PARTIAL))
                equal("main" in functions_of(report, pid), bool(args), f"whether main is in the stack of the core, with {args}")
        equal((members[pid]["core"], members[pid]["rank"], members[pid]["world_size"]), (path, 5, 8), "the member of the core")
        equal(members[proc.pid]["core"], None, "the living")


def test_directory_of_somebody_else():
    with unrest("sleep", 1) as proc:
        out = scratch()
        with open(os.path.join(out, "notes.txt"), "w", encoding="utf-8") as file:
            file.write("mine")
        code, _, err = vramtap("triage", "-o", out, str(proc.pid))
        equal((code, os.listdir(out)), (NOTHING, ["notes.txt"]), "exit code and files")
        check("notes.txt" in err, "the message", err)
        os.unlink(os.path.join(out, "notes.txt"))
        for pids in ([proc.pid], children_of(proc.pid)):
            vramtap("triage", "-q", "-o", out, *map(str, pids), expect=COMPLETE)
            check_files(out, load(out), "none")


def test_usage():
    out = scratch()
    for args in ([], ["-q", "1"], ["-o", out], ["-o", out, "x"], ["-o", out, "--job", "x"], ["-o", out, "--match", "a("], ["-q", "--all-gpu"],
                 ["--from"], ["--from", out, "--all-gpu"], ["-o", out, "--inject", "--no-stop", "1"],
                 ["-o", out, "--inject", "--read-only", "1"], ["-o", out, "--exe", "x", "1"], ["-o", out, "--sysroot", "x", "1"], ["-o", out, "--timeout", "0", "1"], ["-o", out, "--blocks", "1"]):
        equal(vramtap("triage", *args)[0], USAGE, f"exit code of {args}")
    gone = subprocess.Popen(["true"])
    gone.wait()
    equal(vramtap("triage", "-o", out, str(gone.pid))[0], NOTHING, "exit code for a process that is gone")
    equal(vramtap("triage", "-o", out, "--match", "no such [p]rocess")[0], NOTHING, "exit code for nothing found")


def test_without_directory():
    """The summary alone; nothing is saved, and that is said. With -o the last line is the file to send."""
    with fake_job() as (launcher, _):
        before = set(os.listdir("."))
        code, text, err = vramtap("triage", "--children-of", str(launcher))
        equal(code, COMPLETE, "exit code" + err)
        check("Ranks: main threads" in text and text.splitlines()[-1].startswith("Nothing was saved; -o DIR does that."), "the summary", text[-300:])
        equal(set(os.listdir(".")), before, "files")
        code, text, err = vramtap("triage", "--children-of", str(launcher), "--json", "-")
        report = json.loads(text)
        equal((code, {m["report"] for m in report["members"]}), (COMPLETE, {None}), "JSON")
        out, _, text = triage("--children-of", launcher)
        check(text.splitlines()[-1] == f"To send: {out}/report.json", "what to send", text[-300:])
        code, _, err = vramtap("triage", "--quiet", "--children-of", str(launcher))
        check(code == 64 and "--quiet leaves no result" in err, "quiet, and nowhere to", code, err)


def test_prometheus():
    """For a reader that is another user; in one step; and as the standard output. (All other tests compare the numbers.)"""
    with fake_job("stopped", "--workers", "1") as (launcher, _):
        directory = scratch()
        path = os.path.join(directory, "job.prom")
        before = os.umask(0o022)
        try:
            args = ("triage", "--children-of", str(launcher), "--prometheus")
            vramtap(*args, path, "--quiet", expect=(COMPLETE, PARTIAL))
            equal((os.listdir(directory), os.stat(path).st_mode & 0o777), (["job.prom"], 0o644), "the file")
            inode = os.stat(path).st_ino
            vramtap(*args, path, "--quiet", expect=(COMPLETE, PARTIAL))
            check(os.stat(path).st_ino != inode and os.listdir(directory) == ["job.prom"], "it was written in place")
        finally:
            os.umask(before)
        _, text, _ = vramtap(*args, "-", expect=(COMPLETE, PARTIAL))
        metrics = prometheus_text.parse(text.encode())
        equal(prometheus_text.select(metrics, "vramtap_job_alarm", "job_id", code="loader-worker"), {"torchrun 4711": 1}, "the alarm")
        check(sum(prometheus_text.select(metrics, "vramtap_job_stuck_ranks", "certain").values()) >= 1, "ranks that are stuck", text)
        equal(vramtap(*args, "-", "--json", "-")[0], USAGE, "two things on one output")
        code, _, err = vramtap(*args, "/nowhere/job.prom", "--quiet")
        check(code == NOTHING and "cannot write /nowhere/job.prom" in err, "no such directory", code, err)


def test_nothing_found():
    """By which words, and where; a plain user may not see all."""
    host = os.uname().nodename
    for args, named in ((["--job", "4711"], "--job 4711"), (["--match", "no such\x1bprogram"], "--match no such\\x1bprogram"),
                        (["--cgroup", "/nowhere", "--job", "1"], "--job 1 or --cgroup /nowhere")):
        code, _, err = vramtap("triage", *args)
        equal(code, 2, "exit code" + err)
        check(f"no process on {host} matches {named}" in err, "named", err)
        check("run as root" not in err or os.geteuid(), "root is told to be root", err)
        if os.geteuid() == 0 and shutil.which("setpriv"):
            done = subprocess.run(["setpriv", "--reuid", "65534", "--clear-groups", VRAMTAP, "triage", *args], capture_output=True, check=False)
            check(b"there may be processes of other users that cannot be seen: run as root" in done.stderr, "hidden ones", done.stderr)


if __name__ == "__main__":
    main(globals())
