#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Who holds the arrays of CuPy's: the report against a program that knows it of each (tests/targets/cupy_owners.py), with CuPy's real
extension on the simulated device. CUPY_VERSIONS names other releases than those marked "run" in tests/setup/cupy-versions."""
import ast
import json
import os
import re

from core import gcore
from cupy_pools import ANY, VERSIONS, has_table
from harness import CACHE, QUICK, SETUP, SOURCE, Job, Skip, check, check_schema, equal, main, report, report_json, vramtap
from report_torch import versions

PROGRAM = os.path.join(SOURCE, "tests", "targets", "cupy_owners.py")


class CuPy(Job):
    def __init__(self, version, *args, **env):
        if not os.path.exists(os.path.join(CACHE, "cupy", version, ".done-smoke")):
            raise Skip(f"CuPy {version} is not set up: sh tests/setup/cupy.sh {version}")
        super().__init__(["sh", os.path.join(SETUP, "run-cupy.sh"), version, "-B", PROGRAM, *args], ready="ready",
                         env=dict(os.environ, **{"SIMCUDA_DEVICES": "2", "SIMCUDA_MEM_MB": "4096", **env}))

    def __call__(self, line):
        return json.loads(self.ask(line))

    def planted(self):
        return {int(address): expected for address, expected in self("PLANTED").items()}


def read(cupy, *args):
    data = report_json(cupy.pid, *args, expect=ANY)
    check_schema(data)
    return data


def read_in_one_stop(cupy):
    """On a busy machine it may take longer than the process may be stopped: then the rest is read while it runs, and nothing is sure."""
    for _ in range(20):
        data = read(cupy)
        if not data["owners"]["ran"]:
            return data
    raise AssertionError("not once in 20 reports was the stop long enough")


def found(data):
    """By address; each once."""
    arrays = data["owners"].get("arrays", [])
    by_address = {int(a["address"], 16): a for a in arrays}
    equal(len(by_address), len(arrays), "each block once")
    return by_address


def without_lines(name):
    return re.sub(r":\d+\)", ")", name) if name else name


def is_right(array, expected, certain=True):
    owner = array["owner"]
    what = f"{expected['name']}: {array}"
    equal(array["bytes"], expected["bytes"], "bytes of " + what)
    equal(array["library"], "cupy", "library of " + what)
    equal(without_lines(owner["name"]), expected["name"], "name of " + what)
    equal(owner["category"], expected["category"], "category of " + what)
    equal(owner["tensors"], expected["arrays"], "arrays of " + what)
    shape = ast.literal_eval(owner["shape"]) if owner["shape"] else None
    equal(list(shape) if shape is not None else None, expected["shape"], "shape of " + what)
    equal(owner["dtype"], expected["dtype"], "dtype of " + what)
    if certain:
        equal(owner["certain"], expected["certain"], "certainty of " + what)


def all_are_right(data, planted, certain=True):
    """Every block that the pool has in use, and every array."""
    arrays = found(data)
    equal(sorted(arrays), sorted(planted), "blocks")
    for address, expected in planted.items():
        is_right(arrays[address], expected, certain)
    pools = [p for p in data["libpools"]["pools"] if p["library"] == "cupy"]
    for pool in pools:
        equal(pool["state"], "exact", "state of the pool")
        for chunk in pool["chunks"]:
            mine = arrays.get(int(chunk["address"], 16))
            equal(chunk["owner"], mine and mine["owner"]["name"], "the chunk's owner")
            equal(chunk["in_use"], mine is not None, "a chunk in use")
            if mine:
                equal((mine["pool"], mine["bytes"]), (pool["object"], chunk["bytes"]), "the array's chunk")
    library, = data["owners"]["libraries"]
    equal((library["library"], library["blocks"], library["bytes"]), ("cupy", len(planted), sum(e["bytes"] for e in planted.values())), "sums")
    equal(sum(c["bytes"] for c in library["categories"]), library["bytes"], "the categories' sum")


# ---- what is right ----

def test_names():
    for version in VERSIONS:
        with CuPy(version) as cupy:
            planted = cupy.planted()
            check(len(planted) > 20, "few arrays", planted)
            data = read(cupy)
            equal(data["owners"]["state"], "read", "owners of a process without PyTorch")
            all_are_right(data, planted)
            all_are_right(read(cupy, "--read-only"), planted)
            all_are_right(read(cupy, "--no-stop"), planted)
            found_in = {h["code"] for h in data["headlines"]}
            check("garbage" not in found_in, "96 KiB are not told", data["headlines"])
            equal(read(cupy, "--no-owners")["owners"], {"state": "off"}, "not asked for")


def test_core():
    with CuPy(VERSIONS[-1], SIMCUDA_MEM_MB="256", SIMCUDA_DEVICES="1", SIMCUDA_CTX_MB="16") as cupy:
        planted = cupy.planted()
        with gcore(cupy.pid) as core:
            _, out, _ = vramtap("report", "--json", "-", f"--core={core}", expect=ANY, timeout=120)
            all_are_right(json.loads(out), planted)


def test_other_holders():
    for version in VERSIONS:
        with CuPy(version) as cupy:
            arrays = found(read(cupy))
            by_name = {a["owner"]["name"]: a["owner"] for a in arrays.values()}
            equal(by_name["twice"]["holders"], ["also[0]"], "the other place")
            equal(sorted(by_name["base"]["holders"]), ["flipped", "view"], "its views")
            frees = by_name["big"]["frees"]
            equal((frees["name"], frees["bytes"]), ("big", 0), "the borrower holds it, too")
            frees = by_name["holder.weights"]["frees"]
            equal((frees["name"], frees["bytes"], frees["blocks"]), ("holder.weights", 16384, 1), "what would be freed")


def test_freed_is_what_is_said():
    """Variables are let go of one by one: CuPy's pool has as much less in use."""
    for version in VERSIONS:
        with CuPy(version) as cupy:
            for name in ("holder", "nested", "only_view", "running", "partial", "error", "wide"):
                frees = {f["name"]: f for f in read(cupy)["owners"]["frees"]}
                before = cupy("cupy.get_default_memory_pool().used_bytes()")
                cupy(f"{name} = None")
                freed = before - cupy("cupy.get_default_memory_pool().used_bytes()")
                if name == "wide":
                    equal((name in frees, freed), (False, 0), "its view holds it")
                else:
                    equal((frees[name]["bytes"], frees[name]["certain"]), (freed, True), name)


def test_text():
    for version in VERSIONS:
        with CuPy(version) as cupy:
            _, text, _ = report(cupy.pid, "--owners", "--width", "150", expect=ANY)
            check("What the blocks of CuPy in use are" in text, "the title", text)
            check(re.search(r"16\.0 KiB +python +holder\.weights +float64 \(2, 1002\) +CuPy\n", text), "a row", text)
            check(re.search(r"79\.5 KiB +4 +31\.5 KiB +CuPy +held by holder\n", text), "a row of the blocks", text)
            _, text, _ = report(cupy.pid, "--owner", "holder.parts", "--width", "150", expect=ANY)
            check("Owners that match: 3 blocks, 63.5 KiB" in text and "by 1 array" in text and "a pool of CuPy" in text, "details", text)
            _, text, _ = report(cupy.pid, "--owner", "holder.wights", "--width", "150", expect=ANY)
            check("there is" in text and "holder.weights" in text, "near names", text)
            _, text, _ = report(cupy.pid, "--by", "variable", "--width", "150", expect=ANY)
            check(re.search(r"79\.5 KiB +\d+ % +4 +holder +largest: holder\.parts\['a'\]\[1\]\n", text), "by variable", text)


# ---- with PyTorch ----

MIXED = """
import torch
x = torch.zeros(1000, device="cuda")
c = cupy.ndarray((1000, 3), dtype="f4")
only = cupy.from_dlpack(torch.zeros(2000, device="cuda"))
lent = cupy.asarray(torch.zeros(3000, device="cuda"))
t = torch.from_dlpack(cupy.ndarray((7777,), dtype="f4"))
both = torch.from_dlpack(c)
"""


class Both(CuPy):
    """PyTorch in the same process. Its stubs of CUDA's libraries have more than CuPy's, and come first."""

    def __init__(self, version):
        def python(library, of):
            return os.path.realpath(os.path.join(CACHE, library, of, "python"))

        fit = [v for v in versions() if os.path.exists(python("torch", v)) and python("torch", v) == python("cupy", version)]
        if not fit:
            raise Skip(f"no PyTorch for the interpreter of CuPy {version}")
        torch, cupy = os.path.join(CACHE, "torch", fit[0]), os.path.join(CACHE, "cupy", version)
        env = {"PYTHONPATH": f"{cupy}/site:{torch}/site", "LD_LIBRARY_PATH": f"{CACHE}/simcuda:{torch}/stubs:{cupy}/stubs",
               "CUPY_TEST_RUNTIME": f"{CACHE}/simcuda/libcudart.so.12", "SIMCUDA_DEVICES": "1", "PYTHONWARNINGS": "ignore"}
        Job.__init__(self, [python("cupy", version), "-B", PROGRAM, "bare"], ready="ready", env=dict(os.environ, **env))


def test_with_pytorch():
    """Each library's blocks are its own, whoever shows them."""
    for version in VERSIONS:
        with Both(version) as cupy:
            for line in MIXED.strip().split("\n"):
                cupy(line)
            data = read(cupy)
            arrays = {a["owner"]["name"]: a for a in data["owners"]["arrays"]}
            equal(sorted(arrays), ["c", "t"], "CuPy's")
            for name, array in arrays.items():
                equal((array["owner"]["storage_bytes"], array["owner"]["tensors"]), (array["bytes"], 2), f"{name} is counted once")
                equal(array["owner"]["certain"], False, f"C code of DLPack holds {name}, too")
            blocks = {b["owner"]["name"]: b["owner"] for a in data["pytorch"]["allocators"] for s in a["segments"] for b in s["blocks"]
                      if "owner" in b}
            equal(sorted(blocks), ["lent.data.mem.owner", "only", "x"], "PyTorch's")
            equal({name: owner["certain"] for name, owner in blocks.items()}, {"lent.data.mem.owner": True, "only": False, "x": True}, "certain")
            equal((blocks["only"]["category"], blocks["only"]["storages"]), ("python", 1), "held through DLPack")
            in_use = sum(a["totals"]["allocated"]["bytes"] for a in data["pytorch"]["allocators"])
            equal(sum(c["bytes"] for c in data["owners"]["categories"]), in_use, "PyTorch's categories are of its own blocks")


# ---- what cannot be known ----

def test_nobody():
    """Memory that only C code holds, and memory that no array is in."""
    for version in VERSIONS:
        with CuPy(version) as cupy:
            cupy("import ctypes; lost = cupy.ndarray((3, 100000), dtype='f4'); ctypes.pythonapi.Py_IncRef(ctypes.py_object(lost))")
            address = cupy("lost.data.mem.ptr")
            cupy("lost = None")
            owner = found(read_in_one_stop(cupy))[address]["owner"]
            equal((owner["category"], owner["unowned"], owner["name"], owner["certain"]),
                  ("native", "unexplained", "native code's ndarray", False), "held by C alone")
            cupy("import ctypes; hidden = cupy.cuda.alloc(7 << 20).mem; where = hidden.ptr")
            cupy("ctypes.pythonapi.Py_IncRef(ctypes.py_object(hidden))")
            cupy("hidden = None")
            arrays = found(read_in_one_stop(cupy))
            if has_table(version):
                owner = arrays[cupy("where")]["owner"]
                equal((owner["category"], owner["name"], owner["unowned"]), ("unknown", None, "no-tensor"), "no array, no pointer")
            else:  # no list has that chunk
                check(cupy("where") not in arrays, "an owner of nothing", arrays)


def test_bare():
    """CuPy without an array."""
    for version in VERSIONS:
        with CuPy(version, "bare") as cupy:
            data = read(cupy)
            equal((data["owners"]["state"], data["owners"]["arrays"], data["owners"]["libraries"]), ("read", [], []), "nothing")


def test_freed_by_hand():
    """An array whose memory went back to the pool beneath it shows nothing, also if it is another one's now."""
    for version in VERSIONS:
        with CuPy(version, "bare") as cupy:
            cupy("stale = cupy.ndarray((1000, 1000), dtype='f4'); address = stale.data.mem.ptr; stale.data.mem.free()")
            equal(found(read(cupy)), {}, "freed")
            cupy("fresh = cupy.ndarray((1000, 1000), dtype='f4')")
            equal(cupy("address"), cupy("fresh.data.mem.ptr"), "the same memory")
            array, = found(read(cupy)).values()
            equal((array["owner"]["name"], array["owner"]["tensors"]), ("fresh", 1), "of the one that has it")


# ---- damage ----

PLACES = """
import ctypes
at = lambda address: ctypes.c_uint64.from_address(address)
objects = {id(holder.weights): 128, id(holder.weights.data): 48, id(holder.weights.data.mem): 72}
objects[at(id(holder.weights) + 40).value] = 16
"""
HOSTILE = ("0", "8", "0x414141414141", "(1 << 64) - 1", "id(holder.weights)", "id(big)", "id(big.data)", "big.data.mem.ptr", "big.data.ptr + 8",
           "id(big.data.mem)", "1 << 47", "at({place}).value + 8", "at({place}).value + 512")


def test_damaged():
    """Words of an array, its pointer, its memory and its shape overwritten: never a crash, and no other array gets another owner."""
    for version in VERSIONS[-1:] if QUICK else VERSIONS:  # each is a report for each word
        with CuPy(version) as cupy:
            for line in PLACES.strip().split("\n"):
                cupy(line)
            planted = cupy.planted()
            mine, big = cupy("holder.weights.data.mem.ptr"), cupy("big.data.mem.ptr")
            n = 0
            for start, size in cupy("[[k, v] for k, v in objects.items()]"):
                shape = size == 16
                for place in range(start + (0 if shape else 16), start + size, 8):
                    for value in (HOSTILE[n % len(HOSTILE)], HOSTILE[(n + 5) % len(HOSTILE)]):
                        cupy(f"was = at({place}).value; at({place}).value = {value.format(place=place)}")
                        data = read(cupy, "--read-only")
                        cupy(f"at({place}).value = was")
                        n += 1
                        for address, array in found(data).items():
                            what = f"{place - start:#x} of {start:#x}, {value}: {array}"
                            if address == mine:
                                check((array["owner"]["name"] or "native code's").split(".data")[0] == "holder.weights" or not array["owner"]["certain"],
                                      "the damaged one", what)
                            elif address in planted and address != big:
                                equal(without_lines(array["owner"]["name"]), planted[address]["name"], what)
                            elif address == big:
                                check(array["owner"]["name"] in ("big", "holder.weights.data"), "the one that is pointed to", what)
            check(n > 50, "too few places", n)
            all_are_right(read(cupy), planted)


def test_while_it_runs():
    """Arrays come and go: each name is one that such an array has had."""
    for version in VERSIONS:
        with CuPy(version, "bare") as cupy:
            cupy("import threading, random")
            cupy("still = [cupy.ndarray((1000 + i,), dtype='f4') for i in range(100)]; moving = {}")
            cupy("busy = lambda: [moving.__setitem__(random.randrange(50), cupy.ndarray((random.randrange(50, 60), 7000), dtype='f8')) "
                 "for _ in iter(int, 1)]")
            still = {int(a): i for a, i in cupy("{a.data.mem.ptr: i for i, a in enumerate(still)}").items()}
            cupy("threading.Thread(target=busy, daemon=True).start()")
            for i in range(6):
                arrays = found(read(cupy, *(("--read-only",) if i % 2 else ())))
                for address, array in arrays.items():
                    name, shape = array["owner"]["name"], array["owner"].get("shape")
                    if address in still:
                        equal((name, shape), (f"still[{still[address]}]", f"({1000 + still[address]},)"), "one that stays")
                        # Also where the pool was never still: its own memory begins where a chunk does, and is none of it.
                        equal((array["owner"]["storage_bytes"], array["owner"].get("storages", 1)), (array["bytes"], 1), "counted once")
                    elif name:
                        check(re.match(r"moving\[\d+\]|native code|a temporary|garbage|<|\[", name), "one that moves", array)
                        check(shape is None or re.fullmatch(r"\(5\d, 7000\)", shape), "its shape", array)
                check(not still.keys() - arrays.keys(), "arrays that stay are there", arrays)


if __name__ == "__main__":
    main(globals())
