#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What grew: vramtap diff of two reports, vramtap watch --grow, and report --folded, of PyTorch on the simulated device."""
import contextlib
import ctypes
import errno
import json
import os
import re
import signal
import struct
import subprocess
import time

from harness import (COMPLETE, NOTHING, PARTIAL, SOURCE, VRAMTAP, Job, Skip, check, check_schema, equal, main, report, report_json,
                     schema_errors, scratch, simulated_python, target, vramtap)
from nursery import Nursed
from report_torch import versions

TARGET = os.path.join(SOURCE, "tests", "targets", "torch_grow.py")
OWNERS_TARGET = os.path.join(SOURCE, "tests", "targets", "torch_grow_owners.py")
NO_EVENT = 4


class Growing(Nursed):
    """torch_grow.py"""

    def __init__(self, *args):
        super().__init__(versions()[-1], [TARGET, *args],
                         env=dict(os.environ, SIMCUDA_CTL=scratch("control"), SIMCUDA_DEVICES="1", SIMCUDA_MEM_MB="512"))

    def truth(self):
        """{function: (bytes, blocks)} of the blocks in use, by PyTorch's own account; "" is what was not recorded."""
        path = scratch("snapshot")
        self.do(f"snapshot {path}")
        with open(path, encoding="utf-8") as file:
            segments = json.load(file)["segments"]
        sums = {}
        for block in (b for s in segments for b in s["blocks"] if b["state"] == "active_allocated"):
            name = block["frames"][0]["name"] if block.get("frames") else ""
            size, count = sums.get(name, (0, 0))
            sums[name] = (size + block["size"], count + 1)
        return sums

    def save(self):
        path = scratch("report.json")
        report(self.pid, "--json", path, expect=COMPLETE)
        return path


def line_of(function):
    """The line in the target where this function allocates."""
    with open(TARGET, encoding="utf-8") as file:
        lines = file.read().splitlines()
    at = lines.index(f"def {function}():")
    return next(i for i in range(at, len(lines)) if "torch.empty" in lines[i]) + 1


def diff_json(before, after, *args, expect=COMPLETE):
    _, out, _ = vramtap("diff", "--json", "-", before, after, *args, expect=expect)
    data = json.loads(out)
    with contextlib.suppress(Skip):
        equal(schema_errors(data, schema_file="diff.schema.json"), [], "what the schema does not allow")
    return data


def by_function(data):
    return {s["title"]["function"].split(".")[0]: s for s in data["sites"]}


def amounts(site):
    return tuple((site[side]["bytes"], site[side]["blocks"]) for side in ("before", "after"))


def test_diff_is_the_difference_of_snapshots():
    with Growing("--record") as job:
        before, first = job.truth(), job.save()
        job.do("step 20")
        job.do("once")
        job.do("free")
        after, second = job.truth(), job.save()
        data = diff_json(first, second)
        check(data["same_process"] and data["sites_compared"] == "compared", "not compared", data["why_other_process"])
        sites = by_function(data)
        equal({n: amounts(s) for n, s in sites.items()},
              {n: (before.get(n, (0, 0)), after.get(n, (0, 0))) for n in (before | after) if n}, "sites")
        equal(amounts(data["without"]["not_recorded"]), (before.get("", (0, 0)), after.get("", (0, 0))), "what is not recorded")
        equal(sites["leak"]["change_blocks"], 20, "leaked blocks")
        title = sites["leak"]["title"]
        equal((title["line"], os.path.basename(title["file"])), (line_of("leak"), "torch_grow.py"), "where it leaks")
        equal(sites["leak"]["kept"]["blocks"], 1, "the leaked block that was there before")
        totals = data["devices"][0]["allocated"]
        without = data["without"]["not_recorded"]["change_bytes"]
        equal(totals["change_bytes"], sum(s["change_bytes"] for s in sites.values()) + without, "sites and the total")
        equal([h["code"] for h in data["headlines"]], ["owner", "in-use"], "the answers")
        check(data["headlines"][1]["text"].startswith("GPU 0: in use +"), "the answer", data["headlines"])
        text_is_right(first, second)
        _, out, _ = vramtap("diff", second, first, expect=COMPLETE)
        check("backwards" in out.splitlines()[0], "not called backwards", out)


def text_is_right(first, second):
    for width in (80, 160):
        _, out, _ = vramtap("diff", "--width", str(width), first, second, expect=COMPLETE)
        check(max(len(line) for line in out.splitlines()) <= width, "a line is too wide", out)
        check(re.search(r"^  leak  \S*grow.py:%d +\d.* → 21$" % line_of("leak"), out, re.M), "the leaking place", out)
        check("[older than the recording]" in out and "of it from one place: once" in " ".join(out.split()), "the text", out)
    _, out, _ = vramtap("diff", "--traces", "--limit=0", first, second, expect=COMPLETE)
    check(re.search(r"^ +step +.*torch_grow.py:\d+", out, re.M), "no backtrace", out)
    _, out, _ = vramtap("diff", "--limit=1", first, second, expect=COMPLETE)
    check("leak  torch_grow.py" not in out and "more places" in out, "--limit", out)


def test_ages_tell_what_was_freed_and_made_anew():
    """With vramtap's own recorder: memory made anew in each step is at the same addresses, by the same backtraces."""
    with Growing() as job:
        vramtap("record", str(job.pid), "on", "--python", expect=(COMPLETE, PARTIAL))
        job.do("step 5")
        time.sleep(0.3)  # ages are of milliseconds
        first = job.save()
        time.sleep(0.3)
        job.do("step 6")
        second = job.save()
        data = diff_json(first, second)
        sites = by_function(data)
        leak = sites["leak"]
        equal((leak["kept"]["blocks"], leak["before"]["blocks"], leak["change_blocks"]), (5, 5, 6), "the leak")
        equal(sites["anew"]["kept"]["blocks"], 0, "what was made anew and seems to be kept")
        check(data["kept_certain"] and sites["leak"]["oldest_age_s"] >= 0.6, "ages", data["kept_certain"], sites["leak"])
        # What the first steps made before recording began was made anew in the last ones.
        equal([n["code"] for n in data["notes"]], ["older-replaced"], "notes")
        _, out, _ = vramtap("diff", first, second, expect=COMPLETE)
        check("all blocks that it had before are still there" in out, "not said that nothing was freed", out)


def nothing_is_folded(job):
    """Owners are the stacks; without them there is one line."""
    total = report_json(job.pid)["pytorch"]["allocators"][0]["totals"]["allocated"]["bytes"]
    _, out, _ = report(job.pid, "--folded", "-", "--no-owners", expect=COMPLETE)
    equal(out, f"[no backtrace: nothing is recorded] {total}\n", "without recording")
    _, out, _ = report(job.pid, "--folded", "-", expect=COMPLETE)
    equal(sum(int(line.rpartition(" ")[2]) for line in out.splitlines()), total, "by owner")
    check(re.search(r"^other Python variables;KEPT;KEPT\[\*\] ", out, re.M), "owners", out)


def test_recording_that_begins_later_is_no_growth():
    with Growing() as job:
        nothing_is_folded(job)
        first = job.save()
        what_is_no_report(first)
        job.do("step 3")
        unrecorded = job.save()
        data = diff_json(first, unrecorded)
        equal((data["sites_compared"], data["sites"]), ("not-recorded", []), "sites without a recording")
        check(any(g["change_blocks"] == 3 for g in data["groups"]), "sizes", data["groups"])
        job.do("record on")
        job.do("step 3")
        recorded = job.save()
        data = diff_json(unrecorded, recorded, expect=PARTIAL)
        equal((data["sites_compared"], data["sites"]), ("recorded-after-only", []), "sites of one report only")
        job.do("record off")
        job.do("step 3")
        data = diff_json(recorded, job.save())
        check("recording-interrupted" in {n["code"] for n in data["notes"]}, "not said that recording was off", data["notes"])


def test_two_processes():
    with Growing("--record") as one, Growing("--record") as other:
        first, second = one.save(), other.save()
        data = diff_json(first, second)
        check(not data["same_process"] and data["kept"] is None, "called one process", data["why_other_process"])
        equal(amounts(by_function(data)["leak"])[0], amounts(by_function(data)["leak"])[1], "the same program")
        _, out, _ = vramtap("diff", first, second, expect=COMPLETE)
        check(out.startswith("Two processes"), "not said in the first line", out)


def what_is_no_report(good):
    with open(good, encoding="ascii") as file:
        text = file.read()
    for name, content, want in (
            ("another version", text.replace('"schema_version": 1', '"schema_version": 7', 1), "version is 7"),
            ("cut", text[:len(text) // 2], "was cut"),
            ("not JSON", "hello\x1b[31m", "not JSON"),
            ("another document", '{"schema": "vramtap-stacks", "schema_version": 1}', "not a report"),
            ("a wrong type", text.replace('"bytes": 8', '"bytes": "8', 1).replace('"pid": ', '"pid": -', 1), "")):
        bad = scratch("bad.json")
        with open(bad, "w", encoding="utf-8") as file:
            file.write(content)
        code, out, err = vramtap("diff", good, bad)
        equal((code, out), (NOTHING, ""), f"{name}: exit code and output")
        check(bad in err and want in err and "\x1b" not in err and err.count("\n") == 1, f"{name}: message", err)
    code, _, err = vramtap("diff", good, scratch("none"))
    check(code == NOTHING and "No such file" in err, "a file that does not exist", err)


def watch_steps(job, looks, *args, expect=COMPLETE, until=()):
    """What vramtap watch --grow says of a job that makes five steps after each look: on a machine that is busy, too, the saw-tooth goes
    up and down from look to look. And there some looks cannot compare variables: the last of so many names one of until, but for
    three times as many looks at most."""
    with subprocess.Popen([VRAMTAP, "watch", "--grow", "--every=1s", *args, str(job.pid)], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE) as watch:
        lines = [watch.stdout.readline().decode() for _ in range(2)]
        while len(lines) < looks + 1 or (until and len(lines) < 3 * looks and not any(name in lines[-1] for name in until)):
            job.do("step 5")
            lines.append(watch.stdout.readline().decode())
        watch.send_signal(signal.SIGINT)
        out, err = watch.communicate(timeout=60)
        equal(watch.returncode, expect, f"exit code {err} {lines} {out}")
    if until and "Grows, held by" not in out.decode() and any("Variables are not compared" in line for line in lines):
        raise Skip("the machine is so busy that variables could not be compared, and watch says so")
    return "".join(lines) + out.decode()


class Holding(Nursed):
    """torch_grow_owners.py"""

    def __init__(self, *leaks):
        super().__init__(versions()[-1], [OWNERS_TARGET, *leaks], ready="ready",
                         env=dict(os.environ, SIMCUDA_DEVICES="1", SIMCUDA_MEM_MB="512"))

    def truth(self):
        path = scratch("truth")
        self.do(f"truth {path}")
        with open(path, encoding="utf-8") as file:
            return json.load(file)

    def save(self, *args):
        path = scratch("report.json")
        report(self.pid, "--json", path, *args, expect=COMPLETE)
        return path


LEAKS = ("losses", "answers", "past")


def held(data, variable):
    """(bytes, blocks) before and after of all that a variable holds."""
    found = [o for o in data["owners"] if o["variable"] == variable]
    return [tuple(sum(o[side][what] for o in found) for what in ("bytes", "blocks")) for side in ("before", "after")]


def test_diff_names_the_owners():
    with Holding(*LEAKS) as job:
        truth, first = job.truth(), job.save()
        job.do("step 20")
        later, second = job.truth(), job.save()
        data = diff_json(first, second)
        equal(data["owners_compared"], "compared", "owners")
        for name in LEAKS:
            equal([held_bytes for held_bytes, _ in held(data, name)], [truth[name]["bytes"], later[name]["bytes"]], f"bytes of {name}")
        for name in ("answers", "past"):
            equal([blocks for _, blocks in held(data, name)], [truth[name]["items"], later[name]["items"]], f"blocks of {name}")
        equal(data["headlines"][0]["text"], "answers grew from 3 to 23 tensors, +1.34 MiB: other Python variables, through answers[*]",
              "headline")
        loss = next(o for o in data["owners"] if o["variable"] == "losses" and o["category"] == "activation")
        equal(loss["path"], "losses[*]", "what the graph is held by")
        grown = sum(o["change_bytes"] for o in data["owners"])
        equal(grown, data["devices"][0]["allocated"]["change_bytes"], "change of all owners, and what is in use")
        equal(grown, sum(c["change_bytes"] for c in data["categories"]), "change of all categories")
        # What trains is the same: model, optimizer and gradients.
        for o in data["owners"]:
            if o["category"] in ("parameter", "optimizer", "gradient"):
                equal(o["change_bytes"], 0, f"{o}")
        job.do("forget")
        third = job.save()
        gone = diff_json(second, third)["owners"][-1]
        equal((gone["variable"], gone["after"]["blocks"], gone["before"]["blocks"]), ("answers", 0, 23), "what is gone")
        for width in (80, 160):
            _, out, _ = vramtap("diff", "--width", str(width), second, third, expect=COMPLETE)
            check(max(len(line) for line in out.splitlines()) <= width, "a line is too wide", out)
            check(re.search(r"^  answers .* 23 → 0\n    gone: other Python variables", out, re.M), "what is gone", out)
        without = job.save("--no-owners")
        for pair, state, which in (((without, third), "read-after-only", "second"), ((third, without), "read-before-only", "first")):
            data = diff_json(*pair)
            equal((data["owners_compared"], data["owners"], data["categories"]), (state, [], []), "one without owners")
            check(any(n["code"] == "owners-in-one" and which in n["text"] for n in data["notes"]), "not said", data["notes"])
        equal(diff_json(without, without)["owners_compared"], "not-read", "none with owners")


ATTRIBUTE = "job.history in main (torch_grow_owners.py)"


def told(data, code):
    return [h["text"] for h in data["headlines"] if h["code"] == code]


def test_diff_names_an_attribute():
    """What is beside it in the same object comes and goes: it is another owner."""
    with Holding("history") as job:
        truth, first = job.truth()["history"], job.save()
        job.do("step 20")
        later, second = job.truth()["history"], job.save()
        data = diff_json(first, second)
        equal(held(data, ATTRIBUTE), [(truth["bytes"], truth["items"]), (later["bytes"], later["items"])], "the attribute")
        check(told(data, "owner")[0].startswith(f"{ATTRIBUTE} grew from 3 to 23 tensors, +"), "headline", data["headlines"])
        equal(held(data, ATTRIBUTE.replace("history", "recent"))[0][1], 3, "the other attribute")


def test_diff_of_what_has_no_name():
    with Holding("raw", "answers") as job:
        truth, first = job.truth(), job.save()
        job.do("step 20")
        later, second = job.truth(), job.save()
        data = diff_json(first, second)
        grown = later["raw"]["bytes"] - truth["raw"]["bytes"]
        found = next(o for o in data["owners"] if o["category"] == "unknown")
        equal((found["variable"], found["change_bytes"], found["change_blocks"]), (None, grown, 20), "the owner")
        equal(next(c["change_bytes"] for c in data["categories"] if c["category"] == "unknown"), grown, "the category")
        equal([h["code"] for h in data["headlines"]], ["unnamed", "owner", "in-use"], "headlines")
        check(data["headlines"][0]["text"].startswith("blocks that nobody was found for: +"), "what grew most", data["headlines"])
        check(data["headlines"][1]["text"].startswith("answers grew from 3 to 23"), "what has a name", data["headlines"])


def test_diff_of_a_steady_job():
    """It goes up and down within 8 steps. What it holds by another name afterwards has not grown."""
    with Holding("answers") as job:
        job.do("step 5")
        first = job.save()
        job.do("rename")
        second = job.save()
        data = diff_json(first, second)
        equal([h["code"] for h in data["headlines"]], ["in-use"], "what has another name grew")
        renamed = next(o for o in data["owners"] if o["variable"] == "renamed")
        equal(renamed["renamed"], renamed["after"], "what had another name")
        equal((renamed["after"]["blocks"], renamed["before"]["blocks"]), (8, 0), "blocks")
        _, out, _ = vramtap("diff", first, second, expect=COMPLETE)
        check("8 may have had another name before" in " ".join(out.split()), "not said", out)
    with Holding() as job:
        job.do("step 8")
        first = job.save()
        job.do("step 16")
        data = diff_json(first, job.save())
        equal((told(data, "owner"), told(data, "unnamed")), ([], []), "something grew")
        equal(sum(abs(o["change_bytes"]) for o in data["owners"]), 0, "change of owners")


def edited(path, edit):
    """A saved report in which something else is said of owners."""
    with open(path, encoding="ascii") as file:
        data = json.load(file)
    edit(data)
    path = scratch("edited.json")
    with open(path, "w", encoding="ascii") as file:
        json.dump(data, file)
    return path


def without_owners(data):
    """As vramtap 0.1.0 wrote it."""
    def forget(what):
        if isinstance(what, dict):
            what.pop("owner", None)
            what.pop("owners", None)
        for part in what.values() if isinstance(what, dict) else what if isinstance(what, list) else ():
            forget(part)
    forget(data)


def test_diff_of_owners_that_cannot_be_compared():
    with Holding("answers") as job:
        first = job.save()
        job.do("step 5")
        second = job.save()
    old = edited(first, without_owners)
    data = diff_json(old, second)
    equal((data["owners_compared"], data["owners"], told(data, "owner")), ("read-after-only", [], []), "an old report")
    check(data["devices"][0]["allocated"]["change_bytes"] > 0, "what can be compared", data["devices"])
    equal(diff_json(old, edited(second, without_owners))["owners_compared"], "not-read", "two old reports")
    partial = {"whole": False, "bound": "time"}, {"whole": False, "bound": "asked", "asked": True}
    for changes, notes in ((partial[0], ["owners-not-whole"]), (partial[1], ["owners-asked-in-one"])):
        for pair in ((edited(first, lambda d, c=changes: d["owners"].update(c)), second),
                     (first, edited(second, lambda d, c=changes: d["owners"].update(c)))):
            data = diff_json(*pair)
            equal([n["code"] for n in data["notes"] if n["code"].startswith("owners")], notes, "notes")
            equal(told(data, "owner"), [], "what may have been there before")
    asked = [edited(path, lambda d: d["owners"].update(partial[1])) for path in (first, second)]
    data = diff_json(*asked)
    check(told(data, "owner")[0].startswith("answers grew from 3 to 8 tensors"), "both were asked", data["headlines"])
    check(not any(n["code"].startswith("owners") for n in data["notes"]), "notes", data["notes"])

    def doubt(report_data):
        for block in report_data["pytorch"]["allocators"][0]["segments"]:
            for b in block["blocks"]:
                if b.get("owner", {}).get("variable") == "answers":
                    b["owner"]["certain"] = False
    data = diff_json(first, edited(second, doubt))
    check(told(data, "owner")[0].endswith("; perhaps others hold it, too"), "told as certain", data["headlines"])


def test_watch_names_the_owner_that_grows():
    with Holding(*LEAKS) as job:
        out = watch_steps(job, 11, "--width=120", until=LEAKS)
        table = out.partition("Grows, held by")[2].partition("\n\n")[0]
        names = re.findall(r"^  (\S+) .* → ", table, re.M)
        equal(sorted(set(names)), sorted(LEAKS), f"what grows {out}")
        check("activations held by a graph, through losses[*]" in table, "the graph", out)
        check("job." not in table, "what comes and goes", out)
        check(re.search(r"^answers grew from \d+ to \d+ tensors, .* it never shrank in \d+ looks", out, re.M), "the answer", out)


def test_watch_names_an_attribute():
    with Holding("history", "raw") as job:
        out = watch_steps(job, 9, "--width=120", until=[ATTRIBUTE])
        table = out.partition("Grows, held by")[2].partition("\n\n")[0]
        equal(re.findall(r"^  (\S.*?)  .* → ", table, re.M), [ATTRIBUTE], f"what grows {out}")
        check("variables of running functions, through job.history[*]" in table, "how it is held", out)


def test_watch_names_nothing_that_is_steady():
    with Holding() as job:
        for args, stopped in (((), True), (("--no-owners",), False)):
            out = watch_steps(job, 9, "--width=120", *args, expect=NO_EVENT)
            check("held by" not in out and "Nothing grows" in out, "something grows", out)
            if stopped:
                check("were stopped for" in " ".join(out.split()), "owners were not read", out)


def test_watch_names_the_place_that_grows():
    with Growing("--record") as job:
        then = scratch("then.json")
        before = job.save()
        out = watch_steps(job, 6, "--then", then, "--width=120")
        summary = out.partition("Grows, allocated by")[2]
        check(re.search(r"^  leak +torch_grow.py:%d +\+" % line_of("leak"), summary, re.M), "the leak is not named", out)
        check("saw_tooth" not in summary and "anew" not in summary and "1 place grows" in summary, "what does not grow", out)
        check("no thread was stopped" in " ".join(summary.split()) or "were stopped for" in summary, "what it cost", out)
        with open(then, encoding="ascii") as file:
            saved = json.load(file)
        check_schema(saved)
        advice = next(a for a in saved["advice"] if a["rule"] == "growth")
        evidence, grown = advice["evidence"], saved["growth"]
        check(advice["alarm"] and "memory grows" in out, "the advice", advice, out)
        seconds = int(grown["seconds"])
        equal(evidence["during_seconds"], seconds, "seconds")
        if "full_seconds" in evidence:
            rate = evidence["grown_bytes"] / grown["seconds"]
            check(abs(evidence["full_seconds"] - evidence["room_bytes"] / rate) <= 2, "when it is full", advice)
            check("full in about" in out, "the text", out)
        data = diff_json(before, then, expect=(COMPLETE, PARTIAL))
        check(by_function(data)["leak"]["change_blocks"] > 0, "the report of --then", data["sites"])
        equal(data["owners_compared"], "compared", "owners of --then")


def outside(out):
    """The lines that watch says grow outside PyTorch: (label, GiB or MiB)."""
    return re.findall(r"^  (\S.*?)  +\+([0-9.]+ \wiB)", out.partition("Grows, outside PyTorch")[2].partition("\n\n")[0], re.M)


def test_watch_names_what_grows_outside():
    """A leak of the driver's memory beside PyTorch, whose own does not grow."""
    with Growing("--steady", "--raw") as job:
        then = scratch("then.json")
        out = watch_steps(job, 8, "--then", then, "--width=120")
        equal([label for label, _ in outside(out)], ["raw cudaMalloc, unattributed on GPU 0"], out)
        check("allocated by" not in out and "held by" not in out, "what does not grow", out)
        words = " ".join(out.split())
        check(re.search(r"unattributed on GPU 0 \+\S+ MiB in \d+ s \(\+\S+ MiB/s\), outside PyTorch\.", words), "the answer", out)
        check(f"vramtap record {job.pid} on" in words, "how to go on", out)
        with open(then, encoding="ascii") as file:
            data = json.load(file)
        check_schema(data)
        equal([(g["by"], g["line"], g["device"]) for g in data["growth"]["grows"]], [("line", "device_memory", 0)], "growth in JSON")
        grown = data["growth"]["grows"][0]
        equal(grown["grown_bytes"], grown["after_bytes"] - grown["before_bytes"], "change")
        equal(grown["grown_bytes"] // (2 << 20), grown["after_blocks"] - grown["before_blocks"], "each leak is a page")
        raw = [r for r in data["ledger"]["ranges"] if r["kind"] == "device" and not r["claimed_bytes"]]
        equal(len(raw), grown["after_blocks"], "the last look's list")


def test_watch_names_both():
    with Growing("--record", "--raw") as job:
        out = watch_steps(job, 8, "--width=120")
        equal([label for label, _ in outside(out)], ["raw cudaMalloc, unattributed on GPU 0"], out)
        check(re.search(r"^  leak +torch_grow.py:", out.partition("Grows, allocated by")[2], re.M), "PyTorch's leak", out)


def test_watch_is_healthy():
    """Nothing is named; read-only, no code runs in the process, and what is outside is not compared."""
    with Growing("--steady") as job:
        out = watch_steps(job, 8, "--width=120", expect=NO_EVENT)
        check("and no memory outside PyTorch does" in " ".join(out.split()), "both were compared", out)
        check("a thread was borrowed in" in " ".join(out.split()), "the cost", out)
    with Growing("--steady", "--raw") as job:
        out = watch_steps(job, 8, "--width=120", "--read-only", expect=NO_EVENT)
        check("outside" not in out and "borrowed" not in out, "code ran in the process", out)


def test_watch_without_recording_and_its_end():
    with Growing() as job:
        with subprocess.Popen([VRAMTAP, "watch", "--grow", "--every=1s", str(job.pid)], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE) as watch:
            lines = [watch.stdout.readline().decode() for _ in range(4)]
            check("No backtraces are recorded" in lines[0], "not said that nothing is recorded", lines)
            time.sleep(1.5)
            watch.send_signal(signal.SIGINT)
            out, err = watch.communicate(timeout=20)
            equal(watch.returncode, NO_EVENT, f"exit code after an interrupt {err}")
            check("Too few looks" in out.decode() or "Nothing grows" in out.decode(), "no summary", out)
        with subprocess.Popen([VRAMTAP, "watch", "--grow", "--every=1s", str(job.pid)], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE) as watch:
            watch.stdout.readline()
            time.sleep(0.5)
            job.proc.kill()
            job.proc.wait()
            out, err = watch.communicate(timeout=20)
            equal(watch.returncode, NO_EVENT, f"exit code after the end of the process {err}")
            check("The process ended." in out.decode(), "the end is not said", out)
    equal(vramtap("watch", "--grow", str(job.pid))[0], NOTHING, "a process that is gone")


RESTLESS = """
import os, threading, time, torch

def restless():
    while True:
        torch.empty(8 << 20, dtype=torch.uint8, device="cuda")
        torch.cuda.empty_cache()

kept = torch.empty(1 << 20, dtype=torch.uint8, device="cuda")
for _ in range(2):
    threading.Thread(target=restless, daemon=True).start()
print(f"READY pid={os.getpid()}", flush=True)
time.sleep(600)
"""


def test_watch_is_bounded():
    """Where a ledger never is of one moment it is asked for no more often than the man page says: five times, then at every fourth look."""
    with Job([*simulated_python(versions()[-1]), "-c", RESTLESS],
             env=dict(os.environ, SIMCUDA_DEVICES="1", SIMCUDA_MEM_MB="512")) as job:
        done = subprocess.run([VRAMTAP, "watch", "--grow", "--every=1s", "--timeout=14s", "--no-owners", str(job.pid)], capture_output=True,
                              text=True, timeout=120, check=False)
        words = " ".join(done.stdout.split())
        looks = int(re.search(r"(\d+) looks?[,.]", words)[1])
        borrowed = re.search(r"borrowed in (\d+) looks", words)
        print(f"{looks} looks, of which {borrowed and borrowed[1]} ran code in the process")
        check(looks >= 8, "looks", done.stdout)
        check(borrowed and 0 < int(borrowed[1]) <= 5 + (looks - 5 + 3) // 4, "looks that ran code in the process", done.stdout)


def without_pidfd():
    """In a child: as if the kernel were older than 5.3."""
    code = struct.pack("HBBI" * 4, 0x20, 0, 0, 0, 0x15, 0, 1, 434, 0x06, 0, 0, 0x00050000 | errno.ENOSYS, 0x06, 0, 0, 0x7fff0000)
    program = ctypes.create_string_buffer(code)
    header = ctypes.create_string_buffer(struct.pack("HxxxxxxP", 4, ctypes.addressof(program)))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, header, 0, 0):
        os._exit(99)


def process_with_number(pid):
    """A process that is given this number again."""
    for _ in range(300):
        try:
            with open("/proc/sys/kernel/ns_last_pid", "w", encoding="ascii") as file:
                file.write(str(pid - 1))
        except OSError:
            raise Skip("needs root, who may choose numbers") from None
        proc = subprocess.Popen(["sleep", "100"])
        if proc.pid == pid:
            return proc
        proc.kill()
        proc.wait()
    raise Skip("no process got the number again")


def test_watch_notices_another_process():
    """The number is another process's by the time of a look, on a kernel without pidfd_open()."""
    with Growing() as job, subprocess.Popen([VRAMTAP, "watch", "--grow", "--every=1s", "--no-owners", "--timeout=20s", str(job.pid)],
                                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=without_pidfd) as watch:
        for _ in range(3):
            check(watch.stdout.readline(), "the looks", watch.poll())
        job.proc.kill()
        job.proc.wait()
        other = process_with_number(job.pid)
        try:
            out, err = watch.communicate(timeout=60)
        finally:
            other.kill()
            other.wait()
        check("The process ended." in out.decode() and "not read" not in out.decode(), "what it says", out.decode(), err)


def test_watch_waits_for_cuda():
    """A process that does not use CUDA yet: what is waited for is said once."""
    with target(["sleep", "60"]) as job:
        code, out, _ = vramtap("watch", "--grow", "--every=1s", "--timeout=4s", str(job.pid))
        equal((code, out.count("waiting, nothing to compare yet: "), "not read" in out), (NOTHING, 1, False), out)


def test_folded_is_what_is_allocated():
    with Growing("--record") as job:
        job.do("step 2")
        truth = job.truth()
        for args in ((), ("--read-only",)):
            _, out, _ = report(job.pid, "--folded", "-", *args, expect=COMPLETE)
            sums = {}
            for line in out.splitlines():
                stack, _, size = line.rpartition(" ")
                older = stack.startswith("[older than the recording];")
                name = "" if older else stack.rpartition(";")[2].partition(" (")[0].split(".")[0]
                sums[name] = sums.get(name, 0) + int(size)
                check(name == "" or ";step (torch_grow.py:" in stack, "frames, outermost first", line)
            equal(sums, {name: size for name, (size, _) in truth.items()}, "bytes of each place")
        path = scratch("folded")
        _, text, _ = report(job.pid, "--folded", path, expect=COMPLETE)
        with open(path, encoding="ascii") as file:
            equal(len(file.read().splitlines()), len(out.splitlines()), "lines of a file")
        check("Allocated by" in text, "the text is there as well", text)


if __name__ == "__main__":
    main(globals())
