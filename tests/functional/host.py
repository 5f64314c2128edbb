#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Memory of the host in the report: pinned memory, by the driver's list and by the libraries' books, each byte once; and shared memory of
a DataLoader's workers, against what the kernel says of a /dev/shm that is the job's own."""
import json
import os
import re
import subprocess
import sys
import time

from harness import COMPLETE, PARTIAL, SOURCE, Job, Skip, check, check_schema, diag_codes, equal, main, report, report_json, simulated_python
from ledger import MIB, Calls, simulated
from report_pinned import Pinned
from report_torch import versions

LOADER = os.path.join(SOURCE, "tests", "targets", "torch_loader.py")
WORKERS = 3
EITHER = (COMPLETE, PARTIAL)


def own_shm(size):
    """What a command line begins with to have a /dev/shm of its own."""
    script = f'mount -t tmpfs -o size={size} none /dev/shm && exec "$@"'
    command = ["unshare", "--mount", "--propagation", "private", "sh", "-c", script, "sh"]
    if subprocess.run([*command, "true"], capture_output=True, check=False).returncode:
        raise Skip("no mount namespace")
    return command


class Loader(Job):
    def __init__(self, strategy, size="256m"):
        super().__init__([*own_shm(size), *simulated_python(versions()[-1]), LOADER, strategy, str(WORKERS)],
                         env=dict(os.environ, SIMCUDA_DEVICES="1", SIMCUDA_MEM_MB="512"))

    def used(self):
        """Bytes in its /dev/shm, once that does not change any more: the workers have made all batches that they may."""
        before = -1
        while True:
            fs = os.statvfs(f"/proc/{self.pid}/root/dev/shm")
            now = (fs.f_blocks - fs.f_bfree) * fs.f_frsize
            if now == before:
                return now, fs.f_blocks * fs.f_frsize
            before = now
            time.sleep(0.7)


def host_of(pid, *args):
    data = report_json(pid, *args, expect=EITHER)
    check_schema(data)
    pinned = data["host"]["pinned"]
    equal(pinned["bytes"], (pinned["pytorch_bytes"] or 0) + sum(pinned["libraries"].values()) + (pinned["unattributed_bytes"] or 0), "sum")
    return data, data["host"]


# ---- pinned ----

def test_pinned_by_nobody_known():
    with Calls() as calls:
        calls.allocate("host", 5 * MIB)
        calls.allocate("host", MIB)
        _, host = host_of(calls.pid)
        equal(host["pinned"], {"listed": True, "bytes": 6 * MIB, "pytorch_bytes": None, "pytorch_cached_bytes": None,
                               "libraries": host["pinned"]["libraries"], "unattributed_bytes": 6 * MIB}, "pinned")
        _, out, _ = report(calls.pid, "--width=100")
        check("Host memory  6.00 MiB pinned (unattributed 6.00 MiB)" in out, "the sentence", out)
        equal(out.count("pinned"), 1, f"it is told once {out}")
        _, host = host_of(calls.pid, "--read-only")
        equal((host["pinned"]["listed"], host["pinned"]["bytes"]), (False, 0), "from outside")


def test_pinned_by_pytorch():
    """The driver's list has PyTorch's blocks, and they count once."""
    with Pinned(versions()[-1]) as process:
        process("pin 3 3000000")
        process("pin 5 300")
        process("drop 2")
        data, host = host_of(process.pid)
        books, pinned = data["pytorch"]["pinned_host_memory"], host["pinned"]
        check(books["all"]["bytes"] > 3 * MIB, "nothing is pinned", books)
        equal(pinned["pytorch_bytes"], books["all"]["bytes"], "PyTorch's books")
        equal(pinned["pytorch_cached_bytes"], books["totals"]["cached"]["bytes"], "not in use")
        equal(pinned["unattributed_bytes"], 0, "all of the driver's list is PyTorch's")
        listed = sum(r["bytes"] for r in data["ledger"]["ranges"] if r["kind"] == "host")
        equal(listed, books["all"]["bytes"], "the driver's list")
        _, out, _ = report(process.pid, "--width=160")
        check(re.search(r"^Host memory  \S+ MiB pinned \(PyTorch \S+ MiB, of which \S+ \wi?B not in use\)", out, re.M), "the sentence", out)
        _, host = host_of(process.pid, "--read-only")
        equal((host["pinned"]["listed"], host["pinned"]["bytes"]), (False, books["all"]["bytes"]), "from outside")


# ---- shared ----

def same_as_kernel(loader):
    used, total = loader.used()
    check(used > 4 * MIB, "nothing is shared", used)
    _, host = host_of(loader.pid)
    equal(host["dev_shm"], {"total_bytes": total, "used_bytes": used}, "/dev/shm")
    shared = host["shared"]
    equal(shared["torch_bytes"] + shared["other_bytes"], used, "each file once")
    check(shared["torch_bytes"] >= used - MIB, "PyTorch's", shared)
    equal((shared["whole"], shared["by_mappings"], shared["child_processes"]), (True, os.geteuid() != 0, WORKERS), "how it was read")
    return used


def loader_shares(strategy):
    with Loader(strategy) as loader:
        first = same_as_kernel(loader)
        loader.do("next 5")
        second = same_as_kernel(loader)
        # with file_system each file has a page for its own count of users
        equal((second - first) // MIB, 5, f"five batches more are kept {second - first}")
        loader.do("drop")
        check(same_as_kernel(loader) < second, "what was dropped is gone")
        loader.do(f"pin {2 * MIB}")
        text = report(loader.pid, "--width=120")[1]
        check(re.search(rf"^Host memory  2\.00 MiB pinned \(PyTorch 2\.00 MiB\); \S+ MiB of shared memory with {WORKERS} child processes", text,
                        re.M), "the sentence", text)
        check("/dev/shm of 256 MiB is" in " ".join(text.split()), "how full it is", text)


def test_loader_by_descriptors():
    loader_shares("file_descriptor")


def test_loader_by_files():
    loader_shares("file_system")


def test_full():
    """Before a worker ends with a bus error, the report says why it will."""
    with Loader("file_descriptor", "16m") as loader:
        data, _ = host_of(loader.pid)
        check("shm-full" not in diag_codes(data), "it is not full yet", data["diagnostics"])
        used, total = loader.used()
        loader.do(f"next {(total - used) // MIB}")
        loader.used()
        data, host = host_of(loader.pid)
        check(host["dev_shm"]["used_bytes"] > 0.9 * total, "it is full", host)
        check("shm-full" in diag_codes(data), "it is not said", data["diagnostics"])


def test_others():
    """A program without PyTorch: memfds and files of NCCL's; what two processes have counts once; private mappings do not."""
    code = """if True:
        import ctypes, mmap, os, sys
        cuda = ctypes.CDLL("libcuda.so.1"); cuda.cuInit(0)
        nccl = os.open("/dev/shm/nccl-vramtap-test-%d" % os.getpid(), os.O_RDWR | os.O_CREAT); os.unlink("/dev/shm/nccl-vramtap-test-%d" % os.getpid())
        memfd = os.memfd_create("mine")
        kept = []
        for fd, size in ((nccl, 3 << 20), (memfd, 2 << 20)):
            os.ftruncate(fd, size)
            kept.append(mmap.mmap(fd, size))
            kept[-1].write(b"x" * size)
        kept.append(mmap.mmap(nccl, 1 << 20, mmap.MAP_PRIVATE))
        ctypes.CDLL(None).close(nccl)
        child = os.fork()
        if not child:
            sys.stdin.readline()
            os._exit(0)
        print("READY", flush=True)
        sys.stdin.readline()
        os.kill(child, 9)
    """
    with Job([sys.executable, "-c", code], env=simulated()) as job:
        for args in ((), ("--read-only",), ("--no-stop",)):
            _, host = host_of(job.proc.pid, *args)
            shared = host["shared"]
            equal((shared["nccl_bytes"], shared["other_bytes"], shared["torch_bytes"]), (3 * MIB, 2 * MIB, 0), "bytes")
            equal((shared["files"], shared["child_processes"], shared["whole"]), (2, 1, True), "files")


if __name__ == "__main__":
    main(globals())
