"""The last evaluation of a project's flake, kept for as long as nothing that it is made of changes.

nix keeps evaluations too, but of no flake in a plain folder.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import asdict
from pathlib import Path

from tnpu_nix import fingerprint, flake, ondisk
from tnpu_nix.flake import Output
from tnpu_nix.nix import Nix
from tnpu_nix.place import STATE_FOLDER, keep_note

_FILE = "evaluated.json"


def outputs(
    root: Path, names: Iterable[str], nix: Nix, check: Callable[[], None]
) -> dict[str, Output]:
    """Return the outputs *names* of the project's flake, evaluated if they have to be.

    Args:
        check: called while nix evaluates, to raise if the project is not fit for a build. It is
            not called again before one of the project's files, or tnpu-nix itself, changes.

    Raises:
        TnpuError: the flake does not evaluate, or what *check* raises.
    """
    wanted = list(names)
    key = fingerprint.of(str(root), wanted, nix.store, nix.offline_profile)
    kept = _kept(root, key, nix)
    if kept is not None:
        return kept
    with flake.copied(root) as copy:
        found = flake.evaluate(copy, nix, wanted, check)
    _keep(root, key, found)
    return found


def _kept(root: Path, key: str, nix: Nix) -> dict[str, Output] | None:
    """Return what is kept under that key, unless the store has lost one of the derivations."""
    try:
        kept = json.loads((root / STATE_FOLDER / _FILE).read_text())
        found = {one["name"]: Output(**one) for one in kept["outputs"] if kept["key"] == key}
    except (OSError, ValueError, KeyError, TypeError):
        return None
    whole = all(ondisk.is_on_disk(nix, one.derivation) for one in found.values())
    return found if found and whole else None


def _keep(root: Path, key: str, found: dict[str, Output]) -> None:
    """Note the outputs. A plan is not failed by a note that cannot be made."""
    kept = {"key": key, "outputs": [asdict(one) for one in found.values()]}
    keep_note(root, _FILE, json.dumps(kept, indent=1))
