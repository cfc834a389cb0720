"""What a long run will need, looked at before it starts: access to every repository."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tnpu_nix import git
from tnpu_nix.errors import TnpuError
from tnpu_nix.nix import version as nix_version
from tnpu_nix.pins import Pin, Toolchain
from tnpu_nix.resolve import commit_of


@dataclass(frozen=True)
class Checked:
    """One thing that a run needs."""

    name: str  # "nix", or a pin
    how: str  # how it is had: a version, or a URL and who asks
    fault: str | None  # one line; None: it is there
    hint: str | None

    def lines(self) -> list[str]:
        """Return the outcome for people."""
        if self.fault is None:
            return [f"ok       {self.name:<14} {self.how}"]
        return [f"MISSING  {self.name:<14} {self.fault}", f"  hint: {self.hint}"]


def examine(
    toolchain: Toolchain, names: Sequence[str], say: Callable[[str], None]
) -> list[Checked]:
    """Look whether nix is there, and whether each pin's revision can be read by this user.

    No source is fetched. One that is missing does not keep the others from being looked at.
    """
    checked = [_check("nix", lambda: ".".join(map(str, nix_version())))]
    for name in names:
        pin = toolchain.pins.named(name)
        say(f"asking {pin.url} for {pin.rev[:12]}")
        checked.append(_check(name, lambda pin=pin: _read(pin)))  # type: ignore[misc]
    return checked


def _check(name: str, look: Callable[[], str]) -> Checked:
    try:
        return Checked(name, look(), None, None)
    except TnpuError as error:
        return Checked(name, "", error.what, error.hint)


def _read(pin: Pin) -> str:
    """Ask for what a bump asks for, the refs, and for the pinned revision."""
    git.list_refs(pin.remote)
    commit_of(pin.remote, pin.rev)
    return f"{pin.url}{_way(pin)}"


def _way(pin: Pin) -> str:
    """Say by what this user is known to the server."""
    if pin.token_env:
        return f" (token in {pin.token_env})"
    if git.is_local(pin.url):
        return ""
    if not pin.url.startswith(("http://", "https://")):
        return " (ssh agent)" if os.environ.get("SSH_AUTH_SOCK") else " (ssh, no agent)"
    netrc = Path(os.environ.get("NETRC") or Path.home() / ".netrc")
    return " (netrc)" if netrc.is_file() else " (without credentials)"
