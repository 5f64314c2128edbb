#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Communicators of the real NCCL that hold memory, without a GPU: the library and its list of communicators are real (nccl_ras.py), their
structures are laid out here as releases 2.24 to 2.30 do (comm.h, register.h, dev_runtime.h), and the memory is the driver's, made to be
shared. An argument is the size of ncclSharedResources: 904 in 2.24.3, 1792 in 2.27.7, 2072 in 2.28.9.

Prints a line of JSON: {"communicators": {address: [address of each allocation that it holds]}, "users": [those that only the program
holds, though NCCL has seen their addresses]}. Then reads lines: "drop" empties the second communicator, each answered with the JSON anew.
"""
import ctypes
import json
import os
import struct
import sys

import nccl_ras

MIB = 1 << 20
MAGIC = 0x0280028002800280
CHANNELS, CHANNEL_SIZE = 96, 400  # where the array may begin, and how far its elements are apart: any place in the structure will do
SHARED_RES = 88  # any word of the structure
SHARED_SIZE = int(sys.argv[1]) if len(sys.argv) > 1 else 2072


def cuda():
    lib, context = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p()
    assert lib.cuInit(0) == 0 and lib.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0 and lib.cuCtxSetCurrent(context) == 0
    return lib


CUDA = cuda()
LIBC = ctypes.CDLL(None)
LIBC.calloc.restype = ctypes.c_void_p


def allocate(size=2 * MIB, handle_type=1):
    """Mapped memory; other processes can map it if it has a handle type."""
    handle, at = ctypes.c_uint64(), ctypes.c_uint64()
    prop = (ctypes.c_int * 8)(1, handle_type, 1, 0)
    access = (ctypes.c_int * 3)(1, 0, 3)
    assert CUDA.cuMemCreate(ctypes.byref(handle), ctypes.c_size_t(size), prop, ctypes.c_ulonglong(0)) == 0
    assert CUDA.cuMemAddressReserve(ctypes.byref(at), ctypes.c_size_t(size), ctypes.c_size_t(0), ctypes.c_ulonglong(0), ctypes.c_ulonglong(0)) == 0
    assert CUDA.cuMemMap(at, ctypes.c_size_t(size), ctypes.c_size_t(0), handle, ctypes.c_ulonglong(0)) == 0
    assert CUDA.cuMemSetAccess(at, ctypes.c_size_t(size), access, ctypes.c_size_t(1)) == 0
    return at.value


def block(words, size=0):
    """Memory of malloc() that begins with these words."""
    size = max(size, 8 * len(words))
    at = LIBC.calloc(ctypes.c_size_t(1), ctypes.c_size_t(size))
    ctypes.memmove(at, struct.pack(f"<{len(words)}Q", *words), 8 * len(words))
    return at


def code():
    """An address in NCCL's own code."""
    with open("/proc/self/maps", encoding="utf-8") as maps:
        return next(int(line.split("-")[0], 16) for line in maps if "libnccl.so" in line and " r-xp " in line) + 64


class Communicator(nccl_ras.Communicator):
    """Holds memory at each place that proves it; users' buffers are at places that do not."""

    def __init__(self, rank, counts, parent=None):
        super().__init__(rank, counts)
        self.at = ctypes.addressof(self.comm)
        self.holds, self.users = [], []
        for at in (0, nccl_ras.COMM_SIZE - 8):
            struct.pack_into("<Q", self.comm, at, MAGIC)
        for channel in range(8):
            struct.pack_into("<Q", self.comm, CHANNELS + CHANNEL_SIZE * channel, self.holding())
        self.registered = block([0] * 64)
        self.resources = parent.resources if parent else self.make_resources()
        struct.pack_into("<Q", self.comm, SHARED_RES, self.resources)
        destroyed, task = self.holding(), self.using()
        hunk_size = 64 << 10
        hunk = block([0, hunk_size, 0, destroyed, code(), 0, task, self.using(), 1, 2], hunk_size)
        buffer, old = self.using(), self.using()
        registrations = [block([buffer, buffer + 4096, 1, 2], 512), block([1, 1 << 32, old, 0], 512)]  # as from 2.25 on, as in 2.24
        window = block([self.using(), 2 * MIB, block([0, self.using(), 2 * MIB])], 16 * 24)  # devrState.winSorted
        operations = block([0, 1, 2, self.using()], 64)  # userRedOps with a scalar of the device
        # Two tasks that were given back to their pool: what is before the second looks like the head of a block.
        tasks = hunk + 1024
        ctypes.memmove(tasks - 8, struct.pack("<5Q", 32, 0, 3, self.using(), self.using()), 40)
        for at, value in ((200 * 1024, window), (201 * 1024, operations), (202 * 1024, tasks)):
            struct.pack_into("<Q", self.comm, at, value)
        for at, value in ((8, hunk), (SHARED_RES - 8, block([*registrations, self.registered] * 4)), (nccl_ras.COMM_SIZE - 16, self.holding())):
            struct.pack_into("<Q", self.comm, at, value)

    def holding(self, size=2 * MIB):
        self.holds.append(allocate(size))
        return self.holds[-1]

    def using(self):
        self.users.append(allocate())
        return self.users[-1]

    def make_resources(self):
        transport = block([0, self.holding(10 * MIB), 3])
        peer = block([transport, 0, self.holding(4 * MIB) + MIB])  # a buffer within what was allocated
        far = block([0, self.holding()], 4 * MIB - 65536)  # in a mapping of its own, which may lie between the driver's
        self.sent = self.using()  # a request of the network still has its address
        self.registered = block([self.sent, self.sent + 2 * MIB, 0, 0], 512)
        proxy = block([0, block([block([block([self.holding()])])]), block([block([7, self.sent], 2048)])])
        return block([1, self.at, block([peer, peer, far]), self.holding(), proxy], SHARED_SIZE)


def main():
    init, _ = nccl_ras.functions()
    first = Communicator(0, [3, 3])
    communicators = [first, Communicator(0, [3]), Communicator(1, [3, 3], first)]
    lone, private = allocate(), allocate(handle_type=0)
    struct.pack_into("<Q", first.comm, CHANNELS + CHANNEL_SIZE * 20, private)  # not made to be shared: nobody knows whose it is
    for communicator in communicators:
        mine = ctypes.create_string_buffer(nccl_ras.RANK_INIT_SIZE)
        struct.pack_into("<HH4B", mine, 0, 2, 0, 127, 0, 0, 1)
        struct.pack_into("<iiiQQ", mine, nccl_ras.RANK_INIT_PID, os.getpid(), 0, 0, 1, 2)
        assert init(communicator.at, ctypes.addressof(mine)) == 0
    dropped = False
    while True:
        held = {hex(c.at): c.holds for c in communicators if not (dropped and c is communicators[1])}
        users = [at for c in communicators for at in c.users] + [lone]
        print(json.dumps({"communicators": held, "users": users, "private": private}), flush=True)
        if not sys.stdin.readline():
            return
        ctypes.memset(communicators[1].at, 0, nccl_ras.COMM_SIZE)
        dropped = True


if __name__ == "__main__":
    main()
