# SPDX-License-Identifier: Apache-2.0
"""Readers of the profiles that vramtap writes: Go's pprof for its own format, and what speedscope's and folded files promise. All give
stacks in one form: [(name, file, line)], the outermost first."""
import collections
import gzip
import json
import os
import subprocess

from harness import CACHE, Skip, check, equal

PPROF = os.path.join(CACHE, "pprof", "pprof")

Sample = collections.namedtuple("Sample", "count bytes stack labels")
# full: a function's full name where name is a short one
Frame = collections.namedtuple("Frame", "name full file line module address")

# What the published description of the format asks for (speedscope.app, "Importing from custom sources"), in our own words; and that
# indices are of frames, which it only says in comments.
SPEEDSCOPE = {
    "type": "object",
    "required": ["$schema", "shared", "profiles"],
    "properties": {
        "$schema": {"const": "https://www.speedscope.app/file-format-schema.json"},
        "shared": {"type": "object", "required": ["frames"], "properties": {"frames": {"type": "array", "items": {
            "type": "object", "required": ["name"], "additionalProperties": False, "properties": {
                "name": {"type": "string", "minLength": 1}, "file": {"type": "string"}, "line": {"type": "integer", "minimum": 1},
                "col": {"type": "integer"}}}}}},
        "profiles": {"type": "array", "minItems": 1, "items": {
            "type": "object", "required": ["type", "name", "unit", "startValue", "endValue", "samples", "weights"],
            "additionalProperties": False, "properties": {
                "type": {"const": "sampled"}, "name": {"type": "string", "minLength": 1}, "unit": {"enum": [
                    "none", "nanoseconds", "microseconds", "milliseconds", "seconds", "bytes"]},
                "startValue": {"type": "number"}, "endValue": {"type": "number"},
                "samples": {"type": "array", "items": {"type": "array", "items": {"type": "integer", "minimum": 0}}},
                "weights": {"type": "array", "items": {"type": "number", "minimum": 0}}}}},
        "name": {"type": "string"}, "activeProfileIndex": {"type": "integer", "minimum": 0}, "exporter": {"type": "string"}},
    "additionalProperties": False,
}


def pprof(*args):
    if not os.path.exists(PPROF):
        raise Skip("pprof is not set up: sh tests/setup/pprof.sh")
    done = subprocess.run([PPROF, "-symbolize=none", *args], capture_output=True, check=False, timeout=60)
    out, err = done.stdout.decode("utf-8"), done.stderr.decode("utf-8", "replace")
    equal((done.returncode, [line for line in err.splitlines() if not line.startswith("Generating report in")]), (0, []), f"pprof {args}")
    return out


# ---- what pprof has read, as it writes it again; profile.proto's fields ----

def varint(data, at):
    """(a number, where the next thing is)"""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7f) << shift
        shift += 7
        if byte < 0x80:
            return value, at


def fields(data):
    """[(number, value)] of a message; a value is a number or bytes."""
    found, at = [], 0
    while at < len(data):
        key, at = varint(data, at)
        value, at = varint(data, at)
        if key & 7:
            equal(key & 7, 2, "type of a field")
            value, at = data[at:at + value], at + value
        found.append((key >> 3, value))
    return found


def parts(message, field):
    return [value for number, value in message if number == field]


def numbers(message, field):
    """A list of numbers, packed or one by one."""
    found = []
    for value in parts(message, field):
        at = 0
        while isinstance(value, bytes) and at < len(value):
            one, at = varint(value, at)
            found.append(one)
        found += [value] if isinstance(value, int) else []
    return found


class Message(dict):
    """The fields that are there once."""

    def __init__(self, data):
        super().__init__(fields(data))

    def __missing__(self, _):
        return 0


def read_pprof(path):
    """(samples, comments, {(file of a mapping, build id)}), as Go's reader understands the file."""
    again = path + ".again"
    pprof("-proto", f"-output={again}", path)
    with gzip.open(again) as file:
        profile = fields(file.read())
    strings = [text.decode("utf-8") for text in parts(profile, 6)]
    equal([(strings[t[1]], strings[t[2]]) for t in map(Message, parts(profile, 1))],
          [("inuse_objects", "count"), ("inuse_space", "bytes")], "sample types")
    equal(strings[dict(profile)[14]], "inuse_space", "what is shown at first")
    mappings = {m[1]: m for m in map(Message, parts(profile, 3))}
    functions = {f[1]: f for f in map(Message, parts(profile, 5))}
    locations = {}
    for data in parts(profile, 4):
        location = Message(data)
        mapping = mappings[location[2]]
        frames = locations[location[1]] = []
        for line in map(Message, parts(fields(data), 4)):
            function = functions[line[1]]
            name, full = strings[function[2]], strings[function[3]]
            frames.insert(0, Frame(name, full or name, strings[function[4]], line[2], strings[mapping[5]], location[3]))
    samples = []
    for sample in map(fields, parts(profile, 2)):
        count, size = numbers(sample, 2)
        labels = {strings[label[1]]: label[3] if label[3] else strings[label[2]] for label in map(Message, parts(sample, 3))}
        stack = [frame for at in reversed(numbers(sample, 1)) for frame in locations[at]]
        samples.append(Sample(count, size, tuple(stack), labels))
    return samples, [strings[c] for c in numbers(profile, 13)], {(strings[m[5]], strings[m[6]]) for m in mappings.values()}


# ---- the others ----

def read_speedscope(text):
    """{name of a profile: {stack: weight}} and the document."""
    document = json.loads(text)
    try:
        import jsonschema
    except ImportError:
        raise Skip("python3-jsonschema is missing") from None
    jsonschema.Draft202012Validator(SPEEDSCOPE).validate(document)
    frames = [(f["name"], f.get("file", ""), f.get("line", 0)) for f in document["shared"]["frames"]]
    profiles = {}
    for profile in document["profiles"]:
        check(profile["name"] not in profiles, "two profiles have one name", profile["name"])
        equal(len(profile["samples"]), len(profile["weights"]), "weights")
        equal((profile["startValue"], profile["endValue"]), (0, sum(profile["weights"])), "the sum")
        stacks = collections.Counter()
        for sample, weight in zip(profile["samples"], profile["weights"]):
            stacks[tuple(frames[i] for i in sample)] += weight
        profiles[profile["name"]] = stacks
    return profiles, document


def read_folded(text):
    """{(frame, ...): weight}"""
    stacks = {}
    for line in text.splitlines():
        stack, _, weight = line.rpartition(" ")
        check(stack and all(stack.split(";")), "an empty frame", line)
        check(tuple(stack.split(";")) not in stacks, "a stack has two lines", line)
        stacks[tuple(stack.split(";"))] = int(weight)
    return stacks
