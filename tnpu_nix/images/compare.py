"""Two trees of files, or two configurations, and what differs, in words."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from tnpu_nix.images.contents import root_of
from tnpu_nix.images.model import CHUNK
from tnpu_nix.images.tar import Entry

# As Nix leaves what is in its store; NARs know of these only whether a file is executable.
_STORE_MODES = {"file": (0o444, 0o555), "directory": (0o555,), "symlink": (0o777,)}


def differences(found: Mapping[str, Entry], wanted: Mapping[str, Entry]) -> Iterator[str]:
    """Yield a line for each path that is not as it should be.

    Store paths that only one of the two has are not looked into.
    """
    whole = {root for path in wanted if (root := root_of(path))}
    here = {root for path in found if (root := root_of(path))}
    for path in sorted({*found, *wanted}):
        root = root_of(path)
        if root and (root in whole) != (root in here):
            continue
        if path not in found:
            yield f"/{path} is missing"
        elif path not in wanted:
            yield f"/{path} does not belong there: a {found[path].kind}"
        elif words := describe(found[path], wanted[path]):
            yield f"/{path} {words}"


def describe(found: Entry, wanted: Entry) -> str:
    """Return how two files differ; empty if they do not."""
    if found.kind != wanted.kind:
        return f"is a {found.kind} instead of a {wanted.kind}"
    words = []
    if found.sha256 != wanted.sha256:
        words.append(
            f"has other content (sha256 {found.sha256[:16]}… and {found.size} bytes instead of"
            f" {wanted.sha256[:16]}… and {wanted.size})"
        )
    if found.target != wanted.target:
        words.append(f"leads to {found.target} instead of {wanted.target}")
    if found.mode != wanted.mode:
        words.append(f"has mode {found.mode:o} instead of {wanted.mode:o}")
    if (found.uid, found.gid) != (wanted.uid, wanted.gid):
        words.append(f"belongs to {found.uid}:{found.gid} instead of {wanted.uid}:{wanted.gid}")
    if found.mtime != wanted.mtime:
        words.append(f"has the time {found.mtime:g} instead of {wanted.mtime:g}")
    if found.more != wanted.more:
        words.append(f"has the attributes {dict(found.more)} instead of {dict(wanted.more)}")
    return ", ".join(words)


def attribute_faults(path: str, entry: Entry) -> list[str]:
    """Return what a file of a store path has that neither Nix nor a NAR gives it."""
    faults = []
    if entry.mode not in _STORE_MODES.get(entry.kind, ()):
        faults.append(f"/{path} is a {entry.kind} of mode {entry.mode:o}, which no store path has")
    if (entry.uid, entry.gid) != (0, 0):
        faults.append(f"/{path} belongs to {entry.uid}:{entry.gid} instead of 0:0")
    if entry.mtime != 1.0:
        faults.append(f"/{path} has the time {entry.mtime:g} instead of 1")
    if entry.more:
        faults.append(f"/{path} has the attributes {dict(entry.more)}")
    return faults


def on_disk(store_path: str, where: Path) -> dict[str, Entry]:
    """Return the files of a store path as they lie on the disk.

    Args:
        store_path: with ``/`` at its start; where the image has it.
        where: the same on this machine.
    """
    name = store_path.lstrip("/")
    found: dict[str, Entry] = {}
    paths = [where]
    if where.is_dir() and not where.is_symlink():
        paths += sorted(
            Path(folder, one) for folder, dirs, files in os.walk(where) for one in [*dirs, *files]
        )
    for path in paths:
        below = path.relative_to(where).as_posix()
        known = path.lstat()
        mode = known.st_mode & 0o7777
        key = name if below == "." else f"{name}/{below}"
        if path.is_symlink():
            found[key] = Entry("symlink", 0o777, 0, 0, 1.0, target=str(path.readlink()))
        elif path.is_dir():
            found[key] = Entry("directory", mode, 0, 0, 1.0)
        else:
            digest = hashlib.sha256()
            with path.open("rb") as file:
                while piece := file.read(CHUNK):
                    digest.update(piece)
            found[key] = Entry("file", mode, 0, 0, 1.0, known.st_size, digest.hexdigest())
    return found


def config_differences(found: dict[str, Any], wanted: dict[str, Any]) -> Iterator[str]:
    """Yield a line for each key in which two image configurations differ.

    What is empty in one and absent in the other is the same, but for what has a name of the
    image's own: a label, a volume, a port. The digests of the layers are not looked at.
    """
    mine, theirs = dict(_flat(found, ())), dict(_flat(wanted, ()))
    for key in sorted({*mine, *theirs}):
        if mine.get(key, _ABSENT) != theirs.get(key, _ABSENT):
            said = " -> ".join(key)
            yield f"{said}: {_shown(mine, key)} instead of {_shown(theirs, key)}"


_ABSENT = object()
# Settings that are objects with names of the image's own in them.
_NAMED = ("Labels", "Volumes", "ExposedPorts")
Key = tuple[str, ...]


def _flat(value: object, key: Key) -> Iterator[tuple[Key, object]]:
    if key == ("rootfs", "diff_ids"):
        return
    if len(key) == 3 and key[0] == "config" and key[1] in _NAMED:
        yield key, value
    elif isinstance(value, dict):
        for name, one in value.items():
            yield from _flat(one, (*key, name))
    elif key == ("history",) and isinstance(value, list):
        for number, one in enumerate(value, 1):
            yield from _flat(one, (*key, f"{number:03}"))
    elif key[-1:] == ("created",):
        yield key, _time(value)
    elif value is not None and value is not False and value not in ("", []):
        yield key, value


def _time(value: object) -> object:
    try:
        return datetime.fromisoformat(str(value)).timestamp()
    except ValueError:
        return value


def _shown(values: Mapping[Key, object], key: Key) -> str:
    if key not in values:
        return "nothing"
    value = values[key]
    return value if isinstance(value, str) else " ".join(str(value).split())
