#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reports of real PyTorch allocators that run on: what a report calls exact is exact, whatever the process does during the read; and reports of
allocators whose memory is damaged."""
import ctypes
import json
import os
import random
import re
import struct
import subprocess

import torch_truth
from harness import (BUILD, COMPLETE, NOTHING, PARTIAL, QUICK, check, compile_c, diag_codes, equal, main, proc_state, report_json,
                     scratch, vramtap, wait_until)
from report_torch import Driver, compare, for_each_version, versions

NO_EVENT = 4
PTRACE_SEIZE = 0x4206
REPLAY = os.path.join(BUILD, "tests/functional/torch_replay")


def compare_without_stop(driver, consistency=("unchanged",)):
    """A report without a stop equals the library's snapshot and statistics."""
    data = compare(driver, "--no-stop", expect=(COMPLETE, PARTIAL), method="outside")
    for allocator in data["pytorch"]["allocators"]:
        check(allocator["consistency"] in consistency, "consistency", allocator["consistency"])
        check(allocator["passes"] > 0, "passes", allocator["passes"])
    equal((data["timing"]["stopped_ms"], data["timing"]["blocks_stopped_ms"]), (0, 0), "time stopped")
    check(data["timing"]["blocks_read_ms"] > 0, "time that reading took", data["timing"])
    return data


def quiet(version):
    states = [["alloc 300 5000"], ["private 20 100000", "private 3 30000000"], ["stream 1", "pending 7 2000000", "stream 0"],
              ["free 40"], ["expandable on", "alloc 30 1500000", "free 200"], ["device 1", "alloc 3 30000000"], ["release"],
              ["free all", "emptycache"]]
    with Driver(version) as driver:
        compare_without_stop(driver, ("unchanged", "repeated"))  # nothing was ever counted
        for commands in states:
            for command in commands:
                driver(command)
            # Device 1 is empty, so that its counts prove nothing.
            compare_without_stop(driver, ("unchanged", "repeated"))
        driver("device 0")
        driver("alloc 300 5000")
        data = compare_without_stop(driver, ("unchanged", "repeated"))
        allocator = data["pytorch"]["allocators"][0]
        equal((allocator["consistency"], allocator["passes"]), ("unchanged", 1), "an allocator that nothing uses")
        check("consistent" in diag_codes(data), "no diagnostic says why it is exact", data["diagnostics"])


def test_quiet():
    for_each_version(quiet)


def rehearsed(version):
    """What was read before the stop and is still so is not read again; what has changed is."""
    with Driver(version) as driver:
        driver("alloc 12000 600")
        compare_without_stop(driver, ("unchanged", "repeated"))
        shares = []
        for _ in range(5):
            data = compare(driver, "--read-only", method="outside")
            equal(data["pytorch"]["allocators"][0]["consistency"], "stopped", "consistency")
            shares.append(data["timing"]["blocks_stopped_ms"] / data["timing"]["blocks_read_ms"])
        check(min(shares) < 0.3, "what was read before is read again while the process is stopped", shares)
        driver("busy 100")
        shares = []
        # Where other programs have the processors it may rest for the length of a pass.
        while len(shares) < (4 if QUICK else 100) or (max(shares) < 0.9 and len(shares) < 40):
            data = report_json(driver.pid, "--read-only", expect=(COMPLETE, PARTIAL))
            allocator = data["pytorch"]["allocators"][0]
            check(allocator["result"] == "complete" or allocator["lock"]["state"] == "held", "result", allocator["why"])
            if allocator["result"] == "complete":
                torch_truth.totals_agree([allocator])
            shares.append(data["timing"]["blocks_stopped_ms"] / data["timing"]["blocks_read_ms"] if allocator["result"] == "complete" else 0)
        driver("idle")
        check(max(shares) > 0.9, "it is read before the stop, though it changes all the time", shares)


def test_rehearsed():
    for_each_version(rehearsed)


def test_no_thread_is_stopped():
    """Where no thread can be stopped, all is as ever. (How threads are read is tested in stacks_no_stop.py.)"""
    with Driver("2.11.0") as driver:
        driver("alloc 300 5000")
        snapshot = driver.snapshot()[0]
        # No thread of a process with another tracer can be stopped.
        equal(ctypes.CDLL(None).ptrace(PTRACE_SEIZE, driver.pid, 0, 0), 0, "PTRACE_SEIZE")
        data = report_json(driver.pid, "--no-stop", expect=(COMPLETE, PARTIAL))
        torch_truth.same_blocks(torch_truth.of_report(data), snapshot, "the report")
        equal({t["taken"] for t in data["threads"]}, {"asleep"}, "how threads were read")


def lock_held(version):
    """A thread hangs in cudaMalloc and keeps the lock: two passes must agree, and do."""
    with Driver(version) as driver:
        driver("alloc 1000 3000")
        snapshot = driver.snapshot()[0]
        driver("holdlock")
        data = report_json(driver.pid, "--no-stop", expect=(COMPLETE, PARTIAL))
        allocator = data["pytorch"]["allocators"][0]
        equal((allocator["result"], allocator["consistency"]), ("complete", "repeated"), "an allocator whose lock is held")
        equal(allocator["lock"]["state"], "held", "the lock")
        check(allocator["lock"]["owner_tid"] in [t["tid"] for t in data["threads"]], "its holder", allocator["lock"])
        check("lock-held" in diag_codes(data), "no diagnostic says that the lock is held", data["diagnostics"])
        torch_truth.same_blocks(torch_truth.of_report(data), snapshot, "with the lock held")
        driver("unlock")


def test_lock_held():
    for_each_version(lock_held)


class Memory:
    """The memory of a process, from outside; what was written is put back at the end."""

    def __init__(self, pid):
        self.fd = os.open(f"/proc/{pid}/mem", os.O_RDWR)
        self.old = []

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        for address, data in reversed(self.old):
            os.pwrite(self.fd, data, address)
        os.close(self.fd)

    def word(self, address):
        return struct.unpack("<Q", os.pread(self.fd, 8, address))[0]

    def set(self, address, value):
        self.old.append((address, os.pread(self.fd, 8, address)))
        os.pwrite(self.fd, struct.pack("<Q", value & (1 << 64) - 1), address)


# c10::CachingDeviceAllocator::DeviceStats in a DeviceCachingAllocator: nine arrays of three Stat{current, peak, allocated, freed},
# the last three of them behind what 2.13 put in between.
STATS, ARRAY = 40, 96
EXTRA = {"2.11.0": 0, "2.15.0": 32}


def stats_of(version):
    return [STATS + i * ARRAY + (EXTRA[version] if i >= 6 else 0) for i in range(9)]


def test_counts_that_were_set_back():
    """As torch.cuda.reset_accumulated_memory_stats() does: equal counts prove little then, two equal passes do."""
    with Driver("2.11.0") as driver:
        driver("alloc 1000 3000")
        snapshot = driver.snapshot()[0]
        dca = int(report_json(driver.pid, "--no-stop")["pytorch"]["allocators"][0]["object"], 16)
        with Memory(driver.pid) as memory:
            for at in stats_of("2.11.0"):
                memory.set(dca + at + 16, 0)
                memory.set(dca + at + 24, 0)
            data = report_json(driver.pid, "--no-stop")
            equal(data["pytorch"]["allocators"][0]["consistency"], "repeated", "consistency")
            torch_truth.same_blocks(torch_truth.of_report(data), snapshot, "with counts that were set back")


# Loaded into the driver, and into nothing that leads to it.
CANNOT_BE_STOPPED = r"""
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static void *in_vfork(void *arg)
{
	if (vfork() == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			syscall(SYS_pause);
	}
	return arg;
}

__attribute__((constructor)) static void start(void)
{
	pthread_t thread;

	if (!strcmp(program_invocation_short_name, "c10_driver"))
		pthread_create(&thread, NULL, in_vfork, NULL);
}
"""


def test_a_thread_that_cannot_be_stopped():
    """It may be the one that allocates: the statistics prove that it did not, or two passes must agree."""
    library = compile_c(CANNOT_BE_STOPPED, "-shared", "-fPIC", "-pthread")
    with Driver("2.11.0", LD_PRELOAD=library) as driver:
        driver("alloc 1000 3000")
        snapshot = driver.snapshot()[0]
        wait_until(lambda: any(proc_state(f"{driver.pid}/task/{tid}") == "D" for tid in os.listdir(f"/proc/{driver.pid}/task")),
                   20, "a thread in vfork()")
        with Memory(driver.pid) as memory:
            for consistency in ("unchanged", "repeated"):
                data = report_json(driver.pid, "--read-only", expect=(COMPLETE, PARTIAL))
                check("asleep" in {t["taken"] for t in data["threads"]}, "every thread was stopped", data["threads"])
                allocator = data["pytorch"]["allocators"][0]
                equal(allocator["consistency"], consistency, "consistency")
                torch_truth.same_blocks(torch_truth.of_report(data), snapshot, consistency)
                for at in stats_of("2.11.0"):
                    memory.set(int(allocator["object"], 16) + at + 16, 0)
                    memory.set(int(allocator["object"], 16) + at + 24, 0)


# ---- while it is in use ----

def walks(version):
    """Walks without a stop while a thread allocates and frees, as fast as it can and with pauses; what the thread had is known."""
    number = 1250 if QUICK else 10000
    for usec in (0, 20, 200, 2000):
        with Driver(version) as driver:
            driver("alloc 300 7000")
            driver(f"busy {usec}")
            done = subprocess.run([REPLAY, str(driver.pid), str(number), "300", "7000"], stdin=subprocess.DEVNULL, timeout=300,
                                  capture_output=True, text=True, check=False)
            print(f"  PyTorch {version}, {usec} us between two operations: {done.stdout.strip()}", flush=True)
            check(done.returncode == 0 and " 0 wrong" in done.stdout, "a wrong walk", done.stdout, done.stderr)
            certain, unstable = (int(re.search(rf"(\d+) {word}", done.stdout).group(1)) for word in ("certain", "unstable"))
            # A thread that does nothing else leaves no moment for a walk, where it has a processor for itself.
            check(certain > 0 or usec < 200, "no walk was certain", done.stdout)
            check(unstable > 0 or usec > 20, "the target did nothing", done.stdout)
            driver("idle")
            compare_without_stop(driver, ("unchanged", "repeated"))


def test_walks():
    for_each_version(walks)


def check_report(data):
    """Exact with a reason, or marked: then there is no sum, and the report is not complete."""
    exact = 0
    for allocator in data["pytorch"]["allocators"]:
        if allocator["result"] == "complete":
            exact += 1
            torch_truth.totals_agree([allocator])
            equal(allocator["totals"]["allocated"]["bytes"], allocator["statistics"]["allocated_bytes"]["current"], "in use")
            check(allocator["consistency"] in ("unchanged", "repeated"), "consistency", allocator["consistency"])
        else:
            equal((allocator["totals"], allocator["consistency"], allocator["groups"]), (None, None, []), "sums of what is not exact")
            equal(data["completeness"], "partial", "completeness of what is not exact")
            check(diag_codes(data) & {"walk-unstable", "walk-refused"}, "no diagnostic says so", data["diagnostics"])
    return exact


def reports(version):
    for usec in (0, 200, 20000):
        with Driver(version) as driver:
            driver("alloc 2000 7000")
            driver(f"busy {usec}")
            number = (6 if usec else 3) if QUICK else 300
            datas = [report_json(driver.pid, "--no-stop", "--timeout", "1", expect=(COMPLETE, PARTIAL)) for _ in range(number)]
            exact = sum(check_report(data) == len(data["pytorch"]["allocators"]) for data in datas)
            passes = [max(a["passes"] for a in data["pytorch"]["allocators"]) for data in datas]
            print(f"  PyTorch {version}, {usec} us between two operations: {exact} of {number} reports exact, "
                  f"after {min(passes)} to {max(passes)} passes", flush=True)
            check(usec < 20000 or exact > 0, "a process that pauses is never read as of one moment", datas[0]["diagnostics"])
            driver("idle")


def test_reports():
    for_each_version(reports)


def stopped_look(driver, tries=20):
    """What watch --grow saves of a look for which it stopped the process: where nothing may run in it, and the blocks do not settle."""
    path = scratch("grow.json")
    for _ in range(tries):
        code, out, err = vramtap("watch", "--grow", "--read-only", "--every=1s", "--timeout=1s", "--then", path, str(driver.pid))
        check(code in (NO_EVENT, NOTHING), f"exit code {code}", out, err)  # NOTHING: in the middle of an operation
        if code == NO_EVENT:
            with open(path, encoding="ascii") as file:
                data = json.load(file)
            if data["timing"]["stopped_ms"] > 0:
                return data
    raise AssertionError("the blocks settle each time: nothing was stopped")


def test_memory_alone_stops_without_stacks():
    with Driver(versions()[-1]) as driver:
        driver("alloc 60000 700")
        driver("busy 20")
        data = stopped_look(driver)
        driver("idle")
    allocator = data["pytorch"]["allocators"][0]
    equal((allocator["result"], allocator["consistency"], allocator["passes"]), ("complete", "stopped", 0), "how it was read")
    check(allocator["totals"]["allocated"]["blocks"] >= 60000, "blocks that were there all the time", allocator["totals"])
    torch_truth.totals_agree([allocator])
    equal(allocator["totals"]["allocated"]["bytes"], allocator["statistics"]["allocated_bytes"]["current"], "in use")
    equal((data["threads"], data["timing"]["stacks_ms"]), ([], 0), "what was not asked for: threads, time spent on stacks")


# ---- damage ----

BLOCK = {"2.11.0": 168, "2.15.0": 168}
# Offsets in a Block of 2.11 to 2.15, as PyTorch's source and its debug information have them.
SIZE, REQUESTED, PTR, ALLOCATED, PREV, NEXT = 56, 64, 80, 88, 96, 104


def recheck(memory, version, allocator):
    """What a report says to be exact, from the memory itself."""
    blocks = [b for s in allocator["segments"] for b in s["blocks"]]
    by_object = {int(b["object"], 16): b for b in blocks}
    equal(len(by_object), len(blocks), "blocks with an object of their own")
    for address, block in by_object.items():
        start, size = int(block["address"], 16), block["bytes"]
        equal((memory.word(address + PTR), memory.word(address + SIZE)), (start, size), "address and size of a block")
        after = memory.word(address + NEXT)
        check(not after or int(by_object[after]["address"], 16) == start + size, "the block after a block", block)
        before = memory.word(address + PREV)
        check(not before or int(by_object[before]["address"], 16) + by_object[before]["bytes"] == start, "the block before", block)
    states = [(b["state"], b["bytes"]) for b in blocks]
    active = sum(size for state, size in states if state in ("allocated", "awaiting-free"))
    dca, stats = int(allocator["object"], 16), stats_of(version)
    for at, value in ((stats[0], sum(state == "allocated" for state, _ in states)), (stats[6], active),
                      (stats[4], sum(size for state, size in states if state == "allocated")),
                      (stats[5], sum(size for state, size in states if state != "unmapped"))):
        equal(memory.word(dca + at), value, f"the statistic at {at}")


def damage(rng, memory, version, blocks, dca):
    """Changes a word or a few; returns what was done."""
    done = []
    for _ in range(rng.choice((1, 1, 2, 4))):
        address = rng.choice(blocks) + rng.randrange(0, BLOCK[version], 8) if rng.random() < 0.6 else dca + rng.randrange(0, 1500, 8)
        old = memory.word(address)
        new = rng.choice((0, old + 512, old - 512, old ^ 1 << rng.randrange(64), rng.choice(blocks), rng.getrandbits(64), old + 8, 1))
        memory.set(address, new)
        done.append(f"{address:#x}: {old:#x} became {new & (1 << 64) - 1:#x}")
    return done


def damaged(version):
    rng = random.Random(version)
    results = {}
    with Driver(version) as driver:
        for command in ("alloc 200 5000", "private 4 100000", "alloc 20 3000000", "free 60", "expandable on", "alloc 9 30000000",
                        "free 5"):
            driver(command)
        data = report_json(driver.pid, "--no-stop")
        allocator = data["pytorch"]["allocators"][0]
        blocks = [int(b["object"], 16) for s in allocator["segments"] for b in s["blocks"]]
        dca = int(allocator["object"], 16)
        for i in range(24 if QUICK else 2000):
            with Memory(driver.pid) as memory:
                done = damage(rng, memory, version, blocks, dca)
                options = ("--no-stop", "--timeout", "1") if i % 2 else ("--read-only",)
                data = report_json(driver.pid, *options, expect=(COMPLETE, PARTIAL, NOTHING))
                for allocator in data["pytorch"]["allocators"]:
                    results[allocator["result"]] = results.get(allocator["result"], 0) + 1
                    if allocator["result"] != "complete":
                        equal(allocator["totals"], None, f"totals of what is {allocator['result']}")
                        check(data["completeness"] != "complete", "damaged, but called complete", done)
                    elif allocator["device"] == 0:
                        try:
                            recheck(memory, version, allocator)
                        except (AssertionError, KeyError) as error:
                            raise AssertionError(f"wrong: {error}; {done} {options}") from error
        compare_without_stop(driver, ("unchanged", "repeated"))
    print(f"  PyTorch {version}: {', '.join(f'{n} {name}' for name, n in sorted(results.items()))}", flush=True)
    check(results.get("refused"), "no damage was found", results)


def test_damaged_memory():
    for_each_version(damaged)


if __name__ == "__main__":
    main(globals())
