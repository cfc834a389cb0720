"""Pulling an image out of a registry into an archive that `docker load` takes."""

from __future__ import annotations

import fcntl
import glob
import hashlib
import json
import os
import tarfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from isal import isal_zlib
from isal.igzip_lib import IsalError

from tnpu_nix.errors import TnpuError
from tnpu_nix.images.model import diff_ids_of
from tnpu_nix.images.push import Watcher
from tnpu_nix.registry import document
from tnpu_nix.registry.client import FoundImage, Repository
from tnpu_nix.registry.manifest import Blob
from tnpu_nix.registry.upload import ahead

_BLOCK = tarfile.BLOCKSIZE
_GZIP_OR_PLAIN = 47  # zlib's window bits for a gzip or zlib header


@dataclass(frozen=True)
class Pulled:
    """What a pull wrote."""

    file: str
    image: str  # host/name:tag
    digest: str  # of the manifest
    layers: int
    bytes_downloaded: int


def pull(repository: Repository, where: str, file: Path, watch: Watcher) -> Pulled:
    """Write an image for linux/amd64 to a docker archive.

    Every blob is held against its digest, and every layer against the image's configuration.
    *file* is there only when all of it is.

    Raises:
        TnpuError: the image is not to be had, or is damaged, or the file cannot be written.
    """
    file = _target(file)
    found = repository.image(where)
    config = repository.config(found.manifest)
    temporary = file.with_name(f".{file.name}.{os.getpid()}.part")
    try:
        _sweep(file)
        with temporary.open("wb") as out:
            with suppress(OSError):  # which ends with this process, however that ends
                fcntl.flock(out, fcntl.LOCK_SH)
            size = _write(repository, where, found, config, out, watch)
        temporary.rename(file)
    except OSError as error:
        raise TnpuError(
            f"{file} cannot be written: {error.strerror or error}", "make room, or name another"
        ) from error
    finally:
        with suppress(OSError):
            temporary.unlink()
    image = str(repository.reference.tagged(where)) if ":" not in where else where
    return Pulled(str(file), image, found.digest, len(found.manifest.layers), size + len(config))


def _sweep(file: Path) -> None:
    """Remove what pulls into this file have left that were killed: gigabytes, maybe."""
    for left in file.parent.glob(f".{glob.escape(file.name)}.*.part"):
        with suppress(OSError), left.open("rb") as old:
            fcntl.flock(old, fcntl.LOCK_EX | fcntl.LOCK_NB)
            left.unlink()


def _target(file: Path) -> Path:
    """Return the file to be replaced: what a link leads to, and never a device or a pipe."""
    with suppress(OSError, RuntimeError):  # links in circles
        target = file.resolve()
        if target.is_file() or not target.exists():
            return target
    raise TnpuError(f"{file} is no file that can be replaced", "name another, or leave --to out")


def _write(
    repository: Repository,
    where: str,
    found: FoundImage,
    config: bytes,
    out: IO[bytes],
    watch: Watcher,
) -> int:
    """Write the archive; return how many bytes of layers came over the wire."""
    layers = found.manifest.layers
    try:
        diff_ids = diff_ids_of(document.configuration(config), len(layers))
    except ValueError as error:
        raise TnpuError(
            f"{repository.reference.repository}, {where}, is no image: {error}",
            "push the image anew",
        ) from error
    names: list[str] = []
    for layer, diff_id in zip(layers, diff_ids, strict=True):
        name = f"{diff_id.removeprefix('sha256:')}/layer.tar"
        if name not in names:
            watch.layer(diff_id, layer.size)
            _layer(repository, layer, diff_id, name, out, watch)
            watch.ended("pulled")
        names.append(name)
    config_name = f"{hashlib.sha256(config).hexdigest()}.json"
    tags = [] if ":" in where else [str(repository.reference.tagged(where))]
    archive = [{"Config": config_name, "RepoTags": tags, "Layers": names}]
    _file(out, config_name, config)
    _file(out, "manifest.json", json.dumps(archive).encode())
    out.write(b"\0" * (2 * _BLOCK))
    return sum(layer.size for layer in layers)


def _layer(
    repository: Repository,
    layer: Blob,
    diff_id: str,
    name: str,
    out: IO[bytes],
    watch: Watcher,
) -> None:
    """Write a layer as it is uncompressed; how long it is, is known and written at the end."""
    start = out.tell()
    out.write(b"\0" * _BLOCK)
    hashed, size = hashlib.sha256(), 0
    for data in _plain(repository, layer, watch):
        hashed.update(data)
        size += len(data)
        out.write(data)
    if f"sha256:{hashed.hexdigest()}" != diff_id:
        raise TnpuError(
            f"layer {layer.digest} of {repository.reference.repository} is not what the image's"
            f" configuration says ({diff_id})",
            "push the image anew",
        )
    out.write(b"\0" * (-size % _BLOCK))
    end = out.tell()
    out.seek(start)
    out.write(_header(name, size))
    out.seek(end)


def _plain(repository: Repository, layer: Blob, watch: Watcher) -> Iterator[bytes]:
    """Yield a layer's uncompressed bytes."""
    kind = layer.media_type
    pieces = ahead(repository.blob(layer.digest, layer.size))
    if kind.endswith(("tar", "diff.tar")):
        for piece in pieces:
            watch.moved(len(piece), len(piece))
            yield piece
        return
    if not kind.endswith("gzip"):
        raise TnpuError(
            f"{repository.reference.repository} has a layer of a kind not known here: {kind}",
            "pull it with docker or skopeo, or push the image anew",
        )
    gzip = isal_zlib.decompressobj(_GZIP_OR_PLAIN)
    try:
        for piece in pieces:
            watch.moved(len(piece), len(piece))
            yield from _inflated(gzip, piece)
            while gzip.eof and gzip.unused_data:  # gzip files may be joined
                rest, gzip = gzip.unused_data, isal_zlib.decompressobj(_GZIP_OR_PLAIN)
                yield from _inflated(gzip, rest)
    except IsalError as error:  # type: ignore[misc]  # a class; its stub says an instance
        raise TnpuError(f"layer {layer.digest} is no gzip: {error}", "push it anew") from error


def _inflated(gzip: Any, piece: bytes) -> Iterator[bytes]:
    """Decompress in bounded parts: a few bytes may stand for very many."""
    data = gzip.decompress(piece, 1 << 20)
    while data:
        yield data
        data = gzip.decompress(gzip.unconsumed_tail, 1 << 20) if gzip.unconsumed_tail else b""


def _file(out: IO[bytes], name: str, data: bytes) -> None:
    out.write(_header(name, len(data)) + data + b"\0" * (-len(data) % _BLOCK))


def _header(name: str, size: int) -> bytes:
    info = tarfile.TarInfo(name)
    info.size, info.mode, info.mtime = size, 0o644, 1
    return info.tobuf(tarfile.GNU_FORMAT)
