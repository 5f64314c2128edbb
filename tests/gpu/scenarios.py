# SPDX-License-Identifier: Apache-2.0
"""Runs vramtap against PyTorch on a real GPU in every state that matters, and compares with PyTorch's own snapshot."""
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "functional"))
import report_pinned  # noqa: E402
import torch_history  # noqa: E402
import torch_truth  # noqa: E402
from harness import COMPLETE, PARTIAL, VRAMTAP, Job, check, equal, main, peak_memory_mib, proc_state, report, report_json, thread_count  # noqa: E402


class Gpu(Job):
    """A target in a state, with its own snapshot."""

    def __init__(self, mode, *args, env=None):
        self.snapshot_path = tempfile.mktemp(prefix="vramtap-gpu-")
        argv = [sys.executable, os.path.join(HERE, "target.py"), mode, "--snapshot", self.snapshot_path, *args]
        super().__init__(argv, env=dict(os.environ, **(env or {})))

    def __enter__(self):
        super().__enter__()
        with open(self.snapshot_path, encoding="utf-8") as file:
            self.snapshot = json.load(file)
        return self

    def __exit__(self, *exc):
        os.unlink(self.snapshot_path)
        return super().__exit__(*exc)

    def unharmed(self):
        equal(self.ask("check"), "ok", "the target's computation")
        equal(self.ask("contexts"), "1", "active contexts")
        check(proc_state(self.proc.pid) in "SR", "state", proc_state(self.proc.pid))


def compare(gpu, data):
    torch_truth.same_blocks(torch_truth.of_report(data), torch_truth.of_python_snapshot(gpu.snapshot["segments"]), "the report")
    torch_truth.totals_agree(data["pytorch"]["allocators"])
    print(f"  {len(torch_truth.of_report(data))} blocks equal _snapshot()")


def show(gpu, *args):
    """Prints the text report, for people who read the log."""
    _, out, err = report(gpu.proc.pid, "--width", "120", *args)
    print("  | " + (out + err).replace("\n", "\n  | "))


def frames(data, tid=None):
    return [f["function"] or "" for t in data["threads"] if tid is None or t["tid"] == tid for f in t["stack"]["frames"]]


def inside(gpu, expect=COMPLETE, compare_blocks=True):
    data = report_json(gpu.proc.pid, expect=expect)
    check(data["cuda"]["devices"][0]["memory"], "no cudaMemGetInfo", data["cuda"])
    equal({a["method"] for a in data["pytorch"]["allocators"]}, {"inside"}, "how the allocator was read")
    if compare_blocks:
        compare(gpu, data)
    timing = data["timing"]
    print(f"  total {timing['total_ms']:.1f} ms, attach {timing['attach_ms']:.1f} ms, thread away {timing['borrowed_us']:.0f} us, "
          f"stopped {timing['stopped_ms']:.2f} ms, walk {timing['walk_ms']:.3f} ms")
    return data


def test_idle():
    with Gpu("idle", "--blocks", "10000") as gpu:
        data = inside(gpu)
        threads = data["cuda"]["devices"][0]["context_threads"]
        check(threads and gpu.proc.pid in threads, "the main thread's context was not found", threads)
        print(f"  threads that hold the context: {threads}")
        check("main" in frames(data), "no Python frame", frames(data)[:40])
        show(gpu)
        gpu.unharmed()


def test_idle_timings():
    """The figures of doc/results.md: attach to finished report, an idle process, 10,000 live blocks."""
    with Gpu("idle", "--blocks", "10000", "--plain") as gpu:
        walls, borrowed, walks, stopped, memory = [], [], [], [], []
        for i in range(31):
            begin = time.monotonic()
            usage = subprocess.run(["/usr/bin/env", "bash", "-c", 'exec "$0" report --json /tmp/vt-report.json "$1" >/tmp/vt-report.txt',
                                    VRAMTAP, str(gpu.proc.pid)], check=False, stdin=subprocess.DEVNULL)
            wall = (time.monotonic() - begin) * 1e3
            equal(usage.returncode, COMPLETE, "exit code")
            with open("/tmp/vt-report.json", encoding="utf-8") as file:
                timing = json.load(file)["timing"]
            if i:  # the first run warms the file cache
                walls.append(wall)
                borrowed.append(timing["borrowed_us"])
                walks.append(timing["walk_ms"])
                stopped.append(timing["stopped_ms"])
        for name, values, unit in (("wall time of vramtap report", walls, "ms"), ("borrowed thread away", borrowed, "us"),
                                   ("walk inside", walks, "ms"), ("threads stopped for stacks", stopped, "ms")):
            print(f"  FIGURE {name}: median {statistics.median(values):.3f} min {min(values):.3f} max {max(values):.3f} {unit}")
        gpu.unharmed()


def test_walk_speed():
    for blocks_wanted in (10000, 100000):
        with Gpu("idle", "--blocks", str(blocks_wanted), "--plain") as gpu:
            rates = {"walk_ns": [], "read_ns": []}
            for _ in range(11):
                data = inside(gpu, compare_blocks=False)
                blocks = len(torch_truth.of_report(data))
                for name, samples in rates.items():
                    samples.append(blocks / data["pytorch"]["allocators"][0][name] * 1e3)
            for what, name in (("walk inside", "walk_ns"), ("  its half under the lock", "read_ns")):
                print(f"  FIGURE {what}, {blocks} blocks: median {statistics.median(rates[name]):.1f} min {min(rates[name]):.1f} "
                      f"max {max(rates[name]):.1f} million blocks a second")
            memory = peak_memory_mib(gpu.proc.pid, "--json", "/tmp/vt-report.json")
            print(f"  FIGURE peak memory of the tool at {blocks} blocks: {memory:.1f} MiB")
            compare(gpu, data)
            gpu.unharmed()


def test_expandable_segments():
    with Gpu("idle", "--blocks", "3000", env={"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}) as gpu:
        inside(gpu)
        gpu.unharmed()


def test_async_backend():
    """The driver's own pool, and PyTorch's words for it."""
    with Gpu("idle", "--plain", "--blocks", "3000", env={"PYTORCH_CUDA_ALLOC_CONF": "backend:cudaMallocAsync"}) as gpu:
        data = report_json(gpu.proc.pid, expect=COMPLETE)
        equal((data["pytorch"]["state"], data["pytorch"]["allocators"]), ("cudaMallocAsync", []), "backend")
        pools = data["cuda"]["devices"][0]["memory_pools"]
        equal([p["kind"] for p in pools], ["default"], "pools")
        for ours, theirs in (("used_bytes", "allocated_bytes.all.current"), ("used_high_bytes", "allocated_bytes.all.peak"),
                             ("reserved_bytes", "reserved_bytes.all.current"), ("reserved_high_bytes", "reserved_bytes.all.peak")):
            equal(pools[0][ours], gpu.snapshot["stats"][theirs], f"{ours}, in PyTorch's words {theirs}")
        check(0 < pools[0]["used_bytes"] < pools[0]["reserved_bytes"], "the pool", pools)
        show(gpu)
        gpu.unharmed()


def test_ask_pytorch():
    """PyTorch asked through the interpreter: the same blocks; on a hung device, too; never where it would keep a thread waiting."""
    for blocks in (10000, 100000):
        with Gpu("idle", "--blocks", str(blocks)) as gpu:
            data = report_json(gpu.proc.pid, "--ask-pytorch", expect=COMPLETE)
            equal({a["method"] for a in data["pytorch"]["allocators"]}, {"interpreter"}, "how the blocks came about")
            compare(gpu, data)
            told = len(torch_truth.of_report(data))
            held = data["timing"]["gil_held_ms"]
            print(f"  FIGURE PyTorch asked, {told} blocks: GIL held for {held:.2f} ms, {held / told * 1e3:.2f} us a block")
            gpu.unharmed()
    with Gpu("synchronize") as gpu:
        data = report_json(gpu.proc.pid, "--ask-pytorch", expect=COMPLETE)
        equal({a["method"] for a in data["pytorch"]["allocators"]}, {"interpreter"}, "on a hung device")
        compare(gpu, data)
        gpu.unharmed()
    for mode, reason in (("free", "holds the lock of PyTorch's allocator"), ("gil", "holds the GIL")):
        with Gpu(mode) as gpu:
            data = report_json(gpu.proc.pid, "--ask-pytorch", expect=(COMPLETE, PARTIAL))
            said = [d["text"] for d in data["diagnostics"] if d["code"] == "not-asked"]
            check(len(said) == 1 and reason in said[0], f"why it is not asked in the state {mode}", data["diagnostics"])
            equal(data["timing"]["gil_held_ms"], 0, "the GIL")
            if mode != "gil":
                gpu.unharmed()


def test_hung_in_synchronize():
    with Gpu("synchronize") as gpu:
        data = inside(gpu)
        check(any("Synchronize" in f for f in frames(data)), "no synchronize in any stack", sorted(set(frames(data)))[:60])
        show(gpu)
        gpu.unharmed()


def test_blocked_in_free():
    with Gpu("free") as gpu:
        data = inside(gpu, expect=(COMPLETE, PARTIAL), compare_blocks=False)
        check("lock-held" in {d["code"] for d in data["diagnostics"]}, "the holder of the lock is not named", data["diagnostics"])
        check(any("cudaFree" in f for f in frames(data)), "no cudaFree in any stack", sorted(set(frames(data)))[:60])
        live = [b for b in torch_truth.of_python_snapshot(gpu.snapshot["segments"]) if b[5] == "allocated"]
        ours = [b for b in torch_truth.of_report(data) if b[5] == "allocated"]
        # The tensor that is being freed was live when the snapshot was taken.
        print(f"  {len(set(live) & set(ours))} of {len(live)} live blocks equal the snapshot taken before")
        equal([b for b in ours if b not in live], [], "live blocks that the snapshot does not have")
        check(len(live) - len(ours) <= 1, "live blocks are missing", len(live), len(ours))
        show(gpu)
        gpu.unharmed()


def test_awaiting_free():
    with Gpu("awaiting") as gpu:
        data = inside(gpu)
        check(any(b[5] == "awaiting-free" for b in torch_truth.of_report(data)), "no block awaits its free")
        gpu.unharmed()


def test_out_of_memory():
    with Gpu("oom") as gpu:
        data = inside(gpu)
        memory = data["cuda"]["devices"][0]["memory"]
        check(memory["free_bytes"] < 2 << 30, "free memory at out of memory", memory)
        show(gpu)
        gpu.unharmed()


def test_hundred_threads():
    with Gpu("idle", "--threads", "100") as gpu:
        data = inside(gpu)
        check(len(data["threads"]) >= 101, "threads", len(data["threads"]))
        equal(sum(any((f["function"] or "").endswith("wait") for f in t["stack"]["frames"]) for t in data["threads"]) >= 100, True,
              "Python frames of the extra threads")
        gpu.unharmed()


def test_read_only():
    with Gpu("synchronize") as gpu:
        data = report_json(gpu.proc.pid, "--read-only", expect=(COMPLETE, PARTIAL))
        equal(data["timing"]["borrowed_tid"], None, "borrowed thread")
        compare(gpu, data)
        gpu.unharmed()


def test_pinned_host_memory():
    """Blocks of every kind against the program's tensors and torch.cuda.host_memory_stats()."""
    with report_pinned.Process([sys.executable]) as process:
        process("init")
        for command in ("empty 10 1000", "drop 4", "pin 5 3000", "loader 4", "random 1 500", "random 2 2000"):
            process(command)
            pinned = report_pinned.compare(process)
        print(f"  FIGURE pinned host memory: {len(pinned['blocks'])} blocks read in {pinned['read_ms']:.2f} ms, nothing stopped")
        if process.version >= (2, 11):
            process("graph 5000")
            pinned = report_pinned.compare(process)
            equal([b["bytes"] for b in pinned["blocks"] if b["private_pool"]], [8192], "private pools")
        report_pinned.in_a_child(process)
        process("empty_cache")
        report_pinned.compare(process)
        report_pinned.much_is_a_headline(process)
        report_pinned.waits_and_uses(process)
        _, out, _ = report(process.pid, "--width", "120", expect=COMPLETE)
        print("  | " + out.replace("\n", "\n  | "))
    with report_pinned.Process([sys.executable], PYTORCH_CUDA_ALLOC_CONF="pinned_use_cuda_host_register:True") as process:
        process("random 7 500")
        report_pinned.compare(process)


def test_forked_child():
    with Gpu("forked") as gpu:
        child = int(gpu.proc.ready_line.split()[1])
        for options in ([], ["--read-only"]):
            data = report_json(child, *options, expect=(COMPLETE, PARTIAL))
            equal((data["pytorch"]["state"], data["pytorch"]["allocators"]), ("inherited", []), f"a forked child with {options}")
        inside(gpu)
        gpu.unharmed()


def test_history():
    """The backtraces that PyTorch recorded, against its own snapshot; then 20,000 blocks with history."""
    for stacks in ("python", "all"):
        with torch_history.History([sys.executable], "--stacks", stacks) as job:
            theirs = job.snapshot()
            for args in ((), ("--read-only",)):
                python, native, without = torch_history.compare(report_json(job.proc.pid, *args), theirs)
                check(python > 200 and (native > 100 or stacks == "python"), "too little to compare", python, native)
                print(f"  stacks={stacks} {' '.join(args)}: {len(theirs)} blocks, {python} Python frames and {native} names of native "
                      f"ones equal _snapshot(); {without} blocks were not recorded")
            if stacks == "all":
                show(job)
        with torch_history.History([sys.executable], "--stacks", stacks, "--blocks", "20000") as job:
            for args in ((), ("--read-only",)):
                runs = [report_json(job.proc.pid, *args)["timing"] for _ in range(10)]
                for what in ("total_ms", "stopped_ms"):
                    values = [r[what] for r in runs]
                    print(f"  FIGURE report of 20,000 blocks with history, stacks={stacks} {' '.join(args)}, {what}: "
                          f"median {statistics.median(values):.1f} min {min(values):.1f} max {max(values):.1f} ms")
            begin = time.monotonic()
            job.snapshot()
            print(f"  FIGURE _snapshot() of the same, written as JSON: {time.monotonic() - begin:.2f} s")


def test_endurance():
    """Many reports in a row, some killed at a random instant; the target computes on."""
    import random
    import signal
    rng = random.Random(1)
    with Gpu("idle", "--blocks", "2000") as gpu:
        gpu.unharmed()  # its first computation starts PyTorch's thread pool
        threads = thread_count(gpu.proc.pid)
        descriptors = len(os.listdir(f"/proc/{gpu.proc.pid}/fd"))
        for i in range(300):
            tool = subprocess.Popen([VRAMTAP, "report", str(gpu.proc.pid)], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                    stderr=subprocess.PIPE)
            if i % 3 == 2:
                time.sleep(rng.random() * 0.1)
                tool.send_signal(signal.SIGKILL)
                tool.communicate()
            else:
                _, err = tool.communicate(timeout=60)
                equal(tool.returncode, COMPLETE, f"exit code of report {i} ({err})")
            if i % 20 == 0:
                gpu.unharmed()
        time.sleep(6)
        equal(thread_count(gpu.proc.pid), threads, "threads afterwards")
        equal(len(os.listdir(f"/proc/{gpu.proc.pid}/fd")), descriptors, "open files afterwards")
        inside(gpu, compare_blocks=False)  # the computations have allocated since the snapshot
        gpu.unharmed()
        print("  300 reports, 100 of them killed: unharmed")


if __name__ == "__main__":
    main(globals())
