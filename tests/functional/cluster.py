# SPDX-License-Identifier: Apache-2.0
"""A Slurm of this machine alone: three nodes that are all this host, in a private directory, with a munged of its own. And how what
tests/setup/cluster.sh has brought is found."""
import contextlib
import ctypes
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

from core import SANITIZED
from harness import CACHE, Skip, check, wait_until

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
LIBC = ctypes.CDLL(None)
NODES = ("node1", "node2", "node3")

CONF = """
ClusterName=vramtap
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort={ports[0]}
AuthType=auth/munge
AuthInfo=socket={work}/munge.socket
CredType=cred/munge
SlurmUser={user}
SlurmdUser={user}
PluginDir={root}/usr/lib/x86_64-linux-gnu/slurm-wlm
StateSaveLocation={work}/state
SlurmdSpoolDir={work}/spool.%n
SlurmctldPidFile={work}/slurmctld.pid
SlurmdPidFile={work}/slurmd.%n.pid
SlurmctldLogFile={work}/slurmctld.log
SlurmdLogFile={work}/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
SchedulerType=sched/builtin
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
ReturnToService=2
SlurmdTimeout=0
KillWait=2
MessageTimeout=5
PropagateResourceLimits=NONE
SlurmdParameters=config_overrides
PartitionName=all Nodes=ALL Default=YES MaxTime=30 State=UP
"""


def programs(name):
    """The directory of the programs of Slurm, Open MPI, MPICH or ClusterShell."""
    path = os.path.join(CACHE, "cluster", name, "bin")
    if not os.path.isdir(path):
        raise Skip(f"{name} is not set up: sh tests/setup/cluster.sh {name}")
    return path


def only_of_scripts():
    """For tests that show the program nothing new: once is enough."""
    if SANITIZED:
        raise Skip("it is about the shell programs: it runs with the other build")


def children_of(pid):
    with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
        return [int(word) for word in file.read().split()]
    return []


def descendants_of(pid):
    return [one for child in children_of(pid) for one in (child, *descendants_of(child))]


def free_ports(n):
    """Ports without a listener at the moment."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(n)]
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


def end_all(begin):
    """Ends all that descends from this process and was not there before: by their ids, again until there is none."""
    for _ in range(100):
        left = set(descendants_of(os.getpid())) - begin
        for pid in left:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(OSError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        if not left:
            return
        time.sleep(0.05)


def end_with_parent():
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


class Slurm:
    """Daemons that end with the context, whatever has happened, as do the tasks of all jobs: what forks away is given to this process."""

    def __enter__(self):
        self.bin = programs("slurm")
        self.work = tempfile.mkdtemp(prefix="vramtap-slurm-")
        os.chmod(self.work, 0o755)
        self.env = dict(os.environ, PATH=f"{self.bin}:{os.environ['PATH']}", SLURM_CONF=os.path.join(self.work, "slurm.conf"))
        self.before = set(descendants_of(os.getpid()))
        self.slurmd = {}
        LIBC.prctl(PR_SET_CHILD_SUBREAPER, 1)
        try:
            self.start()
        except BaseException as err:
            self.__exit__()
            if os.geteuid() and isinstance(err, AssertionError):
                raise Skip(f"without root Slurm did not start: {err}") from err
            raise
        return self

    def __exit__(self, *exc):
        end_all(self.before)
        shutil.rmtree(self.work, ignore_errors=True)
        LIBC.prctl(PR_SET_CHILD_SUBREAPER, 0)

    def path(self, name):
        return os.path.join(self.work, name)

    def daemon(self, name, *args):
        with open(self.path(f"{name}.out"), "ab") as out:
            return subprocess.Popen([os.path.join(self.bin, name), *args], env=self.env, stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                                    cwd=self.work, preexec_fn=end_with_parent)

    def configure(self):
        ports = free_ports(1 + len(NODES))
        conf = CONF.format(ports=ports, work=self.work, user=pwd.getpwuid(os.geteuid()).pw_name, root=os.path.join(self.bin, "..", "root"))
        for node, port in zip(NODES, ports[1:]):
            conf += f"NodeName={node} NodeHostname=localhost NodeAddr=127.0.0.1 Port={port} CPUs=8\n"
            os.mkdir(self.path(f"spool.{node}"))
        os.mkdir(self.path("state"))
        with open(self.path("slurm.conf"), "w", encoding="ascii") as file:
            file.write(conf)

    def start(self):
        with open(self.path("munge.key"), "wb", opener=lambda path, flags: os.open(path, flags, 0o600)) as key:
            key.write(os.urandom(1024))
        self.configure()
        self.daemon("munged", "-F", "--force", f"--key-file={self.path('munge.key')}", f"--socket={self.path('munge.socket')}",
                    f"--pid-file={self.path('munged.pid')}", f"--seed-file={self.path('munge.seed')}", "--num-threads=2")
        wait_until(lambda: os.path.exists(self.path("munge.socket")), 10, "munged is there")
        self.daemon("slurmctld", "-D", "-c")
        for node in NODES:
            self.slurmd[node] = self.daemon("slurmd", "-D", "-N", node, "-d", os.path.join(self.bin, "slurmstepd"))
        wait_until(self.are_nodes_there, 30, "the nodes are there")

    def are_nodes_there(self):
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self.run("srun", f"-N{len(NODES)}", "--immediate=1", "true", timeout=15).returncode == 0
        return False

    def run(self, *command, timeout=60, **kwargs):
        return subprocess.run(command, env=dict(self.env, **kwargs.pop("env", {})), stdin=subprocess.DEVNULL, capture_output=True,
                              timeout=timeout, check=False, **kwargs)

    def why_not(self):
        """What Slurm knows of jobs and nodes, and what it said last."""
        said = [self.run("squeue", "--noheader", "--format=%A %T %r").stdout.decode(), self.run("scontrol", "--oneliner", "show", "nodes").stdout.decode()]
        for name in ("job.out", "slurmctld.log"):
            with contextlib.suppress(OSError), open(self.path(name), encoding="utf-8", errors="replace") as file:
                said.append(file.read()[-1500:])
        return said

    @contextlib.contextmanager
    def job(self, program, tasks, *args):
        """A job of program (slurm_rank.py) on all nodes; yields (its number, {rank: pid}) when all its files are there."""
        ready = self.path("ready")
        os.mkdir(ready)
        argv = [sys.executable, program, ready, *args]
        with open(self.path("job.out"), "ab") as out:
            srun = subprocess.Popen(["srun", f"-N{len(NODES)}", f"-n{tasks}", f"--ntasks-per-node={tasks // len(NODES)}", "-t5", *argv],
                                    env=self.env, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
        try:
            try:
                wait_until(lambda: len(os.listdir(ready)) == tasks, 20, "the job runs")
            except AssertionError as err:
                raise AssertionError(f"{err}: {self.why_not()}") from err
            number = self.run("squeue", "--noheader", "--format=%A").stdout.decode().split()
            check(len(number) == 1, "the jobs that run", number)
            yield int(number[0]), {int(rank): int(pid) for rank, pid in (name.split(".") for name in os.listdir(ready))}
        finally:
            srun.kill()
            srun.wait()
            shutil.rmtree(ready)
