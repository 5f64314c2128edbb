#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the owners that a report names with what the program itself knows (tests/targets/owners_planted.py).

usage: owners_truth.py REPORT.json TRUTH.json      says what is right, and lists each failure; exits with 1 if there is one
"""
import bisect
import json
import re
import sys

# Cases that the program does not tell rightly yet, and what it should say. Nothing else may be wrong.
NOT_YET = {
    "dlpack capsule": "what the capsule points to is not followed",
}
# The same on free-threaded builds, whose collector has no lists of objects.
NOT_YET_FREE_THREADED = {case: "no garbage is found without lists of all objects" for case in (
    "cycle", "cycle of lists", "cycle of a dict", "cycle through a tensor's attribute", "cycle of an exception and its frame",
    "cycle of a generator")}
FACTS_NOT_YET: dict[str, str] = {}


class Judgement:
    """Blocks: judged, which the truth knows; right, of these with category and name right; doubted, which are not certain.
    Bytes, all of blocks in use: known, which the truth knows; category and named, of these with the right one; in_use;
    told, with any category but unknown. Lists for people: wrong, which is neither certain nor not; lies, which are wrong and
    called certain; untold, which the truth does not know; and the cases of the blocks that are doubted."""

    def __init__(self, free_threaded=False):
        self.not_yet = dict(NOT_YET, **(NOT_YET_FREE_THREADED if free_threaded else {}))
        self.in_use = self.told = self.known = self.category = self.named = self.uncertain = 0
        self.cases = self.blocks = self.judged = self.right = 0
        self.wrong, self.lies, self.untold, self.facts, self.doubted = [], [], [], [], []

    def __str__(self):
        def share(part, whole):
            return f"{100 * part / whole:.2f} %" if whole else "nothing"
        return (f"{self.cases} cases, {self.known} bytes: category right {share(self.category, self.known)}, "
                f"name right {share(self.named, self.known)}, uncertain {share(self.uncertain, self.known)}; "
                f"{self.blocks} blocks in use, {self.in_use} bytes: {share(self.told, self.in_use)} have a category, "
                f"the truth knows {share(self.known, self.in_use)}")

    def unforeseen(self):
        """What is wrong and in none of the tables above."""
        return ([line for line in self.wrong if not all(case in self.not_yet for case in line.split(": ")[0].split(", "))] +
                [fact for fact in self.facts if not any(": " + known in fact for known in FACTS_NOT_YET)])


def blocks_of(report):
    found = []
    for allocator in report["pytorch"]["allocators"]:
        for segment in allocator["segments"]:
            found += [block for block in segment["blocks"] if block["state"] == "allocated"]
    return sorted(found, key=lambda block: int(block["address"], 16))


def by_block(blocks, truth, wrong):
    """[(block, what the truth says of it)]; what is in no block is wrong."""
    starts = [int(block["address"], 16) for block in blocks]
    known = {}
    for one in truth:
        at = bisect.bisect_right(starts, one["address"]) - 1
        if at < 0 or one["address"] + one["bytes"] > starts[at] + blocks[at]["bytes"]:
            wrong.append(f"{one['case']}: {one['bytes']} bytes at {one['address']:#x} are in no block in use")
        else:
            known.setdefault(at, []).append(one)
    return known


def said(owner):
    certain = "" if owner.get("certain") else " (uncertain)"
    return f"{owner['category']} {owner['name']!r}{certain}"


def wanted(expected):
    return " or ".join(f"{'/'.join(one['categories'] or ['any'])} {' | '.join(one['names'])}" for one in expected)


def wrong_facts(owner, expected):
    """Of a storage with one tensor in a block of its own, so that there is no doubt which one is meant."""
    if owner.get("tensors") != 1 or owner.get("storages") != 1 or len(expected) != 1:
        return []
    found = []
    for key in ("dtype", "shape", "requires_grad"):
        if key in expected[0]:
            want = expected[0][key]
            got = [int(n) for n in re.findall(r"\d+", owner[key] or "")] if key == "shape" else owner[key]
            if got != want:
                found.append(f"{key} {owner[key]}, not {want}")
    if owner.get("storage_bytes", expected[0]["bytes"]) != expected[0]["bytes"]:
        found.append(f"storage of {owner['storage_bytes']} bytes, not {expected[0]['bytes']}")
    return found


def judge(report, truth):
    """truth: the file that a program wrote. Several entries for one block: it may be any of them."""
    result = Judgement(truth.get("free_threaded"))
    blocks = blocks_of(report)
    known = by_block(blocks, truth["truth"], result.wrong)
    for at, block in enumerate(blocks):
        owner = block.get("owner") or {"category": "unknown", "name": None, "certain": False}
        name, expected, size = owner["name"] or "", known.get(at), block["bytes"]
        result.blocks += 1
        result.in_use += size
        result.told += size * (owner["category"] != "unknown")
        if not expected:
            result.untold.append(f"{size} bytes at {block['address']}: {said(owner)}")
            continue
        right = [(one["categories"] is None or owner["category"] in one["categories"],
                  any(re.fullmatch(pattern, name) for pattern in one["names"])) for one in expected]
        same_category, same_name = max(right, key=sum)
        result.cases += len(expected)
        result.judged += 1
        result.right += same_category and same_name
        result.known += size
        result.category += size * same_category
        result.named += size * same_name
        result.uncertain += size * (not owner["certain"])
        label = ", ".join(sorted({one["case"] for one in expected}))
        if not owner["certain"]:
            result.doubted.append(label)
        if not (same_category and same_name):
            result.wrong.append(f"{label}: {said(owner)}, not {wanted(expected)}")
            if owner["certain"]:
                result.lies.append(result.wrong[-1])
        result.facts += [f"{label}: {fact}" for fact in wrong_facts(owner, expected)]
    live = truth.get("blocks")
    if live is not None and sorted(live) != sorted([int(b["address"], 16), b["bytes"]] for b in blocks):
        result.wrong.append(f"{len(blocks)} blocks in use, PyTorch itself had {len(live)}")
    return result


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    with open(sys.argv[1], encoding="utf-8") as file:
        report = json.load(file)
    with open(sys.argv[2], encoding="utf-8") as file:
        truth = json.load(file)
    if "members" in report and "pytorch" not in report:
        sys.exit("that is a triage, not a report")
    result = judge(report, truth)
    print(f"Python {truth['python']}, PyTorch {truth['torch']}: {result}")
    for title, lines in (("wrong", result.wrong), ("wrong and called certain", result.lies), ("wrong facts", result.facts),
                         ("not known to the program", result.untold), ("skipped", truth["skipped"])):
        print(f"{title}: {len(lines)}")
        for line in lines:
            print(f"  {line}")
    sys.exit(1 if result.wrong or result.facts else 0)


if __name__ == "__main__":
    main()
