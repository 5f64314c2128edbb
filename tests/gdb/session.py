# SPDX-License-Identifier: Apache-2.0
"""What the tests of gdb's commands share: every gdb that is there, scripts that they run, and what has to hold of each run.

The commands are in a file that gdb sources, where an error of one ends all: so each run shows that no command of ours is one. When gdb
has ended, its directory in /tmp is gone, and no process that it started is left.
"""
import glob
import os
import re
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "functional"))
from harness import CACHE, QUICK, VRAMTAP, Skip, check, equal, scratch, wait_until  # noqa: E402

MARK = "@@vramtap-test-"
# The names in the cache: tests/setup/prepare.sh. The old one has no Python either.
CACHED = ("new", "old") if QUICK else ("new", "minimal", "old")
# A device that is small enough for gcore, and a short first line of every report.
SMALL = {"SIMCUDA_DEVICES": "1", "SIMCUDA_MEM_MB": "128", "SIMCUDA_CTX_MB": "16"}
SANITIZED = b"__asan_init" in open(VRAMTAP, "rb").read()


class Gdb:
    def __init__(self, name, path):
        self.name, self.path = name, path
        text = subprocess.run([path, "-nx", "-batch", "-ex", "show version", "-ex", 'python print("P" + "ython")'],
                              capture_output=True, timeout=60, check=False)
        self.version = tuple(int(n) for n in re.search(rb"GNU gdb .*?(\d+)\.(\d+)", text.stdout).groups())
        self.python = b"Python\n" in text.stdout

    def __str__(self):
        return f"gdb {self.version[0]}.{self.version[1]}{'' if self.python else ' without Python'} ({self.name})"


FOUND = []


def gdbs():
    """All of them, the machine's own first; says once which are not there."""
    if not FOUND:
        own = shutil.which("gdb")
        # What sanitizers look at is the tool, which every gdb asks the same.
        cached = [] if SANITIZED else [(name, os.path.join(CACHE, "gdb", name, "gdb")) for name in CACHED]
        for name, path in [("machine", own)] + cached:
            if path and os.access(path, os.X_OK):
                FOUND.append(Gdb(name, path))
            else:
                print(f"  no gdb of this kind: {name} (sh tests/setup/prepare.sh)")
        print("  " + ", ".join(str(gdb) for gdb in FOUND))
    if not FOUND:
        raise Skip("no gdb")
    return FOUND


def machine_gdb():
    return gdbs()[0]


def for_each_gdb(test, *args, few=False):
    """A failure names its gdb. few: what takes long, in the machine's own and the newest one only."""
    found = gdbs()
    for gdb in dict.fromkeys((found[0], max(found, key=lambda g: g.version))) if few and QUICK else found:
        try:
            test(gdb, *args)
        except Exception:
            print(f"  with {gdb}:")
            raise


SCRIPTS = {}


def script(vramtap=VRAMTAP):
    """What vramtap gdb-script prints, as a file."""
    if vramtap not in SCRIPTS:
        SCRIPTS[vramtap] = scratch("vramtap.gdb")
        with open(SCRIPTS[vramtap], "wb") as out:
            subprocess.run([vramtap, "gdb-script"], stdout=out, timeout=60, check=True)
    return SCRIPTS[vramtap]


def processes_of(session):
    """Those in a session that still run."""
    found = []
    for pid in os.listdir("/proc"):
        if pid.isdigit():
            try:
                with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
                    fields = file.read().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[3]) == session and fields[0] not in "ZX":
                found.append(int(pid))
    return found


def directory_of(pid):
    return f"/tmp/vramtap-gdb-{pid}"


class Run:
    """What a gdb printed: text[i] for the command i; all of it."""

    def __init__(self, gdb, pid, status, out, n):
        self.gdb, self.pid, self.status, self.out = gdb, pid, status, out
        self.text = []
        for i in range(n):
            begin, end = f"{MARK}{i}\n", f"{MARK}{i + 1}\n"
            check(begin in out and end in out, f"{gdb}: the commands ended before number {i + 1}:", out[-1500:])
            self.text.append(out.split(begin)[1].split(end)[0])

    def last(self):
        return self.text[-1]


def write_commands(commands):
    path = scratch("commands.gdb")
    with open(path, "w", encoding="utf-8") as out:
        for i, command in enumerate(commands):
            out.write(f"echo {MARK}{i}\\n\n{command}\n")
        out.write(f"echo {MARK}{len(commands)}\\n\n")
    return path


def batch(gdb, commands, *args, before=(), loaded=None, timeout=200, symbols=True, env=None):
    """args: what gdb is given (-p PID, or a program and its core); before: commands whose errors do not matter; loaded: another script
    of ours."""
    argv = [gdb.path, "-nx", "-batch", "-iex", "set debuginfod enabled off" if gdb.version > (10, 1) else "set verbose off"]
    if not symbols:
        argv += ["-iex", "set auto-solib-add off"]
    argv += ["-x", loaded or script(), *args]
    for command in before:
        argv += ["-ex", command]
    argv += ["-x", write_commands(commands)]
    old = set(glob.glob(directory_of("*")))  # of others; numbers of processes come again
    with subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
                          env=env) as proc:
        try:
            out = proc.communicate(timeout=timeout)[0].decode("utf-8", "replace")
        except subprocess.TimeoutExpired:
            proc.kill()
            raise AssertionError(f"{gdb} did not end: {proc.communicate()[0][-1500:]}") from None
    run = Run(gdb, proc.pid, proc.returncode, out, len(commands))
    left = directory_of(proc.pid)
    check(left in old or not os.path.exists(left), f"{left} is left")
    wait_until(lambda: not processes_of(proc.pid), 5, f"processes of gdb's session end: {processes_of(proc.pid)}")
    return run


def attached(gdb, pid, *commands, **kwargs):
    return batch(gdb, commands, "-p", str(pid), **kwargs)


def one(gdb, pid, command, **kwargs):
    return attached(gdb, pid, command, **kwargs).text[0]


class Talk:
    """A gdb that is told one command after the other: unlike a batch, it takes note of what the process does between them."""

    def __init__(self, gdb, *args):
        self.gdb, self.n = gdb, 0
        self.proc = subprocess.Popen([gdb.path, "-nx", "-q", "-iex", "set pagination off", "-iex", "set confirm off", "-x", script(), *args],
                                     stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)

    def __enter__(self):
        return self

    def __call__(self, command):
        """What the command printed, and the process during it."""
        self.n += 1
        self.proc.stdin.write(f"{command}\necho {MARK}{self.n}\\n\n".encode())
        self.proc.stdin.flush()
        text = ""
        while not text.endswith(f"{MARK}{self.n}\n"):
            line = self.proc.stdout.readline().decode("utf-8", "replace")
            check(line, f"{self.gdb} ended after {command}:", text)
            text += line
        return text.replace(f"{MARK}{self.n}\n", "").replace("(gdb) ", "")

    def __exit__(self, *exc):
        self.proc.stdin.close()
        try:
            self.proc.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self.proc.kill()
            self.proc.wait()
        self.proc.stdout.close()


VARIABLE = re.compile(r"^\$(vt_\w+) = (.*)$")


def variables(text):
    """Ours of "show convenience" as a dictionary: numbers, texts, None for void."""
    found = {}
    for line in text.splitlines():
        match = VARIABLE.match(line)
        if match:
            value = match[2]
            if value == "void" or value.startswith("<unavailable"):
                found[match[1]] = None
            else:
                found[match[1]] = value.strip('"') if value.startswith('"') else int(value, 0)
    return found


def check_line(text, *words, what=""):
    """Exactly one line, of ours, with these words in it."""
    lines = text.splitlines()
    equal(len(lines), 1, f"lines of the answer {what}: {text!r}")
    check(lines[0].startswith("vramtap"), "the line does not say whose it is", text)
    for word in words:
        check(word in lines[0], f"no {word!r} in the line", text)


def differences(ours, theirs, path=""):
    """Where two JSON values differ: paths and both values."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        return [d for key in sorted(set(ours) | set(theirs))
                for d in differences(ours.get(key, "(none)"), theirs.get(key, "(none)"), f"{path}.{key}")]
    if isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        return [d for i, (one_, other) in enumerate(zip(ours, theirs)) for d in differences(one_, other, f"{path}[{i}]")]
    return [] if ours == theirs and isinstance(ours, type(theirs)) else [(path, ours, theirs)]
