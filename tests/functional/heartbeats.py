# SPDX-License-Identifier: Apache-2.0
"""For how long a process stood still, told by its own threads (tests/targets/heartbeat.c)."""
import mmap
import os
import struct
import tempfile

import harness

BEATS = 8
SLOT, GAPS = 65536, 4095  # struct slot of tests/targets/heartbeat.c


def compile_library():
    with open(os.path.join(harness.SOURCE, "tests", "targets", "heartbeat.c"), encoding="utf-8") as file:
        return harness.compile_c(file.read(), "-shared", "-fPIC")


class Heartbeats:
    """What the target's own threads write down; see tests/targets/heartbeat.c."""

    def __init__(self):
        """VRAMTAP_HEARTBEAT names the library where it cannot be compiled."""
        # Not on a disk: a write to a page that is being written back has to wait.
        directory = tempfile.mkdtemp(prefix="vramtap-bench-", dir="/dev/shm")
        harness.CLEAN_UP.append(directory)
        self.path = os.path.join(directory, "beats")
        with open(self.path, "wb") as file:
            file.truncate(BEATS * SLOT)
        self.library = os.environ.get("VRAMTAP_HEARTBEAT") or compile_library()
        with open(self.path, "r+b") as file:
            self.memory = mmap.mmap(file.fileno(), BEATS * SLOT)

    def counts(self, at):
        return [struct.unpack_from("<Q", self.memory, i * SLOT + at)[0] for i in range(BEATS)]

    def wait(self):
        """Until every thread has looked at the clock again, so that no gap is still open."""
        begin = self.counts(8)
        harness.wait_until(lambda: all(b >= a + 2 for a, b in zip(begin, self.counts(8))), 30, "a heartbeat of every thread")

    def mark(self):
        self.wait()
        self.marked = self.counts(0)

    def pause_ms(self):
        """The longest gap since mark() and what of other threads' gaps overlaps it; 0.0 when there was none."""
        self.wait()
        gaps = []
        for i, (first, last) in enumerate(zip(self.marked, self.counts(0))):
            harness.check(last - first <= GAPS, "too many gaps: the machine is too busy to measure anything")
            gaps += [struct.unpack_from("<QQ", self.memory, i * SLOT + 16 + n % GAPS * 16) for n in range(first, last)]
        if not gaps:
            return 0.0
        begin, end = max(gaps, key=lambda gap: gap[1] - gap[0])
        overlapping = [g for g in gaps if g[0] < end and g[1] > begin]
        return (max(g[1] for g in overlapping) - min(g[0] for g in overlapping)) / 1e6
