#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""gdb's commands about memory, in every gdb, on a process and on its core: against vramtap report --json and PyTorch's own snapshot."""
import json
import os
import re

from session import SMALL, attached, batch, check_line, differences, for_each_gdb, machine_gdb, variables

import core
import torch_truth
from harness import COMPLETE, SOURCE, Job, check, compile_c, equal, main, report_json, scratch, simulated_python, target
from report_torch import Driver, versions


def driver():
    return Driver(versions()[0], **SMALL)


def some_of_everything(driver_):
    for command in ("alloc 50 5000", "private 3 100000", "free 10", "stream 1", "pending 2 200000", "stream 0", "alloc 2 3000000"):
        driver_(command)
    return driver_.snapshot()


def expected_memory(data):
    """The convenience variables that a report of the same moment asks for."""
    totals = [a["totals"] for a in data["pytorch"]["allocators"]]
    return {"vt_pid": data["process"]["pid"],
            "vt_reserved": sum(t["reserved_bytes"] for t in totals),
            "vt_allocated": sum(t["allocated"]["bytes"] for t in totals),
            "vt_cached": sum(t["cached"]["bytes"] for t in totals),
            "vt_awaiting": sum(t["awaiting_free"]["bytes"] for t in totals),
            "vt_blocks": sum(t[state]["blocks"] for t in totals for state in ("allocated", "cached", "awaiting_free")),
            "vt_segments": sum(t["segments"] for t in totals),
            "vt_sites": None}


def same_variables(got, want, what):
    for name, value in want.items():
        check(name in got, f"${name} is not set", what, sorted(got))
        equal(got[name], value, f"${name} {what}")


def check_memory(run, data, snapshot):
    """Answers of info, blocks, sites, each followed by show convenience."""
    want = expected_memory(data)
    for i, command in enumerate(("info", "blocks", "sites")):
        got = variables(run.text[2 * i + 1])
        same_variables(got, want, f"after {command}, {run.gdb}")
        equal(got["vt_status"], COMPLETE, f"$vt_status after {command}")
    info = run.text[0]
    check(str(want["vt_pid"]) in info and "Traceback" not in info, "the answer of info", info)
    blocks, stats = snapshot
    equal(sum(b[3] for b in blocks if b[5] == "allocated"), stats[0]["allocated_bytes"][0], "the snapshot itself")
    equal(want["vt_allocated"], stats[0]["allocated_bytes"][0], "$vt_allocated and PyTorch's own statistics")
    equal(want["vt_blocks"], len(blocks), "$vt_blocks and PyTorch's own snapshot")


COMMANDS = [c for name in ("info", "blocks", "sites") for c in (f"vramtap {name}", "show convenience")]


def test_variables_of_a_process():
    def check_one(gdb):
        run = attached(gdb, driver_.pid, *COMMANDS, symbols=False)
        data = report_json(driver_.pid, "--read-only")
        check_memory(run, data, driver_.snapshot())
        torch_truth.same_as_snapshot(data, *driver_.snapshot(), "outside")
    with driver() as driver_:
        some_of_everything(driver_)
        for_each_gdb(check_one)


def test_expandable_segments():
    """What is not mapped is neither a block nor a segment in any sum; it is found by its address."""
    gdb = machine_gdb()
    with driver() as driver_:
        driver_("expandable on")
        driver_("alloc 20 2000000")
        driver_("free 3")
        data, snapshot = report_json(driver_.pid, "--read-only"), driver_.snapshot()
        unmapped = [look for look in block_values(data) if look[1]["vt_block_state"] == "unmapped"]
        check(unmapped, "there is nothing unmapped")
        run = attached(gdb, driver_.pid, *COMMANDS, *(c for at, _ in unmapped for c in (f"vramtap block {at:#x}", "show convenience")),
                       symbols=False)
        check_memory(run, data, snapshot)
        check("1 segment" in run.text[0], "segments in the text", run.text[0])
        equal(variables(run.text[1])["vt_segments"], 1, "$vt_segments")
        for i, (at, want) in enumerate(unmapped):
            same_variables(variables(run.text[len(COMMANDS) + 2 * i + 1]), want, f"for {at:#x}")


def test_variables_in_expressions():
    """What is computed of them is no sum of ints, where 1 GiB and 1 GiB is negative."""
    def check_one(gdb):
        run = attached(gdb, driver_.pid, "vramtap info", 'printf "%lu\\n", ($vt_reserved + $vt_cached) * 1000000',
                       'printf "%ld\\n", $vt_allocated - $vt_reserved', f"vramtap block {a}", "printf \"%d\\n\", $vt_block_state[1] == 'l'",
                       symbols=False)
        equal([int(run.text[i]) for i in (1, 2, 4)], [(want["vt_reserved"] + want["vt_cached"]) * 1000000,
                                                      want["vt_allocated"] - want["vt_reserved"], 1], f"in {gdb}")
    with driver() as driver_:
        some_of_everything(driver_)
        data = report_json(driver_.pid, "--read-only")
        want = expected_memory(data)
        a = next(want["vt_block_addr"] for _, want in block_values(data) if want["vt_block_state"] == "allocated")
        for_each_gdb(check_one)


def test_variables_of_a_core():
    def check_one(gdb):
        exe = os.readlink(f"/proc/{driver_.pid}/exe")
        check_memory(batch(gdb, COMMANDS, exe, "-c", path, symbols=False), data, snapshot)
        # The core alone, as gdb is often started.
        check_memory(batch(gdb, COMMANDS, "-c", path, symbols=False), data, snapshot)
        # And as a command.
        check_memory(batch(gdb, COMMANDS, exe, before=[f"core-file {path}"], symbols=False), data, snapshot)
    with driver() as driver_:
        snapshot = some_of_everything(driver_)
        with core.gcore(driver_.pid) as path:
            data = core.report_core(path)
            for_each_gdb(check_one)


# What cannot be the same: the moment, how long it took, and what the process did that holds it or does not.
MAY_DIFFER = (".time", ".timing", ".process.uptime_s", ".process.state", ".process.tracer", ".read_ns", ".walk_ns", ".kernel_stack",
              ".wchan", ".held_by", ".process.held_by", ".core", ".cpu", ".usage.ms", ".faults.ms", ".next")


def check_saved(saved, reported, what):
    # held_by says that the driver was not asked.
    reported = {**reported, "diagnostics": [d for d in reported["diagnostics"] if d["code"] != "read-only"]}
    found = [d for d in differences(saved, reported) if not any(word in d[0] for word in MAY_DIFFER)]
    equal(found, [], f"a saved report and {what}")


def load(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def test_save():
    def check_one(gdb, of_core):
        saved = scratch("saved.json")
        where = ("-c", path) if of_core else ("-p", str(driver_.pid))
        run = batch(gdb, [f"vramtap save {saved}", "show convenience"], *where)
        check(saved in run.text[0], "the file is not named", run.text[0])
        equal(len(run.text[0].splitlines()), 1, "lines of save")
        data = load(saved)
        reported = core.report_core(path) if of_core else report_json(driver_.pid, "--read-only")
        check_saved(data, reported, f"the report, {gdb}")
        equal(data["held_by"], None if of_core else "gdb", "what held it")
        same_variables(variables(run.text[1]), expected_memory(reported), f"after save, {gdb}")
        equal(variables(run.text[1])["vt_threads"], len(reported["threads"]), "$vt_threads")
    with driver() as driver_:
        some_of_everything(driver_)
        for_each_gdb(check_one, False)
        with core.gcore(driver_.pid) as path:
            for_each_gdb(check_one, True)


def test_save_elsewhere():
    """A relative name is in gdb's directory; one that cannot be written gets one line; so does no name."""
    gdb = machine_gdb()
    with driver() as driver_:
        driver_("alloc 5 1000")
        where = scratch()
        run = attached(gdb, driver_.pid, f"cd {where}", "vramtap save here.json", "vramtap save /nowhere/at-all.json", "vramtap save",
                       "vramtap save one two", "vramtap info", symbols=False)
        equal(load(os.path.join(where, "here.json"))["completeness"], "complete", "a relative name")
        check_line(run.text[2], "/nowhere/at-all.json")
        check_line(run.text[3], "usage: vramtap save FILE")
        check_line(run.text[4], "usage: vramtap save FILE")
        check("5" in run.text[5], "info after it", run.text[5])


# ---- block ADDR ----

def block_values(data):
    """By address and kind of look: what must be in the convenience variables."""
    for allocator in data["pytorch"]["allocators"]:
        for segment in allocator["segments"]:
            blocks = segment["blocks"]
            for i, block in enumerate(blocks):
                start, n = int(block["address"], 16), block["bytes"]
                want = {"vt_block_addr": start, "vt_block_size": n, "vt_block_device": allocator["device"],
                        "vt_block_stream": int(segment["stream"], 16), "vt_block_state": block["state"],
                        "vt_block_prev": int(blocks[i - 1]["address"], 16) if i else None,
                        "vt_block_next": int(blocks[i + 1]["address"], 16) if i + 1 < len(blocks) else None,
                        "vt_segment_addr": int(segment["address"], 16) if segment["bytes"] else None,
                        "vt_segment_size": segment["bytes"] or None}
                if block["state"] == "allocated":
                    want["vt_block_requested"] = block["requested_bytes"]
                yield start, want
                yield start + n - 1, want


NOTHING_FOUND = dict.fromkeys(("vt_block_addr", "vt_block_size", "vt_block_requested", "vt_block_device", "vt_block_stream", "vt_block_prev",
                               "vt_block_next", "vt_segment_addr", "vt_segment_size", "vt_block_state", "vt_block_category", "vt_block_owner"))


def test_block():
    """First and last byte of every block; one past the end of each segment; 0, a host address, the highest."""
    def look(gdb, *where):
        commands = []
        for address, _ in cases:
            commands += [f"vramtap block {address:#x}", "show convenience"]
        run = batch(gdb, commands, *where, symbols=False)
        for i, (address, want) in enumerate(cases):
            same_variables(variables(run.text[2 * i + 1]), want, f"for {address:#x}, {gdb}")
            text = run.text[2 * i]
            check(text and not text.startswith("vramtap:"), "the answer", text)
            if want is not NOTHING_FOUND:
                check(f"{want['vt_block_addr']:#x}" in text or f"{want['vt_block_addr']:x}" in text, "the block's address in the text",
                      text, hex(want["vt_block_addr"]))

    with driver() as driver_:
        some_of_everything(driver_)
        data = report_json(driver_.pid, "--read-only")
        cases = list(block_values(data))
        starts = {want["vt_block_addr"] for _, want in cases}
        ends = {s + want["vt_segment_size"] for _, want in cases for s in [want["vt_segment_addr"]]}
        check(len(starts) == expected_memory(data)["vt_blocks"] > 20, "cases", len(starts))
        with open(f"/proc/{driver_.pid}/maps", encoding="ascii") as maps:
            host = int(next(line for line in maps if "[stack]" in line).split("-")[0], 16)
        cases += [(a, NOTHING_FOUND) for a in sorted(ends - starts) + [0, 1, host, (1 << 64) - 1]]
        look(machine_gdb(), "-p", str(driver_.pid))
        cases = cases[:6] + cases[-6:]
        for_each_gdb(look, "-p", str(driver_.pid))
        with core.gcore(driver_.pid) as path:
            for_each_gdb(look, "-c", path)


def test_block_expressions():
    """An expression with spaces, of registers, of symbols, of convenience variables; with another radix and in other languages."""
    def check_one(gdb):
        n = a // 512
        commands = [f"vramtap block {a - 512:#x} + 512", f"vramtap block {a - 1:#x} + 1 + 0", f"vramtap block (char *) {a:#x}",
                    "set $where = (char *)" + hex(a), "vramtap block $where", "vramtap block $where + 0x10",
                    f"vramtap block ({n} * 0x200)", f"vramtap block ({a})", f"vramtap block {a}"]
        run = attached(gdb, driver_.pid, *(c for command in commands for c in (command, "show convenience")), symbols=False)
        for i, command in enumerate(commands):
            if command.startswith("vramtap"):
                equal(variables(run.text[2 * i + 1])["vt_block_addr"], a, f"$vt_block_addr after {command}, {gdb}")
        run = attached(gdb, driver_.pid, "set input-radix 16", f"vramtap block {a:x}", "show convenience",
                       f"vramtap block {a:#x}", "show convenience", "vramtap info", "show convenience", "show input-radix", symbols=False)
        for i in (2, 4):
            equal(variables(run.text[i])["vt_block_addr"], a, f"with input-radix 16, {gdb}")
        same_variables(variables(run.text[6]), expected_memory(data), "with input-radix 16")
        check("16" in run.text[7], "input-radix", run.text[7])
        check("x" in run.text[1] and "vramtap:" not in run.text[1], "the answer", run.text[1])
        run = attached(gdb, driver_.pid, "set input-radix 8", f"vramtap block {a:#x}", "show convenience",
                       f"vramtap block {a - 7:#x} + 1 + 1 + 1 + 1", "vramtap info", "show convenience", "show max-value-size", "show input-radix", symbols=False)
        equal(variables(run.text[2])["vt_block_addr"], a, f"with input-radix 8, {gdb}")
        check("65536" in run.text[6] and " 8." in run.text[7], "settings with input-radix 8", run.text[6:8])
        check("usage" in run.text[3], "nine words", run.text[3])
        same_variables(variables(run.text[5]), expected_memory(data), "with input-radix 8")
    with driver() as driver_:
        some_of_everything(driver_)
        data = report_json(driver_.pid, "--read-only")
        a = next(want["vt_block_addr"] for _, want in block_values(data) if want["vt_block_state"] == "allocated")
        for_each_gdb(check_one)


def test_block_symbol():
    """A variable of the program's own, and a pointer in it."""
    with driver() as driver_:
        driver_("alloc 3 1000")
        run = attached(machine_gdb(), driver_.pid, "vramtap block &main", "vramtap block stdin", "show convenience", "vramtap block main",
                       "vramtap info")
        for i in (0, 1, 3):
            check(run.text[i] and "no symbol" not in run.text[i].lower(), "the answer", run.text[i])
        same_variables(variables(run.text[2]), NOTHING_FOUND, "for a host address")


LEAKS = os.path.join(SOURCE, "tests", "targets", "torch_leaks.py")


def kept(data):
    """Blocks in use by their address."""
    return {b["address"]: b for a in data["pytorch"]["allocators"] for s in a["segments"] for b in s["blocks"] if b["state"] == "allocated"}


def check_owners(gdb, data, *where):
    blocks = kept(data)
    some = sorted(blocks, key=lambda a: -blocks[a]["bytes"])[::len(blocks) // 6]
    # A name is no command, wherever it comes to.
    evil = f"x;touch${{IFS}}{scratch('evil')}|$(id)`id`&"
    run = batch(gdb, ["vramtap owners", "show convenience", "vramtap owners all", "vramtap owners losses", "vramtap owners optimizer.state*'exp_avg'*",
                      "vramtap owners 'late in train'", f"vramtap owners {evil}", "show environment VRAMTAP_PATTERN",
                      *(c for a in some for c in (f"vramtap block {a}", "show convenience"))], *where, symbols=False)
    same_variables(variables(run.text[1]), expected_memory(data), f"after owners, {gdb}")
    for words in ("What the blocks in use are", "What would be freed", "losses (8 items)", "Owners of the 20 largest blocks"):
        check(words in run.text[0], f"{words!r}, {gdb}", run.text[0])
    equal(run.text[2].split("Owners of the blocks in use")[1].count("\n"), len(blocks) + 1, f"blocks that are listed, {gdb}")
    for i, part in ((3, "losses"), (4, "'exp_avg'"), (5, "late in train")):
        found = sum(any(part in (b["owner"].get(key) or "") for key in ("name", "variable")) for b in blocks.values())
        check(found and f"Owners that match: {found} block" in run.text[i], f"blocks of {part}: {found}, {gdb}", run.text[i][:300])
    check("No owner matches" in run.text[6] and not os.path.exists(evil.split("}")[1].split("|")[0]), f"a hostile pattern, {gdb}", run.text[6])
    check("not defined" in run.text[7], f"what is left of a pattern, {gdb}", run.text[7])
    for i, address in enumerate(some):
        text, got, owner = run.text[8 + 2 * i], variables(run.text[9 + 2 * i]), blocks[address]["owner"]
        same_variables(got, {"vt_block_category": owner["category"], "vt_block_owner": owner["name"]}, f"for {address}, {gdb}")
        check((owner["name"] or "nobody found") in " ".join(text.split()), f"the owner of {address}, {gdb}", text, owner)
        if owner.get("frees", {}).get("bytes"):
            check(re.search(r"^  freed +with ", text, re.M), f"what frees {address}, {gdb}", text, owner)


def test_owners():
    """A loop with leaks, held by gdb, and its core: as a report has them."""
    with Job(simulated_python(versions()[0]) + [LEAKS], ready="ready", env=dict(os.environ, **dict(SMALL, SIMCUDA_MEM_MB="512"))) as program:
        data = report_json(program.pid, "--read-only")
        for_each_gdb(check_owners, data, "-p", str(program.pid))
        with core.gcore(program.pid) as path:
            check_owners(machine_gdb(), core.report_core(path), "-c", path)


def test_no_owners():
    """Where there is no Python it says why."""
    with driver() as driver_:
        driver_("alloc 3 1000")
        run = attached(machine_gdb(), driver_.pid, "vramtap owners", "vramtap owners x", "vramtap info", symbols=False)
        for text in run.text[:2]:
            check("Not known: there is no Python interpreter that can be read." in text, "why", text)


def test_wrong_expression():
    """What gdb cannot make a number of: its own one line, as print would say; and nothing of an earlier look is left."""
    gdb = machine_gdb()
    with driver() as driver_:
        driver_("alloc 3 1000")
        for expression, word in (("no_such_symbol_at_all", "symbol"), ("1 +", "syntax error"), ("*(char *)0", "memory")):
            run = attached(gdb, driver_.pid, "vramtap info", before=[f"vramtap block {expression}"], symbols=False)
            before = run.out.split("@@vramtap-test-0")[0]
            check(word in before, "gdb's own message", before[-300:])
            check("GPU 0" in run.text[0], "the session goes on", run.text[0])


# In C: other languages write values in other ways.
CONVENIENCE = "with language c -- show convenience"
LANGUAGES = ("c", "c++", "minimal", "asm", "fortran", "go", "modula-2", "objective-c", "opencl", "rust", "ada", "d", "pascal")
OF_THEM = ("c++", "minimal", "rust", "ada", "pascal")


def test_languages():
    """In whichever language gdb is: right, and the language stays. An address is read in that language: some have no such numbers."""
    def check_one(gdb):
        without = []
        for language in LANGUAGES if gdb is machine_gdb() else OF_THEM:
            run = attached(gdb, driver_.pid, CONVENIENCE, "vramtap info", CONVENIENCE, "vramtap bt", "vramtap stacks", "vramtap locals",
                           "vramtap pyframe", "vramtap record x", "vramtap block", "show language", symbols=False,
                           before=[f"set language {language}", f"vramtap block {a}"])
            if variables(run.text[0]).get("vt_block_addr") != a:
                without.append(language)
                text = run.out.split("@@vramtap-test-0")[0].rpartition("does not match this frame.\n")[2]
                equal(len(text.splitlines()), 1, f"lines of block in {language}, {gdb}: {text}")
            check("GPU 0" in run.text[1], f"info in {language}, {gdb}", run.text[1])
            same_variables(variables(run.text[2]), expected_memory(data), f"in {language}, {gdb}")
            check("main" in run.text[3], "bt", run.text[3])
            check("main" in run.text[4], "stacks", run.text[4])
            for i in range(5, 9):
                check_line(run.text[i], what=f"in {language}, {gdb}")
            check(f'"{language}"' in run.text[9], "the language", run.text[9])
        check(set(without) <= {"modula-2", "fortran", "pascal", "rust"}, "languages in which an address is none", without)
        if without:
            print(f"  {gdb}: no such number in {', '.join(without)}")
    with driver() as driver_:
        some_of_everything(driver_)
        data = report_json(driver_.pid, "--read-only")
        a = next(want["vt_block_addr"] for _, want in block_values(data))
        for_each_gdb(check_one, few=True)


def test_blocks_arguments():
    with driver() as driver_:
        driver_("alloc 30 600")
        for i in range(25):
            driver_(f"alloc 1 {512 * (100 + i)}")
        run = attached(machine_gdb(), driver_.pid, "vramtap blocks", "vramtap blocks 3", "vramtap blocks all", "vramtap blocks 0",
                       *(f"vramtap blocks {word}" for word in ("-1", "x", "99999999999999999999", "3 4", "all all", "'a b'", "")),
                       symbols=False)
        blocks = report_json(driver_.pid, "--read-only")["pytorch"]["allocators"][0]["segments"]
        addresses = [b["address"] for s in blocks for b in s["blocks"]]
        for address in addresses:
            check(address in run.text[2], "a block is missing in vramtap blocks all", address, run.text[2])
        shown = [sum(address in text for address in addresses) for text in run.text[:4]]
        equal(shown, [20, 3, len(addresses), 0], "how many single blocks blocks, blocks 3, all and 0 show")
        for text in run.text[4:10]:
            check_line(text, "usage: vramtap blocks [COUNT|all]")
        equal(run.text[10], run.text[0], "blocks with a space after it")


def test_no_pytorch():
    """A process with nothing of it: no numbers, and no error."""
    program = compile_c('#include <stdio.h>\nint main(void){puts("READY");fflush(stdout);getchar();return 0;}\n')
    with target([program], ready="READY") as proc:
        for_each_gdb(lambda gdb: no_pytorch(gdb, proc.pid))


def no_pytorch(gdb, pid):
    run = attached(gdb, pid, "vramtap info", "show convenience", "vramtap blocks", "vramtap sites", "vramtap block 0x1000", "show convenience",
                   "vramtap stacks", "vramtap bt", "vramtap save /dev/null")
    got = variables(run.text[1])
    equal(got["vt_pid"], pid, "$vt_pid")
    for name in ("vt_blocks", "vt_reserved", "vt_allocated"):
        equal(got[name], None, f"${name} of a process without PyTorch")
    same_variables(variables(run.text[5]), NOTHING_FOUND, "without PyTorch")
    for i in (0, 2, 3, 4, 6, 7, 8):
        check(run.text[i].strip() and "Traceback" not in run.text[i], f"answer {i}", run.text[i])


if __name__ == "__main__":
    main(globals())
