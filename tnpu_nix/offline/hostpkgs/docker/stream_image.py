"""Write a docker-archive to standard output from an image configuration.

The archive holds manifest.json, the image's JSON and <digest>/layer.tar for each layer.
A layer's bytes depend on its store paths and the mtime setting alone; they are produced
twice, to hash them and to write them, and never kept.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import os
import sys
import tarfile
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import IO, Any, Protocol, cast

CHUNK = 1 << 20


class Sink(Protocol):
    """What a tar can be written to."""

    def write(self, data: bytes, /) -> int: ...


Layer = Callable[[Sink], None]  # writes a layer's tar, the same bytes every time


class Digest:
    """A sink that keeps the sha256 and the length of what is written to it."""

    def __init__(self) -> None:
        self.sha256 = hashlib.sha256()
        self.size = 0

    def write(self, data: bytes, /) -> int:
        self.sha256.update(data)
        self.size += len(data)
        return len(data)


class ImageWriter:
    """Writes the files of a docker-archive, with fixed metadata."""

    def __init__(self, stream: IO[bytes], mtime: int) -> None:
        self.stream = stream
        self.mtime = mtime
        self.written: set[str] = set()

    def member(self, name: str, size: int, write: Layer) -> None:
        info = tarfile.TarInfo(name)
        info.size, info.mtime, info.mode = size, self.mtime, 0o644
        self.stream.write(info.tobuf(tarfile.GNU_FORMAT))
        write(self.stream)
        self.stream.write(b"\0" * (-size % tarfile.BLOCKSIZE))

    def file(self, name: str, data: bytes) -> None:
        self.member(name, len(data), partial(copy, io.BytesIO(data)))

    def layer(self, digest: str, size: int, write: Layer) -> None:
        """Write a layer, unless it is there already."""
        if digest not in self.written:
            self.written.add(digest)
            self.member(f"{digest}/layer.tar", size, write)

    def end(self) -> None:
        self.stream.write(b"\0" * (2 * tarfile.BLOCKSIZE))
        self.stream.flush()


def copy(source: IO[bytes], sink: Sink) -> None:
    while chunk := source.read(CHUNK):
        sink.write(chunk)


def copy_file(path: str, sink: Sink) -> None:
    """A layer that is a tar already."""
    with Path(path).open("rb") as content:
        copy(content, sink)


def write_store_paths(paths: list[str], root: str, mtime: int, sink: Sink) -> None:
    """A layer of /nix, /nix/store and everything below the paths, sorted."""
    # The stubs know file objects only; a stream tar asks for nothing but write().
    target = cast(IO[bytes], sink)
    with tarfile.open(fileobj=target, mode="w|", format=tarfile.GNU_FORMAT) as tar:
        for folder in ("nix", "nix/store"):
            info = tarfile.TarInfo(folder)
            info.type, info.mode, info.mtime = tarfile.DIRTYPE, 0o755, mtime
            info.uname = info.gname = "root"
            tar.addfile(info)
        for path in paths:
            for name in walk(root, path):
                add(tar, root + name, name.lstrip("/"), mtime)


def add(tar: tarfile.TarFile, source: str, name: str, mtime: int) -> None:
    """Add one entry, without the store's own metadata."""
    # Hard links are the store's optimisation, not the image's: inodes are forgotten.
    tar.inodes = {}  # type: ignore[attr-defined]
    info = tar.gettarinfo(source, name)
    info.mtime, info.uid, info.gid, info.uname, info.gname = mtime, 0, 0, "root", "root"
    if info.isreg():
        with Path(source).open("rb") as content:
            tar.addfile(info, content)
    else:
        tar.addfile(info)


def walk(root: str, path: str) -> Iterator[str]:
    """A path and everything below it, parents first, names in byte order."""
    yield path
    source = Path(root + path)
    if source.is_dir() and not source.is_symlink():
        for name in sorted((child.name for child in source.iterdir()), key=os.fsencode):
            yield from walk(root, f"{path}/{name}")


def member(archive: tarfile.TarFile, name: str) -> IO[bytes]:
    """A file inside an archive, links followed."""
    content = archive.extractfile(name) if name in archive.getnames() else None
    if content is None:
        sys.exit(f"error: fromImage {archive.name!s} has no file {name}; is it a docker-archive?")
    return content


def copy_base(path: str, writer: ImageWriter) -> tuple[dict[str, Any], list[str]]:
    """Write the layers of a docker-archive, compressed or not; returns its JSON and their sha256.

    Each layer is read once, in the archive's order as far as the manifest has the same:
    going back in a compressed archive means to decompress it from the start.
    """
    with tarfile.open(path) as archive:
        manifest = json.load(member(archive, "manifest.json"))[0]
        config: dict[str, Any] = json.load(member(archive, manifest["Config"]))
        digests = [digest.removeprefix("sha256:") for digest in config["rootfs"]["diff_ids"]]
        for digest, name in zip(digests, manifest["Layers"], strict=True):
            content = member(archive, name)
            size = content.seek(0, os.SEEK_END)
            content.seek(0)
            writer.layer(digest, size, partial(copy, content))
    return config, digests


def seconds(date: str) -> int:
    """Seconds since 1970 of an ISO date; without a zone it is in UTC, wherever this runs."""
    when = datetime.fromisoformat(date)
    return int((when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp())


def merged_config(base: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
    """The image's own configuration, on the base image's environment variables."""
    entries = (base.get("Env") or []) + (own.get("Env") or [])
    variables = {entry.partition("=")[0]: entry for entry in entries}
    return {**own, "Env": list(variables.values())} if variables else own


def image_json(conf: dict[str, Any], below: dict[str, Any], digests: list[str]) -> bytes:
    """The image's JSON (OCI image configuration), on that of the image below."""
    notes = [f"store paths: {' '.join(paths)}" for paths in conf["store_layers"]]
    history = [h for h in below.get("history") or [] if not h.get("empty_layer")]
    inherited = len(digests) - len(notes) - 1
    if len(history) != inherited:
        history = [{"created": conf["created"], "comment": "base image"}] * inherited
    document = {
        "created": conf["created"],
        "architecture": "amd64",
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
    mtime = seconds(conf["mtime"])
    layers: list[Layer] = [
        partial(write_store_paths, paths, root, mtime) for paths in conf["store_layers"]
    ]
    layers.append(partial(copy_file, root + conf["customisation_layer"]))
    digests = []
    for number, layer in enumerate(layers, 1):
        print(f"layer {number} of {len(layers)}", file=sys.stderr)
        digest = Digest()
        layer(digest)
        digests.append(digest.sha256.hexdigest())
        writer.layer(digests[-1], digest.size, layer)
    return digests


def stream(conf: dict[str, Any], root: str, output: IO[bytes]) -> None:
    """Write the image that `conf` describes; store paths are read below `root`."""
    writer = ImageWriter(output, seconds(conf["mtime"]))
    below: dict[str, Any] = {}
    digests: list[str] = []
    if conf["from_image"]:
        below, digests = copy_base(root + conf["from_image"], writer)
    digests = digests + write_layers(conf, root, writer)
    config = image_json(conf, below, digests)
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
    args = parser.parse_args()
    if sys.stdout.isatty():
        sys.exit("error: an image is not for a terminal; redirect it to a file or a pipe")
    stream(json.loads(args.conf.read_text()), args.root, sys.stdout.buffer)


if __name__ == "__main__":
    main()
