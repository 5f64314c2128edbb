#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""libpools_matrix.py [--keep] [jax=RELEASE | cupy=RELEASE | rmm=RELEASE]...: the functional tests of the memory pools of other
libraries, against the real allocators of each release in tests/setup/jax-versions, cupy-versions and rmm-versions. Prints a line for
each release and at last the table that doc/matrix.md keeps. What was not in the cache before is removed after its turn; --keep leaves
it there."""
import os
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "functional"))

from harness import CACHE, SETUP, SOURCE, releases  # noqa: E402

# By library: the tests, and how they are told the release.
LIBRARIES = {"jax": ("JAX (XLA)", "libpools.py", "JAX_VERSIONS"), "cupy": ("CuPy", "cupy_pools.py", "CUPY_VERSIONS"),
             "rmm": ("RMM", "rmm_pools.py", "RMM_VERSIONS")}


def rows(words):
    """[(library, release)], by the command line or all."""
    if words:
        return [tuple(word.split("=", 1)) for word in words]
    return [(library, release) for library in LIBRARIES for release in releases(library, None)]


def interpreter(library, release):
    """[the CPython that the list names for a release], [] for any."""
    with open(os.path.join(SETUP, f"{library}-versions"), encoding="ascii") as file:
        rows_of = [line.split("#")[0].split() for line in file]
    return next((row[1:2] for row in rows_of if row and row[0] == release and row[1:2] != ["run"]), [])


def run(library, release, keep):
    """(Tests that passed, tests, what is wrong)."""
    _, script, variable = LIBRARIES[library]
    where = os.path.join(CACHE, library, release)
    was_there = os.path.exists(where)
    try:
        done = subprocess.run(["sh", os.path.join(SETUP, f"{library}.sh"), release, *interpreter(library, release)],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, check=False)
        if done.returncode:
            return 0, 0, "not set up: " + " ".join(done.stdout.split("\n")[-2:]).strip()
        done = subprocess.run([sys.executable, "-B", os.path.join(SOURCE, "tests", "functional", script)], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, check=False, env=dict(os.environ, **{variable: release}))
    finally:
        if not was_there and not keep:
            shutil.rmtree(where, ignore_errors=True)
    lines = done.stdout.split("\n")
    passed = [line.split()[1] for line in lines if line.startswith("ok ")]
    wrong = [line.split()[1] for line in lines if line.startswith(("FAILED ", "skip"))]
    if done.returncode and not wrong:
        wrong = [lines[-2]]
    if done.returncode:
        print(done.stdout, flush=True)
    return len(passed), len(passed) + len(wrong), ", ".join(wrong)


def main():
    words = sys.argv[1:]
    keep = "--keep" in words
    table, failed = [], 0
    for library, release in rows([word for word in words if word != "--keep"]):
        passed, n, wrong = run(library, release, keep)
        failed += bool(wrong) or not passed
        table.append(f"| {LIBRARIES[library][0]} | {release} | {passed} of {n} | {wrong or 'equal'} |")
        print(("FAILED " if wrong else "ok ") + table[-1], flush=True)
    print("\n| library | release | tests | result |\n|---|---|---|---|")
    print("\n".join(table))
    print(f"\n{len(table) - failed} of {len(table)} releases equal")
    sys.exit(1 if failed else 0)


main()
