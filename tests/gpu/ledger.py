# SPDX-License-Identifier: Apache-2.0
"""The ledger on a real GPU that nothing else uses: the same C program as on the simulated device (functional/ledger.py), also while a
stream is captured and while a kernel hangs and a thread frees memory; and PyTorch. What is in no line may grow by 1 % of the used
memory at most, compared with the same process before it allocated. Prints FIGURE lines."""
import json
import os
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "functional"))
import ledger  # noqa: E402
from harness import COMPLETE, Job, check, equal, main, report  # noqa: E402

GIB, MIB = 1 << 30, 1 << 20
UNEXPLAINED = 1  # per cent of the device's used memory
INSIDE_MS = {1000: 2, 100000: 150}  # by number of allocations


def used(data, ordinal=0):
    return next(d["memory"]["used_bytes"] for d in data["cuda"]["devices"] if d["ordinal"] == ordinal)


def figure(label, data):
    parts, line = data["ledger"], ledger.the_line(data)
    print(f"  FIGURE ledger {label}: {len(parts['ranges'])} ranges, {parts['probes']} probes, inside {parts['inside_ms']:.2f} ms, all "
          f"{parts['total_ms']:.2f} ms of {data['timing']['total_ms']:.1f}; found {line['found_bytes'] / MIB:.2f} MiB, rest "
          f"{(line['rest_bytes'] or 0) / MIB:.2f} MiB, dropped {parts['dropped']}, whole {parts['whole']}, pools {parts['pools_known']}")
    print("    " + ", ".join(f"{name} {value['bytes'] / MIB:.2f}" for name, value in [*line.items(), *line["claimed"].items()] if isinstance(value, dict) and value.get("ranges")))


def show(pid):
    _, out, _ = report(pid, "--width", "120", "--no-owners")
    print("    | " + out.split("\nMemory of GPU", 1)[-1].split("\n\n")[0].replace("\n", "\n    | "))


def smi(pid):
    """The kernel's own figure for the process, MiB; None where it cannot be had."""
    if not shutil.which("nvidia-smi"):
        return None
    done = subprocess.run(["nvidia-smi", "--query-compute-apps=pid,used_memory", "--format=csv,noheader,nounits"], capture_output=True,
                          text=True, check=False)
    return next((int(line.split(",")[1]) for line in done.stdout.splitlines() if line.split(",")[0].strip() == str(pid)), None)


def explained(label, before, after):
    """The rest has not grown, except for managed memory, of which nobody tells how much is on the device."""
    allowance = ledger.the_line(after)["managed"]["asked_bytes"] - ledger.the_line(before)["managed"]["asked_bytes"]
    rests = [ledger.the_line(data)["rest_bytes"] for data in (before, after)]
    check(None not in rests, "no rest: the used memory changed", rests)
    unexplained = rests[1] - rests[0]
    share = 100 * unexplained / used(after)
    print(f"  FIGURE ledger {label}: unexplained {unexplained / MIB:.2f} MiB, {share:.2f} % of {used(after) / MIB:.0f} MiB used")
    check(abs(unexplained) - allowance <= UNEXPLAINED / 100 * used(after), "unexplained memory", rests, used(after))


def a_program():
    return ledger.Calls(env=dict(os.environ))


def settled(calls):
    """The driver sets things up at the first use of each kind; that is no allocation of the program."""
    for what in ("async", "graph", "malloc"):
        calls(what, MIB)
    return ledger.read(calls.pid)


def test_ledger_every_kind():
    with a_program() as calls:
        before = settled(calls)
        figure("context", before)
        ledger.every_kind(calls)
        data = ledger.read(calls.pid, expect=COMPLETE)
        figure("every kind", data)
        print(f"    nvidia-smi says {smi(calls.pid)} MiB")
        show(calls.pid)
        ledger.has_all(calls, data)
        ledger.adds_up(data)
        explained("every kind", before, data)
        line = ledger.the_line(data)
        equal(line["mapped"]["bytes"], 26 * MIB, "memory that is mapped twice counts once")
        equal(calls("contexts"), "1", "a context came about")


def test_ledger_capture():
    with a_program() as calls:
        before = settled(calls)
        data = ledger.captured(calls)
        figure("capture", data)
        explained("capture", before, data)


def test_ledger_hung():
    with a_program() as calls:
        settled(calls)
        data, wall = ledger.hung(calls)
        figure("hung", data)
        print(f"    wall {wall:.2f} s with the schema's check")
        check(wall < 20, "a question waited", wall)


def test_ledger_fault():
    """After a kernel has faulted, all that has attributes is still found."""
    with a_program() as calls:
        settled(calls)
        ledger.every_kind(calls)
        whole = ledger.read(calls.pid)
        equal(calls("fault"), "700", "the kernel faults")
        data = ledger.read(calls.pid)
        figure("after a fault", data)
        check(data["ledger"]["after_fault"], "it is not told", data["ledger"])
        kinds = [{r["address"]: r["kind"] for r in d["ledger"]["ranges"]} for d in (whole, data)]
        missing = {at: kind for at, kind in kinds[0].items() if at not in kinds[1]}
        print(f"    missing after the fault: {missing}")
        check(set(missing.values()) <= {"array", "graph", "pool"}, "allocations are missing", missing)


def test_ledger_holes():
    """Small allocations, most of them freed: pages whose first bytes are free."""
    with a_program() as calls:
        before = settled(calls)
        at = [calls.allocate("malloc", size) for _ in range(400) for size in (1, 512, 5000, 100000, 300000, 900000)]
        for k, addr in enumerate(at):
            if k * 7919 % 5:
                calls.succeeds("free", hex(addr))
        data = min((ledger.read(calls.pid) for _ in range(3)), key=lambda d: d["ledger"]["inside_ms"])
        left = {hex(addr) for k, addr in enumerate(at) if not k * 7919 % 5}
        found = {r["address"] for r in data["ledger"]["ranges"]}
        figure("holes", data)
        print(f"  FIGURE ledger holes: {len(left & found)} of {len(left)} found, {len({int(a, 16) >> 21 for a in left - found} - {int(a, 16) >> 21 for a in found})} "
              f"of {len({int(a, 16) >> 21 for a in left})} pages not, step {data['ledger']['step_bytes']}")
        explained("holes", before, data)


def test_ledger_many():
    for count, most in INSIDE_MS.items():
        with a_program() as calls:
            before = settled(calls)
            calls("many", count, 4096)
            runs = [ledger.read(calls.pid) for _ in range(5)]
            data = min(runs, key=lambda d: d["ledger"]["inside_ms"])
            figure(f"{count} allocations", data)
            ledger.adds_up(data)
            equal(ledger.the_line(data)["device_memory"]["ranges"] >= count, True, "all are listed")
            explained(f"{count} allocations", before, data)
            check(data["ledger"]["inside_ms"] <= most, "too slow", data["ledger"]["inside_ms"])


# Reads lines: "grow" takes more of everything, "raw" is memory beside PyTorch's.
TORCH = """
import ctypes, sys, torch
kept = [torch.randn(1024, 1024, device="cuda")]
def work():
    x = kept[0] @ kept[0]
    torch.nn.functional.conv2d(x.view(1, 1, 1024, 1024), torch.ones(1, 1, 3, 3, device="cuda"))
    torch.cuda.synchronize()
work()
print("READY", flush=True)
for line in sys.stdin:
    if line == "grow\\n":
        kept += [torch.empty(64 << 20, dtype=torch.uint8, device="cuda") for _ in range(32)]
        kept += [torch.empty(1000, device="cuda") for _ in range(5000)]
        del kept[2:20]
    else:
        cuda, at = ctypes.CDLL("libcuda.so.1"), ctypes.c_uint64()
        assert cuda.cuMemAlloc_v2(ctypes.byref(at), ctypes.c_size_t(512 << 20)) == 0
    work()
    print("done", flush=True)
"""


def with_torch(label, **env):
    with tempfile.TemporaryDirectory() as where:
        path = os.path.join(where, "program.py")
        with open(path, "w", encoding="ascii") as file:
            file.write(TORCH)
        with Job([sys.executable, path], env=dict(os.environ, **env)) as job:
            before = ledger.read(job.proc.pid)
            figure(f"{label} at first", before)
            for step in ("grow", "raw"):
                equal(job.ask(step), "done", step)
                data = ledger.read(job.proc.pid)
                figure(f"{label} {step}", data)
                ledger.adds_up(data)
                explained(f"{label} {step}", before, data)
                line, totals = ledger.the_line(data), data["pytorch"]["allocators"][0]["totals"]
                equal(line["claimed"]["pytorch"]["bytes"], totals["reserved_bytes"], "PyTorch's segments")
                equal(line["claimed"]["pytorch"]["without_memory_bytes"], 0, "all of them are found")
            check(line["device_memory"]["bytes"] >= 512 * MIB, "the raw allocation", json.dumps(line))
            print(f"    nvidia-smi says {smi(job.proc.pid)} MiB")
            show(job.proc.pid)


def test_ledger_torch():
    with_torch("torch")


def test_ledger_torch_expandable():
    with_torch("torch, expandable", PYTORCH_CUDA_ALLOC_CONF="expandable_segments:True")


if __name__ == "__main__":
    main(globals())
