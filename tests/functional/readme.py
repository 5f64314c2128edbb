#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""README.md is short and true: its table of symptoms is that of vramtap --help and of vramtap(1), its samples are lines of
doc/TUTORIAL.md (which tutorial.py replays), what was recorded on a GPU has headings that the program still prints, and what it
links to exists."""
import glob
import os
import re

import tutorial
from harness import COMPLETE, SOURCE, check, equal, main, vramtap

README = os.path.join(SOURCE, "README.md")


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def test_symptoms():
    """One table in three places."""
    shown = vramtap("--help", expect=COMPLETE)[1].split("What to do when:\n", 1)[1].split("\n\n", 1)[0]
    told = dict(re.split(r"\s{2,}", line.strip(), maxsplit=1) for line in shown.splitlines())
    check(len(told) > 8, "the table of --help", shown)
    check(all(len(line) <= 80 for line in shown.splitlines()), "80 columns", shown)
    section = read(README).split("\n## What to run\n", 1)[1].split("\n#", 1)[0]
    rows = re.findall(r"^\| ([^|`]+?) +\| `([^`]+)`(?:, `([^`]+)`)?", section, re.M)
    equal([(symptom, "; ".join(c for c in commands if c)) for symptom, *commands in rows], list(told.items()), "README's table and that of --help")
    page = read(os.path.join(SOURCE, "doc", "vramtap.1")).split(".Sh EXAMPLES\n", 1)[1]
    items = re.findall(r"^\.It (.*)\n((?:\.Dl .*\n)+)", page, re.M)
    commands = {symptom: "; ".join(line[4:].removeprefix("$ ") for line in lines.splitlines()) for symptom, lines in items}
    equal(list(commands.items()), list(told.items()), "the EXAMPLES of vramtap(1) and the table of --help")


def test_size():
    lines = read(README).splitlines()
    check(len(lines) <= 250, "lines of README.md", len(lines))
    fenced = False
    for number, line in enumerate(lines, 1):
        fenced ^= line.startswith("```")
        check(len(line) <= (104 if fenced else 100) or line.startswith(("|", "![")), f"README.md:{number} is {len(line)} columns wide")


def test_links():
    for page in [README, *glob.glob(os.path.join(SOURCE, "doc", "*.md"))]:
        text = read(page)
        for link in re.findall(r"\]\(([^)#: ]+)(?:#[^)]*)?\)", text):
            check(os.path.exists(os.path.join(os.path.dirname(page), link)), f"{os.path.relpath(page, SOURCE)} links to what is not there:", link)
        for anchor in re.findall(r"\]\(#([^)]+)\)", text):
            titles = [re.sub(r"[^\w -]", "", t.lower()).replace(" ", "-") for t in re.findall(r"^#+ (.*)$", text, re.M)]
            check(anchor in titles, f"{os.path.relpath(page, SOURCE)} links to no title of it:", anchor)


# ---- samples ----

def blocks(text):
    """Each fenced block with the line before it."""
    return re.findall(r"^([^\n]*)\n+```\w*\n(.*?)^```$", text, re.M | re.S)


def is_excerpt(lines, whole):
    """The first line that is not there in this order; "…" stands for any number of lines."""
    at = 0
    for i, line in enumerate(lines):
        if line.strip() in ("", "…"):
            continue
        follows = i and lines[i - 1].strip() != "…"
        found = next((n for n in range(at, len(whole)) if whole[n].strip() == line.strip()), None)
        if found is None or follows and any(whole[n].strip() for n in range(at, found)):
            return line
        at = found + 1
    return None


def compared(body, sizes_vary):
    """Its lines without what differs each time the tutorial is recorded anew, such as the ids of threads."""
    return [text for text, _ in tutorial.compared(body.splitlines(), sizes_vary)]


def test_samples():
    """What begins with a command of ours is a part of the tutorial."""
    shown = [("sizes vary" in before, body) for before, body in blocks(read(os.path.join(SOURCE, "doc", "TUTORIAL.md")))]
    samples = [body for before, body in blocks(read(README)) if body.startswith(("$ vramtap", "$ cat")) and "\n" in body.strip()]
    check(len(samples) > 3, "samples in README.md", len(samples))
    for body in samples:
        at = [is_excerpt(compared(body, vary), compared(block, vary)) for vary, block in shown]
        command = compared(body, False)[0]
        check(None in at, f"README.md shows {command!r} with what doc/TUTORIAL.md does not:", [line for line in at if line != command])


def test_recorded_on_a_gpu():
    """The headings and labels of the report that cannot be made here are texts of today's program."""
    samples = [body for before, body in blocks(read(README)) if "recorded on" in before.lower()]
    equal(len(samples), 1, "samples that were recorded on a GPU")
    sources = "\n".join(read(path) for path in glob.glob(os.path.join(SOURCE, "src", "**", "*.c"), recursive=True))
    labels = [label for line in samples[0].splitlines() for label in re.findall(r"^[█▒▓░ ]*(\D[^0-9(:]*?)(?:\s{3,}|$)", line)]
    check(len(labels) > 8, "labels", labels)
    for label in labels:
        words = label.strip(" █▒▓░…").replace("…", "")
        check(not words or words in sources, "README shows what no report says any more:", words)


if __name__ == "__main__":
    main(globals())
