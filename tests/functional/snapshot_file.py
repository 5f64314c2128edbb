#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The file of vramtap report --snapshot against what PyTorch's own _snapshot() says of the same process, and what PyTorch's own
torch.cuda._memory_viz makes of both."""
import base64
import contextlib
import importlib.util
import io
import json
import os
import pickle
import pickletools
import re
import subprocess
import sys

from core import SANITIZED, allow_cores, kernel_core
from harness import (CACHE, COMPLETE, NOTHING, PARTIAL, SOURCE, VRAMTAP, Skip, check, equal, main, report, report_json,
                     scratch, target, vramtap)
from nursery import Nursed
from report_torch import Driver, for_each_version, versions
from torch_history import Memory


TARGET = os.path.join(SOURCE, "tests", "targets", "torch_snapshot.py")
OURS = "<vramtap>"
HOSTILE = "</script>\x1b[31m\x07;\n\u202e\"'\\ \N{PILE OF POO}"  # as in the target
# What unpickle() in PyTorch's torch/utils/viz/MemoryViz.js knows, of what a file without code needs.
VIEWER = {"PROTO", "MARK", "STOP", "BININT", "BININT1", "BININT2", "LONG1", "NEWTRUE", "NEWFALSE", "SHORT_BINUNICODE", "BINUNICODE",
          "EMPTY_LIST", "APPENDS", "EMPTY_DICT", "SETITEMS", "TUPLE2", "MEMOIZE", "BINGET", "LONG_BINGET"}


class Program(Nursed):
    def __init__(self, version, *commands, **env):
        self.where, self.version, self.commands = scratch(), version, commands
        allow_cores()
        env = dict(os.environ, SIMCUDA_CTL=os.path.join(self.where, "control"), SIMCUDA_DEVICES="2", TORCH_SYMBOLIZE_MODE="dladdr", **env)
        super().__init__(version, [TARGET], cwd=self.where, env=env)

    def __enter__(self):
        super().__enter__()
        for command in self.commands:
            self.do(command)
        return self

    def truth(self):
        path = os.path.join(self.where, "truth")
        self.do(f"truth {path}")
        with open(path, "rb") as file:
            return pickle.load(file)


def load(path):
    """What is in a file; no opcode in it names or calls anything, or is unknown to memory_viz."""
    with open(path, "rb") as file:
        data = file.read()
    codes = {op.name for op, _, _ in pickletools.genops(data)}
    check(codes <= VIEWER, "opcodes", codes - VIEWER)
    return pickle.loads(data)


def snapshot(pid, *args, expect=(COMPLETE,)):
    path = scratch("ours.pickle")
    _, out, _ = report(pid, "--once", f"--snapshot={path}", *args, expect=expect)
    check("PyTorch" in out, "the text is missing", out)
    return load(path)


def plain(segments, frames=True):
    """Without what vramtap adds: what PyTorch would have said."""
    def block(b):
        b = {key: value for key, value in b.items() if key != "user_metadata"}
        return {**b, "frames": [f for f in b["frames"] if f["filename"] != OURS] if frames else []}
    return [{**s, "frames": s["frames"] if frames else [], "blocks": [block(b) for b in s["blocks"]]} for s in segments]


def same_segments(ours, theirs, frames=True):
    ours, theirs = plain(ours["segments"], frames), plain(theirs["segments"], frames)
    for a, b in zip(ours, theirs):
        for c, d in zip(a["blocks"], b["blocks"]):
            equal(c, d, "a block")
        equal(a, b, "a segment")
    equal(len(ours), len(theirs), "segments")
    return [b for s in ours for b in s["blocks"]]


def viz_of(version):
    """PyTorch's torch/cuda/_memory_viz.py, which needs no more of PyTorch."""
    path = os.path.join(CACHE, "torch", version, "site", "torch", "cuda", "_memory_viz.py")
    if not os.path.exists(path):
        raise Skip(f"the Python part of PyTorch {version} is not set up")
    spec = importlib.util.spec_from_file_location("memory_viz", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return path, module


def embedded(html):
    """The snapshot in a page of trace_plot() or segment_plot(), and the page around it."""
    found = re.search(r'"base64": "([^"]*)"', html)
    return pickle.loads(base64.b64decode(found[1])), html[:found.start()] + html[found.end():]


def quietly(function, *args, **kwargs):
    with contextlib.redirect_stdout(io.StringIO()) as said:
        return function(*args, **kwargs), said.getvalue()


def same_in_viz(version, ours, theirs):
    path, viz = viz_of(version)
    bare = {**ours, "segments": plain(ours["segments"])}
    equal(viz.segsum(ours), viz.segsum(theirs), "segsum()")
    for name in ("segments", "memory"):
        function = getattr(viz, name)
        equal(function(bare, format_flamegraph=str), function(theirs, format_flamegraph=str), f"{name}()")
    lines = viz.memory(ours, format_flamegraph=str)
    check(f";active_allocated;{OURS}:0:parameter;{OURS}:0:KEPT[" in lines, "no owner in the flame graph", lines)
    difference, said = quietly(viz.compare, ours["segments"], theirs["segments"], format_flamegraph=str)
    equal((difference, said), ("", "only_before = []\nonly_after = []\n"), "compare()")
    equal(viz.trace(ours), "", "trace()")
    for name in ("trace_plot", "segment_plot"):
        (data, page), (_, other) = (embedded(getattr(viz, name)(x)) for x in (ours, theirs))
        equal((data, page), (ours, other), f"{name}()")
    file = scratch("again.pickle")
    with open(file, "wb") as out:
        pickle.dump(ours, out)
    done = subprocess.run([sys.executable, path, "stats", file], capture_output=True, check=True)
    check(b"total_reserved" in done.stdout, "stats", done)


def owners_are_right(ours):
    """Each block in use says whose it is, and where there is no backtrace, its frames do."""
    blocks = {b["requested_size"]: b for s in ours["segments"] for b in s["blocks"] if b["state"] == "active_allocated"}
    equal(blocks[2222]["user_metadata"], {"owner": "KEPT[0]", "category": "python", "dtype": "uint8", "shape": "(2222,)",
                                          "certain": True}, "an owner")
    equal(blocks[2222]["frames"], [{"name": "KEPT[0]", "filename": OURS, "line": 0}, {"name": "python", "filename": OURS, "line": 0}],
          "frames that name an owner")
    layer = next(b for s in ours["segments"] for b in s["blocks"] if ".layers[0].weight" in b.get("user_metadata", {}).get("owner", ""))
    equal((layer["user_metadata"]["category"], layer["user_metadata"]["shape"]), ("parameter", "(64, 64)"), "a parameter")
    check(not any("user_metadata" in b for s in ours["segments"] for b in s["blocks"] if b["state"] != "active_allocated"),
          "an owner of a free block")


def nothing_leaks(pid):
    """What --snapshot reads of segments is in no other document."""
    def backtraces(*args):
        path = scratch("other.json")
        report(pid, "--once", f"--json={path}", *args, expect=(COMPLETE, PARTIAL))
        with open(path, encoding="ascii") as file:
            data = json.load(file)
        # What a busy machine makes late (NVML, a thread that could not be stopped) is of other stages.
        return {"recorded": data["pytorch"]["recorded"], "said": [d["code"] for d in data["diagnostics"] if d["stage"] == "torch"],
                "next": data.get("next")}
    ours, theirs = backtraces(f"--snapshot={scratch('ours.pickle')}"), backtraces()
    for part, without in theirs.items():
        equal(ours[part], without, f"{part}, with --snapshot and without")


def kinds_of(segments):
    return ({b["state"] for s in segments for b in s["blocks"]}, {s["segment_pool_id"] for s in segments},
            {s["device"] for s in segments}, len({s["stream"] for s in segments}))


def test_equals_pytorchs_own():
    """Without a recording, so that each block in use has the name of its owner."""
    version = versions()[0]
    with Program(version, "record python", "pass", "record off") as job:
        ours, theirs = snapshot(job.pid), job.truth()
        same_segments(ours, theirs)
        equal([len(s["frames"]) > 1 for s in ours["segments"]], [False, True], "where only a segment has frames")
        job.do("fill")
        theirs = job.truth()
        ours = snapshot(job.pid)
        blocks = same_segments(ours, theirs)
        states, pools, devices, streams = kinds_of(ours["segments"])
        equal(states, {"active_allocated", "active_pending_free", "inactive"}, "states")
        check(len(pools) == 3 and (0, 0) in pools and devices == {0, 1} and streams >= 2, "too little", pools, devices, streams)
        check(any(b["state"] == "inactive" and b["requested_size"] for b in blocks), "no free block was ever in use")
        equal(ours["device_traces"], [[], []], "traces of the devices")
        equal(ours["vramtap"]["pid"], job.pid, "the process")
        nothing_leaks(job.pid)
        owners_are_right(ours)
        same_in_viz(version, ours, theirs)
        same_segments(snapshot(job.pid, "--read-only", expect=(COMPLETE, PARTIAL)), theirs)
        bare = snapshot(job.pid, "--no-owners")
        equal(plain(bare["segments"]), [{**s, "blocks": s["blocks"]} for s in bare["segments"]], "without owners")
        print(f"  PyTorch {version}: {len(blocks)} blocks equal")


def test_recorded_expandable_and_core():
    """With a recording, expandable segments, and from a core."""
    version = versions()[-1]
    with Program(version, "record python", "fill", PYTORCH_CUDA_ALLOC_CONF="expandable_segments:True",
                 PYTORCH_ALLOC_CONF="expandable_segments:True") as job:
        theirs = job.truth()
        ours = snapshot(job.pid)
        blocks = same_segments(ours, theirs)
        nothing_leaks(job.pid)
        recorded = sum(bool(b["frames"]) for b in blocks)
        check(recorded > 15 and any(s["is_expandable"] for s in ours["segments"]), "too little to compare", recorded)
        with kernel_core(job.pid, job.proc.wait, job.where) as path:
            file = scratch("core.pickle")
            vramtap("report", "--core", path, "--snapshot", file, expect=(COMPLETE, PARTIAL))
            from_core = load(file)
        same_segments(from_core, theirs)
        print(f"  PyTorch {version}: {len(blocks)} blocks equal, {recorded} with frames, also from a core")


def test_events_of_the_recorder():
    """Each block in use that vramtap recorded was allocated when PyTorch says so, and nothing else is said to have happened."""
    version = versions()[-1]
    with Program(version, "record python") as job:
        vramtap("record", str(job.pid), "on", expect=(COMPLETE, PARTIAL))
        job.do("fill")
        theirs = job.truth()
        ours = snapshot(job.pid, expect=(COMPLETE, PARTIAL))
        same_segments(ours, theirs, frames=False)
        equal([s["frames"] for s in ours["segments"]], [s["frames"] for s in theirs["segments"]], "frames of segments")
        equal(sum(len(s["frames"]) > 1 for s in ours["segments"]), 2, "segments with frames")
        in_use = {b["address"] for s in theirs["segments"] for b in s["blocks"] if b["state"] != "inactive"}
        fields = ("addr", "size", "stream", "pool_id")
        count = 0
        for mine, their in zip(ours["device_traces"], theirs["device_traces"]):
            last = {e["addr"]: e for e in their if e["action"] == "alloc" and e["addr"] in in_use}
            equal(sorted(e["addr"] for e in mine), sorted(last), "blocks with an event")
            for e in mine:
                equal([e[f] for f in fields], [last[e["addr"]][f] for f in fields], "an event")
                check(abs(e["time_us"] - last[e["addr"]]["time_us"]) < 100000, "its time", e, last[e["addr"]])
                check(e["action"] == "alloc" and any(f["filename"] == TARGET for f in e["frames"]), "an event", e)
            equal([e["time_us"] for e in mine], sorted(e["time_us"] for e in mine), "the order")
            count += len(mine)
        check(count > 15, "events", count)
        _, viz = viz_of(version)
        check(viz.trace(ours).count(" = ") == count, "trace()")
        print(f"  PyTorch {version}: {count} events are PyTorch's")


def test_native_frames_and_hostile_names():
    """The report's native frames, and between them PyTorch's Python frames. Text stays text, character for character."""
    version = versions()[-1]
    with Program(version, "record all", "fill", "hostile") as job:
        theirs = job.truth()
        ours = snapshot(job.pid, expect=(COMPLETE, PARTIAL))
        same_segments(ours, theirs, frames=False)
        named, python = 0, lambda f: f["filename"].endswith(".py") or f["filename"] == "<string>"
        for a, b in zip(ours["segments"], theirs["segments"]):
            for c, d in zip(a["blocks"], b["blocks"]):
                equal([f for f in c["frames"] if python(f)], [f for f in d["frames"] if python(f)], "Python frames")
                named += any("at::" in f["name"] for f in c["frames"])
        check(named > 10, "native frames", named)
        blocks = {b["requested_size"]: b for s in ours["segments"] for b in s["blocks"]}
        names = {(f["name"], os.path.dirname(f["filename"])) for f in blocks[3210]["frames"]}
        check((HOSTILE + ".f", "/tmp/" + HOSTILE.rpartition("/")[0]) in names, "a hostile name", names)
        owners = {size: blocks[size]["user_metadata"]["owner"] for size in (3210, 3220, 3230, 3240)}
        print("  owners: " + ", ".join(json.dumps(name[:60]) for name in owners.values()))
        check("\udcff" not in "".join(owners.values()), "half a character", owners)


def test_all_releases():
    """What the library itself lists, without Python."""
    def one(version):
        with Driver(version) as driver:
            for command in ("alloc 100 5000", "private 20 100000", "stream 1", "alloc 10 3000000", "pending 7 2000000", "stream 0",
                            "free 40", "expandable on", "alloc 30 1500000", "free 20", "random 7 500", "device 1", "alloc 3 700"):
                driver(command)
            path = scratch("snapshot")
            driver(f"snapshot {path}")
            ours = snapshot(driver.pid)
        blocks, segments = [], []
        with open(path, encoding="ascii") as file:
            for line in file:
                word = line.split()
                if word[0] == "block":
                    blocks.append((int(word[1]), *(int(w, 0) for w in word[3:6]), word[6], int(word[7], 0)))
                elif word[0] == "segment":
                    pool = tuple(int(part) for part in word[5].split("."))
                    segments.append((int(word[1]), int(word[2], 0), int(word[3]), int(word[4], 0), pool, word[6] == "1", word[7],
                                     *(int(w) for w in word[8:])))
        equal([(s["device"], b["address"], b["size"], b["requested_size"], b["state"], s["stream"]) for s in ours["segments"]
               for b in s["blocks"]], blocks, "blocks")
        equal([(s["device"], s["address"], s["total_size"], s["stream"], s["segment_pool_id"], s["is_expandable"],
                s["segment_type"], s["allocated_size"], s["active_size"], s["requested_size"]) for s in ours["segments"]],
              segments, "segments")
        print(f"  PyTorch {version}: {len(blocks)} blocks in {len(segments)} segments equal")
    for_each_version(one)


def spoil(pid, data):
    """Makes the size of a block in use one that cannot be."""
    block = next(b for s in data["pytorch"]["allocators"][0]["segments"] for b in s["blocks"] if b["state"] == "allocated")
    memory = Memory(pid)
    for offset in range(0, 256, 8):
        if memory.word(int(block["object"], 16) + offset) == block["bytes"]:
            memory.put(int(block["object"], 16) + offset, 3 << 50)
            return
    raise AssertionError("the size of a block was not found")


def test_all_or_nothing():
    """Without certainty there is no file, the one that is there stays, and the report is written as always."""
    path = scratch("kept.pickle")

    def refused(pid, why):
        with open(path, "w", encoding="ascii") as file:
            file.write("kept")
        code, out, err = report(pid, "--once", f"--snapshot={path}", f"--json={path}.json")
        equal(code, NOTHING, "exit code")
        check("no snapshot is written" in err and why in err, "the message", err)
        check(f"pid {pid}" in out and os.path.exists(path + ".json"), "the rest", out)
        with open(path, encoding="ascii") as file:
            equal(file.read(), "kept", "the old file")

    with target(["sleep", "60"]) as proc:
        refused(proc.pid, "PyTorch's allocator is not loaded")
    with Driver(versions()[-1]) as driver:
        driver("alloc 50 1000")
        snapshot(driver.pid)
        spoil(driver.pid, report_json(driver.pid))
        refused(driver.pid, "the blocks of GPU 0 are not known for sure")
        driver.proc.kill()  # before it frees what is not its own


def test_standard_output():
    with Driver(versions()[-1]) as driver:
        driver("alloc 50 1000")
        done = subprocess.run([VRAMTAP, "report", "--snapshot=-", str(driver.pid)], capture_output=True, check=True)
        equal(sum(len(s["blocks"]) for s in pickle.loads(done.stdout)["segments"]), 51, "blocks")


def processor_time(*args):
    begin = os.times()
    vramtap("report", "--once", *args, expect=(COMPLETE, PARTIAL))
    end = os.times()
    return end.children_user + end.children_system - begin.children_user - begin.children_system


def test_100000_blocks():
    with Driver(versions()[-1]) as driver:
        driver("alloc 100000 1000")
        path, args, times = scratch("large.pickle"), ("--no-owners", str(driver.pid)), range(1 if SANITIZED else 3)
        without = min(processor_time(*args) for _ in times)
        spent = min(processor_time(f"--snapshot={path}", *args) for _ in times) - without
        blocks = sum(len(s["blocks"]) for s in load(path)["segments"])
        check(blocks > 100000, "blocks", blocks)
        print(f"  {blocks} blocks: {spent * 1000:.0f} ms more of processor time, {os.path.getsize(path) >> 10} KiB")
        check(SANITIZED or spent < 0.3, "seconds of processor time", spent)


if __name__ == "__main__":
    main(globals())
