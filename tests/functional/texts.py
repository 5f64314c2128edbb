#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What messages and manual pages say is true: each of these once was not."""
import contextlib
import glob
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time

from harness import (COMPLETE, NOT_PERMITTED, NOTHING, PARTIAL, SOURCE, VRAMTAP, Skip, check, compile_c, diag_codes, equal, main,
                     proc_state, scratch, simulated_python, stacks, stacks_json, target, vramtap, wait_until)

SLEEPER = r"""
#include <stdio.h>
#include <time.h>
__attribute__((noinline)) int inner(int n)
{
	struct timespec t = { 1000, 0 };

	puts("READY");
	fflush(stdout);
	return nanosleep(&t, 0) + n;
}
__attribute__((noinline)) int outer(int n)
{
	return inner(n) + 1;
}
int main(void)
{
	return outer(3);
}
"""


# ---- under a tracer ----

@contextlib.contextmanager
def tracer(*command, pid):
    """A tracer of the process; it is gone at the end."""
    if not shutil.which(command[0]):
        raise Skip(f"no {command[0]}")
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as proc:
        try:
            yield proc
        finally:
            proc.kill()
            proc.wait()


def check_traced(pid, name, state):
    for command in ("stacks", "report"):
        data = json.loads(vramtap(command, "--json", "-", str(pid), expect=PARTIAL)[1])
        data = data["processes"][0] if command == "stacks" else data
        text = " ".join(d["text"] for d in data["diagnostics"])
        check("uninterruptibl" not in text, f"under {name} it sleeps", text)
        check("while they ran" not in text, f"under {name} it ran", text)
        check(name in text, f"{name} is not named", text)
        equal(data["threads"][0]["state"], state, f"state under {name}")
        check("outer" in [f["function"] for f in data["threads"][0]["stack"]["frames"]], "the stack", data["threads"][0]["stack"])


def test_traced_by_gdb():
    with target([compile_c(SLEEPER)], ready="READY") as proc:
        with tracer("gdb", "-q", "-nx", "-p", str(proc.pid), pid=proc.pid):
            wait_until(lambda: proc_state(proc.pid) == "t", 20, "gdb holds it")
            check_traced(proc.pid, "gdb", "t")


def test_traced_by_strace():
    def is_traced():
        with open(f"/proc/{proc.pid}/status", encoding="utf-8") as file:
            return "TracerPid:\t0\n" not in file.read()

    with target([compile_c(SLEEPER)], ready="READY") as proc:
        with tracer("strace", "-o", os.devnull, "-p", str(proc.pid), pid=proc.pid):
            wait_until(is_traced, 20, "strace traces it")
            wait_until(lambda: proc_state(proc.pid) == "S", 20, "it sleeps again")
            check_traced(proc.pid, "strace", "S")


# ---- processes that /proc does not show ----

def copied_program():
    """The program where every user can run it."""
    directory = scratch()
    os.chmod(directory, 0o755)
    return shutil.copy(VRAMTAP, os.path.join(directory, "vramtap")), directory


def elsewhere(script, *args):
    """Runs a shell script in a mount namespace of its own; (exit code, what it says)."""
    if os.geteuid() or subprocess.run(["unshare", "-m", "true"], stderr=subprocess.DEVNULL, check=False).returncode:
        raise Skip("no mount namespace")
    done = subprocess.run(["unshare", "-m", "--propagation", "private", "sh", "-c", script, "sh", *args], stdin=subprocess.DEVNULL,
                          capture_output=True, timeout=60, check=False)
    return done.returncode, done.stderr.decode()


def test_hidden_process():
    program, _ = copied_program()
    script = """mount -t proc -o hidepid="$3" proc /proc || exit 99
        exec setpriv --reuid=65534 --regid=65534 --clear-groups "$1" report "$2" """
    with target([compile_c(SLEEPER)], ready="READY") as proc:
        # 1: its directory may not be entered. 2: there is none.
        for how in ("1", "2"):
            code, err = elsewhere(script, program, str(proc.pid), how)
            if code == 99:
                raise Skip(f"no hidepid: {err}")
            equal(code, NOT_PERMITTED, f"exit code of a hidden one: {err}")
            check(f"process {proc.pid} is alive" in err and "hidepid" in err, "what is said of a hidden process", how, err)
        # One that does not exist is not alive.
        code, err = elsewhere(script, program, "4194303", "2")
        equal((code, err), (NOTHING, "vramtap: there is no process 4194303\n"), "a process that does not exist")


def test_no_proc():
    program, directory = copied_program()
    os.mkdir(os.path.join(directory, "proc"))
    script = 'cd "$1" && exec chroot . /vramtap stacks "$2"'
    with target([compile_c(SLEEPER)], ready="READY") as proc:
        if subprocess.run(["chroot", directory, "/vramtap", "--version"], capture_output=True, check=False).returncode:
            raise Skip(f"{program} does not run in an empty directory")
        code, err = elsewhere(script, directory, str(proc.pid))
        equal(code, NOTHING, "exit code without /proc")
        check("/proc is not mounted" in err and "no process" not in err, "what is said without /proc", err)


def test_proc_of_another_namespace():
    """As in a container that shows the host's /proc."""
    with target([compile_c(SLEEPER)], ready="READY"):
        code, err = elsewhere('exec unshare --pid --fork "$1" stacks 4194303', VRAMTAP)
        equal(code, NOTHING, "exit code")
        check("another PID namespace" in err, "what is said of a foreign /proc", err)


# ---- vramtap diff ----

def test_diff_without_backtraces():
    program = """
import sys, torch
kept = [torch.zeros(1 << 20, device="cuda") for _ in range(5)]
print("READY", flush=True)
sys.stdin.readline()
kept.append(torch.zeros(1 << 22, device="cuda"))
print("MORE", flush=True)
sys.stdin.read()
"""
    first, second = scratch("a.json"), scratch("b.json")
    with target([*simulated_python("2.11.0"), "-c", program], ready="READY",
                env=dict(os.environ, SIMCUDA_DEVICES="1", SIMCUDA_MEM_MB="512")) as proc:
        vramtap("report", "--json", first, "--no-owners", str(proc.pid), expect=COMPLETE)
        proc.stdin.write(b"\n")
        proc.stdin.flush()
        equal(proc.stdout.readline(), b"MORE\n", "the program")
        vramtap("report", "--json", second, "--no-owners", str(proc.pid), expect=COMPLETE)
    text = " ".join(vramtap("diff", first, second, "--width=200", expect=COMPLETE)[1].split())
    check("in 5 blocks is where it was, in blocks of the same sizes" in text, "what stayed", text)
    check("by the same backtraces" not in text, "backtraces that nobody recorded", text)


# ---- stacks ----

def test_musl():
    """No unwind information, and symbols without a size: a name is right or missing, and a stack that is cut is partial."""
    with target([compile_c(SLEEPER, compiler="musl-gcc")], ready="READY") as proc:
        data = stacks_json(proc.pid, expect=(PARTIAL,))
        frame = data["threads"][0]["stack"]["frames"][0]
        check(frame["module"].startswith(("libc.so", "ld-musl")), "where it sleeps", frame)
        check(frame["function"] in (None, "__syscall_cp_asm", "__syscall_cp_c", "nanosleep", "clock_nanosleep"), "its name", frame)
        check("cut-stacks" in diag_codes(data), "a cut stack is not told", data["diagnostics"])
        text = stacks(proc.pid, expect=(PARTIAL,))
        check("Complete." not in text and "Partial" in text and "1 of 1 threads" in text, "how it ends", text)


def test_musl_static():
    with target([compile_c(SLEEPER, "-static", compiler="musl-gcc")], ready="READY") as proc:
        data = stacks_json(proc.pid, expect=(COMPLETE, PARTIAL))
        names = [f["function"] for f in data["threads"][0]["stack"]["frames"]]
        equal(data["completeness"] == "complete", "main" in names, f"complete, and {names}")
        data = stacks_json(proc.pid, "--python", expect=(COMPLETE,))  # of native frames, nothing was asked


def test_whole_stacks_are_complete():
    """glibc, dynamic, static and stripped: nothing is cut."""
    for flags in ((), ("-static",), ("-static", "-s")):
        with target([compile_c(SLEEPER, *flags)], ready="READY") as proc:
            data = stacks_json(proc.pid, expect=(COMPLETE,))
            check("cut-stacks" not in diag_codes(data), f"with {flags}", data["diagnostics"])


# ---- triage ----

COMPILE_WORKER = """
import sys, torch
torch.zeros(1, device="cuda")
print("READY", flush=True)
sys.stdin.read()
"""
RANK = """
import subprocess, sys, torch
torch.zeros(1, device="cuda")
worker = subprocess.Popen([sys.executable, sys.argv[1], "--kind=fork", "--workers=2"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
worker.stdout.readline()
print("READY", worker.pid, flush=True)
sys.stdin.read()
worker.kill()
"""


def check_compile_worker(program, number, env):
    out = scratch()
    with target([*simulated_python("2.11.0"), "-c", RANK, program], ready="READY", env=env) as proc:
        worker = int(proc.ready_line.split()[1])
        vramtap("triage", "-o", out, str(proc.pid), str(worker), expect=(COMPLETE, PARTIAL))
        with open(os.path.join(out, "report.json"), encoding="utf-8") as file:
            members = {m["pid"]: m for m in json.load(file)["members"]}
        equal((members[proc.pid]["role"], members[proc.pid]["rank"]), ("rank", number), "the rank")
        equal((members[worker]["role"], members[worker]["of"]), ("other", proc.pid), "the compile worker")
        proc.stdin.close()
        proc.wait(20)
        proc.stdin = open(os.devnull, "rb")


def test_compile_worker_is_no_rank():
    """It may use the device itself, and have the environment of a rank."""
    directory = os.path.join(scratch(), "torch", "_inductor", "compile_worker")
    os.makedirs(directory)
    with open(os.path.join(directory, "__main__.py"), "w", encoding="utf-8") as file:
        file.write(COMPILE_WORKER)
    for number, ranks in ((0, {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "2"}), (None, {})):
        check_compile_worker(os.path.join(directory, "__main__.py"), number,
                             dict(os.environ, SIMCUDA_DEVICES="1", SIMCUDA_MEM_MB="256", SIMCUDA_CTX_MB="16", **ranks))


# ---- manual pages ----

PROMPT = re.compile(r"^ {4,}[#$] (.*)")


def pages():
    return sorted(glob.glob(os.path.join(SOURCE, "doc", "*.[17]")))


def rendered(page):
    """The lines of a page as a terminal of 80 columns shows them, by every program that is here to show it."""
    renderers = [["mandoc", "-T", "utf8", "-O", "width=78"], ["groff", "-mdoc", "-T", "utf8", "-P-c"]]
    renderers = [r for r in renderers if shutil.which(r[0])]
    if not renderers:
        raise Skip("neither mandoc nor groff")
    for renderer in renderers:
        shown = subprocess.run([*renderer, page], capture_output=True, check=True).stdout.decode()
        yield renderer[0], re.sub(r".\x08", "", shown).split("\n")


def is_open(text):
    """It ends within quotes: the next line belongs to it."""
    try:
        shlex.split(text)
    except ValueError:
        return True
    return False


def examples(lines):
    """Commands as somebody would copy them, with the lines that a backslash or a quote continues."""
    found = []
    for i, line in enumerate(lines):
        command = PROMPT.match(line)
        if not command:
            continue
        text = command[1]
        for more in lines[i + 1:i + 10]:
            if text.endswith("\\"):
                text = text[:-1] + more.strip()
            elif is_open(text):
                text += "\n" + more.strip()
        found.append(text)
    return found


def written(page):
    """The same from the source of the page, whatever macro has it."""
    with open(page, encoding="utf-8") as file:
        lines = file.read().replace("\\e", "\\").replace("\\(dq", '"').split("\n")
    return examples(["    " + re.sub(r"^\.Dl ", "", line) for line in lines])


def test_examples_are_shown_as_written():
    """Every quote is there, and no line is broken: what is copied from the page is what was meant."""
    n = 0
    for page in pages():
        want = written(page)
        for name, lines in rendered(page):
            got = examples(lines)
            equal(got, want, f"examples of {os.path.basename(page)} by {name}")
            for text in got:
                done = subprocess.run(["sh", "-n", "-c", text], capture_output=True, check=False)
                equal(done.returncode, 0, f"sh understands {text}")
                check(not is_open(text), "quotes that end", text)
            n += len(got)
    check(n > 20, "examples were found", n)


def test_example_sends_one_mail():
    """The example of watch --on-oom, as the page shows it: one mail to one address."""
    directory = scratch()
    for name in ("vramtap", "mail"):
        with open(os.path.join(directory, name), "w", encoding="utf-8") as file:
            file.write(f'#!{sys.executable}\nimport json, sys\nprint(json.dumps(sys.argv[1:]))\n')
        os.chmod(os.path.join(directory, name), 0o755)
    env = dict(os.environ, PATH=f"{directory}:{os.environ['PATH']}", VRAMTAP_REPORT=os.devnull)

    def arguments(command):
        done = subprocess.run(["sh", "-c", command], env=env, capture_output=True, check=True)
        return json.loads(done.stdout)

    for name, lines in rendered(os.path.join(SOURCE, "doc", "vramtap-watch.1")):
        commands = [text for text in examples(lines) if "mail" in text]
        check(commands, f"no example with a mail by {name}")
        for text in commands:
            inner = next(a for a in arguments(text) if a.startswith("--exec=")).partition("=")[2]
            equal(arguments(inner), ["-s", "out of memory", "me"], "the mail")


def test_pages_are_of_linux():
    for page in pages():
        for name, lines in rendered(page):
            lines = [line for line in lines if line.strip()]
            check("BSD" not in lines[0] + lines[-1], f"{os.path.basename(page)} by {name}", lines[0], lines[-1])
            check("Linux" in lines[-1], f"foot of {os.path.basename(page)} by {name}", lines[-1])


if __name__ == "__main__":
    main(globals())
