"""Showing a push or pull: a bar for each layer on a terminal, a line per layer elsewhere."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TaskID,
    TextColumn,
    TransferSpeedColumn,
)

from tnpu_nix.images.push import Watcher
from tnpu_nix.terminal import size_text

_LARGE = 1 << 20  # bytes; smaller layers get no line of their own


class _Shown(Watcher):
    """Counts, and hands on to a live display if there is one."""

    def __init__(self, console: Console, live: Progress | None) -> None:
        self._console = console
        self._live = live
        self._number = self._size = self._wire = 0
        self._started = time.monotonic()
        self._layer: TaskID | None = None
        self._total = live.add_task("in all", total=None) if live is not None else None

    def layer(self, diff_id: str, size: int) -> None:
        self._number += 1
        self._size, self._wire, self._started = size, 0, time.monotonic()
        if self._live is not None:
            short = diff_id.removeprefix("sha256:")[:12]
            self._layer = self._live.add_task(f"layer {self._number} {short}", total=size)

    def moved(self, done: int, wire: int) -> None:
        self._wire += wire
        if self._live is not None and self._layer is not None and self._total is not None:
            self._live.advance(self._layer, done)
            self._live.advance(self._total, wire)

    def ended(self, what: str) -> None:
        took = time.monotonic() - self._started
        if self._live is not None and self._layer is not None:
            self._live.remove_task(self._layer)
            self._layer = None
        if what != "there" and self._size >= _LARGE:
            rate = size_text(int(self._wire / max(took, 1e-3)))
            self.say(
                f"layer {self._number} {what}: {size_text(self._size)},"
                f" {size_text(self._wire)} on the wire, {rate}/s"
            )

    def say(self, line: str) -> None:
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)


@contextlib.contextmanager
def moving(console: Console) -> Iterator[Watcher]:
    """Yield a watcher that shows on *console* (standard error) how a push or pull goes on."""
    if not console.is_terminal:
        yield _Shown(console, None)
        return
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn())
    with Progress(*columns, TransferSpeedColumn(), console=console, transient=True) as live:
        yield _Shown(console, live)
