#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What to do: advice about real PyTorch on a simulated device, and the remedy, which is applied and helps."""
import contextlib
import json
import os
import resource
import signal
import subprocess
import sys

from harness import Job, check, check_schema, equal, main, proc_state, report_json, scratch, simulated_python, vramtap, wait_until
from recorder_oom import MIB, TARGET, Watch, catch
from report_torch import versions


class Torch(Job):
    """torch_oom.py on a simulated device of so many MiB, with settings of PyTorch's allocator."""

    def __init__(self, memory=512, settings=None):
        env = dict(os.environ, SIMCUDA_DEVICES="1", SIMCUDA_MEM_MB=str(memory), SIMCUDA_CTX_MB="16")
        if settings:
            name, value = "PYTORCH_CUDA_ALLOC_CONF", settings
            env[name] = value
        super().__init__([*simulated_python(versions()[0]), TARGET], cwd=scratch(), env=env)

    def answer(self):
        return json.loads(super().answer())


def advice_of(data, rule):
    found = [a for a in data["advice"] if a["rule"] == rule]
    check(found, f"no advice {rule}", data["advice"])
    return found[0]


def fail(commands, request, settings=None):
    """The report of a request that fails after these commands; None: it does not fail."""
    path = scratch("report.json")
    with Torch(settings=settings) as job, Watch(job.pid, path=path) as watch:
        for command in commands:
            job.ask(command)
        if settings:
            return None if job.ask(request)["type"] is None else {}
        _, data = catch(job, watch, request)
        check_schema(data)
        text = watch.end()
        check("What to do" in text and text.index("What to do") > text.index("out of memory"), "the order", text[:3000])
        equal("Next: " in text.splitlines()[-1], len(data["next"]) == 1, f"the end {text[-500:]}")
        return data


def test_expandable_segments():
    """A program that keeps a splinter of each large segment: the report says what helps, and it does."""
    commands = ["splinter 100 12 4"]
    data = fail(commands, "fail 200")
    advice = advice_of(data, "fragmented")
    check(advice["alarm"], "an alarm", advice)
    equal(advice["remedy"]["code"], "expandable-segments", "the remedy")
    evidence = advice["evidence"]
    equal((evidence["needed_bytes"], evidence["holes"], evidence["pinning_blocks"], evidence["pinning_bytes"]),
          (200 * MIB, 4, 4, 48 * MIB), "the evidence")
    equal(evidence["holes_bytes"], data["caught"]["holes"]["bytes"], "the holes")
    check("expandable segments would have satisfied this request" in advice["text"], "the text", advice)
    equal(data["next"][0]["setting"], advice["remedy"]["setting"], "what comes next")
    equal(fail(commands, "fail 200", advice["remedy"]["setting"]), None, "with the setting")


def test_max_split_size():
    """Splinters that leave no whole page: another setting helps."""
    commands = ["splinter 36 4 12"]
    data = fail(commands, "fail 90")
    advice = advice_of(data, "fragmented")
    equal(advice["remedy"]["code"], "max-split-size", f"the remedy of {advice}")
    equal(fail(commands, "fail 90", advice["remedy"]["setting"]), None, "with the setting")


def test_nothing_helps():
    """Pieces that no setting joins: none is suggested, and those that others suggest do not help."""
    commands = ["holes 352 44"]
    data = fail(commands, "fail 100")
    advice = advice_of(data, "fragmented")
    equal((advice["remedy"]["code"], advice["remedy"]["setting"]), ("lifetimes", None), "the remedy")
    check(fail(commands, "fail 100", "max_split_size_mb:64") is not None, "it fails all the same")


def test_limit():
    """The limit's value to within the request, and the fraction that is enough."""
    data = fail(["fill 100 4", "fraction 0.25"], "fail 200")
    advice = advice_of(data, "limited")
    evidence = advice["evidence"]
    limit = 512 * MIB // 4
    if "limit_bytes" in evidence:
        equal(evidence["limit_bytes"], limit, "the limit")
    else:
        check(evidence["reserved_bytes"] <= limit < evidence["limit_below_bytes"], "the limit", evidence)
    value = advice["remedy"]["setting"].split("(")[1].rstrip(")")
    with Torch() as job:
        job.ask("fill 100 4")
        job.ask(f"fraction {float(value) - 0.02}")
        check(job.ask("fail 200")["type"], "less than the advice")
        job.ask(f"fraction {value}")
        equal(job.ask("fail 200")["type"], None, "with the advice")


def test_past_error_and_healthy():
    """A process that is well has no advice; after an error that nobody caught, the next one can be."""
    with Torch() as job:
        job.ask("fill 300 5")
        data = report_json(job.pid)
        equal(data["advice"], [], "advice")
        equal([n["command"] for n in data["next"]], [f"vramtap record {job.pid} on"], "next")
        job.ask("fail 400")
        data = report_json(job.pid)
        advice = advice_of(data, "past-oom")
        equal(advice["evidence"]["errors"], 1, "errors")
        equal(data["next"][0]["command"], f"vramtap watch {job.pid} --on-oom", "next")
        text = vramtap("report", str(job.pid), expect=(0, 1))[1]
        check(f"Next: vramtap watch {job.pid} --on-oom" in text, "the text", text[-1000:])


LAUNCHER = """
import subprocess, sys, time
children = [subprocess.Popen([*sys.argv[2:], sys.argv[1]], stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(2)]
for child in children:
    child.stdout.readline()
print("ready", *(child.pid for child in children), flush=True)
sys.stdin.readline()
"""


def test_launcher():
    """The pid that one finds first is not the one that uses CUDA: the report has those that do."""
    env = dict(os.environ, SIMCUDA_DEVICES="1", SIMCUDA_MEM_MB="512", SIMCUDA_CTX_MB="16")
    with subprocess.Popen([sys.executable, "-c", LAUNCHER, TARGET, *simulated_python(versions()[0])], env=env, stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE) as launcher:
        try:
            pids = [int(pid) for pid in launcher.stdout.readline().split()[1:]]
            data = report_json(launcher.pid, expect=(0, 1, 2))
            check_schema(data)
            advice = advice_of(data, "launcher")
            equal(advice["evidence"], {"children": 2, "pids": ", ".join(map(str, sorted(pids)))}, "the evidence")
            equal(data["process"]["cuda_children"], sorted(pids), "children")
            command = data["next"][0]["command"]
            equal(command, f"vramtap triage --children-of {launcher.pid}", "next")
            vramtap("triage", *command.split()[2:], expect=(0, 1))
            equal(report_json(pids[0])["process"]["parent"], launcher.pid, "the parent")
        finally:
            launcher.communicate(b"\n")
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


def test_stopped():
    """kill -CONT first, --allow-resume then."""
    with Torch() as job:
        os.kill(job.pid, signal.SIGSTOP)
        wait_until(lambda: proc_state(job.pid) == "T", 10, "stopped")
        data = report_json(job.pid, expect=(0, 1))
        advice = advice_of(data, "stopped")
        equal((advice["certainty"], advice["alarm"]), ("certain", True), "how sure")
        equal([n["command"] for n in data["next"]],
              [f"kill -CONT {job.pid}", f"vramtap report --allow-resume {job.pid}"], "next")
        vramtap(*data["next"][1]["command"].split()[1:], expect=(0, 1))
        equal(proc_state(job.pid), "T", "stopped again")
        os.kill(job.pid, signal.SIGCONT)
        equal(report_json(job.pid)["advice"], [], "afterwards")


def test_address_limit():
    """ulimit -v with less than the process needs soon."""
    with Torch() as job:
        with open(f"/proc/{job.pid}/status", encoding="utf-8") as file:
            used = next(int(line.split()[1]) for line in file if line.startswith("VmSize:")) * 1024
        resource.prlimit(job.pid, resource.RLIMIT_AS, (used + used // 20, resource.RLIM_INFINITY))
        data = report_json(job.pid, expect=(0, 1))
        advice = advice_of(data, "address-limit")
        equal(advice["evidence"]["limit_bytes"], used + used // 20, "the limit")
        equal(data["next"][0]["setting"], "ulimit -v unlimited", "next")


if __name__ == "__main__":
    main(globals())
