"""The journal of a transaction: which files a command was putting into place, and over what.

It is written when all new files are staged, and removed when all are in place. One that is found
later is of a command that was stopped among its renames, and says how to finish them.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath

from tnpu_nix.errors import TnpuError

NAME = "journal.json"
_TOP_LEVEL = ("pins.toml", "flake.nix", "flake.lock")
_FOLDER = "nix"


@dataclass(frozen=True)
class Move:
    """One file of a transaction: staged under the same path as it is to have in the project."""

    path: str  # below the project, with "/"
    old: str | None  # sha256 of what stood there, None if nothing did
    new: str | None  # sha256 of what is to stand there, None if the file is removed


def sha256(data: bytes | None) -> str | None:
    """Return the sha256 of a file's content, None for no file."""
    return None if data is None else hashlib.sha256(data).hexdigest()


def digest(path: Path) -> str | None:
    """Return the sha256 of a file on disk, None if there is none."""
    return sha256(path.read_bytes()) if path.is_file() else None


def check_target(root: Path, target: Path) -> None:
    """Raise if a file cannot be renamed to *target*, or would land outside the project.

    Raises:
        OSError: says what is in the way.
    """
    if target.is_symlink():
        raise OSError(errno.ELOOP, "is a symbolic link, put a file in its place", str(target))
    if target.is_dir():
        raise IsADirectoryError(errno.EISDIR, "is a folder", str(target))
    parent = target.parent
    while not os.path.lexists(parent):
        parent = parent.parent
    if not parent.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, "is not a folder", str(parent))
    if not parent.resolve().is_relative_to(root.resolve()) or (
        parent.stat().st_dev != root.stat().st_dev
    ):
        raise OSError(errno.EXDEV, "leads out of the project's file system", str(parent))
    if not os.access(parent, os.W_OK):
        raise PermissionError(errno.EACCES, "Permission denied", str(parent))


def write(staging: Path, moves: Sequence[Move]) -> None:
    """Write the journal, so that it is whole if it is there, and survives a loss of power."""
    temporary = staging / "journal.new"
    temporary.write_text(json.dumps([asdict(move) for move in moves]))
    sync(temporary)
    temporary.rename(staging / NAME)
    sync(staging)


def sync(path: Path) -> None:
    """Have the disk hold what was written to a file or folder."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def commit(staging: Path, root: Path, moves: Sequence[Move]) -> None:
    """Put every staged file into place, and remove the staging folder with its journal.

    Raises:
        OSError: a rename failed; the journal still says what is left to do.
    """
    if (staging / _FOLDER).exists() and not (root / _FOLDER).exists():
        (staging / _FOLDER).rename(root / _FOLDER)  # all of it in one step
    for folder in {(root / move.path).parent for move in moves if move.new is not None}:
        folder.mkdir(parents=True, exist_ok=True)
    # Nothing but renames from here on: whoever looks in between sees old and new files mixed.
    pairs = [(f"{staging}/{move.path}", f"{root}/{move.path}") for move in moves if move.new]
    for source, target in pairs:
        if os.path.lexists(source):
            os.rename(source, target)  # noqa: PTH104
    for move in moves:
        if move.new is None:
            (root / move.path).unlink(missing_ok=True)
    shutil.rmtree(staging, ignore_errors=True)


def replay(staging: Path, root: Path, say: Callable[[str], None]) -> None:
    """Finish a transaction whose command was stopped, unless somebody has been there since."""
    moves = _load(staging)
    touched = [move.path for move in moves if digest(root / move.path) not in (move.old, move.new)]
    if touched:
        say(f"an interrupted write is given up, since {', '.join(touched)} changed after it")
    elif moves:
        commit(staging, root, moves)
        say(f"finished an interrupted write of {', '.join(move.path for move in moves)}")
    if staging.exists():
        shutil.rmtree(staging)


def _load(staging: Path) -> list[Move]:
    """Read a journal; one that is damaged, or is not ours, is as good as none."""
    root = staging.parent.parent
    try:
        moves = [Move(**entry) for entry in json.loads((staging / NAME).read_text())]
        for move in moves:
            _check(staging, root, move)
        return moves
    except (OSError, ValueError, TypeError, TnpuError):
        return []


def _check(staging: Path, root: Path, move: Move) -> None:
    path = PurePosixPath(move.path)
    inside = path.parts[:1] == (_FOLDER,) and ".." not in path.parts
    if move.path not in _TOP_LEVEL and not inside:
        raise ValueError("names a file that no transaction writes")
    check_target(root, root / move.path)
    if digest(staging / move.path) not in (None, move.new):
        raise ValueError("holds another file than the one that was staged")
