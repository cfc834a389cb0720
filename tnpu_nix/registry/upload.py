"""Writing to a repository of a registry: blobs whose size is not known before, then a manifest."""

from __future__ import annotations

import contextlib
import hashlib
import queue
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import IO, TypeVar
from urllib.parse import quote

from isal import isal_zlib
from urllib3.exceptions import HTTPError, ReadTimeoutError, SSLError

from tnpu_nix.errors import TnpuError
from tnpu_nix.registry.answers import RegistryError
from tnpu_nix.registry.client import Repository, digest_of

Item = TypeVar("Item")

_PIECE = 1 << 18  # bytes that are read, compressed and sent at a time
_AHEAD = 12  # pieces that each stage may be ahead of the next
# What is smaller goes in one request, which can be sent again without making the layer again.
_SMALL = 4 << 20
# Of igzip's four levels the one before the slow one: near zlib's level 1 in size at five times
# its speed. A gzip header without a time: the same bytes in, the same bytes out.
_LEVEL = 2
_GZIP = 31


@dataclass(frozen=True)
class Blob:
    """A layer in a registry."""

    digest: str  # of what is stored, which is gzip
    size: int  # bytes of what is stored


@dataclass
class Compressed:
    """A layer's bytes on their way: read, hashed and compressed by threads, a little ahead."""

    source: IO[bytes]
    read: Callable[[int], None]  # is told how many more bytes have been read
    diff_id: str = ""  # of the layer's own bytes; known at the end, like the rest
    digest: str = ""
    size: int = 0

    def pieces(self) -> Iterator[bytes]:
        """Yield the layer as gzip."""
        yield from ahead(self._compressed(ahead(self._plain())))

    def _plain(self) -> Iterator[bytes]:
        hashed = hashlib.sha256()
        while data := self.source.read(_PIECE):
            hashed.update(data)
            self.read(len(data))
            yield data
        self.diff_id = f"sha256:{hashed.hexdigest()}"

    def _compressed(self, plain: Iterator[bytes]) -> Iterator[bytes]:
        hashed, size = hashlib.sha256(), 0
        gzip = isal_zlib.compressobj(_LEVEL, isal_zlib.DEFLATED, _GZIP)
        for data in plain:
            if out := gzip.compress(data):
                hashed.update(out)
                size += len(out)
                yield out
        out = gzip.flush()
        hashed.update(out)
        self.digest, self.size = f"sha256:{hashed.hexdigest()}", size + len(out)
        yield out


def ahead(items: Iterator[Item]) -> Iterator[Item]:
    """Yield what *items* yields, made by a thread of its own, which is a few items ahead."""
    made: queue.SimpleQueue[tuple[str, Item | BaseException | None]] = queue.SimpleQueue()
    room = threading.Semaphore(_AHEAD)
    stopped = threading.Event()

    def make() -> None:
        try:
            for item in items:
                room.acquire()
                if stopped.is_set():
                    return
                made.put(("item", item))
            made.put(("end", None))
        except BaseException as error:  # whoever reads gets it
            made.put(("error", error))

    threading.Thread(target=make, daemon=True).start()
    try:
        while True:
            kind, item = made.get()
            if kind == "end":
                return
            if isinstance(item, BaseException):
                raise item
            yield item  # type: ignore[misc]  # not None: that is the end
            room.release()
    finally:
        stopped.set()
        room.release()


def upload_layer(
    repository: Repository, layer: Compressed, sent: Callable[[int], None]
) -> tuple[Blob, bool]:
    """Send a layer while it is being compressed; nothing of it is kept.

    Args:
        sent: is told how many more bytes have gone out.

    Returns:
        The layer's blob, and whether it was sent: a small one may be found there.

    Raises:
        TnpuError: the registry does not take it, or the connection broke (see is_passing), or
            the layer could not be read.
    """
    with contextlib.closing(layer.pieces()) as pieces:  # type: ignore[type-var]
        head: list[bytes] = []
        length = 0
        for piece in pieces:
            head.append(piece)
            length += len(piece)
            if length > _SMALL:
                break
        else:
            went = upload_blob(repository, b"".join(head), layer.digest)
            sent(length if went else 0)
            return Blob(layer.digest, layer.size), went

        _stream(repository, head, pieces, layer, sent)
    return Blob(layer.digest, layer.size), True


def _stream(
    repository: Repository,
    head: list[bytes],
    rest: Iterator[bytes],
    layer: Compressed,
    sent: Callable[[int], None],
) -> None:
    """Send a layer in one request of unknown length.

    That is how docker pushes, and what every registry takes; some refuse requests that say which
    range of the blob they carry.
    """

    def body() -> Iterator[bytes]:
        while head:
            yield from _told(head.pop(0), sent)
        for piece in rest:
            yield from _told(piece, sent)

    location = _begin(repository)
    answer = repository.transport.request(
        "PATCH",
        location,
        headers={"Content-Type": "application/octet-stream"},
        body=body(),
        accept=(202,),
        tries=1,
        what="upload",
    )
    _finish(repository, answer.headers.get("Location") or location, layer.digest, b"")


def _told(piece: bytes, sent: Callable[[int], None]) -> Iterator[bytes]:
    yield piece
    sent(len(piece))


def upload_blob(repository: Repository, data: bytes, digest: str) -> bool:
    """Send a small blob in one request, unless it is there, and tell whether it was sent.

    Raises:
        TnpuError: the registry does not take it, or the connection broke; see is_passing.
    """
    if repository.has_blob(digest):
        return False
    _finish(repository, _begin(repository), digest, data)
    return True


def put_manifest(repository: Repository, tag: str, raw: bytes, media_type: str) -> str:
    """Write a manifest under a tag, which is there from now on, and return its digest.

    Raises:
        TnpuError: the registry does not take it, or the connection broke; see is_passing.
    """
    repository.transport.request(
        "PUT",
        f"manifests/{quote(tag)}",
        headers={"Content-Type": media_type},
        body=raw,
        accept=(201, 202),
        what=f"manifest {tag}",
    )
    return digest_of(raw)


def _begin(repository: Repository) -> str:
    """Start an upload, and return where its bytes go."""
    answer = repository.transport.request(
        "POST", "blobs/uploads/", body=b"", accept=(202,), what="upload"
    )
    location = answer.headers.get("Location")
    if not location:
        raise TnpuError(
            f"{repository.reference.host} starts an upload and does not say where it goes",
            "check that this is a registry, and the proxy before it",
        )
    return location


def _finish(repository: Repository, location: str, digest: str, data: bytes) -> None:
    separator = "&" if "?" in location else "?"
    repository.transport.request(
        "PUT",
        f"{location}{separator}digest={quote(digest, safe='')}",
        headers={"Content-Type": "application/octet-stream"},
        body=data,
        accept=(201, 204),
        tries=1,
        what="upload",
    )


def is_passing(error: TnpuError) -> bool:
    """Tell whether a registry that refused, or broke off, may take the same another time."""
    if isinstance(error, RegistryError):
        # A session is unknown to a registry that has been started anew since.
        lost = "BLOB_UPLOAD_UNKNOWN" in error.codes or "BLOB_UPLOAD_INVALID" in error.codes
        return lost or error.status >= 500 or error.status == 429
    cause = error.__cause__
    return isinstance(cause, HTTPError) and not isinstance(cause, SSLError | ReadTimeoutError)


def lacks_what_it_has(error: TnpuError) -> bool:
    """Tell whether a registry refuses a manifest for the lack of a blob.

    A blob that was sent, or that the registry said it has: one that keeps such answers says so
    for a while of what a collection has removed.
    """
    return isinstance(error, RegistryError) and "MANIFEST_BLOB_UNKNOWN" in error.codes
