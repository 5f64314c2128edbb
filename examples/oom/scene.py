# SPDX-License-Identifier: Apache-2.0
"""What the programs in this folder share. Each gets into one kind of trouble with GPU memory and waits there, so that
`vramtap report PID` can look; with --remedy it does the same work without the trouble.

The last line that each prints is JSON: what PyTorch itself says of its memory, and what the program knows.
"""
import json
import os
import sys
import time

REMEDY = "--remedy" in sys.argv[1:]

import torch  # noqa: E402

MIB = 1 << 20


def start():
    """What each process has from its first step on: the context, and the work space of cuBLAS, of both threads."""
    x = torch.zeros(64, 64, device="cuda", requires_grad=True)
    torch.nn.functional.linear(x, x, x[0]).sum().backward()


def room():
    """Bytes that are free on the device."""
    torch.cuda.synchronize()
    return torch.cuda.mem_get_info()[0]


def limit(more):
    """PyTorch gets so many bytes more than it has: a small device, for a program that is quick."""
    fraction = (torch.cuda.memory_reserved() + more) / torch.cuda.mem_get_info()[1]
    torch.cuda.set_per_process_memory_fraction(fraction)


def empty(size):
    """A tensor of so many bytes."""
    return torch.empty(int(size), dtype=torch.uint8, device="cuda")


def fits(function, *args):
    """Whether it does without running out of memory. The exception is gone when this returns."""
    try:
        function(*args)
        return True
    except torch.cuda.OutOfMemoryError as error:
        print(str(error).split(". ")[0], file=sys.stderr)
        return False


def allocated():
    return torch.cuda.memory_allocated()


def figures(**known):
    free, total = torch.cuda.mem_get_info()
    return dict(known, pid=os.getpid(), remedy=REMEDY, free=free, total=total,
                allocated=allocated(), reserved=torch.cuda.memory_reserved(),
                peak=torch.cuda.max_memory_allocated(), out_of_memory=torch.cuda.memory_stats()["num_ooms"])


def show(word, **known):
    known = figures(**known)
    print(", ".join(f"{name} {known[name] / MIB:.1f} MiB" for name in ("allocated", "reserved", "peak", "free")))
    print(word, json.dumps(known), flush=True)


def wait(**known):
    """In trouble: waits for somebody who looks."""
    print(f"In trouble. Look with: vramtap report {os.getpid()}")
    show("READY", **known)
    try:
        time.sleep(1e6)
    except KeyboardInterrupt:
        os._exit(0)


def done(helped, **known):
    """With the remedy: says whether it helped, and ends."""
    print("The remedy helps." if helped else "The remedy does not help.")
    show("DONE", helped=bool(helped), **known)
    sys.stdout.flush()
    os._exit(0 if helped else 1)  # kernels that still run are not waited for
