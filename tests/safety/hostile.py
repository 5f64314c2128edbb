# SPDX-License-Identifier: Apache-2.0
"""The hostile targets of the campaign: how each is started, and what may be expected of it. All of them tell their own health by a
file (victims.Stats)."""
import contextlib
import glob
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time

import census
import report_hostile
import roots
from harness import BUILD, CACHE, SOURCE, VRAMTAP, Skip, check, scratch, simulated_python, wait_until
from report_torch import versions
from victims import Stats

# So that a mapping more with each attack shows: each thread of ours that is there beside another one may get an arena of its own.
FEW_ARENAS = {"MALLOC_ARENA_MAX": "4"}
UNHARMED = 42  # SPY_UNHARMED of tests/targets/spy.h
KEEPER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "keeper.py")

KINDS = {}


class Kind:
    """One sort of target. injectable: nothing of it should keep vramtap out. steady: its threads, descriptors and mappings are always
    the same ones. twin: it has deadlines, so another one runs beside it that nobody touches: what that one sees, too, is the machine's
    doing. driver: it has one of its own. limit: what is done to it when it runs. user: not as root, with so many threads at most.
    by_range: nothing of its own lies where vramtap puts things. patient: it has no deadlines, and counts no signals: gdb may hold it.
    counts_eintr: it tells EINTR of calls that end so for any tracer (hostile_calls, victim). run: it is started by vramtap run.
    executes: it executes itself, over and over."""

    def __init__(self, name, command, env=None, injectable=True, steady=False, exit_code=UNHARMED, attacks=100, weight=2, twin=True,
                 driver=False, limit=None, user=None, by_range=True, patient=False, counts_eintr=False, run=False, executes=False):
        self.name, self.command, self.env, self.exit_code = name, command, env or {}, exit_code
        self.injectable, self.steady, self.attacks, self.weight, self.twin = injectable, steady, attacks, weight, twin
        self.driver, self.limit, self.user, self.by_range = driver, limit, user, by_range
        self.patient, self.counts_eintr, self.run, self.executes = patient, counts_eintr, run, executes
        KINDS[name] = self


# ---- commands: of the file with the target's health, and of what is random in it ----

def built(directory, program, *arguments):
    return lambda stats, _: [os.path.join(BUILD, "tests", directory, program), stats, *arguments]


def confined(action, program):
    return lambda stats, rng: [os.path.join(BUILD, "tests", "safety", "hostile_confined"), action, str(rng.randrange(1 << 31)),
                               os.path.join(BUILD, "tests", "safety", program), stats]


def python(*words, interpreter="python3"):
    return lambda stats, _: [interpreter, "-W", "ignore", os.path.join(SOURCE, "tests", "targets", "victim.py"), stats, *words]


def cached_python(name):
    return os.path.join(CACHE, "python", name, "python")


def pytorch(script, *words, on_device=""):
    """With the installed PyTorch where there is a GPU and no simulated device, and on_device as a word more."""
    def command(stats, _):
        if os.path.exists("/dev/nvidiactl") and not os.path.exists(os.path.join(CACHE, "torch")):
            start, more = [sys.executable], [on_device] if on_device else []
        else:
            start, more = simulated_python(versions()[-1]), []
        return [*start, "-W", "ignore", os.path.join(SOURCE, "tests", *script), stats, *words, *more]
    return command


compiled = {}
compiling = threading.Lock()


def sanitized(sanitizer, program, *arguments):
    """The same program with a runtime that has memory and signals in its hands."""
    def command(stats, _):
        with compiling:
            if (sanitizer, program) not in compiled:
                binary = scratch("sanitized")
                sources = [os.path.join(SOURCE, "tests", *path) for path in (program, ("targets", "spy.c"))]
                done = subprocess.run(["gcc", "-O1", "-std=gnu11", "-D_GNU_SOURCE", f"-fsanitize={sanitizer}", "-I" + os.path.join(SOURCE, "tests"),
                                       "-o", binary, *sources, "-lpthread"], capture_output=True, check=False)
                compiled[sanitizer, program] = None if done.returncode else binary
        if not compiled[sanitizer, program]:
            raise Skip(f"gcc has no -fsanitize={sanitizer}")
        # The runtimes of gcc 12 do not start at all addresses (vm.mmap_rnd_bits).
        return ["setarch", os.uname().machine, "-R", compiled[sanitizer, program], stats, *arguments]
    return command


def musl(program):
    def command(stats, _):
        with compiling:
            if ("musl", program) not in compiled:
                binary = scratch("musl")
                sources = [os.path.join(SOURCE, "tests", *path) for path in (program, ("targets", "spy.c"))]
                try:
                    done = subprocess.run(["musl-gcc", "-O1", "-std=gnu11", "-D_GNU_SOURCE", "-I" + os.path.join(SOURCE, "tests"), "-idirafter",
                                           "/usr/include", "-idirafter", f"/usr/include/{os.uname().machine}-linux-gnu", "-o", binary, *sources],
                                          capture_output=True, check=False)
                    compiled["musl", program] = binary if not done.returncode else None
                except FileNotFoundError:
                    compiled["musl", program] = None
        if not compiled["musl", program]:
            raise Skip("musl-gcc cannot build it")
        return [compiled["musl", program], stats]
    return command


def in_root(name, *programs):
    """One of the programs, built with the C library of another distribution and run in its root (tests/setup/root.sh)."""
    def command(stats, rng):
        program = rng.choice(programs)
        with compiling:
            if name not in compiled:
                compiled[name] = roots.root(name) if roots.has(name) else None
                if compiled[name]:
                    # The stats are named by paths of this root.
                    roots.mount("--bind", "/tmp", compiled[name] + "/tmp")
            if not compiled[name]:
                raise Skip(f"no root {name}: sh tests/setup/root.sh {name}")
            binary = f"{compiled[name]}/{program}"
            if not os.path.exists(binary):
                build_in_root(compiled[name], program)
        return ["chroot", compiled[name], "/usr/bin/env", "LD_PRELOAD=/libcuda.so.1", "/" + program, stats]
    return command


def build_in_root(root, program):
    sources = f"{root}/campaign"
    os.makedirs(f"{sources}/targets", exist_ok=True)
    for path in ("targets/spy.c", "targets/spy.h", "targets/victim.h", f"safety/{program}.c"):
        shutil.copy(os.path.join(SOURCE, "tests", path), f"{sources}/targets" if "targets" in path else sources)
    with open(f"{sources}/libcuda.c", "w", encoding="ascii") as file:
        file.write(report_hostile.FAKE_LIBCUDA)
    flags = "-O1 -std=gnu11 -D_GNU_SOURCE -I/campaign"
    script = (f"gcc -shared -fPIC {flags} -o /libcuda.so.1 /campaign/libcuda.c && "
              f"gcc {flags} -o /{program} /campaign/{program}.c /campaign/targets/spy.c -lpthread -ldl -lrt")
    done = subprocess.run(["chroot", root, "sh", "-c", script], capture_output=True, check=False)
    check(done.returncode == 0, f"{program} in {root}", done.stderr[-500:])


def preload(pattern):
    found = glob.glob(f"/usr/lib/*/{pattern}")
    return {"LD_PRELOAD": found[0] if found else f"/missing/{pattern}"}


# ---- limits ----

def no_address_space(target):
    """Half a MiB more than it has."""
    size = int(census.status(target.pid)["VmSize"].split()[0]) * 1024 + (1 << 19)
    resource.prlimit(target.pid, resource.RLIMIT_AS, (size, size))


def no_descriptors(target):
    """Not one more than it has."""
    limit = max(map(int, census.entries(target.pid, "fd"))) + 1
    resource.prlimit(target.pid, resource.RLIMIT_NOFILE, (limit, limit))


def no_memory(target):
    """Half a MiB more than it uses: whoever makes it use more has it killed."""
    group = f"/sys/fs/cgroup/memory/vramtap-campaign-{target.pid}"
    try:
        os.mkdir(group)
    except OSError as err:
        raise Skip(f"no control group for memory: {err}") from None
    target.groups.append(group)
    with open(f"{group}/cgroup.procs", "w", encoding="ascii") as file:
        file.write(str(target.pid))
    with open(f"{group}/memory.limit_in_bytes", "w", encoding="ascii") as file:
        file.write(str(64 << 20))
    time.sleep(0.5)
    with open(f"{group}/memory.max_usage_in_bytes", encoding="ascii") as file:
        used = int(file.read())
    with open(f"{group}/memory.limit_in_bytes", "w", encoding="ascii") as file:
        file.write(str(used + (1 << 19)))


CALLS, SPAWN, THREADS, STATE, TIMERS = (built("safety", f"hostile_{name}") for name in ("calls", "spawn", "threads", "state", "timers"))

Kind("calls", CALLS, weight=4, steady=True, env=FEW_ARENAS, counts_eintr=True)
Kind("registers", built("targets", "victim"), weight=4, steady=True, env=FEW_ARENAS, counts_eintr=True)
Kind("state", STATE, weight=4, env=FEW_ARENAS, patient=True)
Kind("timers", TIMERS, weight=4, env=FEW_ARENAS)
Kind("malloc", built("targets", "victim_malloc", "32"), twin=False, weight=1, patient=True)
Kind("jemalloc", built("targets", "victim_malloc", "8"), twin=False, env=preload("libjemalloc.so.2"))
Kind("tcmalloc", built("targets", "victim_malloc", "8"), twin=False, env=preload("libtcmalloc_minimal.so.4"))
Kind("mimalloc", built("targets", "victim_malloc", "8"), twin=False, env=preload("libmimalloc.so.2"))
Kind("spawn", SPAWN)
Kind("threads", THREADS)
# Its one thread is in execve() or starts anew half of the time.
Kind("exec", built("safety", "hostile_exec"), injectable=False, twin=False, executes=True)
Kind("seccomp kill", confined("kill", "hostile_calls"), injectable=False, counts_eintr=True)
Kind("seccomp trap", confined("trap", "hostile_state"), injectable=False)
Kind("seccomp errno", confined("errno", "hostile_spawn"), injectable=False)
Kind("address space", CALLS, injectable=False, limit=no_address_space, counts_eintr=True)
Kind("descriptors", STATE, injectable=False, limit=no_descriptors)
Kind("processes", built("targets", "victim_malloc", "4"), injectable=False, user=6, twin=False, weight=1)
# One that starts neither threads nor processes: what the kernel keeps of ended ones for a while (RCU) is counted, too, and had such a
# program killed within a minute at load 30 with no tool beside it.
Kind("memory", TIMERS, injectable=False, limit=no_memory)
Kind("asan", sanitized("address,undefined", ("safety", "hostile_state.c")), injectable=False, twin=False, by_range=False,
     env={"ASAN_OPTIONS": "verify_asan_link_order=0"})
# No children: its fork() keeps all signals blocked for so long that they end meanwhile (doc/SAFETY.md, 1).
Kind("tsan", sanitized("thread", ("safety", "hostile_calls.c"), "no-children"), injectable=False, by_range=False, counts_eintr=True)
Kind("musl", musl(("safety", "hostile_calls.c")), injectable=False, counts_eintr=True)
# Those need nothing that came after these C libraries and the headers of their kernels.
Kind("glibc 2.27", in_root("glibc-2.27", "hostile_threads", "hostile_timers", "hostile_spawn"))
Kind("glibc 2.31", in_root("glibc-2.31", "hostile_threads", "hostile_timers", "hostile_spawn"))
Kind("newest glibc", in_root("newest", "hostile_threads", "hostile_timers", "hostile_spawn", "hostile_state"))
Kind("python", python())
Kind("python gc", python("gc"), twin=False, weight=1, attacks=20, patient=True)
Kind("python 3.13", python(interpreter=cached_python("debian-3.13")), weight=1)
Kind("python 3.14", python("gc", interpreter=cached_python("debian-3.14")), twin=False, weight=1, attacks=20)
Kind("free-threaded", python("gc", interpreter=cached_python("free-threaded-3.13")), twin=False, weight=1)
Kind("torch", pytorch(("targets", "victim.py"), "torch"), twin=False, driver=True, weight=1, attacks=60)
Kind("training", pytorch(("safety", "hostile_train.py"), on_device="cuda"), twin=False, driver=True, weight=2, attacks=60, patient=True)
Kind("run", pytorch(("safety", "hostile_train.py"), on_device="cuda"), twin=False, driver=True, weight=2, attacks=20, run=True)


class Target:
    """A running one. seed: of what is random in it."""

    def __init__(self, kind, seed):
        self.kind = kind
        self.stats = Stats()
        self.groups = []
        env = dict(os.environ, **kind.env)
        if not kind.driver:
            # Only a process that has the driver mapped is injected into.
            env["LD_PRELOAD"] = ":".join(filter(None, [kind.env.get("LD_PRELOAD"), report_hostile.fake_libcuda()]))
        for library in env.get("LD_PRELOAD", "").split(":"):
            if library and not os.path.exists(library):
                raise Skip(f"{library} is missing")
        command = kind.command(self.stats.path, random.Random(seed))
        if not os.path.exists(command[0]) and "/" in command[0]:
            raise Skip(f"{command[0]} is missing")
        if kind.user:
            os.chmod(self.stats.path, 0o666)
            for path in (self.stats.path, env["LD_PRELOAD"].split(":")[-1]):
                os.chmod(os.path.dirname(path), 0o755)
            user = random.Random(seed).randrange(61184, 65000)
            command = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", *command]
            command = ["prlimit", f"--nproc={kind.user}:{kind.user}", *command]
        self.pid_file = None
        if kind.run:
            command = self.under_run(command, random.Random(seed))
        self.proc = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                     stderr=subprocess.DEVNULL, env=env, start_new_session=True)
        self.pid = self.proc.pid
        try:
            wait_until(lambda: self.stats.is_ready() or self.proc.poll() is not None, 120, f"{kind.name} is ready")
            if kind.user and self.proc.poll() is not None:
                raise Skip("it does not start as another user")
            check(self.proc.poll() is None, f"{kind.name} ended at its start", self.proc.poll())
            if self.pid_file:
                with open(self.pid_file, encoding="ascii") as file:
                    self.pid = int(file.read())
            if kind.limit:
                kind.limit(self)
        except BaseException:
            self.kill()
            raise

    def under_run(self, command, rng):
        """Recorded from its start; vramtap run is killed at any instant, or never."""
        self.pid_file = scratch("pid")
        options = rng.choice([[], ["--launches"], ["--python"], ["--children"], ["--no-driver"], [f"--on-oom={scratch('oom')}"]])
        seconds = rng.uniform(0, 2) if rng.random() < 0.7 else -1
        return [sys.executable, "-B", KEEPER, self.pid_file, str(seconds), VRAMTAP, "run", *options, "--", *command]

    def end(self):
        """Its exit code, when it was asked to end; None when it had to be killed."""
        if self.proc.poll() is None:
            os.kill(self.pid, signal.SIGTERM)
        try:
            return self.proc.wait(20)
        except subprocess.TimeoutExpired:
            return None

    def kill(self):
        """And children of its own."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.proc.pid, signal.SIGKILL)
        self.proc.wait()
        for group in self.groups:
            os.rmdir(group)
