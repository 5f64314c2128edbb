# SPDX-License-Identifier: Apache-2.0
"""victim.py STATS_FILE [torch | gc]: a Python program whose threads wait in every way Python has, and check what they get.

The layout of the file is that of victim.h. With "torch" threads use PyTorch on a GPU, too; with "gc" 16 more collect garbage. It ends as
the programs of spy.h do.
"""

import ctypes
import hashlib
import mmap
import os
import queue
import select
import signal
import socket
import struct
import sys
import threading
import time

HEAD = 16 + 160
THREAD = 4 * 8 + 32
MAX_THREADS = 40
# A busy machine may let a thread wait for the processor as long as this, and one of many threads that collect garbage for the GIL.
LATE_MS = 60000 if sys.argv[2:] == ["gc"] else 3000

libc = ctypes.CDLL(None)
libc.prctl(0x59616D61, ctypes.c_ulong(2**64 - 1), 0, 0, 0)  # PR_SET_PTRACER, PR_SET_PTRACER_ANY
libc.prctl(1, signal.SIGKILL, 0, 0, 0)  # PR_SET_PDEATHSIG

with open(sys.argv[1], "r+b") as f:
    stats = mmap.mmap(f.fileno(), HEAD + MAX_THREADS * THREAD)


def put(thread, field, value):
    struct.pack_into("<Q", stats, HEAD + thread * THREAD + 8 * field, value)


def run(thread, name, function):
    struct.pack_into("31s", stats, HEAD + thread * THREAD + 32, name.encode())
    put(thread, 0, threading.get_native_id())
    rounds = errors = 0
    while True:
        try:
            fine = function()
            what = "wrong result"
        except BaseException as e:  # an OSError is exactly what must not be seen
            fine = False
            what = str(e) if isinstance(e, AssertionError) else repr(e)
        if not fine:
            errors += 1
            put(thread, 2, errors)
            struct.pack_into("159s", stats, 16, f"{name}: {what}".encode())
        rounds += 1
        put(thread, 1, rounds)


def timed(ms, function):
    def check():
        start = time.monotonic()
        fine = function()
        took = (time.monotonic() - start) * 1e3
        if not ms - 0.5 <= took <= ms + LATE_MS:
            raise AssertionError(f"took {took:.2f} ms, not {ms}")
        return fine

    return check


empty = queue.Queue()
lock = threading.Lock()
lock.acquire()
left, right = socket.socketpair()
epoll = select.epoll()
sent = received = 0


def queue_times_out():
    try:
        empty.get(timeout=0.03)
        return False
    except queue.Empty:
        return True


def receive():
    global received
    (value,) = struct.unpack("<Q", left.recv(8))
    received += 1
    return value == received


def send():
    global sent
    sent += 1
    right.send(struct.pack("<Q", sent))
    time.sleep(0.01)
    return True


def compute():
    time.sleep(0.001)
    return hashlib.sha256(b"x" * 20000).hexdigest() == DIGEST


def child():
    r, w = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(w, b"fine")
        os._exit(3)
    os.close(w)
    text = os.read(r, 10)
    os.close(r)
    _, status = os.waitpid(pid, 0)
    return text == b"fine" and os.WEXITSTATUS(status) == 3


all_started = threading.Event()
DIGEST = hashlib.sha256(b"x" * 20000).hexdigest()
KINDS = [
    ("sleep", timed(20, lambda: time.sleep(0.02) is None)),
    ("queue", timed(30, queue_times_out)),
    ("receive", receive),
    ("send", send),
    ("select", timed(25, lambda: select.select([], [], [], 0.025) == ([], [], []))),
    ("lock", timed(40, lambda: lock.acquire(timeout=0.04) is False)),
    ("compute", compute),
    ("epoll", timed(35, lambda: epoll.poll(0.035) == [])),
    ("fork", child),
]


def torch_kinds():
    import gc
    import warnings

    import torch

    warnings.simplefilter("ignore", DeprecationWarning)  # fork() with threads is the point
    last = torch.cuda.device_count() - 1

    def allocate():
        sizes = [1000 + 7919 * i % 3000000 for i in range(40)]
        kept = [torch.empty(n, dtype=torch.uint8, device=last) for n in sizes]
        del kept[::2]
        return torch.cuda.memory_allocated(last) >= sum(sizes[1::2])

    def reserve():
        torch.empty(30 << 20, dtype=torch.uint8, device="cuda:0")
        time.sleep(0.002)
        torch.cuda.empty_cache()
        return True

    def snapshot():
        time.sleep(0.005)
        segments = torch.cuda.memory._snapshot()["segments"]
        return all(sum(b["size"] for b in s["blocks"]) == s["total_size"] for s in segments)

    def spin():
        end = time.monotonic() + 0.01
        while time.monotonic() < end:
            pass
        time.sleep(0.001)
        return True

    def interpreter():
        """Nothing that a program can see of its interpreter has changed."""
        all_started.wait()
        time.sleep(0.003)
        return (gc.isenabled() and threading.active_count() == len(KINDS) + 1 and sys.gettrace() is None and
                sys.getprofile() is None and sys.exc_info() == (None, None, None) and torch.cuda.is_initialized())

    keep = [torch.empty(512 * (i % 5 + 1), dtype=torch.uint8, device="cuda:0") for i in range(2000)]
    return [("allocate", allocate), ("reserve", reserve), ("snapshot", snapshot), ("spin", spin), ("interpreter", interpreter),
            ("kept", lambda: time.sleep(0.01) is None and len(keep) == 2000)]


class Link:
    """Half of a cycle."""

    def __init__(self, other):
        self.other = other


def gc_kinds():
    import gc
    import weakref

    def collect():
        """Each cycle of this thread is gone when its collection, or another thread's, is over: gc.collect() does nothing while another
        one is under way, for as long as that takes."""
        watched = []
        for _ in range(50):
            one = Link(None)
            one.other = Link(one)
            watched.append(weakref.ref(one))
            del one
        end = time.monotonic() + LATE_MS / 1e3
        while time.monotonic() < end:
            gc.collect()
            if not any(ref() for ref in watched):
                return True
            time.sleep(0.002)
        return False

    return [("collect", collect)] * 16


UNHARMED, HARMED = 42, 43  # SPY_UNHARMED and SPY_HARMED of spy.h


def end(*_):
    errors = sum(struct.unpack_from("<Q", stats, HEAD + i * THREAD + 16)[0] for i in range(len(KINDS)))
    os._exit(HARMED if errors else UNHARMED)


signal.signal(signal.SIGTERM, end)
if sys.argv[2:] == ["torch"]:
    KINDS += torch_kinds()
if sys.argv[2:] == ["gc"]:
    KINDS += gc_kinds()
# A signal that another thread takes does not wake up the main one, which alone runs Python's handlers.
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
for i, (name, function) in enumerate(KINDS):
    threading.Thread(target=run, args=(i, name, function), daemon=True).start()
signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
all_started.set()
time.sleep(0.2)
struct.pack_into("<QQ", stats, 0, 1, len(KINDS))
while True:
    time.sleep(3600)
