#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""asyncio's tasks against what asyncio itself says of them, in each installed CPython from 3.11 on."""
import contextlib
import json
import os
import re
import time

from harness import COMPLETE, PARTIAL, SOURCE, Skip, check, diag_codes, equal, main, stacks, stacks_json, target
from python_frames import INTERPRETERS

PROGRAM = os.path.join(SOURCE, "tests", "targets", "pyprog_asyncio.py")
# The program's own functions of each task, from the outside to the inside.
CHAINS = {"worker-1": ["work", "innermost"], "in-group-1": ["work", "innermost"], "consumer": ["consume"], "iterates": ["iterate", "produce"],
          "client": ["Client.request", "innermost"], "grouped": ["grouped"], "gathers": ["gathers"], "waits": ["waits"],
          "shields": ["shields"], "awaits": ["awaits"], "times out": ["times_out"]}
LIBRARY = re.compile(r"/python3[.0-9t]*/asyncio/")


def interpreters():
    """(path, its name for messages), the oldest release first."""
    found = sorted((version, free, path) for path, (version, free) in INTERPRETERS.items() if version >= (3, 11, 0))
    if not found:
        raise Skip("no CPython from 3.11 on")
    return [(path, "CPython %d.%d.%d" % version + "t" * free) for version, free, path in found]


@contextlib.contextmanager
def program(python, *args):
    """The process, and what asyncio said of its tasks."""
    with target([python, PROGRAM, *args], ready="truth ") as proc:
        time.sleep(0.3)  # until the loop waits
        yield proc


def truth_of(proc):
    return json.loads(proc.ready_line.partition("truth ")[2])


def told(pid):
    return stacks_json(pid, expect=(COMPLETE, PARTIAL))["tasks"]


def own(task):
    frames = [f for f in reversed(task["stack"]["frames"]) if not LIBRARY.search(f["file"])]
    return [f["function"] for f in frames]


def compare(tasks, truth, where):
    listed = tasks["tasks"]
    equal(sorted(t["name"] for t in listed if t["name"] != "Task-1"), sorted(t["name"] for t in truth), f"names of tasks, {where}")
    by_name = {t["name"]: t for t in listed}
    for want in truth:
        got = by_name[want["name"]]
        if want["top"]:  # asyncio knows the outermost coroutine of one that is suspended
            equal(got["stack"]["frames"][-1]["function"].rpartition(".")[2], want["top"][0], f"outermost of {want['name']}, {where}")
        equal(sorted(listed[i]["name"] for i in got["waits_for"]), sorted(want["waits"] or OTHERS.get(want["name"], [])),
              f"what {want['name']} waits for, {where}")
        if want["name"] in CHAINS:
            equal(own(got), CHAINS[want["name"]], f"chain of {want['name']}, {where}")


# What the program's own table does not have: wait_for() of a shield.
OTHERS = {"times out": ["worker-2"]}


def test_tasks():
    for python, where in interpreters():
        with program(python, "idle") as proc:
            tasks = told(proc.pid)
            check(tasks["exact"] and not tasks["cut"] and not tasks["why"], f"a loop that waits, {where}", tasks)
            check(all(t["tid"] == proc.pid for t in tasks["tasks"]), "the loop's thread", tasks["tasks"][0])
            check(all(t["state"] == "waiting" for t in tasks["tasks"]), f"states, {where}", {t["name"]: t["state"] for t in tasks["tasks"]})
            compare(tasks, truth_of(proc), where)


def test_blocked_loop():
    """A coroutine that blocks the loop: that task runs, and the thread's stack shows where."""
    for python, where in interpreters():
        with program(python, "blocked") as proc:
            tasks = told(proc.pid)
            check(tasks["exact"], "a loop that is blocked", tasks)
            running = [t["name"] for t in tasks["tasks"] if t["state"] == "running"]
            equal(running, ["Task-1"], f"tasks that run, {where}")
            ready = [t["name"] for t in tasks["tasks"] if t["state"] == "ready"]
            equal(ready, ["has result"], f"tasks that the loop would run, {where}")
            compare(tasks, truth_of(proc), f"blocked, {where}")


def test_loop_in_another_thread():
    python, _ = interpreters()[-1]
    with program(python, "thread") as proc:
        tasks = told(proc.pid)
        tids = {t["tid"] for t in tasks["tasks"]}
        check(len(tids) == 1 and tids != {proc.pid} and tasks["exact"], "the thread of the loop", tids)
        compare(tasks, truth_of(proc), "in a thread")


def test_busy_loop():
    """Tasks of a loop that runs are told, and that they are not of one moment; nothing invents a wait."""
    for python, where in interpreters():
        with program(python, "busy") as proc:
            truth = {t["name"]: t for t in truth_of(proc)}
            exact = 0
            for _ in range(20):
                tasks = told(proc.pid)
                exact += tasks["exact"]
                for task in tasks["tasks"]:
                    check(task["name"] in truth or task["name"] == "Task-1", "a task that nobody made", task["name"])
                    waits = {tasks["tasks"][i]["name"] for i in task["waits_for"]}
                    wanted = set(truth.get(task["name"], {"waits": []})["waits"]) | set(OTHERS.get(task["name"], []))
                    check(waits <= wanted, f"what {task['name']} waits for", waits, wanted)
            # On a busy machine it may wait for a page or a lock of the kernel's all the time that the read takes.
            check(exact <= 5, "a loop that runs all the time was taken for still", exact)
            check(proc.poll() is None, "the program ended")


def out_of_time(pid):
    return diag_codes(stacks_json(pid, expect=(COMPLETE, PARTIAL)))


def test_many_tasks():
    python, _ = interpreters()[0]
    with program(python, "idle", "3000") as proc:
        started = time.monotonic()
        tasks = told(proc.pid)
        took = time.monotonic() - started
        if tasks["cut"] and took > 0.5:  # a busy machine: time ran out, and that is said
            check(len(tasks["tasks"]) < 3018 and "asyncio-cut" in out_of_time(proc.pid), "what is missing is said", len(tasks["tasks"]))
            raise Skip(f"the machine is too busy for 3,018 tasks in 0.5 s (it took {took:.1f} s)")
        equal(len(tasks["tasks"]), 3000 + 18, "tasks")
        check(tasks["exact"], "a loop that waits")
        print(f"3,018 tasks: {took * 1000:.0f} ms with the JSON")
        out = stacks(proc.pid, expect=(COMPLETE, PARTIAL))
        check(re.search(r"3,00\d tasks: (in-group-1|many)", out), "equal ones together", out[-3000:])


def test_text_and_views():
    python, _ = interpreters()[0]
    with program(python, "idle") as proc:
        out = stacks(proc.pid, "--width", "100", expect=(COMPLETE, PARTIAL))
        check(f"Tasks of asyncio   18, event loop in thread {proc.pid}" in out, "the title", out)
        check("gathers · waits for worker-1, worker-2 · awaited by awaits" in out, "who waits for whom", out)
        for option in ("--native", "--threads=main"):
            out = stacks(proc.pid, option, expect=(COMPLETE, PARTIAL))
            check("Tasks of asyncio" not in out, option, out)


def test_no_asyncio():
    with target(["sleep", "60"]) as proc:
        time.sleep(0.1)
        equal(told(proc.pid), None, "a process without asyncio")


if __name__ == "__main__":
    main(globals())
