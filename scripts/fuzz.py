#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fuzzing with libFuzzer, ASan and UBSan: runs each program of tests/fuzz/ for some time, goes on where it ended the last time, and
prints what that reached. Everything is kept below the cache of tests/run.sh, in fuzz/: builds, corpora, what was found, figures.

usage: fuzz.py [--seconds N] [--only NAME]... [--cores] [--minimise] [--coverage]

--seconds N   for each program (default 60; 0: none, only what else is asked for)
--only NAME   fuzz_elf and so on; may be repeated
--cores       make the cores that fuzz_report and fuzz_walkers need (tests/fuzz/cores.py); without them these two have a small one
--minimise    afterwards, replaces the repository's corpora by the inputs that reach the same, but for regressions (named found-...)
--coverage    afterwards, prints how many lines of each file of the walkers all inputs run"""
import argparse
import collections
import json
import os
import re
import shutil
import subprocess
import sys
import time

SOURCE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CACHE = os.environ.get("VRAMTAP_CACHE") or os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "vramtap")
FUZZ = os.environ.get("VRAMTAP_FUZZ") or os.path.join(CACHE, "fuzz")
CORPUS = os.path.join(SOURCE, "tests", "fuzz", "corpus")
BUILDS = {
    "libfuzzer": ["--disable-static", "--enable-libfuzzer", "CC=clang", "CFLAGS=-O1 -g1"],
    # counters that are in the profile's file at any moment: the child that reads DWARF ends by _exit(), in a sandbox
    "coverage": ["--disable-static", "CC=clang",
                 "CFLAGS=-O1 -g1 -fprofile-instr-generate -fcoverage-mapping -mllvm -runtime-counter-relocation=true"],
}
OF_CORES = ("fuzz_report", "fuzz_walkers")  # their inputs mean nothing on another machine
MOST_FILES, MOST_BYTES = 48, 96 << 10  # of one corpus in the repository
MAX_LENGTH = {"fuzz_elf": 16384, "fuzz_told": 8192, "fuzz_core": 65536, "fuzz_report": 130, "fuzz_walkers": 130, "fuzz_torch": 512, "fuzz_pinned": 130, "fuzz_pyheap": 130,
              "fuzz_recorder": 512}
EDITS = 512  # inputs that are lists of edits are short: they are as long as they may be from the beginning
TIMEOUT_S, MEMORY_MB = 30, 2048


def programs():
    return sorted(name[:-2] for name in os.listdir(os.path.join(SOURCE, "tests", "fuzz")) if re.fullmatch(r"fuzz_\w+\.c", name))


def build(kind, names):
    directory = os.path.join(FUZZ, kind)
    os.makedirs(directory, exist_ok=True)
    if not os.path.exists(os.path.join(directory, "Makefile")):
        deps = subprocess.run(["sh", os.path.join(SOURCE, "scripts", "deps.sh"), "fuzz"], stdout=subprocess.PIPE, text=True, check=True).stdout
        headers = re.search(r"^CUDA_HEADERS=(.*)$", deps, re.M)[1]
        subprocess.run([os.path.join(SOURCE, "configure"), "--quiet", f"--with-cuda-headers={headers}", *BUILDS[kind]], cwd=directory, check=True)
    subprocess.run(["make", "-s", f"-j{os.cpu_count()}", *[f"tests/fuzz/{name}" for name in names]], cwd=directory, check=True,
                   stdout=subprocess.DEVNULL)
    return os.path.join(directory, "tests", "fuzz")


def inputs(name):
    directory = os.path.join(FUZZ, "corpus", name)
    os.makedirs(directory, exist_ok=True)
    return directory


def figures_file():
    return os.path.join(FUZZ, "figures.json")


def figures():
    try:
        with open(figures_file(), encoding="ascii") as file:
            return json.load(file)
    except FileNotFoundError:
        return {}


def environment():
    return dict(os.environ, FUZZ_CORES=os.path.join(FUZZ, "cores"), LLVM_PROFILE_FILE="/dev/null", ASAN_OPTIONS="detect_leaks=1:allocator_may_return_null=1:quarantine_size_mb=32")


def fuzz(name, where, drivers, seconds):
    """Executions, seconds, peak memory; what was found is in found/."""
    found = os.path.join(FUZZ, "found")
    os.makedirs(found, exist_ok=True)
    corpus, log = inputs(name), os.path.join(FUZZ, name + ".log")
    subprocess.run([os.path.join(drivers, name), "-w", corpus], check=True, env=environment())
    command = [os.path.join(where, name), f"-max_total_time={seconds}", f"-timeout={TIMEOUT_S}", f"-rss_limit_mb={MEMORY_MB}", "-print_final_stats=1",
               f"-artifact_prefix={found}/{name}-", f"-max_len={MAX_LENGTH.get(name, 4096)}", "-use_value_profile=1", "-entropic=0", "-reload=0"]
    if MAX_LENGTH.get(name, 4096) <= EDITS:
        command.append("-len_control=0")
    command.append(corpus)
    if os.path.isdir(os.path.join(CORPUS, name)):
        command.append(os.path.join(CORPUS, name))
    begin = time.monotonic()
    with open(log, "w", encoding="utf-8") as out:
        subprocess.run(["nice", *command], stdout=out, stderr=out, env=environment(), timeout=seconds * 3 + 600, check=False)
    with open(log, encoding="utf-8", errors="replace") as file:
        text = file.read()
    executions = re.search(r"stat::number_of_executed_units: *(\d+)", text)
    last = re.findall(r"^#(\d+)\s", text, re.M)
    peak = re.search(r"stat::peak_rss_mb: *(\d+)", text)
    return (int(executions[1]) if executions else int(last[-1]) if last else 0, time.monotonic() - begin, int(peak[1]) if peak else 0)


def found_of(name):
    kinds = collections.Counter()
    directory = os.path.join(FUZZ, "found")
    for file in os.listdir(directory) if os.path.isdir(directory) else []:
        match = re.match(re.escape(name) + r"-(crash|leak|timeout|oom)-", file)
        if match:
            kinds[{"leak": "crash", "oom": "memory", "timeout": "hang"}.get(match[1], match[1])] += 1
    return kinds


def print_figures(names):
    kept = figures()
    print(f"{'program':16}{'executions':>13}{'a second':>10}{'crashes':>9}{'hangs':>7}{'too much memory':>17}{'most MiB':>10}{'inputs':>8}")
    total = 0
    for name in names:
        f, kinds = kept.get(name, {"executions": 0, "seconds": 0, "peak_mb": 0}), found_of(name)
        total += f["executions"]
        print(f"{name:16}{f['executions']:13,}{f['executions'] / max(f['seconds'], 1):10,.0f}{kinds['crash']:9}{kinds['hang']:7}{kinds['memory']:17}"
              f"{f['peak_mb']:10}{len(os.listdir(inputs(name))):8}")
    print(f"{'all':16}{total:13,}")


def minimise(name, where, drivers):
    """The repository's corpus: the fewest inputs that reach what the fuzzer's own seeds do not; regressions stay."""
    if name in OF_CORES:
        return
    merged, target = os.path.join(FUZZ, "merged", name), os.path.join(CORPUS, name)
    shutil.rmtree(merged, ignore_errors=True)
    os.makedirs(merged)
    os.makedirs(target, exist_ok=True)
    subprocess.run([os.path.join(drivers, name), "-w", merged], check=True, env=environment())
    keep = {file for file in os.listdir(target) if file.startswith("found-") or not re.fullmatch("[0-9a-f]{40}", file)}
    for file in keep:
        shutil.copy(os.path.join(target, file), merged)
    already = set(os.listdir(merged))
    subprocess.run([os.path.join(where, name), "-set_cover_merge=1", f"-max_len={MAX_LENGTH.get(name, 4096)}", f"-timeout={TIMEOUT_S}", merged,
                    inputs(name), target], check=True, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=1800)
    # It writes first what reaches most.
    files = sorted((os.path.join(merged, file) for file in os.listdir(merged) if file not in already), key=lambda path: os.stat(path).st_mtime_ns)
    room = MOST_BYTES - sum(os.path.getsize(os.path.join(target, file)) for file in keep)
    for file in os.listdir(target):
        if file not in keep:
            os.unlink(os.path.join(target, file))
    left = MOST_FILES - len(keep)
    for file in files:
        size = os.path.getsize(file)
        if left > 0 and size <= room:
            shutil.copy(file, os.path.join(target, os.path.basename(file)))
            left, room = left - 1, room - size
    print(f"{name}: {len(os.listdir(target))} inputs in the repository, of {len(files) + len(keep)} that reach the same as all", flush=True)


def coverage(names, drivers):
    profiles = os.path.join(FUZZ, "profiles")
    shutil.rmtree(profiles, ignore_errors=True)
    os.makedirs(profiles)
    for name in names:
        files = [os.path.join(directory, file) for directory in (inputs(name), os.path.join(CORPUS, name)) if os.path.isdir(directory)
                 for file in sorted(os.listdir(directory))]
        for i in range(0, len(files), 500):
            env = dict(environment(), LLVM_PROFILE_FILE=f"{profiles}/{name}-{i}%c.profraw")
            subprocess.run(["nice", os.path.join(drivers, name), *files[i:i + 500]], env=env, check=False, timeout=3600, stderr=subprocess.DEVNULL)
    data, objects = os.path.join(FUZZ, "all.profdata"), [word for name in names for word in ("-object", os.path.join(drivers, name))]
    raw = [os.path.join(profiles, file) for file in os.listdir(profiles)]
    subprocess.run([tool("llvm-profdata"), "merge", "-sparse", "-o", data, *raw], check=True)
    told = subprocess.run([tool("llvm-cov"), "export", "-format=text", "-summary-only", f"-instr-profile={data}", *objects], stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, check=True).stdout
    lines = collections.defaultdict(lambda: [0, 0])
    for file in json.loads(told)["data"][0]["files"]:
        path = file["filename"].partition("/src/")[2]
        if not path.endswith(".c"):
            continue
        summary = file["summary"]["lines"]
        for key in (path, os.path.dirname(path), "walk" if path.startswith("walk/") else None):
            if key:
                lines[key][0] += summary["covered"]
                lines[key][1] += summary["count"]
    for kind in ("rooms", "files"):
        print(f"\n{kind + ' of src/':34}{'lines':>8}{'run':>9}")
        for key, (covered, count) in sorted(lines.items()):
            if key.endswith(".c") == (kind == "files") and (kind == "rooms" or key.startswith(("walk/", "target/core/", "faults/", "kernels/"))):
                print(f"{key:34}{count:8}{100 * covered / max(count, 1):7.1f} %")


def tool(name):
    """Of the same release as clang."""
    version = re.search(r"clang version (\d+)", subprocess.run(["clang", "--version"], stdout=subprocess.PIPE, text=True, check=True).stdout)[1]
    return shutil.which(f"{name}-{version}") or name


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--only", action="append")
    for name in ("cores", "minimise", "coverage"):
        parser.add_argument("--" + name, action="store_true")
    arguments = parser.parse_args()
    names = [name for name in programs() if not arguments.only or name in arguments.only]
    os.makedirs(FUZZ, exist_ok=True)
    if arguments.cores:
        subprocess.run([sys.executable, "-B", os.path.join(SOURCE, "tests", "fuzz", "cores.py"), os.path.join(FUZZ, "cores")], check=True)
    where, drivers = build("libfuzzer", names), build("coverage", names)
    for name in names if arguments.seconds else []:
        executions, seconds, peak = fuzz(name, where, drivers, arguments.seconds)
        kept = figures()
        mine = kept.setdefault(name, {"executions": 0, "seconds": 0, "peak_mb": 0})
        mine["executions"] += executions
        mine["seconds"] += seconds
        mine["peak_mb"] = max(mine["peak_mb"], peak)
        with open(figures_file() + ".new", "w", encoding="ascii") as file:
            json.dump(kept, file)
        os.rename(figures_file() + ".new", figures_file())
        print(f"{name}: {executions:,} in {seconds:.0f} s, {dict(found_of(name)) or 'nothing found'}", flush=True)
    if arguments.minimise:
        for name in names:
            minimise(name, where, drivers)
    print_figures(names)
    if arguments.coverage:
        coverage(names, drivers)
    return any(found_of(name) for name in names)


if __name__ == "__main__":
    sys.exit(main())
