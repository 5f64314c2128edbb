# SPDX-License-Identifier: Apache-2.0
"""What the kernel shows of a process from outside, before and after."""
import contextlib
import os

PENDING = "SigPnd", "ShdPnd"
KEPT = "SigBlk", "SigPnd", "SigIgn", "SigCgt", "ShdPnd"


def status(pid, tid=None):
    """/proc/PID/status as a dictionary; empty if there is no such thread."""
    try:
        with open(f"/proc/{pid}/task/{tid}/status" if tid else f"/proc/{pid}/status", encoding="utf-8", errors="replace") as file:
            return dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)
    except (FileNotFoundError, ProcessLookupError):
        return {}


def entries(pid, what):
    try:
        return os.listdir(f"/proc/{pid}/{what}")
    except FileNotFoundError:
        return []


def statuses(pid):
    return {tid: found for tid in entries(pid, "task") if (found := status(pid, tid))}


def disturbed(pid):
    """Threads that are stopped or traced, in words."""
    return [f"thread {tid} ({s['Name']}) is {s['State']}, traced by {s['TracerPid']}" for tid, s in statuses(pid).items()
            if s["State"][0] in "tT" or s["TracerPid"] != "0"]


def children(pid):
    found = []
    for tid in entries(pid, "task"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError), open(f"/proc/{pid}/task/{tid}/children", encoding="ascii") as file:
            found += file.read().split()
    return found


# What is put into a process lies where nothing else does (tests/functional/census.h), but for the recorder, which its loader loads.
RANGE = range(1 << 44, (1 << 44) + (1 << 46))
RECORDER_MAPPINGS = 3


def maps(pid, by_range):
    """(number of all mappings, of the recorder's, of other ones of ours)"""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError), open(f"/proc/{pid}/maps", encoding="utf-8", errors="replace") as file:
        lines = file.readlines()
        recorder = sum("/memfd:vramtap-recorder" in line for line in lines)
        named = sum("/memfd:vramtap" in line or (by_range and int(line.split("-")[0], 16) in RANGE) for line in lines)
        return len(lines), recorder, named - recorder
    return 0, 0, 0


def ours(pid):
    """Threads that vramtap started."""
    return [tid for tid, s in statuses(pid).items() if s["Name"] == "vramtap"]


class Census:
    def __init__(self, pid, tids, by_range=True):
        """tids: of threads that are there as long as the process."""
        found = statuses(pid)
        whole = status(pid)
        self.signals = {(tid, key): {found[tid][key]} for tid in map(str, tids) if tid in found for key in KEPT}
        self.threads, self.descriptors, self.children = len(found), len(entries(pid, "fd")), len(children(pid))
        self.maps, self.recorder, self.ours = maps(pid, by_range)
        self.locked = whole.get("VmLck")
        self.rest = {key: whole.get(key) for key in ("Uid", "Gid", "Groups", "Seccomp", "NoNewPrivs", "CapEff", "CoreDumping", "THP_enabled")}

    def add(self, other):
        """What may be this way or that: the C library blocks all signals for a moment while it makes a thread."""
        for one, seen in other.signals.items():
            self.signals.setdefault(one, set()).update(seen)
