"""What an image is, wherever it lies: a configuration, and layers that can be read as tars."""

from __future__ import annotations

import abc
import bz2
import hashlib
import io
import lzma
import tarfile
import zlib
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import IO, Any, cast

from isal import igzip
from isal.igzip_lib import IsalError

from tnpu_nix.errors import TnpuError
from tnpu_nix.registry.manifest import Manifest

# What a stream that was cut short or altered raises while it is read.
BROKEN_STREAM: tuple[type[Exception], ...] = (  # type: ignore[assignment]  # isal's stub
    OSError,
    EOFError,
    ValueError,
    zlib.error,
    IsalError,
    lzma.LZMAError,
    tarfile.TarError,
)
CHUNK = 1 << 20

_GZIP, _ZSTD, _XZ, _BZIP2 = b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"\xfd7zX", b"BZh"


@dataclass(frozen=True)
class Layer:
    """A layer of an image."""

    diff_id: str  # sha256 of the uncompressed tar, as in the image's configuration
    member: str  # its name where the image lies: a member of the archive, or a blob's digest
    size: int  # bytes there
    compressed: bool = False  # whether they are those of the tar, or of a compressed one


@dataclass(frozen=True)
class Image(abc.ABC):
    """An image: what its manifest and configuration say, and its layers."""

    tag: str  # name:tag, "" where the place knows none
    config: dict[str, Any]  # the OCI image configuration
    layers: list[Layer]  # the lowest first
    oddities: list[str] = field(default_factory=list, kw_only=True)  # that no image of ours has

    @property
    @abc.abstractmethod
    def where(self) -> str:
        """Where it lies, as a user would write it."""

    @property
    def digest(self) -> str | None:
        """The digest of its manifest; None where there is no such manifest."""
        return None

    @abc.abstractmethod
    def tars(self, wanted: Collection[str] | None = None) -> Iterator[tuple[str, IO[bytes]]]:
        """Yield (member, uncompressed tar) of each layer once, in the order of the place.

        A tar is read to its end before the next one is asked for.

        Args:
            wanted: members of `layers`; None for all.

        Raises:
            TnpuError: a layer cannot be read, or has another digest than the manifest says.
        """

    @property
    def environment(self) -> dict[str, str]:
        """The variables that a container of this image starts with."""
        pairs = (one.partition("=") for one in self.settings.get("Env") or [])
        return {name: value for name, _, value in pairs}

    @property
    def settings(self) -> dict[str, Any]:
        """The part of the configuration that a container starts with: Env, Cmd, Labels, …"""
        return self.config.get("config") or {}

    @property
    def labels(self) -> dict[str, str]:
        """The labels of the image."""
        return self.settings.get("Labels") or {}


def layers_of(config: dict[str, Any], members: list[tuple[str, int, bool]]) -> list[Layer]:
    """Return the layers of a configuration, whose manifest lists (member, size, compressed).

    Raises:
        ValueError: the two have not the same number of layers.
    """
    pairs = zip(diff_ids_of(config, len(members)), members, strict=True)
    return [Layer(diff_id, *member) for diff_id, member in pairs]


def diff_ids_of(config: dict[str, Any], count: int) -> list[str]:
    """Return the digests of a configuration's layers, of which the manifest has so many.

    Raises:
        ValueError: the configuration has another number.
    """
    diff_ids: list[str] = config["rootfs"]["diff_ids"]
    if len(diff_ids) != count:
        raise ValueError(f"its configuration has {len(diff_ids)} layers, its manifest {count}")
    return diff_ids


def oddities_of(manifest: Manifest, others: list[str]) -> list[str]:
    """Return what a manifest has that none of ours has, and the index that led to it, in lines."""
    lines = list(manifest.oddities)
    if others:
        lines.append(f"the index also names images for {', '.join(others)}")
    return lines


def sha256(data: bytes) -> str:
    """Return the digest of bytes as manifests write it: ``sha256:`` and 64 hexadecimal digits."""
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


class Checked(io.RawIOBase):
    """A stream that is hashed and counted while it is read."""

    def __init__(self, source: IO[bytes]) -> None:
        self._source = source
        self._sha256 = hashlib.sha256()
        self.size = 0  # bytes read so far

    def readable(self) -> bool:
        return True

    def read(self, size: int | None = -1, /) -> bytes:
        data = self._source.read(-1 if size is None else size)
        self._sha256.update(data)
        self.size += len(data)
        return data

    @property
    def digest(self) -> str:
        """The digest of what was read so far."""
        return f"sha256:{self._sha256.hexdigest()}"

    def finish(self, digest: str, name: str) -> None:
        """Read what is left, and raise if the whole has not the digest that it should have."""
        while self.read(CHUNK):
            pass
        if self.digest != digest:
            raise TnpuError(
                f"{name} is damaged or was altered: its content has the digest {self.digest},"
                f" not {digest}",
                "fetch or push the image again",
            )


def as_stream(pieces: Iterator[bytes]) -> IO[bytes]:
    """Return an iterator of bytes as a stream."""
    return cast(IO[bytes], _Pieces(pieces))


class _Pieces(io.RawIOBase):
    """An iterator of bytes as a stream."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces, self._left = pieces, b""

    def readable(self) -> bool:
        return True

    def read(self, size: int | None = -1, /) -> bytes:
        if size is None or size < 0:
            data, self._left = self._left + b"".join(self._pieces), b""
            return data
        if not self._left:
            self._left = next(self._pieces, b"")
        data, self._left = self._left[:size], self._left[size:]
        return data


class _Peeked(io.RawIOBase):
    """A stream whose first bytes have been read already."""

    def __init__(self, first: bytes, source: IO[bytes]) -> None:
        self._first, self._source = first, source

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def read(self, size: int | None = -1, /) -> bytes:
        if not self._first:
            return self._source.read(-1 if size is None else size)
        if size is None or size < 0:
            data, self._first = self._first + self._source.read(), b""
        else:
            data, self._first = self._first[:size], self._first[size:]
        return data


def decompressed(source: IO[bytes], said: bool | None = None) -> IO[bytes]:
    """Return a tar, whether it was compressed (gzip, zstd, xz, bzip2) or not.

    Args:
        said: whether it is compressed, from who names it. Some programs go by that, others by the
            first bytes, and there are bytes that are a tar and a gzip at once.

    Raises:
        ValueError: it is not as was said.
    """
    first = source.read(4)
    if said is not None and said != first.startswith((_GZIP, _ZSTD, _XZ, _BZIP2)):
        raise ValueError(f"a layer is {'not ' if said else ''}compressed, unlike its media type")
    stream = cast(IO[bytes], _Peeked(first, source))
    if first.startswith(_GZIP):
        return cast(IO[bytes], igzip.IGzipFile(fileobj=stream))  # type: ignore[no-untyped-call]
    if first == _XZ:
        return cast(IO[bytes], _Joined(stream, lzma.LZMADecompressor))
    if first.startswith(_BZIP2):
        return cast(IO[bytes], _Joined(stream, bz2.BZ2Decompressor))
    return cast(IO[bytes], _Zstd(stream)) if first == _ZSTD else stream


class _Joined(io.RawIOBase):
    """One or more xz or bzip2 streams, decompressed; nothing else may follow them.

    The standard library's files pass over whatever comes after the first.
    """

    def __init__(
        self, source: IO[bytes], kind: type[lzma.LZMADecompressor] | type[bz2.BZ2Decompressor]
    ) -> None:
        self._source, self._kind = source, kind
        self._running = kind()

    def readable(self) -> bool:
        return True

    def read(self, size: int | None = -1, /) -> bytes:
        if size is None or size < 0:
            return b"".join(iter(lambda: self.read(CHUNK), b""))
        data = b""
        while not data:
            if self._running.eof:
                rest = self._running.unused_data or self._source.read(CHUNK)
                if not rest:
                    return b""
                self._running = self._kind()
            elif self._running.needs_input:
                rest = self._source.read(CHUNK)
                if not rest:
                    raise EOFError("it is cut off")
            else:
                rest = b""
            data = self._running.decompress(rest, size)
        return data


class _Zstd(io.RawIOBase):
    """A zstd stream, decompressed; its library is needed for such layers only."""

    def __init__(self, source: IO[bytes]) -> None:
        try:
            import zstandard
        except ImportError as error:
            raise TnpuError(
                "the image has layers compressed with zstd, which needs the Python package"
                " zstandard",
                "pip install 'tnpu-nix[images]'",
            ) from error
        self._error = zstandard.ZstdError
        self._reader = zstandard.ZstdDecompressor().stream_reader(source, read_across_frames=True)

    def readable(self) -> bool:
        return True

    def read(self, size: int | None = -1, /) -> bytes:
        try:
            return self._reader.read(-1 if size is None else size)
        except self._error as error:
            raise OSError(str(error)) from error
