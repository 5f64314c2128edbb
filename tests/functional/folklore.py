#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The folklore of PyTorch's out-of-memory errors: each program in examples/oom gets into one kind of trouble, and the report must
say which, with the figures that PyTorch and the program itself have of it; with --remedy the same program is out of trouble.
Healthy programs (tests/targets/torch_healthy.py) give no alarm, whenever they are looked at.

tests/gpu/folklore.py does the same on a real GPU."""
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from concurrent import futures

import nursery
from core import SANITIZED
from harness import COMPLETE, PARTIAL, QUICK, SETUP, SOURCE, Skip, check, equal, main, report, report_json, schema_errors, simulated_python

EXAMPLES = os.path.join(SOURCE, "examples", "oom")
HEALTHY = os.path.join(SOURCE, "tests", "targets", "torch_healthy.py")
MIB = 1 << 20


class Device:
    """Where the programs run: on the simulated device, with these releases of PyTorch."""
    simulated = True
    beside = 0  # how many more programs there is room for, in processors and memory

    @staticmethod
    def versions():
        with open(os.path.join(SETUP, "torch-versions"), encoding="ascii") as file:
            found = [line.strip() for line in file if line.strip() and not line.startswith("#")]
        return found[-1:] if QUICK else found

    @staticmethod
    def python(version):
        return simulated_python(version)

    @staticmethod
    def start(version, argv, env):
        return nursery.child(version, argv, env=env)

    @staticmethod
    def environment(mib=768, **more):
        return dict(os.environ, SIMCUDA_DEVICES="1", SIMCUDA_CTX_MB="16", SIMCUDA_MEM_MB=str(mib), **more)

    @staticmethod
    def others(known):
        """What vramtap needs in its environment to be told of the device's other processes: a stand-in for NVML says what those have."""
        if "other" not in known:
            return None
        import usage
        host = usage.Host()
        used = known["total"] - known["free"]
        host.device(0, used // MIB, known["total"] // MIB + usage.RESERVED)
        host.process(known["pid"], (used - known["held"]) // MIB)
        host.process(known["other"], known["held"] // MIB)
        return host.env()


device = Device


def pytorch(data):
    """PyTorch's memory of the device by state, bytes."""
    totals = data["pytorch"]["allocators"][0]["totals"]
    return {"reserved": totals["reserved_bytes"], "hole": totals["largest_cached_bytes"], "awaiting_blocks": totals["awaiting_free"]["blocks"],
            **{key: totals[key]["bytes"] for key in ("allocated", "awaiting_free", "cached")}}


def notice(data, code):
    found = [n for n in data["owners"]["notices"] if n["code"] == code]
    equal(len(found), 1, f"notices of {code} among {data['owners']['notices']}")
    return found[0]


def headline(data, code):
    found = [h for h in data["headlines"] if h["code"] == code]
    equal(len(found), 1, f"headlines {code} among {[h['code'] for h in data['headlines']]}")
    return found[0]


def is_near(got, want, text):
    check(abs(got - want) <= want / 20, f"{text}:", got, "is not near", want)


def figures_agree(data, known):
    """What PyTorch says of itself at that moment."""
    totals, statistics = pytorch(data), data["pytorch"]["allocators"][0]["statistics"]
    equal((totals["allocated"], totals["reserved"]), (known["allocated"], known["reserved"]), "PyTorch's own sums")
    equal(statistics["ooms"], known["out_of_memory"], "PyTorch's own count of errors")
    equal(any(h["code"] == "out-of-memory" for h in data["headlines"]), known["out_of_memory"] > 0, "the headline of that")


def advice(data, rule):
    found = [a for a in data["advice"] if a["rule"] == rule]
    equal(len(found), 1, f"{rule} among {[a['rule'] for a in data['advice']]}")
    return found[0]


# ---- what is told of each: checks of the report and of what the program knows ----

def fragmentation(data, known):
    totals = pytorch(data)
    check(totals["cached"] > known["request"] > totals["hole"], "no request is too large for the holes", totals)
    check(totals["cached"] + known["free"] > known["request"] + known["free"], "there is enough in all")
    equal(len([b for s in data["pytorch"]["allocators"][0]["segments"] for b in s["blocks"]
               if b["state"] == "cached" and b["bytes"] > known["kept"] / known["holes"]]) >= known["holes"], True, "holes")


def other_processes(data, known):
    check(pytorch(data)["reserved"] < known["held"] / 4, "PyTorch in this process has little")
    used = data["cuda"]["usage"]
    # In a container the driver may have other numbers for processes.
    others = [p for d in used["devices"] for p in d["processes"] or () if not p["ours"] and (p["bytes"] or 0) >= known["held"] // MIB * MIB]
    equal(len(others), 1, f"the other process in {used}")
    check(known["held"] > known["request"], "the request would have had room", known)


def kept_in_list(data, known):
    freed = [f for f in data["owners"]["frees"] if f["name"] == "outputs"]
    equal([(f["bytes"], f["items"]) for f in freed], [(known["held"], known["items"])], "what goes with the list")


def kept_by_exception(data, known):
    found = notice(data, "held-by-exception")
    equal((found["bytes"], found["count"], found["alarm"], found["certain"]), (known["held"], known["errors"], True, True), "exceptions")
    check(found["name"].startswith("errors["), "the list that has them", found)


def kept_by_closure(data, known):
    freed = [f for f in data["owners"]["frees"] if "_forward_hooks" in f["name"]]
    equal([(f["bytes"], f["items"]) for f in freed], [(known["held"], known["hooks"])], "what goes with the hooks")


def kept_by_cycle(data, known):
    found = notice(data, "garbage")
    equal((found["bytes"], found["why"], found["alarm"]), (known["held"], "off", True), "garbage")


def retained_graph(data, known):
    found = notice(data, "kept-graphs")
    equal((found["name"], found["count"], found["why"], found["alarm"]), ("losses", known["items"], "grows", True), "graphs")
    # The first two steps are before the program began to count. Blocks are not all cut to size.
    is_near(found["bytes"], known["grown"] * known["items"] / (known["items"] - 2), "bytes that go with the list")


def missing_zero_grad(data, known):
    found = notice(data, "kept-gradients")
    is_near(found["bytes"], known["gradients"], "gradients")
    equal(found["alarm"], False, "they may be accumulated on purpose")


def batch_too_large(data, known):
    held = sum(c["bytes"] for c in data["owners"]["categories"] if c["category"] in ("exception", "activation"))
    check(held > pytorch(data)["allocated"] / 2, "activations are most of it", data["owners"]["categories"])
    shapes = {o["shape"] for o in owners_of(data) if o.get("shape") and o.get("category") == "exception"}
    check(any(shape.startswith(f"({known['batch']},") for shape in shapes), "the batch's size", shapes, known)


def needless_copies(data, known):
    state, models = notice(data, "state-copy"), notice(data, "equal-models")
    equal((state["name"], state["bytes"], models["bytes"]), ("best_state", known["model"], known["model"]), "copies")
    equal(state["bytes"] + models["bytes"] * (models["count"] - 1), known["copies"], "bytes of both")
    equal((state["alarm"], models["alarm"]), (False, False), "they may be there on purpose")


def pinned_memory(data, known):
    equal(data["host"]["pinned"]["pytorch_bytes"], known["pinned"], "what PyTorch has pinned, rounded up")
    check(data["host"]["pinned"]["pytorch_cached_bytes"] > known["needed"], "not in use", data["host"]["pinned"])
    text = headline(data, "pinned-cached")
    check("not in use" in text["text"], "the headline", text)


def dataset_on_gpu(data, known):
    found = notice(data, "data-set")
    equal((found["bytes"], found["type"], found["alarm"]), (known["held"], "TensorDataset", False), "the data set")


def cached_not_used(data, known):
    totals = pytorch(data)
    equal(known["got"], 0, "what the other process got")
    check(totals["allocated"] < totals["reserved"] / 10, "little is in use", totals)
    check(totals["cached"] > known["total"] / 2 > known["free"], "the cache has what the other one wants", totals, known)


def other_libraries(data, known):
    line = data["ledger"]["devices"][0]
    check(line["device_memory"]["bytes"] >= known["held"], "raw allocations", line)
    check(line["device_memory"]["ranges"] >= 4, "four of them", line)
    check(pytorch(data)["reserved"] < known["held"] / 4, "PyTorch has little")


def cupy_library(data, known):
    pools = [p for p in data["libpools"]["pools"] if p["library"] == "cupy" and p["held_bytes"]]
    equal([p["held_bytes"] for p in pools], [known["held"]], "CuPy's pool")
    equal([p["used_bytes"] for p in pools], [0], "nothing of it is in use")


def asynchronous_frees(data, known):
    totals = pytorch(data)
    equal((totals["awaiting_free"], totals["awaiting_blocks"]), (known["awaiting"], known["blocks"]), "blocks that await their free")


def other_stream(data, known):
    cached = [(b["bytes"], int(s["stream"], 16)) for s in data["pytorch"]["allocators"][0]["segments"] for b in s["blocks"]
              if b["state"] == "cached"]
    size, stream = max(cached)
    check(size > known["request"], "a hole that is large enough", cached, known)
    equal(stream, known["stream"], "the stream that has it")


def owners_of(data):
    return [b["owner"] for a in data["pytorch"]["allocators"] for s in a["segments"] for b in s["blocks"] if "owner" in b]


class Row:
    """A row of the folklore: what checks the report, and the rule and remedy that the report's advice must have (None: not yet)."""

    def __init__(self, look, rule=None, remedy=None, alarm=False, mib=768, args=(), program=None, whole=False):
        self.look, self.rule, self.remedy, self.alarm, self.mib, self.args = look, rule, remedy, alarm, mib, args
        self.whole = whole  # it takes the whole device
        self.program = program or look.__name__


ROWS = {row.look.__name__: row for row in (
    Row(fragmentation, "cache-in-pieces", "expandable-segments", mib=8192, whole=True),
    Row(other_processes, "others", "other-process", mib=8192, whole=True),
    Row(kept_in_list, "kept-items", "drop-items"),
    Row(kept_by_exception, "held-by-exception", "drop-exception", alarm=True),
    Row(kept_by_closure, "kept-items", "drop-items"),
    Row(kept_by_cycle, "garbage", "collect-garbage", alarm=True),
    Row(retained_graph, "kept-graphs", "detach", alarm=True),
    Row(missing_zero_grad, "kept-gradients", "zero-grad"),
    Row(batch_too_large, "batch-too-large", "smaller-batch", alarm=True, whole=True),
    Row(needless_copies, "state-copy", "host-copy"),
    Row(pinned_memory, "pinned-cache", "reuse-buffers"),
    Row(dataset_on_gpu, "data-set", "host-data-set"),
    Row(cached_not_used, "cache-kept", "empty-cache", mib=4096, whole=True),
    Row(other_libraries, "raw-allocations", "find-allocator", whole=True),
    Row(cupy_library, "library", "limit-library", args=("cupy",), program="other_libraries", whole=True),
    Row(asynchronous_frees, "awaiting-free", "synchronize-stream", mib=8192, whole=True),
    Row(other_stream, "stream-cache", "one-stream", whole=True),
)}


def words(row, *more):
    return [os.path.join(EXAMPLES, row.program + ".py"), *row.args, *more]


def command(row, version, *more):
    return device.python(version) + ["-B", "-W", "ignore", *words(row, *more)]


def in_trouble(name, version, environment):
    row = ROWS[name]
    with device.start(version, words(row), environment) as proc:
        known = json.loads(proc.ready_line.split(" ", 1)[1])
        if known.get("served"):
            raise Skip(f"{name}: the request was served: the simulated device knows nothing of other processes")
        env = device.others(known)
        for _ in range(5):
            begin = time.monotonic()
            data = report_json(proc.pid, env=env)
            took = time.monotonic() - begin
            if data["cuda"]["usage"]["state"] != "late":  # a busy machine, which the report says
                break
        text = report(proc.pid, "--width", "120", env=env)[1] if os.environ.get("VRAMTAP_SHOW") else None
    if device.simulated:
        equal(schema_errors(data), [], "errors of the schema")
    figures_agree(data, known)
    row.look(data, known)
    if row.rule:
        found = advice(data, row.rule)
        equal((found["remedy"]["code"], found["alarm"]), (row.remedy, row.alarm), "remedy, alarm")
    print(f"  {version} {name}: {[h['code'] for h in data['headlines'] if h['code'] != 'main-thread']}, advice "
          f"{[(a['rule'], a['certainty'], a['alarm']) for a in data['advice']]}, {1000 * took:.0f} ms")
    if text:
        print(re.sub("^", "    | ", "\n".join(text.splitlines()[:40]), flags=re.M))
    return data, known


class Remedied:
    """A child of the nursery's, as out_of_trouble() has it."""

    def __init__(self, row, version, environment):
        with nursery.child(version, words(row, "--remedy"), ready="DONE ", env=environment) as proc:
            self.line = proc.ready_line
            self.returncode = proc.wait(120)

    def communicate(self, timeout):
        del timeout
        return self.line.encode(), b""

    def kill(self):
        pass


def start_remedied(row, version, environment):
    # PyTorch reads its configuration when it is imported.
    if device.simulated and row.remedy != "expandable-segments":
        return Remedied(row, version, environment)
    return subprocess.Popen(command(row, version, "--remedy"), env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE)


def out_of_trouble(name, running):
    """The remedy, applied; returns what the program says."""
    try:
        out, err = running.communicate(timeout=120)
    finally:
        running.kill()
    lines = [line for line in out.decode().splitlines() if line.startswith("DONE ")]
    check(running.returncode == 0 and lines, f"{name}: the remedy does not help", running.returncode, out[-500:], err[-500:])
    known = json.loads(lines[0].split(" ", 1)[1])
    check(known["helped"] and not known["out_of_memory"], f"{name}: with the remedy", known)
    return known


def helps(name):
    row = ROWS[name]
    for version in device.versions():
        with tempfile.TemporaryDirectory() as where:
            def environment(number):
                return device.environment(row.mib, SIMCUDA_SHARED=os.path.join(where, str(number)))
            beside = start_remedied(row, version, environment(0)) if device.beside and not row.whole else None
            _, known = in_trouble(name, version, environment(1))
            if SANITIZED:  # of the programs' own remedy it tells nothing
                continue
            after = out_of_trouble(name, beside or start_remedied(row, version, environment(2)))
        print(f"    with the remedy: in use {known['allocated'] / MIB:.0f} → {after['allocated'] / MIB:.0f} MiB, reserved "
              f"{known['reserved'] / MIB:.0f} → {after['reserved'] / MIB:.0f} MiB, errors {known['out_of_memory']} → 0")


def test_fragmentation():
    helps("fragmentation")


def test_other_processes():
    helps("other_processes")


def test_dangling_tensors():
    for name in ("kept_in_list", "kept_by_exception", "kept_by_closure", "kept_by_cycle"):
        helps(name)


def test_retained_graph():
    helps("retained_graph")


def test_missing_zero_grad():
    helps("missing_zero_grad")


def test_batch_too_large():
    helps("batch_too_large")


def test_needless_copies():
    helps("needless_copies")


def test_pinned_memory():
    helps("pinned_memory")


def test_dataset_on_gpu():
    helps("dataset_on_gpu")


def test_cached_against_allocated():
    helps("cached_not_used")


def test_other_libraries():
    helps("other_libraries")


def test_cupy():
    if device.simulated:
        raise Skip("CuPy and PyTorch together are for a real GPU")
    if subprocess.run([*device.python(None), "-c", "import cupy"], capture_output=True, check=False).returncode:
        raise Skip("there is no CuPy")
    helps("cupy_library")


def test_asynchronous_frees():
    helps("asynchronous_frees")


def test_another_streams_cache():
    helps("other_stream")


def test_all_programs_are_tested():
    programs = {name[:-3] for name in os.listdir(EXAMPLES) if name.endswith(".py")} - {"scene"}
    equal(programs, {row.program for row in ROWS.values()}, "programs in examples/oom")


def healthy_programs():
    with open(HEALTHY, encoding="utf-8") as file:
        functions = re.split(r"^def ", file.read(), flags=re.M)[1:]
    return [text.split("(")[0] for text in functions if "\n    go_on(" in text]


def is_healthy(version, name):
    seen = set()
    with device.start(version, [HEALTHY, name], device.environment(4096)) as proc:
        for how in ((), ("--read-only",)) if SANITIZED else ((), ("--no-stop",), ("--read-only",)) if QUICK else ((), (), ("--no-stop",), ("--read-only",)):
            data = report_json(proc.pid, *how, expect=(COMPLETE, PARTIAL))
            equal([h for h in data["headlines"] if h["alarm"]], [], f"{version} {name} {how}: alarms")
            equal([a for a in data["advice"] if a["alarm"]], [], f"{version} {name} {how}: advice with an alarm")
            seen |= {h["code"] for h in data["headlines"]} | {a["rule"] for a in data["advice"]}
            time.sleep(0.05)
        # Loader workers that outlive the program would keep its memory for some seconds, which reports beside it would tell.
        os.killpg(proc.pid, signal.SIGKILL)
    print(f"  {version} {name}: {sorted(seen)}")


def test_healthy_programs_give_no_alarm():
    names = healthy_programs()
    check(len(names) >= 10, "healthy programs", names)
    for version in device.versions():
        with futures.ThreadPoolExecutor(1 + device.beside) as pool:
            for done in [pool.submit(is_healthy, version, name) for name in names if name != "warm_cache"]:
                done.result()
        is_healthy(version, "warm_cache")  # it has the whole device


if __name__ == "__main__":
    sys.exit(main(globals()))
