"""Each pin against the branch that it tracks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from tnpu_nix import git, process
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
    head = git.list_refs(pin.url).get(f"refs/heads/{pin.track}")
    if head is None:
        return Standing(name, pin.track, "gone", None, None, None, f"no branch {pin.track} there")
    if head == pin.rev:
        return Standing(name, pin.track, "current", head, 0, 0, f"at the head of {pin.track}")
    commits, date = _between(pin, head)
    days = (_day(date) - _day(pin.date)).days
    if commits is None:
        note = f"the history of {pin.track} no longer holds the pinned {pin.rev[:12]}"
        return Standing(name, pin.track, "gone", head, None, days, note)
    note = f"{commits} commits and {days} days behind {pin.track} ({head[:12]}, {date[:10]})"
    return Standing(name, pin.track, "behind", head, commits, days, note)


def _day(date: str) -> datetime:
    parsed = datetime.fromisoformat(date)
    return parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)


def _between(pin: Pin, head: str) -> tuple[int | None, str]:
    """Return how many commits lead from the pin to *head*, None if none do, and head's date.

    Only commits are fetched where the server can leave out files.
    """
    with git.isolated(pin.url) as env, git.temporary_folder() as folder:
        where = ["git", "-C", str(folder)]
        process.run([*where, "init", "--quiet", "--bare"], env=env)
        argv = [*where, "fetch", "--quiet", "--filter=tree:0", "--no-tags", "--", pin.url, head]
        done = process.run(argv, env=env, timeout=_TIMEOUT)
        if done.status != 0:
            raise git.failure(pin.url, done.stderr, head)
        date = process.run([*where, "log", "-1", "--format=%cI", head], env=env).stdout.strip()
        # merge-base fails where the pin is no ancestor, or is not there at all.
        held = process.run([*where, "merge-base", "--is-ancestor", pin.rev, head], env=env)
        if held.status != 0:
            return None, date
        counted = process.run([*where, "rev-list", "--count", f"{pin.rev}..{head}"], env=env)
    return int(counted.stdout), date
