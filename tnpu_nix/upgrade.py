"""Bringing a pins.toml of an older version to the present one: steps on its raw data."""

from __future__ import annotations

import contextlib
import difflib
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import tomlkit

from tnpu_nix import pinsfile, transaction
from tnpu_nix.errors import TnpuError
from tnpu_nix.pins import PIN_NAMES, VERSION

_FLAKE_URL = re.compile(r"github:([^/]+)/([^/?]+)/([^/?]+)")


def upgrade(root: Path, say: Callable[[str], None], *, dry_run: bool) -> str:
    """Bring a project's pins.toml to the present version, and return what changes as a diff.

    Comments, order and blank lines stay.

    Raises:
        TnpuError: the file is no TOML, of a newer version, or has faults that are no matter of
            its version; nothing is written.
    """
    path = root / pinsfile.FILE_NAME
    with contextlib.nullcontext() if dry_run else transaction.locked(root, say):
        text = pinsfile.read_text(path)
        upgraded = _upgraded(text)
        # Its lines are no longer those of the file on disk.
        pinsfile.parse(upgraded, f"{pinsfile.FILE_NAME} as upgraded")
        if upgraded != text and not dry_run:
            transaction.write(root, {pinsfile.FILE_NAME: upgraded.encode()})
    lines = difflib.unified_diff(
        text.splitlines(keepends=True), upgraded.splitlines(keepends=True), "old", "new"
    )
    return "".join(line if line.endswith("\n") else f"{line}\n" for line in lines)


def _upgraded(text: str) -> str:
    for step in _STEPS[pinsfile.version_of(text) :]:
        text = step(text)
    if "version" not in pinsfile.data_of(text):
        return _with_version(text, VERSION)
    return pinsfile.edit(text, {("version",): VERSION})


def _with_version(text: str, version: int) -> str:
    """Put the version where the file's first table, or the comment above it, begins."""
    newline = "\r\n" if "\r\n" in text else "\n"
    line = f"version = {version}  # of the format of this file{newline}"
    head = re.match(r"(?:[ \t]*#[^\n]*\n)*(?:[ \t]*\r?\n)+", text)
    start = head.end() if head else 0
    return f"{text[:start]}{line}{newline}{text[start:]}"


def _from_0(text: str) -> str:
    """Version 0: each pin a table at the top level, nixpkgs as flake.lock spells it."""
    data = pinsfile.data_of(text)
    for name in _top_level_pins(data):
        header = re.compile(rf'^([ \t]*)\[[ \t]*"?{re.escape(name)}"?[ \t]*\]', re.M)
        text, count = header.subn(rf"\1[pins.{name.replace('-', '_')}]", text)
        if count != 1:
            raise TnpuError(
                f"the table of {name} in pins.toml has no header of its own",
                f"write it as [pins.{name.replace('-', '_')}] by hand",
            )
    nixpkgs = data.get("nixpkgs", {})
    return _nixpkgs(text, nixpkgs) if isinstance(nixpkgs, dict) else text


def _top_level_pins(data: Mapping[str, Any]) -> list[str]:
    tables = [(name, table) for name, table in data.items() if isinstance(table, dict)]
    return [
        name
        for name, table in tables
        if name.replace("-", "_") in PIN_NAMES and {"url", "rev"} & table.keys()
    ]


def _nixpkgs(text: str, table: Mapping[str, Any]) -> str:
    """Spell the table of nixpkgs with the keys of version 1."""
    document = tomlkit.parse(text)
    found: Any = document.get("nixpkgs")
    where = _FLAKE_URL.fullmatch(str(table.get("url", "")))
    if where is not None:
        found.remove("url")
        for key, value in zip(("owner", "repo", "ref"), where.groups(), strict=True):
            found[key] = value
    for old, new in (("narHash", "hash"), ("lastModified", "last-modified")):
        if old in table:
            found[new] = found.pop(old)
    return pinsfile.with_line_ends_of(text, tomlkit.dumps(document))


# From the version that stands at a step's place in this list to the next one.
_STEPS: tuple[Callable[[str], str], ...] = (_from_0,)
