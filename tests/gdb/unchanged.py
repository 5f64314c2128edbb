#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What gdb's commands leave alone: everything of gdb's that is not theirs; and where the text goes: as gdb's own does."""
import difflib
import os
import pty
import re
import select
import subprocess
import time

from session import attached, directory_of, for_each_gdb, machine_gdb, script, variables

from frames import FLAVOURS, Torch, spinning
from harness import check, equal, main, report_json, scratch
from memory import driver, expected_memory, some_of_everything

# All that show convenience, show user and the like say, before and after; what gdb changes by itself is left out.
LOOK = """thread
frame
info inferiors
info breakpoints
info checkpoints
info display
show height
show width
show confirm
show pagination
show language
show input-radix
show output-radix
show print pretty
show listsize
show logging
show style enabled
show non-stop
show schedule-multiple
show scheduler-locking
show history size
show environment LOOKED_AT
show args
show cwd
show user mine
show values
show convenience"""
# And what gdb sets when it detaches from a process.
OURS = re.compile(r"^\$(_|vt_|trace_|tracepoint\b).*\n", re.MULTILINE)
# Settings that are not gdb's own: every one must be as it was afterwards.
SETTINGS = ["set height 50", "set width 97", "set confirm on", "set pagination on", "set print pretty on", "set listsize 5",
            "set language c++", "set output-radix 16", "set environment LOOKED_AT me", "set $mine = 4711", "set $text_of_mine = 1.5",
            "set $vt = 7", "set $argc = 3", "set scheduler-locking off", "break usleep", "tbreak getpid", "display/i $pc",
            "define mine\necho mine\\n\nend", "print 42", "thread 2", "frame 2"]
COMMANDS = ["vramtap info", "vramtap blocks", "vramtap blocks all", "vramtap sites", "vramtap owners", "vramtap owners x",
            "vramtap block 0x1000", "vramtap stacks", "vramtap stacks all",
            "vramtap bt", "vramtap locals", "vramtap pyframe", "vramtap pyframe up", "vramtap pyframe 1", "vramtap save /dev/null", "vramtap help",
            "vramtap", "vramtap no-such-command", "vramtap info too many", "vramtap record", "vramtap record maybe", "vramtap block", "vramtap save"]
CHANGING = ["vramtap refresh", "vramtap ledger", "vramtap record on", "vramtap record off"]


def state_of(text):
    """Connections are numbered; a new attach has another number."""
    return re.sub(r"\b\d+ \(native\)", "(native)", OURS.sub("", text))


def check_unchanged(gdb, pid, commands):
    script_ = SETTINGS + [LOOK]
    for command in commands:
        script_ += [command, LOOK]
    run = attached(gdb, pid, *script_, symbols=True)
    n = len(SETTINGS)
    before = state_of(run.text[n])
    check("$mine = " in before and "$argc" in before and "usleep" in before and "#2" in before, "the state itself", before)
    for i, command in enumerate(commands):
        after = state_of(run.text[n + 2 + 2 * i])
        changed = [line for line in difflib.unified_diff(before.splitlines(), after.splitlines(), n=0, lineterm="") if line[:2] not in ("--", "++", "@@")]
        equal(changed, [], f"gdb's state after {command}, {gdb}")
        check(run.text[n + 1 + 2 * i].strip(), f"{command} says nothing, {gdb}")


def test_state():
    with spinning(FLAVOURS[1]) as proc:
        for_each_gdb(check_unchanged, proc.pid, COMMANDS)


def test_state_with_pytorch():
    with Torch() as torch:
        check_unchanged(machine_gdb(), torch.pid, COMMANDS)


def test_state_after_letting_go():
    """gdb detaches from the process and attaches again: breakpoints, selected thread and frame are as before."""
    with driver() as driver_:
        driver_("stream 1")
        driver_("pending 2 200000")  # for which there is a thread more
        for_each_gdb(check_unchanged, driver_.pid, CHANGING)


def test_variables_of_our_own():
    """All that is added begins with $vt_ or $_vt."""
    def check_one(gdb):
        names = []
        for commands in ([], COMMANDS):
            run = attached(gdb, proc.pid, *commands, "show convenience")
            names.append(set(re.findall(r"^\$(\w+) = ", run.last(), re.MULTILINE)))
        added = {n for n in names[1] - names[0] if not n.startswith(("vt_", "_vt_")) and n not in ("_shell_exitcode", "_shell_exitsignal", "_")}
        equal(added, set(), f"variables, {gdb}")
        check(names[1] - names[0], "none was added")
    with spinning(FLAVOURS[1]) as proc:
        for_each_gdb(check_one)


def moment(text):
    """Without what is of the moment, and the space that is left beside it."""
    return re.sub(r"up \d+ s |in [0-9.]+ .?s |\d\d:\d\d:\d\d", "", re.sub(r"   +pid", "  pid", text))


def test_in_other_commands():
    """The body of a user's own command, its argument, if and while; pipe; logging; with; a stop's commands; thread apply."""
    def check_one(gdb):
        log = scratch("log")
        run = attached(gdb, driver_.pid,
                       "define mine\nvramtap info\nvramtap block $arg0\nset $kept = $vt_blocks\nend", "mine 0x1000",
                       "print $kept",
                       "if 1\nvramtap info\nend", "set $i = 0\nwhile $i < 3\nvramtap info\nset $i = $i + 1\nend",
                       "pipe vramtap info | cat", "pipe vramtap info | wc -l", "pipe vramtap stacks | grep -c Threads",
                       f"set logging file {log}", "set logging enabled on" if gdb.version >= (12, 0) else "set logging on", "vramtap info",
                       "set logging enabled off" if gdb.version >= (12, 0) else "set logging off", "with width 60 -- vramtap info",
                       "thread apply all vramtap bt", "define hookpost-vramtap\necho after\\n\nend", "vramtap info", "vramtap info",
                       symbols=False)
        run.text = [moment(text) for text in run.text]
        info = run.text[3]
        lines = len(info.splitlines())
        check(lines > 5 and "GPU 0" in info, "info", info)
        check(info in run.text[1], "in a command", run.text[1])
        equal(run.text[2].split("=")[1].strip(), str(want["vt_blocks"]), "a variable that is kept")
        equal(run.text[4].count("GPU 0"), 3, "in a loop")
        equal(run.text[5], info, "pipe ... | cat")
        equal(run.text[6].strip(), str(lines), "pipe ... | wc")
        equal(run.text[7].strip(), "1", "pipe ... | grep")
        with open(log, encoding="utf-8") as file:
            check(info in moment(file.read()), "logging")
        check(all(len(line) <= 75 for line in run.text[12].splitlines() if "/" not in line), "with width 60", run.text[12])
        # gdb before 13 has lost what was to be applied after the first thread, when it comes from a file.
        check("Undefined command" not in run.text[13] and "pthread_cond_wait" in run.text[13], "thread apply", run.text[13])
        if gdb.version >= (13, 0):
            equal(run.text[13].count("waits in read"), run.text[13].count("\nThread ") and 1, "thread apply")
        equal(run.text[16].replace("after\n", ""), info, "the same again")
    with driver() as driver_:
        some_of_everything(driver_)
        want = expected_memory(report_json(driver_.pid, "--read-only"))
        for_each_gdb(check_one)


def test_breakpoint_commands():
    """As the commands of a breakpoint, in a program that goes on after them."""
    def check_one(gdb):
        with spinning(FLAVOURS[2]) as proc:
            run = attached(gdb, proc.pid, "break step_leaf if counted[0] > 1000", "commands\nsilent\nvramtap bt\nend", "continue", "show convenience",
                           "delete 1", "info program")
            check("spin_with_array" in run.text[2] and "step_leaf" in run.text[2], "bt at a breakpoint", run.text[2])
            check(variables(run.text[3])["vt_frames"] >= 5, "$vt_frames")
    for_each_gdb(check_one)


class Terminal:
    """gdb on a terminal of its own."""

    def __init__(self, gdb, *args, rows=10, columns=100):
        self.master, slave = pty.openpty()
        subprocess.run(["stty", "rows", str(rows), "cols", str(columns)], stdin=slave, check=False)
        self.proc = subprocess.Popen([gdb.path, "-nx", "-q", "-iex", "set pagination off", "-x", script(), *args], stdin=slave, stdout=slave, stderr=slave,
                                     start_new_session=True, env=dict(os.environ, TERM="xterm"))
        os.close(slave)
        self.seen = ""

    def until(self, word, seconds=60):
        """What was printed up to the word."""
        end = time.monotonic() + seconds
        while word not in self.seen:
            check(time.monotonic() < end, f"not on the terminal: {word!r}", self.seen[-1500:])
            if select.select([self.master], [], [], 0.2)[0]:
                try:
                    self.seen += os.read(self.master, 65536).decode("utf-8", "replace")
                except OSError:
                    check(False, "gdb ended", self.seen[-1500:])
        before, _, self.seen = self.seen.partition(word)
        return before

    def type(self, text):
        os.write(self.master, text.encode())

    def leave(self):
        """Lets go of the process and ends gdb."""
        for command in ("detach", "quit"):
            self.until("(gdb) ")
            self.type(command + "\n")
        self.proc.wait(timeout=20)

    def ask(self, command):
        """The answer to a command; every page is asked for."""
        self.until("(gdb) ")
        self.type(command + "\n")
        text, pages = "", 0
        while True:
            end = time.monotonic() + 60
            while "(gdb) " not in self.seen and "---" not in self.seen.rpartition("\n")[2] and "--Type" not in self.seen:
                check(time.monotonic() < end, "no answer", self.seen[-1500:])
                if select.select([self.master], [], [], 0.2)[0]:
                    self.seen += os.read(self.master, 65536).decode("utf-8", "replace")
            if "--Type" in self.seen:
                text += self.until("--Type")
                self.until("--")
                self.type("\n")
                pages += 1
                continue
            text += self.seen.partition("(gdb) ")[0]
            return text, pages

    def close(self):
        os.close(self.master)
        try:
            self.proc.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.proc.kill()
            self.proc.wait()


ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\r")


def test_terminal():
    """With pages of 10 lines: the answer comes page by page, and q ends it without ending the session or leaving anything behind."""
    def check_one(gdb):
        terminal = Terminal(gdb, "-p", str(driver_.pid))
        try:
            terminal.until("(gdb) ")
            terminal.type("set pagination on\n")
            terminal.until("(gdb) ")
            terminal.type("set height 10\n")
            text, pages = terminal.ask("vramtap stacks all")
            check(pages >= 2, "pages", pages, text)
            plain = ANSI.sub("", text)
            check("Threads" in plain and "main" in plain, "the answer", plain)
            terminal.until("(gdb) ")
            terminal.type("vramtap stacks all\n")
            terminal.until("--Type")
            terminal.until("--")
            terminal.type("q\n")
            terminal.until("Quit")
            text, _ = terminal.ask("show height")
            check("10" in text, "height", text)
            text, _ = terminal.ask("vramtap info")
            check("GPU 0" in text, "after q", text)
            # While gdb is detached, nothing waits for the user to read.
            text, pages = terminal.ask("vramtap refresh")
            check("GPU 0" in text and not pages, "pages of refresh", pages, text)
            text, _ = terminal.ask("show pagination")
            check("is on" in text, "pagination", text)
            # Return repeats what only looks, and not what changes the process or a file.
            saved = scratch("saved.json")
            terminal.ask(f"vramtap save {saved}")
            os.unlink(saved)
            text, _ = terminal.ask("")
            check(not os.path.exists(saved), "save was repeated by an empty line")
            terminal.leave()
        finally:
            terminal.close()
        check(not os.path.exists(directory_of(terminal.proc.pid)), "the directory is left", directory_of(terminal.proc.pid))
    with driver() as driver_:
        some_of_everything(driver_)
        for_each_gdb(check_one)


def test_machine_interface():
    """Front ends: the answer is console output, in records, and the command is done."""
    def check_one(gdb):
        commands = "".join(f"{i}-interpreter-exec console \"{c}\"\n" for i, c in enumerate(("vramtap info", "vramtap bt", "vramtap block 0x1000"), 100))
        done = subprocess.run([gdb.path, "-nx", "-q", "-i=mi", "-x", script(), "-p", str(driver_.pid)],
                              input=(commands + "200-gdb-exit\n").encode(), capture_output=True, timeout=60, check=False)
        lines = done.stdout.decode().splitlines()
        for i in (100, 101, 102):
            check(f"{i}^done" in lines, "done", lines[-30:])
        for line in lines:
            check(re.match(r'^(\d*\^|[~@&]"|\*|=|\d*\*|\(gdb\))', line), f"a line that is no record, {gdb}", line)
        console = "".join(line[2:-1] for line in lines if line.startswith("~"))
        check("GPU 0" in console and "main" in console, "the answers", console)
    with driver() as driver_:
        some_of_everything(driver_)
        for_each_gdb(check_one)


def test_help():
    """Each command has its text and is completed, also where gdb has no Python; a new one is noticed by its place in the script."""
    with open(script(), encoding="utf-8") as file:
        names = set(re.findall(r"^define vramtap (\S+)", file.read(), re.MULTILINE))
    equal(names, {"info", "blocks", "sites", "owners", "block", "stacks", "bt", "locals", "pyframe", "save", "record", "refresh", "ledger", "help"} | names, "commands")

    def check_one(gdb):
        run = attached(gdb, proc.pid, "complete vramtap ", "help vramtap", "vramtap help", "vramtap", "help user-defined", "complete vramt",
                       "help _vramtap", *(f"help vramtap {name}" for name in sorted(names)))
        equal(set(run.text[0].split("\n")) - {""}, {f"vramtap {name}" for name in names}, f"completion, {gdb}")
        for i in (1, 2, 3):
            for name in names:
                check(f"vramtap {name} --" in run.text[i] or f"vramtap {name}" in run.text[i], f"{name} in help", run.text[i])
            check("User-defined." not in run.text[i], f"a command without a text, {gdb}", run.text[i])
        check("vramtap" in run.text[4], "help user-defined", run.text[4])
        equal(run.text[5].split(), ["vramtap"], "completion of the prefix")
        for i, name in enumerate(sorted(names)):
            text = run.text[7 + i]
            check(len(text) > 15 and "User-defined." not in text, f"help vramtap {name}", text)
    with spinning(FLAVOURS[0]) as proc:
        for_each_gdb(check_one)


def test_loaded_twice():
    """Loading the script again asks nothing and changes nothing, with confirm on, too."""
    def check_one(gdb):
        run = attached(gdb, proc.pid, "set confirm on", f"source {script()}", f"source {script()}", "vramtap info", "complete vramtap i")
        equal(run.text[1] + run.text[2], "", f"what loading says, {gdb}")
        check(str(proc.pid) in run.text[3], "info", run.text[3])
        equal(run.text[4], "vramtap info\n", "completion")
    with spinning(FLAVOURS[0]) as proc:
        for_each_gdb(check_one)


if __name__ == "__main__":
    main(globals())
