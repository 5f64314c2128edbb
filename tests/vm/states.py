#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Within the virtual machine of privileges.py: who may look at what, in states of the kernel that the machine of the tests cannot be in.
In each the answer must be the documented one (SECURITY.md, "Who may trace"), and the process unharmed.

states.py TEST...: those of this kernel and its security modules."""
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys

from harness import BUILD, COMPLETE, NOT_PERMITTED, PARTIAL, VRAMTAP, check, equal, main, scratch, wait_until
from victims import Stats

FINE = (COMPLETE, PARTIAL)
UNHARMED = 42
GUARDED = os.path.join(BUILD, "tests/targets/guarded")


def as_user(uid=1000):
    return ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups"]


def with_capability(uid=1000, capabilities="+sys_ptrace"):
    return [*as_user(uid), f"--inh-caps={capabilities}", f"--ambient-caps={capabilities}"]


ROOT, USER, OTHER = [], as_user(), as_user(65534)
LESS = ["setpriv", "--bounding-set=-sys_ptrace", "--inh-caps=-sys_ptrace"]
NAMESPACE = [*USER, "unshare", "--user", "--map-root-user"]
FAILURES = []


class Guarded:
    """tests/targets/guarded, which must be unharmed at the end."""

    def __init__(self, before, guard="tracer-0", program=GUARDED):
        self.stats = Stats()
        os.chmod(os.path.dirname(self.stats.path), 0o755)
        os.chmod(self.stats.path, 0o666)
        self.process = subprocess.Popen([*before, program, self.stats.path, guard])
        self.pid = self.process.pid
        wait_until(self.stats.is_ready, 30, "the target is ready")

    def rounds(self):
        return [thread.rounds for thread in self.stats.threads()]

    def check_unharmed(self):
        before = self.rounds()
        wait_until(lambda: all(b > a for a, b in zip(before, self.rounds())), 30, f"all threads get on: {before}, {self.rounds()}")
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(30)
        equal(code, UNHARMED, f"the target's exit code ({self.stats.first_error()})")

    def __enter__(self):
        return self

    def __exit__(self, kind, *exc):
        try:
            if kind is None:
                self.check_unharmed()
        finally:
            self.process.kill()
            self.process.wait()


def tool(before, *arguments):
    done = subprocess.run([*before, VRAMTAP, *map(str, arguments)], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60,
                          check=False)
    return done.returncode, done.stdout, done.stderr


def refused(what, before, pid, *words):
    """With the reason and the remedy."""
    for command in (["stacks", "--once"], ["report", "--once"]):
        code, out, err = tool(before, *command, pid)
        answer = " ".join(err.split())
        print(f"{what}: {command[0]}: {code}: {answer}", flush=True)
        if code != NOT_PERMITTED or not all(word in answer for word in words):
            FAILURES.append((what, command[0], code, words, answer, out[-500:]))


def inside(report):
    """Whether the helper ran in the process: only it can ask the driver for the device's memory."""
    devices = report["cuda"]["devices"]
    return bool(devices) and devices[0]["memory"] is not None


def allowed(what, before, pid, helper=True):
    code, out, err = tool(before, "stacks", "--once", pid)
    sound = code in FINE and "do_sleep" in out
    code_of_report, text, err_of_report = tool(before, "report", "--once", "--json", "-", pid)
    report = json.loads(text) if text else {"cuda": {"devices": []}, "diagnostics": []}
    missing = [f"{d['code']}: {d['text']}" for d in report["diagnostics"] if d["level"] == "missing"]
    print(f"{what}: {code}, {code_of_report}{', inside' if inside(report) else ''}", *missing, flush=True)
    if not sound or code_of_report not in FINE or inside(report) != helper:
        FAILURES.append((what, code, err, out[-1500:], code_of_report, err_of_report, report["diagnostics"]))
    return report


@contextlib.contextmanager
def judged():
    """All answers of a test are seen before it fails."""
    FAILURES.clear()
    yield
    check(not FAILURES, "answers:", "".join(f"\n  {failure}" for failure in FAILURES))


# ---- a kernel as it is ----


def test_report():
    with judged(), Guarded(USER, "any") as target:
        allowed("root", ROOT, target.pid)
        allowed("the same user", USER, target.pid)


# ---- Yama ----

SCOPE = "/proc/sys/kernel/yama/ptrace_scope"
CHILDREN_ONLY = ("ptrace_scope is 1 (own children only)", "with sudo", "sysctl kernel.yama.ptrace_scope=0")
ADMINISTRATORS = ("ptrace_scope is 2 (administrators only)", "with sudo")
NOBODY = ("ptrace_scope is 3: no process may attach until this machine is booted again with a lower value",)
NO_CAPABILITY = ("root lacks CAP_SYS_PTRACE", "--cap-add=SYS_PTRACE")
CLOSED = ("CAP_SYS_PTRACE is not enough for the files in /proc", "CAP_DAC_OVERRIDE", "with sudo")
OTHER_NAMESPACE = ("in another user namespace", "on the host with sudo")
ALLOWED = ()

# Who looks at what: the answers with ptrace_scope 0, 1, 2 and 3.
YAMA = (
    ("root, a user's process", ROOT, USER, "tracer-0", (ALLOWED, ALLOWED, ALLOWED, NOBODY)),
    ("the same user", USER, USER, "tracer-0", (ALLOWED, CHILDREN_ONLY, ADMINISTRATORS, NOBODY)),
    ("the same user, PR_SET_PTRACER for any", USER, USER, "any", (ALLOWED, ALLOWED, ADMINISTRATORS, NOBODY)),
    ("the same user, PR_SET_PTRACER for another", USER, USER, "tracer-another", (ALLOWED, CHILDREN_ONLY, ADMINISTRATORS, NOBODY)),
    ("the same user with CAP_SYS_PTRACE", with_capability(), USER, "tracer-0", (ALLOWED, ALLOWED, ALLOWED, NOBODY)),
    ("another user with CAP_SYS_PTRACE", with_capability(65534), USER, "tracer-0", (CLOSED, CLOSED, CLOSED, NOBODY)),
    ("another user with CAP_DAC_OVERRIDE, too", with_capability(65534, "+sys_ptrace,+dac_override"), USER, "tracer-0",
     (ALLOWED, ALLOWED, ALLOWED, NOBODY)),
    ("root without CAP_SYS_PTRACE, its own", LESS, LESS, "tracer-0",
     (ALLOWED, ("scope is 1", *NO_CAPABILITY), ("scope is 2", *NO_CAPABILITY), NOBODY)),
    ("root of a user namespace, outside of it", NAMESPACE, USER, "any", (OTHER_NAMESPACE, OTHER_NAMESPACE, OTHER_NAMESPACE, NOBODY)),
)


def answer(what, before, pid, words):
    if words:
        refused(what, before, pid, *words)
    else:
        allowed(what, before, pid)


def of_a_child(before, scope, words):
    """A shell starts the target and becomes vramtap."""
    stats = Stats()
    os.chmod(os.path.dirname(stats.path), 0o755)
    os.chmod(stats.path, 0o666)
    script = '"$0" "$1" tracer-0 & sleep 3; exec "$2" stacks --once $!'
    done = subprocess.run([*before, "sh", "-c", script, GUARDED, stats.path, VRAMTAP], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=60, check=False)
    print(f"scope {scope}, its own child: {done.returncode}: {' '.join(done.stderr.split())}", flush=True)
    if done.returncode not in ((NOT_PERMITTED,) if words else FINE) or not all(word in done.stderr for word in words):
        FAILURES.append((scope, "child", done.returncode, done.stderr, done.stdout[-500:]))


def of_a_namespace(scope, words):
    """Root of a user namespace looks at a process in it."""
    with Guarded(NAMESPACE) as target:
        answer(f"scope {scope}, root of a user namespace, within it", ["nsenter", "-t", str(target.pid), "--user", "--setuid=0", "--setgid=0"], target.pid,
               words)


@contextlib.contextmanager
def bystander():
    """Yama's exception is for a process and what it has started: it must not be one above us."""
    with subprocess.Popen(["sleep", "1000"]) as process:
        yield process.pid
        process.kill()


def with_scope(scope):
    with open(SCOPE, "w", encoding="ascii") as file:
        file.write(str(scope))
    for what, before, owner, guard, answers in YAMA:
        with bystander() as pid, Guarded(owner, guard.replace("another", str(pid))) as target:
            answer(f"scope {scope}, {what}", before, target.pid, answers[scope])
    of_a_child(USER, scope, (ALLOWED, ALLOWED, ADMINISTRATORS, NOBODY)[scope])
    of_a_namespace(scope, (ALLOWED, ALLOWED, ALLOWED, NOBODY)[scope])


def test_yama():
    """The last one cannot be left again."""
    with judged():
        for scope in range(4):
            with_scope(scope)


# ---- protected processes ----

PROTECTED = ("protected from debuggers (set-user-id program, or PR_SET_DUMPABLE)", "with sudo")


def test_protected():
    """Not a question of Yama's."""
    setuid = scratch("guarded")
    shutil.copy(GUARDED, setuid)
    os.chmod(os.path.dirname(setuid), 0o755)
    os.chmod(setuid, 0o4755)
    with judged():
        for what, program, guard in (("not dumpable", GUARDED, "undumpable"), ("set-user-id", setuid, "any")):
            with Guarded(USER, guard, program) as target:
                refused(f"{what}, the same user", USER, target.pid, *PROTECTED)
                refused(f"{what}, root without CAP_SYS_PTRACE", LESS, target.pid, *NO_CAPABILITY)
                refused(f"{what}, the same user with CAP_SYS_PTRACE", with_capability(), target.pid, *CLOSED)
                allowed(f"{what}, root", ROOT, target.pid)


# ---- /proc that hides ----

HIDDEN = ("is alive, but /proc hides it from this user (mount option hidepid)", "root")


@contextlib.contextmanager
def hiding(how):
    subprocess.run(["mount", "-o", f"remount,hidepid={how}", "/proc"], check=True)
    try:
        yield
    finally:
        subprocess.run(["mount", "-o", "remount,hidepid=off", "/proc"], check=True)


def test_hidepid():
    with judged():
        for how in ("noaccess", "invisible", "ptraceable"):
            with hiding(how), Guarded(USER) as target, Guarded(USER, "undumpable") as undumpable:
                allowed(f"{how}, the same user", USER, target.pid)
                allowed(f"{how}, root", ROOT, target.pid)
                refused(f"{how}, another user", OTHER, target.pid, *HIDDEN)
                # /proc without "gid=" shows all to group 0, but with hidepid=ptraceable.
                refused(f"{how}, root without CAP_SYS_PTRACE", LESS, target.pid, "root", "CAP_SYS_PTRACE")
                refused(f"{how}, another user with CAP_SYS_PTRACE", with_capability(65534), target.pid, *CLOSED)
                refused(f"{how}, the same user, not dumpable", USER, undumpable.pid, *HIDDEN)


# ---- AppArmor ----

# Everything but ptrace: of what a profile does not name, nothing is allowed.
ALMOST_ALL = "file, capability, network, unix, signal, mount, umount, pivot_root, dbus, userns, change_profile,"
PROFILES = f"""
profile no-ptrace flags=(attach_disconnected) {{ {ALMOST_ALL} }}
profile complains flags=(attach_disconnected,complain) {{ /nothing r, }}
profile may-ptrace flags=(attach_disconnected) {{ {ALMOST_ALL} ptrace, }}
profile as-in-a-container flags=(attach_disconnected) {{ {ALMOST_ALL} ptrace (trace,read,tracedby,readby) peer=as-in-a-container, }}
profile reads-no-maps flags=(attach_disconnected) {{ {ALMOST_ALL} ptrace, deny /proc/*/task/*/maps r, deny /proc/*/maps r, }}
profile enters-no-proc flags=(attach_disconnected) {{ {ALMOST_ALL} ptrace, deny /proc/[0-9]*/ r, }}
profile bare flags=(attach_disconnected) {{ /usr/** rm, /vm/** rm, /tmp/** rw, /etc/ld.so.cache r, signal, }}
"""
APPARMOR = ("the security profile {} (enforce) of this shell forbids it", "--security-opt apparmor=unconfined", "on the host with sudo")


def under(profile, before=()):
    return [*before, "aa-exec", "-p", profile, "--"]


def forbidden(profile):
    return (APPARMOR[0].format(profile), *APPARMOR[1:])


def test_apparmor():
    subprocess.run(["apparmor_parser", "--replace", "--skip-cache"], input=PROFILES, text=True, check=True)
    with judged():
        with Guarded(USER, "any") as target:
            for who, before in (("root", ROOT), ("the same user", USER)):
                refused(f"AppArmor, {who} without ptrace", under("no-ptrace", before), target.pid, *forbidden("no-ptrace"))
                allowed(f"AppArmor, {who} with ptrace", under("may-ptrace", before), target.pid)
                allowed(f"AppArmor, {who}, a profile that only complains", under("complains", before), target.pid)
                refused(f"AppArmor, {who}, a container's profile, a process outside", under("as-in-a-container", before), target.pid,
                        *forbidden("as-in-a-container"))
                for profile in ("reads-no-maps", "enters-no-proc"):
                    refused(f"AppArmor, {who}, {profile}", under(profile, before), target.pid, *forbidden(profile))
        with Guarded(under("as-in-a-container", USER), "any") as target:
            allowed("AppArmor, the same profile of a container", under("as-in-a-container", USER), target.pid)
            allowed("AppArmor, a process in a container, root outside", ROOT, target.pid)
            refused("AppArmor, a process in a container, another profile", under("may-ptrace"), target.pid, *forbidden("may-ptrace"))
        with Guarded(under("bare", USER), "any") as target:
            allowed("AppArmor, a process that may do next to nothing, root", ROOT, target.pid)
            allowed("AppArmor, a process that may do next to nothing, the same user", USER, target.pid)
            refused("AppArmor, a process that may do next to nothing, confined", under("may-ptrace"), target.pid, *forbidden("may-ptrace"))


# ---- Landlock ----

UNKNOWN = ("none of the reasons that vramtap knows", "Landlock", "outside of it with sudo")
# Forbids to make block devices, and with that all processes outside of the sandbox.
SANDBOX = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
rules = libc.syscall(444, ctypes.byref(ctypes.c_uint64(1 << 11)), ctypes.c_size_t(8), 0)
if rules < 0 or libc.prctl(38, 1, 0, 0, 0) or libc.syscall(446, rules, 0):
    sys.exit(os.strerror(ctypes.get_errno()))
os.execvp(sys.argv[1], sys.argv[1:])
"""


def test_landlock():
    sandbox = [sys.executable, "-c", SANDBOX]
    with judged():
        with Guarded(USER, "any") as target:
            for who, before in (("root", ROOT), ("the same user", USER)):
                refused(f"Landlock, {who} in a sandbox", [*before, *sandbox], target.pid, *UNKNOWN)
        with Guarded([*USER, *sandbox], "any") as target:
            allowed("Landlock, a process in a sandbox, root", ROOT, target.pid)
            allowed("Landlock, a process in a sandbox, the same user", USER, target.pid)


# ---- SELinux ----

# The smallest policy: all is allowed but what is wanted here. Initial SIDs in the kernel's order.
SIDS = """kernel security unlabeled fs file file_labels init any_socket port netif netmsg node igmp_packet icmp_socket tcp_socket sysctl_modprobe
sysctl sysctl_fs sysctl_kernel sysctl_net sysctl_net_unix sysctl_vm sysctl_dev kmod policy scmp_packet devnull""".split()
POLICY = f"""
(handleunknown allow)
(mls false)
(class process (ptrace transition dyntransition execmem))
(class file (execute))
(classorder (process file))
(sensitivity s0) (sensitivityorder (s0)) (level low (s0)) (levelrange all (low low))
(user u) (role r) (userrole u r) (userlevel u low) (userrange u all)
(type base_t) (type tool_t) (type unconfined_t) (type target_t) (type memory_t) (type strict_t)
(typeattribute domain) (typeattributeset domain (base_t tool_t unconfined_t target_t strict_t))
(typeattribute any) (typeattributeset any (domain memory_t))
(roletype r any)
(context all_files (u r base_t all))
(boolean deny_ptrace false)
{" ".join(f"(sid {sid})" for sid in SIDS)}
(sidorder ({" ".join(SIDS)}))
{" ".join(f"(sidcontext {sid} all_files)" for sid in SIDS)}
(fsuse trans tmpfs all_files) (fsuse task pipefs all_files) (fsuse task sockfs all_files)
(genfscon rootfs / all_files) (genfscon proc / all_files) (genfscon sysfs / all_files)
(allow base_t any (process (ptrace transition dyntransition execmem)))
(allow domain self (process (transition)))
(booleanif (not deny_ptrace) (true (allow unconfined_t domain (process (ptrace)))))
(allow unconfined_t self (process (execmem)))
(allow tool_t self (process (ptrace execmem)))
(allow target_t self (process (execmem)))
(allow domain base_t (file (execute)))
(allow target_t any (file (execute)))
(typetransition strict_t base_t file memory_t)
"""
SELINUX = ("SELinux forbids it to this shell (u:r:tool_t)", "--security-opt label=disable", "on the host with sudo")


def in_domain(domain, before=()):
    return [*before, "sh", "-c", f'printf u:r:{domain} >/proc/self/attr/exec && exec "$0" "$@"']


def enforce(on):
    with open("/sys/fs/selinux/enforce", "w", encoding="ascii") as file:
        file.write(str(int(on)))


def deny_ptrace(on):
    for name in ("booleans/deny_ptrace", "commit_pending_bools"):
        with open(f"/sys/fs/selinux/{name}", "w", encoding="ascii") as file:
            file.write(str(int(on)) if name[0] == "b" else "1")


def load_policy():
    directory = scratch()
    source, binary = (os.path.join(directory, name) for name in ("policy.cil", "policy"))
    with open(source, "w", encoding="ascii") as file:
        file.write(POLICY)
    subprocess.run(["secilc", "-c", "31", "-o", binary, "-f", os.devnull, source], check=True)
    with open(binary, "rb") as file, open("/sys/fs/selinux/load", "wb", buffering=0) as load:
        policy = file.read()
        equal(load.write(policy), len(policy), "the policy is loaded")


def test_selinux():
    load_policy()
    enforce(True)
    with judged():
        with Guarded(in_domain("target_t", USER), "any") as target:
            for who, before in (("root", ROOT), ("the same user", USER)):
                refused(f"SELinux, {who}, a domain without ptrace", in_domain("tool_t", before), target.pid, *SELINUX)
                allowed(f"SELinux, {who}, a domain with ptrace", in_domain("unconfined_t", before), target.pid)
            deny_ptrace(True)
            refused("SELinux, root, deny_ptrace", in_domain("unconfined_t"), target.pid, "deny_ptrace is on", "setsebool deny_ptrace off")
            deny_ptrace(False)
            enforce(False)
            allowed("SELinux, permissive, root, a domain without ptrace", in_domain("tool_t"), target.pid)
            enforce(True)
        with Guarded(in_domain("strict_t", USER), "any") as target:
            allowed("SELinux, a process that may not execute memory, root", ROOT, target.pid, helper=False)


if __name__ == "__main__":
    main(globals())
