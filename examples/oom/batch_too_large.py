# SPDX-License-Identifier: Apache-2.0
"""A batch that is too large: the activations of one forward pass need more than there is.

Remedy: a smaller batch, as many times (gradient accumulation); or torch.utils.checkpoint.
"""
import torch
from scene import REMEDY, done, fits, room, start, wait

WIDTH, LAYERS = 1024, 16


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS))

    def forward(self, x):
        for layer in self.layers:
            x = torch.relu(layer(x))
        return x


def train(model, optimizer, batch, parts):
    for part in batch.chunk(parts):
        (model(part).square().mean() / parts).backward()
    optimizer.step()
    optimizer.zero_grad()


def main():
    start()
    model = Net().cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    # Each layer saves its output, in four bytes: one half too many for the device.
    size = int(room() * 1.5 / (LAYERS * WIDTH * 4))
    batch = torch.randn(size, WIDTH, device="cuda")
    if REMEDY:
        done(fits(train, model, optimizer, batch, 4), batch=size, parts=4)
    try:
        train(model, optimizer, batch, 1)
    except torch.cuda.OutOfMemoryError:
        wait(batch=size, request=size * WIDTH * 4)


if __name__ == "__main__":
    main()
