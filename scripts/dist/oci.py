#!/usr/bin/env python3
"""oci.py OUT VERSION EPOCH ARCH=ROOT...: makes an OCI image (image-spec 1.1, layout in a tar) from one tree per
processor (amd64, arm64).

Needs no other tool. The same trees give an identical file: names are sorted, times are EPOCH, the owner is 0."""

import gzip
import hashlib
import io
import json
import os
import sys
import tarfile
from datetime import datetime, timezone

OUT, VERSION, EPOCH = sys.argv[1], sys.argv[2], int(sys.argv[3])
CREATED = datetime.fromtimestamp(EPOCH, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
blobs = {}


def blob(data, media_type, **more):
    digest = hashlib.sha256(data).hexdigest()
    blobs[digest] = data
    return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(data), **more}


def as_json(value):
    return json.dumps(value, separators=(",", ":"), sort_keys=True).encode()


def tar(entries):
    """A tar archive of entries (name, mode, bytes or None for a directory)."""
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, mode, data in entries:
            about = tarfile.TarInfo(name)
            about.mode, about.mtime, about.size = mode, EPOCH, len(data or b"")
            about.type = tarfile.DIRTYPE if data is None else tarfile.REGTYPE
            archive.addfile(about, io.BytesIO(data or b""))
    return raw.getvalue()


def tree(root):
    entries = []
    for at, directories, files in os.walk(root):
        directories.sort()
        inside = os.path.relpath(at, root)
        if inside != ".":
            entries.append((inside, 0o755, None))
        for name in sorted(files):
            path = os.path.join(at, name)
            with open(path, "rb") as file:
                entries.append((os.path.normpath(os.path.join(inside, name)), os.stat(path).st_mode & 0o777, file.read()))
    return entries


def image(arch, root):
    # The image needs a home and a directory for temporary files: without CAP_DAC_OVERRIDE, no process can create them
    # in a root directory that is not writable.
    layer = tar([("root", 0o700, None), ("tmp", 0o1777, None), *tree(root)])
    packed = io.BytesIO()
    with gzip.GzipFile(fileobj=packed, mode="wb", compresslevel=9, mtime=0, filename="") as out:
        out.write(layer)
    config = blob(as_json({
        "created": CREATED, "architecture": arch, "os": "linux",
        "config": {"Entrypoint": ["/usr/bin/netcliff"], "Cmd": ["--help"], "Env": ["PATH=/usr/bin", "HOME=/root"],
                   "Labels": {"org.opencontainers.image.version": VERSION, "org.opencontainers.image.title": "netcliff",
                              "org.opencontainers.image.licenses": "(MIT OR Apache-2.0) AND GPL-2.0-only"}},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
        "history": [{"created": CREATED, "created_by": "scripts/dist.sh"}],
    }), "application/vnd.oci.image.config.v1+json")
    layers = [blob(packed.getvalue(), "application/vnd.oci.image.layer.v1.tar+gzip")]
    manifest = {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json", "config": config, "layers": layers}
    return blob(as_json(manifest), manifest["mediaType"], platform={"architecture": arch, "os": "linux"})


def main():
    images = [image(*argument.split("=", 1)) for argument in sys.argv[4:]]
    index_type = "application/vnd.oci.image.index.v1+json"
    every = blob(as_json({"schemaVersion": 2, "mediaType": index_type, "manifests": images}), index_type)
    # podman load and docker load name the image by this annotation.
    every["annotations"] = {"org.opencontainers.image.ref.name": f"netcliff:{VERSION}"}
    index = as_json({"schemaVersion": 2, "mediaType": index_type, "manifests": [every]})
    entries = [("oci-layout", 0o644, as_json({"imageLayoutVersion": "1.0.0"})), ("index.json", 0o644, index),
               ("blobs", 0o755, None), ("blobs/sha256", 0o755, None)]
    entries += [(f"blobs/sha256/{digest}", 0o644, data) for digest, data in sorted(blobs.items())]
    with open(OUT, "wb") as out:
        out.write(tar(entries))


main()
