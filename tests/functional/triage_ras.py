#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""vramtap triage --ras: what it makes of the answers of NCCL's RAS, what it sends to which rank, and ranks that do not answer as they should."""
import argparse
import contextlib
import json
import os
import pty
import signal
import socket
import subprocess
import sys
import time

from harness import COMPLETE, PARTIAL, SOURCE, VRAMTAP, Skip, check, equal, main, scratch, target, vramtap, wait_until

import ras_client

sys.path.insert(0, os.path.join(SOURCE, "tests", "targets"))
import nccl_ras  # pylint: disable=wrong-import-position
import ras_job  # pylint: disable=wrong-import-position


@contextlib.contextmanager
def fake_job(*args, program=ras_job):
    """Yields (pid of the launcher, pids of the ranks, (host, port), a function that says what ranks were sent)."""
    told = os.path.join(scratch(), "told")
    with open(told, "wb") as stderr, target([sys.executable, "-B", program.__file__, *map(str, args)], ready="READY", stderr=stderr) as proc:
        job = json.loads(proc.ready_line.split(None, 1)[1])

        def sent():
            with open(told, encoding="utf-8") as file:
                return [line.split(" ", 1) for line in file.read().splitlines()]
        try:
            yield proc.pid, job["ranks"], (job["address"][0].strip("[]"), job["address"][1]), sent
        finally:
            proc.stdin.close()
            proc.wait(10)
            proc.stdin = open(os.devnull, "rb")


def triage(*args, out=None):
    """(directory, report, summary, seconds); it is complete whatever RAS says. (On a busy machine a thread may get no processor to stop
    on, which has nothing to do with RAS.)"""
    out = out or scratch()
    begin = time.monotonic()
    code, text, _ = vramtap("triage", "-o", out, "--width", "200", *map(str, args), expect=(COMPLETE, PARTIAL))
    seconds = time.monotonic() - begin
    with open(os.path.join(out, "report.json"), encoding="utf-8") as file:
        report = json.load(file)
    if code != COMPLETE:
        limits = [one["text"] for one in report["diagnostics"] if one["level"] == "missing"]
        limits += [one["missing"] or one["error"] for one in report["members"] if one["completeness"] != "complete"]
        check(limits and all("threads were not stopped" in (one or "") for one in limits), "it is partial", limits, text[-2000:])
    check_schema(report)
    return out, report, text, seconds


def check_schema(report):
    try:
        import jsonschema
    except ImportError:
        return
    with open(os.path.join(SOURCE, "doc", "triage.schema.json"), encoding="utf-8") as file:
        validator = jsonschema.Draft202012Validator(json.load(file))
    equal([error.message for error in validator.iter_errors(report)], [], "what the schema does not allow")


def notes(report):
    return [d["text"] for d in report["diagnostics"] if d["code"] == "ras"]


def verdicts(report, code):
    return [v for v in report["found"]["verdicts"] if v["code"] == code]


def pids_of(report, verdict):
    return [report["members"][i]["pid"] for first, last in verdict["members"] for i in range(first, last + 1)]


def said_by(args, pids):
    """What the target says, as it makes it by itself."""
    parsed = argparse.Namespace(ranks=len(pids), counts=[6] * len(pids), lost=-1, silent=-1, form="json", manner="answer")
    for name, value in zip(args[::2], args[1::2]):
        setattr(parsed, name[2:], [int(c) for c in value.split(",")] if name == "--counts" else type(getattr(parsed, name[2:]))(value))
    return (ras_job.text if parsed.form == "text" else ras_job.json_text)(parsed, pids)


def check_kept(out, ras, args, pids):
    equal(ras["file"], f"nccl-ras-{ras['host']}.{'txt' if 'text' in args else 'json'}", "name of the file")
    with open(os.path.join(out, ras["file"]), encoding="ascii") as file:
        equal(file.read(), said_by(args, pids), "what is kept")
    equal(os.stat(os.path.join(out, ras["file"])).st_mode & 0o777, 0o600, "mode of the file")


# ---- what it says ----

def test_rank_that_is_behind():
    for form, kind, version in (("json", "AllReduce", "2.29.2"), ("text", "collective", "2.24.3")):
        args = ("--ranks", 4, "--counts", "42,42,41,42", "--form", form)
        with fake_job(*args) as (launcher, pids, address, sent):
            out, report, text, _ = triage("--ras", "--children-of", launcher)
            (ras,) = report["ras"]
            equal((ras["understood"], ras["nccl_version"], ras["communicators"]), (True, version, 1), "what is known of the answer")
            equal(ras["address"], f"{address[0]}:{address[1]}", "address")
            check(ras["pid"] in pids, "which rank was asked", ras)
            (verdict,) = verdicts(report, "ras-behind")
            equal(pids_of(report, verdict), [pids[2]], "the ranks that are behind")
            check(verdict["alarm"] and f"rank 2 has launched 41 {kind} operations, ranks 0-1,3 have launched 42" in verdict["text"],
                  "the verdict", verdict)
            check(verdict["text"] in " ".join(text.split()), "the summary does not say it", text)
            check_kept(out, ras, args, pids)
            # One of them was asked, as the counts differ twice again, and nothing else was said.
            question = "STATUS" if form == "json" else "VERBOSE STATUS"
            told = sent()
            equal([line.split("TIMEOUT")[0] or "TIMEOUT" for _, line in told],
                  3 * ["CLIENT PROTOCOL 2", "TIMEOUT", "SET FORMAT json", question], "what was sent")
            # What is left of the time for RAS, in whole seconds: less on a busy machine.
            seconds = [int(line.split()[1]) for _, line in told if line.startswith("TIMEOUT")]
            check(all(1 <= s <= most for s, most in zip(seconds, (5, 2, 2))), "the time that RAS was given", seconds)
            equal({pids[int(rank)] for rank, _ in told[-4:]}, {ras["pid"]}, "to which rank")
            equal({g["moved"] for g in ras["groups"]}, {False}, "whether they go on")


def test_ranks_that_are_lost():
    for form in ("json", "text", "first-json"):
        args = ("--ranks", 6, "--counts", "6,6,6,6,6,5", "--lost", 2, "--silent", 3, "--form", form)
        with fake_job(*args) as (launcher, pids, _, _):
            _, report, text, _ = triage("--ras", "--children-of", launcher)
            check(report["ras"][0]["understood"], "not understood", report["ras"])
            for code, pid, words in (("ras-dead", pids[2], "rank 2 is considered dead"), ("ras-silent", pids[3], "rank 3 does not answer")):
                (verdict,) = verdicts(report, code)
                equal((pids_of(report, verdict), verdict["alarm"]), ([pid], True), code)
                check(words in verdict["text"] and words in text, "the message", verdict)


def test_all_is_well():
    with fake_job("--ranks", 3) as (launcher, _, _, _):
        out, report, text, _ = triage("--ras", "--children-of", launcher)
        check("all ranks answer, without errors, and have launched the same" in " ".join(text.split()), "the summary", text)
        equal([v for v in report["found"]["verdicts"] if v["code"].startswith("ras")], [], "verdicts")
        # Into the same directory again; and what was saved, twice.
        triage("--ras", "--children-of", launcher, out=out)
        triage("--children-of", launcher, out=out)
        check(not [name for name in os.listdir(out) if name.startswith("nccl")], "an answer of an earlier triage stays", os.listdir(out))
        triage("--ras", "--children-of", launcher, out=out)
        code, text, err = vramtap("triage", "--json", "-", "--from", out, out)
        equal((code, err), (COMPLETE, ""), "exit code, standard error")
        merged = json.loads(text)["ras"]
        equal(len(merged), 1, "answers")
        check(os.path.exists(merged[0]["file"]), "the file's name", merged[0])


def test_ranks_that_go_on():
    """Ranks that launch more all the time are never equal, and not behind; one that does not is."""
    for form in "json", "text":
        with fake_job("--ranks", 3, "--counts", "42,41,42", "--rise", "50,50,50", "--form", form) as (launcher, _, _, sent):
            _, report, text, _ = triage("--ras", "--children-of", launcher)
            equal(verdicts(report, "ras-behind"), [], "the ranks that are behind")
            equal({g["moved"] for g in report["ras"][0]["groups"]}, {True}, "whether they go on")
            check("without errors, and launch more" in " ".join(text.split()), "the summary", text)
            equal(len(sent()), 8, "lines of two questions")
        with fake_job("--ranks", 3, "--counts", "1042,0,1042", "--rise", "50,0,50", "--form", form) as (launcher, pids, _, _):
            _, report, _, _ = triage("--ras", "--children-of", launcher)
            (verdict,) = verdicts(report, "ras-behind")
            # The others are ahead, and do not wait for it: that is told, without an alarm.
            equal((pids_of(report, verdict), verdict["alarm"]), ([pids[1]], False), "the ranks that are behind")
            check("rank 1 has launched none of the" in verdict["text"], "the verdict", verdict)


def test_second_answer_is_worse():
    """What RAS said well the first time counts."""
    for manner in "worse", "cut":
        with fake_job("--ranks", 3, "--counts", "42,41,42", "--manner", manner) as (launcher, pids, _, sent):
            _, report, _, _ = triage("--ras", "--children-of", launcher)
            (verdict,) = verdicts(report, "ras-behind")
            equal((pids_of(report, verdict), len(sent())), ([pids[1]], 8), "the ranks that are behind, and lines of two questions")
            equal([g.get("moved") for g in report["ras"][0]["groups"]], [None, None], "whether they go on")


def test_two_jobs():
    with fake_job("--counts", "6,5") as (_, one, _, _), fake_job("--counts", "9,9", "--form", "text") as (_, two, _, _):
        out, report, _, _ = triage("--ras", *one, *two)
        equal({ras["pid"] in one for ras in report["ras"]}, {True, False}, "which rank was asked")
        host = report["ras"][0]["host"]
        equal(sorted(name for name in os.listdir(out) if name.startswith("nccl")),
              sorted(ras["file"] for ras in report["ras"]), "files")
        check(all(ras["file"].startswith(f"nccl-ras-{host}") for ras in report["ras"]), "names", report["ras"])


def test_address_of_ip6():
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET6) as probe:
        probe.bind(("::1", 0))
        with fake_job("--address", "[::1]:0", "--counts", "6,5") as (launcher, _, address, _):
            _, report, _, _ = triage("--ras", "--children-of", launcher)
            equal((report["ras"][0]["address"], len(verdicts(report, "ras-behind"))), (f"[::1]:{address[1]}", 1), "the answer")
        return
    raise Skip("there is no IPv6 here")


# ---- the real RAS ----

def real_job(counts):
    if not nccl_ras.is_there():
        raise Skip(f"NCCL is not set up: sh tests/setup/nccl.sh {nccl_ras.VERSION}")
    host, port = ras_client.free_address()
    return fake_job("--counts", counts, "--address", f"{host}:{port}", program=nccl_ras)


def have_met(said, n):
    """As long as some are missing, what this release says of them is no JSON: a comma is."""
    try:
        return len(json.loads(said)["communicators"][0]["ranks"]) == n
    except ValueError:
        return False


def test_real_nccl():
    with real_job("6,6,5,6") as (launcher, pids, address, _):
        # They get to know each other after they have begun.
        wait_until(lambda: have_met(ras_client.ask(address, "json"), 4), 20, "all ranks are known")
        own = ras_client.ask(address, "json")
        expected = {"AllReduce": {0: 6, 1: 6, 2: 5, 3: 6}}
        equal(ras_client.counts_of(own), expected, "what RAS says")
        equal(ras_client.counts_of(ras_client.ask(address, "text")), {"AllReduce": {2: 5}}, "what RAS says as text")
        out, report, _, _ = triage("--ras", "--children-of", launcher)
        (ras,) = report["ras"]
        equal((ras["understood"], ras["nccl_version"], ras["lines"]), (True, nccl_ras.VERSION, []), "the answer")
        equal(ras_client.counts_told(ras), expected, "what vramtap says")
        with open(os.path.join(out, ras["file"]), encoding="utf-8") as file:
            equal(ras_client.counts_of(file.read()), expected, "what is kept")
        (verdict,) = verdicts(report, "ras-behind")
        equal((pids_of(report, verdict), verdict["alarm"]), ([pids[2]], True), "the ranks that are behind")
        # One that does not answer, though it may be the one that gets the connection; this release leaves out a comma there.
        os.kill(pids[1], signal.SIGSTOP)
        try:
            _, report, _, _ = triage("--ras", "--timeout", 14, "--children-of", launcher)
        finally:
            os.kill(pids[1], signal.SIGCONT)
        check(report["ras"] and report["ras"][0]["understood"], "the answer with one missing", report["ras"], notes(report))
        (verdict,) = verdicts(report, "ras-silent")
        equal((pids_of(report, verdict), verdict["alarm"]), ([pids[1]], True), "the rank that does not answer")


# ---- which rank is asked ----

def test_nobody_is_asked_unless_told_to():
    with fake_job("--counts", "6,5") as (launcher, _, _, sent):
        for args in ((), ("--no-stop",), ("--read-only",)):
            out, report, _, _ = triage(*args, "--children-of", launcher)
            equal((report["ras"], notes(report), sent()), ([], [], []), f"what was asked and said with {args}")
        for args in (("--inject",), ("--ras", "--no-stop")):
            _, report, _, _ = triage(*args, "--children-of", launcher)
            equal(len(report["ras"]), 1, f"answers with {args}")


def listen_as_well(host, port):
    return ras_job.listen(host, port)


def is_untouched(listener):
    """Nobody has connected to it."""
    listener.setblocking(False)
    try:
        listener.accept()
    except BlockingIOError:
        return True
    return False


def test_others_are_not_asked():
    with ras_job.listen("127.0.0.1", 0) as foreign:
        port = foreign.getsockname()[1]
        # At the address that the ranks were told there is only a process outside the job.
        with fake_job("--no-listener", "--address", f"127.0.0.1:{port}") as (launcher, _, _, _):
            _, report, _, _ = triage("--ras", "--children-of", launcher)
            check(len(notes(report)) == 1 and "no rank listens" in notes(report)[0], "the note", notes(report))
            check(is_untouched(foreign), "another process was asked")
        # There are both, at one address or at all of the machine's: the kernel would choose.
        for host in ("127.0.0.1", "0.0.0.0"):
            with fake_job("--address", f"127.0.0.1:{port}") as (launcher, _, _, sent), ras_job.listen(host, port) as other:
                for _ in range(3):
                    _, report, _, _ = triage("--ras", "--children-of", launcher)
                    equal((len(notes(report)), report["ras"], sent()), (1, [], []), "notes, answers, and what was sent")
                    check("outside this job" in notes(report)[0], "the note", notes(report))
                    check(is_untouched(foreign) and is_untouched(other), "another process was asked")
    # It is gone: they are asked.
    with fake_job("--address", f"127.0.0.1:{port}") as (launcher, _, _, _):
        equal(len(triage("--ras", "--children-of", launcher)[1]["ras"]), 1, "answers")


def test_network_of_their_own():
    if os.geteuid() or subprocess.run(["unshare", "-n", "true"], stderr=subprocess.DEVNULL, check=False).returncode:
        raise Skip("needs a network namespace")
    with ras_job.listen("127.0.0.1", 0) as foreign:
        port = foreign.getsockname()[1]
        with fake_job("--new-network", "--address", f"127.0.0.1:{port}", "--counts", "6,5") as (launcher, _, _, sent):
            _, report, _, _ = triage("--ras", "--children-of", launcher)
            equal((len(report["ras"]), len(verdicts(report, "ras-behind")), notes(report)), (1, 1, []), "answers, verdicts, notes")
            equal(len(sent()), 12, "lines of three questions")
            check(is_untouched(foreign), "one with the same address here was asked")


# ---- ranks that do not answer as NCCL ----

# Manner, form, how long it takes (s), what is noted, whether there is an answer
MANNERS = (
    ("deaf", "json", 2, "did not answer", False),
    ("mute", "json", 2, "did not answer", False),
    ("slow", "text", 3, "is incomplete", True),
    ("other", "json", 2, "is not RAS", False),
    ("early", "json", 2, None, True),
    ("early", "text", 2, None, True),
    ("garbage", "json", 2, None, True),
    ("endless", "json", 6, "is incomplete", True),
)


def test_odd_manners():
    for manner, form, seconds, said, answers in MANNERS:
        with fake_job("--manner", manner, "--form", form, "--counts", "6,5") as (launcher, pids, _, _):
            out, report, text, took = triage("--ras", "--timeout", 4, "--children-of", launcher)
            check(took < seconds + 2, f"{manner}: it took {took:.1f} s")
            equal(len(notes(report)), 1 if said else 0, f"{manner}: notes")
            check(not said or said in notes(report)[0], f"{manner}: the note", notes(report))
            equal([v for v in report["found"]["verdicts"] if v["code"].startswith("ras")], [], f"{manner}: verdicts")
            equal(len(report["ras"]), 1 if answers else 0, f"{manner}: answers")
            for ras in report["ras"]:
                check(not ras["understood"] and 0 < len(ras["lines"]) < 30, f"{manner}: what is left", ras)
                check(0 < os.stat(os.path.join(out, ras["file"])).st_size <= 64 << 20 | 65536, f"{manner}: size of the file")
                check(ras["lines"][0].split()[0] in text, f"{manner}: the summary does not show it", text)
            equal(len([m for m in report["members"] if m["pid"] in pids and not m["error"]]), 2, f"{manner}: ranks")


def test_patience():
    """RAS waits for other processes for as long as it is told, and is waited for."""
    with fake_job("--manner", "late", "--counts", "6,5") as (launcher, _, _, sent):
        _, report, _, took = triage("--ras", "--timeout", 12, "--children-of", launcher)
        equal([line for _, line in sent() if line.startswith("TIMEOUT")], ["TIMEOUT 1"], "for how long")
        check(1 < took < 5 and verdicts(report, "ras-behind"), "the answer", took, report["ras"], notes(report))


def test_one_who_does_not_accept():
    """The kernel chooses which rank gets a connection: one of three has another."""
    with fake_job("--manner", "one-deaf", "--ranks", 3, "--counts", "6,5,6") as (launcher, pids, _, _):
        for _ in range(3):
            _, report, _, _ = triage("--ras", "--children-of", launcher)
            equal((notes(report), len(verdicts(report, "ras-behind"))), ([], 1), "notes, verdicts")
            check(report["ras"][0]["pid"] in pids[1:], "which rank was asked", report["ras"])


def test_on_a_terminal():
    """Where it shows what it is doing, by an alarm."""
    with fake_job("--ranks", 3, "--counts", "42,41,42") as (launcher, pids, _, _):
        out, (master, slave) = scratch(), pty.openpty()
        with open(slave, "wb", buffering=0) as terminal, subprocess.Popen(
                [VRAMTAP, "triage", "--ras", "-o", out, "--children-of", str(launcher)], stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL, stderr=terminal) as proc:
            equal(proc.wait(20), COMPLETE, "exit code")
        shown = os.read(master, 65536).decode()
        os.close(master)
        with open(os.path.join(out, "report.json"), encoding="utf-8") as file:
            report = json.load(file)
        check("waiting for NCCL's RAS" in shown, "the progress line", shown)
        (verdict,) = verdicts(report, "ras-behind")
        equal((pids_of(report, verdict), notes(report)), ([pids[1]], []), "the ranks that are behind, and notes")


def test_interrupted():
    with fake_job("--manner", "slow", "--form", "text") as (launcher, _, _, _):
        out = scratch()
        proc = subprocess.Popen([VRAMTAP, "triage", "--ras", "-q", "-o", out, "--children-of", str(launcher)])
        time.sleep(1.5)
        proc.terminate()
        equal(proc.wait(3), 128 + 15, "exit code")
        with open(os.path.join(out, "report.json"), encoding="utf-8") as file:
            report = json.load(file)
        equal(len([m for m in report["members"] if m["in_job"] and not m["error"]]), 3, "members")
        equal((len(notes(report)), report["ras"]), (1, []), "notes, answers")


if __name__ == "__main__":
    main(globals())
