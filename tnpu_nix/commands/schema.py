"""The format of pins.toml: `tnpu-nix schema` and `tnpu-nix upgrade`."""

from __future__ import annotations

import json

import click

from tnpu_nix import upgrade as upgrades
from tnpu_nix.commands.common import root_of, say
from tnpu_nix.pins import VERSION, Toolchain


@click.command()
def schema() -> None:
    """Print the JSON schema of pins.toml, for editors that complete and check it."""
    click.echo(json.dumps(Toolchain.model_json_schema(), indent=2))


@click.command()
@click.option("--dry-run", is_flag=True, help="Print what would change, and write nothing.")
@click.pass_context
def upgrade(context: click.Context, dry_run: bool) -> None:
    """Bring pins.toml from an older version of its format to the present one."""
    changed = upgrades.upgrade(root_of(context), say, dry_run=dry_run)
    click.echo(changed, nl=False)
    if not changed:
        say(f"pins.toml is of version {VERSION} already; nothing was written")
    elif not dry_run:
        say("wrote pins.toml; run `tnpu-nix generate`")
