# SPDX-License-Identifier: Apache-2.0
"""pyprog_cases.py CASE: small situations whose truth is known beforehand; prints "ready" and what the test has to know."""
import _thread
import itertools
import os
import sys
import threading
import time


def say(*words):
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


def wait_for_end():
    sys.stdin.read()


def case_gil():
    """A thread that keeps the GIL for good: one call into C that never gives it up."""
    def keep():
        say("ready", threading.get_native_id())
        sum(itertools.repeat(0))

    threading.Thread(target=keep, daemon=True).start()
    wait_for_end()


def case_gil_c():
    """The GIL is kept by C code that sleeps (as an extension that forgot to release it), and other threads want it."""
    import ctypes
    libc = ctypes.PyDLL(None)
    begin = threading.Barrier(5)

    def keep():
        say("ready", threading.get_native_id(), *tids)
        libc.pause()

    def want():
        tids.append(threading.get_native_id())
        begin.wait()
        while True:
            time.sleep(0.001)

    tids = []
    for _ in range(4):
        threading.Thread(target=want, daemon=True).start()
    begin.wait()
    threading.Thread(target=keep, daemon=True).start()
    wait_for_end()


def case_gil_each():
    """Two interpreters with a GIL each; C code keeps both, and one more thread of each wants it (3.13 on)."""
    import _interpreters as interpreters
    code = """
import ctypes, os, threading, time
def want():
    os.write(%d, b"want %%d\\n" %% threading.get_native_id())
    while True:
        time.sleep(0.001)
threading.Thread(target=want).start()  # isolated interpreters have no daemon threads
os.write(%d, b"keep %%d\\n" %% threading.get_native_id())
time.sleep(0.2)
ctypes.PyDLL(None).pause()
"""
    readable, writable = os.pipe()
    for _ in range(2):
        one = interpreters.create("isolated")
        threading.Thread(target=interpreters.exec, args=(one, code % (writable, writable)), daemon=True).start()
    seen = b""
    while seen.count(b"\n") < 4:
        seen += os.read(readable, 1000)
    say("ready", *seen.decode().split())
    wait_for_end()


def case_gil_sub():
    """C code in a subinterpreter that shares the GIL keeps it; one more thread wants it (3.10 to 3.12)."""
    import _xxsubinterpreters as interpreters
    readable, writable = os.pipe()
    told, tell = os.pipe()
    code = """
import ctypes, os, threading
pause = ctypes.PyDLL(None).pause
os.write(%d, b"%%d" %% threading.get_native_id())
os.read(%d, 1)
pause()
"""

    def want():
        say("ready", os.read(readable, 20).decode(), threading.get_native_id())
        os.write(tell, b"x")
        while True:
            time.sleep(0.001)

    threading.Thread(target=want, daemon=True).start()
    one = interpreters.create(isolated=False)
    threading.Thread(target=interpreters.run_string, args=(one, code % (writable, told)), daemon=True).start()
    wait_for_end()


def case_fork():
    """A forked child whose parent has other threads, as data loaders do it."""
    for _ in range(3):
        threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()
    pid = os.fork()
    if pid:
        say("ready", pid)
        wait_for_end()
        os.kill(pid, 9)
        os.waitpid(pid, 0)
    else:
        time.sleep(1000)


def case_subinterpreter():
    if sys.version_info >= (3, 13):
        import _interpreters as interpreters
        run = interpreters.exec
    else:
        import _xxsubinterpreters as interpreters
        run = interpreters.run_string
    fd, _keep = os.pipe()
    code = "import os\n\ndef inside():\n    os.read(%d, 1)\n\ninside()\n" % fd
    ids = [interpreters.create() for _ in range(3)]
    for one in ids:
        threading.Thread(target=run, args=(one, code), daemon=True).start()
    time.sleep(0.5)
    say("ready")
    wait_for_end()
    os._exit(0)


def case_gc():
    """Frames that CPython hides: a generator is being made, and that starts a garbage collection (up to 3.11)."""
    import gc
    fd, _keep = os.pipe()

    def on_gc(phase, info):
        if phase == "start":
            gc.callbacks.remove(on_gc)
            say("ready", threading.get_native_id())
            os.read(fd, 1)

    def make():
        yield 1

    def caller():
        keep = []
        gc.enable()
        while True:
            keep.append(make())

    gc.disable()
    gc.callbacks.append(on_gc)
    gc.set_threshold(50)
    threading.Thread(target=caller, daemon=True).start()
    wait_for_end()


def case_busy():
    """Everything changes all the time: calls, generators, threads that come and go."""
    def step_c(n):
        return sum(x for x in range(n % 5))

    def step_b(n):
        return step_c(n) + sorted([n, 1], key=lambda v: v)[0]

    def step_a(n):
        if n % 50:
            return step_a(n - 1) + step_b(n)
        return 0

    def work():
        while True:
            step_a(49)

    def spawn():
        while True:
            _thread.start_new_thread(step_a, (49,))
            time.sleep(0.001)

    for _ in range(3):
        threading.Thread(target=work, daemon=True).start()
    threading.Thread(target=spawn, daemon=True).start()
    say("ready")
    wait_for_end()


def case_sleep():
    say("ready")
    wait_for_end()


globals()["case_" + sys.argv[1]]()
os._exit(0)
