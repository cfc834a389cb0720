"""Outputs of the current pins, from caches alone."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Sequence

from tnpu_nix import git, process
from tnpu_nix.build import Log, Watcher, run_logged
from tnpu_nix.cache import local, settings, stores
from tnpu_nix.cache.access import Access, UnavailableError
from tnpu_nix.cache.current import paths_of
from tnpu_nix.cache.refused import Teller
from tnpu_nix.cache.repair import beyond_caches, fetch_anew
from tnpu_nix.cache.stores import Answer, Cache
from tnpu_nix.errors import TnpuError
from tnpu_nix.nix import Nix, failure
from tnpu_nix.terminal import uncoloured

Say = Callable[[str], None]
_NOT_OBEYED = re.compile(
    r"ignoring (?:untrusted substituter|untrusted setting|the (?:user|client)-specified setting)"
    r"|you are not (?:a trusted user|privileged)|not a trusted user"
)
BROKE_OFF = re.compile(r"unable to download|is disabled|curl error|transfer of")
_NO_FAULT_OF_A_CACHE = re.compile(r"No space left on device|disk is full|Read-only file system")
_VERIFY = "`tnpu-nix cache verify` names the paths, and the command that mends them"
# What nix says, what it means of the caches at {where}, and what to do; the first that fits counts.
_CAUSES = (
    (
        _NOT_OBEYED.pattern,
        "the Nix daemon does not take these caches from this user, whom it does not trust",
        "its owner adds the lines of `tnpu-nix cache use daemon` to /etc/nix/nix.conf",
    ),
    (
        "is not signed by any of the keys|lacks a valid signature|signature is not valid",
        "what {where} has is not signed by a key that pins.toml trusts; it was not taken",
        "if you trust its owner, put the public key into [cache] public-keys; "
        "`tnpu-nix cache verify` says which paths it is about",
    ),
    (
        r"is incomplete|does not exist in binary cache|\.narinfo' is corrupt",
        "{where} does not hold together: it lacks, or garbles, what it says it has",
        _VERIFY,
    ),
    (
        BROKE_OFF.pattern,
        "{where} broke off in the middle of a download",
        "run the command again: what was fetched before is kept and whole",
    ),
    (
        r"hash mismatch|(?i:lzma|zstd|xz|bad archive|input .*truncated|unexpected end)",
        "what {where} sends is not what its signature says: damaged or altered; not taken",
        _VERIFY,
    ),
    (
        r"File exists|build of '[^\n]*' failed|Assertion `",
        "what {where} has of this cannot be taken, and nix does not say why",
        _VERIFY,
    ),
)


def pull(
    outputs: dict[str, list[str]],
    caches: Sequence[Cache],
    keys: Sequence[str],
    nix: Nix,
    access: Access,
    watch: Watcher,
    say: Say,
    repair: bool = False,
) -> None:
    """Realise *outputs* from caches; nothing is ever built, and what is not to be had is named.

    Args:
        repair: also read all that is here, and fetch anew what was altered on the disk.

    Raises:
        TnpuError: an output is in no cache, or what a cache has is not to be trusted. Whatever was
            fetched before is whole and signed, as Nix takes it path by path.
    """
    paths = paths_of(outputs)
    here = local.valid(nix, paths)
    missing = [path for path in paths if path not in here]
    held = local.closure(nix, list(here))
    gone = local.gone(nix, held)
    altered = _altered(nix, [path for path in held if path not in gone], say) if repair else []
    if not missing and not gone and not altered:
        return
    if not caches and (missing or gone):
        raise TnpuError(
            "no cache is named to pull from",
            "name one in pins.toml ([cache] substituters), or with --cache URL",
        )
    answers = stores.ask_all(caches, missing or paths, nix, access)
    _refuse_to_build(outputs, missing, answers)
    alive = [one.cache for one in answers if one.trouble is None]
    for one in answers:
        if one.trouble:
            say(f"going on without {one.cache.address}: {one.trouble}")
    if missing:
        _fetch(missing, alive, keys, nix, access, watch, say)
    whole = local.closure(nix, paths)
    # Paths that Nix has in its books, of old or just now for a reference, and not on the disk.
    gone = local.gone(nix, whole)
    if repair:
        new = [path for path in whole if path not in held and path not in gone]
        altered += _altered(nix, new, say)
    for reason, those in (("gone from the disk", gone), ("altered on the disk", altered)):
        for path in those:
            say(f"{path} is {reason} although Nix has it in its books; fetching it anew")
    if lost := fetch_anew([*gone, *altered], alive, keys, nix, access):
        raise beyond_caches(f"no cache gave this whole: {', '.join(lost)}", lost, nix)


def _altered(nix: Nix, paths: Sequence[str], say: Say) -> list[str]:
    if paths:
        say(f"reading {len(paths)} paths that are here")
    return local.altered(nix, paths)


def _refuse_to_build(
    outputs: dict[str, list[str]], missing: Sequence[str], answers: Sequence[Answer]
) -> None:
    """Raise if an output is in no cache, before anything is fetched."""
    had = {path for one in answers for path, info in one.found.items() if info and not info.fault}
    lost = {
        name: [path for path in its if path in missing and path not in had]
        for name, its in outputs.items()
    }
    lost = {name: its for name, its in lost.items() if its}
    if not lost:
        return
    wanted = [path for its in lost.values() for path in its]
    looked = [f"  {one.cache.url}: {one.trouble or _lacks(one, wanted)}" for one in answers]
    details = [f"missing: {name}: {path}" for name, its in lost.items() for path in its]
    details += ["looked for in:", *looked]
    if all(one.trouble for one in answers):
        what, hint = "no cache can be used", "check the network, the netrc file and the URLs above"
    else:
        what = f"in no cache: {', '.join(lost)}"
        hint = "`tnpu-nix build` and `tnpu-nix cache push`, where it may be built, put it there"
        if any((info := one.found.get(path)) and info.fault for one in answers for path in wanted):
            hint = _VERIFY
    raise TnpuError(f"{what}; nothing was built or fetched", hint, tuple(details))


def _lacks(answer: Answer, paths: Sequence[str]) -> str:
    """Return why a cache that answers does not give all of these paths."""
    found = (answer.found.get(path) for path in paths)
    faults = dict.fromkeys(info.fault for info in found if info is not None and info.fault)
    return "; ".join(faults) or "does not have it"


def _fetch(
    paths: Sequence[str],
    caches: Sequence[Cache],
    keys: Sequence[str],
    nix: Nix,
    access: Access,
    watch: Watcher,
    say: Say,
) -> None:
    """Substitute paths; a cache that breaks off is left out, and the rest fetched from the others.

    Nix alone would wait for such a cache once for every path.
    """
    live = list(caches)
    tell = Teller(say, "taken from another")
    while True:
        log, status, failing = _realise(paths, live, keys, nix, access, watch)
        if status == 0 and not failing:
            tell.after(log.finished, log.warnings)
            return
        reason = "it broke off"
        if not failing and len(live) > 1:
            failing = _incoherent(paths, live, nix, access)
            reason = "what it says of its content cannot be read"
        others = [one for one in live if one not in failing]
        if not failing or not others:
            _sweep(log, nix)
            known = _NO_FAULT_OF_A_CACHE.search(_said(log)) or _NOT_OBEYED.search(_said(log))
            if (
                not failing
                and not known
                and _without_one(paths, live, keys, nix, access, watch, say)
            ):
                return
            raise _failed(log, live)
        for one in failing:
            say(f"going on without {one.address}: {reason}")
        live = others


def _without_one(
    paths: Sequence[str],
    caches: Sequence[Cache],
    keys: Sequence[str],
    nix: Nix,
    access: Access,
    watch: Watcher,
    say: Say,
) -> bool:
    """Try again without one cache, or with one alone; return whether some set gave all.

    Nix does not always say which cache a fault is about, and one can cost it all the others.
    """
    for some in stores.subsets(caches):
        log, status, failing = _realise(paths, some, keys, nix, access, watch)
        if status == 0 and not failing:
            bad = ", ".join(one.address for one in caches if one not in some)
            say(f"going on without {bad}: with it, nix fails")
            return True
        _sweep(log, nix)
    return False


def _incoherent(
    paths: Sequence[str], caches: Sequence[Cache], nix: Nix, access: Access
) -> list[Cache]:
    """Return the caches with a narinfo that cannot be read: at one, Nix gives them all up."""
    found = []
    for one in caches:
        with contextlib.suppress(UnavailableError):
            walked = stores.closure(one, paths, nix, access)
            if any(info.fault for info in walked.infos.values()):
                found.append(one)
    return found


def _sweep(log: Log, nix: Nix) -> None:
    """Remove what Nix unpacked and then found to have another hash; it leaves that lying about."""
    said = _said(log)
    for path in dict.fromkeys(re.findall(r"hash mismatch[^/]*'(/nix/store/[^']+)'", said)):
        if not local.valid(nix, [path]) and local.is_on_disk(nix, path):
            process.run(["nix-store", "--delete", path], env=nix.environment())


def _realise(
    paths: Sequence[str],
    caches: Sequence[Cache],
    keys: Sequence[str],
    nix: Nix,
    access: Access,
    watch: Watcher,
) -> tuple[Log, int, list[Cache]]:
    """Run nix once, or until a cache breaks off while there are others."""
    reading = settings.reading(nix, caches, keys, access)
    argv = ["nix-store", "--realise", "--max-jobs", "0", "--log-format", "internal-json", *paths]
    log = Log(watch)

    def broken() -> list[Cache]:
        said = " ".join(log.messages[-3:] + log.warnings[-3:])
        found = [one for one in caches if one.address in said and BROKE_OFF.search(said)]
        return found if len(found) < len(caches) else []

    with git.temporary_folder() as scratch:
        status = run_logged(argv, reading, log, scratch / "answer", lambda: bool(broken()))
    return (log, 1, broken()) if status is None else (log, status, [])


def _said(log: Log) -> str:
    return uncoloured("\n".join([*log.warnings, *log.messages]))


def _failed(log: Log, caches: Sequence[Cache]) -> TnpuError:
    said = _said(log)
    details = tuple(dict.fromkeys(line.strip()[:300] for line in said.splitlines() if line.strip()))
    tail = details[-6:]
    where = ", ".join(one.address for one in caches)
    if not _NO_FAULT_OF_A_CACHE.search(said):
        for pattern, what, hint in _CAUSES:
            if re.search(pattern, said):
                return TnpuError(what.format(where=where), hint, tail)
    return failure("pulling", said, tail)
