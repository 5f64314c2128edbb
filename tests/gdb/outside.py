#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Commands for which gdb detaches: they do their work, the process goes on, and gdb is where it was."""
import re
import time

from session import attached, batch, for_each_gdb, machine_gdb, variables, wait_until

from frames import FLAVOURS, OWN_THREADS, Torch, spinning
from harness import check, compile_c, equal, main, proc_state, report_json
from memory import driver, expected_memory, same_variables


def recorder_of(pid):
    return report_json(pid)["recorder"]


def test_refresh():
    """All that the memory commands say, and what the driver says."""
    def check_one(gdb):
        before = torch.count()
        number = torch.numbers(gdb)
        tid = sorted(torch.workers())[0]
        # Without symbols, which take their time to be read, there is no other frame to be sure of.
        frame = 2 if gdb is machine_gdb() else 0
        run = attached(gdb, torch.pid, f"thread {number[tid]}", f"frame {frame}", "info threads", "frame", "vramtap refresh", "show convenience",
                       "info threads", "frame", "thread", "info inferiors", "vramtap info", "show convenience", symbols=bool(frame))
        data = report_json(torch.pid)
        got = variables(run.text[5])
        equal(got["vt_status"], 0, f"$vt_status, {gdb}: {run.text[4]}")
        same_variables(got, expected_memory(data), f"after refresh, {gdb}")
        memory = data["cuda"]["devices"][0]["memory"]
        equal((got["vt_device_total"], got["vt_device_free"], got["vt_devices"]), (memory["total_bytes"], memory["free_bytes"], 1), "the device's memory")
        equal(got["vt_device_total"], torch.truth["mem_get_info"]["0"][1], "PyTorch's own word of it")
        equal(run.text[7], run.text[3], f"the selected frame, {gdb}")
        check(run.text[7].startswith(f"#{frame}"), "its number", run.text[7])
        selected = re.search(r"LWP (\d+)", run.text[8])
        equal(int(selected[1]), tid, f"the selected thread, {gdb}")
        equal({tid_ for _, tid_ in OWN_THREADS.findall(run.text[6])}, {tid_ for _, tid_ in OWN_THREADS.findall(run.text[2])}, "threads")
        check(str(torch.pid) in run.text[9], "the process", run.text[9])
        same_variables(variables(run.text[11]), expected_memory(data), "held again")
        check(torch.count() > before and proc_state(torch.pid) != "t", "the process goes on")
    with Torch() as torch:
        for_each_gdb(check_one, few=True)


def test_ledger():
    """The lines of the report, and with "all" every allocation of the driver."""
    def check_one(gdb):
        run = attached(gdb, torch.pid, "vramtap ledger", "vramtap ledger all", "show convenience", symbols=False)
        data = report_json(torch.pid)
        equal(variables(run.text[2])["vt_status"], 0, f"$vt_status, {gdb}: {run.text[0]}")
        for label in ("in use by PyTorch", "contexts, code"):
            check(label in run.text[0] and label in run.text[1], f"{label}, {gdb}", run.text[0])
        addresses = {r["address"] for r in data["ledger"]["ranges"]}
        check(addresses and all(a in run.text[1] and a not in run.text[0] for a in addresses), f"the allocations, {gdb}", run.text[1], addresses)
    with Torch() as torch:
        for_each_gdb(check_one, few=True)


def test_record():
    """On: what is allocated from then on has a backtrace, in gdb, too. Off: that is all."""
    def check_one(gdb):
        with driver() as driver_:
            driver_("alloc 5 1000")
            run = attached(gdb, driver_.pid, "vramtap record on", "show convenience", "vramtap sites", "show convenience")
            equal(variables(run.text[1])["vt_status"], 0, f"$vt_status, {gdb}: {run.text[0]}")
            check(recorder_of(driver_.pid), f"nothing records, {gdb}", run.text[0])
            driver_("alloc 7 3000")
            blocks, _ = driver_.snapshot()
            new = [b[2] for b in blocks if b[3] == 3072 and b[5] == "allocated"]
            equal(len(new), 7, "new blocks")
            run = attached(gdb, driver_.pid, "vramtap sites", "show convenience", f"vramtap block {new[0]:#x}", "vramtap record off",
                           "vramtap sites", "show convenience")
            equal(variables(run.text[1])["vt_sites"], 1, f"$vt_sites, {gdb}: {run.text[0]}")
            for text in (run.text[0], run.text[2]):
                check("alloc" in text, "the place in the program", text)
            data = report_json(driver_.pid)
            check(not data["recorder"] or data["recorder"]["state"] != "on", f"it still records, {gdb}", data["recorder"])
            driver_("alloc 7 9000")
            driver_("free all")
    for_each_gdb(check_one)


def test_record_twice():
    """On when it is on, off when it is off: said, and no harm."""
    with driver() as driver_:
        driver_("alloc 5 1000")
        run = attached(machine_gdb(), driver_.pid, "vramtap record off", "vramtap record on", "vramtap record on", "vramtap refresh", "vramtap record off",
                       "vramtap record off", "info threads", "vramtap info")
        for i in range(8):
            check(run.text[i].strip(), f"answer {i}", run.text[i])
        check("(running)" not in run.text[6], "threads", run.text[6])
        check("GPU 0" in run.text[7], "info", run.text[7])
        driver_("alloc 5 1000")


def test_running_thread():
    """A thread that runs: its frame is no longer where it was, but it is selected again; it goes on counting; breakpoints work as before."""
    def check_one(gdb):
        with spinning(FLAVOURS[1]) as proc:
            run = attached(gdb, proc.pid, "thread 3", "break spin_outermost", "break step_leaf", "vramtap refresh", "thread", "info breakpoints",
                           "continue", "vramtap bt", "delete", "vramtap refresh", "info program")
            check("[Current thread is 3 " in run.text[4], "the selected thread", run.text[4])
            check("spin_outermost" in run.text[5] and "step_leaf" in run.text[5], "breakpoints", run.text[5])
            check("Breakpoint 2, " in run.text[6], "the breakpoint is hit", run.text[6])
            check("step_leaf" in run.text[7] and "spin_with_array" in run.text[7], "bt at it", run.text[7])
            before = int(ask(proc)[1])
            time.sleep(0.1)
            check(int(ask(proc)[1]) > before, "it goes on counting")
    for_each_gdb(check_one)


def ask(proc):
    proc.stdin.write(b"x")
    return proc.stdout.readline().split()


def test_started_by_gdb():
    """A program that gdb has run is detached and attached to; it is the same one, and gdb can still kill it."""
    program = compile_c("#include <unistd.h>\nint main(void){pause();return 0;}\n", "-g")

    def check_one(gdb):
        run = batch(gdb, ["info inferiors", "vramtap refresh", "vramtap info", "info inferiors", "vramtap bt", "kill", "info inferiors"], program,
                    before=["break pause", "run"])
        pids = [re.search(r"process (\d+)", run.text[i]) for i in (0, 3)]
        check(pids[0] and pids[1], "the process", run.text)
        equal(pids[1][1], pids[0][1], "the process")
        check("pause" in run.text[4] and "main" in run.text[4], "bt", run.text[4])
        check("<null>" in run.text[6], "killed", run.text[6])
    for_each_gdb(check_one)


def test_interrupted_call():
    """Signals that stop a process for a debugger's sake do not stand in the way; the system call that it waits in goes on."""
    with Torch() as torch:
        before = torch.count()
        run = attached(machine_gdb(), torch.pid, "vramtap refresh", "vramtap record on", "vramtap record off", "vramtap refresh", symbols=False)
        for i in range(4):
            check("not done" not in run.text[i] and run.text[i].strip(), f"answer {i}", run.text[i])
        check(torch.count() > before, "it goes on")
        wait_until(lambda: proc_state(torch.pid) == "S", 5, "it waits as before")


if __name__ == "__main__":
    main(globals())
