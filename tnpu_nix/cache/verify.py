"""Signatures and contents of everything under the current pins, in a cache or in the store here."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, replace

from tnpu_nix import process
from tnpu_nix.cache import local, settings, stores
from tnpu_nix.cache.access import Access, UnavailableError
from tnpu_nix.cache.repair import beyond_caches
from tnpu_nix.cache.stores import Cache
from tnpu_nix.nix import Nix
from tnpu_nix.terminal import uncoloured

# Exit status of `nix store verify`, a sum (its source: verify.cc).
_CORRUPT, _UNTRUSTED = 1, 2
_AT_A_TIME = 4
HERE = "here"
SOURCE = "source of "  # what the source of a pin is called among the outputs


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
    try:
        faults += check(["--store", one.url], good, checking)
    except UnavailableError as error:
        return Verified(one.url, 0, absent, [], str(error))
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
    faults += check([], rest, checking)
    return Verified(HERE, len(closure), absent, sorted(faults, key=lambda f: f.path))


def way_out(
    found: Sequence[Verified],
    outputs: Mapping[str, list[str]],
    targets: Sequence[str],
    push: str | None,
    nix: Nix,
) -> str:
    """Return the hint for what has faults: the commands that mend it.

    Args:
        outputs: what was checked: output, or ``source of PIN`` → store paths.
        targets: the outputs that were asked for by name; none means all.
        push: the URL of [cache] push.
    """
    faulty = [one for one in found if one.faults]
    if not faulty:
        return "see what is wrong with each one above"
    bad = {fault.path for one in faulty for fault in one.faults}
    sources = [
        path
        for name, its in outputs.items()
        if name.startswith(SOURCE)
        for path in its
        if path in bad
    ]
    if faulty[0].where == HERE:
        if bad <= set(sources):
            return beyond_caches("", sources, nix).hint
        names = targets or [name for name in outputs if not name.startswith(SOURCE)]
        there = [name for name in names if name not in faulty[0].absent]
        return f"{nix.words('cache', 'pull', '--repair', *there)} fetches it anew"
    if len(local.valid(nix, sorted(bad))) < len(bad):
        nix = replace(nix, store=None)  # they lie elsewhere
    words = ["cache", "push", "--repair", *targets, *(["--sources"] if sources else [])]
    listed = ", ".join(
        nix.words(*words, *([] if one.where == push else ["--to", one.where])) for one in faulty
    )
    return f"{listed}, where it was built and with the signing key, mends what is damaged"


def _absent(outputs: Mapping[str, list[str]], there: Container[str]) -> list[str]:
    return [name for name, its in outputs.items() if any(path not in there for path in its)]


def check(where: Sequence[str], paths: Sequence[str], nix: Nix) -> list[Fault]:
    """Return what `nix store verify` finds wrong with *paths*, the store named by *where*.

    Each is checked by itself: nix's errors do not say which of several paths they mean.

    Raises:
        UnavailableError: a cache was silent for too long. It would be so for each path.
    """

    argvs = (["nix", "store", "verify", *where, path] for path in paths)
    reasons: dict[int, str] = {}
    running = process.run_all(argvs, env=nix.environment(), at_a_time=_AT_A_TIME)
    with contextlib.closing(running):
        for number, done in running:
            if settings.STALLED.search(done.stderr):
                raise UnavailableError(settings.STOPPED.format(path=paths[number]))
            if (reason := _reason(done.status, done.stderr)) is not None:
                reasons[number] = reason
    return [Fault(paths[number], reasons[number]) for number in sorted(reasons)]


def _reason(status: int, stderr: str) -> str | None:
    if status == 0:
        return None
    reasons = []
    if status & _CORRUPT:
        reasons.append("its content is not what the signature says (altered or damaged)")
    if status & _UNTRUSTED:
        reasons.append("it is signed by no key that pins.toml trusts, or was altered")
    if not reasons:
        said = uncoloured(stderr)
        errors = re.findall(r"error:\s*(.*)", said)
        reasons.append(f"it cannot be unpacked: {errors[-1] if errors else 'nix gave no reason'}")
    return "; ".join(reasons)
