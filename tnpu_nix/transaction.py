"""Writing several files as one: all of them or none, whenever the process is killed.

New contents are first written in full to a staging folder, then renamed into place by a process
of its own that a kill of the command does not reach. Should the machine itself stop between two
renames, a journal in the staging folder lets the next command finish the work.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from tnpu_nix.errors import TnpuError

STATE_FOLDER = ".tnpu-nix"
_JOURNAL = "journal.json"
_STAGED = "staged"


@contextlib.contextmanager
def locked(root: Path, wait: float = 30.0) -> Iterator[None]:
    """Hold the project's lock, after finishing what an interrupted command left in its journal.

    Args:
        root: the folder that holds pins.toml.
        wait: seconds to wait for another command to end.

    Raises:
        TnpuError: another command holds the lock, or the folder cannot be written.
    """
    with reported(root):
        descriptor = _open_lock(root / STATE_FOLDER)
    try:
        _acquire(descriptor, wait)
        _replay(root)
        yield
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def reported(root: Path) -> Iterator[None]:
    """Turn a failed write below *root* into an error that a user can act on."""
    try:
        yield
    except OSError as error:
        name = error.filename or root
        raise TnpuError(
            f"{name} cannot be written: {error.strerror}; nothing was changed",
            "make room or mend the rights of the folder, then run the command again",
        ) from error


def _open_lock(state: Path) -> int:
    state.mkdir(exist_ok=True)
    ignore = state / ".gitignore"
    if not ignore.exists():
        ignore.write_text("*\n")
    descriptor = os.open(state / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    if not os.access(state.parent, os.W_OK):
        os.close(descriptor)
        raise PermissionError(13, "Permission denied", str(state.parent))
    return descriptor


def _acquire(descriptor: int, wait: float) -> None:
    deadline = time.monotonic() + wait
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                holder = os.pread(descriptor, 64, 0).decode(errors="replace").strip()
                raise TnpuError(
                    f"another tnpu-nix (process {holder or 'unknown'}) is changing this project",
                    "wait until it has ended, then run the command again",
                ) from None
            time.sleep(0.1)
        else:
            # Who holds the lock is a courtesy to whoever waits: a full disk must not stop us here.
            with contextlib.suppress(OSError):
                os.ftruncate(descriptor, 0)
                os.pwrite(descriptor, str(os.getpid()).encode(), 0)
            return


def write(root: Path, contents: Mapping[str, bytes | None]) -> None:
    """Put *contents* into place: path below *root* → bytes, or None for a file to remove.

    The caller holds the lock. After an error, or a kill at any moment, every file is as it was;
    or, once the renaming has begun, every file is new.

    Raises:
        TnpuError: a file could not be written (full disk, rights); nothing was changed.
    """
    if not contents:
        return
    staging = root / STATE_FOLDER / _STAGED
    with reported(root):
        try:
            names = _stage(root, staging, contents)
        except OSError:
            shutil.rmtree(staging, ignore_errors=True)
            raise
    child = os.fork()
    if child == 0:
        _commit_and_exit(root, names)
    _, status = os.waitpid(child, 0)
    if status != 0:
        raise TnpuError(
            f"the new files could not be renamed into {root}",
            "mend the rights of the folder; the next command finishes the work",
        )


def _stage(root: Path, staging: Path, contents: Mapping[str, bytes | None]) -> dict[str, str]:
    """Write everything but the renames; returns staged name ("" to remove) → target path."""
    shutil.rmtree(staging, ignore_errors=True)
    staging.mkdir(parents=True)
    moves: dict[str, str] = {}
    for number, (path, data) in enumerate(sorted(contents.items())):
        target = root / path
        if data is None:
            moves[path] = ""
            continue
        _check_target(target)
        staged = staging / str(number)
        staged.write_bytes(data)
        if target.exists():
            shutil.copymode(target, staged)
        _sync(staged)
        moves[path] = staged.name
    for path in moves:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
    journal = staging / _JOURNAL
    temporary = journal.with_suffix(".new")
    temporary.write_text(json.dumps(moves))
    _sync(temporary)
    temporary.rename(journal)
    return moves


def _check_target(target: Path) -> None:
    """Refuse before the journal is written what a rename would refuse after it."""
    if target.is_dir():
        raise IsADirectoryError(21, "is a directory", str(target))
    parent = target.parent
    while not parent.exists():
        parent = parent.parent
    if not parent.is_dir() or not os.access(parent, os.W_OK):
        raise PermissionError(13, "Permission denied", str(parent))


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _commit_and_exit(root: Path, moves: Mapping[str, str]) -> None:
    """In the child: leave the command's process group, rename, and end without clean-up."""
    status = 1
    try:
        os.setsid()
        _rename(root, moves)
        status = 0
    finally:
        os._exit(status)


def _rename(root: Path, moves: Mapping[str, str]) -> None:
    staging = root / STATE_FOLDER / _STAGED
    for path, staged in moves.items():
        if not staged:
            (root / path).unlink(missing_ok=True)
        elif (staging / staged).exists():
            (staging / staged).rename(root / path)
    shutil.rmtree(staging, ignore_errors=True)


def _replay(root: Path) -> None:
    """Finish the renames of a command that was stopped among them; drop half-staged files."""
    staging = root / STATE_FOLDER / _STAGED
    journal = staging / _JOURNAL
    if journal.exists():
        _rename(root, json.loads(journal.read_text()))
    shutil.rmtree(staging, ignore_errors=True)
