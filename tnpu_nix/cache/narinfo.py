"""What a cache says of a store path: the narinfo of a binary cache, or `nix path-info --json`."""

from __future__ import annotations

import contextlib
import posixpath
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tnpu_nix import store

STORE = "/nix/store"
UNREADABLE = "its narinfo cannot be read"
OTHER_PATH = "its narinfo is that of another path"
# A name, and the 64 bytes of an Ed25519 signature in base64.
_SIGNATURE = re.compile(r"[^:]+:[A-Za-z0-9+/]{86}(==)?")
_LARGEST = 2**64  # bytes; Nix counts in 64 bits
# The digits are those of Nix's base32, and a name has 211 characters at most.
_NAME = r"[0-9a-df-np-sv-z]{32}-[0-9a-zA-Z+._?=-]{1,211}"
_STORE_PATH = re.compile(f"{STORE}/{_NAME}")
# What Nix calls a NAR that it has packed: it asks no file what it is but for these two.
_SUFFIXES = {".xz": "", ".bz2": "", ".zst": "", ".lzip": "", ".lz4": "", ".br": "br"}


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
        from tnpu_nix.storepath import sri

        try:
            return sri(self.nar_hash)
        except ValueError:
            return self.nar_hash


def hash_part(path: str) -> str:
    """Return the 32 characters by which a binary cache names a store path."""
    return path.removeprefix(f"{STORE}/")[:32]


def is_signature(text: str) -> bool:
    """Tell whether a ``Sig`` has the form of one; whether it holds is for Nix to say."""
    return _SIGNATURE.fullmatch(text) is not None


def damaged(path: str, fault: str) -> PathInfo:
    """Return what is known of a path whose narinfo cannot be used."""
    return PathInfo(path, nar_hash="", nar_size=0, fault=fault)


def parse(path: str, text: str) -> PathInfo:
    """Read the narinfo of *path*; what is wrong with it is in the result's `fault`.

    Source of the format: Nix's nar-info.cc; lines of ``Key: value``, references as base names.
    What is said to be wrong here is what makes Nix give up, with all other caches as well.
    """
    try:
        fields, signatures = _fields(text)
        info = _info(path, fields, signatures)
    except KeyError as error:
        return damaged(path, f"{UNREADABLE}: it has no {error.args[0]}")
    except ValueError as error:
        return damaged(path, f"{UNREADABLE}: {error}")
    return _checked(path, info, fields)


def _info(path: str, fields: Mapping[str, str], signatures: Sequence[str]) -> PathInfo:
    names = [name for name in fields.get("References", "").split(" ") if name]
    references = tuple(f"{STORE}/{name}" for name in names)
    return PathInfo(
        path=posixpath.normpath(fields["StorePath"]),
        nar_hash=fields["NarHash"],
        nar_size=_bytes("NarSize", fields["NarSize"]),
        references=tuple(one for one in references if one != path),
        refers_to_itself=path in references,
        signatures=tuple(signatures),
        file=fields["URL"],
        file_size=_bytes("FileSize", fields.get("FileSize", "0")) or None,
    )


def _fields(text: str) -> tuple[dict[str, str], list[str]]:
    """Return the fields of a narinfo, and its signatures, cut as Nix cuts them.

    That is not line by line: a key reaches to the next colon, over the end of a line as well.

    Raises:
        ValueError: Nix cannot cut it.
    """
    fields: dict[str, str] = {}
    signatures = []
    begin = 0
    while begin < len(text):
        colon = text.find(":", begin)
        if colon < 0:
            raise ValueError("its last line has no colon")
        end = text.find("\n", colon + 2)
        if end < 0:
            raise ValueError("it breaks off before its end")
        key, value = text[begin:colon], text[colon + 2 : end]
        begin = end + 1
        if key in ("References", "CA") and fields.get(key, "").strip(" "):
            raise ValueError(f"it has {key} twice")
        if key == "Sig":
            signatures.append(value)
        else:
            fields[key] = value
    return fields, signatures


def path_in(text: str) -> str:
    """Return the store path that a narinfo says it is of; empty if it says none."""
    with contextlib.suppress(ValueError):
        return posixpath.normpath(_fields(text)[0].get("StorePath", "."))
    return ""


def guess(text: str) -> PathInfo:
    """Return what a narinfo that cannot be read may need: its NAR and references alone."""
    lines = dict(re.findall(r"^(URL|References): (.*)$", text, re.M))
    names = re.findall(_NAME, lines.get("References", ""))
    references = tuple(f"{STORE}/{name}" for name in names)
    return PathInfo("", "", 0, references, file=lines.get("URL"), fault=UNREADABLE)


def _bytes(key: str, digits: str) -> int:
    if not re.fullmatch(r"\+?[0-9]{1,99}", digits) or int(digits) >= _LARGEST:
        raise ValueError(f"its {key} is no number of bytes")
    return int(digits)


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


def _checked(path: str, info: PathInfo, fields: Mapping[str, str]) -> PathInfo:
    if fault := _nonsense(info, fields):
        return damaged(path, fault)
    if info.path != path:
        return damaged(path, OTHER_PATH)
    if not all(_STORE_PATH.fullmatch(one) for one in info.references):
        return damaged(path, "its narinfo names references that are no store paths")
    # The file is read, and in a pruned cache removed: it must lie in the cache.
    if info.file and (info.file.startswith("/") or ".." in info.file.split("/")):
        return damaged(path, "its narinfo leads out of the cache")
    if info.file and posixpath.normpath(info.file) != info.file:
        return damaged(path, "its narinfo leads out of the cache")
    return info


def _nonsense(info: PathInfo, fields: Mapping[str, str]) -> str | None:
    """Return what Nix cannot read, or aborts at, whatever path it asked for."""
    from tnpu_nix.storepath import content_addressed_path, digest_of

    if not _STORE_PATH.fullmatch(info.path):
        return f"{UNREADABLE}: its StorePath is none"
    if not info.file:
        return "its narinfo names no NAR"
    try:
        if digest_of(info.nar_hash)[0] != "sha256":
            return "its narinfo has another hash than sha256"
    except ValueError:
        return "its narinfo has a hash that is none"
    if not info.nar_size:
        return "its narinfo says that it is empty"
    if fault := _file_fault(info, fields):
        return fault
    deriver = fields.get("Deriver", "unknown-deriver")
    if deriver != "unknown-deriver" and not _STORE_PATH.fullmatch(f"{STORE}/{deriver}"):
        return "its narinfo names a deriver that is no store path"
    if not fields.get("CA"):
        return None
    name = info.path[len(STORE) + 34 :]
    content = (fields["CA"], name, info.references, info.refers_to_itself)
    with contextlib.suppress(ValueError):
        if content_addressed_path(*content) == info.path:
            return None
    return "its narinfo has the address of another content"


def _file_fault(info: PathInfo, fields: Mapping[str, str]) -> str | None:
    """Return what is wrong with what a narinfo says of its NAR as a file."""
    from tnpu_nix.storepath import digest_of

    try:
        digest_of(fields.get("FileHash", info.nar_hash))
    except ValueError:
        return "its narinfo has a FileHash that is none"
    # All but these two are one to Nix, which looks into the file.
    said = fields.get("Compression", "")
    said = said if said in ("none", "br") else ""
    packed = _SUFFIXES.get(posixpath.splitext(info.file or "")[1], said)
    unpacked_size = info.file_size in (None, info.nar_size)
    if said != packed and not (said == "none" and unpacked_size):
        return f"its narinfo gives another Compression than {info.file} has"
    return None


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
