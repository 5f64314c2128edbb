# SPDX-License-Identifier: Apache-2.0
"""A training program whose memory grows with each step, for trying vramtap on: for a plot at the end it keeps the loss on the
validation set, and with it the graph and all activations that made it. Remedy: losses.append(loss.detach()).

leak.py [SECONDS]: the time between two steps (default 0.5)
"""
import os
import sys
import time

import torch

losses = []


def validate(model, batch):
    loss = model(batch).square().mean()
    losses.append(loss)


def train_step(model, optimizer, batch):
    optimizer.zero_grad()
    model(batch).square().mean().backward()
    optimizer.step()


def main():
    pause = float(sys.argv[1]) if len(sys.argv) > 1 else 0.5
    model = torch.nn.Sequential(torch.nn.Linear(1024, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 1024)).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    training, validation = (torch.zeros(n, 1024, device="cuda") for n in (512, 16384))
    for step in range(1 << 30):
        train_step(model, optimizer, training)
        validate(model, validation)
        if step == 3:
            print("READY", os.getpid(), flush=True)
        time.sleep(pause)


if __name__ == "__main__":
    main()
