#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A rank of a job that hangs, without PyTorch: slurm_rank.py DIR [RANK].

It waits in all_reduce() for bytes that never come; the one whose number is RANK waits in save_metrics(). When it is about to, there is a
file RANK.PID in DIR. The number is what Slurm, or else mpirun, says.
"""
import os
import sys

VARIABLES = ("SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "RANK")
NOTHING = os.pipe()


def all_reduce():
    os.read(NOTHING[0], 1)


def save_metrics():
    os.read(NOTHING[0], 1)


def main():
    rank = next(os.environ[name] for name in VARIABLES if name in os.environ)
    with open(os.path.join(sys.argv[1], f"{rank}.{os.getpid()}"), "w", encoding="ascii"):
        pass
    if rank == sys.argv[2]:
        save_metrics()
    else:
        all_reduce()


if __name__ == "__main__":
    main()
