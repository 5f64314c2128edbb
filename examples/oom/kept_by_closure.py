# SPDX-License-Identifier: Apache-2.0
"""Dangling tensors in closures: a hook is registered at each step and never removed. What its function refers to stays.

Remedy: handle.remove(), or a hook that refers to no tensor.
"""
import torch
from scene import MIB, REMEDY, allocated, done, fits, limit, start, wait


def watch(model, step):
    """Compares the layer's output with that of this step."""
    before = torch.zeros(32 * MIB, dtype=torch.uint8, device="cuda")

    def compare(module, args, out):
        return None if before.numel() else out + step
    return model.register_forward_hook(compare)


def run(model, batch):
    for step in range(12):
        handle = watch(model, step)
        with torch.no_grad():
            model(batch)
        if REMEDY:
            handle.remove()


def main():
    start()
    model = torch.nn.Linear(256, 256, device="cuda")
    batch = torch.randn(64, 256, device="cuda")
    begin = allocated()
    limit(256 * MIB)
    finished = fits(run, model, batch)
    held = allocated() - begin
    if REMEDY:
        done(finished and held == 0, held=held)
    wait(held=held, hooks=len(model._forward_hooks))


if __name__ == "__main__":
    main()
