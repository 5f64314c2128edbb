#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Pages of what changed: of vramtap diff, of watch --grow, and of several reports. Their figures are those of the JSON."""
import json
import os
import re
import signal
import subprocess
import time

from browser import Browser
from harness import COMPLETE, NOTHING, SOURCE, USAGE, VRAMTAP, check, equal, main, scratch, target, vramtap, wait_until
from report_torch import RUN_SIM, versions

PROGRAM = os.path.join(SOURCE, "tests", "targets", "torch_grow_owners.py")


def load(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def take_steps(process, n):
    process.stdin.write(f"step {n}\n".encode())
    process.stdin.flush()
    process.stdout.readline()


def make():
    """Two reports of a process that grows, and what watch says of it in between."""
    files = {name: scratch(name) for name in ("before.json", "after.json", "watched.json", "watched.html")}
    with target(["sh", RUN_SIM, versions()[-1], "--", "python", PROGRAM, "losses", "answers"], ready="ready") as process:
        take_steps(process, 50)
        vramtap("report", str(process.pid), "--json", files["before.json"], "-q", expect=COMPLETE)
        looks = scratch("looks")
        with open(looks, "wb") as out, subprocess.Popen(
                [VRAMTAP, "watch", "--grow", str(process.pid), "--every", "1s", "--timeout", "120s", "--then", files["watched.json"],
                 "--html", files["watched.html"]], stdout=out) as watch:
            def looked():
                take_steps(process, 10)
                time.sleep(0.2)
                with open(looks, encoding="utf-8") as file:
                    return len(re.findall(r"^\d\d:\d\d:\d\d .*[KMG]iB", file.read(), re.M)) >= 6
            wait_until(looked, 100, "six looks")
            watch.send_signal(signal.SIGINT)
            watch.wait(60)
        vramtap("report", str(process.pid), "--json", files["after.json"], "-q", expect=COMPLETE)
    return files


def rows(browser, caption):
    """The rows of the table with this caption, in full."""
    browser.run("""for (const table of document.querySelectorAll("table"))
        if (table.caption && table.caption.textContent === arguments[0])
            for (let i = 0; i < 50 && !table.nextSibling.hidden; i++) table.nextSibling.click()""", caption)
    return browser.run("""return Array.from(document.querySelectorAll("table")).filter((table) => table.caption &&
        table.caption.textContent === arguments[0]).flatMap((table) => Array.from(table.tBodies[0].rows, (row) =>
        Array.from(row.cells, (cell) => cell.textContent)))""", caption)


def bytes_of(browser, number):
    return browser.run("return vt.bytes(arguments[0])", number)


def check_diff(browser, files):
    page, json_file = scratch("diff.html"), scratch("diff.json")
    vramtap("diff", files["before.json"], files["after.json"], "--html", page, "--json", json_file, expect=COMPLETE)
    diff = load(json_file)
    code, out, _ = vramtap("diff", files["before.json"], files["after.json"], "--html", "/nonexistent/page.html")
    equal(code, NOTHING, "the page cannot be written")
    check("GPU 0" in out, "the text is there all the same:", out)
    browser.open(page)
    browser.show_all()
    browser.shot("diff")
    answer = browser.text(".answer li")
    for line in diff["headlines"]:
        check(any(line["text"] in shown for shown in answer), "a headline:", line["text"], answer)
    shown = {(row[0], row[1]): row for row in rows(browser, "Held by")}
    check(len(diff["owners"]) >= 3, "owners:", diff["owners"])
    for owner in diff["owners"]:
        words = browser.run("return vt.words('category', arguments[0])", owner["category"])
        equal(shown[owner["path"] or owner["variable"], words][2:4],
              [bytes_of(browser, owner[side]["bytes"]) for side in ("before", "after")], "an owner's bytes")
    equal(len(rows(browser, "GPU 0")) > 2, True, "rows of the device")
    before, after = load(files["before.json"]), load(files["after.json"])
    for name, report in (("before", before), ("after", after)):
        button = next(one for one in browser.elements("#reports .tools button") if one.text.startswith(name))
        button.click()
        browser.settle()
        equal(button.get_attribute("aria-pressed"), "true", "the button is pressed")
        blocks = sum(len(s["blocks"]) for a in report["pytorch"]["allocators"] for s in a["segments"])
        equal(browser.run("return vt.current.blocks.n"), blocks, f"blocks {name}")
    browser.check_quiet()


def check_watched(browser, files):
    browser.open(files["watched.html"])
    browser.show_all()
    browser.shot("watched")
    growth = load(files["watched.json"])["growth"]
    check(growth["courses"], "there are courses")
    for course in growth["courses"]:
        equal(course["seconds"], sorted(course["seconds"]), "seconds ascend")
        for line in course["lines"]:
            equal(len(line["bytes"]), len(course["seconds"]), "an amount a point")
    for item in growth["grows"]:
        course = next(one for one in growth["courses"] if one["by"] == item["by"])
        line = next(one for one in course["lines"] if one["label"] == item["label"] and one["device"] == item["device"])
        equal((line["bytes"][0], line["bytes"][-1], line["grows"]), (item["before_bytes"], item["after_bytes"], True), item["label"])
    sizes = next(one for one in growth["courses"] if one["by"] == "size")
    shown = {row[0].replace(" grows", ""): row for row in rows(browser, "By size of the blocks")}
    for line in sizes["lines"]:
        if any(line["bytes"]):
            equal(shown[line["label"]][1:3], [bytes_of(browser, line["bytes"][i]) for i in (0, -1)], line["label"])
    check(len(sizes["seconds"]) >= 3, "points:", sizes["seconds"])
    canvas = browser.element("#course canvas")
    canvas.send_keys("\ue014")  # arrow right
    browser.settle()
    check(bytes_of(browser, sizes["sums"][0]) in browser.text("#told")[0], "the first point is told:", browser.text("#told"))
    browser.check_quiet()


def check_reports(browser, files):
    page = scratch("reports.html")
    vramtap("html", files["after.json"], files["before.json"], files["watched.json"], "-o", page, expect=COMPLETE)
    browser.open(page)
    browser.show_all()
    browser.shot("reports")
    reports = sorted((load(files[name]) for name in ("before.json", "watched.json", "after.json")), key=lambda one: one["time"])
    equal([row[3] for row in sorted(rows(browser, "Reports"), key=lambda row: row[1])],
          [bytes_of(browser, sum(a["totals"]["allocated"]["bytes"] for a in one["pytorch"]["allocators"])) for one in reports], "in use")
    kinds = {c["category"] for one in (reports[0], reports[-1]) for c in one["owners"]["categories"] if c["bytes"]}
    words = set(browser.run("return arguments[0].map((code) => vt.words('category', code))", sorted(kinds)))
    check(words <= {row[0] for row in rows(browser, "By category")}, "categories:", words)
    browser.elements("#all tbody tr")[0].click()
    browser.settle()
    browser.check_quiet()


def test_pages():
    files = make()
    with Browser() as browser:
        check_watched(browser, files)
        check_diff(browser, files)
        check_reports(browser, files)


def test_usage():
    saved = scratch("none.json")
    vramtap("diff", "-", saved, "--html", "x.html", expect=USAGE)
    vramtap("watch", "--grow", "--html", "-", "1", expect=USAGE)
    vramtap("watch", "--grow", "--html", "x.html", "1", "2", expect=USAGE)


if __name__ == "__main__":
    main(globals())
