#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The recorder's records of the driver's allocations, and vramtap run, on the simulated device: a C program that says what it
allocates, and real PyTorch. What is recorded is compared with what the program was given."""
import contextlib
import json
import os
import re
import select
import signal
import socket
import struct
import subprocess
import time

import recorder_truth as truth
from harness import (BUILD, CACHE, COMPLETE, PARTIAL, QUICK, SOURCE, VRAMTAP, Job, Skip, check, check_schema, compile_c, equal, main,
                     report_json, scratch, target, vramtap, wait_until)
from report_torch import versions

SIMCUDA = os.path.join(CACHE, "simcuda")
RECORDER = os.path.abspath(os.path.join(BUILD, "helper/vramtap-recorder.so"))
MIB = 1 << 20
KINDS = {"malloc": "device", "driver": "device", "managed": "managed", "host": "host", "async": "async", "map": "mapped"}
BINARIES = {}


def program(*flags):
    if flags not in BINARIES:
        binary = scratch("cuda_calls")
        done = subprocess.run(["gcc", "-g", "-O1", *flags, "-o", binary, os.path.join(SOURCE, "tests/targets/cuda_calls.c"), "-pthread",
                               "-L" + SIMCUDA, "-l:libcudart.so.13", "-l:libcuda.so.1", "-Wl,-rpath-link," + SIMCUDA],
                              capture_output=True, check=False)
        if done.returncode:
            raise Skip("cuda_calls.c does not build: " + done.stderr.decode()[:300])
        BINARIES[flags] = binary
    return BINARIES[flags]


def environment(**more):
    path = os.pathsep.join(p for p in (SIMCUDA, os.environ.get("LD_LIBRARY_PATH")) if p)
    return dict(os.environ, LD_LIBRARY_PATH=path, SIMCUDA_DEVICES="2", SIMCUDA_MEM_MB="2048", **more)


class Calls(Job):
    """cuda_calls, perhaps under a command; answers are lines."""

    def __init__(self, *args, command=(), env=None, flags=(), **kwargs):
        super().__init__([*command, program(*flags), *args], ready="ready", env=env or environment(), **kwargs)

    def __enter__(self):
        super().__enter__()
        self.pid = int(self.proc.ready_line.split()[1])
        return self

    def __exit__(self, *exc):
        # Under a command it is not that one's end that ends it.
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        return super().__exit__(*exc)

    def __call__(self, *words):
        return self.ask(" ".join(str(w) for w in words))

    def allocate(self, what, size):
        answer = self(what, size)
        check(answer.startswith("0x"), f"{what} {size}", answer)
        return int(answer, 16)

    def driver(self):
        """What was recorded of the driver, address by address."""
        data = report_json(self.pid, expect=(COMPLETE, PARTIAL))
        check_schema(data)
        driver = data["recorder"]["driver"]
        self.data = data
        return {int(b["address"], 16): b for b in driver["blocks"]}

    def ids(self):
        return sorted(self.driver())


def recorded(*options, **kwargs):
    return Calls(command=[VRAMTAP, "run", "-q", "--cupti", *options, "--"], **kwargs)


def test_every_kind():
    with recorded() as calls:
        want = {}
        for i, (what, kind) in enumerate(KINDS.items()):
            size = 4 * MIB if what == "map" else MIB + 512 * i
            want[calls.allocate(what, size)] = (size, kind)
        calls("device", 1)
        want[calls.allocate("malloc", 3 * MIB)] = (3 * MIB, "device")
        got = calls.driver()
        equal({a: (b["bytes"], b["kind"]) for a, b in got.items()}, want, "what was recorded")
        for address, block in got.items():
            device = None if block["kind"] == "host" else 1 if block["bytes"] == 3 * MIB else 0
            equal(block["device"], device, f"device of {block}")
            equal(block["tid"], calls.pid, "thread")
            equal(int(block["stream"], 16), 1 if block["kind"] == "async" else 0, "stream")
        groups = calls.data["recorder"]["driver"]["groups"]
        equal({g["library"] for g in groups}, {"cuda_calls"}, "what allocated")
        # What is freed is gone, and nothing else.
        release = {"device": "free", "managed": "free", "host": "freehost", "async": "freeasync", "mapped": "unmap"}
        for address in list(want):
            size, kind = want.pop(address)
            equal(calls(release[kind], address, size), "0", f"{release[kind]} of {kind}")
            if len(want) % 3 == 0:
                equal(calls.ids(), sorted(want), f"after {release[kind]}")
        equal(calls.ids(), [], "nothing is left")


def test_frees_that_fail():
    with recorded() as calls:
        one, two = calls.allocate("malloc", 4 * MIB), calls.allocate("map", 4 * MIB)
        for words in (("free", one + 512), ("freehost", one), ("driverfree", 4096), ("unmap", two + 2 * MIB, 2 * MIB)):
            check(calls(*words) != "0", "a free that must fail succeeds", words)
        equal(calls.ids(), sorted([one, two]), "both are there")


def test_contexts_that_end():
    with recorded() as calls:
        calls.allocate("malloc", MIB)
        calls("device", 1)
        other = calls.allocate("malloc", MIB)
        calls("device", 0)
        equal(calls("reset"), "0", "reset")
        equal(calls.ids(), [other], "the other device's is left")


def race(calls, rounds):
    """Threads that free what others have allocated, at addresses that are used again at once: exactly the live ones are left."""
    for _ in range(2 if QUICK else 20):
        left = sorted(int(a, 16) for a in calls("race", 8, rounds).split())
        equal(calls.ids(), left, "after a race")
        for address in left:
            equal(calls("free", address), "0", "free")


def test_threads():
    with recorded() as calls:
        race(calls, 300 if QUICK else 5000)
        status = truth.status(calls.pid)
        check(status["driver_allocations"] > 1000, "the race was none", status)


def test_threads_through_tables():
    with Calls("init") as calls:
        equal(calls("subscribe"), "0", "another tool subscribes")
        truth.record(calls.pid, "on", "--cupti", expect=(COMPLETE, PARTIAL))
        race(calls, 300 if QUICK else 5000)


def test_a_running_process():
    with Calls("init") as calls:
        before = calls.allocate("malloc", MIB)
        said = truth.record(calls.pid, "on", "--cupti", expect=(COMPLETE, PARTIAL))
        check("CUPTI" in said, "CUPTI is beside the runtime", said)
        with open(f"/proc/{calls.pid}/maps", encoding="utf-8") as maps:
            check("libcupti.so.13" in maps.read(), "it was not loaded by the process")
        after = calls.allocate("malloc", MIB)
        equal(calls.ids(), [after], "what came after")
        equal(calls("free", before), "0", "what came before can be freed")
        equal(calls.ids(), [after], "and that is all")
        equal(calls("subscribe"), "39", "no other tool can subscribe")
        truth.record(calls.pid, "off")
        equal(calls("subscribe"), "0", "now another one can")
        equal(calls("unsubscribe"), "0", "unsubscribe")
        truth.record(calls.pid, "on", "--cupti", expect=(COMPLETE, PARTIAL))
        equal(calls.ids(), [], "nothing of the last time")


def words_at(pid, addresses):
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as mem:
        return [struct.unpack("<Q", os.pread(mem.fileno(), 8, a))[0] for a in addresses]


def mappings_of_program(pid):
    with open(f"/proc/{pid}/maps", encoding="utf-8") as maps:
        return [line.split()[:2] for line in maps if line.rstrip().endswith("/cuda_calls")]


def table_entries(pid, binary):
    """Where the program's own table has the driver's and the runtime's functions: by readelf, not by us."""
    base = int(mappings_of_program(pid)[0][0].split("-")[0], 16)
    out = subprocess.run(["readelf", "-rW", binary], capture_output=True, text=True, check=True).stdout
    found = re.findall(r"^([0-9a-f]{12,}) .* (cuda(?:Malloc|Free)\w*|cuMem(?:Alloc|Free|Map|Unmap|Create|Release)\w*)@?", out, re.M)
    check(len(found) >= 8, "entries", found)
    return {name: int(where, 16) + (base if int(where, 16) < base else 0) for where, name in found}


def another_subscriber(*flags):
    with Calls("init", flags=flags) as calls:
        calls.allocate("malloc", MIB)
        mappings = mappings_of_program(calls.pid)
        equal(calls("subscribe"), "0", "another tool subscribes")
        entries = table_entries(calls.pid, program(*flags))
        before = words_at(calls.pid, entries.values())
        said = truth.record(calls.pid, "on", "--cupti", expect=(COMPLETE, PARTIAL))
        check("GOT" in said and "another tool has subscribed" in said, "the message", said)
        changed = [n for n, a, b in zip(entries, before, words_at(calls.pid, entries.values())) if a != b]
        equal(sorted(changed), sorted(entries), "the entries that are changed")
        want = {calls.allocate(what, 4 * MIB): kind for what, kind in KINDS.items()}
        got = calls.driver()
        equal({a: b["kind"] for a, b in got.items()}, want, "what was recorded")
        equal({b["device"] for b in got.values() if b["kind"] != "host"}, {0}, "devices")
        gone = next(a for a, kind in want.items() if kind == "device")
        equal(calls("free", gone), "0", "free")
        check(gone not in calls.driver(), "it is gone")
        truth.record(calls.pid, "off")
        equal(words_at(calls.pid, entries.values()), before, "the entries afterwards")
        equal(mappings_of_program(calls.pid), mappings, "what may be written there")
        calls.allocate("managed", MIB)
        equal(calls("unsubscribe"), "0", "the other tool ends")
        check("CUPTI" in truth.record(calls.pid, "on", "--cupti", expect=(COMPLETE, PARTIAL)), "now CUPTI is used")


def test_another_subscriber():
    """In words that are bound when they are used first, and in some that are read-only."""
    another_subscriber("-Wl,-z,lazy")
    another_subscriber("-Wl,-z,relro,-z,now")
    another_subscriber("-Wl,-z,relro,-z,now", "-no-pie")


WRAPPER = """
extern int cudaMalloc(void **p, unsigned long n);
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
int cudaMalloc(void **p, unsigned long n)
{
	int (*real)(void **, unsigned long) = (int (*)(void **, unsigned long))dlsym((void *)-1l, "cudaMalloc");
	return n == 4096 ? 77 : real(p, n);
}
"""


def test_preloaded_wrapper():
    """A library that stands before the runtime stays there, also where the word was not bound yet."""
    wrapper = compile_c(WRAPPER, "-shared", "-fPIC", "-w")
    with Calls("init", env=environment(LD_PRELOAD=wrapper), flags=("-Wl,-z,lazy",)) as calls:
        equal(calls("subscribe"), "0", "another tool subscribes")
        truth.record(calls.pid, "on", "--cupti", expect=(COMPLETE, PARTIAL))
        equal(calls("malloc", 4096), "error 77", "the wrapper's answer")
        truth.record(calls.pid, "off")
        equal(calls("malloc", 4096), "error 77", "the wrapper's answer")


def test_fork():
    with recorded() as calls:
        one = calls.allocate("malloc", MIB)
        equal(calls("fork"), "0", "the child cannot use the driver, and ends as ever")
        equal(calls.ids(), [one], "the parent's")


def ooms(data):
    return [(o["kind"], o["requested_bytes"]) for o in data["recorder"]["out_of_memory"]]


def test_out_of_memory():
    for through in ("CUPTI", "GOT"):
        with Calls("init") as calls:
            if through == "GOT":
                equal(calls("subscribe"), "0", "another tool subscribes")
            truth.record(calls.pid, "on", "--cupti", expect=(COMPLETE, PARTIAL))
            equal(calls("malloc", 1 << 40), "error 2", "too much")
            equal(calls.driver(), {}, "nothing was allocated")
            equal(ooms(calls.data), [("driver", 1 << 40)], f"out of memory, seen by {through}")


# ---- PyTorch -------------------------------------------------------------------------------------

PYTORCH = """
import ctypes, json, os, sys
if "early" in sys.argv:
    ctypes.CDLL("libcuda.so.1").cuInit(0)
import torch
def segments():
    return sorted((s["address"], s["total_size"]) for s in torch.cuda.memory_snapshot())
def fail():
    try:
        torch.empty(1 << 40, dtype=torch.uint8, device="cuda")
    except torch.OutOfMemoryError:
        return "caught"
if "subscribe" in sys.argv:
    handle = ctypes.c_void_p()
    assert ctypes.CDLL("libcupti.so.13").cuptiSubscribe(ctypes.byref(handle), ctypes.c_void_p(id(handle)), None) == 0
keep = []
if "late" in sys.argv:
    torch.cuda.init()
print("READY pid=%d" % os.getpid(), flush=True)
for line in sys.stdin:
    if line.startswith("allocate"):
        keep += [torch.empty(int(n), dtype=torch.uint8, device="cuda") for n in line.split()[1:]]
        print(json.dumps(segments()), flush=True)
    elif line.startswith("fail"):
        print(json.dumps(fail()), flush=True)
    elif line.startswith("environment"):
        print(json.dumps(os.popen("env | grep -c -E 'GATE|INJECTION64'").read().strip()), flush=True)
"""


def pytorch(*args, command=(), env=None):
    script = scratch("job.py")
    with open(script, "w", encoding="utf-8") as out:
        out.write(PYTORCH)
    defaults = {"SIMCUDA_DEVICES": "1", "SIMCUDA_MEM_MB": "2048", "PYTHONWARNINGS": "ignore"}
    return target([*command, *truth.python_of(versions()[0]), script, *args], ready="READY",
                  env=dict(os.environ, **defaults, **(env or {})))


def ask(proc, line):
    proc.stdin.write(line.encode() + b"\n")
    proc.stdin.flush()
    return json.loads(proc.stdout.readline())


def pid_of(proc):
    return int(proc.ready_line.partition("pid=")[2])


def compare_segments(pid, segments, kind):
    """The driver's records of PyTorch's segments are exactly the segments."""
    data = report_json(pid, expect=(COMPLETE, PARTIAL))
    got = sorted((int(b["address"], 16), b["bytes"]) for b in data["recorder"]["driver"]["blocks"] if b["of_pytorch"] and b["kind"] == kind)
    if kind == "mapped":  # in chunks
        equal(sum(size for _, size in got), sum(size for _, size in segments), "bytes that are mapped")
    else:
        equal(got, [tuple(s) for s in segments], "PyTorch's segments")
    check(all(b["device"] == 0 for b in data["recorder"]["driver"]["blocks"] if b["of_pytorch"]), "device")
    return data


def test_run_pytorch():
    """From the first allocation, and the first segment, on; children do not inherit it."""
    with pytorch(command=[VRAMTAP, "run", "-q", "--cupti", "--"]) as proc:
        segments = ask(proc, f"allocate 1000 {3 * MIB} {30 * MIB}")
        data = compare_segments(pid_of(proc), segments, "device")
        truth_blocks = [b for b in truth.recorded_blocks(data)]
        equal(len(truth_blocks), 3, "blocks with a backtrace")
        for block in truth_blocks:
            check("<module>" in truth.names(data, block)[0], "backtrace", truth.names(data, block))
        equal(ask(proc, "fail"), "caught", "out of memory")
        equal([kind for kind, _ in ooms(report_json(pid_of(proc), expect=(COMPLETE, PARTIAL)))], ["pytorch"], "one event, PyTorch's")
        equal(ask(proc, "environment"), "0", "variables that children inherit")


def test_run_before_pytorch_is_loaded():
    """The driver is initialised before there is a CUDA runtime, CUPTI, or PyTorch: they are added when they are."""
    with pytorch("early", "late", command=[VRAMTAP, "run", "-q", "--cupti", "--"]) as proc:
        pid = pid_of(proc)

        def is_added():
            status = truth.status(pid)
            return status["driver"] == "CUPTI" and "every allocation" in truth.record(pid, "status", expect=(COMPLETE, PARTIAL))

        wait_until(is_added, 40, "PyTorch is recorded")
        data = compare_segments(pid, ask(proc, f"allocate 1000 {3 * MIB} {30 * MIB}"), "device")
        equal(len(truth.recorded_blocks(data)), 3, "blocks with a backtrace")


def test_run_expandable_segments():
    with pytorch(command=[VRAMTAP, "run", "-q", "--cupti", "--"], env={"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True",
                                                            "PYTORCH_ALLOC_CONF": "expandable_segments:True"}) as proc:
        compare_segments(pid_of(proc), ask(proc, f"allocate 1000 {3 * MIB} {30 * MIB}"), "mapped")


def test_pytorch_through_tables():
    """Its entries are bound lazily: those that were not used yet are resolved by us."""
    with pytorch("subscribe", "late") as proc:
        said = truth.record(pid_of(proc), "on", "--cupti", expect=(COMPLETE, PARTIAL))
        check("GOT" in said, "the message", said)
        compare_segments(pid_of(proc), ask(proc, f"allocate 1000 {3 * MIB} {30 * MIB}"), "device")
        equal(ask(proc, "fail"), "caught", "out of memory")
        equal([kind for kind, _ in ooms(report_json(pid_of(proc), expect=(COMPLETE, PARTIAL)))], ["pytorch"], "one event, PyTorch's")
        truth.record(pid_of(proc), "off")
        check(len(ask(proc, f"allocate {50 * MIB}")) > 0, "it goes on")


# ---- run -----------------------------------------------------------------------------------------

def run(*args, env=None, stdin=None, **kwargs):
    return subprocess.run([VRAMTAP, "run", *args], env=env or environment(), input=stdin, capture_output=True, text=True, timeout=60,
                          check=False, **kwargs)


def test_run_is_transparent():
    done = run("--cupti", "--", program(), stdin="malloc 1048576\nquit 7\n")
    equal(done.returncode, 7, "exit status")
    equal(len(done.stdout.splitlines()), 2, "standard output")
    check(re.fullmatch(r"vramtap: cuda_calls \(\d+\) is recorded from its first allocation on; vramtap report \d+ shows what it holds\n",
                       done.stderr), "standard error", done.stderr)
    done = run("sh", "-c", "echo out; echo err >&2; kill -TERM $$")
    equal((done.returncode, done.stdout), (-signal.SIGTERM, "out\n"), "ended by a signal")
    check(done.stderr.startswith("err\n"), "standard error", done.stderr)
    equal(run("/nonexistent").returncode, 127, "no such command")
    equal(run("/etc").returncode, 126, "not a program")
    equal(run().returncode, 64, "no command")
    done = run("true", env=environment(CUDA_INJECTION64_PATH="/somewhere/else.so"))
    equal(done.returncode, 125, "another tool's library")
    check("/somewhere/else.so" in done.stderr, "the message", done.stderr)
    done = run("-q", "true")
    equal((done.returncode, done.stderr), (0, ""), "quiet")


def test_run_passes_signals():
    with target([VRAMTAP, "run", "-q", "--cupti", "--", "sh", "-c", 'trap "echo got it; exit 5" USR1; echo ready; while :; do sleep 0.05; done'],
                ready="ready") as proc:
        proc.send_signal(signal.SIGUSR1)
        equal(proc.stdout.readline(), b"got it\n", "it was passed on")
        equal(proc.wait(20), 5, "exit status")


def test_run_children():
    two = f"echo malloc 1048576 | {program()} init; echo malloc 1048576 | {program()} init"
    done = run("--", "sh", "-c", two)
    check("2 processes started by sh used CUDA and were not recorded: --children" in done.stderr, "the message", done.stderr)
    done = run("--children", "--", "sh", "-c", two)
    equal(len(re.findall(r"is recorded from its first allocation on", done.stderr)), 2, f"what is recorded: {done.stderr}")
    with Calls("init", command=[VRAMTAP, "run", "-q", "--cupti", "--children", "--", "env"]) as calls:
        one = calls.allocate("malloc", MIB)
        equal(calls.ids(), [one], "a child's")


def test_killed_at_the_gate():
    """The process is on its way to the gate, or waits there, and gets no answer: it goes on, at once if vramtap is gone."""
    for way in (signal.SIGKILL, None) if not QUICK else (signal.SIGKILL,):
        with recorded() as calls:
            os.kill(calls.proc.pid, signal.SIGSTOP)
            begin = time.monotonic()
            calls.proc.stdin.write(b"malloc 1048576\n")
            calls.proc.stdin.flush()
            check(not select.select([calls.proc.stdout], [], [], 0.3)[0], "it did not wait")
            if way:
                os.kill(calls.proc.pid, way)
            check(calls.proc.stdout.readline().startswith(b"0x"), "it goes on")
            took = time.monotonic() - begin
            check(took < (8 if way else 25), f"it took {took:.1f} s")
            equal(calls("malloc", "0"), "0", "and lives")
            code, out, _ = vramtap("record", str(calls.pid), "status")
            check("not on" in out or "off" in out, "it is not recorded", code, out)


def test_gate_of_another_user():
    """Somebody else has a socket of that name: the process says nothing to it, and goes on."""
    if os.geteuid():
        raise Skip("needs root")
    name = f"vramtap-test-{os.getpid()}"
    ready, pid = os.pipe(), os.fork()
    if pid == 0:
        status = 9
        try:
            os.setresuid(65534, 65534, 65534)
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
                listener.bind("\0" + name)
                listener.listen()
                os.write(ready[1], b"x")
                listener.settimeout(20)
                status = 7 if listener.accept()[0].recv(100) == b"" else 8
        finally:
            os._exit(status)
    try:
        os.read(ready[0], 1)
        with Calls("init", env=environment(CUDA_INJECTION64_PATH=RECORDER, VRAMTAP_GATE=name)) as calls:
            calls.allocate("malloc", MIB)
            status, pid = os.waitpid(pid, 0)[1], 0
            equal(os.waitstatus_to_exitcode(status), 7, "what the other user heard: nothing")
    finally:
        if pid:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        for fd in ready:
            os.close(fd)


def test_help_and_man_page_agree():
    page = subprocess.run(["mandoc", "-T", "utf8", os.path.join(SOURCE, "doc", "vramtap-run.1")], capture_output=True, check=False)
    if page.returncode:
        raise Skip("mandoc cannot show the man page")
    text = re.sub(r".\x08", "", page.stdout.decode())
    _, shown, _ = vramtap("run", "--help", expect=COMPLETE)
    options = [set(re.findall(r"--[a-z][a-z-]+", t)) - {"--help", "--usage", "--nproc-per-node"} for t in (shown, text)]
    equal(options[0], options[1], "options")
    for number in ("64", "125", "126", "127"):
        check(number in text and number in shown, f"exit status {number}")


if __name__ == "__main__":
    main(globals())
