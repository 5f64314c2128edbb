# SPDX-License-Identifier: Apache-2.0
"""Dangling tensors in a list: outputs of each step are kept on the device "for later", without a graph, and nobody drops them.

Remedy: keep what is needed on the CPU (or a number of it), and drop the rest.
"""
import torch
from scene import MIB, REMEDY, allocated, done, fits, limit, start, wait

outputs = []


def predict(model, batch):
    with torch.no_grad():
        out = model(batch)
    outputs.append(out[:1].cpu() if REMEDY else out)


def predict_all(model, batch):
    for _ in range(50):
        predict(model, batch)


def main():
    start()
    model = torch.nn.Linear(1024, 4096, device="cuda")
    batch = torch.randn(512, 1024, device="cuda")
    begin = allocated()
    limit(256 * MIB)
    finished = fits(predict_all, model, batch)
    grown = allocated() - begin
    if REMEDY:
        done(finished and grown < MIB, grown=grown)
    wait(grown=grown, items=len(outputs), held=sum(t.untyped_storage().nbytes() for t in outputs))


if __name__ == "__main__":
    main()
