"""Every pin fetched anew and compared: is it reachable, still there, and as pins.toml says?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tnpu_nix import git
from tnpu_nix.errors import TnpuError
from tnpu_nix.nix import Nix
from tnpu_nix.pins import Pin, Toolchain
from tnpu_nix.prefetch import prefetch


@dataclass(frozen=True)
class Verified:
    """What became of one pin."""

    name: str
    fault: str | None  # one line; None: all is as pins.toml says
    hint: str | None

    def lines(self) -> list[str]:
        """Return the outcome for people."""
        if self.fault is None:
            return [f"ok       {self.name}"]
        return [f"MISMATCH {self.name}: {self.fault}", f"  hint: {self.hint}"]


def verify(
    toolchain: Toolchain, names: Sequence[str], nix: Nix, say: Callable[[str], None]
) -> list[Verified]:
    """Fetch pins from their repositories, past every cache, and compare hash and date.

    One pin's failure does not keep the others from being looked at.
    """
    return [_verify(name, toolchain.pins.named(name), nix, say) for name in names]


def _verify(name: str, pin: Pin, nix: Nix, say: Callable[[str], None]) -> Verified:
    say(f"fetching {name} at {pin.rev}")
    try:
        git.list_refs(pin.remote)  # tells a repository that is gone from a revision that is
        source = prefetch(nix, pin, pin.rev)
    except TnpuError as error:
        return Verified(name, error.what, error.hint)
    if source.hash != pin.hash:
        fault = f"pins.toml has hash {pin.hash}, the repository {source.hash}"
        hint = f"the revision or the hash was edited by hand: `tnpu-nix bump {name} {pin.rev}`"
        return Verified(name, fault, hint)
    if not source.date.startswith(pin.date[:10]):
        fault = f"pins.toml has date {pin.date}, the commit {source.date}"
        return Verified(name, fault, f"`tnpu-nix bump {name} {pin.rev}` writes the date")
    return Verified(name, None, None)
