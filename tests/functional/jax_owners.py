#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Who holds JAX's arrays, with --ask-jax: the report against a program that knows it of each (tests/targets/jax_owners.py), and against
JAX's own list, on the CPU. JAX_PYTHON_VERSIONS names other releases than those marked "run" in tests/setup/jax-python-versions."""
import ast
import os
import re

import ask_jax
from harness import COMPLETE, PARTIAL, SOURCE, check, check_schema, equal, main, report, report_json

PROGRAM = os.path.join(SOURCE, "tests", "targets", "jax_owners.py")
ask_jax.PROGRAM = PROGRAM


def read(jax, *args):
    data = report_json(jax.pid, "--ask-jax", *args, expect=(COMPLETE, PARTIAL))
    check_schema(data)
    return data


def found(data):
    arrays = data["owners"].get("jax_arrays", [])
    by_object = {int(a["object"], 16): a for a in arrays}
    equal(len(by_object), len(arrays), "each array once")
    return by_object


def planted(jax):
    return {int(key): value for key, value in jax("PLANTED").items()}


def is_right(array, expected):
    name = re.sub(r":\d+\)", ")", array["name"] or "")
    got = {"name": name, "category": array["category"], "dtype": array["dtype"], "shape": list(ast.literal_eval(array["shape"])),
           "bytes": array["bytes"], "certain": array["certain"]}
    equal(got, expected, "an array")
    equal((array["host"], array["one_device"]), (True, True), f"where it is: {array}")


def test_names():
    for version in ask_jax.VERSIONS:
        with ask_jax.Jax(version) as jax:
            expected = planted(jax)
            check(len(expected) > 10, "few arrays", expected)
            for _ in range(2):
                data = read(jax)
                equal(data["owners"]["state"], "read", "owners")
                arrays = found(data)
                equal(sorted(arrays), sorted(jax("[id(a) for a in jax.live_arrays()]")), "JAX's own list")
                equal(sorted(arrays), sorted(expected), "arrays")
                for key, array in arrays.items():
                    is_right(array, expected[key])
            sizes = [a["bytes"] for a in data["owners"]["jax_arrays"]]
            equal(sizes, sorted(sizes, reverse=True), "the largest first")
            check("jax_arrays" not in read(jax, "--no-owners")["owners"], "owners were not asked for")
            data = report_json(jax.pid, expect=(COMPLETE, PARTIAL))
            equal((data["jax"], data["owners"]["state"], data["timing"]["gil_held_ms"]), (None, "off", 0), "JAX was not asked")
            jax("model.layers.clear(); gc.collect()")
            check(not any("layers" in a["name"] for a in found(read(jax)).values()), "freed arrays")


def test_text():
    for version in ask_jax.VERSIONS:
        with ask_jax.Jax(version) as jax:
            _, text, _ = report(jax.pid, "--ask-jax", "--width", "120")
            check("What holds JAX's arrays" in text, "the title", text)
            check(re.search(r"166 KiB +python +params\['dense'\] +float32 \(204, 208\), memory of the host\n", text), "a row", text)
            check(re.search(r"\n +\d+ B +\d more\n", text), "the rest", text)
            _, text, _ = report(jax.pid, "--ask-jax", "--owners", "--width", "120")
            check("hidden of a closure, kept by function" in text, "all of them", text)


def test_many():
    for version in ask_jax.VERSIONS:
        with ask_jax.Jax(version) as jax:
            jax("import numpy; many = [jax.device_put(numpy.ones(i % 7, 'f4')) for i in range(5000)]; jax.block_until_ready(many)")
            many = jax("[id(a) for a in many]")
            arrays = found(read(jax))
            for i, key in enumerate(many):
                equal((arrays[key]["name"], arrays[key]["bytes"]), (f"many[{i}]", 4 * (i % 7)), "one of many")


HOSTILE = ("0", "8", "0x414141414141", "(1 << 64) - 1", "id(params)", "id(params['dense'])", "at(place).value + 8", "1 << 47", "257")


def test_damaged():
    """Words that the report reads are overwritten while it reads: an array is right, or is left out, or what it refers to is another
    one's. JAX itself reads only what comes behind them."""
    for version in ask_jax.VERSIONS:
        with ask_jax.Jax(version) as jax:
            jax("at = lambda address: ctypes.c_uint64.from_address(address)")
            jax("target = id(model.kernel); places = [target + 24, target + 40, target + 48, target + 56, target + 64, target + 72]")
            expected = planted(jax)
            target = jax("target")
            for n, place in enumerate(jax("[p for p in places for _ in range(4)]")):
                value = HOSTILE[(n * 5) % len(HOSTILE)]
                jax(f"place = {place}; was = at(place).value; at(place).value = {value}")
                arrays = found(report_json(jax.pid, "--ask-jax", expect=(COMPLETE, PARTIAL)))
                jax("at(place).value = was")
                for key, array in arrays.items():
                    if key != target and expected[key]["name"].startswith("garbage"):
                        continue  # on a busy machine not all is read, and then nobody knows that it is garbage
                    if key != target:
                        equal(re.sub(r":\d+\)", ")", array["name"]), expected[key]["name"], "another array")
                    else:
                        check(array["bytes"] < 1 << 43, "its size", array)
            is_right(found(read(jax))[target], expected[target])


if __name__ == "__main__":
    main(globals())
