#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The owners that a report names, against a program that knows them: tests/targets/torch_owners.py on the simulated device."""
import json
import os
import sys

from harness import COMPLETE, PARTIAL, SOURCE, Job, check, equal, main, report, report_json, schema_errors, scratch, simulated_python
from core import gcore, report_core
from owners_truth import judge

PROGRAM = os.path.join(SOURCE, "tests", "targets", "torch_owners.py")
VERSIONS = ("2.11.0", "2.15.0")
CATEGORY, NAME = 98, 95  # per cent of bytes that have to be right


# gdb writes the simulated device's memory, too
SMALL = {"SIMCUDA_DEVICES": "1", "SIMCUDA_CTX_MB": "16", "SIMCUDA_MEM_MB": "256"}


def job(version, state, **env):
    return Job(simulated_python(version) + [PROGRAM, state], ready="ready", env=dict(os.environ, **env))


def told(program):
    path = scratch("truth")
    program.do(path)
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def is_right(report_, truth, label):
    equal(report_["owners"]["state"], "read", "owners")
    result = judge(report_, truth["truth"])
    print(f"  {label}: {result}; skipped {truth['skipped']}")
    for line in result.wrong:
        print(f"    {line}")
    check(100 * result.category >= CATEGORY * result.bytes, "too few categories are right", result.wrong)
    check(100 * result.named >= NAME * result.bytes, "too few names are right", result.wrong)
    total = sum(c["bytes"] for c in report_["owners"]["categories"])
    in_use = sum(a["totals"]["allocated"]["bytes"] for a in report_["pytorch"]["allocators"] if a["totals"])
    equal(total, in_use, "bytes of all categories, and bytes in use")
    return result


def state_is_right(state, *args):
    for version in VERSIONS:
        with job(version, state) as program:
            data = report_json(program.pid, *args)
            is_right(data, told(program), f"{version} {state} {' '.join(args)}")


def test_after_the_loss():
    state_is_right("after_loss")


def test_from_outside():
    state_is_right("after_loss", "--read-only")


def test_without_a_stop():
    state_is_right("after_loss", "--no-stop")


def test_inside_backward():
    state_is_right("in_backward")


def test_after_the_step():
    state_is_right("after_step")


def test_gil_held_for_ever():
    for version in VERSIONS:
        path = scratch("truth")
        with Job(simulated_python(version) + [PROGRAM, "gil_held", path], ready="ready") as program:
            data = report_json(program.pid, "--read-only")
        with open(path, encoding="utf-8") as file:
            is_right(data, json.load(file), f"{version} gil_held")


def test_core():
    for version in VERSIONS:
        with job(version, "after_loss", **SMALL) as program:
            with gcore(program.pid) as core:
                data = report_core(core, expect=(COMPLETE, PARTIAL))
            is_right(data, told(program), f"{version} core")


def test_what_would_be_freed():
    """Variables are let go of, one after the other: PyTorch has as much less in use as the report said."""
    leaks = os.path.join(SOURCE, "tests", "targets", "torch_leaks.py")
    for version in VERSIONS:
        with Job(simulated_python(version) + [leaks], ready="ready") as program:
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
    with job(VERSIONS[0], "after_step") as program:
        _, text, _ = report(program.pid, "--owners")
        for words in ("What the blocks in use are", "What would be freed", "Owners of the blocks in use", "optimizer.state[model."):
            check(words in text, f"{words!r} is not in the text", text)
        data = report_json(program.pid)
        equal(schema_errors(data), [], "errors of the schema")
        data = report_json(program.pid, "--no-owners")
        equal(data["owners"], {"state": "off"}, "owners that nobody asked for")


if __name__ == "__main__":
    sys.exit(main(globals()))
