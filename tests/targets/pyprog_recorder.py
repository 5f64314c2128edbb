# SPDX-License-Identifier: Apache-2.0
"""pyprog_recorder.py LIBRARY LAYOUT-TOOL: the recorder's own code captures frames here, in many situations, and each
capture is compared with what the interpreter says of itself (sys._getframe(), f_lasti) and with glibc's backtrace(). Prints
"ready", how many captures and frames were equal, and what it took.
"""
import asyncio
import contextlib
import ctypes
import functools
import gc
import os
import resource
import subprocess
import sys
import threading
import time
import weakref

MAX_PYTHON, MAX_NATIVE = 128, 128
PYTHON_CUT, NATIVE_CUT, NATIVE_LOST, NO_PYTHON, NATIVE_GUESS = 1, 2, 4, 8, 16
WIDE = 0xffff
U64, U32, U16 = ctypes.c_uint64, ctypes.c_uint32, ctypes.c_uint16


def structure(name, *fields):
    return type(name, (ctypes.Structure,), {"_fields_": [(f, t) for names, t in fields for f in names.split()]})


Config = structure("Config", ("python native max_memory dl_iterate_phdr clock_gettime main_stack_low main_stack_high", U64),
                   ("layout", ctypes.c_ubyte * 1024))
Code = structure("Code", ("object filename name qualname linetable firstlineno version", U64))
Capture = structure("Capture", ("words", U64 * (2 * MAX_PYTHON + MAX_NATIVE)), ("n_python n_words n_native flags", U16),
                    ("hash backtrace n_trace", U64), ("trace", U64 * 256), ("rounds ns", U64))

lib = ctypes.CDLL(sys.argv[1])  # a call through a CDLL lets the GIL go, as PyTorch does before it allocates
keeping = ctypes.PyDLL(sys.argv[1])
libc = ctypes.CDLL(None)
CALLBACK = ctypes.CFUNCTYPE(None)


keeping.test_code.restype = ctypes.POINTER(Code)
lib.test_off.restype = U64


def address(function):
    return ctypes.cast(function, ctypes.c_void_p).value


def configure():
    done = subprocess.run([sys.argv[2], str(os.getpid())], stdout=subprocess.PIPE, check=True)
    layout = bytes.fromhex(done.stdout.decode())
    config = Config(python=1, native=1, max_memory=1 << 30, dl_iterate_phdr=address(libc.dl_iterate_phdr),
                    clock_gettime=address(libc.clock_gettime))
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
        for line in maps:
            if "[stack]" in line:
                high = int(line.split()[0].split("-")[1], 16)
                limit = resource.getrlimit(resource.RLIMIT_STACK)[0]
                config.main_stack_low = high - (limit if 0 < limit < 1 << 30 else 1 << 30)
                config.main_stack_high = high
    ctypes.memmove(ctypes.addressof(config) + Config.layout.offset, layout, len(layout))
    return config


checked = {"captures": 0, "frames": 0, "native": 0, "lost": 0}
BACKTRACE = address(libc.backtrace)


def frames_of(capture):
    """(index of the code object, lasti) of each Python frame."""
    frames, at = [], 0
    while at < capture.n_words:
        word = capture.words[at]
        lasti = 2 * (word & WIDE)
        if word & WIDE == WIDE:
            at += 1
            lasti = ctypes.c_int64(capture.words[at]).value
        frames.append((word >> 16, lasti))
        at += 1
    assert len(frames) == capture.n_python, (len(frames), capture.n_python)
    return frames


def code_of(index):
    return keeping.test_code(U64(index)).contents


def snap(how=lib):
    """Captures, and compares. The frame that calls into C is compared by its line alone: it calls a second time."""
    capture = Capture(backtrace=BACKTRACE)
    how.test_capture(ctypes.byref(capture)); frame = sys._getframe()  # noqa: E702 (one line)
    truth = []
    while frame:
        truth.append((frame.f_code, frame.f_lasti, frame.f_lineno))
        frame = frame.f_back
    try:
        return compare(capture, truth)
    except AssertionError as err:
        failures.append(err)  # an exception that leaves a finaliser is not heard of again
        raise


failures = []


def compare(capture, truth):
    got = frames_of(capture)
    assert bool(capture.flags & PYTHON_CUT) == (len(truth) > MAX_PYTHON), (capture.flags, len(truth))
    assert len(got) == min(len(truth), MAX_PYTHON), (len(got), len(truth), [t[0].co_name for t in truth][:20])
    for i, ((index, lasti), (code, true_lasti, line)) in enumerate(zip(got, truth)):
        known = code_of(index)
        assert known.object == id(code), (i, hex(known.object), code)
        assert known.firstlineno == code.co_firstlineno and known.filename == id(code.co_filename), (i, code)
        assert known.name == id(code.co_name), (i, code)
        if i:
            assert lasti == true_lasti, (i, code, lasti, true_lasti, line)
        else:
            assert 0 <= lasti < true_lasti, (lasti, true_lasti)
    check_native(capture)
    checked["captures"] += 1
    checked["frames"] += len(got)
    return [index for index, _ in got]


def check_native(capture):
    """Return addresses from the caller of test_capture() on; backtrace() has those of our own library before them."""
    got = list(capture.words[capture.n_words:capture.n_words + capture.n_native])
    truth = list(capture.trace[:capture.n_trace])
    assert got and got[0] in truth[:6], ([hex(a) for a in got[:4]], [hex(a) for a in truth[:8]], capture.flags)
    truth = truth[truth.index(got[0]):]
    while truth and truth[-1] == 0:
        truth.pop()
    checked["native"] += len(got)
    if len(truth) > MAX_NATIVE:
        assert capture.flags & NATIVE_CUT, capture.flags
    else:
        assert not capture.flags & (NATIVE_CUT | NATIVE_GUESS), capture.flags
        if capture.flags & NATIVE_LOST:
            checked["lost"] += 1
            print("lost", [hex(a) for a in got[-2:]], [hex(a) for a in truth[len(got) - 1:len(got) + 2]])
    if capture.n_trace < 256:
        assert got == truth[:MAX_NATIVE], ([hex(a) for a in got], [hex(a) for a in truth])


# ---- situations ----

def plain():
    snap()
    snap(keeping)


def recursion(n=300):
    return snap() if n == 0 else recursion(n - 1)


def exactly(n):
    return snap() if n == 0 else exactly(n - 1)


def at_the_bound():
    depth, frame = 0, sys._getframe()
    while frame:
        depth, frame = depth + 1, frame.f_back
    for n in range(-4, 4):
        exactly(MAX_PYTHON - depth - 2 + n)


def generators():
    def inner():
        snap()
        yield 1
        snap()

    def outer():
        yield from inner()
        snap()
        yield 2

    assert list(outer()) == [1, 2]
    for _ in (snap() for _ in range(2)):
        pass
    waiting = inner()
    next(waiting)
    with contextlib.suppress(ValueError):
        waiting.throw(ValueError())
    next(inner()) # noqa


def comprehensions():
    _ = [snap() for _ in range(2)]
    _ = {snap() and 1 for _ in range(2)}
    _ = {i: snap() for i in range(2)}
    _ = [[snap() for _ in range(1)] for _ in range(2)]


def class_bodies():
    class Outer:
        snap()

        class Inner:
            snap()

        def __init__(self):
            snap()

        @property
        def it(self):
            return snap()

        def __getattr__(self, name):
            return snap()

        def __iter__(self):
            snap()
            return iter(())

    one = Outer()
    _ = one.it, one.missing, list(one)


def code_as_text():
    exec("snap()", globals())
    eval("snap()", globals())
    exec(compile("def f():\n    snap()\n\n\nf()\n" + "\n" * 500 + "f()", "made up", "exec"), globals())


def long_function():
    """Offsets above 2 * 0xffff."""
    text = "def f(x):\n" + "    x = x + 1\n" * 30000 + "    snap()\n" + "    x = x + 1\n" * 10
    space = {"snap": snap}
    exec(text, space)
    space["f"](1)


def lambdas():
    (lambda: snap())()
    functools.reduce(lambda a, b: snap(), [1, 2, 3])
    sorted([3, 1], key=lambda v: snap() and v)
    functools.partial(snap)()


def coroutines():
    async def leaf():
        snap()
        await asyncio.sleep(0)
        snap()

    async def agen():
        for i in range(2):
            snap()
            yield i

    async def whole():
        await leaf()
        async for _ in agen():
            snap()
        await asyncio.gather(leaf(), leaf())
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(leaf(), 10)

    loop = asyncio.new_event_loop()
    loop.run_until_complete(whole())
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.close()


def exceptions():
    try:
        raise ValueError()
    except ValueError:
        snap()
    finally:
        snap()

    class Manager:
        def __enter__(self):
            snap()

        def __exit__(self, *_):
            snap()

    with Manager():
        snap()


def callbacks():
    """C code in between: one run of the evaluator after the other."""
    def nested(n):
        if n == 0:
            snap()
        else:
            lib.test_call(CALLBACK(lambda: nested(n - 1)))
            keeping.test_call(CALLBACK_KEEPING(lambda: snap()))
    nested(4)


CALLBACK_KEEPING = ctypes.PYFUNCTYPE(None)


def finalisers():
    class Dies:
        def __del__(self):
            snap()

    one = Dies()
    del one
    two = Dies()
    weak = weakref.ref(two, lambda _: snap())
    ring = [two]
    ring.append(ring)
    del two, ring
    gc.collect()
    assert weak() is None


def collection_in_between():
    """Up to 3.11 a collection can begin while a generator is made: its frame is hidden then."""
    seen = []

    def on_gc(phase, info):
        if phase == "start" and len(seen) < 20:
            seen.append(snap())

    def make():
        yield 1

    def cells():
        a = b = c = d = [1]
        return lambda: (a, b, c, d)

    keep = []
    gc.callbacks.append(on_gc)
    threshold = gc.get_threshold()
    try:
        gc.set_threshold(1)
        for _ in range(100):
            keep.append(make())
            keep.append(cells())
    finally:
        gc.set_threshold(*threshold)
        gc.callbacks.remove(on_gc)


def tracing():
    """A trace function is called before the first instruction."""
    calls = []

    def trace(frame, event, arg):
        if len(calls) < 50:
            calls.append(event)
            snap()
        return trace

    def traced(n):
        x = n + 1
        return x

    old = sys.gettrace()
    sys.settrace(trace)
    try:
        traced(1)
        list(traced(i) for i in range(2))
    finally:
        sys.settrace(old)
    assert len(calls) > 5
    sys.setprofile(lambda *_: snap() if len(calls) < 60 and not calls.append(1) else None)
    try:
        traced(2)
    finally:
        sys.setprofile(None)


def renamed():
    """Code objects that come and go in the same place, with the same line table, and differ in their name alone."""
    def base():
        return snap()

    kind, last = type(base), None
    for i in range(200):
        code = base.__code__
        if hasattr(code, "replace"):
            function = kind(code.replace(co_name="name%d" % (i % 9)), globals())
            index = function()[1]
            assert ctypes.cast(code_of(index).name, ctypes.py_object).value == "name%d" % (i % 9)
            assert index != last
            last = index
            del function


def reused_memory():
    """Code objects that are freed, and others that come to lie where they were."""
    objects, indices, reused, index = set(), {}, 0, None
    for i in range(300):
        space = {"snap": snap}
        exec(compile("def f%d():\n    return snap()\n" % (i % 7), "file%d" % (i % 5), "exec"), space)
        function = space["f%d" % (i % 7)]
        for again in range(2):
            before, index = index, function()[1]
            assert not again or index == before, "what does not change is known again"
            code = code_of(index)
            assert code.object == id(function.__code__)
            who = ctypes.cast(code.name, ctypes.py_object).value, ctypes.cast(code.filename, ctypes.py_object).value
            assert who == (function.__code__.co_name, function.__code__.co_filename), (i, who)
        reused += id(function.__code__) in objects and indices.get(id(function.__code__)) != index
        objects.add(id(function.__code__))
        indices[id(function.__code__)] = index
        del function, space
        if i % 50 == 0:
            gc.collect()
    return reused


def in_thread(function, *args):
    failed = []

    def run():
        try:
            function(*args)
        except BaseException as err:  # noqa: B902
            failed.append(err)
            raise

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert not failed, failed


def threads():
    in_thread(plain)
    in_thread(recursion, 20)
    in_thread(generators)
    workers = [threading.Thread(target=lambda: [snap() for _ in range(50)]) for _ in range(8)]
    before = checked["captures"]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    # (The count is not exact: threads without a GIL.)
    assert checked["captures"] > before + 100, "all threads finished"


def in_c_thread(function):
    """Runs a C function in a thread that is not Python's."""
    tid = ctypes.c_ulong()
    assert libc.pthread_create(ctypes.byref(tid), None, ctypes.cast(function, ctypes.c_void_p), None) == 0
    assert libc.pthread_join(tid, None) == 0


def c_threads():
    failed = []

    def called():
        try:
            snap()
            lib.test_call(CALLBACK(snap_quietly))
        except BaseException as err:  # noqa: B902
            failed.append(err)

    def snap_quietly():
        try:
            snap()
        except BaseException as err:  # noqa: B902
            failed.append(err)

    in_c_thread(CALLBACK(called))
    assert not failed, failed


def no_python():
    """A thread that never called Python: return addresses only."""
    capture = Capture(backtrace=BACKTRACE)
    tid = ctypes.c_ulong()
    libc.pthread_create.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
    assert libc.pthread_create(ctypes.byref(tid), None, address(lib.test_capture), ctypes.addressof(capture)) == 0
    assert libc.pthread_join(tid, None) == 0
    assert capture.flags == NO_PYTHON and capture.n_python == 0, capture.flags
    check_native(capture)
    assert capture.n_native >= 2, capture.n_native
    libc.pthread_create.argtypes = None


def timed(depth=20, rounds=300):
    """Nanoseconds: (Python frames, both of them), per capture, and how many frames."""
    def deeper(n):
        if n:
            return deeper(n - 1)
        capture = Capture(rounds=rounds)
        best = 1e9
        for _ in range(300):
            lib.test_capture(ctypes.byref(capture))
            best = min(best, capture.ns / rounds)
        return best, capture.n_python, capture.n_native

    return deeper(depth)


def on(config):
    assert lib.test_on(ctypes.byref(config)) == 0


def run_all():
    config = configure()
    on(config)
    snap()
    times = []
    lost = 0
    for situation in (plain, recursion, at_the_bound, generators, comprehensions, class_bodies, code_as_text, long_function,
                      lambdas, coroutines, exceptions, callbacks, finalisers, collection_in_between, tracing, threads,
                      c_threads, no_python, renamed, reused_memory):
        try:
            result = situation()
        except BaseException:
            print("in", situation.__name__, flush=True)
            raise
        assert not failures, (situation.__name__, failures)
        if situation is reused_memory:
            # Without a GIL code objects are kept until the next but one collection, or for good.
            assert result > 50 or not getattr(sys, "_is_gil_enabled", lambda: True)(), ("no memory was used again", result)
        assert checked["lost"] == lost or not print("lost in", situation.__name__, checked["lost"])
        lost = checked["lost"]
    if len(sys.argv) > 3:
        for python, native in ((1, 0), (0, 1), (1, 1)):
            assert lib.test_off() == 0
            config.python, config.native = python, native
            on(config)
            times.append("%d/%d: %.0f ns, %d + %d frames" % ((python, native) + timed()))
    assert lib.test_off() == 0, "all memory is given back"
    same, changed, unknown = (U64 * 3).in_dll(lib, "test_again")
    assert same > 1000 and changed > 500 and unknown > 50, ("walks with a memo", same, changed, unknown)
    print("ready", *checked.values(), flush=True)
    print(*times, sep="\n")


def end():
    """Threads that capture all the time while the interpreter is torn down, and with it what they read."""
    on(configure())

    def deeper(n):
        if n:
            return deeper(n - 1)
        return lib.test_capture(ctypes.byref(captures.pop()))

    captures = [Capture(rounds=1 << 40) for _ in range(2)]
    for _ in range(2):
        threading.Thread(target=deeper, args=(50,), daemon=True).start()
    while captures:
        time.sleep(0.001)
    print("ready", flush=True)


class Last:
    """Goes while the interpreter is torn down."""

    def __init__(self, *used):
        self.used = used  # names of modules are gone

    def __del__(self):
        library, capture, reference, write, sleep = self.used
        sleep(0.02)  # for the other threads
        library.test_capture(reference)
        write(1, b"%d frames, flags %d\n" % (capture.n_python, capture.flags))


if sys.argv[3:] == ["end"]:
    end()
    last_capture = Capture()
    # The interpreter clears this by itself; names of this module may live on in the frames of the other threads.
    sys.last_value = Last(keeping, last_capture, ctypes.byref(last_capture), os.write, time.sleep)
else:
    run_all()
