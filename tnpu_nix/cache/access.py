"""How caches are reached: short time-outs, the user's netrc, all of them at the same time."""

from __future__ import annotations

import contextlib
import os
import queue
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from tnpu_nix.errors import TnpuError

Item = TypeVar("Item")
Result = TypeVar("Result")
_WORKERS = 16
_MOMENT = 0.5  # seconds


class UnavailableError(Exception):
    """A cache that is of no use now; the text says why, in a few words."""


class NotThereError(Exception):
    """The cache answers, and does not have what was asked for."""


@dataclass(frozen=True)
class Access:
    """How caches are reached."""

    timeout: float = 5.0  # seconds without an answer
    netrc: Path | None = None

    @property
    def no_answer(self) -> str:
        """What is said of a cache that gives no answer."""
        return f"no answer within {self.timeout:g} s"


def netrc_file(named: Path | None) -> Path | None:
    """Return the netrc file that is used: the one named, $NETRC, ~/.netrc, or Nix's own.

    Raises:
        TnpuError: the one named is not there.
    """
    if named is not None and not named.is_file():
        raise TnpuError(f"{named} is no file", "name a netrc file, or leave the option out")
    usual = [os.environ.get("NETRC"), Path.home() / ".netrc", "/etc/nix/netrc"]
    there = (Path(one) for one in ([named] if named else usual) if one)
    return next((one.absolute() for one in there if os.access(one, os.R_OK)), None)


def all_at_once(
    function: Callable[[Item], Result], items: Sequence[Item], access: Access
) -> list[Result]:
    """Call a function with all items beside each other; return the results in order.

    After an error no further call begins.

    Raises:
        UnavailableError: for a time-out's length no call has ended.
    """
    waiting: queue.SimpleQueue[int] = queue.SimpleQueue()
    ended: queue.SimpleQueue[tuple[int, Result | Exception]] = queue.SimpleQueue()
    for number in range(len(items)):
        waiting.put(number)

    def work() -> None:
        with contextlib.suppress(queue.Empty):
            while True:
                number = waiting.get_nowait()
                try:
                    ended.put((number, function(items[number])))
                except Exception as error:
                    ended.put((number, error))

    workers = _started(work, min(_WORKERS, len(items)))
    results: dict[int, Result] = {}
    while len(results) < len(items):
        try:
            # A moment more than a request has: its own reason is the better one.
            number, outcome = ended.get(timeout=access.timeout + 0.5)
        except queue.Empty:
            _empty(waiting)
            raise UnavailableError(access.no_answer) from None
        if isinstance(outcome, Exception):
            _empty(waiting)
            _join(workers)
            raise outcome
        results[number] = outcome
    _join(workers)
    return [results[number] for number in range(len(items))]


def _started(work: Callable[[], None], count: int) -> list[threading.Thread]:
    # Daemons: one that hangs in a name server's silence must not hold the command up.
    workers = [threading.Thread(target=work, daemon=True) for _ in range(count)]
    for worker in workers:
        worker.start()
    return workers


def _empty(waiting: queue.SimpleQueue[int]) -> None:
    with contextlib.suppress(queue.Empty):
        while True:
            waiting.get_nowait()


def _join(workers: Sequence[threading.Thread]) -> None:
    """Wait a moment for what still runs: OpenSSL may crash if the process ends under it."""
    until = time.monotonic() + _MOMENT
    for worker in workers:
        worker.join(max(0.0, until - time.monotonic()))
