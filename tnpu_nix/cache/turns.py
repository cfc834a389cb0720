"""Pushes with different keys into one folder take turns: a narinfo is replaced, not added to.

Two that find a path missing would both upload its narinfo, and the later one would have one
signature alone. Those with the same key write the same and go side by side.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path

_PREFIX = "pushing-"
_PAUSE = 0.1  # seconds


@contextlib.contextmanager
def turn_of(folder: Path, key: str | None, say: Callable[[str], None]) -> Iterator[None]:
    """Wait until no push with another key runs into a cache, and keep such ones waiting.

    Args:
        folder: where the records of the cache are.
        key: the public key; None for pushes that sign nothing.

    Raises:
        OSError: the folder cannot be written.
    """
    mine = folder / (_PREFIX + hashlib.sha256((key or "").encode()).hexdigest()[:16])
    told = False
    with mine.open("a") as own, (folder / f"{_PREFIX}next").open("a") as gate:
        while True:
            # One at a time looks at the others: two would see each other, and both give way.
            fcntl.flock(gate, fcntl.LOCK_EX)
            free = not any(_is_held(one) for one in folder.glob(f"{_PREFIX}*") if one != mine)
            if free:
                fcntl.flock(own, fcntl.LOCK_SH)
            fcntl.flock(gate, fcntl.LOCK_UN)
            if free:
                break
            if not told:
                say("waiting: a push with another key is running")
                told = True
            time.sleep(_PAUSE)
        yield


def _is_held(path: Path) -> bool:
    """Tell whether a push holds its turn; the gate is ours, and held by nobody else."""
    if path.name == f"{_PREFIX}next":
        return False
    with path.open("a") as other:
        try:
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        return False
