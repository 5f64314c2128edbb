#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""vramtap run --on-oom with real PyTorch on the simulated device: what is saved, under which name, and that the program
notices nothing of it."""
import glob
import json
import os
import re
import signal
import subprocess
import time

from harness import (SOURCE, USAGE, VRAMTAP, Job, Skip, check, check_schema, equal, main, scratch,
                     simulated_python, wait_until)
from report_torch import versions

MIB = 1 << 20
OURSELVES = 125
RANKS = os.path.join(SOURCE, "tests", "targets", "torch_ranks.py")
OOM = os.path.join(SOURCE, "tests", "targets", "torch_oom.py")
NAME = r"vramtap-oom-[\w.-]+-(\d+)-\d{8}T\d{6}Z(-\d+)?"


def environment(memory=512, **extra):
    return dict(os.environ, SIMCUDA_DEVICES="1", SIMCUDA_MEM_MB=str(memory), SIMCUDA_CTX_MB="16", **extra)


def python(*args):
    return [*simulated_python(versions()[0]), *args]


def run(where, *args, env=None, prefix=()):
    """vramtap run in that directory; (what subprocess tells, the names of the JSON files there)."""
    done = subprocess.run([*prefix, VRAMTAP, "run", *args], cwd=where, env=env or environment(), stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=120, check=False)
    return done, sorted(glob.glob(os.path.join(where, "*.json")))


def load(path):
    with open(path, encoding="utf-8") as file:
        data = json.load(file)
    check_schema(data)
    return data


def line_of(mark, path):
    with open(path, encoding="utf-8") as file:
        return next(i for i, text in enumerate(file, 1) if text.rstrip().endswith(f"# line: {mark}"))


def check_report(path, mib, program=RANKS, mark="request"):
    """It is of that request, by that line, and the text beside it says the same."""
    data = load(path)
    event = next(e for e in data["recorder"]["out_of_memory"] if e["number"] == data["caught"]["first"])
    equal(event["requested_bytes"], mib * MIB, "bytes asked for")
    recorded = data["pytorch"]["recorded"]
    frames = [recorded["frames"][i] for i in recorded["backtraces"][event["backtrace"]]["frames"]]
    check(any(f["kind"] == "python" and f["file"] == program and f["line"] == line_of(mark, program) for f in frames), "the line", frames)
    check(data["completeness"] == "complete" or event["waited_ms"] > 150, "what is missing", data["diagnostics"])
    with open(re.sub(r"\.json$", ".txt", path), encoding="ascii") as file:
        text = file.read()
    check(f"out of memory: {mib} MiB asked for" in text, "the text", text)
    check(text.rstrip().endswith(os.path.basename(path)) and " JSON: " in text.splitlines()[-1], "its last line", text[-200:])
    return data


def test_dies_in_a_wrapper():
    """A shell script around it; the exception ends the program. The exit status is its own."""
    where = scratch()
    script = os.path.join(where, "train.sh")
    with open(script, "w", encoding="utf-8") as file:
        file.write("\"$@\"\nstatus=$?\necho the script goes on\nexit $((status + 40))\n")
    command = ["sh", script, *python(RANKS, "1", "fill", "300", "die", "400")]
    done, files = run(where, "--on-oom", "--", *command)
    alone = subprocess.run(command, cwd=where, env=environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True,
                           timeout=60, check=False)
    equal(done.returncode, 41, "exit status")
    equal((done.returncode, done.stdout), (alone.returncode, alone.stdout), "what it is without us")
    check("torch.OutOfMemoryError" in done.stderr, "the exception", done.stderr)
    equal(len(files), 1, f"reports: {done.stderr}")
    match = re.fullmatch(NAME + r"\.json", os.path.basename(files[0]))
    check(match, "the name", files)
    data = check_report(files[0], 400)
    equal((data["process"]["pid"], data["caught"]["verdict"]), (int(match[1]), "full"), "the process, the verdict")
    said = [line for line in done.stderr.splitlines() if line.startswith("vramtap: ") and f"({match[1]}): " in line]
    equal(len(said), 3, f"what is said: {done.stderr}")
    check(done.stderr.index(said[0]) > done.stderr.index("#optimizing-memory-usage"), "it is said behind the traceback", done.stderr)
    check("out of memory: 400 MiB asked for on GPU 0 by rank_main" in said[0] or "torch_ranks.py:" in said[0], "what was asked for", said)
    check("full: PyTorch has 300 MiB in use" in said[1], "why", said)
    check(os.path.basename(files[0]) in said[2] and f"less {os.path.basename(files[0])[:-5]}.txt" in said[2], "the files", said)
    equal(sorted(os.listdir(where)), sorted([os.path.basename(files[0]), os.path.basename(files[0])[:-5] + ".txt", "train.sh"]), "files")


def test_two_ranks():
    """Both run out of memory at once: each has its own file, also where the name that was given has no process in it."""
    for pattern, names in (("oom.json", r"oom-(\d+)\.json"), ("%p of %h at %t", r"(\d+) of [\w.-]+ at \d{8}T\d{6}Z"), ("", NAME + r"\.json")):
        where = scratch()
        option = f"--on-oom={os.path.join(where, pattern)}"
        # Each has the device for itself here; on one that they share it is the same.
        done, _ = run(where, option, "--", *python(RANKS, "2", "fill", "100", "sleep", "1.5", "die", "600"))
        equal(done.returncode, 1, f"exit status: {done.stderr}")
        files = [name for name in os.listdir(where) if not name.endswith(".txt")]
        pids = {int(m[1]) for m in (re.fullmatch(names, name) for name in files) if m}
        equal((len(files), len(pids)), (2, 2), f"files: {os.listdir(where)} {done.stderr}")
        for name in files:
            data = load(os.path.join(where, name))
            check(data["process"]["pid"] in pids and data["caught"]["verdict"] == "too-large", "the report", data["process"])
            check(f"({data['process']['pid']}): the report of that moment is {os.path.join(where, pattern and name)}" in done.stderr or name in done.stderr,
                  "what is said", done.stderr)


def test_goes_on_and_again():
    """The program catches two errors and goes on: two files, and nothing that was there is overwritten."""
    where = scratch()
    path = os.path.join(where, "oom.json")
    with open(path, "w", encoding="utf-8") as file:
        file.write("of another day")
    done, files = run(where, "--on-oom=oom.json", "--", *python(RANKS, "1", "fill", "300", "try", "400", "sleep", "2", "try", "450"))
    equal(done.returncode, 0, f"exit status {done.stderr}")
    check("caught 400" in done.stdout and "caught 450" in done.stdout and "rank 0 is done" in done.stdout, "the program", done.stdout)
    equal([os.path.basename(name) for name in files], ["oom-2.json", "oom-3.json", "oom.json"], "files")
    with open(path, encoding="utf-8") as file:
        equal(file.read(), "of another day", "the file that was there")
    check_report(files[0], 400)
    check_report(files[1], 450)


def mounted(options):
    """A prefix that runs a command with a file system of its own at the directory, and the directory."""
    where = scratch()
    prefix = ["unshare", "--mount", "--propagation", "private", "sh", "-c", f'mount -t tmpfs -o {options} none {where} && exec "$@"', "sh"]
    if os.geteuid() or subprocess.run([*prefix, "true"], capture_output=True, check=False).returncode:
        raise Skip("needs root, who may mount")
    return prefix, where


def test_full_disk():
    """The moment is saved elsewhere, and that is said."""
    prefix, where = mounted("size=8k")
    temporary = scratch()
    command = python(RANKS, "1", "fill", "300", "die", "400")
    done, _ = run("/", f"--on-oom={where}/oom.json", "--", *command, prefix=prefix, env=environment(TMPDIR=temporary))
    equal(done.returncode, 1, "exit status")
    check("No space left on device" in done.stderr, "what is said", done.stderr)
    files = glob.glob(os.path.join(temporary, "*.json"))
    equal(len(files), 1, f"files: {done.stderr}")
    check(re.fullmatch(NAME + r"\.json", os.path.basename(files[0])) and files[0] in done.stderr, "the name", files, done.stderr)
    check_report(files[0], 400)
    # And where there is no place at all.
    done, _ = run("/", f"--on-oom={where}/oom.json", "--", *command, prefix=prefix, env=environment(TMPDIR=where))
    equal(done.returncode, 1, "exit status")
    check("the report of that moment is not saved" in done.stderr and "No space left" in done.stderr, "what is said", done.stderr)
    check("out of memory: 400 MiB asked for" in done.stderr, "why it ended is said all the same", done.stderr)


def test_cannot_be_written():
    """That is said before the program is started."""
    prefix, where = mounted("ro")
    for option in (f"--on-oom={where}/oom.json", f"--on-oom={where}"):
        done, _ = run("/", option, "--", "echo", "started", prefix=prefix)
        equal((done.returncode, done.stdout), (OURSELVES, ""), f"a read-only directory: {done.stderr}")
        check("Read-only file system" in done.stderr and where in done.stderr, "the message", done.stderr)
    done, _ = run(scratch(), "--on-oom=/none/oom.json", "--", "echo", "started")
    equal((done.returncode, done.stdout), (OURSELVES, ""), "no directory")
    for bad in ("", "-", "100%", "%x"):
        equal(run(scratch(), f"--on-oom={bad}", "--", "true")[0].returncode, USAGE, f"the pattern {bad}")
    done, _ = run(scratch(), "--on-oom=/dev/null", "--", "sh", "-c", "exit 7")
    equal(done.returncode, 7, f"a device {done.stderr}")


def test_no_error():
    """Nothing runs out: no file, and exit statuses and signals are the command's."""
    where = scratch()
    done, files = run(where, "-q", "--on-oom", "--", *python(RANKS, "1", "fill", "100"))
    equal((done.returncode, files, done.stderr), (0, [], ""), "nothing happened")
    done, files = run(where, "-q", "--on-oom", "--", "sh", "-c", "kill -TERM $$")
    equal((done.returncode, files), (-signal.SIGTERM, []), "ended by a signal")
    equal(os.listdir(where), [], "files")


class Running(Job):
    """torch_oom.py under vramtap run --on-oom, in a directory of its own."""

    def __init__(self, *options):
        self.where = scratch()
        self.log = open(os.path.join(scratch(), "log"), "w+b")  # pylint: disable=consider-using-with
        super().__init__([VRAMTAP, "run", "--on-oom", *options, "--", *python(OOM)], cwd=self.where, env=environment(),
                         stderr=self.log)

    def __enter__(self):
        super().__enter__()
        self.pid = int(re.search(r"pid=(\d+)", self.proc.ready_line)[1])
        return self

    def __exit__(self, *exc):
        try:
            os.kill(self.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.log.close()
        return super().__exit__(*exc)

    def answer(self):
        return json.loads(super().answer())

    def err(self):
        self.log.seek(0)
        return self.log.read().decode()

    def workers(self):
        with open(f"/proc/{self.proc.pid}/task/{self.proc.pid}/children", encoding="ascii") as file:
            return [int(pid) for pid in file.read().split() if int(pid) != self.pid]


def test_killed():
    """Whichever of our processes is killed, whenever: the program has its exception, soon, and lives."""
    for whole in (True, False):
        for delay in (None, 0, 0.03, 0.1):
            with Running() as job:
                job.ask("fill 300 5")
                workers = job.workers()
                equal(len(workers), 1, "processes that serve it")
                if delay is not None:
                    job.start("fail 400")
                    time.sleep(delay)
                for pid in workers + [job.proc.pid] * whole:
                    os.kill(pid, signal.SIGKILL)
                result = job.answer() if delay is not None else job.ask("fail 400")
                equal(result["type"], "torch.OutOfMemoryError", "the exception")
                check(result["ms"] < 3000, "how long it was kept", result)
                check(job.ask("fail 400")["ms"] < 3000, "the next one")
                equal(job.ask("sum 1000")["sum"], 499500, "it is well")


def test_dies_meanwhile():
    """The program is killed while its moment is read or saved: nothing half is left, and the status is right."""
    for delay in (0, 0.02, 0.05, 0.1, 0.2):
        with Running() as job:
            job.ask("fill 300 5")
            job.start("fail 400")
            time.sleep(delay)
            os.kill(job.pid, signal.SIGKILL)
            equal(job.proc.wait(timeout=60), -signal.SIGKILL, "exit status")
            files = os.listdir(job.where)
            check(all(name.endswith((".json", ".txt")) for name in files), "files", files)
            for name in files:
                if name.endswith(".json"):
                    load(os.path.join(job.where, name))
            check(files or "nothing could be learned" in job.err() or delay == 0, "it says why there is none", job.err())


def test_interactive():
    """The report is there while the program goes on, and --children-less run says at once whom it leaves out."""
    with Running() as job:
        job.ask("fill 300 5")
        equal(job.ask("fail 400")["type"], "torch.OutOfMemoryError", "the exception")
        wait_until(lambda: glob.glob(os.path.join(job.where, "*.txt")), 30, "the report is written")
        check_report(glob.glob(os.path.join(job.where, "*.json"))[0], 400, OOM, "fail")
        job.start("quit")
        equal(job.proc.wait(timeout=60), 0, "exit status")
    log = os.path.join(scratch(), "log")
    with open(log, "w+b") as err, Job([VRAMTAP, "run", "--", "sh", "-c", '"$@"; exit $?', "sh", *python(OOM)], cwd=scratch(),
                                      env=environment(), stderr=err) as job:
        wait_until(lambda: os.path.getsize(log), 30, "what is said while it runs")
        with open(log, encoding="utf-8") as file:
            check(re.search(r"\(\d+\), started by sh, uses CUDA and is not recorded: --children", text := file.read()), "what is said", text)
        job.start("quit")
        equal(job.proc.wait(timeout=60), 0, "exit status")
    with open(log, encoding="utf-8") as file:
        equal(len(file.read().splitlines()), 1, "it is said once")


def test_try_sizes():
    """A program that tries until one fits: the disk is not filled, the program is not held for long."""
    with Running() as job:
        slow = sum(job.ask(f"fail {600 + i}")["ms"] for i in range(40))
        check(slow < 15000, "how long it was held", slow)
        time.sleep(2)  # of a program that ends during the last look, nothing may be learned: test_dies_meanwhile
        job.start("quit")
        equal(job.proc.wait(timeout=60), 0, "exit status")
        files = glob.glob(os.path.join(job.where, "*.json"))
        check(0 < len(files) <= 20, "files", len(files))
        for path in files:
            data = load(path)
            check(data["completeness"] in ("complete", "partial"), "it can be read", data["completeness"], data["diagnostics"])


if __name__ == "__main__":
    main(globals())
