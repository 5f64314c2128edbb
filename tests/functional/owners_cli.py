#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What is shown of owners: report --owner and --by, why a block has none, what else holds it; against programs that know."""
import json
import os
import re
import sys

from harness import COMPLETE, PARTIAL, QUICK, SOURCE, USAGE, Job, check, equal, main, report, report_json, schema_errors, simulated_python, vramtap
from core import gcore, report_core
from nursery import Nursed
from owners import SMALL, told
from report_torch import versions

KINDS = ("category", "module", "variable", "type")

VERSIONS = versions()[-1:] if QUICK else versions()  # the kinds of objects are tested with each release elsewhere


def job(name, version=None):
    program = os.path.join(SOURCE, "tests", "targets", name)
    return Nursed(version or versions()[0], [program], ready="ready", env=dict(os.environ, **SMALL))


def blocks_of(data):
    return [b for a in data["pytorch"]["allocators"] for s in a["segments"] for b in s["blocks"] if b["state"] == "allocated"]


def by_name(data, name):
    found = [b for b in blocks_of(data) if b["owner"]["name"] == name]
    equal(len(found), 1, f"blocks of {name}")
    return found[0]["owner"]


def section(text, title):
    """The lines of a part of the report, without its title."""
    part = re.search(rf"^{title}.*\n((?:.+\n|\n  )*)", text, re.M)
    check(part, f"{title!r} is not in the text", text)
    return part.group(1)


def group_of(block, kind):
    """What the block should be counted with: worked out here once more, from the block's own owner."""
    name = block["owner"].get(kind)
    return re.sub(r"\[\d+\]", "[*]", name) if name and kind == "module" else name


def sums_are_right(data, kind):
    groups = data["owners"]["by"]["groups"]
    equal(data["owners"]["by"]["kind"], kind, "kind")
    want = {}
    for block in blocks_of(data):
        one = want.setdefault(group_of(block, kind), [0, 0, 0, set()])
        one[0] += block["bytes"]
        one[1] += 1
        one[2] += block["bytes"] * block["owner"]["certain"]
        one[3].add(block["owner"].get(kind))
    equal({g["name"]: (g["bytes"], g["blocks"], g["certain_bytes"], g["members"]) for g in groups},
          {name: (*one[:3], len(one[3])) for name, one in want.items()}, f"sums by {kind}")
    equal([g["bytes"] for g in groups], sorted((g["bytes"] for g in groups), reverse=True), "the largest first")
    in_use = sum(a["totals"]["allocated"]["bytes"] for a in data["pytorch"]["allocators"] if a["totals"])
    equal(sum(g["bytes"] for g in groups), in_use, f"bytes by {kind}, and bytes in use")
    return groups


def test_sums_by_kind():
    for version in VERSIONS:
        with job("torch_unowned.py", version) as program:
            ways = ((), ("--no-stop",), ("--read-only",))
            for i, kind in enumerate(KINDS):
                for how in ways if i == 0 or not QUICK else (ways[i % 3],):  # the sums are made of blocks, by whatever way these were read
                    data = report_json(program.pid, f"--by={kind}", *how)
                    groups = sums_are_right(data, kind)
                equal(schema_errors(data), [], "what the schema does not allow")
                print(f"  {version} {kind}: {[g['name'] for g in groups]}")
            check("by" not in report_json(program.pid)["owners"], "sums that nobody asked for")


def test_sums_of_modules_are_told():
    """Gradients and the state of an optimizer are of the parameter's module; the layers are one line, and all lines are all blocks."""
    with job("torch_unowned.py") as program:
        data = report_json(program.pid, "--by=module")
        groups = {g["name"]: g for g in data["owners"]["by"]["groups"]}
        equal((groups["model[*][*]"]["blocks"], groups["model[*][*]"]["members"]), (12 * 2 * 2 * 4, 24), "blocks and modules of layers")
        equal(groups["model.head"]["blocks"], 2 * 4, "blocks of the head")
        for columns in (80, 160):
            lines = section(report(program.pid, "--by=module", f"--width={columns}")[1], "What the blocks in use are, by module").splitlines()
            # A line of the sentence below, on why blocks have no owner, may begin with a size, too.
            rows = [line.split() for line in lines if re.match(r" +[\d.]+ [KMG]?i?B +<?\d+ %", line)]
            equal(sum(int(row[3 + (row[2] == "<1")]) if row[3] != "%" else int(row[4]) for row in rows[:-1]),
                  len(blocks_of(data)), "blocks of all lines")
            check(rows[-1][-2:] == ["in", "use"], "the last line", lines)
            check(max(map(len, lines)) <= columns, "a line is too long", lines)


def test_small_modules_are_joined():
    """60 names of modules with nothing in common but their beginnings: 24 lines at most, and the sums stay."""
    code = """
import torch, sys
from torch import nn
root = nn.Module()
for i in range(10):
    part = nn.Module()
    setattr(root, "part%s" % "abcdefghij"[i], part)
    for k in range(6):
        setattr(part, "leaf%s" % "abcdef"[k], nn.Linear(10 + i * i, 20 + k))
del part
root.cuda()
print("ready", flush=True)
sys.stdin.readline()
"""
    with Job(simulated_python(versions()[0]) + ["-c", code], ready="ready", env=dict(os.environ, **SMALL)) as program:
        equal(len(sums_are_right(report_json(program.pid, "--by=module"), "module")), 60, "groups in JSON")
        rows = section(report(program.pid, "--by=module")[1], "What the blocks in use are, by module").splitlines()
        rows = [line for line in rows if " modules" in line or "root" in line]
        print("\n".join(rows))
        check(10 <= len(rows) <= 24, "how many lines", rows)
        check(any("root.partj.leaf" in row for row in rows), "the largest are not joined", rows)
        check(any(re.search(r"root\.parta   6 modules", row) for row in rows), "the smallest are", rows)


def test_frees():
    """What is said to go with a reference is deleted, in a child of its own: the allocator has as much less."""
    for version in VERSIONS:
        with job("torch_freed.py", version) as program:
            data = report_json(program.pid)
            claims = {}
            for block in blocks_of(data):
                frees = block["owner"].get("frees")
                if not frees or not frees["name"] or re.search(r"←| in | of a closure|, kept by|garbage|\(a key\)|{…}|→", frees["name"]):
                    continue
                claims.setdefault(frees["name"], set()).add(frees["bytes"])
            for name, sizes in claims.items():
                # Of a reference that frees something, there can be blocks that others hold, too.
                check(len(sizes - {0}) <= 1, f"two answers for {name}", sizes)
                equal(int(program.ask(name)), max(sizes), f"bytes that go with {name}")
            freed = sum(sizes != {0} for sizes in claims.values())
            print(f"  {version}: {len(claims)} references, {freed} of them free something; nothing: {[n for n in claims if claims[n] == {0}]}")
            check(freed >= 30 and len(claims) - freed >= 4, "few were tried", claims)
            garbage = [b["owner"] for b in blocks_of(data) if b["owner"]["category"] == "garbage"]
            check(garbage and not any(o["frees"]["name"] for o in garbage), "garbage that can be deleted", garbage)
            equal(claims.get("sys.last_value"), {6 << 20}, "what goes with sys.last_value")


def test_other_holders():
    with job("torch_unowned.py") as program:
        data = report_json(program.pid)
        tied = by_name(data, "tied")
        equal((tied["other_holders"], sorted(tied["holders"])), (3, ["box['a']", "box['b'][0]", "box['b'][1]"]), "holders of tied")
        equal(tied["frees"], {"name": "tied", "bytes": 0, "blocks": 0}, "what goes with tied")
        weight = by_name(data, "model.head.weight")
        equal(sorted(weight["holders"]), ["optimizer.param_groups[0]['params'][48]", "optimizer.state (a key)"], "holders of a weight")
        one = by_name(data, "losses[1]")
        check("holders" not in one, "holders of losses[1]", one)
        equal(one["frees"], {"name": "losses[1]", "bytes": 204288, "blocks": 1}, "what goes with losses[1]")
        state = by_name(data, "optimizer.state[model.head.weight]['exp_avg']")
        equal(state["module"], "model.head", "module of an optimizer's state")


def why_is_right(data, truth, raw="no-tensor"):
    blocks = {int(b["address"], 16): b for b in blocks_of(data)}
    equal(blocks[truth["leaked"][0]]["owner"].get("unowned"), "unexplained", "what only a forgotten reference holds")
    check(not blocks[truth["leaked"][0]]["owner"]["certain"], "that is certain")
    equal(blocks[truth["leaked"][0]]["owner"]["unexplained_references"], 1, "unexplained references")
    equal(blocks[truth["raw"][0]]["owner"].get("unowned"), raw, "what no tensor knows")
    equal(blocks[truth["raw"][0]]["owner"]["category"], "unknown", "its category")
    for name in ("losses[0]", "tied", "inside"):
        check("unowned" not in blocks[truth[name][0]]["owner"], f"{name} has no owner", blocks[truth[name][0]])
    for block in blocks.values():
        check(block["owner"]["name"] or block["owner"].get("unowned"), "neither an owner nor a reason", block)
    sums = {}
    for block in blocks.values():
        if "unowned" in block["owner"]:
            one = sums.setdefault(block["owner"]["unowned"], {"why": block["owner"]["unowned"], "bytes": 0, "blocks": 0})
            one["bytes"] += block["bytes"]
            one["blocks"] += 1
    equal({one["why"]: one for one in data["owners"]["unowned"]}, sums, "sums by reason")
    equal(data["owners"]["bound"], None, "bound")


def still_report(pid, *how):
    """Of a process that waits for a line: on a busy machine it may still be on its way there, and the report says that it ran."""
    for _ in range(10):
        data = report_json(pid, *how)
        if not data["owners"]["ran"]:
            break
    return data


def test_why_there_is_no_owner():
    for version in VERSIONS:
        with job("torch_unowned.py", version) as program:
            truth = told(program)
            for how in ((), ("--no-stop",), ("--read-only",)):
                why_is_right(still_report(program.pid, *how), truth)
            text = report(program.pid)[1]
            words = " ".join(section(text, "What the blocks in use are").split())
            check(re.search(r"Without an owner: .*1\.00 MiB \(1 block\): no tensor in it; .*\(1 block\): what holds its tensor was not seen\.",
                            words), "the text", words)


def test_core():
    with job("torch_unowned.py") as program:
        truth = told(program)
        with gcore(program.pid) as core:
            data = report_core(core, "--by=variable", expect=(COMPLETE, PARTIAL))
            sums_are_right(data, "variable")
            why_is_right(data, truth)
            equal(by_name(data, "tied")["other_holders"], 3, "holders in a core")
            code, text, _ = vramtap("report", "--owner", "tied", "--core", core)
            check(code in (COMPLETE, PARTIAL) and "also by     box['a']" in text, "text of a core", text)


def matches(pid, pattern, *args):
    """Names that a pattern shows, and the text below them."""
    code, text, err = report(pid, f"--owner={pattern}", *args)
    equal((code, err), (COMPLETE, ""), f"--owner={pattern}")
    if "No owner matches" in text:
        return [], section(text, "No owner matches")
    # Blocks are apart by an empty line.
    part = text[text.index("Owners that match: "):]
    return re.findall(r"^  [\d.]+ [KMG]?i?B  (.+)$", part[:re.search(r"\n\n\S", part + "\n\nx").start()], re.M), part


def test_owner_patterns():
    with job("torch_unowned.py") as program:
        everything = [b["owner"] for b in blocks_of(report_json(program.pid))]
        for pattern, want in (("losses", ["losses[0]", "losses[1]", "losses[2]"]), ("losses[1]", ["losses[1]"]), ("losses[*]", 3),
                              ("Losses", 0), ("loss", 3), ("loss*", 3), ("oss*", 0), ("*oss*", 3), ("losses[?]", 3), ("l*1]", 1),
                              ("model.head", 8), ("model.head*", 8), ("model.hea", 8), ("model.head.weight", 4), ("tied", 1),
                              ("gradient", sum(o["category"] == "gradient" for o in everything)),
                              ("model[*][0].weight", 12 * 4), ("model[*].weight", 24 * 4), ("model[3]", 16),
                              ("AdamW", 48 + 2 + 48 + 2), ("inside in serve", 1), ("x" * 5000, 0)):
            names, _ = matches(program.pid, pattern)
            if isinstance(want, int):
                equal(len(names), want, f"blocks that match {pattern[:50]} ({names[:10]})")
            else:
                equal(sorted(names), want, f"blocks that match {pattern}")


def test_owner_text():
    with job("torch_unowned.py") as program:
        data = report_json(program.pid)
        _, text = matches(program.pid, "losses[1]")
        block = [b for b in blocks_of(data) if b["owner"]["name"] == "losses[1]"][0]
        for line in ("category    other Python variables, certain", "tensor      float32 (51000,)", "storage     204,000 bytes, all used, by 1 tensor",
                     "type        list", "freed       with losses[1]: 200 KiB in 1 block",
                     f"block       {block['address']}, 204,288 bytes, GPU 0, stream default, pool small"):
            check(line in text, f"{line!r} is not in the text", text)
        _, text = matches(program.pid, "tied")
        for line in ("also by     box['a']", "freed       not with tied alone: there is also box['a']"):
            check(line in text, f"{line!r} is not in the text", text)
        _, text = matches(program.pid, "native code")
        check("unexplained 1 reference to it: something that was not seen holds it" in text, "what is unexplained", text)
        names, text = matches(program.pid, "lozzes")
        equal((names, re.findall(r"\S+", text)[:3]), ([], ["there", "is", "losses"]), "what is near")
        check(len(text.splitlines()) <= 5, "more than five are near", text)
        _, text = matches(program.pid, "%%%%%%%%")
        check("no name is like it" in text, "what is near nothing", text)
        for columns in (60, 80, 160):
            lines = report(program.pid, "--owner=model", f"--width={columns}")[1].splitlines()
            check(max(map(len, lines)) <= columns, "a line is too long", max(lines, key=len))
        _, coloured, _ = report(program.pid, "--owner=tied", "--color=always")
        check("\x1b[" in coloured and "also by" in coloured, "colours", coloured)
        _, text, _ = report(program.pid, "--owner=tied", "--no-stop")
        check("also by     box['a']" in text, "--no-stop", text)


def test_wrong_use():
    for args in (["--by=colour"], ["--by"], ["--owner="], ["--owner=x", "--no-owners"], ["--by=type", "--no-owners"], ["--owners", "--no-owners"]):
        code, out, err = vramtap("report", *args, "1")
        equal((code, out), (USAGE, ""), f"exit code of {args}")
        check(err, f"no message for {args}")


def test_without_owners():
    """Where nothing is known of owners, who asks for one is told why, and the exit status is that of any report."""
    with Job([sys.executable, "-c", "print('ready', flush=True); input()"], ready="ready") as program:
        code, text, _ = report(program.pid, "--owner=x")
        want, _, _ = report(program.pid)
        equal(code, want, "exit code")
        check("Not known: " in text, "the text", text)
        code, text, _ = report(program.pid, "--by=type", "--json=-")
        equal((code, "by" in json.loads(text)["owners"]), (want, False), "sums of nothing")


if __name__ == "__main__":
    sys.exit(main(globals()))
