# SPDX-License-Identifier: Apache-2.0
"""Trains the same language model from the same seed, alone or as one rank of DistributedDataParallel over NCCL (RANK and WORLD_SIZE in the
environment), always with the same bits.

usage: survives_target.py STORE BATCH

Prints READY after the first steps. A line of standard input is a number of steps: the answer is the seconds that they took. "bits" answers
JSON: the last loss, a digest of all losses, and one of the parameters' and the optimizer's bits.
"""
import ctypes
import hashlib
import json
import os
import sys
import time

import torch

RANK, WORLD = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
LAYERS, WIDTH, HEADS, WORDS, LENGTH = 6, 768, 12, 4096, 256
BATCH = int(sys.argv[2])
WARM_UP = 20


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.words = torch.nn.Embedding(WORDS, WIDTH)
        layer = torch.nn.TransformerEncoderLayer(WIDTH, HEADS, 4 * WIDTH, dropout=0.1, batch_first=True)
        self.layers = torch.nn.TransformerEncoder(layer, LAYERS)
        self.head = torch.nn.Linear(WIDTH, WORDS)

    def forward(self, tokens):
        return self.head(self.layers(self.words(tokens)))


def bits(tensors, digest):
    for tensor in tensors:
        host = tensor.detach().cpu().contiguous()
        digest.update(ctypes.string_at(host.data_ptr(), host.nbytes))
    return digest.hexdigest()


def main():
    torch.use_deterministic_algorithms(True)
    torch.backends.cuda.enable_flash_sdp(False)  # what is left of attention is deterministic
    torch.backends.cuda.enable_mem_efficient_sdp(False)
    torch.backends.cuda.enable_cudnn_sdp(False)
    torch.cuda.set_device(RANK)
    torch.manual_seed(7)
    model = Model().cuda()
    if WORLD > 1:
        torch.distributed.init_process_group("nccl", init_method="file://" + sys.argv[1], rank=RANK, world_size=WORLD)
        model = torch.nn.parallel.DistributedDataParallel(model, device_ids=[RANK])
    torch.manual_seed(100 + RANK)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)

    def step():
        tokens = torch.randint(WORDS, (BATCH, LENGTH + 1), device="cuda")
        optimizer.zero_grad()
        out = model(tokens[:, :-1])
        loss = torch.nn.functional.cross_entropy(out.flatten(0, 1), tokens[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        return loss.detach()

    for _ in range(WARM_UP):
        step()
    torch.cuda.synchronize()
    print("READY", flush=True)
    losses = []
    for line in sys.stdin:
        if line == "bits\n":
            state = [value for one in optimizer.state.values() for value in one.values() if torch.is_tensor(value)]
            print(json.dumps({"losses": bits(losses, hashlib.sha256()), "state": bits([*model.parameters(), *state], hashlib.sha256()),
                              "last": losses[-1].item() if losses else None}), flush=True)
            continue
        begin = time.monotonic()
        losses += [step() for _ in range(int(line))]
        torch.cuda.synchronize()
        print(json.dumps(time.monotonic() - begin), flush=True)


main()
