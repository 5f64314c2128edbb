# SPDX-License-Identifier: Apache-2.0
"""vramtap relieve on a real GPU that nothing else uses: the same program as on the simulated device (functional/relieve.py), whose tensors
know what is in them. That the driver's event of a whole context sees a kernel that hangs on any stream, and how long it takes, is shown
only here. Prints FIGURE lines."""
import os
import re
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "functional"))
import relieve  # noqa: E402
from harness import COMPLETE, NOTHING, VRAMTAP, Skip, check, equal, main, target, vramtap  # noqa: E402

MIB = 1 << 20
CALL_MS = 2000  # of 400 MiB in seven segments; a busy machine, longer


class Program(relieve.Program):
    """The program with the PyTorch of this machine."""

    def __init__(self, version=None, prepare="", **env):
        self.context = target([sys.executable, "-c", prepare + relieve.PROGRAM], ready="READY", env=dict(os.environ, **env))

    def __enter__(self):
        super().__enter__()
        check(self("has_memory"), "tensors have no contents")
        return self


def figure(label, data):
    timing = data["timing"]
    print(f"  FIGURE relieve {label}: {data['outcome']}, call {timing['call_ms']} ms, GPU {timing['gpu_wait_ms']} ms, GIL {timing['gil_wait_ms']} "
          f"ms, all {timing['total_ms']} ms; {data['refused'] and data['refused']['text']}")


def old_driver(data):
    if data["refused"] and data["refused"]["code"] == "old-driver":
        raise Skip(data["refused"]["text"])


def run(program, what, *args, expect=(COMPLETE, NOTHING)):
    data = relieve.relieve(program.pid, what, *args, expect=expect)
    figure(what + " ".join(args), data)
    old_driver(data)
    return data


def done(program, what, *args):
    data = run(program, what, *args)
    equal(data["outcome"], "done", f"{what}: {data['refused']}")
    check(data["timing"]["call_ms"] < CALL_MS, "it took too long", data["timing"])
    return data


def emptied(**env):
    with Program(**env) as program:
        before = program("counters()")
        done(program, "--empty-cache")
        after = program("counters()")
        check(before["reserved"] - after["reserved"] >= 300 * MIB, "nothing was given back", before, after)
        equal(after["free"] - before["free"], before["reserved"] - after["reserved"], "what is free now")
        relieve.is_whole(program)
        relieve.nothing_is_left(program.pid)
        _, out, _ = vramtap("relieve", str(program.pid), "--empty-cache", "--width", "100", expect=COMPLETE)
        print("    | " + out.replace("\n", "\n    | "))


def test_relieve_empty_cache():
    emptied()


def test_relieve_expandable_segments():
    emptied(PYTORCH_CUDA_ALLOC_CONF="expandable_segments:True")


def test_relieve_collect_garbage():
    with Program() as program:
        program("garbage(5, 40)")
        before = program("counters()")
        done(program, "--collect-garbage")
        equal(before["allocated"] - program("counters()")["allocated"], 200 * MIB, "tensors in cycles")
        relieve.is_whole(program)


def test_relieve_trim_pinned():
    with Program() as program:
        data = run(program, "--trim-pinned")
        if data["refused"] and data["refused"]["code"] == "no-function":
            raise Skip(data["refused"]["text"])
        equal(data["pinned_bytes"]["after"], 8 * MIB, "pinned memory")


STREAMS = {
    "side": "side = torch.cuda.Stream()\nwith torch.cuda.stream(side):\n    torch.cuda._sleep({cycles})",
    "default": "torch.cuda._sleep({cycles})",
    # A stream that PyTorch knows nothing of, non-blocking as NCCL's are.
    "foreign": """
driver, handle = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p()
assert driver.cuStreamCreate(ctypes.byref(handle), 1) == 0
with torch.cuda.stream(torch.cuda.ExternalStream(handle.value)):
    torch.cuda._sleep({cycles})
""",
}
CENTURY = 1 << 61
SECOND = 1500000000


def test_relieve_gpu_hangs():
    """On any stream it is refused, at once, and nothing waits afterwards."""
    for name, code in STREAMS.items():
        with Program() as program:
            before = program("counters()")["reserved"]
            program.do(code.format(cycles=CENTURY))
            for what in ("--empty-cache", "--trim-pinned", "--collect-garbage"):
                data = run(program, what, "--timeout", "2", expect=NOTHING)
                equal(data["refused"]["code"], "gpu-works", f"{what} with a kernel that hangs on the {name} stream")
            equal(program("counters()")["reserved"], before, "reserved")
            program.do("x = torch.empty(1 << 20, device='cuda:0'); del x")
            relieve.nothing_is_left(program.pid)


def test_relieve_gpu_works():
    for name, code in STREAMS.items():
        with Program() as program:
            program.do(code.format(cycles=2 * SECOND))
            data = done(program, "--empty-cache", "--timeout", "20")
            print(f"    {name}: waited for the GPU for {data['timing']['gpu_wait_ms']} ms")
            relieve.is_whole(program)


CAPTURE = """
graph, side = torch.cuda.CUDAGraph(), torch.cuda.Stream()
static = torch.full((1000,), 5.0, device="cuda:0")
torch.cuda.synchronize()
def begin():
    torch.cuda.set_stream(side)
    graph.capture_begin()
def end():
    global out
    out = static + 1
    graph.capture_end()
    torch.cuda.set_stream(torch.cuda.default_stream())
    graph.replay()
    torch.cuda.synchronize()
    return float(out[0])
"""


def test_relieve_capture():
    with Program() as program:
        program.do(CAPTURE)
        program("begin()")
        for what in ("--empty-cache", "--trim-pinned", "--collect-garbage"):
            equal(run(program, what, expect=NOTHING)["refused"]["code"], "capture", what)
        equal(program("end()"), 6.0, "what the graph computes")
        done(program, "--empty-cache")


TRAIN = """
model = torch.nn.Sequential(*[torch.nn.Linear(1024, 1024) for _ in range(8)]).cuda()
optimizer, data = torch.optim.SGD(model.parameters(), lr=1e-4), torch.randn(256, 1024, device="cuda")
steps, stop, losses = 0, False, []
def train():
    global steps
    while not stop:
        loss = model(data).square().mean()
        optimizer.zero_grad(); loss.backward(); optimizer.step()
        steps += 1
        if steps % 10 == 0:
            losses.append(loss.item())
trainer = threading.Thread(target=train, daemon=True)
trainer.start()
"""


def test_relieve_training():
    """A training loop is relieved again and again, and half of the time vramtap is killed; its losses never rise."""
    with Program() as program:
        program.do(TRAIN)
        time.sleep(2)
        outcomes, begun = {}, program("steps")
        for i in range(30):
            what = ("--empty-cache", "--collect-garbage", "--trim-pinned")[i % 3]
            with subprocess.Popen([VRAMTAP, "relieve", str(program.pid), what], stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as tool:
                if i % 2:
                    threading.Timer(0.05 * (i % 12), tool.kill).start()
                out = tool.communicate(timeout=120)[0].decode()
            said = re.search(r"(Called [^:]*|Nothing was done: .{0,50})", out)
            key = said.group(1) if said else f"exit {tool.returncode}"
            outcomes[key] = outcomes.get(key, 0) + 1
        print(f"  FIGURE relieve training: {outcomes}; {program('steps') - begun} steps meanwhile")
        program.do("stop = True; trainer.join()")
        losses = program("losses")
        check(all(b <= a * 1.001 for a, b in zip(losses, losses[1:])), "the losses", losses[:20])
        check(any(key.startswith("Called") for key in outcomes), "it was never done", outcomes)
        relieve.is_whole(program)
        relieve.nothing_is_left(program.pid)


if __name__ == "__main__":
    main(globals())
