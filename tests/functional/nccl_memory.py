#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What NCCL's communicators hold: the real library's list of communicators, with structures that tests/targets/nccl_memory.py lays out, and
memory of the simulated device. tests/gpu/ledger.py asks communicators that NCCL made itself."""
import json
import os
import random
import re
import sys

from harness import CACHE, COMPLETE, PARTIAL, SOURCE, Job, Skip, check, check_schema, equal, main, report, report_json

sys.path.insert(0, os.path.join(SOURCE, "tests", "targets"))
import nccl_ras  # noqa: E402

MIB = 1 << 20
PROGRAM = os.path.join(SOURCE, "tests", "targets", "nccl_memory.py")


class Nccl(Job):
    def __init__(self, *args):
        if not nccl_ras.is_there():
            raise Skip("NCCL is not in the cache: sh tests/setup/nccl.sh")
        env = dict(os.environ, LD_LIBRARY_PATH=os.path.join(CACHE, "simcuda"), NCCL_RAS_ADDR="127.0.0.1:0")
        super().__init__([sys.executable, "-B", PROGRAM, *args], ready="{", env=env)

    def __enter__(self):
        super().__enter__()
        self.truth = json.loads(self.proc.ready_line)
        return self


def pools(data):
    return {p["object"]: [int(r["address"], 16) for r in p["regions"]] for p in data["libpools"]["pools"] if p["library"] == "nccl"}


def as_it_is(job, data):
    """Each communicator has what it holds, and nothing of the users'."""
    expected = {at: sorted(held) for at, held in job.truth["communicators"].items()}
    equal(pools(data), expected, "what the communicators hold")
    line = next(d for d in data["ledger"]["devices"] if d["device"] == 0)
    ranges = {int(r["address"], 16): r for r in data["ledger"]["ranges"]}
    held = [at for addresses in expected.values() for at in addresses]
    equal((line["claimed"]["nccl"]["bytes"], line["claimed"]["nccl"]["ranges"]), (sum(ranges[at]["bytes"] for at in held), len(held)), "the line")
    equal({ranges[at]["claimed_by"] for at in held}, {"nccl"}, "whose they are")
    equal({ranges[at]["claimed_by"] for at in job.truth["users"] + [job.truth["private"]]}, {None}, "the users' memory")
    equal(line["shareable"]["ranges"], len(job.truth["users"]), "what nobody claims")


def read(job):
    data = report_json(job.proc.pid, "--no-owners", expect=(COMPLETE, PARTIAL))
    check_schema(data)
    return data


def test_releases():
    """The sizes of ncclSharedResources from 2.24 to 2.29."""
    for size in (904, 1672, 1792, 2072, 2088):
        with Nccl(str(size)) as job:
            as_it_is(job, read(job))


def test_communicators():
    with Nccl() as job:
        as_it_is(job, read(job))
        job.truth = json.loads(job.ask("drop"))
        data = read(job)
        equal(set(pools(data)), set(job.truth["communicators"]), "a communicator that has ended")


def test_text():
    with Nccl() as job:
        _, out, _ = report(job.proc.pid, "--width", "120", "--ranges")
        held = sum(len(c) for c in job.truth["communicators"].values())
        check(re.search(rf"^  held by NCCL +[0-9.]+ MiB +{held} +[0-9]+ %   3 communicators$", out, re.M), "the line", out)
        check(re.search(r"^    of which made to be shared +[0-9.]+ MiB", out, re.M), "what nobody claims", out)
        check(re.search(rf"^  {max(job.truth['communicators'][min(job.truth['communicators'])]):#x} .* NCCL$", out, re.M) is not None, "the list", out)


def test_damaged():
    """Random words of the structures: no crash, nothing of the users' is NCCL's, nothing is counted twice."""
    rng = random.Random(4)
    with Nccl() as job:
        for _ in range(12):
            with open(f"/proc/{job.proc.pid}/mem", "r+b", buffering=0) as mem:
                for at in job.truth["communicators"]:
                    where = int(at, 16) + 8 * rng.choice([rng.randrange(1, 3000), rng.randrange(1, nccl_ras.COMM_SIZE // 8 - 1)])
                    mem.seek(where)
                    mem.write(rng.choice([rng.randbytes(8), int(at, 16).to_bytes(8, "little"), (where - 16).to_bytes(8, "little")]))
            data = read(job)
            found = [at for addresses in pools(data).values() for at in addresses]
            equal(len(found), len(set(found)), "an allocation of two communicators")
            held = {at for addresses in job.truth["communicators"].values() for at in addresses}
            check(set(found) <= held, "users' memory", sorted(set(found) - held))
            check(len(found) > len(held) // 2, "most is found all the same", len(found), len(held))


if __name__ == "__main__":
    main(globals())
