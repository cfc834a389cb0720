"""One hash of all that an evaluation of a project's flake, and the check of it, depend on.

A flake's evaluation sees its own files and its locked inputs and nothing else: the same files give
the same derivations. So what was evaluated can be kept under this hash, for the next command.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator

# Loaded by commands that are to take no longer than the one question that they ask: nothing that
# takes time to load belongs here, pathlib included.

_PACKAGE = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120
_FILES = ("pins.toml", "flake.nix", "flake.lock", ".github/workflows/tnpu.yml")
# The front end is an output of the one repository that holds it.
_FRONT_END = ("pyproject.toml", "README.md", "tnpu_nix/cli.py")


def of(root: str, *how: object) -> str:
    """Return the hash for a project.

    The generator is part of it, with its templates and hostpkgs: it refuses generated files that
    are not as it would write them. Of its files, size and time will do.

    Args:
        root: the folder that holds pins.toml.
        how: what else the answer depends on (store, profile), told apart by its ``repr``.
    """
    hashed = hashlib.sha256(repr(how).encode())
    for path in _contents(root):
        try:
            mode = os.stat(path).st_mode  # noqa: PTH116
            if stat.S_ISREG(mode):
                with open(path, "rb", buffering=0) as file:  # noqa: PTH123
                    content = file.read()
            else:
                content = b"pipe or the like"  # reading it might never end; no build takes it
        except OSError:
            continue  # not there, or nothing that nix can read either
        hashed.update(b"%s %d %d\n%s" % (os.fsencode(path), mode & 0o111, len(content), content))
    for folder in dict.fromkeys((_PACKAGE, f"{root}/tnpu_nix")):
        for path in _below(folder):
            try:
                found = os.stat(path)  # noqa: PTH116
            except OSError:
                continue  # an editor's lock
            hashed.update(f"{path} {found.st_size} {found.st_mtime_ns}\n".encode())
    return hashed.hexdigest()


def _contents(root: str) -> Iterator[str]:
    yield from (f"{root}/{name}" for name in (*_FILES, *_FRONT_END))
    yield from _below(f"{root}/nix")


def _below(folder: str, followed: tuple[str, ...] = ()) -> Iterator[str]:
    """Yield the files below a folder, links followed, as a build copies them."""
    try:
        with os.scandir(folder) as found:
            entries = sorted(found, key=lambda entry: entry.name)
    except OSError:
        return
    for entry in entries:
        if not entry.is_dir():
            yield entry.path
        elif entry.name != "__pycache__":
            way = followed
            if entry.is_symlink():  # which may lead back to where it lies
                target = os.path.realpath(entry.path)
                if target in followed or f"{os.path.realpath(folder)}/".startswith(f"{target}/"):
                    continue
                way = (*followed, target)
            yield from _below(entry.path, way)
