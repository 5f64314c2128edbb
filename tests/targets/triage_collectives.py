#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A job of ranks with real process groups of NCCL, on the simulated device: collectives there are over when all ranks have called them.

triage_collectives.py [--ranks N] [--of RANK] [--trouble WHAT] [--capture]

The launcher starts the ranks with what torchrun sets in the environment. Each makes the default group, groups of the even and of the odd
ranks and calls some collectives in each, and one more in the default group, all on the last device. Rank --of is in trouble there, unless WHAT is none:

  missing    it sleeps in skip_collective() and calls nothing
  subgroup   the same in its group of odd or even ranks
  different  it calls broadcast() where the others call all_reduce()
  none       nobody is: all ranks go on calling collectives, some milliseconds apart
  off        as missing, with the flight recorder off
  gil        as missing, and it keeps the GIL as it sleeps

With --capture a thread of each rank captures a graph at the same time.

The launcher prints "READY" and the ranks' pids in JSON when all are there. It answers lines on its standard input with a JSON list of what
each rank says: to "tell" what its own flight recorder tells it, and how many contexts it has created; to "end" what CUDA said of the begin and
the end of the capture. It ends with its standard input, and the ranks with it.
"""
import argparse
import ctypes
import functools
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time

import graph_capture

PR_SET_PDEATHSIG = 1
LIBC = ctypes.CDLL(None)


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--of", type=int, default=2)
    parser.add_argument("--trouble", default="missing")
    parser.add_argument("--capture", action="store_true")
    return parser.parse_args()


# ---- a rank ----

def skip_collective():
    print("there", flush=True)
    time.sleep(600)


def skip_with_gil():
    print("there", flush=True)
    ctypes.PyDLL(None).sleep(600)


def wait_in(collective, tensor, **kwargs):
    import torch
    collective(tensor, **kwargs)
    print("there", flush=True)
    torch.cuda.synchronize()


def go_on(tensor):
    import torch
    import torch.distributed as dist
    print("there", flush=True)
    for number in range(1 << 30):
        time.sleep((number * 7919 * (dist.get_rank() + 1)) % 13 / 1000)
        dist.all_reduce(tensor)
        torch.cuda.synchronize()


def tell():
    from torch._C import _distributed_c10d
    told = json.loads(_distributed_c10d._dump_nccl_trace_json(True, False))
    if "entries" not in told and "ProcessGroupNCCL2" in dir(_distributed_c10d):
        told = json.loads(_distributed_c10d._dump_fr_trace_json(True, False, "nccl2"))
    told["contexts_created"] = ctypes.c_int.in_dll(ctypes.CDLL("libsimcuda.so"), "simcuda_contexts_created").value
    return told


def answer(device, capture):
    import torch
    torch.cuda.set_device(device)
    for line in sys.stdin:
        print(json.dumps(tell() if line == "tell\n" else capture.end()), flush=True)


def run_rank(args, rank):
    import torch
    import torch.distributed as dist
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    device = torch.cuda.device_count() - 1
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", init_method="file://" + os.environ["STORE"], rank=rank, world_size=args.ranks)
    tensor = torch.ones(64, 32, device="cuda")
    halves = [dist.new_group(list(range(first, args.ranks, 2))) for first in (0, 1)]
    half = halves[rank % 2]
    for _ in range(3):
        dist.all_reduce(tensor)
    dist.all_gather([torch.empty_like(tensor) for _ in range(half.size())], tensor, group=half)
    torch.cuda.synchronize()
    capture = graph_capture.Capture(device) if args.capture else None
    threading.Thread(target=answer, args=(device, capture), daemon=True).start()
    trouble = args.trouble
    if trouble == "none":
        go_on(tensor)
    if rank != args.of:
        in_half = trouble == "subgroup" and rank % 2 == args.of % 2
        wait_in(dist.all_reduce, tensor, group=half if in_half else None)
    elif trouble == "different":
        wait_in(dist.broadcast, tensor, src=0)
    elif trouble == "gil":
        skip_with_gil()
    else:
        skip_collective()


# ---- the launcher ----

def start_rank(args, rank, store):
    env = dict(os.environ, RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(args.ranks), STORE=store)
    if args.trouble == "off":
        env["TORCH_FR_BUFFER_SIZE"] = "0"
    argv = [sys.executable, os.path.realpath(__file__), *sys.argv[1:]]
    if "torch" in sys.modules:  # a child of the nursery's
        import forked
        return forked.Forked(argv, env, functools.partial(run_rank, args, rank))
    return subprocess.Popen(argv, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def launch(args):
    with tempfile.TemporaryDirectory() as directory:
        ranks = [start_rank(args, rank, os.path.join(directory, "store")) for rank in range(args.ranks)]
        for rank in ranks:
            assert rank.stdout.readline() == "there\n"
        print("READY " + json.dumps([rank.pid for rank in ranks]), flush=True)
        for line in sys.stdin:
            for rank in ranks:
                rank.stdin.write(line)
                rank.stdin.flush()
            print(json.dumps([json.loads(rank.stdout.readline()) for rank in ranks]), flush=True)
        for rank in ranks:
            rank.kill()
            rank.wait()


def main():
    args = parse()
    if "RANK" in os.environ:
        run_rank(args, int(os.environ["RANK"]))
    else:
        launch(args)


if __name__ == "__main__":
    main()
