"""The journal of a transaction: which staged file goes where, and what stood there before.

It is written when all new files are, and removed when all are in place. One that is found later is
of a command that was stopped among its renames, and says how to finish them.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath

NAME = "journal.json"
_TOP_LEVEL = ("pins.toml", "flake.nix", "flake.lock")


@dataclass(frozen=True)
class Move:
    """One file of a transaction."""

    path: str  # below the project, with "/"
    staged: str | None  # name in the staging folder; None: the file is removed
    old: str | None  # sha256 of what stood there, None if nothing did
    new: str | None  # sha256 of what is to stand there


def sha256(data: bytes | None) -> str | None:
    """Return the sha256 of a file's content, None for no file."""
    return None if data is None else hashlib.sha256(data).hexdigest()


def digest(path: Path) -> str | None:
    """Return the sha256 of a file on disk, None if there is none."""
    return sha256(path.read_bytes()) if path.is_file() else None


def dump(moves: Sequence[Move]) -> str:
    """Return the journal's text."""
    return json.dumps([asdict(move) for move in moves])


def _load(staging: Path) -> list[Move]:
    """Read a journal; one that is damaged, or names files of others, is as good as none."""
    try:
        moves = [Move(**entry) for entry in json.loads((staging / NAME).read_text())]
        return moves if all(map(_is_ours, moves)) else []
    except (OSError, ValueError, TypeError):
        return []


def _is_ours(move: Move) -> bool:
    path = PurePosixPath(move.path)
    inside = path.parts[:1] == ("nix",) and ".." not in path.parts
    plain = move.staged is None or "/" not in move.staged
    return plain and (move.path in _TOP_LEVEL or inside)


def commit(staging: Path, root: Path) -> None:
    """Do what the journal says, and remove it with its folder.

    Raises:
        OSError: a rename failed; what is left to do stays in the journal.
    """
    for move in _load(staging):
        if move.staged is None:
            (root / move.path).unlink(missing_ok=True)
        elif (staging / move.staged).exists():
            (staging / move.staged).rename(root / move.path)
    shutil.rmtree(staging, ignore_errors=True)


def replay(staging: Path, root: Path, say: Callable[[str], None]) -> None:
    """Finish a transaction whose command was stopped, unless somebody has been there since."""
    moves = _load(staging)
    touched = [move.path for move in moves if digest(root / move.path) not in (move.old, move.new)]
    if touched:
        say(f"an interrupted write is given up, since {', '.join(touched)} changed after it")
        shutil.rmtree(staging, ignore_errors=True)
    elif moves:
        commit(staging, root)
        say(f"finished an interrupted write of {', '.join(move.path for move in moves)}")
    else:
        shutil.rmtree(staging, ignore_errors=True)
