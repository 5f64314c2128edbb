# SPDX-License-Identifier: Apache-2.0
"""pyprog_locals.py TRUTH: functions with local variables of many kinds, parked; what a reader should say about them is written
to TRUTH, one "THREAD FUNCTION NAME=TEXT" a line, then "ready TID" (of the thread that does not count) is printed.

show() here and walk/python/value.c are two implementations of the same rules; where they can, values are repr() of Python.
"""
import collections
import enum
import itertools
import os
import struct
import sys
import threading

expected = []
lock = threading.Lock()
gate = threading.Lock()
gate.acquire()
parked = threading.Semaphore(0)
PLAIN = (int, bool, float, str, bytes, tuple, list, dict, set, type(None), type(...))


def text_of(value, limit):
    if len(value) <= limit:
        return repr(value)
    quoted = repr(value[:limit])
    return "%s…%s (%d %s)" % (quoted[:-1], quoted[-1], len(value), "characters" if isinstance(value, str) else "bytes")


def number(value):
    if value.bit_length() > 240:
        return "<%sint of %d bits>" % ("negative " if value < 0 else "", value.bit_length())
    return int.__repr__(value)


def items(value, count, write):
    shown = [write(item) for item in itertools.islice(value, 4)]
    if count > len(shown):
        shown.append("… %d more" % (count - len(shown)))
    return ", ".join(shown)


def base_text(value, inside):
    """As the built-in type that value is, or derives from, would be shown."""
    if value is None or value is ... or isinstance(value, bool):
        return repr(value)
    if isinstance(value, int):
        return number(value)
    if isinstance(value, float):
        return "nan" if value != value else float.__repr__(value)
    if isinstance(value, (str, bytes)):
        return text_of(str(value) if isinstance(value, str) else bytes(value), 20 if inside else 60)
    if isinstance(value, (tuple, list, dict, set, frozenset)):
        if isinstance(value, dict):
            inner = items(value.items(), len(value), lambda pair: show(pair[0], True) + ": " + show(pair[1], True))
        else:
            inner = items(value, len(value), lambda item: show(item, True))
        if isinstance(value, (set, frozenset)) and not value:
            return "set()"
        if isinstance(value, tuple):
            return "(%s%s)" % (inner, "," if len(value) == 1 else "")
        return ("[%s]" if isinstance(value, list) else "{%s}") % inner
    return None


def show(value, inside=False):
    kind = type(value).__name__
    if isinstance(value, type):
        return "<class %s>" % value.__name__
    if isinstance(value, BaseException):
        return "<%s>" % kind if inside else "<%s%s>" % (kind, base_text(value.args, False))
    if inside and isinstance(value, (tuple, list, dict, set, frozenset)):
        return "<%s of %d>" % (kind, len(value))
    text = base_text(value, inside)
    if text is None:
        return "<%s>" % kind
    return text if type(value) in PLAIN else "<%s %s>" % (kind, text)


def park(function, names):
    """Notes what the caller's variables should look like, in the order in which functions have them, and sleeps for good."""
    with lock:
        for name, value in names.items():
            expected.append((threading.get_native_id(), function, name, show(value)))
    parked.release()
    gate.acquire()


class Color(enum.IntEnum):
    RED = 1
    BIG = 1 << 100


class Name(str):
    pass


class Length(float):
    pass


class Many(list):
    pass


class Table(dict):
    pass


class list_(object):
    pass


list_.__name__ = "list"  # a class of the program with a well-known name
Point = collections.namedtuple("Point", "x y")


class Slots:
    __slots__ = ("a",)

    def __len__(self):
        raise RuntimeError("code of the program runs")

    __repr__ = __eq__ = __hash__ = __bool__ = __getattr__ = __len__


def numbers(zero=0, one=1, minus=-1):
    digit, two_digits, three = (1 << 30) - 1, 1 << 30, -(1 << 60)
    decimal64, negative64, most, too_long = int("9" * 64), -int("1234567890" * 6), (1 << 240) - 1, 1 << 240
    much_too_long = -(7 ** 20000)
    yes, no, nothing, dots = True, False, None, ...
    enumerated, enumerated_big = Color.RED, Color.BIG
    park("numbers", locals())


def floats():
    a, b, c, d, e = 0.0, -0.0, 1.0, 0.1, 1 / 3
    f, g, h, i = 1e16, 1e15, 123456789012345680.0, 9007199254740993.0
    j, k, m, n = 1e-4, 1e-5, 5e-324, sys.float_info.max
    o, p, q = float("inf"), float("-inf"), float("nan")
    r, s, t, u = 1e22, 1e23, 2.5e15, 1234567890123456.8
    x, y, z = 37609587960547416.0, -10821962262051714.0, 99999999999999984.0
    v, w = struct.unpack("<2d", b"\x01" * 16)
    own = Length(2.5)
    park("floats", locals())


def strings():
    empty, plain, quoted, both = "", "abc", "it's", "'\""
    control, nul, backslash = "a\n\t\r\x1b\x7f", "\x00x\x00", "\\n"
    latin, wide, astral, mixed = "größe", "日本語", "🐍", "aé日🐍" * 3
    c1, surrogate = "\x80\x9f", os.fsdecode(b"\xff\xfe")
    surrogates, like_utf8 = "\ud7a3\ud800\udbff\udfff", "\udcc3\udca9"
    sixty, more, long_wide = "x" * 60, "y" * 61, "語" * 5000
    own = Name("derived")
    raw, raw_long, raw_quote = bytes(range(0, 256, 7)), b"z" * 1000, b"it's"
    nothing = b""
    park("strings", locals())


def containers():
    empty_list, empty_tuple, empty_dict, empty_set = [], (), {}, set()
    one, two, four, many = (1,), (1, 2), [1, 2, 3, 4], list(range(100))
    nested = [[1], (2,), {3: 4}, {5}]
    strings_inside = ["a" * 20, "b" * 21, b"c" * 30]
    mapping, mixed_keys = {"a": 1, "b": None}, {1: "x", "two": 2.0, (3,): []}
    large = {i: -i for i in range(300)}
    huge = {str(i): i for i in range(70000)}
    deleted = {i: i for i in range(10)}
    for i in range(8):
        del deleted[i]
    del i
    frozen, single = frozenset(["only"]), {7}
    point, own_list, own_dict, ordered = Point(1, "y"), Many([1]), Table(k=1), collections.OrderedDict(z=1)
    park("containers", locals())


def shared_keys():
    """The attributes of instances of one class share their keys (split tables)."""
    class Plain:
        def __init__(self):
            self.first, self.second = 1, "two"

    keep = [Plain() for _ in range(3)]
    attributes = keep[1].__dict__
    park("shared_keys", locals())


def others():
    function, method, module, instance, plain, fake = others, [].append, os, Slots(), object(), list_()
    cls, meta, builtin, error = Color, type, int, ValueError("first", 2)
    try:
        raise KeyError("in flight")
    except KeyError as caught:
        park("others", locals())


def cells():
    kept, changed = "in a cell", 0

    def inner(argument):
        nonlocal changed
        changed += 1
        bound = kept
        park("cells.<locals>.inner" if sys.version_info >= (3, 11) else "inner", locals())

    inner(5)


def arguments(positional, *rest, keyword="k", **others_too):
    if not rest:
        unbound = 1
    gone = 1
    del gone
    park("arguments", locals())


def call_arguments():
    arguments("p", 1, 2, extra=True)


def generator():
    def produce(n):
        held = [n]
        yield 1
        park("generator.<locals>.produce" if sys.version_info >= (3, 11) else "produce", locals())
        yield held

    for _ in produce(3):
        pass


def many_variables():
    names = {}
    exec("def many():\n" + "".join("    v%d = %d\n" % (i, i) for i in range(300)) + "    park()\n", {
        "park": lambda: park("many", {"v%d" % i: i for i in range(64)})}, names)
    names["many"]()


def main():
    scenarios = [numbers, floats, strings, containers, shared_keys, others, cells, call_arguments, generator, many_variables]
    for scenario in scenarios:
        threading.Thread(target=scenario, daemon=True).start()
    for _ in scenarios:
        parked.acquire()
    with open(sys.argv[1], "w", encoding="utf-8", errors="surrogateescape") as out:
        for tid, function, name, text in expected:
            out.write("%d %s %s=%s\n" % (tid, function, name, text))
    print("ready %d" % threading.get_native_id(), flush=True)
    sys.stdin.read()


main()
