"""Tars that every program reads alike: those that archives of images are.

The tar format has grown in ways that readers take differently: headers that rename the next member,
or all that follow, numbers in several notations, names in two fields. Python's tarfile takes them
all. A layer may have any of them, since its digest says which bytes it has; of an archive nothing
does, so here what is not plain is refused. Sources: POSIX.1-2017, pax, "ustar Interchange Format"
and "pax Extended Header"; GNU tar's manual, "Basic Tar Format"; Go's archive/tar, which Docker and
skopeo read by.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, cast

from tnpu_nix.images.model import CHUNK

_BLOCK = 512
_MAGICS = (b"ustar\x0000", b"ustar  \x00")
_KINDS = {b"0": "file", b"\0": "file", b"5": "directory", b"2": "symlink"}
_PAX, _LARGEST_PAX = b"x", 1 << 16
# What a pax header may say: nothing that changes which member this is in one reader alone.
_PAX_KEYS = {"path", "linkpath", "size", "mtime", "atime", "ctime", "uid", "gid", "uname", "gname"}
_OCTAL = re.compile(rb" *([0-7]+)[ \0]*")


@dataclass(frozen=True)
class Member:
    """A member of a tar."""

    name: str  # as it is written there
    kind: str  # "file", "directory", "symlink"
    size: int  # bytes of a file
    target: str  # of a symlink


class _Content(io.RawIOBase):
    """A file's bytes, from the stream that the tar comes in."""

    def __init__(self, stream: IO[bytes], size: int) -> None:
        self._stream, self.left = stream, size

    def readable(self) -> bool:
        return True

    def read(self, size: int | None = -1, /) -> bytes:
        wanted = self.left if size is None or size < 0 else min(size, self.left)
        data = _exactly(self._stream, wanted) if wanted else b""
        self.left -= len(data)
        return data

    def readinto(self, buffer: memoryview, /) -> int:  # type: ignore[override]
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)


def members(stream: IO[bytes]) -> Iterator[tuple[Member, IO[bytes]]]:
    """Yield each member with its content, which is read, or not, before the next one is asked for.

    Raises:
        ValueError: a member is not plain, or something follows the end; the text says why.
        EOFError: the tar is cut off.
    """
    said: dict[str, str] = {}
    while any(block := _exactly(stream, _BLOCK)):
        _check(block)
        kind, size = block[156:157], _number(block[124:136])
        if kind == _PAX:
            if said or size > _LARGEST_PAX:
                raise ValueError("it has several pax headers for one member, or a huge one")
            said = _pax(_exactly(stream, size))
            _exactly(stream, -size % _BLOCK)
            continue
        found = _member(block, kind, size, said)
        said = {}
        content = _Content(stream, found.size)
        yield found, cast(IO[bytes], content)
        while content.read(CHUNK):
            pass
        _exactly(stream, -found.size % _BLOCK)
    if said:
        raise ValueError("it ends in a pax header")
    while piece := stream.read(CHUNK):
        if any(piece):
            raise ValueError("something follows its end")


def _exactly(stream: IO[bytes], size: int) -> bytes:
    pieces, left = [], size
    while left:
        piece = stream.read(left)
        if not piece:
            raise EOFError("it is cut off")
        pieces.append(piece)
        left -= len(piece)
    return b"".join(pieces)


def _check(block: bytes) -> None:
    whole = sum(block) - sum(block[148:156]) + 8 * ord(" ")
    if _number(block[148:156]) != whole:
        raise ValueError("a header cannot be read: its check sum is wrong")
    # The last part of a name in POSIX, times and more in GNU's: what stands there is ambiguous.
    if block[257:265] not in _MAGICS or any(block[345:500]):
        raise ValueError("a header is not plain: not of ustar or GNU, or with a prefix")


def _number(field: bytes) -> int:
    if field[0] == 0x80:  # GNU's notation of sizes from 8 GiB on
        return int.from_bytes(field[1:], "big")
    if (found := _OCTAL.fullmatch(field)) is None:
        raise ValueError(f"a number in a header is not plain: {field!r}")
    return int(found[1], 8)


def _pax(data: bytes) -> dict[str, str]:
    said: dict[str, str] = {}
    while data:
        length, _, _ = data.partition(b" ")
        end = int(length) if length.isdigit() and len(length) < 6 else 0
        key, equals, value = data[len(length) + 1 : end].partition(b"=")
        name = key.decode()
        if not equals or data[end - 1 : end] != b"\n" or name in said or name not in _PAX_KEYS:
            raise ValueError(f"a pax header is not plain: {data[:40]!r}")
        said[name] = value[:-1].decode()
        data = data[end:]
    return said


def _member(block: bytes, kind: bytes, size: int, said: dict[str, str]) -> Member:
    name = said.get("path") or _text(block[:100])
    if kind not in _KINDS:
        raise ValueError(f"{name} is neither a file nor a folder")
    if (text := said.get("size")) is not None:
        if not re.fullmatch(r"[0-9]{1,18}", text):
            raise ValueError(f"the size of {name} is no number")
        size = int(text)
    if not name or "\0" in name or (_KINDS[kind] == "file" and name.endswith("/")):
        raise ValueError(f"a member has the name {name!r}")
    if _KINDS[kind] != "file" and size:
        raise ValueError(f"{name}, which is no file, has a size")
    return Member(name, _KINDS[kind], size, said.get("linkpath") or _text(block[157:257]))


def _text(field: bytes) -> str:
    return field.partition(b"\0")[0].decode()
