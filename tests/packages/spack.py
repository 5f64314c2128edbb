#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Spack's recipe, without Spack, which no registry has: it is run with a stand-in for spack.package, and what it says is compared with the
archive and with configure.

usage: spack.py     in a build tree where release/ has the archive"""
import glob
import hashlib
import os
import re
import subprocess
import sys
import types

SOURCE = os.environ.get("VRAMTAP_SOURCE_DIR", os.path.join(os.path.dirname(os.path.abspath(__file__)), "../.."))
# What such packages are called in Spack's own recipes (repos/spack_repo/builtin/packages), and what each has of ours.
KNOWN = {"c": None, "gmake": None, "pkgconfig": None, "elfutils": "elf_begin dwfl_begin", "libiberty": "cplus_demangle", "bzip2": "BZ2_bzDecompress",
         "jansson": "json_loadb", "xz": "lzma_auto_decoder", "zlib-api": "inflate", "zstd": "ZSTD_decompress"}


def run(recipe):
    """The class of the recipe, and the directives that it calls."""
    said = []
    module = types.ModuleType("spack.package")
    for name in ("version", "depends_on", "conflicts", "requires", "license", "variant", "maintainers"):
        setattr(module, name, lambda *args, _name=name, **options: said.append((_name, args, options)))
    module.AutotoolsPackage = type("AutotoolsPackage", (), {})
    module.__all__ = [name for name in vars(module) if not name.startswith("__")]
    sys.modules["spack"] = types.ModuleType("spack")
    sys.modules["spack.package"] = module
    scope = {}
    with open(recipe, encoding="utf-8") as file:
        exec(compile(file.read(), recipe, "exec"), scope)  # pylint: disable=exec-used
    return scope["Vramtap"](), said


def main():
    (recipe,), (archive,) = glob.glob("release/vramtap-*-spack.py"), glob.glob("release/vramtap-*.tar.xz")
    package, said = run(recipe)
    with open(archive, "rb") as file:
        digest = hashlib.sha256(file.read()).hexdigest()
    version = re.fullmatch(r"vramtap-(.*)\.tar\.xz", os.path.basename(archive))[1]
    assert [(args, options) for name, args, options in said if name == "version"] == [((version,), {"sha256": digest})], said

    # Each is known, and configure looks for what it has; nothing that configure looks for is missing.
    needs = {re.match(r"[a-z0-9-]+", args[0])[0] for name, args, _ in said if name == "depends_on"}
    assert needs == set(KNOWN), needs ^ set(KNOWN)
    with open(os.path.join(SOURCE, "configure.ac"), encoding="utf-8") as file:
        looked_for = set(re.findall(r"AC_SEARCH_LIBS\(\[(\w+)\]", file.read()))
    assert looked_for == set(" ".join(filter(None, KNOWN.values())).split()), looked_for

    text = subprocess.run([os.path.join(SOURCE, "configure"), "--help"], check=True, capture_output=True).stdout.decode()
    for argument in package.configure_args():
        name = re.match(r"--(?:with|enable|disable)-([a-z-]+)", argument)[1]
        assert re.search(rf"--(?:with|enable|disable)-{name}\b", text), argument
    url = package.url_for_version(version)
    assert url == "file://" + os.path.join(os.getcwd(), os.path.basename(archive)), url
    print(f"Spack's recipe: {version}, {len(needs)} dependencies, {len(package.configure_args())} arguments of configure")


if __name__ == "__main__":
    main()
