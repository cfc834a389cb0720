"""Writing several files as one: all of them or none, whenever the process is killed.

New contents are first written in full to a staging folder, then renamed into place by a process
of its own that a kill of the command does not reach. Should the machine itself stop between two
renames, a journal in the staging folder lets the next command finish the work.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from tnpu_nix import journal
from tnpu_nix.errors import TnpuError
from tnpu_nix.place import STATE_FOLDER, state_folder

_STAGED = "staged"


@contextlib.contextmanager
def locked(root: Path, say: Callable[[str], None], wait: float = 30.0) -> Iterator[None]:
    """Hold the project's lock, after finishing what an interrupted command left in its journal.

    Args:
        root: the folder that holds pins.toml.
        say: takes a line about what an interrupted command left.
        wait: seconds to wait for another command to end.

    Raises:
        TnpuError: another command holds the lock, or the folder cannot be written.
    """
    with reported(root):
        descriptor = _open_lock(root)
    try:
        _acquire(descriptor, wait, say)
        with reported(root):
            journal.replay(root / STATE_FOLDER / _STAGED, root, say)
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


def _open_lock(root: Path) -> int:
    state = state_folder(root)
    descriptor = os.open(state / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    if not os.access(root, os.W_OK):
        os.close(descriptor)
        raise PermissionError(errno.EACCES, "Permission denied", str(root))
    return descriptor


def _acquire(descriptor: int, wait: float, say: Callable[[str], None]) -> None:
    deadline = time.monotonic() + wait
    told = False
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(descriptor, 64, 0).decode(errors="replace").strip() or "unknown"
            if time.monotonic() > deadline:
                raise TnpuError(
                    f"another tnpu-nix (process {holder}) is changing this project",
                    "wait until it has ended, then run the command again",
                ) from None
            if not told:
                say(f"waiting for another tnpu-nix (process {holder}) that changes this project")
                told = True
            time.sleep(0.1)
        else:
            # Who holds the lock is a courtesy to whoever waits: a full disk must not stop us here.
            with contextlib.suppress(OSError):
                os.ftruncate(descriptor, 0)
                os.pwrite(descriptor, str(os.getpid()).encode(), 0)
            return


def write(root: Path, contents: Mapping[str, bytes | None]) -> None:
    """Put *contents* into place: path below *root* → bytes, or None for a file to remove.

    The caller holds the lock. After an error every file is as it was. Once the renaming has
    begun, a process of its own does it to the end, whatever happens to this one; that takes a
    millisecond or so.

    Raises:
        TnpuError: a file could not be written (full disk, rights); nothing was changed.
    """
    if not contents:
        return
    staging = root / STATE_FOLDER / _STAGED
    with reported(root):
        try:
            moves = _stage(root, staging, contents)
        except OSError:
            shutil.rmtree(staging, ignore_errors=True)
            raise
    child = os.fork()
    if child == 0:
        _commit_and_exit(root, staging, moves)
    _, status = os.waitpid(child, 0)
    if status != 0:
        raise TnpuError(
            f"the new files could not be renamed into {root}",
            "mend the rights of the folder; the next command finishes the work",
        )


def _stage(root: Path, staging: Path, contents: Mapping[str, bytes | None]) -> list[journal.Move]:
    """Write everything but the renames: the new files, and the journal that says what is what."""
    shutil.rmtree(staging, ignore_errors=True)
    staging.mkdir(parents=True)
    moves = []
    for path, data in sorted(contents.items()):
        target, staged = root / path, staging / path
        journal.check_target(root, target)
        if data is not None:
            staged.parent.mkdir(parents=True, exist_ok=True)
            staged.write_bytes(data)
            if target.exists():
                shutil.copymode(target, staged)
            journal.sync(staged)
        moves.append(journal.Move(path, journal.digest(target), journal.sha256(data)))
    journal.write(staging, moves)
    return moves


def _commit_and_exit(root: Path, staging: Path, moves: list[journal.Move]) -> None:
    """In the child: leave the command's process group, rename, and end without clean-up."""
    status = 1
    try:
        os.setsid()
        journal.commit(staging, root, moves)
        status = 0
    finally:
        os._exit(status)
