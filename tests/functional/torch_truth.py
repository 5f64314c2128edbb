# SPDX-License-Identifier: Apache-2.0
"""Blocks as tuples, from a report and from PyTorch's own snapshots, so that they can be compared one by one.

A block is (device, segment address, address, bytes, requested bytes, state, stream). What was requested is only known of
allocated blocks: PyTorch leaves stale numbers in the others.
"""
from harness import check, equal

# PyTorch's words for a block's state, and ours.
STATES = {"active_allocated": "allocated", "active_pending_free": "awaiting-free", "active_awaiting_free": "awaiting-free",
          "inactive": "cached"}


def of_report(data):
    return sorted((a["device"], int(s["address"], 16), int(b["address"], 16), b["bytes"],
                   b.get("requested_bytes", 0) if b["state"] == "allocated" else 0, b["state"], int(s["stream"], 16))
                  for a in data["pytorch"]["allocators"] for s in a["segments"] for b in s["blocks"]
                  if b["state"] != "unmapped")


def of_python_snapshot(segments):
    """torch.cuda.memory._snapshot()["segments"]; addresses may be integers or hexadecimal strings."""
    def number(value):
        return int(value, 16) if isinstance(value, str) else value

    return sorted((s["device"], number(s["address"]), number(b["address"]), b["size"],
                   b["requested_size"] if b["state"] == "active_allocated" else 0, STATES[b["state"]], number(s["stream"]))
                  for s in segments for b in s["blocks"])


def of_driver_snapshot(path):
    """The file that c10_driver writes on "snapshot"; also returns {device: {statistic: (current, peak, allocated, freed)}}."""
    blocks, stats = [], {}
    with open(path, encoding="ascii") as file:
        for line in file:
            word = line.split()
            if word[0] == "block":
                device, segment, address, size, requested = int(word[1]), *(int(w, 0) for w in word[2:6])
                state = STATES[word[6]]
                blocks.append((device, segment, address, size, requested if state == "allocated" else 0, state, int(word[7], 16)))
            elif word[0] == "stats":
                stats.setdefault(int(word[1]), {})[word[2]] = tuple(int(w) for w in word[3:7])
    return sorted(blocks), stats


def same_as_snapshot(data, blocks, stats, method):
    """A report equals what of_driver_snapshot() read of the same moment, block for block and number for number."""
    for allocator in data["pytorch"]["allocators"]:
        equal(allocator["method"], method, "how it was read")
        equal(allocator["result"], "complete", f"result ({allocator['why']})")
        for name, values in stats[allocator["device"]].items():
            got = allocator["statistics"][name]
            equal((got["current"], got["peak"], got["allocated"], got["freed"]), values, f"statistic {name}")
    same_blocks(of_report(data), blocks, "the report")
    totals_agree(data["pytorch"]["allocators"])


def same_blocks(ours, theirs, what):
    if ours != theirs:
        missing, extra = sorted(set(theirs) - set(ours)), sorted(set(ours) - set(theirs))
        check(False, f"{what}: {len(missing)} of {len(theirs)} blocks missing, {len(extra)} too many", missing[:3], extra[:3])


def totals_agree(allocators):
    """Sums of the report's own blocks equal its totals."""
    for allocator in allocators:
        totals = allocator["totals"]
        check(totals is not None, "no totals", allocator["result"], allocator["why"])
        for state, key in (("allocated", "allocated"), ("awaiting-free", "awaiting_free"), ("cached", "cached")):
            sizes = [b["bytes"] for s in allocator["segments"] for b in s["blocks"] if b["state"] == state]
            check((sum(sizes), len(sizes)) == (totals[key]["bytes"], totals[key]["blocks"]), f"total of {state}", totals[key])
