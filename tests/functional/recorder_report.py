#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the report says of what vramtap recorded: which blocks, how old, by which thread, of a process and of a core."""
import json
import os
import re
import subprocess
import threading
import time

import recorder_truth as truth
from core import SANITIZED, allow_cores, kernel_core, report_core, settle
from harness import COMPLETE, PARTIAL, QUICK, SOURCE, check, check_schema, diag_codes, equal, main, report, report_json
from report_torch import versions
from torch_history import blocks_of, frames_of, sums_agree

EITHER = (COMPLETE, PARTIAL)


def job_of(version=None, **kwargs):
    return truth.Recorded(version or versions()[-1], **kwargs)


def record(job, what, *options):
    return truth.record(job.pid, what, *options, expect=EITHER)


def on(job, *options):
    return record(job, "on", "--no-driver", *options)


def traced(data):
    return {a: b for a, b in blocks_of(data).items() if truth.is_ours(data, b)}


def without(data):
    return {why: amount["blocks"] for why, amount in data["pytorch"]["recorded"]["without"].items() if amount["blocks"]}


def test_who_when_and_what_not():
    """Ages, threads, and which blocks are older than the recording; by all ways to list the blocks."""
    with job_of() as job:
        job("blocks", 30)
        equal(job.report()["recorder"], None, "a recorder that is not there")
        on(job)
        begin = time.monotonic()
        job("step")
        time.sleep(1.1)
        job("step")
        job("blocks", 100)
        for args in ((), ("--read-only",), ("--no-stop",)):
            before = time.monotonic()
            data = job.report(*args)
            after = time.monotonic()
            check_schema(data)
            sums_agree(data)
            recorder = data["recorder"]
            equal((recorder["state"], recorder["frames"], recorder["ages_from"]), ("on", ["python", "native"], "report"), "state")
            check(before - begin - 0.1 < recorder["on_for_s"] < after - begin + 30, "how long it is on", recorder["on_for_s"])
            blocks = traced(data)
            equal((len(blocks), without(data)), (102, {"not_recorded": 30}), f"blocks {args}")
            steps = sorted((b["age_s"], b) for a, b in blocks.items() if b.get("requested_bytes") == 4321)
            check(len(steps) == 2 and 1 < steps[1][0] - steps[0][0] < 1.1 + after - begin, "ages of two blocks", steps)
            check(steps[1][0] <= after - begin + 0.02 and steps[0][0] >= before - begin - 5 - 1.1, "age", steps)
            for address, block in blocks.items():
                equal((block["tid"], bool(block["thread"])), (job.pid, True), f"thread of {address:#x}")
                check(truth.names(data, block)[0] == "by_function", "its innermost function", frames_of(data, block))
            site = max(data["pytorch"]["recorded"]["sites"], key=lambda s: s["blocks"])
            equal((site["oldest_age_s"], site["newest_age_s"]),
                  (max(b["age_s"] for b in blocks.values()), min(b["age_s"] for b in blocks.values())), "ages of the site")
        for width in ("80", "160"):
            _, out, _ = report(job.pid, "--width", width, expect=EITHER)
            check("Allocated by, recorded by vramtap for " in out and "allocated before recording began" in out and "oldest" in out,
                  "the text", out)
            check(max(len(line) for line in out.splitlines()) <= int(width), "a line is too wide", out)
        _, out, _ = report(job.pid, "--blocks", "--width", "160", expect=EITHER)
        check(out.count(f" ago by thread {job.pid} ") == 102, "--blocks", out)
        record(job, "off")
        data = job.report()
        equal((data["recorder"]["state"], data["pytorch"]["recorded"]), ("off", None), "after it is off")
        job.unharmed()


def test_both_sources():
    """Where PyTorch's own history is on, too, what is shown is ours, and that they agree is found."""
    with job_of() as job:
        job("history", "python")
        job("blocks", 50)
        on(job)
        job("blocks", 70)
        job("places", 1)
        job("history", "off")
        job("blocks", 20)
        data = job.report()
        sums_agree(data)
        check_schema(data)
        recorded = data["pytorch"]["recorded"]
        sources = {s: sum(t["blocks"] for t in recorded["backtraces"] if t["source"] == s) for s in ("pytorch", "vramtap")}
        agreement = data["recorder"]["history_agreement"]
        check(sources["pytorch"] == 50 and sources["vramtap"] > 200, "blocks by source", sources)
        # What was made in a thread without Python is in neither; in the last 20 is no history.
        check(agreement["compared_blocks"] > 200 and not agreement["differing_blocks"], "agreement", agreement)
        ended = [b for b in traced(data).values() if b["tid"] != job.pid and b["thread"] is None]
        check(ended, "no block of a thread that has ended")
        _, out, _ = report(job.pid, "--width", "160", expect=EITHER)
        check("recorded by vramtap for " in out and " and by PyTorch" in out, "the text", out)
        snapshot = job.snapshot()
        truth.nothing_wrong(truth.agree(data, {a: b if b["frames"] else {"frames": []} for a, b in snapshot.items()
                                               if truth.is_ours(data, blocks_of(data)[a]) or not b["frames"]} |
                                        {a: {"frames": []} for a in snapshot if not truth.is_ours(data, blocks_of(data)[a])},
                                        truth.look_at_python))


def test_many_blocks():
    """20,000 with both kinds of frames: within a second, and nothing is stopped for it."""
    with job_of() as job:
        on(job)
        job("blocks", 20000)
        best = {}
        for args in (("--read-only",), ("--no-stop",)):
            begin = os.times()
            runs = [report_json(job.pid, "--sites", *args, expect=EITHER) for _ in range(1 if SANITIZED else 3)]
            end = os.times()
            spent = (end.children_user + end.children_system - begin.children_user - begin.children_system) / len(runs)
            sums_agree(runs[0])
            check(len(traced(runs[0])) == 20000, "blocks with a backtrace", without(runs[0]))
            best[args[0]] = min(r["timing"]["total_ms"] for r in runs)
            # Processor time: what else the machine does is no news.
            check(SANITIZED or spent < 1, "seconds of processor time for a report", spent)
        print("  20,000 blocks: " + ", ".join(f"{a} {ms:.0f} ms" for a, ms in best.items()))


# Which functions allocate blocks of which size under load (torch_recorder.py); all are two functions.
MAKERS = {100: "allocate", 5000: "allocate", 70000: "allocate", 1200: "allocate_and_free"}


def test_blocks_that_come_and_go():
    """A backtrace is never that of the block that was there before."""
    with job_of() as job:
        on(job, "--python")
        job("load", 4)
        seen, why = {}, {}
        for i in range(3 if QUICK else 300):
            data = job.report(*[(), ("--read-only",), ("--no-stop",)][i % 3])
            check_schema(data)
            for address, block in blocks_of(data).items():
                reason = block.get("no_backtrace", "older")
                names = truth.names(data, block)
                if names is None:
                    why[reason] = why.get(reason, 0) + 1
                    continue
                size = block["requested_bytes"]
                equal(names[0], MAKERS[size], f"the backtrace of the block at {address:#x} of {size} bytes is another one's")
                check(0 <= block["age_s"] < 600, "age", block)
                seen[size] = seen.get(size, 0) + 1
            if all(a["result"] == "complete" for a in data["pytorch"]["allocators"]):
                sums_agree(data)
            check(not {"records-damaged", "stacks-damaged", "tables-unread"} & diag_codes(data), "called damaged", data["diagnostics"])
        job("rest")
        print(f"  backtraces by size {seen}; without: {why}")
        check(sum(seen.values()) > 20, "too few backtraces", seen, why)
        record(job, "off")
        job.unharmed()


def test_off_while_it_is_read():
    """It may be switched off, and on again, at any moment of a report: what is shown is right, or the report says that nothing is shown."""
    with job_of() as job:
        job("blocks", 3000)
        on(job)
        job("blocks", 3000)
        stop = threading.Event()

        def switch():
            while not stop.is_set():
                record(job, "off")
                on(job)

        thread = threading.Thread(target=switch)
        thread.start()
        states = {}
        try:
            for i in range(8 if QUICK else 200):
                data = report_json(job.pid, "--no-stop", "--no-owners", expect=EITHER)
                state = data["recorder"]["state"]
                states[state] = states.get(state, 0) + 1
                check(not {"records-damaged", "stacks-damaged", "damaged"} & diag_codes(data), "called damaged", data["diagnostics"])
                for block in traced(data).values():
                    equal(truth.names(data, block)[0], "by_function", "its function")
                if data["pytorch"]["recorded"]:
                    sums_agree(data)
        finally:
            stop.set()
            thread.join()
        print(f"  states seen: {states}")
        check(set(states) <= {"on", "off"}, "states", states)
        job.unharmed()


def test_core():
    with job_of(preexec_fn=allow_cores) as job:
        job("blocks", 10)
        on(job)
        job("blocks", 200)
        job("step")
        settle(job.pid)
        live = job.report("--read-only")
        with kernel_core(job.pid, job.proc.wait, job.where) as path:
            core = report_core(path)
        check_schema(core)
        sums_agree(core)
        equal({a: frames_of(core, b) for a, b in blocks_of(core).items()}, {a: frames_of(live, b) for a, b in blocks_of(live).items()},
              "backtraces of a core")
        equal(without(core), without(live), "blocks without a backtrace")
        equal(core["recorder"]["ages_from"], "last-record", "ages")
        check(len(traced(core)) == 201 and min(b["age_s"] for b in traced(core).values()) == 0, "ages", core["recorder"])


def samples_are_called_so(job):
    on(job, "--sample=1M", "--python")
    job("blocks", 500)
    data = job.report()
    sums_agree(data)
    recorder = data["recorder"]
    equal((recorder["sample_bytes"], recorder["sample_now_bytes"], recorder["allocations"]), (1 << 20, 1 << 20, 500), "sampling")
    missing = without(data)
    check(set(missing) == {"sampled"} and missing["sampled"] + len(traced(data)) == 500 and missing["sampled"] > 400, "blocks", missing)
    if traced(data):
        _, out, _ = report(job.pid, expect=EITHER)
        check("are sampled, one per" in out and "count recorded blocks only" in out, "the text", out)


def out_of_memory(job):
    """The last requests that failed, with the code that made them."""
    on(job)
    for _ in range(18):
        job("fail_once")
    data = job.report()
    check_schema(data)
    events = data["recorder"]["out_of_memory"]
    equal([e["number"] for e in events], list(range(3, 19)), "the last 16")
    recorded = data["pytorch"]["recorded"]
    for event in events:
        frames = [recorded["frames"][i]["function"] for i in recorded["backtraces"][event["backtrace"]]["frames"]]
        equal((event["kind"], event["requested_bytes"], event["tid"]), ("pytorch", 1 << 46, job.pid), "event")
        check("do_fail_once" in frames and 0 < event["free_bytes"] <= event["total_bytes"], "event", event, frames)
    _, out, _ = report(job.pid, "--width", "160", expect=EITHER)
    check("Out of memory 18 times since recording began" in out and "64.0 TiB asked for in do_fail_once" in out, "the text", out)


JQ = r"\| jq -r '(.*?)'"


def json_is_for_jq(job):
    """The example of the man page."""
    with open(os.path.join(SOURCE, "doc", "vramtap-report.1"), encoding="utf-8") as file:
        query = re.search(JQ, file.read(), re.S)[1]
    on(job, "--python")
    job("blocks", 40)
    data = json.dumps(job.report())
    out = subprocess.run(["jq", "-r", query], input=data, text=True, check=True, stdout=subprocess.PIPE).stdout.split("\t")
    equal((out[1], out[3]), ("40", "by_function"), "jq")


def test_samples_and_errors():
    """One after the other in one process."""
    with job_of() as job:
        samples_are_called_so(job)
        record(job, "off")
        out_of_memory(job)
        record(job, "off")
        json_is_for_jq(job)


if __name__ == "__main__":
    main(globals())
