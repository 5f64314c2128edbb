#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The pictures of a report's page, the map of segments and the flame graph of sites: what they show, by pixels, texts, clicks
and keys, equals the JSON of the same moment."""
import contextlib
import json
import os
import re
import time

from browser import Browser
from core import SANITIZED
from harness import COMPLETE, PARTIAL, SOURCE, Job, check, equal, main, scratch, simulated_python, vramtap
from report_torch import versions

PROGRAM = os.path.join(SOURCE, "tests", "targets", "torch_page.py")


class Case:
    """A page of memory of all kinds, partly recorded, in a browser, and its JSON. Made once."""

    made = None

    def __init__(self):
        self.page, self.unrecorded, self.diff = scratch("page.html"), scratch("unrecorded.html"), scratch("diff.html")
        before, json_file = scratch("before.json"), scratch("report.json")
        with Job(simulated_python(versions()[-1]) + [PROGRAM]) as job:
            self.pid = job.pid
            vramtap("report", str(job.pid), "--html", self.unrecorded, "--json", before, "-q", expect=(COMPLETE, PARTIAL))
            vramtap("record", str(job.pid), "on", "--no-driver", expect=(COMPLETE, PARTIAL))
            job.do("more")
            time.sleep(1.2)
            job.do("more")
            vramtap("report", str(job.pid), "--html", self.page, "--json", json_file, "-q", expect=(COMPLETE, PARTIAL))
        vramtap("diff", before, json_file, "--html", self.diff, expect=(COMPLETE, PARTIAL))
        with open(json_file, encoding="ascii") as file:
            self.json = json.load(file)
        with open(before, encoding="ascii") as file:
            self.before = json.load(file)
        self.segments = [(a, s) for a in self.json["pytorch"]["allocators"] for s in a["segments"]]
        self.blocks = [b for _, s in self.segments for b in s["blocks"]]
        self.segment_of = [s for _, s in self.segments for _ in s["blocks"]]
        self.used = [b for b in self.blocks if b["state"] == "allocated"]
        self.recorded = self.json["pytorch"]["recorded"]

    def functions(self, trace):
        return [(self.recorded["frames"][f]["function"] or "").replace("<...>", "<…>") for f in trace["frames"]]


STACK = contextlib.ExitStack()


def opened(part="segments"):
    """The page in the browser, as it is after loading."""
    if not Case.made:
        Case.made = Case()
        Case.browser = STACK.enter_context(Browser())
    case, browser = Case.made, Case.browser
    browser.open(case.page)
    browser.show_all()
    browser.run("document.getElementById(arguments[0]).scrollIntoView()", part)
    browser.settle()
    return case, browser


# ---- the map

MAP = "document.getElementById('segments').vtMap"
# Bytes as the page writes them: the page's own function, as the text report's test of it is elsewhere.
BYTES = "return vt.bytes(arguments[0])"


def size(browser, number):
    return browser.run(BYTES, number)


def words(browser, category):
    return browser.run("return vt.words('category', arguments[0])", category)


def places(browser):
    """(x, y, width, height) of every block on the canvas."""
    return browser.run(f"const map = {MAP}; return Array.from({{length: arguments[0]}}, (_, i) => {{ const p = map.place(i);"
                       "return [p.x, p.y, p.width, p.height]; })", len(Case.made.blocks))


def pixels(browser, points):
    """Colours at points of the map's canvas."""
    return browser.run("""
        const canvas = document.querySelector("#segments canvas"), ratio = canvas.width / canvas.clientWidth;
        const context = new OffscreenCanvas(canvas.width, canvas.height).getContext("2d", { willReadFrequently: true });
        context.drawImage(canvas, 0, 0);
        return arguments[0].map(([x, y]) => Array.from(context.getImageData(x * ratio, y * ratio, 1, 1).data).slice(0, 3));""", points)


def colour(browser, name):
    return browser.run("return vt.rgb(vt.colour(arguments[0]))", name)


def legend(browser):
    return dict(browser.run("""return Array.from(document.querySelectorAll("#segments .legend button"),
        (line) => [line.querySelector(".name").textContent, line.querySelector(".note").textContent])"""))


def choose_mode(browser, mode):
    browser.run("""const list = document.querySelector("#segments .tools select"); list.value = arguments[0];
        list.dispatchEvent(new Event("change"))""", mode)
    browser.settle()


def type_into(browser, label, text):
    browser.run("""const box = document.querySelector(`#segments input[aria-label="${arguments[0]}"]`); box.value = arguments[1];
        box.dispatchEvent(new Event("input"))""", label, text)
    browser.settle()


def colour_of(block):
    if block["state"] == "cached":
        return "map-cached"
    if block["state"] == "allocated":
        return "category-" + block["owner"]["category"].replace("_", "-") if "owner" in block else "category-unknown"
    return None


def check_pixels(browser, wanted):
    """wanted(block) names the colour of a block, None unknown; every block of some width has it."""
    colours, seen = {}, 0
    at = [(i, x + width - 2, y + 2) for i, (x, y, width, height) in enumerate(places(browser)) if width >= 5 and x >= 0 and y >= 20]
    right = browser.run("return document.querySelector('#segments canvas').clientWidth")
    if view(browser)["zoom"] > 1:  # without those below the small picture in the corner
        at = [(i, x, y) for i, x, y in at if x < right - 170 or y > 130]
    at = [(i, x, y) for i, x, y in at if x < right]
    for (i, _, _), got in zip(at, pixels(browser, [(x, y) for _, x, y in at])):
        name = wanted(Case.made.blocks[i])
        if name:
            colours.setdefault(name, colour(browser, name))
            equal(got, colours[name], f"colour of block {i}, {name}")
            seen += 1
    return seen


def test_map_is_to_scale():
    case, browser = opened()
    scales = sorted(width / block["bytes"] for block, (_, _, width, _) in zip(case.blocks, places(browser)))
    check(scales[0] > 0 and scales[-1] / scales[0] < 1.0001, "pixels a byte", scales[0], scales[-1])
    check(check_pixels(browser, colour_of) > 30, "blocks that are wide enough")
    browser.shot("segments")


def sums(blocks, key):
    total = {}
    for block in blocks:
        total[key(block)] = total.get(key(block), 0) + block["bytes"]
    return total


def test_colours():
    case, browser = opened()
    free = size(browser, sum(b["bytes"] for b in case.blocks if b["state"] == "cached"))
    want = {words(browser, name): size(browser, total) for name, total in sums(case.used, lambda b: b["owner"]["category"]).items()}
    equal(legend(browser), {**want, "free, cached": free}, "categories")
    choose_mode(browser, "stream")
    streams = {id(b): s["stream"] for s, b in zip(case.segment_of, case.blocks)}
    want = {"default stream" if name == "0x0" else "stream " + name: size(browser, total)
            for name, total in sums(case.used, lambda b: streams[id(b)]).items()}
    check(len(want) > 1, "several streams", want)
    equal(legend(browser), {**want, "free, cached": free}, "streams")
    choose_mode(browser, "state")
    equal(legend(browser), {"in use": size(browser, sum(b["bytes"] for b in case.used)), "free, cached": free}, "states")
    choose_mode(browser, "age")
    ages = {"newer than 1 s": lambda b: b.get("age_s", 99) < 1, "newer than 10 s": lambda b: 1 <= b.get("age_s", 99) < 10,
            "newer than 1 min": lambda b: 10 <= b.get("age_s", 99) < 60, "in use, age not recorded": lambda b: "age_s" not in b}
    want = {name: [b["bytes"] for b in case.used if test(b)] for name, test in ages.items()}
    equal(legend(browser), {**{name: size(browser, sum(of)) for name, of in want.items() if of}, "free, cached": free}, "ages")
    check(want["newer than 10 s"] or want["newer than 1 min"], "recorded ages", want)
    choose_mode(browser, "owner")
    keys = sums(case.used, lambda b: b["owner"]["module"] or b["owner"]["variable"] or b["owner"]["name"])
    shown = legend(browser)
    for name in sorted(keys, key=keys.get)[-5:]:
        equal(shown[name], size(browser, keys[name]), f"owner {name}")
    choose_mode(browser, "site")
    site = case.recorded["sites"][0]
    title = case.recorded["frames"][site["title"]]
    found = [text for name, text in legend(browser).items() if title["function"] in name and str(title["line"]) in name]
    equal(found, [size(browser, site["bytes"])], "the largest site")


def selected(browser):
    return browser.run(f"return {MAP}.selected()")


def click_on(browser, canvas, x, y):
    from selenium.webdriver.common.action_chains import ActionChains
    box = canvas.rect
    ActionChains(browser.driver).move_to_element_with_offset(canvas, x - box["width"] / 2, y - box["height"] / 2).click().perform()
    browser.settle()


def click(browser, x, y):
    click_on(browser, browser.element("#segments canvas"), x, y)


def panel(browser):
    return dict(browser.run("""return Array.from(document.querySelectorAll("#segments .details dt"),
        (name) => [name.textContent, name.nextSibling.textContent])"""))


def stacks(browser, where):
    """The functions of each stack that is shown there, with all that was folded."""
    return browser.run("""document.querySelectorAll(arguments[0] + " .fold button").forEach((button) => button.click());
        return Array.from(document.querySelectorAll(arguments[0] + " .stack"), (stack) => Array.from(
            stack.querySelectorAll(".function"), (name) => name.textContent.replace(/ \\(inlined\\)$/, "")))""", where)


def check_panel(browser, i):
    case = Case.made
    block, said = case.blocks[i], panel(browser)
    equal(said["address"], block["address"], "address")
    check(said["size"].startswith(size(browser, block["bytes"])), "size", said)
    check(said["segment"].startswith(case.segment_of[i]["address"] + ", "), "segment", said)
    equal(said["stream"], {"0x0": "default"}.get(case.segment_of[i]["stream"], case.segment_of[i]["stream"]), "stream")
    if block["state"] == "allocated":
        equal(said["owner"], block["owner"]["name"] or said["owner"], "owner")
        equal(said["category"], words(browser, block["owner"]["category"]) + ("" if block["owner"]["certain"] else ", not certain"),
              "category")
        equal(said["tensor"].split(", the largest")[0], f"{block['owner']['dtype']} {block['owner']['shape']}", "tensor")
    stack = [f for shown in stacks(browser, "#segments .details") for f in shown]
    want = case.functions(case.recorded["backtraces"][block["backtrace"]]) if "backtrace" in block else []
    equal(stack, want, "functions of the stack")


def test_choose_and_walk():
    from selenium.webdriver.common.keys import Keys
    case, browser = opened()
    browser.run("window.seen = []; document.addEventListener('vramtap-select', (e) => seen.push([e.detail.block, e.detail.from]))")
    where = places(browser)
    wide = max((i for i, b in enumerate(case.blocks) if b["state"] == "allocated"), key=lambda i: where[i][2])
    click(browser, where[wide][0] + where[wide][2] / 2, where[wide][1] + where[wide][3] / 2)
    equal(selected(browser), wide, "the block that was clicked")
    check_panel(browser, wide)
    recorded = next(i for i, b in enumerate(case.blocks) if "backtrace" in b)
    browser.run("document.dispatchEvent(new CustomEvent('vramtap-select', { detail: { block: arguments[0], from: 'owners' } }))",
                recorded)
    browser.settle()
    equal(selected(browser), recorded, "the block that another part chose")
    check_panel(browser, recorded)
    x, y, width, height = places(browser)[recorded]
    box = browser.run("const c = document.querySelector('#segments canvas'); return [c.clientWidth, c.clientHeight]")
    check(0 <= x and x + width <= box[0] and 20 <= y and y + height <= box[1] and width >= 10, "it is in view", x, y, width, height)
    canvas = browser.element("#segments canvas")
    within = {id(s): s["blocks"] for _, s in case.segments}
    at = recorded
    for key, step in ((Keys.ARROW_LEFT, -1), (Keys.ARROW_LEFT, -1), (Keys.ARROW_RIGHT, 1)):
        canvas.send_keys(key)
        at += step
        equal((selected(browser), panel(browser)["address"]), (at, case.blocks[at]["address"]), f"after {key!r}")
    canvas.send_keys(Keys.HOME)
    first = case.blocks.index(within[id(case.segment_of[at])][0])
    equal(selected(browser), first, "the segment's first block")
    canvas.send_keys(Keys.PAGE_DOWN)
    check(case.segment_of[selected(browser)] is not case.segment_of[first], "another segment")
    told = browser.run("return document.getElementById('told').textContent")
    check(size(browser, case.blocks[selected(browser)]["bytes"]) in told, "told to screen readers", told)
    canvas.send_keys(Keys.ENTER)
    equal(browser.run("return document.activeElement.className"), "panel details", "focus after Enter")
    browser.run("document.querySelector('#segments canvas').focus()")
    canvas.send_keys(Keys.ESCAPE)
    equal((selected(browser), panel(browser)), (-1, {}), "after Escape")
    equal([block for block, by in browser.run("return seen") if by == "segments"][0], wide, "what other parts are told")
    browser.check_quiet()


def view(browser):
    return browser.run(f"return {MAP}.view()")


def test_zoom_and_pan():
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.keys import Keys
    case, browser = opened()
    canvas = browser.element("#segments canvas")
    where = places(browser)
    i = max((i for i, b in enumerate(case.blocks) if 10 < where[i][2] < 60 and where[i][0] > 100), key=lambda i: where[i][0])
    middle = int(where[i][0] + where[i][2] / 2)  # pointers are at whole pixels
    click(browser, middle, where[i][1] + 3)
    for _ in range(4):
        browser.run("""const canvas = document.querySelector("#segments canvas"), box = canvas.getBoundingClientRect();
            canvas.dispatchEvent(new WheelEvent("wheel", { deltaY: -120, clientX: box.left + arguments[0],
                clientY: box.top + arguments[1], cancelable: true, bubbles: true }))""", middle, where[i][1] + 3)
    browser.settle()
    x, _, width, _ = places(browser)[i]
    check(width > 4 * where[i][2], "the wheel zooms in", width, where[i][2])
    share, before = (middle - x) / width, (middle - where[i][0]) / where[i][2]
    check(abs(share - before) < 0.02, "what is below the pointer stays there", share, before)
    canvas.send_keys(Keys.ESCAPE)  # no outline
    browser.settle()
    check(check_pixels(browser, colour_of) > 3, "colours, from near")
    before = view(browser)
    ActionChains(browser.driver).move_to_element_with_offset(canvas, 0, 0).click_and_hold().move_by_offset(80, 0).release().perform()
    browser.settle()
    moved = places(browser)[i][0] - x
    check(abs(moved - 80) < 1.5 or view(browser)["left"] == 0, "it is dragged", moved)
    canvas.send_keys(Keys.SHIFT, Keys.ARROW_RIGHT)
    canvas.send_keys("-")
    check(view(browser)["zoom"] < before["zoom"], "minus zooms out")
    canvas.send_keys("0")
    equal({k: v for k, v in view(browser).items() if k != "top"}, {"zoom": 1, "left": 0}, "all is shown again")
    browser.run("document.querySelector('#segments .zooms button[aria-label=\"Zoom in\"]').click()")
    check(view(browser)["zoom"] > 1.5, "a button zooms in")
    browser.check_quiet()


def found(browser):
    return browser.run("return document.querySelector('#segments .found').textContent")


def test_filter():
    case, browser = opened()

    def says(blocks):
        return f"{len(blocks):,} block{'' if len(blocks) == 1 else 's'}, {size(browser, sum(b['bytes'] for b in blocks))}"

    text = "Find blocks by owner, category, module, shape or function"
    type_into(browser, text, "Exp_Avg_sq")
    want = [b for b in case.used if "exp_avg_sq" in (b["owner"]["name"] or "")]
    check(len(want) > 10, "blocks of the optimizer", len(want))
    equal(found(browser), says(want), "blocks by a part of the owner's name")
    wanted = {id(b) for b in want}
    check_pixels(browser, lambda b: colour_of(b) if id(b) in wanted else None)
    box = browser.element("#segments input[type=search]")
    for _ in range(3):
        box.send_keys("\n")
        check(id(case.blocks[selected(browser)]) in wanted, "Enter goes to a block that is meant")
    browser.run(f"{MAP}.select(-1); {MAP}.zoom(0)")
    browser.settle()
    back, cached = colour(browser, "back"), colour(browser, "map-cached")
    dimmed = browser.run("return vt.mix(arguments[0], arguments[1], 0.16)", cached, back)
    hole = max((i for i, b in enumerate(case.blocks) if b["state"] == "cached"), key=lambda i: case.blocks[i]["bytes"])
    x, y, width, _ = places(browser)[hole]
    equal(pixels(browser, [(x + width - 2, y + 2)]), [dimmed], "others are dimmed")
    type_into(browser, text, "")
    type_into(browser, "The smallest size", "256 KiB")
    type_into(browser, "The largest size", "1M")
    want = [b for b in case.blocks if 1 << 18 <= b["bytes"] <= 1 << 20]
    equal(found(browser), says(want), "blocks by size")
    type_into(browser, "The largest size", "much")
    equal(browser.run("return document.querySelector('#segments input[aria-label=\"The largest size\"]').getAttribute('aria-invalid')"),
          "true", "a size that is none")
    type_into(browser, "The largest size", "")
    type_into(browser, "The smallest size", "")
    browser.run("Array.from(document.querySelectorAll('#segments .legend button')).pop().click()")
    equal(found(browser), says([b for b in case.blocks if b["state"] == "cached"]), "blocks by a click in the legend")
    browser.check_quiet()


def rows(browser, selector):
    return browser.run("return Array.from(document.querySelectorAll(arguments[0] + ' tbody tr'), (row) => "
                       "Array.from(row.cells, (cell) => cell.textContent))", selector)


def test_tables_of_segments():
    case, browser = opened()
    holes = sorted((b for b in case.blocks if b["state"] == "cached"), key=lambda b: -b["bytes"])
    shown = rows(browser, "#segments .scrolls")
    equal([row[0] for row in shown], [size(browser, b["bytes"]) for b in holes[:len(shown)]], "sizes of the largest holes")
    browser.run("document.querySelector('#segments .scrolls tbody tr').click()")
    equal(case.blocks[selected(browser)]["bytes"], holes[0]["bytes"], "the hole of the row that was clicked")
    browser.run("Array.from(document.querySelectorAll('#segments button')).find((b) => b.textContent === 'Segments').click()")
    shown = {row[0]: row[1:] for row in rows(browser, "#segments .scrolls")}
    by_address = {s["address"]: (a, s) for a, s in case.segments}
    check(len(shown) >= 10, "rows", shown)
    for address, row in shown.items():
        allocator, segment = by_address[address]
        used = [b["bytes"] for b in segment["blocks"] if b["state"] == "allocated"]
        free = [b["bytes"] for b in segment["blocks"] if b["state"] == "cached"]
        equal((row[0], row[3], row[4], row[6], row[7], row[8], row[9]),
              (str(allocator["device"]), size(browser, segment["bytes"]), size(browser, sum(used)), f"{len(used):,}",
               size(browser, sum(free)), f"{len(free):,}", size(browser, max(free)) if free else ""), f"segment {address}")
    browser.check_quiet()


def places_in_use(report):
    return {(b["address"], b["bytes"]) for a in report["pytorch"]["allocators"] for s in a["segments"] for b in s["blocks"]
            if b["state"] == "allocated"}


def test_two_maps():
    """Of a diff: one scale, colours of what came and went, and both move and choose together."""
    case, browser = opened()
    browser.open(case.diff)
    browser.show_all()
    before, after = places_in_use(case.before), places_in_use(case.json)
    shown = browser.run("""return Array.from(document.querySelectorAll("#maps .legend"), (legend) => Object.fromEntries(Array.from(
        legend.children, (line) => [line.childNodes[1].textContent, line.querySelector(".note").textContent])))""")
    for side, only, word in ((0, before - after, "only before"), (1, after - before, "only after")):
        equal(shown[side].get(word), size(browser, sum(n for _, n in only)) if only else None, word)
        equal(shown[side]["in both, at the same place"], size(browser, sum(n for _, n in before & after)), "in both")
    check(after - before, "what came")
    address = max(before & after, key=lambda place: place[1])[0]
    chosen, scales = browser.run("""const maps = document.getElementById("maps").vtMaps;
        const blocks = Array.from(document.querySelectorAll("script.vramtap-document")).slice(1).map((one, i) =>
            vt.report(JSON.parse(one.textContent)).blocks);
        const at = blocks.map((b) => b.address.indexOf(Number(arguments[0])));
        maps[0].choose(at[0]);
        maps[0].zoom(1.6);
        return [[at, maps.map((map) => map.selected())], maps.map((map, i) => map.place(at[i]).width)];""", address)
    equal(chosen[1], chosen[0], "the same block in both")
    check(scales[0] == scales[1] and scales[0] > 0, "one scale, zoomed together", scales)
    browser.shot("two-maps")
    browser.check_quiet()


# ---- the sites

GRAPH = "document.getElementById('sites').vtGraph"


def choose_frames(browser, which):
    browser.run("""const list = document.querySelector("#sites select"); list.value = arguments[0];
        list.dispatchEvent(new Event("change"))""", which)
    browser.settle()


def search_sites(browser, text):
    browser.run("""const box = document.querySelector("#sites input[type=search]"); box.value = arguments[0];
        box.dispatchEvent(new Event("input"))""", text)
    browser.settle()
    return browser.run("return document.querySelector('#sites .found').textContent")


def press(browser, text):
    browser.run("Array.from(document.querySelectorAll('#sites button')).find((b) => b.textContent === arguments[0]).click()", text)
    browser.settle()


def test_flame_graph_sums():
    case, browser = opened("sites")
    totals = [a["totals"]["allocated"] for a in case.json["pytorch"]["allocators"]]
    root = browser.run(f"return {GRAPH}.root().values")
    equal(root, [sum(t["bytes"] for t in totals), sum(t["blocks"] for t in totals)], "all in use")
    without = {reason: a for reason, a in case.recorded["without"].items() if a["blocks"]}
    boxes = browser.run(f"return {GRAPH}.root().children.filter((n) => n.kind === 'none').map((n) => [n.name, ...n.values])")
    equal(list(without), ["not_recorded"], "the reason")
    equal(boxes, [["no backtrace: allocated before recording began, or while it was off", without["not_recorded"]["bytes"],
                   without["not_recorded"]["blocks"]]], "the box of what has no backtrace")
    choose_frames(browser, "all")
    for text in ("Block.forward", "fragment", "at::_ops", "nothing at all"):
        hit = [t for t in case.recorded["backtraces"] if any(text in f for f in case.functions(t))]
        total, said = sum(t["bytes"] for t in hit), search_sites(browser, text)
        check((f": {size(browser, total)}, " in said) if hit else said == "no frame matches", f"the sum of {text}", said, total)
        if text == "Block.forward":
            check(hit and total, "backtraces with it", hit)
            press(browser, "blocks")
            said = browser.run("return document.querySelector('#sites .found').textContent")
            check(f": {sum(t['blocks'] for t in hit):,}, " in said, "the sum of blocks", said)
            browser.shot("sites")
            press(browser, "bytes in use")
    search_sites(browser, "")
    press(browser, "memory without a backtrace")
    equal(browser.run(f"return {GRAPH}.root().values[0]"), sum(s["bytes"] for s in case.recorded["sites"]), "what is recorded")
    browser.check_quiet()


def zoomed(browser):
    return browser.run(f"const path = []; for (let n = {GRAPH}.zoomed(); n; n = n.parent) path.unshift(n.name); return path")


def test_flame_graph_walks():
    from selenium.webdriver.common.keys import Keys
    case, browser = opened("sites")
    choose_frames(browser, "program")
    press(browser, "memory without a backtrace")
    canvas = browser.element("#sites canvas")
    step = browser.run(f"let n = {GRAPH}.root(); while (n.name !== 'Trainer.step') n = n.children[0]; const p = {GRAPH}.place(n);"
                       "return [p.x, p.y, p.width, n.values[0], n.depth]")
    of_root = sum(s["bytes"] for s in case.recorded["sites"])
    width = browser.run("return document.querySelector('#sites canvas').clientWidth")
    check(abs(step[2] / width - step[3] / of_root) < 0.001, "widths are to scale", step, width)
    click_on(browser, canvas, step[0] + step[2] / 2, step[1] + 10)
    equal(zoomed(browser), ["all recorded", "<module>", "main", "Trainer.step"], "after a click")
    crumbs = browser.text("#sites .crumbs li")
    check(len(crumbs) == 4 and crumbs[-1].startswith(f"Trainer.step, {size(browser, step[3])}, "), "the way to it", crumbs)
    canvas.send_keys(Keys.ARROW_DOWN)
    told = browser.run("return document.getElementById('told').textContent")
    check(told.startswith("Net.forward torch_page.py:"), "the frame below it", told)
    canvas.send_keys(Keys.ENTER)
    equal(zoomed(browser)[-1], "Net.forward", "after Enter")
    canvas.send_keys(Keys.ESCAPE)
    canvas.send_keys(Keys.ESCAPE)
    equal(zoomed(browser)[-1], "main", "after Escape, twice")
    browser.run("document.querySelector('#sites .crumbs button').click()")
    equal(zoomed(browser), ["all recorded"], "after a click on the way")
    browser.check_quiet()


def test_deep_flame_graph():
    """Of a recursion without end so many rows are drawn as a canvas can have; zooming leads to the others."""
    from selenium.webdriver.common.keys import Keys
    _, browser = opened("sites")
    browser.run("""
        const box = vt.el("div", { id: "deep" }), leaf = { name: "f6000", value: 1, children: [] };
        let tree = leaf;
        for (let i = 5999; i >= 0; i--)
            tree = { name: "f" + i, value: 1, children: [tree] };
        document.getElementById("content").prepend(box);
        window.deep = vt.flameGraph(box, vt.flameTree(tree), { weights: [{ title: "calls", format: String }] });
        box.scrollIntoView();""")
    browser.settle()
    canvas = browser.element("#deep canvas")

    def drawn_rows():
        """Rows with a colour that is not the background's."""
        browser.settle()
        return browser.run("""
            const canvas = arguments[0], ratio = canvas.width / canvas.clientWidth, copy = document.createElement("canvas");
            const context = copy.getContext("2d", { willReadFrequently: true });
            copy.width = canvas.width;
            copy.height = canvas.height;
            context.drawImage(canvas, 0, 0);
            const back = vt.rgb(vt.colour("back")).join(), rows = [];
            for (let y = 2; y < canvas.clientHeight; y += 20) {
                const at = context.getImageData(canvas.width - 20, y * ratio, 1, 1).data;
                rows.push(at.slice(0, 3).join() !== back);
            }
            return rows""", canvas)
    equal(drawn_rows(), [True] * 200 + [False], "rows at first")
    browser.run("let n = deep.root(); while (n.depth < 150) n = n.children[0]; deep.zoom(n)")
    rows_now = drawn_rows()
    equal(rows_now, [True] * 200 + [False], "rows after a zoom")
    browser.run("""const canvas = arguments[0], box = canvas.getBoundingClientRect();
        canvas.dispatchEvent(new MouseEvent("click", { clientX: box.left + 100, clientY: box.top + 199 * 20 + 10 }));""", canvas)
    equal(browser.run("return deep.zoomed().depth"), 149 + 199, "a click on the last row zooms to it")
    canvas.send_keys(Keys.ARROW_DOWN)
    equal(browser.run("return deep.cursor().depth"), 149 + 200, "one down")
    browser.run("let n = deep.root(); while (n.children.length) n = n.children[0]; deep.focus(n)")
    equal(sum(drawn_rows()), 200, "rows at the innermost frame")
    equal(browser.run("const p = deep.place(deep.cursor()); return [deep.cursor().name, p.y]"), ["f6000", 199 * 20], "the innermost frame")
    browser.run("document.getElementById('deep').remove()")
    browser.check_quiet()


def test_table_of_sites():
    case, browser = opened("sites")
    frames = case.recorded["frames"]
    lines = [(frames[s["title"]]["function"], s) for s in case.recorded["sites"]]
    none = case.recorded["without"]["not_recorded"]
    shown = rows(browser, "#sites .scrolls")
    total = sum(s["bytes"] for _, s in lines) + none["bytes"]
    want = sorted([(size(browser, s["bytes"]), f"{s['blocks']:,}", s["bytes"]) for _, s in lines] +
                  [(size(browser, none["bytes"]), f"{none['blocks']:,}", none["bytes"])], key=lambda row: -row[2])
    equal([(row[1], row[3]) for row in shown], [row[:2] for row in want[:len(shown)]], "bytes and blocks of places")
    equal([row[2] for row in shown], [browser.run("return vt.percent(...arguments)", row[2], total) for row in want[:len(shown)]],
          "shares")
    i, row = next((i, row) for i, row in enumerate(shown) if row[0].startswith("Block.forward"))
    site = next(s for name, s in lines if name == "Block.forward")
    equal((row[4], row[5], row[6]), (size(browser, site["largest_bytes"]), *browser.run(
        "return Array.from(arguments, vt.duration)", site["oldest_age_s"], site["newest_age_s"])), "largest and ages")
    browser.run("document.querySelectorAll('#sites tbody tr')[arguments[0]].click()", i)
    equal(stacks(browser, "#sites .panel"), [case.functions(case.recorded["backtraces"][b]) for b in site["backtraces"]],
          "its backtraces")
    bold = browser.run("return Array.from(document.querySelectorAll('#sites .panel .program .function'),"
                       "(f) => [f.textContent, getComputedStyle(f).fontWeight])")
    check(["Block.forward", "700"] in bold and all(name != "Module._call_impl" for name, _ in bold), "own frames are bold", bold)
    browser.run("document.querySelector('#sites .panel button').click()")
    chosen = case.blocks[selected(browser)]
    equal((chosen["bytes"], chosen["backtrace"] in site["backtraces"]), (site["largest_bytes"], True), "its largest block on the map")
    browser.check_quiet()


def test_unrecorded():
    case, browser = opened()
    browser.open(case.unrecorded)
    browser.show_all()
    check("It was not recorded where the blocks in use were allocated." in browser.text("#sites")[0], "says so", browser.text("#sites"))
    equal(browser.text("#sites code"), [f"vramtap record {case.pid} on"], "the command that would record")
    browser.check_quiet()


def many_blocks(report, wanted):
    """The page of a report with copies of its segments at other addresses, until it has so many blocks."""
    segments = report["pytorch"]["allocators"][0]["segments"]
    text = json.dumps(segments)[1:-1]
    copies = -(-wanted // sum(len(s["blocks"]) for s in segments))

    def copy(number):
        return re.sub(r'"address": "0x([0-9a-f]+)"', lambda m: f'"address": "{int(m[1], 16) + (number << 40):#x}"', text)

    whole = json.dumps(report)
    check(whole.count(text) == 1, "the segments in the report")
    saved, page = scratch("many.json"), scratch("many.html")
    with open(saved, "w", encoding="ascii") as file:
        file.write(whole.replace(text, ",".join(copy(number) for number in range(copies))))
    vramtap("html", saved, "-o", page, expect=COMPLETE)
    return page


def test_many_blocks():
    """100,000 blocks: what is drawn, filtered and coloured anew stays quick. The bounds are loose: machines of tests are busy."""
    case, browser = opened()
    page = many_blocks(case.json, 20000 if SANITIZED else 100000)
    browser.open(page)
    browser.show_all()
    browser.run("document.getElementById('segments').scrollIntoView()")
    frames = browser.driver.execute_async_script(f"""
        const done = arguments[arguments.length - 1], map = {MAP}, times = [];
        let last = performance.now(), i = 0;
        const next = () => {{
            times.push(performance.now() - last);
            last = performance.now();
            if (i++ < 40) {{
                map.setView({{ zoom: 1 + i / 10, left: i * 1e5, top: i * 4 }});
                requestAnimationFrame(next);
            }} else
                done(times.slice(3).sort((a, b) => a - b));
        }};
        requestAnimationFrame(next);""")
    middle = frames[len(frames) // 2]
    spent = browser.run("""
        const list = document.querySelector("#segments .tools select"), box = document.querySelector("#segments input[type=search]");
        const timed = (what) => { const begin = performance.now(); what(); return performance.now() - begin; };
        box.dispatchEvent(new Event("focus"));
        return [timed(() => { box.value = "exp_avg"; box.dispatchEvent(new Event("input")); }),
            timed(() => { list.value = "owner"; list.dispatchEvent(new Event("change")); })];""")
    print(f"  a frame {middle:.1f} ms, a filter {spent[0]:.1f} ms, other colours {spent[1]:.1f} ms")
    check(middle < 50, "milliseconds a frame", frames)
    check(max(spent) < 300, "milliseconds for a filter, and for other colours", spent)
    browser.check_quiet()


if __name__ == "__main__":
    with STACK:
        main(globals())
