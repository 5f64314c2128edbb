# SPDX-License-Identifier: Apache-2.0
"""Imports PyTorch once, with the modules that the arguments name, and becomes programs that use it: importing takes longer than most
of what tests look at. Each request on the socket that is our standard input is a line of JSON with the child's standard input,
output and perhaps error output beside it; the answer is its pid. A request for a status gets that of a child that has ended, or null.
tests/functional/nursery.py asks."""
import ctypes
import importlib
import json
import os
import signal
import socket
import sys

import forked
import torch  # noqa: F401 children have it

# By tests/setup/run-sim.sh: where the libraries and PyTorch are.
SET_UP = "LD_LIBRARY_PATH", "PYTHONPATH", "PYTHONWARNINGS"


def status(pid):
    done, code = os.waitpid(pid, os.WNOHANG)
    return os.waitstatus_to_exitcode(code) if done else None


def become(request, descriptors):
    """In the child, before the program's own code."""
    for at, descriptor in enumerate(descriptors):
        os.dup2(descriptor, at)
    os.closerange(3, 1024)
    os.setsid()
    sys.stdin = open(0, encoding="utf-8")  # noqa: SIM115
    sys.stdout = open(1, "w", encoding="utf-8")  # noqa: SIM115
    ours = {name: value for name, value in os.environ.items() if name in SET_UP}
    os.environ.clear()
    os.environ.update(request["env"], **ours)
    ctypes.CDLL("libsimcuda.so").simcuda_configure()
    os.chdir(request["cwd"])
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.argv = request["argv"]
    sys.path[0] = os.path.dirname(os.path.realpath(sys.argv[0]))
    forked.look_started([sys.executable, *sys.argv])


def serve(asker):
    """Returns in each child, with the path of its program."""
    while True:
        data, descriptors, _, _ = socket.recv_fds(asker, 1 << 16, 3)
        if not data:
            os._exit(0)
        request = json.loads(data)
        if "status" in request:
            asker.sendall(json.dumps(status(request["status"])).encode() + b"\n")
            continue
        pid = os.fork()
        if pid == 0:
            become(request, descriptors)
            return sys.argv[0]
        for descriptor in descriptors:
            os.close(descriptor)
        asker.sendall(b"%d\n" % pid)


def program():
    """The code of a child's program, with nothing of ours left among the variables of __main__."""
    for name in sys.argv[1:]:
        importlib.import_module(name)
    path = serve(socket.socket(fileno=os.dup(0)))
    with open(path, encoding="utf-8") as file:
        code = compile(file.read(), path, "exec")
    names = globals()
    for name in [n for n in names if not n.startswith("__")]:
        del names[name]
    names["__file__"], names["__doc__"] = path, None
    return code


exec(program())  # noqa: S102
