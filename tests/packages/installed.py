#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The packages as a user has them: installed in bare roots of Debian 12, Debian 13 and Ubuntu 24.04 without a network, used, removed.

usage: installed.py [TEST...]     VRAMTAP_DEB, VRAMTAP_WHEEL: the package and the wheel, each without it is skipped"""
import glob
import os
import subprocess

from roots import has, own_namespaces, root  # finds harness
from harness import CACHE, SOURCE, Skip, check, equal, main  # pylint: disable=wrong-import-order

BARE = ("debian-12", "debian-13", "ubuntu-24.04")
DEB = os.environ.get("VRAMTAP_DEB") or next(iter(sorted(glob.glob(os.path.join(CACHE, "deb", "vramtap_*_amd64.deb")))), "")
WHEEL = os.environ.get("VRAMTAP_WHEEL", "")


def inside(path, script, *args):
    """A command of the shell in a root that has no network."""
    done = subprocess.run(["unshare", "--net", "chroot", path, "/bin/sh", "-ec", script, "sh", *args], stdin=subprocess.DEVNULL,
                          capture_output=True, timeout=120, check=False, env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root",
                                                                             "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C.UTF-8"})
    equal(done.returncode, 0, f"{script} in {path}: {done.stderr.decode()[-1500:]} {done.stdout.decode()[-1500:]}")
    return done.stdout.decode()


def files(path):
    """What is there, without what apt and dpkg write down for themselves."""
    own = ("./var/log/", "./var/cache/", "./var/lib/apt/", "./var/lib/dpkg/", "./tmp/", "./root/")
    found = subprocess.run(["find", ".", "-xdev", "-type", "d", "-printf", "%p\n", "-o", "-printf", "%p %y %s %l\n"], cwd=path, capture_output=True, check=True).stdout.decode()
    return {line for line in found.splitlines() if not line.startswith(own)}


def everywhere(package, use):
    if not package:
        raise Skip("it is not built")
    names = [name for name in BARE if has(name)]
    for name in set(BARE) - set(names):
        print(f"   no root of {name}: skipped")
    if not names:
        raise Skip("no roots: sh tests/setup/prepare.sh")
    for name in names:
        use(name, root(name, *(file for file in (DEB, WHEEL) if file)))


def listed():
    with open(os.path.join(SOURCE, "tests", "unit", "install.list"), encoding="ascii") as file:
        return [line.strip() for line in file if "/man/" in line or "complet" in line or "site-functions" in line]


def use_deb(name, path):
    before = files(path)
    inside(path, 'apt-get install -y "$1" >/dev/null', "/" + os.path.basename(DEB))
    check(inside(path, "vramtap --version").startswith("vramtap "), "the version")
    text = inside(path, "vramtap stacks --once $$; :")
    check("main thread" in text and "Complete." in text, f"its own shell's stacks, {name}", text)
    check("vramtap stacks" in inside(path, "man -P cat vramtap-stacks"), "the man page")
    for file in listed():
        check(os.path.lexists(path + file) or os.path.lexists(path + file + ".gz"), f"{file} is there, {name}")
    check(os.path.lexists(path + "/etc/gdb/gdbinit.d/vramtap.gdb"), "gdb's commands")
    inside(path, "apt-get remove -y vramtap >/dev/null")
    equal(files(path) - before, set(), f"what removing it leaves, {name}")


def test_deb():
    everywhere(DEB, use_deb)


def use_wheel(name, path):
    inside(path, 'python3 -m venv /tmp/venv && /tmp/venv/bin/pip install --no-index --quiet "$1"', "/" + os.path.basename(WHEEL))
    text = inside(path, "/tmp/venv/bin/vramtap --version; /tmp/venv/bin/vramtap stacks --once $$; :")
    check("main thread" in text and "Complete." in text, f"its own shell's stacks, {name}", text)
    inside(path, "/tmp/venv/bin/pip uninstall --quiet -y vramtap; ! test -e /tmp/venv/bin/vramtap")


def test_wheel():
    everywhere(WHEEL, use_wheel)


if __name__ == "__main__":
    own_namespaces()
    main(globals())
