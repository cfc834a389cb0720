"""What the commands share: the project, the store, and how results are printed."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from tnpu_nix import project
from tnpu_nix.errors import TnpuError
from tnpu_nix.nix import Nix

error_console = Console(stderr=True)


def say(line: str) -> None:
    """Print a line about what is going on."""
    click.echo(line, err=True)


def root_of(context: click.Context) -> Path:
    """Return the project that the command works on."""
    try:
        here = Path.cwd()
    except FileNotFoundError as error:
        raise TnpuError("the current folder is gone", "go to one that exists") from error
    return project.find(here, context.obj)


store_option = click.option(
    "--store",
    type=click.Path(file_okay=False, path_type=Path),
    envvar="TNPU_NIX_STORE",
    help="Use a Nix store of its own in this folder instead of the machine's.",
)


json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")


def nix_of(store: Path | None, offline_profile: bool = False) -> Nix:
    """Return how nix is run, from the options of a command."""
    if offline_profile:
        say("offline profile: hostpkgs in nixpkgs' place, a test bench and not the real thing")
    return Nix(store=None if store is None else store.absolute(), offline_profile=offline_profile)


def show_found(found: Sequence[Any], as_json: bool, lines: Callable[[Any], list[str]]) -> None:
    """Print what a reading command found, as text or as JSON."""
    if as_json:
        plain = [one if isinstance(one, dict) else asdict(one) for one in found]
        click.echo(json.dumps(plain, indent=2))
        return
    for line in (line for one in found for line in lines(one)):
        click.echo(line)
