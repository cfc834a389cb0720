"""Removing from a `file://` cache what no kept set of pins reaches."""

from __future__ import annotations

import contextlib
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
    waiting: int = 0  # NARs that stay because a push runs, which may count on them


@dataclass(frozen=True)
class Limits:
    """What is spared."""

    keep: int  # sets of pins, those pushed last
    current: str | None  # digest of a set that stays whatever its age
    grace: float  # seconds; younger files may be those of a push that runs
    foreign: bool  # also remove what no set names
    paths: frozenset[str] = frozenset()  # store paths that stay with all that they refer to


def prune(folder: Path, limits: Limits, dry_run: bool, say: Callable[[str], None]) -> Plan:
    """Remove what goes, or with *dry_run* only say what would.

    Pushes by tnpu-nix and a prune of one folder exclude each other by its lock. A push over HTTP
    holds no lock, but writes its record first: whenever a record has come, it is thought anew.

    Returns:
        What goes; after a prune that thought anew, all that went.

    Raises:
        TnpuError: the folder holds no cache, or a push into it does not end.
    """
    if not (folder / INFO).is_file():
        raise TnpuError(f"{folder} holds no binary cache", "name the folder of one as file:///…")
    plan = _plan(folder, limits) if dry_run else _pruned(folder, limits, say)
    for name in plan.odd:
        say(f"left alone: {name}, which a narinfo that goes calls its NAR, lies outside of {_NAR}/")
    if plan.waiting:
        say(f"left alone: {plan.waiting} NARs, while a push runs; the next prune takes them")
    return plan


def _pruned(folder: Path, limits: Limits, say: Callable[[str], None]) -> Plan:
    gone: list[_Gone] = []
    with records.locked(folder, True, say):
        while True:
            before = _stamps(folder)
            plan = _plan(folder, limits)
            if _remove(folder, plan, before, gone):
                break
            say("a push has begun meanwhile; looking again")
    went = {one.path for one in gone}
    plan.paths = sorted({one.store_path for one in gone if one.store_path})
    plan.size = sum(one.size for one in gone)
    plan.dropped = [one for one in plan.dropped if _record(folder, one) in went]
    return plan


@dataclass(frozen=True)
class _Gone:
    path: Path
    size: int  # bytes, of a record none
    store_path: str | None  # of a narinfo


def _stamps(folder: Path) -> dict[str, int]:
    files = (folder / records.FOLDER).glob("*.json")
    return {path.name: path.stat().st_mtime_ns for path in files}


def _remove(folder: Path, plan: Plan, before: dict[str, int], gone: list[_Gone]) -> bool:
    """Remove the files of a plan, and note each as *gone*.

    Stop, and return False, as soon as a push has begun.
    """
    for number, path in enumerate(plan.files):
        if _stamps(folder) != before:
            return False
        store_path = plan.paths[number] if number < len(plan.paths) else None
        with contextlib.suppress(FileNotFoundError):
            size = 0 if path.name in before else path.stat().st_size
            path.unlink()
            gone.append(_Gone(path, size, store_path))
        before.pop(path.name, None)
    return True


def _record(folder: Path, one: Record) -> Path:
    return folder / records.FOLDER / f"{one.digest}.json"


def _plan(folder: Path, limits: Limits) -> Plan:
    sets = records.load(folder)
    before = time.time() - limits.grace
    running = [one for one in sets if one.running and one.time > before]
    files, unreadable = _narinfos(folder)
    infos = {path: info for path, (info, _) in files.items()}
    known = [*limits.paths, *(path for one in sets for path in one.paths)]
    named = narinfo.reached(infos, known)
    strangers = [path for path in infos if path not in named]
    kept = [
        one
        for number, one in enumerate(sets)
        if number < limits.keep or one.digest == limits.current or one in running
    ]
    dropped = [one for one in sets if one not in kept]
    roots = [] if limits.foreign else strangers
    roots = [*roots, *limits.paths, *(path for one in kept for path in one.paths)]
    roots += [path for one in unreadable for path in one.references]
    spared = narinfo.reached(infos, roots)
    paths = sorted(path for path in infos if path not in spared)
    plan = Plan(kept, dropped, paths, 0 if limits.foreign else len(strangers))
    plan.files = [files[path][1] for path in paths]
    used = {infos[path].file for path in spared} | {one.file for one in unreadable}
    _add_nars(plan, folder, {infos[path].file for path in paths} - used, used, before)
    if running:
        # It does not upload a NAR that it finds there, and its narinfo may not have come yet.
        nars = [path for path in plan.files if path.parent.name == _NAR]
        plan.files = [path for path in plan.files if path not in nars]
        plan.waiting = len(nars)
    plan.size = sum(path.stat().st_size for path in plan.files)
    # Last: were they gone before the rest, nothing would name what a stopped prune has left.
    plan.files += [_record(folder, one) for one in dropped]
    return plan


def _add_nars(
    plan: Plan, folder: Path, gone: set[str | None], used: set[str | None], before: float
) -> None:
    """Add to a plan the NARs of the narinfos that go, and what stopped pushes left."""
    named_files = sorted(name for name in gone if name and (folder / name).is_file())
    # Whoever may upload could else have any file of the cache removed.
    plan.odd = [name for name in named_files if not name.startswith(f"{_NAR}/")]
    plan.files += [folder / name for name in named_files if name not in plan.odd]
    plan.files += _loose(folder, used | gone, before)


def _narinfos(folder: Path) -> tuple[dict[str, tuple[PathInfo, Path]], list[PathInfo]]:
    """Return store path → what its narinfo says, and that file; and what unreadable ones name."""
    found, unreadable = {}, []
    for file in filter(Path.is_file, folder.glob(f"*{_NARINFO}")):
        text = file.read_bytes().decode(errors="replace")
        path = narinfo.path_in(text)
        info = narinfo.parse(path, text)
        if info.fault is None and narinfo.hash_part(path) == file.name.removesuffix(_NARINFO):
            found[path] = (info, file)
        else:
            unreadable.append(narinfo.guess(text))
    return found, unreadable


def _loose(folder: Path, known: set[str | None], before: float) -> list[Path]:
    """Return what stopped pushes left: NARs of no narinfo, and files that were being written.

    A push that runs elsewhere, without our lock, has such files too: only old ones are listed.
    """
    files = [one for one in (folder / _NAR).glob("*") if f"{_NAR}/{one.name}" not in known]
    files += folder.glob("*.tmp.*")
    return sorted(one for one in files if one.is_file() and one.stat().st_mtime <= before)
