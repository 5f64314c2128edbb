#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""More than one process in a gdb, programs that gdb runs, forks, and cores beside processes: always the selected one is meant."""
import os
import re

from session import attached, batch, for_each_gdb, machine_gdb, script, variables

import core
from frames import FLAVOURS, spinning
from harness import CACHE, Skip, check, compile_c, equal, main, report_json, scratch
from memory import driver, expected_memory, same_variables, some_of_everything
from report_torch import versions


def test_two_processes():
    """Each with its own memory and threads; the second is looked at while the first is there, and the other way round."""
    def check_one(gdb):
        commands = []
        for number in (2, 1, 2):
            commands += [f"inferior {number}", "vramtap info", "show convenience", "vramtap bt", "vramtap stacks", "show convenience", "info inferiors"]
        run = batch(gdb, commands, before=[f"attach {pids[0]}", "add-inferior", "inferior 2", f"attach {pids[1]}"], symbols=False)
        for i, which in enumerate((1, 0, 1)):
            text = run.text[7 * i:7 * i + 7]
            same_variables(variables(text[2]), wanted[which], f"of inferior {which + 1}, {gdb}")
            check(str(pids[which]) in text[1] and str(pids[1 - which]) not in text[1], "info", text[1])
            got = variables(text[5])
            equal((got["vt_threads"], got["vt_tid"]), (len(os.listdir(f"/proc/{pids[which]}/task")), pids[which]), "threads")
            check(re.search(rf"^\* {which + 1} .*process {pids[which]}", text[6], re.MULTILINE), "the selected inferior", text[6])
    with driver() as one, driver() as other:
        some_of_everything(one)
        other("alloc 30 70000")
        pids = (one.pid, other.pid)
        wanted = [expected_memory(report_json(pid, "--read-only")) for pid in pids]
        for_each_gdb(check_one)


def test_refresh_of_one():
    """Only the selected process is detached."""
    with driver() as one, driver() as other:
        some_of_everything(one)
        other("alloc 30 70000")
        wanted = expected_memory(report_json(other.pid, "--read-only"))
        for gdb in (machine_gdb(),):
            run = batch(gdb, ["vramtap refresh", "show convenience", "info inferiors", "inferior 1", "vramtap info"],
                        before=[f"attach {one.pid}", "add-inferior", "inferior 2", f"attach {other.pid}"], symbols=False)
            same_variables(variables(run.text[1]), wanted, "after refresh")
            check(re.search(rf"^\* 2 .*process {other.pid}", run.text[2], re.MULTILINE), "the selected inferior", run.text[2])
            check(re.search(rf"^  1 .*process {one.pid}", run.text[2], re.MULTILINE), "the other inferior", run.text[2])
            check(str(one.pid) in run.text[4], "the other one", run.text[4])


def test_process_and_core():
    """A core in one inferior, a process in the other."""
    def check_one(gdb):
        run = batch(gdb, ["vramtap info", "show convenience", "vramtap bt", "inferior 1", "vramtap info", "show convenience", "vramtap bt"],
                    before=[f"core-file {path}", "add-inferior -no-connection" if gdb.version >= (10, 0) else "add-inferior", "inferior 2",
                            f"attach {other.pid}"], symbols=False)
        same_variables(variables(run.text[1]), wanted[1], f"of the process, {gdb}")
        same_variables(variables(run.text[5]), wanted[0], f"of the core, {gdb}")
        check("core" in run.text[4], "info", run.text[4])
        for i in (2, 6):
            check("main" in run.text[i], "bt", run.text[i])
    with driver() as one, driver() as other:
        some_of_everything(one)
        other("alloc 30 70000")
        with core.gcore(one.pid) as path:
            wanted = [expected_memory(core.report_core(path)), expected_memory(report_json(other.pid, "--read-only"))]
            for_each_gdb(check_one)


FORKS = """
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
__attribute__((noinline)) void in_child(void) { prctl(PR_SET_PDEATHSIG, SIGKILL); pause(); }
__attribute__((noinline)) void in_parent(int pid) { waitpid(pid, 0, 0); }
int main(void)
{
	int pid = fork();
	if (!pid)
		in_child();
	else
		in_parent(pid);
	return 0;
}
"""


def test_fork():
    """gdb follows the child, the parent, or has both."""
    program = compile_c(FORKS, "-g")

    def check_one(gdb):
        for mode, where in (("child", "in_child"), ("parent", "in_parent")):
            run = batch(gdb, ["vramtap bt", "show convenience", "info inferiors", "vramtap info", "kill"], program,
                        before=[f"set follow-fork-mode {mode}", "set detach-on-fork on", f"break {where}", "run"])
            check(where in run.text[0], f"bt of the {mode}, {gdb}", run.text[0])
            pid = int(re.search(r"^\* .*process (\d+)", run.text[2], re.MULTILINE)[1])
            equal(variables(run.text[1])["vt_tid"], pid, "its thread")
            check(str(pid) in run.text[3], "info", run.text[3])
        run = batch(gdb, ["info inferiors", "vramtap bt", "inferior 1", "vramtap bt", "info inferiors", "vramtap stacks all", "kill inferiors 1 2"], program,
                    before=["set detach-on-fork off", "set follow-fork-mode child", "break in_child", "run"])
        equal(len(re.findall(r"process \d+", run.text[0])), 2, f"both, {gdb}: {run.text[0]}")
        check("in_child" in run.text[1] and "in_child" not in run.text[3] and "fork" in run.text[3].lower(), "bt of both", run.text[1], run.text[3])
        check("in_child" not in run.text[5], "threads of the parent alone", run.text[5])
    for_each_gdb(check_one)


def test_run_by_gdb():
    """PyTorch's allocator in a program that gdb itself has started, stopped in it by a breakpoint."""
    version = versions()[0]
    program = os.path.join(CACHE, "torch", version, "c10_driver")
    if not os.path.exists(program):
        raise Skip(f"PyTorch {version} is not set up")
    commands = scratch("input")
    with open(commands, "w", encoding="ascii") as out:
        out.write("alloc 20 5000\nfree 3\nsleep 1\n")

    def check_one(gdb):
        saved = scratch("saved.json")
        libraries = ":".join(os.path.join(CACHE, *part) for part in (("simcuda",), ("torch", version, "stubs")))
        run = batch(gdb, ["vramtap info", "show convenience", "vramtap bt", f"vramtap save {saved}", "delete", "continue", "vramtap info"], program,
                    before=["set breakpoint pending on", f"set environment LD_LIBRARY_PATH {libraries}", "set environment SIMCUDA_DEVICES 1",
                            "set environment SIMCUDA_MEM_MB 128", "set environment SIMCUDA_CTX_MB 16", "break clock_nanosleep", f"run <{commands} >/dev/null"])
        got = variables(run.text[1])
        equal((got["vt_blocks"] >= 17, got["vt_allocated"]), (True, 17 * 5120), f"what was allocated, {gdb}: {run.text[0]}")
        check("main" in run.text[2] and "sleep" in run.text[2], "bt", run.text[2])
        check("no process and no core" in run.text[6], "after its end", run.text[6])
    for_each_gdb(check_one)


def test_vfork_and_exec():
    """A process that has become another program: nothing of the former is shown."""
    program = compile_c("#include <unistd.h>\nint main(void){execl(\"/bin/sleep\", \"sleep\", \"100\", (char *)0);return 1;}\n")

    def check_one(gdb):
        run = batch(gdb, ["vramtap info", "vramtap bt", "kill"], program, before=["catch exec", "run"])
        check("sleep" in run.text[0], "its name", run.text[0])
        check("sleep" in run.text[1] and "execl" not in run.text[1], "bt", run.text[1])
    for_each_gdb(check_one)


def test_many_gdbs():
    """Two gdbs at the same time, each with its own answers."""
    with spinning(FLAVOURS[0]) as one, spinning(FLAVOURS[1]) as other:
        outer = attached(machine_gdb(), one.pid, "vramtap info", f"shell {machine_gdb().path} -nx -batch -x {script()} -p {other.pid} -ex 'vramtap info'",
                         "vramtap info", symbols=False)
        check(str(one.pid) in outer.text[0] and str(other.pid) in outer.text[1] and str(one.pid) in outer.text[2], "answers", outer.text)


if __name__ == "__main__":
    main(globals())
