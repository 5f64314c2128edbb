# SPDX-License-Identifier: Apache-2.0
"""Which streams have unfinished work, on a real GPU: kernels that do not end, in a stream and in a CUDA graph; idle; training; captures
of graphs under many reports, none of which may be spoilt; a device that hangs; after a device-side assert; and what the question costs.
Prints FIGURE lines."""
import json
import os
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "functional"))
sys.path.insert(0, HERE)
import kernels  # noqa: E402
from harness import COMPLETE, PARTIAL, check, equal, main, target, vramtap  # noqa: E402

N = int(os.environ.get("VRAMTAP_STREAMS_REPORTS", "200"))
# Two kernels that end when they are told, in streams of their own; the second one's stream is the fourth of the pool.
IN_STREAMS = kernels.PROGRAM + """
function = build()
streams = [torch.cuda.Stream() for _ in range(4)]
launch(function, 1, 32, streams[3])
wait_for(1)
"""
# Memory that was freed while two streams were told to use it, one of which has a kernel that does not end.
FREED = kernels.PROGRAM + """
function = build()
streams = [torch.cuda.Stream() for _ in range(4)]
launch(function, 1, 32, streams[3])
def free_one(mib, *used_by):
    x = torch.empty(mib << 20, dtype=torch.uint8, device="cuda")
    for stream in used_by: x.record_stream(stream)
free_one(40, streams[3]); free_one(60, streams[3], streams[1]); free_one(30, streams[1])
torch.zeros(1, device="cuda")  # takes back what is over: the last one
pending = [b["size"] for s in torch.cuda.memory_snapshot() for b in s["blocks"] if b["state"] in ("active_pending_free", "active_awaiting_free")]
open(os.environ["VRAMTAP_TEST_END"], "w").write(" ".join(map(str, pending)))
wait_for(1)
"""
IN_GRAPH = kernels.PROGRAM + """
function, stream, graph = build(), torch.cuda.Stream(), torch.cuda.CUDAGraph()
with torch.cuda.graph(graph, stream=stream):
    launch(function, 3, 96, stream)
graph.replay()
wait_for(3)
"""
# Threads in all waits that are known to do no harm, and one in a call that waits before its work.
HUNG = kernels.PROGRAM + """
function = build()
streams = [torch.cuda.Stream() for _ in range(4)]
event = torch.cuda.Event(); blocking = torch.cuda.Event(blocking=True)
spare = torch.empty(64 << 20, device="cuda"); del spare
launch(function, 1, 32, streams[3])
event.record(streams[3]); blocking.record(streams[3])
y = torch.ones(1 << 20, device="cuda"); big = torch.ones(1 << 22)
def in_stream(f):
    def run():
        with torch.cuda.stream(streams[3]): f()
    return run
def launch_many():
    for _ in range(5000): y.add_(1)
calls = {"none": lambda: None, "free": torch.cuda.empty_cache, "to_host": in_stream(y.cpu), "to_device": in_stream(lambda: big.to("cuda")), "launch": in_stream(launch_many)}
for wait in (streams[3].synchronize, event.synchronize, blocking.synchronize, torch.cuda.synchronize, calls["CALL"]):
    threading.Thread(target=wait).start()
time.sleep(0.5)
wait_for(1)
"""
# Every graph is captured anew, replayed, and its result compared bit for bit.
CAPTURES = """
import os, sys, torch
torch.manual_seed(0)
net = torch.nn.Linear(256, 256, device="cuda")
x = torch.randn(512, 256, device="cuda")
side = torch.cuda.Stream()
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side), torch.no_grad():
    for _ in range(3): net(x)
torch.cuda.current_stream().wait_stream(side)
n = spoilt = wrong = 0
want = None
print("READY", os.getpid(), flush=True)
while not os.path.exists(os.environ["VRAMTAP_TEST_END"]):
    try:
        graph = torch.cuda.CUDAGraph()
        with torch.no_grad(), torch.cuda.graph(graph):
            y = x
            for _ in range(10): y = net(y)
        graph.replay()
        torch.cuda.synchronize()
        want = y.clone() if want is None else want
        wrong += not torch.equal(y, want)
    except RuntimeError as error:
        spoilt += 1
        print(error, file=sys.stderr, flush=True)
    n += 1
print("DONE", n, spoilt, wrong, flush=True)
"""
# Small kernels as fast as Python can launch them.
LAUNCHES = """
import os, torch
x = torch.zeros(1000, device="cuda")
torch.cuda.synchronize()
print("READY", os.getpid(), flush=True)
n = 0
while not os.path.exists(os.environ["VRAMTAP_TEST_END"]):
    for _ in range(1000): x += 1
    n += 1000
    torch.cuda.synchronize()
print("DONE", bool((x == n).all()) if n < 1 << 24 else True, flush=True)
"""
ASSERTS = """
import os, sys, torch
x = torch.arange(10, device="cuda"); s = torch.cuda.Stream()
x[torch.tensor([100], device="cuda")]
def error():
    try: torch.cuda.synchronize(); return "none"
    except RuntimeError as e: return str(e).splitlines()[0]
first = error()
print("READY", os.getpid(), flush=True)
sys.stdin.readline()
print("DONE", first == error() and "assert" in first, flush=True)
"""


def ask(proc, label, *args, expect=(COMPLETE, PARTIAL)):
    begin = time.monotonic()
    code, out, err = vramtap("report", "--json", "-", "--no-owners", "--once", *args, str(proc.pid))
    took = time.monotonic() - begin
    check(code in expect, "exit code", code, err)
    data = json.loads(out)
    streams = data["streams"]
    if label and streams:
        print(f"  FIGURE streams {label}: {[(look['state'], look['tries'], look['stopped_ms']) for look in streams['looks']]}, {streams['apart_ms']} ms apart, "
              f"{[(s['kind'], s['number'], s['state'], s['error']) for s in streams['streams'] if s['state'] != 'idle']} of {len(streams['streams'])}, "
              f"report {1000 * took:.0f} ms", flush=True)
    return data, streams, took


def states(streams):
    equal([look["state"] for look in streams["looks"]], ["asked", "asked"], f"looks, {streams}")
    return {(s["kind"], s["number"]): s["state"] for s in streams["streams"]}


def show(proc):
    _, out, _ = vramtap("report", "--no-owners", "--once", "--width", "120", str(proc.pid))
    part = out.split("\nMemory of GPU", 1)[0]
    print("    | " + part.strip().replace("\n", "\n    | "), flush=True)


def end_file():
    path = os.path.join(os.environ.get("TMPDIR", "/tmp"), f"vramtap-end-{os.getpid()}")
    os.environ["VRAMTAP_TEST_END"] = path
    return path


def ended(proc, path):
    with open(path, "w", encoding="ascii"):
        pass
    words = proc.stdout.readline().decode().split()
    os.unlink(path)
    equal(proc.wait(60), 0, "exit status")
    return words


def test_streams_never_ends():
    with kernels.program(IN_STREAMS) as proc:
        _, streams, _ = ask(proc, "in a stream")
        found = states(streams)
        equal({key for key, state in found.items() if state == "busy"}, {("pool", 3)}, "busy")
        show(proc)
        kernels.ends_well(proc)


def ask_again(proc, looks):
    begin = time.monotonic()
    code, out, err = vramtap("report", "--json", "-", "--no-owners", "--again", looks, str(proc.pid))
    check(code in (COMPLETE, PARTIAL), "exit code", code, err)
    data = json.loads(out)
    print(f"  FIGURE streams again {looks}: {[(look['state'], look['tries'], look['stopped_ms']) for look in data['streams']['looks']]}, "
          f"{[(s['number'], s['looks'], s['state']) for s in data['streams']['streams'] if s['kind'] == 'pool' and s['state'] != 'idle']}, "
          f"{data['again']['verdict']}, {1000 * (time.monotonic() - begin):.0f} ms", flush=True)
    return data


def test_streams_again():
    """After further looks at the threads a stream that had work is asked a third time."""
    with kernels.program(IN_STREAMS) as proc:
        data = ask_again(proc, "3x1s")
        found = {s["number"]: (s["looks"], s["state"]) for s in data["streams"]["streams"] if s["kind"] == "pool" and s["state"] != "idle"}
        equal(found, {3: (["busy"] * 3, "busy")}, "the stream that hangs")
        kernels.ends_well(proc)
    for source in (kernels.TRAINS, CAPTURES):
        path = end_file()
        with target([sys.executable, "-c", source], ready="READY", stderr=subprocess.DEVNULL) as proc:
            for _ in range(10):
                data = ask_again(proc, "2x200ms")
                equal([line for line in data["headlines"] if line["alarm"]], [], "alarms")
            words = ended(proc, path)
            if source == CAPTURES:
                equal((words[0], words[2:]), ("DONE", ["0", "0"]), "captures")
            else:
                equal(words, ["DONE", "True"], "what it computed")


def test_streams_freed():
    """Which stream freed memory waits for: PyTorch's own snapshot knows how much, the program which."""
    path = end_file()
    with kernels.program(FREED, VRAMTAP_TEST_END=path) as proc:
        with open(path, encoding="ascii") as file:
            pending = [int(word) for word in file.read().split()]
        os.unlink(path)
        data, streams, _ = ask(proc, "freed memory")
        totals = data["pytorch"]["allocators"][0]["totals"]["awaiting_free"]
        equal((totals["blocks"], totals["bytes"]), (len(pending), sum(pending)), "PyTorch's own")
        found = {s["number"]: s["awaiting_free"] for s in streams["streams"] if s["kind"] == "pool" and s["awaiting_free"]["blocks"]}
        equal(found, {3: {"blocks": 2, "bytes": sum(pending)}}, f"by streams: {data['pytorch']['allocators'][0]['waits']}")
        show(proc)
        kernels.ends_well(proc)


def test_streams_graph():
    with kernels.program(IN_GRAPH) as proc:
        _, streams, _ = ask(proc, "in a graph")
        check("busy" in states(streams).values(), "busy", streams)
        kernels.ends_well(proc)


def test_streams_idle():
    with target([sys.executable, "-c", kernels.IDLE], ready="READY", stderr=subprocess.DEVNULL) as proc:
        _, streams, _ = ask(proc, "idle", expect=(COMPLETE,))
        equal(set(states(streams).values()), {"idle"}, "states")
        show(proc)
        kernels.ends_well(proc)


def several(source, label, n):
    """What became of the questions while a program is busy; it must end well."""
    path = end_file()
    seen, stopped, kinds = {}, [], {}
    with target([sys.executable, "-c", source], ready="READY", stderr=subprocess.DEVNULL) as proc:
        for _ in range(n):
            data, streams, _ = ask(proc, None)
            check(not [line for line in data["headlines"] if line["alarm"]], "no alarm", data["headlines"])
            for look in streams["looks"]:
                key = (look["state"], look["tries"])
                seen[key] = seen.get(key, 0) + 1
                stopped.append(look["stopped_ms"])
            for stream in streams["streams"]:
                kinds[stream["state"]] = kinds.get(stream["state"], 0) + 1
        words = ended(proc, path)
    stopped.sort()
    print(f"  FIGURE streams {label}: {n} reports, looks by tries {dict(sorted(seen.items()))}, streams {kinds}, "
          f"stopped p50 {statistics.median(stopped):.2f} p99 {stopped[int(len(stopped) * 0.99)]:.2f} max {stopped[-1]:.2f} ms; {words}", flush=True)
    return words, seen


def test_streams_training():
    words, _ = several(kernels.TRAINS, "training", 20)
    equal(words, ["DONE", "True"], "what it computed")


def test_streams_launches():
    words, _ = several(LAUNCHES, "launches", 20)
    equal(words, ["DONE", "True"], "what it computed")


def test_streams_captures():
    words, seen = several(CAPTURES, "captures", N)
    done, n, spoilt, wrong = words
    equal((done, spoilt, wrong), ("DONE", "0", "0"), f"of {n} captures")
    check(sum(count for (state, _), count in seen.items() if state == "asked") > N / 4, "it was asked", seen)


def test_streams_hung():
    for call in ("none", "free", "to_host", "to_device"):
        with kernels.program(HUNG.replace("CALL", call)) as proc:
            _, streams, took = ask(proc, f"hung, {call}")
            check(took < 5, "took", took)
            _, streams, took = ask(proc, f"hung, {call}, again")
            check(took < 5, "took", took)
            equal(states(streams)["pool", 3], "busy", f"the stream, {streams}")
            kernels.ends_well(proc)


def test_streams_hung_launching():
    """A thread that waits until there is room for one more launch does so within the driver, at times where nothing tells that it
    only waits: then the streams are not asked, which is said."""
    with kernels.program(HUNG.replace("CALL", "launch")) as proc:
        looks = 0
        for i in range(10):
            _, streams, took = ask(proc, f"hung, launch, {i}")
            check(took < 5, "took", took)
            equal({look["state"] for look in streams["looks"]} - {"asked", "in-driver"}, set(), "looks")
            looks += sum(look["state"] == "asked" for look in streams["looks"])
            known = {s["number"]: s["state"] for s in streams["streams"] if s["kind"] == "pool"}
            check(known[3] in ("busy", "busy-once", "unknown"), "the stream", streams)
        print(f"  FIGURE streams hung, launch: {looks} of 20 looks were asked", flush=True)
        kernels.ends_well(proc)


def test_streams_assert():
    with target([sys.executable, "-c", ASSERTS], ready="READY", stderr=subprocess.DEVNULL) as proc:
        _, streams, _ = ask(proc, "after an assert")
        check("idle" not in {s["state"] for s in streams["streams"]}, "nothing is known to be idle", streams)
        show(proc)
        proc.stdin.write(b"\n")
        proc.stdin.flush()
        equal(proc.stdout.readline().decode().split(), ["DONE", "True"], "its error is the same")


def test_streams_cost():
    """Alternately with and without."""
    path = end_file()
    for label, source in (("idle", kernels.IDLE), ("training", kernels.TRAINS)):
        took = {True: [], False: []}
        with target([sys.executable, "-c", source], ready="READY", stderr=subprocess.DEVNULL) as proc:
            for i in range(40):
                streams = i % 2 == 0
                took[streams].append(ask(proc, None, *([] if streams else ["--no-streams"]))[2] * 1000)
            if label == "training":
                equal(ended(proc, path), ["DONE", "True"], "what it computed")
            else:
                kernels.ends_well(proc)
        print(f"  FIGURE streams cost {label}: with {statistics.median(took[True]):.1f} ms, without {statistics.median(took[False]):.1f} ms", flush=True)


if __name__ == "__main__":
    main(globals())
