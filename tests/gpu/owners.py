# SPDX-License-Identifier: Apache-2.0
"""The owners that vramtap names on a real GPU, against programs that know them (owners_target.py). Of the bytes in use 98 % must have
a category, and of those that the truth knows 95 % the right name; nothing may be wrong that is called certain. Failures are listed."""
import collections
import contextlib
import concurrent.futures
import json
import os
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "functional"))
from harness import COMPLETE, PARTIAL, Job, Skip, check, equal, main, report, report_json  # noqa: E402
from stacks import count_gpus  # noqa: E402
from owners_truth import judge  # noqa: E402

CATEGORY, NAME, KNOWN = 98, 95, 80  # per cent of the bytes
PYTHON = os.environ.get("OWNERS_PYTHON", sys.executable).split()  # the functional tests' simulated one, to try this without a GPU


class Program(Job):
    def __init__(self, *args):
        super().__init__([*PYTHON, "-W", "ignore", os.path.join(HERE, "owners_target.py"), *args], ready=("ready", "skip"))

    def __enter__(self):
        super().__enter__()
        if self.proc.ready_line.startswith("skip"):
            super().__exit__(None, None, None)
            raise Skip(self.proc.ready_line)
        return self


def told(program):
    with tempfile.NamedTemporaryFile(prefix="vramtap-truth-") as out:
        program.do(out.name)
        with open(out.name, encoding="utf-8") as file:
            return json.load(file)


def show(title, lines, most=40):
    print(f"    {title}: {len(lines)}")
    for line in sorted(set(lines))[:most]:
        print(f"      {line[:400]}")


def read(program):
    """A report, its wall time, and what the text says."""
    begin = time.monotonic()
    data = report_json(program.pid, expect=(COMPLETE, PARTIAL))
    wall = (time.monotonic() - begin) * 1e3
    _, text, _ = report(program.pid, "--width", "120")
    return data, wall, text


def is_right(label, data, wall, text, truth):
    equal(data["owners"]["state"], "read", "owners")
    result = judge(data, truth)
    print(f"  FIGURE owners {label}: {result}; wall {wall:.0f} ms, stopped {data['timing']['stopped_ms']:.1f} ms, owners "
          f"{data['timing']['owners_ms']:.0f} ms, {data['owners']['objects']} objects")
    for title, lines in (("wrong", result.wrong), ("wrong and called certain", result.lies), ("wrong facts", result.facts),
                         ("not known to the program", result.untold), ("skipped", truth["skipped"])):
        show(title, lines)
    print("    | " + text.split("What the blocks in use are", 1)[-1][:3000].replace("\n", "\n    | "))
    check(100 * result.told >= CATEGORY * result.in_use, "too few bytes in use have a category", result.untold)
    check(100 * result.known >= KNOWN * result.in_use, "the truth knows too little", result.untold)
    check(100 * result.category >= CATEGORY * result.known, "too few categories are right", result.wrong)
    check(100 * result.named >= NAME * result.known, "too few names are right", result.wrong)
    unforeseen = result.unforeseen()
    equal([line for line in unforeseen if line in result.lies or line in result.facts], [], "what is wrong and called certain")


def one(*args):
    with Program(*args) as program:
        data, wall, text = read(program)
        is_right(" ".join(args), data, wall, text, told(program))


def running(mode, reports=12, most_unknown=5):
    """A loop that runs on: what stays is named as ever, and what comes and goes has an owner, too, as it is all of one moment."""
    with Program(mode, "run") as program:
        all_read = [report_json(program.pid, expect=(COMPLETE, PARTIAL)) for _ in range(reports)]
        truth = told(program)
    truth["blocks"] = None  # of a later moment
    judged = [(data, judge(data, truth)) for data in all_read]
    # On a busy machine its allocator may not stand still for as long as a walk takes: then a report says so, and lists no blocks.
    equal([data["pytorch"]["allocators"] for data, result in judged if not result.in_use and
           all(one["result"] == "complete" for one in data["pytorch"]["allocators"])], [],
          "no blocks, and no reason")
    results = [result for _, result in judged if result.in_use]
    check(2 * len(results) > reports, "too few reports list the blocks", [data["diagnostics"] for data in all_read])
    unknown = sorted(100 * (1 - result.told / result.in_use) for result in results)
    stopped = sorted(data["timing"]["stopped_ms"] for data in all_read)
    print(f"  FIGURE owners of a running {mode}: bytes without an owner in {len(results)} of {reports} reports: "
          f"median {unknown[len(results) // 2]:.2f} %, most {unknown[-1]:.2f} %; stopped: median {stopped[reports // 2]:.1f} ms, most {stopped[-1]:.1f} ms; listed "
          f"{collections.Counter(one['method'] for data in all_read for one in data['pytorch']['allocators'])}")
    for title in ("wrong", "lies", "facts"):
        show(title, [line for result in results for line in getattr(result, title)])
    show("categories", [str({c["category"]: c["bytes"] for c in data["owners"]["categories"]}) for data in all_read])
    for result in results:
        result.facts = [fact for fact in result.facts if "requires_grad None" not in fact]  # not known is no lie, where it runs
        unforeseen = result.unforeseen()
        equal([line for line in unforeseen if line in result.lies or line in result.facts], [], "what is wrong and called certain")
        check(100 * result.category >= CATEGORY * result.known, "too few categories are right", result.wrong)
        check(100 * result.named >= NAME * result.known, "too few names are right", result.wrong)
    check(unknown[len(results) // 2] <= most_unknown, "too much has no owner", unknown)


STATES = ("forward", "loss", "backward", "step", "between")


def each(mode, states=STATES):
    """All states, also when one fails."""
    failed = []
    for state in states:
        try:
            one(mode, state)
        except AssertionError as err:
            failed.append(f"{state}: {str(err)[:1000]}")
            print(f"  FAILED {mode} {failed[-1]}")
    equal(failed, [], f"failures of {mode}")


def two(mode, states=("loss", "between")):
    """Both ranks, each with its own truth."""
    if "OWNERS_PYTHON" not in os.environ and count_gpus() < 2:
        raise Skip("needs two GPUs")
    for state in states:
        with contextlib.ExitStack() as ends, concurrent.futures.ThreadPoolExecutor() as pool, tempfile.TemporaryDirectory() as where:
            jobs = [Program(mode, state, str(rank), os.path.join(where, "store")) for rank in range(2)]
            for started in [pool.submit(job.__enter__) for job in jobs]:
                ends.push(started.result())
            for rank, job in enumerate(jobs):
                data, wall, text = read(job)
                is_right(f"{mode} {state} rank {rank}", data, wall, text, told(job))


def test_owners_plain():
    each("plain")


def test_owners_running():
    running("plain")


def test_owners_running_gpt2():
    running("gpt2")


def test_owners_gpt2():
    each("gpt2")


def test_owners_lora():
    each("lora", ("loss", "between"))


def test_owners_graph():
    one("graph")


def test_owners_compile():
    each("compile", ("step", "between"))


def test_owners_generate():
    one("generate")


def test_owners_lightning():
    one("lightning")


def test_owners_ddp():
    two("ddp")


def test_owners_fsdp():
    two("fsdp")


def test_owners_fsdp1():
    two("fsdp1")


if __name__ == "__main__":
    main(globals())
