# SPDX-License-Identifier: Apache-2.0
"""Who uses a real GPU: what reports and triage say against NVML's own functions and nvidia-smi, byte for byte and MiB for MiB."""
import contextlib
import ctypes
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

from scenarios import Gpu
from harness import COMPLETE, PARTIAL, VRAMTAP, Skip, check, equal, main, report, report_json, target

MIB = 1 << 20
ALLOCATE = r"""
import ctypes, sys, torch
torch.zeros(1, device="cuda")
keep = []
print("READY", flush=True)
for line in sys.stdin:
    what, number = line.split()
    size = int(number) << 20
    if what == "torch":
        keep.append(torch.empty(size, dtype=torch.uint8, device="cuda"))
    elif what == "managed":
        address = ctypes.c_void_p()
        cuda = ctypes.CDLL("libcuda.so.1")
        assert cuda.cuMemAllocManaged(ctypes.byref(address), ctypes.c_size_t(size), 1) == 0
        assert cuda.cuMemsetD8_v2(address, 1, ctypes.c_size_t(size)) == 0
        torch.cuda.synchronize()
    elif what == "sleep":
        torch.cuda._sleep(1 << 62)
    print("ok", flush=True)
"""


class Nvml:
    """NVML's own numbers, by ctypes in this process."""

    class Memory(ctypes.Structure):
        _fields_ = [("version", ctypes.c_uint), ("total", ctypes.c_ulonglong), ("reserved", ctypes.c_ulonglong),
                    ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong)]

    class Process(ctypes.Structure):
        _fields_ = [("pid", ctypes.c_uint), ("used", ctypes.c_ulonglong), ("gi", ctypes.c_uint), ("ci", ctypes.c_uint)]

    def __init__(self):
        try:
            self.library = ctypes.CDLL("libnvidia-ml.so.1")
        except OSError as err:
            raise Skip(f"no NVML: {err}") from None
        equal(self.library.nvmlInit_v2(), 0, "nvmlInit_v2")

    def device(self, uuid):
        handle = ctypes.c_void_p()
        equal(self.library.nvmlDeviceGetHandleByUUID(uuid.encode(), ctypes.byref(handle)), 0, f"the device {uuid}")
        return handle

    def memory(self, uuid):
        memory = self.Memory(version=ctypes.sizeof(self.Memory) | 2 << 24)
        equal(self.library.nvmlDeviceGetMemoryInfo_v2(self.device(uuid), ctypes.byref(memory)), 0, "memory")
        return memory

    def processes(self, uuid):
        found, count = (self.Process * 256)(), ctypes.c_uint(256)
        equal(self.library.nvmlDeviceGetComputeRunningProcesses_v3(self.device(uuid), ctypes.byref(count), found), 0, "processes")
        return {p.pid: p.used for p in found[:count.value]}


@contextlib.contextmanager
def worker(**env):
    with target([sys.executable, "-c", ALLOCATE], ready="READY", env=dict(os.environ, **env), bufsize=0) as proc:
        def tell(line):
            proc.stdin.write(line.encode() + b"\n")
            equal(proc.stdout.readline().decode().strip(), "ok", line)
        proc.tell = tell
        yield proc


def device_of(data):
    """The only device that the process of the report is on."""
    equal(data["cuda"]["usage"]["state"], "read", f"usage ({data['cuda']['usage']['why']})")
    found = [d for d in data["cuda"]["usage"]["devices"] if any(p["ours"] for p in d["processes"] or [])]
    equal(len(found), 1, "devices of this process")
    return found[0]


def agrees(nvml, data):
    """Of a machine where nothing else changes."""
    device = device_of(data)
    memory, theirs = nvml.memory(device["uuid"]), nvml.processes(device["uuid"])
    ours = {p["pid"]: p["bytes"] for p in device["processes"]}
    equal(ours, theirs, "the processes, by NVML itself")
    equal((device["memory"]["used_bytes"], device["memory"]["total_bytes"], device["memory"]["reserved_bytes"]),
          (memory.used, memory.total - memory.reserved, memory.reserved), "the device, by NVML itself")
    equal(sum(ours.values()) + device["no_process_bytes"], memory.used, "the sum")
    smi = shutil.which("nvidia-smi")
    if smi:
        done = subprocess.run([smi, "--query-compute-apps=pid,used_memory,gpu_uuid", "--format=csv,noheader,nounits"], check=True,
                              capture_output=True, text=True)
        rows = [re.split(r",\s*", line) for line in done.stdout.splitlines()]
        said = {int(pid): int(mib) for pid, mib, uuid in rows if uuid == device["uuid"]}
        equal({pid: n // MIB for pid, n in ours.items()}, said, "MiB, by nvidia-smi")
    print(f"  {len(ours)} processes agree: {[round(n / MIB, 1) for n in ours.values()]} MiB, nobody's {device['no_process_bytes'] / MIB:.1f} MiB"
          f"{'' if smi else '; no nvidia-smi here'}")
    return device


def triage(*pids):
    """The job document, and what was printed."""
    with tempfile.TemporaryDirectory() as directory:
        out = os.path.join(directory, "out")
        done = subprocess.run([VRAMTAP, "triage", *pids, "--width", "120", "-o", out], stdin=subprocess.DEVNULL, capture_output=True,
                              timeout=100, check=False)
        check(done.returncode in (COMPLETE, PARTIAL), f"exit code {done.returncode}", done.stderr, done.stdout[-2000:])
        with open(os.path.join(out, "report.json"), encoding="utf-8") as file:
            return json.load(file), done.stdout.decode()


def test_usage_of_one():
    nvml = Nvml()
    with worker() as proc:
        proc.tell("torch 1000")
        data = report_json(proc.pid)
        device = agrees(nvml, data)
        cuda = [d for d in data["cuda"]["devices"] if d["ordinal"] == device["ordinal"]][0]
        equal((cuda["memory"]["used_bytes"], cuda["memory"]["total_bytes"]),
              (device["memory"]["used_bytes"], device["memory"]["total_bytes"]), "NVML's figures and cudaMemGetInfo's")
        totals = data["pytorch"]["allocators"][0]["totals"]
        for option in ("--read-only", "--no-stop"):
            # Without a stop no registers are known, and the libc of Ubuntu 24.04 needs %rbp: stacks that are cut are a partial report.
            other = report_json(proc.pid, option, expect=(COMPLETE, PARTIAL) if option == "--no-stop" else COMPLETE)
            equal({d["code"] for d in other["diagnostics"] if d["level"] == "missing"} - {"cut-stacks"}, set(), "what is missing")
            agrees(nvml, other)
            equal([d["memory"]["from"] for d in other["cuda"]["devices"]], ["NVML"], "the device is known from outside")
            equal(other["cuda"]["devices"][0]["memory"]["used_bytes"], cuda["memory"]["used_bytes"], "used")
            equal(other["pytorch"]["allocators"][0]["totals"]["everything_else_bytes"], totals["everything_else_bytes"], "everything else")
        print("  | " + report(proc.pid, "--width", "120")[1].replace("\n", "\n  | "))


def test_usage_of_several():
    nvml = Nvml()
    with contextlib.ExitStack() as ends:
        procs = [ends.enter_context(worker(RANK=str(i), WORLD_SIZE="4")) for i in range(4)]
        for i, proc in enumerate(procs):
            proc.tell(f"torch {300 * (i + 1)}")
        device = agrees(nvml, report_json(procs[1].pid))
        found = {p["pid"]: p for p in device["processes"]}
        equal({p.pid: found[p.pid]["rank"] for p in procs}, {p.pid: i for i, p in enumerate(procs)}, "ranks")
        equal([p["pid"] for p in device["processes"] if p["pid"] in {q.pid for q in procs}], [p.pid for p in reversed(procs)], "the largest first")
        begin = time.monotonic()
        document, text = triage(*[str(p.pid) for p in procs])
        wall = (time.monotonic() - begin) * 1e3
        equal(len(document["found"]["devices"]), 1, "devices of the job")
        equal(dict(zip([document["members"][i]["pid"] for i in document["found"]["devices"][0]["holders"]],
                       document["found"]["devices"][0]["holders_bytes"])), nvml.processes(device["uuid"]), "triage's table")
        check(" ? " not in text[text.index("Devices"):].split("\n\n")[0], "unknown figures", text)
        print(f"  triage {wall:.0f} ms\n  | " + text[text.index("Devices"):].split("\n\n")[0].replace("\n", "\n  | "))


def test_usage_managed():
    """Managed memory is in no process's figure: it is nobody's."""
    nvml = Nvml()
    with worker() as proc:
        before = agrees(nvml, report_json(proc.pid))
        proc.tell("managed 512")
        after = agrees(nvml, report_json(proc.pid))
        grown = after["no_process_bytes"] - before["no_process_bytes"]
        check(512 * MIB <= grown < 530 * MIB, "nobody's has grown by the managed memory", grown)


def test_usage_namespaces():
    """A process in a pid namespace of its own is one of ours here; from within, others are nobody's."""
    nvml = Nvml()
    unshare = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
    if subprocess.run([*unshare, "true"], stderr=subprocess.DEVNULL, check=False).returncode:
        raise Skip("no pid namespaces")
    with worker() as outer, target([*unshare, sys.executable, "-c", ALLOCATE], ready="READY") as shell:
        with open(f"/proc/{shell.pid}/task/{shell.pid}/children", encoding="ascii") as file:
            inner = int(file.read().split()[0])
        device = agrees(nvml, report_json(outer.pid))
        equal({p["pid"]: p.get("own_pid") for p in device["processes"] if p["pid"] in (inner, outer.pid)}, {inner: 1, outer.pid: None}, "own pids")
        done = subprocess.run(["nsenter", "-t", str(inner), "-p", "-m", VRAMTAP, "report", "--json", "-", "1"], capture_output=True, check=False)
        check(done.returncode in (COMPLETE, PARTIAL), "the report within", done.stderr)
        within = json.loads(done.stdout)["cuda"]["usage"]
        mine = [d for d in within["devices"] if d["uuid"] == device["uuid"]][0]
        equal((within["whole"], [p["pid"] for p in mine["processes"]]), (False, [1]), "what is seen within")
        check(mine["no_process_bytes"] > 100 * MIB, "the outer one is nobody's there", mine)


def test_usage_hung():
    """A kernel that never ends: NVML answers, and so does the report."""
    nvml = Nvml()
    with worker() as proc:
        proc.tell("torch 100")
        proc.tell("sleep 0")
        agrees(nvml, report_json(proc.pid, "--read-only", expect=(COMPLETE, PARTIAL)))


def test_usage_after_the_end():
    """Memory of a killed process is gone from the list, or the list says that the process is."""
    nvml = Nvml()
    with worker() as proc:
        with worker() as other:
            other.tell("torch 2000")
            device = agrees(nvml, report_json(proc.pid))
            other.kill()
            for _ in range(20):
                found = [p for p in device_of(report_json(proc.pid, expect=(COMPLETE, PARTIAL)))["processes"] if p["pid"] == other.pid]
                check(not found or found[0]["life"] in ("there", "zombie", "unknown"), "life", found)
        device = agrees(nvml, report_json(proc.pid))
        check(other.pid not in {p["pid"] for p in device["processes"]}, "it is still there")


def test_usage_timings():
    """What it adds to a report: the wait for NVML at the end, and the whole."""
    with Gpu("idle", "--blocks", "10000", "--plain") as gpu:
        figures = {args: {"waited": [], "wall": []} for args in ("", "--read-only")}
        for i in range(21):
            for args, of in figures.items():
                begin = time.monotonic()
                data = report_json(gpu.proc.pid, *args.split())
                if i:
                    of["wall"].append((time.monotonic() - begin) * 1e3)
                    of["waited"].append(data["cuda"]["usage"]["ms"])
        for args, of in figures.items():
            for name, values in of.items():
                print(f"  FIGURE usage, report {args} {name}: median {statistics.median(values):.2f} min {min(values):.2f} max {max(values):.2f} ms")
        gpu.unharmed()


if __name__ == "__main__":
    main(globals())
