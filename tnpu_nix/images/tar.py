"""One layer: a tar read as a stream, once, with all its hashes."""

from __future__ import annotations

import hashlib
import posixpath
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import IO, cast

from tnpu_nix.errors import TnpuError
from tnpu_nix.images.model import BROKEN_STREAM, CHUNK, Checked
from tnpu_nix.images.nar import NarHash, OrderError
from tnpu_nix.storepath import root_of

_KINDS = {
    tarfile.SYMTYPE: "symlink",
    tarfile.LNKTYPE: "hard link",
    tarfile.DIRTYPE: "directory",
    tarfile.CHRTYPE: "character device",
    tarfile.BLKTYPE: "block device",
    tarfile.FIFOTYPE: "fifo",
}
# What a pax header says again of a member whose fields have no room for it.
_PLAIN_PAX = {"path", "linkpath", "size", "mtime", "uid", "gid", "uname", "gname", "atime", "ctime"}
# A manifest is some hundred kilobytes; what calls itself one and is larger is none.
_LARGEST_KEPT = 64 << 20


@dataclass(frozen=True, slots=True)
class Entry:
    """A file, directory, link or other member of a layer."""

    kind: str  # "file", "directory", "symlink", "hard link", …
    mode: int  # permissions with setuid, setgid and sticky
    uid: int
    gid: int
    mtime: float  # seconds since 1970
    size: int = 0  # bytes
    sha256: str = ""  # of a file's content, hexadecimal
    target: str = ""  # of a link
    more: tuple[tuple[str, str], ...] = ()  # extended attributes and device numbers

    @property
    def executable(self) -> bool:
        """Whether its owner may execute it."""
        return bool(self.mode & 0o100)


@dataclass(frozen=True)
class Scanned:
    """A layer as it is, whatever the image's configuration says of it."""

    diff_id: str  # sha256 of the tar
    size: int  # bytes of the tar
    entries: dict[str, Entry]  # path without "/" at its start; of two of one name the later
    nars: dict[str, tuple[str, int]]  # "nix/store/…" → SRI hash, bytes of the NAR, where in order
    faults: list[str]
    kept: bytes | None  # content of the file that was to be kept


Sink = Callable[[str, Entry, Iterator[bytes]], None]


class _Strict(tarfile.TarInfo):
    """A tar's header of which Python's tarfile does not pass over what it cannot read."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> _Strict:
        try:
            return super().frombuf(buf, encoding, errors)
        except tarfile.HeaderError as error:
            if any(buf):  # zeros are the end of an archive
                raise tarfile.ReadError(f"a header cannot be read: {error}") from error
            raise


def scan_tar(tar: IO[bytes], name: str, sink: Sink | None = None, keep: str = "") -> Scanned:
    """Read a layer to its end.

    Args:
        tar: uncompressed.
        name: what the layer is called in an error.
        sink: takes each file: its path, what is known of it before it is read, and its content.
        keep: path of a file whose content is to be returned.

    Raises:
        TnpuError: it is no tar, or breaks off.
    """
    checked = Checked(tar)
    scanning = _Scanning(sink, keep)
    try:
        with tarfile.open(
            fileobj=cast(IO[bytes], checked), mode="r|", bufsize=CHUNK, tarinfo=_Strict
        ) as archive:
            for member in archive:
                archive.members = []  # type: ignore[attr-defined]  # a stream has no use for them
                scanning.take(archive, member)
            scanning.rest(cast(IO[bytes], archive.fileobj))
    except BROKEN_STREAM as error:
        raise TnpuError(
            f"the layer {name} cannot be read: {error}", "fetch or push the image again"
        ) from error
    return scanning.done(checked)


class _Scanning:
    """A layer while it is read."""

    def __init__(self, sink: Sink | None, keep: str) -> None:
        self._sink, self._keep = sink, keep
        self._entries: dict[str, Entry] = {}
        self._nars: dict[str, NarHash | None] = {}  # None: not in the order of a NAR
        self._faults: list[str] = []
        self._kept: bytes | None = None

    def take(self, archive: tarfile.TarFile, member: tarfile.TarInfo) -> None:
        """Take the next member."""
        path = self._path(member.name)
        if path in self._entries:
            self._faults.append(f"/{path} comes twice")
        entry = _entry(member)
        digest = hashlib.sha256()
        pieces = _content(archive, member, digest.update)
        if path == self._keep and entry.kind == "file" and entry.size <= _LARGEST_KEPT:
            self._kept = b"".join(pieces)
            pieces = iter([self._kept])
        if self._sink is not None and entry.kind == "file":
            self._sink(path, entry, pieces)
        else:
            self._hash(path, entry, pieces)
        for _piece in pieces:
            pass
        if entry.kind == "file":
            entry = replace(entry, sha256=digest.hexdigest())
        self._entries[path] = entry

    def _path(self, name: str) -> str:
        path = posixpath.normpath(name).lstrip("/")
        if ".." in name.split("/"):
            self._faults.append(f"{name!r} leads out of its folder")
            return name
        return "" if path == "." else path

    def _hash(self, path: str, entry: Entry, pieces: Iterator[bytes]) -> None:
        if (root := root_of(path)) is None:
            return
        nar = self._nars.setdefault(root, NarHash())
        if nar is None:
            return
        try:
            nar.add(tuple(path.split("/")[3:]), entry, pieces)
        except OrderError:
            self._nars[root] = None

    def rest(self, stream: IO[bytes]) -> None:
        """Take what follows the end of the archive: others may read on there."""
        while piece := stream.read(CHUNK):
            if any(piece):
                self._faults.append("something follows the end of the archive")
                break
        while stream.read(CHUNK):
            pass

    def done(self, checked: Checked) -> Scanned:
        """Return what was read."""
        nars = {}
        for root, nar in self._nars.items():
            if nar is not None:
                nars[root] = (nar.end(), nar.size)
        faults, kept = self._faults, self._kept
        return Scanned(checked.digest, checked.size, self._entries, nars, faults, kept)


def _entry(member: tarfile.TarInfo) -> Entry:
    kind = "file" if member.isreg() else _KINDS.get(member.type, f"member of type {member.type!r}")
    more = {name: text for name, text in member.pax_headers.items() if name not in _PLAIN_PAX}
    if "device" in kind:
        more["device"] = f"{member.devmajor}:{member.devminor}"
    return Entry(
        kind=kind,
        mode=member.mode & 0o7777,
        uid=member.uid,
        gid=member.gid,
        mtime=float(member.mtime),
        size=member.size if kind == "file" else 0,
        target=member.linkname if "link" in kind else "",
        more=tuple(sorted(more.items())),
    )


def _content(
    archive: tarfile.TarFile, member: tarfile.TarInfo, see: Callable[[bytes], None]
) -> Iterator[bytes]:
    """Yield a file's content in pieces, each shown to *see* first."""
    if not member.isreg():
        return
    file = archive.extractfile(member)
    assert file is not None
    while piece := file.read(CHUNK):
        see(piece)
        yield piece
