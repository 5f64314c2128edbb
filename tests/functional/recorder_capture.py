# SPDX-License-Identifier: Apache-2.0
"""What the recorder captures inside a process is what the interpreter, and glibc's backtrace(), say of the same moment.

The recorder's own code, with some entries for tests, is loaded into each CPython that is here (python_frames.py says how they
are found), and told of it by the tool's own code (recorder_layout). tests/targets/pyprog_recorder.py compares in there.
"""
import os
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from harness import BUILD, QUICK, SOURCE, Skip, check, compile_c, main, scratch  # noqa: E402
from python_frames import each, test_interpreters  # noqa: E402,F401

PROGRAM = os.path.join(SOURCE, "tests/targets/pyprog_recorder.py")
LIBRARY = os.path.abspath(os.path.join(BUILD, "tests/functional/recorder_capture.so"))
LAYOUT = os.path.abspath(os.path.join(BUILD, "tests/functional/recorder_layout"))


@each
def test_captures(path, version):
    """Every situation of pyprog_recorder.py."""
    done = subprocess.run([path, "-B", PROGRAM, LIBRARY, LAYOUT], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=100, check=False)
    check(done.returncode == 0, f"exit code {done.returncode}:", done.stdout[-1500:], done.stderr[-1500:])
    ready, captures, frames, native, lost = done.stdout.split()[:5]
    check(ready == "ready" and int(captures) > 1000 and int(frames) > 6000 and int(native) > 10000 and int(lost) == 0,
          "all situations were compared:", done.stdout)
    return f"{captures} captures, {frames} Python frames, {native} return addresses equal"


@each
def test_end(path, version):
    """An interpreter is torn down while threads capture: from then on nothing of it is read."""
    for _ in range(1 if QUICK else 100):
        done = subprocess.run([path, "-B", PROGRAM, LIBRARY, LAYOUT, "end"], stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, timeout=100, check=False)
        check(done.returncode == 0 and done.stdout == "ready\n0 frames, flags 8\n", f"exit code {done.returncode}:",
              done.stdout, done.stderr[-1500:])


# Calls a function through some frames of its own.
THROUGH = r"""
void through(void (*function)(void), int n);
void (*volatile pointer)(void (*)(void), int);
void __attribute__((noinline)) through(void (*function)(void), int n)
{
	pointer = through;
	if (n)
		pointer(function, n - 1);
	else
		function();
	__asm__ volatile("" : : : "memory");
}
"""

# The same code in the same place, but for the size of its frame.
FRAMED = r"""
__asm__(".text\n.globl framed\n.type framed, @function\nframed:\n.cfi_startproc\n"
	".byte 0x48, 0x81, 0xec\n.long %d\n.cfi_adjust_cfa_offset %d\n"
	"call *%%rdi\n.byte 0x48, 0x81, 0xc4\n.long %d\n.cfi_adjust_cfa_offset -%d\nret\n.cfi_endproc\n.size framed, . - framed\n");
"""

NO_CFI = ("-O2", "-fno-asynchronous-unwind-tables", "-fno-unwind-tables", "-fno-exceptions")


def library(text, *flags):
    return compile_c(text, "-shared", "-fPIC", "-nostdlib", *flags)


def test_stacks():
    """Every situation of recorder_stacks.cc: odd stacks, odd code, and what is no stack."""
    libraries = {
        "no-cfi-fp": library(THROUGH, *NO_CFI, "-fno-omit-frame-pointer"),
        "no-cfi": library(THROUGH, *NO_CFI, "-fomit-frame-pointer"),
        "frame-24": library(FRAMED % ((24,) * 4)),
        "frame-4104": library(FRAMED % ((4104,) * 4)),
    }
    program = scratch("recorder_stacks")
    done = subprocess.run([shutil.which("g++") or "c++", "-std=c++17", "-O2", "-fomit-frame-pointer", "-pthread", "-I",
                           os.path.join(SOURCE, "include"), "-o", program,
                           os.path.join(SOURCE, "tests/functional/recorder_stacks.cc"), "-ldl"],
                          capture_output=True, text=True, check=False) if shutil.which("g++") or shutil.which("c++") else None
    if not done:
        raise Skip("no C++ compiler")
    check(done.returncode == 0, "it builds:", done.stderr)
    done = subprocess.run([program, LIBRARY, *(word for pair in libraries.items() for word in pair)],
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False)
    check(done.returncode == 0 and done.stdout.startswith("ready"), f"exit code {done.returncode}:", done.stdout[-1500:],
          done.stderr[-1500:])
    print("  captures equal:", done.stdout.split()[1], flush=True)


if __name__ == "__main__":
    main(globals())
