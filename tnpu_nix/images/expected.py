"""What the pins say that an image holds: from the evaluated flake, the store and the caches.

Nothing that the image says of itself is believed. The chain is: pins.toml, the flake generated from
it, the store paths that it evaluates to, and what the store or a signed cache has at these paths.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tnpu_nix import flake, pathinfo
from tnpu_nix.errors import TnpuError
from tnpu_nix.images import archive, streamed
from tnpu_nix.images.model import Image
from tnpu_nix.images.witnesses import Known, Vouched, Witnesses
from tnpu_nix.nix import Nix, is_valid
from tnpu_nix.pins import Toolchain
from tnpu_nix.storepath import content_addressed_path, digest_of

_ROOT = "tnpu-image-root"
# The configuration of a container, as nixpkgs and hostpkgs hand it to what writes the image.
_CONFIGURATION = r"(?:.*-base|.*-config)\.json"


@dataclass(frozen=True)
class Expected:
    """What an image of the pins holds, as far as store and caches know."""

    toolchain: Toolchain
    nix: Nix
    image_path: str  # store path of tnpu-image
    built: Image | None  # that image, where the store or a cache has it
    settings: dict[str, Any] | None  # Env, Cmd, Labels, …; None where the flake does not tell
    closure: frozenset[str] | None  # store paths that an image holds; None where nobody knows
    vouched: dict[str, Vouched] = field(default_factory=dict)
    tag: str = ""  # name:tag, as dockerTools names the image of the pins
    base: Image | None = None  # that it is laid upon; looked for where the image is not built

    @property
    def base_layers(self) -> int:
        """How many layers of the image are its base's; 0 if it has none."""
        base = self.toolchain.image.base
        return base.layers if base is not None else 0

    def labels(self) -> dict[str, str]:
        """Return the labels that name the pins."""
        found = {}
        for name, pin in self.toolchain.pins.items():
            found[f"tnpu.pin.{name}.url"] = pin.url
            found[f"tnpu.pin.{name}.revision"] = pin.rev
        return found

    def manifest_pins(self) -> dict[str, dict[str, str]]:
        """Return the pins as /etc/tnpu/manifest.json has them."""
        return {
            name: {"url": pin.url, "rev": pin.rev, "hash": pin.hash, "date": pin.date}
            for name, pin in self.toolchain.pins.items()
        }


Say = Callable[[str], None]


def of_pins(
    root: Path, toolchain: Toolchain, nix: Nix, caches: Witnesses, present: set[str], say: Say
) -> Expected:
    """Find out what an image of the project's pins holds.

    Args:
        root: the project; its generated files are as pins.toml says.
        caches: are asked for what the store does not have.
        present: the store paths of the image that is looked at; their hashes are asked for.

    Raises:
        TnpuError: the flake does not evaluate.
    """
    say("evaluating the flake")
    outputs = flake.outputs(root, nix)
    output = outputs["tnpu-image"]
    image_path = output.paths["out"]
    program = outputs["tnpu-image-stream"].paths["out"]
    built = (
        _stored(nix, image_path)
        or _streamed(nix, program, say)
        or (_stored(nix, image_path) if caches.fetch(image_path) else None)
    )
    known = pathinfo.derivations(nix, output.derivation, f"{_ROOT}|{_CONFIGURATION}")
    configured = next((found for one in known.values() if (found := _settings(one))), None)
    top = str(known.get(_ROOT, {}).get("out", ""))
    vouched = (_in_store(nix, [top], recursive=True) or caches.closure(top)) if top else {}
    closure = frozenset(vouched) if vouched else None
    vouched |= _in_store(nix, sorted(present - vouched.keys()))
    vouched |= caches.infos(present - vouched.keys())
    base = _base(toolchain, nix, say) if built is None else None
    tag = built.tag if built is not None else _tag(root, toolchain, nix)
    return Expected(toolchain, nix, image_path, built, configured, closure, vouched, tag, base)


def _tag(root: Path, toolchain: Toolchain, nix: Nix) -> str:
    return f"{toolchain.image.name}:{flake.image_tag(root, nix)}"


def _base(toolchain: Toolchain, nix: Nix, say: Say) -> Image | None:
    """Return the image that the pins lay ours upon, if the store has it as it was pinned."""
    base = toolchain.image.base
    if base is None:
        return None
    _, digest = digest_of(base.hash)
    path = content_addressed_path(f"fixed:sha256:{digest.hex()}", base.archive_name, [], False)
    if not is_valid(nix, path):
        return None
    if not pathinfo.is_intact(nix, path):
        say(f"the store's own {path} is damaged: the base is not known")
        return None
    try:
        return archive.read(nix.on_disk(path))
    except TnpuError as error:
        say(f"the base is not known: {error.what}")
        return None


def _stored(nix: Nix, path: str) -> Image | None:
    """Return the image that was built from the pins, if the store has it."""
    if not is_valid(nix, path):
        return None
    if not pathinfo.is_intact(nix, path):
        raise TnpuError(
            f"the store's own {path} is damaged: its content has not the hash it was built with",
            f"`nix-store --repair-path {path}`, or delete it and build it again",
        )
    return archive.read(nix.on_disk(path))


def _streamed(nix: Nix, path: str, say: Say) -> Image | None:
    """Return the image as the program makes it that `image push` built for the same pins."""
    if not is_valid(nix, path):
        return None
    closure = pathinfo.path_infos(nix, [path], recursive=True)
    if not pathinfo.is_intact(nix, *closure):
        say(f"the store lacks something of {path}, or it was altered: that image is not made")
        return None
    return streamed.read(nix.on_disk(path), nix)


def _settings(environment: dict[str, Any]) -> dict[str, Any] | None:
    """Return the container's configuration from a derivation that writes it as JSON."""
    try:
        found = json.loads(environment.get("text", ""))["config"]
    except (ValueError, KeyError, TypeError):
        return None
    return found if isinstance(found, dict) else None


def _in_store(nix: Nix, paths: Sequence[str], recursive: bool = False) -> Known:
    infos = pathinfo.path_infos(nix, paths, recursive=recursive)
    return {path: Vouched(one.nar_hash, "the store") for path, one in infos.items()}
