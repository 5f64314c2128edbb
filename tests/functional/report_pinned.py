#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Pinned host memory of real PyTorch on the simulated device: the report against what PyTorch and the program say of it."""
import json
import os
import re
import signal
import subprocess
import time

from harness import (COMPLETE, PARTIAL, QUICK, SOURCE, check, check_schema, diag_codes, equal, main, report, report_json, scratch,
                     simulated_python, target)



def versions():
    """VRAMTAP_TORCH_VERSIONS names others, in VRAMTAP_CACHE."""
    if os.environ.get("VRAMTAP_TORCH_VERSIONS"):
        return os.environ["VRAMTAP_TORCH_VERSIONS"].split()
    with open(os.path.join(SOURCE, "tests", "setup", "torch-versions"), encoding="ascii") as file:
        return [line.strip() for line in file if line.strip() and not line.startswith("#")]


class Process:
    """A process that runs torch_pinned.py."""

    def __init__(self, python, **env):
        program = os.path.join(SOURCE, "tests", "targets", "torch_pinned.py")
        self.context = target([*python, "-W", "ignore", program], ready="READY", bufsize=0, env=dict(os.environ, **env))

    def __enter__(self):
        self.proc = self.context.__enter__()
        self("nothing")
        self.pid = self.truth["pid"]
        self.version = tuple(int(part) for part in self.truth["torch"].split(".")[:2])
        return self

    def __exit__(self, *exc):
        return self.context.__exit__(*exc)

    def send(self, command):
        self.proc.stdin.write(command.encode() + b"\n")

    def __call__(self, command):
        self.send(command)
        answer = self.proc.stdout.readline().decode()
        check(answer.startswith("ok "), f"the answer to {command!r}: {answer!r}")
        self.truth = json.loads(answer[3:])
        return self.truth


class Pinned(Process):
    """The same with PyTorch of one version on the simulated device."""

    def __init__(self, version, **env):
        super().__init__(simulated_python(version), SIMCUDA_CTL=scratch("control"), **env)


def amounts(blocks):
    return {"bytes": sum(b["bytes"] for b in blocks), "blocks": len(blocks)}


def of_state(pinned, state):
    return [b for b in pinned["blocks"] if b["state"] == state]


def adds_up(pinned):
    """The report agrees with itself."""
    equal(pinned["result"], "complete", f"result ({pinned['why']})")
    equal(pinned["all"], amounts(pinned["blocks"]), "all")
    for state in ("allocated", "awaiting-free", "cached"):
        equal(pinned["totals"][state.replace("-", "_")], amounts(of_state(pinned, state)), state)
    equal(pinned["totals"]["private_pools"], amounts([b for b in pinned["blocks"] if b["private_pool"]]), "private pools")
    equal(pinned["totals"]["largest_cached_bytes"], max([b["bytes"] for b in of_state(pinned, "cached")], default=0), "largest")
    equal(len({b["address"] for b in pinned["blocks"]}), len(pinned["blocks"]), "addresses")


def agrees_with_stats(pinned, stats, version):
    """host_memory_stats(): of the cached ones too, and of those in use."""
    if stats is None:
        return
    names = ("segment", "reserved_bytes") if version < (2, 9) else ("allocations", "allocated_bytes")
    ours = pinned["all"]["blocks"], pinned["all"]["bytes"]
    equal(ours, tuple(stats[name + ".current"] for name in names), "blocks and bytes")
    active = amounts([b for b in pinned["blocks"] if b["state"] != "cached"])
    names = ("allocation", "allocated_bytes") if version < (2, 9) else ("active_requests", "active_bytes")
    if not (2, 9) <= version < (2, 13):  # there PyTorch counts one block more than once (2.11.0)
        equal((active["blocks"], active["bytes"]), tuple(stats[name + ".current"] for name in names), "in use or awaiting")
    check(pinned["own_totals_agree"] or not pinned["blocks"], "the allocator's own totals were not found")


def compare(process, *args, expect=COMPLETE):
    """One report; every tensor that the program has must be a block in use, and no other."""
    data = report_json(process.pid, "--no-owners", *args, expect=expect)
    pinned = data["pytorch"]["pinned_host_memory"]
    equal(pinned["state"], "native", f"state ({data['diagnostics']})")
    adds_up(pinned)
    live = dict(process.truth["live"])
    ours = {int(b["address"], 16): b["bytes"] for b in of_state(pinned, "allocated")}
    equal(sorted(ours), sorted(live), "addresses of the blocks in use")
    for address, size in live.items():
        check(size <= ours[address] < 2 * max(size, 1) or process.version < (2, 5), "size of a block", size, ours[address])
        check(ours[address] & (ours[address] - 1) == 0, "a size that is no power of two", ours[address])
    agrees_with_stats(pinned, process.truth["stats"], process.version)
    return pinned


def lists_all_blocks(process, pinned):
    _, out, _ = report(process.pid, "--no-owners", "--blocks", "--width", "160", expect=(COMPLETE, PARTIAL))
    text = out[out.index("Blocks of pinned host memory"):]
    listed = re.findall(r"^ +(0x[0-9a-f]+) .*(in use|awaiting free|cached)", text, re.MULTILINE)
    words = {"allocated": "in use", "awaiting-free": "awaiting free", "cached": "cached"}
    equal(listed, [(b["address"], words[b["state"]]) for b in pinned["blocks"]], "the blocks that --blocks lists")


def all_kinds(version):
    with Pinned(version) as process:
        before = report_json(process.pid, expect=(COMPLETE, PARTIAL))["pytorch"]["pinned_host_memory"]
        check(before["state"] in ("native", "not initialised") and not before["blocks"], "before it is used", before)
        process("init")
        out = report(process.pid, expect=COMPLETE)[1]
        check("Pinned host memory" not in out, "a table of no pinned memory", out)
        for command in ("empty 10 1000", "drop 4", "pin 5 3000", "loader 4", *(f"random {s} 300" for s in range(1 if QUICK else 50))):
            process(command)
            pinned = compare(process)
        compare(process, "--read-only", expect=(COMPLETE, PARTIAL))
        if process.version >= (2, 11):
            process("graph 5000")
            process("graph 50000")
            pinned = compare(process)
            equal(sorted(b["bytes"] for b in pinned["blocks"] if b["private_pool"]), [8192, 65536], "private pools")
        follows_the_schema(process)
        in_a_child(process)
        process("empty_cache")
        compare(process)
        much_is_a_headline(process)
        pinned = waits_and_uses(process)
        lists_all_blocks(process, pinned)


def waits_and_uses(process):
    process("using 2 70000")
    process("pending 3 100000")
    pinned = compare(process)
    awaiting, using = of_state(pinned, "awaiting-free"), [b for b in pinned["blocks"] if b["streams"]]
    equal([(b["bytes"], b["events"]) for b in awaiting], [(131072, 1)] * 3, "blocks that wait for the device")
    equal([(b["bytes"], b["events"]) for b in using if not b["private_pool"]], [(131072, 0)] * 2, "blocks that it uses")
    return pinned


def follows_the_schema(process):
    check_schema(report_json(process.pid))


def in_a_child(process):
    """A child has a copy of the allocator, not the memory."""
    child = process("fork")["child"]
    try:
        for args in ((), ("--read-only",)):
            data = report_json(child, *args, expect=(COMPLETE, PARTIAL))
            pinned = data["pytorch"]["pinned_host_memory"]
            check(pinned["state"] in ("inherited", "not initialised") and not pinned["blocks"], "of a child", pinned)
            check(not any(d["stage"] == "pinned" for d in data["diagnostics"]), "of a child", data["diagnostics"])
    finally:
        os.kill(child, signal.SIGKILL)
    process("nothing")


def much_is_a_headline(process):
    """Memory that is not in use is worth a line; and it is no memory of the device."""
    address = {address for address, _ in process.truth["live"]}
    process("empty 1 1500000000")
    check("pinned-cached" not in {h["code"] for h in report_json(process.pid)["headlines"]}, "a headline of memory in use")
    (big,) = {address for address, _ in process.truth["live"]} - address
    process(f"drop_address {big}")
    data = report_json(process.pid)
    (text,) = [h["text"] for h in data["headlines"] if h["code"] == "pinned-cached"]
    check(text.startswith("2.00 GiB of host memory is pinned, cached by PyTorch and not in use (of 2"), "headline", text)
    check(all(a["totals"]["reserved_bytes"] < 1 << 30 for a in data["pytorch"]["allocators"]), "sums of the device")
    process("empty_cache")


def test_all_kinds():
    for version in versions():
        all_kinds(version)


def changing(process, kept):
    """Either every sum is right, or none is printed and the report says why."""
    complete = 0
    for _ in range(4 if QUICK else 200):
        data = report_json(process.pid, "--read-only", "--no-owners", expect=(COMPLETE, PARTIAL))
        pinned = data["pytorch"]["pinned_host_memory"]
        if pinned["result"] != "complete":
            check(pinned["totals"] is None, "sums of an allocator that changed", pinned["result"])
            check(diag_codes(data) & {"pinned-unstable", "pinned-truncated"}, "no diagnostic", data["diagnostics"])
            continue
        complete += 1
        adds_up(pinned)
        check(pinned["own_totals_agree"] or pinned["lock_owner_tid"] or process.version < (2, 7), "the allocator's own totals")
        check(kept <= {b["address"] for b in of_state(pinned, "allocated")}, "tensors that are missing")
        check(all(b["bytes"] & (b["bytes"] - 1) == 0 for b in pinned["blocks"]), "sizes", pinned["blocks"])
    return complete


def test_changing():
    """Read while blocks are taken and given back, and while they are made and freed as well."""
    for version in versions()[-1:] if QUICK else versions():
        with Pinned(version) as process:
            kept = {hex(address) for address, _ in process("empty 20 5000")["live"]}
            process("churn 3000 50")
            complete = changing(process, kept)
            process("churn 3000 -50")
            check(complete + changing(process, kept), "it was never read completely")


def test_lock_held():
    """A thread gives memory back (of malloc(), pinned by registering it), and is stuck in the driver with the lock."""
    for version in versions()[-1:] if QUICK else versions():
        with Pinned(version, SIMCUDA_FAULT="cudaHostUnregister:block,cudaFreeHost:block",
                    PYTORCH_CUDA_ALLOC_CONF="pinned_use_cuda_host_register:True") as process:
            process("empty 8 5000")
            compare(process)
            process("drop 4")
            process.send("empty_cache")
            for _ in range(600):  # until it is there
                data = report_json(process.pid, "--read-only", "--no-owners", expect=(COMPLETE, PARTIAL))
                pinned = data["pytorch"]["pinned_host_memory"]
                if pinned["lock_owner_tid"] == process.pid and len(pinned["blocks"]) < 8:
                    break
                time.sleep(0.05)
            equal((pinned["result"], pinned["lock_owner_tid"]), ("complete", process.pid), f"result ({pinned['why']})")
            adds_up(pinned)
            live = {hex(address) for address, _ in process.truth["live"]}
            equal({b["address"] for b in of_state(pinned, "allocated")}, live, "blocks in use")
            equal(len(of_state(pinned, "cached")), 3, "blocks that are still to be given back")


def test_not_used():
    with subprocess.Popen(["sleep", "60"]) as sleep:
        data = report_json(sleep.pid, expect=(COMPLETE, PARTIAL))
        pinned = data["pytorch"]["pinned_host_memory"]
        equal((pinned["state"], pinned["result"], pinned["all"], pinned["blocks"]), ("not loaded", None, None, []), "without PyTorch")
        sleep.kill()


if __name__ == "__main__":
    main(globals())
