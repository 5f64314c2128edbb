#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Who may look at what: programs that are protected from debuggers, user namespaces, root without its capability. And what vramtap
writes as root: files for their owner alone, and never through what another user has put into a directory like /tmp."""
import contextlib
import os
import shutil
import stat
import subprocess
import sys

from harness import COMPLETE, NOT_PERMITTED, NOTHING, PARTIAL, VRAMTAP, Skip, check, equal, main, scratch, target, wait_until

NOBODY = 65534
FINE = (COMPLETE, PARTIAL)
UNDUMPABLE = "import ctypes, time; ctypes.CDLL(None).prctl(4, 0, 0, 0, 0); print('READY', flush=True); time.sleep(60)"
PLAIN = "import time; print('READY', flush=True); time.sleep(60)"
PYTHON = ["/usr/bin/python3", "-c"]  # one that every user can start


def as_root():
    if os.geteuid():
        raise Skip("not root")
    if not os.path.exists(PYTHON[0]):
        raise Skip("no python3 of the system's")


def open_directory():
    """That every user can enter; pytest's and ours are not."""
    path = scratch()
    for part in (os.path.dirname(path), path):
        if part != "/tmp":
            os.chmod(part, 0o755)
    return path


def tool():
    """vramtap where every user can start it."""
    path = os.path.join(open_directory(), "vramtap")
    shutil.copy(VRAMTAP, path)
    os.chmod(path, 0o755)
    return path


def as_nobody(*command):
    return ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", *command]


def said(command, expect):
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False)
    check(done.returncode in expect, f"exit code of {command}", done.returncode, done.stderr, done.stdout[-800:])
    return done.stdout + done.stderr


def refused(command, *words):
    text = said(command, (NOT_PERMITTED,))
    for word in words:
        check(word in text, f"the reason ({word})", text)


def test_protected_from_debuggers():
    as_root()
    program = tool()
    with target(as_nobody(*PYTHON, UNDUMPABLE), ready="READY") as proc:
        refused(as_nobody(program, "stacks", "--once", str(proc.pid)), "protected from debuggers", "sudo")
        check("sleep" in said([program, "stacks", "--once", str(proc.pid)], FINE), "root sees it")
    with target(as_nobody(*PYTHON, PLAIN), ready="READY") as proc:
        said(as_nobody(program, "stacks", "--once", str(proc.pid)), FINE)


def proc_name(pid):
    with open(f"/proc/{pid}/comm", encoding="ascii") as file:
        return file.read().strip()


def test_set_user_id():
    as_root()
    program = tool()
    sleep = os.path.join(open_directory(), "sleep")
    shutil.copy("/bin/sleep", sleep)
    os.chmod(sleep, 0o4755)
    with target(as_nobody(sleep, "60")) as proc:
        wait_until(lambda: proc_name(proc.pid) == "sleep", 20, "setpriv has become the program")
        refused(as_nobody(program, "stacks", "--once", str(proc.pid)), "set-user-id program", "sudo")
        said([program, "stacks", "--once", str(proc.pid)], FINE)


def test_user_namespace():
    as_root()
    program = tool()
    inside = as_nobody("unshare", "--user", "--map-root-user")
    if subprocess.run([*inside, "true"], capture_output=True, check=False).returncode:
        raise Skip("no user namespaces for users")
    with target(as_nobody(*PYTHON, PLAIN), ready="READY") as proc:
        refused([*inside, program, "stacks", "--once", str(proc.pid)], "another user namespace")
    # A container's root: with its own processes it may do all, and root outside as well.
    script = f'{PYTHON[0]} -c "{PLAIN}" > "$1" & sleep 1; "$0" stacks --once $!; status=$?; kill $!; exit $status'
    said([*inside, "sh", "-c", script, program, "/dev/null"], FINE)
    with target([*inside, *PYTHON, PLAIN], ready="READY") as proc:
        said([program, "stacks", "--once", str(proc.pid)], FINE)


def test_root_without_the_capability():
    as_root()
    program = tool()
    less = ["setpriv", "--bounding-set=-sys_ptrace", "--inh-caps=-sys_ptrace"]
    with target(as_nobody(*PYTHON, PLAIN), ready="READY") as proc:
        refused([*less, program, "stacks", "--once", str(proc.pid)], "root lacks CAP_SYS_PTRACE")
    with target([*less, *PYTHON, PLAIN], ready="READY") as proc:
        said([*less, program, "stacks", "--once", str(proc.pid)], FINE)


def test_capability_without_files():
    """Those of the process in /proc are its owner's, whatever may be traced."""
    as_root()
    program = tool()
    other = ["setpriv", "--reuid=1", "--regid=1", "--clear-groups"]
    with target(as_nobody(*PYTHON, PLAIN), ready="READY") as proc:
        for capabilities, allowed in (("+sys_ptrace", False), ("+sys_ptrace,+dac_override", True)):
            before = [*other, f"--inh-caps={capabilities}", f"--ambient-caps={capabilities}"]
            if subprocess.run([*before, "true"], capture_output=True, check=False).returncode:
                raise Skip("these capabilities cannot be given here")
            if allowed:
                said([*before, program, "stacks", "--once", str(proc.pid)], FINE)
            else:
                refused([*before, program, "stacks", "--once", str(proc.pid)], "CAP_DAC_OVERRIDE is needed, too", "sudo")


def mode(path):
    return stat.S_IMODE(os.lstat(path).st_mode)


@contextlib.contextmanager
def usual_umask():
    before = os.umask(0o022)
    try:
        yield
    finally:
        os.umask(before)


def write(pid, path, expect=FINE, option="--json"):
    return said([VRAMTAP, "stacks", "--once", option, path, str(pid)], expect)


def test_files_are_their_owners():
    directory = scratch()
    with usual_umask(), target([sys.executable, "-c", PLAIN], ready="READY") as proc:
        for option in ("--json", "--html", "--folded"):
            path = os.path.join(directory, "new" + option)
            write(proc.pid, path, option=option)
            equal(mode(path), 0o600, f"the mode of what {option} has written")
            os.chmod(path, 0o644)
            write(proc.pid, path, option=option)
            equal(mode(path), 0o644, "the mode that its owner has chosen")


def test_nothing_is_written_through_others():
    """fs.protected_symlinks, _fifos and _regular are off on many machines: vramtap does not rely on them."""
    as_root()
    directory = scratch()
    common = os.path.join(directory, "common")
    precious = os.path.join(directory, "precious")
    os.mkdir(common)
    os.chmod(common, 0o1777)
    with open(precious, "w", encoding="ascii") as file:
        file.write("precious")
    with usual_umask(), target([sys.executable, "-c", PLAIN], ready="READY") as proc:
        link, missing, fifo, regular, own = (os.path.join(common, name) for name in ("link", "missing", "fifo", "regular", "own"))
        os.symlink(precious, link)
        os.symlink(os.path.join(directory, "not-there"), missing)
        os.mkfifo(fifo)
        with open(regular, "w", encoding="ascii"):
            os.chmod(regular, 0o666)
        for path in (link, missing, fifo, regular):
            os.chown(path, NOBODY, NOBODY, follow_symlinks=False)
        for path in (link, missing, fifo):
            check("another user has put it there" in write(proc.pid, path, expect=(NOT_PERMITTED, NOTHING)), "what is said", path)
        with open(precious, encoding="ascii") as file:
            equal(file.read(), "precious", "what the link leads to")
        check(not os.path.exists(os.path.join(directory, "not-there")), "a file was made where the link leads to")
        write(proc.pid, regular)
        equal((mode(regular), os.stat(regular).st_uid), (0o600, 0), "what another user had put there is replaced")
        os.symlink(precious, own)
        write(proc.pid, own)
        check(os.path.islink(own) and os.path.getsize(precious) > 100, "a link of one's own is followed")


if __name__ == "__main__":
    main(globals())
