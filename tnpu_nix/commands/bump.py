"""`tnpu-nix bump`."""

from __future__ import annotations

from pathlib import Path

import click

from tnpu_nix import bump as bumps
from tnpu_nix.commands.common import nix_of, root_of, say, store_option
from tnpu_nix.images.base import NAME as BASE
from tnpu_nix.nix import Nix
from tnpu_nix.pins import PIN_NAMES


@click.command()
@click.argument("pins", nargs=-1, required=True, metavar="NAME [REV] | NAME=REV...")
@click.option("--dry-run", is_flag=True, help="Show all that would change, and write nothing.")
@click.option("--follow", is_flag=True, help="Move llvm to the revision that triton names.")
@click.option("--commit", is_flag=True, help="Make one git commit of exactly the files written.")
@store_option
@click.pass_context
def bump(context: click.Context, /, pins: tuple[str, ...], store: Path | None, **how: bool) -> None:
    """Move the pin NAME to REV, or several pins at once, all or none.

    REV is a full or short revision (7 digits or more), a branch or a tag; without it the pin moves
    to the head of the branch that it tracks.

    The base image is the pin base; its REV is a tag, a digest, or host/name:tag.
    """
    if how["commit"] and how["dry_run"]:
        raise click.UsageError("--dry-run writes nothing, and so there is nothing to commit")
    requests, nix = _requests(pins), nix_of(store)
    moved = bumps.bump(root_of(context), requests, nix, say, **how)
    for line in moved.lines():
        click.echo(line)
    if how["dry_run"] and moved.files:
        say(f"hint: {_plan(moved, requests, nix)} asks Nix what that would build and fetch")


def _plan(moved: bumps.Bumped, requests: list[bumps.Request], nix: Nix) -> str:
    """Return the command that plans for the same moves.

    Pins are named by the revisions that were found; the base by what was asked for: of an image
    under its digest it would not be known which tag is to be followed.
    """
    named = [(move.name, move.new.rev) for move in moved.moves]
    named += [(one.name, one.what or "") for one in requests if one.name == BASE]
    words = [f"{name}={what}" if what else name for name, what in named]
    return nix.words("plan", *(part for word in words for part in ("--bump", word)))


def _requests(words: tuple[str, ...]) -> list[bumps.Request]:
    if all("=" in word for word in words):
        return [_request(*word.split("=", 1)) for word in words]
    mixed = "=" in words[0] or any(word.split("=")[0] in (*PIN_NAMES, BASE) for word in words[1:])
    if len(words) > 2 or mixed:
        raise click.UsageError("one pin as NAME [REV], or several as NAME=REV NAME=REV")
    return [_request(*words)]


def _request(name: str, what: str | None = None) -> bumps.Request:
    # triton-shared is what its repository is called; the pin is a name that TOML and Nix share.
    return bumps.Request(name.replace("-", "_"), what)
