# SPDX-License-Identifier: Apache-2.0
"""Reads metrics as strictly as node_exporter's textfile collector, and as Prometheus' own library for Python does, if that is there."""
import math
import os
import random
import re

SOURCE = os.environ.get("VRAMTAP_SOURCE_DIR", os.path.join(os.path.dirname(__file__), "..", ".."))
SAMPLE = re.compile(r'([a-z][a-z0-9_]*)(?:\{((?:[a-z_]+="(?:[^"\\\n]|\\[\\"n])*",?)*)\})? (-?[0-9]+(?:\.[0-9]+)?)')
LABEL = re.compile(r'([a-z_]+)="((?:[^"\\\n]|\\[\\"n])*)"(?:,|$)')
RESERVED = {"job", "instance", "le", "quantile"}  # Prometheus' own


def by_library(text):
    """{(name, labels): value}; None without the library."""
    try:
        from prometheus_client.parser import text_string_to_metric_families
    except ImportError:
        return None
    return {(s.name, frozenset(s.labels.items())): s.value for f in text_string_to_metric_families(text) for s in f.samples}


def parse(data):
    """Of the bytes of a file: {name: {labels: value}}, labels as a frozenset of pairs; whatever the collector would refuse fails."""
    text = data.decode("utf-8")
    assert text.endswith("\n") and "\r" not in text and "\x1b" not in text
    families, kinds, name = {}, {}, None
    lines = iter(text[:-1].split("\n"))
    for line in lines:
        if line.startswith("# HELP "):
            name, words = line[7:].split(" ", 1)
            assert name not in families and words and "\\" not in words, line
            families[name] = {}
            kind = next(lines)
            assert kind.startswith(f"# TYPE {name} "), kind
            kinds[name] = kind.rsplit(" ", 1)[1]
            assert kinds[name] in ("gauge", "counter") and (kinds[name] == "counter") == name.endswith("_total"), kind
            continue
        match = SAMPLE.fullmatch(line)
        assert match and match.group(1) == name, line
        labels = LABEL.findall(match.group(2) or "")
        assert ",".join(f'{k}="{v}"' for k, v in labels) == (match.group(2) or ""), line
        keys = [k for k, _ in labels]
        assert len(keys) == len(set(keys)) and not RESERVED & set(keys), line
        assert all(len(v.encode()) <= 1100 for _, v in labels), line
        key = frozenset((k, re.sub(r"\\(.)", lambda m: "\n" if m[1] == "n" else m[1], v)) for k, v in labels)
        assert key not in families[name], f"twice: {line}"
        families[name][key] = float(match.group(3))
    assert all(families.values()), "a family without samples"
    for name, samples in families.items():
        assert name.startswith("vramtap_") and len({frozenset(k for k, _ in labels) for labels in samples}) == 1, f"labels of {name}"
        assert all(value == 1 for value in samples.values()) or not name.endswith("_info"), name
        assert all(math.isfinite(value) for value in samples.values()), name
    theirs = by_library(text)
    assert theirs is None or theirs == {(name, labels): value for name, samples in families.items() for labels, value in samples.items()}
    return families


def select(families, name, *keys, **labels):
    """{values of the keys: value} of the samples of a family that have these labels."""
    found = {}
    for key, value in families.get(name, {}).items():
        have = dict(key)
        if all(have.get(k) == str(v) for k, v in labels.items()):
            found[tuple(have[k] for k in keys) if len(keys) > 1 else have[keys[0]] if keys else ()] = value
    return found


def documented(page):
    """The families that a manual page lists."""
    with open(os.path.join(SOURCE, "doc", page), encoding="utf-8") as file:
        return set(re.findall(r"^\.It (?:Dv|Li|Cm) (vramtap_[a-z_]+)", file.read(), re.M))


def in_sources(path):
    """The families that a source has in its table."""
    with open(os.path.join(SOURCE, path), encoding="utf-8") as file, \
            open(os.path.join(SOURCE, "src/prometheus/prometheus.h"), encoding="utf-8") as header:
        text, shared = file.read(), dict(re.findall(r'#define (VT_PROM_[A-Z]+) "(vramtap_[a-z_]+)"', header.read()))
    return set(re.findall(r'\{ \{ "(vramtap_[a-z_]+)"', text)) | {shared[name] for name in re.findall(r"\{ \{ (VT_PROM_[A-Z]+) \}", text)}


# ---- a job's metrics against the JSON of the same triage ----

MOST = 1024  # processes, and devices, with series of their own


def same(what, ours, theirs):
    if ours != theirs:
        raise AssertionError(f"{what}: metrics {ours}"[:1000] + f", JSON {theirs}"[:1000])


def members_of(ranges):
    return [i for first, last in ranges for i in range(first, last + 1)]


def is_rank(m):
    return m["in_job"] and m["role"] == "rank"


def check_found(metrics, job):
    members, found = job["members"], job["found"]
    ranks = [m for m in members if is_rank(m)]
    states = select(metrics, "vramtap_job_ranks", "state")
    same("ranks", sum(states.values()), len(ranks))
    for state, n in states.items():
        same(f"ranks in {state}", n, sum((m["does"] or "undecided") == state for m in ranks))
    for role, n in select(metrics, "vramtap_job_processes", "role").items():
        same(f"processes as {role}", n, sum(m["in_job"] and m["role"] == role for m in members))
    for name, verdicts in (("verdict", found["verdicts"]), ("alarm", [v for v in found["verdicts"] if v["alarm"]])):
        codes = select(metrics, f"vramtap_job_{name}", "code")
        assert len(codes) > 30 and set(codes.values()) <= {0, 1}
        same(name, {code for code, value in codes.items() if value}, {v["code"] for v in verdicts})
    stuck = {True: set(), False: set()}
    for chain in found["causes"]:
        stuck[chain["certain"]].update(i for link in chain["links"] for i in members_of(link["members"]) if is_rank(members[i]))
    same("stuck", select(metrics, "vramtap_job_stuck_ranks", "certain"),
         {"true": len(stuck[True]), "false": len(stuck[False] - stuck[True])})
    same("complete", select(metrics, "vramtap_last_run_complete", command="triage")[()], found["completeness"] == "complete")
    for name, key in (("size", "total"), ("free", "free"), ("outside", "outside")):
        same(name, select(metrics, f"vramtap_job_device_memory_{name}_bytes", "host", "device"),
             {(d["host"], d["name"]): d[f"{key}_bytes"] for d in found["devices"][:MOST] if f"{key}_bytes" in d})


def check_members(metrics, members):
    for m in members:
        who = {"host": m["host"] or "", "pid": m["pid"], "rank": m["rank"] if is_rank(m) and m["rank"] is not None else ""}
        info = select(metrics, "vramtap_job_process_info", "role", "in_job", "name", **who)
        same("identity", list(info), [(m["role"], str(m["in_job"]).lower(), m["name"] or "")])
        same("state", select(metrics, "vramtap_job_process_state", "state", **who), {m["does"] or "undecided": 1})
        same("outlier", select(metrics, "vramtap_job_process_outlier", **who), {(): m["outlier"]})
        same("stop", round(select(metrics, "vramtap_job_process_stopped_seconds", **who)[()] * 1e3, 3), m["stopped_ms"])
        for name, key in (("pytorch_reserved", "reserved"), ("pytorch_allocated", "allocated"), ("pytorch_cached", "cached"), ("memory", "counted")):
            same(name, select(metrics, f"vramtap_job_process_{name}_bytes", "ordinal", "uuid", **who),
                 {(str(d["ordinal"]), d["uuid"] or ""): d[f"{key}_bytes"] for d in m["memory"] if f"{key}_bytes" in d})
        for d in m["memory"]:
            lines = dict(d.get("ledger", {}))
            if lines and "rest_bytes" in d:
                lines["rest"] = d["rest_bytes"]
            same("ledger", select(metrics, "vramtap_job_process_ledger_bytes", "line", ordinal=d["ordinal"], uuid=d["uuid"] or "", **who), lines)
        owners = {c: n for c, n in select(metrics, "vramtap_job_process_owner_bytes", "category", **who).items() if n}
        same("owners", owners, m.get("owners", {}).get("bytes", {}))
        for name, key in (("allocation_retries", "retries"), ("out_of_memory_errors", "failed")):
            same(name, list(select(metrics, f"vramtap_job_process_{name}_total", **who).values()),
                 [m["requests"][key]] if key in m["requests"] else [])


def same_job(metrics, job):
    check_found(metrics, job)
    check_members(metrics, random.Random(18).sample(job["members"][:MOST], min(20, len(job["members"]), MOST)))
    same("omitted", select(metrics, "vramtap_job_omitted_processes"), {(): max(0, len(job["members"]) - MOST)})
    same("processes", len(metrics["vramtap_job_process_info"]), min(MOST, len(job["members"])))
    ids = {value for samples in metrics.values() for labels in samples for key, value in labels if key == "job_id"}
    assert len(ids) == 1 and ids != {""}, ids
