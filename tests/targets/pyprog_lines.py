# SPDX-License-Identifier: Apache-2.0
"""pyprog_lines.py PATH: compiles much of the standard library and writes, for every instruction of every function, "CODE
LASTI LINE" to PATH, as the interpreter itself decodes its line tables; "ready TID", then waits for standard input to end."""
import dis
import os
import sys
import sysconfig
import threading
import types

MODULES = ("argparse ast asyncio/base_events asyncio/tasks calendar collections/__init__ configparser datetime decimal "
           "difflib email/_header_value_parser enum fractions functools html/entities http/client inspect json/decoder "
           "keyword locale logging/__init__ nntplib optparse os pickle pickletools platform random re shutil socket "
           "ssl stat statistics string subprocess tarfile tempfile textwrap threading tokenize traceback typing "
           "unittest/mock urllib/parse uuid weakref zipfile").split()


def functions(code):
    yield code
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            yield from functions(const)


def lines(code):
    """Pairs of instruction offset and line, 0 for none."""
    yield -1, code.co_firstlineno
    if hasattr(code, "co_lines"):
        for start, end, line in code.co_lines():
            for offset in range(start, end, 2):
                yield offset, line or 0
        return
    starts = dict(dis.findlinestarts(code))
    line = code.co_firstlineno
    for offset in range(0, len(code.co_code), 2):
        line = starts.get(offset, line)
        yield offset, line


def main():
    keep = []
    library = sysconfig.get_paths()["stdlib"]
    for module in MODULES:
        path = os.path.join(library, module + ".py")
        if os.path.exists(path):
            with open(path, "rb") as source:
                keep += functions(compile(source.read(), path, "exec"))
    with open(sys.argv[1], "w") as out:
        for code in keep:
            out.writelines("%x %d %d\n" % (id(code), lasti, line) for lasti, line in lines(code))
    print("ready %d" % threading.get_native_id(), flush=True)
    sys.stdin.read()


main()
