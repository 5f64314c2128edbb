#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The stacks of jobs made by hand, for speedscope and folded, against the JSON of the same jobs."""
import collections
import json
import os
import subprocess
import sys

SOURCE = os.environ.get("VRAMTAP_SOURCE_DIR", os.path.join(os.path.dirname(__file__), "../../.."))
sys.path[:0] = [os.path.join(SOURCE, "tests/functional"), os.path.join(SOURCE, "tests/unit/job")]
from harness import Skip, check, equal  # noqa: E402
from job_schema import DEMO, HANGS, indices  # noqa: E402
from profile_files import read_folded, read_speedscope  # noqa: E402

TITLES = {"rank": "Ranks", "loader": "Loader workers", "checkpoint": "Checkpoint writers", "launcher": "Launchers", "other": "Other processes"}


def demo(option, *what):
    return subprocess.run([DEMO, option, *what], check=True, stdout=subprocess.PIPE, text=True).stdout


def place(frame):
    """What tells a frame apart in a profile; native names are short there."""
    name = frame["function"] if frame["kind"] == "python" else None
    return name, frame.get("file") or frame.get("module") or "", frame.get("line") or 0


def short(job, stack):
    """A profile's stack, without the names of native code."""
    native = {place(f)[1:] for f in job["frames"] if f["kind"] != "python"}
    python = {place(f) for f in job["frames"] if f["kind"] == "python"}
    return tuple((name if (name, file, line) in python or (file, line) not in native else None, file, line) for name, file, line in stack)


def tree_of(job):
    """{title: {(frames, what they do, members): threads}} of the ends of the tree"""
    tree, ways = job["found"]["tree"], []
    children = collections.Counter()
    found = collections.defaultdict(collections.Counter)
    for node in tree:
        before = () if node["parent"] is None else ways[node["parent"]]
        ways.append(before + tuple(place(job["frames"][i]) for i in node["frames"]))
        if node["parent"] is not None:
            children[node["parent"]] += node["threads"]
    for i, node in enumerate(tree):
        if node["threads"] > children[i]:
            title = f"{TITLES[node['role']]}: {'main' if node['main_threads'] else 'other'} threads"
            found[title][ways[i], node["does"], len(indices(node["members"]))] += node["threads"] - children[i]
    return found


def members_in(text):
    """How many "ranks 0-2,4" are; workers and others are not counted."""
    kind, _, ranges = text.strip("[]").partition(" ")
    if kind not in ("rank", "ranks"):
        return None
    return sum(int(r.partition("-")[2] or r.partition("-")[0]) - int(r.partition("-")[0]) + 1 for r in ranges.split(","))


def of_tree(job, profiles):
    want = tree_of(job)
    equal(set(want), {name for name in profiles if not name.endswith("every frame")}, "sections")
    for title, ends in want.items():
        got = collections.Counter()
        for stack, threads in profiles[title].items():
            *frames, does, members = stack
            number = members_in(members[0])
            got[short(job, frames), does[0].strip("[]"), number] += threads
        want_here = collections.Counter()
        for (way, does, number), threads in ends.items():
            want_here[way, does, number if title.startswith("Ranks") else None] += threads
        equal(got, want_here, title)


def of_all_threads(job, profiles):
    for role, title in TITLES.items():
        want = collections.Counter()
        for member in job["members"]:
            for doing in member["threads_do"] if member["role"] == role else ():
                stack = job["stacks"][job["doings"][doing]["stack"]]
                want[tuple(place(job["frames"][i]) for i in reversed(stack)) or ((None, "", 0),)] += 1
        name = f"{title}: all threads, every frame"
        got = collections.Counter()
        for stack, threads in profiles.get(name, {}).items():
            got[((None, "", 0),) if stack[0][0] == "[no frames]" else short(job, stack)] += threads
        equal(got, want, name)


def folded_is_the_tree(profiles, folded):
    titles = [name for name in profiles if not name.endswith("every frame")]
    for title in titles:
        lines = {stack: n for stack, n in folded.items() if len(titles) == 1 or stack[0] == title}
        equal(sum(lines.values()), profiles[title].total(), title)
        equal(len(lines), len(profiles[title]), title)
        equal(sorted(stack[-1] for stack in lines), sorted(stack[-1][0] for stack in profiles[title]), "whose they are")


def main():
    try:
        for hang in HANGS:
            job = json.loads(demo("--json", hang, "8", "2", "3"))
            profiles, document = read_speedscope(demo("--speedscope", hang, "8", "2", "3"))
            equal({p["unit"] for p in document["profiles"]}, {"none"}, "unit")
            of_tree(job, profiles)
            of_all_threads(job, profiles)
            folded_is_the_tree(profiles, read_folded(demo("--folded", hang, "8", "2", "3")))
    except Skip as skip:
        print(skip)
        return 77
    check(len(HANGS) > 10, "jobs")
    return 0


if __name__ == "__main__":
    sys.exit(main())
