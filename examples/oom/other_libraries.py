# SPDX-License-Identifier: Apache-2.0
"""Other libraries in the same process have most of the device, and PyTorch's summary knows nothing of it.

usage: other_libraries.py [raw | cupy] [--remedy]

raw: an extension that calls the driver's allocator itself, and forgets to free. cupy: CuPy's pool, which caches like PyTorch.

Remedy: raw: free it. cupy: free_all_blocks() (or a limit, or torch's allocator for CuPy).
"""
import ctypes
import sys

from scene import REMEDY, done, empty, fits, room, start, wait


def raw(size):
    driver, held = ctypes.CDLL("libcuda.so.1"), []
    for _ in range(4):
        address = ctypes.c_uint64()
        assert driver.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(size // 4)) == 0
        held.append(address)
    if REMEDY:
        for address in held:
            driver.cuMemFree_v2(address)
    return size // 4 * 4


def cupy(size):
    import cupy
    pool = cupy.get_default_memory_pool()
    arrays = [cupy.empty(size // 4, dtype=cupy.uint8) for _ in range(4)]
    del arrays
    held = pool.total_bytes()
    if REMEDY:
        pool.free_all_blocks()
    return held


def main():
    start()
    library = {"raw": raw, "cupy": cupy}["cupy" if "cupy" in sys.argv[1:] else "raw"]
    size = room()
    held = library(int(size * 0.7))
    request = size // 2
    served = fits(empty, request)
    if REMEDY:
        done(served, request=request, held=held)
    wait(request=request, held=held)


if __name__ == "__main__":
    main()
