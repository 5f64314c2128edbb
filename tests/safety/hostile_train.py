# SPDX-License-Identifier: Apache-2.0
"""hostile_train.py STATS_FILE [cuda]: PyTorch that trains the same model from the same seed again and again, on a real device with "cuda".
Each epoch must end with the same bits, and on the (simulated) device with the same memory as the first. The file is that of victim.h."""
import hashlib
import mmap
import os
import signal
import struct
import sys
import threading

import torch

HEAD, THREAD, MAX_THREADS = 16 + 160, 4 * 8 + 32, 40
UNHARMED, HARMED = 42, 43  # spy.h
STEPS = 12
DEVICE = sys.argv[2] if len(sys.argv) > 2 else "cpu"  # what the simulated one computes is all zeros

with open(sys.argv[1], "r+b") as f:
    stats = mmap.mmap(f.fileno(), HEAD + MAX_THREADS * THREAD)
rounds = errors = 0


def end(*_):
    os._exit(HARMED if errors else UNHARMED)


def epoch():
    torch.manual_seed(7)
    model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 8)).to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    digest, kept = hashlib.sha256(), []
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = model(torch.randn(32, 64).to(DEVICE)).square().mean()
        loss.backward()
        optimizer.step()
        digest.update(struct.pack("<f", loss.item()))
        kept.append(torch.empty(1 << 12 + step % 6, dtype=torch.uint8, device="cuda"))
        if step % 3 == 2:
            kept.pop(0)
    for p in model.parameters():
        host = p.detach().cpu()
        digest.update(host.numpy().tobytes() if HAVE_NUMPY else bytes(host.view(torch.uint8).flatten().tolist()))
    torch.cuda.synchronize()
    return digest.hexdigest(), torch.cuda.memory_allocated(), len(kept)


try:
    import numpy  # noqa: F401
    HAVE_NUMPY = True
except ImportError:
    HAVE_NUMPY = False
torch.set_num_threads(1)
os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
torch.use_deterministic_algorithms(DEVICE != "cpu")
signal.signal(signal.SIGTERM, end)
epoch()
wanted = epoch()
struct.pack_into("<QQQQ31s", stats, HEAD, threading.get_native_id(), 0, 0, 0, b"train")
struct.pack_into("<QQ", stats, 0, 1, 1)
while True:
    got = epoch()
    if got != wanted:
        errors += 1
        struct.pack_into("159s", stats, 16, f"epoch {rounds}: {got} is not {wanted}".encode())
    rounds += 1
    struct.pack_into("<QQ", stats, HEAD + 8, rounds, errors)
