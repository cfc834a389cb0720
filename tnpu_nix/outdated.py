"""Each pin against the branch that it tracks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from tnpu_nix import commits, git
from tnpu_nix.errors import TnpuError
from tnpu_nix.pins import Pin, Toolchain

# Seconds for the commits since a pin, without files.
_TIMEOUT = 300.0


@dataclass(frozen=True)
class Standing:
    """Where a pin stands."""

    name: str
    track: str
    state: str  # "current", "behind", "gone" or "unknown"
    head: str | None  # revision of the branch's head
    commits: int | None  # that the branch is ahead of the pin
    days: int | None  # from the pin's commit to the head's
    note: str  # one line

    def line(self) -> str:
        """Return the standing for people."""
        return f"{self.name:<14} {self.state:<8} {self.note}"


def outdated(toolchain: Toolchain, say: Callable[[str], None]) -> list[Standing]:
    """Compare every pin with the head of its branch; one that cannot be asked is "unknown"."""
    standings = []
    for name, pin in toolchain.pins.items():
        say(f"asking {pin.url} for {pin.track}")
        try:
            standings.append(_standing(name, pin))
        except TnpuError as error:
            standings.append(Standing(name, pin.track, "unknown", None, None, None, error.what))
    return standings


def _standing(name: str, pin: Pin) -> Standing:
    head = git.list_refs(pin.remote).get(f"refs/heads/{pin.track}")
    if head is None:
        return Standing(name, pin.track, "gone", None, None, None, f"no branch {pin.track} there")
    if head == pin.rev:
        return Standing(name, pin.track, "current", head, 0, 0, f"at the head of {pin.track}")
    since = commits.between(pin.remote, pin.rev, head, _TIMEOUT)
    days = (_day(since.date) - _day(pin.date)).days
    if since.count is None:
        note = f"the history of {pin.track} no longer holds the pinned {pin.rev[:12]}"
        return Standing(name, pin.track, "gone", head, None, days, note)
    behind = f"{since.count} commits and {days} days behind {pin.track}"
    note = f"{behind} ({head[:12]}, {since.date[:10]})"
    return Standing(name, pin.track, "behind", head, since.count, days, note)


def _day(date: str) -> datetime:
    parsed = datetime.fromisoformat(date)
    return parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)
