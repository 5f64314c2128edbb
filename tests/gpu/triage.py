# SPDX-License-Identifier: Apache-2.0
"""vramtap triage of jobs over NCCL on real GPUs: the rank that is not where the others are must be named, what NCCL's RAS says is what a client of
its own gets; and how long eight processes take."""
import concurrent.futures
import contextlib
import json
import os
import random
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

from scenarios import HERE, Gpu
import ras_client
from stacks import count_gpus
from harness import COMPLETE, PARTIAL, VRAMTAP, Job, Skip, check, equal, main, proc_state, report_json

WORLD = 2


class Rank(Job):
    def __init__(self, rank, trouble, store, **env):
        super().__init__([sys.executable, os.path.join(HERE, "triage_rank.py"), trouble, store],
                         env=dict(os.environ, RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(WORLD), **env))


@contextlib.contextmanager
def together(jobs):
    with contextlib.ExitStack() as ends, concurrent.futures.ThreadPoolExecutor() as pool:
        for started in [pool.submit(job.__enter__) for job in jobs]:
            ends.push(started.result())
        yield jobs


def triage(*options, look=None):
    """The job document, what was printed, and the wall time in ms; look(directory, document), while it is there."""
    with tempfile.TemporaryDirectory() as directory:
        begin = time.monotonic()
        done = subprocess.run([VRAMTAP, "triage", *options, "--width", "120", "-o", os.path.join(directory, "out")], stdin=subprocess.DEVNULL,
                              capture_output=True, timeout=100, check=False)
        wall = (time.monotonic() - begin) * 1e3
        check(done.returncode in (COMPLETE, PARTIAL), f"exit code {done.returncode}", done.stderr.decode(), done.stdout.decode()[-2000:])
        with open(os.path.join(directory, "out", "report.json"), encoding="utf-8") as file:
            document = json.load(file)
        if look:
            look(os.path.join(directory, "out"), document)
        return document, done.stdout.decode(), wall


def culprit_is_named(trouble, word):
    if count_gpus() < WORLD:
        raise Skip("needs two GPUs")
    with tempfile.TemporaryDirectory() as directory, together([Rank(r, trouble, os.path.join(directory, "store")) for r in range(WORLD)]) as ranks:
        time.sleep(1)
        document, text, wall = triage(*[str(rank.pid) for rank in ranks])
        print(f"  {wall:.0f} ms\n  | " + text.replace("\n", "\n  | "))
        verdicts = document["found"]["verdicts"]
        ranks_of = [m["rank"] for m in document["members"]]
        equal(ranks_of, list(range(WORLD)), "ranks")
        last = [[WORLD - 1, WORLD - 1]]  # members are ranges of indices
        check(any(v["members"] == last and word in v["text"] for v in verdicts), f"rank {WORLD - 1} is not named", verdicts)
        check(f"pid {ranks[-1].pid} on " in text.partition("What differs")[2].partition("Ranks:")[0], f"rank {WORLD - 1} does not differ", text)
        for rank in ranks:
            check(proc_state(rank.pid) in "SR", "state", proc_state(rank.pid))


def test_triage_rank_that_sleeps():
    culprit_is_named("asleep", "read_slowly")


def test_triage_rank_in_a_loop():
    culprit_is_named("loops", "count_for_ever")


def test_triage_flight_recorder():
    """The state of each rank's group is what its own flight recorder tells it, and the rank that is behind is named by its number."""
    if count_gpus() < WORLD:
        raise Skip("needs two GPUs")
    with tempfile.TemporaryDirectory() as directory, together([Rank(r, "asleep", os.path.join(directory, "store")) for r in range(WORLD)]) as ranks:
        time.sleep(4)
        document, text, wall = triage("--inject", *[str(rank.pid) for rank in ranks])
        print(f"  {wall:.0f} ms\n  | " + text.replace("\n", "\n  | "))
        for member, rank in zip(document["members"], ranks):
            groups, told = member["collectives"]["groups"], json.loads(rank.ask("tell"))
            equal([g["group"] for g in groups], list(told["pg_config"]), "groups")
            entries, ours = told["entries"], groups[0]
            equal(ours["last_enqueued"], entries[-1]["collective_seq_id"], "the last collective")
            pending = [e for e in entries if e["state"] != "completed"]
            equal(ours["pending"], len(pending), "collectives that are not over")
            equal(ours["last_completed"], entries[-1]["collective_seq_id"] - len(pending), "the last one that is over")
            if pending:
                equal(ours["backend"] + ":" + ours["oldest_pending"]["name"], pending[0]["profiling_name"], "what it waits in")
                began = member["collectives"]["told_at_ms"] - ours["oldest_pending"]["age_ms"]
                check(abs(began - pending[0]["time_created_ns"] / 1e6) < 100, "since when", began, pending[0])
        behind = [v for v in document["found"]["verdicts"] if v["code"] == "behind"]
        check(behind and behind[0]["text"].startswith(f"rank {WORLD - 1} has not begun all_reduce number "), "the ranks that are behind", behind)
        for rank in ranks:
            check(proc_state(rank.pid) in "SR", "state", proc_state(rank.pid))


def ask_while_capturing(ask, expect):
    """What CUDA says of the begin and the end of a capture, when ask(ranks) happens between the two."""
    with tempfile.TemporaryDirectory() as directory, together([Rank(r, "captures", os.path.join(directory, "store")) for r in range(WORLD)]) as ranks:
        time.sleep(2)
        ask(ranks)
        results = json.loads(ranks[-1].ask("end"))
        print(f"  {ask.__name__}: begin and end of the capture {results}")
        equal([code != 0 for code in results], [False, expect], "begin and end of the capture")


def nobody_asks(_):
    pass


def triage_asks(ranks):
    document = triage("--inject", *[str(rank.pid) for rank in ranks])[0]
    equal([m["collectives"]["groups"][0]["pending"] for m in document["members"]], [1, 1], "operations under way")


def report_asks(ranks):
    data = report_json(ranks[-1].pid, "--collectives", "--ask-pytorch", expect=COMPLETE)
    equal(data["pytorch"]["collectives"]["groups"][0]["pending"], 1, "operations under way")
    check(data["cuda"]["devices"][WORLD - 1]["memory_pools"], "the driver's pools", data["cuda"]["devices"])


def recorder_asks(ranks):
    for word in "on", "off":  # with --cupti it would wait for the kernel that is under way
        done = subprocess.run([VRAMTAP, "record", str(ranks[-1].pid), word], capture_output=True, timeout=60, check=False)
        equal(done.returncode, COMPLETE, done.stderr.decode())


def rank_asks_itself(ranks):
    told = json.loads(ranks[-1].ask("tell"))
    equal(sum(e["state"] != "completed" for e in told["entries"]), 1, "operations under way")


def test_triage_spoils_no_capture():
    """A thread of rank 1 captures a graph while a collective is under way, and nothing that is asked from inside ends that; it would if the
    rank asked its own recorder."""
    if count_gpus() < WORLD:
        raise Skip("needs two GPUs")
    for ask in nobody_asks, triage_asks, report_asks, recorder_asks:
        ask_while_capturing(ask, False)
    ask_while_capturing(rank_asks_itself, True)


# ---- it does no harm ----

def census(pid):
    return {"threads": len(os.listdir(f"/proc/{pid}/task")), "files": len(os.listdir(f"/proc/{pid}/fd"))}


def steps_of(ranks):
    return [json.loads(rank.ask("steps")) for rank in ranks]


def test_triage_endurance():
    """A job that is well is asked over and over, inside and outside, and some of that is killed: it computes on, and is as before."""
    if count_gpus() < WORLD:
        raise Skip("needs two GPUs")
    rng = random.Random(7)
    with tempfile.TemporaryDirectory() as directory, together([Rank(r, "none", os.path.join(directory, "store")) for r in range(WORLD)]) as ranks:
        pids = [str(rank.pid) for rank in ranks]
        triage("--inject", *pids)  # the first one's code stays
        before, steps = [census(pid) for pid in pids], steps_of(ranks)
        time.sleep(3)
        quiet = steps_of(ranks)
        for option in "--quiet", "--inject":
            for _ in range(15):
                document = triage(option, *pids)[0]
                equal([v["text"] for v in document["found"]["verdicts"] if v["alarm"]], [], "alarms")
            looked_at = steps_of(ranks)
            print(f"  FIGURE longest step: {max(s['longest_ms'] for s in quiet):.2f} ms alone, "
                  f"{max(s['longest_ms'] for s in looked_at):.2f} ms with 15 times triage {option}")
        for _ in range(60):
            with tempfile.TemporaryDirectory() as out, \
                    subprocess.Popen([VRAMTAP, "triage", "-q", "--inject", *pids, "-o", os.path.join(out, "out")], stdin=subprocess.DEVNULL,
                                     stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True) as tool:
                time.sleep(rng.random() * 0.35)
                os.killpg(tool.pid, signal.SIGKILL)
        time.sleep(6)
        after = steps_of(ranks)
        equal([s["wrong"] for s in after], [0] * WORLD, "steps that came out wrong")
        check(all(a["steps"] > b["steps"] + 1000 for a, b in zip(after, steps)), "it goes on", steps, after)
        equal([census(pid) for pid in pids], before, "threads and open files")
        print(f"  {after[0]['steps']} steps, 31 times triage, 60 killed: unharmed")


# ---- NCCL's RAS ----

@contextlib.contextmanager
def ranks_with_ras():
    if count_gpus() < WORLD:
        raise Skip("needs two GPUs")
    address = ras_client.free_address()
    with tempfile.TemporaryDirectory() as directory, \
            together([Rank(r, "asleep", os.path.join(directory, "store"), NCCL_RAS_ADDR=f"{address[0]}:{address[1]}") for r in range(WORLD)]) as ranks:
        time.sleep(1)
        with contextlib.suppress(OSError), socket.create_connection(address, timeout=5):
            yield ranks, address
            return
        raise Skip("this PyTorch's NCCL has no RAS")


def test_triage_ras():
    """Rank 1 misses a collective: RAS says so, in the same words to vramtap and to the test."""
    with ranks_with_ras() as (ranks, address):
        own = {form: ras_client.ask(address, form) for form in ("text", "json")}
        print("  | " + own["text"].replace("\n", "\n  | "))
        expected = ras_client.counts_of(own["json"] or own["text"])
        equal(ras_client.counts_of(own["text"]), expected, "what RAS says in its two forms")
        check(len(expected) == 1 and all(of[0] == of[1] + 1 for of in expected.values()), "rank 1 is one operation behind", expected)

        def look(directory, document):
            with open(os.path.join(directory, document["ras"][0]["file"]), encoding="utf-8") as file:
                equal(ras_client.counts_of(file.read()), expected, "what vramtap kept")
        for option in ("--ras", "--inject"):
            document, text, wall = triage(option, *[str(rank.pid) for rank in ranks], look=look)
            print(f"  {wall:.0f} ms\n  | " + text.replace("\n", "\n  | "))
            (ras,) = document["ras"]
            check(ras["understood"] and ras["communicators"] == 1 and ras["pid"] in [rank.pid for rank in ranks], "the answer", ras)
            equal(ras_client.counts_told(ras), expected, "what vramtap says")
            (verdict,) = [v for v in document["found"]["verdicts"] if v["code"] == "ras-behind"]
            equal((verdict["members"], verdict["alarm"]), ([[1, 1]], True), "the ranks that are behind")
            for rank in ranks:
                check(proc_state(rank.pid) in "SR", "state", proc_state(rank.pid))
        # Without either it is not asked.
        equal(triage(*[str(rank.pid) for rank in ranks])[0]["ras"], [], "answers without --ras")


def test_triage_ras_silent():
    """A rank that is stopped does not answer RAS, whichever of them the kernel chooses at first."""
    with ranks_with_ras() as (ranks, _):
        os.kill(ranks[1].pid, signal.SIGSTOP)
        try:
            document, text, wall = triage("--ras", *[str(rank.pid) for rank in ranks])
        finally:
            os.kill(ranks[1].pid, signal.SIGCONT)
        print(f"  {wall:.0f} ms\n  | " + text.replace("\n", "\n  | "))
        (ras,) = document["ras"]
        equal((ras["pid"], ras["understood"]), (ranks[0].pid, True), "the rank that answered")
        codes = {v["code"]: v["members"] for v in document["found"]["verdicts"]}
        equal(codes.get("ras-silent"), [[1, 1]], "the rank that does not answer")
        equal(codes.get("stopped"), [[1, 1]], "the rank that is stopped")


def test_triage_figures():
    with together([Gpu("idle", "--blocks", "2000", "--plain") for _ in range(8)]) as gpus:
        pids = [str(gpu.pid) for gpu in gpus]
        one, eight, stopped, apart = [], [], [], []
        for i in range(21):
            one_wall = triage("-q", pids[i % 8])[2]
            document, _, wall = triage("-q", *pids)
            if i:
                one.append(one_wall)
                eight.append(wall)
                stopped.append(max(m["stopped_ms"] for m in document["members"]))
                begins = [m["stopped_at_ns"] for m in document["members"]]
                apart.append((max(begins) - min(begins)) / 1e6)
        for name, values in (("one process", one), ("eight processes", eight), ("longest stop", stopped), ("stops apart", apart)):
            print(f"  FIGURE {name}: median {statistics.median(values):.2f} min {min(values):.2f} max {max(values):.2f} ms")
        print(f"  FIGURE ratio of medians {statistics.median(eight) / statistics.median(one):.2f}, of {os.cpu_count()} processors")
        for gpu in gpus:
            gpu.unharmed()


if __name__ == "__main__":
    main(globals())
