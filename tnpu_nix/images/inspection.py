"""What an image is, for people and for programs: pins, components, store paths, layers."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from tnpu_nix.flake import derivation_name
from tnpu_nix.images.contents import Contents
from tnpu_nix.images.model import Image
from tnpu_nix.storepath import root_of
from tnpu_nix.terminal import size_text

# Of the OCI image specification's pre-defined annotations.
_BASE = "org.opencontainers.image.base"
_HASH = re.compile(r"[0-9a-z]{32}-")


@dataclass(frozen=True)
class PinOf:
    """A pin as the image's manifest has it."""

    name: str
    url: str
    rev: str
    hash: str  # SRI, of the source
    date: str  # of the commit, ISO 8601


@dataclass(frozen=True)
class BaseOf:
    """The image that an image is laid upon, as its labels have it."""

    reference: str  # host/name:tag
    digest: str  # of its manifest

    def __str__(self) -> str:
        return f"{self.reference}@{self.digest}" if self.digest else self.reference


@dataclass(frozen=True)
class Part:
    """A store path of the image."""

    path: str
    name: str  # without hash and version
    version: str  # "" where the name carries none
    component: str | None  # llvm-tools, triton, …; None for what they need
    pins: list[str]  # the pins it was built from, the most telling first
    nar_hash: str  # SRI, of what is in the image
    nar_size: int  # bytes


@dataclass(frozen=True)
class LayerOf:
    """A layer of the image."""

    diff_id: str
    blob: str  # its name where the image lies
    size: int  # bytes there
    compressed: bool
    tar_size: int  # bytes uncompressed
    holds: list[str]  # the store paths in it; empty for files outside the store


@dataclass(frozen=True)
class Inspected:
    """What an image is."""

    image: str
    tag: str
    digest: str | None
    created: str
    pins: list[PinOf]
    parts: list[Part]  # components first
    layers: list[LayerOf]
    files: int  # outside and inside the store
    settings: dict[str, Any]  # what a container starts with
    base: BaseOf | None = None

    def lines(self) -> list[str]:
        """Return a screenful for people."""
        head = {"image": self.image, "tag": self.tag, "digest": self.digest or ""}
        head["base"] = str(self.base) if self.base else ""
        tars = sum(layer.tar_size for layer in self.layers)
        head["size"] = f"{size_text(tars)} in {len(self.layers)} layers, {self.files} files"
        lines = [f"{key:<10} {value}" for key, value in head.items() if value]
        lines += ["", "pins"]
        lines += [f"  {pin.name:<14} {pin.rev:.12} {pin.date:.10} {pin.url}" for pin in self.pins]
        lines += ["", "components"]
        for part in self.parts:
            if part.component is not None:
                built = ", ".join(part.pins)
                size = size_text(part.nar_size)
                lines.append(f"  {part.component:<14} {part.version:<26} {size:>9}  from {built}")
        others = [part for part in self.parts if part.component is None]
        total = size_text(sum(part.nar_size for part in others))
        names = ", ".join(part.name for part in others)
        lines.append(f"  {len(others)} others, {total}: {names}")
        return [*lines, "", "layers", *self._layer_lines()]

    def _layer_lines(self) -> list[str]:
        lines = []
        for number, layer in enumerate(self.layers, 1):
            held = ", ".join(derivation_name(path) for path in layer.holds[:3])
            more = f" and {len(layer.holds) - 3} more" if len(layer.holds) > 3 else ""
            size = size_text(layer.tar_size)
            there = f" ({size_text(layer.size)} compressed)" if layer.compressed else ""
            what = f"{held}{more}" if held else "files outside the store"
            lines.append(f"  {number:>3} {layer.diff_id[7:19]} {size:>9}{there}  {what}")
        return lines


def inspect(contents: Contents) -> Inspected:
    """Return what an image is, from all that it holds and from its own manifest."""
    image, manifest = contents.image, contents.manifest
    layers = []
    for said, found in zip(image.layers, contents.layers, strict=True):
        holds = sorted({f"/{root}" for path in found.entries if (root := root_of(path))})
        layers.append(
            LayerOf(said.diff_id, said.member, said.size, said.compressed, found.size, holds)
        )
    return Inspected(
        image=image.where,
        tag=image.tag,
        digest=image.digest,
        created=str(image.config.get("created", "")),
        pins=pins_of(manifest),
        parts=_parts(contents, components_of(manifest)),
        layers=layers,
        files=len(contents.entries),
        settings=image.settings,
        base=base_of(image),
    )


def pins_of(manifest: dict[str, Any]) -> list[PinOf]:
    """Return the pins that a manifest.json names; what cannot be read is left out."""
    pins = manifest.get("pins")
    found = []
    for name, pin in pins.items() if isinstance(pins, dict) else ():
        if isinstance(pin, dict):
            texts = [str(pin.get(key, "")) for key in ("url", "rev", "hash", "date")]
            found.append(PinOf(str(name), *texts))
    return found


def base_of(image: Image) -> BaseOf | None:
    """Return what an image's labels say of the image it is laid upon; None if nothing."""
    name, digest = (image.labels.get(f"{_BASE}.{key}") for key in ("name", "digest"))
    return BaseOf(str(name or ""), str(digest or "")) if name or digest else None


@dataclass(frozen=True)
class ComponentOf:
    """A component as a manifest.json names it."""

    path: str  # store path
    pins: list[str]


def components_of(manifest: dict[str, Any]) -> dict[str, ComponentOf]:
    """Return component → where it is and what it was built from, as a manifest.json says."""
    components = manifest.get("components")
    found = {}
    for name, one in components.items() if isinstance(components, dict) else ():
        if isinstance(one, dict) and isinstance(one.get("path"), str):
            pins = one.get("pins")
            names = [str(pin) for pin in pins] if isinstance(pins, list) else []
            found[str(name)] = ComponentOf(one["path"], names)
    return found


def _parts(contents: Contents, components: dict[str, ComponentOf]) -> list[Part]:
    named = {one.path: (name, one.pins) for name, one in components.items()}
    parts = []
    for path in contents.store_paths():
        component, pins = named.get(path, (None, []))
        nar = contents.nars.get(path)
        name, version = split_name(derivation_name(path))
        hash_, size = (nar.hash, nar.size) if nar else ("", 0)
        parts.append(Part(path, name, version, component, pins, hash_, size))
    return sorted(parts, key=lambda part: (part.component is None, part.component or part.name))


def split_name(name: str) -> tuple[str, str]:
    """Split a derivation's name into name and version, as Nix does it.

    The version begins after the first dash that no letter follows (Nix manual,
    builtins.parseDrvName).
    """
    match = re.match(r"(.*?)-([^A-Za-z].*)$", name)
    return (match.group(1), match.group(2)) if match else (name, "")
