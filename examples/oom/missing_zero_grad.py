# SPDX-License-Identifier: Apache-2.0
"""A missing zero_grad(): gradients of one step are still there while the next one computes its activations, and are added to.
The training is wrong as well, but nobody sees that.

Remedy: optimizer.zero_grad() before the forward pass. It drops them (set_to_none=True is the default), so that the device has
room for gradients or activations, not both.
"""
import torch
from scene import MIB, REMEDY, done, empty, fits, limit, start, wait


class Watched(torch.nn.Module):
    """The last layer, which needs more than the others: there is room for that or for the gradients."""
    waits = False

    def forward(self, x):
        if self.waits:
            report(self)
        return x


start()
limit(352 * MIB)
model = torch.nn.Sequential(*(torch.nn.Linear(2048, 2048) for _ in range(4)), Watched()).cuda()
optimizer = torch.optim.AdamW(model.parameters())


def gradients():
    return sum(p.grad.numel() * 4 for p in model.parameters() if p.grad is not None)


def report(_):
    served = fits(empty, 144 * MIB)
    if REMEDY:
        done(served and gradients() == 0, gradients=gradients())
    wait(gradients=gradients(), steps=20)


def step():
    if REMEDY:
        optimizer.zero_grad()
    loss = model(torch.randn(64, 2048, device="cuda")).square().mean()
    loss.backward()
    optimizer.step()


def main():
    for _ in range(20):
        step()
    model[-1].waits = True
    step()


if __name__ == "__main__":
    main()
