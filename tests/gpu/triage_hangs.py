# SPDX-License-Identifier: Apache-2.0
"""vramtap triage of planted hangs over NCCL on two real GPUs: the rank that is not where the other one waits must be named, and shown as the one that
differs; and the same job, when it is well, raises no alarm."""
import concurrent.futures
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time

from scenarios import HERE
from stacks import count_gpus
from harness import COMPLETE, PARTIAL, VRAMTAP, Job, Skip, check, equal, main, proc_state

WORLD = 2
LAST = WORLD - 1
AFTER_READY = 2.5  # seconds: some get into trouble by then


class Rank(Job):
    def __init__(self, rank, trouble, store):
        super().__init__([sys.executable, os.path.join(HERE, "triage_rank.py"), trouble, store],
                         env=dict(os.environ, RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(WORLD), LOCAL_WORLD_SIZE=str(WORLD)))


@contextlib.contextmanager
def ranks_in(trouble):
    if count_gpus() < WORLD:
        raise Skip("needs two GPUs")
    with tempfile.TemporaryDirectory() as directory, contextlib.ExitStack() as ends, concurrent.futures.ThreadPoolExecutor() as pool:
        ranks = [Rank(rank, trouble, os.path.join(directory, "store")) for rank in range(WORLD)]
        for started in [pool.submit(rank.__enter__) for rank in ranks]:
            ends.push(started.result())
        time.sleep(AFTER_READY)
        yield ranks


def triage(ranks, *options):
    """The job document, and what was printed."""
    with tempfile.TemporaryDirectory() as directory:
        done = subprocess.run([VRAMTAP, "triage", *options, "--width", "120", "-o", os.path.join(directory, "out"),
                               *[str(rank.pid) for rank in ranks]], stdin=subprocess.DEVNULL, capture_output=True, timeout=100, check=False)
        text = done.stdout.decode()
        check(done.returncode in (COMPLETE, PARTIAL), f"exit code {done.returncode}", done.stderr.decode(), text[-2000:])
        with open(os.path.join(directory, "out", "report.json"), encoding="utf-8") as file:
            return json.load(file), text


def members_of(document, verdict):
    return [document["members"][i] for first, last in verdict["members"] for i in range(first, last + 1)]


def section(text, title):
    """The lines below a title, to the next one."""
    lines = text.split("\n")
    begin = next((i for i, line in enumerate(lines) if line.startswith(title)), len(lines))
    end = next((i for i in range(begin + 1, len(lines)) if lines[i] and not lines[i].startswith(" ")), len(lines))
    return "\n".join(lines[begin:end])


def check_named(document, pid, *words):
    """A verdict about this one alone says all of these words."""
    told = [v for v in document["found"]["verdicts"] if [m["pid"] for m in members_of(document, v)] == [pid]]
    check(any(all(word in v["text"] for word in words) for v in told), f"no finding says {words} of {pid}", document["found"]["verdicts"])


def culprit_is_named(trouble, *words, function, states="SR", options=()):
    """Its function is in the verdict, and in its stack below "What differs", where nobody else is."""
    with ranks_in(trouble) as ranks:
        document, text = triage(ranks, *options)
        print("  | " + text.replace("\n", "\n  | "))
        culprit = ranks[LAST].pid
        check_named(document, culprit, f"rank {LAST} ", function, *words)
        differs = section(text, "What differs")
        check(f"pid {culprit} on " in differs and function in differs, "the ranks that differ", text)
        equal([m["pid"] for m in document["members"] if m["outlier"] and m["role"] == "rank"], [culprit], "outliers")
        equal([m["rank"] for m in document["members"] if m["role"] == "rank"], list(range(WORLD)), "ranks")
        for rank in ranks:
            check(proc_state(rank.pid) in (states if rank.pid == culprit else "SR"), "state", proc_state(rank.pid))
        return document


def test_triage_hangs_asleep():
    culprit_is_named("asleep", function="read_slowly")


def test_triage_hangs_in_a_loop():
    culprit_is_named("loops", "runs Python", function="count_for_ever")


def test_triage_hangs_in_the_kernel():
    culprit_is_named("naps", "is in uninterruptible sleep (D)", function="wait_in_the_kernel", states="D")


def test_triage_hangs_stopped():
    culprit_is_named("stops", "is stopped by a signal", function="stop", states="T")


def test_triage_hangs_retries():
    culprit_is_named("retries", "retries an allocation", "gives back cached memory", function="allocate_again")


def test_triage_hangs_failed_request():
    culprit_is_named("fails", "after 1 failed request for GPU memory", function="read_slowly")


def test_triage_hangs_loader():
    """The rank waits for its worker, which is stopped: both are named."""
    document = culprit_is_named("loads", "waits for loader workers", function="next_batch")
    worker = next(m for m in document["members"] if m["role"] == "loader")
    check_named(document, worker["pid"], f"worker 0 of rank {LAST} is stopped by a signal", "read_sample")
    check(worker["outlier"], "the worker", worker)


def test_triage_hangs_killed():
    with ranks_in("dies") as ranks:
        equal(proc_state(ranks[LAST].pid), "Z", "state")
        document, text = triage(ranks)
        print("  | " + text.replace("\n", "\n  | "))
        check_named(document, ranks[LAST].pid, f"rank {LAST}", "has ended or was killed")


def test_triage_hangs_inside():
    """With --inject the devices are known by their UUIDs: each rank has its own."""
    document = culprit_is_named("asleep", function="read_slowly", options=("--inject",))
    holders = [[document["members"][i]["rank"] for i in d["holders"] if document["members"][i]["role"] == "rank"]
               for d in document["found"]["devices"]]
    equal(sorted(ranks for ranks in holders if ranks), [[rank] for rank in range(WORLD)], "the holders of each device")
    check(all(d["uuid"] for d in document["found"]["devices"]), "UUIDs", document["found"]["devices"])


def kernels_of(document):
    """By rank, and shown."""
    found = {m["rank"]: m.get("kernels") for m in document["members"] if m["role"] == "rank"}
    for rank, kernels in sorted(found.items()):
        print(f"  FIGURE triage --kernels: rank {rank}: {kernels}", flush=True)
    return found


def test_triage_hangs_kernels_asleep():
    """What its stack says of the last rank rests on what the GPUs run, too: the other's waits in NCCL's kernel, and its own runs nothing."""
    for options in ((), ("--inject",)):
        document = culprit_is_named("asleep", "cuda-gdb sees nothing run on the GPU of", "ncclDevKernel_AllReduce", function="read_slowly",
                                    options=("--kernels", *options))
        kernels = kernels_of(document)
        equal((kernels[0]["state"], kernels[LAST]["state"]), ("told", "none"), "what runs")
        check(all(k["name"].startswith("ncclDevKernel_AllReduce") for k in kernels[0]["kernels"]) and not kernels[0]["more"], "NCCL's", kernels[0])


def test_triage_hangs_kernels_other():
    """Both GPUs are in NCCL, in different collectives: nobody is accused by that."""
    with ranks_in("other") as ranks:
        document, text = triage(ranks, "--kernels")
        print("  | " + text.replace("\n", "\n  | "))
        equal({k["state"] for k in kernels_of(document).values()}, {"told"}, "what runs")
        equal([v["text"] for v in document["found"]["verdicts"] if v["code"] == "gpus-differ"], [], "said of them")
        check("What the GPUs run" in text, "the section", text)


def test_triage_hangs_kernels_healthy():
    """A job that is well is not given to the debugger, and is not accused."""
    with ranks_in("none") as ranks:
        for _ in range(5):
            document, _ = triage(ranks, "--kernels")
            check(all(k["state"] == "refused" for k in kernels_of(document).values()), "what runs", document["members"])
            equal([v["text"] for v in document["found"]["verdicts"] if v["alarm"]], [], "alarms")


def test_triage_hangs_healthy():
    with ranks_in("none") as ranks:
        for _ in range(20):
            document, _ = triage(ranks)
            equal([v["text"] for v in document["found"]["verdicts"] if v["alarm"]], [], "alarms")


if __name__ == "__main__":
    main(globals())
