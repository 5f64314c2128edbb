#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""doc/TUTORIAL.md, replayed: the commands of its blocks in one shell, in order, and what they print compared with what it shows.
A line "…" stands for lines that it leaves out. After a change VRAMTAP_UPDATE=1 writes what is shown anew.

What varies from run to run and from machine to machine is compared as a word: PIDs, times, addresses, paths, versions. Frames of
libraries are not compared. Behind a comment "sizes vary" digits are not, either."""
import contextlib
import difflib
import os
import re
import select
import signal
import subprocess
import time

from harness import CACHE, SOURCE, VRAMTAP, Skip, check, equal, main, scratch

PAGE = os.path.join(SOURCE, "doc", "TUTORIAL.md")
BLOCK = re.compile(r"(?P<before><!-- sizes vary -->\n)?```console\n(?P<body>.*?)```\n", re.S)
WIDTH = 100


def page():
    with open(PAGE, encoding="utf-8") as file:
        return file.read()


# ---- what is shown ----

def as_shown(text):
    """A command's output as the page has it: without the paths of this machine."""
    text = re.sub(r"(?<![\w…])/\S*/(examples/|tests/simcuda/)", r"\1", text)
    text = re.sub(r"\S*/(torch/\w+/[\w/]*\.py|torch/\w+\.py)", r"\1", text)
    text = re.sub(r"^/\S*/python3[\d.]*( examples/\S+)(?:\s{2,}(pid .*)| (\S*))?$", head, text, flags=re.M)
    text = re.sub(r"\S*/lib/python3[\d.]*/(\S+\.py)", r"\1", text)
    return re.sub(r"[ \t]+$", "", text, flags=re.M)


def head(match):
    first = "python3" + match[1] + (" " + match[3] if match[3] else "")
    return first + (f"{match[2]:>{WIDTH - len(first)}}" if match[2] else "")


VARYING = [(r"^on \S+ · [\d-]+ [\d:]+ UTC( \([^)]*\))? · vramtap \S+", "WHERE"), (r"0x[0-9a-f]+", "0x"), (r"GPU-[0-9a-f-]+", "GPU-"),
           (r"\bpid \d+", "pid PID"), (r"\bdescriptor \d+", "descriptor N"), (r"\b[\d.]+ (µs|ms|s|min|h)\b", "TIME"), (r"\b\d\d:\d\d:\d\d\b", "TIME"), (r"(?<![\w.])\d{3,7}(?![\w.:,%]| [KMGT]i?B)", "PID"),
           (r"(?<=\W)\d{3,7}(?=@)", "PID"), (r"\bon vm\b|@\S+", "HOST"), (r"\bpython[\d.]*", "python"), (r"(CPython|PyTorch|CUDA) \d[\d.+a-z]*", r"\1"),
           (r"\b(?!(?:stuck|leak|job)\.py)(\w+\.py:)\d+", r"\1N"), (r"· root$", "· USER"), (r" {2,}", " ")]


def is_of_a_library(line):
    """A frame of one: which those are and what they are called depends on the machine."""
    return re.search(r"\.(so|c|h|cc|cpp|S)\b[.\d]*([:+]|$)|native frames?$|^\s+((… )?\d+ more )?\?\?|and \d+ more without names", line)


def compared(lines, sizes_vary):
    """Each line as it is compared, with the line itself."""
    found = []
    for line in lines:
        text = line.strip()
        for pattern, by in VARYING:
            text = re.sub(pattern, by, text)
        if sizes_vary:
            text = re.sub(r"[KMG]iB", "MiB", re.sub(r"[+-]?\d[\d.,]*", "N", text))
        if text and not is_of_a_library(line):
            found.append((text, line))
    return found


def segments(shown):
    """The lines that follow each other without "…"."""
    parts = [[]]
    for line in shown:
        if line.strip() == "…":
            parts.append([])
        else:
            parts[-1].append(line)
    return parts


def words(lines, sizes_vary):
    """Where lines are broken depends on the length of a PID, so words are compared."""
    return [word for text, _ in compared(lines, sizes_vary) for word in text.split()]


def find(part, got, at):
    """Where the words follow each other in what was printed, or -1."""
    return next((i for i in range(at, len(got) - len(part) + 1) if got[i:i + len(part)] == part), -1)


def differences(shown, printed, sizes_vary):
    got, at, parts = words(printed, sizes_vary), 0, segments(shown)
    for number, lines in enumerate(parts):
        part = words(lines, sizes_vary)
        found = find(part, got, at)
        if not part:
            continue
        whole = number == 0 and found > 0 or number == len(parts) - 1 and found >= 0 and found + len(part) != len(got)
        if found < 0 or whole:
            texts = ([text for text, _ in compared(of, sizes_vary)] for of in (lines, printed))
            return "\n".join(difflib.unified_diff(*texts, "doc/TUTORIAL.md", "printed", lineterm="", n=2))
        at = found + len(part)
    return "\n".join(["printed, and not shown:"] + printed) if not "".join(map("".join, parts)).strip() and len(parts) == 1 and got else ""


def renewed(shown, printed, sizes_vary):
    """What was printed, as much of it as was shown: from the first line of each part that is still there to the last."""
    if not any(line.strip() == "…" for line in shown):
        return printed
    plain, out, at = [(re.sub(r"\s+", " ", line.strip()), line) for line in printed], [], 0
    keys = [next(iter([t for t, _ in compared([line], sizes_vary)]), text) for text, line in plain]
    for number, lines in enumerate(segments(shown)):
        wanted = [t for t, _ in compared(lines, sizes_vary)]
        places = [keys.index(text, at) for text in wanted if text in keys[at:]]
        out += ["…"] if number else []
        if places:
            first, last = min(places), max(places)
            out += printed[first:last + 1] if number or first == 0 else printed[:last + 1]
            at = last + 1
    return out


# ---- the shell ----

class Shell:
    """One shell for all commands, with what each prints, errors too."""

    def __init__(self, **env):
        env = dict(os.environ, LC_ALL="C.UTF-8", PATH=os.path.dirname(os.path.abspath(VRAMTAP)) + ":" + os.environ["PATH"], **env)
        for name in [name for name in env if name.startswith("SIMCUDA_")]:
            del env[name]
        self.proc = subprocess.Popen(["bash", "--norc", "--noprofile"], cwd=SOURCE, env=env, stdin=subprocess.PIPE,
                                     stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)
        self.rest = b""

    def line(self, end):
        while b"\n" not in self.rest:
            ready = select.select([self.proc.stdout], [], [], max(0, end - time.monotonic()))[0]
            data = os.read(self.proc.stdout.fileno(), 1 << 16) if ready else b""
            check(data, "the shell answers in time; so far", self.rest.decode())
            self.rest += data
        line, self.rest = self.rest.split(b"\n", 1)
        return line.decode()

    def run(self, command, awaited=None, seconds=120):
        """What it prints; of one in the background up to the awaited line."""
        self.proc.stdin.write(f"{command}\necho @@@ >&2\n".encode())
        self.proc.stdin.flush()
        lines, end, over = [], time.monotonic() + seconds, False
        while not over or awaited and not any(line.startswith(awaited) for line in lines):
            line = self.line(end)
            if line == "@@@":
                over = True
            else:
                lines.append(line)
        return lines

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.proc.pid, signal.SIGKILL)
        self.proc.wait()
        self.proc.stdin.close()
        self.proc.stdout.close()


def commands(body):
    """Each command of a block, with the lines that it shows."""
    found = []
    for line in body.splitlines():
        if line.startswith("$ "):
            found.append((line[2:], []))
        elif found and not found[-1][1] and found[-1][0].endswith("\\"):
            found[-1] = (found[-1][0] + "\n" + line, [])
        else:
            check(found, "a block begins with a command:", line)
            found[-1][1].append(line)
    return found


def replay(shell, block):
    """The block as it is now, and what differs."""
    sizes_vary, out, wrong = bool(block["before"]), [], []
    for command, shown in commands(block["body"]):
        printed = as_shown("\n".join(shell.run(command, "READY" if shown[-1:] and shown[-1].startswith("READY") else None))).splitlines()
        differs = differences(shown, printed, sizes_vary)
        if differs:
            wrong.append(f"$ {command}\n{differs}\n")
        out += ["$ " + command] + renewed(shown, printed, sizes_vary)
    return (block["before"] or "") + "```console\n" + "\n".join(out) + "\n```\n", wrong


def test_tutorial():
    text = page()
    version = re.search(r"run-sim\.sh (\S+) --", text)[1]
    if not os.path.exists(os.path.join(CACHE, "torch", version, "python")):
        raise Skip(f"PyTorch {version} is not set up: sh tests/setup/torch.sh {version}")
    where, wrong = scratch(), []
    with Shell(TMPDIR=where) as shell:
        def one(match):
            block, differs = replay(shell, match)
            wrong.extend(differs)
            return block
        new = BLOCK.sub(one, text)
    if os.environ.get("VRAMTAP_UPDATE"):
        with open(PAGE, "w", encoding="utf-8") as file:
            file.write(new)
    n = sum(len(commands(match["body"])) for match in BLOCK.finditer(text))
    check(n > 12, "commands in the tutorial", n)
    check(not wrong, "doc/TUTORIAL.md shows what is not printed (VRAMTAP_UPDATE=1 writes it anew):\n" + "\n".join(wrong))


def test_what_the_comparison_sees():
    """It lets pass what varies, and nothing else."""
    shown = ["process 4711 · up 3 s", "…", "  main thread waits (stuck.py:46 train)", "    24.0 MiB  24 %  12  parameters", "…", "Complete."]
    printed = ["process 815 · up 12 min", "other", "main thread waits (stuck.py:46 train)", "24.0 MiB  24 %  12  parameters", "x", "Complete."]
    equal(differences(shown, printed, False), "", "the same with another PID and time")
    equal(differences(["pid 1 waits", "for it"], ["pid 4194303 waits for", "it"], False), "", "lines that are broken elsewhere")
    check(differences([], ["more"], False), "output where none is shown is seen")
    for line, by in ((2, "main thread waits (stuck.py:47 train)"), (3, "24.1 MiB  24 %  12  parameters"), (5, "Partial."), (0, "program 815 · up 3 s")):
        check(differences(shown, printed[:line] + [by] + printed[line + 1:], False), "a line that differs is seen", by)
    check(differences(shown, printed[:3] + ["new"] + printed[3:], False), "a line between two is seen")
    check(differences(shown, printed + ["more"], False), "a line at the end is seen")
    equal(differences(shown, printed[:3] + ["24.1 MiB  24 %  12  parameters"] + printed[4:], True), "", "sizes vary where the page says so")


if __name__ == "__main__":
    main(globals())
