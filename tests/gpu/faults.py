# SPDX-License-Identifier: Apache-2.0
"""Faults on a real GPU: a kernel that writes to an illegal address, a device-side assert, and healthy processes beside them."""
import contextlib
import ctypes
import json
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "functional"))
from harness import COMPLETE, PARTIAL, Skip, check, equal, main, report, report_json, target  # noqa: E402

PROGRAM = r"""
import ctypes, glob, os, sys, torch
x = torch.zeros(1024, dtype=torch.int32, device="cuda")
torch.cuda.synchronize()
SOURCE = b'extern "C" __global__ void write_there(int *at) { at[threadIdx.x] = 1; }'

def kernel():
    "compiled by NVRTC, which comes with PyTorch"
    names = glob.glob(os.path.join(os.path.dirname(torch.__file__), "../nvidia/*/lib/libnvrtc.so.1*")) + ["/usr/local/cuda/lib64/libnvrtc.so"]
    rtc = ctypes.CDLL([name for name in names if "builtins" not in name and os.path.exists(name)][0])
    program, cubin, size = ctypes.c_void_p(), None, ctypes.c_size_t()
    assert rtc.nvrtcCreateProgram(ctypes.byref(program), SOURCE, b"there.cu", 0, None, None) == 0
    options = [b"--gpu-architecture=sm_%d%d" % torch.cuda.get_device_capability()]
    assert rtc.nvrtcCompileProgram(program, 1, (ctypes.c_char_p * 1)(*options)) == 0
    assert rtc.nvrtcGetCUBINSize(program, ctypes.byref(size)) == 0
    cubin = ctypes.create_string_buffer(size.value)
    assert rtc.nvrtcGetCUBIN(program, cubin) == 0
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    assert cuda.cuModuleLoadData(ctypes.byref(module), cubin) == 0
    assert cuda.cuModuleGetFunction(ctypes.byref(function), module, b"write_there") == 0
    return function

if sys.argv[1] == "illegal":
    cuda = ctypes.CDLL("libcuda.so.1")
    value = ctypes.c_void_p(0x1000)
    arguments = (ctypes.c_void_p * 1)(ctypes.cast(ctypes.pointer(value), ctypes.c_void_p))
    assert cuda.cuLaunchKernel(kernel(), 1, 1, 1, 128, 1, 1, 0, None, arguments, None) == 0
    print("ERROR", cuda.cuCtxSynchronize(), flush=True)
elif sys.argv[1] == "assert":
    try:
        torch.zeros(10, device="cuda")[torch.full((4,), 99, device="cuda")]
        torch.cuda.synchronize()
    except Exception as error:
        print("ERROR", str(error)[:60].replace("\n", " "), flush=True)
print("READY", flush=True)
sys.stdin.read()
"""
FIRST_NAMESPACE = os.stat("/proc/self/ns/pid").st_ino == 0xEFFFFFFC


@contextlib.contextmanager
def program(what):
    with target([sys.executable, "-c", PROGRAM, what], ready="READY") as proc:
        yield proc


def codes(data):
    return {h["code"] for h in data["headlines"] if h["alarm"]}


def of_health(data):
    return codes(data) & {"context-lost", "gpu-fault", "throttled"}


def check_lost(proc, code):
    """The fault is the process's, where the log's numbers are ours; and the driver's answers say it, too."""
    for args in ((), ("--read-only",)):
        data = report_json(proc.pid, *args, expect=(COMPLETE, PARTIAL))
        faults = data["faults"]
        if faults["state"] == "refused":
            raise Skip(f"the log cannot be read: {faults['why']}")
        mine = [x for x in faults["xids"] if x["pid"] == proc.pid or x["owner"] == "unknown"]
        print(f"  {' '.join(args) or 'inside'}: {json.dumps([{k: x[k] for k in ('code', 'owner', 'pid', 'name', 'device', 'text')} for x in mine])}; "
              f"{faults['state']}, {faults['ms']} ms, lost: {faults['context_lost']}, after fault: {data['ledger'] and data['ledger']['after_fault']}")
        check(code in {x["code"] for x in mine}, "the fault", faults)
        if FIRST_NAMESPACE:
            equal({x["owner"] for x in mine}, {"ours"}, "owner")
            equal(faults["context_lost"], "certain", "the context")
        if FIRST_NAMESPACE or not args:
            check("context-lost" in codes(data), "an alarm", data["headlines"])
            check("context-lost" in [a["rule"] for a in data["advice"]], "advice", data["advice"])
        check("gpu-fault" not in codes(data), "the GPU is well", data["headlines"])
    text = report(proc.pid, "--color=never", expect=(COMPLETE, PARTIAL))[1]
    check(f"Xid {code}" in text and "CUDA_LAUNCH_BLOCKING=1" in text, "the text", text[:3000])
    print("\n".join("  | " + line for line in text.split("\nMemory of GPU")[0].splitlines()[:45]))


def check_well(proc):
    data = report_json(proc.pid, expect=(COMPLETE, PARTIAL))
    equal(of_health(data), set(), "alarms of a healthy process")
    equal(data["faults"]["context_lost"], None, "its context")
    check(not [x for x in data["faults"]["xids"] if x["owner"] == "ours"], "its faults", data["faults"])
    return data


def test_faults_illegal_address():
    with program("idle") as beside, program("illegal") as proc:
        check_lost(proc, 31)
        data = check_well(beside)
        if FIRST_NAMESPACE and data["faults"]["state"] != "refused":
            check((31, "others") in {(x["code"], x["owner"]) for x in data["faults"]["xids"]}, "a note of the other's", data["faults"])


def test_faults_assert():
    with program("assert") as proc, program("idle") as beside:
        check_lost(proc, 43)
        check_well(beside)


class Nvml:
    """NVML's own answers; how long each takes, in ms."""

    def __init__(self, uuid):
        self.nvml, self.handle, self.ms = ctypes.CDLL("libnvidia-ml.so.1"), ctypes.c_void_p(), {}
        equal(self.nvml.nvmlInit_v2(), 0, "nvmlInit_v2")
        equal(self.nvml.nvmlDeviceGetHandleByUUID(uuid.encode(), ctypes.byref(self.handle)), 0, "the device")

    def __call__(self, name, *args, n=1, kind=ctypes.c_uint):
        """The numbers that the function gives; None: not supported, or it has none such."""
        out = [kind() for _ in range(n)]
        start = time.monotonic()
        code = getattr(self.nvml, name)(self.handle, *args, *map(ctypes.byref, out))
        self.ms[f"{name}{args or ''}"] = round((time.monotonic() - start) * 1000, 3)
        return [one.value for one in out] if code == 0 else None


def same_health(uuid, health):
    """What does not change with each moment is NVML's, and the rest is near it."""
    nvml = Nvml(uuid)
    for key, name, args in (("ecc_uncorrected", "nvmlDeviceGetTotalEccErrors", (1, 0)), ("ecc_uncorrected_ever", "nvmlDeviceGetTotalEccErrors", (1, 1))):
        equal([health[key]], nvml(name, *args, kind=ctypes.c_ulonglong) or [None], key)
    rows = nvml("nvmlDeviceGetRemappedRows", n=4)
    equal(rows and [rows[1], bool(rows[2]), bool(rows[3])],
          None if health["rows_remapped"] is None else [health[key] for key in ("rows_remapped", "remap_pending", "remap_failed")], "rows")
    pending = nvml("nvmlDeviceGetRetiredPagesPendingStatus")
    equal(pending and bool(pending[0]), health["retire_pending"], "retired pages")
    for key, name, args in (("milliwatt_limit", "nvmlDeviceGetEnforcedPowerLimit", ()), ("sm_mhz_limit", "nvmlDeviceGetMaxClockInfo", (1,))):
        check(nvml(name, *args) == [health[key]] or not [x for x in health["slow"] or () if x.startswith("hw")], key, health)
    for key, name, args, near in (("celsius", "nvmlDeviceGetTemperature", (0,), 10), ("sm_mhz", "nvmlDeviceGetClockInfo", (1,), 2000),
                                  ("milliwatt", "nvmlDeviceGetPowerUsage", (), 300000)):
        (value,) = nvml(name, *args) or (None,)
        equal(health[key] is None, value is None, key)
        check(value is None or abs(value - health[key]) <= near, key, value, health)
    reasons = nvml("nvmlDeviceGetCurrentClocksEventReasons", kind=ctypes.c_ulonglong)
    equal(health["slow"] is None, reasons is None, "clocks event reasons")
    print(f"  NVML itself, ms: {nvml.ms}")


def test_faults_healthy():
    with program("idle") as proc:
        data = check_well(proc)
        equal(data["faults"]["xids"], [], "faults since it began")
        print(f"  {json.dumps({k: v for k, v in data['faults'].items() if k != 'xids'})}")
        took = []
        for args in ((), ("--no-stop",), ("--read-only",)):
            data = report_json(proc.pid, *args, expect=(COMPLETE, PARTIAL))
            equal(of_health(data), set(), "alarms")
            took.append((args, round(data["timing"]["total_ms"], 1), data["cuda"]["usage"]["ms"]))
        print(f"  total, and waited for NVML, ms: {took}")
        for device in data["cuda"]["usage"]["devices"]:
            print(f"  {json.dumps(device['health'])}")
            same_health(device["uuid"], device["health"])


if __name__ == "__main__":
    main(globals())
