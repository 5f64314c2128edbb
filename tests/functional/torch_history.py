#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The backtraces that PyTorch recorded of its blocks: read from outside, against what torch.cuda.memory._snapshot() says."""
import json
import os
import struct

import nursery
from core import SANITIZED, allow_cores, kernel_core, report_core
from harness import (COMPLETE, PARTIAL, QUICK, SOURCE, Job, check, check_schema, diag_codes, equal, main, proc_stat, report, report_json,
                     scratch)
from report_torch import versions

TARGET = os.path.join(SOURCE, "tests", "targets", "torch_history.py")
EITHER = (COMPLETE, PARTIAL)


class History(Job):
    """torch_history.py, run by this command; without one, by this version of PyTorch on the simulated device."""

    def __init__(self, command, *args, version=None, env=None, **kwargs):
        # Names by the dynamic symbol table: addr2line is not everywhere, and slow.
        env = dict(os.environ, TORCH_SYMBOLIZE_MODE="dladdr", **(env or {}))
        if version:
            self.context = nursery.child(version, [TARGET, *args], env=env, **kwargs)
        else:
            super().__init__([*command, TARGET, *args], env=env, **kwargs)

    def snapshot(self):
        path = scratch("snapshot")
        self.do(f"snapshot {path}")
        return read_snapshot(path)


def simulated(version, stacks, *args):
    """With one version of PyTorch on the simulated device."""
    where = scratch()
    allow_cores()
    job = History(None, "--stacks", stacks, *args, version=version, cwd=where,
              env={"SIMCUDA_CTL": scratch("control"), "SIMCUDA_DEVICES": "1", "SIMCUDA_MEM_MB": "512"})
    job.where = where
    return job


def read_snapshot(path):
    """{address: block} of the blocks in use."""
    with open(path, encoding="utf-8") as file:
        segments = json.load(file)["segments"]
    return {b["address"]: b for s in segments for b in s["blocks"] if b["state"] == "active_allocated"}


def blocks_of(data):
    return {int(b["address"], 16): b for a in data["pytorch"]["allocators"] for s in a["segments"] for b in s["blocks"]
            if b["state"] == "allocated"}


def frames_of(data, block):
    """The frames of a block's backtrace, or None."""
    if "backtrace" not in block:
        return None
    recorded = data["pytorch"]["recorded"]
    return [recorded["frames"][i] for i in recorded["backtraces"][block["backtrace"]]["frames"]]


def is_python(frame):
    return frame["filename"].endswith(".py") or frame["filename"].startswith("<")


def same_python(ours, theirs, where):
    ours = [(f["file"], f["line"] or 0, f["function"].rpartition(".")[2]) for f in ours if f["kind"] == "python"]
    theirs = [(f["filename"], f["line"], f["name"]) for f in theirs if is_python(f)]
    equal(ours, theirs, f"Python frames of the block at {where:#x}")
    return len(ours)


def library(path):
    return os.path.basename(os.path.realpath(path))


# Of these we leave out what only says that Python calls itself, or how the program began.
def may_be_left_out(frame):
    return library(frame["filename"]).startswith(("libpython", "python", "libc.so", "libc-"))


def plain_name(name):
    return name.partition("(")[0].partition("[")[0]


def same_native(ours, theirs, where):
    """PyTorch names, in this mode, the library and where in it the call was; and functions that are exported."""
    native = [f for f in ours if f["kind"] == "native" and not f["inlined"]]
    ours = [(f["module"], int(f["module_offset"], 16)) for f in native]
    theirs = [f for f in theirs if not is_python(f)]
    places = [(library(f["filename"]), f["line"] + 1) for f in theirs]
    at = -1
    for place in ours:
        check(place in places[at + 1:], f"a native frame of the block at {where:#x} is not PyTorch's, or not there", place,
              places)
        at = places.index(place, at + 1)
    left_out = [f for f, place in zip(theirs, places) if place not in ours and not may_be_left_out(f)]
    check(not left_out, f"native frames of the block at {where:#x} are missing", left_out)
    named = 0
    for frame in native:
        their = theirs[places.index((frame["module"], int(frame["module_offset"], 16)))]["name"]
        if their == "??" or "<" in their or "anonymous" in their or "operator" in their:
            continue
        check(plain_name(frame["function"] or "").endswith(plain_name(their).split(" ")[-1]), "a function's name", frame, their)
        named += 1
    return named


def sums_agree(data):
    """Sites and what has no backtrace are what is allocated; a site's backtraces are the site."""
    recorded = data["pytorch"]["recorded"]
    blocks = blocks_of(data).values()
    total = sum(s["bytes"] for s in recorded["sites"]) + sum(w["bytes"] for w in recorded["without"].values())
    count = sum(s["blocks"] for s in recorded["sites"]) + sum(w["blocks"] for w in recorded["without"].values())
    equal((total, count), (sum(b["bytes"] for b in blocks), len(blocks)), "sum of sites")
    for site in recorded["sites"]:
        traces = [recorded["backtraces"][i] for i in site["backtraces"]]
        equal((site["bytes"], site["blocks"], site["largest_bytes"]),
              (sum(t["bytes"] for t in traces), sum(t["blocks"] for t in traces), max(t["largest_bytes"] for t in traces)),
              "a site")
    for i, trace in enumerate(recorded["backtraces"]):
        sizes = [b["bytes"] for b in blocks if b.get("backtrace") == i]
        equal((trace["bytes"], trace["blocks"], trace["largest_bytes"]), (sum(sizes), len(sizes), max(sizes, default=0)),
              "a backtrace")


def compare(data, theirs):
    ours = blocks_of(data)
    equal(sorted(ours), sorted(theirs), "blocks in use")
    python = native = without = 0
    for address, block in ours.items():
        frames = frames_of(data, block)
        want = theirs[address]["frames"]
        if frames is None:
            check(not want, f"the block at {address:#x} has no backtrace", want, block)
            without += 1
            continue
        python += same_python(frames, want, address)
        native += same_native(frames, want, address)
    sums_agree(data)
    return python, native, without


def title_of(data, site):
    if site["title"] is None:  # a C++ thread of autograd, when only Python is recorded
        return None, None
    frame = data["pytorch"]["recorded"]["frames"][site["title"]]
    return frame["function"], os.path.basename(frame["file"] or frame["module"])


def text_is_right(pid):
    for width in ("80", "160"):
        _, out, _ = report(pid, "--no-owners", "--width", width, expect=EITHER)
        check("Allocated by" in out and "by_function  torch_history.py:" in out and "no backtrace" in out, "the text", out)
        check(max(len(line) for line in out.splitlines()) <= int(width), "a line is too wide", out)
    _, out, _ = report(pid, "--no-owners", "--sites", expect=EITHER)
    check("torch::CapturedTraceback::gather" in out and out.count("by_recursion") > 16, "--sites", out)
    _, out, _ = report(pid, "--blocks", expect=EITHER)
    check("asked for 600 B, by_function torch_history.py:" in out, "--blocks", out)


def core_is_right(job, live):
    with kernel_core(job.pid, job.proc.wait, job.where) as path:
        core = report_core(path)
    equal({a: frames_of(core, b) for a, b in blocks_of(core).items()}, {a: frames_of(live, b) for a, b in blocks_of(live).items()},
          "backtraces of a core")
    equal(core["pytorch"]["recorded"]["without"], live["pytorch"]["recorded"]["without"], "blocks without a backtrace")
    sums_agree(core)


def like_snapshot(version, stacks):
    with simulated(version, stacks) as job:
        theirs = job.snapshot()
        for args in ((), ("--read-only",)):
            data = report_json(job.pid, *args)
            python, native, without = compare(data, theirs)
            check(python > 200 and without == 5 and (native > 100 or stacks == "python"), "too little to compare",
                  python, native, without)
            check_schema(data)
            equal(data["pytorch"]["recorded"]["without"]["not_recorded"]["blocks"], 5, "blocks before and after recording")
            titles = {title_of(data, s) for s in data["pytorch"]["recorded"]["sites"]}
            for function in ("by_function", "generate", "Holder.method.<locals>.<lambda>", "Net.forward", "<module>"):
                file = "<string>" if function == "<module>" else "torch_history.py"
                check((function, file) in titles, f"no site {function}", titles)
        print(f"  PyTorch {version}, stacks={stacks}: {len(theirs)} blocks, {python} Python frames, {native} native names equal")
        if stacks == "all":
            text_is_right(job.pid)
            core_is_right(job, data)


def test_frames_are_those_of_the_snapshot():
    for i, version in enumerate(versions()):
        for stacks in (("all", "python")[i % 2],) if QUICK else ("python", "all"):
            like_snapshot(version, stacks)


def processor_time(pid):
    """What a process took of processors, in seconds."""
    fields = proc_stat(pid)
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_20000_blocks():
    for version, stacks in ((versions()[-1], "all"),) if QUICK else [(v, s) for v in versions() for s in ("python", "all")]:
        with simulated(version, stacks, "--blocks", "20000") as job:
            best = {}
            begin = processor_time(job.pid)
            job.do(f"snapshot {scratch('snapshot')}")
            theirs = processor_time(job.pid) - begin
            for args in ((), ("--read-only",)):
                begin = os.times()
                # How long it takes is of no interest there.
                runs = [report_json(job.pid, "--no-owners", *args)] if SANITIZED else [report_json(job.pid, *args) for _ in range(3)]
                end = os.times()
                spent = (end.children_user + end.children_system - begin.children_user - begin.children_system) / len(runs)
                sums_agree(runs[0])
                traced = sum("backtrace" in b for b in blocks_of(runs[0]).values())
                check(traced > 20000, "blocks with a backtrace", traced)
                best[args] = min(r["timing"]["total_ms"] for r in runs)
                # Processor time: what else the machine does is no news.
                check(SANITIZED or spent < theirs, "seconds of processor time for a report, and for PyTorch's own snapshot", spent, theirs)
            print(f"  PyTorch {version}, stacks={stacks}: " +
                  ", ".join(f"{' '.join(args) or 'inside'} {ms:.0f} ms" for args, ms in best.items()) +
                  f"; PyTorch's snapshot {theirs * 1000:.0f} ms of processors")


# Which functions make blocks of which size; the names of churn_of()'s functions are those of their code.
MAKERS = {1003: ("churn",), 5003: ("churn",), 70003: ("churn",), 1001: ("one",), 1002: ("two",)}


def test_while_blocks_come_and_go():
    """A backtrace is never that of another block: here each place makes blocks of its own size."""
    version = versions()[-1]
    with simulated(version, "python") as job:
        job.do("churn")
        seen, gone = {}, 0
        for i in range(4 if QUICK else 500):
            data = report_json(job.pid, "--no-owners", *(["--read-only"] if i % 2 else []), expect=EITHER)
            for address, block in blocks_of(data).items():
                frames = frames_of(data, block)
                gone += block.get("no_backtrace") == "changed"
                if frames is None:
                    continue
                names = [f["function"].rpartition(".")[2] for f in frames if f["kind"] == "python"]
                makers = MAKERS.get(block["requested_bytes"], names[:1])
                check(names[:1] == [] and not makers or names[0] in makers,
                      f"the backtrace of the block at {address:#x} is another one's", block, frames)
                seen[block["requested_bytes"]] = seen.get(block["requested_bytes"], 0) + 1
            check(not {"history-damaged", "history-refused", "history-foreign"} & diag_codes(data), "called damaged",
                  data["diagnostics"])
            if all(a["result"] == "complete" for a in data["pytorch"]["allocators"]):
                sums_agree(data)
        made = {size: seen.get(size, 0) for size in MAKERS}
        print(f"  backtraces by size {made}; {gone} blocks changed while they were read")
        check(seen.get(600), "no backtrace of a block that stays", seen)


class Memory:
    """The target's, to damage it."""

    def __init__(self, pid):
        self.file = open(f"/proc/{pid}/mem", "r+b", buffering=0)

    def word(self, address):
        self.file.seek(address)
        return struct.unpack("<Q", self.file.read(8))[0]

    def put(self, address, value):
        self.file.seek(address)
        self.file.write(struct.pack("<Q", value))


def damages(memory, context):
    """(what, address, value) of things that can be wrong with a context and its frames."""
    begin = memory.word(context + 8)
    yield "another type", context, 0x4141414141414141
    yield "no type", context, 0
    yield "begins nowhere", context + 8, 0xdead0000
    yield "ends before it begins", context + 16, begin - 16
    yield "half a frame", context + 16, begin + 8
    yield "four billion frames", context + 16, begin + (1 << 36)
    yield "a code object that is none", begin, context
    yield "a code object nowhere", begin, 0x1000
    yield "native frames nowhere", context + 32, 8


def lie_elsewhere(pid, memory, clean):
    """Were the frames to lie elsewhere, nothing must be shown rather than something else."""
    for block in blocks_of(clean).values():
        context = int(block.get("history", "0"), 16)
        for offset in (0, 8, 16) if context else ():
            memory.put(context + 32 + offset, memory.word(context + 8 + offset))
    data = report_json(pid, "--no-owners", expect=(PARTIAL,))
    check("history-refused" in diag_codes(data), "not refused", data["diagnostics"])
    check(not any("backtrace" in b for b in blocks_of(data).values()), "a backtrace is shown")


def test_damage():
    with simulated(versions()[-1], "python") as job:
        memory = Memory(job.pid)
        clean = report_json(job.pid, "--no-owners")
        address, block = next((a, b) for a, b in blocks_of(clean).items() if b.get("requested_bytes") == 600)
        context = int(block["history"], 16)
        for what, where, value in damages(memory, context):
            old = memory.word(where)
            memory.put(where, value)
            for args in ((), ("--read-only",)):
                data = report_json(job.pid, "--no-owners", *args, expect=(PARTIAL,))
                hit = blocks_of(data)[address]
                check("backtrace" not in hit and hit["no_backtrace"] == "unreadable", what, hit)
                check({"history-damaged", "history-foreign"} & diag_codes(data), f"{what}: not said", data["diagnostics"])
                for other, b in blocks_of(clean).items():
                    if other != address and "backtrace" in b:
                        equal(frames_of(data, blocks_of(data)[other]), frames_of(clean, b), f"{what}: another backtrace")
                sums_agree(data)
            memory.put(where, old)
        equal(frames_of(report_json(job.pid, "--no-owners"), block), frames_of(clean, block), "undamaged again")
        lie_elsewhere(job.pid, memory, clean)
        job.proc.kill()  # before it frees what is not its own


if __name__ == "__main__":
    main(globals())
