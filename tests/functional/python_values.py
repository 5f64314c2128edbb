# SPDX-License-Identifier: Apache-2.0
"""Local variables, tensors, deep stacks and damaged memory of every CPython that is here (see python_frames.py)."""
import contextlib
import os
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from harness import (CACHE, MEASURE, QUICK, SOURCE, Skip, check, equal, main, peak_memory_mib, report_json,  # noqa: E402
                     target, wait_until)
from python_frames import TARGETS, TOOL, each, look, stopped  # noqa: E402

with open(TOOL, "rb") as binary:
    SANITIZED = b"__asan_init" in binary.read()


def read_locals(pid, *options):
    """{(thread, function): [NAME=TEXT, …]} of the frames that have any."""
    out = ""

    def complete():
        nonlocal out
        out = look(pid, "-k", "-v", *options)
        return "\nwithout locals: " not in out

    # On a loaded machine the time for it may pass without one instruction of the reader's.
    wait_until(complete, 60, "all locals are read in time")
    found, thread, function = {}, 0, ""
    for line in out.splitlines():
        if line.startswith("thread "):
            thread = int(line[7:])
        elif line.startswith("  "):
            found.setdefault((thread, function), []).append(line[2:])
        else:
            function = line.split("|")[0].replace("\\x3c", "<").replace("\\x3e", ">")
    return found


@each
def test_locals(path, _version):
    """Every variable of every frame: those that are bound, with the values that Python itself would show."""
    with tempfile.TemporaryDirectory() as tmp:
        truth_path = os.path.join(tmp, "truth")
        with target([path, f"{TARGETS}/pyprog_locals.py", truth_path], ready="ready") as proc, stopped(proc.pid):
            found = read_locals(proc.pid)
            want = {}
            with open(truth_path, encoding="utf-8") as file:
                for line in file.read().splitlines():
                    tid, function, rest = line.split(" ", 2)
                    want.setdefault((int(tid), function), []).append(rest)
            check(len(want) == 10, "the scenarios ran", list(want))
            for place, variables in want.items():
                got = [v for v in found.get(place, []) if v != "..."]
                missing, extra = sorted(set(variables) - set(got)), sorted(set(got) - set(variables))
                check(not missing and not extra, "locals of", place, "missing", missing, "too many", extra)
        with target([path, f"{TARGETS}/pyprog_locals.py", truth_path], ready="ready") as proc:
            check(not any("=" in line for line in look(proc.pid, "-v").splitlines()), "no values of a process that runs")
    return f"{sum(map(len, want.values()))} variables equal"


def torch_versions():
    with open(os.path.join(SOURCE, "tests/setup/torch-versions"), encoding="utf-8") as file:
        return [line for line in file.read().split("\n") if line and line[0].isdigit()]


def test_tensors():
    """Tensors are what PyTorch says; those that are not plain are not described."""
    done = []
    for version in torch_versions():
        if not os.path.exists(f"{CACHE}/torch/{version}/.done-smoke"):
            continue
        argv = ["sh", f"{SOURCE}/tests/setup/run-sim.sh", version, "--", "python", "-u", f"{TARGETS}/pyprog_tensors.py"]
        with target(argv) as proc:
            want = {}
            for raw in proc.stdout:
                line = raw.decode().rstrip("\n")
                if line == "ready":
                    break
                if line.startswith("= "):
                    _, name, text = line.split(" ", 2)
                    want[name] = text
            check(len(want) >= 28 and sum("cuda:0" in text for text in want.values()) >= 10, "the program ran", want)
            with stopped(proc.pid):
                found = dict(v.split("=", 1) for (_, function), variables in read_locals(proc.pid).items()
                             if function in ("main.<locals>.work", "work") for v in variables)
            different = {name: (found.get(name), text) for name, text in want.items() if found.get(name) != text}
            check(not different, f"PyTorch {version}: (ours, the truth)", different)
            done.append(f"{version}: {len(want)} tensors")
    if not done:
        raise Skip("no PyTorch wheel in the cache")
    print(" ", "; ".join(done))


SEEDS = (1, 2, 3) if QUICK else range(1, 200)


@each
def test_damaged_memory(path, _version):
    """An interpreter whose memory is damaged at random: no crash, no hang, no end of memory."""
    by_time = time.time_ns() & 0xffffffff
    with tempfile.TemporaryDirectory() as tmp:
        argv = [path, f"{TARGETS}/pyprog_locals.py", os.path.join(tmp, "truth")]
        with target(argv, ready="ready") as proc, stopped(proc.pid):
            for seed in (*SEEDS, by_time):
                done = subprocess.run([sys.executable, "-I", "-S", "-c", MEASURE, TOOL, "-k", "-z", str(seed), str(proc.pid)],
                                      capture_output=True, text=True, timeout=300, check=False)
                code, kib = done.stdout.split() if done.returncode == 0 else ("?", "0")
                check(code == "0", f"seed {seed} after {done.returncode}:", done.stdout, done.stderr[-2000:])
                check(SANITIZED or int(kib) < 200 << 10, f"seed {seed}: peak memory in KiB", kib)
    return f"seeds {SEEDS} and {by_time}"


DEEP = 10000


def insist(attempt):
    """The result of attempt(); again when it fails, for on a loaded machine a thread may not stop in time (100 ms)."""
    for _ in range(20):
        with contextlib.suppress(AssertionError):
            return attempt()
    return attempt()


@each
def test_deep_recursion(path, _version):
    """10,000 frames are shown, all of them, in 64 MB."""
    with target([path, f"{TARGETS}/pyprog_threads.py", "1", str(DEEP)], ready="ready") as proc:
        for options in ((), ("-k", "-v")):
            with stopped(proc.pid):
                names = [line.split("|")[0] for line in look(proc.pid, *options).splitlines() if "|" in line]
            equal(names.count("deeper"), DEEP - 3, "frames of the recursion")
        data = insist(lambda: report_json(proc.pid))
        stacks = [t["stack"] for t in data["threads"] if not t["main"]]
        frames = [f["function"] for f in stacks[0]["frames"] if f["function"] == "deeper"]
        equal(len(frames), DEEP - 3, "frames in the report")
        check(not stacks[0]["truncated"] and not stacks[0]["merge_uncertain"], "complete", stacks[0]["why"])
        mib = insist(lambda: peak_memory_mib(proc.pid))
        if not SANITIZED:
            check(mib < 64, "peak memory in MiB", mib)
    return f"complete, FIGURE peak memory {mib:.0f} MiB"


if __name__ == "__main__":
    main(globals())
