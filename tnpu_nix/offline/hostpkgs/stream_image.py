"""Write a docker-archive to standard output from an image configuration.

The archive holds manifest.json, the image's JSON and <digest>/layer.tar for each layer.
A layer's bytes depend on its store paths and the mtime setting alone; they are produced
twice, to hash them and to write them, and never kept.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
import tarfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import IO, Any, Protocol, cast

CHUNK = 1 << 20


class Sink(Protocol):
    """What a tar can be written to."""

    def write(self, data: bytes, /) -> int: ...


class Digest:
    """A sink that keeps the sha256 and the length of what is written to it."""

    def __init__(self) -> None:
        self.sha256 = hashlib.sha256()
        self.size = 0

    def write(self, data: bytes, /) -> int:
        self.sha256.update(data)
        self.size += len(data)
        return len(data)


class Pass:
    """A sink that hands on to a stream (tarfile closes what it is given)."""

    def __init__(self, stream: IO[bytes]) -> None:
        self.stream = stream

    def write(self, data: bytes, /) -> int:
        return self.stream.write(data)


@dataclass(frozen=True)
class Owner:
    """What every entry of a store layer carries instead of the store's own metadata."""

    mtime: int
    uid: int
    gid: int
    uname: str
    gname: str


class Layer(Protocol):
    """A layer's tar."""

    def write(self, sink: Sink) -> None:
        """Write the tar; the same bytes every time."""


@dataclass(frozen=True)
class StoreLayer:
    """Store paths as a layer."""

    paths: list[str]
    root: str
    owner: Owner

    def write(self, sink: Sink) -> None:
        """Write /nix, /nix/store and everything below the paths, sorted."""
        # The stubs know file objects only; a stream tar asks for nothing but write().
        target = cast(IO[bytes], sink)
        with tarfile.open(fileobj=target, mode="w|", format=tarfile.GNU_FORMAT) as tar:
            for folder in ("nix", "nix/store"):
                tar.addfile(self.entry(tar, folder, None))
            for path in self.paths:
                for name in walk(self.root, path):
                    self.add(tar, name)

    def entry(self, tar: tarfile.TarFile, name: str, source: str | None) -> tarfile.TarInfo:
        """The header of one entry; without a source, a folder above the store paths."""
        if source is None:
            info = tarfile.TarInfo(name)
            info.type, info.mode = tarfile.DIRTYPE, 0o755
        else:
            # Hard links are the store's optimisation, not the image's: inodes are forgotten.
            tar.inodes = {}  # type: ignore[attr-defined]
            info = tar.gettarinfo(source, name)
        info.mtime = self.owner.mtime
        info.uid, info.gid = self.owner.uid, self.owner.gid
        info.uname, info.gname = self.owner.uname, self.owner.gname
        return info

    def add(self, tar: tarfile.TarFile, path: str) -> None:
        source = self.root + path
        info = self.entry(tar, path.lstrip("/"), source)
        if info.isreg():
            with Path(source).open("rb") as content:
                tar.addfile(info, content)
        else:
            tar.addfile(info)


@dataclass(frozen=True)
class FileLayer:
    """A layer that is a tar already."""

    path: str

    def write(self, sink: Sink) -> None:
        """Copy the tar."""
        with Path(self.path).open("rb") as content:
            copy(content, sink)


@dataclass(frozen=True)
class BaseImage:
    """The image to build on: a docker-archive, compressed or not."""

    archive: tarfile.TarFile
    config: dict[str, Any]
    layers: list[str]

    def copy_layers(self, writer: ImageWriter) -> list[str]:
        """Write the layers and return their sha256, which the base image's JSON knows.

        Each is read once, in the archive's order as far as the manifest has the same:
        going back in a compressed archive means to decompress it from the start.
        """
        digests = [d.removeprefix("sha256:") for d in self.config["rootfs"]["diff_ids"]]
        for digest, name in zip(digests, self.layers, strict=True):
            with member(self.archive, name) as content:
                content.seek(0, os.SEEK_END)
                size = content.tell()
                content.seek(0)
                writer.layer(digest, size, partial(copy, content))
        return digests


def copy(source: IO[bytes], sink: Sink) -> None:
    while chunk := source.read(CHUNK):
        sink.write(chunk)


@contextmanager
def member(archive: tarfile.TarFile, name: str) -> Iterator[IO[bytes]]:
    """A file inside an archive, links followed."""
    content = archive.extractfile(name)
    if content is None:
        raise SystemExit(f"error: {archive.name!s} has no file {name}; is it a docker-archive?")
    with content:
        yield content


def walk(root: str, path: str) -> Iterator[str]:
    """A path and everything below it, parents first, names in byte order."""
    yield path
    source = Path(root + path)
    if source.is_dir() and not source.is_symlink():
        for name in sorted((child.name for child in source.iterdir()), key=os.fsencode):
            yield from walk(root, f"{path}/{name}")


def seconds(date: str) -> int:
    """Seconds since 1970 of an ISO date, or of a number written as text."""
    if date.isdecimal():
        return int(date)
    return int(datetime.fromisoformat(date.replace("Z", "+00:00")).timestamp())


def merged_config(base: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
    """The image's own configuration, on the base image's environment variables."""
    variables = dict(
        entry.split("=", 1) for entry in (base.get("Env") or []) + (own.get("Env") or [])
    )
    return {**own, "Env": [f"{k}={v}" for k, v in variables.items()]} if variables else own


class ImageWriter:
    """Writes the files of a docker-archive, with fixed metadata."""

    def __init__(self, stream: IO[bytes], mtime: int) -> None:
        self.stream = stream
        self.mtime = mtime
        self.written: set[str] = set()

    def header(self, name: str, size: int) -> None:
        info = tarfile.TarInfo(name)
        info.size, info.mtime, info.mode = size, self.mtime, 0o644
        self.stream.write(info.tobuf(tarfile.GNU_FORMAT))

    def pad(self, size: int) -> None:
        self.stream.write(b"\0" * (-size % tarfile.BLOCKSIZE))

    def file(self, name: str, data: bytes) -> None:
        self.header(name, len(data))
        self.stream.write(data)
        self.pad(len(data))

    def layer(self, digest: str, size: int, write: Callable[[Sink], None]) -> None:
        """Write a layer with what `write` produces, unless it is there already."""
        if digest in self.written:
            return
        self.written.add(digest)
        self.header(f"{digest}/layer.tar", size)
        write(Pass(self.stream))
        self.pad(size)

    def end(self) -> None:
        self.stream.write(b"\0" * (2 * tarfile.BLOCKSIZE))
        self.stream.flush()


@contextmanager
def base_image(archive: str | None) -> Iterator[BaseImage | None]:
    """The image to build on, None without one."""
    if archive is None:
        yield None
        return
    with tarfile.open(archive) as tar:
        with member(tar, "manifest.json") as content:
            manifest = json.load(content)[0]
        with member(tar, manifest["Config"]) as content:
            config = json.load(content)
        yield BaseImage(tar, config, manifest["Layers"])


def image_json(conf: dict[str, Any], base: BaseImage | None, digests: list[str]) -> bytes:
    """The image's JSON (OCI image configuration), with one history line per layer."""
    below: dict[str, Any] = base.config if base else {}
    notes = [f"store paths: {' '.join(paths)}" for paths in conf["store_layers"]]
    history = [h for h in below.get("history") or [] if not h.get("empty_layer")]
    inherited = len(digests) - len(notes) - 1
    if len(history) != inherited:
        history = [{"created": conf["created"], "comment": "base image"}] * inherited
    document = {
        "created": conf["created"],
        "architecture": conf["architecture"],
        "os": "linux",
        "config": merged_config(below.get("config") or {}, conf["config"] or {}),
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{d}" for d in digests]},
        "history": history
        + [
            {"created": conf["created"], "created_by": "dockerTools", "comment": note}
            for note in [*notes, "customisation layer"]
        ],
    }
    return json.dumps(document, indent=2).encode()


def write_layers(conf: dict[str, Any], root: str, writer: ImageWriter) -> list[str]:
    """Write the image's own layers; returns their sha256, lowest layer first."""
    owner = Owner(seconds(conf["mtime"]), conf["uid"], conf["gid"], conf["uname"], conf["gname"])
    layers: list[Layer] = [StoreLayer(paths, root, owner) for paths in conf["store_layers"]]
    layers.append(FileLayer(root + conf["customisation_layer"]))
    digests = []
    for number, layer in enumerate(layers, 1):
        print(f"layer {number} of {len(layers)}", file=sys.stderr)
        digest = Digest()
        layer.write(digest)
        digests.append(digest.sha256.hexdigest())
        writer.layer(digests[-1], digest.size, layer.write)
    return digests


def stream(conf: dict[str, Any], root: str, output: IO[bytes]) -> None:
    """Write the image that `conf` describes; store paths are read below `root`."""
    writer = ImageWriter(output, seconds(conf["mtime"]))
    archive = conf["from_image"] and root + conf["from_image"]
    with base_image(archive) as base:
        digests = (base.copy_layers(writer) if base else []) + write_layers(conf, root, writer)
        config = image_json(conf, base, digests)
    config_name = f"{hashlib.sha256(config).hexdigest()}.json"
    manifest = [
        {
            "Config": config_name,
            "RepoTags": [f"{conf['repo']}:{conf['tag']}"],
            "Layers": [f"{digest}/layer.tar" for digest in digests],
        }
    ]
    writer.file(config_name, config)
    writer.file("manifest.json", json.dumps(manifest, indent=2).encode())
    writer.end()


def main() -> None:
    parser = argparse.ArgumentParser(description="write a docker-archive to standard output")
    parser.add_argument("conf", type=Path)
    parser.add_argument("--root", default="", help="folder that holds nix/store, if not /")
    parser.add_argument("--repo_tag", help="NAME:TAG in place of the image's own")
    args = parser.parse_args()
    conf = json.loads(args.conf.read_text())
    if args.repo_tag:
        conf["repo"], _, conf["tag"] = args.repo_tag.rpartition(":")
    if sys.stdout.isatty():
        sys.exit("error: an image is not for a terminal; redirect it to a file or a pipe")
    stream(conf, args.root, sys.stdout.buffer)


if __name__ == "__main__":
    main()
