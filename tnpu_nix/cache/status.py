"""Output by output: is it here, which cache has it, how large is it, would it be built?"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from tnpu_nix.cache import local, stores
from tnpu_nix.cache.access import Access
from tnpu_nix.cache.current import Current, paths_of
from tnpu_nix.cache.narinfo import PathInfo
from tnpu_nix.cache.stores import Answer, Cache
from tnpu_nix.nix import Nix
from tnpu_nix.terminal import size_text


@dataclass(frozen=True)
class OutputStatus:
    """Where one output of the current pins is to be had."""

    name: str
    paths: list[str]
    here: bool  # in the store of this machine
    caches: list[str]  # URLs of those that have all of its paths
    damaged: list[str]  # URLs of those whose narinfo cannot be used
    nar_size: int | None  # bytes, unpacked, without what it refers to; None if nobody knows
    download_size: int | None  # bytes from the first cache that has it, None if none says
    would_be_built: bool


@dataclass(frozen=True)
class CacheStatus:
    """One cache, and what is wrong with it."""

    url: str
    trouble: str | None


@dataclass(frozen=True)
class Status:
    """What `cache status` shows."""

    caches: list[CacheStatus]
    outputs: list[OutputStatus]


def status(
    now: Current,
    outputs: dict[str, list[str]],
    caches: Sequence[Cache],
    nix: Nix,
    access: Access,
) -> Status:
    """Ask the store and all caches, at the same time, for all outputs."""
    paths = paths_of(outputs)
    with ThreadPoolExecutor(1) as beside:
        asked = beside.submit(local.valid, nix, paths)
        answers = stores.ask_all(caches, paths, nix, access)
        here = asked.result()
    return Status(
        [CacheStatus(one.cache.url, one.trouble) for one in answers],
        [_output(name, its, here, answers) for name, its in outputs.items()],
    )


def _output(
    name: str, paths: list[str], here: dict[str, PathInfo], answers: Sequence[Answer]
) -> OutputStatus:
    def all_of(one: Answer) -> list[PathInfo]:
        found = [one.found.get(path) for path in paths]
        return [info for info in found if info is not None and info.fault is None]

    have = [one for one in answers if len(all_of(one)) == len(paths)]
    bad = [
        one
        for one in answers
        if any((info := one.found.get(path)) is not None and info.fault for path in paths)
    ]
    held = [here[path] for path in paths if path in here]
    is_here = len(held) == len(paths)
    known = all_of(have[0]) if have else held if is_here else []
    sizes = [info.file_size for info in known]
    return OutputStatus(
        name=name,
        paths=paths,
        here=is_here,
        caches=[one.cache.url for one in have],
        damaged=[one.cache.url for one in bad],
        nar_size=sum(info.nar_size for info in known) if known else None,
        download_size=sum(size or 0 for size in sizes) if have and all(sizes) else None,
        would_be_built=not is_here and not have,
    )


def lines(found: Status) -> list[str]:
    """Return the tables for people: the caches by number, then the outputs."""
    shown = []
    for number, one in enumerate(found.caches, 1):
        shown.append(f"cache {number}: {one.url}" + (f": {one.trouble}" if one.trouble else ""))
    numbers = [str(number) for number in range(1, len(found.caches) + 1)]
    rows = [("output", "here", *numbers, "size", "download", "")]
    for output in found.outputs:
        marks = [_mark(one, output) for one in found.caches]
        here = "yes" if output.here else "-"
        counts = (output.nar_size, output.download_size)
        sizes = ("-" if count is None else size_text(count) for count in counts)
        rows.append((output.name, here, *marks, *sizes, _remark(output)))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        shown.append("  ".join(cells).rstrip())
    return shown


def _mark(one: CacheStatus, output: OutputStatus) -> str:
    if one.trouble:
        return "?"
    if one.url in output.damaged:
        return "BAD"
    return "yes" if one.url in output.caches else "-"


def _remark(output: OutputStatus) -> str:
    if output.would_be_built:
        return "would be built"
    return "" if output.here else "would be fetched"
