"""Images that programs read in more ways than one: every digest right, the documents forged."""

from __future__ import annotations

import copy
import hashlib
import json
import tarfile
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.altered import Parts, info, streamed

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar"
AMD64 = {"os": "linux", "architecture": "amd64"}
# What a container of a forged image would start with.
EVIL = {"Entrypoint": ["/bin/evil"], "User": "mallory", "Volumes": {"/nix/store": {}}}

Document = dict[str, Any]


@dataclass
class Forgery:
    """An OCI image in the making; blobs are added as the documents that name them are made."""

    parts: Parts
    config: Document = field(default_factory=dict)
    blobs: dict[str, bytes] = field(default_factory=dict)
    layers: list[Document] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.config = copy.deepcopy(self.parts.config)
        self.layers = [self.blob(layer, LAYER) for layer in self.parts.layers]
        self.config["rootfs"]["diff_ids"] = [one["digest"] for one in self.layers]

    def blob(self, data: bytes, kind: str) -> Document:
        """Add a blob, and return the descriptor that names it."""
        digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
        self.blobs[digest] = data
        return {"mediaType": kind, "digest": digest, "size": len(data)}

    def document(self, content: Document | bytes, kind: str) -> Document:
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        return self.blob(data, kind)

    def manifest(self, config: Document | bytes | None = None, **more: Any) -> Document:
        """Return a manifest of the layers, with a configuration and whatever else is wanted."""
        return {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": self.document(config or self.config, CONFIG),
            "layers": self.layers,
            **more,
        }

    def evil_manifest(self) -> Document:
        """Return a manifest of the image as whoever forged it would have it."""
        evil = copy.deepcopy(self.config)
        evil["config"] |= EVIL
        return self.manifest(evil)

    def index(self, *entries: Document) -> Document:
        return {"schemaVersion": 2, "mediaType": INDEX, "manifests": list(entries)}

    def entry(self, manifest: Document | bytes, **more: Any) -> Document:
        kind = INDEX if isinstance(manifest, dict) and "layers" not in manifest else MANIFEST
        return {**self.document(manifest, kind), **more}

    def write(self, folder: Path, index: Document | bytes) -> Path:
        """Write a layout; the layers of several in one folder lie there once."""
        blobs = folder / "blobs" / "sha256"
        blobs.mkdir(parents=True, exist_ok=True)
        for digest, data in self.blobs.items():
            path = blobs / digest.removeprefix("sha256:")
            if not path.exists():
                path.write_bytes(data)
        (folder / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
        data = index if isinstance(index, bytes) else json.dumps(index).encode()
        (folder / "index.json").write_bytes(data)
        return folder

    def members(self, index: Document) -> list[tuple[str, bytes]]:
        """Return the layout as members of an archive."""
        blobs = [(f"blobs/{name.replace(':', '/')}", data) for name, data in self.blobs.items()]
        return [
            *blobs,
            ("oci-layout", b'{"imageLayoutVersion": "1.0.0"}'),
            ("index.json", json.dumps(index).encode()),
        ]


@dataclass
class Docker:
    """A docker archive in members, the good ones first; `write` writes them as they are."""

    parts: Parts
    members: list[tuple[str, bytes]] = field(default_factory=list)
    entry: Document = field(default_factory=dict)  # of manifest.json

    def __post_init__(self) -> None:
        digests = [hashlib.sha256(layer).hexdigest() for layer in self.parts.layers]
        layers = [f"{digest}/layer.tar" for digest in digests]
        config = copy.deepcopy(self.parts.config)
        config["rootfs"]["diff_ids"] = [f"sha256:{digest}" for digest in digests]
        self.members = [*zip(layers, self.parts.layers, strict=True)]
        self.entry = {
            "Config": self.add(config),
            "RepoTags": [self.parts.tag],
            "Layers": layers,
        }
        self.evil = copy.deepcopy(config)
        self.evil["config"] |= EVIL

    def add(self, config: Document) -> str:
        """Add a configuration, and return its name."""
        data = json.dumps(config).encode()
        name = f"{hashlib.sha256(data).hexdigest()}.json"
        self.members.append((name, data))
        return name

    def evil_entry(self) -> Document:
        """Return an entry of manifest.json whose configuration is another one."""
        return {**self.entry, "Config": self.add(self.evil)}

    def named(self, *entries: Document, name: str = "manifest.json") -> Docker:
        """Add a manifest.json."""
        self.members.append((name, json.dumps(list(entries)).encode()))
        return self

    def write(self, path: Path, *headers: tarfile.TarInfo) -> Path:
        with tarfile.open(path, "w", format=tarfile.GNU_FORMAT) as tar:
            for name, data in self.members:
                tar.addfile(*streamed(info(name), data))
            for header in headers:
                tar.addfile(header)
        return path


def twice(good: Document, key: str, other: Any) -> bytes:
    """Return an object in JSON that has a key twice, the good value last, as Python takes it."""
    text = json.dumps(good)
    return f"{{{json.dumps(key)}: {json.dumps(other)}, {text[1:]}".encode()


Forge = Callable[[Forgery], "Document | bytes"]  # → the layout's index


def publish(repository: str, forgery: Forgery, tag: str, manifest: bytes, kind: str) -> None:
    """Put an image into a registry without a password, with a manifest of any form."""
    host, _, name = repository.partition("/")
    for digest, data in forgery.blobs.items():
        start = urllib.request.Request(f"http://{host}/v2/{name}/blobs/uploads/", method="POST")
        with urllib.request.urlopen(start) as answer:
            url = answer.headers["Location"]
        url += f"{'&' if '?' in url else '?'}digest={digest}"
        _put(url, data, "application/octet-stream")
    _put(f"http://{host}/v2/{name}/manifests/{tag}", manifest, kind)


def _put(url: str, data: bytes, kind: str) -> None:
    request = urllib.request.Request(url, data, {"Content-Type": kind}, method="PUT")
    with urllib.request.urlopen(request) as answer:
        assert answer.status == 201
