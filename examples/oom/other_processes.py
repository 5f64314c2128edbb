# SPDX-License-Identifier: Apache-2.0
"""Other processes: this one runs out of memory because another one on the same device has most of it, and only cached.

The other process is a server that was busy once: PyTorch in it keeps nearly all of the device, and uses none of it.

Remedy: torch.cuda.empty_cache() in the process that has too much.
"""
import subprocess
import sys

from scene import REMEDY, done, empty, fits, room, start, wait


def the_other():
    """Takes memory, frees it and keeps it; a line on its standard input makes it give that back."""
    import torch
    start()
    batch = empty(room() * 0.99)
    del batch
    print(torch.cuda.memory_reserved(), flush=True)
    for _ in sys.stdin:
        torch.cuda.empty_cache()
        print(torch.cuda.memory_reserved(), flush=True)


def main():
    start()
    size = room()
    other = subprocess.Popen([sys.executable, *sys.argv, "--other"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    held = int(other.stdout.readline())
    if REMEDY:
        other.stdin.write("empty_cache\n")
        other.stdin.flush()
        held = int(other.stdout.readline())
    request = size // 2
    served = fits(empty, request)
    if REMEDY:
        other.kill()
        done(served, request=request, other=other.pid, held=held)
    wait(request=request, other=other.pid, held=held, served=served)


if __name__ == "__main__":
    the_other() if "--other" in sys.argv[1:] else main()
