# SPDX-License-Identifier: Apache-2.0
"""CPython's heap as vramtap reads it is what its own collector says, for every CPython that is here.

A program (tests/targets/pyprog_heap.py) keeps objects of every kind, is read while it stands still, and then writes down
gc.get_referents() of all objects that its collector tracks. The interpreters are those of python_frames.py.
"""
import collections
import os
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import python_frames  # noqa: E402
from harness import BUILD, QUICK, SOURCE, check, main, target  # noqa: E402
from python_frames import each, stopped  # noqa: E402

TOOL = os.path.join(BUILD, "tests/functional/python_heap")
PROGRAM = os.path.join(SOURCE, "tests/targets/pyprog_heap.py")

# src/walk/heap/graph.h
(ITEM, VALUE, KEY, ELEMENT, DICT, INLINE, MEMBER, CELL, CLOSURE, FREE, DEFAULTS, GLOBALS, CODE, SELF, FUNCTION, TYPE, BASES, FRAME,
 SUSPENDED, LOCAL, STACK, STACK_OLD, BACK) = range(23)
COLLECTABLE = 2

# What a type visits that is nowhere in its objects' own memory, or has and does not visit:
EXCEPTIONS = {
    "builtins.module": "the state of modules in C is theirs",
    "builtins.PyCapsule": "what a capsule visits is its maker's",
    "functools._lru_cache_wrapper": "it visits what its links have, which are no objects of the collector",
    "_thread._local": "its callback is not visited",
    "asyncio.events._RunningLoop": "the same",
    "_io.TextIOWrapper": "standard input is being read",
}


class Node:
    def __init__(self, words):
        self.kind, self.addr = words[0], words[1]
        self.cls = words[2] if self.kind == "o" and len(words) > 2 else ""
        self.count, self.found, self.flags = map(int, words[4:7]) if len(words) > 6 else (0, 0, 0)
        self.where = " ".join(words[2:] if self.kind == "f" else words[8:])
        self.edges = []


def look(pid, *options):
    done = subprocess.run([TOOL, "-k", *options, str(pid)], capture_output=True, text=True, timeout=300, check=False)
    check(done.returncode == 0, "python_heap failed:", done.returncode, done.stderr)
    return done.stdout


def read_graph(text):
    lines = text.splitlines()
    nodes = {}
    for line in lines[1:]:
        if line.startswith(" "):
            kind, number, to, *words = line.split(" ", 4)[1:]
            node.edges.append((int(kind), int(number), to, words[0] if words else ""))
        else:
            node = Node(line.split())
            nodes[node.addr] = node
    return dict(zip(lines[0].split()[::2], lines[0].split()[1::2])), nodes


def referents(nodes, addr):
    """What an object refers to; what is in its frames is its own."""
    found, todo = set(), list(nodes[addr].edges)
    while todo:
        kind, _, to, _ = todo.pop()
        if kind in (FREE, TYPE, STACK_OLD):
            continue
        if to in nodes and nodes[to].kind == "f":
            todo += nodes[to].edges
        # The frame that called is not visited from 3.11 on, where it is only kept for f_back.
        elif kind != BACK:
            found.add(to)
    return found


def read_truth(path):
    truth = {}
    with open(path, encoding="ascii") as file:
        for line in file:
            addr, name, cls, *held = line.split()
            truth[addr] = name, set(held) - {cls}, cls
    return truth


@each
def test_references(path, version):
    """All objects that the collector tracks refer to what it says; and the counts of what was planted are explained."""
    with tempfile.TemporaryDirectory(prefix="vramtap-test-") as tmp, \
            target([path, PROGRAM], ready="ready", env=dict(os.environ, TMPDIR=tmp)) as proc:
        planted = dict(word.split(":", 1) for word in proc.ready_line.split()[1:])
        with stopped(proc.pid):
            head, nodes = read_graph(look(proc.pid))
            text = look(proc.pid, "-n")
        for what in ("truth", "counts"):
            proc.stdin.write(f"{what} {tmp}/{what}\n".encode())
            proc.stdin.flush()
            check(proc.stdout.readline() == b"done\n", "the target wrote its", what)
        truth = read_truth(f"{tmp}/truth")
        with open(f"{tmp}/counts", encoding="ascii") as file:
            counts = dict(line.split() for line in file)
    free = "t" in head["version"]
    del version
    compared = compare(truth, nodes, planted, free)
    check_counts(nodes, planted, counts)
    if not free:
        check_lists(head, truth, nodes)
    check_names(read_graph(text)[1], planted)
    return f"{compared} objects of {len(nodes)}, counts of {len(counts)}"


def instance_dict(nodes, addr):
    return next((to for kind, _, to, _ in nodes[addr].edges if kind == DICT and to in nodes), None)


def compare(truth, nodes, planted, free):
    wrong, n, unseen = [], 0, collections.Counter()
    # sys.last_value is a root, not an item of sys's dict
    last = {to for kind, _, to, _ in nodes["1"].edges if nodes["1"].kind == "r" and to in truth and
            truth[to][0] == "builtins.ValueError"}
    shared = {instance_dict(nodes, addr) for addr, node in nodes.items() if not node.cls.endswith((".module", ".type"))}
    for addr, (name, held, cls) in truth.items():
        if name in EXCEPTIONS or name.endswith("_descriptor") or addr not in nodes:
            unseen[name] += addr not in nodes
            continue
        got = referents(nodes, addr) - {cls}
        held = held - {to for kind, _, to, _ in nodes[addr].edges if kind == BACK}
        n += 1
        # From 3.13 on an instance's values are its own and its dict's: releases differ in who visits them.
        attributes = instance_dict(nodes, addr)
        if got != held and attributes:
            got = (got | referents(nodes, attributes)) - {attributes, cls}
            held = (held | (truth[attributes][1] if attributes in truth else set())) - {attributes, cls}
        # What is not there was made since, by the question itself.
        lacks, extra = {to for to in held - got - last if to in nodes}, got - held
        if (lacks or extra) and not (addr in shared and not lacks):
            wrong.append((name, planted.get(addr, addr), sorted(nodes[to].cls for to in lacks)[:4],
                          sorted(nodes[to].cls for to in extra if to in nodes)[:4]))
    check(n > 10000, "objects were compared:", n, unseen.most_common(5))
    if not free:
        check(sum(unseen.values()) < 40, "the others were made since:", unseen.most_common(9))
    return n


def check_counts(nodes, planted, counts):
    # weak references and immortal ones aside
    wrong = [(planted[a], nodes[a].count, int(counts[a])) for a in counts
             if a in nodes and nodes[a].count >= 0 and nodes[a].count != int(counts[a])]
    check(not wrong, "ob_refcnt is that of sys.getrefcount():", wrong[:9])
    wrong = [(planted[a], nodes[a].count, nodes[a].found) for a in counts
             if a in nodes and nodes[a].count >= 0 and nodes[a].count != nodes[a].found]
    check(not wrong, "planted objects are held by what was found:", wrong[:9])
    things = [n for n in nodes.values() if n.cls.endswith(".Thing")]
    wrong = [(n.addr, n.count, n.found) for n in things if n.count != n.found]
    check(len(things) > 8000 and not wrong, "each Thing is held by what was found:", len(things), wrong[:9])


def check_lists(head, truth, nodes):
    check(head["lists"] == "1", "the collector's lists were read")
    listed = {n.addr for n in nodes.values() if n.flags & COLLECTABLE}
    check(len(listed - set(truth)) < 500, "what is in the lists the collector knows:", len(listed - set(truth)))
    check(len(set(truth) - listed) < 60, "what the collector knows is in the lists:", len(set(truth) - listed))


def edge_of(nodes, planted, name, kinds, text):
    addr = next(a for a, n in planted.items() if n == name)
    return [e for e in nodes[addr].edges if e[0] in kinds and e[3] == text]


def check_names(nodes, planted):
    wanted = [
        ("slots", (MEMBER,), ".first"), ("more_slots", (MEMBER,), ".third"), ("more_slots", (MEMBER,), ".second"),
        ("list", (ITEM,), "[0]"), ("tuple", (ITEM,), "[2]"), ("dict", (VALUE,), ".a"), ("deque", (ITEM,), "[199]"),
        ("deque_shifted", (ITEM,), "[59]"), ("closure", (FREE,), "value"), ("closure", (FREE,), "other"),
        ("ordered", (VALUE,), ".k3"), ("partial", (MEMBER, DICT), ".args"), ("dict_of", (MEMBER,), ".extra"),
    ]
    for name, kinds, text in wanted:
        check(edge_of(nodes, planted, name, kinds, text), "an edge has its words:", name, text)
    names = [planted[a] for a in planted if a in nodes]
    for name, attribute in (("plain", ".value"), ("plain_late", ".unusual"), ("many", ".a59"), ("slots_and_dict", ".late")):
        addr = next(a for a, n in planted.items() if n == name)
        edges = list(nodes[addr].edges)
        edges += [e for kind, _, to, _ in nodes[addr].edges if kind == DICT for e in nodes[to].edges]
        check(any(e[3] == attribute for e in edges), "an attribute has its name:", name, attribute, edges[:5])
    with open(PROGRAM, encoding="utf-8") as file:
        source = file.read().splitlines()
    for name, line in (("generator", "yield item"), ("coroutine", "await pause()")):
        addr = next(a for a, n in planted.items() if n == name)
        frame = next(nodes[to] for kind, _, to, _ in nodes[addr].edges if kind == SUSPENDED)
        function, file, number = frame.where.rsplit("|", 2)
        check(file == PROGRAM and line in source[int(number) - 1] and function in ("generate", "coroutine"),
              "where a generator waits:", frame.where)
        check(any(e[3] == "value" for e in frame.edges), "a generator's variable has its name", frame.edges)
    check(len(names) > 70, "planted objects are in the graph:", len(names))


@each
def test_damage(path, version):
    """Whatever is in the memory, reading it ends."""
    del version
    with target([path, PROGRAM], ready="ready") as proc, stopped(proc.pid):
        for seed in range(1, 3 if QUICK else 200):
            check("survived" in look(proc.pid, "-z", str(seed * 1000)), "the reader survives")


@each
def test_running(path, version):
    """A heap that changes while it is read is read in time."""
    del version
    with target([path, PROGRAM], ready="ready") as proc:
        proc.stdin.write(b"run\n")
        proc.stdin.flush()
        check(proc.stdout.readline() == b"done\n", "the target runs")
        begin = time.monotonic()
        for _ in range(8 if QUICK else 200):
            done = subprocess.run([TOOL, "-o", str(proc.pid)], capture_output=True, text=True, timeout=60, check=False)
            # Whatever else the tool says: that the process has changed too much to find its threads, for one.
            check(done.returncode in (0, 1), "the reader survives:", done.returncode, done.stderr)
        check(proc.poll() is None, "the target lives")
    return f"{time.monotonic() - begin:.1f} s"


if __name__ == "__main__":
    python_frames.test_interpreters = None
    main(globals())
