"""Two trees of files, or two configurations, and what differs, in words."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from tnpu_nix.images.model import CHUNK
from tnpu_nix.images.tar import Entry
from tnpu_nix.storepath import root_of

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
    image's own (a label, a volume, a port), and for what is not of its field's kind. The digests
    of the layers are not looked at.
    """
    mine, theirs = dict(_flat(found, ())), dict(_flat(wanted, ()))
    for key in sorted({*mine, *theirs}):
        if _exact(mine.get(key, _ABSENT)) != _exact(theirs.get(key, _ABSENT)):
            said = " -> ".join(key)
            yield f"{said}: {_shown(mine, key)} instead of {_shown(theirs, key)}"


_ABSENT = object()
# What the fields of a configuration are: of another kind, even empty, Go reads none of it. From
# OCI's image specification, "Image Configuration", and Docker's api/types/container/config.go.
_TEXTS = """
created author architecture os os.version variant created_by comment User WorkingDir StopSignal
Hostname Domainname Image MacAddress docker_version container id parent
"""
_FLAGS = """
empty_layer AttachStdin AttachStdout AttachStderr Tty OpenStdin StdinOnce ArgsEscaped
NetworkDisabled
"""
_KINDS: dict[str, type] = {
    **dict.fromkeys(_TEXTS.split(), str),
    **dict.fromkeys(_FLAGS.split(), bool),
    **dict.fromkeys(("Env", "Cmd", "Entrypoint", "OnBuild", "Shell", "os.features"), list),
    **dict.fromkeys(("Labels", "Volumes", "ExposedPorts", "Healthcheck", "config"), dict),
    **dict.fromkeys(("history",), list),
}
# Source: RFC 3339, section 5.6, with the capitals that Go wants (its time package, RFC3339Nano).
_TIME = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2}T(?:[01][0-9]|2[0-3])(?::[0-5][0-9]){2})((?:\.[0-9]+)?)"
    r"(Z|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"
)
# Settings that are objects with names of the image's own in them.
_NAMED = ("Labels", "Volumes", "ExposedPorts")
Key = tuple[str, ...]


def _flat(value: object, key: Key) -> Iterator[tuple[Key, object]]:
    if key == ("rootfs", "diff_ids"):
        return
    kind = _KINDS.get(key[-1], object) if key and value is not None else object
    is_named = len(key) == 3 and key[0] == "config" and key[1] in _NAMED
    if is_named or not isinstance(value, kind):
        yield key, value
    elif isinstance(value, dict):
        for name, one in value.items():
            yield from _flat(one, (*key, name))
    elif key == ("history",) and isinstance(value, list):
        if value:
            yield (*key, "entries"), len(value)  # of an empty one nothing else would be seen
        for number, one in enumerate(value, 1):
            yield from _flat(one, (*key, f"{number:03}"))
    elif key == ("created",) or (key[:1] == ("history",) and key[2:] == ("created",)):
        yield key, _time(value)
    elif value is not None and value is not False and value not in ("", []):
        yield key, value


def form_faults(config: dict[str, Any], upon_another: bool) -> Iterator[str]:
    """Yield what a configuration has that no image of dockerTools has, whatever its pins.

    Args:
        upon_another: the image is laid upon a base, whose history is what its makers wrote.
    """
    created = config.get("created")
    if not isinstance(_time(created), tuple):
        yield f"created: {created} is no time as RFC 3339 writes it"
    history = config.get("history") or []
    filled = sum(not one.get("empty_layer") for one in history)
    layers = len(config["rootfs"]["diff_ids"])
    if not upon_another and filled != layers:
        yield f"history: {filled} entries for {layers} layers"


Variables = Sequence[str]  # "NAME=value"


def merged_variables(base: Variables, own: Variables) -> list[str]:
    """Return Env of an image laid upon a base, as dockerTools merges it: our values win."""
    return list({one.partition("=")[0]: one for one in [*base, *own]}.values())


def variable_differences(found: Variables, own: Variables) -> Iterator[str]:
    """Yield a line for each variable of ours that an image does not have as it should.

    Others may be those of the base that it is laid upon.
    """
    for name, count in Counter(one.partition("=")[0] for one in found).items():
        if count > 1:
            yield f"config -> Env: {name} comes {count} times"
    for one in own:
        name = one.partition("=")[0]
        here = [other for other in found if other.partition("=")[0] == name]
        if here != [one]:
            yield f"config -> Env: {', '.join(here) or 'nothing'} instead of {one}"


def _exact(value: object) -> str:
    """Return a value as text in which 1 is neither true nor 1.0, as it is for Go."""
    return f"{type(value).__name__} {json.dumps(value, sort_keys=True, default=repr)}"


def _time(value: object) -> object:
    """Return a time of RFC 3339 as seconds since 1970 and a fraction; anything else as it is.

    Go's programs take times in no wider form, and so no other that means the same.
    """
    found = _TIME.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        return value
    try:
        whole = datetime.fromisoformat(found[1] + found[3]).timestamp()
    except ValueError:
        return value
    return whole, found[2].rstrip("0").rstrip(".")


def _shown(values: Mapping[Key, object], key: Key) -> str:
    if key not in values:
        return "nothing"
    value = values[key]
    if isinstance(value, tuple):  # a time
        return f"{value[0]:.0f}{value[1]} seconds since 1970"
    return value if isinstance(value, str) else " ".join(str(value).split())
