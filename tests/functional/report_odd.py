#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Targets that do odd things just while they are reported: no harm, no hang, no false word."""
import contextlib
import functools
import glob
import json
import os
import select
import signal
import subprocess
import time

import report_torch
from harness import (CACHE, COMPLETE, NOTHING, PARTIAL, QUICK, VRAMTAP, Skip, check, compile_c, equal, main, proc_state, report,
                     report_json, target, thread_count, threads_held, wait_until)
from report_hostile import fake_libcuda

# Every target prints READY, then what it has to say: a line "wrong ..." for what it would not have seen without us. For each
# byte that it reads it answers "n COUNT": what its threads have done so far.
COMMON = r"""
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>

static volatile unsigned long count;

/* No stdio: some of these targets have no malloc() to spare. */
static void say(const char *text)
{
	if (write(1, text, strlen(text)) < 0)
		_exit(1);
}

static void wrong(const char *what, long got, long want)
{
	char line[128];

	snprintf(line, sizeof(line), "wrong %s: %ld, not %ld\n", what, got, want);
	say(line);
}

static void start(void *(*run)(void *), void *arg)
{
	pthread_attr_t attr;
	pthread_t thread;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 65536);
	if (pthread_create(&thread, &attr, run, arg))
		wrong("pthread_create", 0, 1);
}

static void *sleeper(void *arg)
{
	for (;;)
		pause();
	return arg;
}

static int answer(void)
{
	char byte, line[64];

	for (;;) {
		ssize_t n = read(0, &byte, 1);

		if (n == 0)
			return 0;
		if (n != 1)
			wrong("read", n, 1);
		snprintf(line, sizeof(line), "n %lu\n", count);
		say(line);
	}
}
"""


@functools.lru_cache(maxsize=None)
def library():
    return fake_libcuda()


class Odd:
    """A target that prints lines; collects them."""

    def __init__(self, text, *args, flags=()):
        self.context = target([compile_c(COMMON + text, "-pthread", *flags), *args], ready="READY", bufsize=0,
                              env=dict(os.environ, LD_PRELOAD=library()))

    def __enter__(self):
        self.proc = self.context.__enter__()
        self.pid = self.proc.pid
        self.output = b""
        return self

    def __exit__(self, *exc):
        return self.context.__exit__(*exc)

    def collect(self, seconds=0):
        """Takes what has been printed; the whole output so far."""
        while select.select([self.proc.stdout], [], [], seconds)[0]:
            more = os.read(self.proc.stdout.fileno(), 65536)
            if not more:
                break
            self.output += more
            seconds = 0  # it may print more often than that, without end
        return self.output

    def expect(self, word, seconds, text):
        wait_until(lambda: word in self.collect(0.01), seconds, f"{text}, it said {self.output[-300:]!r}")

    def answers(self):
        seen = self.collect().count(b"n ")
        self.proc.stdin.write(b"x")
        wait_until(lambda: self.collect(0.01).count(b"n ") > seen, 10, "the target answers")
        return int(self.output.rpartition(b"n ")[2])

    def unharmed(self):
        check(self.proc.poll() is None, "the target ended", self.proc.poll())
        check(b"wrong" not in self.collect(), "the target saw", self.output[:400])

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.pid}/fd"))


# Threads that must not be borrowed

# setgid() holds a lock that pthread_create() needs, while it waits for every thread to follow it. This one comes late.
SETTER = r"""
static volatile int ready;

static void *late(void *arg)
{
	unsigned long all = ~0ul, none = 0;
	struct timespec begin, now;

	syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, NULL, 8);
	ready = 1;
	clock_gettime(CLOCK_MONOTONIC, &begin);
	do
		clock_gettime(CLOCK_MONOTONIC, &now);
	while (now.tv_sec - begin.tv_sec < 3);
	syscall(SYS_rt_sigprocmask, SIG_SETMASK, &none, NULL, 8);
	return arg;
}

int main(void)
{
	start(late, NULL);
	while (!ready)
		sched_yield();
	say("READY\n");
	if (setgid(getgid()))
		wrong("setgid", errno, 0);
	say("done\n");
	return answer();
}
"""


def test_thread_that_waits_in_setgid():
    with Odd(SETTER) as odd:
        wait_until(lambda: proc_state(odd.pid) == "S", 2, "the main thread waits")
        report(odd.pid, "--timeout", "1", expect=(COMPLETE, PARTIAL))
        odd.expect(b"done", 15, "setgid() comes back")
        odd.answers()
        odd.unharmed()


# A program with an allocator of its own, which sleeps while it holds its lock.
ALLOCATOR = r"""
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char heap[64 << 20];
static size_t used;
static volatile int slow;
static void *volatile sink;

void *malloc(size_t size)
{
	void *block;

	pthread_mutex_lock(&lock);
	if (slow)
		usleep(20000);
	block = heap + used;
	used += (size + 31) & ~15ul;
	if (used > sizeof(heap) - (1 << 20))
		used = 0;
	pthread_mutex_unlock(&lock);
	return block;
}

void *calloc(size_t n, size_t size)
{
	return memset(malloc(n * size), 0, n * size);
}

void *realloc(void *old, size_t size)
{
	void *block = malloc(size);

	return old ? memcpy(block, old, size) : block;
}

void free(void *block)
{
	(void)block;
}

int main(void)
{
	say("READY\n");
	slow = 1;
	for (;;) {
		sink = malloc(100);
		say(".");
	}
}
"""


def test_program_with_its_own_allocator():
    with Odd(ALLOCATOR) as odd:
        for _ in range(3):
            report(odd.pid, "--timeout", "1", expect=(COMPLETE, PARTIAL))
            seen = len(odd.collect())
            wait_until(lambda seen=seen: len(odd.collect(0.01)) > seen, 10, "the target allocates on")


# A coroutine whose stack is a piece of a larger mapping, with little left below.
COROUTINE = r"""
static ucontext_t here, there;
static unsigned char *area;

static void run(void)
{
	volatile char much[7900];
	char byte;
	long changed = 0;

	much[0] = 0;
	(void)much;
	say("READY\n");
	if (read(0, &byte, 1) != 1)
		_exit(0);
	for (int i = 0; i < 65536; i++)
		changed += area[i] != 0x5a;
	/* What is below may be used from here on. */
	swapcontext(&there, &here);
	_exit((int)changed);
}

int main(void)
{
	area = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memset(area, 0x5a, 65536);
	getcontext(&there);
	there.uc_stack.ss_sp = area + 65536;
	there.uc_stack.ss_size = 8192;
	makecontext(&there, run, 0);
	swapcontext(&here, &there);

	long changed = 0;

	for (int i = 0; i < 65536 - 256; i++)
		changed += area[i] != 0x5a;
	if (changed)
		wrong("bytes below the coroutine's stack changed", changed, 0);
	say("done\n");
	return answer();
}
"""


def test_coroutine_with_little_stack():
    with Odd(COROUTINE, flags=["-Wl,-z,now"]) as odd:
        report(odd.pid, "--timeout", "1", expect=(COMPLETE, PARTIAL))
        odd.proc.stdin.write(b"x")
        odd.expect(b"done", 5, "the coroutine ends")
        odd.unharmed()


# Files and children

FORKS = r"""
static int ours(void)
{
	char path[64], name[256];
	int n = 0;

	for (int fd = 0; fd < 64; fd++) {
		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);

		ssize_t len = readlink(path, name, sizeof(name) - 1);

		name[len < 0 ? 0 : len] = 0;
		n += strstr(name, "vramtap-helper") != NULL;
	}
	return n;
}

static void *forks(void *arg)
{
	for (;;) {
		pid_t child = fork();
		int status;

		if (!child)
			_exit(ours());
		if (waitpid(child, &status, 0) != child || status)
			wrong("a child's status (descriptors of ours << 8)", status, 0);
		count++;
	}
	return arg;
}

int main(void)
{
	for (int i = 0; i < 3; i++)
		start(forks, NULL);
	say("READY\n");
	return answer();
}
"""


def test_children_inherit_nothing():
    with Odd(FORKS) as odd:
        for _ in range(30):
            report(odd.pid, expect=(COMPLETE, PARTIAL))
        check(odd.answers() > 0, "no forks")
        odd.unharmed()


# Closes everything, as daemons do, and opens its own files, again and again.
CLOSER = r"""
static void *closer(void *arg)
{
	struct stat null, now;
	int fds[4];

	stat("/dev/null", &null);
	for (;;) {
		close_range(3, ~0u, 0);
		for (int i = 0; i < 4; i++)
			fds[i] = open("/dev/null", O_RDWR);
		for (int k = 0; k < 20; k++) {
			sched_yield();
			for (int i = 0; i < 4; i++)
				if (fstat(fds[i], &now) || now.st_rdev != null.st_rdev)
					wrong("a file of mine is closed or another", fds[i], 0);
		}
		count++;
	}
	return arg;
}

int main(void)
{
	start(closer, NULL);
	say("READY\n");
	return answer();
}
"""


def test_target_that_closes_all_descriptors():
    with Odd(CLOSER) as odd:
        for _ in range(40):
            report(odd.pid, "--timeout", "1", expect=(COMPLETE, PARTIAL))
        odd.answers()
        odd.unharmed()
        wait_until(lambda: thread_count(odd.pid) == 2, 12, "the helper's threads are gone")


# Becomes itself anew all the time, with threads that the kernel has to end first.
EXECS = r"""
int main(int argc, char **argv)
{
	char *again[] = { argv[0], "again", NULL };

	say(argc == 1 ? "READY\n" : ".");
	for (int i = 0; i < 40; i++)
		start(sleeper, NULL);
	usleep(2000);
	execv("/proc/self/exe", again);
	return 9;
}
"""


def test_exec_during_the_report():
    with Odd(EXECS) as odd:
        for i in range(25 if QUICK else 100):
            tool = subprocess.Popen([VRAMTAP, "report", "--json", "/dev/null", "--timeout", "1", str(odd.pid)],
                                    stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
            try:
                _, err = tool.communicate(timeout=10)
            except subprocess.TimeoutExpired:
                tool.kill()
                tool.communicate()
                raise AssertionError(f"report {i} hangs, with it the target's execve()") from None
            check(tool.returncode in (COMPLETE, PARTIAL, NOTHING), "exit code", tool.returncode, err)
        seen = len(odd.collect())
        wait_until(lambda: len(odd.collect(0.01)) > seen, 10, "the target goes on")
        odd.unharmed()


# Threads

LEADERLESS = r"""
static void *waits(void *arg)
{
	usleep(100000);
	say("READY\n");
	return sleeper(arg);
}

int main(void)
{
	start(waits, NULL);
	start(sleeper, NULL);
	pthread_exit(NULL);
}
"""


def test_main_thread_has_ended():
    with Odd(LEADERLESS) as odd:
        _, out, err = report(odd.pid, expect=(COMPLETE, PARTIAL, NOTHING))
        check("it has ended" not in out + err, "two threads of it live", err)
        equal(len(os.listdir(f"/proc/{odd.pid}/task")), 3, "threads")


MANY = r"""
int main(int argc, char **argv)
{
	for (int i = 0; argc > 1 && i < atoi(argv[1]); i++)
		start(sleeper, NULL);
	say("READY\n");
	return answer();
}
"""


def test_two_thousand_threads():
    with Odd(MANY, "2000") as odd:
        data = report_json(odd.pid, expect=(COMPLETE, PARTIAL))
        equal(len(data["threads"]), 2001, "threads in the report")
        equal(thread_count(odd.pid), 2001, "threads afterwards")
        odd.answers()
        odd.unharmed()


STORM = r"""
static void *nothing(void *arg)
{
	return arg;
}

static void *storm(void *arg)
{
	for (;;) {
		pthread_t threads[8];

		for (int i = 0; i < 8; i++)
			if (pthread_create(&threads[i], NULL, nothing, NULL))
				wrong("pthread_create", 0, 1);
		for (int i = 0; i < 8; i++)
			pthread_join(threads[i], NULL);
		count++;
	}
	return arg;
}

int main(void)
{
	for (int i = 0; i < 4; i++)
		start(storm, NULL);
	say("READY\n");
	return answer();
}
"""


def test_threads_come_and_go():
    with Odd(STORM) as odd:
        for _ in range(15):
            report(odd.pid, "--timeout", "1", expect=(COMPLETE, PARTIAL))
        before = odd.answers()
        wait_until(lambda: odd.answers() > before, 10, "threads come and go on")
        odd.unharmed()


BUSY = r"""
static void *spin(void *arg)
{
	for (;;)
		count++;
	return arg;
}

int main(void)
{
	start(spin, NULL);
	say("READY\n");
	spin(NULL);
}
"""


def test_no_thread_to_borrow():
    with Odd(BUSY) as odd:
        begin = time.monotonic()
        data = report_json(odd.pid, "--timeout", "1", expect=PARTIAL)
        spent = time.monotonic() - begin
        check(0.9 < spent < 20, "time with --timeout 1", spent)
        check(any("no thread" in d["text"] for d in data["diagnostics"]), "no reason", data["diagnostics"])
        check(all(t["stack"]["frames"] for t in data["threads"]), "no stacks")
        equal(proc_state(odd.pid), "R", "state")


# Limits that are already reached.
LIMITS = r"""
int main(int argc, char **argv)
{
	struct rlimit limit = { 0, 0 };
	int which = atoi(argv[1]);

	start(sleeper, NULL);
	usleep(10000);
	limit.rlim_cur = limit.rlim_max = strtoul(argv[2], NULL, 0);
	if (setrlimit(which, &limit))
		wrong("setrlimit", errno, 0);
	if (which == RLIMIT_NPROC && (setgid(65534) || setuid(65534)))
		wrong("setuid", errno, 0);
	(void)argc;
	say("READY\n");
	return answer();
}
"""
RLIMIT_FSIZE, RLIMIT_STACK, RLIMIT_NPROC, RLIMIT_NOFILE, RLIMIT_MEMLOCK, RLIMIT_AS = 1, 3, 6, 7, 8, 9


def within_limit(which, value, codes=(COMPLETE, PARTIAL), word=""):
    with Odd(LIMITS, str(which), str(value)) as odd:
        before = thread_count(odd.pid), odd.descriptors()
        for _ in range(2):
            _, out, err = report(odd.pid, "--timeout", "1", expect=codes)
            check(word in " ".join(out.split()), f"no word about {word!r}", out, err)
        wait_until(lambda: (thread_count(odd.pid), odd.descriptors()) == before, 12, "threads and descriptors as before")
        odd.answers()
        odd.unharmed()


def test_no_address_space():
    within_limit(RLIMIT_AS, 0x280000, PARTIAL, "Cannot allocate memory")


def test_no_descriptors():
    within_limit(RLIMIT_NOFILE, 3)  # the thread with the memory file has a table of its own
    within_limit(RLIMIT_NOFILE, 0, PARTIAL, "Too many open files")


def test_no_more_threads():
    if os.getuid() == 0:
        within_limit(RLIMIT_NPROC, 0, PARTIAL, "Resource temporarily unavailable")


def test_other_limits():
    for which in (RLIMIT_FSIZE, RLIMIT_MEMLOCK):
        within_limit(which, 0)
    within_limit(RLIMIT_STACK, 65536)


def test_limits_of_the_tool():
    with open(VRAMTAP, "rb") as file:
        if b"__asan_init" in file.read():
            raise Skip("the shadow memory of AddressSanitizer needs more than these limits")
    with Odd(MANY) as odd:
        for limit in ("ulimit -f 0", "ulimit -s 64", "ulimit -n 5", "ulimit -v 60000"):
            done = subprocess.run(["sh", "-c", f"{limit}; exec {VRAMTAP} report --timeout 1 {odd.pid}"], check=False,
                                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=30)
            check(done.returncode in (COMPLETE, PARTIAL, NOTHING), f"exit code with {limit}:", done.returncode, done.stdout)
            odd.answers()
        odd.unharmed()


# A hostile party

# Closes, or replaces by another file, the memory file as soon as it sees it; or writes nonsense into what is shared, past the
# request (its own words, which the helper believes, would only hurt the target itself).
SABOTEUR = r"""
static void sabotage_files(int replace)
{
	char path[64], name[256];

	for (int fd = 3; fd < 32; fd++) {
		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);

		ssize_t len = readlink(path, name, sizeof(name) - 1);

		name[len < 0 ? 0 : len] = 0;
		if (!strstr(name, "vramtap"))
			continue;
		count++;
		if (replace) {
			int other = open("/etc/passwd", O_RDONLY);

			dup2(other, fd);
			if (other != fd)
				close(other);
		} else if (!ftruncate(fd, 0)) {
			close(fd);
		}
	}
}

static unsigned int seed;

static void sabotage_memory(size_t from)
{
	/* Not by plain stores: it may be unmapped by now. */
	int memory = open("/proc/self/mem", O_RDWR);
	FILE *maps = fopen("/proc/self/maps", "r");
	static char nonsense[0x8000];
	unsigned long start, end;
	char line[512];

	for (size_t i = 0; i < sizeof(nonsense); i++)
		nonsense[i] = (char)(i / 8 % 3 == 0 ? 0xff : i / 8 % 3 == 1 ? rand_r(&seed) : 0x41);
	while (maps && fgets(line, sizeof(line), maps))
		if (strstr(line, "vramtap-helper") && strstr(line, "rw-s") && sscanf(line, "%lx-%lx", &start, &end) == 2)
			for (int i = 0; i < 20; i++)
				if (pwrite(memory, nonsense, sizeof(nonsense) - from, (off_t)(start + from)) > 0)
					count++;
	close(memory);
	if (maps)
		fclose(maps);
}

static void *saboteur(void *arg)
{
	const char *how = arg;

	for (;;) {
		if (how[0] == 'm')
			sabotage_memory((size_t)atol(how + 1));
		else
			sabotage_files(how[0] == 'r');
	}
	return arg;
}

int main(int argc, char **argv)
{
	(void)argc;
	start(saboteur, argv[1]);
	say("READY\n");
	return answer();
}
"""


def sabotaged(how):
    with Odd(SABOTEUR, how) as odd:
        for _ in range(10):
            code, out, err = report(odd.pid, "--json", "-", "--timeout", "1", timeout=20)
            check(code in (COMPLETE, PARTIAL), "exit code", code, err)
            json.loads(out)
        # The memory file is never among its descriptors, so there is none to close or to replace.
        equal(odd.answers() > 0, how[0] == "m", "it got hold of something")
        odd.unharmed()


def test_memory_file_is_closed():
    sabotaged("close")


def test_memory_file_is_replaced():
    sabotaged("replace")


def test_answers_are_overwritten():
    sabotaged("m448")  # struct vt_helper_shared.cuda


# Words of the target

NAMES = r"""
int main(void)
{
	prctl(PR_SET_NAME, "\33[31m\n\377x");
	say("READY\n");
	return answer();
}
"""


def test_escape_sequences_and_long_arguments():
    args = [b"\x1b]0;title\x07", b"\xff\xfe", b"a\nb", b"\xc2\x9b31m", b"x" * 100000]
    with Odd(NAMES, *args) as odd:
        for options in ((), ("--ascii",), ("--width", "40"), ("--threads", "all", "--width", "500")):
            _, out, err = report(odd.pid, *options, expect=COMPLETE)
            control = [c for c in out + err if c != "\n" and (ord(c) < 32 or 0x7f <= ord(c) < 0xa0)]
            equal(control, [], f"control characters with {options}")
            width = int(options[-1]) if "--width" in options else 100
            check(max(len(line) for line in out.splitlines()) <= width, "too wide", options)
        report_json(odd.pid)


def test_output_that_cannot_be_written():
    with Odd(MANY) as odd:
        for redirect in (">/dev/full", ">&-", "--json - >/dev/full", ">&- 2>&- <&-"):
            done = subprocess.run(["sh", "-c", f"exec {VRAMTAP} report {odd.pid} {redirect}"], check=False, timeout=30,
                                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            equal(done.returncode, NOTHING, f"exit code with {redirect}")
        odd.answers()
        odd.unharmed()


def test_stopped_and_continued_meanwhile():
    with Odd(MANY, "3") as odd, contextlib.ExitStack() as stack:
        shell = subprocess.Popen(["sh", "-c", f"while :; do kill -STOP {odd.pid}; sleep 0.003; kill -CONT {odd.pid}; "
                                  "sleep 0.007; done"], stderr=subprocess.DEVNULL)
        stack.callback(shell.wait)
        stack.callback(shell.kill)
        for i in range(30):
            report(odd.pid, "--timeout", "1", *(["--allow-resume"] if i % 2 else []), expect=(COMPLETE, PARTIAL))
        stack.close()
        os.kill(odd.pid, signal.SIGCONT)
        time.sleep(0.2)
        check(proc_state(odd.pid) in "SR", "state", proc_state(odd.pid))
        odd.answers()
        odd.unharmed()


FORKED = """
import os, sys, time, torch
blocks = [torch.empty(1 << 20, dtype=torch.uint8, device='cuda') for _ in range(64)]
pid = os.fork()
if pid == 0:
    time.sleep(1000)
print('READY', pid)
sys.stdout.flush()
os.waitpid(pid, 0)
"""


def test_child_that_inherited_the_allocator():
    """A data loader's worker: the parent's book-keeping was copied by fork(), but the memory is the parent's alone."""
    version = report_torch.versions()[0]
    if not os.path.exists(os.path.join(CACHE, "torch", version, "c10_driver")):
        raise Skip(f"PyTorch {version} is not set up: sh tests/setup/torch.sh {version}")
    with target(["sh", report_torch.RUN_SIM, version, "--", "python", "-c", FORKED], ready="READY") as proc:
        child = int(proc.ready_line.split()[1])
        try:
            for options in ([], ["--read-only"]):
                data = report_json(child, *options, expect=(COMPLETE, PARTIAL))
                equal(data["pytorch"]["state"], "inherited", f"the allocator with {options}")
                equal(data["pytorch"]["allocators"], [], "allocators of a process that holds nothing")
                check("inherited" in {d["code"] for d in data["diagnostics"]}, "no diagnostic says why", data["diagnostics"])
            data = report_json(proc.pid, expect=(COMPLETE, PARTIAL))
            equal(data["pytorch"]["state"], "native", "the parent's allocator")
        finally:
            os.kill(child, signal.SIGKILL)


def test_suspended_tool_holds_nothing():
    """Ctrl-Z, or output to a terminal that belongs to another job."""
    with Odd(MANY, "800") as odd:
        for i in range(25):
            tool = subprocess.Popen([VRAMTAP, "report", str(odd.pid)], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                    stderr=subprocess.DEVNULL)
            try:
                time.sleep(0.005 * i)
                tool.send_signal(signal.SIGTSTP)
                wait_until(lambda tool=tool: tool.poll() is not None or proc_state(tool.pid) in "TZ", 10, "suspended or ended")
                check(threads_held(odd.pid) == 0, "threads of the target stand still while the tool is suspended",
                      threads_held(odd.pid))
            finally:
                tool.send_signal(signal.SIGCONT)
                tool.wait(timeout=10)
        odd.answers()
        odd.unharmed()


def test_python_that_is_not_known():
    """Without its Python frames a report is not complete."""
    pythons = [path for version in ("2.7", "3.6") for path in
               glob.glob(os.path.expanduser(f"~/.pyenv/versions/{version}*/bin/python{version}"))]
    if not pythons:
        raise Skip("no CPython 2.7 or 3.6")
    program = "import sys, time; sys.stdout.write('READY\\n'); sys.stdout.flush(); time.sleep(1000)"
    for python in pythons:
        with target([python, "-c", program], ready="READY") as proc:
            _, out, _ = report(proc.pid, expect=PARTIAL)
            check("Python frames" in out, "no word about Python frames", out[-300:])


if __name__ == "__main__":
    main(globals())
