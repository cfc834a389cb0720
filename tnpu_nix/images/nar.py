"""NAR hashes, from what an image's layers hold: nothing is unpacked for them.

The format is that of the Nix manual's "Nix Archive (NAR) format": a NAR is a sequence of strings,
each with its length in 8 bytes, little-endian, before it and padded with zeros to a multiple of 8.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Protocol

Parts = tuple[str, ...]  # a path below a store path; () is the store path itself


class OrderError(Exception):
    """What came is not in the order of a NAR, or lies below what is no directory."""


class Node(Protocol):
    """What a NAR says of a file, directory or link."""

    @property
    def kind(self) -> str:
        """``file``, ``directory``, ``symlink``; a NAR holds nothing else."""

    @property
    def executable(self) -> bool:
        """Whether the owner may execute the file."""

    @property
    def size(self) -> int:
        """Bytes of the file."""

    @property
    def target(self) -> str:
        """What the link holds."""


class NarHash:
    """The hash of a NAR whose nodes are given one by one: parents first, names in byte order."""

    def __init__(self) -> None:
        self._sha256 = hashlib.sha256()
        self._open: list[bytes] = []  # the directories that are open, the store path as b""
        self._last: list[bytes] = []  # the last name in each of them
        self._ended = False
        self.size = 0  # bytes of the NAR so far
        self._strings("nix-archive-1")

    def add(self, parts: Parts, node: Node, content: Iterable[bytes] = ()) -> None:
        """Take the next node; *content* are a file's bytes in pieces.

        Raises:
            OrderError: it cannot stand here, or is nothing that a NAR can hold.
        """
        self._enter(parts)
        self._strings("(", "type")
        if node.kind == "directory":
            self._strings("directory")
            self._open.append(_encoded(parts[-1]) if parts else b"")
            self._last.append(b"")
            return
        if node.kind == "symlink":
            self._strings("symlink", "target", node.target)
        elif node.kind == "file":
            self._file(node, content)
        else:
            raise OrderError(f"a NAR holds no {node.kind}")
        self._strings(")", *([")"] if parts else []))

    def end(self) -> str:
        """Return the SRI hash of the NAR; nothing can be added afterwards.

        Raises:
            OrderError: there was nothing.
        """
        if not self._ended:
            raise OrderError("empty")
        while self._open:
            self._close()
        return sri(self._sha256.digest())

    def _enter(self, parts: Parts) -> None:
        if not parts:
            if self._ended:
                raise OrderError("the store path itself comes twice")
            self._ended = True
            return
        folder, name = [b"", *map(_encoded, parts[:-1])], _encoded(parts[-1])
        while self._open and self._open != folder[: len(self._open)]:
            self._close()
        if self._open != folder or name <= self._last[-1]:
            raise OrderError("/".join(parts))
        self._last[-1] = name
        self._strings("entry", "(", "name")
        self._bytes(name)
        self._strings("node")

    def _close(self) -> None:
        self._open.pop()
        self._last.pop()
        self._strings(")", *([")"] if self._open else []))

    def _file(self, node: Node, content: Iterable[bytes]) -> None:
        self._strings("regular", *(["executable", ""] if node.executable else []), "contents")
        self._feed(node.size.to_bytes(8, "little"))
        length = 0
        for piece in content:
            length += len(piece)
            self._feed(piece)
        if length != node.size:
            raise OrderError("a file is shorter or longer than was said")
        self._feed(bytes(-length % 8))

    def _strings(self, *words: str) -> None:
        for word in words:
            self._bytes(_encoded(word))

    def _bytes(self, data: bytes) -> None:
        self._feed(len(data).to_bytes(8, "little") + data + bytes(-len(data) % 8))

    def _feed(self, data: bytes) -> None:
        self._sha256.update(data)
        self.size += len(data)


def hash_tree(
    nodes: Mapping[Parts, Node], content: Callable[[Parts], Iterator[bytes]]
) -> tuple[str, int]:
    """Return the SRI hash and the size in bytes of the NAR of nodes that came in any order.

    Raises:
        OrderError: they are no tree of directories, or hold what no NAR can.
    """
    nar = NarHash()
    for parts in sorted(nodes, key=lambda parts: [_encoded(part) for part in parts]):
        node = nodes[parts]
        nar.add(parts, node, content(parts) if node.kind == "file" else ())
    return nar.end(), nar.size


def sri(digest: bytes) -> str:
    """Return a sha256 as an SRI hash."""
    return f"sha256-{base64.b64encode(digest).decode()}"


def _encoded(text: str) -> bytes:
    return text.encode(errors="surrogateescape")
