"""What is known of the image of the present pins, kept from one command to the next.

The tag is what an evaluation of the flake gives, which is a pure function of its files. It is kept
under their fingerprint, and with it how the registry was last found to have that tag.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator

# Loaded by every `image ensure`, which is to take no longer than its question to the registry:
# nothing that takes time to load belongs here, pathlib included.

_FOLDER = ".tnpu-nix"
_FILE = "image.json"
_PACKAGE = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120


def fingerprint(root: str, offline_profile: bool) -> str:
    """Return a hash of all files that a project's tag depends on, this program's included."""
    hashed = hashlib.sha256(b"offline" if offline_profile else b"")
    for path in _files(root, offline_profile):
        try:
            with open(path, "rb", buffering=0) as file:  # noqa: PTH123
                content = file.read()
        except OSError:
            content = b""
        name = os.fsencode(path)
        hashed.update(b"%d %d %s" % (len(name), len(content), name))
        hashed.update(content)
    return hashed.hexdigest()


def _files(root: str, offline_profile: bool) -> Iterator[str]:
    for name in ("pins.toml", "flake.nix", "flake.lock"):
        yield f"{root}/{name}"
    yield from _below(f"{root}/nix")
    # What the generated files should look like is part of the answer: stale ones are refused.
    yield from _below(f"{_PACKAGE}/templates")
    yield f"{_PACKAGE}/render.py"
    yield f"{_PACKAGE}/pins.py"
    if offline_profile:
        yield from _below(f"{_PACKAGE}/offline/hostpkgs")


def _below(folder: str) -> Iterator[str]:
    for where, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        yield from (f"{where}/{name}" for name in sorted(names))


def remembered(root: str, key: str) -> dict[str, str]:
    """Return what was kept under a fingerprint; empty if it was for another state of the files.

    ``tag``, and ``repository`` where pins.toml names a registry; what `quick` keeps, in ``hit``.
    """
    try:
        with open(f"{root}/{_FOLDER}/{_FILE}", "rb") as file:  # noqa: PTH123
            content = json.load(file)
        values: dict[str, str] = content["values"] if content["key"] == key else {}
        return values
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def remember(root: str, key: str, values: dict[str, str]) -> None:
    """Keep what belongs to a fingerprint. No command is failed by what cannot be kept."""
    folder = f"{root}/{_FOLDER}"
    temporary = f"{folder}/{_FILE}.{os.getpid()}"
    try:
        os.makedirs(folder, exist_ok=True)  # noqa: PTH103
        if not os.path.exists(f"{folder}/.gitignore"):  # noqa: PTH110
            with open(f"{folder}/.gitignore", "w") as file:  # noqa: PTH123
                file.write("*\n")
        with open(temporary, "w") as file:  # noqa: PTH123
            json.dump({"key": key, "values": values}, file)
        os.rename(temporary, f"{folder}/{_FILE}")  # noqa: PTH104
    except OSError:
        return
