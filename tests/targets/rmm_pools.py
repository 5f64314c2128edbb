# SPDX-License-Identifier: Apache-2.0
"""RMM's real pools on the simulated device, driven by lines of Python on stdin. Each answer is one line of JSON.

RMM's wheels have the CUDA runtime linked in, stripped, and that talks to the driver by tables that nobody documents. So each function of
the runtime that simcuda has, too, is made to jump there, before the first call. A function of the runtime refers to its own name, for
profilers: that is how it is found. Everything of RMM's is as it was published."""
import bisect
import ctypes
import json
import mmap
import os
import random
import re
import struct
import sys

if os.environ.get("RMM_TEST_CUPY"):
    import cupy  # noqa: F401  pylint: disable=unused-import
import rmm
import rmm.mr

try:
    from rmm.pylibrmm.stream import Stream
except ImportError:
    from rmm._cuda.stream import Stream  # 24.12

MIB = 1 << 20
LEA = re.compile(rb"[\x48\x4c]\x8d[\x05\x0d\x15\x1d\x25\x2d\x35\x3d]", re.S)
MOVQ = re.compile(rb"\xf3\x0f\x7e[\x05\x0d\x15\x1d\x25\x2d\x35\x3d]", re.S)


class Elf:
    """A shared library's file: sections, functions by the table of unwinding, references to addresses."""

    def __init__(self, path):
        with open(path, "rb") as file:
            self.data = file.read()
        start, = struct.unpack_from("<Q", self.data, 40)
        count, names = struct.unpack_from("<HH", self.data, 60)
        sections = [struct.unpack_from("<IIQQQQIIQQ", self.data, start + i * 64) for i in range(count)]
        names = sections[names][4]
        self.sections = {self.data[names + s[0]:self.data.index(b"\0", names + s[0])].decode(): s for s in sections}

    def bytes_of(self, name):
        section = self.sections[name]
        return section[3], self.data[section[4]:section[4] + section[5]]

    def functions(self):
        start, table = self.bytes_of(".eh_frame_hdr")
        count, = struct.unpack_from("<I", table, 8)
        return sorted(start + struct.unpack_from("<i", table, 12 + 8 * i)[0] for i in range(count))

    def names_in_words(self):
        """{address of a word: what it points to}, of what the loader relocates."""
        _, table = self.bytes_of(".rela.dyn")
        return {offset: addend for offset, info, addend in struct.iter_unpack("<QQq", table) if info & 0xffffffff == 8}

    def references(self):
        """{address: places of code that refer to it}, directly or by a word."""
        base, code = self.bytes_of(".text")
        words, found = self.names_in_words(), {}
        for pattern, length in ((LEA, 7), (MOVQ, 8)):
            for match in pattern.finditer(code):
                at = match.start() + length
                if at <= len(code):
                    to = base + at + struct.unpack_from("<i", code, at - 4)[0]
                    found.setdefault(to if pattern is LEA else words.get(to), []).append(base + match.start())
        return found


def runtime_functions(elf, wanted):
    """{name: address in the file} of the functions of the CUDA runtime in a library."""
    if not {".rodata", ".text", ".eh_frame_hdr"} <= set(elf.sections):
        return {}
    base, constants = elf.bytes_of(".rodata")
    if b"\0cudaStreamGetCaptureInfo_v2\0" not in constants:
        return {}
    starts, references, found = elf.functions(), elf.references(), {}
    for match in re.finditer(rb"(?<=\0)(cuda[A-Za-z0-9_]+)\0", constants):
        name = match.group(1).decode()
        for place in references.get(base + match.start(1), []) if wanted(name) else []:
            found[name] = starts[bisect.bisect(starts, place) - 1]
    return found


def redirect(path, base, library):
    """Each function that the library has begins with a jump to it: movabs rax, address; jmp rax."""
    libc, pages = ctypes.CDLL(None, use_errno=True), set()
    found = runtime_functions(Elf(path), lambda name: hasattr(library, name))
    for name, value in found.items():
        to = ctypes.cast(getattr(library, name), ctypes.c_void_p).value
        code = b"\x48\xb8" + struct.pack("<Q", to) + b"\xff\xe0"
        for page in {(base + value) & ~4095, (base + value + len(code)) & ~4095} - pages:
            if libc.mprotect(ctypes.c_void_p(page), mmap.PAGESIZE, mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC):
                raise OSError(ctypes.get_errno(), "mprotect")
            pages.add(page)
        ctypes.memmove(base + value, code, len(code))
    return len(found)


def modules():
    """{path: first address} of the libraries that may have the runtime in them."""
    found = {}
    with open("/proc/self/maps", encoding="utf-8") as maps:
        for line in maps:
            path = line.split(maxsplit=5)[-1].rstrip()
            if ".so" in path and re.search("/(rmm|librmm|cuda|cupy_backends)/", path):
                found.setdefault(path, int(line.split("-")[0], 16))
    return found


def redirect_all():
    library = ctypes.CDLL(os.environ["RMM_TEST_RUNTIME"])
    return {path: n for path, base in modules().items() if (n := redirect(path, base, library))}


class Below:
    """An upstream that writes down what it gives to pools."""

    def __init__(self, upstream=None):
        self.got = {}
        self.upstream = upstream or rmm.mr.CudaMemoryResource()
        self.resource = rmm.mr.CallbackMemoryResource(self.allocate, self.deallocate)

    def allocate(self, size, *_):
        address = self.upstream.allocate(size)
        self.got[address] = size
        return address

    def deallocate(self, address, size, *_):
        del self.got[address]
        self.upstream.deallocate(address, size)


class Work:
    """A pool that is used at random, on several streams, through RMM's own statistics."""

    def __init__(self, initial, maximum=None, below=None, streams=4, seed=1):
        self.below = below or Below()
        self.pool = rmm.mr.PoolMemoryResource(self.below.resource, initial_pool_size=initial, maximum_pool_size=maximum)
        self.top = rmm.mr.StatisticsResourceAdaptor(self.pool)
        self.streams = [Stream() for _ in range(streams)]
        self.live = {}
        self.random = random.Random(seed)

    def allocate(self, size):
        self.live[self.top.allocate(size, self.random.choice(self.streams))] = size

    def free(self, address=None):
        address = address or self.random.choice(list(self.live))
        self.top.deallocate(address, self.live.pop(address), self.random.choice(self.streams))

    def run(self, steps, largest):
        for _ in range(steps):
            if self.live and self.random.random() < 0.45:
                self.free()
            else:
                self.allocate(self.random.randrange(1, largest))

    def truth(self):
        """What RMM says, what it got, and the program's own blocks, as RMM rounds them."""
        counts = self.top.allocation_counts
        return {"held": self.pool.pool_size(), "asked": counts.current_bytes, "blocks": counts.current_count,
                "sizes": sum(self.live.values()), "live": [[at, (size + 255) // 256 * 256] for at, size in self.live.items()],
                "regions": list(self.below.got.items())}


def main():
    done = redirect_all()
    names = {"rmm": rmm, "mr": rmm.mr, "keep": {}, "MIB": MIB, "redirected": done, "Below": Below, "Work": Work, "Stream": Stream}
    print("ready", os.getpid(), rmm.__version__, flush=True)
    for line in sys.stdin:
        try:
            answer = eval(line, names)  # pylint: disable=eval-used
        except SyntaxError:
            exec(line, names)  # pylint: disable=exec-used
            answer = None
        print(json.dumps(answer, default=repr), flush=True)


main()
