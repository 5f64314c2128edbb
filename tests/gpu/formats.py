# SPDX-License-Identifier: Apache-2.0
"""The files that other programs open, and the page, of processes on a real GPU: PyTorch's own _snapshot() is the truth of the pickle, the
report's JSON of the same moment that of all others. Prints FIGURE lines: how long each file takes, and how large it is."""
import gzip
import json
import os
import re
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "functional"))
import snapshot_file  # noqa: E402
from browser import documents  # noqa: E402
from harness import COMPLETE, PARTIAL, Job, Skip, check, equal, main, scratch, vramtap  # noqa: E402
from stacks import count_gpus  # noqa: E402

PYTHON = os.environ.get("FORMATS_PYTHON", sys.executable).split()  # the functional tests' simulated one, to try this without a GPU
KINDS = {"json": "json", "html": "html", "snapshot": "pickle", "pprof": "pb.gz", "speedscope": "json", "folded": "txt"}

MANY = """
import sys, torch
if sys.argv[1] == "recorded":
    torch.cuda.memory._record_memory_history(max_entries=300000)
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(64, 64) for _ in range(200))
def allocate(i):
    return torch.empty(1 + i * 7919 % 30000, dtype=torch.uint8, device="cuda")
net = Net().cuda()
optimizer = torch.optim.AdamW(net.parameters())
sum(layer(torch.ones(4, 64, device="cuda")).sum() for layer in net.layers).backward()
optimizer.step()
kept = {f"act.{i}": allocate(i) for i in range(int(sys.argv[2]))}
for i in range(0, len(kept), 5):
    del kept[f"act.{i}"]
torch.cuda.synchronize()
print("READY", flush=True)
for line in sys.stdin:
    print("ok", flush=True)
"""


class Program(snapshot_file.Program):
    """The program of the functional test with the PyTorch of this machine."""

    def __init__(self, *commands, **env):
        self.where, self.commands = scratch(), commands
        Job.__init__(self, [*PYTHON, snapshot_file.TARGET], cwd=self.where, env=dict(os.environ, **env))


def test_formats_snapshot_is_pytorchs():
    if count_gpus() < 2:
        raise Skip("the program uses two devices")
    for commands, env in ((("fill",), {}), (("record python", "fill"), {}),
                          (("record python", "fill"), {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"})):
        with Program(*commands, **env) as job:
            theirs = job.truth()
            ours = snapshot_file.snapshot(job.pid, expect=(COMPLETE, PARTIAL))
            blocks = snapshot_file.same_segments(ours, theirs)
            same = snapshot_file.same_segments(snapshot_file.snapshot(job.pid, "--read-only", expect=(COMPLETE, PARTIAL)), theirs)
            print(f"  FIGURE snapshot of {commands} {env}: {len(blocks)} blocks equal to _snapshot(), {len(same)} with --read-only")


def write(pid, *kinds):
    """Each kind of file in one run, of one moment; returns the files and the seconds that it took."""
    files = {kind: scratch("x." + KINDS[kind]) for kind in kinds}
    begin = time.monotonic()
    vramtap("report", str(pid), "--once", "-q", *(f"--{kind}={path}" for kind, path in files.items()), expect=(COMPLETE, PARTIAL), timeout=120)
    return files, time.monotonic() - begin


def in_use(report):
    """Bytes in use by PyTorch's allocators, and blocks."""
    totals = [a["totals"]["allocated"] for a in report["pytorch"]["allocators"] if a["totals"]]
    return sum(t["bytes"] for t in totals), sum(t["blocks"] for t in totals)


def packed_in_use(page):
    segments = [s["packed"] for a in page["pytorch"]["allocators"] for s in a["segments"]]
    sizes = [size for s in segments for size, state in zip(s["bytes"], "".join(s["states"])) if state == "a"]
    return sum(sizes), len(sizes)


def check_files(files):
    with open(files["json"], encoding="utf-8") as file:
        report = json.load(file)
    want = in_use(report)
    page = documents(files["html"])[0]
    equal(packed_in_use(page), want, "the page")
    for key in ("headlines", "advice", "ledger", "cuda", "threads"):
        equal(page[key], report[key], f"{key} of the page")
    blocks = [b for s in snapshot_file.load(files["snapshot"])["segments"] for b in s["blocks"] if b["state"] == "active_allocated"]
    equal((sum(b["size"] for b in blocks), len(blocks)), want, "the snapshot")
    with open(files["folded"], encoding="utf-8") as file:
        folded = sum(int(line.rsplit(" ", 1)[1]) for line in file)
    equal(folded, want[0], "the folded stacks")
    with open(files["speedscope"], encoding="utf-8") as file:
        profile = json.load(file)["profiles"][0]
    check(sum(profile["weights"]) >= want[0], "speedscope", sum(profile["weights"]), want)
    with gzip.open(files["pprof"]) as file:
        check(len(file.read()) > 1000, "the profile is empty")
    return want


def test_formats_100000_blocks():
    for recorded in ("plain", "recorded"):
        with Job([*PYTHON, "-W", "ignore", "-c", MANY, recorded, "100000"]) as job:
            write(job.pid, "json")  # warms up
            _, base = write(job.pid)
            for kind in KINDS:
                files, took = write(job.pid, kind)
                print(f"  FIGURE {recorded}, {kind}: {(took - base) * 1000:.0f} ms beside {base * 1000:.0f} ms, "
                      f"{os.path.getsize(files[kind]) >> 10} KiB")
            files, took = write(job.pid, *KINDS)
            print(f"  FIGURE {recorded}, all: {took * 1000:.0f} ms, {check_files(files)}")


def test_formats_map_and_bar():
    """What the terminal shows of it."""
    with Job([*PYTHON, "-W", "ignore", "-c", MANY, "plain", "3000"]) as job:
        _, out, _ = vramtap("report", str(job.pid), "--once", "--map", "--width=100", expect=(COMPLETE, PARTIAL), env=dict(os.environ, LC_ALL="C.UTF-8"))
        check(re.search("[█▓▒]", out), "no picture", out[-3000:])
        print("\n".join("    " + line for line in out.splitlines()[:60]))


if __name__ == "__main__":
    main(globals())
