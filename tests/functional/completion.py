#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What bash, zsh and fish complete of a command line of vramtap: what --help lists, and nothing else."""
import os
import re
import shutil
import subprocess
import tempfile

from harness import SOURCE, VRAMTAP, Skip, check, equal, main, target

COMPLETION = os.path.join(SOURCE, "src", "cmd", "completion")


def shell(name):
    found = shutil.which(name)
    if not found:
        raise Skip(f"no {name} here")
    return found


def run(command, **more):
    with tempfile.TemporaryDirectory(prefix="vramtap-test-") as home:
        os.symlink(VRAMTAP, os.path.join(home, "vramtap"))
        environment = {**os.environ, "PATH": f"{home}:{os.environ['PATH']}", "HOME": home, "XDG_CONFIG_HOME": home, "XDG_DATA_HOME": home,
                       "TERM": "xterm"}
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=60, env=environment, cwd=home, **more)
        return done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")


def help_of(*command):
    return subprocess.run([VRAMTAP, *command, "--help"], capture_output=True, check=True, timeout=30).stdout.decode()


def commands():
    return set(re.findall(r"^  ([a-z-]+) ", help_of().partition("Commands:")[2], re.M))


def options(command):
    return {name + ("=" if value else "") for name, value in re.findall(r"^ {2,6}(?:-., )?(--[a-z-]+)(=)?", help_of(command), re.M)}


def bash(*words):
    """What bash would offer for the last word, split as readline does it."""
    split = [w for word in words for w in re.split(r"(=)", word) if w] + ([""] if words[-1] == "" else [])
    script = """
    source "$1"; shift
    COMP_WORDS=(vramtap "$@")
    COMP_CWORD=$(( ${#COMP_WORDS[@]} - 1 ))
    compopt() { :; }
    _vramtap vramtap
    printf '%s\\n' "${COMPREPLY[@]}"
    """
    out, err = run([shell("bash"), "--norc", "-c", script, "bash", os.path.join(COMPLETION, "vramtap.bash"), *split])
    equal(err, "", f"bash on {words}")
    return set(out.split("\n")) - {""}


def fish(*words):
    out, err = run([shell("fish"), "--no-config", "-c", 'source $argv[1]; complete --do-complete="$argv[2]"',
                    os.path.join(COMPLETION, "vramtap.fish"), " ".join(("vramtap",) + words)])
    equal(err, "", f"fish on {words}")
    return {line.split("\t")[0] for line in out.split("\n")} - {""}


ZSH = r"""
zmodload zsh/zpty || exit 77
setup() {
    PS1= PS2=
    unset RPS1
    bindkey -e
    fpath=($1 $fpath)
    autoload -Uz compinit && compinit -u -D
    zstyle ':completion:*' list-prompt ''
    zstyle ':completion:*' insert-tab false
    zstyle ':completion:*:default' list-colors ''
    LISTMAX=0
    null-line() { BUFFER= ; }
    compadd() {
        if [[ ${@[1,(i)(-|--)]} == *-(O|A|D)\ * ]]; then builtin compadd "$@"; return $?; fi
        typeset -a hits
        builtin compadd -A hits "$@"
        builtin compadd "$@"
        (( $#hits )) && print -rl -- "hit:"$^hits
    }
    stty -echo
    print ready
}
"""


def zsh(*words):
    """zsh completes only at a terminal: it is given one, and each word that it would offer is printed."""
    script = ZSH + r"""
    zpty z $ZSH_PATH -f -i
    zpty -w z "$(functions setup); setup $1"
    zpty -r -m z unused '*ready*'
    zpty -w -n z "$2"$'\t'
    sleep 0.2
    # Until nothing has come for half a second, as a busy machine takes its time.
    integer i quiet=0 some=0
    for (( i = 0; i < 400 && quiet < (some ? 10 : 60); i++ )); do
        if zpty -r -t z chunk; then
            print -rn -- "$chunk"
            quiet=0
            [[ $chunk == *hit:* ]] && some=1
        else
            quiet+=1
            sleep 0.05
        fi
    done
    zpty -d z
    """
    zsh_path = shell("zsh")
    out, _ = run([zsh_path, "-f", "-c", f"ZSH_PATH={zsh_path}\n" + script, "zsh", COMPLETION, " ".join(("vramtap",) + words)])
    return set(re.findall(r"hit:([^\s]+)", out))


def check_shell(complete):
    names = commands()
    check({"report", "triage"} <= names, "commands", names)
    check(names <= complete(""), "commands offered", names - complete(""))
    equal({w for w in complete("re") if w != "rep"}, {n for n in names if n.startswith("re")}, "commands that begin with re")
    for command in ("report", "triage"):
        wanted = {o.rstrip("=") for o in options(command)}
        offered = {o.split("=")[0] for o in complete(command, "--")}
        check(wanted <= offered, f"options of {command}", wanted - offered)
        equal({o for o in offered if o.startswith("--")} - wanted, set(), f"options that {command} does not have")
    with target(["sleep", "60"]) as proc:
        offered = complete("stacks", str(proc.pid))
        check(str(proc.pid) in offered, "a PID", offered)


def values(words):
    """--color=always, or the word alone where the shell breaks words at "="."""
    return {w.rpartition("=")[2] for w in words}


def test_bash():
    check_shell(bash)
    equal(bash("report", "--color=a"), {"auto", "always"}, "colours")
    equal(bash("report", "--threads="), {"groups", "all", "python", "main"}, "threads")
    check({"on", "off", "status"} <= bash("record", ""), "actions of record")
    equal(bash("help", "wat"), {"watch"}, "help")
    check("vramtap" in bash("diff", "v"), "files")


def test_fish():
    check_shell(fish)
    equal(values(fish("report", "--color=a")), {"auto", "always"}, "colours")
    equal(values(fish("report", "--threads=")), {"groups", "all", "python", "main"}, "threads")
    equal({w for w in fish("help", "wat")}, {"watch"}, "help")
    check("vramtap" in fish("diff", "v"), "files", fish("diff", "v"))


def test_zsh():
    check_shell(zsh)
    equal(values(zsh("report", "--color=a")), {"auto", "always"}, "colours")


def test_choices_are_the_programs():
    """The words that the completions offer for options with few values are those that the program names."""
    for option, words in (("--color", "auto always never"), ("--threads", "groups all python main"), ("--by", "category module variable type")):
        done = subprocess.run([VRAMTAP, "report", f"{option}=x", "1"], capture_output=True, check=False, timeout=30)
        named = re.split(r", not|is not", done.stderr.decode().split("\n")[0])
        check(all(re.search(rf"\b{w}\b", done.stderr.decode()) for w in words.split()), option, named)
        for file in ("vramtap.bash", "_vramtap"):
            with open(os.path.join(COMPLETION, file), encoding="utf-8") as text:
                check(words in text.read(), f"{option} in {file}")


if __name__ == "__main__":
    main(globals())
