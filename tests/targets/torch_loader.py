#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A job whose DataLoader has workers, with batches of 1 MiB that it keeps, that wait, and that are made. It prints "READY PID", and
obeys lines: "next N", "pin BYTES", "drop", "quit". The argument is PyTorch's sharing strategy."""
import os
import sys
import warnings

warnings.simplefilter("ignore")

import torch  # noqa: E402
from torch.utils.data import DataLoader, Dataset  # noqa: E402


class Ones(Dataset):
    def __len__(self):
        return 1 << 30

    def __getitem__(self, index):
        return torch.ones(1 << 16)


def main():
    torch.multiprocessing.set_sharing_strategy(sys.argv[1])
    workers, kept = int(sys.argv[2]), []
    torch.cuda.init()
    batches = iter(DataLoader(Ones(), batch_size=4, num_workers=workers))
    kept.append(next(batches))
    print("READY", os.getpid(), flush=True)
    for line in sys.stdin:
        command, *rest = line.split()
        if command == "next":
            kept += [next(batches) for _ in range(int(rest[0]))]
        elif command == "pin":
            kept.append(torch.empty(int(rest[0]), dtype=torch.uint8).pin_memory())
        elif command == "drop":
            kept.clear()
        elif command == "quit":
            break
        print("ok", flush=True)
    del batches


if __name__ == "__main__":
    main()
    os._exit(0)
