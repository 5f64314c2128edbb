# SPDX-License-Identifier: Apache-2.0
"""One rank of a training job over NCCL that gets stuck: RANK, LOCAL_RANK and WORLD_SIZE are in the environment.

usage: triage_rank.py TROUBLE STORE

After some steps the last rank does not come to the collective, but gets into TROUBLE, one of the functions in TROUBLES; with "none" all
go on for ever, and check what comes out. Prints READY a second after that, when all ranks have made their steps. Answers each line of standard input with one:

  tell  what its own flight recorder tells it
  steps with "none": how many there were so far, how many of them came out wrong, and how long the longest took since the last question
  end   the capture that "captures" began: what CUDA said of its begin and of its end
"""
import ctypes
import datetime
import json
import os
import signal
import sys
import threading
import time

import torch
import torch.utils.data

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "targets"))
import graph_capture

RANK, WORLD = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
STEPS = 5
PR_SET_PDEATHSIG = 1
BEFORE_READY = 2  # seconds: what keeps the GIL, or all threads, comes after READY
CAPTURE = None  # graph_capture.Capture
LIBC = ctypes.PyDLL(None)  # it keeps the GIL: nothing else runs in the child of vfork()


def end_with_parent():
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


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


def wait_in_the_kernel():
    time.sleep(BEFORE_READY)
    if LIBC.vfork() == 0:
        end_with_parent()
        time.sleep(600)


def allocate_again():
    """Nothing but what PyTorch has cached is left, and the device is busy: giving that back waits for it."""
    free, total = torch.cuda.mem_get_info()
    part = min(free // 4, 4 << 30)
    torch.cuda.set_per_process_memory_fraction((torch.cuda.memory_reserved() + part + part // 2) / total)
    cached = torch.empty(part, dtype=torch.uint8, device="cuda")
    del cached
    torch.cuda._sleep(600 * 10**9)
    torch.empty(part + part // 4, dtype=torch.uint8, device="cuda")


def allocate_too_much():
    try:
        torch.empty(1 << 50, dtype=torch.uint8, device="cuda")
    except torch.OutOfMemoryError:
        read_slowly()


def die():
    time.sleep(BEFORE_READY)
    os.kill(os.getpid(), signal.SIGKILL)


def stop():
    time.sleep(BEFORE_READY)
    os.kill(os.getpid(), signal.SIGSTOP)


def capture():
    """The device is busy, an operation of the group waits behind that, and a graph is captured."""
    global CAPTURE
    torch.cuda._sleep(600 * 10**9)
    torch.distributed.all_reduce(torch.ones(1 << 20, device="cuda"), async_op=True)
    CAPTURE = graph_capture.Capture(torch.cuda.current_device())
    read_slowly()


class Samples:
    def __len__(self):
        return 1 << 30

    def __getitem__(self, index):
        end_with_parent()
        if index == 1:
            self.read_sample()
        return index

    def read_sample(self):
        time.sleep(0.5)  # a thread of its own sends the batch before
        os.kill(os.getpid(), signal.SIGSTOP)


def next_batch():
    for _ in torch.utils.data.DataLoader(Samples(), batch_size=None, num_workers=1):
        pass


TROUBLES = {
    "asleep": read_slowly, "loops": count_for_ever, "other": reduce_instead, "naps": wait_in_the_kernel, "retries": allocate_again,
    "fails": allocate_too_much, "dies": die, "stops": stop, "loads": next_batch, "captures": capture,
}


def train_step(tensor, n, trouble):
    if n == STEPS and RANK == WORLD - 1 and trouble != "none":
        TROUBLES[trouble]()
    torch.distributed.all_reduce(tensor)
    torch.cuda.synchronize()


class Training:
    steps = wrong = 0
    longest = 0.0

    @classmethod
    def go_on(cls, tensor):
        begin = time.monotonic()
        while True:
            tensor.fill_(RANK + 1)
            torch.distributed.all_reduce(tensor)
            cls.wrong += tensor[cls.steps % len(tensor)].item() != WORLD * (WORLD + 1) / 2
            cls.steps += 1
            now = time.monotonic()
            cls.longest, begin = max(cls.longest, now - begin), now

    @classmethod
    def tell(cls):
        longest, cls.longest = cls.longest, 0.0
        return json.dumps({"steps": cls.steps, "wrong": cls.wrong, "longest_ms": longest * 1e3})


def tell():
    from torch._C import _distributed_c10d
    told = _distributed_c10d._dump_nccl_trace_json(True, False).decode()
    if '"entries"' not in told and "ProcessGroupNCCL2" in dir(_distributed_c10d):  # 2.15
        told = _distributed_c10d._dump_fr_trace_json(True, False, "nccl2").decode()
    return told


def answer():
    # Not sys.stdin: its lock would be held for ever in loader workers, which close it.
    while line := os.read(0, 4096):
        print({b"tell\n": tell, b"steps\n": Training.tell, b"end\n": lambda: json.dumps(CAPTURE.end())}[line](), flush=True)


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
    if trouble == "none":
        Training.go_on(tensor)
    train_step(tensor, STEPS, trouble)
    del keep


if __name__ == "__main__":
    main()
