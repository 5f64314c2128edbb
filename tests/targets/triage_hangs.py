#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A training job that gets into trouble on request, and out of it again: real ranks over gloo, real loader workers, the simulated device.

triage_hangs.py --nap LIBRARY [--ranks N] [--workers N]

The launcher (call a link to this file torchrun, and it is one) starts the ranks with what torchrun sets in the environment, and prints
"READY". Then it does what lines on its standard input say, and answers each with "THERE " and a JSON object, {"ranks": [pid...],
"workers": [[pid...]...]}, when all are in their places:

  do WHAT RANK WHERE  that rank (-1 none) gets into trouble WHAT, one of the functions in TROUBLES; all others wait where WHERE says, in a
                      function of MEETINGS, to which the rank in trouble does not come before it is
  over                all leave, and meet
  reap RANK           collects a rank that was killed

WHAT can be "together": all ranks are at WHERE for themselves. It ends with its standard input, and the others with it. LIBRARY has
nap(flag, fd): it returns when *flag is not 0, and sleeps uninterruptibly until then.
"""
import argparse
import ctypes
import datetime
import json
import mmap
import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

PR_SET_PDEATHSIG = 1
LIBC = ctypes.CDLL(None)
NAPPING, STOPPED, KILLED, LOCKED = 1, 2, 3, 4  # what a loader's worker is to do


class Shared:
    """Bytes that all processes of the job see: whether the trouble is over, and what the workers of a rank are to do."""

    def __init__(self, path):
        with open(path, "r+b") as file:
            self.map = mmap.mmap(file.fileno(), mmap.PAGESIZE)

    is_over = property(lambda self: self.map[0] != 0, lambda self, over: self.map.__setitem__(0, over))
    trouble = property(lambda self: self.map[1], lambda self, trouble: self.map.__setitem__(1, trouble))

    def address(self):
        return ctypes.addressof(ctypes.c_char.from_buffer(self.map))


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("--nap", required=True)
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--workers", type=int, default=1)
    return parser.parse_args()


def end_with_parent():
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


# ---- a rank, and its workers ----

class Samples:
    """What the first worker of the rank in trouble reads keeps it."""

    def __init__(self, rank, nap):
        self.rank, self.nap = rank, nap

    def __len__(self):
        return 1 << 30

    def __getitem__(self, index):
        import torch
        end_with_parent()
        if torch.utils.data.get_worker_info().id == 0 and SHARED.map[2] == self.rank:
            self.read_sample(SHARED.trouble)
        return index

    def read_sample(self, trouble):
        if trouble:
            time.sleep(0.2)  # a thread of its own sends the batch before
        if trouble == NAPPING:
            ctypes.CDLL(self.nap).nap(ctypes.c_void_p(SHARED.address()))
        elif trouble == STOPPED:
            os.kill(os.getpid(), signal.SIGSTOP)
        elif trouble == KILLED:
            os.kill(os.getpid(), signal.SIGKILL)
        elif trouble == LOCKED:
            self.take_twice(multiprocessing.Lock())

    def take_twice(self, lock):
        """A lock that its own process holds already; a thread gives it back when the trouble is over."""
        lock.acquire()
        threading.Thread(target=release_when_over, args=[lock], daemon=True).start()
        lock.acquire()


def release_when_over(lock):
    while not SHARED.is_over:
        time.sleep(0.01)
    lock.release()


class Rank:
    def __init__(self, args):
        import torch
        import torch.distributed
        import torch.utils.data
        self.torch, self.distributed = torch, torch.distributed
        self.args, self.rank = args, int(os.environ["RANK"])
        torch.set_num_threads(1)
        torch.distributed.init_process_group("gloo", timeout=datetime.timedelta(hours=1))
        self.pairs = [torch.distributed.new_group([i, i + 1]) for i in range(0, args.ranks - 1, 2)]
        self.batches = self.load()
        next(self.batches)
        self.weight = torch.nn.Parameter(torch.zeros(256, 256))
        self.tensor = torch.zeros(1)
        self.held = torch.empty(20 << 20, dtype=torch.uint8, device="cuda")
        self.meetings = 0

    def load(self):
        return iter(self.torch.utils.data.DataLoader(Samples(self.rank, self.args.nap), batch_size=None, num_workers=self.args.workers))

    # -- places where ranks meet --

    def all_reduce(self):
        self.distributed.all_reduce(self.tensor)

    def barrier(self):
        self.distributed.barrier()

    def monitored_barrier(self):
        self.distributed.monitored_barrier(timeout=datetime.timedelta(hours=1))

    def store(self):
        store = self.distributed.distributed_c10d._get_default_store()
        if self.rank:
            store.wait(["nobody sets this"], datetime.timedelta(hours=1))
        else:
            store.get("nobody sets this")

    # -- what all ranks do, for themselves --

    def train(self):
        """Steps of some milliseconds, until rank 0 has seen that it is over."""
        stop = self.torch.zeros(1)
        while not stop.item():
            next(self.batches)
            (self.weight @ self.weight).sum().backward()
            self.distributed.all_reduce(self.weight.grad)
            with self.torch.no_grad():
                self.weight -= 0.1 * self.weight.grad
            self.torch.empty(1 << 20, dtype=self.torch.uint8, device="cuda").sum().item()
            stop[0] = self.rank == 0 and SHARED.is_over
            self.distributed.all_reduce(stop)

    def pairs_apart(self):
        """Two process groups, each in a collective of its own; the second of each pair computes yet."""
        group, first = self.pairs[self.rank // 2], self.rank // 2 * 2
        if self.rank % 2:
            spin()
        if self.rank < 2:
            self.distributed.all_reduce(self.tensor, group=group)
        else:
            self.distributed.broadcast(self.tensor, src=first, group=group)

    def pipeline(self):
        """Each second stage waits for the one before it, which computes."""
        if self.rank % 2:
            self.distributed.recv(self.tensor, src=self.rank - 1)
            return
        spin()
        self.distributed.send(self.tensor, dst=self.rank + 1)

    def work(self):
        spin()

    # -- one turn --

    def turn(self, what, of, where):
        tell("at")
        if what == "together":
            getattr(self, where)()
            return
        if self.rank == of:
            TROUBLES[what](self)
        getattr(self, where)()

    def run(self):
        tell("workers " + " ".join(str(worker.pid) for worker in self.batches._workers))
        for line in sys.stdin:
            what, of, where = line.split()
            self.turn(what, int(of), where)
            tell("workers " + " ".join(str(worker.pid) for worker in self.batches._workers))


def tell(word):
    os.write(1, (word + "\n").encode())


# ---- troubles ----

def save_metrics(rank):
    while not SHARED.is_over:
        time.sleep(0.01)


def spin(rank=None):
    while not SHARED.map[0]:
        pass


class Slow:
    """A file system that takes its time."""

    def write(self, data):
        while not SHARED.is_over:
            time.sleep(0.01)
        return len(data)

    def flush(self):
        pass


def save_checkpoint(rank):
    rank.torch.save({"weight": rank.weight}, Slow())


def evaluate(rank):
    with rank.torch.no_grad():
        while not SHARED.is_over:
            rank.weight @ rank.weight


def debug(rank):
    import pdb
    with open(os.devnull, "w", encoding="ascii") as nothing:
        pdb.Pdb(stdin=sys.stdin, stdout=nothing, nosigint=True).set_trace()


def allocate_again(rank):
    """There is memory enough, most of it in PyTorch's cache: the driver does not give it back in time."""
    cached = rank.torch.empty(60 << 20, dtype=rank.torch.uint8, device="cuda")
    del cached
    rank.torch.empty(80 << 20, dtype=rank.torch.uint8, device="cuda")


def allocate_too_much(rank):
    try:
        rank.torch.empty(1 << 40, dtype=rank.torch.uint8, device="cuda")
    except rank.torch.OutOfMemoryError:
        wait_for_memory()


def wait_for_memory():
    while not SHARED.is_over:
        time.sleep(0.01)


def drain(rank):
    for _ in range(20):
        next(rank.batches)


def lose_worker(rank):
    try:
        drain(rank)
    except RuntimeError:
        give_up()
    rank.batches = rank.load()


def give_up():
    while not SHARED.is_over:
        time.sleep(0.01)


def nap(rank):
    ctypes.CDLL(rank.args.nap).nap(ctypes.c_void_p(SHARED.address()))


def stop(rank):
    os.kill(os.getpid(), signal.SIGSTOP)


def die(rank):
    os.kill(os.getpid(), signal.SIGKILL)


TROUBLES = {
    "elsewhere": save_metrics, "loop": spin, "checkpoint": save_checkpoint, "evaluation": evaluate, "pdb": debug,
    "oom-retry": allocate_again, "oom-failed": allocate_too_much, "worker-sleeps": drain, "worker-stopped": drain, "worker-locked": drain,
    "worker-killed": lose_worker, "sleeps": nap, "stopped": stop, "killed": die, "none": lambda rank: None,
}
OF_WORKERS = {"worker-sleeps": NAPPING, "worker-stopped": STOPPED, "worker-killed": KILLED, "worker-locked": LOCKED}
# The final state of the process in trouble; of its worker, for those.
STATES = {"loop": "R", "evaluation": "R", "worker-sleeps": "D", "worker-stopped": "T", "worker-killed": "ZX", "sleeps": "D", "stopped": "T",
          "killed": "Z"}


# ---- the launcher ----

def state(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return "X"


def wait_for(pid, letters):
    while state(pid) not in letters:
        time.sleep(0.01)


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Launcher:
    def __init__(self, args, path):
        self.args, port = args, free_port()
        self.controls = [f"{path}.{rank}" for rank in range(args.ranks)]
        self.ranks = [self.start(rank, path, port) for rank in range(args.ranks)]
        self.workers = [self.workers_of(rank) for rank in range(args.ranks)]
        self.what, self.of = "none", -1

    def start(self, rank, path, port):
        env = dict(os.environ, RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(self.args.ranks), LOCAL_WORLD_SIZE=str(self.args.ranks),
                   TORCHELASTIC_RUN_ID="4711", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), GLOO_SOCKET_IFNAME="lo",
                   OMP_NUM_THREADS="1", SIMCUDA_CTL=self.controls[rank], TRIAGE_HANGS_SHARED=path)
        # Python finds itself by the name of the file that it was started with.
        argv = [sys.executable, os.path.realpath(__file__), *sys.argv[1:]]
        return subprocess.Popen(argv, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def hear(self, rank, word):
        for line in self.ranks[rank].stdout:
            words = line.decode(errors="replace").split()
            if words[:1] == [word]:
                return words[1:]
        sys.exit(f"rank {rank} has ended")

    def workers_of(self, rank):
        return [int(word) for word in self.hear(rank, "workers")]

    def tell(self, rank, line):
        self.ranks[rank].stdin.write((line + "\n").encode())
        self.ranks[rank].stdin.flush()

    def control(self, *words):
        subprocess.run([os.environ["TRIAGE_HANGS_CTL"], self.controls[self.of], *words], check=True, stdout=subprocess.DEVNULL)

    def do(self, what, of, where):
        self.what, self.of = what, int(of)
        SHARED.is_over, SHARED.map[2], SHARED.trouble = 0, self.of % 256, OF_WORKERS.get(what, 0)
        if what == "oom-retry":
            self.control("fault", "cudaFree:block")
        for rank in range(self.args.ranks):
            self.tell(rank, f"{what} {of} {where}")
        for rank in range(self.args.ranks):
            self.hear(rank, "at")
        if what in STATES:
            wait_for(self.workers[self.of][0] if what in OF_WORKERS else self.ranks[self.of].pid, STATES[what])
        time.sleep(0.3)
        for rank in range(self.args.ranks):
            if rank != self.of and what != "together":
                wait_for(self.ranks[rank].pid, "S")

    def over(self):
        SHARED.trouble, SHARED.is_over = 0, 1
        if self.what == "oom-retry":
            self.control("clear")
        elif self.what == "pdb":
            self.tell(self.of, "c")
        elif self.what in ("stopped", "worker-stopped"):
            os.kill(self.workers[self.of][0] if self.what in OF_WORKERS else self.ranks[self.of].pid, signal.SIGCONT)
        self.workers = [self.workers_of(rank) for rank in range(self.args.ranks)]

    def reap(self, rank):
        self.ranks[int(rank)].wait()

    def run(self):
        print("READY", flush=True)
        for line in sys.stdin:
            word, *words = line.split()
            getattr(self, word)(*words)
            print("THERE " + json.dumps({"ranks": [rank.pid for rank in self.ranks], "workers": self.workers}), flush=True)

    def end(self):
        for rank in self.ranks:
            rank.kill()
        for rank in self.ranks:
            rank.wait()


def main():
    global SHARED
    args = parse()
    if "RANK" in os.environ:
        end_with_parent()
        SHARED = Shared(os.environ["TRIAGE_HANGS_SHARED"])
        Rank(args).run()
        return
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "shared")
        with open(path, "wb") as file:
            file.truncate(mmap.PAGESIZE)
        SHARED = Shared(path)
        launcher = Launcher(args, path)
        try:
            launcher.run()
        finally:
            launcher.end()


if __name__ == "__main__":
    main()
