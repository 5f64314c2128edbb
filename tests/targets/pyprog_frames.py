# SPDX-License-Identifier: Apache-2.0
"""A program with hard Python stacks that tells the truth about them.

Every scenario runs in its own thread and parks at its deepest point. A writer thread then prints "ready TID" (its own
thread id) and obeys lines on standard input: "truth PATH" writes what sys._current_frames() says about all other threads,
"quit" ends the process. The truth has the format of tests/functional/python_frames.c.
"""
import ast
import asyncio
import contextlib
import ctypes
import functools
import gc
import json
import os
import re
import select
import sys
import tempfile
import threading
import time
import weakref

HAS_QUALNAME = sys.version_info >= (3, 11)
gate = threading.Lock()
gate.acquire()
parked = {}  # native thread id -> how it parks
parked_lock = threading.Lock()


def announce(how):
    with parked_lock:
        parked[threading.get_native_id()] = how


def park():
    announce("lock")
    gate.acquire()


# ---- recursion ----

def recurse(n):
    if n == 0:
        park()
        return 0
    return 1 + recurse(n - 1)


def recursion():
    recurse(5000)


def even(n):
    return n == 0 or odd(n - 1)


def odd(n):
    if n == 1:
        park()
    return n != 0 and even(
        n
        - 1
    )


def mutual_recursion():
    even(700)


# ---- generators and coroutines ----

def leaf_generator():
    yield 1
    park()
    yield 2


def chained_generator(depth):
    if depth:
        yield from chained_generator(depth - 1)
    else:
        for value in leaf_generator():
            yield value


def generators():
    total = sum(value for value in chained_generator(12) if value)
    return total


def generator_send():
    def echo():
        value = yield
        while True:
            if value == 3:
                park()
            value = yield value

    g = echo()
    next(g)
    for i in range(5):
        g.send(i)


def generator_throw():
    def stubborn():
        while True:
            try:
                yield
            except KeyError:
                park()

    g = stubborn()
    next(g)
    g.throw(KeyError("thrown"))


class AsyncResource:
    async def __aenter__(self):
        await asyncio.sleep(0)
        return self

    async def __aexit__(self, *exc):
        await asyncio.sleep(0)
        park()


async def async_numbers():
    for i in range(3):
        await asyncio.sleep(0)
        yield i


async def async_leaf(n):
    async with AsyncResource():
        async for i in async_numbers():
            if i == n:
                break


async def async_middle(n):
    return [await async_leaf(n) for _ in range(1)]


async def async_main():
    async def other():
        while True:
            await asyncio.sleep(3600)

    task = asyncio.ensure_future(other())
    results = await asyncio.gather(async_middle(1), async_middle(2))
    task.cancel()
    return results


def coroutines():
    asyncio.run(async_main())


# ---- decorators and context managers ----

def logged(fn):
    @functools.wraps(fn)
    def wrapper(*args, **kwargs):
        return fn(*args, **kwargs)
    return wrapper


class Counting:
    def __init__(self, fn):
        functools.update_wrapper(self, fn)
        self.fn = fn

    def __call__(self, *args):
        return self.fn(*args)


@contextlib.contextmanager
def managed():
    try:
        yield
    finally:
        park()


@logged
@Counting
@functools.lru_cache(maxsize=None)
@logged
def decorated(
    a,
    b=2,
):
    with managed():
        return functools.partial(max, a)(b)


def decorators():
    decorated(1)


# ---- C code that calls back into Python ----

def callback_sorted():
    sorted([3, 1, 2], key=lambda n: park() if n == 2 else n)


def callback_map():
    def visit(n):
        if n == 2:
            park()
        return n

    list(filter(None, map(visit, iter([1, 2, 3]))))


def callback_qsort():
    libc = ctypes.CDLL(None)
    kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_int), ctypes.POINTER(ctypes.c_int))

    def compare(a, b):
        park()
        return a[0] - b[0]

    numbers = (ctypes.c_int * 3)(3, 1, 2)
    libc.qsort(numbers, 3, ctypes.sizeof(ctypes.c_int), kind(compare))


class Parking:
    def __del__(self):
        park()

    def method(self):
        return functools.reduce(lambda a, b: re.sub("x", lambda match: self.value, "axb"), [1, 2])

    @property
    def value(self):
        return self.missing

    def __getattr__(self, name):
        return {Hashed(): 1}[Hashed()]


class Hashed:
    def __hash__(self):
        return 1

    def __eq__(self, other):
        park()
        return True


def callback_del():
    one = Parking()
    del one


def callback_nested():
    Parking().method()


def callback_weakref():
    target = Hashed.__new__(type("Target", (), {}))
    watch = weakref.ref(target, lambda ref: park())
    del target
    return watch


def callback_json():
    json.dumps({"a": [object()]}, default=lambda value: park())


class Meta(type):
    def __call__(cls, *args):
        instance = super().__call__(*args)
        park()
        return instance

    def __new__(mcs, name, bases, namespace):
        return super().__new__(mcs, name, bases, namespace)


def metaclass():
    class Inner(metaclass=Meta):
        class Innermost:
            def method(self):
                return 1

    Inner()


def class_body():
    class Outer:
        class Inner:
            value = (lambda: park())()
    return Outer


def class_body_itself():
    class Outer:
        before = 1
        value = [before, park()]
    return Outer


# ---- calls that the interpreter has specialised: they are inlined into the caller's evaluation (3.11 on) ----

class Specialised:
    def __init__(self, n):
        if n == 200:
            park()
        self.n = n

    def __getitem__(self, n):
        return self.of(n)

    def of(self, n):
        return park() if n == 200 else n

    @property
    def hot(self):
        return self.of(self.n)


def specialised_init():
    for n in range(201):
        Specialised(n)


def specialised_getitem():
    one = Specialised(0)
    for n in range(201):
        one[n]


def specialised_property():
    for n in range(199):
        Specialised(n).hot
    one = Specialised(0)
    for n in range(201):
        one.n = n
        one.hot


def specialised_generator():
    def count():
        for n in range(201):
            yield n
        park()

    def outer():
        yield from count()

    for n in outer():
        Specialised(1)


# ---- comprehensions, lambdas, closures, match ----

def comprehensions():
    table = {
        k: {v for v in range(2) if v == 0 or [park() for _ in (1,)]}
        for k in range(2)
    }
    return table


def generator_expression():
    return any(park() for _ in range(2))


def closures():
    def outer(a):
        b = a + 1

        def middle():
            c = b

            def inner():
                return (lambda: (lambda: park() or a + b + c)())()
            return inner()
        return middle()
    return outer(1)


# ---- exceptions ----

def exception_handler():
    try:
        try:
            raise ValueError("first")
        except ValueError:
            raise KeyError("second")
    except KeyError:
        try:
            return {}["third"]
        except LookupError:
            park()


def exception_finally():
    for _ in range(2):
        try:
            return 1
        finally:
            park()


def exception_exit():
    class Guard:
        def __enter__(self):
            return self

        def __exit__(self, kind, value, traceback):
            del traceback
            park()
            return True

    with Guard(), \
            Guard() as inner:
        raise RuntimeError(
            "in flight",
            inner)


# ---- code with strange names and places ----

def run(source, filename, **names):
    code = compile(source, filename, "exec")
    exec(code, dict(names, park=park))


def exec_unicode():
    run("def größe_函数_𝒳(ß):\n    return park()\n\ngröße_函数_𝒳(1)\n", "/tmp/Ünïcödé_文件_🐍.py")


def exec_latin():
    run("class Käse:\n  def müll(self): park()\n\nKäse().müll()\n", "<größe>")


def exec_undecodable():
    run("park()\n", os.fsdecode(b"/data/\xff\xfe-bytes.py"))


def exec_control():
    run("park()\n", "evil\x1b[31m\nname\r\t\x7f.py")


def exec_far_lines():
    run("\n" * 100000 + "def far():\n" + "\n" * 70000 + "    x = (1,\n" + "\n" * 300 + "    park())\n\nfar()\n", "<far>")


def exec_long_name():
    run("def " + "n" * 3000 + "():\n    park()\n" + "n" * 3000 + "()\n", "/" + "d/" * 1500 + "f.py")


def exec_negative_lines():
    # Lines that go back: built as a tree, as generated code does.
    tree = ast.parse("def back():\n    a = 1\n    b = (a,\n         park())\n    return b\nback()\n")
    body = tree.body[0].body
    for node, line in ((body[0], 900), (body[1], 500)):
        delta = line - node.lineno
        ast.increment_lineno(node, delta)
    exec(compile(tree, "<back>", "exec"), {"park": park})


def exec_long_function():
    lines = ["def long():", "    x = 0"]
    lines += ["    x = x + %d if x >= 0 else [x, {x: (x, x, x)}, x]" % i for i in range(2000)]
    lines += ["    for i in range(3):", "        if i == 1:", "            park()", "            break", "long()"]
    run("\n".join(lines) + "\n", "<long>")


def evaluated():
    return eval("(lambda n: [n, park()])(\n1)", {"park": park})


imported = threading.Event()


def importing():
    with tempfile.TemporaryDirectory() as directory:
        for name, text in (("vramtap_outer", "import vramtap_inner\n"), ("vramtap_inner", "x = 1\nimport sys\n\nsys.park()\n")):
            with open(os.path.join(directory, name + ".py"), "w") as out:
                out.write(text)
        sys.park = lambda: (imported.set(), park())
        sys.path.append(directory)
        import vramtap_outer  # noqa: F401


def import_machinery():
    class Finder:
        @staticmethod
        def find_spec(name, path=None, target=None):
            if name == "vramtap_no_such_module":
                park()

    # It parks with the lock of the import machinery held: nobody imports anything from then on.
    imported.wait()
    sys.meta_path.insert(0, Finder)
    try:
        import vramtap_no_such_module  # noqa: F401
    except ImportError:
        pass


# ---- tracing ----

def traced_leaf(n):
    a = n
    b = [
        a,
        a + 1,
    ]
    park()
    return a, b


def tracing():
    def trace(frame, event, arg):
        return trace

    sys.settrace(trace)
    for i in range(2):
        traced_leaf(i)


def tracing_parked():
    def trace(frame, event, arg):
        if event == "line" and frame.f_code.co_name == "traced_leaf" and "b" in frame.f_locals:
            park()
        return trace

    sys.settrace(trace)
    traced_leaf(1)


def profiling():
    def profile(frame, event, arg):
        if event == "c_call" and arg is sorted:
            park()

    sys.setprofile(profile)
    [
        sorted(
            [1, 2])
        for _ in range(2)
    ]


# ---- other ways to wait ----

def waiting_sleep():
    announce("sleep")
    time.sleep(
        100000)


def waiting_read():
    fd, _keep = os.pipe()
    announce("read")
    os.read(fd, 1)


def waiting_select():
    announce("select")
    select.select([], [], [])


def waiting_event():
    announce("event")
    threading.Event().wait()


SCENARIOS = [value for value in list(globals().values())
             if callable(value) and getattr(value, "__module__", "") == __name__ and
             getattr(getattr(value, "__code__", None), "co_argcount", 1) == 0 and
             value.__name__ not in ("park", "managed", "leaf_generator", "async_numbers", "async_main",
                                    "decorated")]

if sys.version_info >= (3, 10):
    run("""
def matching():
    match {"kind": [1, 2, (3, 4)]}:
        case {"other": _}:
            pass
        case {"kind": [1, _, (a, b)]} if a < b:
            park()
""" + "scenarios.append(matching)\n", "<match>", scenarios=SCENARIOS)

if sys.version_info >= (3, 11):
    run("""
def exception_group():
    try:
        try:
            raise ExceptionGroup("group", [ValueError(1), TypeError(2)])
        except* ValueError:
            raise KeyError(3)
        except* TypeError:
            park()
    except* KeyError:
        pass
""" + "scenarios.append(exception_group)\n", "<group>", scenarios=SCENARIOS)

if sys.version_info >= (3, 12):
    def monitoring():
        tool = sys.monitoring.PROFILER_ID
        sys.monitoring.use_tool_id(tool, "test")

        def on_line(code, line):
            if code is traced_leaf.__code__ and line == traced_leaf.__code__.co_firstlineno + 1:
                park()

        sys.monitoring.register_callback(tool, sys.monitoring.events.LINE, on_line)
        sys.monitoring.set_local_events(tool, traced_leaf.__code__, sys.monitoring.events.LINE)
        traced_leaf(1)
    SCENARIOS.append(monitoring)

    run("""
def type_parameters[T: int](x: T) -> T:
    def inner():
        return park()
    return inner()

def generic():
    type_parameters(1)
scenarios.append(generic)
""", "<generic>", scenarios=SCENARIOS)


# ---- the truth ----

def escape(text):
    """As python_frames.c prints hostile bytes."""
    raw = text.encode("utf-8", "surrogateescape")
    return "".join(chr(b) if 0x20 < b < 0x7f and b not in b"\\|" else "\\x%02x" % b for b in raw)


def truth(path, skip):
    names = {t.ident: t.native_id for t in threading.enumerate()}
    lines = []
    for ident, frame in sorted(sys._current_frames().items(), key=lambda item: names[item[0]]):
        if names[ident] == skip:
            continue
        lines.append("thread %d" % names[ident])
        while frame:
            code = frame.f_code
            lines.append("%s|%s|%d" % (escape(code.co_qualname if HAS_QUALNAME else code.co_name),
                                       escape(code.co_filename), frame.f_lineno or 0))
            frame = frame.f_back
    with open(path, "w") as out:
        out.write("\n".join(lines) + "\n")


def is_asleep(tid):
    with open("/proc/self/task/%d/stat" % tid) as stat:
        return stat.read().rpartition(")")[2].split()[0] == "S"


def writer(expected):
    calm = 0
    while calm < 5:
        time.sleep(0.03)
        with parked_lock:
            tids = list(parked)
        calm = calm + 1 if len(tids) == expected and all(map(is_asleep, tids)) else 0
    me = threading.get_native_id()
    print("ready %d" % me, flush=True)
    for line in sys.stdin:
        word, _, rest = line.strip().partition(" ")
        if word == "truth":
            truth(rest, me)
            print("done", flush=True)
        elif word == "quit":
            break
    os._exit(0)


def main():
    gc.disable()
    sys.setrecursionlimit(20000)
    wanted = [s for s in SCENARIOS if not sys.argv[1:] or s.__name__ in sys.argv[1:]]
    if importing not in wanted:
        imported.set()
    threading.stack_size(64 << 20)
    for scenario in wanted:
        threading.Thread(target=scenario, daemon=True).start()
    threading.Thread(target=writer, args=(len(wanted) + 1,), daemon=True).start()
    with contextlib.ExitStack() as stack:
        stack.callback(generator_expression)


if __name__ == "__main__":
    main()
