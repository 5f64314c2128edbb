# SPDX-License-Identifier: Apache-2.0
"""vramtap stacks of PyTorch processes that are stuck on a real GPU: the frames that must be there, in their order, the verdicts,
and for threads that run Python the frames of sys._current_frames(). Each scenario prints the stacks for people to judge."""
import concurrent.futures
import contextlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

from scenarios import Gpu
from heartbeats import Heartbeats
from harness import COMPLETE, PARTIAL, VRAMTAP, Skip, check, equal, main, proc_state, thread_count, wait_until


def stacks(gpu, *args, expect=(COMPLETE,)):
    done = subprocess.run([VRAMTAP, "stacks", *args, str(gpu.proc.pid)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, timeout=60, check=False)
    out = done.stdout.decode("utf-8")
    check(done.returncode in expect, f"exit code {done.returncode}", done.stderr.decode("utf-8"), out[-3000:])
    return out


def stacks_json(gpu, expect=(COMPLETE,)):
    data = json.loads(stacks(gpu, "--json", "-", expect=expect))["processes"][0]
    print(f"  {len(data['threads'])} threads, {data['timing']['total_ms']:.1f} ms, stopped for {data['timing']['stopped_ms']:.2f} ms,"
          f" {data['completeness']}")
    check(not any(t["stack"]["merge_uncertain"] for t in data["threads"]), "a merge was uncertain")
    return data


def show(gpu):
    print("  | " + stacks(gpu, "--width", "120", expect=(COMPLETE, PARTIAL)).replace("\n", "\n  | "))


def functions(thread, kind=None):
    return [f["function"] or "??" for f in thread["stack"]["frames"] if kind in (None, f["kind"])]


def find(data, *words):
    """The thread whose frames have these words in this order, innermost first."""
    for thread in data["threads"]:
        rest = iter(functions(thread))
        if all(any(word in function for function in rest) for word in words):
            return thread
    raise AssertionError(f"no thread has {words} in this order: {[functions(t) for t in data['threads']]}")


def same_python_frames(gpu, data):
    """Those of all threads but the main one, which runs to answer."""
    truth = {int(tid): stack for tid, stack in json.loads(gpu.ask("frames")).items() if tid != "null"}
    compared = 0
    for thread in data["threads"]:
        if thread["main"] or not thread["python"]:
            continue
        ours = [[f["function"], os.path.basename(f["file"] or ""), f["line"]] for f in thread["stack"]["frames"]
                if f["kind"] == "python"]
        if ours:
            equal(ours, truth[thread["tid"]], f"Python frames of thread {thread['tid']}")
            compared += 1
    check(compared, "no thread to compare")
    print(f"  Python frames of {compared} threads equal sys._current_frames()")


def system_call(pid):
    with open(f"/proc/{pid}/syscall", encoding="ascii") as file:
        return file.read().split()[0]


def test_stacks_hung_in_synchronize():
    with Gpu("synchronize") as gpu:
        data = stacks_json(gpu)
        thread = find(data, "cudaDeviceSynchronize", "synchronize", "Thread.run")
        check("cudaDeviceSynchronize" in (thread["verdict"] or ""), "verdict", thread["verdict"])
        equal(thread["holds_gil"], False, "whether it holds the GIL")
        same_python_frames(gpu, data)
        show(gpu)
        gpu.unharmed()


def test_stacks_gil_held_in_extension():
    """The main thread waits for the device and keeps the GIL; a helper inside could not run a line of Python."""
    with Gpu("gil") as gpu:
        pid = gpu.proc.pid
        # From its read of standard input to the driver: it runs there, or sleeps in a call of it, not in read() (number 0).
        wait_until(lambda: system_call(pid) != "0" and proc_state(pid) in "RS", 20, "the main thread holds the GIL")
        time.sleep(1)
        data = stacks_json(gpu)
        holder = find(data, "cuCtxSynchronize", "hold_the_gil", "main")
        equal((holder["tid"], holder["holds_gil"]), (pid, True), "the holder of the GIL")
        waiter = find(data, "want_the_gil", "Thread.run")
        check((waiter["verdict"] or "").startswith("waits for the GIL"), "verdict of a thread that wants it", waiter["verdict"])
        equal(waiter["waits_for_tid"], pid, "the thread that it waits for")
        show(gpu)


@contextlib.contextmanager
def pair(mode):
    """Two processes of one NCCL group, each on its own GPU when there are two."""
    store = tempfile.mktemp(prefix="vramtap-nccl-")
    gpus = [Gpu(mode, "--rank", str(rank), "--store", store, "--blocks", "100") for rank in range(2)]
    with contextlib.ExitStack() as ends, concurrent.futures.ThreadPoolExecutor() as pool:
        # Together: neither is ready before the other has come to meet it.
        for started in [pool.submit(gpu.__enter__) for gpu in gpus]:
            ends.push(started.result())
        yield gpus
    if os.path.exists(store):
        os.unlink(store)


def count_gpus():
    done = subprocess.run([sys.executable, "-c", "import torch; print(torch.cuda.device_count())"], stdout=subprocess.PIPE,
                          check=True)
    return int(done.stdout)


def test_stacks_nccl_all_reduce():
    """A collective that the other rank does not join: the kernel spins, the host waits for it."""
    if count_gpus() < 2:
        raise Skip("needs two GPUs")
    with pair("nccl") as (gpu, other):
        data = stacks_json(gpu)
        thread = find(data, "cudaDeviceSynchronize", "synchronize", "reduce_alone", "Thread.run")
        check("cudaDeviceSynchronize" in (thread["verdict"] or ""), "verdict", thread["verdict"])
        watchdogs = [t["verdict"] for t in data["threads"] if any("ProcessGroupNCCL" in f for f in functions(t, "native"))]
        print(f"  verdicts of NCCL's threads: {watchdogs}")
        check(watchdogs, "no thread of ProcessGroupNCCL")
        same_python_frames(gpu, data)
        show(gpu)
        gpu.unharmed()
        other.unharmed()


def test_stacks_nccl_init():
    """The other rank has not even come to the first collective: the communicator cannot be set up. One GPU is enough."""
    with pair("nccl-init") as (gpu, other):
        data = stacks_json(gpu)
        thread = find(data, "nccl", "all_reduce", "reduce_alone", "Thread.run")
        check("in nccl" in (thread["verdict"] or ""), "verdict", thread["verdict"])
        same_python_frames(gpu, data)
        show(gpu)
        gpu.unharmed()
        other.unharmed()


# Peers that happen to be here are measured too: {} for the pid.
PEERS = (["py-spy", "dump", "-p", "{}"], ["py-spy", "dump", "--native", "-p", "{}"], ["pystack", "remote", "{}"], ["pystack", "remote", "--native-all", "{}"],
         ["eu-stack", "-p", "{}"])


def measure(beats, command, runs):
    """Milliseconds of (wall time, pause) of each run but the first, which warms the caches."""
    samples = []
    for _ in range(runs + 1):
        beats.mark()
        begin = time.monotonic()
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
        wall = (time.monotonic() - begin) * 1e3
        samples.append((wall, beats.pause_ms()))
        if done.returncode:
            return None
    return samples[1:]


def show_figure(name, values):
    print(f"  FIGURE {name}: median {statistics.median(values):.2f} p99 {sorted(values)[len(values) * 99 // 100 - 1]:.2f}"
          f" max {max(values):.2f} ms of {len(values)}")


def test_stacks_figures():
    """Pause, as the target's own threads see it, and wall time with many threads."""
    beats = Heartbeats()
    with Gpu("synchronize", "--threads", "132", "--heartbeat", beats.library, beats.path) as gpu:
        pid = str(gpu.proc.pid)
        print(f"  {thread_count(gpu.proc.pid)} threads")
        show_figure("pause without any tool", [pause for _, pause in measure(beats, ["sleep", "0.04"], 100)])
        told = [json.loads(stacks(gpu, "--json", "-"))["processes"][0]["timing"]["stopped_ms"] for _ in range(100)]
        show_figure("threads stopped, in vramtap's own words", told)
        ours = [[VRAMTAP, "stacks", *view, "--json", "/dev/null", pid] for view in ([], ["--python"])]
        for command, runs in [(command, 100) for command in ours] + [(peer, 10) for peer in PEERS]:
            name = " ".join(os.path.basename(word) for word in command[:-1])
            samples = measure(beats, [word.replace("{}", pid) for word in command], runs) if shutil.which(command[0]) else None
            if not samples:
                print(f"  not measured: {name}")
                continue
            for what, values in zip(("wall time", "pause"), zip(*samples)):
                show_figure(f"{what} of {name}", values)
        gpu.unharmed()


if __name__ == "__main__":
    main(globals())
