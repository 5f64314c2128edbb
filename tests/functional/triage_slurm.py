#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""vramtap triage --slurm on a real Slurm, whose three nodes are this one host: so each node finds the processes of all. A job hangs
there, and one of its ranks is elsewhere."""
import contextlib
import glob
import json
import os
import shutil
import signal
import socket
import subprocess
import time

from cluster import NODES, Slurm, descendants_of, only_of_scripts
from harness import COMPLETE, NOTHING, PARTIAL, SOURCE, USAGE, VRAMTAP, Skip, check, equal, main, scratch, wait_until

RANK = os.path.join(SOURCE, "tests", "targets", "slurm_rank.py")
RANKS = 6
ODD = 4
STACK = contextlib.ExitStack()
SHARED = {}


def slurm():
    """One for all tests."""
    if "slurm" not in SHARED:
        SHARED["slurm"] = STACK.enter_context(Slurm())
    return SHARED["slurm"]


def job():
    """(its number, {rank: pid})"""
    if "job" not in SHARED:
        SHARED["job"] = STACK.enter_context(slurm().job(RANK, RANKS, str(ODD)))
    return SHARED["job"]


def triage(*args, program=None, prefix=(), out=None, expect=COMPLETE, timeout=120):
    """Returns (directory, report, standard output, standard error, seconds)."""
    number, _ = job()
    out = out or scratch("out")
    begin = time.monotonic()
    there = ("--node-program", program) if program else ()
    done = slurm().run(*prefix, VRAMTAP, "triage", "-o", out, *there, *map(str, args), "--slurm", str(number), timeout=timeout)
    took = time.monotonic() - begin
    text, err = done.stdout.decode(), done.stderr.decode()
    equal(done.returncode, expect, "exit code: " + err + text[-1500:])
    with open(os.path.join(out, "report.json"), encoding="utf-8") as file:
        return out, json.load(file), text, err, took


def path_of(*names):
    """A directory with links to these programs alone."""
    directory = scratch()
    for name in names:
        os.symlink(shutil.which(name, path=slurm().env["PATH"]), os.path.join(directory, name))
    return directory


def check_ranks(report):
    """Every rank once, as Slurm numbers them."""
    number, pids = job()
    members = [m for m in report["members"] if m["in_job"]]
    ranks = [m for m in members if m["role"] == "rank"]
    equal([(m["rank"], m["pid"]) for m in ranks], sorted(pids.items()), "the ranks")
    for m in ranks:
        equal((m["job"], m["local_rank"], m["world_size"], m["host"], m["completeness"], m["error"]),
              (f"slurm {number}", m["rank"] % 2, RANKS, socket.gethostname(), "complete", None), f"rank {m['rank']}")
    pids = [m["pid"] for m in report["members"]]
    equal(len(pids), len(set(pids)), "members that are there once")
    for m in members:
        check(m["role"] in ("rank", "launcher"), "what is no part of the job", m["name"], m["command_line"])


def check_odd_one(report, text):
    told = [v["text"] for v in report["found"]["verdicts"]]
    check(any(f"rank {ODD} " in line or f"ranks {ODD} " in line for line in told) and any("save_metrics" in line for line in told),
          "no finding names the odd one", told)
    check("save_metrics" in text and f"{ODD} [1]" in text, "the summary does not show the odd one", text)


def check_only(out, names):
    equal(sorted(os.listdir(out)), sorted((*names, "report.json", "summary.txt")), "what is in the directory")


def are_unharmed():
    for pid in job()[1].values():
        with open(f"/proc/{pid}/status", encoding="utf-8") as file:
            status = file.read()
        check("TracerPid:\t0" in status and "\nState:\tS" in status, f"{pid} is stopped or traced", status[:300])


def test_all_nodes():
    out, report, text, err, _ = triage("--timeout", "30")
    equal(err, "", "standard error")
    check_ranks(report)
    check_odd_one(report, text)
    check_only(out, NODES)
    # Nobody overwrote another's, and the names of the files lead there.
    for node in NODES:
        check(os.path.exists(os.path.join(out, node, "report.json")), "the node's own", node)
    for m in (m for m in report["members"] if m["in_job"]):
        with open(os.path.join(out, m["report"]), encoding="utf-8") as file:
            equal(json.load(file)["process"]["pid"], m["pid"], "the process of " + m["report"])
    equal(report["found"]["completeness"], "complete", "completeness")
    are_unharmed()


def hanging_on(node):
    """A vramtap that never ends there."""
    path = scratch("vramtap")
    with open(path, "w", encoding="utf-8") as file:
        file.write(f'#!/bin/sh\n[ "$SLURMD_NODENAME" != {node} ] || exec sleep 1000\nexec \'{VRAMTAP}\' "$@"\n')
    os.chmod(path, 0o755)
    return path


def check_missing(report, text, err, node):
    check(f"vramtap: {node}: " in err and err.count("\n") == 1, "the message", err)
    missing = [d["text"] for d in report["diagnostics"] if d["level"] == "missing"]
    check(len(missing) == 1 and missing[0].startswith(f"{node}: "), "what the report says", missing)
    check(f"{node}: " in text and "Partial" in text, "what the summary says", text)
    equal(report["found"]["completeness"], "partial", "completeness")


def test_vramtap_that_hangs():
    only_of_scripts()
    out, report, text, err, took = triage("--timeout", "2", "--node-margin", "8", program=hanging_on("node2"), expect=PARTIAL)
    check(took < 2 + 8 + 5, "it took too long", took)
    check_ranks(report)
    check_odd_one(report, text)
    check_missing(report, text, err, "node2")
    check("did not end in time" in err, "the reason", err)
    check_only(out, ("node1", "node3"))


def test_node_that_does_not_answer():
    """Its daemon stands still. The step for all nodes fails then; each by itself does not."""
    only_of_scripts()
    job()  # while all nodes answer
    slurmd = slurm().slurmd["node3"]
    os.kill(slurmd.pid, signal.SIGSTOP)
    try:
        _, report, text, err, took = triage("--timeout", "2", "--node-margin", "2", expect=PARTIAL)
    finally:
        os.kill(slurmd.pid, signal.SIGCONT)
    check(took < 2 * (2 + 2 + 2) + 5, "it took too long", took)
    check_ranks(report)
    check_odd_one(report, text)
    check_missing(report, text, err, "node3")
    check("node3: no answer within 4 s" in err, "the reason", err)


def test_step_that_dies():
    """The step for all nodes is killed half-way: each is asked by itself then."""
    only_of_scripts()
    directory = scratch()
    path = os.path.join(directory, "srun")
    with open(path, "w", encoding="ascii") as file:
        file.write(f"#!/bin/sh\ncase $* in *--nodes={len(NODES)}*) ;; *) exec {slurm().bin}/srun \"$@\" ;; esac\n"
                   f"{slurm().bin}/srun \"$@\" &\nsleep 0.2\nkill -9 $!\n: >{directory}/killed\nkill -9 $$\n")
    os.chmod(path, 0o755)
    number, _ = job()
    out = scratch("out")
    done = slurm().run(VRAMTAP, "triage", "-o", out, "--quiet", "--timeout", "20", "--slurm", str(number), env={"PATH": f"{directory}:{slurm().env['PATH']}"})
    equal((done.returncode, done.stderr), (COMPLETE, b""), "exit code and messages")
    check(os.path.exists(os.path.join(directory, "killed")), "the step was killed")
    with open(os.path.join(out, "report.json"), encoding="utf-8") as file:
        check_ranks(json.load(file))
    are_unharmed()


def left_on_nodes():
    return glob.glob("/tmp/vramtap.??????")


def test_without_a_shared_file_system():
    """The nodes see neither the directory nor the program, for they are in another mount namespace: both are sent."""
    only_of_scripts()
    base = scratch()
    if os.geteuid():
        raise Skip("needs root")
    if subprocess.run(["unshare", "-m", "mount", "-t", "tmpfs", "none", base], capture_output=True, check=False).returncode:
        raise Skip("no mount namespaces here")
    kept, hidden = scratch("kept"), os.path.join(base, "it's \"out\" $HOME")
    number, _ = job()
    done = slurm().run("unshare", "-m", "sh", "-c", 'mount -t tmpfs none "$1" && cp "$2" "$1" && "$1/vramtap" triage -o "$3" -q --slurm "$4"; s=$?; cp -a "$3" "$5"; exit $s',
                       "sh", base, VRAMTAP, hidden, str(number), kept)
    equal((done.returncode, done.stdout, done.stderr), (COMPLETE, b"", b""), "exit code and output")
    equal(left_on_nodes(), [], "what is left on the nodes")
    with open(os.path.join(kept, "report.json"), encoding="utf-8") as file:
        report = json.load(file)
    check_ranks(report)
    check_only(kept, NODES)
    for m in (m for m in report["members"] if m["in_job"]):
        check(os.path.exists(os.path.join(kept, m["report"])), "the report of a process", m["report"])


def test_from_inside_the_job():
    """As a watchdog in the job does it: with all of the step's variables, and without itself among the processes."""
    only_of_scripts()
    number, _ = job()
    _, report, _, err, _ = triage(prefix=("srun", "--overlap", f"--jobid={number}", "-N1", "-n1", "-wnode1"))
    equal(err, "", "standard error")
    check_ranks(report)


def name_of(pid):
    with contextlib.suppress(OSError), open(f"/proc/{pid}/cmdline", "rb") as file:
        return file.read()
    return b""


def test_by_hand():
    """The man page's lines, with other numbers and in another directory."""
    only_of_scripts()
    number, _ = job()
    with open(os.path.join(SOURCE, "doc", "vramtap-triage.1"), encoding="utf-8") as file:
        page = file.read().split("The same by hand, by one task on each of its nodes", 1)[1]
    lines = page.split(".Bd -literal -offset indent\n", 1)[1].split(".Ed\n", 1)[0].replace("\\e", "\\").replace("4711", str(number)).replace("--nodes=8", f"--nodes={len(NODES)}")
    script = "".join(line.removeprefix("$ ") + "\n" for line in lines.splitlines())
    base = scratch()
    env = {"PATH": f"{os.path.dirname(os.path.abspath(VRAMTAP))}:{slurm().env['PATH']}"}
    done = slurm().run("sh", "-c", script, cwd=base, env=env)
    check(done.returncode in (COMPLETE, PARTIAL), "exit code", done)
    with open(os.path.join(base, "hang", "report.json"), encoding="utf-8") as file:
        report = json.load(file)
    check_odd_one(report, done.stdout.decode())
    equal(sorted(m["rank"] for m in report["members"] if m["in_job"] and m["role"] == "rank"), list(range(RANKS)), "the ranks")
    check_only(os.path.join(base, "hang"), NODES)


def test_interrupted():
    """It ends at once, leaves no file of its own, and nothing runs on."""
    only_of_scripts()
    number, _ = job()
    out = scratch("out")
    before = set(descendants_of(os.getpid()))
    proc = subprocess.Popen([VRAMTAP, "triage", "-o", out, "--node-program", hanging_on("node1"), "--timeout", "20", "--slurm", str(number)],
                            stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=slurm().env)
    def hanging():
        return [pid for pid in set(descendants_of(os.getpid())) - before if name_of(pid) == b"sleep\x001000\0"]
    wait_until(hanging, 20, "a node is asked")
    proc.send_signal(signal.SIGTERM)
    equal(proc.wait(15), 143, "exit code")
    equal([name for name in os.listdir(out) if name.startswith(".")], [], "files that are left")
    wait_until(lambda: not hanging(), 15, "what hangs on the node is ended")


def test_usage():
    out = scratch("out")
    for args in (["--slurm", "x;y"], ["--slurm", ""], ["--slurm", "1", "--job", "1"], ["--slurm", "1", "1"], ["--slurm", "1", "--kubectl", "x=y"],
                 ["--at-once", "1", "--all-gpu"], ["--slurm", "1", "--from", out], ["--slurm", "1", "--namespace", "x"]):
        done = slurm().run(VRAMTAP, "triage", *args)
        equal(done.returncode, USAGE, f"exit code of {args}: {done.stderr}")
    with open(os.path.join(scratch(), "x"), "w", encoding="ascii") as file:
        for args, said in ((["-o", out, "--slurm", "999999"], b"nodes could not be found: slurm_load_jobs error: Invalid job id"),
                           (["--slurm", "999999"], b"Invalid job id"),
                           (["-o", os.path.dirname(file.name), "--slurm", "1"], b"is neither empty nor from an earlier triage")):
            done = slurm().run(VRAMTAP, "triage", *args)
            equal(done.returncode, NOTHING, f"exit code of {args}: {done.stderr}")
            check(done.stderr.startswith(b"vramtap: ") and said in done.stderr and done.stderr.count(b"\n") == 1, "the message", done.stderr)
    equal(os.listdir(out), [], "files that are left")
    done = slurm().run(VRAMTAP, "triage", "--slurm", "1", env={"PATH": path_of("sh", "timeout", "squeue", "scontrol")})
    equal((done.returncode, done.stderr), (NOTHING, b"vramtap: there is no srun here, which --slurm needs\n"), "without srun")
    done = slurm().run(VRAMTAP, "triage", "--slurm", "1", env={"PATH": scratch()})
    equal((done.returncode, done.stderr), (NOTHING, b"vramtap: there is no sh here, which is needed to reach other nodes\n"), "without sh")


if __name__ == "__main__":
    with STACK:
        main(globals())
