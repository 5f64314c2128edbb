#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What "make release" made, as a user has it: the program, the wheel in the oldest interpreter that is here, the image in
podman, the archive against the list of git. installed.py has the wheel in bare roots, with newer interpreters.

usage: release.py [TEST...]     VRAMTAP_BUILD_DIR: the build whose release/ it is"""
import filecmp
import glob
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "functional"))
from harness import BUILD, SOURCE, Skip, check, equal, main, scratch, target  # pylint: disable=wrong-import-position
from pods import CONF, private_mounts  # pylint: disable=wrong-import-position

RELEASE = os.path.abspath(os.path.join(BUILD, "release"))
VERSION = re.search(r"AC_INIT\(\[vramtap\], \[(.*?)\]", open(os.path.join(SOURCE, "configure.ac"), encoding="utf-8").read())[1]
PROGRAM = os.path.join(RELEASE, f"vramtap-{VERSION}-x86_64")
IMAGE = os.path.join(RELEASE, f"vramtap-{VERSION}-image.tar")
START_MS = 2


def output(*argv, **options):
    done = subprocess.run(argv, capture_output=True, timeout=120, check=False, stdin=subprocess.DEVNULL, **options)
    check(done.returncode == 0, f"exit code {done.returncode}: {argv}", done.stdout.decode()[-1500:], done.stderr.decode()[-1500:])
    return done.stdout.decode()


def file_with(text):
    path = os.path.join(scratch(), "file")
    with open(path, "w", encoding="ascii") as file:
        file.write(text)
    return path


def tree(path):
    return {os.path.join(top, name) for top, directories, names in os.walk(path) for name in names + directories}


# ---- the program ----

def test_program():
    check("INTERP" not in output("readelf", "-lW", PROGRAM), "the program asks for an interpreter")
    check("NEEDED" not in output("readelf", "-dW", PROGRAM), "the program needs a library")
    check(".symtab" not in output("readelf", "-SW", PROGRAM), "the program is not stripped")
    for path in (SOURCE, os.path.abspath(BUILD)):
        check(path.encode() not in open(PROGRAM, "rb").read(), f"{path} is in the program")


def start(*words):
    """How many ms it takes from the start of the program to its end."""
    quiet = [(os.POSIX_SPAWN_OPEN, 1, "/dev/null", os.O_WRONLY, 0)]
    begin = time.perf_counter_ns()
    pid = os.posix_spawn(PROGRAM, ["vramtap", *words], os.environ, file_actions=quiet)
    _, status = os.waitpid(pid, 0)
    took = (time.perf_counter_ns() - begin) / 1e6
    equal(status, 0, f"vramtap {words}")
    return took


def test_start():
    for words in (("--version",), ("--help",), ("stacks", "--help")):
        times = sorted(start(*words) for _ in range(200))
        print(f"   vramtap {' '.join(words)}: {times[0]:.2f} ms at least, {statistics.median(times):.2f} ms in the middle")
        # The machine may be busy; the program is not slower for that at its best.
        check(times[0] <= START_MS, f"starting takes more than {START_MS} ms", times[0])


# ---- the wheel ----

def wheel():
    found = glob.glob(os.path.join(RELEASE, f"vramtap-{VERSION}-py3-none-*.whl"))
    equal(len(found), 1, "wheels")
    return found[0]


def oldest():
    """The oldest interpreter that can make an environment with pip."""
    paths = glob.glob(os.path.expanduser("~/.pyenv/versions/3.*/bin/python3")) + glob.glob("/usr/bin/python3.[0-9]*") + ["/usr/bin/python3"]
    found = {}
    for path in paths:
        done = subprocess.run([path, "-c", "import ensurepip, venv, sys; print(sys.version_info[:2])"], capture_output=True, check=False)
        if done.returncode == 0 and "t/bin" not in path:
            found[tuple(map(int, re.findall(r"\d+", done.stdout.decode())))] = path
    if not found:
        raise Skip("no interpreter that can make an environment")
    return found[min(found)]


def test_wheel():
    python = oldest()
    print(f"   {output(python, '--version').strip()}")
    where = os.path.join(scratch(), "environment")
    output(python, "-m", "venv", where)
    bin_directory, before = os.path.join(where, "bin"), tree(where)
    pip = [os.path.join(bin_directory, "pip"), "--disable-pip-version-check", "--quiet"]
    output(*pip, "install", "--no-index", "--no-deps", wheel())
    program = os.path.join(bin_directory, "vramtap")
    equal(output(program, "--version"), f"vramtap {VERSION}\n", "the version")
    check(filecmp.cmp(program, PROGRAM, shallow=False), "the wheel has another program")
    with target(["sleep", "100"]) as sleeper:
        check("sleep" in output(program, "stacks", "--once", str(sleeper.pid)), "the stacks of a process")
    check(os.path.exists(os.path.join(where, "share", "man", "man1", "vramtap-stacks.1")), "the man page")
    output(*pip, "uninstall", "-y", "vramtap")
    left = {path for path in tree(where) - before if not os.path.isdir(path) and "__pycache__" not in path}
    equal(left, set(), "what uninstalling leaves")


# ---- the image ----

class Podman:
    """With a store of its own."""

    def __init__(self):
        if not shutil.which("podman"):
            raise Skip("no podman")
        base = scratch()
        self.command = ["podman", f"--root={base}/root", f"--runroot={base}/run", "--storage-driver=vfs", "--cgroup-manager=cgroupfs"]
        self.env = dict(os.environ, CONTAINERS_CONF=file_with(CONF))

    def __call__(self, *words):
        return output(*self.command, *words, env=self.env)

    def config(self, image):
        said = json.loads(self("image", "inspect", image))[0]["Config"]
        said["Labels"].pop("io.buildah.version", None)
        return said


def licenses():
    with open(os.path.join(SOURCE, "packaging", "release.sh"), encoding="utf-8") as file:
        parts = re.findall(r"""^licenses=['"](?:\$licenses )?(.*)['"]$""", file.read(), re.M)
    return " ".join(parts)


def test_image():
    podman = Podman()
    podman("load", "-q", "-i", IMAGE)
    run = ("run", "--rm", "--network=none")
    done = subprocess.run([*podman.command, *run, f"vramtap:{VERSION}", "--version"], env=podman.env, capture_output=True, timeout=120, check=False)
    # What podman itself ends with, or when no container may be made; of the program it would name the path.
    if done.returncode in (125, 126) and not re.search(b"/vramtap|open executable", done.stderr):
        raise Skip(f"podman starts no container here: {done.stderr.decode()[-300:]}")
    equal((done.returncode, done.stdout.decode()), (0, f"vramtap {VERSION}\n"), f"the version: {done.stderr}")
    # As kubectl starts it, which has no regard for the entry point; and what a container is for.
    equal(podman(*run, "--entrypoint=[]", f"vramtap:{VERSION}", "vramtap", "--version"), f"vramtap {VERSION}\n", "by PATH")
    with target(["sleep", "100"]) as sleeper:
        check("sleep" in podman(*run, "--pid=host", "--privileged", f"vramtap:{VERSION}", "stacks", "--once", str(sleeper.pid)), "the stacks of a process")

    podman("build", "-q", "-t", "built", "-f", os.path.join(SOURCE, "packaging", "Containerfile"), f"--build-arg=VERSION={VERSION}",
           f"--build-arg=LICENSES={licenses()}", RELEASE)
    equal(podman.config(f"vramtap:{VERSION}"), podman.config("built"), "the image, and what podman makes of the Containerfile")


# ---- the archive ----

# Made by autoreconf, and by "make dist".
MADE = {"Makefile.in", "aclocal.m4", "config.h.in", "configure", "packaging/source-date", "packaging/vramtap.spec"}
# Debian's source package has debian/ beside the archive.
LEFT_OUT = (".gitignore", "debian/")


def test_archive():
    done = subprocess.run(["git", "-C", SOURCE, "ls-files"], capture_output=True, check=False)
    if done.returncode:
        raise Skip("no clone: git does not know what is to be in it")
    wants = {name for name in done.stdout.decode().splitlines() if not name.startswith(LEFT_OUT) and os.path.exists(os.path.join(SOURCE, name))}
    names = output("tar", "-tf", os.path.join(RELEASE, f"vramtap-{VERSION}.tar.xz")).splitlines()
    equal(names, sorted(names, key=lambda name: name.rstrip("/").split("/")), "the order of the archive")
    has = {name.split("/", 1)[1] for name in names if not name.endswith("/")}
    equal({name for name in has ^ wants if name not in MADE and not name.startswith("build-aux/")}, set(), "the archive, and what git knows")


def test_sums():
    output("sha256sum", "--check", "--strict", "SHA256SUMS", cwd=RELEASE)
    with open(os.path.join(RELEASE, "SHA256SUMS"), encoding="ascii") as file:
        equal({line.split()[1] for line in file}, set(os.listdir(RELEASE)) - {"SHA256SUMS"}, "files that have sums")


if __name__ == "__main__":
    private_mounts()
    main(globals())
