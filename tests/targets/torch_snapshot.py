#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A job whose memory has all that a snapshot of PyTorch's can have: streams, private pools, a graph, blocks that await their free,
two devices, recorded and unrecorded blocks, and names that are no names.

It prints "READY" and then obeys lines on its standard input: "truth FILE" pickles torch.cuda.memory._snapshot(), "record STACKS"
begins to record (off: no more), "fill" allocates in all these ways, "pass" only for a moment, "hostile" by code and into variables
with hostile names, "quit" ends it.
"""
import os
import pickle
import sys

import torch

KEPT = []
HOSTILE = "</script>\x1b[31m\x07;\n\u202e\"'\\ \N{PILE OF POO}"


def keep(size, device="cuda:0"):
    KEPT.append(torch.empty(size, dtype=torch.uint8, device=device))
    return KEPT[-1]


def sizes():
    """Of the small and of the large pool, with holes, and with pieces that nobody has asked for yet."""
    for size in (1, 600, 5000, 1 << 20, 3 << 20, 11 << 20, 30 << 20):
        keep(size)
        torch.empty(size + 700, dtype=torch.uint8, device="cuda:0")
    for i in range(0, 20, 3):
        KEPT[1 + i % 7] = torch.empty(i * 50000 + 1, dtype=torch.uint8, device="cuda:0")


def pools():
    """A graph's, and one of the program's own."""
    graph, static = torch.cuda.CUDAGraph(), keep(4000)
    with torch.cuda.graph(graph):
        KEPT.append(static * 2)
        static + 3
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        keep(5 << 20)
        keep(100)
    KEPT.extend([graph, pool])


def streams():
    """Blocks of another stream, and some that this one has freed while another one uses them."""
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        keep(7000)
        keep(4 << 20)
        torch.cuda._sleep(1 << 50)
    for size in (900, 2 << 20):
        torch.empty(size, dtype=torch.uint8, device="cuda:0").record_stream(side)
    KEPT.append(side)


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Linear(64, 64))

    def forward(self, x):
        return self.layers(x)


def momentary():
    torch.empty(50 << 20, dtype=torch.uint8, device="cuda:0")


def fill():
    sizes()
    pools()
    keep(2 << 20, "cuda:1")
    for device in ("cuda:0", "cuda:1"):
        keep(40 << 20, device)  # a segment of its own: PyTorch forgets where one was made that is split
    net = Net().to("cuda:0")
    KEPT.extend([net, net(torch.zeros(8, 64, device="cuda:0"))])
    (lambda: keep(1500))()
    exec("keep(2500)", globals())
    streams()


def hostile():
    """By a function, in a file and into variables whose names are hostile."""
    code = compile("def f(n):\n\treturn keep(n)\n", f"/tmp/{HOSTILE}.py", "exec")
    scope = {"keep": keep}
    exec(code, scope)
    f = scope["f"]
    f.__code__ = f.__code__.replace(co_name=HOSTILE + ".f")
    globals()[HOSTILE] = {"x" * 10000: f(3210), HOSTILE: f(3220), b"\xff\xfe": f(3230), "\udcff": f(3240)}


def truth(path):
    data = torch.cuda.memory._snapshot()
    with open(path, "wb") as file:
        pickle.dump(data, file)


def main():
    torch.cuda.init()
    keep(2222)
    print("READY", flush=True)
    for line in sys.stdin:
        command, *words = line.split()
        if command == "record":
            how = {"context": "all", "stacks": words[0], "max_entries": 1000}
            torch.cuda.memory._record_memory_history(**how) if words[0] != "off" else torch.cuda.memory._record_memory_history(None)
        elif command == "quit":
            break
        else:
            {"truth": truth, "fill": fill, "pass": momentary, "hostile": hostile}[command](*words)
        print("ok", flush=True)


if __name__ == "__main__":
    main()
    os._exit(0)
