#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Owners that cannot be read, so that the process is asked (report --ask-pytorch --hide-layout=tensors): against a program that
knows them, and in one that notices what is done to it."""
import json
import os

from harness import COMPLETE, PARTIAL, SOURCE, Job, check, equal, main, report, report_json, schema_errors, scratch, simulated_python
from owners import SMALL, job, lines, read, told
from owners_truth import judge
from report_torch import usual_versions, versions

ASK = ("--ask-pytorch", "--hide-layout=tensors")

# What must be found, by its right name. The others may have no owner, but none may have a wrong one.
FOUND = {"parameter", "buffer", "gradient", "optimizer state", "copy of the weights", "AveragedModel", "deepcopy", "parametrization",
         "module in a list", "module of an object", "variable", "list", "dict", "dict with numbers", "tuple", "nested", "set",
         "frozenset", "OrderedDict", "defaultdict", "namedtuple", "dataclass", "slots and a dict", "UserDict",
         "attribute with odd characters", "variable that is no name", "Parameter outside of modules", "wrapper subclass"}
# Found, but by a shorter name than the whole one.
SHORTER = {"dict key", "deque", "deque of several parts", "queue.Queue", "slots", "slots of a base class", "dataclass with slots",
           "callback of an event loop", "DTensor"}


def notes(data, code="asked-owners"):
    return [d["text"] for d in data["diagnostics"] if d["code"] == code]


def ask(program, *args):
    data = report_json(program.pid, *ASK, *args)
    equal((data["owners"]["state"], data["owners"]["asked"], data["owners"]["whole"]), ("read", True, False), "owners")
    equal(len(notes(data)), 1, "notes that the process was asked")
    check("by code that ran in the process; that held the GIL for" in notes(data)[0], "the note", notes(data))
    check(0 < data["timing"]["gil_held_ms"] < 2000, "time of the GIL", data["timing"])
    return data


def ask_in_time(program):
    """Other processes take the processors: what is told within the time depends on them."""
    for _ in range(6):
        data = ask(program)
        if data["owners"]["bound"] == "asked":
            break
    return data


def is_right(data, truth, label, *but):
    result = judge(data, truth)
    print(f"  {label}: {result}, GIL held for {data['timing']['gil_held_ms']:.0f} ms")
    equal(result.uncertain, result.known, "bytes whose owner is not certain, and all")
    named = [line for line in result.wrong if ": unknown None" not in line]
    lines("other names", named)
    equal([line for line in named if not all(case in SHORTER for case in line.split(": ")[0].split(", "))], [], "wrong names")
    missing = [line for line in result.wrong if any(case in FOUND - set(but) for case in line.split(": ")[0].split(", "))]
    equal(missing, [], "what is missing")
    equal([fact for fact in result.facts if not fact.startswith("tensor subclass: ")], [], "wrong facts")
    total = sum(c["bytes"] for c in data["owners"]["categories"])
    equal(total, sum(a["totals"]["allocated"]["bytes"] for a in data["pytorch"]["allocators"] if a["totals"]), "bytes of all")
    return result


def test_against_the_truth():
    for version in usual_versions():
        for state in ("after_loss", "after_step", "in_forward"):
            with job(version, state) as program:
                is_right(ask_in_time(program), told(program), f"{version} {state}")


def test_gradients_are_not_asked_for_in_a_backward_pass():
    for version in usual_versions():
        with job(version, "in_backward") as program:
            data = ask_in_time(program)
            is_right(data, told(program), f"{version} in_backward", "gradient")
            check("a backward pass may be running" in notes(data, "asked-in-part")[0], "the note", data["diagnostics"])


def test_only_if_asked_for():
    with job(versions()[0], "after_step") as program:
        data = report_json(program.pid, "--hide-layout=tensors")
        equal((data["owners"]["state"], data["timing"]["gil_held_ms"]), ("no-layout", 0), "without --ask-pytorch")
        check("no-layout" in [d["code"] for d in data["diagnostics"]], "why", data["diagnostics"])
        data = report_json(program.pid, "--ask-pytorch")
        equal((data["owners"]["state"], data["owners"]["asked"], notes(data)), ("read", False, []), "with a layout that can be read")


def test_gil_held_for_ever():
    path = scratch("truth")
    with job(versions()[0], "gil_held", path) as program:
        data = report_json(program.pid, *ASK, expect=(COMPLETE, PARTIAL))
        equal(data["owners"]["state"], "no-layout", "owners")
        texts = [d["text"] for d in data["diagnostics"] if d["stage"] == "owners"]
        check(any("the process was not asked what holds its tensors: thread" in text for text in texts), "why", texts)
    check(read(path)["truth"], "the program's own")


def test_text_and_schema():
    with job(versions()[0], "after_step") as program:
        _, text, _ = report(program.pid, "--owners", "--owner", "model.blocks[0].mlp[0].weight", *ASK)
        for words in ("Not all objects were read (", "optimizer.state[model.", "references were not counted", "perhaps others"):
            check(words in text, f"{words!r} is not in the text", text)
        equal(schema_errors(report_json(program.pid, *ASK)), [], "errors of the schema")


MANY = """
import torch

class Object:
    pass

def make(number):
    one = Object()
    one.numbers = [number]
    return one

many = [make(i) for i in range(1500000)]
model = torch.nn.Sequential(*[torch.nn.Linear(16, 16) for _ in range(100)]).to("cuda")
print("ready", flush=True)
input()
"""


def test_the_time_is_bounded():
    """What matters most is told first: the model is, although there are too many objects to look at."""
    with Job(simulated_python(versions()[0]) + ["-c", MANY], ready="ready", env=dict(os.environ, **SMALL)) as program:
        data = ask(program)
        held, bound = data["timing"]["gil_held_ms"], data["owners"]["bound"]
        print(f"  GIL held for {held:.0f} ms, {data['owners']['objects']} objects looked at, bound: {bound}")
        check(held < 400, "the GIL was held for too long", held)
        equal(bound == "time", "the time was over" in notes(data, "asked-in-part")[0], "the note and the bound")
        equal({c["category"]: c["blocks"] for c in data["owners"]["categories"]}.get("parameter"), 200, "parameters")


CHAIN = """
import torch
class Tensor(torch.Tensor):
    pass
model, last = torch.nn.Linear(16, 16).to("cuda"), None
for _ in range(5000):
    new = torch.zeros(1).as_subclass(Tensor)
    new.previous, last = last, new
print("READY", flush=True)
print(input(), flush=True)
"""


def test_a_long_chain_of_tensors():
    """Each holds the next one. The helper's thread has a small stack."""
    with Job([*simulated_python(versions()[0]), "-c", CHAIN], env=dict(os.environ, **SMALL)) as program:
        data = ask(program)
        check(any(name.startswith("model.") for name in names_of(data)), "the model's names", names_of(data))
        equal(program.ask("still there"), "still there", "the answer")


def names_of(data):
    return [b["owner"]["name"] or "" for a in data["pytorch"]["allocators"] for s in a["segments"] for b in s["blocks"] if "owner" in b]


def noticed(program, *actions):
    """What the program noticed while it did, or was done, that."""
    program.do("arm")
    for action in actions:
        action()
    return json.loads(program.ask("tell"))


def test_nothing_of_the_program_runs():
    for version in usual_versions():
        argv = simulated_python(version) + [os.path.join(SOURCE, "tests", "targets", "torch_asked.py")]
        with Job(argv, ready="ready", env=dict(os.environ, **SMALL)) as program:
            for poke in ("repr", "key", "tensor", "dict", "module", "keep", "drop"):
                found = noticed(program, lambda poke=poke: program.do(poke))
                check(found["ran"] or found["references"], f"it does not notice {poke!r}", found)
            idle = noticed(program)
            equal((idle["ran"], idle["references"], idle["objects"]), ([], [], 0), "noticed when nothing is done")
            first = noticed(program, lambda: ask(program))
            more = noticed(program, *[lambda: ask(program)] * 5)
            print(f"  {version}: {first['objects']} objects and {first['blocks'] - idle['blocks']} blocks of memory are new after "
                  f"one question, {more['objects']} and {more['blocks'] - idle['blocks']} after five more")
            for found in (first, more):
                equal(found["ran"], [], "code of the program that ran")
                equal(found["references"], [], "references that were kept or lost")
            check(first["objects"] < 100, "objects that the first question made", first)
            equal(more["objects"], 0, "objects that the next ones made")
            check(abs(more["blocks"] - idle["blocks"]) < 50, "memory that the next ones kept", more, idle)
            names = {b["owner"]["name"]: b["owner"] for a in ask_in_time(program)["pytorch"]["allocators"] for s in a["segments"]
                     for b in s["blocks"] if b["state"] == "allocated"}
            for name, shape in (("plain", "(1008,)"), ("subclassed", None), ("in_object.kept", "(1024,)"), ("in_hidden.kept", "(1032,)"),
                                ("in_dict['key']", "(1040,)"), ("in_list[1]", "(1048,)"), ("in_tuple[1]", "(1056,)"),
                                ("in_set{…}", "(1064,)"), ("model.linear.weight", "(40, 30)"), ("model.scale", "(1000,)"),
                                ("leaf.grad", "(1096,)"), ("model.linear.weight.grad", "(40, 30)"), ("lazy.kept", "(1104,)"),
                                ("optimizer.state[model.linear.bias]['momentum_buffer']", "(40,)")):
                equal(names[name]["shape"] if name in names else "none", shape, f"shape of {name} ({sorted(map(str, names))})")


if __name__ == "__main__":
    main(globals())
