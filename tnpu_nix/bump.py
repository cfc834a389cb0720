"""One bump as one transaction: resolve, prefetch, edit pins.toml, render, write."""

from __future__ import annotations

import ast
import contextlib
import re
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tnpu_nix import pinsfile, project, transaction
from tnpu_nix.errors import TnpuError
from tnpu_nix.nix import Nix
from tnpu_nix.nix import version as nix_version
from tnpu_nix.pins import PIN_NAMES, Pin, Toolchain
from tnpu_nix.prefetch import prefetch
from tnpu_nix.resolve import resolve

# What the templates can give triton's build beside setuptools, wheel, cmake and ninja.
_BINDINGS = ("pybind11", "nanobind")


@dataclass(frozen=True)
class Request:
    """A pin that is to move, and where to."""

    name: str
    what: str | None = None  # a revision, branch or tag; None: the head of the branch it tracks


@dataclass(frozen=True)
class Move:
    """One pin before and after."""

    name: str
    old: Pin
    new: Pin
    ref: str | None  # the branch or tag that was followed
    options: dict[str, Any]  # build options that the new source asks for: key → value

    def lines(self) -> list[str]:
        """Return what changed, for people."""
        if self.old == self.new and not self.options:
            return [f"{self.name} is at {self.new.rev} already"]
        followed = f" ({self.ref})" if self.ref else ""
        changed = [
            f"{self.name}: {self.new.url}",
            f"  rev   {self.old.rev} -> {self.new.rev}{followed}",
            f"  date  {self.old.date} -> {self.new.date}",
            f"  hash  {self.old.hash} -> {self.new.hash}",
        ]
        return [*changed, *(f"  {key} = {value}" for key, value in self.options.items())]


@dataclass(frozen=True)
class Bumped:
    """What a bump did, or would do."""

    moves: list[Move]
    files: list[str]  # that differ, below the project; empty if all was so already
    written: bool  # False: only looked at

    def lines(self) -> list[str]:
        """Return what changed, for people."""
        lines = [line for move in self.moves for line in move.lines()]
        if not self.files:
            return [*lines, "nothing was written"]
        return [*lines, f"{'wrote' if self.written else 'would write'} {', '.join(self.files)}"]


Say = Callable[[str], None]


def bump(
    root: Path, requests: Sequence[Request], nix: Nix, say: Say, *, dry_run: bool = False
) -> Bumped:
    """Move pins, all or none, and regenerate.

    Args:
        root: the folder that holds pins.toml.
        say: takes a line about what is going on.
        dry_run: resolve and prefetch, and write nothing.

    Raises:
        TnpuError: at any step; every file is then as it was.
    """
    _check(requests)
    nix_version()  # the prefetch would fail without nix only after the whole download
    with transaction.locked(root, say):
        text = pinsfile.read_text(root / pinsfile.FILE_NAME)
        toolchain = pinsfile.parse(text)
        # Before the long part: what would stop the write at the end.
        project.refuse_edited(project.differences(root, toolchain), force=False)
        moves = [_move(toolchain, request, nix, say) for request in requests]
        new_text = text
        for move in moves:
            new_text = pinsfile.edit(new_text, _changes(move))
        found = project.differences(root, pinsfile.parse(new_text))
        changed = new_text != text
        if not dry_run:
            project.write(root, found, new_text if changed else None)
    files = ([pinsfile.FILE_NAME] if changed else []) + [one.path for one in found]
    return Bumped(moves, files, written=not dry_run)


def _check(requests: Sequence[Request]) -> None:
    names = [request.name for request in requests]
    for name in names:
        if name not in PIN_NAMES:
            raise TnpuError(f"there is no pin {name!r}", f"pins are {', '.join(PIN_NAMES)}")
        if names.count(name) > 1:
            raise TnpuError(f"the pin {name} is named twice", "name each pin once")


def _move(toolchain: Toolchain, request: Request, nix: Nix, say: Say) -> Move:
    """Find out where a pin moves to, and put that source into the store."""
    name, old = request.name, dict(toolchain.pins.items())[request.name]
    what = request.what if request.what is not None else f"refs/heads/{old.track}"
    say(f"asking {old.url} for {what}")
    resolved = resolve(old.url, what)
    say(f"fetching {name} at {resolved.rev}")
    source = prefetch(nix, old.url, resolved.rev, submodules=old.submodules, lfs=old.lfs)
    new = old.model_copy(update={"rev": source.rev, "hash": source.hash, "date": source.date})
    wanted = triton_options(nix.on_disk(source.path)) if name == "triton" else {}
    options = {
        key: value
        for key, value in wanted.items()
        if getattr(toolchain.triton, key.replace("-", "_")) != value
    }
    return Move(name, old, new, resolved.ref, options)


def _changes(move: Move) -> dict[tuple[str, ...], Any]:
    """Return the keys of pins.toml that a move writes, with their values."""
    pin = {("pins", move.name, key): getattr(move.new, key) for key in ("rev", "hash", "date")}
    return pin | {("triton", key): value for key, value in move.options.items()}


def triton_options(source: Path) -> dict[str, Any]:
    """Return what triton's source wants of its build: keys of the table ``[triton]``.

    `build-system.requires` in pyproject.toml names the binding generator: pybind11, later
    nanobind. setup.py demands JSON_SYSPATH even without Proton where it asks for the json package
    outside the function that serves Proton.
    """
    options: dict[str, Any] = {}
    # A source without these files is built as pins.toml says.
    with contextlib.suppress(OSError, KeyError, tomllib.TOMLDecodeError):
        build = tomllib.loads((source / "pyproject.toml").read_text())["build-system"]
        names = {re.split(r"[^A-Za-z0-9_-]", one, maxsplit=1)[0] for one in build["requires"]}
        bindings = [name for name in _BINDINGS if name in names]
        if bindings:
            options["build-requires"] = bindings
    with contextlib.suppress(OSError, SyntaxError):
        options["nlohmann-json"] = _wants_json(ast.parse((source / "setup.py").read_text()))
    return options


def _wants_json(setup: ast.Module) -> bool:
    functions = [
        node
        for node in ast.walk(setup)
        if isinstance(node, ast.FunctionDef) and "proton" not in node.name
    ]
    return any(
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "get_json_package_info"
        for function in functions
        for node in ast.walk(function)
    )
