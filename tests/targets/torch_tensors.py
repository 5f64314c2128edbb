# SPDX-License-Identifier: Apache-2.0
"""A PyTorch program that knows its tensors and graphs: torch_tensors.py DEVICE.

It says "ready". On a line of standard input it writes what it knows as JSON to the file of that name; asking a grad_fn what it
saved makes Python objects, so this is done after vramtap has read."""
import json
import sys
import time
import warnings

import torch
from torch import nn

warnings.simplefilter("ignore")  # of what is in beta
DEVICE = sys.argv[1]
keep = {}
packed = []


class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        return x * y

    @staticmethod
    def backward(ctx, grad):
        x, y = ctx.saved_tensors
        return grad * y, grad * x


def leaf(*shape, **kwargs):
    return torch.ones(*shape, device=DEVICE, requires_grad=True, **kwargs)


def plain_tensors():
    base = torch.zeros(64, 48, device=DEVICE)
    keep["base"] = base
    keep["view"] = base[3:7, 5:]
    keep["transposed"] = base.t()
    keep["detached"] = leaf(3).detach()
    keep["scalar"] = torch.tensor(1.0, device=DEVICE)
    keep["empty"] = torch.zeros(0, 3, device=DEVICE)
    keep["many dims"] = torch.zeros(1, 2, 1, 2, 1, 2, 1, 2, device=DEVICE)
    for dtype in (torch.float16, torch.bfloat16, torch.float64, torch.int8, torch.int64, torch.bool, torch.complex64):
        keep[str(dtype)] = torch.zeros(5, device=DEVICE, dtype=dtype)
    keep["leaf"] = leaf(4, 4)
    keep["no longer"] = leaf(4).requires_grad_(False)
    keep["later"] = torch.zeros(4, device=DEVICE).requires_grad_()
    keep["parameter"] = nn.Parameter(torch.zeros(7, device=DEVICE))
    keep["frozen"] = nn.Parameter(torch.zeros(7, device=DEVICE), requires_grad=False)


def pack(tensor):
    packed.append((tensor.clone(), 1))
    return packed[-1]


def unpack(pair):
    return pair[0]


def graphs():
    x = keep["x"] = leaf(8, 8)
    keep["product"] = (x * 2).sin() * x
    keep["concatenated"] = torch.cat([x, x.exp(), x.tanh()])
    keep["stacked"] = torch.stack([x, x])
    keep["own function"] = Double.apply(x, x.cos())
    keep["of output"] = x.sigmoid()
    keep["reduced"] = keep["product"].sum()
    hooked = keep["hooked"] = leaf(4)
    hooked.register_hook(lambda grad: None)
    middle = keep["middle"] = hooked * 3
    middle.register_hook(lambda grad: None)
    middle.retain_grad()
    middle.grad_fn.register_hook(lambda *grads: None)
    if hasattr(hooked, "register_post_accumulate_grad_hook"):
        hooked.register_post_accumulate_grad_hook(lambda tensor: None)
    changed = keep["changed"] = x.clone()
    changed[0].mul_(2)
    with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
        keep["packed"] = x.exp() * x
    model = keep["model"] = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 2)).to(DEVICE)
    model(x).sum().backward()
    keep["output"] = model(x)


def lost_graph():
    """A hook of a tensor that has no Python object any more."""
    big = torch.zeros(123, device=DEVICE)
    inner = leaf(3) * 2
    inner.register_hook(lambda grad: big.sum())
    inner.grad_fn.register_hook(lambda *grads: big.sum())
    keep["outer"] = inner + 1


def odd_tensors():
    keep["sparse"] = torch.sparse_coo_tensor([[0, 1], [1, 0]], [1.0, 2.0], (2, 2), device=DEVICE)
    keep["csr"] = torch.tensor([[0.0, 1.0], [2.0, 0.0]], device=DEVICE).to_sparse_csr()
    keep["nested"] = torch.nested.nested_tensor([torch.zeros(2, 3), torch.zeros(3, 3)], device=DEVICE)
    for i in range(16):
        for n in range(28, 36):  # vectors of pointers to tensors, which are left in the memory that comes next
            torch.cat([keep["base"]] * n)
        keep[f"functional {i}"] = torch._to_functional_tensor(torch.zeros(5, device=DEVICE))


def node_name(node):
    return type(node).__name__ if node is not None else None


def saved_of(node):
    found = set()
    for name in dir(node):
        if not (name.startswith("_saved_") or name == "saved_tensors"):
            continue
        try:
            value = getattr(node, name)
        except RuntimeError:
            continue
        for item in value if isinstance(value, (tuple, list)) else [value]:
            if isinstance(item, torch.Tensor) and item.layout == torch.strided and not item.is_nested:
                found.add(item.data_ptr())
    return sorted(found)


def graph_of(node):
    if node is None:
        return None
    return {"name": node_name(node), "saved": saved_of(node), "next": [node_name(next_) for next_, _ in node.next_functions]}


def tell(path):
    told = []
    for name, tensor in keep.items():
        if not isinstance(tensor, torch.Tensor):
            continue
        fact = {"name": name, "object": id(tensor), "shape": list(tensor.shape) if not tensor.is_nested else None}
        fact["requires_grad"] = tensor.requires_grad
        fact["dtype"] = str(tensor.dtype).split(".")[1]
        fact["strided"] = tensor.layout == torch.strided and name.split()[0] not in ("nested", "functional")
        if fact["strided"]:
            storage = tensor.untyped_storage() if hasattr(tensor, "untyped_storage") else tensor.storage().untyped()
            fact["storage"] = [storage.data_ptr(), storage.nbytes()]
            fact["first"] = tensor.storage_offset() * tensor.element_size()
            fact["data_ptr"] = tensor.data_ptr()
        if name == "sparse":
            fact["inner"] = [tensor._indices().data_ptr(), tensor._values().data_ptr()]
        if name == "csr":
            fact["inner"] = [tensor.crow_indices().data_ptr(), tensor.col_indices().data_ptr(), tensor.values().data_ptr()]
        if name == "packed":
            fact["packed"], fact["hooks"] = list(map(id, packed)), [id(pack), id(unpack)]
        if tensor.is_leaf and tensor.requires_grad and tensor.grad is not None:
            fact["grad"] = tensor.grad.data_ptr()
        fact["graph"] = graph_of(tensor.grad_fn)
        told.append(fact)
    with open(path, "w", encoding="utf-8") as file:
        json.dump(told, file)


plain_tensors()
graphs()
lost_graph()
odd_tensors()
print("ready", flush=True)
for line in sys.stdin:
    tell(line.strip())
    print("done", flush=True)
time.sleep(1000)
