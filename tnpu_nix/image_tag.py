"""The tag of an image: what its derivation is called, known without a build."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path

# Loaded by every `image ensure`, which is to take no longer than its question to the registry:
# nothing that takes time to load belongs here.
STATE_FOLDER = ".tnpu-nix"
_FILE = "image-tag.json"
_PACKAGE = Path(__file__).resolve().parent
_OFFLINE = _PACKAGE / "offline"


def fingerprint(root: Path, offline_profile: bool) -> str:
    """Return a hash of all that a project's tag depends on, and of this program.

    Evaluation of a flake is pure: the same files give the same derivations.
    """
    hashed = hashlib.sha256(b"offline" if offline_profile else b"")
    for path in _files(root, offline_profile):
        try:
            content = path.read_bytes()
        except OSError:
            content = b""
        name = os.fsencode(path)
        hashed.update(b"%d %d %s" % (len(name), len(content), name))
        hashed.update(content)
    return hashed.hexdigest()


def _files(root: Path, offline_profile: bool) -> Iterator[Path]:
    for name in ("pins.toml", "flake.nix", "flake.lock"):
        yield root / name
    yield from _below(root / "nix")
    # What the generated files should look like is part of the answer: stale ones are refused.
    yield from _below(_PACKAGE / "templates")
    yield from sorted(_PACKAGE.glob("*.py"))
    if offline_profile:
        yield from _below(_OFFLINE / "hostpkgs")


def _below(folder: Path) -> Iterator[Path]:
    for where, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        for name in sorted(names):
            yield Path(where, name)


def remembered(root: Path, key: str) -> dict[str, str] | None:
    """Return what was kept for a fingerprint: ``tag``, and ``repository`` where pins.toml has one.

    None if it was for another state of the files.
    """
    try:
        content = json.loads((root / STATE_FOLDER / _FILE).read_bytes())
        return content["values"] if content["key"] == key else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def remember(root: Path, key: str, values: dict[str, str]) -> None:
    """Keep what belongs to a fingerprint. No command is failed by what cannot be kept."""
    folder = root / STATE_FOLDER
    with contextlib.suppress(OSError):
        folder.mkdir(exist_ok=True)
        if not (folder / ".gitignore").exists():
            (folder / ".gitignore").write_text("*\n")
        temporary = folder / f"{_FILE}.{os.getpid()}"
        temporary.write_text(json.dumps({"key": key, "values": values}))
        temporary.rename(folder / _FILE)
