"""OCI layouts: one in a folder, and what one says of its image wherever it lies.

Source: the OCI image specification, "Image Layout": index.json, and blobs named by their digests.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

from tnpu_nix.errors import TnpuError
from tnpu_nix.images.model import (
    BROKEN_STREAM,
    Checked,
    Image,
    Layer,
    decompressed,
    layers_of,
    oddities_of,
    sha256,
)
from tnpu_nix.registry import document, manifest
from tnpu_nix.registry.manifest import Blob

INDEX = "index.json"
_LARGEST = 16 << 20  # bytes of a document


@dataclass(frozen=True)
class Layout(Image):
    """An image in an OCI layout in a folder."""

    path: Path
    manifest_digest: str

    @property
    def where(self) -> str:
        """The path of the layout."""
        return str(self.path)

    @property
    def digest(self) -> str:
        """The digest of the image's manifest."""
        return self.manifest_digest

    def tars(self, wanted: Collection[str] | None = None) -> Iterator[tuple[str, IO[bytes]]]:
        """Yield (member, uncompressed tar) of each layer."""
        for name, layer in {layer.member: layer for layer in self.layers}.items():
            if wanted is not None and name not in wanted:
                continue
            try:
                with (self.path / name).open("rb") as file:
                    checked = Checked(file)
                    yield name, decompressed(cast(IO[bytes], checked), layer.compressed)
                    checked.finish(digest_of(name), f"the layer {name} of {self.path}")
                if checked.size != layer.size:
                    raise ValueError(f"{name} has {checked.size} bytes instead of {layer.size}")
            except BROKEN_STREAM as error:
                raise _unreadable(self.path, error) from error


def blob(digest: str) -> str:
    """Return the path of a blob in a layout."""
    return f"blobs/{digest.replace(':', '/', 1)}"


def digest_of(name: str) -> str:
    """Return the digest that a path in a layout promises, "" where it promises none."""
    found = re.fullmatch(r"blobs/sha256/([0-9a-f]{64})", name)
    return f"sha256:{found[1]}" if found else ""


def read(path: Path, name: str = "") -> Layout:
    """Read an OCI layout in a folder.

    Args:
        name: the tag of the image; "" for the only one.

    Raises:
        TnpuError: it cannot be read, is no layout, or holds no such image.
    """

    def content(digest: str) -> bytes:
        return _file(path / blob(digest))

    try:
        found = parse(_file(path / INDEX), content, path, name)
    except BROKEN_STREAM as error:
        raise _unreadable(path, error) from error
    return Layout(
        found.tag, found.config, found.layers, path, found.digest, oddities=found.oddities
    )


def _file(path: Path) -> bytes:
    if not path.is_file():
        raise FileNotFoundError(f"it has no file {path.name}")
    with path.open("rb") as file:
        data = file.read(_LARGEST + 1)
    if len(data) > _LARGEST:
        raise ValueError(f"its {path.name} is larger than that of any image")
    return data


@dataclass(frozen=True)
class Parsed:
    """What a layout says of an image."""

    tag: str
    config: dict[str, Any]
    layers: list[Layer]  # by the paths of their blobs
    oddities: list[str]
    digest: str  # of the manifest


def parse(index: bytes, content: Callable[[str], bytes], path: Path, name: str) -> Parsed:
    """Follow a layout from its index to the configuration of an image.

    Args:
        index: what index.json holds.
        content: returns the blob of a digest.
        path: of the layout, for an error.
        name: the tag of the image; "" for the only one.

    Raises:
        TnpuError: it holds no such image, or several; or a blob was altered.
        ValueError: it is no layout; the text says why.
    """

    def fetched(one: Blob) -> bytes:
        return _checked(content(one.digest), one, path)

    try:
        chosen = manifest.choose(document.parse(index), name)
        tag, others = chosen.tag, [] if name else chosen.others
        data = fetched(chosen.blob)
        inner = document.parse(data)
        if manifest.kind_of(inner, chosen.blob.media_type) in manifest.INDEXES:
            chosen = manifest.choose(inner)  # an index of platforms below the one of the layout
            others = [*others, *chosen.others]
            data = fetched(chosen.blob)
    except LookupError as error:
        raise TnpuError(
            f"{path} holds {error.args[0]}", f"name one of its images: oci:{path}:TAG"
        ) from error
    found = manifest.manifest_of(data, chosen.blob.media_type)
    config = document.configuration(fetched(found.config))
    members = [(blob(digest), size, compressed) for digest, size, compressed in found.members()]
    layers = layers_of(config, members)
    return Parsed(tag, config, layers, oddities_of(found, others), chosen.blob.digest)


def _checked(data: bytes, wanted: Blob, path: Path) -> bytes:
    if sha256(data) != wanted.digest or len(data) != wanted.size:
        raise TnpuError(
            f"{path} is damaged or was altered: what is named {wanted.digest} of {wanted.size}"
            f" bytes has the digest {sha256(data)} and {len(data)} bytes",
            "copy the image there again",
        )
    return data


def _unreadable(path: Path, error: Exception) -> TnpuError:
    return TnpuError(f"{path} is no OCI layout that can be read: {error}", "copy the image anew")
