"""`tnpu-nix image`: the group of the commands about images."""

from __future__ import annotations

import click

from tnpu_nix.commands.lazy import LazyGroup

# Verb → module of tnpu_nix.commands, and the command in it.
_COMMANDS = {
    "diff": ("image_reading", "diff"),
    "ensure": ("image_push", "ensure"),
    "inspect": ("image_reading", "inspect"),
    "pull": ("image_push", "pull"),
    "push": ("image_push", "push"),
    "tag": ("image_push", "tag"),
    "verify": ("image_reading", "verify"),
}


@click.group(cls=LazyGroup, table=_COMMANDS)
def image() -> None:
    """Name, push, pull and read images."""
