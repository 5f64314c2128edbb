# SPDX-License-Identifier: Apache-2.0
"""Graph history that is kept: losses.append(loss) keeps the loss of each step, and with it the graph and all activations.

Remedy: losses.append(loss.detach()), or loss.item().
"""
import torch
from scene import MIB, REMEDY, allocated, done, start, wait

losses = []


def train(model, optimizer, steps):
    for _ in range(steps):
        loss = model(torch.randn(1024, 1024, device="cuda")).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        validation = model(torch.randn(1024, 1024, device="cuda")).square().mean()
        losses.append(validation.detach() if REMEDY else validation)


def main():
    start()
    model = torch.nn.Sequential(*(part for _ in range(4) for part in (torch.nn.Linear(1024, 1024), torch.nn.ReLU()))).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    train(model, optimizer, 2)
    begin = allocated()
    train(model, optimizer, 6)
    grown = allocated() - begin
    if REMEDY:
        done(grown < MIB, grown=grown)
    wait(grown=grown, items=len(losses))


if __name__ == "__main__":
    main()
