"""Two things measured in one run, in turns, so that the machine's moods strike both alike."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Ratio:
    """How long one thing takes against another."""

    name: str
    ours: float  # seconds, median of the rounds
    other: float  # seconds, likewise
    limit: float | None  # that the ratio is to stay below

    @property
    def value(self) -> float:
        """Ours by the other's."""
        return self.ours / self.other

    def line(self) -> str:
        """Return the result for people."""
        said = f"{self.name}: {self.ours:.3f} s against {self.other:.3f} s, ratio {self.value:.2f}"
        if self.limit is None:
            return said
        return f"{said} ({'within' if self.value <= self.limit else 'OVER'} {self.limit:g})"


def compare(
    name: str,
    ours: Callable[[], object],
    other: Callable[[], object],
    *,
    rounds: int = 5,
    limit: float | None = None,
) -> Ratio:
    """Run two things in turns, *rounds* times after one of warming up, and compare medians."""
    took: dict[Callable[[], object], list[float]] = {ours: [], other: []}
    for number in range(rounds + 1):
        for thing in (ours, other):
            started = time.perf_counter()
            thing()
            if number:
                took[thing].append(time.perf_counter() - started)
    return Ratio(name, statistics.median(took[ours]), statistics.median(took[other]), limit)
