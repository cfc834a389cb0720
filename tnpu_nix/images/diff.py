"""Two images, or two sets of pins: what differs, and what of it has to be pulled."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tnpu_nix import flake, git, pathinfo, pinsfile, render
from tnpu_nix.errors import TnpuError
from tnpu_nix.flake import derivation_name
from tnpu_nix.images import archive
from tnpu_nix.images.base import NAME as BASE
from tnpu_nix.images.contents import read_manifest
from tnpu_nix.images.inspection import BaseOf, ComponentOf, base_of, components_of, pins_of
from tnpu_nix.images.model import Image, Layer
from tnpu_nix.images.opening import open_image
from tnpu_nix.nix import Nix, is_valid
from tnpu_nix.pins import REBUILT, Toolchain
from tnpu_nix.terminal import size_text

_OVERRIDES = "nix/overrides.nix"
_MANIFEST = r"tnpu-manifest\.json"


@dataclass(frozen=True)
class Side:
    """One of the two that are compared."""

    name: str  # as the user wrote it
    pins: dict[str, str]  # pin → revision; base → reference and digest
    components: dict[str, ComponentOf]  # empty where the flake does not tell
    image: Image | None  # None: a set of pins whose image is not in the store


@dataclass(frozen=True)
class Moved:
    """A pin or a component of which the two have another."""

    name: str
    old: str | None  # a revision, a reference or a store path; None: only the other one has it
    new: str | None


@dataclass(frozen=True)
class NewLayer:
    """A layer of the second image that the first does not have."""

    diff_id: str
    size: int  # bytes, where the image lies
    compressed: bool
    holds: list[str]  # the store paths in it, as the image's history says


@dataclass(frozen=True)
class Layers:
    """What the layers of two images have in common."""

    shared: int
    new: list[NewLayer]
    size: int  # bytes of the second image where it lies
    needed: int  # bytes of the new layers
    needed_in_order: int  # bytes from the first layer on that differs
    compressed: bool  # whether these are bytes of compressed layers


@dataclass(frozen=True)
class Diff:
    """What differs between two images or sets of pins."""

    a: str
    b: str
    pins: list[Moved]
    same_pins: list[str]
    components: list[Moved]
    same_components: list[str]
    rebuilt: list[str]  # what is built anew for the pins that moved, in order
    layers: Layers | None  # None: not both images are there

    def lines(self) -> list[str]:
        """Return what differs, for people."""
        lines = [f"A  {self.a}", f"B  {self.b}", "", "pins"]
        lines += [f"  {one.name:<14} {_rev(one.old)} -> {_rev(one.new)}" for one in self.pins]
        lines.append(f"  the same: {', '.join(self.same_pins) or 'none'}")
        if self.rebuilt:
            lines.append(f"  rebuilds: {', '.join(self.rebuilt)}")
        if self.components or self.same_components:
            lines += ["", "components"]
            for one in self.components:
                lines.append(f"  {one.name:<14} {_path(one.old)} -> {_path(one.new)}")
            lines.append(f"  the same: {', '.join(self.same_components) or 'none'}")
        return [*lines, "", *self._layer_lines()]

    def _layer_lines(self) -> list[str]:
        if self.layers is None:
            return ["layers are not compared: both images must be there (`tnpu-nix build`)"]
        found = self.layers
        lines = [f"layers: {found.shared} of {found.shared + len(found.new)} are shared"]
        for one in found.new:
            held = ", ".join(derivation_name(path) for path in one.holds[:3])
            more = f" and {len(one.holds) - 3} more" if len(one.holds) > 3 else ""
            what = f"{held}{more}" or "files outside the store"
            lines.append(f"  new {one.diff_id[7:19]} {size_text(one.size):>9}  {what}")
        kind = "compressed" if found.compressed else "uncompressed"
        needed, size = size_text(found.needed), size_text(found.size)
        lines.append(f"who has A needs {needed} of {size} for B ({kind}, {found.needed} bytes)")
        if found.needed_in_order != found.needed:
            # As in moby's distribution/xfer: a layer is known by all that lie below it.
            lines.append(
                f"  with Docker's own store, which shares layers only up to the first that"
                f" differs, {size_text(found.needed_in_order)}"
            )
        return lines


def _rev(rev: str | None) -> str:
    """Return a revision, or a reference with a digest, with 12 digits of it."""
    return re.sub(r"([0-9a-f]{12})[0-9a-f]{28,}$", r"\1", rev) if rev else "none"


def _path(path: str | None) -> str:
    return derivation_name(path) if path else "none"


Say = Callable[[str], None]


def side(text: str, root: Callable[[], Path], nix: Nix, plain_http: bool, say: Say) -> Side:
    """Return one side of a comparison, from what a user writes.

    An image as `opening.open_image` takes it; ``pins:PATH``, a pins.toml; or ``git:REV``, the
    pins.toml in that git revision.

    Args:
        root: finds the project; called for ``git:`` and for ``pins:`` alone.

    Raises:
        TnpuError: there is no such image or revision, or it cannot be read.
    """
    scheme, _, rest = text.partition(":")
    if scheme == "pins":
        path = Path(rest)
        path = path / pinsfile.FILE_NAME if path.is_dir() else path
        return _of_pins(text, pinsfile.load(path), path.parent, nix, say)
    if scheme == "git":
        project = root()
        found = git.file_at(project, rest, pinsfile.FILE_NAME)
        return _of_pins(text, pinsfile.parse(found), project, nix, say)
    image = open_image(text, plain_http)
    manifest = read_manifest(image)
    pins = {pin.name: pin.rev for pin in pins_of(manifest)} or _labelled(image)
    return Side(text, pins | _laid_upon(base_of(image)), components_of(manifest), image)


def _laid_upon(base: BaseOf | None) -> dict[str, str]:
    return {BASE: str(base)} if base is not None else {}


def _labelled(image: Image) -> dict[str, str]:
    found = {}
    for label, value in image.labels.items():
        if match := re.fullmatch(r"tnpu\.pin\.(.+)\.revision", label):
            found[match.group(1)] = value
    return found


def _of_pins(name: str, toolchain: Toolchain, root: Path, nix: Nix, say: Say) -> Side:
    """Return a set of pins, with the image of it if that is in the store."""
    base = toolchain.image.base
    laid = BaseOf(f"{base.image}:{base.tag}", base.digest) if base is not None else None
    pins = {pin: one.rev for pin, one in toolchain.pins.items()} | _laid_upon(laid)
    try:
        components, path = _evaluated(toolchain, root, nix)
    except TnpuError as error:
        say(f"{name} was not evaluated, so its image is not looked for: {error.what}")
        return Side(name, pins, {}, None)
    if not is_valid(nix, path):
        say(f"the image of {name} is not in the store: {path}")
        return Side(name, pins, components, None)
    return Side(name, pins, components, archive.read(nix.on_disk(path)))


def _evaluated(toolchain: Toolchain, root: Path, nix: Nix) -> tuple[dict[str, ComponentOf], str]:
    """Return the components and the image's store path of pins that are nobody's project."""
    with git.temporary_folder() as folder:
        for path, text in render.render(toolchain).items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text)
        if (root / _OVERRIDES).is_file():
            shutil.copy(root / _OVERRIDES, folder / _OVERRIDES)
        output = flake.outputs(folder, nix)["tnpu-image"]
    found = pathinfo.derivations(nix, output.derivation, _MANIFEST)
    head: dict[str, Any] = {}
    for environment in found.values():
        head = json.loads(environment.get("head", "{}"))
    return components_of(head), output.paths["out"]


def diff(a: Side, b: Side) -> Diff:
    """Return what differs between two sides."""
    old = {name: one.path for name, one in a.components.items()}
    new = {name: one.path for name, one in b.components.items()}
    pins, same_pins = _moved(a.pins, b.pins)
    components, same = _moved(old, new) if old and new else ([], [])
    rebuilt = dict.fromkeys(part for one in pins for part in REBUILT.get(one.name, ()))
    layers = _layers(a.image, b.image) if a.image and b.image else None
    return Diff(a.name, b.name, pins, same_pins, components, same, list(rebuilt), layers)


def _moved(old: dict[str, str], new: dict[str, str]) -> tuple[list[Moved], list[str]]:
    names = list(dict.fromkeys([*old, *new]))
    moved = [
        Moved(name, old.get(name), new.get(name))
        for name in names
        if old.get(name) != new.get(name)
    ]
    return moved, [name for name in names if old.get(name) == new.get(name)]


def _layers(a: Image, b: Image) -> Layers:
    have = {layer.diff_id for layer in a.layers}
    held = _history(b)
    # A layer that occurs twice is one layer to a registry and to who pulls it.
    mine: dict[str, Layer] = {layer.diff_id: layer for layer in b.layers}
    new = [layer for layer in mine.values() if layer.diff_id not in have]
    below = 0
    for layer, other in zip(b.layers, a.layers, strict=False):
        if layer.diff_id != other.diff_id:
            break
        below += 1
    above = {layer.diff_id: layer.size for layer in b.layers[below:]}
    return Layers(
        shared=len(mine) - len(new),
        new=[
            NewLayer(one.diff_id, one.size, one.compressed, held.get(one.diff_id, []))
            for one in new
        ],
        size=sum(layer.size for layer in mine.values()),
        needed=sum(layer.size for layer in new),
        needed_in_order=sum(above.values()),
        compressed=any(layer.compressed for layer in b.layers),
    )


def _history(image: Image) -> dict[str, list[str]]:
    """Return diff id → the store paths that the image's history says are in that layer."""
    entries = [one for one in image.config.get("history") or [] if isinstance(one, dict)]
    comments = [str(one.get("comment", "")) for one in entries if not one.get("empty_layer")]
    paths = [re.findall(r"/nix/store/[0-9a-z]{32}-[0-9a-zA-Z+._?=-]+", one) for one in comments]
    if len(paths) != len(image.layers):
        return {}
    return {layer.diff_id: found for layer, found in zip(image.layers, paths, strict=True)}
