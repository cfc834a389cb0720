"""Removing from a `file://` cache what no kept set of pins reaches."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tnpu_nix.cache import narinfo, records
from tnpu_nix.cache.narinfo import PathInfo
from tnpu_nix.cache.records import Record
from tnpu_nix.cache.stores import INFO
from tnpu_nix.errors import TnpuError

_NAR, _NARINFO = "nar", ".narinfo"


@dataclass
class Plan:
    """What a prune removes, and what it leaves."""

    kept: list[Record]
    dropped: list[Record]
    paths: list[str]  # store paths that go
    foreign: int  # paths that stay although no set names them
    files: list[Path] = field(default_factory=list)  # narinfos first, then NARs, then records
    size: int = 0  # bytes of those files
    odd: list[str] = field(default_factory=list)  # what narinfos that go call a NAR, and is none


@dataclass(frozen=True)
class Limits:
    """What is spared."""

    keep: int  # sets of pins, those pushed last
    current: str | None  # digest of a set that stays whatever its age
    grace: float  # seconds; younger files may be those of a push that runs
    foreign: bool  # also remove what no set names


def prune(folder: Path, limits: Limits, dry_run: bool, say: Callable[[str], None]) -> Plan:
    """Remove what goes, or with *dry_run* only say what would.

    Pushes by tnpu-nix and a prune of one folder exclude each other by its lock. A push over HTTP
    holds no lock, but writes its record first: whenever a record has come, it is thought anew.

    Raises:
        TnpuError: the folder holds no cache, or a push into it does not end.
    """
    if not (folder / INFO).is_file():
        raise TnpuError(f"{folder} holds no binary cache", "name the folder of one as file:///…")
    plan = _plan(folder, limits) if dry_run else _pruned(folder, limits, say)
    for name in plan.odd:
        say(f"left alone: {name}, which a narinfo that goes calls its NAR, lies outside of {_NAR}/")
    return plan


def _pruned(folder: Path, limits: Limits, say: Callable[[str], None]) -> Plan:
    with records.locked(folder, True, say):
        while True:
            before = _stamps(folder)
            plan = _plan(folder, limits)
            if _remove(folder, plan, before):
                return plan
            say("a push has begun meanwhile; looking again")


def _stamps(folder: Path) -> dict[str, int]:
    files = (folder / records.FOLDER).glob("*.json")
    return {path.name: path.stat().st_mtime_ns for path in files}


def _remove(folder: Path, plan: Plan, before: dict[str, int]) -> bool:
    """Remove the files of a plan; stop, and return False, as soon as a push has begun."""
    for path in plan.files:
        if _stamps(folder) != before:
            return False
        path.unlink(missing_ok=True)
        before.pop(path.name, None)
    return True


def _plan(folder: Path, limits: Limits) -> Plan:
    sets = records.load(folder)
    before = time.time() - limits.grace
    files, unreadable = _narinfos(folder)
    infos = {path: info for path, (info, _) in files.items()}
    named = narinfo.reached(infos, (path for one in sets for path in one.paths))
    strangers = [path for path in infos if path not in named]
    kept = [
        one
        for number, one in enumerate(sets)
        if number < limits.keep
        or one.digest == limits.current
        or (one.running and one.time > before)
    ]
    dropped = [one for one in sets if one not in kept]
    roots = [] if limits.foreign else strangers
    roots = [*roots, *(path for one in kept for path in one.paths)]
    spared = narinfo.reached(infos, roots)
    paths = sorted(path for path in infos if path not in spared)
    plan = Plan(kept, dropped, paths, 0 if limits.foreign else len(strangers))
    used = {infos[path].file for path in spared} | unreadable
    gone = {infos[path].file for path in paths} - used
    plan.files = [files[path][1] for path in paths]
    named_files = sorted(name for name in gone if name and (folder / name).is_file())
    # Whoever may upload could else have any file of the cache removed.
    plan.odd = [name for name in named_files if not name.startswith(f"{_NAR}/")]
    plan.files += [folder / name for name in named_files if name not in plan.odd]
    plan.files += _loose(folder, used | gone, before)
    plan.size = sum(path.stat().st_size for path in plan.files)
    # Last: were they gone before the rest, nothing would name what a stopped prune has left.
    plan.files += [folder / records.FOLDER / f"{one.digest}.json" for one in dropped]
    return plan


def _narinfos(folder: Path) -> tuple[dict[str, tuple[PathInfo, Path]], set[str | None]]:
    """Return store path → what its narinfo says, and that file; and the NARs of unreadable ones."""
    found, unreadable = {}, set[str | None]()
    for file in filter(Path.is_file, folder.glob(f"*{_NARINFO}")):
        text = file.read_text(errors="replace")
        fields = dict(line.split(": ", 1) for line in text.splitlines() if ": " in line)
        path = fields.get("StorePath", "")
        info = narinfo.parse(path, text)
        if info.fault is None and narinfo.hash_part(path) == file.name.removesuffix(_NARINFO):
            found[path] = (info, file)
        else:
            unreadable.add(fields.get("URL"))
    return found, unreadable


def _loose(folder: Path, known: set[str | None], before: float) -> list[Path]:
    """Return what stopped pushes left: NARs of no narinfo, and files that were being written.

    A push that runs elsewhere, without our lock, has such files too: only old ones are listed.
    """
    files = [one for one in (folder / _NAR).glob("*") if f"{_NAR}/{one.name}" not in known]
    files += folder.glob("*.tmp.*")
    return sorted(one for one in files if one.is_file() and one.stat().st_mtime <= before)
