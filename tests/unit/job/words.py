#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A rewording changes no decision: all words are replaced by nonsense, and vramtap decides the same.

Jobs and reports made by hand; jobs that were saved and are loaded again; jobs as vramtap 0.1.0 saved them, with sentences and
without codes, which today's words must not matter for either.
"""
import json
import os
import re
import subprocess
import sys
import tempfile

BUILD = os.path.join(os.environ.get("VRAMTAP_BUILD_DIR", "."), "tests/unit/job")
HANGS = "sleep gpu retries oom loader loaders stuck stopped".split()
CODES = re.compile(r"^(verdict|waits)_")


def run(program, *arguments):
    return subprocess.run([os.path.join(BUILD, program), *arguments], check=True, stdout=subprocess.PIPE, encoding="latin-1").stdout


def without_codes(value):
    if isinstance(value, dict):
        return {key: without_codes(v) for key, v in value.items() if not CODES.match(key)}
    return [without_codes(v) for v in value] if isinstance(value, list) else value


def decide(path):
    real, nonsense = run("decisions", "--load", path), run("decisions_nonsense", "--load", path)
    assert real == nonsense, f"{path}: words decide"
    return real


def check_saved(directory, hang):
    saved = run("job_demo", "--json", hang, "8", "2", "3")
    today, old = os.path.join(directory, "today.json"), os.path.join(directory, "old.json")
    with open(today, "w", encoding="utf-8") as file:
        file.write(saved)
    stripped = without_codes(json.loads(saved))
    assert stripped != json.loads(saved), "there were no codes"
    with open(old, "w", encoding="utf-8") as file:
        json.dump(stripped, file)
    assert decide(today) == decide(old), f"{hang}: sentences of 0.1.0 and codes say different things"


def main():
    real, nonsense = run("decisions"), run("decisions_nonsense")
    assert real.count("\nverdict ") > 30 and real.count("\nheadline ") > 20, "nothing was decided"
    assert "zork" not in real and real == nonsense, "words decide"
    words = run("decisions_nonsense", "--text")
    assert words.count("zork-v") > 3 and "waits for the GIL" not in words and "in cudaFree" not in words, "the words are not nonsense"
    with tempfile.TemporaryDirectory() as directory:
        for hang in HANGS:
            check_saved(directory, hang)
    print("ok: the same decisions with nonsense for words")


if __name__ == "__main__":
    sys.exit(main())
