# SPDX-License-Identifier: Apache-2.0
"""What the tests and benchmarks of the recorder share: jobs to record, the commands, what the kernel says of the recorder's memory,
and the comparison of each block's backtrace with PyTorch's own."""
import contextlib
import json
import os
import re
import sys

import nursery
import torch_history
from harness import COMPLETE, PARTIAL, SOURCE, Job, check, equal, report_json, scratch, simulated_python, vramtap

TARGET = os.path.join(SOURCE, "tests", "targets", "torch_recorder.py")
EITHER = (COMPLETE, PARTIAL)
LIBRARY = "/memfd:vramtap-recorder-"


def python_of(version):
    """The command of a Python with PyTorch: of that version on the simulated device, or (None) the installed one on a real device."""
    return [sys.executable] if version is None else simulated_python(version)


class Recorded(Job):
    """torch_recorder.py, run by PyTorch of this version (None: the installed one), or by a command that runs Python."""

    def __init__(self, version=None, command=None, env=None, args=(), **kwargs):
        self.where = scratch()
        defaults = {"TORCH_SYMBOLIZE_MODE": "dladdr", "CUBLAS_WORKSPACE_CONFIG": ":4096:8", "PYTHONWARNINGS": "ignore"}
        if version is not None:
            defaults.update(SIMCUDA_CTL=os.path.join(self.where, "control"), SIMCUDA_DEVICES="1", SIMCUDA_MEM_MB="2048")
        self.env = dict(os.environ, **{**defaults, **(env or {})})
        if version and not (command or kwargs):
            self.context = nursery.child(version, [TARGET, *args], env=self.env, cwd=self.where)
        else:
            super().__init__([*(command or python_of(version)), TARGET, *args], env=self.env, cwd=self.where, **kwargs)

    def __enter__(self):
        super().__enter__()
        self.pid = int(self.proc.ready_line.partition("pid=")[2])  # not that of "vramtap run"
        return self

    def answer(self, command="?"):
        for line in self.proc.stdout:
            with contextlib.suppress(ValueError):  # a library that prints
                answer = json.loads(line)
                check(not (isinstance(answer, dict) and "error" in answer), f"the job could not do {command!r}", answer)
                return answer
        raise AssertionError(f"the job ended at {command!r}, status {self.proc.wait()}")

    def __call__(self, *words):
        command = " ".join(str(word) for word in words)
        self.start(command)
        return self.answer(command)

    def snapshot(self):
        path = os.path.join(self.where, "snapshot")
        self("snapshot", path)
        return torch_history.read_snapshot(path)

    def on(self, *options, expect=EITHER):
        return record(self.pid, "on", *options, expect=expect)

    def off(self, expect=EITHER):
        return record(self.pid, "off", expect=expect)

    def status(self):
        return status(self.pid)

    def report(self, *options, expect=EITHER):
        """What blocks were made by; what they are is no matter here, and takes far longer to read."""
        return report_json(self.pid, "--no-owners", *options, expect=expect)

    def unharmed(self):
        equal(self("compute"), True, "what the job computes")


def record(pid, what, *options, expect=COMPLETE):
    """vramtap record; returns what it printed."""
    _, out, err = vramtap("record", str(pid), what, *options, expect=expect)
    return out + err


def status(pid):
    """vramtap record PID status, as data."""
    _, out, _ = vramtap("record", str(pid), "status", "--json", "-", expect=EITHER)
    return json.loads(out)


# ---- what the kernel says ------------------------------------------------------------------------

LINE = re.compile(r"^([0-9a-f]+)-([0-9a-f]+) (\S+) \S+ \S+ (\d+) *(.*)$")


def mappings(pid):
    """{first address: {"bytes", "perms", "name", "Rss" (bytes), "VmFlags" (set)}}"""
    out, at = {}, None
    with open(f"/proc/{pid}/smaps", encoding="utf-8", errors="replace") as file:
        for line in file:
            found = LINE.match(line)
            if found:
                low, high = int(found[1], 16), int(found[2], 16)
                at = out[low] = {"bytes": high - low, "perms": found[3], "name": found[5], "Rss": 0, "VmFlags": set()}
            elif line.startswith("Rss:"):
                at["Rss"] = int(line.split()[1]) << 10
            elif line.startswith("VmFlags:"):
                at["VmFlags"] = set(line.split()[1:])
    return out


def is_table(mapping):
    """What the recorder maps: anonymous, not inherited by children (MADV_DONTFORK), which is rare."""
    return mapping["name"].startswith(("[anon", "")) and not mapping["name"].startswith("/") and "dc" in mapping["VmFlags"] and \
        mapping["perms"].startswith("rw")


def tables(pid, before=()):
    """Bytes that are mapped for the recorder's tables, and those of them that are in memory; before: mappings of others."""
    mine = [m for low, m in mappings(pid).items() if is_table(m) and low not in before]
    return sum(m["bytes"] for m in mine), sum(m["Rss"] for m in mine)


def table_addresses(pid):
    return {low for low, m in mappings(pid).items() if is_table(m)}


def libraries(pid):
    """Recorder libraries that are mapped, by name."""
    return {m["name"].split()[0] for m in mappings(pid).values() if m["name"].startswith(LIBRARY)}


def descriptors(pid):
    out = []
    for fd in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(FileNotFoundError):
            out.append(os.readlink(f"/proc/{pid}/fd/{fd}"))
    return sorted(out)


def threads(pid):
    return sorted(int(tid) for tid in os.listdir(f"/proc/{pid}/task"))


# ---- backtraces ------------------------------------------------------------------------------------

OURS = "vramtap"  # source of a backtrace that the recorder took


def backtrace_of(data, block):
    recorded = data["pytorch"]["recorded"]
    return recorded["backtraces"][block["backtrace"]] if recorded and "backtrace" in block else None


def is_ours(data, block):
    trace = backtrace_of(data, block)
    return trace is not None and trace["source"] == OURS


def python_frames(frames):
    return [f for f in frames if f["kind"] == "python"]


def names(data, block):
    """Names of the Python functions of a block's backtrace, innermost first, without what they are defined in; None: it has none."""
    frames = torch_history.frames_of(data, block)
    return None if frames is None else [(f["function"] or "").rpartition(".")[2] for f in python_frames(frames)]


def recorded_blocks(data):
    """Blocks in use that have a backtrace of ours."""
    return [b for b in torch_history.blocks_of(data).values() if is_ours(data, b)]


class Agreement:
    """How many frames of ours are PyTorch's, by kind, and what is not."""

    def __init__(self):
        self.blocks = self.python = self.native = self.cut = self.not_ours = self.ends_early = 0
        self.wrong = []

    def __str__(self):
        return (f"{self.blocks} blocks compared, {self.python} Python and {self.native} native frames agree, {len(self.wrong)} blocks do "
                f"not; {self.cut} backtraces are cut, native frames of {self.ends_early} end early, {self.not_ours} blocks were not recorded by us")


def differ(ours, theirs):
    """The first difference of two lists, for people."""
    at = next((i for i, (a, b) in enumerate(zip(ours, theirs)) if a != b), min(len(ours), len(theirs)))
    return {"frame": at, "ours": ours[max(0, at - 1):at + 2], "theirs": theirs[max(0, at - 1):at + 2], "of": (len(ours), len(theirs))}


def without_inserted(got, want):
    """PyTorch puts in, behind a frame of code that its compiler has generated, the places that the code was made of
    (PyCodeCache.stack_frames_for_code): frames that were never called."""
    out, generated = [], False
    for frame in want:
        if generated and (len(out) == len(got) or frame != got[len(out)]):
            continue
        out.append(frame)
        generated = "torchinductor" in frame[0]
    return out


def look_at_python(agreement, ours, theirs):
    """Ours are cut at their outer end where there are more than the recorder keeps."""
    got = [(f["file"], f["line"] or 0, f["function"].rpartition(".")[2]) for f in python_frames(ours)]
    want = [(f["filename"], f["line"], f["name"]) for f in theirs if torch_history.is_python(f)]
    if len(want) > MAX_FRAMES:
        agreement.cut += 1
        want = want[:MAX_FRAMES]
    want = without_inserted(got, want)
    if got != want:
        return differ(got, want)
    agreement.python += len(got)
    return None


def place(frame):
    return f"{frame['module']}+{frame['module_offset']}"


def look_at_native(agreement, ours, theirs):
    """PyTorch's begin in its recorder, ours in the allocator's caller; from there on all of PyTorch's are ours, but for those of the
    interpreter, which the report merges. How a function's frames end is not the same for both: PyTorch's unwinder gives up sometimes."""
    got = [place(f) for f in ours if f["kind"] == "native" and not f["inlined"]]
    native = [f for f in theirs if not torch_history.is_python(f)]
    want = [f"{torch_history.library(f['filename'])}+{f['line'] + 1:#x}" for f in native]
    if not got or not want:
        return None if not want else differ(got, want)
    if got[0] not in want:
        return differ(got, want)
    from_ours = [(p, f) for p, f in zip(want[want.index(got[0]):], native[want.index(got[0]):])]
    want = [p for p, f in from_ours if p in got or not torch_history.may_be_left_out(f)]
    shorter = min(len(got), len(want))
    agreement.ends_early += len(got) < len(want)
    if got[:shorter] != want[:shorter] or len(got) < len(want) < MAX_FRAMES:
        return differ(got, want)
    agreement.native += shorter
    return None


MAX_FRAMES = 128  # VT_RECORDER_MAX_PYTHON, VT_RECORDER_MAX_NATIVE


def agree(data, theirs, *looks):
    """Compares each block that both have recorded. theirs: blocks of PyTorch's snapshot, nothing allocated or freed since the report."""
    agreement = Agreement()
    for address, block in torch_history.blocks_of(data).items():
        check(address in theirs, f"the block at {address:#x} is not in the snapshot", block)
        want = theirs[address]["frames"]
        if not want:
            continue
        if not is_ours(data, block):
            agreement.not_ours += 1
            continue
        agreement.blocks += 1
        for look in looks:
            wrong = look(agreement, torch_history.frames_of(data, block), want)
            if wrong:
                agreement.wrong.append({"address": hex(address), "bytes": block["bytes"], **wrong})
    return agreement


def places_agree(job, repeat, at_least, *looks):
    """PyTorch's history and the recorder on together, then blocks from all kinds of places; returns the agreement."""
    job.on("--both")
    job("history", "all")
    made = job("places", repeat)
    job("history", "off")
    data, theirs = job.report(), job.snapshot()
    job.off()
    agreement = agree(data, theirs, *looks)
    print(f"  {len(theirs)} blocks, torch.compile {made['compiled']}: {agreement}")
    check(agreement.blocks >= at_least and not agreement.not_ours, "too few to compare", str(agreement), data["diagnostics"])
    return agreement


def nothing_wrong(agreement):
    check(not agreement.wrong, f"{agreement}; the first that do not:", *agreement.wrong[:3])
