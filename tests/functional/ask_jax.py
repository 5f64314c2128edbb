#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""report --ask-jax against JAX itself, on the CPU: its own list of live arrays, and the places that the program knows."""
import collections
import json
import os
import time

from harness import (CACHE, COMPLETE, PARTIAL, SETUP, SOURCE, USAGE, Job, Skip, check, check_schema, equal, main, releases, report,
                     report_json, vramtap)

VERSIONS = releases("jax-python", "JAX_PYTHON_VERSIONS")
PROGRAM = os.path.join(SOURCE, "tests", "targets", "jax_arrays.py")


class Jax(Job):
    def __init__(self, version):
        where = os.path.join(CACHE, "jax-python", version)
        if not os.path.exists(os.path.join(where, "python")):
            raise Skip(f"JAX {version} is not set up: sh tests/setup/jax-python.sh {version}")
        env = dict(os.environ, PYTHONPATH=os.path.join(where, "site"), LD_LIBRARY_PATH=os.path.join(CACHE, "simcuda"), JAX_PLATFORMS="cpu")
        super().__init__([os.path.realpath(os.path.join(where, "python")), "-B", "-W", "ignore", PROGRAM], ready="ready", env=env)

    def __call__(self, line):
        return json.loads(self.ask(line))


def sites(jax):
    data = report_json(jax.pid, "--ask-jax", "--no-owners", expect=(COMPLETE, PARTIAL))
    check_schema(data)
    check(data["jax"] is not None, "JAX was not asked", data["diagnostics"])
    return data["jax"]["sites"]


def places(found):
    """Bytes of arrays by the innermost function of the program."""
    by = collections.Counter()
    for site in found:
        if site["kind"] == "array":
            frame = site["frames"][site["title"]]
            equal(os.path.basename(frame["file"]), "jax_arrays.py", "the program's own file")
            by[frame["function"] if frame["function"] != "<module>" else "product"] += site["bytes"]
    return dict(by)


def test_agrees():
    for version in VERSIONS:
        with Jax(version) as jax:
            for line in ("as it is", "more", "more"):
                truth = jax(line)
                found = sites(jax)
                arrays = [s for s in found if s["kind"] == "array"]
                equal((sum(s["bytes"] for s in arrays), sum(s["count"] for s in arrays)), (truth["bytes"], truth["count"]),
                      "all live arrays")
                equal(places(found), truth["by"], "by place")
                equal({s["device"] for s in arrays}, {"cpu:0"}, "device")
                check(any(s["kind"] == "program" and s["device"] is None for s in found), "programs", found)
            equal(jax("as it is"), truth, "the process was changed")


def test_text():
    for version in VERSIONS:
        with Jax(version) as jax:
            _, text, _ = report(jax.pid, "--ask-jax", "--no-owners", "--width", "120")
            check("1.95 MiB        5   cpu:0     weights jax_arrays.py:" in text, "the row", text)
            check("array_creation.py" not in text, "JAX's own frames", text)
            _, text, _ = report(jax.pid, "--ask-jax", "--no-owners", "--sites", "--width", "120")
            check("array_creation.py" in text, "all frames with --sites", text)


def test_not_asked():
    """Without the option nothing is asked; where the interpreter cannot be had, that is said in time."""
    for version in VERSIONS:
        with Jax(version) as jax:
            data = report_json(jax.pid, "--no-owners")
            equal((data["jax"], data["timing"]["gil_held_ms"]), (None, 0), "not asked")
            jax.start("spin")
            for _ in range(3):  # Python code gives the GIL up on request
                began = time.monotonic()
                check(sites(jax), "a busy interpreter answers")
                check(time.monotonic() - began < 5, "too long")
    for option in ("--read-only", "--no-stop"):
        code, _, err = vramtap("report", option, "--ask-jax", str(os.getpid()))
        equal(code, USAGE, "wrong use")
        check("exclude each other" in err, "the message", err)


def test_without_jax():
    with Job(["sh", os.path.join(SETUP, "run-cupy.sh"), releases("cupy", "CUPY_VERSIONS")[0], "-B",
              os.path.join(SOURCE, "tests", "targets", "cupy_pools.py")], ready="ready") as job:
        job.ask("pool.malloc(1000).ptr > 0")
        data = report_json(job.pid, "--ask-jax", "--no-owners", expect=(PARTIAL,))
        equal(data["jax"], None, "no JAX")
        check(any(d["code"] == "no-jax" for d in data["diagnostics"]), "it is said", data["diagnostics"])


if __name__ == "__main__":
    main(globals())
