#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""gdb's commands in frames of any language: gdb's warning that a language does not match the frame is not part of an answer."""
from session import attached, for_each_gdb

from harness import check, compile_c, equal, main, target

PROGRAM = """#include <cstdio>
#include <unistd.h>
struct Waiter {
\tvirtual int wait(int x) { puts("READY"); fflush(stdout); pause(); return x; }
};
int main() { Waiter waiter; return waiter.wait(3); }
"""
COMMANDS = ("vramtap info", "vramtap block 0x10", "vramtap bt", "vramtap no-such-command", "vramtap record", "vramtap pyframe")


def in_each_frame(gdb, pid):
    commands = [c for frame in ("frame function Waiter::wait", "frame 0", "frame function main") for c in (frame, *COMMANDS)]
    run = attached(gdb, pid, *commands, "frame function main", "show language")
    for command, text in zip(commands, run.text):
        check(command.startswith("frame") or "language" not in text, f"{gdb}: {command}", text)
    check("auto; currently c++" in run.last(), "the language afterwards", run.last())
    equal(sum("Waiter::wait" in text for command, text in zip(commands, run.text) if command == "vramtap bt"), 3, "frames of the program")


def test_no_warning():
    with target([compile_c(PROGRAM, "-g", "-O0", compiler="g++")], ready="READY") as proc:
        for_each_gdb(in_each_frame, proc.pid)


if __name__ == "__main__":
    main(globals())
