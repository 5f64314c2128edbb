# SPDX-License-Identifier: Apache-2.0
"""No circles between the files of a room: of two files, one may call the other, but not each the other, by whatever way
round. What the object files define and use shows which calls which; a room is a folder of src or helper. Assembly and the C that
it calls and that calls it are two halves of one file.

A circle fails with the functions that make it. So does a source that has no object: what was not looked at is no proof."""
import collections
import os
import re
import subprocess
import sys

# Rooms that still have a circle, and why. A room here that has none fails: remove it.
EXCEPTIONS = {}

# Sources that are built only where there is no recorder (VT_RECORDS, configure.ac).
WITHOUT = {"src/inject/without_recorder"}

# "NAME.o" is the program's; those of the freestanding parts say which: "NAME.helper.o". Tests compile some of the sources
# again, "TEST-NAME.o": these are not looked at.
OBJECT = re.compile(r"(?P<name>[A-Za-z0-9_]+)(\.(asker|helper|recorder|stub))?\.o$")
SOURCE = re.compile(r"(?P<name>[A-Za-z0-9_]+)\.[cS]$")
ASSEMBLY = re.compile(r"(?P<name>[A-Za-z0-9_]+)\.S$")


def files(root, pattern):
    """{room: {name of a source: [paths]}} of the files below src and helper that match."""
    found = collections.defaultdict(lambda: collections.defaultdict(list))
    for top in ("src", "helper"):
        for folder, _, names in os.walk(os.path.join(root, top)):
            for name in sorted(names):
                match = pattern.match(name)
                if match:
                    found[os.path.relpath(folder, root)][match["name"]].append(os.path.join(folder, name))
    return found


def symbols(paths):
    """{path: (what the object defines for others, what it uses of others)}"""
    table = {path: (set(), set()) for path in paths}
    command = [os.environ.get("NM", "nm"), "-g", "-P", "-A", *paths]
    for line in subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines():
        path, fields = line.split(": ", 1)
        symbol, kind = fields.split()[:2]
        table[path][kind in "Uwv"].add(symbol)
    return table


def calls_of(objects, table):
    """{caller: {callee: functions}} between the sources of one room."""
    homes = collections.defaultdict(set)
    for name, paths in objects.items():
        for symbol in set().union(*(table[path][0] for path in paths)):
            homes[symbol].add(name)
    calls = {name: collections.defaultdict(set) for name in objects}
    for name, paths in objects.items():
        for symbol in set().union(*(table[path][1] for path in paths)):
            for home in homes.get(symbol, set()) - {name}:
                calls[name][home].add(symbol)
    return calls


def with_halves_joined(calls, assembly):
    """The same, each source of assembly joined with those that it calls and that call it: "entry+hook"."""
    whole = {name: {name} for name in calls}
    for name in assembly & set(calls):
        for other in [other for other in calls[name] if name in calls[other]]:
            joined = whole[name] | whole[other]
            whole.update(dict.fromkeys(joined, joined))
    names = {name: "+".join(sorted(whole[name])) for name in calls}
    out = {name: collections.defaultdict(set) for name in names.values()}
    for name, callees in calls.items():
        for callee, functions in callees.items():
            if names[name] != names[callee]:
                out[names[name]][names[callee]] |= functions
    return out


def reached(calls, start):
    """The files that start calls, directly or by way of others."""
    seen, todo = set(), [start]
    while todo:
        for callee in calls[todo.pop()]:
            if callee not in seen:
                seen.add(callee)
                todo.append(callee)
    return seen


def circles_of(calls):
    """Sets of files that all reach each other."""
    reach = {name: reached(calls, name) for name in calls}
    return {frozenset(other for other in reach[name] if name in reach[other]) for name in calls if name in reach[name]}


def is_of_another(room, name, built):
    """Whether it is of an architecture that is not built: another folder of "arch" beside this one has it."""
    above = os.path.dirname(room)
    return f"{room}/{name}" in WITHOUT or os.path.basename(above) == "arch" and any(
        os.path.dirname(other) == above and other != room and name in built[other] for other in list(built))


def check(source, build, exceptions):
    """Complaints, one a line."""
    complaints = []
    sources, assembly, built = files(source, SOURCE), files(source, ASSEMBLY), files(build, OBJECT)
    # An older build tree still has objects of sources that are gone.
    rooms = {room: {name: built[room][name] for name in sorted(sources[room]) if name in built[room]}
             for room in sorted(sources)}
    if not any(rooms.values()):
        return [f"{source}: no source with an object in {build}"]
    table = symbols([path for objects in rooms.values() for paths in objects.values() for path in paths])
    for room, objects in rooms.items():
        complaints += [f"{room}/{name}: no object of it in the build" for name in sorted(sources[room].keys() - objects)
                       if not is_of_another(room, name, built)]
        calls = with_halves_joined(calls_of(objects, table), set(assembly[room]))
        circles = circles_of(calls)
        if room in exceptions:
            if not circles:
                complaints.append(f"tests/unit/circles.py: {room} has no circle any more, remove it from EXCEPTIONS")
            continue
        for circle in sorted(map(sorted, circles)):
            complaints.append(f"{room}: a circle of {len(circle)} files")
            for name in circle:
                for callee in sorted(calls[name].keys() & set(circle)):
                    complaints.append(f"    {name} uses of {callee}: {', '.join(sorted(calls[name][callee]))}")
    complaints += [f"tests/unit/circles.py: there is no room {room}" for room in sorted(set(exceptions) - set(sources))]
    return complaints


if __name__ == "__main__":
    found = check(os.environ["VRAMTAP_SOURCE_DIR"], os.environ["VRAMTAP_BUILD_DIR"], EXCEPTIONS)
    print("\n".join(found))
    sys.exit(bool(found))
