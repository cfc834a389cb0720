"""How long derivations took in this project, so that a build can say how long it will take."""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Iterable
from pathlib import Path

from tnpu_nix.build import Activity
from tnpu_nix.transaction import STATE_FOLDER

_FILE = "history.json"
_VERSION = re.compile(r"-\d.*$")


def component(name: str) -> str:
    """Return a derivation's name without its version: that is what stays the same in a bump."""
    return _VERSION.sub("", name)


def load(root: Path) -> dict[str, float]:
    """Return component → seconds that its last build took; empty where nothing is known."""
    try:
        known = json.loads((root / STATE_FOLDER / _FILE).read_text())
        return {str(name): float(seconds) for name, seconds in known.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def record(root: Path, finished: Iterable[Activity]) -> None:
    """Note how long the builds took. A build is not failed by a note that cannot be made."""
    took = {
        component(one.name): round(one.seconds, 1)
        for one in finished
        if one.verb == "building" and one.seconds is not None
    }
    folder = root / STATE_FOLDER
    if not took or not folder.is_dir():
        return
    temporary = folder / f"{_FILE}.{os.getpid()}"
    with contextlib.suppress(OSError):
        temporary.write_text(json.dumps(load(root) | took, indent=1, sort_keys=True))
        temporary.rename(folder / _FILE)
