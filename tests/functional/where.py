#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What makes a report worth something a week later: host, time and zone, version, device, container, job and rank."""
import contextlib
import datetime
import json
import os
import re
import socket
import subprocess
import sys

from harness import COMPLETE, NOTHING, PARTIAL, VRAMTAP, Skip, check, check_schema, equal, main, report, scratch, target, vramtap
from usage import Host, busy, uuid_of

SAY = "import os, time; print('up', os.getpid(), flush=True); time.sleep(1000)"
ENDS = (COMPLETE, PARTIAL)
ANY = (*ENDS, NOTHING)  # there is nothing to compare in these


def version():
    return subprocess.run([VRAMTAP, "--version"], stdout=subprocess.PIPE, check=True).stdout.decode().split()[1]


def now():
    return datetime.datetime.now(datetime.timezone.utc)


def time_in(text):
    return datetime.datetime.strptime(re.search(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?= UTC)", text).group() + " +0000",
                                      "%Y-%m-%d %H:%M:%S %z")


@contextlib.contextmanager
def sleeper(**env):
    clean = {k: v for k, v in os.environ.items() if "RANK" not in k and "JOB" not in k}
    with target([sys.executable, "-c", SAY], ready="up", env=dict(clean, **env)) as proc:
        yield proc


def head(text):
    """The line with the host."""
    lines = [line for line in text.split("\n") if line.startswith("on ")]
    equal(len(lines), 1, "one line says where: " + text[:600])
    return lines[0]


def test_host_time_version():
    with sleeper() as proc:
        for command in ("report", "stacks"):
            for columns in ("60", "80", "160"):
                before = now().replace(microsecond=0)
                env = dict(os.environ, TZ="CET-1CEST,M3.5.0,M10.5.0/3", COLUMNS=columns)
                _, text, _ = vramtap(command, "--width", columns, str(proc.pid), env=env, expect=ENDS)
                check(all(len(line) <= int(columns) for line in text.split("\n")), "width", text)
                where = text[text.index("\non ") + 1:].split("\n\n")[0].replace("\n", " · ")
                check(where.startswith(f"on {socket.gethostname()}"[:30]) and where.endswith(f"vramtap {version()}"), "host and version", where)
                check(before <= time_in(where) <= now(), "time", where)
                clock, zone = re.search(r"\((?:\d{4}-\d\d-\d\d )?(\d\d:\d\d) (CES?T)\)", where).groups()
                ahead = datetime.timedelta(hours=2 if zone == "CEST" else 1)
                equal(clock, (time_in(where) + ahead).strftime("%H:%M"), "local time")
        # Another day there.
        hour = now().hour
        zone = "<+1345>-13:45" if hour >= 11 else "<-1200>12"
        _, text, _ = report(proc.pid, env=dict(os.environ, TZ=zone), expect=ENDS)
        there = now() + (datetime.timedelta(hours=13, minutes=45) if hour >= 11 else datetime.timedelta(hours=-12))
        check(f"({there:%Y-%m-%d} " in head(text), "its date there", head(text))
        _, text, _ = report(proc.pid, env=dict(os.environ, TZ="UTC"), expect=ENDS)
        check("(" not in head(text), "in UTC once is enough", head(text))


def test_json_and_saved():
    with sleeper(RANK="3", LOCAL_RANK="1", WORLD_SIZE="8", SLURM_JOB_ID="4711", POD_NAME="trainer-3") as proc:
        env = dict(os.environ, TZ="CET-1")
        path = os.path.join(scratch(), "saved.json")
        report(proc.pid, "--json", path, env=env, expect=ENDS)
        with open(path, encoding="ascii") as file:
            data = json.load(file)
        check_schema(data)
        equal(data["where"], {"host": socket.gethostname(), "zone": "CET", "utc_offset_min": 60}, "where")
        p = data["process"]
        equal((p["rank"], p["local_rank"], p["world_size"], p["job"], p["pod"], p["own_pid"]),
              (3, 1, 8, "slurm 4711", "trainer-3", None), "process")
        _, text, _ = report(proc.pid, env=env, expect=ENDS)
        for fact in ("rank 3 of 8", "job slurm 4711", "pod trainer-3"):
            check(fact in text, fact, text[:600])
        # Two saved reports: their host is in the comparison. Files of older versions have none, and load.
        diff = json.loads(vramtap("diff", "--json", "-", path, path, expect=ANY)[1])
        equal((diff["before"]["host"], diff["before"]["tool_version"], diff["after"]["job"]),
              (socket.gethostname(), version(), "slurm 4711"), "comparison")
        check(f" on {socket.gethostname()}:" in vramtap("diff", path, path, expect=ANY)[1], "in its text")
        del data["where"]
        for key in ("local_rank", "job", "pod", "own_pid"):
            del p[key]
        with open(path, "w", encoding="ascii") as file:
            json.dump(data, file)
        diff = json.loads(vramtap("diff", "--json", "-", path, path, expect=ANY)[1])
        equal((diff["before"]["host"], diff["before"]["job"], diff["before"]["rank"]), (None, None, 3), "an old file")


def test_launchers():
    for env, want in (({"OMPI_COMM_WORLD_RANK": "5", "OMPI_COMM_WORLD_SIZE": "16", "OMPI_COMM_WORLD_LOCAL_RANK": "1"}, (5, 1, 16)),
                      ({"PMI_RANK": "2", "PMI_SIZE": "4"}, (2, None, 4)),
                      ({"SLURM_PROCID": "1", "SLURM_NTASKS": "2", "SLURM_LOCALID": "0"}, (1, 0, 2)),
                      ({"RANK": "many", "WORLD_SIZE": "-4"}, (None, None, None))):
        with sleeper(**env) as proc:
            p = json.loads(report(proc.pid, "--json", "-", expect=ENDS)[1])["process"]
            equal((p["rank"], p["local_rank"], p["world_size"]), want, str(env))


def test_device():
    """Its UUID and PCI address beside its number: in the line where there is room, else below it."""
    with busy() as driver:
        driver("alloc 1 5000000")
        host = Host()
        host.device(0, 9000)
        host.device(1, 0)
        host.process(driver.pid, 500)
        for columns, want in ((160, r"GPU 0 .*free   01:00\.0 " + uuid_of(0)[:12] + "$"), (80, r"  PCI 00000000:01:00\.0, " + uuid_of(0) + "$")):
            text = host.text(driver.pid, "--color=never", f"--width={columns}")
            check(re.search(want, text, re.M), f"at {columns} columns", text[:1200])
        device = host.report(driver.pid)["cuda"]["usage"]["devices"][0]
        equal((device["ordinal"], device["uuid"], device["pci"]), (0, uuid_of(0), "00000000:01:00.0"), "JSON")


def test_container():
    """Its number there, which its own log has."""
    with contextlib.ExitStack() as stack:
        try:
            shell = stack.enter_context(target(["unshare", "--pid", "--fork", "--kill-child", sys.executable, "-c", SAY], ready="up"))
        except AssertionError:
            raise Skip("no pid namespace") from None
        with open(f"/proc/{shell.pid}/task/{shell.pid}/children", encoding="ascii") as file:
            pid = int(file.read().split()[0])
        equal(shell.ready_line, "up 1", "its own number")
        check(" there pid 1" in report(pid, "--color=never", "--width=200", expect=ENDS)[1], "text")
        equal(json.loads(report(pid, "--json", "-", expect=ENDS)[1])["process"]["own_pid"], 1, "JSON")


def test_watch():
    with busy() as driver:
        driver("alloc 1 5000000")
        _, text, _ = vramtap("watch", "--grow", "--every=1", "--timeout=2", str(driver.pid))
        check(head(text).startswith(f"on {socket.gethostname()}"[:30]) and head(text).endswith(f"vramtap {version()}"), "where", text)


def test_triage():
    with sleeper(RANK="0", WORLD_SIZE="1") as proc:
        directory = os.path.join(scratch(), "job")
        _, text, _ = vramtap("triage", "-o", directory, str(proc.pid), expect=ENDS)
        check(head(text).startswith(f"on {socket.gethostname()}"[:30]) and head(text).endswith(f"vramtap {version()}"), "where", head(text))


if __name__ == "__main__":
    main(globals())
