"""Signatures and contents of everything under the current pins, in a cache or in the store here."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from tnpu_nix import process
from tnpu_nix.cache import local, settings, stores
from tnpu_nix.cache.access import Access, UnavailableError
from tnpu_nix.cache.stores import Cache
from tnpu_nix.nix import Nix

# Exit status of `nix store verify`, a sum (its source: verify.cc).
_CORRUPT, _UNTRUSTED = 1, 2
_AT_A_TIME = 4


@dataclass(frozen=True)
class Fault:
    """A path that is not as it should be."""

    path: str
    reason: str


@dataclass(frozen=True)
class Verified:
    """What became of one cache, or of the store here."""

    where: str  # URL, or "here"
    checked: int  # paths that are there and were looked at
    absent: list[str]  # outputs that are not there, by name: no fault by itself
    faults: list[Fault]
    trouble: str | None = None  # why it could not be looked at

    @property
    def passed(self) -> bool:
        """Whether all that is there is as it should be."""
        return not self.faults and self.trouble is None

    def lines(self) -> list[str]:
        """Return the outcome for people."""
        if self.trouble:
            return [f"FAILED   {self.where}: {self.trouble}"]
        shown = [f"BAD      {fault.path}: {fault.reason}" for fault in self.faults]
        note = f"; not there: {', '.join(self.absent)}" if self.absent else ""
        word = "FAULTY  " if self.faults else "ok      "
        count = f"{self.checked} paths, {len(self.faults)} with faults"
        return [*shown, f"{word} {self.where}: {count}{note}"]


def verify_cache(
    one: Cache,
    outputs: dict[str, list[str]],
    keys: Sequence[str],
    nix: Nix,
    access: Access,
    say: Callable[[str], None],
) -> Verified:
    """Check all that a cache has of *outputs* and their closures, each path by download."""
    try:
        checking = settings.checking(nix, keys, access)
        paths = [path for its in outputs.values() for path in its]
        walked = stores.closure(one, paths, checking, access)
    except UnavailableError as error:
        return Verified(one.url, 0, [], [], str(error))
    absent = _absent(outputs, walked.infos)
    faults = [
        Fault(path, f"it is missing, and {referrer} refers to it")
        for path, referrer in walked.missing.items()
    ]
    bad = {path: info.fault for path, info in walked.infos.items() if info.fault}
    faults += [Fault(path, reason) for path, reason in bad.items()]
    good = [path for path in walked.infos if path not in bad]
    say(f"checking {len(good)} paths in {one.address}")
    faults += _check(["--store", one.url], good, checking)
    return Verified(one.url, len(walked.infos), absent, sorted(faults, key=lambda f: f.path))


def verify_here(
    outputs: dict[str, list[str]],
    keys: Sequence[str],
    nix: Nix,
    access: Access,
    say: Callable[[str], None],
) -> Verified:
    """Check all that the store here has of *outputs* and their closures.

    What was built here needs no signature, as Nix itself has it.
    """
    checking = settings.checking(nix, keys, access)
    paths = [path for its in outputs.values() for path in its]
    there = local.valid(nix, paths)
    absent = _absent(outputs, there)
    closure = local.closure(nix, list(there))
    lost = local.gone(nix, closure)
    faults = [Fault(path, "it is gone from the disk") for path in lost]
    rest = [path for path in closure if path not in lost]
    say(f"checking {len(rest)} paths in the store")
    faults += _check([], rest, checking)
    return Verified("here", len(closure), absent, sorted(faults, key=lambda f: f.path))


def _absent(outputs: Mapping[str, list[str]], there: Container[str]) -> list[str]:
    return [name for name, its in outputs.items() if any(path not in there for path in its)]


def _check(where: Sequence[str], paths: Sequence[str], nix: Nix) -> list[Fault]:
    """Have nix check each path by itself: its errors do not say which of several they mean."""

    def check(path: str) -> Fault | None:
        argv = ["nix", "store", "verify", *where, path]
        done = process.run(argv, env=nix.environment(), timeout=None)
        reason = _reason(done.status, done.stderr)
        return None if reason is None else Fault(path, reason)

    with ThreadPoolExecutor(_AT_A_TIME) as pool:
        return [fault for fault in pool.map(check, paths) if fault is not None]


def _reason(status: int, stderr: str) -> str | None:
    if status == 0:
        return None
    reasons = []
    if status & _CORRUPT:
        reasons.append("its content is not what the signature says (altered or damaged)")
    if status & _UNTRUSTED:
        reasons.append("it is signed by no key that pins.toml trusts, or was altered")
    if not reasons:
        said = re.sub(r"\x1b\[[0-9;]*m", "", stderr)
        errors = re.findall(r"error:\s*(.*)", said)
        reasons.append(f"it cannot be unpacked: {errors[-1] if errors else 'nix gave no reason'}")
    return "; ".join(reasons)
