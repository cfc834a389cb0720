"""Showing a build: a live table on a terminal, one line per event elsewhere."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from tnpu_nix.build import Activity, Watcher
from tnpu_nix.history import component, duration

_ENDED = {"building": "built", "fetching": "fetched", "pushing": "pushed"}


def ended_line(activity: Activity) -> str:
    """Return the line about an activity that has ended."""
    return f"{_ENDED[activity.verb]} {activity.name} in {duration(activity.seconds or 0.0)}"


@contextlib.contextmanager
def watching(console: Console, usual: Mapping[str, float]) -> Iterator[Watcher]:
    """Yield a watcher for `build.build` that shows on *console* (standard error) what goes on.

    Args:
        usual: component → seconds that it took the last time, from `history.load`.
    """
    if not console.is_terminal:
        yield _plain(lambda line: console.print(line, markup=False, highlight=False))
        return
    table = _Table(usual)
    with Live(table, console=console, refresh_per_second=8, transient=True) as live:

        def watch(running: Mapping[int, Activity], ended: Activity | None) -> None:
            table.running = dict(running)
            if ended is not None:
                live.console.print(ended_line(ended), markup=False, highlight=False)

        yield watch


def _plain(show: Callable[[str], None]) -> Watcher:
    seen: set[int] = set()

    def watch(running: Mapping[int, Activity], ended: Activity | None) -> None:
        for number, activity in running.items():
            if number not in seen:
                seen.add(number)
                show(f"{activity.verb} {activity.name}")
        if ended is not None:
            show(ended_line(ended))

    return watch


class _Table:
    """What runs now; rich asks for it anew at every refresh, so that the times move."""

    def __init__(self, usual: Mapping[str, float]) -> None:
        self.running: dict[int, Activity] = {}
        self._usual = usual

    def __rich__(self) -> Group:
        if not self.running:
            return Group(Text("evaluating"))
        return Group(*(Text(self._row(one)) for one in list(self.running.values())))

    def _row(self, activity: Activity) -> str:
        elapsed = duration(time.monotonic() - activity.started)
        if (known := self._usual.get(component(activity.name))) is not None:
            elapsed += f" of about {duration(known)}"
        last = activity.log[-1].strip()[:60] if activity.log else ""
        return f"{activity.verb} {activity.name}  {activity.phase}  {elapsed}  {last}"
