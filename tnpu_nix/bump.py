"""One bump as one transaction: resolve, prefetch, edit pins.toml, render, write."""

from __future__ import annotations

import ast
import contextlib
import re
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tnpu_nix import git, pinsfile, project, transaction
from tnpu_nix.errors import TnpuError
from tnpu_nix.nix import Nix
from tnpu_nix.nix import version as nix_version
from tnpu_nix.pins import PIN_NAMES, Pin
from tnpu_nix.prefetch import Prefetched, prefetch

# What the templates can give triton's build beside setuptools, wheel, cmake and ninja.
_BINDINGS = ("pybind11", "nanobind")


@dataclass(frozen=True)
class Bumped:
    """What a bump did."""

    name: str
    old: Pin
    new: Pin
    ref: str | None  # the branch or tag that was followed
    options: dict[str, Any]  # build options that the new source asks for: key → value
    files: list[str]  # written, below the project; empty if all was so already

    def lines(self) -> list[str]:
        """Return what changed, for people."""
        if not self.files:
            return [f"{self.name} is at {self.new.rev} already; nothing was written"]
        followed = f" ({self.ref})" if self.ref else ""
        changed = [
            f"{self.name}: {self.new.url}",
            f"  rev   {self.old.rev} -> {self.new.rev}{followed}",
            f"  date  {self.old.date} -> {self.new.date}",
            f"  hash  {self.old.hash} -> {self.new.hash}",
        ]
        changed += [f"  {key} = {value}" for key, value in self.options.items()]
        return [*changed, f"  wrote {', '.join(self.files)}"]


def bump(root: Path, name: str, what: str, nix: Nix, say: Callable[[str], None]) -> Bumped:
    """Move the pin *name* to the commit that *what* names, and regenerate.

    Args:
        root: the folder that holds pins.toml.
        what: a full revision, a branch or a tag.
        say: takes a line about what is going on.

    Raises:
        TnpuError: at any step; every file is then as it was.
    """
    if name not in PIN_NAMES:
        raise TnpuError(f"there is no pin {name!r}", f"pins are {', '.join(PIN_NAMES)}")
    nix_version()  # the prefetch would fail without nix only after the whole download
    with transaction.locked(root, say):
        text = pinsfile.read_text(root / pinsfile.FILE_NAME)
        toolchain = pinsfile.parse(text)
        # Before the long part: what would stop the write at the end.
        project.refuse_edited(project.differences(root, toolchain), force=False)
        old = dict(toolchain.pins.items())[name]
        say(f"asking {old.url} for {what}")
        resolved = git.resolve(old.url, what)
        say(f"fetching {name} at {resolved.rev}")
        source = prefetch(nix, old.url, resolved.rev, submodules=old.submodules, lfs=old.lfs)
        wanted = triton_options(nix.on_disk(source.path)) if name == "triton" else {}
        options = {
            key: value
            for key, value in wanted.items()
            if getattr(toolchain.triton, key.replace("-", "_")) != value
        }
        new_text = pinsfile.edit(text, _changes(name, source, options))
        updated = pinsfile.parse(new_text)
        found = project.differences(root, updated)
        changed = new_text != text
        project.write(root, found, new_text if changed else None)
    return Bumped(
        name=name,
        old=old,
        new=dict(updated.pins.items())[name],
        ref=resolved.ref,
        options=options,
        files=([pinsfile.FILE_NAME] if changed else []) + [one.path for one in found],
    )


def _changes(
    name: str, source: Prefetched, options: dict[str, Any]
) -> dict[tuple[str, ...], str | list[str] | bool]:
    pin = {key: getattr(source, key) for key in ("rev", "hash", "date")}
    return {
        **{("pins", name, key): value for key, value in pin.items()},
        **{("triton", key): value for key, value in options.items()},
    }


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
