# SPDX-License-Identifier: Apache-2.0
"""One attack: a command of vramtap on a target, and perhaps something that goes wrong with vramtap meanwhile. All that is chosen at
random follows from the attack's seed."""
import contextlib
import functools
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import threading
import time

import census
from harness import VRAMTAP, scratch

LIMIT_S = 300  # far more than it takes of a processor: dozens of threads may want one
DOCUMENTED = {0, 1, 2, 3, 4}

# (weight, name, arguments, exit codes without a fault); PID stands for the process, and FILE for where the JSON goes.
REPORTS = {0, 1}
NO_STOP = "stacks --no-stop"
COMMANDS = [
    (20, "report", ["report", "--json", "FILE", "PID"], REPORTS),
    (2, "report --again", ["report", "--again=3x50ms", "--json", "FILE", "PID"], REPORTS),
    (2, "report --ask", ["report", "--ask-pytorch", "--ask-jax", "--collectives", "--json", "FILE", "PID"], REPORTS),
    (2, "report --no-streams", ["report", "--no-streams", "--no-owners", "--json", "FILE", "PID"], REPORTS),
    (2, "report --allow-resume", ["report", "--allow-resume", "--json", "FILE", "PID"], REPORTS),
    (2, "report --read-only", ["report", "--read-only", "--json", "FILE", "PID"], REPORTS),
    (1, "report --no-stop", ["report", "--no-stop", "--json", "FILE", "PID"], REPORTS),
    (1, "report --ranges", ["report", "--ranges", "--blocks", "--owners", "--json", "FILE", "PID"], REPORTS),
    (3, "stacks", ["stacks", "--json", "FILE", "PID"], REPORTS),
    (1, "stacks --locals", ["stacks", "--locals", "--again=3x50ms", "PID"], REPORTS),
    (1, NO_STOP, ["stacks", "--no-stop", "PID"], REPORTS),
    (1, "triage", ["triage", "--json", "FILE", "PID"], REPORTS),
    (1, "triage --inject", ["triage", "--inject", "--json", "FILE", "PID"], REPORTS),
    (1, "record on", ["record", "PID", "on"], {0, 1, 2}),
    (1, "record on --launches", ["record", "--launches", "PID", "on"], {0, 1, 2}),
    (1, "record status", ["record", "PID", "status"], {0, 1}),
    (2, "record off", ["record", "PID", "off"], {0, 1, 2}),
    (0.4, "watch --on-oom", ["watch", "--on-oom", "--timeout=1s", "PID"], {0, 1, 2, 4}),
    (0.4, "watch --grow", ["watch", "--grow", "--every=1s", "--timeout=2s", "PID"], {0, 1, 2, 4}),
    (0.4, "relieve --dry-run", ["relieve", "--dry-run", "--empty-cache", "PID"], {0, 1, 2}),
    (0.4, "relieve", ["relieve", "--collect-garbage", "--timeout=1s", "PID"], {0, 1, 2}),
]

# gdb with vramtap's commands holds the process for seconds: only for targets that have no deadlines.
GDB = ["gdb-script", "gdb", "-nx", "-q", "-batch", "-iex", "set auto-load no", "-iex", "set debuginfod enabled off", "-p", "PID"]
GDB_COMMANDS = [
    (2, "gdb report", [*GDB, "-ex", "vramtap report"], {0, 1}),
    (2, "gdb refresh", [*GDB, "-ex", "vramtap refresh"], {0, 1}),
    (1, "gdb stacks", [*GDB, "-ex", "vramtap stacks", "-ex", "detach"], {0, 1}),
    (1, "gdb record", [*GDB, "-ex", "vramtap record on", "-ex", "vramtap record off"], {0, 1}),
]

# What goes wrong: (weight, name).
FAULTS = [(40, "none"), (44, "kill"), (2, "interrupt"), (2, "stop, continue"), (2, "stop, kill"), (3, "kill a worker"), (3, "two"),
          (1, "disk full"), (2, "disk fills up"), (2, "address space"), (2, "out of memory"), (3, "stopped by another"), (3, "frozen"),
          (4, "point")]
GDB_SHARE = 0.04  # of the attacks on such targets: one takes as long as a hundred others
# No interrupt: gdb that gets SIGINT while it attaches passes it on to the process, which it kills. Without vramtap, attaching and
# detaching twice, 154 of 201 interrupts did that to a program that makes threads all the time.
GDB_FAULTS = [(3, "none"), (5, "kill"), (1, "kill a worker")]


def program_text():
    with open(VRAMTAP, "rb") as file:
        return file.read()


@functools.cache
def has_sanitizers():
    """Its shadow needs more address space than there is on any limit."""
    return b"__asan_init" in program_text()


def fault_points():
    """Names that this build knows: "kill:NAME" in VRAMTAP_FAULT."""
    program = program_text()
    if b"VRAMTAP_FAULT" not in program:
        return []
    names = set()
    for word in program.split(b"\0"):
        if word.startswith((b"inject.", b"session-", b"record.", b"relieve.")) and len(word) < 40 and word.replace(b".", b"").replace(
                b"-", b"").isalpha():
            names.add(word.decode())
    return sorted(names)


def pick(rng, rows):
    return rng.choices(rows, [row[0] for row in rows])[0]


FREEZERS = [("/sys/fs/cgroup/freezer", "freezer.state", "FROZEN", "THAWED"), ("/sys/fs/cgroup/unified", "cgroup.freeze", "1", "0"),
            ("/sys/fs/cgroup", "cgroup.freeze", "1", "0")]


@contextlib.contextmanager
def freezer(pid):
    """A function that freezes (True) and thaws (False) a process in a control group of its own; None where there is no such thing."""
    for top, file, frozen, thawed in FREEZERS:
        group = f"{top}/vramtap-campaign-{pid}"
        try:
            os.mkdir(group)
        except OSError:
            continue

        def write(name, text, group=group):
            with contextlib.suppress(OSError), open(f"{group}/{name}", "w", encoding="ascii") as out:
                out.write(text)

        if not os.path.exists(f"{group}/{file}"):
            os.rmdir(group)
            continue
        with open(f"/proc/{pid}/cgroup", encoding="ascii") as lines:
            name = "freezer" if file == "freezer.state" else ""
            home = next((line.strip().split(":", 2)[2] for line in lines if name in line.split(":")[1].split(",")), "/")
        try:
            write("cgroup.procs", str(pid))
            yield lambda on: write(file, frozen if on else thawed)  # noqa: B023
        finally:
            write(file, thawed)
            move_back(pid, top + home, group)
        return
    yield None


def move_back(pid, home, group):
    """The process, and children that it has meanwhile, which may be there for some moments."""
    for _ in range(200):
        with contextlib.suppress(OSError):
            with open(f"{group}/cgroup.procs", encoding="ascii") as file:
                for one in file.read().split() or [str(pid)]:
                    with contextlib.suppress(OSError), open(f"{home}/cgroup.procs", "w", encoding="ascii") as out:
                        out.write(one)
            os.rmdir(group)
            return
        time.sleep(0.01)


@contextlib.contextmanager
def small_disk(size):
    """A directory on a file system of this many bytes; None where none can be mounted."""
    path = scratch("disk")
    os.mkdir(path + ".d")
    if subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "none", path + ".d"], check=False, capture_output=True).returncode:
        yield None
        return
    try:
        yield path + ".d"
    finally:
        subprocess.run(["umount", "-l", path + ".d"], check=False)


MEMORY_GROUPS = [("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")]


@contextlib.contextmanager
def memory_group(size):
    """A control group of this many bytes, in which the kernel kills what needs more; None where there is no such thing."""
    for top, file in MEMORY_GROUPS:
        group = f"{top}/vramtap-campaign-tool-{os.getpid()}-{threading.get_native_id()}"
        try:
            os.mkdir(group)
        except OSError:
            continue
        try:
            with open(f"{group}/{file}", "w", encoding="ascii") as out:
                out.write(str(size))
        except OSError:
            os.rmdir(group)
            continue
        try:
            yield group
        finally:
            for _ in range(200):  # what it has started ends with it, in a moment
                with contextlib.suppress(OSError):
                    os.rmdir(group)
                    break
                time.sleep(0.01)
        return
    yield None


class Outcome:
    def __init__(self):
        self.killed = self.wanted = self.injected = False
        self.attach_ms = None
        self.eintr_allowed = False
        self.why_not = None
        self.problems = []


class Attack:
    """seed: of this attack alone. usual: how long commands took so far, which is only used to place a fault within the time."""

    def __init__(self, seed, usual, points, patient=False, executes=False):
        """patient: the target has no deadlines. executes: it executes itself, and may have no stack that can be read yet (2)."""
        rng = random.Random(seed)
        self.seed, self.usual = seed, usual
        self.gdb = patient and rng.random() < GDB_SHARE and shutil.which("gdb") is not None
        _, self.name, self.arguments, self.codes = pick(rng, GDB_COMMANDS if self.gdb else COMMANDS)
        if executes and self.name == NO_STOP:
            self.codes = self.codes | {2}
        _, self.fault = pick(rng, GDB_FAULTS if self.gdb else FAULTS)
        if (self.fault == "point" and not points) or (self.fault == "address space" and has_sanitizers()):
            self.fault = "kill"
        self.point = rng.choice(points) if points else None
        self.instant = rng.random() * 1.1
        self.second = pick(rng, COMMANDS)
        self.address_space = int(rng.uniform(20, 400)) << 20
        self.stops = [(rng.random(), rng.random() * 0.03) for _ in range(3)]
        self.disk = rng.randrange(1, 24) << 12
        self.memory = int(rng.uniform(0.5, 8) * (1 << 20))
        self.group = None

    def __str__(self):
        return f"{self.seed}: {self.name}, {self.fault}{' ' + self.point if self.fault == 'point' else ''} at {self.instant:.3f}"

    def delay(self):
        return self.instant * self.usual.get(self.name, 0.03)

    def command(self, pid, arguments, file):
        return [VRAMTAP] + [str(pid) if a == "PID" else file if a == "FILE" else a for a in arguments]

    def start(self, pid, arguments, file="-"):
        env, limit = dict(os.environ), None
        if has_sanitizers():
            # LeakSanitizer looks for leaks from a child, and waits for ever for one that was killed as a worker.
            env["ASAN_OPTIONS"] = ":".join(filter(None, (env.get("ASAN_OPTIONS"), "detect_leaks=0")))
        if self.fault == "point":
            env["VRAMTAP_FAULT"] = f"kill:{self.point}"
        if self.fault == "address space":
            def limit():
                resource.setrlimit(resource.RLIMIT_AS, (self.address_space, self.address_space))
        if self.group:
            def limit():
                with open(f"{self.group}/cgroup.procs", "w", encoding="ascii") as out:
                    out.write("0")
        return subprocess.Popen(self.command(pid, arguments, file), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, env=env, preexec_fn=limit)

    def disturb(self, proc, pid):
        """Does the fault, while the command runs."""
        if self.fault in ("kill", "interrupt", "stop, continue", "stop, kill"):
            time.sleep(self.delay())
        if self.fault == "kill":
            proc.kill()
        elif self.fault == "interrupt":
            proc.send_signal(signal.SIGTERM if self.instant > 0.5 else signal.SIGINT)
        elif self.fault.startswith("stop, "):
            proc.send_signal(signal.SIGSTOP)
            time.sleep(0.05)
            if self.fault == "stop, continue":
                proc.send_signal(signal.SIGCONT)
            else:
                proc.kill()
        elif self.fault == "kill a worker":
            time.sleep(self.delay() / 2)
            for child in census.children(proc.pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(child), signal.SIGKILL)
        elif self.fault == "frozen":
            self.freeze(pid)
        elif self.fault == "stopped by another":
            for wait, length in self.stops:
                time.sleep(wait * self.usual.get(self.name, 0.03))
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGSTOP)
                    time.sleep(length)
                    os.kill(pid, signal.SIGCONT)

    def freeze(self, pid):
        """As a container's pause or a checkpoint does."""
        with freezer(pid) as switch:
            for wait, length in self.stops if switch else []:
                time.sleep(wait * self.usual.get(self.name, 0.03))
                switch(True)
                time.sleep(length * 3)
                switch(False)

    def run(self, pid):
        if self.fault == "disk fills up":
            with small_disk(self.disk) as directory:
                return self.run_with(pid, f"{directory}/report" if directory else "/dev/full")
        if self.fault == "out of memory":
            with memory_group(self.memory) as self.group:
                return self.run_with(pid, "-")
        return self.run_with(pid, "/dev/full" if self.fault == "disk full" else "-")

    def run_with(self, pid, file):
        outcome = Outcome()
        inside = set(census.ours(pid))
        begin = time.monotonic()
        proc = self.start(pid, self.arguments, file)
        others = [self.start(pid, self.second[2])] if self.fault == "two" else []
        meanwhile = threading.Thread(target=self.disturb, args=(proc, pid))
        meanwhile.start()
        out, err = self.finish(outcome, proc)
        took = time.monotonic() - begin
        meanwhile.join()
        if self.fault == "stopped by another":
            # With --allow-resume a process that was stopped when vramtap came is stopped again, whoever has continued it meanwhile.
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        for other in others:
            self.finish(outcome, other)
            self.judge_code(outcome, other.returncode, self.second[3] | DOCUMENTED, self.second[1])
        outcome.killed = proc.returncode == -signal.SIGKILL
        # A thread of ours that was not there before: it got inside, whatever became of it then.
        outcome.injected = bool(set(census.ours(pid)) - inside)
        outcome.eintr_allowed = outcome.killed or self.gdb or self.fault in (
            "stopped by another", "frozen", "stop, continue", "kill a worker", "point", "out of memory")  # some kill a worker of triage's
        if self.fault == "none":
            self.usual[self.name] = 0.9 * self.usual.get(self.name, took) + 0.1 * took
        codes = self.codes if self.fault in ("none", "stop, continue") else self.codes | DOCUMENTED
        if self.fault == "interrupt":
            # Before its handlers are there, it ends by the signal itself.
            codes |= {128 + signal.SIGTERM, 128 + signal.SIGINT, -signal.SIGTERM, -signal.SIGINT}
        if self.gdb:
            self.after_gdb(pid)
        if not (outcome.killed and self.fault in ("kill", "stop, kill", "point", "out of memory")):
            self.judge_code(outcome, proc.returncode, codes, self.name, err)
        if "FILE" in self.arguments and file.endswith("/report") and not outcome.killed:
            out = self.read_small(outcome, file)
        if "FILE" in self.arguments and file != "/dev/full" and not outcome.killed:
            self.judge_json(outcome, proc.returncode, out)
        if self.name == "record on" and proc.returncode == 0:
            outcome.injected = True
        return outcome

    def after_gdb(self, pid):
        """gdb that is killed just after PTRACE_ATTACH leaves a SIGSTOP: its own doing. It is what gdb's user would take back, too."""
        if self.fault != "none":
            time.sleep(0.1)  # what gdb has started still runs
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)

    def read_small(self, outcome, file):
        """What came of a file that the disk may have no room for; nothing else may be left there."""
        left = set(os.listdir(os.path.dirname(file))) - {"report"}
        if left:
            outcome.problems.append(f"{self.name} left {sorted(left)} on a full disk")
        with contextlib.suppress(FileNotFoundError), open(file, "rb") as text:
            return text.read()
        return b""

    def finish(self, outcome, proc):
        try:
            return proc.communicate(timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            outcome.problems.append(f"{self.name} did not end in {LIMIT_S} s")
            proc.kill()
            return proc.communicate()

    def judge_code(self, outcome, code, codes, name, err=b""):
        if code not in codes:
            outcome.problems.append(f"{name} ended with {code}: {err.decode('utf-8', 'replace')[-300:]}")

    def judge_json(self, outcome, code, out):
        """Complete or honestly partial; and whether it got inside."""
        if not out:
            if code in (0, 1):
                outcome.problems.append(f"{self.name} ended with {code} and wrote nothing")
            return
        try:
            data = json.loads(out)
        except ValueError as err:
            if code in (0, 1):
                outcome.problems.append(f"{self.name} ended with {code} and wrote no JSON: {err}")
            return
        if self.arguments[0] != "report" or code not in (0, 1):
            return
        missing = [d for d in data["diagnostics"] if d["level"] == "missing"]
        if (data["completeness"] == "complete") != (code == 0) or bool(missing) != (code == 1):
            outcome.problems.append(f"exit code {code}, completeness {data['completeness']}, missing {missing}")
        inside = "--read-only" not in self.arguments and "--no-stop" not in self.arguments
        outcome.wanted = inside and self.fault == "none"
        outcome.injected = outcome.injected or data["timing"]["borrowed_tid"] is not None
        outcome.attach_ms = data["timing"]["attach_ms"]
        if outcome.wanted and data["timing"]["borrowed_tid"] is None:
            outcome.why_not = next((d["code"] for d in missing if d["stage"] in ("inject", "cuda", "attach")), "?")


