"""`tnpu-nix image`: the group of the commands about images."""

from __future__ import annotations

import importlib

import click

# Verb → module of tnpu_nix.commands that holds it; only the one that is called is loaded.
_COMMANDS = {
    "diff": "image_reading",
    "ensure": "image_push",
    "inspect": "image_reading",
    "pull": "image_push",
    "push": "image_push",
    "tag": "image_push",
    "verify": "image_reading",
}


class _Group(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module = importlib.import_module(f"tnpu_nix.commands.{_COMMANDS[cmd_name]}")
        command: click.Command = getattr(module, cmd_name)
        return command


@click.group(cls=_Group)
def image() -> None:
    """Name, push, pull and read images."""
