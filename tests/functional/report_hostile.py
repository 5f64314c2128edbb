#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Targets that are stopped, traced, filtered, foreign or dying: a clear message, no hang, no harm."""
import contextlib
import ctypes
import os
import random
import signal
import subprocess
import time

from harness import (COMPLETE, NOTHING, PARTIAL, QUICK, VRAMTAP, Skip, check, compile_c, equal, main, proc_state,
                     report, report_json, target, thread_count, wait_until)

# A target that answers on its standard output that it still counts right, in whichever C library it is built with.
COUNTER = r"""
#define _GNU_SOURCE
#include <stdio.h>
#include <unistd.h>
#include <fcntl.h>
#include <sys/mman.h>
#ifdef FORBID
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
static void forbid(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, FORBID, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { sizeof(code) / sizeof(code[0]), code };
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
		_exit(9);
}
#endif
int main(int argc, char **argv)
{
	(void)argc;
	/* Mapped as the loader maps it, also in programs that have no loader. */
	if (mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, open(argv[1], O_RDONLY), 0) == MAP_FAILED)
		return 8;
#ifdef FORBID
	forbid();
#endif
	puts("READY");
	fflush(stdout);
	for (;;) {
		char c;
		if (read(0, &c, 1) != 1)
			return 0;
		if (write(1, &c, 1) != 1)
			return 1;
	}
}
"""

# Anything called libcuda.so.1 makes the tool try to get inside; the functions it would ask are not there.
FAKE_LIBCUDA = "int vramtap_test_libcuda;"


def fake_libcuda():
    path = compile_c(FAKE_LIBCUDA, "-shared", "-fPIC")
    library = os.path.join(os.path.dirname(path), "libcuda.so.1")
    os.replace(path, library)
    return library


def counter(*flags, compiler="gcc"):
    return compile_c(COUNTER, *flags, compiler=compiler)


def still_answers(proc):
    for byte in b"xyz":
        proc.stdin.write(bytes([byte]))
        proc.stdin.flush()
        equal(proc.stdout.read(1), bytes([byte]), "the target's answer")


def cuda_counter(*flags, **kwargs):
    """A program that has libcuda.so.1 mapped, so that the tool wants to get inside."""
    return [counter(*flags, **kwargs), fake_libcuda()]


def test_stopped_process_stays_stopped():
    with target(cuda_counter(), ready="READY") as proc:
        os.kill(proc.pid, signal.SIGSTOP)
        wait_until(lambda: proc_state(proc.pid) == "T", 5, "stopped")
        data = report_json(proc.pid, expect=PARTIAL)
        # The kernel lets a released thread run into its stop again; no instruction of the program is executed.
        wait_until(lambda: proc_state(proc.pid) == "T", 2, "stopped after the report")
        check(any("stopped" in d["text"] for d in data["diagnostics"]), "no word about it", data["diagnostics"])
        check(data["threads"][0]["stack"]["frames"], "no stack of a stopped process")
        os.kill(proc.pid, signal.SIGCONT)
        still_answers(proc)


def test_stopped_process_with_allow_resume():
    with target(cuda_counter(), ready="READY") as proc:
        os.kill(proc.pid, signal.SIGSTOP)
        wait_until(lambda: proc_state(proc.pid) == "T", 5, "stopped")
        data = report_json(proc.pid, "--allow-resume", expect=(COMPLETE, PARTIAL))
        wait_until(lambda: proc_state(proc.pid) == "T", 2, "stopped again after the report")
        check(data["timing"]["borrowed_tid"], "it was not injected", data["diagnostics"])
        os.kill(proc.pid, signal.SIGCONT)
        still_answers(proc)


PTRACE_SEIZE, PTRACE_INTERRUPT = 0x4206, 0x4207


def test_traced_by_another():
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    with target(cuda_counter(), ready="READY") as proc:
        tracer = os.fork()
        if tracer == 0:
            libc.ptrace(PTRACE_SEIZE, proc.pid, None, None)
            libc.ptrace(PTRACE_INTERRUPT, proc.pid, None, None)
            time.sleep(60)
            os._exit(0)
        try:
            wait_until(lambda: proc_state(proc.pid) == "t", 5, "traced")
            data = report_json(proc.pid, expect=PARTIAL)
            check(any(str(tracer) in d["text"] for d in data["diagnostics"]), "the tracer is not named", data["diagnostics"])
            equal(proc_state(proc.pid), "t", "state after the report")
        finally:
            os.kill(tracer, signal.SIGKILL)
            os.waitpid(tracer, 0)
        still_answers(proc)


def refused(argv, word, **kwargs):
    with target(argv, ready="READY", **kwargs) as proc:
        threads = thread_count(proc.pid)
        code, out, err = report(proc.pid, "--json", "/dev/null")
        check(code in (COMPLETE, PARTIAL, NOTHING), "exit code", code, err)
        check(word in (out + err).lower(), f"no word about {word}", out, err)
        equal(thread_count(proc.pid), threads, "threads afterwards")
        still_answers(proc)


def test_32_bit():
    refused(cuda_counter("-m32"), "32-bit")


def test_static():
    refused(cuda_counter("-static"), "static")


def test_musl():
    refused(cuda_counter(compiler="musl-gcc"), "musl")


def test_musl_static():
    refused(cuda_counter("-static", compiler="musl-gcc"), "static")


# Filters that kill the process at the very call: had the tool tried, the target would be dead.
def seccomp_target(call):
    return cuda_counter(f"-DFORBID=__NR_{call}")


def test_seccomp_forbids_memfd():
    refused(seccomp_target("memfd_create"), "seccomp")


def test_seccomp_forbids_clone3():
    refused(seccomp_target("clone3"), "seccomp")


def test_seccomp_forbids_mmap():
    refused(seccomp_target("mmap"), "seccomp")


def test_seccomp_that_allows_all_we_need():
    with target(seccomp_target("reboot"), ready="READY") as proc:
        data = report_json(proc.pid, expect=(COMPLETE, PARTIAL))
        if os.getuid() == 0:
            check(data["timing"]["borrowed_tid"], "a harmless filter kept us out", data["diagnostics"])
        still_answers(proc)


@contextlib.contextmanager
def memory_group():
    """A control group for memory, and the file of its limit."""
    for root, limit in (("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")):
        group = f"{root}/vramtap-test-{os.getpid()}"
        with contextlib.suppress(OSError):
            os.mkdir(group)
            if os.path.exists(f"{group}/{limit}"):
                try:
                    yield group, f"{group}/{limit}"
                finally:
                    os.rmdir(group)
                return
            os.rmdir(group)
    raise Skip("no control group for memory")


def test_at_the_limit_of_memory():
    """Nothing is put into a process that may hardly take more memory."""
    with memory_group() as (group, limit):
        def set_limit(size):
            with open(limit, "w", encoding="ascii") as out:
                out.write(str(size))
        set_limit(64 << 20)
        with target(cuda_counter(), ready="READY", preexec_fn=lambda: join(group)) as proc:
            data = report_json(proc.pid, expect=(COMPLETE, PARTIAL))
            check(not any("control group" in d["text"] for d in data["diagnostics"]), "64 MiB are enough", data["diagnostics"])
            set_limit(used_of(group) + (1 << 20))
            threads = thread_count(proc.pid)
            data = report_json(proc.pid, expect=(COMPLETE, PARTIAL))
            check(any("less than 4 MiB left of its control group's memory" in d["text"] for d in data["diagnostics"]), "why not", data["diagnostics"])
            equal(thread_count(proc.pid), threads, "threads afterwards")
            still_answers(proc)


def join(group):
    with open(f"{group}/cgroup.procs", "w", encoding="ascii") as out:
        out.write("0")


def used_of(group):
    for name in ("memory.usage_in_bytes", "memory.current"):
        with contextlib.suppress(FileNotFoundError), open(f"{group}/{name}", encoding="ascii") as file:
            return int(file.read())
    raise AssertionError("no usage")


def test_other_mount_and_pid_namespace():
    if os.getuid() != 0:
        raise Skip("needs root to make namespaces")
    argv = cuda_counter()
    # In its mount namespace the directory of program and library is hidden behind an empty file system.
    hide = f"mount -t tmpfs none {os.path.dirname(os.path.dirname(argv[0]))} 2>/dev/null; "
    shell = f"exec 8<{argv[0]} 9<{argv[1]}; {hide} exec /proc/self/fd/8 /proc/self/fd/9"
    with target(["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", shell],
                ready="READY") as outer:
        with open(f"/proc/{outer.pid}/task/{outer.pid}/children", encoding="ascii") as children:
            inner = int(children.read().split()[0])
        data = report_json(inner, expect=(COMPLETE, PARTIAL))
        functions = [f["function"] for f in data["threads"][0]["stack"]["frames"]]
        check(any(f in ("main", "read", "__libc_read", "__read") for f in functions if f), "frames", functions)
        equal(data["process"]["pid"], inner, "pid as seen from here")
        still_answers(outer)


def test_dies_during_the_report():
    program = cuda_counter()
    rng = random.Random(4711)
    outcomes = {}
    for _ in range(30 if QUICK else 300):
        with target(program, ready="READY") as proc:
            tool = subprocess.Popen([VRAMTAP, "report", "--json", "-", str(proc.pid)], stdin=subprocess.DEVNULL,
                                    stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
            time.sleep(rng.random() * 0.03)
            proc.kill()
            _, err = tool.communicate(timeout=30)
            check(tool.returncode in (COMPLETE, PARTIAL, NOTHING), "exit code", tool.returncode, err)
            outcomes[tool.returncode] = outcomes.get(tool.returncode, 0) + 1
    print("  exit codes:", outcomes)


def test_interrupt_releases_the_target():
    program = cuda_counter()
    rng = random.Random(815)
    with target(program, ready="READY") as proc:
        for _ in range(30 if QUICK else 300):
            tool = subprocess.Popen([VRAMTAP, "report", str(proc.pid)], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                    stderr=subprocess.DEVNULL)
            time.sleep(rng.random() * 0.03)
            tool.send_signal(signal.SIGINT)
            code = tool.wait(timeout=10)
            # Before it listens to the signal it just dies of it.
            check(code in (COMPLETE, PARTIAL, NOTHING, 130, -signal.SIGINT), "exit code", code)
            check(proc_state(proc.pid) in "SR", "state after Ctrl-C", proc_state(proc.pid))
            still_answers(proc)
        wait_until(lambda: thread_count(proc.pid) == 1, 10, "the helper's threads are gone")


def test_two_at_once():
    with target(cuda_counter(), ready="READY") as proc:
        tools = [subprocess.Popen([VRAMTAP, "report", "--json", "-", str(proc.pid)], stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(6)]
        for tool in tools:
            _, err = tool.communicate(timeout=60)
            check(tool.returncode in (COMPLETE, PARTIAL), "one of six at once", tool.returncode, err)
        still_answers(proc)


if __name__ == "__main__":
    main(globals())
