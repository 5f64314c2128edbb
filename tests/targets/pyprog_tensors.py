# SPDX-License-Identifier: Apache-2.0
"""pyprog_tensors.py: tensors of all sorts as local variables of a parked function; prints "= NAME TEXT" for each, the text as
a reader should show it, then "ready"."""
import sys

import torch


def text(t):
    kind, size = type(t).__name__, t.untyped_storage().nbytes()
    return "%s(%s, %s, %s, storage %d bytes)" % (kind, str(t.dtype).replace("torch.", ""), tuple(t.shape), t.device, size)


class Derived(torch.Tensor):
    pass


class Tensor:
    """Not PyTorch's."""


def park(names, unread):
    for name, value in names.items():
        if name in unread:
            print("=", name, "<%s>" % type(value).__name__)
        else:
            print("=", name, text(value))
    print("ready", flush=True)
    sys.stdin.read()


def main():
    device = "cuda" if torch.cuda.is_available() else "cpu"

    def work():
        scalar, vector, matrix = torch.tensor(1.5), torch.zeros(3), torch.zeros(3, 4, device=device)
        empty, no_rows = torch.empty(0), torch.empty(0, 5)
        five, six, deep = torch.zeros(1, 2, 3, 1, 2), torch.zeros(1, 2, 1, 2, 1, 2), torch.zeros([1] * 12 + [3])
        view, transposed, expanded = matrix[1:, 2], matrix.t(), torch.zeros(1).expand(1000)
        overlapping = torch.zeros(10).as_strided((4, 4), (2, 1))
        types = torch.bfloat16, torch.int8, torch.bool, torch.complex64, torch.float16, torch.uint8, torch.int64, torch.float64
        bf16, i8, boolean, c64, f16, u8, i64, f64 = [torch.empty(2, dtype=d, device=device) for d in types]
        fp8 = torch.empty(7, dtype=torch.float8_e4m3fn)
        parameter = torch.nn.Parameter(torch.zeros(5, 5, device=device))
        weight = torch.nn.Linear(2, 2).weight
        gradient = (parameter * 2).sum()
        derived, not_ours = torch.zeros(2).as_subclass(Derived), Tensor()
        meta = torch.empty(10, 10, device="meta")
        sparse = torch.eye(3).to_sparse()
        del types
        names = dict(locals())
        names.pop("device", None)
        park(names, ("derived", "not_ours", "meta", "sparse"))

    work()


main()
