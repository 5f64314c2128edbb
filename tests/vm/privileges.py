#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Who may look at what, in states that this machine's kernel does not have: Yama, AppArmor, SELinux, Landlock, a /proc that hides. They
are those of a virtual machine; states.py has the table of them, and runs in there."""
import machine
from harness import main

PROGRAMS = ("tests/targets/guarded",)
# AppArmor and SELinux exclude each other.
WITH_APPARMOR = "lsm=landlock,lockdown,yama,integrity,apparmor,bpf"
WITH_SELINUX = "lsm=landlock,lockdown,yama,integrity,selinux,bpf"
# Yama's last state stays until the machine ends.
TESTS = ("test_protected", "test_hidepid", "test_landlock", "test_apparmor", "test_yama")


def states(parameters, *tests):
    machine.succeeds("6.1", "python3 /vm/source/tests/vm/states.py " + " ".join(tests), [f"ok {test}" for test in tests], programs=PROGRAMS,
                     parameters=parameters, seconds=600)


def test_privileges():
    states(WITH_APPARMOR, *TESTS)


def test_selinux():
    states(WITH_SELINUX, "test_selinux")


if __name__ == "__main__":
    main(globals())
