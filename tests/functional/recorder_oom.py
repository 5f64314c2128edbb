#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Out-of-memory errors: the personality routine with all kinds of exceptions, and vramtap watch --on-oom with real PyTorch."""
import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

from harness import (CACHE, COMPLETE, NOTHING, PARTIAL, QUICK, SOURCE, USAGE, VRAMTAP, Skip, check, check_schema, compile_c,
                     diag_codes, equal, main, proc_state, report_json, scratch, stop_tool, target, vramtap, wait_until)
from nursery import Nursed
from report_torch import Driver, versions

NO_EVENT = 4
MIB = 1 << 20
TARGET = os.path.join(SOURCE, "tests", "targets", "torch_oom.py")
CODE = os.path.join(SOURCE, "tests", "functional")


def line_of(mark):
    with open(TARGET, encoding="utf-8") as file:
        return next(i for i, text in enumerate(file, 1) if text.rstrip().endswith(f"# line: {mark}"))


# ---- the personality routine ----

def build_throw():
    """recorder_oom_throw.cc with the recorder's own oom.c."""
    compilers = [shutil.which(name) for name in ("gcc", "g++")]
    if not all(compilers):
        raise Skip("no gcc and g++")
    where = scratch()
    binary, oom = os.path.join(where, "throw"), os.path.join(where, "oom.o")
    include = ["-I", os.path.join(SOURCE, "include"), "-I", os.path.join(SOURCE, "helper")]
    subprocess.run([compilers[0], "-std=gnu11", "-O2", "-fPIC", "-ffreestanding", "-fno-builtin", "-fno-stack-protector",
                    "-fvisibility=hidden", "-fasynchronous-unwind-tables", *include, "-c", "-o", oom,
                    os.path.join(SOURCE, "helper", "recorder", "oom.c")], check=True)
    subprocess.run([compilers[1], "-std=c++17", "-O2", "-pthread", *include, "-o", binary,
                    os.path.join(CODE, "recorder_oom_throw.cc"), oom], check=True)
    return binary


def test_personality():
    """Each kind of exception, and how long a thread waits for which kind of watcher."""
    binary = build_throw()
    cases = subprocess.run([binary], capture_output=True, check=True).stdout.decode().split()
    check(len(cases) >= 10, "cases", cases)
    for case in cases:
        done = subprocess.run([binary, case], capture_output=True, timeout=60, check=False)
        equal(done.returncode, 0, f"case {case}: {done.stderr.decode()}")


# ---- jobs and watchers ----

class Failing(Nursed):
    """torch_oom.py on a simulated device of so many MiB."""

    def __init__(self, memory=512, version=None):
        super().__init__(version or versions()[0], [TARGET], cwd=scratch(),
                         env=dict(os.environ, SIMCUDA_DEVICES="1", SIMCUDA_MEM_MB=str(memory), SIMCUDA_CTX_MB="16"))

    def answer(self):
        return json.loads(super().answer())


class Watch:
    """vramtap watch --on-oom, armed."""

    def __init__(self, pid, *args, path=None):
        # Files: nobody reads before the end, and a pipe has room for the text of nine reports.
        self.log, self.text = scratch("log"), scratch("text")
        self.path, self.n = path, 0  # of the reports
        self.where = scratch()  # without --then
        args = (*args, "--then", path) if path else args
        with open(self.log, "wb") as log, open(self.text, "wb") as text:
            self.proc = subprocess.Popen([VRAMTAP, "watch", str(pid), "--on-oom", *args], stdin=subprocess.DEVNULL,
                                         stdout=text, stderr=log, cwd=self.where)

    def err(self):
        with open(self.log, encoding="utf-8") as file:
            return file.read()

    def __enter__(self):
        wait_until(lambda: "armed" in self.err() or self.proc.poll() is not None, 60, "armed")
        check(self.proc.poll() is None, "the watcher ended", self.proc.returncode, self.err())
        return self

    def __exit__(self, *exc):
        if self.proc.poll() is None:
            self.proc.send_signal(signal.SIGCONT)
            self.proc.kill()
            self.proc.wait()

    def end(self, how=signal.SIGTERM, expect=(COMPLETE, PARTIAL)):
        """Returns the text."""
        if how:
            self.proc.send_signal(how)
        self.proc.wait(timeout=60)
        with open(self.text, encoding="utf-8") as file:
            out = file.read()
        check(self.proc.returncode in (expect if isinstance(expect, tuple) else (expect,)), f"exit code {self.proc.returncode}, not {expect}:", self.err(), out[-3000:])
        return out


def status(pid):
    """What vramtap record PID status says."""
    return json.loads(vramtap("record", str(pid), "status", "--json", "-", expect=(COMPLETE, PARTIAL))[1])


def catch(job, watch, command):
    """Has the job run out of memory; returns what it says of that, and the report. On a machine that is busy a thread may have
    gone on before all was read, as the report says then, or the helper did not get inside in time: again."""
    for _ in range(20):
        result = job.ask(command)
        watch.n += 1
        data = read_report(watch.path if watch.n == 1 else f"{watch.path}.{watch.n}")
        if data["completeness"] == "complete":
            return result, data
        check(diag_codes(data) & {"went-on", "timeout"}, "what is missing", data["diagnostics"])
        time.sleep(1)
    raise AssertionError("no report was complete")


def read_report(path, seconds=30):
    wait_until(lambda: os.path.exists(path) and os.path.getsize(path) > 0, seconds, f"{path} is written")
    with open(path, encoding="utf-8") as file:
        data = json.load(file)
    check_schema(data)
    return data


def frames_of(data, index):
    recorded = data["pytorch"]["recorded"]
    return [recorded["frames"][i] for i in recorded["backtraces"][index]["frames"]]


def is_at(frames, function, line):
    return any(f["kind"] == "python" and f["file"] == TARGET and f["line"] == line and f["function"].endswith(function)
               for f in frames)


def events(data):
    return {e["number"]: e for e in data["recorder"]["out_of_memory"]}


def check_caught(data, mib, result):
    """The report is of that request, and of the blocks that were there then."""
    caught = data["caught"]
    event = events(data)[caught["first"]]
    equal(event["requested_bytes"], mib * MIB, "bytes asked for")
    equal(event["tid"], result["tid"], "the thread")
    equal(event["device"], 0, "the device")
    check(is_at(frames_of(data, event["backtrace"]), "request", line_of("fail")), "the failing line",
          frames_of(data, event["backtrace"]))
    # PyTorch's message has the numbers of the same moment.
    free = re.search(r"of which ([0-9.]+) (MiB|GiB|KiB) is free", result["text"])
    unit = {"KiB": 1 << 10, "MiB": MIB, "GiB": 1 << 30}[free[2]]
    check(abs(event["free_bytes"] - float(free[1]) * unit) <= 0.01 * unit, "free bytes", event, result["text"])
    thread = next(t for t in data["threads"] if t["tid"] == result["tid"])
    equal(thread["verdict_code"], "out-of-memory", f"what the thread does, state {thread['state']}")
    check(thread["waits_code"] != "running", "a thread that is kept does not run", thread["waits"])
    check(any(f["kind"] == "python" and f["line"] == line_of("fail") for f in thread["stack"]["frames"]), "the thread's stack is of that moment",
          thread["stack"]["frames"])
    # Word for word, up to what a C++ stack adds where the program asked for that.
    check(caught["message"].split("Exception raised")[0].strip() == result["text"].split("Exception raised")[0].strip(), "PyTorch's message",
          caught["message"], result["text"])
    allowed = re.search(r"([0-9.]+) MiB allowed", result["text"])
    equal(caught["limit_bytes"], float(allowed[1]) * MIB if allowed else None, "the limit")
    return event


def held_by_line(data, mark):
    """Bytes of live blocks whose backtrace has that line."""
    total = 0
    for a in data["pytorch"]["allocators"]:
        for block in (b for s in a["segments"] for b in s["blocks"] if b["state"] == "allocated" and "backtrace" in b):
            if any(f["kind"] == "python" and f["file"] == TARGET and f["line"] == line_of(mark)
                   for f in frames_of(data, block["backtrace"])):
                total += block["bytes"]
    return total


# ---- what is caught ----

def test_full_device():
    """The failing line, the lines that filled the device, the same exception as without a watcher; several times."""
    path = scratch("report.json")
    with Failing() as job:
        job.ask("fill 300 5")
        alone = job.ask("fail 400")
        equal(alone["type"], "torch.OutOfMemoryError", "type of the exception")
        job.ask("drop")
        with Watch(job.pid, path=path) as watch:
            job.ask("fill 300 5")
            for _ in range(3):
                result, data = catch(job, watch, "fail 400")
                equal((result["type"], result["text"]), (alone["type"], alone["text"]), "the exception")
                check(result["ms"] < 2500, f"the job was kept for {result['ms']} ms")
                event = check_caught(data, 400, result)
                check(0 < event["waited_ms"] < 1500, "the wait", event)
                equal(data["caught"]["verdict"], "full", "the verdict")
                equal(data["headlines"][0]["code"], "caught", "the first headline")
                check(f"torch_oom.py:{line_of('fail')}" in data["headlines"][0]["text"] or "torch_oom.py" in
                      data["headlines"][0]["text"], "the headline", data["headlines"][0])
                equal(held_by_line(data, "fill"), 300 * MIB, "what the line that filled the device holds")
                print(f"kept for {event['waited_ms']:.1f} ms, {result['ms']:.1f} ms in all")
            job.ask("drop")
            text = watch.end()
            check("out of memory: 400 MiB asked for on GPU 0" in text, "the text", text[:2000])
        equal(status(job.pid)["state"], "off", "recording afterwards")
        equal(job.ask("fail 600")["type"], alone["type"], "afterwards")


@contextlib.contextmanager
def crowded(pid, n):
    """All threads of a process on one processor, with so many programs that want it, too."""
    cpu = min(os.sched_getaffinity(0))
    for task in os.listdir(f"/proc/{pid}/task"):
        with contextlib.suppress(ProcessLookupError):  # the helper's thread may be on its way out
            os.sched_setaffinity(int(task), {cpu})
    with contextlib.ExitStack() as stack:
        for _ in range(n):
            stack.enter_context(target([sys.executable, "-c", f"import os; os.sched_setaffinity(0, {{{cpu}}}); print('ready', flush=True)\n"
                                        "while True: pass"], ready="ready"))
        yield


def test_kept_thread_that_is_awake():
    """It sleeps for 2 ms at a time. When it waits for a processor in between, it is kept, too, and does not run."""
    path = scratch("report.json")
    with Failing() as job, Watch(job.pid, path=path) as watch:
        job.ask("fill 300 5")
        with crowded(job.pid, 3):
            for _ in range(8):
                result, data = catch(job, watch, "fail 400")
                check_caught(data, 400, result)
        watch.end()


def test_verdicts():
    """Fragmented; the device has room that PyTorch may not use; more than there is."""
    path = scratch("report.json")
    with Failing() as job, Watch(job.pid, path=path) as watch:
        job.ask("holes 352 44")
        result, data = catch(job, watch, "fail 100")
        check_caught(data, 100, result)
        caught = data["caught"]
        equal(caught["verdict"], "fragmented", "the verdict")
        cached = [b["bytes"] for a in data["pytorch"]["allocators"] for s in a["segments"] for b in s["blocks"] if b["state"] == "cached"]
        equal(caught["holes"]["largest_bytes"], max(cached), "the largest hole")
        equal(caught["holes"]["bytes"], sum(cached), "all holes")
        equal(held_by_line(data, "holes"), 176 * MIB, "what the line holds")
        job.ask("drop")
        job.ask("fraction 0.25")
        result, data = catch(job, watch, "fail 200")
        check_caught(data, 200, result)
        equal(data["caught"]["verdict"], "limited", "the verdict")
        check(data["caught"]["limit_bytes"] == 128 * MIB and "limited: PyTorch may use 128 MiB of the device" in data["headlines"][1]["text"],
              "the limit", data["caught"], data["headlines"][:2])
        job.ask("fraction 1.0")
        result, data = catch(job, watch, "fail 2000")
        check_caught(data, 2000, result)
        equal(data["caught"]["verdict"], "too-large", "the verdict")
        watch.end()


def test_job_that_dies():
    """What most do: the report must not need the process any more."""
    path = scratch("report.json")
    with Failing() as job, Watch(job.pid, "--then", path) as watch:
        job.ask("fill 300 5")
        job.start("die 400")
        job.proc.wait(timeout=30)
        data = read_report(path)
        event = events(data)[data["caught"]["first"]]
        check(is_at(frames_of(data, event["backtrace"]), "request", line_of("fail")), "the failing line")
        equal(held_by_line(data, "fill"), 300 * MIB, "what the line that filled the device holds")
        # On a machine that is busy it is gone before the last names are found, and the report says so.
        check(data["completeness"] == "complete" or event["waited_ms"] > 150, "what is missing", event, data["diagnostics"])
        watch.proc.wait(timeout=30)
        check(watch.proc.returncode in (COMPLETE, PARTIAL), "exit code", watch.proc.returncode)


def test_two_threads():
    """Both are caught, in one report or in two."""
    path = scratch("report.json")
    with Failing() as job, Watch(job.pid, "--then", path) as watch:
        job.ask("fill 300 5")
        results = job.ask("twice 400")["results"]
        equal([r["type"] for r in results], ["torch.OutOfMemoryError"] * 2, "the exceptions")
        check(all(r["ms"] < 4000 for r in results), "delays", results)
        wait_until(lambda: os.path.exists(path), 30, "the first report is written")
        time.sleep(0.5)
        watch.end()
        data = read_report(path + ".2" if os.path.exists(path + ".2") else path)
        caught = {e["tid"] for e in events(data).values()}
        equal(caught, {r["tid"] for r in results}, "the threads of the events")
        equal(data["caught"]["last"], 2, "the last event")


def test_then_and_exec():
    """--exec runs when the report is there, with its name; without --then in a file of its own."""
    out = scratch("out")
    command = f'echo "$VRAMTAP_PID $VRAMTAP_REPORT $(wc -c < "$VRAMTAP_REPORT")" >> {out}'
    with Failing() as job:
        path = scratch("report.json")
        with Watch(job.pid, "--then", path, "--exec", command) as watch:
            job.ask("fail 600")
            wait_until(lambda: os.path.exists(out), 30, "the command ran")
            watch.end()
        with open(out, encoding="utf-8") as file:
            equal(file.read().split(), [str(job.pid), path, str(os.path.getsize(path))], "what the command saw")
        os.unlink(out)
        with Watch(job.pid, "--exec", command) as watch:
            job.ask("fail 600")
            wait_until(lambda: os.path.exists(out), 30, "the command ran")
            watch.end()
        with open(out, encoding="utf-8") as file:
            pid, path, size = file.read().split()
        path = os.path.join(watch.where, path)
        equal((pid, size), (str(job.pid), str(os.path.getsize(path))), "what the command saw")
        check_schema(json.load(open(path, encoding="utf-8")))
        os.unlink(path)


def test_saved_unless_told_otherwise():
    """Without --then each moment is in a file of its own, which the text and the log name; the stack is shown once."""
    with Failing() as job, Watch(job.pid) as watch:
        job.ask("fill 300 5")
        for n in (1, 2):
            job.ask("fail 400")
            wait_until(lambda n=n: len(os.listdir(watch.where)) == n, 30, "a file")
        text = watch.end()
        names = sorted(os.listdir(watch.where))
        check(all(re.fullmatch(rf"vramtap-oom-[\w.-]+-{job.pid}-\d{{8}}T\d{{6}}Z(-2)?\.json", name) for name in names), "names", names)
        for name in names:
            equal(read_report(os.path.join(watch.where, name))["caught"]["verdict"], "full", "the verdict")
            equal(text.count(f" JSON: {name}\n"), 1, f"the last line of the text: {text[-300:]}")
            equal(watch.err().count(f"({job.pid}): out of memory; the report of that moment is {name}\n"), 1, f"the log: {watch.err()}")
        check("vramtap report --json" not in text, "a command about a moment that is over", text)
        first = text[:text.index(" JSON: ")]
        caught, threads = first.index("Out of memory on GPU 0"), first.index("\nThreads")
        check("at::_ops::empty_memory_format::call" in first[threads:], "the whole stack", first[threads:])
        check("at::_ops" not in first[caught:threads] and "torch_oom.py" in first[caught:threads], "the stack once more", first[caught:threads])
        check(f"all frames: thread {job.pid} below" in first[caught:threads], "where the rest is", first[caught:threads])
        check("PyTorch says  CUDA out of memory. Tried to allocate 400.00 MiB." in first, "PyTorch's message", first)
    # Where it cannot be saved, that is said before anything waits.
    where = scratch()
    done = subprocess.run(["unshare", "--mount", "--propagation", "private", "sh", "-c", 'mount -t tmpfs -o ro none "$1" && cd "$1" && exec "$2" watch --on-oom 1',
                           "sh", where, VRAMTAP], capture_output=True, text=True, timeout=60, check=False)
    if "unshare" not in done.stderr and "mount" not in done.stderr:
        check(done.returncode == NOTHING and "current directory, unless --then names a file: Read-only" in done.stderr, "what is said", done)


def test_no_event():
    """The time is over, something else switches recording off, the process has ended; there is one watcher at a time."""
    with Failing() as job:
        start = time.monotonic()
        with Watch(job.pid, "--timeout", "1") as watch:
            watch.end(how=None, expect=NO_EVENT)
        check(0.9 < time.monotonic() - start < 30, "how long it took")
        equal(status(job.pid)["state"], "off", "recording afterwards")
        with Watch(job.pid) as watch:
            code, _, err = vramtap("watch", str(job.pid), "--on-oom")
            check(code == 2 and "another vramtap already watches" in err, "a second watcher", code, err)
            equal(job.ask("fail 600")["type"], "torch.OutOfMemoryError", "the first one still works")
            watch.end()
        with Watch(job.pid) as watch:
            vramtap("record", str(job.pid), "off", expect=(COMPLETE, PARTIAL))
            watch.end(how=None, expect=NO_EVENT)
            check("switched recording off" in watch.err(), "what it says", watch.err())
        with Watch(job.pid) as watch:
            job.proc.kill()
            watch.end(how=None, expect=NO_EVENT)
            check("has ended" in watch.err(), "what it says", watch.err())


def test_recording_stays_on():
    """Recording that was on before is on afterwards."""
    with Failing() as job:
        vramtap("record", str(job.pid), "on", expect=(COMPLETE, PARTIAL))
        with Watch(job.pid) as watch:
            job.ask("fail 600")
            watch.end()
        equal(status(job.pid)["state"], "on", "recording afterwards")
        # Nobody watches: the event is kept, and a later report has it.
        job.ask("fail 700")
        data = report_json(job.pid, expect=(COMPLETE, PARTIAL))
        equal([e["requested_bytes"] for e in events(data).values()], [600 * MIB, 700 * MIB], "the events that are kept")
        check([e["waited_ms"] > 1 for e in events(data).values()] == [True, False], "which threads waited", events(data))
        equal(data["caught"], None, "nothing is caught by a report")
        vramtap("record", str(job.pid), "off", expect=(COMPLETE, PARTIAL))


def test_hooks_that_are_out():
    """Whatever took them out from outside, a watcher puts them in again; and it notices when that is done to it."""
    with Failing() as job:
        job.ask("fill 20 1")
        allocator = int(json.loads(vramtap("layouts", "--json", "-", str(job.pid), expect=(COMPLETE, PARTIAL))[1])["allocator"], 16)
        with open(f"/proc/{job.pid}/mem", "r+b", buffering=0) as memory:
            table = os.pread(memory.fileno(), 8, allocator)
            vramtap("record", str(job.pid), "on", "--no-driver", expect=(COMPLETE, PARTIAL))
            os.pwrite(memory.fileno(), table, allocator)
        equal(status(job.pid)["hooks"]["out"], 1, "hooks that are out")
        check("nothing is recorded" in vramtap("record", str(job.pid), "status")[1], "it is not said")
        path = scratch("report.json")
        with Watch(job.pid, "--no-driver", path=path) as watch:
            check_caught(catch(job, watch, "fail 600")[1], 600, job.ask("fail 600"))
            watch.end()
        equal(status(job.pid)["state"], "off", "recording afterwards")
        # A process that is stopped cannot be entered.
        with Watch(job.pid, "--no-driver") as watch:
            os.kill(job.pid, signal.SIGSTOP)
            watch.end(expect=NO_EVENT)
            check("memory was not given back" in watch.err() and f"record {job.pid} off" in watch.err(), "what it says", watch.err())
            os.kill(job.pid, signal.SIGCONT)
        equal(status(job.pid)["hooks"]["in_place"], 0, "hooks")
        # Switched off from outside while it watches.
        with Watch(job.pid, "--no-driver") as watch:
            os.kill(job.pid, signal.SIGSTOP)
            vramtap("record", str(job.pid), "off", expect=PARTIAL)
            watch.end(how=None, expect=NO_EVENT)
            check("switched recording off" in watch.err(), "what it says", watch.err())
            os.kill(job.pid, signal.SIGCONT)
        vramtap("record", str(job.pid), "off", expect=COMPLETE)


# ---- watchers that are killed ----

def test_killed_watcher():
    """The job goes on, is kept once for half a second, and a later vramtap finds the trap and takes it out."""
    with Failing() as job:
        with Watch(job.pid) as watch:
            watch.proc.kill()
            watch.proc.wait()
        for _ in range(6):
            job.ask("fail 600")
        waits = [e["waited_ms"] for _, e in sorted(events(report_json(job.pid, expect=(COMPLETE, PARTIAL))).items())]
        check(400 < waits[0] < 2000 and max(waits[1:]) < 1, "only the first one is kept", waits)
        equal(status(job.pid)["state"], "on", "recording")
        with Watch(job.pid) as watch:
            equal(job.ask("fail 600")["type"], "torch.OutOfMemoryError", "with another watcher")
            watch.end()
        vramtap("record", str(job.pid), "off", expect=(COMPLETE, PARTIAL))
        equal(status(job.pid)["state"], "off", "recording afterwards")
        equal(job.ask("fail 600")["type"], "torch.OutOfMemoryError", "afterwards")


def test_killed_meanwhile():
    """Killed, or stopped, at any time while it deals with an event."""
    with Failing() as job:
        job.ask("fill 300 5")
        for i in range(6 if QUICK else 100):
            with Watch(job.pid) as watch:
                job.start("fail 600")
                time.sleep(0.004 * (i * 3 % 16))
                if i % 2:
                    watch.proc.kill()
                else:
                    check(stop_tool(watch.proc, job.pid), "the tool has ended")
                result = job.answer()
                equal(result["type"], "torch.OutOfMemoryError", "the exception")
                check(result["ms"] < 2500, "how long the job was kept", result)
                check(job.ask("fail 600")["ms"] < 2500, "the next one")
                equal(job.ask("sum 1000")["sum"], 499500, "the job is well")
                check(proc_state(job.pid) in "SR", "the job runs")


def test_cxx_program():
    """No Python in it; a single thread, which is the one that waits."""
    version = versions()[0]
    path = scratch("report.json")
    with Driver(version) as driver, Watch(driver.pid, "--then", path) as watch:
        driver("alloc 10 1000000")
        driver("oom")
        data = read_report(path)
        event = events(data)[data["caught"]["first"]]
        check(event["requested_bytes"] > 1 << 30, "bytes asked for", event)
        check(any(f["kind"] == "native" and "c10_driver" in (f["module"] or "") for f in frames_of(data, event["backtrace"])),
              "its frames", frames_of(data, event["backtrace"]))
        watch.end()


DRIVER_PROGRAM = r"""
#include <stdio.h>
#include <stdlib.h>

int cuInit(unsigned int);
int cuDeviceGet(int *, int);
int cuDevicePrimaryCtxRetain(void **, int);
int cuCtxSetCurrent(void *);
int cuMemAlloc_v2(unsigned long long *, size_t);

__attribute__((noinline)) int ask_for(size_t bytes)
{
	unsigned long long address;
	int error = cuMemAlloc_v2(&address, bytes);

	return error + 0 * (int)address;
}

int main(void)
{
	unsigned long mib;
	void *context;
	int device;

	if (cuInit(0) || cuDeviceGet(&device, 0) || cuDevicePrimaryCtxRetain(&context, device) || cuCtxSetCurrent(context))
		return 1;
	puts("READY");
	fflush(stdout);
	while (scanf("%lu", &mib) == 1) {
		printf("%d\n", ask_for(mib << 20));
		fflush(stdout);
	}
	return 0;
}
"""


def test_driver_call():
    """A program that has nothing to do with PyTorch, and calls the driver itself."""
    where = os.path.join(CACHE, "simcuda")
    if not os.path.exists(os.path.join(where, "libcuda.so.1")):
        raise Skip("the simulated device is not built")
    binary = compile_c(DRIVER_PROGRAM, "-L", where, "-l:libcuda.so.1", f"-Wl,-rpath-link,{where}")
    path = scratch("report.json")
    env = dict(os.environ, LD_LIBRARY_PATH=where, SIMCUDA_DEVICES="1", SIMCUDA_MEM_MB="512", SIMCUDA_CTX_MB="16")
    with target([binary], ready="READY", env=env) as job, Watch(job.pid, "--then", path) as watch:
        for mib, error in ((100, 0), (1000, 2), (200, 0)):
            job.stdin.write(f"{mib}\n".encode())
            job.stdin.flush()
            equal(int(job.stdout.readline()), error, "result of the call")
        data = read_report(path)
        event = events(data)[data["caught"]["first"]]
        equal((event["kind"], event["requested_bytes"], event["error"], event["device"]), ("driver", 1000 * MIB, 2, 0), "the event")
        equal((event["free_bytes"], event["total_bytes"]), (396 * MIB, 512 * MIB), "memory of the device then")
        check(any(f["function"] == "ask_for" for f in frames_of(data, event["backtrace"])), "the function that asked",
              frames_of(data, event["backtrace"]))
        text = watch.end()
        check("out of memory: 1000 MiB asked for on GPU 0 by ask_for" in text, "the text", text[:1500])


def test_usage():
    for args in ([], ["--on-oom"], ["1"], ["--on-oom", "1", "--timeout", "0"], ["--on-oom", "1", "--timeout", "5x"],
                 ["--on-oom", "1", "x"], ["--on-oom", "1", "--then", "a", "--json", "b"]):
        vramtap("watch", *args, expect=USAGE)
    for path in (scratch(), os.path.join(scratch(), "none", "report.json")):
        code, _, err = vramtap("watch", "--on-oom", str(os.getpid()), "--then", path)
        check(code == NOTHING and path in err, "a report that cannot be written", code, err)


if __name__ == "__main__":
    main(globals())
