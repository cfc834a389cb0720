"""What a cache says of a store path: the narinfo of a binary cache, or `nix path-info --json`."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tnpu_nix import store

STORE = "/nix/store"
UNREADABLE = "its narinfo cannot be read"
_STORE_PATH = re.compile(r"/nix/store/[0-9a-z]{32}-[0-9a-zA-Z+._?=-]+")


@dataclass(frozen=True)
class PathInfo:
    """One store path as a cache has it."""

    path: str
    nar_hash: str  # "sha256:" and base32 or base16, or SRI
    nar_size: int  # bytes, unpacked
    references: tuple[str, ...] = ()  # store paths, never the path itself
    signatures: tuple[str, ...] = ()  # "key name:base64"
    file: str | None = None  # the NAR, below the cache's URL
    file_size: int | None = None  # bytes, as it is downloaded
    fault: str | None = None  # why nobody can make use of what the cache says
    refers_to_itself: bool = False

    @property
    def nar_sri(self) -> str:
        """The hash of the NAR in SRI form, so that two spellings of it compare."""
        from tnpu_nix.storepath import sri_from_base32

        algorithm, _, digest = self.nar_hash.partition(":")
        if algorithm == "sha256" and len(digest) == 52:
            return sri_from_base32(digest)
        return self.nar_hash


def hash_part(path: str) -> str:
    """Return the 32 characters by which a binary cache names a store path."""
    return path.removeprefix(f"{STORE}/")[:32]


def damaged(path: str, fault: str) -> PathInfo:
    """Return what is known of a path whose narinfo cannot be used."""
    return PathInfo(path, nar_hash="", nar_size=0, fault=fault)


def parse(path: str, text: str) -> PathInfo:
    """Read the narinfo of *path*; what is wrong with it is in the result's `fault`.

    Source of the format: Nix's nar-info.cc; lines of ``Key: value``, references as base names.
    """
    fields: dict[str, str] = {}
    signatures = []
    for line in text.splitlines():
        key, colon, value = line.partition(": ")
        if key == "Sig" and colon:
            signatures.append(value)
        elif colon:
            fields[key] = value
    try:
        references = tuple(f"{STORE}/{name}" for name in fields.get("References", "").split())
        info = PathInfo(
            path=fields["StorePath"],
            nar_hash=fields["NarHash"],
            nar_size=int(fields["NarSize"]),
            references=tuple(one for one in references if one != path),
            refers_to_itself=path in references,
            signatures=tuple(signatures),
            file=fields["URL"],
            file_size=int(fields["FileSize"]) if "FileSize" in fields else None,
        )
    except (KeyError, ValueError):
        return damaged(path, UNREADABLE)
    return _checked(path, info)


def text(info: PathInfo) -> str:
    """Return a narinfo of what a signature is made of, without a NAR to go with it."""
    references = [*info.references, *([info.path] if info.refers_to_itself else [])]
    names = sorted(one.removeprefix(f"{STORE}/") for one in references)
    lines = [
        f"StorePath: {info.path}",
        "URL: nar/none",
        f"NarHash: {info.nar_hash}",
        f"NarSize: {info.nar_size}",
        f"References: {' '.join(names)}",
        *(f"Sig: {one}" for one in info.signatures),
    ]
    return "".join(f"{line}\n" for line in lines)


def _checked(path: str, info: PathInfo) -> PathInfo:
    if info.path != path:
        return damaged(path, "its narinfo is that of another path")
    if not all(_STORE_PATH.fullmatch(one) for one in info.references):
        return damaged(path, "its narinfo names references that are no store paths")
    # The file is read, and in a pruned cache removed: it must lie in the cache.
    if info.file and (info.file.startswith("/") or ".." in info.file.split("/")):
        return damaged(path, "its narinfo leads out of the cache")
    if info.file and posixpath.normpath(info.file) != info.file:
        return damaged(path, "its narinfo leads out of the cache")
    return info


def reached(infos: Mapping[str, PathInfo], roots: Iterable[str]) -> set[str]:
    """Return *roots* and all that they refer to, as far as *infos* has them."""
    todo = [path for path in roots if path in infos]
    found = set(todo)
    while todo:
        for reference in infos[todo.pop()].references:
            if reference in infos and reference not in found:
                found.add(reference)
                todo.append(reference)
    return found


def from_nix(answer: Any) -> dict[str, PathInfo | None]:
    """Read the JSON of `nix path-info`: path → info, None for a path that the store lacks."""
    entries = store.by_path(answer).items()
    return {path: None if one is None else _from_json(path, one) for path, one in entries}


def _from_json(path: str, entry: Mapping[str, Any]) -> PathInfo:
    names = [one if one.startswith("/") else f"{STORE}/{one}" for one in entry["references"]]
    return PathInfo(
        path=path,
        nar_hash=entry["narHash"],
        nar_size=entry["narSize"],
        references=tuple(one for one in names if one != path),
        refers_to_itself=path in names,
        signatures=tuple(entry.get("signatures", ())),
        file=entry.get("url"),
        file_size=entry.get("downloadSize"),
    )
