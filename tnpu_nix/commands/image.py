"""`tnpu-nix image`: the group of the commands about images."""

from __future__ import annotations

import click


@click.group()
def image() -> None:
    """Name, push, pull and read images."""
