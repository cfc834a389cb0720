"""How long derivations took in this project, so that a build can say how long it will take."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from tnpu_nix.place import STATE_FOLDER, keep_note

if TYPE_CHECKING:
    from tnpu_nix.build import Activity

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
    if took:
        keep_note(root, _FILE, json.dumps(load(root) | took, indent=1, sort_keys=True))


def duration(seconds: float) -> str:
    """Return a duration for people: ``4.2 s``, ``3 min 05 s``, ``1 h 02 min``."""
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"
