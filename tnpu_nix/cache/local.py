"""The store of this machine: which paths it holds, really holds, and how large they are."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Sequence

from tnpu_nix import process
from tnpu_nix.cache import narinfo
from tnpu_nix.cache.narinfo import PathInfo
from tnpu_nix.nix import Nix, failure

_AT_A_TIME = 500  # paths in one argument list


def is_on_disk(nix: Nix, path: str) -> bool:
    """Tell whether something lies at a store path, whatever Nix knows of it."""
    theirs = os.environ.get("NIX_REMOTE", "")
    if nix.store is None and theirs.startswith("/"):
        return os.path.lexists(f"{theirs}{path}")  # a store that the user chose without us
    return os.path.lexists(nix.on_disk(path))


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
    done = process.run(["nix-store", "--query", "--requisites", *paths], env=nix.environment())
    if done.status != 0:
        raise failure("asking the Nix store for references", done.stderr)
    found = _infos(nix, done.stdout.split())
    return {path: info for path, info in found.items() if info is not None}


def gone(nix: Nix, paths: Iterable[str]) -> list[str]:
    """Return those of *paths* that are valid to Nix, and yet not on the disk."""
    return [path for path in paths if not is_on_disk(nix, path)]


def altered(nix: Nix, paths: Sequence[str]) -> list[str]:
    """Return those of *paths*, which are on the disk, that do not have the content they had.

    Each is read once, and its NAR hashed: that is what Nix knows it by.

    Raises:
        TnpuError: a path cannot be read.
    """
    found: list[str] = []
    for start in range(0, len(paths), _AT_A_TIME):
        argv = ["nix-store", "--verify-path", *paths[start : start + _AT_A_TIME]]
        done = process.run(argv, env=nix.environment(), timeout=None)
        said = re.sub(r"\x1b\[[0-9;]*m", "", done.stderr)
        modified = re.findall(r"path '([^']+)' was modified!", said)
        if done.status != 0 and not modified:
            raise failure("reading what is in the Nix store", done.stderr)
        found += modified
    return found


def _infos(nix: Nix, paths: Sequence[str]) -> dict[str, PathInfo | None]:
    found: dict[str, PathInfo | None] = {}
    for start in range(0, len(paths), _AT_A_TIME):
        argv = ["nix", "path-info", "--json", *paths[start : start + _AT_A_TIME]]
        done = process.run(argv, env=nix.environment())
        if done.status != 0:
            raise failure("asking the Nix store", done.stderr)
        found |= narinfo.from_nix(json.loads(done.stdout))
    return found
