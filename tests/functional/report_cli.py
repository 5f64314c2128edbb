#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Options, exit codes and messages of vramtap report on ordinary and on hopeless processes."""
import json
import os
import re
import shutil
import stat
import subprocess
import tempfile
import time

from harness import (COMPLETE, NOTHING, NOT_PERMITTED, PARTIAL, SOURCE, USAGE, VRAMTAP, Skip, check, equal, main, proc_state, report,
                     report_json, target)


def run(*args):
    done = subprocess.run([VRAMTAP, *args], stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=30)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def long_options(text):
    return set(re.findall(r"--[a-z][a-z-]+", text))


def test_usage_errors():
    for args in ([], ["nonsense"], ["report"], ["report", "x"], ["report", "1", "2"], ["report", "--nonsense", "1"],
                 ["report", "--threads=few", "1"], ["report", "--width=3", "1"], ["report", "-1"],
                 ["report", "--read-only", "--allow-resume", "1"], ["report", "--read-only", "--ask-pytorch", "1"],
                 ["report", "99999999999999999999"],
                 ["stacks"], ["stacks", "1", "x"], ["stacks", "--threads=few", "1"], ["stacks", "--native", "--locals", "1"],
                 ["stacks", "--timeout=0", "1"], ["stacks", "--blocks", "1"], ["layouts", "x"], ["layouts", "1", "2"],
                 ["layouts", "--hide-layout=none"], ["layouts", "--blocks"],
                 ["report", "--folded=-", "--json=-", "1"], ["diff"], ["diff", "a"], ["diff", "a", "b", "c"], ["diff", "-", "-"],
                 ["diff", "--limit=-1", "a", "b"], ["diff", "--threads=all", "a", "b"], ["watch", "1"], ["watch", "--grow"],
                 ["watch", "--grow", "--every=0", "1"], ["watch", "--grow", "--timeout=1y", "1"]):
        code, out, err = run(*args)
        equal(code, USAGE, f"exit code of {args}")
        equal(out, "", f"standard output of {args}")
        check(err, f"no message for {args}")


def test_mistakes_name_the_way():
    """What people write first is understood, or the message says what they meant."""
    for args, want in ((["reprot", "1"], "did you mean vramtap report?"), (["help", "traige"], "did you mean vramtap triage?"),
                       (["report", "--json", "4711"], "--json took 4711 as its file"),
                       (["stacks", "--json", "4711"], "--json took 4711 as its file"),
                       (["record", "--json", "4711", "on"], "--json took 4711 as its file"),
                       (["watch", "--grow", "--json", "4711"], "--json took 4711 as its file"),
                       (["report", "1", "2"], "vramtap triage compares several"),
                       (["report", "--timeout=2w", "1"], "a time such as"), (["stacks", "--timeout=2h", "1"], "3600 s at most")):
        code, out, err = run(*args)
        equal((code, out), (USAGE, ""), f"exit code and output of {args}")
        check(want in err, f"message for {args}", err)
    code, _, err = run("nothinglike\x1b[31m", "1")
    check(code == USAGE and "did you mean" not in err and "\x1b" not in err, "a word that is near no command", err)


def test_files_do_not_meet():
    """Two results have two files, and none replaces what is read."""
    with tempfile.TemporaryDirectory(prefix="vramtap-test-") as directory:
        saved, other, new = (os.path.join(directory, name) for name in ("report.json", "other.json", "new"))
        for path in (saved, other):
            with open(path, "w", encoding="ascii") as file:
                file.write("{}")
        link = os.path.join(directory, "link.html")
        os.symlink("report.json", link)
        again = os.path.join(directory, ".", "new")
        for args, want in ((["report", "1", f"--pprof={new}", f"--json={again}"], "--pprof and --json name the same"),
                           (["report", "1", f"--html={new}", f"--folded={new}"], "--folded and --html name the same"),
                           (["stacks", "1", f"--html={saved}", f"--json={link}"], "--html and --json name the same"),
                           (["triage", "1", f"--prometheus={new}", f"--json={new}"], "--prometheus and --json name the same"),
                           (["triage", "1", "--prometheus=-", "--html=-"], "--html and --prometheus cannot both"),
                           (["triage", f"--html={saved}", "--from", directory], "--html would replace"),
                           (["watch", "--grow", "1", f"--then={new}", f"--html={new}"], "--html and --then name"),
                           (["report", f"--core={saved}", f"--json={saved}"], "--json would replace"),
                           (["html", saved, "-o", saved], "--output would replace"),
                           (["html", other, saved, "-o", link], "--output would replace"),
                           (["html", os.path.join(directory, "link.json"), link], "the page would replace"),
                           (["diff", other, saved, "--html", saved], "--html would replace"),
                           (["diff", other, saved, "--json", other], "--json would replace")):
            code, _, err = run(*args)
            equal(code, USAGE, f"exit code of {args}")
            check(want in err, f"message for {args}", err)
        code, _, err = run("report", "--core=/nonexistent", "--json=/dev/null", "--folded=/dev/null")
        equal(code, NOTHING, f"all can write to /dev/null: {err}")
        for path in (saved, other):
            with open(path, encoding="ascii") as file:
                equal(file.read(), "{}", "what is to be read")


def test_binary_and_terminal():
    ours, theirs = os.openpty()
    for option in ("--pprof=-", "--snapshot=-"):
        done = subprocess.run([VRAMTAP, "report", option, "1"], stdin=subprocess.DEVNULL, stdout=theirs, stderr=subprocess.PIPE, check=False,
                              timeout=30)
        equal(done.returncode, USAGE, f"exit code of {option}")
        check(f"{option[:-2]} does not write to a terminal".encode() in done.stderr, "message", done.stderr)
    os.close(ours)
    os.close(theirs)


def test_help_by_every_name():
    _, general, _ = run("--help")
    for args in (["-h"], ["help"], ["-?"]):
        equal(run(*args), (0, general, ""), f"{args}")
    for command in ("report", "stacks", "triage", "record", "relieve", "diff", "watch", "run", "gdb-script", "layouts", "ps"):
        check(f"\n  {command} " in general, "the command is not listed", command)
        want = run(command, "--help")
        check(want[0] == 0 and f"Usage: vramtap {command}" in want[1] and " -h" not in want[1], "help", want)
        equal(run("help", command), want, f"help {command}")
        equal(run(command, "-h"), want, f"{command} -h")
    code, out, _ = run("run", "--", "echo", "-h")
    equal((code, out), (0, "-h\n"), "the -h of another command is that command's")


def test_a_pid_alone_is_a_report():
    with target(["sleep", "60"]) as proc:
        time.sleep(0.1)
        code, out, _ = run(str(proc.pid), "--timeout=30s", "--no-owners")
        check(code in (COMPLETE, PARTIAL) and f"pid {proc.pid}" in out and "CUDA" in out, "vramtap PID", code, out)


def test_dumb_terminal():
    """TERM=dumb: no escape sequence, neither in the text nor of the progress."""
    with target(["sleep", "60"]) as proc:
        time.sleep(0.1)
        for term, coloured in (("dumb", False), ("xterm", True)):
            environment = {**os.environ, "TERM": term}
            environment.pop("NO_COLOR", None)
            out = subprocess.run(["script", "-qec", f"{VRAMTAP} report {proc.pid}", "/dev/null"], env=environment,
                                 stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=60).stdout
            check(f"pid {proc.pid}".encode() in out, "the report on a terminal", out)
            equal(b"\x1b[" in out, coloured, f"escape sequences with TERM={term}")


def test_closed_pipe_is_silent():
    with target(["sleep", "60"]) as proc:
        time.sleep(0.1)
        for command in (["report", str(proc.pid)], ["stacks", str(proc.pid)], ["report", "--json", "-", str(proc.pid)],
                        ["stacks", "--json", "-", str(proc.pid)]):
            reader, writer = os.pipe()
            os.close(reader)
            done = subprocess.run([VRAMTAP, *command], stdin=subprocess.DEVNULL, stdout=writer, stderr=subprocess.PIPE, check=False,
                                  timeout=60)
            os.close(writer)
            equal(done.stderr, b"", f"what {command} says about a reader that is gone")


def test_help_and_man_page_agree():
    statuses = {"gdb-script": ("0", "2", "64")}
    for command in ("diff", "gdb-script", "layouts", "ps", "record", "relieve", "report", "stacks", "triage", "watch"):
        page = subprocess.run(["mandoc", "-T", "utf8", os.path.join(SOURCE, "doc", f"vramtap-{command}.1")], capture_output=True,
                              check=False)
        if page.returncode:
            raise Skip("mandoc cannot show the man page")
        # But for examples of other programs with options of their own.
        text = re.sub(r"^.*(\$ srun|#SBATCH).*$", "", re.sub(r".\x08", "", page.stdout.decode()), flags=re.M)
        code, help_text, err = run(command, "--help")
        equal((code, err), (0, ""), f"{command} --help")
        ours = {"--help", "--usage", "--version"}
        equal(long_options(help_text) - ours, long_options(text) - ours, f"options in --help and in the man page of {command}")
        for number in statuses.get(command, ("0", "1", "2", "3", "64")):
            check(re.search(rf"(^|\s){number}\s", text), f"exit code {number} is not in the man page of {command}")


def test_version_is_in_news():
    code, out, _ = run("--version")
    equal(code, 0, "--version")
    version = out.split()[1]
    with open(os.path.join(SOURCE, "NEWS"), encoding="utf-8") as news:
        check(version in news.read(), "NEWS does not name", version)


def test_no_such_process():
    done = subprocess.Popen(["true"])
    done.wait()
    code, out, err = report(done.pid)
    equal((code, out), (NOTHING, ""), "a process that is gone")
    check("no process" in err or "no such process" in err.lower(), "message", err)


def test_zombie():
    child = subprocess.Popen(["true"])
    try:
        while proc_state(child.pid) != "Z":
            time.sleep(0.01)
        code, _, err = report(child.pid)
        equal(code, NOTHING, "a zombie")
        check("zombie" in err, "message", err)
    finally:
        child.wait()


def test_kernel_thread():
    for pid in sorted(int(p) for p in os.listdir("/proc") if p.isdigit()):
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as stat:
            flags = int(stat.read().rpartition(")")[2].split()[6])
        if flags & 0x200000:
            break
    else:
        raise Skip("no kernel thread is visible")
    code, _, err = report(pid)
    equal(code, NOTHING, "a kernel thread")
    check("kernel thread" in err, "message", err)


def test_other_user_without_permission():
    if os.getuid() != 0:
        raise Skip("needs root to become another user")
    with target(["sleep", "60"]) as proc:
        # A copy that no other user can reach is no test of permissions: /proc/self/exe of the child would be unreadable.
        done = subprocess.run(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", VRAMTAP, "report", str(proc.pid)],
                              capture_output=True, check=False, timeout=30)
        if b"failed to execute" in done.stderr:
            raise Skip("the build directory is not open to other users")
        err = done.stderr.decode()
        equal(done.returncode, NOT_PERMITTED, f"exit code ({err})")
        check("sudo" in err or "root" in err, "the message names no remedy", err)


def test_process_without_cuda():
    with target(["sleep", "60"]) as proc:
        time.sleep(0.1)
        code, out, err = report(proc.pid)
        check(code in (COMPLETE, PARTIAL), "exit code", code, err)
        check("CUDA" in out, "the report does not say that there is no CUDA", out)
        data = report_json(proc.pid, expect=(COMPLETE, PARTIAL))
        equal(data["process"]["pid"], proc.pid, "pid")
        functions = [f["function"] for f in data["threads"][0]["stack"]["frames"]]
        check(any("nanosleep" in (f or "") for f in functions), "the stack of sleep", functions)


def test_write_error():
    with target(["sleep", "60"]) as proc, open("/dev/full", "w", encoding="utf-8") as full:
        done = subprocess.run([VRAMTAP, "report", str(proc.pid)], stdin=subprocess.DEVNULL, stdout=full, stderr=subprocess.PIPE,
                              check=False, timeout=30)
        equal(done.returncode, NOTHING, "exit code when the report cannot be written")
        check(b"write" in done.stderr, "message", done.stderr)


def test_json_file():
    """A regular file is replaced as a whole, anything else is written to and stays what it is."""
    directory = tempfile.mkdtemp(prefix="vramtap-test-")
    try:
        path, link, fifo = (os.path.join(directory, name) for name in ("report.json", "link.json", "fifo"))
        os.symlink(path, link)
        os.mkfifo(fifo)
        with target(["sleep", "60"]) as proc:
            for name in (path, link):
                report(proc.pid, "--json", name, expect=(COMPLETE, PARTIAL))
                with open(path, encoding="utf-8") as file:
                    equal(json.load(file)["process"]["pid"], proc.pid, "pid in the file")
            check(os.path.islink(link), "the link was replaced")
            for name in (path, link):
                os.chmod(path, 0o600)
                before = os.stat(path).st_ino
                report(proc.pid, "--json", name, expect=(COMPLETE, PARTIAL))
                equal(stat.S_IMODE(os.stat(path).st_mode), 0o600, "the mode of what was replaced")
                check(os.stat(path).st_ino != before, "written in place", name)
            reader = subprocess.Popen(["cat", fifo], stdout=subprocess.PIPE)
            report(proc.pid, "--json", fifo, expect=(COMPLETE, PARTIAL))
            equal(json.loads(reader.communicate()[0])["process"]["pid"], proc.pid, "pid through the pipe")
            check(stat.S_ISFIFO(os.stat(fifo).st_mode), "the pipe was replaced")
            report(proc.pid, "--json", "/dev/null", expect=(COMPLETE, PARTIAL))
            check(stat.S_ISCHR(os.stat("/dev/null").st_mode), "/dev/null was replaced")
            report(proc.pid, "--json", os.path.join(directory, "no", "such"), expect=NOTHING)
        equal(sorted(os.listdir(directory)), ["fifo", "link.json", "report.json"], "files left")
    finally:
        shutil.rmtree(directory)


if __name__ == "__main__":
    main(globals())
