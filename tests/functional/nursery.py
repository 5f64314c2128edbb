# SPDX-License-Identifier: Apache-2.0
"""Targets that have PyTorch without importing it: children of tests/targets/nursery.py, two for each release. Each import is two
seconds of a processor, and so is the first optimizer, which imports torch._dynamo. The kernel shows of them the command
line and the environment that they should have."""
import atexit
import contextlib
import json
import os
import re
import select
import signal
import socket
import subprocess
import threading

from harness import SOURCE, Job, check, simulated_python, target, tended

NURSERY = os.path.join(SOURCE, "tests", "targets", "nursery.py")


class Nursery:
    """A process that has imported PyTorch of this version, and these modules of it."""

    def __init__(self, version, *modules):
        self.socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.lock = threading.Lock()
        with theirs:
            self.proc = subprocess.Popen([*simulated_python(version), "-W", "ignore", NURSERY, *modules], stdin=theirs, stdout=subprocess.DEVNULL)
        atexit.register(self.end)

    def end(self):
        self.socket.close()
        self.proc.kill()
        self.proc.wait()

    def ask(self, request, descriptors=()):
        with self.lock:
            socket.send_fds(self.socket, [json.dumps(request).encode()], descriptors)
            answer = self.socket.recv(64)
        check(answer, "the nursery has ended", self.proc.poll())
        return json.loads(answer)


class Child:
    """What subprocess.Popen is, of a child of the nursery's."""

    def __init__(self, nursery, argv, env, cwd, stderr):
        (stdin, ours), (mine, stdout) = os.pipe(), os.pipe()
        self.nursery, self.args, self.returncode = nursery, argv, None
        self.pid = nursery.ask({"argv": argv, "env": env, "cwd": cwd}, [stdin, stdout, *([stderr.fileno()] if stderr else [])])
        self.ended = os.pidfd_open(self.pid)
        os.close(stdin)
        os.close(stdout)
        self.stdin, self.stdout = open(ours, "wb", buffering=0), open(mine, "rb")  # noqa: SIM115

    def poll(self):
        if self.returncode is None:
            self.returncode = self.nursery.ask({"status": self.pid})
        return self.returncode

    def wait(self, timeout=None):
        if self.ended is not None:
            if not select.select([self.ended], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(self.args, timeout)
            os.close(self.ended)
            self.ended = None
        return self.poll()

    def kill(self):
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)


# Variables that are read while libraries are loaded, or before.
EARLY = "PYTORCH_", "LD_", "CUDA_", "OMP_", "MALLOC_", "PYTHONMALLOC", "PYTHONHASHSEED"
nurseries = {}


def is_early(env):
    return any(name.startswith(EARLY) and os.environ.get(name) != value for name, value in (env or {}).items())


def child(version, argv, ready="READY", env=None, cwd=None, stderr=None):
    """harness.target() with a nursery's child, or with a process of its own if its environment wants one: argv is a program of
    Python's and its arguments."""
    if is_early(env):
        return target([*simulated_python(version), "-W", "ignore", *argv], ready=ready, env=env, cwd=cwd, stderr=stderr)
    return born(version, argv, ready, env, cwd, stderr)


def optimizes(path, *args):
    """Whether a program makes an optimizer; of one that is told which of its functions to run, that function. The others must not
    have what comes with it: half as many objects again."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    function = re.search(rf"^def {re.escape(args[0])}\(.*?(?=^\S|\Z)", text, re.M | re.S) if args else None
    return "torch.optim" in (function.group() if function else text)


@contextlib.contextmanager
def born(version, argv, ready, env, cwd, stderr):
    kind = (version, "torch._dynamo") if optimizes(*argv) else (version,)
    if kind not in nurseries:
        nurseries[kind] = Nursery(*kind)
    env = dict(os.environ if env is None else env)
    with tended(Child(nurseries[kind], list(argv), env, cwd or os.getcwd(), stderr), argv, ready) as proc:
        yield proc


class Nursed(Job):
    """A job that is a nursery's child."""

    def __init__(self, version, argv, ready="READY", **kwargs):
        self.context = child(version, argv, ready, **kwargs)
