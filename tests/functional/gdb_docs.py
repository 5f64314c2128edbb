#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""vramtap-gdb(7) says what gdb's commands are: their names, arguments, variables, how they are loaded, and the session that
examples/gdb-session.sh replays, in README.md, too. After a change VRAMTAP_UPDATE=1 writes the page's session anew."""
import difflib
import glob
import os
import re
import subprocess

from harness import CACHE, SOURCE, VRAMTAP, Skip, check, equal, main, scratch

PAGE = os.path.join(SOURCE, "doc", "vramtap-gdb.7")
SCRIPT = os.path.join(SOURCE, "gdbcmds", "vramtap.gdb.in")
SESSION = ('.\\" session\n.Bd -literal\n', '.Ed\n.\\" end of session\n')


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def rendered():
    try:
        page = subprocess.run(["mandoc", "-T", "utf8", PAGE], capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError) as err:
        raise Skip("mandoc cannot show the man page") from err
    return re.sub(".\x08", "", page.stdout.decode())


def gdb(*commands, env=None):
    """What gdb prints that was started by vramtap gdb-script, without a process."""
    argv = [VRAMTAP, "gdb-script", os.environ.get("GDB", "gdb"), "-nx", "-q", "-batch"]
    for command in commands:
        argv += ["-ex", command]
    try:
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60,
                              check=False, env=env)
    except OSError as err:
        raise Skip("there is no gdb") from err
    out = done.stdout.decode()
    if "cannot start" in out:
        raise Skip("there is no gdb")
    return out


def squeeze(usage):
    return re.sub(r"\s*\|\s*", "|", re.sub(r"\s+", " ", usage.strip())).lower()


def synopsis():
    """Each command and its arguments, as the page begins with them."""
    lines = re.findall(r"^\s+\(gdb\) vramtap (\S+)([^\n]*)$", rendered().split("DESCRIPTION")[0], re.M)
    check(len(lines) > 10, "the page's synopsis", lines)
    return {name: squeeze(arguments) for name, arguments in lines}


def documented():
    """Of each command that gdb has a text for, the usage in its first line."""
    texts = dict(re.findall(r"^document vramtap (\S+)\n(.*)$", read(SCRIPT), re.M))
    return {name: squeeze(text.split(f": vramtap {name}", 1)[1]) if f": vramtap {name}" in text else "" for name, text in texts.items()}


def test_commands():
    page = synopsis()
    described = re.findall(r"^\.It Cm vramtap (\S+)", read(PAGE), re.M)
    equal(sorted(described), sorted(page), "the page's list of commands and its synopsis")
    equal(set(re.findall(r"^define(?:-prefix)? vramtap (\S+)", read(SCRIPT), re.M)), set(page), "the commands that are defined")
    equal({name: text for name, text in documented().items() if name != "help"}, {n: t for n, t in page.items() if n != "help"},
          "arguments in gdb's help")
    listed = re.findall(r"^vramtap (\S+) -- ", gdb("vramtap help"), re.M)
    equal(sorted(listed), sorted(page), "what vramtap help lists")
    equal(gdb("vramtap help"), gdb("vramtap"), "vramtap alone")


def test_usage():
    """A user that types it wrong gets the text of the page."""
    page = synopsis()
    asked = [name for name, arguments in page.items() if arguments and name not in ("block", "help")]
    out = gdb(*[f"vramtap {name} wrong use" for name in asked])
    usages = dict(re.findall(r"^vramtap: usage: vramtap (\S+)(.*)$", out, re.M))
    equal({name: squeeze(usage) for name, usage in usages.items()}, {name: page[name] for name in asked}, "usage that is printed")


def test_variables():
    paths = glob.glob(os.path.join(SOURCE, "src", "cmd", "gdb*.c")) + glob.glob(os.path.join(SOURCE, "src", "gdb", "*.c"))
    sources = [read(path) for path in paths]
    named = {name for text in sources for name in re.findall(r'"(vt_\w+)"', text)}
    named |= set(re.findall(r"^\s*set \$(vt_\w+)", read(SCRIPT), re.M))
    table = re.findall(r'\{ VT_GDB_[^"]*"(vt_\w+)" \}', read(os.path.join(SOURCE, "src", "gdb", "values.c")))
    forgotten = read(SCRIPT).split("define _vramtap forget\n", 1)[1].split("\nend\n", 1)[0]
    equal(re.findall(r"set \$(\w+) = \(void\)0", forgotten), table, "the variables that are forgotten without an answer")
    page = set(re.findall(r"^\.It Va \$(vt_\w+)", read(PAGE), re.M))
    equal(sorted(page), sorted(named), "the page's variables and those that are set")


def test_block_states():
    """The strings that $vt_block_state can be."""
    names = read(os.path.join(SOURCE, "src", "model", "model.c")).split("*vt_block_state_name(", 1)[1].split("};", 1)[0]
    page = re.search(r"^\.It Va \$vt_block_state\n(.*?)^\.It", read(PAGE), re.M | re.S)[1]
    equal(re.findall(r"^\.Qq (\S+)", page, re.M), re.findall(r'= "([\w-]+)"', names), "the page's states of a block and the program's")


def literal_after(text):
    """The literal display that follows some words of the page."""
    return read(PAGE).split(text, 1)[1].split(".Bd -literal -offset indent\n", 1)[1].split(".Ed\n", 1)[0]


def test_loading():
    """Each way to load the commands that the page names."""
    script = subprocess.run([VRAMTAP, "gdb-script"], stdout=subprocess.PIPE, check=True).stdout.decode()
    equal(script, read(SCRIPT).replace("@VRAMTAP@", f"'{os.path.realpath(VRAMTAP)}'"), "the script with the program's place in it")
    check("List of vramtap subcommands" in gdb("vramtap"), "a gdb that vramtap gdb-script has started")
    lines = literal_after("these two lines")
    equal(len(lines.splitlines()), 2, "the two lines for .gdbinit")
    home = scratch()
    with open(os.path.join(home, ".gdbinit"), "w", encoding="utf-8") as file:
        file.write(lines)
    env = {**os.environ, "HOME": home, "PATH": os.path.dirname(os.path.abspath(VRAMTAP)) + ":" + os.environ["PATH"]}
    env.pop("XDG_CONFIG_HOME", None)
    done = subprocess.run([os.environ.get("GDB", "gdb"), "-q", "-batch", "-ex", "vramtap"], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60, check=False, env=env, cwd=home)
    check("List of vramtap subcommands" in done.stdout.decode(), "a gdb with the page's .gdbinit", done.stdout.decode())


# ---- the session ----

WIDTH = 78

# In the page: no path of the machine that it was made on.
PATHS = [(r"^\S*python3[\d.]*( hung\.py)\s+(pid .*) · \w+$", lambda m: f"python3{m[1]}{m[2] + ' · root':>{WIDTH - 15}}"),
         (r"\S*/(tests/simcuda/)", lambda m: m[1]),
         (r"\S*/(torch/cuda/\S+)", lambda m: m[1]), (r"[^\s(]*/(hung\.py:)", lambda m: m[1])]

# What differs from run to run and from machine to machine.
VARYING = [(r"^on \S+ · [\d-]+ [\d:]+ UTC( \([^)]*\))? · vramtap \S+", "WHERE"), (r"0x[0-9a-f]+", "0x"), (r"\bpid \d+|cuda-gdb -p \d+|--json - \d+|\bthread \d+|\(process \d+\)", "PID"), (r"\b[\d.]+ (µs|ms|s|min|h)\b", "TIME"),
           (r"[●○] \d+", "● TID"), (r"on CPU \d+", "on CPU N"), (r"python3?[\d.]+", "python"), (r"C?Python \d[\d.]+", "Python"), (r" +", " ")]


def replace(text, rules):
    for pattern, by in rules:
        text = re.sub(pattern, by, text, flags=re.M)
    return text


def is_native(line):
    """A frame of a library's: which those are and what they are called depends on the machine."""
    return re.search(r"\.(so|c|h|cc|cpp)\b[.\d]*[:+]|native frames?$", line)


def is_attaching(line):
    """What gdb says when it attaches: libraries, threads, and where the process is."""
    return re.search(r"^\[New LWP|^\[Thread debugging|^Using host|^\d+\s.*No such file|^(0x\w+ in )?\w+ \(.*\) (at|from) |^warning: ", line)


def plain(text):
    return [line.strip() for line in replace(replace(text, PATHS), VARYING).splitlines()
            if line.strip() and not is_native(line) and not is_attaching(line)]


ESCAPES = {"\\": "\\e", "'": "\\(aq", "`": "\\(ga", "-": "\\-", "~": "\\(ti", "^": "\\(ha"}


def to_mdoc(text):
    out = []
    for line in replace(text, PATHS).splitlines():
        line = "".join(ESCAPES.get(c) or (c if c < "\x7f" else f"\\[u{ord(c):04X}]") for c in line.rstrip())
        out.append(("\\&" if line.startswith(".") else "") + line + "\n")
    return "".join(out)


def from_mdoc(text):
    back = {code: c for c, code in ESCAPES.items()}
    return re.sub(r"\\(?:\[u([0-9A-F]+)\]|\((..)|(.))",
                  lambda m: chr(int(m[1], 16)) if m[1] else "" if m[3] == "&" else back["\\(" + m[2] if m[2] else "\\" + m[3]], text)


def session_in_page():
    return read(PAGE).split(SESSION[0], 1)[1].split(SESSION[1], 1)[0]


def write_page(session):
    before, rest = read(PAGE).split(SESSION[0], 1)
    with open(PAGE, "w", encoding="utf-8") as file:
        file.write(before + SESSION[0] + to_mdoc(session) + SESSION[1] + rest.split(SESSION[1], 1)[1])


def test_session():
    version = re.search(r"^\d[\d.]+", read(os.path.join(SOURCE, "tests", "setup", "torch-versions")), re.M)[0]
    if not os.path.exists(os.path.join(CACHE, "torch", version, "python")):
        raise Skip(f"PyTorch {version} is not set up: sh tests/setup/torch.sh {version}")
    gdb()
    env = {**os.environ, "VRAMTAP": VRAMTAP, "LC_ALL": "C.UTF-8", "COLUMNS": str(WIDTH)}
    done = subprocess.run(["sh", os.path.join(SOURCE, "examples", "gdb-session.sh")], stdin=subprocess.DEVNULL, capture_output=True,
                          timeout=240, check=False, env=env)
    session = done.stdout.decode()
    equal(done.returncode, 0, "exit status of the example: " + done.stderr.decode() + session)
    if "Simulated GPU" not in session:
        raise Skip("there is a GPU here, and the page's session is of the simulated device")
    if os.environ.get("VRAMTAP_UPDATE"):
        write_page(session)
    page = from_mdoc(session_in_page())
    check(len(re.findall(r"^\(gdb\) vramtap", page, re.M)) > 5, "the page's session", page)
    diff = list(difflib.unified_diff(plain(page), plain(session), "the page's session", "the session", lineterm=""))
    check(not diff, "the page shows another session (VRAMTAP_UPDATE=1 writes it anew):\n" + "\n".join(diff))


def test_session_in_readme():
    """Its lines are lines of the page's; what is left out is an ellipsis."""
    readme = re.search(r"^    (?:\$|#) vramtap gdb-script.*?(?=^\S)", read(os.path.join(SOURCE, "README.md")), re.M | re.S)[0]
    lines, page = plain(readme.split("\n", 1)[1]), plain(from_mdoc(session_in_page()))
    check(any(line.startswith("(gdb) vramtap") for line in lines), "README's session", readme)
    at = 0
    for line in lines:
        if line == "…":
            continue
        check(line in page[at:], "a line of README's session that the page does not have there:", line)
        at = page.index(line, at) + 1


if __name__ == "__main__":
    main(globals())
