"""Images altered by hand: a docker archive taken apart, changed and put together consistently."""

from __future__ import annotations

import copy
import functools
import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Member = tuple[tarfile.TarInfo, bytes]


@dataclass
class Parts:
    """A docker archive in parts; `write` gives every digest that follows from them."""

    config: dict[str, Any]
    tag: str
    layers: list[bytes] = field(default_factory=list)  # tars

    def copy(self) -> Parts:
        return Parts(copy.deepcopy(self.config), self.tag, list(self.layers))

    def layer_with(self, path: str) -> int:
        """The number of the layer that holds a path; the last one, if several do."""
        return max(number for number, one in enumerate(self.layers) if path in names(one))

    def change(self, path: str, how: Callable[[Member], list[Member]]) -> None:
        """Replace a member of a layer by others."""
        number = self.layer_with(path)
        members = [
            new
            for one in unpacked(self.layers[number])
            for new in (how(one) if one[0].name.removeprefix("./") == path else [one])
        ]
        self.layers[number] = packed(members)

    def remove(self, path: str) -> None:
        """Take a path, and what is below it, out of its layer."""
        number = self.layer_with(path)
        members = unpacked(self.layers[number])
        kept = [one for one in members if not f"{one[0].name}/".startswith(f"{path}/")]
        assert len(kept) < len(members)
        self.layers[number] = packed(kept)

    def add(self, member: Member, number: int = -1) -> None:
        """Add a member at the end of a layer, the uppermost if not said."""
        self.layers[number] = packed([*unpacked(self.layers[number]), member])

    def add_layer(self, *members: Member) -> None:
        """Lay a layer of one's own on top."""
        self.layers.append(packed(list(members)))
        self.config["history"].append({"created": "1970-01-01T00:00:01Z", "comment": "mine"})

    def write(self, path: Path) -> Path:
        """Write it as a docker archive in which every digest is right."""
        digests = [hashlib.sha256(layer).hexdigest() for layer in self.layers]
        self.config["rootfs"]["diff_ids"] = [f"sha256:{digest}" for digest in digests]
        config = json.dumps(self.config).encode()
        name = f"{hashlib.sha256(config).hexdigest()}.json"
        layers = [f"{digest}/layer.tar" for digest in digests]
        manifest = [{"Config": name, "RepoTags": [self.tag], "Layers": layers}]
        with tarfile.open(path, "w") as tar:
            for member, data in zip(layers, self.layers, strict=True):
                tar.addfile(*streamed(info(member), data))
            tar.addfile(*streamed(info(name), config))
            tar.addfile(*streamed(info("manifest.json"), json.dumps(manifest).encode()))
        return path


def take_apart(path: Path) -> Parts:
    """Read a docker archive as dockerTools writes it."""
    data = path.read_bytes()
    data = gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:

        def content(name: str) -> bytes:
            file = tar.extractfile(name)
            assert file is not None
            return file.read()

        manifest = json.loads(content("manifest.json"))[0]
        config = json.loads(content(manifest["Config"]))
        return Parts(config, manifest["RepoTags"][0], [content(n) for n in manifest["Layers"]])


def info(name: str, mode: int = 0o644, **more: Any) -> tarfile.TarInfo:
    """A member as dockerTools makes it: owned by root, one second after 1970."""
    made = tarfile.TarInfo(name)
    made.mode, made.mtime = mode, 1
    for key, value in more.items():
        setattr(made, key, value)
    return made


def streamed(member: tarfile.TarInfo, data: bytes) -> tuple[tarfile.TarInfo, io.BytesIO]:
    member.size = len(data)
    return member, io.BytesIO(data)


def file(name: str, data: bytes = b"mine\n", mode: int = 0o444, **more: Any) -> Member:
    return info(name, mode, **more), data


@functools.lru_cache
def names(layer: bytes) -> frozenset[str]:
    with tarfile.open(fileobj=io.BytesIO(layer)) as tar:
        return frozenset(name.removeprefix("./") for name in tar.getnames())


def unpacked(layer: bytes) -> list[Member]:
    with tarfile.open(fileobj=io.BytesIO(layer)) as tar:
        found = []
        for member in tar:
            content = tar.extractfile(member) if member.isreg() else None
            found.append((member, content.read() if content else b""))
        return found


def packed(members: list[Member]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for member, data in members:
            tar.addfile(*(streamed(member, data) if member.isreg() else (member,)))
    return out.getvalue()


def one_byte(member: Member) -> list[Member]:
    """Change the last byte of a file, and nothing else."""
    found, data = member
    return [(found, data[:-1] + bytes([data[-1] ^ 1]))]


def with_fields(**fields: Any) -> Callable[[Member], list[Member]]:
    """Change the fields of a member's header."""

    def change(member: Member) -> list[Member]:
        for key, value in fields.items():
            setattr(member[0], key, value)
        return [member]

    return change
