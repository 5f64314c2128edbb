# SPDX-License-Identifier: Apache-2.0
"""Reports without any code run in the process: of processes in which nothing could run anyway, without stopping a thread, and
from core files. Each is compared with the snapshot that PyTorch itself took before the process got stuck.

VRAMTAP_GDB names a gdb for the core files (default: gdb, else cuda-gdb)."""
import contextlib
import json
import os
import re
import shutil
import statistics
import subprocess
import tempfile
import time

from scenarios import Gpu, compare, frames
import torch_truth
from harness import COMPLETE, PARTIAL, VRAMTAP, Skip, check, equal, main, peak_memory_of, proc_state, report_json, vramtap, wait_until

GDB = os.environ.get("VRAMTAP_GDB") or shutil.which("gdb") or shutil.which("cuda-gdb")


def blocks_of_freeing(gpu, data):
    """The block that is being freed was live in the snapshot, and may be anything by now; all others must be the same."""
    theirs = [b for b in torch_truth.of_python_snapshot(gpu.snapshot["segments"]) if b[5] == "allocated"]
    ours = [b for b in torch_truth.of_report(data) if b[5] == "allocated"]
    equal([b for b in ours if b not in theirs], [], "live blocks that the snapshot does not have")
    check(len(theirs) - len(ours) <= 1, "live blocks are missing", len(theirs), len(ours))
    print(f"  {len(ours)} of {len(theirs)} live blocks equal the snapshot taken before")


def outside(gpu, compare_with, *options):
    data = report_json(gpu.proc.pid, *options, expect=(COMPLETE, PARTIAL))
    equal({a["method"] for a in data["pytorch"]["allocators"]}, {"outside"}, "how the allocator was read")
    equal({a["result"] for a in data["pytorch"]["allocators"]}, {"complete"}, "results")
    compare_with(gpu, data)
    timing = data["timing"]
    print(f"  {' '.join(options)}: total {timing['total_ms']:.1f} ms, walk {timing['walk_ms']:.2f} ms, threads stopped for "
          f"{timing['stopped_ms']:.2f} ms")
    return data


@contextlib.contextmanager
def gil_is_held():
    """Its main thread waits in the driver and keeps the GIL; nothing inside could run a line of Python."""
    with Gpu("gil", "--blocks", "5000") as gpu:
        pid = gpu.proc.pid

        def in_driver():
            with open(f"/proc/{pid}/syscall", encoding="ascii") as file:
                return file.read().split()[0] != "0" and proc_state(pid) in "RS"

        wait_until(in_driver, 20, "the main thread holds the GIL")
        time.sleep(1)
        yield gpu


STUCK = {
    "the GIL is held for ever": (gil_is_held, compare),
    "the allocator's mutex is held in cudaFree": (lambda: Gpu("free", "--blocks", "5000"), blocks_of_freeing),
}


def test_outside_of_stuck_processes():
    for what, (start, compare_with) in STUCK.items():
        print(f"  -- {what}")
        with start() as gpu:
            data = outside(gpu, compare_with, "--read-only")
            codes = {d["code"] for d in data["diagnostics"]}
            equal("lock-held" in codes, "cudaFree" in what, "whether a holder of the allocator's mutex is named")
            outside(gpu, compare_with, "--no-stop")


@contextlib.contextmanager
def core_of(pid, gdb):
    if not gdb:
        raise Skip("no gdb to write a core file")
    directory = tempfile.mkdtemp(prefix="vramtap-core-")
    try:
        path = os.path.join(directory, "core")
        begin = time.monotonic()
        done = subprocess.run([gdb, "-nx", "-batch", "-ex", "set pagination off", "-p", str(pid), "-ex", f"generate-core-file {path}",
                               "-ex", "detach"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=240, check=False)
        check(os.path.exists(path), f"{gdb} wrote no core file", done.stdout[-1000:], done.stderr[-2000:])
        stat = os.stat(path)
        print(f"  core file of {os.path.basename(gdb)}: {stat.st_size >> 20} MiB, on disk {stat.st_blocks >> 11} MiB, written in "
              f"{time.monotonic() - begin:.1f} s")
        yield path
    finally:
        shutil.rmtree(directory)


def callers(thread):
    """Its frames from the call of the driver outwards: in there a thread that waits for the device may run."""
    names = [f["function"] or "" for f in thread["stack"]["frames"]]
    calls = [i for i, name in enumerate(names) if re.match("cu(da)?[A-Z]", name)]
    return names[calls[-1]:] if calls else names


def of_core(gpu, path, compare_with):
    begin = time.monotonic()
    code, out, err = vramtap("report", "--core", path, "--json", "-", expect=(COMPLETE, PARTIAL))
    first = time.monotonic() - begin
    data = json.loads(out)
    print(f"  exit code {code}; diagnostics: {[d['text'] for d in data['diagnostics']]} {err}")
    equal({a["result"] for a in data["pytorch"]["allocators"]}, {"complete"}, "results")
    compare_with(gpu, data)
    live = report_json(gpu.proc.pid, "--read-only", expect=(COMPLETE, PARTIAL))
    stacks = [{t["tid"]: callers(t) for t in one["threads"]} for one in (data, live)]
    print(f"  {len(stacks[0])} of {len(stacks[1])} threads are in the core")
    equal(set(stacks[0]), set(stacks[1]), "threads")
    same = [tid for tid in stacks[0] if stacks[0][tid] == stacks[1][tid]]
    check(gpu.proc.pid in same, "frames of the main thread", stacks[0][gpu.proc.pid], stacks[1][gpu.proc.pid])
    print(f"  frames of {len(same)} of them are those of the live process")
    check("main" in frames(data), "no Python frame", frames(data)[:40])
    _, mib = peak_memory_of([VRAMTAP, "report", "--core", path])
    walls = []
    for _ in range(5):
        begin = time.monotonic()
        vramtap("report", "--core", path, expect=(COMPLETE, PARTIAL))
        walls.append(time.monotonic() - begin)
    print(f"  FIGURE report of a core: first {first * 1e3:.0f} ms, then median {statistics.median(walls) * 1e3:.0f} ms, peak memory "
          f"{mib:.0f} MiB")
    check(mib < 256, "peak memory in MiB", mib)
    _, text, _ = vramtap("report", "--core", path, "--width", "120", expect=(COMPLETE, PARTIAL))
    print("  | " + text.replace("\n", "\n  | "))


def cores_of_stuck_processes(gdb):
    for what, (start, compare_with) in STUCK.items():
        print(f"  -- {what}")
        with start() as gpu, core_of(gpu.proc.pid, gdb) as path:
            of_core(gpu, path, compare_with)


def test_outside_core():
    cores_of_stuck_processes(GDB)


def test_outside_core_of_cuda_gdb():
    cores_of_stuck_processes(shutil.which("cuda-gdb"))


if __name__ == "__main__":
    main(globals())
