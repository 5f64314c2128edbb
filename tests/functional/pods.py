#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Pods without a cluster: podman runs a container without a shell that uses the simulated device, and a debug container of one static file
that joins its pid namespace, but not its file system. What that one may do is what a real kubectl asks an API server for, when it is
given the commands of doc/KUBERNETES.md; the server is a stand-in (kube_api.py)."""
import contextlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys

from cluster import only_of_scripts
from harness import CACHE, COMPLETE, NOT_PERMITTED, PARTIAL, SOURCE, VRAMTAP, Job, Skip, check, equal, main, scratch
from kube_api import api

SIMCUDA = os.path.join(CACHE, "simcuda")
DOCUMENT = os.path.join(SOURCE, "doc", "KUBERNETES.md")
MIB = 1 << 20
COMMON = ("--network=none",)
# What podman would raise may be more than is allowed here.
CONF = '[containers]\ndefault_ulimits = ["nofile=1024:1024", "nproc=1000:1000"]\n'
# Kubernetes' default, unlike podman's.
UNCONFINED = "--security-opt=seccomp=unconfined"
STACK = contextlib.ExitStack()
SHARED = {}


def recipe(name, kind="recipe"):
    with open(DOCUMENT, encoding="utf-8") as file:
        return re.search(rf"<!-- {kind}: {name} -->\n```[a-z]+\n(.*?)```", file.read(), re.S)[1]


# ---- podman ----

class Podman:
    """With a store of its own, and the images "vramtap" and "job"."""

    def __init__(self):
        if not shutil.which("podman"):
            raise Skip("no podman")
        self.base = scratch()
        self.command = ["podman", f"--root={self.base}/root", f"--runroot={self.base}/run", "--storage-driver=vfs", "--cgroup-manager=cgroupfs"]
        self.env = dict(os.environ, CONTAINERS_CONF=os.path.join(self.base, "containers.conf"))
        with open(self.env["CONTAINERS_CONF"], "w", encoding="ascii") as file:
            file.write(CONF)
        tool, job = self.directory("tool"), self.directory("job")
        subprocess.run(["strip", "-o", os.path.join(tool, "vramtap"), VRAMTAP], check=True)
        self.build("vramtap", tool, "COPY vramtap /vramtap\nENV PATH=/\nENTRYPOINT [\"/vramtap\"]\n")
        make_job(job)
        self.build("job", job, "COPY . /\nENV SIMCUDA_DEVICES=1\nENTRYPOINT [\"/train\"]\n")
        done = self("run", "--rm", *COMMON, "vramtap", "--version")
        if done.returncode:
            raise Skip("podman starts no container here: " + done.stderr.decode()[-300:])

    def directory(self, name):
        path = os.path.join(self.base, name)
        os.mkdir(path)
        return path

    def __call__(self, *args, timeout=60, **kwargs):
        return subprocess.run([*self.command, *args], env=self.env, capture_output=True, timeout=timeout, check=False, **{"stdin": subprocess.DEVNULL, **kwargs})

    def build(self, name, directory, text):
        path = os.path.join(self.base, name + ".containerfile")
        with open(path, "w", encoding="ascii") as file:
            file.write("FROM scratch\n" + text)
        done = self("build", "-q", "-t", name, "-f", path, directory)
        if done.returncode:
            raise Skip("podman builds no image here: " + done.stderr.decode()[-300:])

    @contextlib.contextmanager
    def job(self, *options, image="job"):
        """A container named job with 100 MiB of cudaMalloc and 2 MiB mapped."""
        argv = [*self.command, "run", "-i", "--rm", *COMMON, *options, "--name=job", image]
        try:
            with Job(argv, ready="ready", env=self.env) as job:
                for words in (f"malloc {100 * MIB}", f"map {2 * MIB}"):
                    check(job.ask(words).startswith("0x"), words)
                yield job
        finally:
            self("rm", "-f", "-t", "0", "job")

    def debug(self, *words, options=("--cap-add=SYS_PTRACE", UNCONFINED), expect=(COMPLETE,), join=("--pid=container:job",)):
        """vramtap in a debug container of the job; returns its output."""
        done = self("run", "--rm", *COMMON, *join, *options, "vramtap", *words)
        out, err = done.stdout.decode(), done.stderr.decode()
        check(done.returncode in expect, f"exit code {done.returncode}, not {expect}:", words, err, out[-1500:])
        return out + err


def make_job(root):
    """cuda_calls, and nothing that it does not need: a container without a shell."""
    binary = os.path.join(root, "train")
    done = subprocess.run(["gcc", "-g", "-O1", "-o", binary, os.path.join(SOURCE, "tests/targets/cuda_calls.c"), "-pthread", "-L" + SIMCUDA,
                           "-l:libcudart.so.13", "-l:libcuda.so.1", "-Wl,-rpath-link," + SIMCUDA], capture_output=True, check=False)
    if done.returncode:
        raise Skip("cuda_calls.c does not build: " + done.stderr.decode()[:300])
    lib = os.path.join(root, "lib", "x86_64-linux-gnu")
    os.makedirs(lib)
    os.mkdir(os.path.join(root, "lib64"))
    shutil.copy("/lib64/ld-linux-x86-64.so.2", os.path.join(root, "lib64"))
    env = dict(os.environ, LD_LIBRARY_PATH=SIMCUDA)
    for path in (binary, os.path.join(SIMCUDA, "libcupti.so.13")):
        for line in subprocess.run(["ldd", path], env=env, capture_output=True, check=True).stdout.decode().splitlines():
            found = re.search(r"=> (/\S+)", line)
            if found:
                shutil.copy(found[1], lib)
    shutil.copy(os.path.join(SIMCUDA, "libcupti.so.13"), lib)


def podman():
    only_of_scripts()
    if "podman" not in SHARED:
        try:
            SHARED["podman"] = Podman()
        except Skip as reason:
            SHARED["podman"] = reason
    if isinstance(SHARED["podman"], Skip):
        raise SHARED["podman"]
    return SHARED["podman"]


# ---- kubectl ----

def asked_for(line):
    """The container or pod that kubectl asks an API server for, when it is given this line of the document."""
    words = shlex.split(line.replace(" -it ", " "))
    with api("train-0") as (env, sent):
        done = subprocess.run(words, env=env, capture_output=True, timeout=30, stdin=subprocess.DEVNULL, check=False)
        equal(done.returncode, 0, f"exit code of {line}: {done.stderr}")
        return sent[-1][1]


def podman_options(container):
    """What podman calls what an ephemeral container of Kubernetes may do."""
    security = container.get("securityContext", {})
    capabilities = security.get("capabilities", {})
    options = [*(f"--cap-drop={name}" for name in capabilities.get("drop", [])), *(f"--cap-add={name}" for name in capabilities.get("add", []))]
    if security.get("privileged"):
        options.append("--privileged")
    elif "seccompProfile" not in security:
        options.append(UNCONFINED)
    if security.get("runAsNonRoot"):
        options.append("--user=65532:65532")
    return options


def run_debug(line, expect=(COMPLETE,)):
    container = asked_for(line)["spec"]["ephemeralContainers"][0]
    equal(container["targetContainerName"], "main", "the target")
    equal(container["command"][0], "vramtap", "the command")
    return podman().debug(*container["command"][1:], options=podman_options(container), expect=expect)


def check_memory(out):
    check("read from inside" in out and re.search(r"raw cudaMalloc\S* .*100 MiB", out) and re.search(r"raw cuMemMap\S* .*2\.00 MiB", out),
          "the memory of the process", out)


def check_stacks(out):
    check("main thread waits in read" in out and re.search(r" main  .*cuda_calls\.c:\d+", out), "the stack", out)


# ---- the tests ----

def test_debug_container():
    """A debug container of one static file, and a target without a shell, of another user: all of it, with the profile that the document
    says. Those that have less say what is missing."""
    with podman().job(UNCONFINED, "--user=1000:1000"):
        line = recipe("debug").strip()
        check_stacks(run_debug(line))
        check_memory(run_debug(line.replace("stacks 1", "report 1")))
        out = run_debug(line.replace("stacks 1", "ps --all"), expect=(PARTIAL,))
        check(re.search(r"^ +1 .* train$", out, re.M), "the list", out)
        for profile in ("baseline", "restricted"):
            out = run_debug(line.replace("general", profile), expect=(NOT_PERMITTED,))
            check("SYS_PTRACE" in out or "belongs to user 1000" in out, "the message", out)
        out = run_debug(line.replace("stacks 1", "ps --all"), expect=(PARTIAL,))
        check("NVML needs a C library, and there is no ld-linux-x86-64.so.2 here" in out, "why the driver's count is missing", out)


def test_record():
    with podman().job(UNCONFINED) as job:
        # Partial, for it has no Python.
        podman().debug("record", "1", "on", "--cupti", expect=(PARTIAL,))
        check(job.ask(f"malloc {3 * MIB}").startswith("0x"), "an allocation")
        out = podman().debug("record", "1", "status", expect=(COMPLETE, PARTIAL))
        check(re.search(r"driver .*: 1 so far", out), "what was recorded", out)
        podman().debug("record", "1", "off", expect=(COMPLETE, PARTIAL))
        check(job.ask(f"malloc {MIB}").startswith("0x"), "the job goes on")


def test_seccomp():
    """The engine's filter on the target: read from outside by one with a filter, and by a privileged one from inside."""
    with podman().job():
        out = podman().debug("report", "1", options=("--cap-add=SYS_PTRACE",), expect=(PARTIAL,))
        check_stacks(out)
        check("kubectl debug --profile=sysadmin)" in " ".join(out.split()), "what would help", out)
        check_memory(run_debug(recipe("sysadmin").strip()))


def test_users_and_name_spaces():
    with podman().job(UNCONFINED, "--user=1000:1000", "--cap-drop=all"):
        same = (UNCONFINED, "--user=1000:1000", "--cap-drop=all")
        check_memory(podman().debug("report", "1", options=(*same, "--read-only", "--read-only-tmpfs=false")))
        out = podman().debug("stacks", "1", options=(UNCONFINED, "--user=2000:2000", "--cap-drop=all"), expect=(NOT_PERMITTED,))
        check("belongs to user 1000" in out, "the message", out)
    with podman().job(UNCONFINED):
        out = podman().debug("stacks", "1", options=(UNCONFINED, "--cap-drop=all"), expect=(NOT_PERMITTED,))
        check('securityContext.capabilities.add: ["SYS_PTRACE"]' in out, "the message", out)


def test_user_namespace():
    """As with hostUsers: false; a debug container of the pod is in the pod's, another one is not."""
    with podman().job(UNCONFINED, "--uidmap=0:100000:65536"):
        check_memory(podman().debug("report", "1", options=(UNCONFINED, "--userns=container:job", "--cap-add=SYS_PTRACE")))
        out = podman().debug("report", "1", options=(UNCONFINED, "--uidmap=0:200000:65536", "--cap-add=SYS_PTRACE"), expect=(NOT_PERMITTED,))
        check("another user namespace" in out and "on the host with sudo" in out, "the message", out)


def shelled():
    """The image of the job with sh and a few programs."""
    busybox = shutil.which("busybox")
    if not busybox or subprocess.run(["ldd", busybox], capture_output=True, check=False).returncode == 0:
        raise Skip("no static busybox")
    root = os.path.join(podman().base, "job")
    if not os.path.isdir(os.path.join(root, "bin")):
        os.makedirs(os.path.join(root, "bin"))
        shutil.copy(busybox, os.path.join(root, "bin", "busybox"))
        for name in ("sh", "cat", "chmod", "rm", "ls", "sleep"):
            os.symlink("busybox", os.path.join(root, "bin", name))
        os.mkdir(os.path.join(root, "tmp"))
        podman().build("shelled", root, "COPY . /\nENV PATH=/bin\nENTRYPOINT [\"/train\"]\n")
    return "shelled"


def test_copied_into_the_container():
    """With kubectl exec there: the target's own user, and no other capability."""
    with podman().job(UNCONFINED, image=shelled()):
        out = ""
        for line in recipe("copy").splitlines():
            words = shlex.split(line.split(" <")[0])
            equal(words[:2], ["kubectl", "exec"], "the command")
            with contextlib.ExitStack() as stack:
                stdin = stack.enter_context(open(VRAMTAP, "rb")) if " <vramtap" in line else subprocess.DEVNULL
                done = podman()("exec", *(["-i"] if "-i" in words else []), "job", *words[words.index("--") + 1:], stdin=stdin)
            equal(done.returncode, 0, f"exit code of {line}: {done.stderr}")
            out += done.stdout.decode()
        check_memory(out)
        equal(podman()("exec", "job", "ls", "/tmp").stdout, b"", "what is left")


def test_sidecar():
    """Two containers with one pid namespace, whose process 1 is the pod's."""
    image = shelled()
    done = podman()("pod", "create", "--name=pod", "--share=pid", f"--infra-image={image}", "--infra-command=/bin/sleep 1000", "--network=none")
    equal(done.returncode, 0, f"the pod: {done.stderr}")
    first, second = recipe("sidecar").splitlines()
    sidecar = ("--pod=pod", "--cap-add=SYS_PTRACE", UNCONFINED)
    try:
        with podman().job(UNCONFINED, "--pod=pod"):
            words = shlex.split(first)
            out = podman().debug(*words[words.index("vramtap", 5) + 1:], options=sidecar, expect=(PARTIAL,), join=())
            pid = re.search(r"^ +(\d+) .* train$", out, re.M)
            check(pid and pid[1] != "1", "the list", out)
            words = shlex.split(second.replace(" 7", " " + pid[1]))
            check_memory(podman().debug(*words[words.index("vramtap", 5) + 1:], options=sidecar, join=()))
    finally:
        podman()("pod", "rm", "-f", "-t", "0", "pod")


def test_commands_of_the_document():
    """kubectl knows every option, and takes every manifest."""
    with open(DOCUMENT, encoding="utf-8") as file:
        text = file.read()
    blocks = re.findall(r"```(sh|yaml)\n(.*?)```", text, re.S)
    equal(len(blocks), len(re.findall(r"<!-- (?:recipe|manifest): ", text)), "blocks with a name")
    lines = [line for kind, block in blocks if kind == "sh" for line in block.splitlines() if line.startswith("kubectl ")]
    check(len(lines) >= 5, "commands", lines)
    with api("train-0") as (env, _):
        for line in lines:
            words = shlex.split(line.split(" <")[0])
            at = words.index("--")
            done = subprocess.run([*words[:at], "--help"], env=env, capture_output=True, timeout=30, check=False)
            equal(done.returncode, 0, f"{line}: {done.stderr}")
        for name in ("sidecar", "daemonset"):
            done = subprocess.run(["kubectl", "create", "--dry-run=client", "--validate=false", "-o", "json", "-f", "-"], env=env, capture_output=True,
                                  timeout=30, check=False, input=recipe(name, "manifest").encode())
            equal(done.returncode, 0, f"{name}: {done.stderr}")
            check_vramtap(json.loads(done.stdout))
    sent = asked_for(recipe("node").strip())
    check(b"gpu-7" in sent and b"registry/vramtap" in sent, "the pod on a node", sent)


def check_vramtap(manifest):
    """What the manifest has vramtap do it can do: an option that it lacks is a usage error."""
    spec = manifest["spec"].get("template", manifest)["spec"]
    for container in spec["containers"]:
        if container["name"] == "vramtap":
            used = re.search(r"vramtap ([a-z]+) (--[a-z]+)", " ".join(container["command"]))
            if used:
                said = subprocess.run([VRAMTAP, used[1], "--help"], capture_output=True, timeout=30, check=True).stdout.decode()
                check(used[2] in said, "an option that there is", used[0])


def private_mounts():
    """crun before 1.9 refuses control groups of both versions: where the second is mounted beside the first, it goes for this process."""
    if os.geteuid() or "VRAMTAP_PODS" in os.environ or not os.path.isdir("/sys/fs/cgroup/unified"):
        return
    script = 'umount /sys/fs/cgroup/unified 2>/dev/null; exec "$@"'
    if subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False).returncode == 0:
        os.environ["VRAMTAP_PODS"] = "1"
        os.execvp("unshare", ["unshare", "-m", "sh", "-c", script, "sh", sys.executable, "-B", *sys.argv])


if __name__ == "__main__":
    private_mounts()
    with STACK:
        main(globals())
