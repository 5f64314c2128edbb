# SPDX-License-Identifier: Apache-2.0
"""What the tests of tests/packages/ share: roots of distributions (tests/setup/root.sh) below an overlay, in namespaces of their own."""
import os
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "functional"))
from harness import CACHE, Skip  # pylint: disable=wrong-import-position

ROOTS = os.path.join(CACHE, "roots")
READY = {}


def own_namespaces():
    """Mounts and processes are gone when this script ends."""
    if os.environ.get("VRAMTAP_OWN_NAMESPACES"):
        return
    command = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    if subprocess.run([*command, "true"], check=False, stderr=subprocess.DEVNULL).returncode:
        print("skip: no namespaces here")
        sys.exit(77)
    os.environ["VRAMTAP_OWN_NAMESPACES"] = "1"
    os.execvp(command[0], [*command, sys.executable, "-B", *sys.argv])


def mount(*args):
    subprocess.run(["mount", *args], check=True)


def scratch_root(name):
    """A directory on a file system of its own, which ends with the namespace."""
    top = os.path.join(ROOTS, ".mount")
    if top not in READY:
        os.makedirs(top, exist_ok=True)
        mount("-t", "tmpfs", "none", top)
        READY[top] = top
    path = os.path.join(top, name)
    os.mkdir(path)
    return path


def has(name):
    return os.path.exists(os.path.join(ROOTS, name, ".made-of"))


def root(name, *files):
    """The root, with copies of the files."""
    lower = os.path.join(ROOTS, name)
    if not has(name):
        raise Skip(f"no root {name}: sh tests/setup/root.sh {name}")
    if name not in READY:
        base = scratch_root(name)
        for directory in ("upper", "work", "root"):
            os.mkdir(os.path.join(base, directory))
        READY[name] = os.path.join(base, "root")
        mount("-t", "overlay", "-o", f"lowerdir={lower},upperdir={base}/upper,workdir={base}/work", "none", READY[name])
        mount("-t", "proc", "proc", READY[name] + "/proc")
        mount("--bind", "/dev", READY[name] + "/dev")
        for file in files:
            shutil.copy(file, READY[name])
    return READY[name]
