#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes src/walk/torch/layouts.h, the table of known PyTorch releases, or checks it.

    gen-torch-layouts.py BUILD [--source RELEASE=DIRECTORY]... > src/walk/torch/layouts.h
    gen-torch-layouts.py BUILD --check

BUILD is a build tree with vramtap and tests/functional/torch_walk; the wheels that tests/setup brought into the cache are used. Of
each release, three witnesses must agree:

found   The library of the official wheel at work on the simulated device, in a state that tells all fields apart
        (tests/functional/torch_layouts.py), and vramtap's discovery without any table; what it then reads must be the library's
        own snapshot, block for block.
code    The machine code of that library: the constructor of a Block, inlined behind "operator new", stores something of its
        width at the offset of each field, and makes an object of that size. (It does not tell two words side by side apart, which
        the blocks themselves do.)
source  With --source: c10/cuda/CUDACachingAllocator.cpp out of the source tree of exactly that release (Debian's source package
        of 2.6.0 has it; the wheel's version.py names the commit), compiled with the headers of the wheel and of its CUDA, with
        debug information, once for each ABI of std::string; the debugger says where the fields are. Needs g++ and gdb.

A row says "source" where all three spoke and "library" where there was no source.
"""
import argparse
import json
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
sys.path.insert(0, os.path.join(ROOT, "tests", "functional"))

# The members of struct vt_torch_layout, by "class.name" as vramtap layouts says it.
with open(os.path.join(ROOT, "src", "walk", "torch.h"), encoding="ascii") as header:
    MEMBERS = {f"{m[0]}.{m[1]}": m[2] for m in re.findall(r'F\(\w+, "(\w+)", "([^"]+)", ([a-z_.]+)\)', header.read())}

HALF = 0x3F000000  # the load factor of stream_uses, which no other object stores at that distance


def fail(text):
    sys.exit(f"{os.path.basename(sys.argv[0])}: {text}")


# ---- code ----

def number(text):
    return int(text, 16) if text else 0


class Constructor:
    """The stores into one object, from its "operator new" on along the straight line of the code."""

    WIDTH = {"b": 1, "w": 2, "l": 4, "q": 8}
    REGISTERS = {"al": 1, "bl": 1, "cl": 1, "dl": 1, "sil": 1, "dil": 1, "bpl": 1}
    CALL = re.compile(r"call .*_Znwm")
    STORE = re.compile(r"(mov\w*) +(\S+),(-?0x[0-9a-f]+)?\((%\w+)\)$")

    def __init__(self, lines):
        self.stores = {}    # {offset: {widths}}
        self.values = {}    # {offset: {immediates}}
        known = {}          # of registers that hold a constant: it
        holders = {"%rax"}  # of the object's address
        for line in lines:
            text = line.split("\t", 1)[-1].strip()
            store = self.STORE.match(text)
            if store and store[4] in holders:
                self.add(store[1], store[2], number(store[3]), known)
            elif text.startswith(("ret", "jmp")):
                break
            self.follow(text, holders, known)
            if not holders:
                break

    def width(self, mnemonic, value):
        if mnemonic in ("movups", "movaps", "movdqu", "movdqa"):
            return 16
        if value.startswith("$"):
            return self.WIDTH.get(mnemonic[-1], 0)
        register = value.lstrip("%")
        if mnemonic in ("movq", "movhps", "movlps"):
            return 8
        if register in self.REGISTERS or re.fullmatch(r"r\d+b", register):
            return 1
        if re.fullmatch(r"[abcd]x|[sd]i|bp|r\d+w", register):
            return 2
        return 4 if re.fullmatch(r"e\w\w|r\d+d", register) else 8

    def add(self, mnemonic, value, offset, known):
        self.stores.setdefault(offset, set()).add(self.width(mnemonic, value))
        constant = number(value[1:]) if value.startswith("$") else known.get(value[-2:])
        if constant is not None:
            self.values.setdefault(offset, set()).add(constant)

    def follow(self, text, holders, known):
        """Which registers hold the object, or a constant, after the instruction."""
        move = re.match(r"mov +(%\w+),(%\w+)$", text)
        constant = re.match(r"mov(?:abs)? +\$(0x[0-9a-f]+),(%\w+)$", text)
        target = re.match(r"\w+ +.*?,?(%\w+)$", text)
        if self.CALL.match(text):
            holders.discard("%rax")
            known.clear()
        elif text.startswith("call"):
            for register in ("%rax", "%rcx", "%rdx", "%rsi", "%rdi", "%r8", "%r9", "%r10", "%r11"):
                holders.discard(register)
            known.clear()
        elif move:
            (holders.add if move[1] in holders else holders.discard)(move[2])
        elif constant:
            known[constant[2][-2:]] = number(constant[1])
            holders.discard("%r" + constant[2][-2:])
        elif target:
            known.pop(target[1][-2:], None)
            holders.discard(target[1])
            holders.discard("%r" + target[1][-2:])


def constructors(library):
    """[(size, Constructor)] of all objects made by operator new."""
    done = subprocess.run(["objdump", "-d", "--no-show-raw-insn", library], stdout=subprocess.PIPE, check=True, text=True)
    lines = done.stdout.splitlines()
    made = []
    for i, line in enumerate(lines):
        if not Constructor.CALL.search(line):
            continue
        size = next((s for s in (re.search(r"mov +\$(0x[0-9a-f]+),%edi", before) for before in reversed(lines[max(i - 6, 0):i]))
                     if s), None)
        if size:
            made.append((number(size[1]), Constructor(lines[i + 1:i + 90])))
    return made


# The fields of a Block, with their widths; PyTorch's constructor stores each, alone or with its neighbour of the same kind.
BLOCK_WIDTHS = {"device": (1, 4), "stream": (8, 16), "stream_uses": (8, 16), "size": (8, 16), "requested_size": (8, 16),
                "pool": (8, 16), "ptr": (8, 16), "allocated": (1, 2), "prev": (8, 16), "next": (8, 16), "event_count": (4, 8),
                "context_when_allocated": (8, 16), "expandable_segment_": (8, 16)}


def stored(constructor, offset, widths):
    """Whether the field at offset is stored by itself, or as the second half of a store of 16 bytes."""
    return bool(constructor.stores.get(offset, set()) & set(widths)) or \
        (8 in widths and 16 in constructor.stores.get(offset - 8, set()))


def check_code(library, offsets):
    """Finds the constructor of a Block and returns (sizeof, how many fields it confirms); fails when it stores something else."""
    uses = offsets["Block.stream_uses"]
    blocks = [(size, c) for size, c in constructors(library)
              if any(HALF in c.values.get(at, set()) for at in (uses + 20, uses + 16)) and
              offsets["Block.sizeof"] - 16 < size <= offsets["Block.sizeof"]]
    if not blocks:
        fail(f"{library}: no constructor of a Block is found in the code")
    sizes = {size for size, _ in blocks}
    if len(sizes) != 1:
        fail(f"{library}: Blocks of several sizes are made: {sizes}")
    confirmed = {}
    for name, widths in BLOCK_WIDTHS.items():
        offset = offsets[f"Block.{name}"]
        if offset is not None:
            confirmed[name] = any(stored(c, offset, widths) for _, c in blocks)
    # allocated = false and mapped = true, side by side, are one store
    if offsets["Block.mapped"] is not None:
        confirmed["mapped"] = any(0x100 in c.values.get(offsets["Block.allocated"], set()) for _, c in blocks)
    return sizes.pop(), confirmed


# ---- source ----

GDB = """
import gdb, json
SPACES = ["c10::cuda::CUDACachingAllocator::Native::(anonymous namespace)::", "c10::cuda::CUDACachingAllocator::Native::",
          "c10::cuda::CUDACachingAllocator::(anonymous namespace)::", "c10::cuda::CUDACachingAllocator::",
          "c10::CachingDeviceAllocator::", "c10::(anonymous namespace)::", ""]
def lookup(name):
    for space in SPACES:
        try:
            return gdb.lookup_type(space + name)
        except gdb.error:
            pass
    raise gdb.error("no type " + name)
def at(type_name, *members):
    for field in lookup(type_name).fields():
        if field.name in members:
            return field.bitpos // 8
    return None
def sets():
    return [f.name for f in lookup("BlockPool").fields() if f.name in ("blocks", "unmapped", "blocks_by_addr")]
stats = lookup("DeviceStats")
answer = {
    "NativeCachingAllocator.device_allocator": at("NativeCachingAllocator", "device_allocator"),
    "BlockPool.number of sets": len(sets()),
    "BlockPool.is_small": at("BlockPool", "is_small"),
    "BlockPool.owner_PrivatePool": at("BlockPool", "owner_PrivatePool"),
    "BlockPool.sizeof": lookup("BlockPool").sizeof,
    "PrivatePool.large_blocks": at("PrivatePool", "large_blocks"),
    "DeviceStats.bytes behind reserved_bytes": at("DeviceStats", "active_bytes") - at("DeviceStats", "reserved_bytes") - 96,
    "Block.sizeof": lookup("Block").sizeof,
}
for name in "mutex stats large_blocks small_blocks active_blocks graph_pools".split():
    answer["DeviceCachingAllocator." + name] = at("DeviceCachingAllocator", name)
for name in ("device stream stream_uses size requested_size pool ptr allocated mapped prev next event_count "
             "context_when_allocated expandable_segment_").split():
    answer["Block." + name] = at("Block", name)
print("ANSWER" + json.dumps(answer))
"""


def read_source(directory, wheel, abi):
    """{field: offset} out of the debug information of the allocator, compiled as the wheel was."""
    torch, cuda = os.path.join(wheel, "torch", "include"), os.path.join(wheel, "cuda-include")
    with tempfile.TemporaryDirectory(prefix="vramtap-layouts-") as scratch:
        program, script = os.path.join(scratch, "allocator.o"), os.path.join(scratch, "read.py")
        with open(script, "w", encoding="ascii") as file:
            file.write(GDB)
        subprocess.run([os.environ.get("CXX", "g++"), "-std=c++17", "-g", "-O0", "-w", "-c", f"-D_GLIBCXX_USE_CXX11_ABI={abi}",
                        "-I", directory, "-isystem", torch, "-isystem", cuda, "-o", program,
                        os.path.join(directory, "c10", "cuda", "CUDACachingAllocator.cpp")], check=True)
        out = subprocess.run(["gdb", "-nx", "-batch", "-x", script, program], stdout=subprocess.PIPE, check=True, text=True).stdout
    answer = re.search(r"^ANSWER(.*)$", out, re.M)
    if not answer:
        fail(f"the debugger does not find the types in {directory}: {out[-300:]}")
    return json.loads(answer[1])


def check_source(directory, wheel, version, offsets):
    for abi in (0, 1):
        theirs = read_source(directory, wheel, abi)
        wrong = {name: (offsets[name], value) for name, value in theirs.items() if offsets[name] != value}
        if wrong:
            fail(f"{version}: the source (ABI {abi}) differs, found and source: {wrong}")


# ---- rows ----

def member(name, value):
    # offsetof() of what is not there
    return f".{MEMBERS[name].split('.')[-1]} = {'VT_TORCH_NO_FIELD' if value is None else value}"


def lines_of(members, tabs):
    """Members, as many as fit a line."""
    lines, line = [], ""
    for text in members:
        if line and len(line) + len(text) > 96 - 8 * tabs:
            lines.append(line)
            line = ""
        line += text + ", "
    return "".join("\t" * tabs + text.rstrip() + "\n" for text in lines + [line])


def print_row(row):
    block = [member(n, v) for n, v in row["offsets"].items() if n.startswith("Block.")]
    rest = [member(n, v) for n, v in row["offsets"].items() if not n.startswith("Block.")]
    print(f'\t{{\n\t\t.release = "{row["release"]}", .wheel = "{row["wheel"]}", .cuda = {row["cuda"]}, '
          f'.origin = {"VT_ROW_SOURCE" if row["source"] else "VT_ROW_LIBRARY"},\n'
          f'\t\t.build_id = "{row["build_id"]}",\n'
          f'\t\t.has_device_prop = {"true" if row["has_device_prop"] else "false"},\n\t\t.layout = {{\n'
          f'{lines_of(rest, 3)}\t\t\t.block = {{\n{lines_of(block, 4)}\t\t\t}},\n\t\t}},\n\t}},')


HEAD = """/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GENERATED by scripts/gen-torch-layouts.py from the libraries of the official wheels named below, and from source where it
 * says so (x86-64, libstdc++); do not edit, run it again.
 */

static const struct vt_torch_row vt_torch_table[] = {"""


def make_row(tests, version, sources):
    release = tests.release_of(version)
    with tests.Library(version) as driver:
        found = tests.learn(driver)
        tests.compare(driver, "--hide-layout=all", "--read-only", expect=(0, 1), method="outside")
    offsets, how = tests.offsets_of(found), tests.how_of(found)
    weak = {name: h for name, h in how.items() if h not in ("signature", "none")}
    if weak:
        fail(f"{version}: not told by signature: {weak}")
    size, confirmed = check_code(found["library"], offsets)
    offsets["Block.sizeof"] = size
    cuda = int(re.search(r"\+cu(\d+)\d$", found["pytorch"])[1])
    if release in sources:
        check_source(sources[release], os.path.join(tests.CACHE, "torch-lib", version), version, offsets)
    doubt = [name for name, good in confirmed.items() if not good]
    print(f"{found['pytorch']}: {sum(h == 'signature' for h in how.values())} fields found by signature, the code confirms "
          f"{len(confirmed) - len(doubt)} of {len(confirmed)} in the constructor of a Block of {size} bytes"
          f"{' (not ' + ', '.join(doubt) + ')' if doubt else ''}"
          f"{', source equal with both ABIs' if release in sources else ''}", file=sys.stderr)
    if len(doubt) > 2:
        fail(f"{version}: the code does not confirm what was found")
    return {"release": release, "wheel": found["pytorch"], "build_id": found["build_id"] or "", "cuda": cuda,
            "source": release in sources, "offsets": offsets,
            "has_device_prop": offsets["DeviceCachingAllocator.graph_pools"] -
            offsets["DeviceCachingAllocator.active_blocks"] > 1000}


def check_row(row, known, sources):
    """The row against the one that the program has."""
    if not known:
        fail(f"the table has no {row['release']}")
    for key in ("wheel", "build_id", "cuda", "offsets", "has_device_prop"):
        if row[key] != known[key]:
            fail(f"{row['release']}: {key} is {row[key]}, the table has {known[key]}")
    if sources and row["source"] != (known["origin"] == "source"):
        fail(f"{row['release']}: the origin is another one")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("--source", action="append", default=[], metavar="RELEASE=DIRECTORY")
    parser.add_argument("--check", action="store_true", help="compare with the table that vramtap has")
    args = parser.parse_args()
    os.environ["VRAMTAP_BUILD_DIR"] = os.path.abspath(args.build)
    # It looks for the build tree when it is imported.
    import torch_layouts as tests  # pylint: disable=import-outside-toplevel
    sources = dict(word.split("=", 1) for word in args.source)
    rows = [make_row(tests, version, sources) for version in tests.listed()]
    if args.check:
        known = tests.table()
        for row in rows:
            check_row(row, known.get(row["release"]), sources)
        print(f"the table is right: {len(rows)} releases", file=sys.stderr)
        return
    print(HEAD)
    for row in rows:
        print_row(row)
    print("};")


if __name__ == "__main__":
    main()
