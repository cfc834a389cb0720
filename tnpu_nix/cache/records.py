"""What a cache itself knows of the sets of outputs in it: a small file a set, beside the narinfos.

A push writes it before anything else. It is how `cache prune` knows, on the server and without the
project, what belongs to which pins and which pins are the latest; Nix takes no notice of it.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import secrets
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tnpu_nix.cache import wire
from tnpu_nix.cache.access import Access, NotThereError, UnavailableError
from tnpu_nix.cache.current import Current
from tnpu_nix.cache.stores import Cache
from tnpu_nix.errors import TnpuError

FOLDER = "tnpu"
# What reading something else than a record ends in; the last one if it is nested too deep.
_NO_RECORD = (ValueError, KeyError, TypeError, AttributeError, RecursionError)
_DAY = 86400  # seconds: a push that has not said in that time that it has ended was killed
_WAIT = 60.0  # seconds for the running pushes to end


@dataclass(frozen=True)
class Record:
    """A set of outputs that was pushed."""

    digest: str
    paths: tuple[str, ...]  # outputs, sources, and the closures of what was pushed; there or not
    pins: dict[str, str]  # pin → revision
    time: float  # of its last push, seconds since 1970, by the cache's own clock
    running: bool  # whether a push of it has not said that it has ended


@dataclass(frozen=True)
class Push:
    """A push of the current pins' outputs, as their record names it while it runs."""

    now: Current
    closure: frozenset[str]  # all that it puts there or finds there already
    name: str = field(default_factory=lambda: secrets.token_hex(8))


def begin(one: Cache, push: Push, access: Access, say: Callable[[str], None]) -> None:
    """Note in a cache which outputs the current pins have, and that this push of them runs.

    The closure is noted too: until the narinfos of the outputs are there, nothing else says that
    the outputs need it. A cache that can hold no files of ours has no record; *say* is told.

    Raises:
        UnavailableError: the cache takes nothing from this user, or does not answer.
        OSError: the folder of the cache cannot be written.
    """
    try:
        _write(one, push, access, running=True)
    except NotThereError as error:
        if "403" in str(error):
            raise UnavailableError(str(error)) from error
        say(f"{one.address} keeps no record of the pins; `cache prune` will not know them")


def end(one: Cache, push: Push, access: Access) -> None:
    """Note that a push has ended. Without that it counts as one that runs for a while: no more."""
    with contextlib.suppress(NotThereError, UnavailableError, OSError):
        _write(one, push, access, running=False)


def _write(one: Cache, push: Push, access: Access, running: bool) -> None:
    """Write the record with this push, and all that it has of others of the same outputs.

    In a folder one writes after the other. A web server has no such order: two that read and write
    within the same few milliseconds can lose what one of them wrote.
    """
    name = f"{push.now.digest}.json"
    if one.folder is not None:
        folder = one.folder / FOLDER
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / "writing").open("a") as turn:
            fcntl.flock(turn, fcntl.LOCK_EX)
            text = b""
            with contextlib.suppress(FileNotFoundError):
                text = (folder / name).read_bytes()
            temporary = folder / f".{push.now.digest}.{os.getpid()}"
            temporary.write_bytes(_content(push, text, running))
            temporary.rename(folder / name)
    elif one.is_web:
        url, text = f"{one.address}/{FOLDER}/{name}", b""
        with contextlib.suppress(NotThereError):
            text = wire.request(url, access)[0]
        wire.request(url, access, "PUT", _content(push, text, running))


def _content(push: Push, before: bytes, running: bool) -> bytes:
    """Return the record that follows one of the same name, which may be empty or anything else."""
    closure, runs = _others(push.now, before)
    runs.pop(push.name, None)
    if running:
        runs[push.name] = int(time.time())
    content = {
        "version": 1,
        "outputs": push.now.outputs,
        "sources": push.now.sources,
        "pins": push.now.pins,
        "closure": sorted(push.closure.union(closure)),
        "running": runs,
    }
    return json.dumps(content, indent=1, sort_keys=True).encode()


def _others(now: Current, text: bytes) -> tuple[list[str], dict[str, int]]:
    """Return the closure in a record of the same outputs, and its pushes that may still run."""
    try:
        content = json.loads(text)
        if content["outputs"] != now.outputs:
            return [], {}
        begun = {str(name): int(at) for name, at in content.get("running", {}).items()}
        recent = {name: at for name, at in begun.items() if at > time.time() - _DAY}
        return _strings(content.get("closure", [])), recent
    except _NO_RECORD:
        return [], {}


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
    running = bool(content.get("running"))
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
