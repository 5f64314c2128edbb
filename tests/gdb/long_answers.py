#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Answers of many pages, in every gdb: the same text with gdb's Python and without it; pages, logs, pipes and front ends have it as any."""
import os
import re
import subprocess

from session import attached, directory_of, for_each_gdb, gdbs, script

from harness import Skip, check, equal, main, scratch
from memory import driver
from unchanged import ANSI, Terminal, moment

BLOCKS = 1500
COMMAND = "vramtap blocks all"


class Blocks:
    """A process with so many blocks that the answer has several parts."""

    def __enter__(self):
        self.driver = driver()
        self.pid = self.driver.__enter__().pid
        self.driver(f"alloc {BLOCKS} 600")
        return self

    def __exit__(self, *exc):
        return self.driver.__exit__(*exc)


def check_whole(text, gdb):
    """Every block once, and the variable that had the parts has none any more."""
    addresses = re.findall(r"^    (0x[0-9a-f]+) +1\.00 KiB   in use", text, re.MULTILINE)
    equal((len(addresses), len(set(addresses))), (BLOCKS, BLOCKS), f"blocks, {gdb}")
    check(len(text) > 2 * 32768, "one part only", len(text))


def test_same_text():
    """With Python and without: byte for byte, whatever max-value-size and the language are."""
    texts = {}

    def look(gdb):
        run = attached(gdb, blocks.pid, COMMAND, "show convenience", "set max-value-size 100", COMMAND, "show max-value-size", "set language pascal", COMMAND,
                       "show convenience", symbols=False)
        equal("$_vt_text = void" in run.text[1], gdb.python, f"Python had the text, {gdb}")
        check("vt_text" not in run.text[1].replace("$_vt_text = void", ""), f"what is left, {gdb}", run.text[1])
        rows = re.findall(r"^\$_vt_row_\w+ = (.*)", run.text[1], re.MULTILINE)
        check(gdb.python or rows, f"rows, {gdb}", run.text[1])
        equal(set(rows) - {"void"}, set(), f"what is left of rows, {gdb}")
        texts[str(gdb)] = moment(run.text[0])
        check_whole(run.text[0], gdb)
        for i in (3, 6):
            equal(moment(run.text[i]), moment(run.text[0]), f"the answer number {i}, {gdb}")
        check("100 bytes" in run.text[4], f"max-value-size, {gdb}", run.text[4])
    with Blocks() as blocks:
        for_each_gdb(look)
    if len({gdb.python for gdb in gdbs()}) < 2:
        raise Skip("there is no gdb with Python and one without")
    first, *others = texts
    for other in others:
        equal(texts[other], texts[first], f"{other} and {first}")


def test_where_it_goes():
    """A pipe, a log, a command of the user's, in a loop."""
    def check_one(gdb):
        log = scratch("log")
        on, off = ("set logging enabled on", "set logging enabled off") if gdb.version >= (12, 0) else ("set logging on", "set logging off")
        run = attached(gdb, blocks.pid, COMMAND, f"pipe {COMMAND} | cat", f"set logging file {log}", on, COMMAND, off,
                       f"define mine\n{COMMAND}\necho after it\\n\nend", "mine", f"set $i = 0\nwhile $i < 2\n{COMMAND}\nset $i = $i + 1\nend", symbols=False)
        text = moment(run.text[0])
        check_whole(text, gdb)
        equal(moment(run.text[1]), text, f"in a pipe, {gdb}")
        equal(moment(run.text[4]), text, f"with a log, {gdb}")
        with open(log, encoding="utf-8") as file:
            check(text in moment(file.read()), f"the log, {gdb}")
        equal(moment(run.text[7]), text + "after it\n", f"in a command, {gdb}")
        equal(moment(run.text[8]), text * 2, f"in a loop, {gdb}")
    with Blocks() as blocks:
        for_each_gdb(check_one)


def check_pages(gdb, pid):
    terminal = Terminal(gdb, "-p", str(pid))
    try:
        for command in ("set pagination on", "set height 200"):
            terminal.until("(gdb) ")
            terminal.type(command + "\n")
        text, pages = terminal.ask(COMMAND)
        check_whole(ANSI.sub("", re.sub(r"--Type.*?--", "", text)), gdb)
        check(BLOCKS // 200 <= pages <= BLOCKS // 200 + 2, f"pages, {gdb}", pages)
        terminal.until("(gdb) ")
        # q ends the answer, and the command that it is in.
        for line in ("define mine", COMMAND, "echo not\\040this\\n", "end", "mine"):
            terminal.type(line + "\n")
        terminal.until("--Type")
        terminal.until("--")
        terminal.type("q\n")
        terminal.until("Quit")
        text, _ = terminal.ask("show max-value-size")
        check("not this" not in text and "65536" in text, f"after q, {gdb}", text)
        text, pages = terminal.ask(COMMAND)
        check(pages >= BLOCKS // 200 and "in use" in text, f"the next answer, {gdb}", pages)
        terminal.leave()
    finally:
        terminal.close()
    check(not os.path.exists(directory_of(terminal.proc.pid)), "the directory is left", directory_of(terminal.proc.pid))


def test_pages():
    with Blocks() as blocks:
        for_each_gdb(check_pages, blocks.pid)


def test_machine_interface():
    """Front ends: console output, in records."""
    def check_one(gdb):
        done = subprocess.run([gdb.path, "-nx", "-q", "-i=mi", "-x", script(), "-p", str(blocks.pid)],
                              input=f'100-interpreter-exec console "{COMMAND}"\n200-gdb-exit\n'.encode(), capture_output=True, timeout=60, check=False)
        lines = done.stdout.decode().splitlines()
        check("100^done" in lines, f"done, {gdb}", lines[-10:])
        check_whole("".join(line[2:-1] for line in lines if line.startswith("~")).replace("\\n", "\n"), gdb)
    with Blocks() as blocks:
        for_each_gdb(check_one)


if __name__ == "__main__":
    main(globals())
