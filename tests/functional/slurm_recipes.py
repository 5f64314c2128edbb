#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The commands of doc/SLURM.md, as they are written there, on a real Slurm: with the number of a job that runs, and a program that hangs
as "python train.py"."""
import contextlib
import json
import os
import re
import subprocess
import sys
import time

from cluster import Slurm, only_of_scripts
from harness import COMPLETE, PARTIAL, SOURCE, VRAMTAP, check, equal, main, scratch, wait_until

RANK = os.path.join(SOURCE, "tests", "targets", "slurm_rank.py")
RANKS = 3
ODD = 1
STACK = contextlib.ExitStack()
SHARED = {}


def recipe(name):
    with open(os.path.join(SOURCE, "doc", "SLURM.md"), encoding="utf-8") as file:
        return re.search(rf"<!-- recipe: {name} -->\n```sh\n(.*?)```", file.read(), re.S)[1]


def replaced(text, **words):
    """Each of them is there: the document may not lose one without notice."""
    for old, new in words.items():
        old = old.strip("_")
        check(old in text, "what the recipe has", old, text)
        text = text.replace(old, str(new))
    return text


def slurm():
    if "slurm" not in SHARED:
        SHARED["slurm"] = STACK.enter_context(Slurm())
    return SHARED["slurm"]


def job():
    if "job" not in SHARED:
        SHARED["job"] = STACK.enter_context(slurm().job(RANK, RANKS, str(ODD)))
    return SHARED["job"]


def directory_of_work():
    """With "python train.py" that hangs and leaves RANK.PID in ready/, and programs where the recipes look for them."""
    base = scratch()
    os.mkdir(os.path.join(base, "bin"))
    os.mkdir(os.path.join(base, "ready"))
    os.symlink(os.path.abspath(VRAMTAP), os.path.join(base, "bin", "vramtap"))
    os.symlink(sys.executable, os.path.join(base, "bin", "python"))
    with open(os.path.join(base, "train.py"), "w", encoding="ascii") as file:
        file.write(f"import runpy, sys\nsys.argv[1:] = ['ready', '{ODD}']\nrunpy.run_path({RANK!r}, run_name='__main__')\n")
    return base


def run(script, base):
    path = f"{base}/bin:{slurm().env['PATH']}"
    done = slurm().run("sh", "-c", script, cwd=base, env={"PATH": path})
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def check_report(path, ranks=RANKS):
    with open(path, encoding="utf-8") as file:
        report = json.load(file)
    equal(sorted(m["rank"] for m in report["members"] if m["in_job"] and m["role"] == "rank"), list(range(ranks)), "the ranks")
    return report


def test_login_node():
    only_of_scripts()
    base = directory_of_work()
    number, _ = job()
    code, out, err = run(replaced(recipe("login"), _4711=number), base)
    equal((code, err), (COMPLETE, ""), "exit code and standard error")
    check(f"{ODD} [1]" in out and "save_metrics" in out and "Nothing was saved; -o DIR does that." in out, "the text", out)
    code, out, err = run(replaced(recipe("files"), _4711=number), base)
    equal((code, err), (COMPLETE, ""), "exit code and standard error")
    report = check_report(os.path.join(base, f"hang-{number}", "report.json"))
    for m in (m for m in report["members"] if m["in_job"]):
        check(os.path.exists(os.path.join(base, f"hang-{number}", m["report"])), "the report of a process", m["report"])
    with open(os.path.join(base, f"hang-{number}.html"), encoding="utf-8") as file:
        check("save_metrics" in file.read(), "the page")


def test_one_node():
    only_of_scripts()
    number, pids = job()
    code, out, err = run(replaced(recipe("node"), _4711=number, _26228=pids[ODD]), directory_of_work())
    check(code in (COMPLETE, PARTIAL), "exit code", code, err)
    check("save_metrics" in out, "the stacks", out, err)


@contextlib.contextmanager
def batch(script, base):
    """The number of a batch job of this script that runs, with its ranks."""
    path = os.path.join(base, "job.sh")
    with open(path, "w", encoding="utf-8") as file:
        file.write(script)
    done = slurm().run("sbatch", "--parsable", f"--nodes={RANKS}", f"--ntasks={RANKS}", "--time=5", "--overcommit", path, cwd=base,
                       env={"PATH": f"{base}/bin:{slurm().env['PATH']}"})
    equal(done.returncode, 0, f"sbatch: {done.stderr}")
    number = int(done.stdout)
    try:
        wait_until(lambda: len(os.listdir(os.path.join(base, "ready"))) == RANKS, 30, "the job runs")
        yield number
    finally:
        slurm().run("scancel", str(number))
        wait_until(lambda: not slurm().run("squeue", "--noheader", f"--jobs={number}").stdout.strip(), 30, "the job is over")


def test_signal_to_the_batch_script():
    """As Slurm sends it before the time is over; the job goes on."""
    only_of_scripts()
    base = directory_of_work()
    with batch(recipe("batch"), base) as number:
        saved = os.path.join(base, f"hang-{number}", "report.json")
        code, _, err = run(replaced(recipe("signal"), _4711=number), base)
        equal((code, err), (0, ""), "scancel")
        wait_until(lambda: os.path.exists(saved), 40, "the report is there")
        wait_until(lambda: os.path.exists(os.path.join(base, f"hang-{number}", "summary.txt")), 10, "all of it")
        check_report(saved)
        time.sleep(0.5)
        equal(slurm().run("squeue", "--noheader", "--format=%T", f"--jobs={number}").stdout.split(), [b"RUNNING"], "the job goes on")


def test_batch_scripts_end():
    """When srun does, with its status: also one above 128, which is that of programs that a signal ended, and of a wait that one did."""
    only_of_scripts()
    base = scratch()
    srun = os.path.join(base, "srun")
    for name in ("batch", "watchdog"):
        script = recipe(name).replace("sleep 60", "sleep 0.1")
        for shell in (("sh",), ("bash",), ("bash", "--posix")):
            for end, status in (("exit 7", 7), ("kill -9 $$", 137), ("sleep 0.3; exit 134", 134)):
                with open(srun, "w", encoding="ascii") as file:
                    file.write(f"#!/bin/sh\n{end}\n")
                os.chmod(srun, 0o755)
                done = subprocess.run([*shell, "-c", script], cwd=base, env=dict(os.environ, PATH=f"{base}:{os.environ['PATH']}"), timeout=20,
                                      capture_output=True, check=False)
                equal(done.returncode, status, f"exit code of {name} in {shell} after {end}: {done.stderr}")


def test_watchdog():
    """It finds that the log does not grow: that of this test says it was written long ago."""
    only_of_scripts()
    base = directory_of_work()
    script = recipe("watchdog").replace("sleep 60", "sleep 1")
    check(script != recipe("watchdog"), "what the recipe has")
    with batch(script, base) as number:
        old = time.time() - 3600
        os.utime(os.path.join(base, "train.log"), (old, old))
        saved = os.path.join(base, f"hang-{number}", "report.json")
        wait_until(lambda: os.path.exists(saved), 40, "the report is there")
        check_report(saved)


def test_run():
    """The ranks are Slurm's, and what they end with is what srun ends with."""
    only_of_scripts()
    base = directory_of_work()
    with open(os.path.join(base, "train.py"), "w", encoding="ascii") as file:
        file.write("import os, sys\nprint('rank', os.environ['SLURM_PROCID'])\nsys.exit(7)\n")
    code, out, err = run(recipe("oom").replace("srun ", f"srun -n{RANKS} "), base)
    equal(code, 7, f"exit code: {err}")
    equal(sorted(out.split("\n")), ["", *(f"rank {rank}" for rank in range(RANKS))], "what the ranks print")


def test_documents_names_no_other_recipe():
    """Each block of commands is one of these tests."""
    with open(os.path.join(SOURCE, "doc", "SLURM.md"), encoding="utf-8") as file:
        text = file.read()
    names = re.findall(r"<!-- recipe: ([a-z]+) -->", text)
    equal(sorted(names), sorted(("login", "files", "node", "batch", "signal", "watchdog", "oom")), "the recipes")
    equal(len(re.findall(r"^```sh", text, re.M)), len(names), "blocks of commands")


if __name__ == "__main__":
    with STACK:
        main(globals())
