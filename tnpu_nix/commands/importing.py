"""`tnpu-nix import`."""

from __future__ import annotations

import json
from pathlib import Path

import click

from tnpu_nix.commands.common import json_option, nix_of, say, store_option
from tnpu_nix.migration import importing
from tnpu_nix.migration.importreport import Report


@click.command("import")
@click.argument(
    "files", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path)
)
@click.option(
    "--base",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Another pins.toml, which supplies what the files leave out.",
)
@click.option("--dry-run", is_flag=True, help="Show all that would change, and write nothing.")
@json_option
@store_option
@click.pass_context
def import_(
    context: click.Context,
    files: tuple[Path, ...],
    base: Path | None,
    dry_run: bool,
    as_json: bool,
    store: Path | None,
) -> None:
    """Write the pins of FILES into pins.toml: setup/versions.env, thirdparty/*.json.

    The files are read and never run; a later one overrides an earlier one. In a project with a
    pins.toml that is brought up to date; elsewhere a new one is written.
    """

    def show(report: Report) -> None:
        if as_json:
            click.echo(json.dumps(report.as_json(), indent=2))
            return
        for line in report.lines():
            click.echo(line)

    root = importing.root_for(context.obj)
    importing.import_files(root, files, nix_of(store), say, show, base=base, dry_run=dry_run)
