"""OCI layouts, as a folder or as a tar of one.

Source: the OCI image specification, "Image Layout": index.json, and blobs named by their digests.
"""

from __future__ import annotations

import json
import tarfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

from tnpu_nix.errors import TnpuError
from tnpu_nix.images.manifest import choose, parse, tag_of
from tnpu_nix.images.model import (
    BROKEN_STREAM,
    Checked,
    Image,
    decompressed,
    layers_of,
    sha256,
)

INDEX = "index.json"


@dataclass(frozen=True)
class Layout(Image):
    """An image in an OCI layout."""

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
        """Yield (digest, uncompressed tar) of each layer."""
        members = dict.fromkeys(layer.member for layer in self.layers)
        with _opened(self.path) as place:
            for digest in members:
                if wanted is not None and digest not in wanted:
                    continue
                try:
                    with place.open(_blob(digest)) as file:
                        checked = Checked(file)
                        yield digest, decompressed(cast(IO[bytes], checked))
                        checked.finish(digest, f"the layer {digest} of {self.path}")
                except (*BROKEN_STREAM, KeyError) as error:
                    raise _unreadable(self.path, error) from error


class _Place:
    """The files of a layout: in a folder, or in a tar."""

    def __init__(self, path: Path, archive: tarfile.TarFile | None) -> None:
        self._path, self._archive = path, archive
        members = archive.getmembers() if archive else []
        self._members = {one.name.removeprefix("./"): one for one in members}

    def open(self, name: str) -> IO[bytes]:
        if self._archive is None:
            return (self._path / name).open("rb")
        file = self._archive.extractfile(self._members[name])
        if file is None:
            raise KeyError(name)
        return file

    def blob(self, digest: str) -> bytes:
        with self.open(_blob(digest)) as file:
            data = file.read()
        if sha256(data) != digest:
            raise TnpuError(
                f"{self._path} is damaged or was altered: what is named {digest} has the digest"
                f" {sha256(data)}",
                "copy the image there again",
            )
        return data


@contextmanager
def _opened(path: Path) -> Iterator[_Place]:
    if path.is_dir():
        yield _Place(path, None)
        return
    with tarfile.open(path, "r:*") as archive:
        yield _Place(path, archive)


def _blob(digest: str) -> str:
    return f"blobs/{digest.replace(':', '/', 1)}"


def read(path: Path, name: str = "") -> Layout:
    """Read an OCI layout.

    Args:
        path: a folder, or a tar of one.
        name: the tag of the image; "" for the only one.

    Raises:
        TnpuError: it cannot be read, is no layout, or holds no such image.
    """
    try:
        with _opened(path) as place:
            with place.open(INDEX) as file:
                index: dict[str, Any] = json.load(file)
            entry = choose(index, name)
            tag = tag_of(entry)
            data = place.blob(entry["digest"])
            if "manifests" in json.loads(data):
                # An index of platforms below the one of the layout.
                entry = choose(json.loads(data))
                data = place.blob(entry["digest"])
            manifest = parse(data)
            config = json.loads(place.blob(manifest.config.digest))
            layers = layers_of(config, manifest.members())
    except LookupError as error:
        if isinstance(error, KeyError):
            raise _unreadable(path, error) from error
        raise TnpuError(
            f"{path} holds {error.args[0]}", f"name one of its images: oci:{path}:TAG"
        ) from error
    except (*BROKEN_STREAM, TypeError, AttributeError) as error:
        raise _unreadable(path, error) from error
    return Layout(tag, config, layers, path, entry["digest"])


def _unreadable(path: Path, error: Exception) -> TnpuError:
    return TnpuError(f"{path} is no OCI layout that can be read: {error}", "copy the image anew")
