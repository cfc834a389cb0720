"""Roots for Nix's garbage collector: what is pinned, or was lately, is not thrown away.

One folder a set of outputs, in it a link to each that the store holds. Nix knows the links as
indirect roots, in a store of its own too; one that is removed here is no root any more.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path

from tnpu_nix import process
from tnpu_nix.cache import local
from tnpu_nix.cache.current import Current, current, paths_of
from tnpu_nix.errors import TnpuError
from tnpu_nix.nix import Nix, failure
from tnpu_nix.place import state_folder

_FOLDER = "roots"


def keep_if_possible(
    root: Path, nix: Nix, say: Callable[[str], None], now: Current | None = None
) -> None:
    """Do what `keep` does; where that cannot be done, say so and go on.

    Args:
        now: the outputs of the current pins, if they are known; else the flake is evaluated, and
            nothing is kept if that fails.
    """
    if now is None:
        try:
            now = current(root, nix)
        except TnpuError:
            return  # the command has failed of it, or is about to
    try:
        keep(root, nix, now)
    except TnpuError as error:
        say(f"warning: {error.what}; the next garbage collection may take what is there now")


def keep(root: Path, nix: Nix, now: Current) -> list[str]:
    """Make roots of all outputs of the current pins that are there; let old sets go.

    The last `now.keep` sets stay, the current one counted.

    Returns:
        The names of the outputs that have a root now.

    Raises:
        TnpuError: the project's folder cannot be written, or Nix registers no root.
    """
    held = local.valid(nix, paths_of(now.outputs))
    links = {
        name if number == 0 else f"{name}-{number}": path
        for name, paths in now.outputs.items()
        for number, path in enumerate(paths)
        if path in held
    }
    if not links:
        return []
    try:
        folder = state_folder(root) / _FOLDER / now.digest
        folder.mkdir(parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK):
            # Nix would say that its store cannot be written.
            raise PermissionError(errno.EACCES, "it cannot be written", str(folder))
        for name, path in links.items():
            _add(nix, folder / name, path)
        os.utime(folder)
        _drop(folder.parent, now.keep)
    except OSError as error:
        raise TnpuError(
            f"no roots can be made: {error.filename}: {error.strerror}", "mend the folder's rights"
        ) from error
    return list(links)


def _add(nix: Nix, link: Path, path: str) -> None:
    # Every time anew: the store may be another one, or the root removed from it. And each alone: of
    # several Nix numbers the links, and those of another store would take their places.
    argv = ["nix-store", "--add-root", str(link), "--indirect", "--realise", path]
    done = process.run(argv, env=nix.environment())
    if done.status != 0:
        raise failure(f"making a root of {path}", done.stderr)


def _drop(folder: Path, count: int) -> None:
    """Remove all sets but the *count* used last."""
    sets = sorted(folder.iterdir(), key=lambda one: one.stat().st_mtime, reverse=True)
    for old in sets[count:]:
        with contextlib.suppress(OSError):  # another command dropped it as well
            shutil.rmtree(old)
