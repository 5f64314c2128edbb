#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""triage --kernels with stand-ins for cuda-gdb (those of kernels.py). The real one: tests/gpu/kernels.py and tests/gpu/triage_hangs.py."""
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time

from harness import COMPLETE, PARTIAL, USAGE, Skip, check, compile_c, equal, main, proc_state, schema_errors, scratch, target, vramtap, wait_until
from kernels import SAMPLES, STEPS, TRACER, debugger, left_alone, runs_on, sample, stand_in_driver
from triage import by_pid, load, triage
from triage_collectives import job, outliers, verdicts

COLLECTIVE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"
# Its main thread sleeps on, as that of a rank that hangs.
PROGRAM = """
#include <stdio.h>
#include <unistd.h>
int main(void)
{
	printf("READY\\n");
	fflush(stdout);
	for (;;)
		pause();
}
"""


@contextlib.contextmanager
def ranks(n, world=None):
    """Processes that are ranks of one job, with a library called libcuda.so.1."""
    program, driver = compile_c(PROGRAM), stand_in_driver()
    with contextlib.ExitStack() as all_of_them:
        yield [all_of_them.enter_context(target([program], ready="READY", env=dict(os.environ, LD_PRELOAD=driver, RANK=str(i), LOCAL_RANK=str(i),
                                                                                   WORLD_SIZE=str(world or n)))) for i in range(n)]


def in_a_collective():
    return f"sed 's/spin_until/{COLLECTIVE}/' {os.path.join(SAMPLES, 'lines.txt')}"


def one_differs(processes, what, others=None):
    """A stand-in that tells this of the last of them, and a collective of all others."""
    return debugger(f"if [ $pid = {processes[-1].pid} ]; then {what}; else {others or in_a_collective()}; fi")


def ask(processes, stand_in, *args, expect=COMPLETE, env=None, kernels="--kernels"):
    environ = dict(os.environ, VRAMTAP_CUDA_GDB=stand_in) | (env or {})
    out, report, text = triage(kernels, "--width", "120", *args, *(p.pid for p in processes), expect=expect, env=environ)
    with contextlib.suppress(Skip):
        equal(schema_errors(report, schema_file="triage.schema.json"), [], "what the schema does not allow")
    return out, report, text


def kernels_of(report, processes):
    return [by_pid(report)[p.pid].get("kernels") for p in processes]


def section(text):
    """The lines of the section, without its title."""
    lines = text.split("\n")
    begin = next(i for i, line in enumerate(lines) if line.startswith("What the GPUs run"))
    end = next(i for i in range(begin + 1, len(lines)) if not lines[i].startswith(" "))
    return lines[begin], lines[begin + 1:end]


def test_which_gpu_does_not():
    with ranks(4) as all_of_them:
        begun = scratch("begun")
        stand_in = one_differs(all_of_them, sample("idle.txt"), f"date +%s.%N >>{begun}; sleep 1; {in_a_collective()}")
        out, report, text = ask(all_of_them, stand_in)
        told = kernels_of(report, all_of_them)
        equal([(k["state"], [one["name"] for one in k["kernels"]], k["more"]) for k in told],
              [("told", [COLLECTIVE], 0)] * 3 + [("none", [], 0)], "what runs")
        equal(told[0]["kernels"][0] | {"line": 0}, {"name": COLLECTIVE, "device": 0, "sms": 40, "grid_dim": [40, 1, 1], "block_dim": [128, 1, 1],
                                                   "file": "/tmp/spin_src.cu", "line": 0}, "the kernel")
        check(1000 < told[0]["took_ms"] < 15000, "time", told[0])
        title, rows = section(text)
        check("cuda-gdb held each process for" in title, "title", title)
        equal(len(rows), 2, "rows")
        check(re.fullmatch(rf"  0-2 \[3\]  {COLLECTIVE}<<<40, 128>>> on 40 SMs at spin_src.cu:[58]", rows[0]), "those that do", rows)
        equal(rows[1].split(), ["3", "[1]", "nothing"], "the one that does not")
        # No stack says that rank 3 is missing: nobody is accused.
        equal([(v["text"], v["alarm"]) for v in verdicts(report, "gpus-differ")],
              [(f"the GPUs of ranks 0-2 run {COLLECTIVE}, that of rank 3 runs nothing", False)], "said")
        equal([m["rank"] for m in report["members"] if m["outlier"]], [], "outliers")
        # All at the same time, as the process of each is held.
        with open(begun, encoding="ascii") as file:
            times = sorted(float(line) for line in file)
        check(len(times) == 3 and times[-1] - times[0] < 0.9, "together", times)
        # They were seen asleep before the debugger came.
        equal([by_pid(report)[p.pid].get("moved") for p in all_of_them], [False] * 4, "moved")
        # In the report of each, and where results are put together.
        with open(os.path.join(out, by_pid(report)[all_of_them[0].pid]["report"]), encoding="utf-8") as file:
            equal(json.load(file)["kernels"]["kernels"][0]["name"], COLLECTIVE, "its own report")
        _, again, text_again = triage("--from", out, "--width", "120")
        equal(kernels_of(again, all_of_them), told, "read again")
        equal(section(text_again), section(text), "the same text")
        for process in all_of_them:
            runs_on(process)


def test_debugger_disturbs_nothing_that_is_said():
    """It wakes the threads; that ranks sleep on is seen before."""
    with ranks(2) as both:
        _, report, _ = ask(both, debugger(f"kill -STOP $pid; sleep 0.1; kill -CONT $pid; {in_a_collective()}"))
        equal([by_pid(report)[p.pid].get("moved") for p in both], [False] * 2, "moved")


def test_what_goes_on_has_moved():
    """A main thread that polls for the GPU runs, whether it hangs or not; the looks before the debugger tell."""
    driver = stand_in_driver()
    program = compile_c(STEPS, driver, "-DTURNS=1000000")
    with contextlib.ExitStack() as both:
        processes = [both.enter_context(target([program], ready="READY", env=dict(os.environ, LD_PRELOAD=driver, RANK=str(i), LOCAL_RANK=str(i), WORLD_SIZE="2")))
                     for i in range(2)]
        _, report, _ = ask(processes, debugger(in_a_collective()), expect=PARTIAL)
        equal([k["state"] for k in kernels_of(report, processes)], ["refused"] * 2, "states")
        equal([by_pid(report)[p.pid].get("moved") for p in processes], [True] * 2, "moved")


def test_exception():
    with ranks(3) as all_of_them:
        _, report, text = ask(all_of_them, one_differs(all_of_them, 'echo "CUDA Exception: Warp Illegal Address"; ' + sample("lines.txt")))
        told = verdicts(report, "gpu-exception")
        equal([(v["text"], v["alarm"]) for v in told], [("the GPU of rank 2 has an exception: Warp Illegal Address", True)], "said")
        equal([m["rank"] for m in report["members"] if m["outlier"]], [2], "outliers")
        check(any("spin_until" in row for row in section(text)[1]) and "exception: Warp Illegal Address" in " ".join(section(text)[1]), "row", text)


def test_some_cannot_be_asked():
    with ranks(3) as all_of_them:
        with target([sys.executable, "-c", TRACER, str(all_of_them[1].pid)], ready="READY"):
            _, report, text = ask(all_of_them, debugger(in_a_collective()), expect=PARTIAL)
        told = kernels_of(report, all_of_them)
        equal([k["state"] for k in told], ["told", "refused", "told"], "states")
        check("already traces the process" in told[1]["why"], "why", told[1])
        check(any("not known: " in row for row in section(text)[1]), "row", text)
        equal(verdicts(report, "gpus-differ"), [], "nothing is concluded")
        _, report, text = ask(all_of_them, "/nonexistent/cuda-gdb", expect=PARTIAL)
        equal([k["state"] for k in kernels_of(report, all_of_them)], ["no-debugger"] * 3, "without one")
        check("0-2 [3]" in section(text)[1][0] and "cannot find" in " ".join(section(text)[1]), "one row", text)


def test_who_is_not_asked():
    """Processes without CUDA, and all where it was not asked for."""
    with ranks(2) as both, target([compile_c(PROGRAM)], ready="READY", env=dict(os.environ, RANK="2", WORLD_SIZE="3")) as plain:
        _, report, _ = ask([*both, plain], debugger(in_a_collective()))
        equal([bool(k) for k in kernels_of(report, [*both, plain])], [True, True, False], "without the driver")
        ran = scratch("ran")
        _, report, text = triage(*(p.pid for p in both), env=dict(os.environ, VRAMTAP_CUDA_GDB=debugger(f">{ran}")))
        check(not os.path.exists(ran) and kernels_of(report, both) == [None, None] and "What the GPUs run" not in text, "not asked", report, text)


LEAVES = """
#include <stdio.h>
#include <sys/prctl.h>
#include <unistd.h>
int main(void)
{
	if (fork() == 0) {
		prctl(PR_SET_NAME, "NvDebugAgent");
		_exit(0);
	}
	usleep(100000);
	printf("READY\\n");
	fflush(stdout);
	for (;;)
		pause();
}
"""


def test_what_a_debugger_left():
    """One zombie for each look: none is a process of the job that could not be read."""
    with target([compile_c(LEAVES)], ready="READY", env=dict(os.environ, LD_PRELOAD=stand_in_driver(), RANK="0", WORLD_SIZE="1")) as proc:
        wait_until(lambda: any("NvDebugAgent" in line and " Z " in line for line in children(proc.pid)), 5, "its child has ended")
        _, report, _ = ask([proc], debugger(sample("idle.txt")))
        equal([m["pid"] for m in report["members"]], [proc.pid], "members")


def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
        for child in file.read().split():
            with open(f"/proc/{child}/stat", encoding="ascii") as stat:
                yield stat.read()


def test_no_answer_in_time():
    with ranks(2) as both, left_alone() as (note, _):
        begin = time.monotonic()
        _, report, text = ask(both, one_differs(both, f"{note}; exec sleep 1000"), expect=PARTIAL, kernels="--kernels=1")
        equal([k["state"] for k in kernels_of(report, both)], ["told", "late"], "states")
        check(time.monotonic() - begin < 20, "time", time.monotonic() - begin)
        # The time for all is what there is.
        _, report, _ = ask(both, debugger(f"{note}; exec sleep 1000"), "--timeout", "5", expect=PARTIAL)
        equal([k["state"] for k in kernels_of(report, both)], ["late", "late"], "the rest of --timeout")
        for process in both:
            runs_on(process)


def test_debugger_is_no_worker():
    """A worker may be killed at any moment, and is the first when memory runs out. The debugger is not."""
    with ranks(1) as all_of_them:
        said = scratch("said")
        ask(all_of_them, debugger(f"cat /proc/$$/oom_score_adj /proc/$$/limits >{said}; " + in_a_collective()))
        with open("/proc/self/oom_score_adj", encoding="ascii") as score, open("/proc/self/limits", encoding="ascii") as limits:
            own_score, own = score.read(), limits.read().split("\n")
        with open(said, encoding="ascii") as file:
            text = file.read()
        check(text.startswith(own_score), "whom the kernel kills first", own_score, text)
        for name in ("Max cpu time", "Max data size", "Max file size"):
            want = next(line for line in own if line.startswith(name)).split()[-2]
            got = next(line for line in text.split("\n") if line.startswith(name)).split()
            check(got[-2] == got[-3] or want in got, f"{name}: no limit of ours", got, want)


def test_interrupted():
    """The debugger goes on, as vramtap does not end it."""
    with ranks(2) as both:
        done = scratch("done")
        begun = scratch("begun")
        env = dict(os.environ, VRAMTAP_CUDA_GDB=debugger(f"echo x >>{begun}; sleep 1; {in_a_collective()} && echo x >>{done}"))
        with subprocess.Popen([os.environ["VRAMTAP_BUILD_DIR"] + "/vramtap", "triage", "--kernels", *(str(p.pid) for p in both)], stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL, env=env) as tool:
            wait_until(lambda: os.path.exists(begun) and os.path.getsize(begun) == 4, 20, "both debuggers run")
            tool.send_signal(signal.SIGTERM)
            tool.wait(10)
        wait_until(lambda: os.path.exists(done) and os.path.getsize(done) == 4, 10, "both come to their ends")
        for process in both:
            runs_on(process)


def test_evidence_beside_the_recorders():
    """The rank that the flight recorders name: the finding says what the GPUs run, and accuses nobody else."""
    with job("missing") as running:
        running.wait()
        rest = in_a_collective()
        stand_in = debugger(f"if [ $pid = {running.ranks[2]} ]; then {sample('idle.txt')}; else {rest}; fi")
        _, report, text = triage("--inject", "--kernels", "--children-of", running.proc.pid, "--width", "160",
                                 env=dict(os.environ, VRAMTAP_CUDA_GDB=stand_in))
        told = verdicts(report, "behind")
        equal(len(told), 1, "the ranks that are behind")
        check(told[0]["alarm"] and told[0]["text"].startswith("rank 2 has not begun all_reduce number 4") and told[0]["text"].endswith(
            f"; cuda-gdb sees nothing run on the GPU of rank 2, and {COLLECTIVE} on those of ranks 0-1,3"), "what it rests on", told)
        equal(outliers(report), [2], "the ranks that differ")
        equal(verdicts(report, "gpus-differ"), [], "said once")
        # It does not accuse where the recorders do: the GPU of another rank runs nothing, and that alone says nothing.
        stand_in = debugger(f"if [ $pid = {running.ranks[1]} ]; then {sample('idle.txt')}; else {sample('lines.txt')}; fi")
        _, report, _ = triage("--inject", "--kernels", "--children-of", running.proc.pid, env=dict(os.environ, VRAMTAP_CUDA_GDB=stand_in))
        told = verdicts(report, "behind")
        check(told[0]["text"].endswith("; cuda-gdb sees spin_until run on the GPU of rank 2"), "only what is so", told)
        equal(outliers(report), [2], "the ranks that differ")
        for pid in running.ranks:
            check(proc_state(pid) in "RS", "state", pid)


def test_handed_on():
    """To the nodes, as any option about how the processes are treated."""
    log, engine = scratch("log"), scratch("mpirun")
    with open(engine, "w", encoding="ascii") as file:
        file.write(f'#!/bin/sh\necho "$*" >>{log}\nexit 1\n')
    os.chmod(engine, 0o755)
    for given, wanted in (("--kernels", "--kernels=30"), ("--kernels=2m", "--kernels=120")):
        vramtap("triage", "--mpirun", "localhost", "-o", scratch(), "--timeout", "5", given, env=dict(os.environ, MPIRUN=engine))
        with open(log, encoding="utf-8") as file:
            check(wanted in file.read().split(), "what the node is told", given)


def test_usage():
    code, _, err = vramtap("triage", "--kernels", "--no-stop", "--all-gpu")
    equal(code, USAGE, err)
    check("exclude each other" in err, "message", err)
    equal(vramtap("triage", "--kernels=0", "--all-gpu")[0], USAGE, "no time")
    code, _, err = vramtap("triage", "--kernels", "--prometheus", scratch("metrics"), "--all-gpu")
    equal(code, USAGE, err)
    check("--kernels and --prometheus exclude each other" in err and "metrics have no kernels" in err, "message", err)


if __name__ == "__main__":
    main(globals())
