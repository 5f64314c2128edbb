# SPDX-License-Identifier: Apache-2.0
"""What a program knows about its own tensors: the truth that tests/functional/owners_truth.py compares a report with.

For each piece of memory: address, size, which case it is, the categories that are right, patterns of which one must match the
whole name, and dtype, shape and requires_grad of the tensor that is named. Nothing here holds a tensor. Parameters, gradients,
states of optimizers and what graphs saved are listed after the report was made (serve()), since asking for them makes Python
objects."""
import json
import os
import re
import sys
import sysconfig

import torch

DEVICE = os.environ.get("OWNERS_DEVICE", "cuda")
PLANTED = []
SKIPPED = []


def skip(case, why):
    """A case that this release of Python or PyTorch does not have. Tests print these."""
    SKIPPED.append("%s: %s" % (case, why))


def local_of(tensor):
    """Of a DTensor the part that is here: its data is in another tensor, _local_tensor."""
    return getattr(tensor, "_local_tensor", tensor)


def memory_of(tensor):
    """(address, bytes) of what the tensor is in; None where that is not memory of the device."""
    tensor = local_of(tensor)
    if not isinstance(tensor, torch.Tensor) or tensor.layout is not torch.strided:
        return None
    try:
        storage = tensor.untyped_storage()
        address = storage.data_ptr()
    except (RuntimeError, NotImplementedError):
        return None  # a fake tensor, a wrapper without storage
    if tensor.device.type != DEVICE or not address or not storage.nbytes():
        return None
    return address, storage.nbytes()


def expect(tensor, case, categories, *names, **facts):
    """Remembers the memory of a tensor. categories: one, several, or None for any of them.
    facts=False: another tensor than this one is named (a view of it was kept, say)."""
    memory = memory_of(tensor)
    if memory is None:
        raise ValueError("%s: no memory of the device" % case)
    known = {"address": memory[0], "bytes": memory[1], "case": case, "names": list(names),
             "categories": [categories] if isinstance(categories, str) else categories and list(categories)}
    if facts.get("facts", True) and local_of(tensor) is tensor:
        known.update(dtype=str(tensor.dtype).replace("torch.", ""), shape=list(tensor.shape), requires_grad=tensor.requires_grad)
    PLANTED.append(known)
    return tensor


def new(elements=1000):
    """A tensor of a size of its own, so that no two cases are alike."""
    new.n += 1
    return torch.zeros(elements + 8 * new.n, device=DEVICE)


new.n = 0


def plant(case, categories, *names, **facts):
    return expect(new(facts.pop("elements", 1000)), case, categories, *names, **facts)


# ---- what is listed after the report was made ----

def known_addresses():
    return {known["address"] for known in PLANTED}


def written(path):
    """layers.0.weight as vramtap writes it: layers[0].weight. A pattern."""
    return re.escape(re.sub(r"(^|\.)(\d+)(?=\.|$)", r"[\2]", path))


def below(root, path):
    """A part of a module that is called by the pattern root."""
    return root + (path if path.startswith(r"\[") else r"\." + path)


LOCAL_PART = r"(?:\._local_tensor)?"


def paths_of(module, which):
    """{id of a parameter or buffer: (itself, [all paths to it])}: tied ones have several."""
    found = {}
    for prefix, part in module.named_modules(remove_duplicate=False):
        for name, value in getattr(part, which).items():
            if value is not None:
                path = written((prefix + "." if prefix else "") + name)
                found.setdefault(id(value), (value, []))[1].append(path)
    return found


def any_of(patterns):
    return patterns[0] if len(patterns) == 1 else "(?:" + "|".join(patterns) + ")"


def list_module(module, *roots, **what):
    """Parameters, gradients and buffers of a module that variables with these names (patterns) hold; and, with
    optimizer=(itself, pattern of its name), what that keeps for each parameter."""
    optimizer, optimizer_name = what.get("optimizer", (None, None))
    for parameter, paths in paths_of(module, "_parameters").values():
        name = any_of([below(root, path) for root in roots for path in paths])
        if memory_of(parameter):
            expect(parameter, what.get("case", "parameter"), "parameter", name + LOCAL_PART)
        if memory_of(parameter.grad):
            expect(parameter.grad, "gradient", "gradient", name + r"\.grad" + LOCAL_PART)
        state = optimizer.state.get(parameter, {}) if optimizer else {}
        for key, value in state.items():
            if memory_of(value):
                expect(value, "optimizer state", "optimizer", r"%s\.state\[%s\]\['%s'\]%s" % (optimizer_name, name, re.escape(key), LOCAL_PART))
    for buffer, paths in paths_of(module, "_buffers").values():
        if memory_of(buffer):
            expect(buffer, "buffer", "buffer", any_of([below(root, path) for root in roots for path in paths]))


def nodes_of(roots):
    """Autograd's nodes that lead away from tensors, by a walk of our own."""
    nodes, seen = [root.grad_fn for root in roots if root is not None and root.grad_fn], set()
    while nodes:
        node = nodes.pop()
        if node in seen:
            continue
        seen.add(node)
        nodes += [following for following, _ in node.next_functions if following]
        yield node


def saved_by(node):
    for attribute in dir(node):
        if attribute == "saved_tensors" or attribute.startswith("_saved_"):
            try:
                value = getattr(node, attribute)
            except (RuntimeError, AttributeError):
                continue  # freed, or not PyTorch's own
            for one in value if isinstance(value, (list, tuple)) else [value]:
                if isinstance(one, torch.Tensor):
                    yield one


def list_graph(*roots):
    """What the nodes saved. One of those that saved a tensor must be named. Asking a node of a checkpoint computes anew: what
    is not in LIVE was not there before."""
    known, by_address = known_addresses(), {}
    for node in nodes_of(roots):
        for tensor in saved_by(node):
            memory = memory_of(tensor)
            if memory and memory[0] not in known and (not LIVE or memory[0] in LIVE):
                by_address.setdefault(memory, (set(), tensor))[0].add(type(node).__name__)
        leaf = getattr(node, "variable", None)  # AccumulateGrad's
        for tensor, category, suffix in ((leaf, "activation", ""), (getattr(leaf, "grad", None), "gradient", r"\.grad")):
            memory = memory_of(tensor)
            if memory and memory[0] not in known | set(address for address, _ in by_address):
                known.add(memory[0])
                expect(tensor, "leaf that only a graph holds", category, r".+\.variable" + suffix)
    for classes, tensor in by_address.values():
        expect(tensor, "saved by a graph", "activation", r"saved by (?:%s) ← .+" % "|".join(sorted(map(re.escape, classes))),
               facts=False)


def tensors_in(value, depth=3):
    if isinstance(value, torch.Tensor):
        yield value
    elif depth and isinstance(value, (list, tuple, set, frozenset)) and len(value) < 1000:
        for one in value:
            yield from tensors_in(one, depth - 1)
    elif depth and isinstance(value, dict) and len(value) < 1000:
        for one in list(value.values()):
            yield from tensors_in(one, depth - 1)


def running():
    """(frame, name, value) of all variables of functions that run, in all threads, but of this file's own."""
    for innermost in sys._current_frames().values():  # noqa: SLF001
        frame = innermost
        while frame:
            if frame.f_code.co_filename != __file__ and frame.f_locals is not frame.f_globals:
                for name, value in list(frame.f_locals.items()):
                    yield frame, name, value
            frame = frame.f_back


def list_running():
    """What graphs saved that variables of running functions lead to; then, what only such a variable holds."""
    list_graph(*(tensor for _, _, value in running() for tensor in tensors_in(value)))
    known, names, found = known_addresses(), {}, {}
    for frame, name, value in running():
        for tensor in tensors_in(value):
            memory = memory_of(tensor)
            if memory and memory[0] not in known:
                found[memory[0]] = tensor
                names.setdefault(memory[0], set()).add(r"%s.* in .*%s \(%s:\d+\).*" % (
                    re.escape(name), re.escape(frame.f_code.co_name), re.escape(os.path.basename(frame.f_code.co_filename))))
    for address, tensor in found.items():
        expect(tensor, "variable of a function that runs", None, *sorted(names[address]), facts=False)


def expect_block(address, size, case, categories, *names):
    PLANTED.append({"address": address, "bytes": size, "case": case, "categories": categories and list(categories),
                    "names": list(names)})


def list_workspaces():
    """Those of cuBLAS are what goes when PyTorch is told to give them up: the last to be listed, and after the report."""
    clear = getattr(torch._C, "_cuda_clearCublasWorkspaces", None)  # noqa: SLF001
    if DEVICE != "cuda" or not clear:
        return
    before = live_blocks()
    clear()
    after = {address for address, _ in live_blocks()}
    for address, size in before:
        if address not in after:
            expect_block(address, size, "workspace", ["workspace"], r"workspace of cuBLAS(Lt)?")


def list_graph_pools():
    """Blocks in the private pools of CUDA graphs that nothing else tells of."""
    known = known_addresses()
    for segment in torch.cuda.memory_snapshot() if DEVICE == "cuda" else []:
        if tuple(segment.get("segment_pool_id", (0, 0))) == (0, 0):
            continue
        for block in segment["blocks"]:
            if block["state"] == "active_allocated" and block["address"] in LIVE and block["address"] not in known:
                expect_block(block["address"], block["size"], "pool of a CUDA graph",
                             ("graph_pool", "activation", "gradient", "input", "frame", "python", "native"), r".*")


# ---- telling ----

LIVE = set()  # addresses of blocks in use, when telling began


def live_blocks():
    """What PyTorch itself says of its blocks in use. PyTorch 2.0 gives no addresses; blocks lie one after the other."""
    if DEVICE != "cuda":
        return None
    live = []
    for segment in torch.cuda.memory_snapshot():
        address = segment["address"]
        for block in segment["blocks"]:
            if block["state"] == "active_allocated":
                live.append([address, block["size"]])
            address += block["size"]
    return live


def tell(path, *listers):
    blocks = live_blocks()
    LIVE.update(address for address, _ in blocks or [])
    for lister in listers:
        lister()
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"truth": PLANTED, "skipped": SKIPPED, "blocks": blocks, "python": sys.version.split()[0],
                   "free_threaded": bool(sysconfig.get_config_var("Py_GIL_DISABLED")), "torch": torch.__version__}, file)


def serve(*listers):
    """Stays in the state that is reached. On a line with a path, tells the truth into that file. Never returns."""
    print("ready", flush=True)
    for line in sys.stdin:
        tell(line.strip(), *listers)
        print("ok", flush=True)
    os._exit(0)
