"""What every command needs and what costs no time to load: the project, the store, words to say."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click

from tnpu_nix import place
from tnpu_nix.errors import TnpuError
from tnpu_nix.nix import Nix
from tnpu_nix.terminal import printable

OFFLINE_WARNING = "offline profile: hostpkgs in nixpkgs' place, a test bench and not the real thing"


def say(line: str) -> None:
    """Print a line, or several, about what is going on."""
    click.echo("\n".join(printable(one) for one in line.split("\n")), err=True)


def show(lines: Iterable[str]) -> None:
    """Print what a command found, a line each."""
    for line in lines:
        click.echo(printable(line))


def root_of(context: click.Context) -> Path:
    """Return the project that the command works on."""
    try:
        here = Path.cwd()
    except FileNotFoundError as error:
        raise TnpuError("the current folder is gone", "go to one that exists") from error
    return place.find(here, context.find_root().obj)


class Number(click.FloatRange):
    """A number within bounds; click itself takes "nan" for one."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        found = float(super().convert(value, param, ctx))
        if math.isnan(found):
            self.fail(f"{value!r} is not a number.", param, ctx)
        return found


store_option = click.option(
    "--store",
    type=click.Path(file_okay=False, path_type=Path),
    envvar="TNPU_NIX_STORE",
    help="Use a Nix store of its own in this folder instead of the machine's.",
)


netrc_option = click.option(
    "--netrc",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Passwords of caches; by default $NETRC, ~/.netrc or /etc/nix/netrc.",
)
timeout_option = click.option(
    "--timeout",
    type=Number(0.1, 600),
    default=5.0,
    show_default=True,
    metavar="SECONDS",
    help="Give up on a cache that is silent for so long.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")


def nix_of(store: Path | None, offline_profile: bool = False) -> Nix:
    """Return how nix is run, from the options of a command."""
    if store is not None and "?" in str(store.absolute()):
        raise TnpuError(
            f"Nix takes what follows the ? in {store} for settings, and uses another folder",
            "name a folder without a ?",
        )
    if offline_profile:
        say(OFFLINE_WARNING)
    return Nix(store=None if store is None else store.absolute(), offline_profile=offline_profile)
