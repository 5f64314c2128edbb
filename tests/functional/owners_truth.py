# SPDX-License-Identifier: Apache-2.0
"""Compares the owners that a report names with what the program itself knows (tests/targets/torch_owners.py)."""
import bisect
import re


class Judgement:
    """bytes: of all that the truth knows; category, named: those that are right; wrong: what is not, for people."""

    def __init__(self):
        self.bytes = self.category = self.named = self.uncertain = self.cases = 0
        self.wrong = []
        self.certain_and_wrong = []

    def __str__(self):
        return (f"{self.cases} cases, {self.bytes} bytes: category {100 * self.category / self.bytes:.2f} %, "
                f"name {100 * self.named / self.bytes:.2f} %, uncertain {self.uncertain}")


def blocks_of(report):
    found = []
    for allocator in report["pytorch"]["allocators"]:
        for segment in allocator["segments"]:
            found += [block for block in segment["blocks"] if block["state"] == "allocated"]
    return sorted(found, key=lambda block: int(block["address"], 16))


def judge(report, truth):
    """truth: [address, bytes, case, category or None, patterns]."""
    result = Judgement()
    blocks = blocks_of(report)
    starts = [int(block["address"], 16) for block in blocks]
    for address, size, case, category, patterns in truth:
        at = bisect.bisect_right(starts, address) - 1
        if not size or at < 0 or address >= starts[at] + blocks[at]["bytes"]:
            result.wrong.append(f"{case}: no block at {address:#x}")
            result.bytes += size
            continue
        owner = blocks[at].get("owner", {"category": "none", "name": None, "certain": False})
        name = owner["name"] or ""
        same_category = category in (None, owner["category"])
        same_name = any(re.fullmatch(pattern, name) for pattern in patterns)
        result.cases += 1
        result.bytes += size
        result.category += size * same_category
        result.named += size * same_name
        result.uncertain += not owner["certain"]
        if not same_category or not same_name:
            result.wrong.append(f"{case}: {owner['category']} {name!r}{'' if owner['certain'] else ' (uncertain)'}, "
                                f"not {category} {patterns}")
            if owner["certain"] and not same_name and owner["category"] != "unknown":
                result.certain_and_wrong.append(case)
    return result
