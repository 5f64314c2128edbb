#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Who uses the devices: reports and triage beside a management library that says what a test wants, hangs, fails, or is missing."""
import contextlib
import functools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time

from harness import (COMPLETE, PARTIAL, SOURCE, VRAMTAP, Skip, check, check_schema, compile_c, diag_codes, equal, main, report,
                     schema_errors, scratch, target, vramtap, wait_until)
from report_torch import Driver, versions

MIB = 1 << 20
OTHER = 5000  # MiB of other processes
TOTAL = 81920
RESERVED = 600
LIBRARY = os.path.join(SOURCE, "tests", "simcuda", "host", "nvml.c")
WHOLE = os.stat("/proc/self/ns/pid").st_ino == 0xEFFFFFFC  # tests run in a pid namespace of their own
NOBODY = 4194303  # the largest pid that there can be


@functools.cache
def built(*flags):
    with open(LIBRARY, encoding="utf-8") as file:
        return compile_c(file.read(), "-std=gnu11", "-shared", "-fPIC", "-Wl,-soname,libnvidia-ml.so.1", *flags)


def library(*flags):
    """The stand-in, in a directory of its own."""
    directory = scratch()
    shutil.copy(built(*flags), os.path.join(directory, "libnvidia-ml.so.1"))
    return directory


def uuid_of(device):
    """Of a simulated device."""
    text = b"vramtap-simcuda".hex() + f"{device:02x}"
    return f"GPU-{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


class Host:
    """What the library says; text for humans in the order of the file."""

    def __init__(self, *flags, driver="580.159.04"):
        self.directory = library(*flags)
        self.lines = [f"driver {driver}"]

    def device(self, number, used, total=TOTAL):
        self.lines.append(f"device {uuid_of(number)} 00000000:{number + 1:02X}:00.0 {number} {total} {used} {RESERVED} NVIDIA H100 80GB HBM3")

    def process(self, pid, mib, kind="compute"):
        self.lines.append(f"process {pid} {mib} {kind}")

    def add(self, line):
        self.lines.append(line)

    def write(self):
        path = os.path.join(self.directory, "host.txt")
        with open(path + ".new", "w", encoding="utf-8") as file:
            file.write("\n".join(self.lines) + "\n")
        os.rename(path + ".new", path)

    def env(self):
        self.write()
        return dict(os.environ, LD_LIBRARY_PATH=self.directory)

    def report(self, pid, *args, expect=COMPLETE):
        code, out, err = report(pid, "--json", "-", *args, env=self.env())
        check(code in (expect if isinstance(expect, tuple) else (expect,)), "exit code", code, err)
        data = json.loads(out)
        check_schema(data)
        return data

    def text(self, pid, *args):
        return report(pid, *args, env=self.env(), expect=(COMPLETE, PARTIAL))[1]


def busy():
    """A process with memory of device 0, and none of device 1."""
    return Driver(versions()[-1], SIMCUDA_MEM_MB=str(TOTAL - RESERVED), SIMCUDA_OTHER_MB=str(OTHER))


def used_by(driver):
    """MiB of the device, as CUDA has it."""
    data = json.loads(report(driver.pid, "--json", "-", expect=COMPLETE)[1])
    equal(data["cuda"]["usage"]["state"], "no-nvml", "without the library")
    return data["cuda"]["devices"][0]["memory"]["used_bytes"] // MIB


@contextlib.contextmanager
def sleeper(**env):
    with target([sys.executable, "-c", "import time; print('up', flush=True); time.sleep(1000)"], ready="up",
                env=dict(os.environ, **env)) as proc:
        yield proc


def by_pid(data, device=0):
    return {p["pid"]: p for p in data["cuda"]["usage"]["devices"][device]["processes"]}


# ---- who it is ----

def test_everybody_is_named():
    with busy() as driver, sleeper(RANK="3", WORLD_SIZE="8", POD_NAME="trainer-3") as other:
        driver("alloc 30 5000000")
        used = used_by(driver)
        host = Host()
        host.device(0, used)
        host.process(driver.pid, used - OTHER - 20)
        host.process(other.pid, OTHER - 100)
        host.process(other.pid, OTHER - 100, "graphics")  # one number, in two lists
        host.process(os.getpid(), 100)
        host.device(1, 0)
        for args in ([], ["--read-only"], ["--no-stop"]):
            data = host.report(driver.pid, *args)
            usage = data["cuda"]["usage"]
            equal((usage["state"], usage["whole"], usage["foreign"]), ("read", WHOLE, False), "state")
            equal(len(usage["devices"]), 2, "devices")
            device, processes = usage["devices"][0], by_pid(data)
            equal(set(processes), {driver.pid, other.pid, os.getpid()}, "processes")
            equal([p["bytes"] for p in device["processes"]], sorted((p["bytes"] for p in processes.values()), reverse=True), "order")
            equal({pid: p["bytes"] // MIB for pid, p in processes.items()},
                  {driver.pid: used - OTHER - 20, other.pid: OTHER - 100, os.getpid(): 100}, "MiB")
            equal(sum(p["bytes"] for p in processes.values()) + device["no_process_bytes"], device["memory"]["used_bytes"], "sum")
            equal(device["no_process_bytes"], 20 * MIB, "nobody's")
            p = processes[other.pid]
            equal((p["rank"], p["pod"], p["name"], p["life"], p["ours"], p.get("graphics")),
                  (3, "trainer-3", "python3" if p["name"] == "python3" else p["name"], "there", False, True), "the other")
            check("time.sleep(1000)" in p["command_line"], "command", p)
            check(processes[driver.pid]["ours"], "ours", processes)
            equal((device["ordinal"], device["uuid"]), (0, uuid_of(0)), "CUDA's number")
            # The device is known without asking the process.
            known = data["cuda"]["devices"][0]
            equal(known["memory"]["used_bytes"], used * MIB, "used")
            equal(known["memory"]["total_bytes"], (TOTAL - RESERVED) * MIB, "total as CUDA has it")
            equal(known["memory"]["from"], "NVML" if args else "cudaMemGetInfo", "from")
            check("read-only" not in diag_codes(data), "the devices are known", data["diagnostics"])
            totals = data["pytorch"]["allocators"][0]["totals"]
            equal(totals["everything_else_bytes"], used * MIB - totals["reserved_bytes"], "everything else")
            for columns in ("80", "160"):
                text = host.text(driver.pid, "--color=never", *args)
                lines = [line for line in text[text.index("GPU 0"):].split("\n") if not line.startswith("  PCI ")]
                check(re.match(r"  this process +\S+ \wiB$", lines[1]), "this process comes first", lines[:6])
                check(re.match(rf"  pid {other.pid} \(.*\) +4\.79 GiB   ", lines[2]), "then the largest", lines[:6], columns)
                check("rank 3" in lines[2] and "pod trainer" in lines[2], "rank and pod", lines[2])
                check(re.match(r"  no process (seen from here)? +20.0 MiB", lines[4]), "and nobody's", lines[:6])


def test_of_two_devices():
    """From outside, CUDA's numbers are not known for certain: then none is told."""
    with busy() as driver:
        driver("alloc 3 5000000")
        driver("device 1")
        driver("alloc 3 5000000")
        host = Host()
        host.device(0, 700)
        host.process(driver.pid, 600)
        host.device(1, 500)
        host.process(driver.pid, 400)
        data = host.report(driver.pid, "--read-only")
        equal(data["cuda"]["devices"], [], "devices with a number")
        equal([d["ordinal"] for d in data["cuda"]["usage"]["devices"]], [None, None], "numbers")
        text = host.text(driver.pid, "--read-only", "--color=never")
        check(re.search(r"^GPU-7672616d .* of 79.4 GiB used", text, re.M), "the devices by their UUID", text[:1500])
        data = host.report(driver.pid)
        equal([d["ordinal"] for d in data["cuda"]["usage"]["devices"]], [0, 1], "numbers from inside")


def test_it_changes_meanwhile():
    """Nothing is called everything else when the numbers are of different moments."""
    with busy() as driver:
        driver("alloc 30 5000000")
        host = Host()
        host.device(0, 1000)
        host.process(driver.pid, 900)
        host.add("wait nvmlDeviceGetMemoryInfo_v2 5")
        host.write()
        going = True

        def change():
            used = 1000
            while going:
                used = 1000 if used > 1040 else used + 1
                host.lines[1] = host.lines[1].replace(f" {host.lines[1].split()[5]} {RESERVED}", f" {used} {RESERVED}")
                host.write()
                time.sleep(0.002)

        thread = threading.Thread(target=change)
        thread.start()
        try:
            for _ in range(10):
                code, out, _ = report(driver.pid, "--json", "-", "--read-only",
                                      env=dict(os.environ, LD_LIBRARY_PATH=host.directory))
                data = json.loads(out)
                device = data["cuda"]["usage"]["devices"][0]
                totals = data["pytorch"]["allocators"][0]["totals"]
                equal(code, COMPLETE, "exit code")
                check(not device["changed_bytes"] or totals["everything_else_bytes"] is None, "mixes two moments", device, totals)
        finally:
            going = False
            thread.join()


def test_those_that_have_ended():
    """A zombie, one that is gone, and one that ends while it is looked at."""
    with busy() as driver, sleeper() as other:
        driver("alloc 1 5000000")
        pid = os.fork()
        if pid == 0:
            os._exit(0)
        try:
            host = Host()
            host.device(0, 9000)
            for process, mib in ((driver.pid, 500), (pid, 300), (NOBODY, 200), (other.pid, 100)):
                host.process(process, mib)
            data = host.report(driver.pid)
            equal({p: by_pid(data)[p]["life"] for p in (driver.pid, pid, NOBODY, other.pid)},
                  {driver.pid: "there", pid: "zombie", NOBODY: "gone", other.pid: "there"}, "lives")
            text = host.text(driver.pid, "--color=never")
            check(re.search(rf"pid {NOBODY} +200 MiB   is gone, but its memory stays", text), "gone", text[:1500])
            check(re.search(rf"pid {pid} \(\S+\) +300 MiB   has ended, but its memory stays", text), "zombie", text[:1500])
        finally:
            os.waitpid(pid, 0)

        # It is in the list once more after its end, and then no longer: it is not called gone.
        host = Host()
        host.device(0, 9000)
        host.process(driver.pid, 500)
        host.process(NOBODY, 200)
        host.add("wait nvmlDeviceGetGraphicsRunningProcesses_v3 60")
        env = host.env()
        host.lines.remove(f"process {NOBODY} 200 compute")
        thread = threading.Timer(0.15, host.write)
        thread.start()
        data = json.loads(report(driver.pid, "--json", "-", env=env)[1])
        thread.join()
        check(by_pid(data).get(NOBODY, {"life": "gone"})["life"] in ("gone", "unknown"), "life", by_pid(data))


def test_main_thread_has_ended():
    """Its main thread is a zombie; the process is not."""
    source = r"""
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
static void *stay(void *arg) { puts("up"); fflush(stdout); pause(); return arg; }
int main(void) { pthread_t t; pthread_create(&t, NULL, stay, NULL); pthread_exit(NULL); }
"""
    with busy() as driver, target([compile_c(source, "-pthread")], ready="up") as other:
        driver("alloc 1 5000000")
        host = Host()
        host.device(0, 9000)
        host.process(driver.pid, 500)
        host.process(other.pid, 300)
        equal(by_pid(host.report(driver.pid))[other.pid]["life"], "there", "life")


def test_container():
    root = scratch()
    name = "0123456789ab" + "cdef" * 13
    path = os.path.join(root, f"vramtap-test-{os.getpid()}", f"docker-{name}.scope")
    if subprocess.run(["mount", "-t", "cgroup2", "none", root], stderr=subprocess.DEVNULL, check=False).returncode:
        raise Skip("control groups cannot be mounted")
    try:
        os.makedirs(path)
        with busy() as driver, sleeper() as other:
            with open(os.path.join(path, "cgroup.procs"), "w", encoding="ascii") as file:
                file.write(str(other.pid))
            driver("alloc 1 5000000")
            host = Host()
            host.device(0, 9000)
            host.process(driver.pid, 500)
            host.process(other.pid, 300)
            equal(by_pid(host.report(driver.pid))[other.pid]["container"], name[:12], "container")
            check(f"container {name[:12]}" in host.text(driver.pid, "--color=never"), "in the text")
    except OSError as err:
        raise Skip(f"no process can be moved: {err}") from None
    finally:
        with contextlib.suppress(OSError):
            os.rmdir(path)
            os.rmdir(os.path.dirname(path))
        subprocess.run(["umount", root], check=False)


def namespace_inside():
    """In a pid namespace of its own; prints what reports say with an old and a new driver, and of a process below."""
    found = {}
    with busy() as driver:
        driver("alloc 1 5000000")
        for version in ("580.65.06", "545.23.06", "545.23.05", "535.54.03"):
            host = Host(driver=version)
            host.device(0, 9000)
            host.process(driver.pid, 500)
            data = host.report(driver.pid)
            found[version] = data["cuda"]["usage"]
            found[version + " text"] = host.text(driver.pid, "--color=never")
    print("INSIDE", json.dumps(found), flush=True)


def test_in_a_namespace():
    command = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child", sys.executable, "-B", os.path.abspath(__file__), "namespace_inside"]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120, check=False)
    inside = [line for line in done.stdout.decode().split("\n") if line.startswith("INSIDE ")]
    if not inside and b"unshare" in done.stderr:
        raise Skip(f"no pid namespace: {done.stderr.decode()[:200]}")
    check(inside, "the report within", done.stdout.decode()[-1000:], done.stderr.decode()[-2000:])
    found = json.loads(inside[0].split(None, 1)[1])
    for version in ("580.65.06", "545.23.06"):
        usage = found[version]
        equal((usage["state"], usage["whole"], usage["foreign"]), ("read", False, False), version)
        p = usage["devices"][0]["processes"][0]
        equal((p["ours"], p["life"]), (True, "there"), version)
        check("no process seen from here" in found[version + " text"], "what cannot be seen", found[version + " text"][:800])
    for version in ("545.23.05", "535.54.03"):
        usage = found[version]
        equal((usage["state"], usage["whole"], usage["foreign"]), ("read", False, True), version)
        p = usage["devices"][0]["processes"][0]
        equal((p["ours"], p["life"], p["name"]), (False, "unknown", None), "a number of another namespace names nobody here")


def test_process_in_a_namespace():
    command = ["unshare", "--pid", "--fork", "--kill-child", sys.executable, "-c",
               "import os, time; print('up', os.getpid(), flush=True); time.sleep(1000)"]
    try:
        with busy() as driver, target(command, ready="up") as shell:
            with open(f"/proc/{shell.pid}/task/{shell.pid}/children", encoding="ascii") as file:
                pid = int(file.read().split()[0])
            driver("alloc 1 5000000")
            host = Host()
            host.device(0, 9000)
            host.process(driver.pid, 500)
            host.process(pid, 300)
            equal(by_pid(host.report(driver.pid))[pid]["own_pid"], 1, "its own number")
    except AssertionError as err:
        if "ended before it was ready" in str(err):
            raise Skip("no pid namespace") from None
        raise


# ---- the library ----

def test_versions_of_the_lists():
    with busy() as driver:
        driver("alloc 1 5000000")
        for flags in (["-DNVML_LISTS=1"], ["-DNVML_LISTS=2"], ["-DNVML_LISTS=3"], ["-DNVML_535"]):
            for n in (0, 1, 2, 7):
                host = Host(*flags)
                host.device(0, 9000)
                host.process(driver.pid, 500)
                for i in range(n):
                    host.process(NOBODY - i, 100 + i)
                host.process(NOBODY - 100, 50, "graphics")
                data = host.report(driver.pid)
                equal({pid: p["bytes"] // MIB for pid, p in by_pid(data).items()},
                      {driver.pid: 500, NOBODY - 100: 50, **{NOBODY - i: 100 + i for i in range(n)}}, f"{flags} {n}")


def test_instances():
    """MIG: a process is on an instance, and the device has none of its own."""
    with busy() as driver, sleeper() as other:
        driver("alloc 1 5000000")
        host = Host()
        host.device(5, 3000)
        mine = "MIG" + uuid_of(0)[3:]
        host.add(f"mig {mine} 1 0 20000 1000")
        host.process(driver.pid, 900)
        host.add("mig MIG-00000000-1111-2222-3333-444444444444 2 0 20000 800")
        host.process(other.pid, 700)
        data = host.report(driver.pid)
        devices = data["cuda"]["usage"]["devices"]
        equal([(d["divided"], d["parent"]) for d in devices], [(True, None), (False, 0), (False, 0)], "the device and its instances")
        equal(devices[0]["processes"], None, "processes of the whole device")
        equal([p["pid"] for p in devices[1]["processes"]], [driver.pid], "on the first instance")
        equal([p["pid"] for p in devices[2]["processes"]], [other.pid], "on the other")
        equal((devices[1]["ordinal"], devices[2]["ordinal"]), (0, None), "CUDA's number of it")
        equal(devices[1]["no_process_bytes"], 100 * MIB, "nobody's")
        check(str(other.pid) not in host.text(driver.pid, "--color=never").split("main thread")[0], "it is on another instance")


def test_unknown_sizes():
    with busy() as driver:
        driver("alloc 1 5000000")
        host = Host()
        host.device(0, 9000)
        host.process(driver.pid, 500)
        host.process(os.getpid(), "?")
        data = host.report(driver.pid)
        equal((by_pid(data)[os.getpid()]["bytes"], data["cuda"]["usage"]["devices"][0]["no_process_bytes"]), (None, None), "unknown")
        check(re.search(rf"pid {os.getpid()} \(\S+\) +\?", host.text(driver.pid, "--color=never")), "in the text")


def test_many_processes():
    """More than there is room for: NVML says so, and nothing is told instead of a part."""
    with busy() as driver:
        driver("alloc 1 5000000")
        for n, known in ((1000, True), (1500, False)):
            host = Host()
            host.device(0, 60000)
            host.process(driver.pid, 500)
            for i in range(n):
                host.process(NOBODY - i, 1)
            device = host.report(driver.pid)["cuda"]["usage"]["devices"][0]
            equal(device["processes"] is not None, known, f"{n} processes")
            check(device["memory"], "its memory is known in any case")
            if known:
                check(f"{n - 6} more processes" in host.text(driver.pid, "--color=never").replace(",", ""), "the rest in one line")


def askers():
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                if file.read().startswith(b"vramtap-asker"):
                    found.append(int(pid))
    return found


def test_it_hangs():
    with busy() as driver:
        driver("alloc 1 5000000")
        for function in ("nvmlInit_v2", "nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetMemoryInfo_v2",
                         "nvmlDeviceGetComputeRunningProcesses_v3"):
            host = Host()
            host.device(0, 9000)
            host.process(driver.pid, 500)
            host.add(f"hang {function}")
            for args in ([], ["--read-only"]):
                begin = time.monotonic()
                data = host.report(driver.pid, *args)
                took = time.monotonic() - begin
                equal(data["cuda"]["usage"]["state"], "late", function)
                check("usage-unknown" in diag_codes(data), "it is said", data["diagnostics"])
                check(took < 5, "a report waits", took)
                equal(bool(data["cuda"]["devices"]), not args, "devices")
                wait_until(lambda: not askers(), 2, "the process that hangs is gone")


def test_little_is_permitted():
    """What loads a foreign library may do little: no new privileges, no other programs, no descriptors of ours."""
    with busy() as driver:
        driver("alloc 1 5000000")
        host = Host()
        host.device(0, 9000)
        host.add("hang nvmlDeviceGetUUID")
        secret = os.open("/etc/hostname", os.O_RDONLY)
        os.set_inheritable(secret, True)
        env = host.env()
        with subprocess.Popen([VRAMTAP, "report", str(driver.pid)], env=env, close_fds=False, stdout=subprocess.DEVNULL) as proc:
            try:
                wait_until(askers, 5, "it asks")
                pid = askers()[0]
                wait_until(lambda: "Seccomp:\t2" in open(f"/proc/{pid}/status", encoding="utf-8").read(), 2, "its filter")
                with open(f"/proc/{pid}/status", encoding="utf-8") as file:
                    status = file.read()
                equal(re.search(r"NoNewPrivs:\s*(\d)", status)[1], "1", "new privileges")
                check(int(re.search(r"CapEff:\s*(\w+)", status)[1], 16) & ~(1 << 21) == 0, "capabilities", status)
                equal(sorted(map(int, os.listdir(f"/proc/{pid}/fd")))[:4], [0, 1, 2, 3], "descriptors")
                targets = [os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")]
                check(not any("hostname" in t or "memfd" in t for t in targets), "descriptors", targets)
                with open(f"/proc/{pid}/environ", "rb") as file:
                    equal(file.read().split(b"\0")[:-1], [b"LD_LIBRARY_PATH=" + host.directory.encode()], "environment")
            finally:
                proc.send_signal(signal.SIGKILL)
        os.close(secret)
        wait_until(lambda: not askers(), 2, "it ends with vramtap")


def test_it_fails():
    with busy() as driver:
        driver("alloc 1 5000000")

        def usage(*lines, **kwargs):
            host = Host(**kwargs)
            host.device(0, 9000)
            host.process(driver.pid, 500)
            host.lines += lines
            data = host.report(driver.pid)
            equal(data["cuda"]["devices"][0]["memory"]["from"], "cudaMemGetInfo", "what the process says is there all the same")
            return data["cuda"]["usage"], data

        for function in ("nvmlInit_v2", "nvmlDeviceGetUUID", "nvmlDeviceGetComputeRunningProcesses_v3"):
            found, data = usage(f"crash {function}")
            equal(found["state"], "refused", function)
            check("usage-unknown" in diag_codes(data), "it is said", data["diagnostics"])
        found, _ = usage("error nvmlInit_v2 18")
        equal((found["state"], "different versions" in found["why"]), ("refused", True), "a driver of another version")
        found, _ = usage("error nvmlDeviceGetCount_v2 999")
        equal(found["state"], "refused", "no list of devices")
        found, _ = usage("error nvmlDeviceGetMemoryInfo_v2 3", "error nvmlDeviceGetMemoryInfo 3")
        equal((found["state"], found["devices"][0]["memory"]), ("read", None), "no memory")
        found, _ = usage("error nvmlDeviceGetMemoryInfo_v2 3")
        equal(found["devices"][0]["memory"], {"total_bytes": TOTAL * MIB, "used_bytes": (9000 + RESERVED) * MIB, "reserved_bytes": None},
              "the older question")
        found, _ = usage("error nvmlDeviceGetComputeRunningProcesses_v3 4")
        equal((found["state"], found["devices"][0]["processes"]), ("read", None), "no permission for the list")
        found, _ = usage("process 77 999999999")
        equal((found["state"], "makes no sense" in found["why"]), ("refused", True), "more than the device has")


def test_it_is_missing():
    with busy() as driver:
        driver("alloc 1 5000000")
        data = json.loads(report(driver.pid, "--json", "-", expect=COMPLETE)[1])
        equal((data["cuda"]["usage"]["state"], data["cuda"]["usage"]["devices"]), ("no-nvml", []), "state")
        check("usage-unknown" not in diag_codes(data), "no word of it", data["diagnostics"])
        directory = scratch()
        with open(os.path.join(directory, "libnvidia-ml.so.1"), "wb") as file:
            file.write(b"\x7fELF no library")
        data = json.loads(report(driver.pid, "--json", "-", expect=COMPLETE, env=dict(os.environ, LD_LIBRARY_PATH=directory))[1])
        equal(data["cuda"]["usage"]["state"], "no-nvml", "one that cannot be loaded")


# ---- many processes at once ----

def test_triage():
    """The devices are known without code in the processes, and everybody that is on them."""
    with busy() as one, busy() as two, sleeper() as other:
        for driver in (one, two):
            driver("alloc 10 5000000")
        host = Host()
        host.device(0, 20000)
        host.process(one.pid, 9000)
        host.process(other.pid, 3000)
        host.process(NOBODY, 2000)
        host.device(1, 500)
        host.process(two.pid, 400)
        out = scratch()
        _, text, _ = vramtap("triage", "-o", out, "--color=never", str(one.pid), str(two.pid), env=host.env(), expect=(COMPLETE, PARTIAL))
        with open(os.path.join(out, "report.json"), encoding="utf-8") as file:
            data = json.load(file)
        with contextlib.suppress(Skip):
            equal(schema_errors(data, schema_file="triage.schema.json"), [], "what the schema does not allow")
        devices = {d["uuid"]: d for d in data["found"]["devices"]}
        equal(set(devices), {uuid_of(0), uuid_of(1)}, "devices")
        members = [m["pid"] for m in data["members"]]
        for number, driver, used, held in ((0, one, 20000, 9000), (1, two, 500, 400)):
            d = devices[uuid_of(number)]
            equal((d["total_bytes"], d["free_bytes"]), ((TOTAL - RESERVED) * MIB, (TOTAL - RESERVED - used) * MIB), "memory")
            equal([members[i] for i in d["holders"]], [driver.pid], "holders")
            equal(d["holders_bytes"], [held * MIB], "what they hold")
            equal(d["outside_bytes"], (used - held) * MIB, "what else there is")
        table = text[text.index("Devices"):].split("\n\n")[0]
        check("?" not in table, "something is not known", table)
        check(re.search(r"8\.79 GiB \(PyTorch [0-9.]+ MiB\), pid \d+ \(\S+\) 2\.93 GiB, pid 4194303 \(gone\)\s+1\.95 GiB", re.sub(r"\s+", " ", table)),
              "who is on it", table)
        # Saved, and read again.
        again = vramtap("triage", "--from", out, "--color=never", expect=(COMPLETE, PARTIAL))[1]
        equal(again[again.index("Devices"):].split("\n\n")[0], table, "read again")
        host.add("hang nvmlInit_v2")
        begin = time.monotonic()
        vramtap("triage", "-o", scratch(), str(one.pid), str(two.pid), env=host.env(), expect=(COMPLETE, PARTIAL))
        check(time.monotonic() - begin < 10, "triage waits", time.monotonic() - begin)
        wait_until(lambda: not askers(), 2, "the process that hangs is gone")


if __name__ == "__main__":
    if sys.argv[1:] == ["namespace_inside"]:
        namespace_inside()
    else:
        main(globals())
