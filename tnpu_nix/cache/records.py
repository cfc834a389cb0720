"""What a cache itself knows of the sets of outputs in it: a small file a set, beside the narinfos.

A push writes it before anything else. It is how `cache prune` knows, on the server and without the
project, what belongs to which pins and which pins are the latest; Nix takes no notice of it.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tnpu_nix.cache import wire
from tnpu_nix.cache.access import Access, NotThereError, UnavailableError
from tnpu_nix.cache.current import Current
from tnpu_nix.cache.stores import Cache
from tnpu_nix.errors import TnpuError

FOLDER = "tnpu"
# What reading something else than a record ends in; the last one if it is nested too deep.
_NO_RECORD = (ValueError, KeyError, TypeError, AttributeError, RecursionError)
_WAIT = 60.0  # seconds for the running pushes to end


@dataclass(frozen=True)
class Record:
    """A set of outputs that was pushed."""

    digest: str
    paths: tuple[str, ...]  # outputs, sources, and the closures of what was pushed; there or not
    pins: dict[str, str]  # pin → revision
    time: float  # of its last push, seconds since 1970, by the cache's own clock
    running: bool  # whether that push has not said that it has ended


def write(
    one: Cache,
    now: Current,
    closure: Iterable[str],
    access: Access,
    say: Callable[[str], None],
    running: bool,
) -> None:
    """Note in a cache which outputs the current pins have; where it can hold files of ours.

    Args:
        closure: all that this push puts there or finds there already: until the narinfos of the
            outputs are there, nothing else says that the outputs need it.
        running: whether the push is about to begin, or has ended.

    Raises:
        UnavailableError: the cache takes nothing from this user, or does not answer.
        OSError: the folder of the cache cannot be written.
    """
    name = f"{now.digest}.json"
    paths = sorted({*closure, *_others(one, name, now, access)})
    content: dict[str, object] = {
        "version": 1,
        "outputs": now.outputs,
        "sources": now.sources,
        "pins": now.pins,
    }
    content |= {"closure": paths, "running": running}
    text = json.dumps(content, indent=1, sort_keys=True).encode()
    if one.folder is not None:
        folder = one.folder / FOLDER
        folder.mkdir(parents=True, exist_ok=True)
        temporary = folder / f".{now.digest}.{os.getpid()}"
        temporary.write_bytes(text)
        temporary.rename(folder / name)
    elif one.is_web:
        url = f"{one.address}/{FOLDER}/{name}"
        try:
            wire.request(url, access, "PUT", text)
        except NotThereError as error:
            if "403" in str(error):
                raise UnavailableError(str(error)) from error
            say(f"{one.address} keeps no record of the pins; `cache prune` will not know them")


def _others(one: Cache, name: str, now: Current, access: Access) -> list[str]:
    """Return what the record of the same outputs has: it may be that of a push that still runs."""
    text = b""
    with contextlib.suppress(NotThereError, FileNotFoundError):
        if one.folder is not None:
            text = (one.folder / FOLDER / name).read_bytes()
        elif one.is_web:
            text = wire.request(f"{one.address}/{FOLDER}/{name}", access)[0]
    try:
        content = json.loads(text)
        return _strings(content["closure"]) if content["outputs"] == now.outputs else []
    except _NO_RECORD:
        return []


def load(folder: Path) -> list[Record]:
    """Return the sets that were pushed into a `file://` cache, the latest first."""
    found = []
    for path in (folder / FOLDER).glob("*.json"):
        try:
            found.append(_read(path))
        except (OSError, *_NO_RECORD) as error:
            # A set that is not understood could be any, so nothing may go.
            raise TnpuError(
                f"{path} is no record of a push that can be read",
                "remove that file if you know that its outputs may go",
            ) from error
    return sorted(found, key=lambda one: (one.time, one.digest), reverse=True)


def _read(path: Path) -> Record:
    content = json.loads(path.read_text())
    outputs = [one for paths in content["outputs"].values() for one in _strings(paths)]
    # Records of before there were closures in them have none.
    more = [*_strings(content["sources"].values()), *_strings(content.get("closure", []))]
    pins = dict(zip(_strings(content["pins"]), _strings(content["pins"].values()), strict=True))
    running = content.get("running") is True
    return Record(path.stem, (*outputs, *more), pins, path.stat().st_mtime, running)


def _strings(values: Iterable[object]) -> list[str]:
    """Return *values*, which are to be strings.

    Raises:
        TypeError: they are not.
    """
    found = [one for one in values if isinstance(one, str)]
    if isinstance(values, str) or len(found) != len(list(values)):
        raise TypeError("no list of strings")
    return found


@contextlib.contextmanager
def locked(folder: Path, exclusive: bool, say: Callable[[str], None]) -> Iterator[None]:
    """Hold the lock of a `file://` cache: pushes share it, a prune has it for itself.

    Raises:
        TnpuError: pushes (or a prune) have not ended in a minute.
        OSError: the folder cannot be written.
    """
    (folder / FOLDER).mkdir(parents=True, exist_ok=True)
    descriptor = os.open(folder / FOLDER / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    kind = fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH
    other = "a push into it is running" if exclusive else "it is being pruned"
    try:
        deadline, told = time.monotonic() + _WAIT, False
        while True:
            try:
                fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise TnpuError(
                        f"{folder}: {other}", "wait until that has ended, then run this again"
                    ) from None
                if not told:
                    say(f"waiting: {other}")
                    told = True
                time.sleep(0.1)
        yield
    finally:
        os.close(descriptor)
