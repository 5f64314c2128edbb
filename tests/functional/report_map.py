#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""vramtap report --map: every character against the blocks in the JSON of the same report."""
import fractions
import itertools
import json
import os
import re

from core import SANITIZED
from harness import COMPLETE, PARTIAL, SOURCE, Job, check, equal, main, scratch, simulated_python, vramtap
from report_torch import Driver, versions

UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
BEFORE = 37  # columns before the cells
EIGHTHS = " ▁▂▃▄▅▆▇"
ASCII = str.maketrans("▁▂▃▄▅▆▇█░▓·┄", "1234567#.=-_")
HUES = {"parameter": 33, "gradient": 37, "optimizer": 133, "buffer": 67, "activation": 34, "input": 71, "cache": 172, "frame": 31, "python": 136,
        "exception": 160, "garbage": 197, "workspace": 96, "communication": 208, "graph-pool": 101, "native": 244}


# ---- what the map should be ----

def runs_of(allocator):
    """Lists of blocks: a segment, or all of an expandable one; without the addresses around its memory that have none."""
    runs = []
    for segment in allocator["segments"]:
        key = (segment["private_pool"], segment["stream"], segment["pool"], segment["expandable"])
        blocks = [dict(b, at=int(b["address"], 16)) for b in segment["blocks"]]
        last = runs[-1] if runs else None
        if last and segment["expandable"] and last["key"] == key and last["blocks"][-1]["at"] + last["blocks"][-1]["bytes"] == blocks[0]["at"]:
            last["blocks"] += blocks
            last["segments"] += blocks[0]["state"] != "unmapped"
        else:
            runs.append({"key": key, "blocks": blocks, "segments": int(blocks[0]["state"] != "unmapped")})
    for run in runs:
        while run["blocks"] and run["blocks"][-1]["state"] == "unmapped":
            run["blocks"].pop()
        while run["blocks"] and run["blocks"][0]["state"] == "unmapped":
            run["blocks"].pop(0)
        run["taken"] = sum(b["bytes"] for b in run["blocks"] if b["state"] in ("allocated", "awaiting-free"))
        run["mapped"] = sum(b["bytes"] for b in run["blocks"] if b["state"] != "unmapped")
        run["bytes"] = sum(b["bytes"] for b in run["blocks"])
    return [run for run in runs if run["blocks"]]


def cells_of(runs, scale):
    """[{state: bytes}, {category: bytes}] of each cell of some runs one after the other."""
    cells, at = [], 0
    for run in runs:
        for block in run["blocks"]:
            state = block["state"] if block["state"] != "cached" else "hole" if run["taken"] else "spare"
            left = block["bytes"]
            while left:
                if at // scale == len(cells):
                    cells.append(({}, {}))
                part = min(left, scale - at % scale)
                for of, key in zip(cells[at // scale], (state, (block.get("owner") or {}).get("category", "unknown"))):
                    of[key] = of.get(key, 0) + part
                if state != "allocated":
                    cells[at // scale][1][(block.get("owner") or {}).get("category", "unknown")] -= part
                at, left = at + part, left - part
    return cells


def character(states):
    of = {state: states.get(state, 0) for state in ("allocated", "awaiting-free", "hole", "spare", "unmapped")}
    taken, whole = of["allocated"] + of["awaiting-free"], sum(of.values())
    if not taken:
        return "·" if of["spare"] > of["hole"] else "░" if of["hole"] else "┄"
    if of["awaiting-free"] > of["allocated"]:
        return "▓"
    if taken == whole:
        return "█"
    return EIGHTHS[min(7, max(1, int(fractions.Fraction(taken * 8, whole) + fractions.Fraction(1, 2))))]


def drawn(runs, scale):
    return "".join(character(states) for states, _ in cells_of(runs, scale))


# ---- what it is ----

def parse_size(text):
    number, unit = text.split()
    return fractions.Fraction(number) * UNITS[unit]


def close(text, size):
    """A size with three digits is of those bytes."""
    return abs(parse_size(text) - size) <= size / 190 + 1


def parse(text, columns):
    """[(GPU, scale, [(title, figures, [(label, size, share, cells)])])] of all maps."""
    maps = []
    for part in re.split(r"^Map of ", text, flags=re.M)[1:]:
        lines = part.split("\n\n")[0].split("\n")
        check(all(len(line) <= columns for line in lines), "too wide", lines)
        gpu, scale = re.fullmatch(r"GPU (\d+), a character is (\S+ \S+)", lines[0]).groups()
        groups = []
        for line in lines[1:]:
            title = re.match(r"  ((?:large|small|private)\S*(?: \S+)*?, stream \S+)  (.*)$", line)
            row = re.match(r"    (\S.{15}) *(\S+ \S+) +(\S+ %)  (.*)$", line)
            if title:
                groups.append((title[1], title[2], []))
            elif row:
                groups[-1][2].append([row[1].strip(), row[2], row[3], row[4]])
            elif line.startswith(" " * BEFORE):
                groups[-1][2][-1][3] += line[BEFORE:]
            elif groups:
                check(line.startswith("  … ") or line.startswith("  ... "), "a line that means nothing", line)
        maps.append((int(gpu), int(parse_size(scale)), groups))
    return maps


def words_of(key):
    private, stream, pool, expandable = key
    growth = " exp." if expandable else ""
    name = f"{pool}{growth}" if private is None else f"private {private}{' small' if pool == 'small' else ''}{growth}"
    return f"{name}, stream {'default' if int(stream, 16) == 0 else stream}"


def compare(text, data, columns):
    """Returns all characters."""
    seen = ""
    maps = parse(text, columns)
    allocators = [a for a in data["pytorch"]["allocators"] if runs_of(a)]
    equal([m[0] for m in maps], [a["device"] for a in allocators], "devices")
    for (_, scale, groups), allocator in zip(maps, allocators):
        by_key = {}
        for run in runs_of(allocator):
            by_key.setdefault(words_of(run["key"]), []).append(run)
        total = sum(run["bytes"] for runs in by_key.values() for run in runs)
        rows = max(6, 24 // len(allocators))
        check(total / scale <= rows * (columns - BEFORE) and (scale == 4096 or total / scale * 2 >= rows * (columns - BEFORE)), "scale", scale, total)
        sums = [sum(run["mapped"] for run in by_key[title]) for title, _, _ in groups]
        equal((sums, len(groups)), (sorted(sums, reverse=True), min(12, len(by_key))), "pools and streams")
        for title, figures, shown in groups:
            runs = sorted(by_key[title], key=lambda run: (-run["bytes"], run["blocks"][0]["at"]))
            mapped, taken = sum(run["mapped"] for run in runs), sum(run["taken"] for run in runs)
            n = sum(run["segments"] for run in runs)
            match = re.match(r"(\S+ \S+) in ([\d,]+) segments?, (\S+) % full(?:, largest free block (\S+ \S+))?$", figures)
            check(match and close(match[1], mapped) and match[2] == f"{n:,}", "figures", figures, mapped, n)
            check(abs(float(match[3].strip("<>")) - 100 * taken / mapped) <= 1, "share", figures, taken, mapped)
            holes = [b["bytes"] for run in runs for b in run["blocks"] if b["state"] == "cached"]
            check(not match[4] or close(match[4], max(holes)), "largest free block", figures)
            for label, size, share, cells in shown:
                if label.startswith("0x"):
                    these, runs = runs[:1], runs[1:]
                    equal(int(label, 16), these[0]["blocks"][0]["at"], "address")
                else:
                    these, runs = runs, []
                    equal(int(label.split()[0].replace(",", "")), sum(run["segments"] for run in these), label)
                mapped, taken = sum(run["mapped"] for run in these), sum(run["taken"] for run in these)
                check(close(size, mapped) and abs(float(share.split()[0].strip("<>")) - 100 * taken / mapped) <= 1, "row", label, size, share)
                equal(cells, drawn(these, scale), f"{title}, {label}")
                seen += cells
            equal(runs, [], f"segments of {title} that are not on the map")
    return seen


def draw(pid, columns, *args):
    path = scratch("report.json")
    code, text, err = vramtap("report", "--once", "--map", "--json", path, f"--width={columns}", "--color=never", *args, str(pid))
    check(code in (COMPLETE, PARTIAL), "exit code", code, err)
    with open(path, encoding="utf-8") as file:
        return text, json.load(file)


def test_every_character():
    """With segments of all sizes, some streams and private pools, holes, memory that awaits its free, and address space without memory."""
    with Driver(versions()[-1], SIMCUDA_DEVICES="2", SIMCUDA_MEM_MB="8192") as driver:
        seen = set()
        for commands in (("alloc 40 3000000",), ("free 30", "stream 1", "alloc 60 30000000", "free 50"), ("pending 5 5000000",),
                         ("private 3 9000000", "alloc 2000 9000"), ("release", "free all", "expandable on", "stream 0", "alloc 10 90000000", "free 5", "alloc 1 30000000", "emptycache"),
                         ("device 1", "random 5 500")):
            for command in commands:
                driver(command)
            for columns in (80, 160):
                text, data = draw(driver.pid, columns, "--read-only", "--no-owners")
                seen |= set(compare(text, data, columns))
        check(set("█░·▓┄") <= seen and seen & set(EIGHTHS[1:]), "characters", seen)
        text, data = draw(driver.pid, 100, "--read-only", "--no-owners", "--ascii")
        plain = text.partition("\nMap of ")[2].partition("\n\n")[0]
        check(plain.isascii(), "ASCII", plain)
        _, rows = draw(driver.pid, 100, "--read-only", "--no-owners")[0].split("\nMap of ", 1)
        equal([line for line in plain.split("\n")[2:] if line.startswith("    ")],
              [line.translate(ASCII).replace("×", "x") for line in rows.partition("\n\n")[0].split("\n")[2:] if line.startswith("    ")], "the same in ASCII")
        check("Map of" not in vramtap("report", "--once", "--read-only", str(driver.pid))[1], "not asked for")


def test_many_segments():
    """However many there are, the map has a bounded number of lines, and all of them."""
    with Driver(versions()[-1], SIMCUDA_DEVICES="1", SIMCUDA_MEM_MB="65536") as driver:
        driver(f"alloc {300 if SANITIZED else 1500} 12000000")
        driver("free 40")
        driver(f"private {20 if SANITIZED else 60} 3000000")
        text, data = draw(driver.pid, 80, "--read-only", "--no-owners")
        lines = text.partition("\nMap of ")[2].partition("\n\n")[0].split("\n")
        check(len(data["pytorch"]["allocators"][0]["segments"]) > 100 and len(lines) < 100, "lines", len(lines))
        compare(text, data, 80)


PROGRAM = """
import sys, torch
model = torch.nn.Sequential(*[torch.nn.Linear(1024, 1024) for _ in range(12)]).cuda()
x = torch.ones(4096, 1024, device="cuda")
y = model(x)
kept = [torch.empty(1 << 21, device="cuda") for _ in range(20)]
del kept[::3]
print("READY", flush=True)
sys.stdin.read()
"""


def test_colours():
    """A character has the colour of what most of it in use is."""
    with Job([*simulated_python(versions()[-1]), "-c", PROGRAM], env=dict(os.environ, SIMCUDA_DEVICES="1", SIMCUDA_MEM_MB="2048")) as job:
        path = scratch("report.json")
        _, text, _ = vramtap("report", "--once", "--map", "--read-only", "--json", path, "--width=160", "--color=always", str(job.pid),
                             expect=(COMPLETE, PARTIAL))
        with open(path, encoding="utf-8") as file:
            data = json.load(file)
    equal(data["owners"]["state"], "read", "owners")
    part = text[text.index("Map of GPU 0"):].split("\n\n")[0]
    plain = re.sub(r"\x1b\[[0-9;]*m", "", part)
    compare(plain, data, 160)
    allocator, = data["pytorch"]["allocators"]
    (_, scale, groups), = parse(plain, 160)
    coloured = []  # of each character of a row's cells
    for line in part.split("\n"):
        if not re.match(r"    \S| {37}\S", re.sub(r"\x1b\[[0-9;]*m", "", line)):
            continue
        colour, column = "0", 0
        for sequence, one in re.findall(r"\x1b\[([0-9;]*)m|(.)", line):
            if one:
                coloured += [colour] if column >= BEFORE else []
                column += 1
            else:
                colour = sequence
    by_key = {}
    for run in runs_of(allocator):
        by_key.setdefault(words_of(run["key"]), []).append(run)
    expected, found = [], set()
    for title, _, shown in groups:
        runs = sorted(by_key[title], key=lambda run: (-run["bytes"], run["blocks"][0]["at"]))
        alone = sum(label.startswith("0x") for label, _, _, _ in shown)
        for these in itertools.chain([[run] for run in runs[:alone]], [runs[alone:]]):
            for states, owners in cells_of(these, scale):
                kind = character(states)
                best = max(owners, key=owners.get)
                if kind in "░·":
                    expected.append(("36",))
                elif list(owners.values()).count(owners[best]) > 1 or best == "unknown":
                    expected.append(("0", *(f"38;5;{HUES[c]}" for c in owners if c != "unknown" and owners[c] == owners[best])))
                else:
                    expected.append((f"38;5;{HUES[best]}",))
                    found.add(best)
    equal(len(coloured), len(expected), "characters")
    for i, (got, want) in enumerate(zip(coloured, expected)):
        check(got in want, f"colour of character {i}", got, want)
    check({"parameter", "activation", "python"} <= found, "categories", found)
    legend = part[:part.index(", stream ")]
    for category in found:
        check(f"\x1b[38;5;{HUES[category]}m█" in legend, f"legend of {category}", legend)


if __name__ == "__main__":
    main(globals())
