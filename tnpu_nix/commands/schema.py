"""`tnpu-nix schema`."""

from __future__ import annotations

import json

import click

from tnpu_nix.pins import Toolchain


@click.command()
def schema() -> None:
    """Print the JSON schema of pins.toml, for editors that complete and check it."""
    click.echo(json.dumps(Toolchain.model_json_schema(), indent=2))
