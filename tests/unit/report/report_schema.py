#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds the JSON of every hand-made model against doc/report.schema.json, and the text against the JSON."""
import json
import os
import re
import subprocess
import sys
import unicodedata

SOURCE = os.environ.get("VRAMTAP_SOURCE_DIR", os.path.join(os.path.dirname(__file__), "../../.."))
BUILD = os.environ.get("VRAMTAP_BUILD_DIR", ".")
DEMO = os.path.join(BUILD, "tests/unit/report/report_demo")
UNITS = {"B": 0, "KiB": 10, "MiB": 20, "GiB": 30, "TiB": 40, "PiB": 50, "EiB": 60}


def demo(*arguments):
    return subprocess.run([DEMO, *arguments], check=True, stdout=subprocess.PIPE).stdout


def same_size(text, exact):
    """Whether "66.5 GiB" is exact bytes, rounded to the digits that are shown."""
    number, unit = text.split()
    step = 10.0 ** -len(number.partition(".")[2]) * (1 << UNITS[unit])
    return abs(float(number) * (1 << UNITS[unit]) - exact) <= step / 2 * 1.0001


def row(text, label):
    """Size and number of blocks of a row of the memory table."""
    found = re.search(r"^[ █▓▒░]+%s +([0-9.]+ \w+)(?: +([0-9,]+))?(?= |$)" % re.escape(label), text, re.M)
    assert found, label
    return found[1], int((found[2] or "0").replace(",", ""))


def check_sums(report):
    """Whatever is given twice agrees, and totals are there exactly when the result is complete."""
    for allocator in report["pytorch"]["allocators"]:
        totals = allocator["totals"]
        assert (totals is not None) <= (allocator["result"] == "complete")
        if totals is None:
            assert not allocator["groups"]
            continue
        blocks = [b for s in allocator["segments"] for b in s["blocks"]]
        for name, state in (("allocated", "allocated"), ("awaiting_free", "awaiting-free"), ("cached", "cached")):
            sizes = [b["bytes"] for b in blocks if b["state"] == state]
            groups = [g for g in allocator["groups"] if g["state"] == state]
            assert totals[name] == {"bytes": sum(sizes), "blocks": len(sizes)}
            assert sum(g["bytes"] for g in groups) == sum(sizes)
            assert sum(g["blocks"] for g in groups) == len(sizes)
        mapped = sum(b["bytes"] for b in blocks if b["state"] != "unmapped")
        assert totals["reserved_bytes"] == mapped == sum(s["bytes"] for s in allocator["segments"])
        for segment in allocator["segments"]:
            at = int(segment["address"], 16)
            for block in segment["blocks"]:
                assert int(block["address"], 16) == at
                at += block["bytes"]
        device = [d for d in report["cuda"]["devices"] if d["ordinal"] == allocator["device"]]
        if device and device[0]["memory"] and totals["everything_else_bytes"] is not None:
            assert device[0]["memory"]["used_bytes"] == totals["reserved_bytes"] + totals["everything_else_bytes"]
    tids = sorted(t["tid"] for t in report["threads"])
    assert tids == sorted(tid for g in report["thread_groups"] for tid in g["tids"])
    missing = any(d["level"] == "missing" for d in report["diagnostics"])
    assert missing == (report["completeness"] != "complete")


def check_recorded(report):
    """Sites, and what has no backtrace, are what is allocated; the backtraces of a site are the site."""
    recorded = report["pytorch"]["recorded"]
    if not recorded:
        return 0
    totals = [a["totals"]["allocated"] for a in report["pytorch"]["allocators"] if a["totals"]]
    for key in ("bytes", "blocks"):
        summed = sum(s[key] for s in recorded["sites"]) + sum(w[key] for w in recorded["without"].values())
        assert summed == sum(t[key] for t in totals)
        for site in recorded["sites"]:
            assert site[key] == sum(recorded["backtraces"][i][key] for i in site["backtraces"])
    assert [s["bytes"] for s in recorded["sites"]] == sorted((s["bytes"] for s in recorded["sites"]), reverse=True)
    for trace in recorded["backtraces"]:
        assert all(i < len(recorded["frames"]) for i in trace["frames"])
        assert trace["title"] is None and not trace["frames"] or trace["title"] in trace["frames"]
    return len(recorded["sites"])


def check_text_agrees(report, text):
    """The table of a single GPU shows the numbers of the JSON."""
    allocators = report["pytorch"]["allocators"]
    if len(allocators) != 1 or not allocators[0]["totals"]:
        return 0
    totals = allocators[0]["totals"]
    memory = [d["memory"] for d in report["cuda"]["devices"][:1]]
    ledger = (report["ledger"] or {"devices": [None]})["devices"][0]
    lines = (("raw cudaMalloc, unattributed", "device_memory"), ("raw cuMemMap, unattributed", "mapped"),
             ("memory of CUDA graphs", "graph"), ("arrays, textures", "array"), ("data of GPU code", "data")) if ledger else ()
    compared = 0
    for label, bytes_, blocks in (
        ("in use by PyTorch", totals["allocated"]["bytes"], totals["allocated"]["blocks"]),
        ("awaiting free", totals["awaiting_free"]["bytes"], totals["awaiting_free"]["blocks"]),
        ("cached by PyTorch", totals["cached"]["bytes"], totals["cached"]["blocks"]),
        ("largest hole", totals["largest_cached_bytes"], None),
        ("of which lost to rounding", totals["rounding_bytes"], None),
        ("contexts, code of this process", ledger["rest_of_process_bytes"], None) if ledger and ledger["rest_of_process_bytes"] else
        ("contexts, code, other processes", ledger["rest_bytes"], None) if ledger else
        ("everything else", totals["everything_else_bytes"], None),
        *((label, ledger[name]["bytes"], ledger[name]["ranges"]) for label, name in lines),
        ("free", memory[0]["free_bytes"] if memory else None, None),
    ):
        if not bytes_:
            continue
        size, count = row(text, label)
        assert same_size(size, bytes_), (label, size, bytes_)
        assert blocks is None or count == blocks, (label, count, blocks)
        compared += 1
    return compared


def check_text(text, columns):
    """No control characters, no invalid UTF-8, and no line wider than the terminal, by Python's idea of width."""
    for line in text.decode("utf-8").split("\n"):
        width = 0
        for char in line:
            assert unicodedata.category(char) not in ("Cc", "Cs", "Zl", "Zp") and char not in "\u202a\u202b\u202d\u202e", line
            if not unicodedata.combining(char):
                width += 2 if unicodedata.east_asian_width(char) in "WF" else 1
        assert width <= columns, (columns, line)


def check_codes(schema):
    """The schema lists every code that a report can have, and no other."""
    codes = {}
    for line in demo("--codes").decode().splitlines():
        what, code = line.split()
        codes.setdefault(what, set()).add(code)
    defs, properties = schema["$defs"], schema["properties"]
    driver = defs["recorder"]["properties"]["driver"]["properties"]
    listed = (
        ("stage", properties["diagnostics"]["items"]["properties"]["stage"], {"other", "job"}),
        ("allocator", properties["pytorch"]["properties"]["state_code"], set()),
        ("allocator", defs["pinned"]["properties"]["state_code"], {"cuda-malloc-async", "pluggable"}),
        ("recorder", defs["recorder"]["properties"]["state_code"], {"unknown"}),
        ("driver", driver["groups"]["items"]["properties"]["kind"], {"other"}),
        ("driver", driver["blocks"]["items"]["properties"]["kind"], {"other"}),
    )
    for what, place, never in listed:
        assert set(place["enum"]) - {None} == codes[what] - never, what
        assert never <= codes[what], what


def main():
    compared = sites = 0
    try:
        import jsonschema
    except ImportError:
        jsonschema = None
    with open(os.path.join(SOURCE, "doc/report.schema.json"), encoding="ascii") as file:
        schema = json.load(file)
    check_codes(schema)
    if jsonschema:
        jsonschema.Draft202012Validator.check_schema(schema)
    names = demo("--list").decode().split()
    assert len(names) > 5
    for name in names:
        report = json.loads(demo("--json", name).decode("ascii"))
        check_sums(report)
        sites += check_recorded(report)
        for columns in (40, 80, 160):
            check_text(demo("--columns=%d" % columns, name), columns)
        compared += check_text_agrees(report, demo("--columns=100", name).decode())
        if jsonschema:
            for error in jsonschema.Draft202012Validator(schema).iter_errors(report):
                sys.exit("%s: %s: %s" % (name, list(error.absolute_path), error.message[:300]))
            # A schema that accepts anything would be no test.
            report["unheard_of"] = 1
            assert list(jsonschema.Draft202012Validator(schema).iter_errors(report))
    assert compared >= 7
    assert sites >= 7
    if not jsonschema:
        print("python3's jsonschema is missing: the schema was not checked (apt-get install python3-jsonschema)")
        sys.exit(77)


main()
