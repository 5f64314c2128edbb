#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The page of a job: how large it is, how long it takes to write and to open, and how long each action in it takes.

usage: page_job.py VRAMTAP JOB_DEMO [RUNS]

JOB_DEMO is tests/unit/job/job_demo of a build tree. Jobs: 1,024 and 16,384 ranks that wait for one, without and with 8 loader workers
each; and 1,024 as triage_merge.py makes them, with 100 threads in 30 stacks each, of which 5 are in no other rank. Debian's Chromium opens
the pages. An action is its handler, and what it makes the browser do until the next frame is drawn; that wait alone is up to 17 ms.
The best of RUNS (5) counts, because of other work on the machine.

Must reach: 1,024 ranks in 20 MiB, written in 2 s; with 16,384 ranks each action within 50 ms.
"""
import os
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "functional"))
from browser import Browser  # noqa: E402

JOBS = [("1,024 ranks", ["loader", "1024", "0", "17"]), ("1,024 ranks, 8 workers each", ["loader", "1024", "8", "17"]),
        ("1,024 ranks, 100 threads each", None), ("16,384 ranks", ["stopped", "16384", "0", "9999"]),
        ("16,384 ranks, 8 workers each", ["loader", "16384", "8", "17"])]
MOST_BYTES, MOST_S, MOST_MS = 20 << 20, 2.0, 50.0

ACTIONS = """
const done = arguments[arguments.length - 1], view = vt.current, out = {};
const frame = () => new Promise((go) => requestAnimationFrame(() => go()));
const time = async (name, act) => {
    await frame();
    await frame();
    const before = performance.now();
    act();
    const handled = performance.now() - before;
    await frame();
    await new Promise((go) => { const channel = new MessageChannel(); channel.port1.onmessage = go; channel.port2.postMessage(0); });
    out[name] = [handled, performance.now() - before];
};
const field = document.querySelector("#job-ranks input[type=search]"), canvas = document.querySelector(".matrix canvas");
const type = (text) => () => { field.value = text; field.dispatchEvent(new Event("input")); };
const key = (name) => () => canvas.dispatchEvent(new KeyboardEvent("keydown", { key: name, bubbles: true }));
const choose = (list, i) => () => { list.selectedIndex = i; list.dispatchEvent(new Event("change")); };
(async () => {
    await time("nothing", () => {});
    for (const query of ["state:loader", "place:train_step", "host:node1", "rank:100-200", "train_step", "-state:collective", "verdict:1", ""])
        await time("search " + (query || "for nothing"), type(query));
    canvas.focus();
    for (const name of ["ArrowRight", "ArrowDown", "n", "End"])
        await time("key " + name, key(name));
    const box = canvas.getBoundingClientRect();
    await time("hover over a cell", () => canvas.dispatchEvent(new MouseEvent("mousemove", { clientX: box.left + 60, clientY: box.top + 20,
        bubbles: true })));
    const set = document.querySelector(".links .set, .verdicts .set");
    if (set) {
        await time("light a verdict", () => set.dispatchEvent(new MouseEvent("mouseenter")));
        await time("unlight it", () => set.dispatchEvent(new MouseEvent("mouseleave")));
    }
    const order = document.querySelector("#job-ranks select[aria-label=Order]");
    for (const [i, words] of [[1, "outliers first"], [2, "by state"], [0, "by host"]])
        await time("order " + words, choose(order, i));
    const heads = Array.from(document.querySelectorAll("table.rows th button"));
    for (const name of ["Does", "In use", "State", "Process"])
        await time("sort by " + name, () => heads.find((head) => head.textContent === name).click());
    await time("scroll the table", () => { document.querySelector(".window").scrollTop = 9000; });
    await time("show a rank", () => vt.openMember(view, view.shown[17]));
    await time("close it", () => document.querySelector(".sheet").dispatchEvent(new KeyboardEvent("keydown", { key: "Escape", bubbles: true })));
    done(out);
})();
"""


def make(demo, what, directory):
    """A job's document, as triage saves it."""
    path = os.path.join(directory, "report.json")
    if what is None:
        source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "triage_merge.py")
        with open(source, encoding="utf-8") as file:
            names = {"__name__": "triage_merge"}
            exec(compile(file.read().rsplit("\nmain()", 1)[0], source, "exec"), names)  # without its main()
        paths, _ = names["make"](directory, 1024, 1024)
        what = ["--load", *paths]
    with open(path, "w", encoding="ascii") as file:
        subprocess.run([demo, "--json", *what], check=True, stdout=file)
    return path


def best(runs, act):
    return min(act() for _ in range(runs))


def written(vramtap, path, page):
    """Seconds of the clock and of processors that a page from what was saved takes; and one from the merged job."""
    def once():
        before, used = time.monotonic(), os.times()
        subprocess.run([vramtap, "triage", "--from", os.path.dirname(path), "--html", page, "-q"], check=False)
        now = os.times()
        return time.monotonic() - before, now.children_user + now.children_system - used.children_user - used.children_system
    return once


def show_actions(browser, runs, most):
    times = {}
    for _ in range(runs):
        for name, values in browser.driver.execute_async_script(ACTIONS).items():
            known = times.setdefault(name, values)
            times[name] = [min(pair) for pair in zip(known, values)]
    for name, (handled, drawn) in times.items():
        print(f"    {name:26} {handled:7.1f} ms, drawn after {drawn:6.1f} ms{'  TOO LONG' if drawn > most else ''}")
    return max(drawn for _, drawn in times.values()) > most


def main():
    vramtap, demo, runs = sys.argv[1], sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else 5
    failed = False
    with Browser() as browser:
        browser.driver.set_script_timeout(300)
        for title, what in JOBS:
            with tempfile.TemporaryDirectory() as directory:
                path, page = make(demo, what, directory), os.path.join(directory, "job.html")
                seconds, used = best(min(runs, 3), written(vramtap, path, page))
                size = os.path.getsize(page)
                opened = best(min(runs, 3), lambda page=page: browser.open(page))
                print(f"{title}: JSON {os.path.getsize(path) / 1e6:.1f} MB, page {size / (1 << 20):.1f} MiB, loaded and written in "
                      f"{seconds:.2f} s ({used:.2f} s of processors), opens in {opened / 1e3:.2f} s", flush=True)
                browser.show_all()
                slow = show_actions(browser, runs, MOST_MS)
                if "workers" not in title or title.startswith("1,024"):
                    failed |= slow
                if title.startswith("1,024"):
                    failed |= size > MOST_BYTES or seconds > MOST_S
    sys.exit(failed)


main()
