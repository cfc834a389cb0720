"""The store of this machine: which paths it holds, really holds, and how large they are."""

from __future__ import annotations

import json
from collections.abc import Sequence

from tnpu_nix import pathinfo, process
from tnpu_nix.cache import narinfo
from tnpu_nix.cache.narinfo import PathInfo
from tnpu_nix.nix import Nix, failure
from tnpu_nix.ondisk import gone as gone
from tnpu_nix.ondisk import is_on_disk as is_on_disk
from tnpu_nix.ondisk import requisites

_AT_A_TIME = 500  # paths in one argument list


def valid(nix: Nix, paths: Sequence[str]) -> dict[str, PathInfo]:
    """Return those of *paths* that the store holds, with what it knows of them.

    A path that Nix believes to hold but that is gone from the disk is not among them.
    """
    there = [path for path in paths if is_on_disk(nix, path)]
    return {path: info for path, info in _infos(nix, there).items() if info is not None}


def closure(nix: Nix, paths: Sequence[str]) -> dict[str, PathInfo]:
    """Return *paths*, which are valid, and all that they refer to; on the disk or gone from it.

    Raises:
        TnpuError: a path is not valid.
    """
    if not paths:
        return {}
    found = _infos(nix, requisites(nix, paths))
    return {path: info for path, info in found.items() if info is not None}


def altered(nix: Nix, paths: Sequence[str]) -> list[str]:
    """Return those of *paths*, which are on the disk, that do not have the content they had.

    Each is read once, and its NAR hashed: that is what Nix knows it by.

    Raises:
        TnpuError: a path cannot be read.
    """
    if not paths:
        return []
    with pathinfo.being_hashed(nix, paths) as hashed:
        return hashed()


def _infos(nix: Nix, paths: Sequence[str]) -> dict[str, PathInfo | None]:
    found: dict[str, PathInfo | None] = {}
    for start in range(0, len(paths), _AT_A_TIME):
        argv = ["nix", "path-info", "--json", *paths[start : start + _AT_A_TIME]]
        done = process.run(argv, env=nix.environment())
        if done.status != 0:
            raise failure("asking the Nix store", done.stderr)
        found |= narinfo.from_nix(json.loads(done.stdout))
    return found
