# SPDX-License-Identifier: Apache-2.0
"""The commands of gdb in cuda-gdb, attached to PyTorch processes on a real GPU: both builds, that with Python and that without.
VRAMTAP_CUDA_GDB names a cuda-gdb (default: the one in PATH and cuda-gdb-minimal beside it)."""
import json
import os
import re
import shutil
import subprocess
import tempfile
import time

from scenarios import Gpu, compare
from harness import VRAMTAP, Skip, check, equal, main

FAST_MS = 300  # what a command may take
OWNERS_MS = 1500  # and one that looks for owners in all objects of PyTorch


def gdbs():
    first = os.environ.get("VRAMTAP_CUDA_GDB") or shutil.which("cuda-gdb")
    if not first:
        raise Skip("there is no cuda-gdb")
    minimal = os.path.join(os.path.dirname(os.path.realpath(first)), "cuda-gdb-minimal")
    return [first] + ([minimal] if os.path.exists(minimal) else [])


def session(gdb, attach, commands, timeout=200):
    """What each command printed, and how many milliseconds it took."""
    with tempfile.NamedTemporaryFile("w", suffix=".gdb") as script:
        script.write(subprocess.run([VRAMTAP, "gdb-script"], stdout=subprocess.PIPE, check=True).stdout.decode())
        script.flush()
        argv = [gdb, "-nx", "-batch", "-ex", f"source {script.name}", *attach]
        for command in commands:
            argv += ["-ex", "shell date +@%s%N", "-ex", command, "-ex", "echo"]  # which flushes
        argv += ["-ex", "shell date +@%s%N"]
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=timeout, check=False)
    parts = re.split(r"^@(\d{16,})\n", done.stdout.decode("utf-8", "replace"), flags=re.M)
    equal(len(parts), 2 * len(commands) + 3, f"the session went to its end: {done.stdout.decode()[-3000:]}")
    times = [int(stamp) for stamp in parts[1::2]]
    for i, command in enumerate(commands):
        print(f"  > {command}    ({(times[i + 1] - times[i]) / 1e6:.0f} ms)")
        print("  | " + parts[2 * i + 2].rstrip("\n").replace("\n", "\n  | "))
    return parts[2:-1:2], [(times[i + 1] - times[i]) / 1e6 for i in range(len(commands))]


def value(text):
    return int(text.rsplit("=", 1)[1], 0)


def in_use(gpu):
    """Address and size of the largest block in use, by PyTorch's snapshot."""
    blocks = [b for s in gpu.snapshot["segments"] for b in s["blocks"] if b["state"] == "active_allocated"]
    return max((b["size"], b["address"]) for b in blocks)[::-1]


def test_gdb_hung_in_kernel():
    with Gpu("synchronize", "--blocks", "1000") as gpu, tempfile.TemporaryDirectory() as directory:
        address, size = in_use(gpu)
        blocks = sum(len(s["blocks"]) for s in gpu.snapshot["segments"])
        for gdb in gdbs():
            print(f"  == {os.path.basename(gdb)}")
            saved = os.path.join(directory, "report.json")
            focus = "cuda kernel block thread"
            ours = ["vramtap info", "vramtap kernels", "vramtap stacks", "vramtap bt", "vramtap blocks 3", f"vramtap block {address + size - 1:#x}", "vramtap sites",
                    f"vramtap save {saved}"]
            commands = ["info cuda kernels", focus, *ours, focus, "info cuda kernels", "print $vt_blocks", "print $vt_block_addr",
                        "vramtap refresh", focus, "print $vt_device_free", "info cuda kernels", "vramtap info"]
            out, times = session(gdb, ["-ex", f"attach {gpu.proc.pid}"], commands)
            said = dict(zip(commands, out))
            check("spin_kernel" in out[0], "the kernel")
            check("kernel 0" in out[1] and out[1] == out[2 + len(ours)], "the focus moved", out[1], out[2 + len(ours)])
            check("kernel 0" in said[focus], "the focus after refresh", said[focus])
            kernels = said["vramtap kernels"]
            check("What runs on the GPU" in kernels and "spin_kernel<<<" in kernels, "the kernel", kernels)
            check(re.search(r"on 1 SM: 1 thread\n? +at 0x", kernels), "where it is", kernels)
            check("Threads in CUDA" in kernels and "torch.cuda.synchronize" in kernels, "who waits for it", kernels)
            check("cudaDeviceSynchronize" in said["vramtap stacks"], "the stacks")
            check("torch.cuda.synchronize" in said["vramtap stacks"], "Python frames")
            equal(value(said["print $vt_blocks"]), blocks, "blocks")
            equal(value(said["print $vt_block_addr"]), address, "the block's address")
            check(value(said["print $vt_device_free"]) > 1 << 30, "free memory of the device", said["print $vt_device_free"])
            with open(saved, encoding="utf-8") as file:
                data = json.load(file)
            compare(gpu, data)
            slow = [(c, t) for c, t in zip(commands, times) if c in ours and t > (OWNERS_MS if c.split()[1] in ("block", "save") else FAST_MS)]
            check(not slow, "too slow", slow)
            print(f"  FIGURE {os.path.basename(gdb)}: slowest of our commands {max(t for c, t in zip(commands, times) if c in ours):.0f} ms")
            time.sleep(0.5)
            gpu.unharmed()


def test_gdb_records():
    with Gpu("idle", "--blocks", "1000") as gpu:
        for gdb in gdbs():
            print(f"  == {os.path.basename(gdb)}")
            session(gdb, ["-ex", f"attach {gpu.proc.pid}"], ["vramtap record on"])
            address = int(gpu.ask("keep 5000000"))
            out, _ = session(gdb, ["-ex", f"attach {gpu.proc.pid}"],
                             ["vramtap sites", f"vramtap block {address:#x}", "vramtap pyframe", "vramtap locals", "vramtap record off"])
            check("keep" in out[0] and "target.py" in out[0], "the site", out[0])
            check("keep" in out[1] and "target.py" in out[1], "the block's backtrace", out[1])
            gpu.unharmed()


def test_gdb_core():
    with Gpu("idle", "--blocks", "1000") as gpu, tempfile.TemporaryDirectory() as directory:
        core, saved = os.path.join(directory, "core"), os.path.join(directory, "report.json")
        session(gdbs()[0], ["-ex", f"attach {gpu.proc.pid}"], [f"generate-core-file {core}"])
        for gdb in gdbs():
            print(f"  == {os.path.basename(gdb)}")
            out, _ = session(gdb, ["-ex", f"core-file {core}"], ["vramtap info", "vramtap bt", f"vramtap save {saved}", "vramtap refresh"])
            check("core" in out[0] and "in use by PyTorch" in out[0], "info", out[0])
            equal(len(out[3].strip().splitlines()), 1, "lines of what a core cannot")
            with open(saved, encoding="utf-8") as file:
                compare(gpu, json.load(file))


if __name__ == "__main__":
    main(globals())
