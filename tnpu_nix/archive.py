"""Docker archives: which layers one holds, and its root file system unpacked."""

from __future__ import annotations

import json
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tnpu_nix import process
from tnpu_nix.errors import TnpuError
from tnpu_nix.git import temporary_folder


@dataclass(frozen=True)
class Layer:
    """A layer of an image."""

    diff_id: str  # sha256 of the uncompressed tar, as in the image's configuration
    member: str  # its name in the archive
    size: int  # bytes, uncompressed


@dataclass(frozen=True)
class Archive:
    """A docker archive: what its manifest and configuration say."""

    path: Path
    tag: str  # name:tag
    config: dict[str, Any]  # the OCI image configuration
    layers: list[Layer]  # the lowest first

    @property
    def environment(self) -> dict[str, str]:
        """The variables that a container of this image starts with."""
        return dict(one.split("=", 1) for one in self.config["config"].get("Env", []))


def read(path: Path) -> Archive:
    """Read a docker archive, compressed or not.

    Raises:
        TnpuError: it cannot be read, or is no docker archive.
    """
    texts: dict[str, Any] = {}
    sizes: dict[str, int] = {}
    try:
        with tarfile.open(path, "r|*") as tar:
            for member in tar:
                sizes[member.name] = member.size
                if member.name.endswith(".json") and (content := tar.extractfile(member)):
                    texts[member.name] = json.load(content)
        manifest = texts["manifest.json"][0]
        config = texts[manifest["Config"]]
        pairs = zip(config["rootfs"]["diff_ids"], manifest["Layers"], strict=True)
        layers = [Layer(diff_id, name, sizes[name]) for diff_id, name in pairs]
    except (OSError, tarfile.TarError, ValueError, KeyError, EOFError) as error:
        raise TnpuError(f"{path} is no docker archive: {error}", "build the image again") from error
    return Archive(path, manifest["RepoTags"][0], config, layers)


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
