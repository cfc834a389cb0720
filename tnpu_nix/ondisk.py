"""What really lies in the store's folder: Nix goes by its books, and looks at the disk late.

A store path that something else than Nix has deleted is valid to Nix all the same: it builds
nothing, fetches nothing, and hands out the name of what is not there.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from tnpu_nix import process
from tnpu_nix.nix import Nix, failure

# Values of Nix's setting "store" whose paths lie in /nix/store of this machine.
_HERE = ("", "auto", "daemon", "local")


def own_folder(nix: Nix) -> Path | None:
    """Return the folder of a store of its own, chosen by our option or by the user's variable."""
    theirs = os.environ.get("NIX_REMOTE", "")
    return nix.store or (Path(theirs) if theirs.startswith("/") else None)


def is_on_disk(nix: Nix, path: str) -> bool:
    """Tell whether something lies at a store path, whatever Nix knows of it."""
    return os.path.lexists(f"{own_folder(nix) or ''}{path}")


def gone(nix: Nix, paths: Iterable[str]) -> list[str]:
    """Return those of *paths*, which are valid to Nix, that are not on the disk.

    None is where the user's own settings name a store that this machine cannot look into.
    """
    folder = own_folder(nix) or ""
    lost = [path for path in paths if not os.path.lexists(f"{folder}{path}")]
    return lost if lost and _can_look(nix) else []


def _can_look(nix: Nix) -> bool:
    if own_folder(nix) is not None:
        return True
    done = process.run(["nix", "show-config", "--json"], env=nix.environment())
    try:
        store = str(json.loads(done.stdout)["store"]["value"])
    except (ValueError, KeyError):
        return False
    return store in _HERE or store.startswith("unix://")


def requisites(nix: Nix, paths: Sequence[str], *, outputs: bool = False) -> list[str]:
    """Return *paths*, which are valid, and all that they refer to, each after what it refers to.

    Args:
        outputs: of derivations, what was built of them, too, with all that it refers to.

    Raises:
        TnpuError: a path is not valid.
    """
    if not paths:
        return []
    argv = ["nix-store", "--query", "--requisites", *(["--include-outputs"] if outputs else [])]
    done = process.run([*argv, *paths], env=nix.environment(), timeout=None)
    if done.status != 0:
        raise failure("asking the Nix store for references", done.stderr)
    return done.stdout.split()


def derivers(nix: Nix, paths: Sequence[str]) -> dict[str, str]:
    """Return store path → the derivation that it was built by, where the store has it."""
    if not paths:
        return {}
    argv = ["nix-store", "--query", "--deriver", *paths]
    done = process.run(argv, env=nix.environment())
    named = dict(zip(paths, done.stdout.split(), strict=False))
    return {path: by for path, by in named.items() if by[0] == "/" and is_on_disk(nix, by)}
