# SPDX-License-Identifier: Apache-2.0
"""What a program that checks itself (tests/targets/spy.h, victim.py) tells of its own health: the file that it maps."""
import collections
import mmap
import struct

from harness import scratch

# struct victim_stats of tests/targets/victim.h
MAX_THREADS = 40
HEADER, THREAD = struct.Struct("<QQ160s"), struct.Struct("<QQQQ32s")

Thread = collections.namedtuple("Thread", "tid rounds errors eintr name")


class Stats:
    def __init__(self):
        self.path = scratch("stats")
        with open(self.path, "w+b") as file:
            file.truncate(HEADER.size + MAX_THREADS * THREAD.size)
            self.memory = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)

    def header(self):
        return HEADER.unpack_from(self.memory, 0)

    def is_ready(self):
        return bool(self.header()[0])

    def first_error(self):
        return self.header()[2].rstrip(b"\0").decode("utf-8", "replace")

    def threads(self):
        for i in range(self.header()[1]):
            *numbers, name = THREAD.unpack_from(self.memory, HEADER.size + i * THREAD.size)
            yield Thread(*numbers, name.rstrip(b"\0").decode())
