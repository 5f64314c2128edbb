#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What vramtap stacks says that threads wait for, held against the target's own words and against /proc."""
import os
import sys
import time

from harness import COMPLETE, NOTHING, PARTIAL, Skip, check, compile_c, diag_codes, equal, main, stacks, stacks_json, target, vramtap, wait_until

# Each thread prints its number, the name of what it does, and the words that are true of it; then it waits.
WAITERS = """
import ctypes, os, select, signal, socket, subprocess, sys, tempfile, threading, time
libc = ctypes.CDLL(None, use_errno=True)
def tell(words, *values):
    os.write(1, f"{threading.get_native_id()} {sys._getframe(1).f_code.co_name} {words.format(*values)}\\n".encode())
listener = socket.create_server(("127.0.0.1", 0))
client = socket.create_connection(listener.getsockname())
server, _ = listener.accept()
listener6 = socket.create_server(("::1", 0), family=socket.AF_INET6)
directory = tempfile.mkdtemp(prefix="vramtap-test-")
local = socket.socket(socket.AF_UNIX)
local.bind(directory + "/a socket")
local.listen()
# Of fixed size: the buffers of others grow, and make room.
listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
closed, other_side = socket.create_connection(listener.getsockname()), listener.accept()[0]
closed.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
other_side.shutdown(socket.SHUT_WR)
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
udp.bind(("127.0.0.1", 0))
pipe = os.pipe()
odd = os.open(directory + "/odd\\nname", os.O_CREAT | os.O_RDWR)
locked = os.open(directory + "/odd\\nname", os.O_RDWR)
mutex = ctypes.create_string_buffer(64)
child = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
def address(pair):
    return "%s:%d" % pair[:2]
def tcp():
    tell("waits in recvfrom on descriptor {}, a TCP connection from {} to {}", client.fileno(), address(client.getsockname()),
         address(client.getpeername()))
    client.recv(1)
def tcp6():
    tell("waits in accept4 on descriptor {}, a TCP socket that listens on [::1]:{}", listener6.fileno(), listener6.getsockname()[1])
    listener6.accept()
mapped_listener = socket.create_server(("", 0), family=socket.AF_INET6, dualstack_ipv6=True)
mapped_client = socket.create_connection(("127.0.0.1", mapped_listener.getsockname()[1]))
mapped, _ = mapped_listener.accept()
def mapped_tcp():
    tell("waits in recvfrom on descriptor {}, a TCP connection from {} to {}", mapped.fileno(), address(mapped_client.getpeername()),
         address(mapped_client.getsockname()))
    mapped.recv(1)
def half_closed():
    # A stop in the middle of a send() that has sent something ends it: so it is one byte, when there is no room.
    closed.setblocking(False)
    for size in (65536, 1) * 10:
        try:
            while True:
                closed.send(bytes(size))
        except BlockingIOError:
            time.sleep(0.02)
    closed.setblocking(True)
    tell("waits in sendto on descriptor {}, a TCP connection from {} to {}, which the other side has closed", closed.fileno(),
         address(closed.getsockname()), address(closed.getpeername()))
    closed.send(b"x")
def unix():
    tell("waits in accept4 on descriptor {}, the Unix socket {}/a socket", local.fileno(), directory)
    local.accept()
def datagram():
    tell("waits in recvfrom on descriptor {}, a UDP socket at {}", udp.fileno(), address(udp.getsockname()))
    udp.recv(1)
def reads():
    tell("waits in read on descriptor {}, a pipe", pipe[0])
    os.read(pipe[0], 1)
def polls():
    poll = select.poll()
    for fd in (pipe[0], udp.fileno()):
        poll.register(fd, select.POLLIN)
    tell("waits in poll on 2 descriptors (a pipe, a socket), for at most 10 min")
    poll.poll(600000)
def sleeps():
    tell("in clock_nanosleep for 33 min")
    libc.usleep(2000 * 1000000)
def locks_file():
    import fcntl
    fcntl.flock(odd, fcntl.LOCK_EX)
    tell("waits in flock on descriptor {}, {}/odd\\\\nname", locked, directory)
    fcntl.flock(locked, fcntl.LOCK_EX)
def waits_for_child():
    tell("waits for the end of child process {}", child.pid)
    os.waitpid(child.pid, 0)
def waits_for_signal():
    tell("waits for a signal")
    signal.sigwait([signal.SIGUSR1])
holder = threading.get_native_id()
libc.pthread_mutex_lock(mutex)
def waits_for_mutex():
    tell("waits for a lock held by {} (", holder)
    libc.pthread_mutex_lock(mutex)
for function in (tcp, tcp6, mapped_tcp, half_closed, unix, datagram, reads, polls, sleeps, locks_file, waits_for_child, waits_for_signal,
                 waits_for_mutex):
    threading.Thread(target=function, daemon=True).start()
time.sleep(0.8)
os.write(1, b"ready\\n")
sys.stdin.read()
import shutil
shutil.rmtree(directory)
"""


def read(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def told(proc):
    """Thread numbers to (what it does, what it waits for), until the target is ready."""
    words = {}
    for raw in proc.stdout:
        line = raw.decode().rstrip("\n")
        if line == "ready":
            return words
        tid, name, text = line.split(" ", 2)
        words[int(tid)] = name, text
    raise AssertionError("the target ended")


def read_stacks(pid, option):
    """Without a stop, libffi's frames cannot be unwound: the kernel shows no rbp. Then the report is partial, and says that."""
    if option != "--no-stop":
        return stacks_json(pid, option)
    data = stacks_json(pid, option, expect=(COMPLETE, PARTIAL))
    check(data["completeness"] == "complete" or diag_codes(data) == {"cut-stacks"}, "what is missing", data["diagnostics"])
    return data


def system_calls(pid, tids):
    return [read(f"/proc/{pid}/task/{tid}/syscall").split()[0] for tid in tids]


def settle(pid, tids):
    wait_until(lambda: not {"running", "-1"} & set(system_calls(pid, tids)), 20, "all threads wait")


def test_waits():
    with target([sys.executable, "-c", WAITERS]) as proc:
        words = told(proc)
        settle(proc.pid, [proc.pid, *words])
        for option in ("--merged", "--no-stop"):
            data = read_stacks(proc.pid, option)
            by_tid = {t["tid"]: t for t in data["threads"]}
            for tid, (name, text) in words.items():
                waits = by_tid[tid]["waits"].replace("\n", "\\n")
                check(waits.startswith(text), f"{option}: {name} waits", waits, "and not", text)
            mutex = next(t for t, (name, _) in words.items() if name == "waits_for_mutex")
            equal(by_tid[mutex]["waits_for_tid"], proc.pid, "the owner of the lock")
            for tid, thread in by_tid.items():
                number, *arguments = read(f"/proc/{proc.pid}/task/{tid}/syscall").split()
                if number != "219":  # restart_syscall: a stop interrupted what it was
                    equal(thread["waits_address"], arguments[0] if number == "202" else None, f"{option}: the futex of {tid}")
        text = stacks(proc.pid, "--width=400")
        check(r"odd\nname" in text or "odd" in text, "the file that is locked", text)
        check("\nname" not in text, "a newline of the target in the text", text)
        proc.stdin.close()
        proc.wait()


def test_kernel():
    """Wait channel and stack in the kernel are those that /proc shows."""
    with target([sys.executable, "-c", WAITERS]) as proc:
        words = told(proc)
        settle(proc.pid, [proc.pid, *words])
        # In this order: a call that was interrupted is restarted by way of other functions of the kernel.
        for option in ("--no-stop", "--merged"):
            for thread in read_stacks(proc.pid, option)["threads"]:
                task = f"/proc/{proc.pid}/task/{thread['tid']}"
                if option == "--no-stop":
                    equal(thread["wchan"] or "0", read(f"{task}/wchan"), "wait channel")
                try:
                    stack = [line.split("] ", 1)[1] for line in read(f"{task}/stack").splitlines()]
                except PermissionError:
                    raise Skip("only root may read stacks in the kernel") from None
                got = thread["kernel_stack"]
                if option == "--no-stop":
                    equal(got, stack, "stack in the kernel")
                else:
                    equal(got[-1].split("+")[0], stack[-1].split("+")[0], "outermost function in the kernel")
        text = stacks(proc.pid, "--threads=main")
        check("in the kernel: " in text, "the text has no stack in the kernel", text)
        proc.stdin.close()
        proc.wait()


# The thread that has the GIL prints so itself: it is in a C function that keeps it.
GIL = """
import ctypes, threading, time
keeps = ctypes.PyDLL(None)
def holds():
    print("holder", threading.get_native_id(), flush=True)
    keeps.usleep(2000 * 1000000)
def wants():
    while True:
        pass
for i in range(3):
    threading.Thread(target=wants, daemon=True).start()
time.sleep(0.1)
threading.Thread(target=holds, daemon=True).start()
while True:
    pass
"""


def test_gil():
    with target([sys.executable, "-c", GIL], ready="holder") as proc:
        holder = int(proc.ready_line.split()[1])
        for option in ("--merged", "--no-stop"):
            # The others wake up every 5 ms to ask for it: one that did so just now was not in take_gil.
            def all_wait():
                data = stacks_json(proc.pid, option, expect=(0, 1))
                threads = {t["tid"]: t for t in data["threads"]}
                holds = [t for t in threads if threads[t]["holds_gil"]]
                if holds != [holder]:
                    return False
                waiting = [t for t in threads.values() if (t["verdict"] or "").startswith("waits for the GIL")]
                for thread in waiting:
                    check(thread["verdict"].startswith(f"waits for the GIL held by {holder} ("), "verdict", thread["verdict"])
                    equal(thread["waits_for_tid"], holder, "the thread that is waited for")
                check(any(h["code"] == "gil-held" and str(holder) in h["text"] for h in data["headlines"]), "headlines",
                      data["headlines"])
                # Without stopping them some are always just awake.
                return len(waiting) == len(threads) - 1 or (option == "--no-stop" and waiting)
            wait_until(all_wait, 60, f"all threads wait for the GIL ({option})")


# Three deadlocks: two mutexes, a mutex and the GIL, and a mutex alone.
DEADLOCKS = """
import ctypes, os, threading, time
libc, keeps = ctypes.CDLL(None), ctypes.PyDLL(None)
a, b, c, d = (ctypes.create_string_buffer(64) for i in range(4))
barrier = threading.Barrier(2)
def tell(name):
    os.write(1, f"{name} {threading.get_native_id()}\\n".encode())
def one():
    tell("one")
    libc.pthread_mutex_lock(a)
    barrier.wait()
    libc.pthread_mutex_lock(b)
def other():
    tell("other")
    libc.pthread_mutex_lock(b)
    barrier.wait()
    libc.pthread_mutex_lock(a)
def itself():
    tell("itself")
    libc.pthread_mutex_lock(d)
    libc.pthread_mutex_lock(d)
def bystander():
    tell("bystander")
    libc.pthread_mutex_lock(d)
has_mutex = threading.Event()
def with_mutex():
    tell("with_mutex")
    libc.pthread_mutex_lock(c)
    has_mutex.set()
    while True:
        pass
def with_gil():
    tell("with_gil")
    has_mutex.wait()
    keeps.pthread_mutex_lock(c)
for function in (one, other, itself):
    threading.Thread(target=function, daemon=True).start()
time.sleep(0.3)
threading.Thread(target=bystander, daemon=True).start()
time.sleep(0.3)
for function in (with_mutex, with_gil):
    threading.Thread(target=function, daemon=True).start()
time.sleep(600)
"""


def test_deadlocks():
    rings = [{"one", "other"}, {"itself"}, {"with_mutex", "with_gil"}]
    with target([sys.executable, "-c", DEADLOCKS]) as proc:
        tids = {}
        while len(tids) < 6:
            name, tid = proc.stdout.readline().decode().split()
            tids[name] = int(tid)
        by_tid = {tid: name for name, tid in tids.items()}
        for option in ("--merged", "--no-stop"):
            def found():
                data = stacks_json(proc.pid, option, expect=(0, 1))
                stuck = {by_tid.get(t["tid"]): t for t in data["threads"] if t["deadlock"]}
                check(set(stuck) <= set.union(*rings), "a thread that is in no deadlock", list(stuck))
                for thread in stuck.values():
                    ring = next(r for r in rings if by_tid[thread["tid"]] in r)
                    check(by_tid[thread["waits_for_tid"]] in ring, "the thread that it waits for", by_tid[thread["waits_for_tid"]])
                told = [h["text"] for h in data["headlines"] if h["code"] == "deadlock"]
                complete = [r for r in rings if any(all(str(tids[name]) in text for name in r) for text in told)]
                equal(sum(len(r) for r in complete), len(stuck), "threads of the deadlocks that are told")
                return len(complete) == 3
            wait_until(found, 60, f"three deadlocks are found ({option})")


# They fight for three mutexes, always in the same order: reading one after the other could show a ring.
FIGHT = r"""
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

static pthread_mutex_t mutexes[3] = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER };

static void *fights(void *arg)
{
	for (;;) {
		for (int i = 0; i < 3; i++) {
			pthread_mutex_lock(&mutexes[i]);
			usleep(10);
			if (i > 0)
				pthread_mutex_unlock(&mutexes[i - 1]);
		}
		pthread_mutex_unlock(&mutexes[2]);
	}
	return arg;
}

int main(void)
{
	pthread_t thread;

	for (int i = 0; i < 8; i++)
		pthread_create(&thread, NULL, fights, NULL);
	puts("ready");
	fflush(stdout);
	for (;;)
		pause();
}
"""


def test_a_fight_is_no_deadlock():
    with target([compile_c(FIGHT, "-pthread")], ready="ready") as proc:
        waiting = 0
        for _ in range(40):
            data = stacks_json(proc.pid)
            equal([t["tid"] for t in data["threads"] if t["deadlock"]], [], "threads in a deadlock")
            waiting += sum(t["waits_for_tid"] is not None for t in data["threads"])
        check(waiting > 20, "hardly anybody waited for a lock", waiting)


VERDICTS = """
import concurrent.futures, multiprocessing, gc, os, queue, subprocess, threading, time
def on_queue():
    queue.Queue().get()
def on_event():
    threading.Event().wait()
def on_lock():
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()
def twice():
    lock = multiprocessing.Lock()
    lock.acquire()
    lock.acquire()
def in_with():
    lock = multiprocessing.Lock()
    with lock:
        with lock:
            pass
def on_process_event():
    multiprocessing.Event().wait()
def on_process_queue():
    processes_queue.get()
def on_child():
    subprocess.run(["cat"], stdin=os.pipe()[0])
def on_thread():
    threads["on_event"].join()
def in_gc():
    big = [[] for i in range(200000)]
    while True:
        gc.collect()
executor = concurrent.futures.ThreadPoolExecutor(1)
executor.submit(time.sleep, 0)
threads = {}
processes_queue = multiprocessing.Queue()
processes_queue._rlock.acquire()
for function in (on_queue, on_event, on_lock, on_child, on_thread, twice, in_with, on_process_event, on_process_queue):
    threads[function.__name__] = threading.Thread(target=function, daemon=True)
    threads[function.__name__].start()
time.sleep(0.2)
print("ready", flush=True)
%s
"""


def test_python_verdicts():
    want = {
        "on_queue": "waits on a Python queue",
        "on_event": "waits on a Python event",
        "on_lock": "waits for a Python lock",
        "twice": "waits for a lock or semaphore of multiprocessing",
        "in_with": "waits for a lock or semaphore of multiprocessing",
        "on_process_event": "waits on a Python event",
        "on_process_queue": "waits on a Python queue",
        "on_child": "waits for a child process",
        "on_thread": "waits for another thread to end",
        "_worker": "idle thread of an executor",
    }
    with target([sys.executable, "-c", VERDICTS % "time.sleep(600)"], ready="ready") as proc:
        time.sleep(0.3)
        got = {}
        for thread in stacks_json(proc.pid)["threads"]:
            for frame in thread["stack"]["frames"]:
                if frame["function"] in want:
                    got[frame["function"]] = thread["verdict"]
        equal(got, want, "verdicts")


def test_garbage_collector():
    with target([sys.executable, "-c", VERDICTS % "in_gc()"], ready="ready") as proc:
        def seen():
            main_thread = stacks_json(proc.pid)["threads"][0]
            return main_thread["verdict"] == "in Python's garbage collector"
        try:
            wait_until(seen, 30, "the main thread is in the garbage collector")
        except AssertionError:
            if any("python" in (f["module"] or "") and not f["function"]
                   for f in stacks_json(proc.pid, "--native")["threads"][0]["stack"]["frames"]):
                raise Skip("this interpreter has no symbols") from None
            raise


# Each thread of the first kind has a child that never calls exec: no signal but SIGKILL reaches it (state D). The one of the
# second kind touches memory that nothing provides (userfaultfd): it sleeps, but in no system call.
UNINTERRUPTIBLE = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static int child(void *arg)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;;)
		pause();
	return 0;
}

__attribute__((noinline)) int forks(void)
{
	static __thread char stack[65536] __attribute__((aligned(16)));

	return clone(child, stack + sizeof(stack), CLONE_VM | CLONE_VFORK | SIGCHLD, NULL);
}

static void *fork_thread(void *arg)
{
	forks();
	return arg;
}

__attribute__((noinline)) int touches(volatile char *page)
{
	return page[100] + 1;
}

static void *fault_thread(void *page)
{
	touches(page);
	return NULL;
}

int main(int argc, char **argv)
{
	int fd = syscall(SYS_userfaultfd, O_CLOEXEC);
	struct uffdio_api api = { .api = UFFD_API };
	char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct uffdio_register reg = { .range = { .start = (unsigned long)page, .len = 4096 },
				       .mode = UFFDIO_REGISTER_MODE_MISSING };
	pthread_t thread;
	int faults = fd >= 0 && !ioctl(fd, UFFDIO_API, &api) && !ioctl(fd, UFFDIO_REGISTER, &reg);

	for (int i = 0; i < atoi(argv[1]); i++)
		pthread_create(&thread, NULL, fork_thread, NULL);
	if (faults)
		pthread_create(&thread, NULL, fault_thread, page);
	printf("ready %d\n", faults);
	fflush(stdout);
	for (;;)
		pause();
}
"""


def stop_children(pid):
    """The children share the memory of the target: they must not outlive the test."""
    for tid in os.listdir(f"/proc/{pid}/task"):
        for child in read(f"/proc/{pid}/task/{tid}/children").split():
            os.kill(int(child), 9)


def test_uninterruptible():
    """120 threads that cannot be stopped: together they cost what one costs, and their stacks are there."""
    binary = compile_c(UNINTERRUPTIBLE, "-pthread", "-g0", "-fno-optimize-sibling-calls")
    with target([binary, "120"], ready="ready") as proc:
        try:
            faults = int(proc.ready_line.split()[1])
            wait_until(lambda: sum(" (t) D " in read(f"/proc/{proc.pid}/task/{t}/stat")
                                   for t in os.listdir(f"/proc/{proc.pid}/task")) == 120, 20, "threads in D")
            for option in ("--merged", "--no-stop"):
                begin = time.monotonic()
                data = stacks_json(proc.pid, option)
                check(time.monotonic() - begin < 9, f"120 threads cost more than one ({option})", time.monotonic() - begin)
                stuck = [t for t in data["threads"] if t["state"] == "D"]
                equal(len(stuck), 120, "threads in uninterruptible sleep")
                equal({t["taken"] for t in stuck}, {"asleep"}, "how they were read")
                equal(data["threads"][0]["taken"], "asleep" if option == "--no-stop" else "stopped", "how the main thread was")
                for thread in stuck:
                    names = [f["function"] for f in thread["stack"]["frames"]]
                    check("vfork" in thread["waits"], "waits", thread["waits"])
                    check("clone" in names[0], "the stack of a thread in clone()", names)
                faulting = [t for t in data["threads"] if "touches" in [f["function"] for f in t["stack"]["frames"]]]
                equal(len(faulting), faults, "threads in a page fault")
                for thread in faulting:
                    equal([f["function"] for f in thread["stack"]["frames"]][:2], ["touches", "fault_thread"], "stack of a page fault")
                    equal((thread["state"], thread["syscall"], thread["waits"]), ("S", None, "waits in a page fault"), "a page fault")
                    check(not thread["wchan"] or "userfaultfd" in thread["verdict"], "its verdict", thread["verdict"])
        finally:
            stop_children(proc.pid)


# The mapping of a thread's stack goes on above it, where nothing provides the pages: reading them blocks for good.
BLOCKS_READERS = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static pthread_barrier_t barrier;

static void *sleeps(void *arg)
{
	pthread_barrier_wait(&barrier);
	for (;;)
		pause();
	return arg;
}

int main(void)
{
	size_t size = 1 << 20;
	char *stack = mmap(NULL, 2 * size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int fd = syscall(SYS_userfaultfd, O_CLOEXEC);
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register reg = { .range = { .start = (unsigned long)stack, .len = 2 * size },
				       .mode = UFFDIO_REGISTER_MODE_MISSING };
	pthread_attr_t attr;
	pthread_t thread;

	pthread_barrier_init(&barrier, NULL, 2);
	pthread_attr_init(&attr);
	pthread_attr_setstack(&attr, stack, size);
	pthread_create(&thread, &attr, sleeps, NULL);
	pthread_barrier_wait(&barrier);
	usleep(100000);
	printf("ready %d\n", fd >= 0 && !ioctl(fd, UFFDIO_API, &api) && !ioctl(fd, UFFDIO_REGISTER, &reg));
	fflush(stdout);
	for (;;)
		pause();
}
"""


def test_a_read_that_blocks():
    """The tool gives up, says so, and whatever it had stopped goes on."""
    with target([compile_c(BLOCKS_READERS, "-pthread")], ready="ready") as proc:
        if proc.ready_line != "ready 1":
            raise Skip("no userfaultfd for faults of the kernel")
        code, out, err = vramtap("stacks", str(proc.pid), timeout=120)
        equal((code, out), (NOTHING, ""), "exit status and standard output")
        check("blocks in the kernel" in err, "message", err)
        for tid in os.listdir(f"/proc/{proc.pid}/task"):
            wait_until(lambda: read(f"/proc/{proc.pid}/task/{tid}/stat").rpartition(")")[2].split()[0] == "S", 20, "it goes on")


if __name__ == "__main__":
    main(globals())
