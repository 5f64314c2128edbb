#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The owners that a report names, against a program that knows them: tests/targets/torch_owners.py on the simulated device."""
import ast
import copy
import json
import os
import re
import subprocess
import sys

from harness import (COMPLETE, PARTIAL, QUICK, SOURCE, check, equal, main, proc_state, report, report_json, schema_errors, scratch,
                     wait_until)
from core import gcore, report_core
from nursery import Nursed
from owners_truth import FACTS_NOT_YET, judge
from report_torch import usual_versions, versions

PROGRAM = os.path.join(SOURCE, "tests", "targets", "torch_owners.py")
CATEGORY, NAME = 98, 95  # per cent of the bytes that have to be right


# The simulated device's memory is the process's own, and gdb writes all of it into a core.
SMALL = {"SIMCUDA_DEVICES": "1", "SIMCUDA_CTX_MB": "16", "SIMCUDA_MEM_MB": "512"}


def job(version, state, *args):
    return Nursed(version, [PROGRAM, state, *args], ready="ready", env=dict(os.environ, **SMALL))


def read(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def told(program):
    path = scratch("truth")
    program.do(path)
    return read(path)


def lines(title, all_of_them):
    print(f"    {title}: {len(all_of_them)}")
    for line in sorted(set(all_of_them)):
        print(f"      {line[:300]}")


def is_right(report_, truth, label, everything=True):
    equal(report_["owners"]["state"], "read", "owners")
    result = judge(report_, truth)
    print(f"  {label}: {result}")
    lines("wrong", result.wrong)
    lines("wrong facts that are known", sorted({why for fact, why in FACTS_NOT_YET.items() if any(fact in f for f in result.facts)}))
    lines("skipped", truth["skipped"])
    check(100 * result.category >= CATEGORY * result.known, "too few categories are right", result.wrong)
    check(100 * result.named >= NAME * result.known, "too few names are right", result.wrong)
    if everything:
        check(100 * result.told >= CATEGORY * result.in_use, "too few bytes in use have a category", result.untold)
    equal(result.unforeseen(), [], "what is wrong")
    total = sum(c["bytes"] for c in report_["owners"]["categories"])
    in_use = sum(a["totals"]["allocated"]["bytes"] for a in report_["pytorch"]["allocators"] if a["totals"])
    equal(total, in_use, "bytes of all categories, and bytes in use")
    return result


def state_is_right(state, *args):
    for version in usual_versions():
        with job(version, state) as program:
            data = report_json(program.pid, *args)
            is_right(data, told(program), f"{version} {state} {' '.join(args)}")


def test_in_forward():
    state_is_right("in_forward")


def test_after_the_loss():
    state_is_right("after_loss")


def test_from_outside():
    state_is_right("after_loss", "--read-only")


def test_without_a_stop():
    state_is_right("after_loss", "--no-stop")


def test_in_an_expression():
    state_is_right("in_expression")


def test_inside_backward():
    state_is_right("in_backward")


def test_inside_the_step():
    state_is_right("in_step")


def test_after_the_step():
    state_is_right("after_step")


def test_gil_held_for_ever():
    for version in usual_versions():
        path = scratch("truth")
        with job(version, "gil_held", path) as program:
            data = report_json(program.pid, "--read-only")
        is_right(data, read(path), f"{version} gil_held")


def test_a_thread_that_spins():
    """It has a processor all the time, as in cudaDeviceSynchronize(), and changes nothing."""
    for version in usual_versions():
        path = scratch("truth")
        with job(version, "spinning", path) as program:
            wait_until(lambda: proc_state(program.pid) == "R", 20, "it spins")
            data = report_json(program.pid)
        is_right(data, read(path), f"{version} spinning")


SPINS = """
import hashlib, threading, time, torch
x = [torch.empty(1000, device="cuda") for _ in range(20)]
idle = [threading.Thread(target=time.sleep, args=(100000,), daemon=True) for _ in range(2)]
for thread in idle:
    thread.start()
print("ready", flush=True)
hashlib.pbkdf2_hmac("sha256", b"", b"", 2**31 - 1)
"""


def test_a_thread_that_spins_is_no_change():
    """With and without a helper that stays for the streams."""
    path = scratch("spins.py")
    with open(path, "w", encoding="utf-8") as file:
        file.write(SPINS)
    for version in usual_versions():
        with Nursed(version, [path], ready="ready") as program:
            wait_until(lambda: proc_state(program.pid) == "R", 20, "it spins")
            for args in ((), ("--no-streams",)):
                data = report_json(program.pid, *args)
                check(not data["owners"]["ran"], "nothing that counts has changed", args)
                equal([data["owners"]["tensors"], data["owners"]["whole"]], [20, True], "tensors, and whether all was looked at")


def test_checkpoints():
    """Nothing that a graph saved but what is behind hooks: from these alone it is learnt where nodes have it."""
    path = os.path.join(SOURCE, "tests", "targets", "torch_checkpoint.py")
    for version in usual_versions():
        with Nursed(version, [path], ready="ready", env=dict(os.environ, **SMALL)) as program:
            data = report_json(program.pid)
            is_right(data, told(program), f"{version} checkpoints")


def test_core():
    for version in versions()[:1] if QUICK else versions():  # a core takes a minute to be written
        with job(version, "after_loss") as program:
            with gcore(program.pid) as core:
                data = report_core(core, expect=(COMPLETE, PARTIAL))
            # Memory that no tensor is in (cuBLAS has some) is only looked for in processes.
            is_right(data, told(program), f"{version} core", everything=False)


def test_leaks_are_warned_of():
    """A loop with leaks: its variables are let go of, one after the other: PyTorch has as much less in use as the report said."""
    leaks = os.path.join(SOURCE, "tests", "targets", "torch_leaks.py")
    for version in usual_versions():
        with Nursed(version, [leaks], ready="ready") as program:
            first = report_json(program.pid)
            codes = {h["code"] for h in first["headlines"]}
            check({"held-by-exception", "garbage", "kept-graphs"} <= codes, "headlines", first["headlines"])
            compared = []
            for name in ("outputs", "losses", "optimizer", "shared", "data", "sys.last_value"):
                frees = {f["name"]: f for f in report_json(program.pid)["owners"]["frees"]}
                freed = int(program.ask(name))
                if name in frees:
                    equal(frees[name]["bytes"], freed, f"bytes of {name} ({frees[name]})")
                    compared.append((name, freed))
                else:
                    check(freed < sum(f["bytes"] for f in frees.values()) / 50, f"{name} is missing", freed, frees)
            garbage = [c["bytes"] for c in report_json(program.pid)["owners"]["categories"] if c["category"] == "garbage"]
            equal(garbage, [int(program.ask("gc.collect()"))], "bytes of garbage")
            print(f"  {version}: {compared}, garbage {garbage}")
            check(len(compared) >= 4, "few were compared", compared)


def test_text_and_schema():
    with job(versions()[0], "after_step") as program:
        _, text, _ = report(program.pid, "--owners")
        for words in ("What the blocks in use are", "What would be freed", "Owners of the blocks in use", "optimizer.state[model."):
            check(words in text, f"{words!r} is not in the text", text)
        data = report_json(program.pid)
        equal(schema_errors(data), [], "errors of the schema")
        data = report_json(program.pid, "--no-owners")
        equal(data["owners"], {"state": "off"}, "owners that nobody asked for")
        blocks = [b for a in data["pytorch"]["allocators"] for s in a["segments"] for b in s["blocks"]]
        equal([b for b in blocks if "owner" in b], [], "blocks with an owner that nobody asked for")


def freed_is_right(version):
    """Each variable is deleted, in a child of its own: what the allocator then has less is what the report says."""
    program = os.path.join(SOURCE, "tests", "targets", "torch_freed.py")
    with Nursed(version, [program], ready="ready") as job_:
        data = report_json(job_.pid)
        measured = {name: int(job_.ask(name)) for name in ast.literal_eval(job_.ask("names"))}
        collected = int(job_.ask("collect"))
    told_ = {freed["name"]: freed for freed in data["owners"]["frees"]}
    categories = {c["category"]: c["bytes"] for c in data["owners"]["categories"]}
    equal(categories["garbage"], collected, "garbage, and what a collection frees")
    for name, freed in told_.items():
        if " in " not in name:  # variables of functions cannot be deleted from outside
            equal(freed["bytes"], measured[name], f"bytes that go with {name}")
        check(freed["certain"], f"what goes with {name} is not certain")
    least = sum(categories.values()) // 200 + 1
    equal([name for name, size in measured.items() if size >= least and name.isidentifier() and name not in told_], [],
          "variables that free much, and are not named")
    print(f"  {version}: {len(told_)} are right, {sum(not size for size in measured.values())} that free nothing are not named")


def test_what_would_be_freed():
    for version in usual_versions():
        freed_is_right(version)


def test_the_judge_sees_what_is_wrong():
    """Another name, category, shape or size, and memory that is nobody's, are each found."""
    with job(versions()[0], "after_loss") as program:
        data, truth = report_json(program.pid), told(program)

    def spoil(change):
        spoilt = copy.deepcopy(data)
        block = next(b for a in spoilt["pytorch"]["allocators"] for s in a["segments"] for b in s["blocks"]
                     if b.get("owner", {}).get("name") == "in_list[1]")
        change(block)
        return judge(spoilt, truth)

    def wrong(result):
        return len(result.wrong), len(result.lies), len(result.facts)

    before = spoil(lambda block: None)
    for change, more in ((lambda b: b["owner"].update(name="in_list[2]"), (1, 1, 0)),
                         (lambda b: b["owner"].update(name="in_list[1].grad"), (1, 1, 0)),
                         (lambda b: b["owner"].update(category="parameter"), (1, 1, 0)),
                         (lambda b: b["owner"].update(name="x", certain=False), (1, 0, 0)),
                         (lambda b: b["owner"].update(shape="(7,)"), (0, 0, 1)),
                         (lambda b: b["owner"].update(storage_bytes=8), (0, 0, 1)),
                         (lambda b: b.pop("owner"), (1, 0, 0)),
                         (lambda b: b.update(state="cached"), (2, 0, 0))):
        result = spoil(change)
        equal(tuple(a - b for a, b in zip(wrong(result), wrong(before))), more, "what the judge found")
    paths = scratch("report"), scratch("truth")
    for path, document in zip(paths, (data, truth)):
        with open(path, "w", encoding="utf-8") as file:
            json.dump(document, file)
    script = os.path.join(SOURCE, "tests", "functional", "owners_truth.py")
    done = subprocess.run([sys.executable, "-B", script, *paths], capture_output=True, check=False)
    equal(done.returncode, 1 if before.wrong or before.facts else 0, f"exit code of the judge ({done.stderr.decode()})")
    check(re.search(r"name right \d+\.\d+ %", done.stdout.decode()), "what the judge says", done.stdout)


if __name__ == "__main__":
    sys.exit(main(globals()))
