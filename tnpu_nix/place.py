"""Where a project lies; apart from the rest, so that quick commands load no more than that."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from tnpu_nix.errors import TnpuError

FILE_NAME = "pins.toml"
FLAKE = "flake.nix"
LOCK = "flake.lock"
WORKFLOW = ".github/workflows/tnpu.yml"
STATE_FOLDER = ".tnpu-nix"


def _has_pins(folder: Path) -> bool:
    # Whatever has the name, a folder or a dangling link too, is said to be wrong where it lies,
    # and not passed over for a project further up.
    return os.path.lexists(folder / FILE_NAME)


def find(start: Path, named: Path | None = None) -> Path:
    """Return the project: *named* itself, or the nearest folder at or above *start*.

    Raises:
        TnpuError: there is no pins.toml.
    """
    if named is not None:
        if not _has_pins(named):
            raise TnpuError(f"{named} holds no {FILE_NAME}", "name the folder of a project")
        return named.resolve()
    for folder in (start.resolve(), *start.resolve().parents):
        if _has_pins(folder):
            return folder
    raise TnpuError(
        f"no {FILE_NAME} here or in any folder above",
        "go to a project, or name one with --project DIR",
    )


def state_folder(root: Path) -> Path:
    """Return the project's state folder, made if need be, which git does not see.

    Raises:
        OSError: it cannot be made.
    """
    folder = root / STATE_FOLDER
    folder.mkdir(exist_ok=True)
    ignore = folder / ".gitignore"
    if not ignore.exists():
        ignore.write_text("*\n")
    return folder


def keep_note(root: Path, name: str, text: str) -> None:
    """Write a file of the state folder; no command is failed by a note that cannot be kept."""
    with contextlib.suppress(OSError):
        folder = state_folder(root)
        temporary = folder / f"{name}.{os.getpid()}"
        temporary.write_text(text)
        temporary.rename(folder / name)
