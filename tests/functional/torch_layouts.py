#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The layout of PyTorch's allocator with and without the table of known releases, on the real libc10_cuda.so of each wheel.

"vramtap layouts" says what was found and how; that it is right is shown by the blocks, which must be those of the library's own
snapshot whatever of the table is hidden. scripts/gen-torch-layouts.py makes the table with learn().
"""
import json
import os
import re
import shutil
import struct

from harness import (CACHE, COMPLETE, NOTHING, PARTIAL, QUICK, SOURCE, USAGE, Skip, check, diag_codes, equal, main, scratch, target,
                     vramtap)
from report_torch import RUN_SIM, Driver, compare

# Something of all that tells the fields of a block apart: neighbours, streams, devices, private pools, pending frees, history,
# expandable segments, free blocks of both sizes.
RICH = ["alloc 30 5000", "alloc 3 30000000", "stream 1", "alloc 10 70000", "stream 0", "private 3 1000", "history on",
        "alloc 5 900000", "device 1", "alloc 8 777", "device 0", "expandable on", "alloc 10 4000000", "private 2 5000000", "free 5",
        "history off", "alloc 3 100", "expandable off", "device 1", "pending 20 20000", "device 0", "pending 20 20000"]


def listed(mark=None):
    """The official wheels that may have a library in the cache: those with a mark, or the last patch of every release."""
    with open(os.path.join(SOURCE, "tests", "setup", "torch-lib-versions"), encoding="ascii") as file:
        lines = [line.split() for line in file if line.strip() and not line.startswith("#")]
    return [words[0] for words in lines if (mark in words if mark else "patch" not in words) and "-" not in words[0]]


class Library(Driver):
    """c10_driver with the allocator of a release; nothing else of the release is needed."""

    def __init__(self, version, **env):  # pylint: disable=super-init-not-called
        if not any(os.path.exists(os.path.join(CACHE, kind, version, "c10_driver")) for kind in ("torch", "torch-lib")):
            raise Skip(f"PyTorch {version} is not set up: sh tests/setup/torch-lib.sh {version}")
        self.control = scratch("control")
        self.context = target(["sh", RUN_SIM, version, "--", "c10_driver"], ready="ok ready", bufsize=0,
                              env=dict(os.environ, SIMCUDA_CTL=self.control, **env))

    def __call__(self, command):
        """A release that has no such thing answers n/a."""
        self.proc.stdin.write(command.encode() + b"\n")
        answer = self.proc.stdout.readline().decode().strip()
        check(answer.startswith(("ok", "n/a")), f"the driver's answer to {command!r}: {answer!r}")
        return answer


def layouts_json(*args, expect=(COMPLETE,)):
    return json.loads(vramtap("layouts", "--json", "-", *map(str, args), expect=expect)[1])


def table():
    """{release: row}, each row with .offsets."""
    rows = layouts_json()["layouts"]
    for row in rows:
        row["offsets"] = offsets_of(row)
    return {row["release"]: row for row in rows}


def offsets_of(data):
    return {f"{f['class']}.{f['name']}": f["bytes"] for f in data["fields"]}


def how_of(data):
    return {f"{f['class']}.{f['name']}": f["how"] for f in data["fields"]}


def release_of(version):
    return ".".join(version.split(".")[:2])


def make_rich(driver):
    for command in RICH:
        driver(command)


def learn(driver):
    """What discovery alone says of a driver in a state that tells everything."""
    make_rich(driver)
    found = layouts_json("--hide-layout=all", driver.pid)
    equal((found["known"], found["layout"], found["differs"]), (False, "no known release", None), "with an empty table")
    return found


def each_version(test):
    """On the oldest, the newest and one in the middle; on all that are there with VRAMTAP_SOAK."""
    def run():
        reasons, versions = [], listed("run" if QUICK else None)
        for version in versions:
            try:
                with Library(version) as driver:
                    test(driver, version)
            except Skip as reason:
                reasons.append(str(reason))
        if len(reasons) == len(versions):
            raise Skip("; ".join(reasons))
    return run


def same_layout(found, row, what):
    """Every field that was found is as the row has it; a Block's end is known to the grain of malloc(), or is that of its fields."""
    ours, theirs, how = offsets_of(found), dict(row["offsets"]), how_of(found)
    for name in ours:
        if name == "Block.sizeof" and how[name] == "place":
            check(ours[name] <= theirs[name], f"{what}: {name}", ours[name], theirs[name])
        elif name == "Block.sizeof" and not found["known"]:
            check(0 <= ours[name] - theirs[name] < 16, f"{what}: {name}", ours[name], theirs[name])
        elif ours[name] is not None or found["known"]:
            equal(ours[name], theirs[name], f"{what}: {name}, by {how[name]}")


@each_version
def test_the_table_is_right(driver, version):
    """Discovery alone finds every field that the row of this release has, and nothing else."""
    found, row = learn(driver), table()[release_of(version)]
    same_layout(found, row, version)
    missing = [name for name, value in offsets_of(found).items() if value is None and row["offsets"][name] is not None]
    equal(missing, [], f"{version}: fields that were not found without the table")


@each_version
def test_with_the_table(driver, version):
    """The release is recognised, blocks or not, and the library is the official one."""
    row = table()[release_of(version)]
    for commands in ([], ["alloc 1 1000"], ["alloc 30 100000", "free 7"], RICH):
        for command in commands:
            driver(command)
        found = layouts_json(driver.pid)
        equal((found["known"], found["row"]), (True, release_of(version)), f"{version}: which release it is")
        equal((found["differs"], found["refused"], found["state"]), (None, None, "native"), "the message")
        same_layout(found, row, version)
        if row["wheel"].partition("+")[0] == version:
            equal((found["build_id"], found["official_wheel"]), (row["build_id"], row["wheel"]), "whose library it is")


STATES = (
    [],
    ["alloc 1 2097152"],                                       # one block, whose size is what was requested
    ["alloc 4 30000000"],                                      # segments of one block: nothing is linked
    ["alloc 3 1000", "free all"],                              # nothing is allocated
    ["alloc 20 512"],
    ["alloc 50 3000", "stream 2", "alloc 20 3000", "stream 0"],
    ["pending 12 100000"],
    ["private 10 100000"],
    ["expandable on", "alloc 5 3000000", "free 2"],
    ["expandable off", "device 1", "alloc 30 70000", "free 9"],
    ["random 7 1500"],
)


@each_version
def test_without_the_table(driver, version):
    """In every state the same blocks as PyTorch's snapshot has, or a refusal; the report says that the release is not known."""
    shown = 0
    for commands in STATES:
        for command in commands:
            driver(command)
        for hidden in (release_of(version), "all"):
            data = compare(driver, f"--hide-layout={hidden}", "--read-only", expect=(COMPLETE, PARTIAL), method="outside")
            codes, known = diag_codes(data), data["versions"]["pytorch_layout_known"]
            equal("layout-unknown" in codes, not known, f"{commands}, {hidden} hidden: whether a diagnostic names an unknown release")
            check(not (known and hidden == "all") and "layout-differs" not in codes, f"{commands}, {hidden} hidden:", codes)
            shown += sum(len(s["blocks"]) for a in data["pytorch"]["allocators"] for s in a["segments"])
    check(shown > 1000, "few blocks", shown)
    compare(driver, "--hide-layout=all")  # and inside


def objects_of_blocks(pid, data, offsets):
    """Addresses of the Blocks in the heap: they have the address and the size of a block of the report."""
    blocks = {struct.pack("<Q", int(b["address"], 16)): struct.pack("<Q", b["bytes"])
              for a in data["pytorch"]["allocators"] for s in a["segments"] for b in s["blocks"]}
    with open(f"/proc/{pid}/maps", encoding="ascii") as file:
        start, end = next([int(x, 16) for x in line.split()[0].split("-")] for line in file if line.rstrip().endswith("[heap]"))
    with open(f"/proc/{pid}/mem", "rb") as file:
        file.seek(start)
        heap = file.read(end - start)
    ptr, size = offsets["Block.ptr"], offsets["Block.size"]
    for addr in range(0, len(heap) - offsets["Block.sizeof"], 16):
        known = blocks.get(heap[addr + ptr:addr + ptr + 8])
        if known and known == heap[addr + size:addr + size + 8]:
            yield start + addr, heap[addr + ptr:addr + ptr + 8]


def test_leftovers_in_the_padding():
    """A Block begins with a byte (device 0) and padding, which may have held an address before."""
    version = listed()[-1]
    offsets = table()[release_of(version)]["offsets"]
    with Library(version) as driver:
        driver("alloc 1 512")
        found = list(objects_of_blocks(driver.pid, compare(driver), offsets))
        equal((len(found), offsets["Block.device"]), (2, 0), "an allocated and a free block")
        with open(f"/proc/{driver.pid}/mem", "r+b", buffering=0) as file:
            for addr, ptr in found:
                equal(ptr[0], 0, "a block begins at a multiple of 512, so its device stays 0")
                file.seek(addr)
                file.write(ptr)
        equal(layouts_json(driver.pid)["differs"], None, "what the table says")
        for hidden in (release_of(version), "all"):
            codes = diag_codes(compare(driver, f"--hide-layout={hidden}"))
            check("layout-differs" not in codes, f"{hidden} hidden:", codes)
        check("layout-differs" not in diag_codes(compare(driver)), "nothing hidden")


def test_hidden_rows_are_hidden():
    rows = table()
    check(len(rows) >= 16, "few releases", list(rows))
    check(all(row["wheel"].startswith(release + ".") for release, row in rows.items()), "wheels", rows)
    one = next(iter(rows))
    hidden = layouts_json("--hide-layout", one)["layouts"]
    equal([row["release"] for row in hidden], [r for r in rows if r != one], "without one")
    equal(layouts_json("--hide-layout=all")["layouts"], [], "without any")
    text = vramtap("layouts", expect=COMPLETE)[1]
    equal(re.findall(r"^(\d+\.\d+) ", text, re.M), list(rows), "releases in the text")
    check(max(map(len, text.splitlines())) <= 80, "long lines", text)
    vramtap("layouts", "--hide-layout=1.0", expect=USAGE)
    vramtap("report", "--hide-layout=1.0", "1", expect=USAGE)


@each_version
def test_text_of_a_process(driver, version):
    driver("alloc 10 1000")
    text = vramtap("layouts", str(driver.pid), expect=COMPLETE)[1]
    row = table()[release_of(version)]
    first = text.splitlines()[0]
    check(f"PyTorch {version}" in first and "the layout of" in first and f"({driver.pid})" in first, "first line", first)
    for name, offset in row["offsets"].items():
        if offset is not None:
            check(re.search(rf"^ +{re.escape(name.split('.')[1])} +{offset} ", text, re.M), f"no line for {name}", text)
    text = vramtap("layouts", "--hide-layout=all", str(driver.pid), expect=COMPLETE)[1]
    check("no known release" in text.splitlines()[0] and "signature alone" in text.splitlines()[0], "first line", text)


def other_version(version, says):
    """The libraries of one release beside the version.py of another, or of none; their directory."""
    lib, real = scratch("torch/lib"), os.path.join(CACHE, "torch-lib", version, "torch", "lib")
    if not os.path.exists(real):
        raise Skip(f"PyTorch {version} is not set up: sh tests/setup/torch-lib.sh {version}")
    os.makedirs(lib)
    for name in ("libc10.so", "libc10_cuda.so"):
        shutil.copy(os.path.join(real, name), lib)
    if says:
        with open(os.path.join(lib, "..", "version.py"), "w", encoding="ascii") as file:
            file.write(f"__version__ = '{says}'\n")
    return lib


def test_the_version_is_not_trusted():
    """What is found counts. A diagnostic says if an official version differs; any other version has nothing to be compared with."""
    newest, oldest = listed()[-1], listed()[0]
    for says, differs, state in ((f"{oldest}+cu117", True, PARTIAL), ("2.99.0+cu140", False, COMPLETE),
                                 (f"{release_of(oldest)}.0a0+git1234567", False, COMPLETE), (None, False, COMPLETE)):
        with Library(newest, LD_LIBRARY_PATH=other_version(newest, says)) as driver:
            driver("alloc 50 10000")
            driver("alloc 5 3000000")
            found = layouts_json(driver.pid, expect=(state,))
            equal((found["pytorch"], bool(found["differs"]), found["row"] is not None), (says, differs, True), f"version {says}")
            data = compare(driver, expect=(state,))
            equal("layout-differs" in diag_codes(data), differs, f"version {says}: what the report says")
            text = vramtap("layouts", str(driver.pid), expect=state)[1]
            equal("differs " in text, differs, f"version {says}: the text")


def test_no_pytorch():
    with target(["sleep", "60"]) as proc:
        out = vramtap("layouts", str(proc.pid), expect=NOTHING)[1]
        check("libc10_cuda.so is not loaded" in out, "the message", out)
        equal(layouts_json(proc.pid, expect=(NOTHING,))["state"], "not loaded", "state")


@each_version
def test_a_target_that_runs(driver, version):
    """While threads allocate and free, the layout is found or refused, and never differs from the table."""
    row, found = table()[release_of(version)], 0
    driver("alloc 2000 7000")
    driver("busy 0")
    driver("busy 50")
    for attempt in range(8 if QUICK else 500):
        data = layouts_json(*(["--hide-layout=all"] if attempt % 2 else []), driver.pid, expect=(COMPLETE, NOTHING))
        if data["state"] == "native":
            found += 1
            same_layout(data, row, version)
    driver("idle")
    check(found, "never found")


if __name__ == "__main__":
    main(globals())
