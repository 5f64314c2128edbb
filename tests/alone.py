#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs a test in a pid namespace of its own: it sees no process of the machine but its own, and leaves none behind.

Other tests, and other work on the machine, use the simulated device or the same program names, too; a test that looks for the
processes of a job must not find these. Where namespaces are not permitted the test runs as it is.

usage: alone.py COMMAND [ARGUMENT...]
"""
import os
import random
import subprocess
import sys

INIT = "--init"


def permitted():
    return subprocess.run(["unshare", "--pid", "--fork", "--mount-proc", "true"], check=False, stderr=subprocess.DEVNULL).returncode == 0


def spread_pids():
    """Files in /tmp and abstract sockets that are named by a pid are shared by all namespaces: each begins elsewhere."""
    try:
        with open("/proc/sys/kernel/pid_max", encoding="ascii") as file:
            limit = int(file.read())
        with open("/proc/sys/kernel/ns_last_pid", "w", encoding="ascii") as file:
            file.write(str(random.randrange(300, max(301, limit - limit // 8))))
    except OSError:
        pass


def init(command):
    """The first process of the namespace: orphans are its children, and nobody else takes note of their end."""
    spread_pids()
    test = subprocess.Popen(command)  # pylint: disable=consider-using-with
    while True:
        pid, status = os.wait()
        if pid == test.pid:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code


if __name__ == "__main__":
    if sys.argv[1] == INIT:
        sys.exit(init(sys.argv[2:]))
    if not permitted():
        os.execvp(sys.argv[1], sys.argv[1:])
    os.execvp("unshare", ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", sys.executable, "-B", __file__, INIT, *sys.argv[1:]])
