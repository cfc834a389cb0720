"""A group of commands of which only the one that is called is loaded."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

import click


class LazyGroup(click.Group):
    """Finds its commands by a table: verb → (module of tnpu_nix.commands, command in it).

    What all commands need together takes longer to load than a quick one takes to run.
    """

    def __init__(self, *arguments: Any, table: Mapping[str, tuple[str, str]], **more: Any) -> None:
        super().__init__(*arguments, **more)
        self._table = table

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the verbs, sorted."""
        return sorted(self._table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Load a command; None for a verb that there is not."""
        if cmd_name not in self._table:
            return None
        module, name = self._table[cmd_name]
        loaded = importlib.import_module(f"tnpu_nix.commands.{module}")
        command: click.Command = getattr(loaded, name)
        return command
