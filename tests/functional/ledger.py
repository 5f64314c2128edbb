#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The ledger of a device's memory against programs that know what they allocated: a C program that allocates in every way, and
real PyTorch. On the simulated device the rest is the context to the byte; tests/gpu/ledger.py runs the same on a real one."""
import contextlib
import json
import os
import re
import signal
import subprocess
import time

import prometheus_text
from harness import (CACHE, COMPLETE, PARTIAL, SOURCE, VRAMTAP, Job, Skip, check, check_schema, equal, main, report, report_json, schema_errors, scratch,
                     vramtap)
from report_torch import Driver, versions
from usage import RESERVED, TOTAL, Host

SIMCUDA = os.path.join(CACHE, "simcuda")
KIB, MIB = 1 << 10, 1 << 20
CONTEXT = 256 * MIB  # of the simulated device
RESIDENT = 132 * 2048  # threads of it
BINARY = []
# What the program calls it: the report's kind.
KINDS = {"malloc": "device", "managed": "managed", "host": "host", "async": "pool", "pool": "pool", "graph": "graph", "map": "mapped",
         "share": "mapped", "alias": "mapped", "array": "array"}
EVERY_KIND = (("malloc", 64 * MIB), ("malloc", 3 * MIB + 1), ("managed", 16 * MIB), ("host", 5 * MIB), ("async", 48 * MIB),
              ("pool", 1000000), ("graph", 48 * MIB), ("map", 20 * MIB), ("share", 2 * MIB), ("alias", 4 * MIB), ("array", 64 * MIB))


def program():
    if not BINARY:
        binary = scratch("ledger_calls")
        done = subprocess.run(["cc", "-g", "-O1", "-o", binary, os.path.join(SOURCE, "tests/targets/ledger_calls.c"), "-pthread", "-ldl"],
                              capture_output=True, check=False)
        if done.returncode:
            raise Skip("ledger_calls.c does not build: " + done.stderr.decode()[:300])
        BINARY.append(binary)
    return BINARY[0]


def simulated():
    path = os.pathsep.join(p for p in (SIMCUDA, os.environ.get("LD_LIBRARY_PATH")) if p)
    return dict(os.environ, LD_LIBRARY_PATH=path, SIMCUDA_DEVICES="2", SIMCUDA_MEM_MB="8192")


class Calls(Job):
    """ledger_calls; what it allocated, as it was told."""

    def __init__(self, env=None, command=()):
        super().__init__([*command, program()], ready=("ready", "skip"), env=env or simulated())
        self.allocated = []

    def __enter__(self):
        super().__enter__()
        if self.proc.ready_line.startswith("skip"):
            super().__exit__(None, None, None)
            raise Skip(self.proc.ready_line)
        self.pid = int(self.proc.ready_line.split()[1])
        return self

    def __call__(self, *words):
        return self.ask(" ".join(str(w) for w in words))

    def allocate(self, what, size):
        answer = self(what, size)
        check(answer.startswith("0x"), f"{what} {size}", answer)
        self.allocated.append((what, int(answer, 16), size))
        return int(answer, 16)

    def succeeds(self, *words):
        equal(self(*words), "0", " ".join(str(w) for w in words))


def read(pid, *args, expect=(COMPLETE, PARTIAL)):
    data = report_json(pid, *args, expect=expect)
    check_schema(data)
    return data


def the_line(data, ordinal=0):
    return next(d for d in data["ledger"]["devices"] if d["device"] == ordinal)


def adds_up(data):
    """Every identity that the schema promises."""
    ledger = data["ledger"]
    for line in ledger["devices"]:
        lines = [line[name] for name in ("device_memory", "mapped", "pool", "data", "array", "graph")] + list(line["claimed"].values())
        equal(line["found_bytes"], sum(one["bytes"] for one in lines), "the lines")
        memory = next(d["memory"] for d in data["cuda"]["devices"] if d["ordinal"] == line["device"])
        if line["rest_bytes"] is not None:
            equal(line["found_bytes"] + line["rest_bytes"], memory["used_bytes"], "all lines")
    end = 0
    for r in ledger["ranges"]:
        at = int(r["address"], 16)
        check(at >= end, "ranges overlap", r)
        end = at + r["bytes"]


def has_all(program_, data):
    """Each allocation of the program is a range of the right kind and size."""
    ranges = {int(r["address"], 16): r for r in data["ledger"]["ranges"] if r["kind"] != "array"}
    for what, addr, size in program_.allocated:
        if what == "array":
            check(any(r["kind"] == "array" and r["bytes"] >= size for r in data["ledger"]["ranges"]), "the array", data["ledger"])
            continue
        check(addr in ranges, f"{what} {size} at {addr:#x} is not listed", sorted(map(hex, ranges)))
        equal(ranges[addr]["kind"], KINDS[what], f"the kind of {what}")
        equal(ranges[addr]["bytes"], size, f"the size of {what}")
        equal(ranges[addr]["shareable"], what == "share", "shareable")


def every_kind(calls):
    for what, size in EVERY_KIND:
        calls.allocate(what, size)
    for i in range(30):
        calls.allocate("malloc", 512 * (i + 1))


# ---- the C program ----

def test_every_kind():
    with Calls() as calls:
        every_kind(calls)
        data = read(calls.pid, expect=COMPLETE)
        has_all(calls, data)
        adds_up(data)
        check(data["ledger"]["whole"], "not whole", data["ledger"])
        line = the_line(data)
        equal(line["rest_bytes"], CONTEXT + 16 * MIB, "the context and managed memory are the rest")
        equal(line["device_memory"]["bytes"], 64 * MIB + 4 * MIB + 2 * MIB, "whole pages of cudaMalloc")
        equal(line["mapped"]["bytes"], 26 * MIB, "memory that is mapped twice counts once")
        equal(line["shareable"]["bytes"], 2 * MIB, "shareable")
        equal((line["pool"]["bytes"], line["pool"]["ranges"]), (96 * MIB, 2), "both pools, with what they keep")
        equal((line["graph"]["bytes"], line["array"]["bytes"]), (64 * MIB, 64 * MIB), "graphs, arrays")
        equal((line["host"]["asked_bytes"], line["managed"]["asked_bytes"]), (5 * MIB, 16 * MIB), "host, managed")
        equal(calls("contexts"), "1", "a context came about")


def test_text():
    with Calls() as calls:
        every_kind(calls)
        _, out, _ = report(calls.pid, "--width", "100", "--ranges")
        for label, size in (("raw cudaMalloc, unattributed", "70.0 MiB"), ("raw cuMemMap, unattributed", "26.0 MiB"),
                            ("cudaMallocAsync pools", "96.0 MiB"), ("memory of CUDA graphs", "64.0 MiB"), ("arrays, textures", "64.0 MiB"),
                            ("contexts, code, other processes", "272 MiB"), ("of which managed, at most", "16.0 MiB")):
            check(re.search(rf"^[ █▓▒░]+{label} +{size}", out, re.M), f"the line {label}", out)
        listed = out.split("Allocations of the driver", 1)[1]
        for _, addr, _ in (a for a in calls.allocated if a[0] != "array"):
            check(f"{addr:#x} " in listed, "an allocation is not listed", hex(addr), listed)
        check("this process has allocated" in out, "the headline", out)


UNITS = {"B": 1, "KiB": KIB, "MiB": MIB, "GiB": 1 << 30}


def table(out):
    """The rows of the memory table by label, those that are parts of others left out: bytes, as they are printed."""
    rows = {}
    for line in out.split("Memory of GPU 0", 1)[1].split("\n\n", 1)[0].split("\n")[1:]:
        found = re.match(r"  (\S.*?) {2,}([0-9.]+) (\w?i?B)\b", line)
        if found:
            rows[found[1]] = float(found[2]) * UNITS[found[3]]
    return rows


def test_table_adds_up():
    """Device = processes + nobody's; this process = its lines. In any width, with and without colour."""
    with Calls(dict(simulated(), SIMCUDA_MEM_MB=str(TOTAL - RESERVED))) as calls:
        every_kind(calls)
        used = next(d for d in read(calls.pid)["cuda"]["devices"] if d["ordinal"] == 0)["memory"]["used_bytes"] // MIB
        host = Host()
        host.device(0, used)
        host.process(calls.pid, used - 16 - 60)  # managed memory is in no process's count
        host.process(os.getpid(), 40)
        texts = []
        for width in ("60", "80", "160"):
            for color in ("never", "always"):
                out = re.sub(r"\x1b\[[0-9;]*m", "", host.text(calls.pid, "--width", width, "--color", color))
                texts.append(out)
                check(all(len(line) <= int(width) for line in out.split("\n")), "width", out)
                rows = table(out)
                ours, others, nobody, free = (rows.pop(name) for name in ("this process, all of the above", "other processes",
                                                                          next(n for n in rows if n.startswith("no process")), "free"))
                equal(ours, (used - 76) * MIB, f"this process {out}")
                equal((others, nobody), (40 * MIB, 36 * MIB), f"the others {out}")
                equal(sum(rows.values()), ours, f"the lines of the process {out}")
                equal(ours + others + nobody, used * MIB, "the device")
                # The list of processes below the device says the same.
                for label, size in (("this process", ours), ("no process", nobody)):
                    above = re.search(rf"^  {label}.*? ([0-9.]+) MiB", out.split("Memory of GPU 0")[0], re.M)
                    equal(above and float(above[1]) * MIB, float(size), f"{label} above {out}")
        equal(len({json.dumps(table(t)) for t in texts}), 1, "each width has the same numbers")


def test_largest_raw():
    """Where most memory is of nobody known, its largest pieces are in the report; else they are not."""
    with Calls() as calls:
        sizes = (10, 70, 30, 90, 20, 50, 40)
        at = {size: calls.allocate("malloc", size * MIB) for size in sizes}
        calls.allocate("async", 48 * MIB)
        for width in ("80", "160"):
            out = report(calls.pid, "--width", width)[1]
            listed = re.findall(r"^  (0x[0-9a-f]+) +(\S+ MiB) +0   cudaMalloc", out.partition("The largest of 7 raw allocations")[2], re.M)
            equal(listed, [(hex(at[size]), f"{size}.0 MiB") for size in (90, 70, 50, 40, 30)], out)
        out = report(calls.pid, "--ranges")[1]
        check("raw allocations" not in out, "they are listed twice", out)
        calls.allocate("async", 512 * MIB)
        check("raw allocation" not in report(calls.pid)[1], "most of it is the driver's pool's", out)


def test_many_gpus():
    """One line a device: each byte of it is in a column."""
    with Driver(versions()[-1], SIMCUDA_DEVICES="8", SIMCUDA_MEM_MB="8192") as driver:
        for device in range(6):
            driver(f"device {device}")
            driver("alloc 5 5000000")
        data = read(driver.pid)
        for width, columns in (("60", 3), ("70", 6), ("80", 7), ("120", 8)):
            out = report(driver.pid, "--width", width)[1].partition("Memory by GPU")[2].partition("\n\n")[0]
            rows = [re.findall(r"([0-9.]+) (\w?i?B)", line) for line in out.split("\n") if re.match(r"  \d ", line)]
            equal([len(row) for row in rows], [columns] * 6, f"columns {out}")
            if width == "80":
                for row, device in zip(rows, data["cuda"]["devices"]):
                    total = sum(float(n) * UNITS[unit] for n, unit in row)
                    check(abs(total - device["memory"]["total_bytes"]) < 8 * MIB, "a line adds up to the device", row, device)
            check("else" not in out, "other words for it", out)


def test_frees():
    """What is freed is in no line; what a pool keeps of it is."""
    with Calls() as calls:
        kept, gone = calls.allocate("malloc", 64 * MIB), calls.allocate("malloc", 32 * MIB)
        calls.succeeds("free", hex(gone))
        data = read(calls.pid, expect=COMPLETE)
        equal([int(r["address"], 16) for r in data["ledger"]["ranges"]], [kept], "ranges")
        equal(the_line(data)["rest_bytes"], CONTEXT, "rest")


def saved(pid, name, *args):
    path = scratch(name)
    with open(path, "w", encoding="utf-8") as file:
        json.dump(read(pid, *args), file)
    return path


def test_diff():
    """What grew, by line; a ledger is not compared with none."""
    with Calls() as calls:
        calls.allocate("malloc", 64 * MIB)
        gone = calls.allocate("map", 20 * MIB)
        before = saved(calls.pid, "before")
        calls.allocate("malloc", 30 * MIB)
        calls.allocate("async", 48 * MIB)
        calls.allocate("host", 5 * MIB)
        calls.succeeds("unmap", hex(gone), 20 * MIB)
        after, blind = saved(calls.pid, "after"), saved(calls.pid, "blind", "--read-only")
        code, out, err = vramtap("diff", "--json", "-", before, after)
        check(code in (COMPLETE, PARTIAL), "diff", code, err)
        data = json.loads(out)
        equal(schema_errors(data, schema_file="diff.schema.json"), [], "the schema")
        lines = data["devices"][0]["ledger"]
        changes = {name: line["change_bytes"] for name, line in lines.items() if line and line["change_bytes"]}
        equal(changes, {"device_memory": 30 * MIB, "pool": 64 * MIB, "host": 5 * MIB, "mapped": -20 * MIB}, "changes")
        _, text, _ = vramtap("diff", "--width", "100", before, after)
        rows = re.findall(r"^  (raw cudaMalloc, unattributed|cudaMallocAsync pools|raw cuMemMap, unattributed|pinned host memory) .*"
                          r" ([+−-][0-9.]+ MiB)", text, re.M)
        equal(rows, [("cudaMallocAsync pools", "+64.0 MiB"), ("raw cudaMalloc, unattributed", "+30.0 MiB"),
                     ("raw cuMemMap, unattributed", "-20.0 MiB"), ("pinned host memory", "+5.00 MiB")], text)
        code, out, _ = vramtap("diff", "--json", "-", before, blind)
        equal(set(json.loads(out)["devices"][0]["ledger"].values()), {None}, "compared with nothing")


def watch(calls, step, looks, *args, expect=COMPLETE):
    """What watch --grow says, with a step of the program between two looks."""
    with subprocess.Popen([VRAMTAP, "watch", "--grow", "--every=1s", "--width=120", *args, str(calls.pid)], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE) as proc:
        lines = [proc.stdout.readline().decode() for _ in range(2)]
        for i in range(looks):
            step(i)
            lines.append(proc.stdout.readline().decode())
        proc.send_signal(signal.SIGINT)
        out, err = proc.communicate(timeout=60)
        if any("not read: " in line for line in lines) and expect == COMPLETE:  # on a busy machine; the exit code says so
            expect = PARTIAL
        equal(proc.returncode, expect, f"exit code {err} {lines} {out}")
        return "".join(lines) + out.decode()


def grows(out):
    return re.findall(r"^  (\S.*?)  +(\+[0-9.]+ \wiB) ", out.partition("Grows, outside PyTorch")[2].partition("\n\n")[0], re.M)


def test_watch():
    """A program without PyTorch: what grows is named, by kind; what comes and goes, or comes once, is not."""
    with Calls() as calls:
        every_kind(calls)
        last = []

        def step(i):
            calls.allocate("async", 4 * MIB)
            calls.allocate("host", MIB)
            if i == 1:
                calls.allocate("map", 32 * MIB)
            if last:
                calls.succeeds("free", hex(last.pop()))
            else:
                last.append(calls.allocate("malloc", 30 * MIB))

        out = watch(calls, step, 7)
        # the pool gets 32 MiB from the driver at a time: it grew once, which is no growth
        equal([label for label, _ in grows(out)], ["pinned host memory"], out)
        check(re.search(r"^time +allocated", out, re.M), "what the first column is", out)

    with Calls() as calls:
        out = watch(calls, lambda i: (calls.allocate("malloc", 6 * MIB), calls.allocate("map", 4 * MIB), calls.allocate("async", 40 * MIB)), 6)
        pool = int(calls("pools")) // MIB  # all that it has got from the driver since the first look
        equal(grows(out), [("cudaMallocAsync pools on GPU 0", f"+{pool} MiB"), ("raw cudaMalloc, unattributed on GPU 0", "+36.0 MiB"),
                           ("raw cuMemMap, unattributed on GPU 0", "+24.0 MiB")], out)
        check("2 more lines grow" in " ".join(out.split()), "the answer", out)

    with Calls() as calls:
        calls.allocate("malloc", 6 * MIB)
        out = watch(calls, lambda i: calls.succeeds("free", hex(calls.allocate("malloc", 6 * MIB))), 6, expect=4)
        check("Nothing grows" in out, "a healthy program", out)
        code, out, err = vramtap("watch", "--grow", "--every=1s", "--timeout=3s", "--read-only", str(calls.pid))
        equal(code, 2, f"nothing can be learned from outside {out}")
        check("PyTorch's allocator is not loaded" in err, "why", err)


def test_read_only():
    with Calls() as calls:
        calls.allocate("malloc", 64 * MIB)
        equal(read(calls.pid, "--read-only")["ledger"], None, "nothing was asked")


def test_without_a_context():
    """Asking makes none."""
    code = "import ctypes, sys; c = ctypes.CDLL('libcuda.so.1'); c.cuInit(0); print('READY', flush=True); sys.stdin.readline(); n = ctypes.c_int(); " \
           "f = ctypes.c_uint(); c.cuDevicePrimaryCtxGetState(0, ctypes.byref(f), ctypes.byref(n)); print(n.value, flush=True)"
    with Job(["python3", "-c", code], env=simulated()) as job:
        equal(read(job.proc.pid)["ledger"], None, "a ledger without a context")
        equal(job.ask(""), "0", "a context came about")


def test_recorded():
    """From vramtap record on, each allocation has the stack that made it; the recorder sees no arrays."""
    with Calls(env=dict(simulated(), LD_PRELOAD=os.path.join(SIMCUDA, "libcudart.so.13"))) as calls:
        early = calls.allocate("malloc", 7 * MIB)
        code, out, err = vramtap("record", str(calls.pid), "on", "--cupti", "--native")
        check(code == PARTIAL, "record", code, out, err)  # there is no PyTorch
        every_kind(calls)
        data = read(calls.pid)
        recorded = data["pytorch"]["recorded"]
        ranges = {int(r["address"], 16): r for r in data["ledger"]["ranges"] if r["kind"] != "array"}
        equal(ranges[early]["backtrace"], None, "what was there before")
        for what, addr, _ in calls.allocated[1:]:
            if what == "array":
                continue
            check(ranges[addr]["backtrace"] is not None, f"{what} has no backtrace", ranges[addr])
            names = {recorded["frames"][i]["function"] for i in recorded["backtraces"][ranges[addr]["backtrace"]]["frames"]}
            check("allocate" in names, f"the stack of {what}", names)
        equal(the_line(data)["recorded"]["ranges"], the_line(data)["device_memory"]["ranges"] - 1, "recorded")


def test_local_memory():
    """The stacks of kernels are a part of the context that follows the limit; nothing is left of the question."""
    with Calls() as calls:
        tasks = os.listdir(f"/proc/{calls.pid}/task")
        first = the_line(read(calls.pid, expect=COMPLETE))
        check(first["local_memory"], "not asked for", first)
        equal(first["local_memory"]["bytes"], 512 * RESIDENT, "the limit that the driver begins with")
        calls.succeeds("stack", 4096)
        now = the_line(read(calls.pid, expect=COMPLETE))
        equal((now["local_memory"]["bytes"], now["local_memory"]["stack_bytes"]), (4096 * RESIDENT, 4096), "a larger limit")
        equal(now["rest_bytes"] - first["rest_bytes"], (4096 - 512) * RESIDENT, "the rest has it")
        _, out, _ = report(calls.pid, "--width", "120")
        check(re.search(r"^    of which local memory of kernels +1.03 GiB +4.00 KiB of stack for each of 270,336 threads$", out, re.M), "the row", out)
        equal(os.listdir(f"/proc/{calls.pid}/task"), tasks, "a thread is left")
        equal(the_line(read(calls.pid, "--allow-resume"))["local_memory"], None, "asked with --allow-resume")


# ---- when the device is busy ----

def captured(calls):
    """A capture goes on, and stays whole."""
    every_kind(calls)
    calls.succeeds("capture")
    data = read(calls.pid)
    calls.succeeds("captured")
    has_all(calls, data)
    adds_up(data)
    check(data["ledger"]["whole"] and data["ledger"]["pools_known"], "not whole", data["ledger"]["devices"])
    return data


def test_capture():
    with Calls() as calls:
        captured(calls)


def hung(calls):
    """A kernel spins, one thread waits for it and another one frees: every question is answered, and nothing is left behind."""
    every_kind(calls)
    victim = calls.allocate("malloc", 8 * MIB)
    calls.succeeds("hang")
    for waiting in ("stream", "event"):
        calls.succeeds(waiting)
        check(the_line(read(calls.pid))["local_memory"], f"threads that only wait for the device are no reason not to ask: {waiting}")
    calls.succeeds("waste", hex(victim))
    before = calls("pools")
    begin = time.monotonic()
    data = read(calls.pid)
    wall = time.monotonic() - begin
    calls.allocated.pop()
    has_all(calls, data)
    adds_up(data)
    check(data["ledger"]["whole"], "not whole", data["diagnostics"])
    equal(the_line(data)["local_memory"], None, "that question would have waited")
    equal(calls("contexts"), "1", "a context came about")
    equal(calls("pools"), before, "the default pool")
    calls.succeeds("go")
    return data, wall


def test_hung():
    with Calls() as calls:
        _, wall = hung(calls)
        check(wall < 20, "a question waited", wall)


# ---- the ranks of a job ----

def job_of_ranks(stack, host, raw):
    """Ranks without PyTorch, each on the device; what they hold by the kernel driver's count is to the byte."""
    ranks, used = [], 0
    for rank, extra in enumerate(raw):
        calls = stack.enter_context(Calls(dict(simulated(), RANK=str(rank), WORLD_SIZE=str(len(raw)), SIMCUDA_MEM_MB=str(TOTAL - RESERVED))))
        calls.allocate("malloc", 64 * MIB)
        calls.allocate("share", 20 * MIB)
        calls.allocate("async", 48 * MIB)
        if extra:
            calls.allocate("malloc", extra * MIB)
        mib = 64 + 20 + int(calls("pools")) // MIB + extra + CONTEXT // MIB
        ranks.append((calls, mib))
        used += mib
    host.device(0, used + NOBODYS)
    for calls, mib in ranks:
        host.process(calls.pid, mib)
    return [calls for calls, _ in ranks], [mib for _, mib in ranks]


NOBODYS = 300  # MiB that are in no process's count


def triage(host, ranks, *args):
    out = scratch()
    metrics = scratch("job.prom")
    _, text, _ = vramtap("triage", "-o", out, "--prometheus", metrics, "--color=never", *args, *(str(c.pid) for c in ranks), env=host.env(),
                         expect=(COMPLETE, PARTIAL))
    with open(os.path.join(out, "report.json"), encoding="utf-8") as file:
        data = json.load(file)
    with open(metrics, "rb") as file:
        prometheus_text.same_job(prometheus_text.parse(file.read()), data)
    with contextlib.suppress(Skip):
        equal(schema_errors(data, schema_file="triage.schema.json"), [], "what the schema does not allow")
    return out, text, data


def test_ranks():
    """Each rank's lines add up to what the kernel driver counts for it; the one that differs is named."""
    with contextlib.ExitStack() as stack:
        host = Host()
        ranks, counted = job_of_ranks(stack, host, (0, 0, 0, 2150))
        out, text, data = triage(host, ranks, "--inject", "--width=160")
        members = sorted(data["members"], key=lambda m: m["rank"])
        for rank, (member, mib) in enumerate(zip(members, counted)):
            memory, = member["memory"]
            lines = memory["ledger"]
            equal(memory["counted_bytes"], mib * MIB, "counted")
            equal(memory["rest_bytes"], CONTEXT, "the rest is the context")
            equal(memory["counted_bytes"] - memory["rest_bytes"], sum(lines.values()) - lines["host"] - lines["managed"], "sum of the lines")
            equal((lines["device_memory"], lines["mapped"]), ((64 + (2150 if rank == 3 else 0)) * MIB, 20 * MIB), "lines")
        device, = data["found"]["devices"]
        equal(device["no_process_bytes"], NOBODYS * MIB, "nobody's")
        equal(device["total_bytes"] - device["free_bytes"], sum(device["holders_bytes"]) + device["no_process_bytes"], "the device")
        told = [(v["text"], v["members"]) for v in data["found"]["verdicts"] if v["code"] == "imbalance-line"]
        third = next(i for i, m in enumerate(data["members"]) if m["rank"] == 3)
        equal(told, [("rank 3 has 2.16 GiB of raw cudaMalloc, the others 64.0 MiB", [[third, third]])], "who differs")
        table = text.partition("What holds the memory")[2].partition("\n\n")[0]
        check(re.match(r" +ranks 0-2 +rank 3\n", table), "like ranks in one column", text)
        check(re.search(r"^  raw cudaMalloc, unattributed +64\.0 MiB +2\.16 GiB$", table, re.M), "the line", table)
        check(re.search(r"^  contexts, code +256 MiB +256 MiB$", table, re.M), "the rest", table)
        check(re.search(r"^  in all, by the driver's count +\d+ MiB +2\.\d+ GiB$", table, re.M), "the sum", table)
        check("no process" in text[text.index("Devices"):].split("\n\n")[0], "nobody's in the text", text)
        # Saved, and read again; and as a version without lines saved it.
        again = vramtap("triage", "--from", out, "--color=never", "--width=160", expect=(COMPLETE, PARTIAL))[1]
        equal(again.partition("What holds the memory")[2].partition("\n\n")[0], table, "read again")
        for member in data["members"]:
            for memory in member["memory"]:
                for name in ("ledger", "counted_bytes", "rest_bytes", "not_pytorch_bytes"):
                    memory.pop(name, None)
        with open(os.path.join(out, "report.json"), "w", encoding="utf-8") as file:
            json.dump(data, file)
        again = vramtap("triage", "--from", out, "--color=never", expect=(COMPLETE, PARTIAL))[1]
        check("What holds the memory" not in again and "Devices" in again, "an old file", again)


def test_ranks_alike():
    """Nothing is said of a healthy job."""
    with contextlib.ExitStack() as stack:
        host = Host()
        ranks, _ = job_of_ranks(stack, host, (0, 0, 0, 0))
        _, text, data = triage(host, ranks, "--inject")
        equal([v["text"] for v in data["found"]["verdicts"] if v["code"] == "imbalance-line"], [], "verdicts")
        check("all 4 ranks" in text or "ranks 0-3" in text, "one column", text)
        check(max(len(line) for line in text.split("\n")) <= 100, "width", text)


def test_ranks_of_pytorch():
    """From outside: PyTorch's own books, and the rest of the kernel driver's count, which is called that."""
    with contextlib.ExitStack() as stack:
        host = Host()
        ranks, mibs = [], (400, 400, 400, 1900)
        host.device(0, sum(mibs) + NOBODYS)
        for rank, mib in enumerate(mibs):
            driver = stack.enter_context(Driver(versions()[-1], RANK=str(rank), WORLD_SIZE="4", SIMCUDA_MEM_MB=str(TOTAL - RESERVED)))
            driver("alloc 10 5000000")
            host.process(driver.pid, mib)
            ranks.append(driver)
        _, text, data = triage(host, ranks, "--width=160")
        for member in data["members"]:
            memory, = member["memory"]
            check("ledger" not in memory, "code ran in the process", memory)
            equal(memory["not_pytorch_bytes"], mibs[member["rank"]] * MIB - memory["reserved_bytes"], "not PyTorch's")
        table = text.partition("What holds the memory")[2].partition("\n\n")[0]
        check(re.search(r"^  other than PyTorch's +\d+ MiB +1\.\d+ GiB$", table, re.M), "the line", text)
        told = [v["text"] for v in data["found"]["verdicts"] if v["code"] == "imbalance-line"]
        check(len(told) == 1 and re.match(r"rank 3 has 1\.\d+ GiB of memory that is not PyTorch's, the others \d+ MiB$", told[0]), "who", told)
        _, text, data = triage(host, ranks, "--inject", "--width=160")
        for member in data["members"]:
            memory, = member["memory"]
            equal(memory["ledger"]["pytorch"], memory["reserved_bytes"], "PyTorch's line")
            equal(memory["ledger"]["device_memory"], 0, "nothing is unattributed")


# ---- many ----

def test_many():
    with Calls() as calls:
        calls("many", 20000, 700)
        data = read(calls.pid, expect=COMPLETE)
        equal(the_line(data)["device_memory"]["ranges"], 20000, "ranges")
        equal(the_line(data)["rest_bytes"], CONTEXT, "rest")
        adds_up(data)


# ---- PyTorch ----

def test_pytorch():
    """Every segment is claimed, none twice; the rest is the context."""
    for version in versions():
        with Driver(version) as driver:
            driver("random 3 2000")
            data = read(driver.pid, expect=COMPLETE)
            adds_up(data)
            line, totals = the_line(data), data["pytorch"]["allocators"][0]["totals"]
            equal(line["claimed"]["pytorch"]["bytes"], totals["reserved_bytes"], f"PyTorch {version}")
            equal((line["device_memory"]["bytes"], line["claimed"]["pytorch"]["without_memory_bytes"]), (0, 0), f"unattributed, PyTorch {version}")
            equal(line["rest_bytes"], CONTEXT, f"rest, PyTorch {version}")


def test_pytorch_expandable():
    version = versions()[-1]
    with Driver(version, PYTORCH_CUDA_ALLOC_CONF="expandable_segments:True") as driver:
        driver("random 4 2000")
        data = read(driver.pid, expect=COMPLETE)
        adds_up(data)
        line, totals = the_line(data), data["pytorch"]["allocators"][0]["totals"]
        equal(line["claimed"]["pytorch"]["bytes"], totals["reserved_bytes"], "PyTorch's")
        equal(line["mapped"]["bytes"], 0, "unattributed")
        equal(line["rest_bytes"], CONTEXT, "rest")


if __name__ == "__main__":
    main(globals())
