#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What pickle_values wrote, read by Python in both of its ways, and by the disassembler, which checks more."""
import io
import os
import pickle
import pickletools
import subprocess

BUILD = os.environ.get("VRAMTAP_BUILD_DIR", ".")
RAW = [b"", b"plain", b"</script>\x1b[31m\n", b"\xe2\x86\x90 \xf0\x9f\x92\xa9", b"\xff", b"a\xc0\x80z", b"\xed\xa0\x80", b"cut \xe2\x86",
       b"\xf5\x80\x80\x80"]


def signed(value):
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)


def repaired(raw):
    """Each byte that belongs to no character is one replacement."""
    text = ""
    while raw:
        for n in (4, 3, 2, 1):
            try:
                text += raw[:n].decode()
            except UnicodeDecodeError:
                continue
            raw = raw[n:]
            break
        else:
            text, raw = text + "\ufffd", raw[1:]
    return text


def main():
    data = subprocess.run([os.path.join(BUILD, "tests/unit/report/snapshot/pickle_values")], check=True,
                          stdout=subprocess.PIPE).stdout
    values = [((1 << bit) + d) % (1 << 64) for bit in range(64) for d in (-1, 0, 1)]
    want = {"numbers": [n for value in values for n in (value, signed(value), signed(-value))],
            "texts": [repaired(raw) for raw in RAW] + ["x" * n for n in (255, 256, 10000, 2 * 65536 + 1)],
            "lists": [[f"n{k % 1001}" for k in range(n)] for n in (999, 1000, 1001, 2000, 0)],
            "shared": [{}, {}, (True, False)]}
    for load in (pickle.loads, lambda data: pickle.load(io.BytesIO(data)), pickle._loads):
        got = load(data)
        assert got == want, {key: [(a, b) for a, b in zip(got[key], want[key]) if a != b][:3] for key in want}
        assert got["shared"][0] is got["shared"][1]
        assert got["lists"][0][5] is got["lists"][1][5]
    pickletools.dis(data, io.StringIO())
    unused = len(pickletools.optimize(data)) - len(data)
    print(f"{len(data)} bytes, {-unused} of them for what is kept and not used again")


if __name__ == "__main__":
    main()
