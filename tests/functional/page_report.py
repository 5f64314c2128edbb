#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The page of a report in a real browser: it needs no network, says what the JSON says, and hostile texts stay text."""
import copy
import errno
import json
import os
import re
import sys

from browser import Browser, documents
from harness import COMPLETE, NOTHING, SOURCE, USAGE, check, equal, main, scratch, target, vramtap
from report_torch import RUN_SIM, versions

HOSTILE = "</script><script>document.title='taken'</script><!-- \x1b[31m \u202e & \" '"
VICTIM = f"""
import time
def hostile():
    time.sleep(10000)
hostile.__code__ = hostile.__code__.replace(co_name={HOSTILE!r} + "x" * 10000)
print("READY", flush=True)
hostile()
"""


def saved(pid, *args):
    """A report of one moment as JSON and as a page."""
    page, json_file = scratch("page.html"), scratch("report.json")
    vramtap("report", str(pid), "--html", page, "--json", json_file, "-q", *args)
    return page, json_file


EVIL = "abc\u202e\u2066\u061c789\x1b[2J"
MIB = 1 << 20


def block(address, size, state, name=None):
    one = {"address": hex(address), "bytes": size, "state": state, "requested_bytes": size}
    if state == "allocated":
        one["owner"] = {"category": "constructor", "name": name, "certain": True, "variable": "__proto__", "module": None, "type": "Tensor"}
    return one


def memory_of_all_states(report):
    """Puts an allocator in the report of a process without one: a block of each state, one with a hostile name."""
    blocks = [block(1 << 30, MIB, "allocated", EVIL), block((1 << 30) + MIB, MIB, "awaiting-free"),
              block((1 << 30) + 2 * MIB, 2 * MIB, "cached")]
    segment = {"address": hex(1 << 30), "bytes": 4 * MIB, "stream": "0x0", "pool": "large", "private_pool": None, "expandable": False}
    empty = {**segment, "address": hex(1 << 31), "stream": "0x7", "blocks": []}
    amount = {"bytes": MIB, "blocks": 1}
    none = {"bytes": 0, "blocks": 0}
    totals = {"segments": 2, "reserved_bytes": 8 * MIB, "allocated": amount, "awaiting_free": amount, "cached": amount,
              "largest_cached_bytes": 2 * MIB, "requested_bytes": MIB, "rounding_bytes": 0, "everything_else_bytes": None,
              "private_pools": {"bytes": 0, "allocated": none, "cached": none}}
    report["pytorch"] = {"method": "outside", "collectives": None, "allocators": [
        {"device": 0, "result": "complete", "why": None, "totals": totals, "statistics": None, "groups": [],
         "segments": [{**segment, "blocks": blocks}, empty]}]}
    report["cuda"] = {"method": "outside", "usage": None, "devices": [
        {"ordinal": 0, "name": "GPU", "uuid": None, "context_active": True, "memory": None, "memory_pools": None, "why_no_memory": EVIL}]}
    return report


def page_with(page, *reports):
    """The page with other documents."""
    with open(page, encoding="utf-8") as file:
        text = file.read()
    changed, place = scratch("changed.html"), re.compile(r'(<script [^>]*class="vramtap-document"[^>]*>).*?</script>', re.DOTALL)
    with open(changed, "w", encoding="utf-8") as file:
        file.write(place.sub(lambda found: "".join(found[1] + json.dumps(report).replace("<", "\\u003c") + "</script>"
                                                   for report in reports), text, count=1))
    return changed


def figures(browser, tab):
    """Rows of a table of the segments, by its headings."""
    browser.run("""Array.from(document.querySelectorAll("#segments button")).find((one) => one.textContent === arguments[0]).click()""", tab)
    return browser.run("""const table = document.querySelector("#segments .scrolls table"), text = (one) => one.textContent;
        const heads = Array.from(table.querySelectorAll("th"), text);
        return Array.from(table.querySelectorAll("tbody tr"), (row) => Object.fromEntries(Array.from(row.cells, (cell, i) =>
            [heads[i], cell.textContent])))""")


def check_states(browser, page, report):
    browser.open(page_with(page, report))
    browser.show_all()
    first, other = sorted(figures(browser, "Segments"), key=lambda row: row["stream"], reverse=True)
    equal([first[name] for name in ("in use", "share", "free", "awaiting free")], ["1.00 MiB", "25 %", "2.00 MiB", "1.00 MiB"], "figures")
    equal(other["in use"], "0 B", "the segment without blocks")
    browser.run("document.querySelectorAll('#segments tbody tr').forEach((row) => row.click())")
    equal(browser.run("""return Array.from(document.querySelectorAll("body :not(script)"), (one) => one.textContent).filter((text) =>
        /[\\u202e\\u2066\\u061c\\x1b]/.test(text)).slice(-1)"""), [], "controls in the page")
    check("abc\\xe2\\x80\\xae" in browser.run("return document.querySelector('#owners').textContent"), "the name is shown, escaped")
    equal(browser.run("return [vt.count(null), vt.percent(undefined, 5), vt.duration(undefined), vt.words('category', 'constructor')]"),
          ["unknown", "unknown", "unknown", "constructor"], "what is not known")
    huge = copy.deepcopy(report)
    for one in huge["pytorch"]["allocators"][0]["segments"][0]["blocks"]:
        one.update(state="allocated", bytes=(1 << 62) - one["bytes"])
    equal(browser.run("return Array.from(vt.owned(vt.report(arguments[0])).order).sort()", huge), [0, 1, 2], "items of huge sizes")
    browser.check_quiet()


def check_focus(browser):
    """What is drawn anew keeps the keyboard where it was."""
    browser.run("document.getElementById('segments').vtChoose(0)")
    for way in ("behind it", "behind it", "before it"):
        at = browser.run("""const button = document.querySelector(`#segments [data-way="${arguments[0]}"]`); button.focus(); button.click();
            return document.activeElement.dataset.way || document.activeElement.className""", way)
        check(at in (way, "panel details"), "the focus after a step:", way, at)
    equal(browser.run("""const table = vt.table([{ title: "n", value: (row) => row }], [1, 2, 3, 4, 5, 6, 7, 8], { limit: 2 });
        document.getElementById("content").append(table.element);
        const more = table.element.querySelector(":scope > button");
        more.focus();
        more.click();
        return [document.activeElement.textContent, table.element.querySelectorAll("tbody tr").length]"""), ["3", 8], "after show more")


def dated(report, minutes, up, **changes):
    report = copy.deepcopy(report)
    report.update(changes, time=f"2026-01-01T00:{minutes:02}:00.5Z")
    report["process"]["uptime_s"] = up
    return report


def column(browser, number):
    return browser.run("return Array.from(document.querySelectorAll('#all tbody tr'), (row) => row.cells[arguments[0]].textContent)", number)


def check_several(browser, page, report):
    """What one of several reports does not know is not 0 over time, and a process with the same number is another one."""
    stopped = copy.deepcopy(report)
    stopped["pytorch"]["allocators"][0].update(totals=None, result="truncated")
    timeless = dated(report, 9, 500)
    timeless.update(time=None)
    browser.open(page_with(page, dated(report, 1, 100), dated(stopped, 2, 161.2), dated(report, 3, 220), timeless))
    browser.show_all()
    equal(sorted(column(browser, 3)), ["1.00 MiB", "1.00 MiB", "1.00 MiB", "unknown"], "in use")
    equal(column(browser, 5), ["unknown"] * 4, "memory of a device that is not known")
    text = browser.run("return document.getElementById('over-time').textContent")
    check("1 report without a time left out" in text, "says so:", text)
    rows = browser.run("""return Array.from(document.querySelectorAll("#over-time tbody tr"), (row) => Array.from(row.cells, (cell) =>
        cell.textContent))""")
    check(["in use by PyTorch", "1.00 MiB", "1.00 MiB", "0 B"] in rows, "first and last", rows)
    check(["used on the devices, by anybody", "unknown", "unknown", "unknown"] in rows, "devices", rows)
    browser.open(page_with(page, dated(report, 1, 100), dated(report, 3, 20)))
    equal(browser.text("h1"), ["2 processes"], "another start")
    check(not browser.elements("#over-time"), "they have no course")


def broken(report, change):
    report = copy.deepcopy(report)
    change(report)
    return report


def no_blocks(report):
    del report["pytorch"]["allocators"][0]["segments"][0]["blocks"]


def no_devices(report):
    del report["cuda"]["devices"]


# What is wrong with the document, and where the page says so.
WRONG = [
    (no_blocks, "1 segment without a list of blocks"),
    (lambda report: report["pytorch"]["allocators"][0]["segments"][0].update(blocks=[None]), "The blocks of memory could not be read"),
    (lambda report: report.update(time=5), "This report could not be shown"),
    (lambda report: report.update(headlines={}), "The answer could not be shown"),
    (no_devices, "Which devices it uses is not known"),
    (lambda report: report.pop("timing"), ""),
    (lambda report: report.update(process=None), "Process could not be shown"),
    (lambda report: report["pytorch"]["allocators"][0]["totals"].pop("private_pools"), "GPU 0 could not be shown"),
    (lambda report: report["pytorch"]["allocators"][0].update(result="unstable"), "blocks may be missing or out of date"),
    (lambda report: report.update(ledger={"whole": False, "pools_known": True, "devices": [
        {"device": 0, "pytorch_known": True, "claimed": {}}]}), "raw cuMemMap, unattributednot knownunknownunknown"),
]


def check_wrong(browser, page, report):
    """A field that is wrong or missing takes away what needs it, and nothing else."""
    for change, says in WRONG:
        browser.driver.get("file://" + page_with(page, broken(report, change)))
        browser.run("dispatchEvent(new Event('beforeprint'))")
        text = browser.run("return document.body.textContent")
        check(says in text, "the page says what is wrong:", says, text[:3000])
        check(browser.run("return document.querySelector('h1').textContent !== '' && document.querySelectorAll('main section').length") >= 3,
              "the rest of the page", says)
    browser.driver.get_log("browser")  # the errors that the page told


def test_hostile_names():
    with target([sys.executable, "-c", VICTIM], ready="READY") as process, Browser() as browser:
        page, json_file = saved(process.pid)
        for path in (page, from_saved(json_file)):
            browser.open(path)
            browser.show_all()
            check("taken" not in browser.driver.title, "a name became a script:", browser.driver.title)
            equal(browser.run("return document.querySelectorAll('script').length"), 3, "scripts in the page")
        equal(documents(page)[0]["process"]["pid"], process.pid, "pid")
        report = memory_of_all_states(documents(page)[0])
        check_kernels(browser, page, documents(page)[0])
        check_streams(browser, page, documents(page)[0])
        check_states(browser, page, report)
        check_focus(browser)
        check_wrong(browser, page, report)
        check_several(browser, page, report)


def check_kernels(browser, page, report):
    """Kernels and faults; names in them stay text."""
    place = {"threads": 704, "pc": "0x7f0000", "offset": None, "file": "/src/net.cu", "line": 5}
    one = {"number": 0, "parent": None, "device": 0, "grid": 2, "status": "Active", "sms": 40, "grid_dim": [40, 2, 1], "block_dim": [128, 1, 1],
           "name": "void at::native::f<int>(int)", "threads": 1500, "places": [place, {**place, "threads": 700}, {**place, "threads": 96, "line": None,
                                                                              "file": None, "offset": 192}], "more_places": 0}
    report["kernels"] = {"state": "told", "why": None, "debugger": "/usr/bin/cuda-gdb", "took_ms": 530.0, "kernels": [one, {**one, "name": HOSTILE,
                                                                              "places": [], "sources": [{"file": "/c/" + HOSTILE, "line": 18}], "sources_whole": True}], "more": 3, "exceptions": [HOSTILE]}
    xid = {"code": 31, "meaning": "GPU memory page fault", "blame": "application", "action": "debug", "owner": "ours", "pid": 7, "name": HOSTILE,
           "pci": "0000:00:06", "device": 0, "times": 2, "first": report["time"], "last": report["time"], "text": HOSTILE}
    report["faults"] = {"state": "read", "why": None, "ms": 1.0, "context_lost": "certain", "xids": [xid, {**xid, "owner": "others"}]}
    browser.open(page_with(page, report))
    browser.show_all()
    check("taken" not in browser.driver.title, "a name became a script:", browser.driver.title)
    rows = browser.text("#kernels tbody tr")
    check(len(rows) == 2 and "at::native::f<…><<<(40, 2), 128>>> on 40 SMs" in rows[0] and "1,404 threads at net.cu:5, 96 at +0xc0" in rows[0], "kernels", rows)
    check("by Triton's cache made from /c/</script>" in rows[1] and rows[1].rstrip().split(":18")[0] != rows[1].rstrip(), "source", rows)
    text = browser.text("#kernels")[0]
    check("cuda-gdb held the process for 530 ms" in text and "3 more" in text and "where the device stopped" in text, "the rest", text)
    equal(len(browser.text("#kernels p.alarm")), 1, "exceptions")
    faults = browser.text("#faults li")
    check(faults[0].startswith("Xid 31 (GPU memory page fault), of this process, on GPU 0, 2 times") and "of another process, pid 7" in faults[1], "faults", faults)
    equal(len(browser.text("#faults li.alarm")), 1, "alarms")
    report["kernels"] = None
    report["faults"]["xids"], report["faults"]["context_lost"] = [], None
    browser.open(page_with(page, report))
    equal(browser.text("#kernels, #faults"), [], "nothing of them where there is nothing")


def check_streams(browser, page, report):
    """Those that may have work by name, the others as a count; why some were not asked."""
    one = {"device": 0, "handle": "0x0", "kind": "default", "priority": None, "number": None, "state": "idle", "looks": ["idle", "idle"], "error": None,
           "bytes": 0, "blocks": 0, "awaiting_free": None, "nccl": None}
    pool = {**one, "kind": "pool", "priority": 0, "number": 3, "handle": "0x5500"}
    asked = {"state": "asked", "tries": 1, "stopped_ms": 0.1}
    streams = [one, {**pool, "number": 1}, {**pool, "state": "busy", "looks": ["busy", "busy"], "bytes": 3 << 20, "blocks": 2, "nccl": True,
                                            "awaiting_free": {"bytes": 96 << 20, "blocks": 2}},
               {**pool, "priority": -1, "state": "moving", "looks": ["busy", "idle"]}, {**one, "kind": "external", "handle": "0x77", "state": "unknown"},
               {**pool, "number": 9, "state": "unknown", "error": 719}, {**pool, "number": 10, "state": "unknown", "looks": ["not-asked", "not-asked"]},
               {**pool, "number": 11, "awaiting_free": {"bytes": 1 << 20, "blocks": 1}}]
    report["streams"] = {"pools_known": True, "looks": [asked, asked], "apart_ms": 8.2, "streams": streams}
    browser.open(page_with(page, report))
    browser.show_all()
    rows = [row.split("\t") for row in browser.text("#streams tbody tr")]
    equal([[cell.strip() for cell in row] for row in rows],
          [["0", "PyTorch stream 3, NCCL's", "busy both times", "0x5500", "3.00 MiB", "96.0 MiB"],
           ["0", "PyTorch stream 3, priority -1", "busy, then idle", "0x5500", "", ""],
           ["0", "another stream", "not asked", "0x77", "", ""], ["0", "PyTorch stream 9", "CUDA error 719", "0x5500", "", ""],
           ["0", "PyTorch stream 11", "idle", "0x5500", "", "1.00 MiB"]], "rows")
    text = " ".join(browser.text("#streams")[0].split())
    for want in ("Asked twice, 8.2 ms apart. Busy both times: the work that was unfinished need not be the same.", "2 others are idle",
                 "Streams that programs and other libraries make are not known."):
        check(want in text, "text", want, text)
    report["streams"] = {**report["streams"], "streams": [one], "apart_ms": None, "looks": [{**asked, "state": "in-driver"}, {**asked, "state": "late"}]}
    browser.open(page_with(page, report))
    browser.show_all()
    text = " ".join(browser.text("#streams")[0].split())
    check("They could not be asked: a thread was, or may have been, inside the CUDA driver at each try; later the CUDA driver did not answer within 5 ms." in text
          and "The one stream that can be asked is idle" in text and "Busy both times" not in text, "not asked", text)
    thrice = [{**pool, "state": "busy", "looks": ["busy"] * 3, "launches_ended": 0},
              {**pool, "number": 4, "state": "moving", "looks": ["busy"] * 3, "launches_ended": 314},
              {**pool, "number": 5, "state": "moving", "looks": ["not-asked", "busy", "idle"], "launches_ended": None}]
    report["streams"] = {**report["streams"], "streams": thrice, "apart_ms": 2041.0, "looks": [asked] * 3}
    browser.open(page_with(page, report))
    browser.show_all()
    equal([row.split("\t")[2].strip() for row in browser.text("#streams tbody tr")],
          ["busy each time; none of its launches is known to have ended between the looks",
           "busy, moving; between the looks 314 of its launches ended", "busy, then idle"], "asked three times")
    text = " ".join(browser.text("#streams")[0].split())
    check("Asked three times in 2.0 s. Busy each time:" in text, "asked three times", text)
    report["streams"]["looks"] = [asked, asked, {**asked, "state": "not-inside"}]
    browser.open(page_with(page, report))
    browser.show_all()
    text = " ".join(browser.text("#streams")[0].split())
    check("After the last look they could not be asked: vramtap could not get inside the process again." in text, "not asked again", text)
    report["streams"] = None
    browser.open(page_with(page, report))
    equal(browser.text("#streams"), [], "nothing of them where there is nothing")


def from_saved(*json_files):
    page = scratch("saved.html")
    vramtap("html", *json_files, "-o", page, expect=COMPLETE)
    return page


def test_the_same_from_the_model_and_from_json():
    release = versions()[-1]
    program = os.path.join(SOURCE, "tests", "targets", "torch_train.py")
    with target(["sh", RUN_SIM, release, "--", "python", program, "--hang=sleep"], ready="READY") as process, Browser() as browser:
        page, json_file = saved(process.pid)
        seen = []
        for path in (page, from_saved(json_file)):
            browser.open(path)
            browser.show_all()
            seen.append(browser.run("""
                const r = vt.current, b = r.blocks, keep = ["address", "bytes", "state", "requested", "owner", "segment", "age", "tid"];
                return [b.n, r.segments, ...keep.map((key) => Array.from(b[key])), Array.from(b.trace, (t) => Math.max(t, -1)),
                    r.owners.name, r.owners.category, r.owners.shape, r.owners.freed_bytes, r.owners.holders.map((h) => h || [])]"""))
        for one, other in zip(*seen):
            equal(one, other, "a page of the model, and one of the JSON")
        check(seen[0][0] > 10, "blocks:", seen[0][0])


def test_usage():
    vramtap("html", expect=USAGE)
    code, _, err = vramtap("html", "/nonexistent.json", "-o", "-")
    equal(code, NOTHING, "exit code")
    check("/nonexistent.json" in err, "names the file:", err)
    wrong = scratch("wrong.json")
    with open(wrong, "w", encoding="ascii") as file:
        file.write('{"schema": "another"}')
    code, _, err = vramtap("html", wrong, "-o", "-")
    equal(code, NOTHING, "exit code")
    check("no report" in err, "says what is wrong:", err)
    for schema in ("report", "stacks", "diff", "triage"):
        with open(wrong, "w", encoding="ascii") as file:
            json.dump({"schema": f"vramtap-{schema}", "schema_version": 2}, file)
        code, _, err = vramtap("html", wrong, "-o", "-")
        equal(code, NOTHING, "exit code")
        check("schema version is 2" in err, "names the version:", err)


def test_a_file_brings_no_columns():
    """A page trusts its columns: they are never those of a saved file."""
    path = scratch("own.json")
    block = {"address": "0x1000", "bytes": 2**53 + 1, "state": "cached"}
    segment = {"address": "0x1000", "blocks": [block], "packed": {"states": ["a"]}}
    for torch in (None, {"allocators": [{"segments": [segment]}]}):
        with open(path, "w", encoding="ascii") as file:
            json.dump({"schema": "vramtap-report", "schema_version": 1, "packed": {"own": 1}, "pytorch": torch}, file)
        document = documents(from_saved(path))[0]
        check("own" not in document.get("packed", {}), "columns of the file:", document)
        equal("packed" in document, torch is not None, "columns")
    kept = document["pytorch"]["allocators"][0]["segments"][0]
    equal(kept, {"address": "0x1000", "blocks": [block]}, "a segment that has no columns")
    code, _, err = vramtap("html", path, "-o", "/dev/full")
    equal(code, NOTHING, "exit code")
    check(os.strerror(errno.ENOSPC) in err, "says why:", err)


if __name__ == "__main__":
    main(globals())
