"""Evaluating Nix in tests: the real nix-instantiate, with a store of the test's own."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from tests.conftest import Project, environment
from tnpu_nix import flake
from tnpu_nix.nix import Nix
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


def as_cache(store: Path) -> str:
    """The lines of nix.conf that make a cache of a store in a folder.

    They stand behind those of the offline profile, which empty what they name.
    """
    return f"extra-substituters = local?root={store}&trusted=true\nfallback = true"


def take(project: Project, nix: Nix, source: Path, target: str) -> str:
    """Take from another store what a target is built from and consists of; return its path.

    Nix does it, since others may build in that store at the same time: a copy of its files would
    be of no one moment.
    """
    one = flake.outputs(project.root, nix)[target]
    env = environment(**Nix(source, offline_profile=True).variables())

    def ask(*argv: str | Path) -> list[str]:
        done = subprocess.run(argv, env=env, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout.split()

    wanted = ask("nix-store", "--query", "--requisites", "--include-outputs", one.derivation)
    assert nix.store is not None
    ask("nix", "copy", "--no-check-sigs", "--from", source, "--to", nix.store, *wanted)
    return one.paths["out"]
