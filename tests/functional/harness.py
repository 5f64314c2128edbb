# SPDX-License-Identifier: Apache-2.0
"""What the functional tests share: finding the programs, starting targets, running vramtap, and counting checks.

A test is a script with functions named test_*; main() runs them all, prints a line for each, and exits with 0 (all
passed), 1, or 77 (every test was skipped, each with its reason).
"""
import contextlib
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
import traceback

BUILD = os.environ.get("VRAMTAP_BUILD_DIR", os.getcwd())
SOURCE = os.environ.get("VRAMTAP_SOURCE_DIR",
                        os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
VRAMTAP = os.environ.get("VRAMTAP", os.path.join(BUILD, "vramtap"))
CACHE = os.environ.get("VRAMTAP_CACHE") or os.path.join(
    os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache"), "vramtap")
SETUP = os.path.join(SOURCE, "tests", "setup")
QUICK = not os.environ.get("VRAMTAP_SOAK")

COMPLETE, PARTIAL, NOTHING, NOT_PERMITTED, USAGE = 0, 1, 2, 3, 64


class Skip(Exception):
    """Raised by a test that cannot run here; the text says why."""


def releases(library, variable):
    """The releases of the library that are marked "run" in its list; without a variable all; with one, those that it has."""
    if variable and os.environ.get(variable):
        return os.environ[variable].split()
    with open(os.path.join(SETUP, f"{library}-versions"), encoding="ascii") as file:
        rows = [line.split("#")[0].split() for line in file]
    return [row[0] for row in rows if row and (not variable or row[-1] == "run")]


def check(condition, text, *details):
    """Fails the test unless condition holds."""
    if not condition:
        raise AssertionError(" ".join([text] + [repr(d)[:2000] for d in details]))


def equal(got, want, text):
    check(got == want, text + ":", got, "is not", want)


def vramtap(command, *args, timeout=60, expect=None, env=None):
    """Runs a command of vramtap; returns (exit code, standard output, standard error)."""
    done = subprocess.run([VRAMTAP, command, *args], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, timeout=timeout, check=False, env=env)
    out, err = done.stdout.decode("utf-8"), done.stderr.decode("utf-8")
    if expect is not None:
        check(done.returncode in (expect if isinstance(expect, tuple) else (expect,)),
              f"exit code {done.returncode}, not {expect}:", err, out[-1500:])
    return done.returncode, out, err


def report(pid, *args, timeout=60, expect=None, env=None):
    """Runs vramtap report; returns (exit code, standard output, standard error)."""
    return vramtap("report", *args, str(pid), timeout=timeout, expect=expect, env=env)


def run_stacks(args, timeout, expect):
    """Again, a few times, when a thread got no processor to stop on, or ran: on a busy machine that is no news."""
    for attempt in range(10):
        code, out, _ = vramtap("stacks", *args, timeout=timeout)
        if code != PARTIAL or PARTIAL in expect or "were not stopped and ran" not in out:
            break
        time.sleep(0.1 * attempt)
    check(code in expect, f"exit code {code}, not {expect}:", out[-1500:])
    return out


def stacks(pid, *args, timeout=60, expect=(COMPLETE,)):
    """Runs vramtap stacks for one process; returns the text."""
    return run_stacks((*args, str(pid)), timeout, expect)


def stacks_json(pid, *args, expect=(COMPLETE,), timeout=60):
    """Runs vramtap stacks --json - for one process; returns what it says about that."""
    return json.loads(run_stacks(("--json", "-", *args, str(pid)), timeout, expect))["processes"][0]


def report_json(pid, *args, expect=(COMPLETE,), timeout=60, env=None):
    """Runs vramtap report --json -; returns the report."""
    code, out, err = report(pid, "--json", "-", *args, timeout=timeout, env=env)
    data = json.loads(out) if out else {}
    check(code in (expect if isinstance(expect, tuple) else (expect,)), f"exit code {code}, not {expect}:", err,
          data.get("diagnostics"))
    return data


def report_both(pid, *args, env=None):
    """One report as (JSON, text): both are of the same moment, and the process is read once."""
    path = scratch("report.json")
    _, text, err = report(pid, f"--json={path}", *args, expect=COMPLETE, env=env)
    with open(path, encoding="utf-8") as file:
        text_of_file = file.read()
    check(text_of_file, "no JSON", err)
    return json.loads(text_of_file), text


# A small process between us and the tool: the kernel counts what the forking process used as the new program's peak.
MEASURE = """
import os, sys
pid = os.fork()
if pid == 0:
    os.dup2(os.open(os.devnull, os.O_RDWR), 1)
    os.execvp(sys.argv[1], sys.argv[1:])
_, status, usage = os.wait4(pid, 0)
print(os.waitstatus_to_exitcode(status), usage.ru_maxrss)
"""


def peak_memory_of(command):
    """(exit code, peak memory, mapped files included, in MiB) of a command."""
    done = subprocess.run([sys.executable, "-I", "-S", "-c", MEASURE, *command], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=60, check=True)
    code, kib = (int(word) for word in done.stdout.split())
    return code, kib / 1024


def peak_memory_mib(pid, *args):
    """Peak memory of vramtap report, mapped files included, in MiB; it must succeed."""
    code, mib = peak_memory_of([VRAMTAP, "report", *args, str(pid)])
    equal(code, COMPLETE, "exit code of the measured report")
    return mib


def diag_codes(data):
    return {d["code"] for d in data["diagnostics"]}


@contextlib.contextmanager
def target(argv, ready=None, **kwargs):
    """A target process; ended at the end. With ready, waits for a line that starts with it; the line is .ready_line."""
    with tended(subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, **kwargs), argv, ready) as proc:
        yield proc


@contextlib.contextmanager
def tended(proc, argv, ready):
    """The same of a process that is there, and is like subprocess.Popen."""
    try:
        proc.ready_line = None
        if ready is not None:
            for raw in proc.stdout:
                line = raw.decode("utf-8", "replace").rstrip("\n")
                if line.startswith(ready):
                    proc.ready_line = line
                    break
            check(proc.ready_line is not None, f"target {argv[:3]} ended before it was ready, status", proc.poll())
        yield proc
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(proc.pid, signal.SIGCONT)
            proc.kill()
        proc.wait()
        for stream in (proc.stdin, proc.stdout):
            stream.close()


RUN_SIM = os.path.join(SETUP, "run-sim.sh")


def simulated_python(version):
    """The command of a Python with PyTorch of this version, on the simulated device."""
    if not os.path.exists(os.path.join(CACHE, "torch", version, "python")):
        raise Skip(f"PyTorch {version} is not set up: sh tests/setup/torch.sh {version}")
    return ["sh", RUN_SIM, version, "--", "python"]


class Job:
    """A target that does what it is told, a line at a time, and answers with a line."""

    def __init__(self, argv, ready="READY", **kwargs):
        self.context = target(argv, ready=ready, **kwargs)

    def __enter__(self):
        self.proc = self.context.__enter__()
        self.pid = self.proc.pid
        return self

    def __exit__(self, *exc):
        return self.context.__exit__(*exc)

    def start(self, line):
        self.proc.stdin.write(line.encode() + b"\n")
        self.proc.stdin.flush()

    def answer(self):
        line = self.proc.stdout.readline()
        check(line, "the job has ended", self.proc.poll())
        return line.decode().strip()

    def ask(self, line):
        self.start(line)
        return self.answer()

    def do(self, line):
        equal(self.ask(line), "ok", f"answer to {line}")


CLEAN_UP = []


def scratch(name=None):
    """A new directory, removed when this process ends; or the path of a file to be in one."""
    directory = tempfile.mkdtemp(prefix="vramtap-test-")
    CLEAN_UP.append(directory)
    return os.path.join(directory, name) if name else directory


def schema_errors(document, part=None, schema_file="report.schema.json"):
    """What is wrong with a document by a schema in doc/, or by a part of that; skips without jsonschema."""
    try:
        import jsonschema
    except ImportError:
        raise Skip("python3-jsonschema is missing") from None
    with open(os.path.join(SOURCE, "doc", schema_file), encoding="utf-8") as file:
        schema = json.load(file)
    validator = jsonschema.Draft202012Validator(schema)
    validator = validator.evolve(schema=schema["$defs"][part]) if part else validator
    return [f"{list(error.absolute_path)}: {error.message[:300]}" for error in validator.iter_errors(document)]


def check_schema(document, part=None):
    """For tests of other things, which go on without jsonschema; report_torch.py and stacks_cli.py say that it is missing."""
    with contextlib.suppress(Skip):
        equal(schema_errors(document, part), [], "what the schema does not allow")


def compile_c(text, *flags, compiler="gcc"):
    """Compiles a C program for a test; returns its path (kept for the life of this process), or skips."""
    source = scratch("t.c")
    binary = source[:-2]
    with open(source, "w", encoding="utf-8") as out:
        out.write(text)
    try:
        done = subprocess.run([compiler, "-O1", "-o", binary, source, *flags], capture_output=True, check=False)
    except FileNotFoundError:
        raise Skip(f"no {compiler}") from None
    if done.returncode:
        raise Skip(f"{compiler} {' '.join(flags)} cannot build: {done.stderr.decode()[:200]}")
    return binary


def proc_stat(pid):
    """The fields of /proc/PID/stat behind the name: what proc(5) calls field 3 is the first."""
    with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
        return file.read().rpartition(")")[2].split()


def proc_state(pid):
    return proc_stat(pid)[0]


def threads_held(pid):
    """How many threads of it stand still for a tracer."""
    held = 0
    for tid in os.listdir(f"/proc/{pid}/task"):
        with contextlib.suppress(OSError):  # that one has ended
            held += proc_state(f"{pid}/task/{tid}") == "t"
    return held


def stop_tool(tool, pid):
    """At a moment at which it holds no thread of the process: that one would stand still as long as the tool does. False: it has ended."""
    while tool.poll() is None:
        tool.send_signal(signal.SIGSTOP)
        wait_until(lambda: tool.poll() is not None or proc_state(tool.pid) in "TZ", 60, "the tool is stopped")
        time.sleep(0.02)
        if not threads_held(pid):
            return tool.poll() is None
        tool.send_signal(signal.SIGCONT)
        time.sleep(0.002)
    return False


def thread_count(pid):
    return len(os.listdir(f"/proc/{pid}/task"))


def thread_names(pid):
    """Of those threads that do not end meanwhile."""
    names = []
    for tid in os.listdir(f"/proc/{pid}/task"):
        with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{tid}/comm", encoding="utf-8", errors="replace") as file:
            names.append(file.read().strip())
    return names


def wait_until(condition, seconds, text):
    end = time.monotonic() + seconds
    while not condition():
        check(time.monotonic() < end, f"not within {seconds} s: {text}")
        time.sleep(0.01)


def processor_seconds():
    """What this process and its children that have ended took of processors."""
    return sum(usage.ru_utime + usage.ru_stime for usage in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)))


def main(tests):
    """tests: globals() of the script. Arguments name the tests to run; none: all."""
    names = sys.argv[1:] or [n for n in tests if n.startswith("test_")]
    failed = skipped = 0
    # The time limit's signal: targets are ended and cores of many GiB removed all the same.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM, as by the time limit"))
    try:
        for name in names:
            begin, busy = time.monotonic(), processor_seconds()
            try:
                tests[name]()
                verdict = "ok"
            except Skip as reason:
                skipped += 1
                verdict = f"skip ({reason})"
            except Exception:  # every failure is reported, the others still run
                failed += 1
                traceback.print_exc()
                verdict = "FAILED"
            print(f"{verdict} {name} {time.monotonic() - begin:.1f} s, {processor_seconds() - busy:.1f} s of processors", flush=True)
    finally:
        for path in CLEAN_UP:
            subprocess.run(["rm", "-rf", path], check=False)
    sys.exit(1 if failed else 77 if skipped == len(names) else 0)
