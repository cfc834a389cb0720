"""What the commands share: the project, the store, and how results are printed."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

import click
from rich.console import Console

from tnpu_nix.commands.options import json_option, nix_of, root_of, say, show, store_option

__all__ = [
    "error_console",
    "json_option",
    "nix_of",
    "root_of",
    "say",
    "show_found",
    "store_option",
]

error_console = Console(stderr=True)


def show_found(found: Sequence[Any], as_json: bool, lines: Callable[[Any], list[str]]) -> None:
    """Print what a reading command found, as text or as JSON."""
    if as_json:
        plain = [one if isinstance(one, dict) else asdict(one) for one in found]
        click.echo(json.dumps(plain, indent=2))
        return
    show(line for one in found for line in lines(one))
