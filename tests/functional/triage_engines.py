#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""vramtap triage --mpirun, --clush and --kubectl on this machine: with the mpirun of Open MPI and of MPICH, which take two names of
it for two hosts; with clush, whose worker "exec" runs all here; and with a kubectl that is not Kubernetes' but runs what it is given here."""
import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys

from cluster import only_of_scripts, programs
from harness import COMPLETE, NOTHING, PARTIAL, SOURCE, USAGE, VRAMTAP, Skip, check, equal, main, scratch, target, wait_until

RANK = os.path.join(SOURCE, "tests", "targets", "slurm_rank.py")

# Each pod is this machine; what is run in it is not to see the directory of results, nor the rest of PATH.
KUBECTL = r"""#!/bin/sh
echo "$*" >>"$KUBECTL_LOG"
case $* in
*"get pods --selector=job-name=train,x=y z --output="*) printf 'train-0\ntrain-1\ngone-0\n$(touch evil)\nreport.json\n' ;;
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


def can_hide(directory):
    return not os.geteuid() and not subprocess.run(["unshare", "-m", "mount", "-t", "tmpfs", "none", directory], capture_output=True,
                                                   check=False).returncode


def moved(directory):
    """vramtap at a place that nodes do not see."""
    return shutil.copy(VRAMTAP, directory)


def triage(engine, nodes, *args, out, env=None, expect=COMPLETE, program=VRAMTAP):
    done = subprocess.run([program, "triage", f"--{engine}", nodes, "-o", out, "--timeout", "30", *args], stdin=subprocess.DEVNULL,
                          capture_output=True, timeout=100, check=False, env=dict(os.environ, **(env or {})))
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
        report, text, err = triage("mpirun", hosts, "--match", f"slurm_rank.py {ready} 1", out=out, env=env)
        equal(err, "", "standard error")
        check_ranks(report, pids)
        check_files(out, report, hosts.split(","))
        check("save_metrics" in text, "the summary", text)
    only_copied(path, env, name == "openmpi")


def only_copied(path, env, can_send):
    """The hosts see neither the directory of results nor a vramtap: it comes by standard input, unless that is MPICH's."""
    hidden = scratch()
    if not can_hide(hidden):
        return
    wrapper, hostfile = scratch("mpirun"), scratch("hosts")
    with open(wrapper, "w", encoding="ascii") as file:
        file.write(f'#!/bin/sh\n[ $# -gt 4 ] || exec {path} "$@"\na=$1 b=$2 c=$3 d=$4; shift 4\n'
                   f"exec {path} $a $b $c $d unshare -m sh -c 'mount -t tmpfs none {hidden} && exec \"$@\"' sh \"$@\"\n")
    os.chmod(wrapper, 0o755)
    with open(hostfile, "w", encoding="ascii") as file:
        file.write("# hosts\nlocalhost slots=8\n\nlocalhost:2\n")
    with ranks() as (ready, pids):
        out = os.path.join(hidden, "out")
        env = dict(env, MPIRUN=wrapper)
        args = (hostfile, "-q", "--match", f"slurm_rank.py {ready} 1")
        if not can_send:
            check("none can be sent; --node-program names one" in triage_fails("mpirun", *args, out=out, env=env, program=moved(hidden)), "the message")
            return
        report, _, _ = triage("mpirun", *args, out=out, env=env, program=moved(hidden))
        check_ranks(report, pids)
        check_files(out, report, ["localhost"])


def test_open_mpi():
    mpirun("openmpi")


def test_mpich():
    mpirun("mpich")


def test_clush():
    """The directory of results is not seen by the nodes: it comes back as text, through what clush makes of it. So the program goes
    there, of which there is no file any more."""
    only_of_scripts()
    path = f"{programs('clustershell')}:{os.environ['PATH']}"
    out = scratch("it's \"out\" $HOME %h")
    with ranks() as (ready, pids):
        args = ("node[1-3]", "--worker", "exec", "--match", f"slurm_rank.py {ready} (1)$")
        deleted = moved(scratch())
        start = scratch("start")
        with open(start, "w", encoding="ascii") as file:
            file.write(f'#!/bin/sh\nexec 9<{deleted}\nrm {deleted}\nexec /proc/self/fd/9 "$@"\n')
        os.chmod(start, 0o755)
        report, text, err = triage("clush", *args, out=out, env={"PATH": path}, program=start)
        equal(err, "", "standard error")
        check_ranks(report, pids)
        check_files(out, report, ("node1", "node2", "node3"))
        check("save_metrics" in text, "the summary", text)
        # One whose vramtap is missing costs itself only, when it is the only one: all.
        code = triage_fails("clush", "node1", "--worker", "exec", "--node-program", "/nonexistent/vramtap", env={"PATH": path})
        check("there is no /nonexistent/vramtap there" in code, "the message", code)


def triage_fails(engine, nodes, *args, env, out=None, program=VRAMTAP):
    done = subprocess.run([program, "triage", f"--{engine}", nodes, "-o", out or scratch("out"), "--timeout", "10", *args], stdin=subprocess.DEVNULL,
                          capture_output=True, timeout=100, check=False, env=dict(os.environ, **env))
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
    for name in ("sh", "mktemp", "cat", "chmod", "rm", "timeout", "tar", "gzip", "base64", "unshare", "mount", "wc", "head", "mkfifo", "sleep"):
        if name not in names:
            with contextlib.suppress(StopIteration):
                os.symlink(next(p for p in (f"/usr/bin/{name}", f"/bin/{name}") if os.path.exists(p)), os.path.join(directory, name))
    return directory


def test_kubectl():
    """In pods with tar, and without: then there is the report of the node, and not those of its processes. vramtap is brought along."""
    only_of_scripts()
    base = scratch()
    if not can_hide(base):
        raise Skip("needs root and mount namespaces, to hide the directory from what is to run in pods")
    for missing, files in (((), True), (("gzip",), True), (("tar", "timeout"), False)):
        out = os.path.join(base, "out" + "".join(missing))
        env = pods(base, KUBECTL_PATH=path_without(*missing))
        with ranks() as (ready, pids):
            report, text, err = triage("kubectl", "job-name=train,x=y z", "--namespace", "prod", "--container", "main", "--match",
                                       f"slurm_rank.py {ready} 1", out=out, env=env, expect=PARTIAL, program=moved(base))
        check_ranks(report, pids)
        check("gone-0: error: cannot exec into a container in a completed pod" in err, "the pod that does not run", err)
        for name in ("$(touch evil)", "report.json"):
            check(f'"{name}" is no name' in err, "the name that is none", err)
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
    base, secret = scratch(), scratch("secret")
    out = os.path.join(base, "dir", "out")
    os.mkdir(os.path.dirname(out))
    with open(secret, "w", encoding="ascii") as file:
        file.write("mine")
    answers = scratch()
    for name, script in (("link", f'd=$(mktemp -d); ln -s {secret} $d/report.json; mkdir $d/x; ln -s / $d/x/y; '
                                  'cp /bin/true $d/x/z; chmod 4755 $d/x/z; chmod 2777 $d; '
                                  'echo; echo vramtap-triage: tar; tar -C $d -cf - . | base64; echo; echo vramtap-triage: end; rm -rf $d'),
                         ("cut", 'echo; echo vramtap-triage: json; echo "{"'), ("noise", "echo hello; head -c 100000 /dev/urandom"),
                         ("line", 'echo; echo vramtap-triage: json; head -c 20000000 /dev/zero | tr "\\0" a; echo; echo vramtap-triage: end'),
                         ("up", 'echo; echo "vramtap-triage: ../../evil"; echo x; echo; echo vramtap-triage: end')):
        with open(os.path.join(answers, name), "w", encoding="ascii") as file:
            file.write(script)
    path = scratch("kubectl")
    with open(path, "w", encoding="ascii") as file:
        file.write(f'#!/bin/sh\ncase $* in *"get pods"*) ls {answers} ;; *) sh {answers}/"$3" ;; esac\n')
    os.chmod(path, 0o755)
    err = triage_fails("kubectl", "x", env={"PATH": f"{os.path.dirname(path)}:{os.environ['PATH']}"}, out=out)
    check(os.path.exists(os.path.join(out, "link", "x", "z")), "what it sent")
    for directory, names, files in os.walk(out):
        for name in (".", *names, *files):
            mode = os.lstat(os.path.join(directory, name)).st_mode
            check(not mode & 0o7077, "the users that may reach it", directory, name, oct(mode))
    for name in os.listdir(answers):
        check(f"vramtap: {name}: " in err, f"{name} is not named", err)
    check("vramtap: line: error: what it sent is no report" in err, "a line that no memory may hold", err)
    equal((os.listdir(base), os.listdir(os.path.dirname(out))), (["dir"], ["out"]), "files beside the directory")
    equal(sorted(os.listdir(os.path.join(out, "link"))), ["x"], "what is no file and no directory")
    with open(secret, encoding="ascii") as file:
        equal(file.read(), "mine", "the file that a link leads to")


def test_places_of_others():
    """In the pod another user has read where the results go, and made that: with a program, and links to what the user that asks may write."""
    only_of_scripts()
    base, run, secret, path = scratch(), scratch("run"), scratch("secret"), scratch("kubectl")
    if not can_hide(base):
        raise Skip("needs root and mount namespaces")
    with open(secret, "w", encoding="ascii") as file:
        file.write("mine")
    with open(path, "w", encoding="ascii") as file:
        file.write(f"""#!/bin/sh
case $* in *"get pods"*) echo pod; exit ;; esac
until [ "$1" = -- ]; do shift; done
shift
exec unshare -m sh -c '
mount -t tmpfs none {base}
shared=$9 out=${{10}}
mkdir -p "${{shared%/*}}"
: >"$shared"
ln -s {secret} "$shared.pod"
ln -s {secret} "${{shared%/*}}/pod.err"
printf "#!/bin/sh\\n: >{run}\\necho vramtap 0\\n" >"${{shared%/*}}/vramtap"
chmod 755 "${{shared%/*}}/vramtap"
chown -R 65534 "$out"
exec "$@"' sh "$@"
""")
    os.chmod(path, 0o755)
    out = os.path.join(base, "out")
    with ranks() as (ready, pids):
        report, _, _ = triage("kubectl", "x", "--match", f"slurm_rank.py {ready} 1", out=out, program=moved(base),
                              env={"PATH": f"{os.path.dirname(path)}:{os.environ['PATH']}"})
    check_ranks(report, pids)
    check(not os.path.exists(run), "another user's program was run")
    with open(secret, encoding="ascii") as file:
        equal(file.read(), "mine", "the file that the links lead to")
    check_files(out, report, ["pod"])


def running(*words):
    """The processes with this command line."""
    want = b"".join(word.encode() + b"\0" for word in words)
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError), open(f"/proc/{pid}/cmdline", "rb") as file:
            if file.read() == want:
                found.append(int(pid))
    return found


@contextlib.contextmanager
def asking_a_pod_that_hangs(*args):
    """vramtap, in a session of its own as under a terminal, that waits for two pods; yields (its process, the environment, what runs there)."""
    base, seconds = scratch(), f"{1000 + os.getpid()}"
    if not can_hide(base):
        raise Skip("needs root and mount namespaces")
    program = scratch("vramtap")
    with open(program, "w", encoding="ascii") as file:
        file.write(f"#!/bin/sh\nexec sleep {seconds}\n")
    os.chmod(program, 0o755)
    env = pods(base, KUBECTL_PATH=path_without())
    argv = [VRAMTAP, "triage", "--kubectl", "job-name=train,x=y z", "--node-program", program, *args]
    proc = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
                            env=dict(os.environ, TMPDIR=base, **env))
    try:
        wait_until(lambda: len(running("sleep", seconds)) == 2, 20, "the pods are asked")
        check(len(os.listdir(env["KUBECTL_TMP"])) == 2, "places for results there", os.listdir(env["KUBECTL_TMP"]))
        yield proc, env, lambda: running("sleep", seconds)
        wait_until(lambda: not running("sleep", seconds), 10, "nothing runs in the pods")
        wait_until(lambda: not os.listdir(env["KUBECTL_TMP"]), 10, "nothing is left in the pods")
        wait_until(lambda: not os.listdir(base), 10, "nothing is left here")
    finally:
        proc.kill()
        proc.communicate()


def test_interrupted():
    """By Ctrl-C, as the terminal sends it to all of the group."""
    only_of_scripts()
    with asking_a_pod_that_hangs() as (proc, _, _):
        os.killpg(proc.pid, signal.SIGINT)
        equal(proc.wait(15), 130, "exit code")
        equal(proc.stderr.read(), b"vramtap: interrupted; the nodes were told to end\n", "the message")


def test_interrupted_while_nodes_are_listed():
    """What names them may hang itself: it is ended at once, by Ctrl-C and when vramtap is killed."""
    only_of_scripts()
    path, base, seconds = scratch("kubectl"), scratch(), f"{2000 + os.getpid()}"
    with open(path, "w", encoding="ascii") as file:
        file.write(f"#!/bin/sh\nexec sleep {seconds}\n")
    os.chmod(path, 0o755)
    for number, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, -signal.SIGKILL)):
        proc = subprocess.Popen([VRAMTAP, "triage", "--kubectl", "x"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                stderr=subprocess.DEVNULL, start_new_session=True,
                                env=dict(os.environ, TMPDIR=base, PATH=f"{os.path.dirname(path)}:{os.environ['PATH']}"))
        try:
            wait_until(lambda: running("sleep", seconds), 20, "the pods are listed")
            os.kill(proc.pid, number)
            equal(proc.wait(5), code, "exit code")
        finally:
            proc.kill()
            proc.wait()
        wait_until(lambda: not running("sleep", seconds), 5, "nothing runs")
        wait_until(lambda: not os.listdir(base), 5, "nothing is left here")


def test_killed_here():
    """Nothing can be done then but by those that are left."""
    only_of_scripts()
    with asking_a_pod_that_hangs() as (proc, _, _):
        proc.kill()
        proc.wait(15)


def test_killed_there():
    """As when a pod has no memory left, or a step is cancelled: the shell there and all that it started, but what cleans up."""
    only_of_scripts()
    with asking_a_pod_that_hangs("--timeout", "2", "--node-margin", "5") as (proc, _, hanging):
        for pid in hanging():
            with open(f"/proc/{pid}/stat", encoding="ascii") as file:
                limit = int(file.read().split()[3])
            with open(f"/proc/{limit}/stat", encoding="ascii") as file:
                shell = int(file.read().split()[3])
            for one in (shell, limit, pid):
                os.kill(one, signal.SIGKILL)
        equal(proc.wait(20), NOTHING, "exit code")


def test_copy_cut_off():
    """The connection ends while the program is sent: that is said, and no part of it is left."""
    only_of_scripts()
    base = scratch()
    if not can_hide(base):
        raise Skip("needs root and mount namespaces")
    env = pods(base, KUBECTL_PATH=path_without())
    path = os.path.join(os.path.dirname(env["KUBECTL_LOG"]), "kubectl")
    os.rename(path, path + ".whole")
    with open(path, "w", encoding="ascii") as file:
        file.write('#!/bin/sh\ncase $* in *exec*) head -c 1000000 | "$0.whole" "$@" ;; *) exec "$0.whole" "$@" ;; esac\n')
    os.chmod(path, 0o755)
    err = triage_fails("kubectl", "job-name=train,x=y z", out=os.path.join(base, "out"), env=env, program=moved(base))
    check("vramtap: train-0: the copy of vramtap came only in part" in err, "the message", err)
    equal(os.listdir(env["KUBECTL_TMP"]), [], "what is left in the pods")


def test_usage():
    out = scratch("out")
    for args in (["--mpirun", ""], ["--kubectl", "x", "--clush", "y"], ["--mpirun", "a", "--worker", "x"], ["--clush", "a", "--container", "x"],
                 ["--clush", "x", "--at-once", "0"], ["--kubectl", "x", "--children-of", "1"], ["--kubectl", "x", "--node-margin", "0"]):
        done = subprocess.run([VRAMTAP, "triage", "-o", out, *args], capture_output=True, timeout=30, check=False)
        equal(done.returncode, USAGE, f"exit code of {args}: {done.stderr}")
    os.makedirs(os.path.join(out, "with\nbreak"))
    check("line break in its name" in triage_fails("mpirun", "a", env={"MPIRUN": "true"}, out=os.path.join(out, "with\nbreak")), "the message")
    done = subprocess.run([VRAMTAP, "triage", "--mpirun", "a", "-o", "-", "--timeout", "5"], cwd=out, capture_output=True, timeout=60, check=False,
                          env=dict(os.environ, MPIRUN="false", OLDPWD=os.path.dirname(out)))
    check(b"vramtap: a: no answer" in done.stderr, "a directory that is called -", done.stderr)
    err = triage_fails("mpirun", "/nonexistent/hosts", env={"MPIRUN": "true"})
    check("nodes could not be found: " in err and "/nonexistent/hosts" in err, "the message", err)


if __name__ == "__main__":
    main(globals())
