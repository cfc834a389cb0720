"""What is known of the image of the present pins, kept from one command to the next.

The tag is what an evaluation of the flake gives. It is kept under the fingerprint of the project's
files, and with it how the registry was last found to have that tag.
"""

from __future__ import annotations

import json
import os

# Loaded by every `image ensure`, which is to take no longer than its question to the registry:
# nothing that takes time to load belongs here, pathlib included.

_FOLDER = ".tnpu-nix"
_FILE = "image.json"


def remembered(root: str, key: str) -> dict[str, str]:
    """Return what was kept under a fingerprint; empty if it was for another state of the files.

    ``tag``, and ``repository`` where pins.toml names a registry; what `quick` keeps, in ``hit``.
    """
    try:
        with open(f"{root}/{_FOLDER}/{_FILE}", "rb") as file:  # noqa: PTH123
            content = json.load(file)
        values: dict[str, str] = content["values"] if content["key"] == key else {}
        return values
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def remember(root: str, key: str, values: dict[str, str]) -> None:
    """Keep what belongs to a fingerprint. No command is failed by what cannot be kept."""
    folder = f"{root}/{_FOLDER}"
    temporary = f"{folder}/{_FILE}.{os.getpid()}"
    try:
        os.makedirs(folder, exist_ok=True)  # noqa: PTH103
        if not os.path.exists(f"{folder}/.gitignore"):  # noqa: PTH110
            with open(f"{folder}/.gitignore", "w") as file:  # noqa: PTH123
                file.write("*\n")
        with open(temporary, "w") as file:  # noqa: PTH123
            json.dump({"key": key, "values": values}, file)
        os.rename(temporary, f"{folder}/{_FILE}")  # noqa: PTH104
    except OSError:
        return
