"""The pins' sources in the store: where they are, whether they are as pinned, what they ask for."""

from __future__ import annotations

import ast
import contextlib
import glob
import re
import shutil
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tnpu_nix.errors import TnpuError
from tnpu_nix.nix import Nix, held, is_valid
from tnpu_nix.pins import Pin, Toolchain, Triton
from tnpu_nix.prefetch import prefetch
from tnpu_nix.repository import checkout_name
from tnpu_nix.storepath import fixed_output_path

# What the templates can give triton's build beside setuptools, wheel, cmake and ninja.
_BINDINGS = ("pybind11", "nanobind")


def at_hand(toolchain: Toolchain, name: str, nix: Nix) -> Path | None:
    """Return where the source of a pin lies, None if the store does not hold it."""
    path = _store_path(toolchain.pins.named(name))
    return nix.on_disk(path) if is_valid(nix, path) else None


def _store_path(pin: Pin) -> str:
    return fixed_output_path(pin.hash, checkout_name(pin.url, pin.rev))


def check_hashes(toolchain: Toolchain, nix: Nix) -> None:
    """Raise if a pin has the hash of another revision, as far as the store knows without network.

    The classic fault: a rev edited by hand with the old hash left in place. Nix would take the old
    source for the new one.

    Raises:
        TnpuError: names the first such pin.
    """
    store = nix.on_disk("/nix/store")
    if not store.is_dir() or shutil.which("nix-store") is None:
        return
    there = held(nix, (_store_path(pin) for _, pin in toolchain.pins.items()))
    for name, pin in toolchain.pins.items():
        if _store_path(pin) in there:
            continue
        own = checkout_name(pin.url, pin.rev)
        repo = own.rsplit("-", 1)[0]
        for found in store.glob(f"*-{glob.escape(repo)}-???????"):
            other = found.name.split("-", 1)[1]
            # Its own source may lie there too, where Nix goes by the books of another store.
            if other != own and fixed_output_path(pin.hash, other) == f"/nix/store/{found.name}":
                raise TnpuError(
                    f"pins.{name}.hash in pins.toml belongs to revision {other[-7:]}, not to"
                    f" {pin.rev[:12]}",
                    f"`tnpu-nix bump {name} {pin.rev}` writes the hash of that revision",
                )


def fetch(toolchain: Toolchain, name: str, nix: Nix, say: Callable[[str], None]) -> Path:
    """Put the source of a pin into the store, and return where it lies.

    Raises:
        TnpuError: it is not to be had, or its hash is not the one in pins.toml.
    """
    pin = toolchain.pins.named(name)
    say(f"fetching {name} at {pin.rev}")
    source = prefetch(nix, pin, pin.rev)
    if source.hash != pin.hash:
        raise TnpuError(
            f"pins.{name}.hash in pins.toml is {pin.hash}, but {pin.rev[:12]} of {pin.url}"
            f" has {source.hash}",
            f"`tnpu-nix bump {name} {pin.rev}` writes the hash that belongs to the revision",
        )
    return nix.on_disk(source.path)


def text_of(source: Path, name: str) -> str | None:
    """Return the text of a source's file, None if it has none of that name.

    A link that leads out of the source leads to this machine's own files, which say nothing of it.

    Raises:
        OSError: it cannot be read.
        UnicodeDecodeError: it is not UTF-8.
    """
    path = (source / name).resolve()
    if not path.is_relative_to(source.resolve()) or not path.is_file():
        return None
    return path.read_text(encoding="utf-8")


def triton_options(source: Path) -> dict[str, Any]:
    """Return what triton's source wants of its build: keys of the table ``[triton]``.

    `build-system.requires` in pyproject.toml names the binding generator: pybind11, later
    nanobind. setup.py demands JSON_SYSPATH even without Proton where it asks for the json package
    outside the function that serves Proton.
    """
    options: dict[str, Any] = {}
    # A source without these files is built as pins.toml says.
    with contextlib.suppress(OSError, LookupError, ValueError, TypeError):
        build = tomllib.loads(text_of(source, "pyproject.toml") or "")["build-system"]
        names = {re.split(r"[^A-Za-z0-9_-]", one, maxsplit=1)[0] for one in build["requires"]}
        bindings = [name for name in _BINDINGS if name in names]
        if bindings:
            options["build-requires"] = bindings
    with contextlib.suppress(OSError, SyntaxError, ValueError, RecursionError):
        if (setup := text_of(source, "setup.py")) is not None:
            options["nlohmann-json"] = _wants_json(ast.parse(setup))
    return options


def unmet_options(options: Triton, source: Path) -> dict[str, Any]:
    """Return those of `triton_options` that pins.toml has otherwise."""
    has = options.model_dump(by_alias=True)
    return {key: value for key, value in triton_options(source).items() if has[key] != value}


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
