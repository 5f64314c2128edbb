#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""examples/triage-mpirun.sh, -clush.sh and -kubectl.sh on this machine: with the mpirun of Open MPI and of MPICH, which take two names of
it for two hosts; with clush, whose worker "exec" runs all here; and with a kubectl that is not Kubernetes' but runs what it is given here."""
import contextlib
import json
import os
import re
import socket
import subprocess
import sys

from cluster import only_of_scripts, programs
from harness import COMPLETE, NOTHING, PARTIAL, SOURCE, USAGE, VRAMTAP, Skip, check, equal, main, scratch, target, wait_until

RANK = os.path.join(SOURCE, "tests", "targets", "slurm_rank.py")
EXAMPLES = os.path.join(SOURCE, "examples")

# Each pod is this machine; what is run in it is not to see the directory of results, nor the rest of PATH.
KUBECTL = r"""#!/bin/sh
echo "$*" >>"$KUBECTL_LOG"
case $* in
*"get pods --selector=job-name=train,x=y z --output="*) printf 'train-0\ntrain-1\ngone-0\n$(touch evil)\n' ;;
*exec*)
	until [ "$1" = exec ]; do shift; done
	pod=$3
	until [ "$1" = -- ]; do shift; done
	shift
	[ "$pod" != gone-0 ] || { echo 'error: cannot exec into a container in a completed pod' >&2; exit 1; }
	PATH=$KUBECTL_PATH TMPDIR=$KUBECTL_TMP exec unshare -m sh -c 'mount -t tmpfs none "$0" && exec "$@"' "$KUBECTL_HIDE" "$@"
	;;
esac
"""


@contextlib.contextmanager
def ranks(n=2):
    """Processes of a job that hangs; yields {pid: rank}."""
    ready = scratch()
    with contextlib.ExitStack() as stack:
        for rank in range(n):
            env = dict(os.environ, RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(n))
            stack.enter_context(target([sys.executable, RANK, ready, "1"], env=env))
        wait_until(lambda: len(os.listdir(ready)) == n, 10, "the ranks run")
        yield ready, {int(pid): int(rank) for rank, pid in (name.split(".") for name in os.listdir(ready))}


def triage(engine, *args, out, env=None, expect=COMPLETE):
    done = subprocess.run(["sh", os.path.join(EXAMPLES, f"triage-{engine}.sh"), "-o", out, "-t", "30", *args], stdin=subprocess.DEVNULL,
                          capture_output=True, timeout=100, check=False, env=dict(os.environ, VRAMTAP=VRAMTAP, **(env or {})))
    text, err = done.stdout.decode(), done.stderr.decode()
    equal(done.returncode, expect, f"exit code of {engine}: " + err + text[-1500:])
    with open(os.path.join(out, "report.json"), encoding="utf-8") as file:
        return json.load(file), text, err


def check_ranks(report, pids):
    equal({m["pid"]: m["rank"] for m in report["members"] if m["in_job"]}, pids,
          "the ranks" + "".join(f" ({m['pid']} {m['name']} {m['command_line'][-200:]}: {m['error']})" for m in report["members"]))


def check_files(out, report, nodes):
    equal(sorted(os.listdir(out)), sorted((*nodes, "report.json", "summary.txt")), "what is in the directory")
    for m in (m for m in report["members"] if m["in_job"]):
        check(os.path.exists(os.path.join(out, m["report"])), "the report of a process", m["report"])


def mpirun(name):
    """Both hosts are this one."""
    only_of_scripts()
    path = os.path.join(programs(name), "mpirun")
    env = {"MPIRUN": path, "OPAL_PREFIX": os.path.join(programs(name), "..", "root", "usr")}
    hosts = f"localhost,{socket.gethostname()}"
    out = scratch("it's \"out\" $HOME %h")
    with ranks() as (ready, pids):
        report, text, err = triage("mpirun", "-H", hosts, "-b", VRAMTAP, "--", "--match", f"slurm_rank.py {ready} 1", out=out, env=env)
        equal(err, "", "standard error")
        check_ranks(report, pids)
        check_files(out, report, hosts.split(","))
        check("save_metrics" in text, "the summary", text)
    hostfile = scratch("hosts")
    with open(hostfile, "w", encoding="ascii") as file:
        file.write("# hosts\nlocalhost slots=8\n\nlocalhost:2\n")
    with ranks() as (ready, pids):
        report, _, _ = triage("mpirun", "-f", hostfile, "-b", VRAMTAP, "-q", "--", "--match", f"slurm_rank.py {ready} 1", out=scratch("out"), env=env)
        check_ranks(report, pids)


def test_open_mpi():
    mpirun("openmpi")


def test_mpich():
    mpirun("mpich")


def test_clush():
    """The directory of results is not seen by the nodes: it comes back as text, through what clush makes of it."""
    only_of_scripts()
    path = f"{programs('clustershell')}:{os.environ['PATH']}"
    out = scratch("it's \"out\" $HOME %h")
    with ranks() as (ready, pids):
        args = ("-w", "node[1-3]", "-R", "exec", "-b", VRAMTAP, "--", "--match", f"slurm_rank.py {ready} (1)$")
        report, text, err = triage("clush", *args, out=out, env={"PATH": path})
        equal(err, "", "standard error")
        check_ranks(report, pids)
        check_files(out, report, ("node1", "node2", "node3"))
        check("save_metrics" in text, "the summary", text)
        # One whose vramtap is missing costs itself only, when it is the only one: all.
        code = triage_fails("clush", "-w", "node1", "-R", "exec", "-b", "/nonexistent/vramtap", env={"PATH": path})
        check("there is no /nonexistent/vramtap there" in code, "the message", code)


def triage_fails(engine, *args, env, out=None):
    done = subprocess.run(["sh", os.path.join(EXAMPLES, f"triage-{engine}.sh"), "-o", out or scratch("out"), "-t", "10", *args], stdin=subprocess.DEVNULL,
                          capture_output=True, timeout=100, check=False, env=dict(os.environ, VRAMTAP=VRAMTAP, **env))
    equal(done.returncode, NOTHING, f"exit code of {engine}: {done.stderr}")
    return done.stderr.decode()


def pods(hidden, **env):
    """The environment of a kubectl that runs here what is to run in a pod, where this directory is not seen."""
    directory = scratch()
    path = os.path.join(directory, "kubectl")
    with open(path, "w", encoding="ascii") as file:
        file.write(KUBECTL)
    os.chmod(path, 0o755)
    return {"PATH": f"{directory}:{os.environ['PATH']}", "KUBECTL_LOG": os.path.join(directory, "log"), "KUBECTL_HIDE": hidden,
            "KUBECTL_PATH": os.environ["PATH"], "KUBECTL_TMP": scratch(), **env}


def path_without(*names):
    """A directory with links to the programs that node_program needs, but not to these."""
    directory = scratch()
    for name in ("sh", "mktemp", "cat", "chmod", "rm", "timeout", "tar", "gzip", "base64", "unshare", "mount"):
        if name not in names:
            with contextlib.suppress(StopIteration):
                os.symlink(next(p for p in (f"/usr/bin/{name}", f"/bin/{name}") if os.path.exists(p)), os.path.join(directory, name))
    return directory


def test_kubectl():
    """In pods with tar, and without: then there is the report of the node, and not those of its processes. vramtap is brought along."""
    only_of_scripts()
    base = scratch()
    if os.geteuid() or subprocess.run(["unshare", "-m", "mount", "-t", "tmpfs", "none", base], capture_output=True, check=False).returncode:
        raise Skip("needs root and mount namespaces, to hide the directory from what is to run in pods")
    for missing, files in (((), True), (("gzip",), True), (("tar", "timeout"), False)):
        out = os.path.join(base, "out" + "".join(missing))
        env = pods(base, KUBECTL_PATH=path_without(*missing))
        with ranks() as (ready, pids):
            report, text, err = triage("kubectl", "-l", "job-name=train,x=y z", "-n", "prod", "-c", "main", "-C", VRAMTAP, "--", "--match",
                                       f"slurm_rank.py {ready} 1", out=out, env=env, expect=PARTIAL)
        check_ranks(report, pids)
        check("gone-0: error: cannot exec into a container in a completed pod" in err, "the pod that does not run", err)
        check('"$(touch evil)" is no name' in err, "the name that is none", err)
        check(not os.path.exists("evil"), "a name was executed")
        equal(sorted(os.listdir(out)), ["report.json", "summary.txt", "train-0", "train-1"], "what is in the directory")
        for m in (m for m in report["members"] if m["in_job"]):
            equal(os.path.exists(os.path.join(out, m["report"])), files, "the report of a process")
        check("save_metrics" in text, "the summary", text)
        with open(env["KUBECTL_LOG"], encoding="utf-8") as log:
            calls = log.read()
        check(re.search(r"^--namespace=prod exec --stdin train-1 --container=main -- sh -c", calls, re.M), "how kubectl is called", calls[:500])
        equal(os.listdir(env["KUBECTL_TMP"]), [], "what is left in the pods")


def test_hostile_answers():
    """What a pod sends is taken as what it is: links out of the directory are dropped, cut off answers refused, and others are not hurt. Nor
    can other users reach it, or execute it as the user that unpacked it."""
    base, secret, out = scratch(), scratch("secret"), scratch("out")
    with open(secret, "w", encoding="ascii") as file:
        file.write("mine")
    answers = scratch()
    for name, script in (("link", f'd=$(mktemp -d); ln -s {secret} $d/report.json; mkdir $d/x; ln -s / $d/x/y; '
                                  'cp /bin/true $d/x/z; chmod 4755 $d/x/z; chmod 2777 $d; '
                                  'echo; echo vramtap-triage: tar; tar -C $d -cf - . | base64; echo; echo vramtap-triage: end; rm -rf $d'),
                         ("cut", 'echo; echo vramtap-triage: json; echo "{"'), ("noise", "echo hello; head -c 100000 /dev/urandom"),
                         ("up", 'echo; echo "vramtap-triage: ../../evil"; echo x; echo; echo vramtap-triage: end')):
        with open(os.path.join(answers, name), "w", encoding="ascii") as file:
            file.write(script)
    path = scratch("kubectl")
    with open(path, "w", encoding="ascii") as file:
        file.write(f'#!/bin/sh\ncase $* in *get*) ls {answers} ;; *) sh {answers}/"$3" ;; esac\n')
    os.chmod(path, 0o755)
    err = triage_fails("kubectl", "-l", "x", env={"PATH": f"{os.path.dirname(path)}:{os.environ['PATH']}"}, out=out)
    check(os.path.exists(os.path.join(out, "link", "x", "z")), "what it sent")
    for directory, names, files in os.walk(out):
        for name in (".", *names, *files):
            mode = os.lstat(os.path.join(directory, name)).st_mode
            check(not mode & 0o7077, "the users that may reach it", directory, name, oct(mode))
    for name in os.listdir(answers):
        check(f"triage-kubectl.sh: {name}: " in err, f"{name} is not named", err)
    equal(os.listdir(base), [], "files")
    with open(secret, encoding="ascii") as file:
        equal(file.read(), "mine", "the file that a link leads to")


def test_usage():
    out = scratch("out")
    env = {k: v for k, v in os.environ.items() if k not in ("PBS_NODEFILE", "LSB_DJOB_HOSTFILE")}
    for engine, args in (("mpirun", []), ("mpirun", ["-o", out]), ("mpirun", ["-o", out, "-f", "/nonexistent"]), ("kubectl", ["-o", out]),
                         ("kubectl", ["-o", out, "-l", "x", "-b", "x", "-C", VRAMTAP]), ("clush", ["-o", out]), ("clush", ["-j", "x"])):
        done = subprocess.run(["sh", os.path.join(EXAMPLES, f"triage-{engine}.sh"), *args], capture_output=True, timeout=30, check=False, env=env)
        equal(done.returncode, USAGE, f"exit code of {engine} {args}: {done.stderr}")
    for engine in ("slurm", "mpirun", "kubectl", "clush"):
        done = subprocess.run(["sh", os.path.join(EXAMPLES, f"triage-{engine}.sh"), "-h"], capture_output=True, timeout=30, check=False, env=env)
        equal(done.returncode, 0, f"exit code of {engine} -h")
        check(max(len(line) for line in done.stdout.decode().splitlines()) < 80, f"the width of {engine} -h")


if __name__ == "__main__":
    main(globals())
