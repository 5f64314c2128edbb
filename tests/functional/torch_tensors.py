#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""PyTorch's objects as vramtap reads them are what the program itself says of them, for each release that is set up.

tests/targets/torch_tensors.py is read while it stands still, and then writes down what it knows. A quick run takes the tests' own
releases; with VRAMTAP_SOAK all of a cache are taken: VRAMTAP_CACHE=DIRECTORY."""
import json
import os
import subprocess

from harness import BUILD, CACHE, QUICK, SOURCE, Skip, check, equal, main, scratch
from nursery import Nursed
from report_torch import versions

TOOL = os.path.join(BUILD, "tests/functional/torch_tensors")
PROGRAM = os.path.join(SOURCE, "tests/targets/torch_tensors.py")

# src/walk/heap/graph.h
IMPL, IMPL_BORROWED, WRAPPER, STORAGE, META, GRAD, GRAD_FN, ACCUMULATOR, HOOKS, VIEW_BASE, NEXT, SAVED, VARIABLE, PY_NODE, \
    DATA = range(31, 46)
MAX_NUMBER = (1 << 26) - 1
SEEDS = 1 if QUICK else 2


class Node:
    def __init__(self, words):
        self.letter, self.addr = words[0], words[1]
        self.cls = words[2] if len(words) > 2 else None
        self.count, self.found = map(int, words[3:5]) if len(words) > 4 else (0, 0)
        self.facts = words[5:]
        self.edges = []

    def to(self, *kinds):
        return [addr for kind, _, addr in sorted(self.edges) if kind in kinds]


class Graph:
    def __init__(self, pid):
        done = subprocess.run([TOOL, str(pid)], capture_output=True, text=True, timeout=300, check=False)
        check(done.returncode == 0, "torch_tensors failed:", done.returncode, done.stderr)
        self.nodes = {}
        self.layout, *lines = done.stdout.splitlines()
        for line in lines:
            words = line.split()
            if line.startswith(" "):
                node.edges.append((int(words[0]), int(words[1]), words[2]))
            else:
                node = self.nodes[words[1]] = Node(words)

    def one(self, node, *kinds):
        ends = [addr for addr in node.to(*kinds) if addr in self.nodes] if node else []
        return self.nodes[ends[0]] if ends else None

    def data(self, tensor):
        """The data_ptr of a TensorImpl."""
        storage = self.one(tensor, STORAGE)
        if not storage or not tensor.facts:
            return None
        first, last = map(int, tensor.facts[1:3])
        return int(storage.facts[0], 16) + first if first < last else 0  # of no elements it says 0

    def hooks_of_lost(self, node):
        """Both hooks of the node before this one."""
        return len(self.one(node, NEXT).to(HOOKS)) == 2


def saved_data(graph, node):
    """The data_ptr of all that a Node, or its Python function, saved."""
    found = set()
    function = graph.one(node, PY_NODE)
    for addr in node.to(SAVED) + (function.to(SAVED) if function else []):
        saved = graph.nodes.get(addr)
        if saved and saved.letter == "t":
            found.add(graph.data(saved))
    return found


def python_name(graph, node):
    # PyNode is called as its class in Python, which is not told here.
    return "own" if node.cls == "PyNode" else node.cls


def expected_name(name):
    return "own" if name == "DoubleBackward" else name


def graph_errors(graph, fact, node):
    want = fact["graph"]
    name = fact["name"]
    if want is None or node is None:
        return [] if want is None and node is None else [f"{name}: grad_fn {node and node.cls}, not {want}"]
    errors = []
    if python_name(graph, node) != expected_name(want["name"]):
        errors.append(f"{name}: grad_fn is {node.cls}, not {want['name']}")
    # That of a saved variable with hooks has no number.
    next_ = [python_name(graph, graph.nodes[addr]) for kind, number, addr in sorted(node.edges)
             if kind == NEXT and number < MAX_NUMBER]
    if node.cls != "CopySlices" and next_ != [expected_name(n) for n in want["next"] if n]:
        errors.append(f"{name}: next {next_}, not {want['next']}")
    if name == "packed":
        saved, hooks = ([int(addr, 16) for addr in node.to(kind)] for kind in (SAVED, HOOKS))
        if len(set(saved)) != 2 or not set(saved) <= set(fact["packed"]) or sorted(hooks) != sorted(2 * fact["hooks"]):
            errors.append(f"{name}: {node.cls} saved {saved} with {hooks}, not {fact['packed']} with {fact['hooks']}")
        return errors
    if name == "outer" and not graph.hooks_of_lost(node):
        errors.append("outer: no hooks of a tensor that has no Python object")
    saved = saved_data(graph, node)
    if saved != set(want["saved"]):
        errors.append(f"{name}: {node.cls} saved {sorted(map(hex, filter(None, saved)))}, not {list(map(hex, want['saved']))}")
    return errors


def tensor_errors(graph, fact):
    name = fact["name"]
    wrapper = graph.nodes.get(f"{fact['object']:x}")
    tensor = graph.one(wrapper, IMPL, IMPL_BORROWED)
    if not tensor:
        return [f"{name}: no TensorImpl"]
    errors = []

    def same(what, seen, told):
        if seen != told:
            errors.append(f"{name}: {what} {seen}, not {told}")

    if fact["strided"]:
        if not tensor.facts:
            return [f"{name}: no shape"]
        storage = graph.one(tensor, STORAGE)
        same("storage", [int(storage.facts[0], 16), int(storage.facts[1])] if storage else None, fact["storage"])
        same("dtype", tensor.facts[0], fact["dtype"])
        same("shape", list(map(int, tensor.facts[4:])), fact["shape"])
        if 0 not in fact["shape"]:
            same("first byte", int(tensor.facts[1]), fact["first"])
        same("requires_grad", tensor.facts[3], str(int(fact["requires_grad"])))
    if "inner" in fact:
        inner = {graph.data(graph.nodes[addr]) for addr in tensor.to(DATA)}
        same("inner tensors", inner, set(fact["inner"]))
    if name.startswith("functional"):
        same("number of inner tensors", len(tensor.to(DATA)), 1)
    meta = graph.one(tensor, META)
    if "grad" in fact:
        same("grad", graph.data(graph.one(meta, GRAD)), fact["grad"])
    return errors + graph_errors(graph, fact, graph.one(meta, GRAD_FN))


def count_errors(graph):
    """Objects with too many, and with too few references."""
    wrong = {}
    for node in graph.nodes.values():
        if node.letter in "tsn" and node.count != node.found:
            wrong.setdefault(f"{node.letter} {node.cls} {node.found - node.count:+d}", []).append(node.addr)
    return wrong


def each():
    root = os.path.join(CACHE, "torch")
    there = versions() if QUICK or not os.path.isdir(root) else sorted(os.listdir(root))
    there = [version for version in there if os.path.exists(os.path.join(root, version, "python"))]
    if not there:
        raise Skip("no PyTorch is set up: sh tests/setup/torch.sh VERSION")
    for version in there:
        with Nursed(version, [PROGRAM, "cuda"], ready="ready") as job:
            yield version, job


def test_objects():
    failures = []
    for version, job in each():
        graph = Graph(job.pid)
        path = scratch("truth")
        equal(job.ask(path), "done", "answer")
        with open(path, encoding="utf-8") as file:
            facts = json.load(file)
        errors = [] if graph.layout.strip() == "layout 1" else [graph.layout]
        for fact in facts:
            errors += tensor_errors(graph, fact)
        counts = count_errors(graph)
        kinds = {letter: sum(node.letter == letter for node in graph.nodes.values()) for letter in "tsmn"}
        print(f"  {version}: {len(facts)} tensors, {kinds}, {len(errors)} errors; counts that differ: "
              f"{({what: len(addrs) for what, addrs in counts.items()})}")
        for error in errors:
            print(f"    {error}")
        failures += [f"{version} {error}" for error in errors]
        failures += [f"{version} {what}: {addrs}" for what, addrs in counts.items()]
    equal(failures, [], "what is wrong")


def test_damaged():
    for version, job in each():
        for seed in range(1, SEEDS + 1):
            done = subprocess.run([TOOL, "-z", str(seed), str(job.pid)], capture_output=True, text=True, timeout=300, check=False)
            equal((done.returncode, done.stdout), (0, "survived\n"), f"{version} with seed {seed}: {done.stderr}")


if __name__ == "__main__":
    main(globals())
