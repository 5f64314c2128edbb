#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the container image that a Containerfile describes, without a daemon, root or a network, the same bit for bit each time.

usage: image.py ARCHIVE CONTAINERFILE DIRECTORY NAME VALUE [NAME VALUE]...

DIRECTORY is what COPY copies from; NAME VALUE are arguments of the build (ARG). It knows what our Containerfile uses, and refuses the rest:
FROM scratch, ARG, LABEL, COPY of single files, ENV, ENTRYPOINT. Everything is dated SOURCE_DATE_EPOCH. ARCHIVE is an OCI archive (podman,
skopeo, containerd, apptainer) and has docker's own list, too, so that "docker load" of any age takes it.
"""
import gzip
import hashlib
import io
import json
import os
import re
import sys
import tarfile
import time

OCI = "application/vnd.oci.image."


def add_file(archive, name, body, mode, epoch):
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode, entry.mtime = len(body), mode, epoch
    archive.addfile(entry, io.BytesIO(body))


def tar_of(files, epoch):
    """files: name, mode, content."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, mode, body in files:
            add_file(archive, name, body, mode, epoch)
    return out.getvalue()


def instructions(text, values):
    """The instructions of a Containerfile: word, rest; arguments are replaced."""
    for line in text.splitlines():
        if line.strip() and not line.startswith("#"):
            word, _, rest = line.partition(" ")
            yield word, re.sub(r"\$(\w+)", lambda match: values[match[1]], rest.strip())


def describe(containerfile, directory, values):
    """The files of the image, and its configuration."""
    files, config = [], {"Env": [], "Entrypoint": [], "Labels": {}}
    with open(containerfile, encoding="utf-8") as file:
        text = file.read()
    for word, rest in instructions(text, values):
        if word == "FROM" and rest == "scratch" or word == "ARG" and rest in values:
            continue
        if word == "LABEL":
            name, _, value = rest.partition("=")
            config["Labels"][name] = json.loads(value)
        elif word == "ENV":
            config["Env"].append(rest)
        elif word == "ENTRYPOINT":
            config["Entrypoint"] = json.loads(rest)
        elif word == "COPY":
            name, place = rest.split()
            path = os.path.join(directory, name)
            with open(path, "rb") as file:
                files.append((place.lstrip("/"), 0o755 if os.access(path, os.X_OK) else 0o644, file.read()))
        else:
            sys.exit(f"image.py: {containerfile}: {word} {rest}: not known here")
    return files, config


class Layout:
    """The files of an OCI layout: blobs by their sums."""

    def __init__(self):
        self.files = [("oci-layout", 0o644, b'{"imageLayoutVersion":"1.0.0"}')]

    def add_json(self, name, value):
        self.files.append((name, 0o644, encode(value)))

    def blob(self, kind, body):
        digest = hashlib.sha256(body).hexdigest()
        self.files.append((f"blobs/sha256/{digest}", 0o644, body))
        return {"mediaType": OCI + kind, "digest": "sha256:" + digest, "size": len(body)}


def encode(value):
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def image(files, config, epoch):
    """The archive's files."""
    layout, version = Layout(), config["Labels"]["org.opencontainers.image.version"]
    layer = tar_of(files, epoch)
    created = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(epoch))
    layer_blob = layout.blob("layer.v1.tar+gzip", gzip.compress(layer, 9, mtime=0))
    config_blob = layout.blob("config.v1+json", encode({
        "architecture": "amd64", "os": "linux", "created": created, "config": config,
        "rootfs": {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(layer).hexdigest()]},
        "history": [{"created": created, "created_by": "make release"}]}))
    manifest = layout.blob("manifest.v1+json", encode({"schemaVersion": 2, "mediaType": OCI + "manifest.v1+json",
                                                      "config": config_blob, "layers": [layer_blob]}))
    manifest["annotations"] = {"org.opencontainers.image.ref.name": f"vramtap:{version}"}
    layout.add_json("index.json", {"schemaVersion": 2, "mediaType": OCI + "index.v1+json", "manifests": [manifest]})

    def path(blob):
        return "blobs/" + blob["digest"].replace(":", "/")
    layout.add_json("manifest.json", [{"Config": path(config_blob), "RepoTags": [f"vramtap:{version}"], "Layers": [path(layer_blob)]}])
    return layout.files


def main():
    if len(sys.argv) < 4 or len(sys.argv) % 2:
        sys.exit(__doc__)
    archive, containerfile, directory = sys.argv[1:4]
    epoch = int(os.environ["SOURCE_DATE_EPOCH"])
    files, config = describe(containerfile, directory, dict(zip(sys.argv[4::2], sys.argv[5::2])))
    body = tar_of(image(files, config, epoch), epoch)
    with open(archive, "wb") as file:
        file.write(body)


if __name__ == "__main__":
    main()
