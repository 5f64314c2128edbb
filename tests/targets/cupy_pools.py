# SPDX-License-Identifier: Apache-2.0
"""CuPy's real pools on the simulated device, driven by lines of Python on stdin. Each answer is one line of JSON.

From 13.0 on CuPy's wheels have the CUDA runtime linked in, and that talks to the driver by tables that nobody documents. So each function of the
runtime that simcuda has, too, is made to jump there, before the first call. Everything of CuPy's is as it was published."""
import ctypes
import json
import mmap
import os
import struct
import sys

import cupy
import cupy_backends.cuda.api.runtime as static_runtime

SHT_SYMTAB, STT_FUNC = 2, 2
MIB = 1 << 20


def functions(path):
    """Names and addresses in the file of all functions."""
    with open(path, "rb") as file:
        data = file.read()
    start, = struct.unpack_from("<Q", data, 40)
    count, = struct.unpack_from("<H", data, 60)
    sections = [struct.unpack_from("<IIQQQQIIQQ", data, start + i * 64) for i in range(count)]
    for section in sections:
        if section[1] != SHT_SYMTAB:
            continue
        strings = sections[section[6]][4]
        for i in range(section[5] // 24):
            name, info, _, _, value, _ = struct.unpack_from("<IBBHQQ", data, section[4] + i * 24)
            if info & 15 == STT_FUNC and value:
                at = strings + name
                yield data[at:data.index(b"\0", at)].decode(), value


def base_of(path):
    with open("/proc/self/maps", encoding="utf-8") as maps:
        return min(int(line.split("-")[0], 16) for line in maps if line.rstrip().endswith(path))


def redirect(path, library):
    """Each function that the library has begins with a jump to it: movabs rax, address; jmp rax."""
    base, libc, pages, done = base_of(path), ctypes.CDLL(None, use_errno=True), set(), 0
    inside = dict(functions(path))
    if "cudaMalloc" not in inside:
        return  # 12.x: it is a library of its own, the simulated one
    for name, value in inside.items():
        if not name.startswith("cuda") or not hasattr(library, name):
            continue
        to = ctypes.cast(getattr(library, name), ctypes.c_void_p).value
        code = b"\x48\xb8" + struct.pack("<Q", to) + b"\xff\xe0"
        for page in {(base + value) & ~4095, (base + value + len(code)) & ~4095} - pages:
            if libc.mprotect(ctypes.c_void_p(page), mmap.PAGESIZE, mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC):
                raise OSError(ctypes.get_errno(), "mprotect")
            pages.add(page)
        ctypes.memmove(base + value, code, len(code))
        done += 1
    if done < 20:
        raise RuntimeError(f"only {done} functions of the runtime were found")


def truth(pool, device=0):
    """What CuPy itself says."""
    with cupy.cuda.Device(device):
        return {"total": pool.total_bytes(), "used": pool.used_bytes(), "free": pool.free_bytes(), "limit": pool.get_limit(),
                "free_blocks": pool.n_free_blocks()}


class Recorder(cupy.cuda.memory_hook.MemoryHook):
    """Where the memory is that the pools get from below, as CuPy's own hooks tell."""
    name = "Recorder"

    def __init__(self):
        super().__init__()
        self.got = {}

    def alloc_postprocess(self, **kwargs):
        self.got[kwargs["mem_ptr"]] = kwargs["mem_size"]


def main():
    redirect(os.path.realpath(static_runtime.__file__), ctypes.CDLL(os.environ["CUPY_TEST_RUNTIME"]))
    names = {"cupy": cupy, "pool": cupy.get_default_memory_pool(), "truth": truth, "keep": {}, "MIB": MIB, "Recorder": Recorder}
    print("ready", os.getpid(), cupy.__version__, flush=True)
    for line in sys.stdin:
        try:
            answer = eval(line, names)  # pylint: disable=eval-used
        except SyntaxError:
            exec(line, names)  # pylint: disable=exec-used
            answer = None
        print(json.dumps(answer, default=repr), flush=True)


if __name__ == "__main__":
    main()
