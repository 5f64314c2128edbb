#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""vramtap triage as a watchdog or a script of Slurm's calls it: silent, within its time whatever a process does, beside another one."""
import contextlib
import json
import os
import re
import subprocess
import sys
import time

from harness import COMPLETE, NOTHING, PARTIAL, SOURCE, VRAMTAP, Skip, check, compile_c, equal, main, scratch, target, wait_until

RANK = os.path.join(SOURCE, "tests", "targets", "slurm_rank.py")
BLOCKED_MAPS = os.path.join(SOURCE, "tests", "targets", "blocked_maps.py")
PAGE = os.path.join(SOURCE, "doc", "vramtap-triage.1")

MAPS_A_FILE = r"""
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

static void *asks_for_memory(void *arg)
{
	mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return arg;
}

int main(int argc, char **argv)
{
	pthread_t thread;
	char c;

	printf("%lx\n", (unsigned long)mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, open(argv[1], O_RDONLY), 0));
	fflush(stdout);
	pthread_create(&thread, NULL, asks_for_memory, read(0, &c, 1) == 1 ? NULL : &c);
	for (;;)
		pause();
	return argc;
}
"""


@contextlib.contextmanager
def slurm_job(number, n=2):
    """Processes with Slurm's variables of a job; yields {pid: rank}."""
    ready = scratch()
    with contextlib.ExitStack() as stack:
        for rank in range(n):
            env = dict(os.environ, SLURM_JOB_ID=str(number), SLURM_PROCID=str(rank), SLURM_LOCALID=str(rank), SLURM_NTASKS=str(n))
            stack.enter_context(target([sys.executable, RANK, ready, "1"], env=env))
        wait_until(lambda: len(os.listdir(ready)) == n, 10, "the ranks run")
        yield {int(pid): int(rank) for rank, pid in (name.split(".") for name in os.listdir(ready))}


def triage(*args, out, expect=COMPLETE):
    """Quiet; returns (report, seconds)."""
    begin = time.monotonic()
    done = subprocess.run([VRAMTAP, "triage", "--quiet", "-o", out, *map(str, args)], stdin=subprocess.DEVNULL, capture_output=True, timeout=60,
                          check=False)
    took = time.monotonic() - begin
    equal((done.returncode, done.stdout, done.stderr), (expect, b"", b""), "exit code and output")
    with open(os.path.join(out, "report.json"), encoding="utf-8") as file:
        return json.load(file), took


def members(report):
    return {m["pid"]: m for m in report["members"] if m["in_job"]}


def test_quiet():
    """Whatever it comes to, when there is a report there is nothing on the terminal."""
    with slurm_job(47110001) as pids:
        report, _ = triage("--timeout", "30", "--job", "47110001", out=scratch())
        equal({pid: (m["rank"], m["job"]) for pid, m in members(report).items()}, {p: (r, "slurm 47110001") for p, r in pids.items()}, "the job")
        one = next(iter(pids))
        gone = subprocess.Popen(["true"])
        gone.wait()
        report, _ = triage("--timeout", "30", one, gone.pid, out=scratch(), expect=PARTIAL)
        equal(len(members(report)), 2, "members")


STEPD = r"""
#include <stdio.h>
#include <sys/prctl.h>
#include <unistd.h>

int main(void)
{
	int pid = fork();

	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, 9);
		execlp("sleep", "sleep", "1000", (char *)NULL);
	}
	prctl(PR_SET_NAME, "slurmstepd");
	printf("ready %d\n", pid);
	fflush(stdout);
	for (;;)
		pause();
}
"""


@contextlib.contextmanager
def control_groups(*names):
    """Makes these below one of this test's own, in a hierarchy of either version; yields their directories."""
    made = []
    for root in ("/sys/fs/cgroup", "/sys/fs/cgroup/freezer", "/sys/fs/cgroup/unified"):
        base = os.path.join(root, f"vramtap-test-{os.getpid()}")
        if not os.path.exists(os.path.join(root, "cgroup.procs")):
            continue
        try:
            for path in (base, *(os.path.join(base, name) for name in names)):
                os.mkdir(path)
                made.append(path)
            break
        except OSError:
            while made:
                os.rmdir(made.pop())
    if not made:
        raise Skip("no control group can be made here")
    try:
        yield made[1:]
    finally:
        while made:
            wait_until(lambda: gone(made[-1]), 10, "the control group is empty")
            made.pop()


def gone(directory):
    with contextlib.suppress(OSError):
        os.rmdir(directory)
    return not os.path.exists(directory)


def test_job_by_control_group():
    """Without a variable of Slurm's; what Slurm itself has in the job's group, and root's, is no part of the job."""
    ready = scratch()
    with control_groups("job_47110005", "job_47110005/step_0", "job_47110005/step_extern", "job_47110006") as (_, step, extern, other), \
            target([sys.executable, RANK, ready, "1"], env=dict(os.environ, RANK="0")) as rank, \
            target([compile_c(STEPD)], ready="ready") as stepd, target([sys.executable, RANK, ready, "1"], env=dict(os.environ, RANK="1")) as stranger:
        sleep = int(stepd.ready_line.split()[1])
        wait_until(lambda: len(os.listdir(ready)) == 2, 10, "the processes run")
        for pid, group in ((rank.pid, step), (stepd.pid, step), (sleep, extern), (stranger.pid, other)):
            try:
                with open(os.path.join(group, "cgroup.procs"), "w", encoding="ascii") as file:
                    file.write(str(pid))
            except OSError as err:
                raise Skip("no process can be put into a control group here") from err
        report, _ = triage("--timeout", "30", "--job", "47110005", out=scratch())
        # It is the user's own here: then it is there as what has started the job, if it has.
        equal([m["pid"] for m in members(report).values()], [rank.pid], "the job")
        equal(members(report)[rank.pid]["job"], "slurm 47110005", "its name")


def test_two_at_once():
    """Each in its directory; in one directory the second does nothing, and says so."""
    with slurm_job(47110002, 3) as pids:
        def start(out):
            return subprocess.Popen([VRAMTAP, "triage", "-q", "--timeout", "30", "--job", "47110002", "-o", out], stdin=subprocess.DEVNULL,
                                    stderr=subprocess.PIPE)
        outs = [scratch() for _ in range(3)]
        for proc in [start(out) for out in outs]:
            err = proc.communicate(timeout=60)[1]
            equal((proc.returncode, err), (COMPLETE, b""), "exit code")
        for out in outs:
            with open(os.path.join(out, "report.json"), encoding="utf-8") as file:
                equal(set(members(json.load(file))), set(pids), "members: the job, and no other triage")
        # A target that is held keeps the first one busy.
        out = scratch()
        with open(f"/proc/{next(iter(pids))}/status", encoding="ascii") as held:
            import fcntl
            fcntl.flock(held, fcntl.LOCK_EX)
            first = start(out)
            wait_until(lambda: any(name.endswith(".json") for name in os.listdir(out)), 20, "the first one works")
            second = start(out)
            err = second.communicate(timeout=60)[1]
            equal(second.returncode, NOTHING, "exit code of the second")
            check(b"another vramtap triage is writing to" in err, "what it says", err)
        equal((first.communicate(timeout=60)[1], first.returncode), (b"", COMPLETE), "the first")
        with open(os.path.join(out, "report.json"), encoding="utf-8") as file:
            equal(len(members(json.load(file))), 3, "members of the first")


@contextlib.contextmanager
def process_that_blocks():
    """Whoever reads its memory, or its arguments, hangs in the kernel; yields its pid."""
    if os.geteuid() or not os.path.exists("/dev/fuse"):
        raise Skip("needs root and FUSE")
    command = ["unshare", "-m", sys.executable, BLOCKED_MAPS, scratch(), compile_c(MAPS_A_FILE, "-pthread")]
    with target(command, ready="", stderr=subprocess.PIPE) as proc:
        if not proc.ready_line.startswith("ready"):
            raise Skip("no FUSE here")
        pid = int(proc.ready_line.split()[1])
        # One of the kernel's may do without the lock: then it is no such process.
        reader = subprocess.Popen(["cat", f"/proc/{pid}/cmdline"], stdout=subprocess.DEVNULL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            reader.wait(0.5)
            raise Skip("reading it does not hang with this kernel")
        try:
            yield pid
        finally:
            reader.kill()
            reader.wait()
            proc.stderr.close()


def test_within_its_time():
    """One of the processes cannot be read, not even its arguments: the rest is complete, and on time."""
    with process_that_blocks() as blocks, slurm_job(47110003) as pids:
        report, took = triage("--timeout", "4", "--job", "47110003", out=scratch())
        equal(set(members(report)), set(pids), "the job, which does not hang")
        check(took < 3, "a process beside the job was waited for", took)
        report, took = triage("--timeout", "4", "--job", "47110003", blocks, out=scratch(), expect=PARTIAL)
        equal({pid for pid, m in members(report).items() if m["error"]}, {blocks}, "which ones have an error")
        equal({m["completeness"] for pid, m in members(report).items() if pid in pids}, {"complete"}, "the others")
        check(took < 4 + 2, "it took too long", took)


def script_in_page(name):
    """What the man page says is in this file."""
    with open(PAGE, encoding="utf-8") as file:
        text = file.read().split(f".Pa {name}\n", 1)[1].split(".Bd -literal -offset indent\n", 1)[1].split(".Ed\n", 1)[0]
    return text.replace("\\e", "\\").replace("\\(aq", "'").replace("\\(dq", '"')


def test_script_for_slurm():
    """The page's program for processes that cannot be killed, as slurmd calls it."""
    path, base = scratch("unkillable.sh"), scratch()
    with open(path, "w", encoding="utf-8") as file:
        file.write(script_in_page("/etc/slurm/unkillable.sh").replace("/var/spool/triage", base))
    os.chmod(path, 0o755)
    with slurm_job(47110004) as pids:
        env = {"PATH": os.path.dirname(os.path.abspath(VRAMTAP)) + ":/usr/bin:/bin", "SLURM_JOB_ID": "47110004"}
        procs = [subprocess.Popen([path], env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) for _ in range(2)]
        for proc in procs:
            equal((proc.communicate(timeout=60)[0], proc.returncode), (b"", 0), "output and exit code")
        names = os.listdir(base)
        equal(len(names), 2, "a directory each")
        for name in names:
            check(re.match(r"47110004-", name), "the name of a directory", name)
            with open(os.path.join(base, name, "report.json"), encoding="utf-8") as file:
                report = json.load(file)
            equal(set(members(report)), set(pids), "members: the job, and not the other script")


if __name__ == "__main__":
    main(globals())
