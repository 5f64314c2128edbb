#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds the JSON of jobs made by hand against doc/triage.schema.json, and checks that what is given twice agrees."""
import json
import os
import re
import subprocess
import sys

SOURCE = os.environ.get("VRAMTAP_SOURCE_DIR", os.path.join(os.path.dirname(__file__), "../../.."))
DEMO = os.path.join(os.environ.get("VRAMTAP_BUILD_DIR", "."), "tests/unit/job/job_demo")
HANGS = ("none loop sleep gpu different call-site retries oom loader loaders loader-busy loader-stopped loader-gone stuck stopped traced killed "
         "unreadable outsider imbalance activations sequences").split()


def indices(ranges):
    return [i for first, last in ranges for i in range(first, last + 1)]


def check(job):
    members, tree = job["members"], job["found"]["tree"]
    for member in members:
        assert len(member["threads"]) == len(member["threads_do"])
        assert all(i < len(job["doings"]) for i in member["threads_do"])
    assert all(d["stack"] < len(job["stacks"]) for d in job["doings"])
    assert all(i < len(job["frames"]) for s in job["stacks"] for i in s)
    main_threads = 0
    for i, node in enumerate(tree):
        mine = indices(node["members"])
        assert mine == sorted(set(mine)) and mine[-1] < len(members)
        assert all(members[m]["role"] == node["role"] for m in mine)
        if node["parent"] is None:
            main_threads += node["threads"] if node["main_threads"] else 0
            continue
        assert node["parent"] < i
        assert set(mine) <= set(indices(tree[node["parent"]]["members"]))
        assert node["threads"] <= tree[node["parent"]]["threads"]
    assert main_threads == sum(bool(job["doings"][d].get("main")) for m in members for d in m["threads_do"])
    for verdict in job["found"]["verdicts"]:
        assert all(i < len(members) for i in indices(verdict["members"]))
    for device in job["found"]["devices"]:
        if "total_bytes" not in device:
            continue
        held = sum(m["reserved_bytes"] for i in device["holders"] for m in members[i]["memory"] if m["uuid"] == device["uuid"])
        used = device["total_bytes"] - device["free_bytes"]
        assert device["outside_bytes"] == max(0, used - held)


def check_codes(schema):
    """Every finding of the table is one that the schema promises, and the other way round."""
    text = schema["$defs"]["found"]["properties"]["verdicts"]["items"]["properties"]["code"]["description"]
    with open(os.path.join(SOURCE, "src/job/finding.c"), encoding="ascii") as file:
        table = set(re.findall(r'\[VT_FINDING_\w+\] = { "([a-z-]+)"', file.read()))
    promised = set(re.findall(r"[a-z-]+(?=[,;])", text))
    assert table and table == promised, table ^ promised


def main():
    try:
        import jsonschema
    except ImportError:
        jsonschema = None
    with open(os.path.join(SOURCE, "doc/triage.schema.json"), encoding="ascii") as file:
        schema = json.load(file)
    if jsonschema:
        jsonschema.Draft202012Validator.check_schema(schema)
    check_codes(schema)
    for hang in HANGS:
        job = json.loads(subprocess.run([DEMO, "--json", hang, "8", "3", "2", "6", "3"], check=True, stdout=subprocess.PIPE).stdout)
        assert len(job["members"]) >= 8
        check(job)
        if jsonschema:
            for error in jsonschema.Draft202012Validator(schema).iter_errors(job):
                sys.exit("%s: %s: %s" % (hang, list(error.absolute_path), error.message[:300]))
            # A schema that accepts anything would be no test.
            job["members"][0]["unheard_of"] = 1
            assert list(jsonschema.Draft202012Validator(schema).iter_errors(job))
    if not jsonschema:
        print("python3's jsonschema is missing: the schema was not checked (apt-get install python3-jsonschema)")
        sys.exit(77)


if __name__ == "__main__":
    main()
