"""Image manifests of OCI and of Docker: which blobs an image is made of.

Source: the OCI image specification ("Image Manifest", "Image Index"); Docker's schema 2 has the
same fields under other media types.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

_PLATFORM = {"os": "linux", "architecture": "amd64"}
_NAME = "org.opencontainers.image.ref.name"  # annotation of an index: the image's tag


@dataclass(frozen=True)
class Blob:
    """A blob as a manifest names it."""

    digest: str
    size: int
    media_type: str

    @property
    def compressed(self) -> bool:
        """Whether a layer of this type is a compressed tar."""
        return self.media_type.endswith(("gzip", "zstd"))


@dataclass(frozen=True)
class Manifest:
    """The manifest of one image."""

    config: Blob
    layers: list[Blob]

    def members(self) -> list[tuple[str, int, bool]]:
        """Return (digest, bytes, compressed) of each layer, the lowest first."""
        return [(one.digest, one.size, one.compressed) for one in self.layers]


def parse(data: bytes | dict[str, Any]) -> Manifest:
    """Read a manifest.

    Raises:
        ValueError, KeyError, TypeError, AttributeError: it is none.
    """
    content = data if isinstance(data, dict) else json.loads(data)
    return Manifest(_blob(content["config"]), [_blob(one) for one in content["layers"]])


def _blob(descriptor: dict[str, Any]) -> Blob:
    digest, size = str(descriptor["digest"]), int(descriptor["size"])
    algorithm, _, hexadecimal = digest.partition(":")
    if (
        algorithm != "sha256"
        or len(hexadecimal) != 64
        or set(hexadecimal) - set("0123456789abcdef")
    ):
        raise ValueError(f"{digest!r} is no sha256 digest")
    return Blob(digest, size, str(descriptor.get("mediaType", "")))


def choose(index: dict[str, Any], name: str = "") -> dict[str, Any]:
    """Return the entry of an index that names the image wanted.

    Args:
        name: the image's tag; "" for the one that there is.

    Raises:
        LookupError: there is none, or there are several; its text says which.
    """
    entries = [one for one in index.get("manifests") or [] if isinstance(one, dict)]
    if name:
        entries = [one for one in entries if _tag(one) == name]
    mine = [
        one for one in entries if (one.get("platform") or _PLATFORM).items() >= _PLATFORM.items()
    ]
    if len(mine) == 1:
        return mine[0]
    if not mine:
        raise LookupError(f"no image {name} for linux/amd64" if name else "no linux/amd64 image")
    names = sorted(_tag(one) or one["digest"] for one in mine)
    raise LookupError(f"several images: {', '.join(names)}")


def _tag(entry: dict[str, Any]) -> str:
    return str((entry.get("annotations") or {}).get(_NAME, ""))


def tag_of(entry: dict[str, Any]) -> str:
    """Return the tag that an entry of an index carries, "" if none."""
    return _tag(entry)
