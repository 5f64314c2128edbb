# SPDX-License-Identifier: Apache-2.0
"""Cached against allocated: PyTorch had a peak, uses little now, and keeps the rest. It would use that again itself, but to all
others the device is full.

Remedy: torch.cuda.empty_cache() after the peak, before the others come.
"""
import subprocess
import sys

import torch
from scene import REMEDY, done, empty, fits, room, start, wait


def the_other():
    """Wants half of the device, and says what it has of that in the end."""
    start()
    total = torch.cuda.mem_get_info()[1]
    print(total // 2 if fits(empty, total // 2) else 0, flush=True)
    sys.stdin.read()


def main():
    start()
    size = room() * 0.98
    model = empty(size * 0.05)
    peak = [empty(size * 0.095) for _ in range(10)]  # a validation with everything at once
    del peak
    if REMEDY:
        torch.cuda.empty_cache()
    other = subprocess.Popen([sys.executable, *sys.argv, "--other"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    got = int(other.stdout.readline() or 0)
    if REMEDY:
        other.kill()
        done(got)
    wait(other=other.pid, held=got, got=got, used=model.numel())


if __name__ == "__main__":
    the_other() if "--other" in sys.argv[1:] else main()
