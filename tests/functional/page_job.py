#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The page of a job in a real browser: what it says is what the JSON and the text say; searches, clicks and keys do what they say."""
import atexit
import functools
import json
import os
import re
import subprocess

from browser import Browser, documents
from core import SANITIZED
from harness import BUILD, COMPLETE, USAGE, Skip, check, equal, main, scratch, vramtap
from triage import fake_job

REPORT_DEMO = os.path.join(BUILD, "tests", "unit", "report", "report_demo")
DEMO = os.path.join(BUILD, "tests", "unit", "job", "job_demo")
HOSTILE = "</script><script>document.title='taken'</script><!-- \x1b[31m \u202e & \" '"


@functools.cache
def shared():
    """One browser for all tests."""
    browser = Browser()
    atexit.register(browser.driver.quit)
    return browser


def made(hang, *numbers):
    """A job made by hand, as triage saves it, and its text."""
    if not os.path.exists(DEMO) or not os.path.exists(REPORT_DEMO):
        raise Skip(f"{DEMO} or {REPORT_DEMO} is not built: make check builds it")
    command = [hang, *map(str, numbers)]
    out = subprocess.run([DEMO, "--json", *command], check=True, stdout=subprocess.PIPE, text=True).stdout
    text = subprocess.run([DEMO, "--columns=500", *command], check=True, stdout=subprocess.PIPE, text=True).stdout
    return json.loads(out), text


def page_of(job, name="report.json"):
    """A page of a job's document."""
    directory = scratch()
    path = os.path.join(directory, name)
    with open(path, "w", encoding="ascii") as file:
        json.dump(job, file)
    vramtap("html", path, expect=COMPLETE)
    return path[:-5] + ".html"


def size(sets):
    return sum(last - first + 1 for first, last in sets)


def squeezed(text):
    return " ".join(text.split())


def counts(job):
    """How many ranks do what."""
    result = {}
    for m in job["members"]:
        if m["role"] == "rank" and m["in_job"]:
            result[m["does"] or "unknown"] = result.get(m["does"] or "unknown", 0) + 1
    return result


# ---- what it says ----

def check_head(browser, job, text):
    chains = browser.run("""return Array.from(document.querySelectorAll(".chain"), (chain) => ({
        links: Array.from(chain.querySelectorAll(".links li > .set"), (one) => one.textContent),
        notes: Array.from(chain.querySelectorAll("p.note"), (one) => one.textContent),
        commands: Array.from(chain.querySelectorAll(".command code"), (one) => one.textContent),
        steps: chain.querySelector(".steps") ? chain.querySelector(".steps").innerText : "" }))""")
    causes = job["found"]["causes"]
    equal([chain["links"] for chain in chains], [[link["text"] for link in cause["links"]] for cause in causes][:3], "chains")
    said = squeezed(text)
    for chain, cause in zip(chains, causes):
        equal(chain["commands"], [step["command"] for step in cause["remedy"]["steps"] if step["command"]], "commands")
        for step in cause["remedy"]["steps"]:
            check(step["text"] in chain["steps"], "the step is not there:", step, chain["steps"])
        for note in chain["notes"]:
            check(note in said, "the text does not say it:", note)
        equal(len(chain["notes"]), cause["circle"] + (not cause["certain"]) + bool(cause["remedy"]["host"] and len({m["host"] for m in job["members"]}) > 1),
              "notes")
    equal(browser.run("return Array.from(document.querySelectorAll('.verdicts li > .set'), (one) => one.textContent)"),
          [verdict["text"] for verdict in job["found"]["verdicts"]][:8], "verdicts")
    equal(len(browser.elements(".verdicts li.alarm")), sum(v["alarm"] for v in job["found"]["verdicts"][:8]), "alarms")
    facts = browser.run("return Array.from(document.querySelectorAll('#head > .facts span'), (one) => one.textContent)")
    for fact in facts:
        check(fact in said, "the text does not say it:", fact, text[:300])


def check_states(browser, job):
    said = dict(browser.run("""return Array.from(document.querySelectorAll("#job-ranks .legend button"), (one) => [one.innerText.trim(), one.innerText])
        .map(([text]) => [text.replace(/ [0-9,]+$/, ""), Number(text.replace(/^.* /, "").replace(/,/g, ""))])"""))
    names = dict(browser.run("return vt.jobStates.map(([name, words]) => [words, name])"))
    equal({names[words]: n for words, n in said.items()}, counts(job), "states of the ranks")


def check_sets(browser, job):
    """Names of sets are those of the text."""
    tree = job["found"]["tree"]
    if tree:
        shown = dict(browser.run("""return Array.from(document.querySelectorAll("#job-stacks li[data-node]"), (one) =>
            [one.dataset.node, one.querySelector(".set").textContent])"""))
        for number, text in shown.items():
            n = int(re.search(r"\[([0-9,]+)\]$", text).group(1).replace(",", ""))
            equal(n, size(tree[int(number)]["members"]), f"members of node {number}")


def check_memory(browser, job, text):
    """Least, median and most as the text has them."""
    rows = browser.run("""return Array.from(document.querySelectorAll("table.spread tbody tr"), (row) =>
        [row.cells[0].textContent, ...Array.from(row.cells).slice(1, 4).map((cell) => cell.textContent)])""")
    said = squeezed(text)
    for row in rows[:3]:
        line = " ".join([row[0], *(re.sub(r"\((rank )?", "(", cell) for cell in row[1:])])
        check(line in said, "the text does not say it:", line)


def test_made_jobs():
    """Each kind of hang: head, states, stacks and memory as JSON and text have them."""
    kinds = [("loader", 64, 4, 17), ("oom", 16, 0, 3), ("sequences", 16, 0, 5), ("killed", 24, 1, 9), ("unreadable", 16, 0, 2), ("outsider", 8, 0, 1),
             ("imbalance", 16, 0, 4), ("activations", 16, 0, 4), ("none", 2, 0, 0), ("different", 16, 0, 6)]
    browser = shared()
    for hang, *numbers in kinds[:3] if SANITIZED else kinds:
        job, text = made(hang, *numbers)
        browser.open(page_of(job))
        browser.show_all()
        check_head(browser, job, text)
        check_states(browser, job)
        check_sets(browser, job)
        check_memory(browser, job, text)


# ---- searching ----

def search(browser, query):
    """Types into the field; returns the members that fit."""
    from selenium.webdriver.common.keys import Keys
    field = browser.element("#job-ranks input[type=search]")
    field.send_keys(Keys.CONTROL + "a" + Keys.NULL, Keys.DELETE, query)
    browser.wait(f"vt.current.query === {json.dumps(query.strip())}", "the search")
    browser.settle()
    return browser.run("const v = vt.current; return v.shown.filter((i) => !v.match || v.match[i])")


def main_doing(job, member):
    return job["doings"][member["threads_do"][0]] if member["threads_do"] else None


def is_in(job, member, function):
    doing = main_doing(job, member)
    return bool(doing) and any(function in (job["frames"][i]["function"] or "") for i in job["stacks"][doing["stack"]])


def check_searches(browser, job):
    members = job["members"]
    ranks = [i for i, m in enumerate(members) if m["role"] == "rank" and m["in_job"]]
    alarmed = {i for first, last in job["found"]["verdicts"][0]["members"] for i in range(first, last + 1)}
    for query, fits in {
            "": lambda i, m: True,
            "rank:3-9,12": lambda i, m: m["rank"] in (3, 4, 5, 6, 7, 8, 9, 12),
            "host:node2": lambda i, m: "node2" in m["host"],
            "host:node*2": lambda i, m: re.fullmatch("node.*2", m["host"]),
            "state:loader": lambda i, m: m["does"] == "loader",
            "-state:loader rank:16-18": lambda i, m: m["does"] != "loader" and m["rank"] in (16, 17, 18),
            "place:all_reduce": lambda i, m: is_in(job, m, "all_reduce"),
            "place:dataloader.py": lambda i, m: m["does"] == "loader",
            "op:all_reduce": lambda i, m: m["operation"] == "all_reduce",
            f"pid:{members[ranks[5]]['pid']}": lambda i, m: i == ranks[5],
            "is:outlier": lambda i, m: m["outlier"],
            "verdict:1": lambda i, m: i in alarmed,
            'does:"DataLoader worker"': lambda i, m: "DataLoader worker" in (main_doing(job, m).get("verdict") or ""),
            "train_step NODE1": lambda i, m: "node1" in m["host"],
            "nothing:such": lambda i, m: False,
            "rank:x": lambda i, m: False,
    }.items():
        expected = [i for i in ranks if fits(i, members[i])]
        equal(search(browser, query), expected, f"found by {query!r}")
        said = browser.text("#job-ranks [role=status]")[0]
        if query:
            equal(said, f"{len(expected)} of {len(ranks)} found", f"what is said of {query!r}")
    browser.check_quiet()


def rows(browser):
    return [int(n) for n in browser.run("return Array.from(document.querySelectorAll('table.rows tr[data-member]'), (row) => row.dataset.member)")]


def check_table(browser, job):
    """Rows are those that fit, in the order that was asked for."""
    search(browser, "is:outlier")
    equal(rows(browser), [i for i, m in enumerate(job["members"]) if m["outlier"] and m["role"] == "rank"], "rows of a search")
    search(browser, "")
    n = browser.run("return document.querySelector('table.rows').getAttribute('aria-rowcount')")
    equal(int(n) - 1, sum(m["role"] == "rank" for m in job["members"]), "rows")
    check(len(rows(browser)) < 200, "too many rows are in the page:", len(rows(browser)))
    head = next(one for one in browser.elements("table.rows th button") if one.text == "pid")
    for down in (True, False):
        head.click()
        pids = [job["members"][i]["pid"] for i in rows(browser)]
        equal(pids, sorted(pids, reverse=down), "rows by pid")
        equal(pids[0], (max if down else min)(m["pid"] for m in job["members"] if m["role"] == "rank"), "the first pid")
    browser.elements("table.rows th button")[0].click()


# ---- the matrix ----

def cells(browser):
    """Where each cell is, as the tips say: {member's name: [x, y]}, in pixels of the canvas."""
    return browser.run("""
        const canvas = document.querySelector(".matrix canvas"), found = {};
        canvas.scrollIntoView();
        const box = canvas.getBoundingClientRect();

        for (let y = 3; y < box.height; y += 10)
            for (let x = 3; x < box.width; x += 10) {
                canvas.dispatchEvent(new MouseEvent("mousemove", { clientX: box.left + x, clientY: box.top + y, bubbles: true }));
                const tip = document.getElementById("tip");

                if (!tip.hidden)
                    (found[tip.firstChild.textContent.split(":")[0]] = found[tip.firstChild.textContent.split(":")[0]] || []).push([x, y]);
            }
        canvas.dispatchEvent(new MouseEvent("mouseleave"));
        return found""")


def colour(browser, at):
    return browser.run("""
        const copy = document.createElement("canvas").getContext("2d", { willReadFrequently: true }), ratio = devicePixelRatio;
        copy.drawImage(document.querySelector(".matrix canvas"), -Math.round(arguments[0] * ratio), -Math.round(arguments[1] * ratio));
        return Array.from(copy.getImageData(0, 0, 1, 1).data)""", *at)


def css_colour(browser, name):
    return browser.run("return [...vt.rgb(vt.colour(arguments[0])), 255]", name)


def check_cells(browser, job):
    """Each rank has a cell of the colour of its state; a verdict keeps those of its members, and others pale."""
    where = cells(browser)
    ranks = {f"rank {m['rank']}": m for m in job["members"] if m["role"] == "rank" and m["in_job"]}
    equal(set(where), set(ranks), "cells")
    at = {name: points[1] for name, points in where.items()}
    for name in ("rank 0", "rank 16", "rank 17", "rank 63"):
        equal(colour(browser, at[name]), css_colour(browser, "does-" + ranks[name]["does"]), f"colour of {name}")
    browser.run("document.querySelector('.verdicts .set').dispatchEvent(new MouseEvent('mouseenter'))")
    browser.settle()
    equal(colour(browser, at["rank 17"]), css_colour(browser, "does-loader"), "colour of one that the verdict names")
    check(colour(browser, at["rank 0"]) != css_colour(browser, "does-collective"), "one that the verdict does not name has not paled")
    browser.run("document.querySelector('.verdicts .set').dispatchEvent(new MouseEvent('mouseleave'))")
    browser.settle()
    equal(colour(browser, at["rank 0"]), css_colour(browser, "does-collective"), "colour afterwards")
    browser.element(".verdicts .set").click()
    browser.run("document.activeElement.blur()")
    browser.settle()
    check(colour(browser, at["rank 0"]) != css_colour(browser, "does-collective"), "a click on a verdict does not mark")
    equal(browser.element(".verdicts .set").get_attribute("aria-pressed"), "true", "the button is pressed")
    browser.element(".verdicts .set").click()
    return at


def told(browser):
    return browser.run("return document.getElementById('told').textContent")


def sheet(browser):
    return browser.text(".sheet h2")


def press(browser, *keys):
    from selenium.webdriver import ActionChains
    ActionChains(browser.driver).send_keys(*keys).perform()
    browser.settle()


def check_keys(browser, job):
    from selenium.webdriver.common.keys import Keys
    canvas = browser.element(".matrix canvas")
    browser.run("arguments[0].focus()", canvas)
    press(browser, Keys.HOME, Keys.ARROW_RIGHT, Keys.ARROW_RIGHT)
    check(told(browser).startswith("rank 2:"), "two to the right of rank 0:", told(browser))
    press(browser, Keys.END)
    check(told(browser).startswith("rank 63:"), "at the end:", told(browser))
    press(browser, "n")
    check(told(browser).startswith("rank 17:"), "the next one that is marked:", told(browser))
    press(browser, Keys.ENTER)
    check(sheet(browser) and sheet(browser)[0].startswith("rank 17: waits for its loader"), "the rank is shown:", sheet(browser))
    check_sheet(browser, job, next(i for i, m in enumerate(job["members"]) if m["rank"] == 17 and m["role"] == "rank"))
    equal(browser.run("return document.getElementById('content').inert"), True, "the page below cannot be reached")
    press(browser, Keys.ESCAPE)
    equal(sheet(browser), [], "it is closed")
    equal(browser.run("return document.activeElement === arguments[0]", canvas), True, "the focus is back")


def check_sheet(browser, job, i):
    """What is shown of a process is what the document has."""
    member = job["members"][i]
    text = browser.text(".sheet")[0]
    for value in (f"pid {member['pid']} on {member['host']}", member["command_line"], member["headline"]):
        check(value in text, "is not said of it:", value, text[:500])
    frames = browser.run("""return Array.from(document.querySelectorAll(".sheet .thread:first-child .frame .function"), (one) => one.textContent)""")
    equal(frames, [job["frames"][k]["function"] for k in job["stacks"][main_doing(job, member)["stack"]]], "frames of its main thread")
    sizes = browser.run("return Array.from(document.querySelectorAll('.sheet table.figures tr'), (row) => [row.cells[0].textContent, row.cells[1].textContent])")
    memory = member["memory"][0]
    for words, field in (("in use by PyTorch", "allocated_bytes"), ("reserved by PyTorch", "reserved_bytes"), ("the device's total", "device_total_bytes")):
        equal(dict(sizes)[words], browser.run("return vt.bytes(arguments[0])", memory[field]), words)


def click_cell(browser, at):
    from selenium.webdriver import ActionChains
    canvas = browser.element(".matrix canvas")
    browser.run("arguments[0].scrollIntoView({ block: 'center' })", canvas)
    box = browser.run("const b = arguments[0].getBoundingClientRect(); return [b.width, b.height]", canvas)
    ActionChains(browser.driver).move_to_element_with_offset(canvas, round(at[0] - box[0] / 2), round(at[1] - box[1] / 2)).click().perform()
    browser.settle()


def check_clicks(browser, at):
    from selenium.webdriver.common.keys import Keys
    click_cell(browser, at["rank 5"])
    check(sheet(browser)[0].startswith("rank 5:"), "a click on a cell:", sheet(browser))
    next(one for one in browser.elements(".sheet-head button") if one.text == "Next").click()
    check(sheet(browser)[0].startswith("rank 6:"), "the next one:", sheet(browser))
    press(browser, Keys.ENTER)
    check(sheet(browser)[0].startswith("rank 7:"), "the focus stays on Next:", sheet(browser))
    press(browser, Keys.ESCAPE)
    equal(browser.run("return document.activeElement === document.querySelector('.matrix canvas')"), True, "the focus is back on the picture")
    legend = next(one for one in browser.elements("#job-ranks .legend button") if "loader" in one.text)
    legend.click()
    browser.wait("vt.current.query === 'state:loader'", "the state's search")
    browser.settle()
    equal(rows(browser), [17], "rows of a state")
    browser.element("table.rows tr[data-member]").click()
    check(sheet(browser)[0].startswith("rank 17:"), "a click on a row:", sheet(browser))
    press(browser, Keys.ESCAPE)
    equal(browser.run("return document.activeElement.dataset.member"), "17", "the focus is back on the row")
    search(browser, "")


def check_orders(browser, job):
    """Outliers first; other roles."""
    order = browser.elements("#job-ranks select option")
    next(one for one in order if one.text == "outliers first").click()
    where = cells(browser)
    first = min(where, key=lambda name: (where[name][0][1], where[name][0][0]))
    equal(first, "rank 17", "the first cell")
    next(one for one in order if one.text == "by host and rank").click()
    next(one for one in order if one.text.startswith("loader workers")).click()
    browser.settle()
    workers = [i for i, m in enumerate(job["members"]) if m["role"] == "loader"]
    equal(search(browser, "rank:17"), [i for i in workers if job["members"][i]["rank"] == 17], "workers of a rank")
    search(browser, "")
    equal(len(cells(browser)), len(workers), "cells of workers")
    next(one for one in order if one.text.startswith("ranks")).click()


def check_tree(browser):
    """Arrow keys open and close branches."""
    from selenium.webdriver.common.keys import Keys
    root = browser.element("#job-stacks [role=treeitem]")
    browser.run("arguments[0].focus()", root)
    press(browser, Keys.ARROW_LEFT)
    equal(root.get_attribute("aria-expanded"), "false", "a branch after the left arrow")
    press(browser, Keys.ARROW_RIGHT, Keys.ARROW_RIGHT)
    equal(root.get_attribute("aria-expanded"), "true", "after the right arrow")
    equal(browser.run("return document.activeElement.getAttribute('aria-level')"), "2", "level of the child")
    press(browser, Keys.ENTER)
    check(browser.run("return vt.current.lit !== null"), "Enter marks those at a node")
    press(browser, Keys.ENTER)
    next(one for one in browser.elements("#job-stacks h3 button") if one.text == "flame graph").click()
    browser.settle()
    check("64 threads" in browser.text("#job-stacks .crumbs")[0], "threads in the flame graph:", browser.text("#job-stacks .crumbs"))
    canvas = browser.element("#job-stacks canvas")
    browser.run("arguments[0].focus()", canvas)
    press(browser, Keys.ARROW_DOWN, Keys.ARROW_DOWN, Keys.ARROW_DOWN)
    equal(squeezed(browser.text("#job-stacks canvas ~ p")[0]), "train_step 0-16,18-63 [63]", "whose frame it is")


def test_a_job_in_hand():
    job, _ = made("loader", 64, 4, 17)
    browser = shared()
    browser.open(page_of(job))
    browser.show_all()
    check_searches(browser, job)
    check_table(browser, job)
    at = check_cells(browser, job)
    check_keys(browser, job)
    check_clicks(browser, at)
    check_orders(browser, job)
    check_tree(browser)
    browser.check_quiet()


# ---- reports of processes ----

def attached(browser):
    return browser.run("return Array.from(document.querySelectorAll('script.vramtap-attachment'), (one) => Number(one.dataset.of))")


def open_report(browser, i):
    """Shows the full report of a member; returns its facts."""
    browser.run("vt.openMember(vt.current, arguments[0])", i)
    next(one for one in browser.elements(".sheet button") if one.text == "Show its full report").click()
    browser.settle()
    return " ".join(browser.text(".sheet .facts")[1:])


def test_reports_of_a_live_job():
    """Without -o the reports of processes are in the page all the same; with it, they are there for vramtap html."""
    out, page, json_file = scratch(), scratch("page.html"), scratch("job.json")
    browser = shared()
    with fake_job("none", "--ranks", "2", "--workers", "1") as (launcher, job):
        vramtap("triage", "--children-of", str(launcher), "--html", page, "--json", json_file, "-q", expect=COMPLETE)
        vramtap("triage", "--children-of", str(launcher), "-o", out, "-q", expect=COMPLETE)
        with open(json_file, encoding="ascii") as file:
            report = json.load(file)
        equal(documents(page)[0], report, "the document in the page")
        check_reports(browser, page, report, job["ranks"])
        vramtap("html", os.path.join(out, "report.json"), expect=COMPLETE)
        with open(os.path.join(out, "report.json"), encoding="ascii") as file:
            report = json.load(file)
        check_reports(browser, os.path.join(out, "report.html"), report, job["ranks"])
        again = scratch("again.html")
        vramtap("triage", "--from", out, "--html", again, "-q", expect=COMPLETE)
        check_reports(browser, again, report, job["ranks"])
        # The page beside the reports is ours, too.
        vramtap("triage", "--children-of", str(launcher), "-o", out, "-q", expect=COMPLETE)
        check(not os.path.exists(os.path.join(out, "report.html")), "the page of an earlier triage is still there")


def check_reports(browser, page, report, ranks):
    browser.open(page)
    members = report["members"]
    equal(sorted(attached(browser)), [i for i, m in enumerate(members) if m["completeness"] != "nothing"], "the reports in the page")
    for pid in ranks:
        i = next(k for k, m in enumerate(members) if m["pid"] == pid)
        check(f"pid {pid}" in open_report(browser, i), "another process's report", browser.text(".sheet .facts"))
        check(browser.elements(".sheet section:not([id^=member-])"), "the parts of a report are not there")
        check("20.0 MiB" in browser.text(".sheet")[0], "what it holds is not said", browser.text(".sheet")[0][:3000])
    browser.check_quiet()


def saved_reports(job, directory, mib):
    """A report of each member, so large; returns the job's document with their names."""
    report = json.loads(subprocess.run([REPORT_DEMO, "--json", "training"], check=True, stdout=subprocess.PIPE, text=True).stdout)
    report["headlines"] = [{"code": "main-thread", "alarm": False, "text": HOSTILE}]
    for i, m in enumerate(job["members"]):
        m["report"] = f"node-{m['pid']}.json"
        with open(os.path.join(directory, m["report"]), "w", encoding="ascii") as file:
            json.dump({**report, "where": {**report["where"], "host": m["host"]}, "process": {**report["process"], "pid": m["pid"], "command_line": f"member {i}: " + "x" * int(mib * (1 << 20))}}, file)
    return job


def test_there_is_no_room_for_all():
    job, _ = made("loader", 12, 2, 7)
    directory = scratch()
    members = saved_reports(job, directory, 1)["members"]
    cause = job["found"]["causes"][0]["links"][0]["members"]
    odd = [i for i, m in enumerate(members) if m["outlier"] or any(first <= i <= last for first, last in cause)]
    equal(len(odd), 2, "urgent ones")
    broken = [i for i, m in enumerate(members) if m["role"] == "rank" and i not in odd][:8]
    for i, text in zip(broken, ("{", '{"schema": "vramtap-diff"}', '{"schema": "vramtap-report", "process": {"pid": 1}}')):
        with open(os.path.join(directory, members[i]["report"]), "w", encoding="ascii") as file:
            file.write(text)
    os.remove(os.path.join(directory, members[broken[3]]["report"]))
    os.remove(os.path.join(directory, members[broken[4]]["report"]))
    os.mkfifo(os.path.join(directory, members[broken[4]]["report"]))
    # Reports elsewhere, and of another host's process with the same number.
    members[broken[5]]["report"] = os.path.join(directory, members[broken[5]]["report"])
    members[broken[6]]["report"] = f"../{os.path.basename(directory)}/{members[broken[6]]['report']}"
    members[broken[7]]["host"] = "another"
    path = os.path.join(directory, "report.json")
    with open(path, "w", encoding="ascii") as file:
        json.dump(job, file)
    vramtap("html", path, expect=COMPLETE)
    page = path[:-5] + ".html"
    check(os.path.getsize(page) < 14 << 20, "the page is too large:", os.path.getsize(page))
    browser = shared()
    browser.open(page)
    there = attached(browser)
    equal(there[:2], odd, "the first reports")
    check(5 < len(there) < 12, "reports:", there)
    equal(set(there) & set(broken), set(), "broken ones")
    for i in odd:
        check(f"pid {members[i]['pid']}" in open_report(browser, i), "another one's report")
        check(HOSTILE[:9] in browser.text(".sheet .answer")[1], "its headline")
    left = next(i for i in range(len(members)) if i not in [*there, *broken])
    browser.run("vt.openMember(vt.current, arguments[0])", left)
    check(members[left]["report"] in browser.text(".sheet")[0], "the file's name is not said")
    check("taken" not in browser.driver.title, "a name became a script")
    browser.check_quiet()


# ---- hostile texts, and odd documents ----

def planted(value):
    """The document with all texts that a process could choose changed."""
    keep = {"schema", "role", "does", "completeness", "level", "time", "kind", "state", "verdict_code", "waits_code", "process_state"}
    if isinstance(value, dict):
        return {key: one if key in keep else planted(one) for key, one in value.items()}
    if isinstance(value, list):
        return [planted(one) for one in value]
    return HOSTILE + value + "x" * 2000 if isinstance(value, str) else value


def test_hostile_texts():
    job, _ = made("loader", 16, 1, 5)
    odd, _ = made("sequences", 16, 0, 5)
    job["members"][3]["collectives"] = odd["members"][3]["collectives"]
    job["ras"] = [{"host": "a", "pid": 3, "address": "b", "file": "c", "nccl_version": "d", "understood": False, "communicators": 1, "lines": ["e"],
                   "groups": [{"about": "error", "communicator": "f", "size": 2, "what": "g", "n": 1, "ranks": [{"rank": 1, "pid": 2, "host": "h"}]}]}]
    job["diagnostics"] = [{"level": "missing", "code": "i", "text": "j"}]
    browser = shared()
    browser.open(page_of(planted(job)))
    browser.show_all()
    browser.run("vt.openMember(vt.current, 3)")
    browser.settle()
    check("taken" not in browser.driver.title, "a text became a script:", browser.driver.title)
    equal(browser.run("return document.querySelectorAll('script').length"), 3, "scripts in the page")
    equal(browser.run("return document.querySelectorAll('main script, header script, .sheet script').length"), 0, "scripts in texts")
    equal(browser.run("""return Array.from(document.querySelectorAll("main *, header *, .sheet *")).filter((one) => !one.closest(".scrolls") &&
        one.getBoundingClientRect().right > innerWidth + 1).map((one) => one.tagName + "." + one.className).slice(0, 5)"""), [], "wider than the window")
    browser.check_quiet()
    # Nothing but what the schema requires; and no process at all.
    bare = {key: job[key] for key in ("schema", "schema_version", "tool_version", "doings", "stacks", "frames")}
    bare.update(time=None, found={"completeness": "nothing", "skew_ms": None, "verdicts": [], "devices": [], "tree": []}, diagnostics=[], members=[])
    browser.open(page_of(bare))
    browser.show_all()
    browser.check_quiet()


def test_partial():
    """A rank that could not be read is in the matrix, and why is said."""
    job, text = made("unreadable", 16, 0, 5)
    browser = shared()
    browser.open(page_of(job))
    browser.show_all()
    equal(search(browser, "is:unread"), [i for i, m in enumerate(job["members"]) if m["completeness"] == "nothing"], "unread ones")
    i = next(i for i, m in enumerate(job["members"]) if m["error"])
    notes = " ".join(browser.text("#job-notes"))
    check(job["members"][i]["error"] in notes, "why is not said:", notes)
    check(squeezed(browser.text("#job-notes p")[0]) in squeezed(text), "the text does not say it:", browser.text("#job-notes p"))
    browser.run("vt.openMember(vt.current, arguments[0])", i)
    check(job["members"][i]["error"] in browser.text(".sheet")[0], "why is not said of the rank")
    browser.check_quiet()


def check_progress(browser, text):
    """The rows of process groups are those of the text."""
    shown = browser.run("""return Array.from(document.querySelectorAll("table.groups tbody tr"), (row) =>
        [0, 1, 3, 5].map((k) => row.cells[k].textContent))""")
    check(shown, "no rows")
    said = squeezed(text)
    for ranks, begun, completed, waits in shown:
        waits = waits.replace("behind ", "").replace("has begun nothing in it", "")
        number = ranks[ranks.index("["):] # the text shortens long sets
        check(squeezed(f"{number} {begun} {completed} {waits}") in said, "the text does not say it:", ranks, begun, completed, waits)


def test_process_groups():
    job, text = made("sequences", 16, 0, 5)
    browser = shared()
    browser.open(page_of(job))
    browser.show_all()
    check_progress(browser, text)
    equal(browser.text("tr.lags td:first-child"), ["5 [1]"], "who lags")


def test_ras():
    """What RAS answered, as the text has it of the same document."""
    job, _ = made("sequences", 16, 0, 5)
    groups = [{"about": "count", "communicator": "0x5a", "size": 16, "what": "AllReduce", "count": 4170, "moved": False, "n": 1,
               "ranks": [{"rank": 5, "pid": 9000, "host": "10.0.0.1"}]},
              {"about": "dead", "communicator": None, "size": None, "what": None, "n": 2,
               "ranks": [{"rank": None, "pid": 77, "host": "10.0.0.2"}, {"rank": None, "pid": 78, "host": "10.0.0.2"}]}]
    job["ras"] = [{"host": "node0", "pid": 4000, "address": "127.0.0.1:28028", "file": "nccl-ras-node0.json", "nccl_version": "2.28.7",
                   "understood": True, "communicators": 3, "groups": groups, "lines": []}]
    page = page_of(job)
    text = subprocess.run([DEMO, "--columns=500", "--load", page[:-5] + ".json"], check=True, stdout=subprocess.PIPE, text=True).stdout
    browser = shared()
    browser.open(page)
    browser.show_all()
    head = browser.text("#job-ras h3")[0]
    equal(head, "NCCL 2.28.7, pid 4000 on node0: 3 communicators", "the answer")
    check(head in squeezed(text), "the text does not say it:", text)
    rows = browser.text("#job-ras tbody tr")
    check("have launched 4,170 operations of AllReduce, as many as before" in rows[0] and "0x5a, 16 ranks" in rows[0], "counts:", rows)
    check("RAS has lost them" in rows[1] and "pid 77@10.0.0.2" in rows[1], "lost ones:", rows)
    browser.check_quiet()


def kernel(name, **more):
    return {"name": name, "device": 0, "sms": 24, "grid_dim": [24, 1, 1], "block_dim": [512, 1, 1], **more}


def test_kernels():
    """Which GPUs run what, as the text has it of the same document."""
    job, _ = made("sequences", 8, 0, 5)
    told = {"state": "told", "took_ms": 412, "kernels": [kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL")], "more": 0, "exceptions": []}
    of_rank = {5: {**told, "state": "none", "kernels": []}, 6: {**told, "kernels": [kernel(HOSTILE, file="/src/" + HOSTILE, line=7)], "exceptions": [HOSTILE]},
               7: {**told, "state": "refused", "took_ms": 0, "kernels": [], "why": "the process is stopped by a signal"}}
    for m in job["members"]:
        if m["role"] == "rank":
            m["kernels"] = of_rank.get(m["rank"], told)
    page = page_of(job)
    text = subprocess.run([DEMO, "--columns=500", "--load", page[:-5] + ".json"], check=True, stdout=subprocess.PIPE, text=True).stdout
    browser = shared()
    browser.open(page)
    browser.show_all()
    rows = browser.text("#job-kernels tbody tr")
    equal(len(rows), 4, "rows")
    for want in ("0-4 [5] ncclDevKernel_AllReduce_Sum_f32_RING_LL<<<24, 512>>> on 24 SMs", "5 [1] nothing", "7 [1] not known: the process is stopped by a signal"):
        check(any(squeezed(row) == want for row in rows) and want in squeezed(text), f"{want}:", rows, text)
    check(any("exception: </script>" in row for row in rows) and "exception: </script>" in text, "the exception:", rows, text)
    check("held each process for 412 ms at most" in squeezed(browser.text("#job-kernels")[0]) and "held each process for 412 ms at most" in text, "cost", text)
    browser.check_quiet()


def usage_with_faults(job):
    """NVML's list of a device for rank 5, and what the kernel's log has of it and of ranks 1 and 2."""
    by_rank = {m["rank"]: m for m in job["members"] if m["role"] == "rank"}
    m = by_rank[5]
    nobody = dict.fromkeys(("command_line", "user", "container", "pod", "rank"))
    health = dict.fromkeys(("rows_remapped", "celsius", "milliwatt", "milliwatt_limit", "sm_mhz", "sm_mhz_limit", "busy_percent",
                            "memory_busy_percent", "ecc_uncorrected", "ecc_uncorrected_ever", "remap_pending", "remap_failed", "retire_pending", "slow"))
    device = {"uuid": "GPU-8f2e1c34-0000-0000-0000-000000000005", "pci": "00000000:1B:00.0", "name": "NVIDIA H100", "ordinal": None, "parent": None,
              "divided": False, "memory": None, "changed_bytes": None, "no_process_bytes": None,
              "health": {**health, "ecc_uncorrected": 3, "slow": ["hw-thermal"], "celsius": 92},
              "processes": [{**nobody, "pid": m["pid"], "life": "there", "ours": False, "bytes": 5 << 30, "name": "python"}]}

    def xid(code, pid, owner, said):
        return {"code": code, "owner": owner, "pid": pid, "name": HOSTILE if pid else None, "pci": "0000:1B:00", "device": None, "times": 1,
                "first": "2026-01-02T03:04:05.000000000Z", "last": "2026-01-02T03:04:05.000000000Z", "text": said}

    log = {"state": "read", "why": None, "ms": 1, "xids": [xid(79, None, "nobodys", "GPU has fallen off the bus." + HOSTILE),
                                                           xid(43, 77, "others", "channel 1"), xid(9998, m["pid"], "ours", None)]}
    job["usage"] = [{"host": m["host"], "system": m["system"], "faults": log, "usage": {
        "state": "read", "why": None, "whole": True, "foreign": False, "ms": 1, "devices": [device]}}]
    for rank in (1, 2):
        by_rank[rank].update(context_lost="likely", context_lost_by=None)


def test_faults():
    """Each once, as the text has it of the same document; and who is what is wrong."""
    job, _ = made("sequences", 8, 0, 3)
    usage_with_faults(job)
    path = scratch("report.json")
    with open(path, "w", encoding="ascii") as file:
        json.dump(job, file)
    again = json.loads(subprocess.run([DEMO, "--json", "--load", path], check=True, stdout=subprocess.PIPE, text=True).stdout)
    text = subprocess.run([DEMO, "--columns=500", "--load", path], check=True, stdout=subprocess.PIPE, text=True).stdout
    browser = shared()
    browser.open(page_of(again))
    browser.show_all()
    rows = browser.text("#job-faults tbody tr")
    equal(len(rows), 5, "rows")
    section = squeezed(text[text.index("Faults and health of the GPUs"):].split("\n\n")[0])
    for fault, row in zip(again["found"]["faults"], rows):
        words = fault["text"].split(" (</script>")[0]  # the rest is escaped in both
        check(words in squeezed(row) and words in section, "a fault:", fault, row, section)
    equal([(f["kind"], f["alarm"]) for f in again["found"]["faults"]],
          [("xid", True), ("xid", True), ("memory-errors", True), ("throttled", True), ("xid", False)], "alarms first")
    check(squeezed(rows[0]).startswith("5 [1]"), "whose", rows[0])
    causes = {c["code"]: c for c in again["found"]["causes"]}
    equal(causes["gpu-fault"]["links"][0]["text"], "the GPU of rank 5 has a fault: Xid 79 (the GPU has fallen off the bus)", "a cause")
    equal([v["text"] for v in again["found"]["verdicts"] if v["code"] in ("gpu-fault", "context-lost")],
          ["the GPU of rank 5 has a fault: Xid 79 (the GPU has fallen off the bus)", "ranks 1-2 have likely lost their CUDA contexts"], "said")
    browser.check_quiet()


def test_devices():
    job, _ = made("outsider", 8, 0, 1)
    browser = shared()
    browser.open(page_of(job))
    browser.show_all()
    rows = browser.run("""return Array.from(document.querySelectorAll("#job-memory .scrolls table:not(.spread) tbody tr"), (row) =>
        Array.from(row.cells, (cell) => cell.textContent))""")
    devices = job["found"]["devices"]
    equal(len(rows), len(devices), "devices")
    for row, device in zip(rows, devices):
        equal(row[0], f"{device['host']} {device['name']}", "name")
        for cell, field in zip(row[1:], ("total_bytes", "free_bytes", "outside_bytes")):
            equal(cell, browser.run("return vt.bytes(arguments[0])", device[field]), field)
        for i in device["holders"]:
            m = job["members"][i]
            check(f"rank {m['rank']}" in row[4] if m["in_job"] else f"pid {m['pid']}@{m['host']}" in row[4], "a holder:", row)
            check(m["in_job"] or "outside the job" in row[4], "that it is outside:", row)


def test_large_jobs():
    """A job of 1,024 ranks with 100 threads each, and a matrix of 16,384."""
    job, _ = made("loader", 1024, 8, 17, 100, 30)
    page = page_of(job)
    check(os.path.getsize(page) <= 20 << 20, "the page of 1,024 ranks is too large:", os.path.getsize(page))
    if SANITIZED:
        return
    job, _ = made("stopped", 16384, 0, 9999)
    browser = shared()
    browser.open(page_of(job))
    equal(browser.run("return vt.current.shown.length"), 16384, "ranks")
    equal(search(browser, "is:outlier"), [9999], "outliers")
    best = browser.run("""
        const times = [];
        for (let k = 0; k < 7; k++) {
            const before = performance.now();
            vt.current.search(k % 2 ? "state:stopped" : "place:all_reduce -rank:0-7");
            times.push(performance.now() - before);
        }
        return Math.min(...times)""")
    check(best < 50, "a search takes ms:", best)
    browser.check_quiet()


def test_usage():
    code, _, err = vramtap("triage", "1", "--html=-", "--json=-")
    equal(code, USAGE, "exit code")
    check("--html" in err and "--json" in err, "names both:", err)


if __name__ == "__main__":
    main(globals())
