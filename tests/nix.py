"""Evaluating Nix in tests: the real nix-instantiate, with a store of the test's own."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from tests.conftest import environment
from tnpu_nix.storepath import sri_from_base32


def evaluate(expression: str, store: Path, *options: str) -> Any:
    """Return the value of a Nix expression, by way of JSON."""
    done = subprocess.run(
        ["nix-instantiate", "--eval", "--strict", "--json", *options, "--expr", expression],
        env=environment(NIX_REMOTE=str(store), HOME=str(store)),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def nar_hash(folder: Path) -> str:
    """The hash that nix itself gives a plain folder."""
    argv = ["nix-hash", "--type", "sha256", "--base32", str(folder)]
    done = subprocess.run(argv, env=environment(), capture_output=True, text=True, check=True)
    return sri_from_base32(done.stdout.strip())
