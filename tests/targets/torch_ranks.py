#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A launcher as torchrun is one: starts this program as so many ranks, waits for them, and exits as the worst of them did.

    torch_ranks.py N WORDS...   each rank does what the words say:
        fill MIB     allocates so much, and keeps it
        die MIB      asks for so much, and lets the exception end it
        try MIB      the same, catches the exception and goes on
        sleep S      waits
        fork S       forks, as a loader starts its workers; the child waits, and ends
"""
import os
import subprocess
import sys
import time


def rank_main(words):
    import torch

    kept = []

    def request(mib):
        return torch.empty(mib << 20, dtype=torch.uint8, device="cuda")  # line: request

    for verb, value in zip(words[::2], words[1::2]):
        if verb == "fill":
            kept.append(request(int(value)))
        elif verb == "die":
            request(int(value))
        elif verb == "try":
            try:
                request(int(value))
            except torch.OutOfMemoryError as error:
                print(f"caught {value}: {error}", flush=True)
        elif verb == "sleep":
            time.sleep(float(value))
        elif verb == "fork":
            child = os.fork()
            if not child:
                time.sleep(float(value))
                os._exit(0)
            print(f"forked {child}", flush=True)
    print(f"rank {os.environ['RANK']} is done", flush=True)


def main():
    if "RANK" in os.environ:
        rank_main(sys.argv[2:])
        return
    ranks = [subprocess.Popen([sys.executable, *sys.argv], env=dict(os.environ, RANK=str(rank), WORLD_SIZE=sys.argv[1]))
             for rank in range(int(sys.argv[1]))]
    sys.exit(max(rank.wait() for rank in ranks))


if __name__ == "__main__":
    main()
