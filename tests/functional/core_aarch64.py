# SPDX-License-Identifier: Apache-2.0
"""A core of an aarch64 program, with signed return addresses, read by the program that was built here. qemu's user mode writes
it; eu-stack is the truth."""
import glob
import json
import os
import re
import resource
import shutil
import struct
import subprocess
import tempfile

from harness import PARTIAL, COMPLETE, SOURCE, Skip, check, equal, main, vramtap

CC, QEMU = "aarch64-linux-gnu-gcc", "qemu-aarch64-static"
PAC = 0x007f << 48
NT_FILE = 0x46494c45


def headers(data):
    """(its offset, type, flags, offset, address, -, bytes in the file, in memory) of each program header."""
    at, n = struct.unpack_from("<Q", data, 32)[0], struct.unpack_from("<H", data, 56)[0]
    return [(at + 56 * i, *struct.unpack_from("<IIQQQQQ", data, at + 56 * i)) for i in range(n)]


def as_the_kernel_writes(core, program):
    """qemu 7.2 writes neither NT_FILE nor the first page of a program: adds them."""
    with open(core, "rb") as file:
        data = bytearray(file.read())
    with open(program, "rb") as file:
        elf = file.read()
    ranges = [(address & ~4095, (address + size + 4095) & ~4095, (offset - (address & 4095)) // 4096)
              for _, kind, _, offset, address, _, size, _ in headers(elf) if kind == 1]
    contents = struct.pack("<QQ", len(ranges), 4096) + b"".join(struct.pack("<QQQ", *r) for r in ranges) + \
        (program.encode() + b"\0") * len(ranges)
    note = struct.pack("<III", 5, len(contents), NT_FILE) + b"CORE\0\0\0\0" + contents + bytes(-len(contents) % 4)
    for at, kind, _, offset, address, _, size, _ in headers(data):
        add = bytes(data[offset:offset + size]) + note if kind == 4 else \
            elf[:4096] if kind == 1 and address == ranges[0][0] and not size else None
        if add:
            data += bytes(-len(data) % 4096)
            struct.pack_into("<Q", data, at + 8, len(data))
            struct.pack_into("<Q", data, at + 32, len(add))
            data += add
    with open(core, "wb") as file:
        file.write(data)


def truth(core, program):
    """{tid: [pc, ...]} by eu-stack. It ends where it does not know a program's start."""
    text = subprocess.run(["eu-stack", "--core=" + core, "-e", program], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                          check=False, text=True).stdout
    stacks = {}
    for line in text.splitlines():
        if line.startswith("TID"):
            frames = stacks[int(line[4:-1])] = []
        elif line.startswith("#"):
            frames.append(int(re.match(r"#\d+ +0x([0-9a-f]+)", line)[1], 16) & ~PAC)
    return stacks


def comparable(pcs):
    """Without the frame that the signal interrupted, which is behind the trampoline, in no program: eu-stack 0.188 goes by frame
    records there, and that of a signal's frame has x30 where pc should be. (It also takes what x30 has in the innermost frame
    for a caller, even if that is left over from an earlier call: see below.)"""
    return [pc for callee, pc in zip([0, *pcs], pcs) if callee < 1 << 32]


def test_stacks():
    for tool in (CC, QEMU, "eu-stack"):
        if not shutil.which(tool):
            raise Skip(f"there is no {tool} (tests/setup/aarch64-cross.sh, or scripts/deps.sh cross)")
    with tempfile.TemporaryDirectory(prefix="vramtap-test-") as where:
        program, saved = os.path.join(where, "crash"), os.path.join(where, "saved.json")
        subprocess.run([CC, "-O2", "-g", "-static", "-mbranch-protection=standard", "-o", program,
                        os.path.join(SOURCE, "tests/targets/aarch64_crash.c"), "-lpthread"], check=True)
        subprocess.run([QEMU, program], cwd=where, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                       preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CORE, (1 << 30, 1 << 30)))
        cores = glob.glob(os.path.join(where, "qemu_*.core"))
        if not cores:
            raise Skip("qemu wrote no core")
        want = truth(cores[0], program)
        equal(len(want), 2, "eu-stack's threads")
        check(any(pc for pcs in want.values() for pc in pcs), "eu-stack found nothing")
        as_the_kernel_writes(cores[0], program)
        vramtap("stacks", "--core", cores[0], "--json", saved, expect=(COMPLETE, PARTIAL))
        with open(saved, encoding="utf-8") as file:
            threads = json.load(file)["processes"][0]["threads"]
        for thread in threads:
            pcs = [int(frame["pc"], 16) for frame in thread["stack"]["frames"] if not frame["inlined"]]
            truth_of = want[thread["tid"]]
            if truth_of[1] != pcs[1]:
                del truth_of[1]
            equal(comparable(pcs[:len(truth_of)]), comparable(truth_of), "pcs")
        names = [frame["function"] for frame in max((t["stack"]["frames"] for t in threads), key=len)]
        for name in ("leaf", "middle", "compare", "handler", "interrupted", "main", "_start"):
            check(name in names, name, names)


if __name__ == "__main__":
    main(globals())
