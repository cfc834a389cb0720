"""Docker archives: which layers one holds, and its root file system unpacked."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from tnpu_nix import process
from tnpu_nix.errors import TnpuError
from tnpu_nix.git import temporary_folder
from tnpu_nix.images.model import BROKEN_STREAM, Image, Layer, decompressed, layers_of

__all__ = ["Archive", "Layer", "read", "unpack"]


@dataclass(frozen=True)
class Archive(Image):
    """A docker archive, as `docker save` and dockerTools make it."""

    path: Path

    @property
    def where(self) -> str:
        """The path of the archive."""
        return str(self.path)

    def tars(self, wanted: Collection[str] | None = None) -> Iterator[tuple[str, IO[bytes]]]:
        """Yield (member, uncompressed tar) of each layer, in the order of the archive."""
        left = {layer.member for layer in self.layers if wanted is None or layer.member in wanted}
        try:
            with tarfile.open(self.path, "r|*") as tar:
                for member in tar:
                    if member.name in left and (content := tar.extractfile(member)):
                        left.remove(member.name)
                        yield member.name, decompressed(content)
                    if not left:
                        return
        except BROKEN_STREAM as error:
            raise unreadable(self.path, error) from error


def read(path: Path) -> Archive:
    """Read a docker archive, compressed or not.

    Raises:
        TnpuError: it cannot be read, or is no docker archive.
    """
    try:
        with tarfile.open(path, "r|*") as tar:
            return Archive(*summary(tar, path), path)
    except BROKEN_STREAM as error:
        raise unreadable(path, error) from error


def summary(tar: tarfile.TarFile, path: Path) -> tuple[str, dict[str, Any], list[Layer]]:
    """Read a docker archive to its end; return its tag, configuration and layers.

    Args:
        path: where it comes from, for an error.

    Raises:
        TnpuError: it cannot be read, or is no docker archive.
    """
    texts: dict[str, Any] = {}
    sizes: dict[str, int] = {}
    links: dict[str, str] = {}
    try:
        for member in tar:
            sizes[member.name] = member.size
            if member.issym():
                # `docker save` writes a layer that occurs twice as a link to the first.
                links[member.name] = _target(member)
            if member.name.endswith(".json") and (content := tar.extractfile(member)):
                texts[member.name] = json.load(content)
        manifest = texts["manifest.json"][0]
        names = [links.get(name, name) for name in manifest["Layers"]]
        config = texts[manifest["Config"]]
        layers = layers_of(config, [(name, sizes[name], False) for name in names])
        tag = (manifest.get("RepoTags") or [""])[0]
    except (*BROKEN_STREAM, KeyError, IndexError, TypeError, AttributeError) as error:
        raise unreadable(path, error) from error
    return tag, config, layers


def _target(member: tarfile.TarInfo) -> str:
    """Return the member that a link in the archive leads to."""
    folders = member.name.split("/")[:-1]
    for part in member.linkname.split("/"):
        if part == "..":
            folders = folders[:-1]
        elif part not in ("", "."):
            folders.append(part)
    return "/".join(folders)


def unreadable(path: Path, error: Exception) -> TnpuError:
    """Return the error of what is no docker archive, or cannot be read."""
    return TnpuError(f"{path} is no docker archive: {error}", "build the image again")


def unpack(archive: Archive, folder: Path) -> None:
    """Unpack the image's root file system into an empty folder, lowest layer first.

    Raises:
        TnpuError: an archive or layer cannot be unpacked.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with temporary_folder() as scratch:
        _tar("-xf", archive.path, "-C", scratch)
        for layer in archive.layers:
            _tar("-xf", scratch / layer.member, "-C", folder, "--delay-directory-restore")


def _tar(*arguments: str | Path) -> None:
    done = process.run(["tar", *arguments], timeout=None)
    if done.status != 0:
        raise TnpuError(f"tar failed: {done.stderr.strip()}", "check the disk and the archive")
