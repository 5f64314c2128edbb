# SPDX-License-Identifier: Apache-2.0
"""Runs in the machine of tests/aarch64/run: the tests that /vm/wanted names, each with its own limit, one after the other. Leaves a log
of each in /vm/results, and prints a line for each and the end of the log of what fails."""
import os
import shlex
import subprocess
import sys
import time

RESULTS = "/vm/results"
VERDICTS = {0: "PASS", 77: "SKIP"}


def command_of(words):
    """A script has its module path; it sees no process of others, as with make check-functional."""
    path = words[0]
    if not path.endswith(".py"):
        return ["./" + path, *words[1:]]
    return [sys.executable, "/vm/source/tests/alone.py", sys.executable, os.path.join("/vm/source", path), *words[1:]]


def run(words, limit):
    """The exit code, or 124 if it did not end in time, and the log. How each test of a script went is printed at once."""
    path = os.path.join(RESULTS, words[0].replace("/", "-") + ".log")
    env = dict(os.environ, PYTHONPATH="/vm/source/tests/functional:/vm/source/tests/aarch64")
    with open(path, "w", encoding="utf-8") as out, open(path, encoding="utf-8", errors="replace") as log, \
            subprocess.Popen(["timeout", "-k", "10", str(limit), *command_of(words)], stdin=subprocess.DEVNULL, stdout=out,
                             stderr=subprocess.STDOUT, env=env) as process:
        running = True
        while running:  # a pipe would stay open as long as anything that the test has left behind
            running = process.poll() is None
            for line in log:
                if words[0].endswith(".py") and line.startswith(("ok ", "skip ", "FAILED ", "AssertionError")):
                    print("    " + line[:1000].rstrip(), flush=True)
            time.sleep(0.3 if running else 0)
        log.seek(0)
        return process.returncode, log.read()


def main():
    with open("/proc/cpuinfo", encoding="ascii") as file:
        features = next((line for line in file if line.startswith("Features")), "").split()
    print("vm: Linux", os.uname().release, "pages of", os.sysconf("SC_PAGE_SIZE"), "pointer authentication:",
          "yes" if "paca" in features else "no", flush=True)
    failed = 0
    with open("/vm/wanted", encoding="ascii") as file:
        rows = [shlex.split(line) for line in file]
    for limit, *words in rows:
        begin = time.monotonic()
        code, log = run(words, int(limit))
        verdict = VERDICTS.get(code, "FAIL")
        print(f"{verdict} {' '.join(words)} {time.monotonic() - begin:.1f} s", f"(exit {code})" if verdict == "FAIL" else "", flush=True)
        if verdict == "FAIL":
            failed += 1
            print("\n".join("    " + line[:300] for line in log.splitlines()[-25:]), flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
