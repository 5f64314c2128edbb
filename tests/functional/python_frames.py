# SPDX-License-Identifier: Apache-2.0
"""Python frames as vramtap reads them are those that the interpreter itself reports, for every CPython that is here.

The interpreters are those of $VRAMTAP_PYTHONS (paths, separated by colons), or python3 of $PATH, /usr/bin/python3, all of
pyenv, and those that tests/setup/python.sh made. Each one from 3.8 to 3.14 is tested; missing ones are printed.
"""
import contextlib
import glob
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from harness import BUILD, CACHE, SOURCE, Skip, check, compile_c, equal, main, target, wait_until  # noqa: E402

TOOL = os.path.join(BUILD, "tests/functional/python_frames")
TARGETS = os.path.join(SOURCE, "tests/targets")
NEWEST = (3, 14)


def find_interpreters():
    """Paths of interpreters to their version, one for each binary (a path may be a wrapper)."""
    paths = os.environ.get("VRAMTAP_PYTHONS", "").split(":")
    if paths == [""]:
        paths = [shutil.which("python3") or "", "/usr/bin/python3"]
        paths += sorted(glob.glob(os.path.expanduser("~/.pyenv/versions/3.*/bin/python3")))
        paths += sorted(glob.glob(os.path.join(CACHE, "python/*/python")))
    found, seen = {}, set()
    for path in filter(os.path.exists, paths):
        ask = ("import sys, os; print(*sys.version_info[:3], os.path.realpath(sys.executable), "
               "getattr(sys, '_is_gil_enabled', lambda: True)())")
        done = subprocess.run([path, "-c", ask], capture_output=True, text=True, check=False)
        if done.returncode == 0:
            major, minor, micro, real, gil = done.stdout.split()
            version = int(major), int(minor), int(micro)
            if (3, 8) <= version[:2] <= NEWEST and real not in seen:
                seen.add(real)
                found[path] = version, gil == "False"
    return found


INTERPRETERS = find_interpreters()


def test_interpreters():
    """Says which releases the other tests ran with."""
    here = {(version[:2], free) for version, free in INTERPRETERS.values()}
    wanted = [((3, minor), False) for minor in range(8, NEWEST[1] + 1)] + [((3, minor), True) for minor in (13, 14)]
    missing = ["%d.%d" % version + "t" * free for version, free in wanted if (version, free) not in here]
    print("  CPython that is not here, see tests/setup/python-versions:", ", ".join(missing) or "none", flush=True)
    if missing:
        raise Skip("not tested: CPython " + ", ".join(missing))


def each(test):
    """Runs a test for every interpreter; says which failed."""
    def run():
        if not INTERPRETERS:
            raise Skip("no CPython 3.8 to 3.14 here")
        failed, reasons = [], []
        for path, (version, free) in sorted(INTERPRETERS.items(), key=lambda item: item[1]):
            name = ".".join(map(str, version)) + ("t" if free else "")
            try:
                print(f"  {test.__name__} CPython {name} {path}: {test(path, version) or 'equal'}", flush=True)
            except Skip as reason:
                reasons.append(f"{name}: {reason}")
                print(f"  {test.__name__} CPython {name} {path}: skip ({reason})", flush=True)
            except AssertionError as err:
                failed.append(f"{name}: {err}")
                print(f"  {test.__name__} CPython {name} {path}: FAILED {err}", flush=True)
        check(not failed, "failed with CPython", *failed)
        if len(reasons) == len(INTERPRETERS):
            raise Skip("; ".join(reasons))
    run.__name__ = test.__name__
    return run


def look(pid, *options, text=None):
    done = subprocess.run([TOOL, *map(str, options), str(pid)], input=text, capture_output=True, text=True, timeout=120,
                          check=False)
    check(done.returncode == 0, "python_frames failed:", done.stderr)
    return done.stdout


def facts(pid, *options):
    """The output of -f as a dict."""
    return dict(line.split(" ", 1) for line in look(pid, "-f", *options).splitlines())


def first_difference(got, want):
    got, want = got.splitlines(), want.splitlines()
    for i, (a, b) in enumerate(zip(got + ["(end)"], want + ["(end)"])):
        if a != b:
            return f"line {i + 1} is {a!r}, the truth {b!r}; {got[max(0, i - 3):i]}"
    return None


@contextlib.contextmanager
def stopped(pid):
    """The whole process, stopped without ptrace."""
    os.kill(pid, signal.SIGSTOP)
    wait_until(lambda: all(
        open(stat, encoding="utf-8", errors="replace").read().rpartition(")")[2].split()[0] in "Tt"
        for stat in glob.glob(f"/proc/{pid}/task/*/stat")), 20, "the process stops")
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


@contextlib.contextmanager
def scenarios(path):
    """pyprog_frames.py, and a directory that goes with it: the target is killed, and leaves behind what it made."""
    with tempfile.TemporaryDirectory(prefix="vramtap-test-") as tmp:
        with target([path, f"{TARGETS}/pyprog_frames.py"], ready="ready", env=dict(os.environ, TMPDIR=tmp)) as proc:
            yield proc, tmp


@each
def test_frames(path, version):
    """Every scenario of pyprog_frames.py: before anybody asked for frame objects, and after."""
    with scenarios(path) as (proc, tmp):
        writer = proc.ready_line.split()[1]
        before = look(proc.pid, "-s", writer)
        truth_path = os.path.join(tmp, "truth")
        proc.stdin.write(f"truth {truth_path}\n".encode())
        proc.stdin.flush()
        check(proc.stdout.readline() == b"done\n", "the target wrote its truth")
        after = look(proc.pid, "-s", writer)
        with stopped(proc.pid):
            at_rest = look(proc.pid, "-k", "-s", writer)
        with open(truth_path, encoding="ascii") as file:
            truth = file.read()
        threads, frames = len(re.findall("^thread ", truth, re.M)), truth.count("|") // 2
        check(threads >= 35 and frames > 5500, "the scenarios ran:", threads, frames)
        for name, got in (("before", before), ("after", after), ("stopped", at_rest)):
            check(got == truth, name, first_difference(got, truth))
        told = facts(proc.pid)
        equal(told["version"], ".".join(map(str, version)) + "t" * INTERPRETERS[path][1], "version")
        equal(told["gil"], "0", "the GIL is free")
    return f"{threads} threads, {frames} frames equal"


@each
def test_evaluator_entries(path, version):
    """The frames that are marked as entries are as many as the native stack has evaluator frames."""
    if not shutil.which("eu-stack"):
        raise Skip("no eu-stack")
    with scenarios(path) as (proc, _):
        ours = {int(t): int(n) for t, n in (line.split() for line in look(proc.pid, "-e").splitlines())}
        done = subprocess.run(["eu-stack", "-n", "20000", "-p", str(proc.pid)], capture_output=True, text=True,
                              timeout=120, check=False, env=dict(os.environ, DEBUGINFOD_URLS=""))
        native, tid = {}, 0
        for line in done.stdout.splitlines():
            if line.startswith("TID "):
                tid = int(line[4:].rstrip(":"))
                native[tid] = 0
            elif re.search(r"\b_PyEval_EvalFrameDefault\b", line):
                native[tid] += 1
        if not any(native.values()):
            raise Skip("the interpreter is stripped: its evaluator has no name")
        wrong = {t: (n, native.get(t)) for t, n in ours.items() if n != native.get(t)}
        check(not wrong, "thread: (ours, native)", wrong)
    return f"{sum(ours.values())} entries equal"


@each
def test_lines(path, _version):
    """Every instruction of much of the standard library."""
    with tempfile.TemporaryDirectory() as tmp:
        truth_path = os.path.join(tmp, "truth")
        with target([path, f"{TARGETS}/pyprog_lines.py", truth_path], ready="ready") as proc:
            with open(truth_path, encoding="ascii") as file:
                truth = file.read()
            got = look(proc.pid, "-l", text="".join(line.rpartition(" ")[0] + "\n" for line in truth.splitlines()))
            check(truth.count("\n") > 100000, "the truth is long", truth.count("\n"))
            check(got == truth, "lines:", first_difference(got, truth))
    return f"{truth.count(chr(10))} instructions equal"


@each
def test_gil_holder(path, _version):
    env = dict(os.environ)
    if INTERPRETERS[path][1]:  # a free-threaded build has one all the same, and uses it when it is told to
        with target([path, f"{TARGETS}/pyprog_cases.py", "gil"], ready="ready") as proc:
            equal(facts(proc.pid)["gil"], "0", "no thread holds a GIL that is off")
        env["PYTHON_GIL"] = "1"
    with target([path, f"{TARGETS}/pyprog_cases.py", "gil"], ready="ready", env=env) as proc:
        tid = proc.ready_line.split()[1]
        # The main thread may have the GIL for an instant after it started the other one.
        wait_until(lambda: facts(proc.pid)["gil"] == tid, 10, "the GIL holder is the thread that keeps it")


def gils(pid):
    """{tid: (interpreter, 1 holds its GIL, tid of the thread that holds the one it waits for)}"""
    lines = [list(map(int, line.split())) for line in look(pid, "-w").splitlines()]
    return {tid: tuple(rest) for tid, *rest in lines}


@each
def test_gil_waiters(path, _version):
    """C code keeps the GIL and sleeps: it is the holder, and all that want it wait for it."""
    env = dict(os.environ, PYTHON_GIL="1") if INTERPRETERS[path][1] else os.environ
    with target([path, f"{TARGETS}/pyprog_cases.py", "gil_c"], ready="ready", env=env) as proc:
        keeper, *wanting = map(int, proc.ready_line.split()[1:])
        equal(len(wanting), 4, "threads that want the GIL")
        wait_until(lambda: all(gils(proc.pid)[tid] == (0, 0, keeper) for tid in wanting), 20, "they wait for its holder")
        for _ in range(20):
            equal(gils(proc.pid)[keeper], (0, 1, 0), "the holder")
            equal([tid for tid, (_, holds, _) in gils(proc.pid).items() if holds], [keeper], "holders")


@each
def test_gil_holder_in_subinterpreter(path, version):
    """The GIL's holder is in a subinterpreter that another thread created: up to 3.12 its thread state names that one."""
    if not (3, 10) <= version < (3, 13):
        raise Skip("before 3.10 the thread is not known, from 3.13 on it is not in question")
    with target([path, f"{TARGETS}/pyprog_cases.py", "gil_sub"], ready="ready") as proc:
        keeper, wanting = map(int, proc.ready_line.split()[1:])
        wait_until(lambda: gils(proc.pid)[wanting][2] == keeper, 20, "one thread waits for the one in the subinterpreter")
        equal(gils(proc.pid)[keeper][1], 1, "which one holds the GIL")
        equal(facts(proc.pid)["gil"], str(keeper), "the holder")


@each
def test_gil_of_each_interpreter(path, version):
    if version < (3, 13):
        raise Skip("before 3.13 ctypes does not run in an interpreter with a GIL of its own")
    env = dict(os.environ, PYTHON_GIL="1") if INTERPRETERS[path][1] else os.environ
    with target([path, f"{TARGETS}/pyprog_cases.py", "gil_each"], ready="ready", env=env) as proc:
        words = proc.ready_line.split()[1:]
        keep = [int(tid) for word, tid in zip(words[::2], words[1::2]) if word == "keep"]
        want = [int(tid) for word, tid in zip(words[::2], words[1::2]) if word == "want"]

        def as_it_should_be():
            now = gils(proc.pid)
            holder = {now[tid][0]: tid for tid in keep}
            return (len(holder) == 2 and 0 not in holder and all(now[tid][1:] == (1, 0) for tid in keep) and
                    all(now[tid] == (now[tid][0], 0, holder[now[tid][0]]) for tid in want) and
                    sorted(now[tid][0] for tid in want) == sorted(holder))

        wait_until(as_it_should_be, 20, "each interpreter has a holder and one that waits for it")
    return "equal"


@each
def test_forked_child(path, _version):
    with target([path, f"{TARGETS}/pyprog_cases.py", "fork"], ready="ready") as proc:
        child = int(proc.ready_line.split()[1])
        try:
            # Until it cleaned up after the fork it has the parent's threads.
            wait_until(lambda: re.findall(r"^thread (\d+)$", look(child), re.M) == [str(child)], 10,
                       "the child has one thread, with the child's id")
            check("case_fork" in look(child), "its frames")
        finally:
            os.kill(child, signal.SIGKILL)


@each
def test_subinterpreters(path, version):
    inside = "inside|<string>|4\n<module>|<string>|6\n"
    if version >= (3, 13):  # run_string() became exec(), which names its code otherwise
        inside = re.compile(r"inside\|[^|]*\|4\n<module>\|[^|]*\|6\n")
    with target([path, f"{TARGETS}/pyprog_cases.py", "subinterpreter"], ready="ready") as proc:
        out = look(proc.pid)
        count = len(inside.findall(out)) if hasattr(inside, "findall") else out.count(inside)
        equal(count, 3, f"stacks of subinterpreters in {out!r}")
        check(facts(proc.pid)["gil"] == "0", "the main interpreter's GIL is free")
        if version < (3, 10):
            equal(re.findall(r"^thread 0$", out, re.M), ["thread 0"] * 3, "it is not known which threads they are")
            return
        # Each such thread is shown once, from the subinterpreter's frames out to where the main interpreter started it.
        stacks = [stack.splitlines() for stack in re.split(r"^thread \d+\n", out, flags=re.M)[1:]]
        both = [s for s in stacks if s[0].startswith("inside|") and s[-1].split("|")[0].endswith("_bootstrap")]
        equal(len(both), 3, f"whole stacks in {out!r}")
        ids = re.findall(r"^thread (\d+)$", out, re.M)
        equal(len(ids), len(set(ids)), "threads are shown once")
        numbers = {one for tid, (one, _, _) in gils(proc.pid).items() if tid != proc.pid}
        check(len(numbers) == 3 and 0 not in numbers, "interpreters of the threads", numbers)


@each
def test_hidden_frames(path, version):
    """A frame that has not begun is hidden, as CPython hides it."""
    if version >= (3, 12) or version < (3, 11):
        raise Skip("only 3.11 runs Python code before a frame begins")
    with target([path, f"{TARGETS}/pyprog_cases.py", "gc"], ready="ready") as proc:
        tid = proc.ready_line.split()[1]

        def names():
            return [f.split("|")[0] for f in look(proc.pid).partition(f"thread {tid}\n")[2].splitlines()[:2]]

        wait_until(lambda: names() == ["case_gc.<locals>.on_gc", "case_gc.<locals>.caller"], 20, "the hidden one is left out")


with open(f"{TARGETS}/pyprog_cases.py", encoding="utf-8") as cases:
    CASES_LINES = len(cases.readlines())

# The callers and callees in case_busy(). A thread of _thread.start_new_thread() begins with step_a.
CALLERS = {
    "<genexpr>": {"step_c"}, "<lambda>": {"step_b"}, "step_c": {"step_b"}, "step_b": {"step_a"},
    "step_a": {"step_a", "work", None}, "work": {"run"}, "spawn": {"run"}, "run": {"_bootstrap_inner"},
    "_bootstrap_inner": {"_bootstrap"}, "_bootstrap": {None},
}


def check_stacks(out, ended=None):
    """Checks that every frame is called by one that calls it; returns the function names of each stack. Those of generators that
    have just ended go to the list ended, where that is possible."""
    stacks = []
    for stack in re.split(r"^thread \d+\n", out, flags=re.M)[1:]:
        frames = [line.split("|") for line in stack.splitlines() if not line.startswith("why: ")]
        names = [function.rpartition(".")[2] for function, _, _ in frames] + [None]
        if ended is not None and names == ["<genexpr>", None]:
            ended.append(stack)
            continue
        for (_, file, line), callee, caller in zip(frames, names, names[1:]):
            check(caller in CALLERS.get(callee, {caller}), "caller", callee, caller, stack)
            if file.endswith("pyprog_cases.py"):
                check(0 <= int(line) <= CASES_LINES, "line", line, stack)
                check(callee in CALLERS or callee in ("case_busy", "say", "wait_for_end", "<module>"), "name", stack)
        stacks.append(names)
    return stacks


@each
def test_running(path, version):
    """While everything changes nothing is made up: all functions, lines and callers are the program's."""
    # Up to 3.10 the frame of a generator that has ended is neither a generator's any more nor has it a caller, and the next one
    # of the same function gets the same memory: looks at a thread that runs can agree on it. A known limit (doc/internals/collect.md).
    ended = [] if version < (3, 11) else None
    with target([path, f"{TARGETS}/pyprog_cases.py", "busy"], ready="ready") as proc:
        looks = [look(proc.pid) for _ in range(60)]
        deep = sum(names.count("step_a") for out in looks for names in check_stacks(out, ended))
        check(deep > 100, "stacks were seen while they changed:", deep)
        reasons = set(re.findall("^why: (.*)", "".join(looks), re.M))
        check(reasons <= {"it ran: its frames changed while they were read", "it was beginning a call at this very instant"},
              "nothing is taken for damage:", reasons)
        check(len(ended or []) <= 3, "stacks that are only a generator", ended)


@each
def test_stopped_anywhere(path, _version):
    """Stopped at any instruction, every stack is whole, or the report says why not: 3.11 and 3.12 have such places."""
    with target([path, f"{TARGETS}/pyprog_cases.py", "busy"], ready="ready") as proc:
        deep = between = 0
        for _ in range(40):
            with stopped(proc.pid):
                out = look(proc.pid, "-k")
            between += out.count("why: it was beginning a call at this very instant")
            check(out.count("why: ") == 0 or (between <= 4 and out.count("why: ") == out.count("why: it was beg")),
                  "complete", out)
            deep += sum(names.count("step_a") for names in check_stacks(out))
        check(deep > 100, "stacks were seen:", deep)


EMBEDDED = r"""
#include <Python.h>
int main(void)
{
	Py_Initialize();
	PyRun_SimpleString("import sys\n"
			   "def deepest():\n"
			   "    sys.stdout.write('ready\\n')\n"
			   "    sys.stdout.flush()\n"
			   "    sys.stdin.read()\n"
			   "deepest()\n");
	return 0;
}
"""


def sysconfig_of(path, name):
    ask = f"import sysconfig; print(sysconfig.get_config_var({name!r}) or '')"
    return subprocess.run([path, "-c", ask], capture_output=True, text=True, check=True).stdout.strip()


def check_embedded(binary, home, version, what):
    with target([binary], ready="ready", env=dict(os.environ, PYTHONHOME=home)) as proc:
        wait_until(lambda: "deepest|<string>|5\n<module>|<string>|6\n" in look(proc.pid), 10, "frames of " + what)
        equal(facts(proc.pid)["version"].rstrip("t"), ".".join(map(str, version)), what)


@each
def test_embedded(path, version):
    """Interpreters in a program of somebody else: in a shared library, linked into it, and linked into it and stripped."""
    include = sysconfig_of(path, "INCLUDEPY")
    if not os.path.exists(os.path.join(include, "Python.h")):
        raise Skip("no headers")
    home = sysconfig_of(path, "prefix")
    library = f"libpython{version[0]}.{version[1]}"
    done = {}
    for libdir in (sysconfig_of(path, "LIBDIR"), sysconfig_of(path, "LIBPL")):
        for file, flag in ((".so", "-rdynamic"), (".a", "-rdynamic"), (".a", "-s")):
            archive = os.path.join(libdir, library + file)
            if file + flag in done or not os.path.exists(archive):
                continue
            try:
                binary = compile_c(EMBEDDED, f"-I{include}", f"-I{os.path.dirname(include)}", flag, archive,
                                   f"-Wl,-rpath,{libdir}", "-lm", "-ldl", "-lutil", "-lpthread", "-lz", "-lexpat")
            except Skip:  # distributions' archives may want libraries that are not here
                continue
            done[file + flag] = True
            if flag == "-s":  # nothing but its name says that this is Python
                hidden = os.path.join(os.path.dirname(binary), "python-hidden")
                os.rename(binary, hidden)
                binary = hidden
            check_embedded(binary, home, version, file + " " + flag)
    if not done:
        raise Skip("no libpython")
    return " and ".join(done)


def test_no_interpreter():
    with target(["sleep", "1000"]) as proc:
        wait_until(lambda: os.readlink(f"/proc/{proc.pid}/exe").endswith("sleep") or
                   os.readlink(f"/proc/{proc.pid}/exe").endswith("coreutils"), 10, "sleep runs")
        time.sleep(0.1)
        done = subprocess.run([TOOL, str(proc.pid)], capture_output=True, text=True, check=False)
        check(done.returncode == 1 and done.stderr.startswith("notfound"), "not found:", done.stderr)


@each
def test_speed(path, _version):
    """100 threads with 50 frames each, of a stopped process."""
    with target([path, f"{TARGETS}/pyprog_threads.py", "100", "50"], ready="ready") as proc, stopped(proc.pid):
        told = facts(proc.pid, "-k")
        check(told["threads"].startswith("101 frames 50"), "frames", told)
        took = int(re.search(r"capture (\d+) us", "find " + told["find"]).group(1))
        check(took < 3000000, "a capture takes", took, "us")
    return "FIGURE find " + told["find"]


if __name__ == "__main__":
    main(globals())
