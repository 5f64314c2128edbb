#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Wrong use of gdb's commands: each gets one line that says what is wrong, in every gdb, and the session goes on.

Which it does: all of a run's commands are in one file, which an error ends.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

from session import Talk, attached, batch, check_line, for_each_gdb, gdbs, machine_gdb, script, variables, wait_until

import core
from frames import FLAVOURS, spinning
from harness import CACHE, CLEAN_UP, VRAMTAP, Skip, check, compile_c, equal, main, scratch, target
from memory import driver

LOOKS = ["vramtap info", "vramtap blocks", "vramtap sites", "vramtap owners", "vramtap owners x", "vramtap block 0x1000", "vramtap stacks",
         "vramtap bt", "vramtap locals",
         "vramtap pyframe", "vramtap pyframe up", "vramtap save /dev/null"]
CHANGES = ["vramtap refresh", "vramtap ledger", "vramtap record on", "vramtap record off"]
ALL = LOOKS + CHANGES


def check_refused(run, commands, first, *words):
    for i, command in enumerate(commands):
        check_line(run.text[first + 2 * i], *words, what=f"of {command}, {run.gdb}")
        status = variables(run.text[first + 2 * i + 1])["vt_status"]
        check(status not in (0, None), f"$vt_status after {command}", status)


def with_status(commands):
    return [c for command in commands for c in (command, "show convenience")]


def test_no_process():
    def check_one(gdb):
        run = batch(gdb, with_status(ALL))
        check_refused(run, ALL, 0, "no process and no core")
        run = batch(gdb, with_status(ALL), "/bin/true")
        check_refused(run, ALL, 0, "no process and no core")
    for_each_gdb(check_one)


def test_ended_process():
    """That ended by itself, was killed, and was detached."""
    def check_one(gdb):
        run = batch(gdb, ["vramtap info", *with_status(ALL)], "/bin/true", before=["run"])
        check_refused(run, ALL, 1, "no process and no core")
        with spinning(FLAVOURS[0]) as proc:
            for last in ("detach", "kill"):
                run = attached(gdb, proc.pid, "vramtap info", last, *with_status(ALL))
                check(str(proc.pid) in run.text[0], "before it", run.text[0])
                check_refused(run, ALL, 2, "no process and no core")
    for_each_gdb(check_one)


def test_killed_from_outside():
    """Somebody else's SIGKILL comes while gdb holds it, which gdb does not know."""
    def check_one(gdb):
        with spinning(FLAVOURS[0]) as proc:
            run = attached(gdb, proc.pid, "vramtap info", f"shell kill -KILL {proc.pid}; sleep 0.3", *with_status(LOOKS), "echo on\\n",
                           symbols=False)
            for i, command in enumerate(LOOKS):
                text = run.text[2 + 2 * i]
                check(text.startswith("vramtap:") and len(text.splitlines()) == 1, f"{command} of a killed process, {gdb}", text)
            equal(run.last(), "on\n", "the session")
    for_each_gdb(check_one)


def refused(talk, *words):
    """Every command gets its line, and $vt_status says so."""
    for command in ALL:
        check_line(talk(command), *words, what=f"of {command}, {talk.gdb}")
        status = variables(talk("show convenience"))["vt_status"]
        check(status not in (0, None), f"$vt_status after {command}, {talk.gdb}", status)


def counts(proc):
    proc.stdin.write(b"x")
    return [int(n) for n in proc.stdout.readline().split()[1:]]


def goes_on(proc):
    """Both of its threads."""
    before = counts(proc)
    time.sleep(0.2)
    check(all(now > then for now, then in zip(counts(proc), before)), "the process does not go on")


def test_running_process():
    """In non-stop mode all threads run, one, or all but one; interrupted they are looked at as ever."""
    def check_one(gdb):
        if gdb.version < (11, 0):
            return  # it never takes note that the threads have stopped
        with spinning(FLAVOURS[0]) as proc, Talk(gdb) as talk:
            talk("set non-stop on")
            talk(f"attach {proc.pid}")
            wait_until(lambda: "(running)" not in talk("info threads"), 10, "all are stopped")
            check("main" in talk("vramtap stacks"), "all stopped")
            talk("continue -a&")
            goes_on(proc)
            refused(talk)
            goes_on(proc)
            talk("interrupt -a")
            wait_until(lambda: "(running)" not in talk("info threads"), 10, "all are interrupted")
            check(str(proc.pid) in talk("vramtap info"), "interrupted")
            talk("thread 2")
            talk("continue&")
            time.sleep(0.2)
            for selected in (1, 2):
                talk(f"thread {selected}")
                refused(talk)
            talk("thread 1")
            check("[Current thread is 1 " in talk("thread"), "the selected thread", talk("thread"))
            talk("detach")
            goes_on(proc)
    for_each_gdb(check_one)


def test_in_the_background():
    """All-stop mode: after continue& gdb has no thread that stands, nor after attach&."""
    def check_one(gdb):
        with spinning(FLAVOURS[0]) as proc, Talk(gdb) as talk:
            talk(f"attach {proc.pid}")
            talk("continue&")
            time.sleep(0.2)
            refused(talk)
            goes_on(proc)
            talk("interrupt")
            wait_until(lambda: "(running)" not in talk("info threads"), 10, "it is interrupted")
            check("main" in talk("vramtap stacks"), "interrupted")
            talk("detach")
            talk(f"attach {proc.pid}&")
            time.sleep(0.2)
            refused(talk)
    for_each_gdb(check_one)


def gdbserver():
    for path in (shutil.which("gdbserver"), os.path.join(CACHE, "gdb", "new", "gdbserver")):
        if path and os.access(path, os.X_OK):
            return path
    raise Skip("no gdbserver")


def test_remote():
    """A process behind gdbserver may be on another machine, where its number means something else."""
    def check_one(gdb, extended):
        with spinning(FLAVOURS[0]) as proc:
            with subprocess.Popen([server, "--once", *(["--multi"] if extended else []), "localhost:0", *([] if extended else ["--attach", str(proc.pid)])],
                                  stdin=subprocess.DEVNULL, stderr=subprocess.PIPE) as remote:
                line = b""
                while b"Listening on port" not in line:
                    line = remote.stderr.readline()
                    check(line, "gdbserver ended")
                port = line.split()[-1].decode()
                before = [f"target extended-remote localhost:{port}", f"attach {proc.pid}"] if extended else [f"target remote localhost:{port}"]
                run = batch(gdb, [*with_status(ALL), *(["monitor exit"] if extended else [])], before=before, symbols=False)
                remote.terminate()
            check_refused(run, ALL, 0, "another machine")
    server = gdbserver()
    for_each_gdb(check_one, False)
    check_one(machine_gdb(), True)


def test_arguments():
    """What there is not, and too much of it."""
    wrong = {"vramtap no-such": "help", "vramtap info x": "usage: vramtap info", "vramtap sites x": "usage: vramtap sites [all]",
             "vramtap sites all all": "usage", "vramtap blocks 3 4": "usage", "vramtap stacks 1": "usage", "vramtap block": "",
             "vramtap pyframe sideways": "usage", "vramtap pyframe 99999999999999999999999": "usage", "vramtap save": "usage",
             "vramtap save a b": "usage", "vramtap record": "usage: vramtap record on|off", "vramtap record maybe": "usage: vramtap record on|off",
             "vramtap record on now": "usage: vramtap record on|off", "vramtap refresh now": "usage: vramtap refresh", "vramtap ledger x": "usage", "vramtap ledger all x": "usage: vramtap ledger [all]", "vramtap locals x": "usage",
             "vramtap bt 3": "usage", "vramtap owners a b": "usage: vramtap owners [all|PATTERN]", "vramtap owners ''": "usage"}

    def check_one(gdb):
        run = attached(gdb, driver_.pid, *with_status(wrong), *with_status(["vramtap info"]), symbols=False)
        for i, (command, word) in enumerate(wrong.items()):
            check_line(run.text[2 * i], word, what=f"of {command}, {gdb}")
            equal(variables(run.text[2 * i + 1])["vt_status"], 64, f"$vt_status after {command}, {gdb}")
        check("GPU 0" in run.text[-2], "info after all that", run.text[-2])
        equal(variables(run.text[-1])["vt_status"], 0, "$vt_status after it")
    with driver() as driver_:
        driver_("alloc 1 1000")
        for_each_gdb(check_one)


def test_shell_words():
    """Arguments reach a shell: nothing in them is a command of it that harms, and gdb's session goes on."""
    where = scratch()
    words = ["$(touch {0}/a)", "`touch {0}/b`", "';touch {0}/c;'", ";touch {0}/d", "|touch {0}/e", "x>{0}/f", "&&touch {0}/g"]
    with driver() as driver_:
        run = attached(machine_gdb(), driver_.pid, *(f"vramtap {command} {word.format(where)}" for word in words for command in ("blocks", "stacks")),
                       "vramtap info", symbols=False)
        check("pid" in run.last(), "info", run.last())
        print(f"  what a shell made of words that a person typed: {sorted(os.listdir(where))}")


def test_program_gone():
    """The program itself is not there any more, is no program, is killed, says nothing."""
    def check_one(gdb):
        for text in (None, "#!/bin/sh\ncat >/dev/null\nkill -KILL $$\n", "#!/bin/sh\nkill -SEGV $$\n"):
            commands.write(text)
            run = attached(gdb, driver_.pid, *with_status(ALL), "echo on\\n", symbols=False, loaded=commands.script,
                           before=["set $vt_tid = 1", "set $vt_reserved = 1", 'set $vt_block_state = "cached"'])
            equal(run.last(), "on\n", "the session")
            for i, command in enumerate(ALL):
                check(len(run.text[2 * i].splitlines()) == 1, f"lines of {command} with the program {text!r}, {gdb}", run.text[2 * i])
                values = variables(run.text[2 * i + 1])
                check(values.pop("vt_status") not in (0, None), f"$vt_status of {command}, {text!r}, {gdb}")
                equal([name for name, value in values.items() if value is not None and name != "vt_released"], [], "what is left of before")

    class Commands:
        def __init__(self):
            self.path = scratch("vramtap")
            shutil.copy(VRAMTAP, self.path)
            self.script = script(self.path)

        def write(self, text):
            os.unlink(self.path) if os.path.exists(self.path) else None
            if text is not None:
                with open(self.path, "w", encoding="utf-8") as out:
                    out.write(text)
                os.chmod(self.path, 0o755)

    commands = Commands()
    with driver() as driver_:
        for_each_gdb(check_one)


def test_directory_taken():
    """Something lies in /tmp where the answer should: of another user, open to others, a link, a file. Nothing of it is executed."""
    marker = scratch("executed")

    def check_one(gdb):
        for kind in ("other", "open", "link", "file"):
            if kind == "other" and os.geteuid() != 0:
                continue
            helper = scratch("helper.py")
            # gdb's number is known when it has started: the shell's parent.
            with open(helper, "w", encoding="utf-8") as out:
                out.write("import os, sys\nsys.path[:0] = %r\nimport wrong_use\nwrong_use.spoil(%r, '/tmp/vramtap-gdb-' + sys.argv[1], %r)\n"
                          % (sys.path, kind, marker))
            run = attached(gdb, driver_.pid, "vramtap info", f"shell env -u PYTHONHOME {sys.executable} -B {helper} $PPID", *with_status(ALL),
                           "shell rm -rf /tmp/vramtap-gdb-$PPID", "vramtap info", symbols=False)
            for i, command in enumerate(ALL):
                text = run.text[2 + 2 * i]
                check("evil" not in text and not os.path.exists(marker), "the other's file was executed", text)
                check_line("\n".join(line for line in text.splitlines() if "vramtap-gdb-" in line), what=f"of {command} with {kind}, {gdb}")
                check(variables(run.text[3 + 2 * i])["vt_status"] not in (None, 0) or command == "vramtap save /dev/null", "$vt_status", command)
            check("pid" in run.last(), "when it is gone", run.last())

    with driver() as driver_:
        driver_("alloc 1 1000")
        for_each_gdb(check_one, few=True)


def spoil(kind, path, marker):
    """In a process of its own that gdb's shell starts."""
    if kind == "file":
        with open(path, "w", encoding="utf-8") as out:
            out.write("x")
        return
    place = path
    if kind == "link":
        place = tempfile.mkdtemp(prefix="vramtap-test-link-")
        os.symlink(place, path)
    else:
        os.mkdir(place)
    with open(os.path.join(place, "answer"), "w", encoding="utf-8") as out:
        out.write(f"shell touch {marker}\necho evil\\n\n")
    os.chmod(place, 0o777 if kind == "open" else 0o700)
    if kind == "other":
        os.chown(os.path.join(place, "answer"), 65534, 65534)
        os.chown(place, 65534, 65534)


def test_disk_full():
    """No space for the answer, and none for a saved report."""
    if os.geteuid() != 0:
        raise Skip("only root can mount a small file system")
    gdb = machine_gdb()
    mount = scratch()
    with driver() as driver_:
        driver_("alloc 500 2000")
        run = attached(gdb, driver_.pid, f"vramtap save {mount}/none/saved.json", "vramtap save /dev/full", *with_status(["vramtap info"]), symbols=False)
        for i in (0, 1):
            check_line(run.text[i], what="of save")
        check("GPU 0" in run.text[2], "info", run.text[2])
        # /tmp of gdb and the program alone is small and full.
        place = tempfile.mkdtemp(prefix="vramtap-test-", dir="/dev/shm")
        CLEAN_UP.append(place)
        program, loaded = os.path.join(place, "vramtap"), os.path.join(place, "vramtap.gdb")
        shutil.copy(VRAMTAP, program)
        shutil.copy(script(program), loaded)
        inside = ("mount -t tmpfs -o size=64k tmpfs /tmp; dd if=/dev/zero of=/tmp/fill bs=1k count=100 2>/dev/null; exec "
                  f"{gdb.path} -nx -batch -iex 'set auto-solib-add off' -x {loaded} -p {driver_.pid} "
                  "-ex 'vramtap stacks all' -ex 'echo @@\\n' -ex 'vramtap info' -ex 'echo @@\\n' -ex 'shell rm /tmp/fill' -ex 'vramtap info'")
        done = subprocess.run(["unshare", "-m", "sh", "-c", inside], stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False)
        text = done.stdout.decode() + done.stderr.decode()
        if b"ermitted" in done.stderr or b"unshare" in done.stderr:
            raise Skip(f"no mount here: {done.stderr.decode()[:100]}")
        check(text.count("No space left") >= 2, "the message that there is no space", text[-2500:])
        check("GPU 0" in text.rpartition("@@")[2], "with space again", text[-1500:])


def test_core_gone():
    """The core is removed, or cut, while gdb has it."""
    gdb = machine_gdb()
    with spinning(FLAVOURS[0]) as proc:
        with core.gcore(proc.pid) as path:
            copy = scratch("core")
            shutil.copy(path, copy)
            run = batch(gdb, ["vramtap bt", f"shell truncate -s 1000 {copy}", "vramtap bt", f"shell rm {copy}", *with_status(ALL)], "-c", copy,
                        symbols=False)
            check("spin" in run.text[0] or "main" in run.text[0] or run.text[0], "bt", run.text[0])
            check(run.text[2].strip(), "of a core that was cut", run.text[2])
            check_refused(run, ALL, 4)


def test_pending_signal():
    """A program that crashed under gdb: commands that would detach are refused, and it is not killed by that; what looks still looks."""
    program = compile_c("#include <stdio.h>\nint main(void){volatile int *p = 0; puts(\"x\"); return *p;}\n", "-g")
    abort = compile_c("#include <stdlib.h>\nint main(void){abort();}\n", "-g")

    def check_one(gdb):
        for path, name in ((program, "Segmentation fault"), (abort, "Aborted")):
            run = batch(gdb, [*with_status(CHANGES), "vramtap bt", "vramtap info", "info inferiors", "kill"], path, before=["run"])
            check_refused(run, CHANGES, 0, name)
            check("main" in run.text[2 * len(CHANGES)], "bt", run.text)
            check("process" in run.text[2 * len(CHANGES) + 2], "it is still there", run.text)
    for_each_gdb(check_one)


def test_unfinished_call():
    """A function that gdb called has not returned: it would return to a breakpoint of gdb's that is not there any more."""
    program = compile_c("""
#include <stdio.h>
#include <unistd.h>
int called(int n) { return n + 1; }
int main(void) { puts("READY"); fflush(stdout); for (;;) pause(); }
""", "-g")

    def check_one(gdb):
        commands = [*with_status(CHANGES), "vramtap bt", "return", "vramtap refresh", "show convenience", "info inferiors"]
        with target([program], ready="READY") as proc:
            run = attached(gdb, proc.pid, *commands, before=["break called", "print called(1)"])
            check_refused(run, CHANGES, 0, "called from gdb")
            check("called" in run.text[2 * len(CHANGES)], "bt", run.text)
            equal(variables(run.text[2 * len(CHANGES) + 3])["vt_status"], 0, "$vt_status of refresh after return")
            check(f"process {proc.pid}" in run.last(), "it is still there", run.last())
            equal(proc.poll(), None, "whether it has ended")
    for_each_gdb(check_one)


def test_interrupted_while_released():
    """Ctrl-C while gdb is detached: neither gdb nor the process is harmed, and a message names the process."""
    interrupting = scratch("interrupting.sh")
    with open(interrupting, "w", encoding="utf-8") as out:
        out.write(f"""#!/bin/sh
case "$3" in refresh) kill -INT "${{2#--session=}}"; sleep 0.2 ;; esac
exec '{VRAMTAP}' "$@"
""")
    os.chmod(interrupting, 0o755)
    with open(script(), encoding="utf-8") as file:
        text = file.read()
    loaded = scratch("interrupting.gdb")
    with open(loaded, "w", encoding="utf-8") as out:
        out.write(re.sub("'[^' ]*/vramtap'", f"'{interrupting}'", text))

    def check_one(gdb):
        with spinning(FLAVOURS[1]) as proc, Talk(gdb, "-x", loaded, "-p", str(proc.pid)) as talk:
            talk("vramtap refresh")
            check("<null>" in talk("info inferiors"), "gdb has attached again")
            check_line(talk("vramtap info").splitlines()[-1], str(proc.pid), f"attach {proc.pid}")
            talk(f"attach {proc.pid}")
            check(str(proc.pid) in talk("vramtap info"), "info", proc.pid)
            talk("detach")
            check_line(talk("vramtap info"), "no process")
            goes_on(proc)
    for_each_gdb(check_one)


def test_selected_thread_is_gone():
    """As after a thread that has ended in non-stop mode: gdb answers nothing of it; what is not about it is still answered."""
    def check_one(gdb):
        with spinning(FLAVOURS[1]) as proc:
            run = attached(gdb, proc.pid, "thread apply 2 vramtap refresh", "thread", "vramtap info", "vramtap bt", symbols=False)
            check("exited" in run.text[1], f"the selected thread, {gdb}", run.text[1])
            check(str(proc.pid) in run.text[2] and "Complete" in run.text[2], f"info, {gdb}", run.text[2])
            check(run.text[3].startswith("vramtap: thread") or str(proc.pid) in run.text[3], f"bt, {gdb}", run.text[3])
            goes_on(proc)
    for_each_gdb(check_one)


def test_exited_leader():
    """The main thread has ended and the others go on: gdb's numbers and /proc say different things."""
    program = compile_c("""
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
static void *go_on(void *arg) { puts("READY"); fflush(stdout); pause(); return arg; }
int main(void) { pthread_t t; pthread_create(&t, 0, go_on, 0); pthread_exit(0); }
""", "-pthread")
    with target([program], ready="READY") as proc:
        time.sleep(0.2)
        for gdb in gdbs():
            # gdb before 12 cannot attach to such a process; what it says then is its own.
            run = batch(gdb, [*with_status(LOOKS), "echo on\\n"], before=[f"attach {proc.pid}"], symbols=False)
            equal(run.last(), "on\n", "the session")
            for i, command in enumerate(LOOKS):
                check(run.text[2 * i].strip(), f"the answer of {command}, {gdb}")


if __name__ == "__main__":
    main(globals())
