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
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tnpu_nix.cache import web
from tnpu_nix.cache.current import Current
from tnpu_nix.cache.stores import Cache
from tnpu_nix.cache.web import Access
from tnpu_nix.errors import TnpuError

FOLDER = "tnpu"
_WAIT = 60.0  # seconds for the running pushes to end


@dataclass(frozen=True)
class Record:
    """A set of outputs that was pushed."""

    digest: str
    paths: tuple[str, ...]  # outputs and sources, there or not
    pins: dict[str, str]  # pin → revision
    time: float  # of its last push, seconds since 1970, by the cache's own clock


def write(one: Cache, now: Current, access: Access, say: Callable[[str], None]) -> None:
    """Note in a cache which outputs the current pins have; where it can hold files of ours.

    Raises:
        UnavailableError: the cache takes nothing from this user, or does not answer.
        OSError: the folder of the cache cannot be written.
    """
    content = {"version": 1, "outputs": now.outputs, "sources": now.sources, "pins": now.pins}
    text = json.dumps(content, indent=1, sort_keys=True).encode()
    if one.folder is not None:
        folder = one.folder / FOLDER
        folder.mkdir(parents=True, exist_ok=True)
        temporary = folder / f".{now.digest}.{os.getpid()}"
        temporary.write_bytes(text)
        temporary.rename(folder / f"{now.digest}.json")
    elif one.is_web:
        url = f"{one.address}/{FOLDER}/{now.digest}.json"
        try:
            web.request(url, access, "PUT", text)
        except web.NotThereError as error:
            if "403" in str(error):
                raise web.UnavailableError(str(error)) from error
            say(f"{one.address} keeps no record of the pins; `cache prune` will not know them")


def load(folder: Path) -> list[Record]:
    """Return the sets that were pushed into a `file://` cache, the latest first."""
    found = []
    for path in (folder / FOLDER).glob("*.json"):
        try:
            content = json.loads(path.read_text())
            outputs = [one for paths in content["outputs"].values() for one in paths]
            paths = (*outputs, *content["sources"].values())
            found.append(Record(path.stem, paths, content["pins"], path.stat().st_mtime))
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            # A set that is not understood could be any, so nothing may go.
            raise TnpuError(
                f"{path} is no record of a push that can be read",
                "remove that file if you know that its outputs may go",
            ) from error
    return sorted(found, key=lambda one: (one.time, one.digest), reverse=True)


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
