#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Profiles: vramtap report --pprof, --speedscope and --folded, as the tools for these formats read them, against the JSON of the same
report; and the stacks of processes and jobs."""
import collections
import contextlib
import itertools
import json
import os
import re
import subprocess
import sys
import time
import unicodedata

from core import SANITIZED
from cupy_pools import VERSIONS as CUPY_VERSIONS, CuPy, allocate
from harness import (COMPLETE, PARTIAL, SOURCE, USAGE, VRAMTAP, Skip, check, equal, main, report, scratch, target, vramtap)
from ledger import Calls, every_kind, simulated
from nccl_memory import Nccl
from nursery import child
from profile_files import pprof, read_folded, read_pprof, read_speedscope
from report_torch import Driver, versions

TARGET = os.path.join(SOURCE, "tests", "targets", "torch_profile.py")
ANY = (COMPLETE, PARTIAL)
Report = collections.namedtuple("Report", "path json samples comments mappings speedscope folded")


def program(*args):
    env = dict(os.environ, SIMCUDA_CTL=scratch("control"), SIMCUDA_DEVICES="1", SIMCUDA_MEM_MB="1024")
    return child(versions()[-1], [TARGET, *args], env=env)


def pid_of(proc):
    return int(proc.ready_line.partition("=")[2])


def text_of(path):
    with open(path, encoding="ascii" if path.endswith(".json") else "utf-8") as file:
        return file.read()


def read_all(pid, *args, expect=COMPLETE):
    """All formats of one report."""
    files = {option: scratch(f"a{suffix}") for option, suffix in (("json", ".json"), ("pprof", ".pb.gz"), ("speedscope", ".json"), ("folded", ""))}
    report(pid, "--once", *itertools.chain(*((f"--{option}", path) for option, path in files.items())), *args, expect=expect)
    return Report(files["pprof"], json.loads(text_of(files["json"])), *read_pprof(files["pprof"]), read_speedscope(text_of(files["speedscope"]))[0],
                  read_folded(text_of(files["folded"])))


def sums(pairs):
    total = collections.Counter()
    for key, value in pairs:
        total[key] += value
    return +total


def same(got, want, text):
    """Of two counters; only the difference is told."""
    equal((got - want, want - got), (collections.Counter(), collections.Counter()), f"{text}: too much, and missing")


# ---- what JSON says ----

def blocks_of(data):
    """(allocator, segment, block) of those in use"""
    for allocator in data["pytorch"]["allocators"]:
        for segment in allocator["segments"]:
            for block in segment["blocks"]:
                if block["state"] == "allocated":
                    yield allocator, segment, block


def is_plain(value):
    """Nothing in it had to be escaped, by PyTorch's names or by a profile."""
    return "\\x" not in str(value) and not any(unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp") or c == "\ufffd" for c in str(value))


def labels_of(allocator, segment, block):
    """Of one block: what the JSON says of it."""
    owner = block.get("owner") or {}
    labels = {"library": "pytorch", "device": f"cuda:{allocator['device']}", "state": "allocated", "bytes": block["bytes"],
              "stream": "default" if segment["stream"] == "0x0" else segment["stream"], "pool": segment["private_pool"]}
    labels.update((key, owner.get(key)) for key in ("category", "variable", "module", "type", "dtype", "shape"))
    labels["owner"] = owner.get("name")
    return frozenset((k, v) for k, v in labels.items() if v is not None and is_plain(v))


def same_labels(got):
    """Every label of every block, and its bytes."""
    torch = [s for s in got.samples if s.labels["library"] == "pytorch"]
    want = sums((labels_of(*b), b[2]["bytes"]) for b in blocks_of(got.json))
    found = collections.Counter()
    for s in torch:
        found[frozenset((k, v) for k, v in s.labels.items() if is_plain(v))] += s.bytes
        equal(s.count * s.labels["bytes"], s.bytes, "blocks of one size")
    same(found, want, "labels and bytes")


def adds_up(got):
    """All formats have the same sum, which is the report's."""
    data = got.json
    want = sum(a["totals"]["allocated"]["bytes"] for a in data["pytorch"]["allocators"] if a["totals"])
    equal(sum(s.bytes for s in got.samples if s.labels["library"] == "pytorch"), want, "bytes in use")
    equal(sum(s.count for s in got.samples if s.labels["library"] == "pytorch"), len(list(blocks_of(data))), "blocks in use")
    by_device = {name: stacks for name, stacks in got.speedscope.items() if re.fullmatch(r"GPU \d+", name)}
    for device, size in sums((s.labels["device"], s.bytes) for s in got.samples).items():
        equal(by_device[f"GPU {device[5:]}"].total(), size, "speedscope")
    if want:
        equal(sum(got.folded.values()), want, "folded")


def same_stacks(got):
    """The formats without labels have the stacks of pprof's; native code without a source is in a library."""
    def place(f):
        native = f.module.startswith("lib") or ".so" in f.module
        return f.name, f.file or (f.module if native else ""), f.line

    def folded(f):
        where = os.path.basename(f.file) + (f":{f.line}" if f.line else "") if f.file else f.module
        return f.name if f.name.startswith(where) or not is_code(f) else f"{f.name} ({where})"

    def is_code(f):
        return f.line or ".so" in f.module or f.file.startswith(("/", "<"))

    want = sums((tuple(map(place, s.stack)), s.bytes) for s in got.samples)
    equal(sum((stacks for name, stacks in got.speedscope.items() if re.fullmatch(r"GPU \d+", name)), collections.Counter()), want, "speedscope")
    torch = any(s.labels["library"] == "pytorch" for s in got.samples)
    want = sums((tuple(folded(f).replace(";", "\\x3b") for f in s.stack), s.bytes) for s in got.samples
                if not torch or s.labels["library"] == "pytorch")
    equal(got.folded, want, "folded")


def same_backtraces(got):
    """Each recorded block has its frames, the outermost first: function, file and line; native code its library and address."""
    recorded = got.json["pytorch"]["recorded"]

    def frame(f):
        if f["kind"] == "python":
            return f["function"], f["file"], f["line"]
        return f["function"] or f"{f['module']}+{f['module_offset']}", f["module"], 0 if f["inlined"] else int(f["pc"], 16)

    def of_pprof(f):
        return (f.full, f.module, f.address) if ".so" in f.module else (f.full, f.file, f.line)

    want, builds = collections.Counter(), set()
    for _, _, block in blocks_of(got.json):
        if block.get("backtrace") is not None:
            frames = [recorded["frames"][i] for i in reversed(recorded["backtraces"][block["backtrace"]]["frames"])]
            want[tuple(map(frame, frames))] += block["bytes"]
            builds.update((f["module"], f["build_id"]) for f in frames if f["kind"] == "native" and not f["inlined"])
    got_bytes = sums((tuple(map(of_pprof, s.stack)), s.bytes) for s in got.samples
                     if s.labels["library"] == "pytorch" and s.stack[0].name[:1] != "[")
    check(want, "nothing is recorded")
    same(got_bytes, want, "recorded backtraces")
    equal(builds - got.mappings, set(), "libraries and their build ids")


def same_paths(samples):
    """The path begins with what the memory is for, follows the modules, and ends with the name."""
    words = {"parameter": "parameters", "gradient": "gradients", "optimizer": "optimizer state", "python": "other Python variables",
             "frame": "variables of running functions", "activation": "activations held by a graph", "unknown": "nobody found"}
    seen = set()
    for s in samples:
        names = [f.name for f in s.stack]
        category = s.labels["category"]
        seen.add(category)
        equal(names[0], words.get(category, names[0]), "what it is for")
        if "owner" in s.labels:
            owner = s.labels["owner"]
            equal(names[-1], owner if "module" in s.labels else re.sub(r"\[\d+\]", "[*]", owner), "the name")
        if "module" in s.labels:
            parts = [f for f in s.stack[1:-1]]
            equal(parts[-1].file, s.labels["module"], "the path of the last part")
            equal(".".join([parts[0].file] + [f.name for f in parts[1:]]), s.labels["module"], "the parts of the module")
    check({"parameter", "optimizer", "gradient", "frame"} <= seen, "categories", seen)


# ---- memory ----

def test_owners():
    """Nothing is recorded: stacks are the ways to the owners."""
    with program() as proc:
        got = read_all(pid_of(proc))
        adds_up(got)
        same_labels(got)
        same_stacks(got)
        same_paths([s for s in got.samples if s.labels["library"] == "pytorch"])
        equal([name for name in got.speedscope], ["GPU 0"], "profiles for speedscope")
        raw = [s for s in got.samples if s.labels["library"] == "unclaimed"]
        equal([(s.count, s.labels["kind"], s.stack[0].name) for s in raw], [(1, "device", "[raw cudaMalloc, unattributed]")], "the driver's")
        equal(raw[0].bytes, got.json["ledger"]["devices"][0]["device_memory"]["bytes"], "its bytes")
        says_what_is_missing(got)
        hostile_names_are_text(got)
        without_owners(pid_of(proc))
        if not SANITIZED:
            shows_bytes(got.path)
            standard_output(pid_of(proc))


def hostile_names_are_text(got):
    """In all formats."""
    texts = [f.name for s in got.samples for f in s.stack] + [str(v) for s in got.samples for v in s.labels.values()] + got.comments
    texts += [part for stack in got.folded for part in stack]
    texts += [part for stacks in got.speedscope.values() for stack in stacks for frame in stack for part in frame[:2]]
    bad = [t for t in texts if any(unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp") or c in "\u202e\u200b" for c in t)]
    equal(bad, [], "what a terminal must not see")
    names = "\n".join(f.name for s in got.samples for f in s.stack)
    for want in ("a;b", "</script><script>", "\\xe2\\x80\\xaetxt.exe", "ключ 鍵", "a] owner:[b"):
        check(want in names, f"{want} is not there", sorted(t for t in texts if "keys" in t)[:20])
    check(any("a\\x3bb" in part for stack in got.folded for part in stack), "; in a name", got.folded)


def says_what_is_missing(got):
    totals = got.json["pytorch"]["allocators"][0]["totals"]
    text = "\n".join(got.comments)
    for size, what in ((totals["allocated"]["bytes"], "in use by PyTorch"), (totals["cached"]["bytes"], "cached by PyTorch"),
                       (got.json["ledger"]["devices"][0]["rest_bytes"], "of contexts")):
        check(re.search(rf"^GPU 0: .*\({size} bytes\) {what}", text, re.M), what, text)
    equal(text.count("not here"), 2, "what is not in it")


def shows_bytes(path):
    """pprof itself: bytes at first, labels to group by, and a difference of two profiles."""
    out = pprof("-top", "-unit=B", "-tagroot=category", "-cum", path)
    check("Type: inuse_space" in out and re.search(r"B +\S+% +parameter$", out, re.M), "pprof -top", out)
    check("Showing nodes accounting for 0, 0% of" in pprof("-top", "-base", path, path), "the difference of two")
    out = pprof("-top", "-tagfocus=module=layers.1..up", "-cum", path)
    check(" net.layers[1].up.weight" in out and "layers[2]" not in out, "one module", out)


def standard_output(pid):
    _, out, _ = report(pid, "--folded=-", expect=COMPLETE)
    check(sum(read_folded(out).values()), "folded to standard output", out)
    _, out, _ = report(pid, "--speedscope=-", expect=COMPLETE)
    read_speedscope(out)
    for pair in (("--folded=-", "--speedscope=-"), ("--json=-", "--pprof=-")):
        _, out, err = report(pid, *pair, expect=USAGE)
        check("cannot both write to standard output" in err and not out, "two on standard output", err)
    terminal, other = os.openpty()
    done = subprocess.run([VRAMTAP, "report", str(pid), "--pprof=-"], stdout=other, stderr=subprocess.PIPE, check=False)
    check(done.returncode == USAGE and b"does not write to a terminal" in done.stderr, "pprof to a terminal", done)
    os.close(terminal)
    os.close(other)


def without_owners(pid):
    """One line, as there is nothing to tell blocks apart by."""
    got = read_all(pid, "--no-owners")
    adds_up(got)
    same_stacks(got)
    equal(list(got.folded), [("[no backtrace: nothing is recorded]",)], "folded")
    check(any("owners were not looked for" in c for c in got.comments), "comments", got.comments)
    got = read_all(pid, "--read-only")
    adds_up(got)
    check(any("The driver was not asked" in c for c in got.comments), "comments", got.comments)


def test_backtraces():
    """Python and native frames, libraries and build ids, and what is older than the recording; without code in the process."""
    with program("--record", "--native") as proc:
        got = read_all(pid_of(proc), "--read-only")
        recorded_is_right(got)
        check("libtorch_cpu.so" in dict(got.mappings), "libraries", got.mappings)


def recorded_is_right(got):
    adds_up(got)
    same_labels(got)
    same_stacks(got)
    same_backtraces(got)
    older = [s for s in got.samples if s.stack[0].name == "[older than the recording]"]
    want = got.json["pytorch"]["recorded"]["without"]["not_recorded"]["bytes"]
    equal(sum(s.bytes for s in older), want, "older than the recording")
    check(want and all(s.stack[1].name == "parameters" for s in older), "its owners", older[:1])
    equal(sorted(got.speedscope), ["GPU 0", "GPU 0: by owner"], "profiles for speedscope")
    equal(got.speedscope["GPU 0: by owner"].total(), sum(got.folded.values()), "by owner")


def test_many_devices():
    """Blocks without Python, on two devices, in private pools, on streams, and awaiting their free: which is not in use."""
    with Driver(versions()[-1], SIMCUDA_DEVICES="2") as driver:
        for command in ("alloc 100 5000", "private 20 100000", "stream 1", "pending 7 2000000", "alloc 5 30000000", "stream 0", "device 1",
                        "alloc 30 7000", "free 40"):
            driver(command)
        got = read_all(driver.pid, expect=ANY)
        adds_up(got)
        same_labels(got)
        same_stacks(got)
        equal({s.labels["device"] for s in got.samples}, {"cuda:0", "cuda:1"}, "devices")
        check({"default"} < {s.labels["stream"] for s in got.samples}, "streams")
        check(any("pool" in s.labels for s in got.samples), "private pools")
        check(any("until another stream is done with it" in c for c in got.comments), "awaiting their free", got.comments)
        equal(len(got.folded), 1, "folded")


# ---- memory that is not PyTorch's ----

def test_other_libraries():
    """Without PyTorch: each allocation of the driver, by the same bytes as the report's lines."""
    with Calls(env=dict(simulated())) as calls:
        every_kind(calls)
        got = read_all(calls.pid, expect=ANY)
        line = got.json["ledger"]["devices"][0]
        names = {"device": "device_memory", "pool": "pool"}
        want = {}
        for kind in ("device", "mapped", "data", "array", "pool", "graph"):
            of = line[names.get(kind, kind)]
            want[kind] = of["asked_bytes" if kind in ("pool", "graph") else "bytes"]
        equal(sums((s.labels["kind"], s.bytes) for s in got.samples), +collections.Counter(want), "kinds")
        equal(sum(s.count for s in got.samples), sum(r["kind"] not in ("host", "managed") for r in got.json["ledger"]["ranges"]), "allocations")
        adds_up(got)
        same_stacks(got)
        equal(sum(got.folded.values()), sum(want.values()), "folded, as there is nothing else")


def pools_of(got):
    return [p for p in got.json["libpools"]["pools"] if p["library"] == "cupy" and not p["host"]]


def read_settled(pid, *args):
    """Of a moment at which the pool did not change; at others what is in use is not known, and a comment says so."""
    for _ in range(20):
        got = read_all(pid, *args, expect=ANY)
        if all(p["state"] == "exact" for p in pools_of(got)):
            return got
        check(any("held by CuPy, of which nobody knows how much is in use" in c for c in got.comments), "comments", got.comments)
    raise Skip("CuPy's pool changes all the time")


def test_pools():
    """CuPy's pool: what it has handed out, with the owners of arrays; by its own books where the driver is not asked."""
    with CuPy(CUPY_VERSIONS[-1]) as cupy:
        allocate(cupy)
        cupy("import cupy; kept = cupy.empty(123456)")
        for args in ((), ("--read-only",)):
            got = read_settled(cupy.pid, *args)
            mine = [s for s in got.samples if s.labels["library"] == "cupy"]
            equal(sum(s.bytes for s in mine), sum(p["used_bytes"] for p in pools_of(got)), "bytes in use")
            equal({s.stack[0].name for s in mine}, {"[CuPy]"}, "the first frame")
            check(any("kept" in s.labels.get("owner", "") and "kept" in s.stack[-1].name for s in mine), "owners", mine[:3])
            adds_up(got)
            same_stacks(got)
            check(args or any("cached by CuPy" in c for c in got.comments), "comments", got.comments)


def test_communicators():
    """What NCCL's hold, as the report's line has it."""
    with Nccl("2072") as job:
        got = read_all(job.proc.pid, "--no-owners", expect=ANY)
        line = got.json["ledger"]["devices"][0]["claimed"]["nccl"]
        mine = [s for s in got.samples if s.labels["library"] == "nccl"]
        equal((sum(s.bytes for s in mine), sum(s.count for s in mine)), (line["bytes"], line["ranges"]), "bytes and allocations")
        equal({tuple(f.name for f in s.stack) for s in mine if s.count}, {("[NCCL]", "communicator")}, "stacks")
        adds_up(got)
        same_stacks(got)


# ---- threads ----

PROGRAM = """
import os, threading, time
def inner(n):
    os.read(n, 1)
def outer(n):
    inner(n)
for _ in range(4):
    threading.Thread(target=outer, args=(os.pipe()[0],), daemon=True).start()
time.sleep(0.2)
print("ready", flush=True)
time.sleep(600)
"""


def frames_of(thread):
    return tuple((f["function"], f["line"]) for f in reversed(thread["stack"]["frames"]))


def same_threads(process, stacks):
    """By what Python's frames say; native names are short in a profile."""
    want = collections.Counter(tuple(f for f in frames_of(t)) for t in process["threads"])
    equal(sums((tuple((name, line) for name, _, line in stack), n) for stack, n in stacks.items()), want, "threads")


def test_stacks():
    with target([sys.executable, "-c", PROGRAM], ready="ready") as one, target([sys.executable, "-c", PROGRAM], ready="ready") as other:
        time.sleep(0.3)
        pids = [str(one.pid), str(other.pid)]
        paths = [scratch("a.json"), scratch("b.json"), scratch("c")]
        options = list(itertools.chain(*zip(("--json", "--speedscope", "--folded"), paths)))
        vramtap("stacks", "--python", *options, *pids, expect=COMPLETE)
        data, folded = json.loads(text_of(paths[0])), read_folded(text_of(paths[2]))
        profiles, document = read_speedscope(text_of(paths[1]))
        equal({p["unit"] for p in document["profiles"]}, {"none"}, "unit")
        for process, pid in zip(data["processes"], pids):
            name = next(n for n in profiles if n.endswith(f"({pid})"))
            same_threads(process, profiles[name])
            equal(profiles[name].total(), 5, "threads")
            threads = {n: stacks for n, stacks in profiles.items() if n.startswith(name + ": thread ")}
            equal({int(n.split()[-2]): stacks.total() for n, stacks in threads.items()}, {t["tid"]: 1 for t in process["threads"]}, "each")
            equal(sum(threads.values(), collections.Counter()), profiles[name], "all of them")
            lines = {stack[1:]: n for stack, n in folded.items() if stack[0] == name}
            equal({tuple(f.partition(" (")[0] for f in stack): n for stack, n in lines.items()},
                  {tuple(f[0] for f in stack): n for stack, n in profiles[name].items()}, "folded")
        equal([n for n in profiles][:2], [n for n in profiles if ": " not in n], "processes come first")
        _, out, _ = vramtap("stacks", "--folded=-", pids[0], expect=COMPLETE)
        check(not out.startswith("python") and sum(read_folded(out).values()) == 5, "one process has no frame of its own", out)
        vramtap("stacks", "--folded=-", "--json=-", pids[0], expect=USAGE)


def test_triage():
    """A job: what its JSON says of the same moment (tests/unit/job/job_profile.py compares more of that)."""
    with contextlib.ExitStack() as stack:
        ranks = [stack.enter_context(target([sys.executable, "-c", PROGRAM], ready="ready",
                                            env=dict(os.environ, RANK=str(i), WORLD_SIZE="3"))) for i in range(3)]
        paths = [scratch("a.json"), scratch("b.json"), scratch("c")]
        options = list(itertools.chain(*zip(("--json", "--speedscope", "--folded"), paths)))
        vramtap("triage", "--quiet", *options, *(str(r.pid) for r in ranks), expect=ANY)
        data, folded = json.loads(text_of(paths[0])), read_folded(text_of(paths[2]))
        profiles, _ = read_speedscope(text_of(paths[1]))
        equal(len(data["members"]), 3, "processes")
        ((way, count),) = profiles["Ranks: main threads"].items()
        equal((count, way[0][0], way[-1][0]), (3, "<module>", "[ranks 0-2]"), "main threads")
        every = profiles["Ranks: all threads, every frame"]
        equal(every.total(), sum(len(m["threads"]) for m in data["members"]), "all threads")
        check(any([name for name, *_ in stack].count("outer") and n == 12 for stack, n in every.items()), "equal threads are one", every)
        equal(sum(folded.values()), sum(p.total() for name, p in profiles.items() if not name.endswith("every frame")), "folded")
        _, out, _ = vramtap("triage", "--folded=-", *(str(r.pid) for r in ranks), expect=ANY)
        check("[ranks 0-2]" in out and "Devices" not in out, "standard output", out)
        vramtap("triage", "--folded=-", "--json=-", str(ranks[0].pid), expect=USAGE)


if __name__ == "__main__":
    main(globals())
