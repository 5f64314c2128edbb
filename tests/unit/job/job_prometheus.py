#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds the metrics of jobs made by hand, and of a hostile one, against their JSON."""
import json
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "functional"))
from prometheus_text import by_library, documented, in_sources, parse, same, same_job, select  # noqa: E402

from job_schema import DEMO, HANGS  # noqa: E402


def demo(*args):
    return subprocess.run([DEMO, *map(str, args)], check=True, stdout=subprocess.PIPE).stdout


def check(*args):
    metrics, job = parse(demo("--prometheus", *args)), json.loads(demo("--json", *args))
    same_job(metrics, job)
    return metrics


def check_hostile():
    """Names that want to be samples, two processes that look the same, and one that is of no job that is known."""
    job = json.loads(demo("--json", "imbalance", 4, 1, 1))
    evil = 'x"} 1\nvramtap_job_ranks 7\\\x1b[2J\u202e' + "y" * 10000
    for m in job["members"]:
        m["host"], m["name"], m["pod"], m["job"], m["container"] = evil, evil, evil, None, evil
        m["memory"] = [dict(d, uuid=evil) for d in m["memory"]]
    twin = dict(job["members"][0], system="another")
    job["members"].append(twin)
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(job, file)
        file.flush()
        data = demo("--prometheus", "--load", file.name)
    metrics = parse(data)
    assert len(data) < 1 << 20, len(data)
    assert select(metrics, "vramtap_job_ranks", "job_id") == {"pid 4000": 0}, select(metrics, "vramtap_job_ranks", "job_id")
    assert all(len(value) <= 560 for samples in metrics.values() for labels in samples for _, value in labels)


def main():
    everything = set()
    for hang in HANGS:
        everything |= set(check(hang, 8, 3, 2, 6, 3))
    everything |= set(check("none", 2000, 0, 1))
    check_hostile()
    families = in_sources("src/job/prometheus/prometheus.c")
    same("the manual", documented("vramtap-triage.1"), families)
    assert everything <= families, everything - families
    print("not seen in any:", families - everything)
    if by_library("") is None:
        print("python3's prometheus_client is missing: only our own reader checked them (apt-get install python3-prometheus-client)")
        sys.exit(77)


main()
