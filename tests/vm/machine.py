# SPDX-License-Identifier: Apache-2.0
"""A virtual machine with a kernel of Debian's (tests/setup/vm.sh) that runs one command: programs and tests of this build are in its
root. QEMU emulates the processor, some ten times slower: a /dev/kvm within a virtual machine need not work (one was seen that hung)."""
import os
import re
import shutil
import subprocess

from harness import BUILD, CACHE, SOURCE, Skip, check, scratch

HERE = os.path.join(SOURCE, "tests", "vm")
VM = os.path.join(CACHE, "vm")
BOOT_SECONDS = 60  # on a busy machine
ENDED = re.compile(r"vm: the command has ended with (\d+)")
LIBRARIES = re.compile(r"=> (/\S+)")


def kernels():
    """Those that are set up."""
    with open(os.path.join(SOURCE, "tests", "setup", "vm-kernels"), encoding="ascii") as file:
        names = [line.split()[0] for line in file if not line.startswith("#")]
    return [name for name in names if os.path.exists(os.path.join(VM, f"kernel-{name}", "vmlinuz"))]


def succeeds(kernel, command, expect=(), **options):
    """The command ends with 0 and says each of these."""
    code, text = run(kernel, command, **options)
    print("\n".join(f"{kernel}: {line}" for line in text.splitlines()), flush=True)
    check(code == 0, f"{command} on Linux {kernel}", code, text[-2000:])
    for words in expect:
        check(words in text, f"what it says on Linux {kernel}", words, text[-2000:])


def copy_libraries(program, directory):
    """Those that the root does not have; the C library's own are there."""
    listed = subprocess.run(["ldd", program], capture_output=True, text=True, check=False).stdout
    for path in LIBRARIES.findall(listed):
        if not re.match(r"(libc|libm|libpthread|libdl|librt|ld-linux.*)\.so", os.path.basename(path)):
            shutil.copy(path, directory)


def layout(programs, command):
    """What lies over the root: /vm with the program, the tests' own programs, their sources, and the simulated device."""
    root = scratch()
    system = os.path.join(root, "usr/lib/x86_64-linux-gnu")  # also of set-user-id programs
    os.makedirs(system)
    for name in ("build", "lib", "source/tests"):
        os.makedirs(os.path.join(root, "vm", name))
    for program in ("vramtap", *programs):
        path = os.path.join(BUILD, program)
        if not os.path.exists(path):
            raise Skip(f"not built: {program}")
        os.makedirs(os.path.dirname(os.path.join(root, "vm/build", program)), exist_ok=True)
        shutil.copy(path, os.path.join(root, "vm/build", program))
        copy_libraries(path, os.path.join(root, "vm/lib"))
    for name in ("libcuda.so.1", "libsimcuda.so"):
        path = os.path.join(CACHE, "simcuda", name)
        if not os.path.exists(path):
            raise Skip(f"no simulated device: sh tests/simcuda/build.sh {CACHE}/simcuda")
        shutil.copy(path, system)
    for name in ("functional", "targets", "vm"):
        shutil.copytree(os.path.join(SOURCE, "tests", name), os.path.join(root, "vm/source/tests", name),
                        ignore=shutil.ignore_patterns("__pycache__", "*.c", "*.mk"))
    shutil.copy(os.path.join(HERE, "init.sh"), os.path.join(root, "init"))
    with open(os.path.join(root, "vm/command"), "w", encoding="ascii") as file:
        file.write("export VRAMTAP_BUILD_DIR=/vm/build VRAMTAP_SOURCE_DIR=/vm/source LD_LIBRARY_PATH=/vm/lib "
                   "PYTHONPATH=/vm/source/tests/functional PYTHONDONTWRITEBYTECODE=1 SIMCUDA_MEM_MB=2048\n" + command + "\n")
    subprocess.run(["chmod", "-R", "a+rX,u+w", root], check=True)
    os.chmod(os.path.join(root, "init"), 0o755)
    return root


def archive(root):
    """The kernel unpacks one archive after the other into the same root."""
    path = scratch("initrd")
    with open(path, "wb") as out:
        with open(os.path.join(VM, "root", "root.cpio"), "rb") as base:
            shutil.copyfileobj(base, out)
        out.flush()
        names = subprocess.run(["busybox", "find", "."], cwd=root, capture_output=True, check=True).stdout
        subprocess.run(["busybox", "cpio", "-o", "-H", "newc", "-R", "0:0"], cwd=root, input=names, stdout=out,
                       stderr=subprocess.DEVNULL, check=True)
    shutil.rmtree(root)
    return path


def run(kernel, command, programs=(), parameters="", seconds=120):
    """Runs a command of sh in the machine; returns (its exit code, what it has printed). An exit code of None: it did not come to its
    end in time, or the kernel did not, and what is printed has the kernel's last words."""
    emulator = os.path.join(VM, "qemu", "qemu")
    vmlinuz = os.path.join(VM, f"kernel-{kernel}", "vmlinuz")
    for path in (emulator, vmlinuz, os.path.join(VM, "root", "root.cpio")):
        if not os.path.exists(path):
            raise Skip(f"not set up: sh tests/setup/vm.sh {kernel}")
    console = scratch("console")
    with subprocess.Popen(
            [emulator, "-M", "pc", "-cpu", "max", "-accel", "tcg,thread=multi", "-smp", "2", "-m", "1024", "-nodefaults", "-display", "none",
             "-no-reboot", "-kernel", vmlinuz, "-initrd", archive(layout(programs, command)),
             "-append", f"console=ttyS0 panic=-1 quiet {parameters}", "-serial", f"file:{console}", "-serial", "stdio"],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        try:
            out, _ = process.communicate(timeout=BOOT_SECONDS + seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            out, _ = process.communicate()
        finally:
            process.kill()
    text = out.decode("utf-8", "replace").replace("\r", "")
    ended = ENDED.search(text)
    if ended:
        return int(ended[1]), text[:ended.start()]
    with open(console, encoding="utf-8", errors="replace") as file:
        return None, text + "\n" + file.read()[-2000:]
