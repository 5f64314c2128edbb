#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The owners of programs as people run them (tests/gpu/owners.py has them for a GPU), here on the simulated device: a training step
inside backward(), a training that runs on, and two ranks of DistributedDataParallel and of both kinds of FSDP."""
import os
import sys

from harness import SOURCE, Skip, main, simulated_python
from report_torch import versions

VERSION = versions()[0]
# A simulated device computes nothing; its memory is the process's own.
os.environ.update(SIMCUDA_DEVICES="1", SIMCUDA_CTX_MB="16", SIMCUDA_MEM_MB="1024", OWNERS_NO_DATA="1", OWNERS_BACKEND="gloo")
try:
    os.environ["OWNERS_PYTHON"] = " ".join(simulated_python(VERSION))
except Skip:
    os.environ["OWNERS_PYTHON"] = ""
sys.path.insert(0, os.path.join(SOURCE, "tests", "gpu"))
import owners  # noqa: E402  the one in tests/gpu: this script is in a folder with another


def run(test):
    simulated_python(VERSION)  # skips where it is not set up
    test()


def test_inside_backward():
    run(lambda: owners.one("plain", "backward"))


def test_running():
    run(lambda: owners.running("plain", reports=6, most_unknown=25))  # of a busy machine, whose stops are short of time


def test_data_parallel():
    run(lambda: owners.two("ddp", ("loss",)))


def test_fully_sharded():
    run(lambda: owners.two("fsdp", ("loss",)))


def test_fully_sharded_first():
    run(lambda: owners.two("fsdp1", ("loss",)))


if __name__ == "__main__":
    main(globals())
