# SPDX-License-Identifier: Apache-2.0
"""One rank of a training job over NCCL that gets stuck: RANK, LOCAL_RANK and WORLD_SIZE are in the environment.

usage: triage_rank.py TROUBLE STORE

For each line of standard input it prints what its own flight recorder tells it. After some steps the last rank does not come to the collective: it sleeps ("asleep"), runs in a loop ("loops"), or reduces something else
while the others gather ("other"). Prints READY a second before that, when all ranks have made their steps.
"""
import datetime
import os
import sys
import threading
import time

import torch

RANK, WORLD = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
STEPS = 5


def read_slowly():
    while True:
        time.sleep(1000)


def count_for_ever():
    n = 0
    while True:
        n += 1


def reduce_instead():
    torch.distributed.barrier()
    torch.cuda.synchronize()


TROUBLES = {"asleep": read_slowly, "loops": count_for_ever, "other": reduce_instead}


def train_step(tensor, n, trouble):
    if n == STEPS and RANK == WORLD - 1:
        TROUBLES[trouble]()
    torch.distributed.all_reduce(tensor)
    torch.cuda.synchronize()


def answer():
    from torch._C import _distributed_c10d
    for _ in sys.stdin:
        print(_distributed_c10d._dump_nccl_trace_json(True, False).decode(), flush=True)


def main():
    trouble, store = sys.argv[1:]
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
    torch.distributed.init_process_group("nccl", init_method="file://" + store, rank=RANK, world_size=WORLD,
                                         timeout=datetime.timedelta(hours=1))
    tensor = torch.ones(1 << 20, device="cuda")
    keep = [torch.empty(1 << 20, device="cuda") for _ in range(16 * (RANK + 1))]
    for n in range(STEPS):
        train_step(tensor, n, trouble)
    threading.Thread(target=answer, daemon=True).start()
    threading.Timer(1, lambda: print("READY", flush=True)).start()
    train_step(tensor, STEPS, trouble)
    del keep


if __name__ == "__main__":
    main()
