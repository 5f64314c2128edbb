#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A fake job on the simulated device: ranks with loader workers, one of them in trouble.

triage_job.py [--ranks N] [--workers N] [--mib N] [--threads N] [--trouble WHAT] [--of RANK]

The launcher (call a link to this file torchrun, and it is one) starts the ranks with what torchrun sets in the environment. Every rank
takes memory of the device, gets a batch from a real DataLoader, and then waits in all_reduce(); so does rank --of, unless WHAT is

  elsewhere  it waits in another function
  loop       it runs an endless loop
  oom        it tries again and again to get more memory than there is
  stopped    it waits for a batch: its first loader worker was stopped by SIGSTOP
  sleep      it waits for a batch: its first loader worker sleeps uninterruptibly, in vfork()
  keeps      it waits there, too, but keeps the graph of what it computed (600 MiB)
  trains     all of them have trained a small model, and it keeps the graphs of more losses than they; what their blocks are is told, too
  allocates  it takes memory and gives it back, again and again
  killed     it was killed; the launcher does not collect it

The launcher prints "READY" and a JSON object, {"ranks": [pid...], "workers": [[pid...]...]}, when all are in their places ("trains":
also "truth", [{category: bytes...}...]), and ends with its standard input; the others end with it. There is no library for collectives here: all_reduce() waits for bytes that never come.
"""
import argparse
import ctypes
import functools
import json
import os
import signal
import subprocess
import sys
import threading
import time

PR_SET_PDEATHSIG = 1
NOTHING = os.pipe()
LIBC = ctypes.PyDLL(None)  # it keeps the GIL: nothing else runs in the child of vfork()


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--mib", type=int, default=20)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--trouble", default="none")
    parser.add_argument("--of", type=int, default=1)
    return parser.parse_args()


def end_with_parent():
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


# ---- a rank ----

def tell(word):
    os.write(1, (word + "\n").encode())


def wait_for_ever():
    os.read(NOTHING[0], 1)


def all_reduce():
    os.read(NOTHING[0], 1)


def save_metrics():
    os.read(NOTHING[0], 1)


def spin():
    while True:
        pass


def allocate_again():
    import torch
    while True:
        try:
            torch.empty(1 << 40, dtype=torch.uint8, device="cuda")
        except torch.OutOfMemoryError:
            pass


def keep():
    import torch
    weight = torch.empty(150 << 20, device="cuda", requires_grad=True)  # what is saved is as much
    kept = [weight.exp().sum()]
    all_reduce()
    return kept


def block_sizes():
    """Of the blocks in use, by address: PyTorch's own list."""
    import torch
    sizes = {}
    for segment in torch.cuda.memory_snapshot():
        address = segment["address"]
        for block in segment["blocks"]:
            if block["state"] == "active_allocated":
                sizes[address] = block["size"]
            address += block["size"]
    return sizes


def tell_truth(**tensors):
    """What the blocks are, as this program knows; it must know all."""
    sizes = block_sizes()
    truth = {category: sum(sizes.pop(t.data_ptr()) for t in some) for category, some in tensors.items()}
    assert not sizes, sizes
    tell("truth " + json.dumps(truth))


def train(held, n_kept):
    import torch

    class Scale(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(8 << 20, device="cuda"))

        def forward(self, batch):
            return (batch * self.weight).exp().sum()

    model = Scale()
    batch = torch.ones(8 << 20, device="cuda")
    optimizer = torch.optim.Adam(model.parameters())
    model(batch).backward()
    optimizer.step()
    losses = [model(batch) for _ in range(n_kept)]
    state = optimizer.state[model.weight]
    tell_truth(parameter=[model.weight], gradient=[model.weight.grad], optimizer=[state["exp_avg"], state["exp_avg_sq"]],
               activation=[loss.grad_fn.next_functions[0][0]._saved_result for loss in losses], input=[batch], frame=[held, *losses])
    del state
    all_reduce()


def allocate_and_free():
    import torch
    while True:
        torch.empty(1 << 20, dtype=torch.uint8, device="cuda")


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def sleep_uninterruptibly():
    if LIBC.vfork() == 0:
        end_with_parent()
        time.sleep(600)


def read_sample(trouble):
    time.sleep(0.5)  # a thread of its own sends the batch before
    if trouble == "stopped":
        os.kill(os.getpid(), signal.SIGSTOP)
    elif trouble == "sleep":
        sleep_uninterruptibly()


class Samples:
    """The first worker gets into trouble with the second batch."""

    def __init__(self, trouble):
        self.trouble = trouble

    def __len__(self):
        return 1000

    def __getitem__(self, index):
        import torch
        end_with_parent()
        if index and torch.utils.data.get_worker_info().id == 0:
            read_sample(self.trouble)
        return index


TROUBLES = {"elsewhere": save_metrics, "loop": spin, "oom": allocate_again, "keeps": keep, "allocates": allocate_and_free,
            "killed": die}


def run_rank(args, trouble):
    import torch
    import torch.utils.data
    end_with_parent()
    batches = None
    if args.workers:
        loader = torch.utils.data.DataLoader(Samples(trouble), batch_size=None, num_workers=args.workers, prefetch_factor=2)
        batches = iter(loader)
        next(batches)
    held = torch.empty(args.mib << 20, dtype=torch.uint8, device="cuda")
    for _ in range(args.threads):
        threading.Thread(target=wait_for_ever, daemon=True).start()
    tell("workers " + " ".join(str(worker.pid) for worker in batches._workers) if batches else "workers")
    if args.trouble == "trains":
        train(held, 18 if trouble == "trains" else 1)
    if trouble in ("stopped", "sleep"):
        while True:
            next(batches)
    TROUBLES.get(trouble, all_reduce)()
    return held


# ---- the launcher ----

def start_rank(args, rank):
    env = dict(os.environ, RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(args.ranks), TORCHELASTIC_RUN_ID="4711")
    # Python finds itself by the name of the file that it was started with.
    argv = [sys.executable, os.path.realpath(__file__), *sys.argv[1:]]
    if "torch" in sys.modules:  # a child of the nursery's
        import forked
        return forked.Forked(argv, env, functools.partial(be_rank, args, rank))
    return subprocess.Popen(argv, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)


def state(pid):
    with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
        return file.read().rpartition(")")[2].split()[0]


def wait_for(pid, letters):
    while state(pid) not in letters:
        time.sleep(0.01)


def be_rank(args, rank):
    run_rank(args, args.trouble if rank == args.of else "none")


def launch(args):
    ranks = [start_rank(args, rank) for rank in range(args.ranks)]
    workers = [[int(word) for word in rank.stdout.readline().split()[1:]] for rank in ranks]
    told = {"truth": [json.loads(rank.stdout.readline().split(None, 1)[1]) for rank in ranks]} if args.trouble == "trains" else {}
    letters = {"stopped": "T", "sleep": "D"}.get(args.trouble)
    if letters:
        wait_for(workers[args.of][0], letters)
    for number, rank in enumerate(ranks):
        wait_for(rank.pid, {"loop": "R", "oom": "RS", "allocates": "RS", "killed": "Z"}.get(args.trouble, "S") if number == args.of else "S")
    print("READY " + json.dumps({"ranks": [rank.pid for rank in ranks], "workers": workers, **told}), flush=True)
    sys.stdin.read()
    # Their workers end with them.
    for rank in ranks:
        rank.kill()
        rank.wait()


def main():
    args = parse()
    if "RANK" not in os.environ:
        launch(args)
        return
    be_rank(args, int(os.environ["RANK"]))


if __name__ == "__main__":
    main()
