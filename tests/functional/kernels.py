#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""report --kernels with stand-ins for cuda-gdb: one that says what the real one has said, and ones that hang, fail, talk without end,
leave a process behind or leave the target stopped. The real one: tests/gpu/kernels.py."""
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time

from harness import (COMPLETE, PARTIAL, SOURCE, check, check_schema, compile_c, diag_codes, equal, main, proc_state, scratch, simulated_python, target,
                     vramtap, wait_until)

SAMPLES = os.path.join(SOURCE, "tests", "unit", "kernels")
USAGE = 64
# A process in which the CUDA driver is loaded, by name, and which counts. Its other thread rests: the stack of one that runs cannot be read
# where another debugger keeps vramtap from stopping it, and a report without any stack has learned nothing.
PROGRAM = """
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
volatile unsigned long counter;
static void *rest(void *arg)
{
	for (;;)
		pause();
	return arg;
}
int main(void)
{
	pthread_t thread;
	if (pthread_create(&thread, NULL, rest, NULL))
		return 1;
	printf("READY\\n");
	fflush(stdout);
	for (;;) {
		counter++;
		usleep(10000);
	}
}
"""


# The same where a program of the test's own may be out of sight.
APART = "import time; print('READY', flush=True); time.sleep(1000)"


# With a thread of its own, as the driver has in a process that uses it; functions that work, and that wait.
DRIVER = """
#include <poll.h>
#include <pthread.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>
int cuInit(unsigned flags)
{
	return 100;
}
static void *handle_events(void *arg)
{
	prctl(PR_SET_NAME, "cuda-EvtHandlr");
	for (;;)
		poll(NULL, 0, -1);
	return arg;
}
volatile unsigned long turns;
int cuMemAlloc_v2(void)
{
	for (int i = 0; i < 1000000; i++)
		turns++;
	return 0;
}
int cuStreamSynchronize(void)
{
	for (;;)
		turns++;
}
/* Returns when the device has done what it was given: after 20 ms. */
int cuEventSynchronize(void)
{
	struct timespec begin, now;
	clock_gettime(CLOCK_MONOTONIC, &begin);
	do
		clock_gettime(CLOCK_MONOTONIC, &now);
	while ((now.tv_sec - begin.tv_sec) * 1000000000 + now.tv_nsec - begin.tv_nsec < 20000000);
	return 0;
}
__attribute__((constructor)) static void begin(void)
{
	pthread_t thread;
	if (%s)
		pthread_create(&thread, NULL, handle_events, NULL);
}
"""


def stand_in_driver(in_use=True):
    library = compile_c(DRIVER % int(in_use), "-shared", "-fPIC", "-pthread", "-Wl,-soname,libcuda.so.1")
    path = os.path.join(scratch(), "libcuda.so.1")
    shutil.copy(library, path)
    return path


def child_of(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
        return int(file.read().split()[0])


@contextlib.contextmanager
def process(env=None, in_use=True):
    with target([compile_c(PROGRAM)], ready="READY", env=dict(env or os.environ, LD_PRELOAD=stand_in_driver(in_use))) as proc:
        yield proc


# A script is no debugger: this becomes the one beside it.
LAUNCHER = """
#include <stdio.h>
#include <unistd.h>
int main(int argc, char **argv)
{
	char script[4096];
	snprintf(script, sizeof(script), "%s.sh", argv[0]);
	argv[0] = script;
	(void)argc;
	execv(script, argv);
	return 126;
}
"""
launcher = []


def debugger(text, mode=0o755):
    """A stand-in; $pid is the process that it is to be attached to."""
    launcher[:] = launcher or [compile_c(LAUNCHER)]
    path = os.path.join(scratch(), "cuda-gdb")
    with open(path + ".sh", "w", encoding="utf-8") as file:
        file.write('#!/bin/sh\nwhile [ "$1" != -p ]; do shift; done\npid=$2\n' + text + "\n")
    os.chmod(path + ".sh", 0o755)
    shutil.copy(launcher[0], path)
    os.chmod(path, mode)
    return path


def sample(name):
    return f"cat {os.path.join(SAMPLES, name)}"


def ask(pid, path, *args, expect=PARTIAL, env=None):
    """The report as data, and how long it took. expect: None: as what it says of the kernels has it."""
    begin = time.monotonic()
    environ = dict(os.environ, VRAMTAP_CUDA_GDB=path) if path else dict(os.environ)
    code, out, err = vramtap("report", "--json", "-", *(args or ("--kernels",)), str(pid), env=environ | (env or {}))
    took = time.monotonic() - begin
    data = json.loads(out)
    known = PARTIAL if data["kernels"]["why"] else COMPLETE
    check(code == (known if expect is None else expect), "exit code", code, data["kernels"], err)
    check_schema(data)
    return data, took


def runs_on(proc):
    """Nobody traces it, and it is not stopped."""
    with open(f"/proc/{proc.pid}/status", encoding="ascii") as file:
        status = dict(line.split(":\t", 1) for line in file.read().splitlines() if ":\t" in line)
    equal(status["TracerPid"], "0", "traced")
    check(status["State"][0] in "RS", "state", status["State"])


def test_told():
    with process() as proc:
        data, _ = ask(proc.pid, debugger(sample("lines.txt")), expect=COMPLETE)
        kernels = data["kernels"]
        equal((kernels["state"], kernels["why"], kernels["more"], kernels["exceptions"]), ("told", None, 0, []), "answer")
        kernel = kernels["kernels"][0]
        equal((kernel["name"], kernel["device"], kernel["grid"], kernel["grid_dim"], kernel["block_dim"], kernel["sms"], kernel["parent"]),
              ("spin_until", 0, 2, [40, 1, 1], [128, 1, 1], 40, None), "kernel")
        equal(sum(place["threads"] for place in kernel["places"]), kernel["threads"], "threads")
        equal({(place["file"], place["line"]) for place in kernel["places"]}, {("/tmp/spin_src.cu", 5), ("/tmp/spin_src.cu", 8)}, "lines")
        headlines = [line["text"] for line in data["headlines"]]
        check("spin_until runs on GPU 0 (40 blocks of 128 threads)" in headlines, "headline", headlines)
        check(kernels["took_ms"] > 0, "time", kernels)
        runs_on(proc)


def test_text():
    with process() as proc:
        for name, line in (("lines.txt", "GPU 0  spin_until<<<40, 128>>> on 40 SMs: 704 threads at spin_src.cu:5, 704 at spin_src.cu:8"),
                           ("two.txt", "GPU 0  spin_until<<<5000, 1024>>> on 132 SMs: "),
                           ("pytorch.txt", "GPU 0  at::native::index_elementwise_kernel<…><<<1, 128>>> on 1 SM"),
                           ("idle.txt", "No kernel of this process ran at that moment.")):
            env = dict(os.environ, VRAMTAP_CUDA_GDB=debugger(sample(name)))
            code, out, err = vramtap("report", "--kernels", "--width", "120", str(proc.pid), env=env)
            equal(code, COMPLETE, "exit code: " + err)
            check("\nWhat runs on the GPU   cuda-gdb held the process for " in out and line in out, name, out)
        check("no kernel of this process runs on the GPU" in out, "headline", out)


def test_main_thread_waits():
    """For a simulated device: its headline says what runs there; what to do next is not what was done."""
    with target(simulated_python("2.11.0") + [os.path.join(SOURCE, "examples", "hung.py")], ready="READY") as proc:
        pid = int(proc.ready_line.split()[1])
        for name, words in (("two.txt", "; 2 kernels run on GPU 0, one of them spin_until (5,000 blocks of 1,024 threads)"),
                            ("idle.txt", "; no kernel of this process runs on the GPU")):
            data, _ = ask(pid, debugger(sample(name)), expect=COMPLETE)
            headline = [line for line in data["headlines"] if line["code"] == "main-thread"][0]
            check(headline["text"].endswith(words) and not headline["alarm"], "headline", headline)
            check("kernels" not in {line["code"] for line in data["headlines"]}, "once", data["headlines"])
            check("kernels" not in {step["code"] for step in data["next"]}, "next", data["next"])


# Calls one function of the driver again and again.
CALLS = """
#include <dlfcn.h>
#include <stdio.h>
int main(int argc, char **argv)
{
	int (*function)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, argv[argc - 1]);
	if (!function)
		return 1;
	printf("READY\\n");
	fflush(stdout);
	for (;;)
		function();
}
"""
# A step, 0.1 ms for 250000 turns, and a wait for the device of 20 ms, again and again.
STEPS = """
#include <stdio.h>
int cuEventSynchronize(void);
static volatile unsigned long turns;
static void __attribute__((noinline)) step(void)
{
	for (int i = 0; i < TURNS; i++)
		turns++;
}
int main(void)
{
	printf("READY\\n");
	fflush(stdout);
	for (;;) {
		step();
		cuEventSynchronize();
	}
}
"""
# One thread waits, another one works: in the program, in a library with the name of NCCL's, or for so short a time that it does not count.
WORKS = """
#include <pthread.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>
int cuStreamSynchronize(void);
volatile unsigned long turns;
static void *works(void *arg)
{
	for (;;) {
		for (int i = 0; i < WORK; i++)
			turns++;
		usleep(PAUSE);
	}
	return arg;
}
void begin(void)
{
	pthread_t thread;
	pthread_create(&thread, NULL, works, NULL);
}
"""
WAITS = """
#include <stdio.h>
void begin(void);
int cuStreamSynchronize(void);
int main(void)
{
	begin();
	printf("READY\\n");
	fflush(stdout);
	cuStreamSynchronize();
}
"""
ALLOCATES = """
import time, torch
torch.zeros(1, device="cuda")
print("READY", flush=True)
while True:
    torch.zeros(1000, device="cuda")
    time.sleep(0.02)
"""


def ask_until_told(pid, path):
    """On a busy machine a thread that spins gets no processor for a look: then vramtap says that it cannot tell, and is asked again."""
    for _ in range(8):
        data, _ = ask(pid, path, expect=None)
        if "cannot be told" not in (data["kernels"]["why"] or ""):
            return data
    raise AssertionError(f"eight times it could not tell: {data['kernels']}")


def test_goes_on():
    """A process at work is not given to the debugger, which could lock up with it; one that waits for the GPU is."""
    ran = scratch("ran")
    stand_in = debugger(f">{ran}; " + sample("idle.txt"))
    for function, state, why in (("cuMemAlloc_v2", "refused", " works in the CUDA driver"), ("cuStreamSynchronize", "none", None)):
        with target([compile_c(CALLS, "-rdynamic"), function], ready="READY", env=dict(os.environ, LD_PRELOAD=stand_in_driver())) as proc:
            data = ask_until_told(proc.pid, stand_in)
            equal(data["kernels"]["state"], state, function)
            check(not why or why in data["kernels"]["why"], "why", data["kernels"])
            equal(os.path.exists(ran), not why, "it was started")
            check(proc_state(proc.pid) == "R", "it runs", proc_state(proc.pid))
    os.unlink(ran)
    with target(simulated_python("2.11.0") + ["-c", ALLOCATES], ready="READY") as proc:
        data = ask_until_told(proc.pid, stand_in)
        check(data["kernels"]["state"] == "refused" and "PyTorch hands out memory" in data["kernels"]["why"], "allocates", data["kernels"])
        check(not os.path.exists(ran), "it was started")


def test_comes_back():
    """A thread that waits for the device at each stop, and launches in between, for a short time."""
    stand_in = debugger(sample("idle.txt"))
    driver = stand_in_driver()
    with target([compile_c(STEPS, driver, "-DTURNS=250000")], ready="READY", env=dict(os.environ, LD_PRELOAD=driver)) as proc:
        for _ in range(3):
            data, _ = ask(proc.pid, stand_in)
            equal(data["kernels"]["state"], "refused", "state")
            check(f"thread {proc.pid} works, and a debugger" in data["kernels"]["why"], "why", data["kernels"])


def test_another_thread_works():
    """Beside one that waits for the device. NCCL's own threads poll while an operation is underway, which may be one that hangs."""
    stand_in = debugger(sample("idle.txt"))
    driver = stand_in_driver()
    for name, work, pause, refused in (("libworks.so", 1000000, 1000, True), ("libnccl.so.2", 1000000, 1000, False), ("libworks.so", 100, 50000, False)):
        library = os.path.join(scratch(), name)
        shutil.copy(compile_c(WORKS, "-shared", "-fPIC", "-pthread", f"-DWORK={work}", f"-DPAUSE={pause}", f"-Wl,-soname,{name}"), library)
        waits = compile_c(WAITS, library, driver, f"-Wl,-rpath,{os.path.dirname(library)}")
        with target([waits], ready="READY", env=dict(os.environ, LD_PRELOAD=driver)) as proc:
            data, _ = ask(proc.pid, stand_in, expect=PARTIAL if refused else COMPLETE)
            equal(data["kernels"]["state"], "refused" if refused else "none", f"{name}, {work}: {data['kernels']['why']}")
            check(not refused or " works, and a debugger" in data["kernels"]["why"], "why", data["kernels"])


def test_raised():
    with process() as proc:
        text = 'echo "CUDA Exception: Warp Illegal Address"; ' + sample("lines.txt")
        data, _ = ask(proc.pid, debugger(text), expect=COMPLETE)
        equal(data["kernels"]["exceptions"], ["Warp Illegal Address"], "exceptions")
        check({"code": "kernel-exception", "alarm": True, "text": "exception on the GPU: Warp Illegal Address"} in data["headlines"], "headline",
              data["headlines"])


def test_two_kernels():
    with process() as proc:
        data, _ = ask(proc.pid, debugger(sample("two.txt")), expect=COMPLETE)
        equal([(kernel["number"], kernel["grid"]) for kernel in data["kernels"]["kernels"]], [(1, 2), (0, 3)], "kernels")
        check(all(place["offset"] is not None and place["file"] is None for place in data["kernels"]["kernels"][1]["places"]), "places", data["kernels"])


def test_not_asked():
    with process() as proc:
        ran = scratch("ran")
        code, out, _ = vramtap("report", "--json", "-", str(proc.pid), env=dict(os.environ, VRAMTAP_CUDA_GDB=debugger(f": >{ran}")))
        equal((code, json.loads(out)["kernels"], os.path.exists(ran)), (COMPLETE, None, False), "without the option")


def test_options():
    for other in ("--read-only", "--no-stop"):
        code, _, err = vramtap("report", "--kernels", other, str(os.getpid()))
        equal(code, USAGE, f"{other}: {err}")
        check("exclude each other" in err, "message", err)
    for wrong in ("0", "x", "601"):
        equal(vramtap("report", f"--kernels={wrong}", str(os.getpid()))[0], USAGE, wrong)
    equal(vramtap("report", "--kernels", "--core", "/dev/null")[0], USAGE, "core")


def test_no_answer():
    """It fails, in its own words; what is hostile in them is escaped."""
    with process() as proc:
        for text, state, words in (
                (sample("refused.txt"), "failed", "cuda-gdb says: ptrace: Operation not permitted."),
                (sample("crash.txt") + "; kill -ABRT $$", "failed", "died of signal 6"),
                ("exit 3", "failed", "status 3, and said nothing"),
                ("printf 'no \\033[31mway\\n'; exit 1", "failed", "no \x1b[31mway")):
            data, _ = ask(proc.pid, debugger(text))
            equal((data["kernels"]["state"], data["kernels"]["kernels"]), (state, []), text)
            check(words in data["kernels"]["why"], "why", data["kernels"]["why"])
            check("kernels-unknown" in diag_codes(data), "diagnostics", data["diagnostics"])
            runs_on(proc)
        _, out, _ = vramtap("report", "--kernels", str(proc.pid), env=dict(os.environ, VRAMTAP_CUDA_GDB=debugger(text)))
        check("\x1b" not in out and "no \\x1b[31mway" in out, "escaped", out)


def is_there(path):
    """Whether the process with the pid in this file exists, and is no zombie."""
    with open(path, encoding="ascii") as file:
        pid = int(file.read())
    try:
        return proc_state(pid) not in ("Z", "X")
    except (FileNotFoundError, ProcessLookupError):
        return False


@contextlib.contextmanager
def left_alone():
    """The shell word that notes the pid of a stand-in and of what it has started; they are ended at the end."""
    pids = os.path.join(scratch(), "pids")
    try:
        yield f"echo $$ >>{pids}", pids
    finally:
        with contextlib.suppress(FileNotFoundError), open(pids, encoding="ascii") as file:
            for pid in file:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)


def test_hangs():
    """It is left alone, because a debugger that is ended can take the process with it. What it said before counts."""
    with process() as proc, left_alone() as (note, pids):
        hang = f"{note}; exec sleep 1000"
        data, took = ask(proc.pid, debugger(hang), "--kernels=1")
        equal(data["kernels"]["state"], "late", "state")
        check("has not answered after 1.0 s" in data["kernels"]["why"], "why", data["kernels"])
        check(1000 <= data["kernels"]["took_ms"] < 4000 and took < 8, "time", data["kernels"], took)
        with open(pids, encoding="ascii") as file:
            pid = file.read().strip()
        holds = [d["text"] for d in data["diagnostics"] if d["code"] == "debugger-holds"]
        check(holds and f"({pid})" in holds[0] and is_there(pids), "it is named, and goes on", data["diagnostics"])
        runs_on(proc)
        data, _ = ask(proc.pid, debugger(sample("lines.txt") + "\n" + hang), "--kernels=1")
        equal((data["kernels"]["state"], len(data["kernels"]["kernels"])), ("told", 1), "what it said")
        check({"kernels-cut", "debugger-holds"} <= diag_codes(data), "diagnostics", data["diagnostics"])


def test_leaves_a_child():
    """Which has its output, too: that is not waited for."""
    with process() as proc, left_alone() as (_, pids):
        data, took = ask(proc.pid, debugger(f"sleep 1000 & echo $! >{pids}\n" + sample("lines.txt")), expect=COMPLETE)
        check(data["kernels"]["state"] == "told" and took < 8, "it is not waited for", took)


def test_talks():
    with process() as proc:
        data, took = ask(proc.pid, debugger(sample("lines.txt") + "\nhead -c 100000000 /dev/zero | tr '\\0' x"))
        equal((data["kernels"]["state"], len(data["kernels"]["kernels"])), ("told", 1), "what it said first")
        check("kernels-cut" in diag_codes(data) and took < 20, "diagnostics", data["diagnostics"], took)
        with left_alone() as (note, _):
            data, took = ask(proc.pid, debugger(note + "; while :; do echo xxxxxxxxxxxxxxxx; done"), "--kernels=1")
            check(data["kernels"]["state"] == "late" and took < 8, "without end", data["kernels"]["state"], took)


def test_leaves_it_stopped():
    """One that died: the process is continued. Else that is only said."""
    with process() as proc:
        data, _ = ask(proc.pid, debugger("kill -STOP $pid; kill -SEGV $$"))
        check("continued" in diag_codes(data), "said", data["diagnostics"])
        wait_until(lambda: proc_state(proc.pid) in "RS", 5, "it runs")
        data, _ = ask(proc.pid, debugger("kill -STOP $pid; " + sample("idle.txt")))
        check("left-stopped" in diag_codes(data), "said", data["diagnostics"])
        wait_until(lambda: proc_state(proc.pid) == "T", 5, "it is stopped")
        data, _ = ask(proc.pid, debugger(sample("idle.txt")))
        equal(data["kernels"]["state"], "refused", "a stopped process")
        check("stopped by a signal" in data["kernels"]["why"], "why", data["kernels"])
        os.kill(proc.pid, signal.SIGCONT)


TRACER = """
import ctypes, sys, time, os
libc = ctypes.CDLL(None, use_errno=True)
pid = int(sys.argv[1])
PTRACE_SEIZE = 0x4206
if libc.ptrace(PTRACE_SEIZE, pid, None, None):
    sys.exit(os.strerror(ctypes.get_errno()))
print("READY", flush=True)
time.sleep(1000)
"""


def test_traced():
    with process() as proc, target([sys.executable, "-c", TRACER, str(proc.pid)], ready="READY") as tracer:
        data, _ = ask(proc.pid, debugger(sample("lines.txt")))
        equal(data["kernels"]["state"], "refused", "state")
        check(f"{tracer.pid} (" in data["kernels"]["why"], "why", data["kernels"]["why"])


def test_no_debugger():
    with process() as proc:
        for path, words in (("/nonexistent/cuda-gdb", "VRAMTAP_CUDA_GDB: cannot find"), (debugger("", 0o644), "is not a program"),
                            (scratch(), "is not a program"), (debugger("") + ".sh", "is a script, and there is no cuda-gdb-minimal beside it")):
            data, _ = ask(proc.pid, path)
            equal(data["kernels"]["state"], "no-debugger", path)
            check(words in data["kernels"]["why"], "why", data["kernels"]["why"])
            check("no-debugger" in diag_codes(data), "diagnostics", data["diagnostics"])
        for directory in ("/usr/local/cuda/bin", "/opt/cuda/bin", "/opt/cuda"):
            if os.path.exists(os.path.join(directory, "cuda-gdb")):
                return
        data, _ = ask(proc.pid, None, env={"PATH": "/nonexistent:relative::"})
        check("install it" in data["kernels"]["why"], "what to do", data["kernels"])


def test_found_in_path():
    """The one without Python is preferred; a relative directory is none."""
    with process() as proc:
        path = debugger("echo 'the large one'; exit 1")
        directory = os.path.dirname(path)
        data, _ = ask(proc.pid, None, env={"PATH": directory + ":" + os.environ["PATH"]})
        check("the large one" in data["kernels"]["why"], "in PATH", data["kernels"])
        other = debugger(sample("idle.txt"))
        os.rename(other, os.path.join(directory, "cuda-gdb-minimal"))
        os.rename(other + ".sh", os.path.join(directory, "cuda-gdb-minimal.sh"))
        data, _ = ask(proc.pid, None, env={"PATH": directory + ":" + os.environ["PATH"]}, expect=COMPLETE)
        equal((data["kernels"]["state"], os.path.basename(data["kernels"]["debugger"])), ("none", "cuda-gdb-minimal"), "beside it")


def test_root_trusts_only_root():
    if os.geteuid() != 0:
        return
    with process() as proc:
        path = debugger(sample("idle.txt"))
        for change, back in ((lambda: os.chmod(path, 0o777), lambda: os.chmod(path, 0o755)),
                             (lambda: os.chown(path, 65534, -1), lambda: os.chown(path, 0, -1)),
                             (lambda: os.chmod(os.path.dirname(path), 0o777), lambda: os.chmod(os.path.dirname(path), 0o700))):
            change()
            data, _ = ask(proc.pid, path)
            equal(data["kernels"]["state"], "no-debugger", "others can change it")
            check("others than root can change it" in data["kernels"]["why"], "why", data["kernels"])
            back()
        ask(proc.pid, path, expect=COMPLETE)


def test_would_miss():
    """The debugger and the driver in the process meet below TMPDIR, by pid: a process that it would miss hangs on a real device."""
    ran, same = scratch("ran"), scratch()
    stand_in = debugger(f">{ran}; " + sample("idle.txt"))
    with process() as proc:
        data, _ = ask(proc.pid, stand_in, env={"TMPDIR": scratch()})
        equal(data["kernels"]["state"], "refused", "another TMPDIR")
        check("TMPDIR=/" in data["kernels"]["why"] and "different temporary directories" in data["kernels"]["why"], "why", data["kernels"])
        for unshare, words in ((["--mount", "sh", "-c", "mount -t tmpfs tmpfs $TMPDIR && exec \"$0\" \"$@\""], "different temporary"),
                               (["--pid", "--fork", "--kill-child", "--mount-proc"], "another pid namespace")):
            command = ["unshare", "--propagation", "private", *unshare] if "--mount" in unshare else ["unshare", *unshare]
            if subprocess.run([*command, "true"], capture_output=True, check=False, env=dict(os.environ, TMPDIR=same)).returncode:
                print(f"  not tried: {unshare}")
                continue
            with target([*command, sys.executable, "-c", APART], ready="READY", env=dict(os.environ, LD_PRELOAD=stand_in_driver(), TMPDIR=same)) as apart:
                pid = apart.pid if "--pid" not in unshare else child_of(apart.pid)
                data, _ = ask(pid, stand_in, env={"TMPDIR": same})
                check(data["kernels"]["state"] == "refused" and words in data["kernels"]["why"], f"{unshare}", data["kernels"])
    check(not os.path.exists(ran), "it was started")


FORKS = """
#include <stdio.h>
#include <unistd.h>
int main(void)
{
	if (fork() == 0) {
		printf("READY %d\\n", (int)getpid());
		fflush(stdout);
	}
	for (;;)
		pause();
}
"""


def test_driver_is_not_in_use():
    """A forked child's driver has no threads, nor has one that is only loaded: cuda-gdb would wait for it, and hold the process, for good."""
    ran = scratch("ran")
    stand_in = debugger(f">{ran}; " + sample("idle.txt"))
    with target([compile_c(FORKS)], ready="READY", env=dict(os.environ, LD_PRELOAD=stand_in_driver())) as proc:
        child = int(proc.ready_line.split()[1])
        data, _ = ask(child, stand_in)
        check(data["kernels"]["state"] == "refused" and "copied by fork()" in data["kernels"]["why"], "a forked child", data["kernels"])
        os.kill(child, signal.SIGKILL)
        check(not os.path.exists(ran), "it was started")
        equal(ask(proc.pid, stand_in, expect=COMPLETE)[0]["kernels"]["state"], "none", "its parent")
        os.unlink(ran)
    with process(in_use=False) as proc:
        data, _ = ask(proc.pid, stand_in)
        check(data["kernels"]["state"] == "refused" and "not in use" in data["kernels"]["why"], "only loaded", data["kernels"])
        check(not os.path.exists(ran), "it was started")


MADE_HERE = """#loc = loc("%s":%d:0)
#loc1 = loc(unknown)
module {
  tt.func public @%s(%%arg0: !tt.ptr<f32> loc("%s":%d:0)) attributes {noinline = false} {
    tt.return loc(#loc2)
  } loc(#loc)
} loc(#loc)
#loc2 = loc("/elsewhere.py":99:4)
"""


def plant(cache, entry, kernel, file, line, text=MADE_HERE):
    directory = os.path.join(cache, entry)
    os.makedirs(directory, exist_ok=True)
    path = os.path.join(directory, kernel + ".ttir")
    with open(path, "w", encoding="utf-8") as out:
        out.write(text % (file, line, kernel, file, line))
    return path


@contextlib.contextmanager
def with_triton(**env):
    """A process with a library called libtriton.so."""
    library = os.path.join(scratch(), "libtriton.so")
    shutil.copy(compile_c("int triton;", "-shared", "-fPIC"), library)
    unset = {"TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR", "TRITON_HOME"}
    environ = {k: v for k, v in os.environ.items() if k not in unset} | env
    with target([compile_c(PROGRAM)], ready="READY", env=environ | {"LD_PRELOAD": f"{stand_in_driver()}:{library}"}) as proc:
        yield proc


def sources_of(proc, kernel, env=None, sample_name="two.txt"):
    """Of the kernels with that name, which must agree; and the text."""
    stand_in = debugger(f"sed 's/spin_until/{kernel}/' {os.path.join(SAMPLES, sample_name)}")
    data, _ = ask(proc.pid, stand_in, expect=COMPLETE, env=env)
    found = [([(one["file"], one["line"]) for one in k.get("sources", [])], k.get("sources_whole")) for k in data["kernels"]["kernels"]]
    check(all(one == found[0] for one in found), "equal kernels", found)
    _, text, _ = vramtap("report", "--kernels", "--width", "160", str(proc.pid), env=dict(os.environ, VRAMTAP_CUDA_GDB=stand_in) | (env or {}))
    return found[0], " ".join(text.split())


def test_triton():
    """Kernels without line information are found in Triton's caches, wherever the process has them."""
    kernel, top = "triton_poi_fused_add_0", scratch()
    os.chmod(top, 0o755)
    places = {"TRITON_CACHE_DIR": top + "/own", "TORCHINDUCTOR_CACHE_DIR": top + "/inductor", "HOME": top + "/home", "TMPDIR": top}
    caches = {"TRITON_CACHE_DIR": "/own", "TORCHINDUCTOR_CACHE_DIR": "/inductor/triton/0", "HOME": "/home/.triton/cache",
              "TMPDIR": "/torchinductor_a_b/triton/3"}
    for i, (variable, cache) in enumerate(caches.items()):
        plant(top + cache, "HASH", kernel, f"{top}/{variable}.py", 18 + i)
        env = {variable: places[variable], "LOGNAME": "a:b"}
        with with_triton(**env) as proc:
            found, text = sources_of(proc, kernel, env={"TMPDIR": top} if variable == "TMPDIR" else None)
            equal(found, ([(f"{top}/{variable}.py", 18 + i)], True), variable)
            check(f"; by Triton's cache made from {top}/{variable}.py:{18 + i}" in text, "text", text)


def test_triton_is_not_guessed():
    kernel, top = "matmul_kernel", scratch()
    with with_triton(TRITON_CACHE_DIR=top) as proc:
        equal(sources_of(proc, kernel)[0], ([], None), "an empty cache")
        plant(top, "A", kernel, "/a.py", 7)
        plant(top, "B", kernel, "/a.py", 7)  # compiled for other arguments
        equal(sources_of(proc, kernel)[0], ([("/a.py", 7)], True), "one place, compiled twice")
        equal(sources_of(proc, kernel, sample_name="lines.txt")[0], ([], None), "cuda-gdb knows the lines")
        equal(sources_of(proc, "another_kernel")[0], ([], None), "another name")
        plant(top, "C", kernel, "/c.py", 9)
        found, text = sources_of(proc, kernel)
        equal((sorted(found[0]), found[1]), ([("/a.py", 7), ("/c.py", 9)], True), "two of one name")
        check("made from one of /" in text, "text", text)
        for i in range(8):
            plant(top, f"D{i}", kernel, f"/d{i}.py", 9)
        found, text = sources_of(proc, kernel)
        check(len(found[0]) == 4 and found[1] is False, "more than are kept", found)


INDUCTOR = """
import triton
@triton_heuristics.pointwise(
    triton_meta={}
)
@triton.jit
def %s(in_ptr0, out_ptr0, xnumel, XBLOCK : tl.constexpr):
    pass
"""


def test_triton_inductor():
    """Without a place in Triton's cache (TRITON_DISABLE_LINE_INFO): the file that Inductor has written, not the one that calls it."""
    kernel, top = "triton_poi_fused_add_mul_relu_0", scratch()
    plant(top + "/triton/0", "HASH", kernel, "/unknown.py", 1, "#loc = loc(unknown)\n// %s:%d\n" + "".join(MADE_HERE.splitlines(True)[1:]))
    for name, text in (("jj/cjj3.py", INDUCTOR % kernel), ("xw/cxw6.py", f"import torch\nx = async_compile.triton('{kernel}', \'\'\'{INDUCTOR % kernel}\'\'\')\n"),
                       ("ab/cab1.py", INDUCTOR % (kernel + "1")), ("toolong/c.py", INDUCTOR % kernel), ("cd/text.txt", INDUCTOR % kernel)):
        os.makedirs(os.path.dirname(os.path.join(top, name)), exist_ok=True)
        with open(os.path.join(top, name), "w", encoding="utf-8") as file:
            file.write(text)
    with with_triton(TORCHINDUCTOR_CACHE_DIR=top) as proc:
        equal(sources_of(proc, kernel)[0], ([(top + "/jj/cjj3.py", 7)], True), "the file")
        equal(sources_of(proc, "triton_red_fused_sum_0")[0], ([], None), "another kernel")


def test_triton_hostile():
    kernel, top, outside = "f_kernel", scratch(), scratch()
    plant(outside, "E", kernel, "/out.py", 7)
    os.symlink(os.path.join(outside, "E"), os.path.join(top, "LINK"))
    os.symlink("../../../../.." + outside + "/E", os.path.join(top, "UP"))
    os.mkdir(os.path.join(top, "FIFO"))
    os.mkfifo(os.path.join(top, "FIFO", kernel + ".ttir"))
    plant(top, "OTHER", kernel, "/other.py", 7, MADE_HERE.replace("@%s(", "@not_%s("))
    plant(top, "NAME", kernel, "/a\\22.py", 7)
    plant(top, "RELATIVE", kernel, "a.py", 7)
    plant(top, "ZERO", kernel, "/a.py", 0)
    plant(top, "BIG", kernel, "/a.py", 99999999999)
    plant(top, "LONG", kernel, "/" + "x" * 5000, 7)
    with open(os.path.join(top, "FILE"), "w", encoding="ascii"):
        pass
    if os.geteuid() == 0:
        os.chown(plant(top, "OWNER", kernel, "/planted.py", 7), 65534, -1)
    with with_triton(TRITON_CACHE_DIR=top) as proc:
        equal(sources_of(proc, kernel)[0], ([], None), "nothing of that")
        plant(top, "GOOD", kernel, "/\033[31m.py", 7)
        found, text = sources_of(proc, kernel)
        equal(found, ([("/\033[31m.py", 7)], True), "the one that is")
        check("\\x1b[31m.py" in text and "\033" not in text, "escaped", text)
    with with_triton(TRITON_CACHE_DIR=top + "/GOOD/" + kernel + ".ttir") as proc:
        equal(sources_of(proc, kernel)[0], ([], None), "no directory")


def test_triton_large():
    """More than is looked at: what was found may not be all, and it takes no longer."""
    kernel, top = "g_kernel", scratch()
    for i in range(20050):
        os.mkdir(os.path.join(top, f"H{i}"))
    with with_triton(TRITON_CACHE_DIR=top) as proc:
        begin = time.monotonic()
        equal(sources_of(proc, kernel)[0], ([], None), "none")
        check(time.monotonic() - begin < 5, "time", time.monotonic() - begin)
        for i in range(100):
            plant(top, f"H{i * 200}", kernel, "/g.py", 3)
        found, text = sources_of(proc, kernel)
        check(found in (([("/g.py", 3)], False), ([], None)), "some", found)
        check("maybe /g.py:3" in text or not found[0] or "/g.py" not in text, "text", text)


def test_directory_of_its_files():
    """Is made for it, so that nobody else's is there; where others can change that, it is not started."""
    top = scratch()
    os.chmod(top, 0o755)
    base = os.path.join(top, "cuda-dbg")
    text = f"ls -ldn {base}/$$ >{top}/seen; " + sample("idle.txt")
    environ = dict(os.environ, TMPDIR=top)
    with process(environ) as proc:
        ask(proc.pid, debugger(text), expect=COMPLETE, env={"TMPDIR": top})
        with open(os.path.join(top, "seen"), encoding="ascii") as file:
            seen = file.read().split()
        equal((seen[0][:10], int(seen[2])), ("drwxr-x--x", os.geteuid()), "its directory")
        equal(os.stat(base).st_mode & 0o7777, 0o1777, "the one above")
        os.unlink(os.path.join(top, "seen"))
        if os.geteuid() != 0:
            return
        for spoil in (lambda: os.chown(base, 65534, -1), lambda: os.chmod(top, 0o777), lambda: (shutil.rmtree(base), os.symlink(scratch(), base))):
            spoil()
            data, _ = ask(proc.pid, debugger(text), env={"TMPDIR": top})
            check(data["kernels"]["state"] == "failed" and "not started: " in data["kernels"]["why"], "why", data["kernels"])
            check(not os.path.exists(os.path.join(top, "seen")), "it was started")
            os.chmod(top, 0o755)


def test_root_gives_it_no_environment():
    if os.geteuid() != 0:
        return
    with process() as proc:
        out = scratch("environment")
        ask(proc.pid, debugger(f"env >{out}; " + sample("idle.txt")), expect=COMPLETE, env={"PYTHONPATH": "/x", "BASH_ENV": "/x", "LD_LIBRARY_PATH": "/x"})
        with open(out, encoding="utf-8") as file:
            names = {line.partition("=")[0] for line in file.read().splitlines()}
        equal(names - {"PWD", "SHLVL", "_", "OLDPWD", "TMPDIR"}, {"PATH", "HOME", "LC_ALL", "TERM"}, "variables")


def test_killed_meanwhile():
    """vramtap itself is killed, or interrupted: the debugger does its work, and lets go."""
    for signo in (signal.SIGKILL, signal.SIGINT, signal.SIGTERM):
        killed_meanwhile(signo)


def killed_meanwhile(signo):
    with process() as proc:
        begun, done = (os.path.join(scratch(), name) for name in ("begun", "done"))
        env = dict(os.environ, VRAMTAP_CUDA_GDB=debugger(f">{begun}; sleep 1; {sample('lines.txt')} && >{done}"))
        with subprocess.Popen([os.environ["VRAMTAP_BUILD_DIR"] + "/vramtap", "report", "--kernels", str(proc.pid)], stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL, env=env) as tool:
            wait_until(lambda: os.path.exists(begun), 20, "the debugger runs")
            tool.send_signal(signo)
            check(tool.wait(10) in (-signo, 128 + signo), "how it ended", tool.returncode)
        wait_until(lambda: os.path.exists(done), 10, "the debugger comes to its end, output and all")
        runs_on(proc)


if __name__ == "__main__":
    main(globals())
