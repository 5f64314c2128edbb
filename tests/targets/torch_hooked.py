# SPDX-License-Identifier: Apache-2.0
"""A target with PyTorch that does what it is told: each line of standard input is a Python expression, each answer a line with the
JSON of its value, or of {"error": ...}."""
import ctypes
import json
import os
import sys
import threading
import time

import torch

kept = []


def alloc(n, size):
    """Through allocate(): the addresses."""
    tensors = [torch.empty(size, dtype=torch.uint8, device="cuda") for _ in range(n)]
    kept.extend(tensors)
    return [t.data_ptr() for t in tensors]


def allocations():
    return torch.cuda.memory_stats()["allocation.all.allocated"]


def word(address):
    return ctypes.c_uint64.from_address(address).value


class DataPtr(ctypes.Structure):
    """c10::DataPtr: returned in memory, as C++ returns what has a destructor."""
    _fields_ = [("words", ctypes.c_uint64 * 4)]


def method(allocator, slot, result, *arguments):
    return ctypes.CFUNCTYPE(result, ctypes.c_uint64, *arguments)(word(word(allocator) + 8 * slot))


def raw_alloc(allocator, slot, size):
    return method(allocator, slot, ctypes.c_uint64, ctypes.c_size_t)(allocator, size)


def raw_alloc_with_stream(allocator, slot, size):
    return method(allocator, slot, ctypes.c_uint64, ctypes.c_size_t, ctypes.c_void_p)(allocator, size, None)


def allocate_at(allocator, slot, size, address):
    return method(allocator, slot, DataPtr, ctypes.c_size_t, ctypes.c_uint64)(allocator, size, address).words[0]


def oom():
    """What the program sees of an allocation that fails: the class of the error, that it can go on, and that all is as before."""
    before = torch.cuda.memory_allocated()
    try:
        torch.empty(1 << 40, dtype=torch.uint8, device="cuda")
    except torch.cuda.OutOfMemoryError as error:
        return [type(error).__name__, "1024.00 GiB" in str(error), torch.cuda.memory_allocated() == before, len(alloc(1, 1000))]
    return ["none"]


def errno_is_kept():
    """errno after an allocation is what it was before: also when the recorder had to map memory."""
    libc = ctypes.CDLL(None, use_errno=True)
    ctypes.set_errno(4711)
    libc.getpid()
    alloc(1, 100)
    return ctypes.get_errno()


def kind_of_error(function):
    try:
        function()
    except Exception as error:  # pylint: disable=broad-exception-caught
        return [type(error).__name__, str(error).splitlines()[0]]
    return ["none"]


def child_s_error():
    """What an allocation in a child after fork() says: the driver works in the parent only."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(write, json.dumps(kind_of_error(lambda: torch.cuda.caching_allocator_alloc(512))).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as file:
        said = json.load(file)
    return [said, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])]


def fork_and_keep():
    """A child that only sleeps; its pid."""
    pid = os.fork()
    if pid == 0:
        time.sleep(60)
        os._exit(0)
    return pid


def replace_table(allocator, words):
    """As another tool would: a copy of the virtual table in its place; the address of the copy."""
    vptr = word(allocator)
    copy = (ctypes.c_uint64 * (words + 2))(*[word(vptr - 16 + 8 * i) for i in range(words + 2)])
    kept.append(copy)
    ctypes.c_uint64.from_address(allocator).value = ctypes.addressof(copy) + 16
    return ctypes.addressof(copy) + 16


def load_in_thread(path):
    """dlopen() in a thread, which may take its time; the loader's lock is held during that, the GIL is not."""
    dlopen = ctypes.CDLL(None).dlopen
    dlopen.argtypes = [ctypes.c_char_p, ctypes.c_int]
    threading.Thread(target=dlopen, args=(path.encode(), 2), daemon=True).start()
    time.sleep(0.3)
    return True


def spin(path):
    """The only thread of the program runs all the time, until there is such a file; it answers first."""
    print("true", flush=True)
    while not os.path.exists(path):
        end = time.monotonic() + 0.05
        while time.monotonic() < end:
            pass
    return True


def main():
    alloc(1, 1000)
    print("READY", flush=True)
    for line in sys.stdin:
        try:
            answer = eval(line)  # pylint: disable=eval-used
        except Exception as error:  # pylint: disable=broad-exception-caught
            answer = {"error": repr(error)}
        print(json.dumps(answer), flush=True)


main()
