"""The members of an archive that holds an image, read so that no other reader finds other ones.

Programs differ in what they make of a tar: the first of two members of a name or the last, by the
name as it is or as it is unpacked, to the end of the archive or beyond. What tells them apart is
refused here.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from tnpu_nix.images import plaintar
from tnpu_nix.images.model import decompressed
from tnpu_nix.images.plaintar import Member

# A configuration has some ten kilobytes.
_LARGEST_DOCUMENT = 16 << 20
_LARGEST_TOGETHER = 256 << 20


@dataclass
class Members:
    """What an archive holds, under names without ``./`` at their start."""

    sizes: dict[str, int] = field(default_factory=dict)  # file → bytes
    links: dict[str, str] = field(default_factory=dict)  # symbolic link → what it leads to
    documents: dict[str, bytes] = field(default_factory=dict)  # file → what may be JSON

    def document(self, name: str) -> bytes:
        """Return a JSON document.

        Raises:
            ValueError: there is none of that name.
        """
        if name not in self.documents:
            raise ValueError(f"it holds no {name} in JSON")
        return self.documents[name]

    def file(self, name: str) -> str:
        """Return the file that a name stands for, which may be that of a link to it.

        Raises:
            ValueError: there is none.
        """
        found = self.links.get(name, name)
        if found not in self.sizes:
            raise ValueError(f"it holds no {name}")
        return found


@contextmanager
def opened(path: Path) -> Iterator[IO[bytes]]:
    """Open an archive, compressed or not, as a stream of the tar."""
    with path.open("rb") as file:
        yield decompressed(file)


def walk(stream: IO[bytes]) -> Iterator[tuple[str, Member, IO[bytes]]]:
    """Yield (name, member, content) of each member, in the order of the tar.

    Raises:
        ValueError: others could read the tar otherwise, or a name leads out of it.
        OSError, EOFError and what else a stream raises that is cut short or altered.
    """
    for member, content in plaintar.members(stream):
        if ".." in member.name.split("/"):
            raise ValueError(f"the name {member.name!r} leads out of it")
        yield posixpath.normpath(member.name).lstrip("/"), member, content


def read(stream: IO[bytes]) -> Members:
    """Read a tar to its end.

    Raises:
        ValueError: others could read it otherwise; the text says why.
        OSError, EOFError and what else a stream raises that is cut short or altered.
    """
    found, folders, together = Members(), {"."}, 0
    for name, member, content in walk(stream):
        if member.kind == "directory":
            folders.add(name)
            continue
        if name in found.sizes or name in found.links:
            raise ValueError(f"ambiguous, it holds {name} twice")
        if member.kind == "symlink":
            found.links[name] = _target(name, member.target)
        else:
            found.sizes[name] = member.size
            if (text := _document(member.size, content)) is not None:
                found.documents[name] = text
                together += len(text)
        if together > _LARGEST_TOGETHER:
            raise ValueError("its documents are larger than those of any image")
    _check_folders(found, folders)
    return found


def _document(size: int, content: IO[bytes]) -> bytes | None:
    if size > _LARGEST_DOCUMENT:
        return None
    head = content.read(64)
    return head + content.read() if head.lstrip()[:1] in (b"{", b"[") else None


def _target(name: str, link: str) -> str:
    """Return the member that a link in the archive leads to."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(name), link))


def _check_folders(found: Members, folders: set[str]) -> None:
    """Raise if a file's folder is something else as well: unpacked it would lie elsewhere."""
    for name in (*found.sizes, *found.links):
        folder = posixpath.dirname(name)
        while folder:
            if folder in found.sizes or folder in found.links:
                raise ValueError(f"ambiguous, {folder} is a folder and is none")
            folder = posixpath.dirname(folder)
    for folder in folders:
        if folder in found.sizes or folder in found.links:
            raise ValueError(f"ambiguous, {folder} is a folder and is none")
