"""What really lies in the store's folder: Nix goes by its books, and looks at the disk late.

A store path that something else than Nix has deleted is valid to Nix all the same: it builds
nothing, fetches nothing, and hands out the name of what is not there.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from tnpu_nix import process
from tnpu_nix.nix import Nix, failure

_DERIVATION = ".drv"
_FOLDER = Path("/nix/store")
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
    if not _FOLDER.is_dir():
        return False  # without it Nix makes itself a store in the user's home
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


def derivers(nix: Nix, paths: Sequence[str], derivation: str) -> dict[str, str]:
    """Return store path → the derivation that it is an output of.

    The books name one that may be gone, or of another project: those that *derivation* needs come
    first. Left out is a path that is no output of any that the store has.
    """
    ours: dict[str, list[str]] = {}
    for one in requisites(nix, [derivation]) if paths else []:
        if one.endswith(_DERIVATION):
            ours.setdefault(_name(one).removesuffix(_DERIVATION), []).append(one)
    found = {path: _deriver(nix, path, ours) for path in paths}
    return {path: by for path, by in found.items() if by is not None}


def _deriver(nix: Nix, path: str, ours: Mapping[str, list[str]]) -> str | None:
    # An output is called as its derivation is, with -dev or the like at the end.
    name = _name(path)
    for one in (*ours.get(name, []), *ours.get(name.rpartition("-")[0], [])):
        if path in _query(nix, "--outputs", one):
            return one
    booked = _query(nix, "--deriver", path)
    known = booked and booked[0].endswith(_DERIVATION) and is_on_disk(nix, booked[0])
    return booked[0] if known else None


def _name(path: str) -> str:
    return path.rsplit("/", 1)[-1].partition("-")[2]


def _query(nix: Nix, *words: str) -> list[str]:
    return process.run(["nix-store", "--query", *words], env=nix.environment()).stdout.split()
