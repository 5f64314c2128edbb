#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reports from inside and walks of the stacks, and the answers about protected and hidden processes, on each kernel that
tests/setup/vm.sh has brought, or those that VM_KERNELS names."""
import os

import machine
from harness import Skip, main

# inject_soak measures how late its victims are: an emulated processor of a busy machine is later than it allows.
PROGRAMS = ("tests/targets/guarded",)
TESTS = ("test_report", "test_protected", "test_hidepid")


def test_kernels():
    kernels = os.environ.get("VM_KERNELS", "").split() or machine.kernels()
    if not kernels:
        raise Skip("no kernel is set up: sh tests/setup/vm.sh 5.10 6.1 6.12 new")
    for kernel in kernels:
        machine.succeeds(kernel, "uname -r; python3 /vm/source/tests/vm/states.py " + " ".join(TESTS), [f"ok {test}" for test in TESTS],
                         programs=PROGRAMS, seconds=300)


if __name__ == "__main__":
    main(globals())
