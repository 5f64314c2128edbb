#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""vramtap ps: processes that use CUDA, beside a management library that says what a test wants; against /proc and reports."""
import contextlib
import datetime
import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time

from prometheus_text import documented, in_sources, parse
from prometheus_text import select as select_samples
from harness import (COMPLETE, NOT_PERMITTED, PARTIAL, USAGE, QUICK, VRAMTAP, Skip, check, equal, main, report_json, schema_errors, scratch,
                     target, vramtap, wait_until)
from report_official import torch_program
from report_torch import versions
from triage_watchdog import process_that_blocks
from usage import MIB, NOBODY, OTHER, WHOLE, Host, busy, sleeper

NOBODYS = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]


ENDS = (COMPLETE, PARTIAL)  # others may run on this machine, and be in the middle of anything


def look(host=None, *args, expect=ENDS, env=None, prefix=()):
    """What ps says as JSON; of processes by pid."""
    env = env or (host.env() if host else None)
    done = subprocess.run([*prefix, VRAMTAP, "ps", "--json", "-", *args], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, timeout=60, check=False, env=env)
    if b"failed to execute" in done.stderr:
        raise Skip("the build directory is not open to other users")
    check(done.returncode in (expect if isinstance(expect, tuple) else (expect,)), "exit code", done.returncode, done.stderr, done.stdout[:2000])
    data = json.loads(done.stdout)
    with contextlib.suppress(Skip):
        equal(schema_errors(data, schema_file="ps.schema.json"), [], "what the schema does not allow")
    return data, {p["pid"]: p for p in data["processes"]}


def text_of(host, *args, columns=160):
    _, out, err = vramtap("ps", "--color=never", f"--width={columns}", *args, env=host.env() if host else None)
    check(all(len(line) <= columns for line in out.split("\n")), "width", out)
    equal(err, "", "standard error")
    return out


def row(text, pid):
    lines = [line for line in text.split("\n") if line.split()[:1] == [str(pid)]]
    equal(len(lines), 1, f"lines of {pid} in\n{text}")
    return lines[0]


def two_gpus(a, b):
    """a on both devices, b on the second."""
    host = Host()
    host.device(0, 9000)
    host.process(a.pid, 800)
    host.device(1, 3000)
    host.process(a.pid, 50)
    host.process(b.pid, 1900)
    return host


def test_all_of_them():
    with busy() as a, busy() as b, sleeper() as bystander:
        a("alloc 30 5000000")
        b("alloc 3 5000000")
        host = two_gpus(a, b)
        data, found = look(host)
        check(bystander.pid not in found and os.getpid() not in found, "who does not use CUDA", list(found))
        for pid, devices, mib in ((a.pid, ["0", "1"], 850), (b.pid, ["1"], 1900)):
            p = found[pid]
            equal((p["devices"], p["driver_bytes"] // MIB, p["counted"], p["life"]), (devices, mib, True, "there"), f"{pid}")
            totals = report_json(pid, "--read-only", "--no-owners", expect=(COMPLETE, PARTIAL))["pytorch"]["allocators"][0]["totals"]
            equal((p["pytorch"]["state"], p["pytorch"]["reserved_bytes"], p["pytorch"]["allocated_bytes"]),
                  ("known", totals["reserved_bytes"], totals["allocated"]["bytes"]), "PyTorch's memory, as a report has it")
            with open(f"/proc/{pid}/comm", encoding="ascii") as comm:
                equal(p["name"], comm.read().strip(), "name")
            equal((p["parent"], p["state"], p["holds_nothing"]), (os.getpid(), "sleeping", False), "who it is")
            equal(p["system_call"], "read", "it waits for a command")
        ours = [p["pid"] for p in data["processes"] if p["pid"] in (a.pid, b.pid)]
        equal(ours, [a.pid, b.pid], "by device, then by memory")
        device = data["devices"][1]
        equal((device["device"], device["used_bytes"], device["used_bytes"] + device["free_bytes"], device["no_process_bytes"]),
              ("1", 3000 * MIB, device["total_bytes"], (3000 - 1950) * MIB), "the device's own line")
        for columns in (80, 120, 160):
            text = text_of(host, columns=columns)
            check(re.search(r"^GPU 1 +H100.* 2\.93 of [\d.]+ GiB used, .* (nobody.s|not seen) 1\.03 GiB", text, re.M), "a line for each device", text)
            check(re.search(rf"^ *{a.pid} \w+ +0,1? *…? ", text, re.M) and " 850 MiB " in row(text, a.pid), "of both devices", text)
            check("sleeping in read" in row(text, b.pid) if columns >= 140 else " in read " in row(text, b.pid), "state", text)
            check("c10_driver" in row(text, b.pid), "command", text)


def test_states():
    with busy() as a, busy() as b:
        a("alloc 3 5000000")
        host = two_gpus(a, b)
        os.kill(a.pid, signal.SIGSTOP)
        wait_until(lambda: look(host)[1][a.pid]["state"] == "stopped", 5, "it is stopped")
        check(" stopped " in row(text_of(host), a.pid), "in the text")
        os.kill(a.pid, signal.SIGCONT)
        host.process(NOBODY, 77)
        found = look(host)[1]
        equal((found[NOBODY]["state"], found[NOBODY]["life"], found[NOBODY]["driver_bytes"] // MIB), ("gone", "gone", 77), "memory without a process")
        check("it has ended, but its memory stays" in row(text_of(host), NOBODY), "in the text")
    child = subprocess.Popen(["true"])
    time.sleep(0.2)
    try:
        host = Host()
        host.device(0, 500)
        host.process(child.pid, 100)
        equal(look(host)[1][child.pid]["state"], "zombie", "a zombie that holds memory")
    finally:
        child.wait()


def test_nothing_is_touched():
    """Its threads never run for it, and are never traced."""
    with busy() as a:
        a("alloc 3 5000000")

        def switches():
            sums = {}
            for tid in os.listdir(f"/proc/{a.pid}/task"):
                with open(f"/proc/{a.pid}/task/{tid}/status", encoding="ascii") as file:
                    sums[tid] = re.findall(r"ctxt_switches:\t(\d+)", file.read())
            return sums
        time.sleep(0.3)
        before = switches()
        for _ in range(5):
            look()
        equal(switches(), before, "switches of its threads")


def test_who():
    """Launchers' variables, the number in a container, names that want to paint on the terminal."""
    hostile = "\x1b[2J\x07evil\n\xff"
    with busy() as a, sleeper(RANK="3", LOCAL_RANK="1", WORLD_SIZE="8", SLURM_JOB_ID="4711", POD_NAME="trainer-3") as b, \
            sleeper(POD_NAME=hostile, SLURM_JOB_ID=hostile) as c:
        host = two_gpus(a, b)
        host.process(c.pid, 10)
        _, found = look(host)
        p = found[b.pid]
        equal((p["rank"], p["local_rank"], p["world_size"], p["job"], p["pod"], p["environment_known"]),
              (3, 1, 8, "slurm 4711", "trainer-3", True), "who it is")
        check("rank 3/8, slurm 4711, pod trainer-3: " in row(text_of(host), b.pid), "in the text")
        text = text_of(host, columns=160)
        check("\x1b" not in text and "\x07" not in text and "\\x1b[2J" in row(text, c.pid), "escaped", row(text, c.pid))
    command = ["unshare", "--pid", "--fork", "--kill-child", sys.executable, "-c", "import time; print('up', flush=True); time.sleep(1000)"]
    try:
        with target(command, ready="up") as shell, busy() as a:
            with open(f"/proc/{shell.pid}/task/{shell.pid}/children", encoding="ascii") as file:
                pid = int(file.read().split()[0])
            host = Host()
            host.device(0, 9000)
            host.process(pid, 300)
            equal(look(host)[1][pid]["own_pid"], 1, "its own number")
            check("there pid 1" in row(text_of(host), pid), "in the text")
    except AssertionError as err:
        if "ended before it was ready" in str(err):
            raise Skip("no pid namespace") from None
        raise


def test_other_users():
    if os.getuid() != 0:
        raise Skip("needs root to become another user")
    with busy() as a:
        a("alloc 3 5000000")
        host = Host()
        host.device(0, 9000)
        host.process(a.pid, 500)
        os.chmod(host.directory, 0o755)
        env = host.env()
        data, found = look(env=env, prefix=NOBODYS, expect=PARTIAL)
        if data["driver_count"] != "read":
            raise Skip(f"the library cannot be read by others: {data['driver_count_why']}")
        p = found[a.pid]
        equal((p["pytorch"]["state"], p["pytorch"]["reserved_bytes"], p["driver_bytes"] // MIB, p["environment_known"]),
              ("not-permitted", None, 500, False), "what another user may know")
        check(data["unseen_processes"] > 0, "that there are others", data["unseen_processes"])
        done = subprocess.run([*NOBODYS, VRAMTAP, "ps", "--width=160"], env=env, capture_output=True, check=False, timeout=30)
        text = done.stdout.decode()
        check(re.search(r" +\? +500 MiB ", row(text, a.pid)) and "may not read that process: try sudo" in text, "in the text", text)
        # Without the driver's count nothing at all is known.
        check(look(prefix=NOBODYS, expect=NOT_PERMITTED)[0]["driver_count"] == "no-nvml", "no library")


def test_driver_does_not_tell():
    with busy() as a:
        a("alloc 3 5000000")
        data, found = look(expect=PARTIAL)
        equal((data["driver_count"], found[a.pid]["driver_bytes"], found[a.pid]["pytorch"]["state"]), ("no-nvml", None, "known"), "without NVML")
        check("there is no libnvidia-ml.so.1 here" in text_of(None), "why")
        host = two_gpus(a, a)
        host.add("hang nvmlDeviceGetMemoryInfo_v2")
        begun = time.monotonic()
        data, found = look(host, expect=PARTIAL)
        check(time.monotonic() - begun < 3, "it hangs", time.monotonic() - begun)
        equal((data["driver_count"], found[a.pid]["pytorch"]["state"]), ("late", "known"), "it hangs")
        check("DRIVER is not known: " in text_of(host), "why")


def test_one_blocks():
    """Whoever reads the memory of that process hangs: ps does not, and has all others."""
    with process_that_blocks() as blocks, busy() as a:
        a("alloc 3 5000000")
        host = two_gpus(a, a)
        host.process(blocks, 20)
        begun = time.monotonic()
        _, found = look(host, expect=PARTIAL)
        check(time.monotonic() - begun < 4, "it hangs", time.monotonic() - begun)
        equal((found[blocks]["pytorch"]["state"], found[a.pid]["pytorch"]["state"]), ("late", "known"), "states")


def test_forked():
    """A child has the parent's allocator, and holds nothing."""
    code = ("import os, sys, time\n"
            "import torch\n"
            "kept = torch.empty(1 << 22, device='cuda')\n"
            "child = os.fork()\n"
            "if child: print('READY', child, flush=True)\n"
            "time.sleep(1000)\n")
    with torch_program(versions()[-1], code) as (proc, child):
        try:
            host = Host()
            host.device(0, 9000)
            host.process(proc.pid, 300)
            with open(f"/proc/{child}/status", encoding="ascii") as file:
                equal(int(re.search(r"PPid:\s(\d+)", file.read()).group(1)), proc.pid, "the parent")
            _, found = look(host)
            equal((found[child]["pytorch"]["state"], found[child]["holds_nothing"]), ("inherited", True), "the child")
            equal((found[proc.pid]["pytorch"]["state"], found[proc.pid]["holds_nothing"]), ("known", False), "the parent")
            check(not re.search(rf"^ *{child} ", text_of(host), re.M) and "more process" in text_of(host), "left out, and said so")
            check(f"forked from {proc.pid}" in row(text_of(host, "--all", columns=160), child), "with --all")
        finally:
            os.kill(child, signal.SIGKILL)


def test_watch():
    with busy() as a:
        host = two_gpus(a, a)
        proc = subprocess.Popen([VRAMTAP, "ps", "--watch=1", "--width=160"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, env=host.env())
        time.sleep(3.4)
        proc.send_signal(signal.SIGINT)
        text = proc.communicate(timeout=10)[0].decode()
        check(proc.returncode in ENDS, "exit code after Ctrl-C", proc.returncode)
        looks = [line for line in text.split("\n") if line.split()[:1] == [str(a.pid)]]
        check(3 <= len(looks) <= 5, "looks", text)
        check("in read, " not in looks[0] and re.search(r"in read, [1-3] s ", looks[-1]), "since when it stands there", looks)
        check("\x1b" not in text, "no terminal, no drawing")


def test_on_a_terminal():
    """q ends it, and the terminal is as it was before."""
    with busy() as a:
        host = two_gpus(a, a)
        master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 12, 80, 0, 0))
        before = termios.tcgetattr(slave)
        proc = subprocess.Popen([VRAMTAP, "ps", "--watch"], stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
                                preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
                                env=dict(host.env(), TERM="xterm", LC_ALL="C.UTF-8"))
        seen, until = b"", time.monotonic() + 10
        while b"\x1b[J" not in seen and time.monotonic() < until:
            if select.select([master], [], [], 0.1)[0]:
                seen += os.read(master, 65536)
        check(b"\x1b[J" in seen and str(a.pid).encode() in seen, "it draws", seen)
        check(seen.count(b"\n") <= 12, "no more lines than the terminal has", seen)
        os.write(master, b"q")
        while proc.poll() is None and time.monotonic() < until:
            if select.select([master], [], [], 0.1)[0]:
                seen += os.read(master, 65536)
        check(proc.wait(5) in ENDS, "exit code", proc.returncode)
        with contextlib.suppress(OSError):
            while select.select([master], [], [], 0.1)[0]:
                seen += os.read(master, 65536)
        check(b"\x1b[?1049h" in seen and b"\x1b[?1049l" in seen and b"\x1b[?25h" in seen, "the screen is given back", seen[-200:])
        equal(termios.tcgetattr(slave)[3], before[3], "modes of the terminal")
        os.close(master)
        os.close(slave)


def test_prometheus():
    """The same numbers as JSON's, from the same look; rewritten at each look, in one step."""
    hostile = 'x"} 1\nvramtap_processes 7\x1b[2J\\' + "y" * 5000
    with busy() as a, busy() as b, sleeper(POD_NAME=hostile, SLURM_JOB_ID=hostile, RANK="3") as c:
        a("alloc 30 5000000")
        host = two_gpus(a, b)
        host.process(c.pid, 10)
        host.process(NOBODY, 77)
        path, saved = scratch("ps.prom"), scratch("ps.json")
        proc = subprocess.Popen([VRAMTAP, "ps", "--watch=1", "--quiet", "--prometheus", path, "--json", saved], stdin=subprocess.DEVNULL,
                                stdout=subprocess.DEVNULL, env=host.env())
        inodes = set()
        until = time.monotonic() + 10
        while len(inodes) < 3 and time.monotonic() < until:
            with contextlib.suppress(OSError):
                with open(path, "rb") as file:
                    metrics = parse(file.read())
                    inodes.add(os.fstat(file.fileno()).st_ino)
            time.sleep(0.02)
        proc.send_signal(signal.SIGINT)
        check(proc.wait(10) in ENDS and len(inodes) >= 3, "files", inodes)
        with open(path, "rb") as file:
            metrics = parse(file.read())
        with open(saved, encoding="utf-8") as file:
            data = json.load(file)
    same_numbers(metrics, data)
    equal(select_samples(metrics, "vramtap_ended_processes"), {(): 1}, "ended")
    check("vramtap_process_still_seconds" in metrics, "how long they have not run")
    check(select_samples(metrics, "vramtap_process_info", pid=c.pid, rank=3), "the one with a rank")
    equal(set(documented("vramtap-ps.1")), in_sources("src/ps/prometheus.c"), "the manual's list")
    check(set(metrics) <= in_sources("src/ps/prometheus.c"), "families", set(metrics))
    _, text, _ = vramtap("ps", "--prometheus", "-", expect=PARTIAL)
    metrics = parse(text.encode())
    equal((select_samples(metrics, "vramtap_driver_count_known"), select_samples(metrics, "vramtap_last_run_complete", command="ps")), ({(): 0}, {(): 0}), "not known")
    check("vramtap_process_memory_bytes" not in metrics and "vramtap_device_info" not in metrics, "nothing of what is not known")
    _, text, _ = vramtap("ps", "--prometheus", "-", "--all", expect=PARTIAL)
    check(len(parse(text.encode())["vramtap_last_run_complete"]) == 1, "all")


def same_numbers(metrics, data):
    when = datetime.datetime.fromisoformat(data["time"][:26].rstrip("Z") + "+00:00").timestamp()
    check(abs(select_samples(metrics, "vramtap_last_run_timestamp_seconds", command="ps")[()] - when) < 0.001, "time")
    equal(select_samples(metrics, "vramtap_last_run_complete", command="ps")[()], data["completeness"] == "complete", "complete")
    equal(round(select_samples(metrics, "vramtap_last_run_duration_seconds", command="ps")[()] * 1000, 3), data["took_ms"], "time it took")
    for name, key in (("size", "total"), ("used", "used"), ("free", "free"), ("no_process", "no_process")):
        equal(select_samples(metrics, f"vramtap_device_memory_{name}_bytes", "device"), {d["device"]: d[f"{key}_bytes"] for d in data["devices"]}, name)
    equal(select_samples(metrics, "vramtap_device_info", "device", "uuid", "pci", "name"),
          {(d["device"], d["uuid"], d["pci"], d["name"]): 1 for d in data["devices"]}, "devices")
    states = select_samples(metrics, "vramtap_processes", "state")
    for state, n in states.items():
        equal(n, sum(p["state"] == state for p in data["processes"]), f"processes that are {state}")
    equal(sum(states.values()), len(data["processes"]), "processes")
    shown = [p for p in data["processes"] if not p["holds_nothing"]]
    equal(select_samples(metrics, "vramtap_idle_processes")[()], len(data["processes"]) - len(shown), "those that hold nothing")
    equal(select_samples(metrics, "vramtap_unseen_processes")[()], data["unseen_processes"], "unseen ones")
    equal({int(pid) for pid in select_samples(metrics, "vramtap_process_info", "pid")}, {p["pid"] for p in shown}, "who has series")
    for name, of in (("memory_bytes", lambda p: p["driver_bytes"]), ("pytorch_reserved_bytes", lambda p: p["pytorch"]["reserved_bytes"]),
                     ("pytorch_allocated_bytes", lambda p: p["pytorch"]["allocated_bytes"]), ("uptime_seconds", lambda p: p["uptime_s"]),
                     ("still_seconds", lambda p: p["still_s"])):
        equal({int(pid): round(value, 3) for pid, value in select_samples(metrics, f"vramtap_process_{name}", "pid").items()},
              {p["pid"]: of(p) for p in shown if of(p) is not None}, name)
    equal(set(select_samples(metrics, "vramtap_process_state", "pid", "state")), {(str(p["pid"]), p["state"]) for p in shown}, "states")
    equal(set(select_samples(metrics, "vramtap_process_device_info", "pid", "device")), {(str(p["pid"]), d) for p in shown for d in p["devices"]}, "devices")


def alone_inside():
    """In a pid namespace of its own, where nobody else can be seen; prints exit codes and output, without a target and with one."""
    found = []
    host = Host()
    host.device(0, 300)
    for args in (["--width=80"], ["--json", "-"]):
        found.append(vramtap("ps", *args, env=host.env()))
    with busy() as a:
        a("alloc 3 5000000")
        host.process(a.pid, 200)
        found.append((a.pid, *vramtap("ps", "--width=80", env=host.env())))
    print("INSIDE", json.dumps(found), flush=True)


def test_alone():
    command = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child", sys.executable, "-B", os.path.abspath(__file__), "alone_inside"]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60, check=False)
    inside = [line for line in done.stdout.decode().split("\n") if line.startswith("INSIDE ")]
    if not inside and b"unshare" in done.stderr:
        raise Skip(f"no pid namespace: {done.stderr.decode()[:200]}")
    check(inside, "what was seen within", done.stdout.decode()[-1000:], done.stderr.decode()[-2000:])
    text, data, one = json.loads(inside[0].split(None, 1)[1])
    equal(text[0], COMPLETE, "exit code")
    check("No process here uses CUDA" in text[1] and "not seen 300 MiB" in text[1], "nobody", text[1])
    equal((json.loads(data[1])["completeness"], json.loads(data[1])["processes"]), ("complete", []), "JSON")
    equal(one[1], COMPLETE, "exit code with a process")
    check(" 200 MiB " in row(one[2], one[0]) and "!" not in one[2], "all is known of it", one[2])


def test_usage():
    for args in (["1"], ["--watch=0"], ["--watch=never"]):
        code, out, err = vramtap("ps", *args)
        equal((code, out), (USAGE, ""), f"{args}")
        check(err, "a message")


def test_time():
    """Beside many others it takes a moment."""
    n, others = (8, 300) if QUICK else (64, 2000)
    with contextlib.ExitStack() as stack:
        drivers = [stack.enter_context(busy()) for _ in range(n)]
        host = Host()
        host.device(0, OTHER)
        for driver in drivers:
            driver("alloc 3 5000000")
            host.process(driver.pid, 10)
        sleepers = [subprocess.Popen(["sleep", "600"]) for _ in range(others)]
        try:
            env, times = host.env(), []
            for _ in range(5):
                begun = time.monotonic()
                _, found = look(env=env)
                times.append((time.monotonic() - begun) * 1000)
            check(all(found[d.pid]["pytorch"]["state"] == "known" for d in drivers), "all are read")
            print(f"  FIGURE {n} CUDA processes beside {others} others: {min(times):.0f} ms")
            check(min(times) < 2000, "it takes too long", times)
        finally:
            for proc in sleepers:
                proc.kill()
            for proc in sleepers:
                proc.wait()


if __name__ == "__main__":
    main(globals())
