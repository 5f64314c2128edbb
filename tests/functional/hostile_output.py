#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One process whose every name is hostile (threads, files, functions, variables, keys, arguments, environment, a library), through
everything that vramtap writes: text, JSON, pages, profiles, snapshots, metrics, gdb, completion in shells. Each must have the name, and
none as it is: no terminal may obey it, no document end where it says, no shell run it."""
import json
import os
import pickle
import re
import shutil
import subprocess
import sys
import unicodedata

import completion
import prometheus_text
from harness import COMPLETE, NOTHING, PARTIAL, SOURCE, Skip, check, check_schema, equal, main, scratch, simulated_python, target, vramtap
from report_torch import versions

sys.path.insert(0, os.path.join(SOURCE, "tests", "gdb"))
import session  # noqa: E402

ANY = (COMPLETE, PARTIAL, NOTHING)
MARK = "evilname"
# Ends strings and elements, draws on a terminal, sets its title, goes up, turns text around, looks like another line, a sample of
# Prometheus, a command of gdb's and of a shell's.
EVIL = MARK + "\"'`;$(touch FILE)</script><img src=x onerror=alert(1)><!--\x1b[2J\x1b]0;t\x07\x9b31m\r\n  0 B  fake row\nx\"} 1\nvramtap_fake 7\n" \
    "shell touch FILE\n\u202e\u2066\u200f\u2028\\"
NAME = (MARK + "\x1b[7m\n\"<").encode()  # of a thread: 15 bytes
PROGRAM = """
import ctypes, os, sys, threading, types, torch
evil, name, library = sys.argv[1:4]
libc = ctypes.CDLL(None)
torch.cuda.memory._record_memory_history()
held = {evil: torch.zeros(1000000, device="cuda")}
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleDict()
        self.register_buffer("b" + evil.replace(".", ""), torch.zeros(2000000, device="cuda"))
model = Model()
ctypes.CDLL(library)
def sleep(evil_local=evil, raw=b"\\xff\\xfe\\x1b"):
    key = evil.encode()
    kept = torch.ones(3000000, device="cuda")
    print("ready", flush=True) if threading.current_thread() is threading.main_thread() else None
    threading.Event().wait(1000)
sleep.__code__ = sleep.__code__.replace(co_name=evil, co_filename="/tmp/" + evil + ".py", **({"co_qualname": evil} if sys.version_info > (3, 11) else {}))
def named():
    libc.prctl(15, os.fsencode(name))
    sleep()
for i in range(2):
    threading.Thread(target=named, daemon=True).start()
libc.prctl(15, os.fsencode(name))
sleep()
"""


class Evil:
    """The process, and the file that only an obeyed name makes."""

    def __enter__(self):
        self.made = scratch("made")
        evil = EVIL.replace("FILE", self.made)
        library = os.path.join(scratch(), MARK + "\x1b[2J\n\" <b>.so")
        done = subprocess.run(["gcc", "-shared", "-x", "c", "-", "-o", library], input=b"int x;", capture_output=True, check=False)
        if done.returncode:
            raise Skip("no compiler")
        environment = dict(os.environ, SIMCUDA_DEVICES="1", SIMCUDA_MEM_MB="512", POD_NAME=evil, POD_NAMESPACE=evil, SLURM_JOB_ID=evil,
                           SLURM_JOB_NAME=evil, RANK="1", WORLD_SIZE="4", HOSTNAME=evil, TORCH_SYMBOLIZE_MODE="dladdr")
        self.context = target([*simulated_python(versions()[-1]), "-W", "ignore", "-c", PROGRAM, evil, os.fsdecode(NAME), library],
                              ready="ready", env=environment)
        self.pid = self.context.__enter__().pid
        return self

    def __exit__(self, *exc):
        result = self.context.__exit__(*exc)
        check(not os.path.exists(self.made), "a name was obeyed as a command")
        return result


def harmless(text, what, named=True):
    """Text for a terminal."""
    if isinstance(text, bytes):
        text = text.decode("utf-8")  # or it fails
    bad = {c for c in text if c != "\n" and (unicodedata.category(c) in ("Cc", "Cs", "Cf", "Zl", "Zp"))}
    equal(bad, set(), f"characters that are not to be in {what}")
    check(not re.search(r"^\s*0 B +fake row|^vramtap_fake|^shell touch", text, re.M), f"a line of its own in {what}", text)
    check(not named or MARK in text, f"the name is not in {what}", text[:3000])


def without_colour(text):
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


def strings(value):
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from strings(key)
            yield from strings(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from strings(item)


def is_json(data, what):
    """One that any reader reads, that keeps the bytes, and that a terminal can show."""
    text = data.decode("utf-8") if isinstance(data, bytes) else data
    document = json.loads(text)
    bad = {c for c in text if c not in "\n" and unicodedata.category(c) == "Cc"}
    equal(bad, set(), f"control characters in the JSON of {what}")
    check(any(MARK in s for s in strings(document)), f"the name is not in the JSON of {what}")
    return document


def is_page(path, what):
    with open(path, encoding="utf-8") as file:
        page = file.read()
    check(MARK in page, f"the name is not in {what}")
    check("<img src=x" not in page and "<!--\x1b" not in page and "\x1b" not in page and "\u202e" not in page, f"as it is in {what}")
    # Each element of a script ends once, and what is in documents is JSON.
    equal(page.count("<script"), page.count("</script>"), f"scripts of {what}")
    for document in re.findall(r'<script type="application/json"[^>]*>(.*?)</script>', page, re.S):
        json.loads(document)


def out_of(command, *args):
    return vramtap(command, *args, expect=ANY, timeout=120)[1]


def test_report():
    with Evil() as evil:
        pid = str(evil.pid)
        for args in (("--width=80",), ("--width=160", "--ascii"), ("--owners", "--blocks", "--sites", "--ranges", "--map"), ("--read-only",),
                     ("--no-stop",), ("--ask-pytorch", "--hide-layout=tensors", "--owners")):
            harmless(out_of("report", *args, pid), f"report {' '.join(args)}")
        harmless(without_colour(out_of("report", "--color=always", pid)), "report in colour")
        check_schema(is_json(out_of("report", "--json=-", pid), "report"))


def test_stacks():
    with Evil() as evil:
        pid = str(evil.pid)
        for args in (("--locals", "--threads=all"), ("--width=80",), ("--native",), ("--no-stop", "--ascii")):
            harmless(out_of("stacks", *args, pid), f"stacks {' '.join(args)}")
        is_json(out_of("stacks", "--locals", "--json=-", pid), "stacks")


def test_documents():
    """Beside the report: a page, profiles for other tools, PyTorch's snapshot; and reports that were saved, read again."""
    with Evil() as evil:
        where, pid = scratch(), str(evil.pid)
        names = {kind: os.path.join(where, kind) for kind in ("html", "pprof", "speedscope", "folded", "snapshot", "json")}
        out_of("report", *[f"--{kind}={path}" for kind, path in names.items()], pid)
        is_page(names["html"], "the page")
        with open(names["speedscope"], encoding="utf-8") as file:
            is_json(file.read(), "speedscope")
        with open(names["folded"], "rb") as file:
            folded = file.read()
        harmless(folded, "folded stacks")
        check(all(re.fullmatch(rb".* \d+", line) for line in folded.splitlines()), "a line is no stack", folded[:2000])
        with open(names["snapshot"], "rb") as file:
            check(any(MARK in s for s in strings(pickle.load(file))), "the name is not in the snapshot")
        harmless(out_of("diff", names["json"], names["json"]), "diff", named=False)
        is_page_of = os.path.join(where, "again.html")
        out_of("html", names["json"], f"--output={is_page_of}")
        if os.path.exists(is_page_of):
            is_page(is_page_of, "the page of a saved report")


def test_processes_and_jobs():
    with Evil() as evil:
        where, pid = scratch(), str(evil.pid)
        harmless(out_of("ps", "--all"), "ps")
        is_json(out_of("ps", "--all", "--json=-"), "ps")
        metrics = os.path.join(where, "ps.prom")
        out_of("ps", "--all", f"--prometheus={metrics}")
        with open(metrics, "rb") as file:
            data = file.read()
        check("vramtap_fake" not in prometheus_text.parse(data) and MARK.encode() in data, "metrics", data[:2000])
        job = {kind: os.path.join(where, f"job.{kind}") for kind in ("json", "html", "prometheus", "speedscope", "folded")}
        out = os.path.join(where, "out")
        text = out_of("triage", f"--output={out}", *[f"--{kind}={path}" for kind, path in job.items()], pid)
        harmless(text, "triage")
        is_page(job["html"], "the page of a job")
        for kind in ("json", "speedscope"):
            with open(job[kind], encoding="utf-8") as file:
                is_json(file.read(), f"triage {kind}")
        with open(job["prometheus"], "rb") as file:
            check("vramtap_fake" not in prometheus_text.parse(file.read()), "metrics of a job")
        with open(job["folded"], "rb") as file:
            harmless(file.read(), "folded stacks of a job")
        with open(os.path.join(out, "summary.txt"), encoding="utf-8") as file:
            harmless(file.read(), "summary.txt")
        check(all(re.fullmatch(r"[\w.+:@=-]+", name) for _, _, files in os.walk(out) for name in files), "names of files", os.listdir(out))
        harmless(out_of("triage", f"--from={out}"), "triage --from")


def test_recorder():
    with Evil() as evil:
        pid = str(evil.pid)
        harmless(out_of("record", pid, "on"), "record on", named=False)
        harmless(out_of("record", pid, "status"), "record status", named=False)
        harmless(out_of("record", pid, "off"), "record off", named=False)


def test_in_gdb():
    with Evil() as evil:
        gdb = session.machine_gdb()
        run = session.batch(gdb, ["vramtap", "vramtap stacks", "vramtap threads all", "vramtap blocks", "vramtap owners", "show convenience"],
                            "-p", str(evil.pid), symbols=False)
        ours = "".join(run.text[:5])
        harmless(ours, "gdb's output")


def test_completion():
    """Shells read the processes' names, and offer numbers only."""
    for name in ("bash", "zsh", "fish"):
        if not shutil.which(name):
            print(f"  no {name} here")
            continue
        with Evil() as evil:
            offered = getattr(completion, name)("report", str(evil.pid)[:-1] if name == "bash" else str(evil.pid))
            check(str(evil.pid) in offered, "the process", offered)
            equal([w for w in offered if not re.fullmatch(r"\d+|--[a-z-]+=?", w) and MARK in w], [], f"what {name} offers")


if __name__ == "__main__":
    main(globals())
