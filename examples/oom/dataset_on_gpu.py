# SPDX-License-Identifier: Apache-2.0
"""The data set on the GPU: all samples are there, and one batch is used at a time.

Remedy: samples in (pinned) host memory, and batch.to("cuda", non_blocking=True).
"""
import torch
from scene import MIB, REMEDY, allocated, done, fits, limit, start, wait
from torch.utils.data import DataLoader, TensorDataset

SAMPLES, WIDTH = 65536, 512


def train(model, loader):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for number, (x, y) in enumerate(loader):
        x, y = x.to("cuda", non_blocking=True), y.to("cuda", non_blocking=True)
        optimizer.zero_grad()
        (model(x).squeeze(1) - y).square().mean().backward()
        optimizer.step()
        if number == 4:
            break


def main():
    start()
    limit(208 * MIB)
    begin = allocated()
    where = "cpu" if REMEDY else "cuda"
    train_set = TensorDataset(torch.zeros(SAMPLES, WIDTH, device=where), torch.zeros(SAMPLES, device=where))
    loader = DataLoader(train_set, batch_size=2048)
    model = torch.nn.Sequential(torch.nn.Linear(WIDTH, 4096), torch.nn.ReLU(), torch.nn.Linear(4096, 1)).cuda()
    finished = fits(train, model, loader)
    held = sum(t.untyped_storage().nbytes() for t in train_set.tensors)
    used = allocated() - begin
    if REMEDY:
        done(finished and used < held / 4, held=held, used=used)
    wait(held=held, used=used)


if __name__ == "__main__":
    main()
