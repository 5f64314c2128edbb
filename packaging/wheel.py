#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the Python wheel: the static program as its script, with the man pages and completions.

usage: wheel.py DIRECTORY PROGRAM SHARE VERSION SOURCE LICENSES [URL]

DIRECTORY gets the wheel. PROGRAM is the static program, SHARE the share/ of what "make install" installs, SOURCE the source tree (README,
licenses), LICENSES says which these are, as SPDX does, URL is the project's home. Everything in it is dated SOURCE_DATE_EPOCH. There is nothing to import, so a build backend would have
nothing to do: a wheel is a zip file with a list of what is in it (packaging.python.org, "Binary distribution format").
"""
import base64
import hashlib
import os
import sys
import time
import zipfile

# The program asks nothing of the system's C library. manylinux1 is the oldest name, the only one that pip 9 to 18 (RHEL 8, Debian 10) take;
# musllinux is for Alpine.
PLATFORMS = ["manylinux1_x86_64", "manylinux_2_5_x86_64", "musllinux_1_1_x86_64"]
# Of what "make install" puts below share/.
SHARED = ["man", "bash-completion", "zsh", "fish"]
CLASSIFIERS = [
    "Environment :: Console",
    "Environment :: GPU :: NVIDIA CUDA",
    "Intended Audience :: Developers",
    "Intended Audience :: System Administrators",
    "Operating System :: POSIX :: Linux",
    "Programming Language :: C",
    "Topic :: Software Development :: Debuggers",
    "Topic :: System :: Monitoring",
]


def read(path):
    with open(path, "rb") as file:
        return file.read()


def license_files(source):
    """vramtap's own, and those of the libraries in the program."""
    return ["LICENSE", "NOTICES.md"] + sorted(f"licenses/{name}" for name in os.listdir(os.path.join(source, "licenses")))


def metadata(version, source, licenses, url):
    lines = ["Metadata-Version: 2.4", "Name: vramtap", f"Version: {version}",
             "Summary: What uses a live CUDA process's GPU memory, which code allocated it, and where the process is stuck",
             f"License-Expression: {licenses}"]
    lines += [f"License-File: {name}" for name in license_files(source)]
    lines += [f"Project-URL: Homepage, {url}"] if url else []
    lines += ["Keywords: cuda,gpu,memory,pytorch,debugger,profiler,hang"]
    lines += [f"Classifier: {name}" for name in CLASSIFIERS]
    lines += ["Description-Content-Type: text/markdown; charset=UTF-8; variant=GFM", "", ""]
    return "\n".join(lines).encode() + read(os.path.join(source, "README.md"))


def tags():
    return "".join(f"Tag: py3-none-{platform}\n" for platform in PLATFORMS)


def files(program, share, version, source, licenses, url):
    """What is in the wheel, in its order: name, mode, content."""
    data, info = f"vramtap-{version}.data", f"vramtap-{version}.dist-info"
    yield f"{data}/scripts/vramtap", 0o755, read(program)
    for part in SHARED:
        top = os.path.join(share, part)
        found = [os.path.join(directory, name) for directory, _, names in os.walk(top) for name in names]
        if not found:
            sys.exit(f"wheel.py: nothing below {top}")
        for path in sorted(found):
            yield f"{data}/data/share/{os.path.relpath(path, share)}", 0o644, read(path)
    for name in license_files(source):
        yield f"{info}/licenses/{name}", 0o644, read(os.path.join(source, name))
    yield f"{info}/METADATA", 0o644, metadata(version, source, licenses, url)
    yield f"{info}/WHEEL", 0o644, ("Wheel-Version: 1.0\nGenerator: vramtap\nRoot-Is-Purelib: false\n" + tags()).encode()


def write(path, content, when):
    record = next(name.split("/")[0] for name, _, _ in content if ".dist-info/" in name) + "/RECORD"
    lines = []
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        def add(name, mode, body):
            entry = zipfile.ZipInfo(name, when)
            entry.create_system = 3  # Unix: the attributes are a mode
            entry.external_attr = (0o100000 | mode) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, body)

        for name, mode, body in content:
            add(name, mode, body)
            digest = base64.urlsafe_b64encode(hashlib.sha256(body).digest()).rstrip(b"=").decode()
            lines.append(f"{name},sha256={digest},{len(body)}\n")
        add(record, 0o644, ("".join(lines) + f"{record},,\n").encode())


def main():
    if len(sys.argv) not in (7, 8):
        sys.exit(__doc__)
    directory, program, share, version, source, licenses = sys.argv[1:7]
    url = "".join(sys.argv[7:])
    # A zip file knows no time before 1980; some builders say 1970.
    when = max(time.gmtime(int(os.environ["SOURCE_DATE_EPOCH"]))[:6], (1980, 1, 1, 0, 0, 0))
    name = f"vramtap-{version}-py3-none-{'.'.join(PLATFORMS)}.whl"
    write(os.path.join(directory, name), list(files(program, share, version, source, licenses, url)), when)


if __name__ == "__main__":
    main()
