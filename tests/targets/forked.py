# SPDX-License-Identifier: Apache-2.0
"""Processes that were forked and look as if they had been started: the kernel shows their own command line and environment. What a
process has imported, its children need not import again."""
import ctypes
import os
import sys
import traceback

PR_SET_MM, PR_SET_MM_MAP = 35, 14
FIELDS = ("start_code", "end_code", "start_data", "end_data", "start_brk", "brk", "start_stack", "arg_start", "arg_end", "env_start", "env_end",
          "auxv")
LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.sbrk.restype = ctypes.c_void_p
shown = []  # the kernel reads it when somebody asks


class MemoryMap(ctypes.Structure):
    """struct prctl_mm_map"""
    _fields_ = [*((name, ctypes.c_uint64) for name in FIELDS), ("auxv_size", ctypes.c_uint32), ("exe_fd", ctypes.c_uint32)]


def look_started(argv):
    """With this command and with os.environ as it is now."""
    arguments = b"".join(os.fsencode(word) + b"\0" for word in argv)
    environment = b"".join(name + b"=" + value + b"\0" for name, value in os.environb.items())
    shown[:] = [ctypes.create_string_buffer(arguments + environment, len(arguments) + len(environment))]
    with open("/proc/self/stat", encoding="utf-8", errors="replace") as file:
        stat = [0, 0, 0, *file.read().rpartition(")")[2].split()]  # numbered as in proc(5)
    begin = ctypes.addressof(shown[0])
    middle = begin + len(arguments)
    new = MemoryMap(*(int(stat[i]) for i in (26, 27, 45, 46, 47)), LIBC.sbrk(0), int(stat[28]), begin, middle, middle, middle + len(environment), 0, 0,
                    0xffffffff)
    if LIBC.prctl(PR_SET_MM, PR_SET_MM_MAP, ctypes.byref(new), ctypes.c_ulong(ctypes.sizeof(new)), ctypes.c_ulong(0)):
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_MM_MAP): a kernel without CONFIG_CHECKPOINT_RESTORE?")


class Forked:
    """What subprocess.Popen(argv, env=env, stdin=PIPE, stdout=PIPE, text=True) is, of a child that runs this function."""

    ours = []  # our ends of the pipes to all of them

    def __init__(self, argv, env, run):
        (theirs, ours), (mine, out) = os.pipe(), os.pipe()
        Forked.ours += [ours, mine]
        sys.stdout.flush()
        self.pid = os.fork()
        if self.pid == 0:
            self.become(argv, env, run, theirs, out)
        os.close(theirs)
        os.close(out)
        self.stdin, self.stdout = os.fdopen(ours, "w", encoding="utf-8"), os.fdopen(mine, encoding="utf-8")

    @staticmethod
    def become(argv, env, run, *descriptors):
        code = 1
        try:
            for at, descriptor in enumerate(descriptors):
                os.dup2(descriptor, at)
                os.close(descriptor)
            for descriptor in Forked.ours:
                os.close(descriptor)
            Forked.ours.append((sys.stdin, sys.stdout))  # gone, they would close their descriptors
            sys.stdin, sys.stdout = os.fdopen(0, encoding="utf-8", closefd=False), os.fdopen(1, "w", encoding="utf-8", closefd=False)
            os.environ.clear()
            os.environ.update(env)
            look_started(argv)
            run()
            sys.stdout.flush()
            code = 0
        except BaseException:  # it must not return into what its parent does
            traceback.print_exc()
        finally:
            os._exit(code)

    def kill(self):
        os.kill(self.pid, 9)

    def wait(self):
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
