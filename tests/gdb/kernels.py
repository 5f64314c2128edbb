#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""vramtap kernels: where gdb has the commands of cuda-gdb, which are stood in for by ones that print what it has printed, and where it has
not. The real one: tests/gpu/gdb.py."""
import os
import re

from session import attached, batch, for_each_gdb, machine_gdb, variables

from harness import COMPLETE, SOURCE, check, equal, main, proc_state, scratch, simulated_python, target, vramtap

SAMPLES = os.path.join(SOURCE, "tests", "unit", "kernels")


def said(name):
    """The lines of each answer in a sample: {"devices": […], "kernels": […]}."""
    with open(os.path.join(SAMPLES, name), encoding="utf-8") as file:
        parts = re.split(r"^@@ (?:info cuda )?(\w+).*\n", file.read(), flags=re.M)
    return {what: [line for line in lines.split("\n") if line and not line.startswith("[Inferior")]
            for what, lines in reversed(list(zip(parts[1::2], parts[2::2])))}


def echoes(lines):
    return ["  echo " + "".join(f"\\{ord(c):03o}" for c in line) + "\\n\n" for line in lines]


def stand_in(devices, kernels, threads=()):
    """A script that defines these commands; the threads are those of kernel 0."""
    path = scratch("cuda.gdb")
    with open(path, "w", encoding="utf-8") as file:
        file.write("define-prefix info cuda\n")
        for what, lines in (("devices", devices), ("kernels", kernels)):
            file.write(f"define info cuda {what}\n")
            file.writelines(echoes(lines))
            file.write("end\n")
        file.writelines(["define info cuda threads\n", "if $argc == 2 && $arg1 == 0\n", *echoes(threads), "end\n", "end\n"])
    return path


def hung():
    return target(simulated_python("2.11.0") + [os.path.join(SOURCE, "examples", "hung.py")], ready="READY")


def pid_of(proc):
    return int(proc.ready_line.split()[1])


def in_gdb(gdb, pid):
    sample = said("lines.txt")
    run = attached(gdb, pid, f"source {stand_in(sample['devices'], sample['kernels'], sample['threads'])}", "vramtap kernels", "show convenience",
                   "vramtap kernels all")
    text = run.text[1]
    check("What runs on the GPU\n" in text and "GPU 0  spin_until<<<40, 128>>> on 40 SMs: 704 threads at spin_src.cu:5, 704 at" in text, "the kernel", text)
    check("Threads in CUDA" in text and "synchronize" in text and "hung.py" in text, "who waits for it, with Python frames", text)
    check(text.index("What runs") < text.index("Threads in CUDA"), "order", text)
    values = variables(run.text[2])
    check(values["vt_status"] == 0 and values["vt_threads"] >= 1, "variables", values)
    check(run.text[3].startswith("vramtap: usage: vramtap kernels"), "usage", run.text[3])
    sample = said("idle.txt")
    run = attached(gdb, pid, f"source {stand_in(sample['devices'], sample['kernels'])}", "vramtap kernels")
    check("No kernel of this process ran at that moment." in run.last(), "nothing", run.last())


def hostile(gdb, pid):
    """Names of kernels are the process's: none becomes a command, ends what is said, or counts as something else that gdb says."""
    sample, evil = said("lines.txt"), scratch("evil")
    name = f'f"; shell touch {evil}\\n'
    lines = [line.replace("spin_until()", name + "()") for line in sample["kernels"]]
    lines += [f"`touch {evil}`", "end of state", f"shell touch {evil}", "selected 99", "* 1    process 1      1 (native)           /bin/sh"]
    run = attached(gdb, pid, f"source {stand_in(sample['devices'], lines)}", "vramtap kernels", "show convenience")
    check("shell touch" in run.text[1] and "<<<40, 128>>>" in run.text[1], "the name", run.text[1])
    equal(variables(run.text[2])["vt_tid"] if "vt_tid" in variables(run.text[2]) else None, None, "no thread was selected by it")
    check(not os.path.exists(evil), "it was executed")


def without_cuda(gdb, pid):
    run = attached(gdb, pid, "vramtap kernels", "show convenience")
    check(run.text[0].startswith("vramtap: this gdb does not know what runs on the GPU; cuda-gdb does: ") and str(pid) in run.text[0] and
          run.text[0].count("\n") == 1, "one line", run.text[0])
    equal((variables(run.text[1])["vt_status"], variables(run.text[1])["vt_threads"]), (2, None), "variables")


def test_kernels_and_threads():
    with hung() as proc:
        for_each_gdb(in_gdb, pid_of(proc))
        check(proc_state(pid_of(proc)) in "SR", "state")


def test_recorded_launches():
    with hung() as proc:
        vramtap("record", str(pid_of(proc)), "on", "--launches", expect=COMPLETE)
        sample = said("lines.txt")
        run = attached(machine_gdb(), pid_of(proc), f"source {stand_in(sample['devices'], sample['kernels'])}", "vramtap kernels")
        check("Launches: 0 recorded in " in run.last() and "spin_until<<<" in run.last() and "Threads in CUDA" in run.last(), "all three", run.last())


def test_hostile_names():
    with hung() as proc:
        for_each_gdb(hostile, pid_of(proc))


def test_gdb_without_cuda():
    with hung() as proc:
        for_each_gdb(without_cuda, pid_of(proc))


def no_process(gdb):
    run = batch(gdb, ["vramtap kernels"])
    check("gdb has no process and no core" in run.last(), "why", run.last())


def test_no_process():
    for_each_gdb(no_process)


if __name__ == "__main__":
    main(globals())
