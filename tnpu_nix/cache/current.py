"""What the current pins' outputs are called in the store, remembered from one command to the next.

The answer costs an evaluation of the flake: seconds on nixpkgs. It is a pure function of the files
that the flake consists of, so it is kept under their checksum.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from tnpu_nix import fingerprint, place
from tnpu_nix.errors import TnpuError
from tnpu_nix.nix import Nix

# What someone who uses the toolchain needs, and what someone who moves a pin does.
RUN_TIME = ("llvm-tools", "triton", "python-env", "spike", "pk", "tnpu-image")
BUILD_TIME = ("llvm", "mlir", "lld", "llvm-toolchain")
# Made only by those who ask for them: the cache has them if it was given them.
OPTIONAL = ("tnpu-image-stream", "tnpu-nix")
_ALIAS = "default"
KEEP = 3  # sets of pins, where no pins.toml says how many

_FILE = "outputs.json"


@dataclass(frozen=True)
class Current:
    """The outputs of the current pins, and where pins.toml says that they can be had."""

    outputs: dict[str, list[str]]  # name of a flake output → its store paths, built or not
    sources: dict[str, str]  # pin, or nixpkgs → store path of its source
    pins: dict[str, str]  # pin → revision
    substituters: list[str]
    public_keys: list[str]
    push: str | None
    keep: int

    def select(self, names: Iterable[str]) -> dict[str, list[str]]:
        """Return some of the outputs, those that the flake has, in the order of *names*."""
        return {name: self.outputs[name] for name in names if name in self.outputs}

    @property
    def digest(self) -> str:
        """What tells one set of outputs from another: 32 hexadecimal digits."""
        return digest_of(self.outputs)


def digest_of(outputs: Mapping[str, list[str]]) -> str:
    """Return the name of a set of outputs, which depends on their store paths alone."""
    # The front end is no part of the toolchain: an edit of its README makes no new set.
    text = json.dumps(sorted(item for item in outputs.items() if item[0] != "tnpu-nix"))
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def paths_of(outputs: Mapping[str, list[str]]) -> list[str]:
    """Return the store paths of outputs, each once."""
    return list(dict.fromkeys(path for paths in outputs.values() for path in paths))


def current(root: Path, nix: Nix) -> Current:
    """Return what the project's pins stand for, evaluating the flake only if it has changed.

    Raises:
        TnpuError: pins.toml has faults, a generated file is not as it says, or the flake does not
            evaluate.
    """
    key = fingerprint.of(str(root), nix.offline_profile)
    memo = root / place.STATE_FOLDER / _FILE
    with contextlib.suppress(OSError, ValueError, TypeError, AttributeError):
        kept = json.loads(memo.read_text())
        if kept.pop("key") == key:
            return Current(**kept)
    found = _evaluate(root, nix)
    place.keep_note(root, _FILE, json.dumps({"key": key, **asdict(found)}))
    return found


def _evaluate(root: Path, nix: Nix) -> Current:
    from tnpu_nix import build, flake, pinsfile
    from tnpu_nix.repository import checkout_name
    from tnpu_nix.storepath import fixed_output_path

    toolchain = pinsfile.load(root / place.FILE_NAME)
    build.check_generated(root, toolchain)
    found = flake.outputs(root, nix)
    pins = dict(toolchain.pins.items())
    sources = {
        name: fixed_output_path(pin.hash, checkout_name(pin.url, pin.rev))
        for name, pin in pins.items()
    }
    if not nix.offline_profile:
        # What a flake's locked input is called in the store; Nix looks for it in caches too.
        sources["nixpkgs"] = fixed_output_path(toolchain.nixpkgs.hash, "source")
    cache = toolchain.cache
    return Current(
        outputs={name: list(one.paths.values()) for name, one in found.items() if name != _ALIAS},
        sources=sources,
        pins={name: pin.rev for name, pin in pins.items()},
        substituters=list(cache.substituters),
        public_keys=list(cache.public_keys),
        push=cache.push,
        keep=cache.keep,
    )


def named(now: Current, targets: Iterable[str], usual: Iterable[str]) -> dict[str, list[str]]:
    """Return the outputs that were asked for by name, or the usual ones.

    Raises:
        TnpuError: a name is no output of the flake.
    """
    wanted = ["tnpu-image" if name == _ALIAS else name for name in targets]
    unknown = [name for name in wanted if name not in now.outputs]
    if unknown:
        outputs = ", ".join(now.outputs)
        raise TnpuError(f"no output {', '.join(unknown)}", f"outputs are {outputs}")
    return now.select(wanted or usual)
