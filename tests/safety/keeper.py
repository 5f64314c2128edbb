#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""keeper.py PID_FILE SECONDS VRAMTAP [ARGUMENT...]: runs vramtap run, kills it after so many seconds (a negative number: never), and
ends as the command ended that it had started, whoever is its parent then. The file gets the pid of that command."""
import contextlib
import ctypes
import os
import subprocess
import sys
import threading
import time

PR_SET_CHILD_SUBREAPER = 36
NO_COMMAND = 75


def children(pid):
    with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
        return list(map(int, file.read().split()))
    return []


def is_other(pid, program):
    """Not vramtap itself: the command, when it has been executed."""
    try:
        return not os.path.samefile(f"/proc/{pid}/exe", program)
    except OSError:
        return False


def find_command(vramtap, program):
    """Its pid; None if vramtap ends before there is one."""
    while True:
        ended = vramtap.poll() is not None
        found = [pid for pid in children(vramtap.pid) + children(os.getpid()) if pid != vramtap.pid and is_other(pid, program)]
        if found or ended:
            return found[0] if found else None
        time.sleep(0.001)


def kill_later(vramtap, seconds):
    def wait():
        time.sleep(seconds)
        vramtap.kill()

    if seconds >= 0:
        threading.Thread(target=wait, daemon=True).start()


def start(argv, seconds):
    vramtap = subprocess.Popen(argv)  # pylint: disable=consider-using-with
    kill_later(vramtap, seconds)
    return vramtap, find_command(vramtap, argv[0])


def main(pid_file, seconds, *argv):
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    vramtap, command = start(argv, float(seconds))
    if command is None:
        vramtap, command = start(argv, -1)
    if command is None:
        return NO_COMMAND
    with open(pid_file + ".new", "w", encoding="ascii") as file:
        file.write(str(command))
    os.rename(pid_file + ".new", pid_file)
    code = vramtap.wait()
    if code >= 0:
        return code
    status = os.waitpid(command, 0)[1]
    return os.waitstatus_to_exitcode(status) & 0xff


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
