#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A process whose memory nobody can read, as of a file system that does not answer: blocked_maps.py DIR PROGRAM.

DIR becomes a file system (FUSE) with one file, "x", whose contents never come. PROGRAM, which is given the file's name, maps it, writes the
address, and when it reads a byte has a thread ask for more memory. Before that somebody reads the page through /proc/PID/mem: whoever does,
waits for the page with the lock of the memory map in hand, the thread waits for the lock, and all later ones wait behind it.
Prints "ready PID". Everything ends with this process, which is to be alone in a mount namespace.
"""
import ctypes
import os
import signal
import struct
import subprocess
import sys
import threading
import time

INIT, LOOKUP, GETATTR, OPEN, READ, FORGET, INTERRUPT, OPENDIR = 26, 1, 3, 14, 15, 2, 36, 27
LIBC = ctypes.CDLL(None, use_errno=True)
PR_SET_PDEATHSIG = 1
ENOSYS = 38


def attributes(node):
    return struct.pack("<QQQQQQIIIIIIIIII", node, 4096, 8, 0, 0, 0, 0, 0, 0, 0o40755 if node == 1 else 0o100644, 1, 0, 0, 0, 4096, 0)


ANSWERS = {
    INIT: lambda node: struct.pack("<IIIIHHIIHHI7I", 7, 31, 0, 0, 0, 0, 4096, 1, 0, 0, 0, *[0] * 7)[:64],
    LOOKUP: lambda node: struct.pack("<QQQQII", 2, 0, 100, 100, 0, 0) + attributes(2),
    GETATTR: lambda node: struct.pack("<QII", 100, 0, 0) + attributes(node),
    OPEN: lambda node: struct.pack("<QII", 1, 0, 0),
    OPENDIR: lambda node: struct.pack("<QII", 1, 0, 0),
}


def serve(fuse):
    while True:
        _, operation, unique, node = struct.unpack("<IIQQ", os.read(fuse, 1 << 20)[:24])
        if operation in (READ, FORGET, INTERRUPT):
            continue
        answer = ANSWERS[operation](node) if operation in ANSWERS else b""
        os.write(fuse, struct.pack("<IiQ", 16 + len(answer), 0 if operation in ANSWERS else -ENOSYS, unique) + answer)


def end_with_parent():
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def main():
    directory, program = sys.argv[1:3]
    fuse = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
    if LIBC.mount(b"none", directory.encode(), b"fuse", 0, b"fd=%d,rootmode=40000,user_id=0,group_id=0" % fuse):
        sys.exit(f"cannot mount: {os.strerror(ctypes.get_errno())}")
    threading.Thread(target=serve, args=(fuse,), daemon=True).start()
    proc = subprocess.Popen([program, os.path.join(directory, "x")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, preexec_fn=end_with_parent)
    address = int(proc.stdout.readline(), 16)
    reader = os.fork()
    if reader == 0:
        end_with_parent()
        os.close(fuse)
        os.pread(os.open(f"/proc/{proc.pid}/mem", os.O_RDONLY), 1, address)
        os._exit(0)
    time.sleep(0.3)
    proc.stdin.write(b"x")
    proc.stdin.flush()
    time.sleep(0.3)
    print("ready", proc.pid, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
