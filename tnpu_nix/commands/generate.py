"""`tnpu-nix generate`."""

from __future__ import annotations

from pathlib import Path

import click

from tnpu_nix import git, pinsfile, project, sources, transaction
from tnpu_nix.commands.common import nix_of, root_of, say, store_option
from tnpu_nix.errors import TnpuError


@click.command()
@click.option("--check", is_flag=True, help="Write nothing; print a diff, exit 1 if there is one.")
@click.option("--force", is_flag=True, help="Overwrite generated files that were edited by hand.")
@store_option
@click.pass_context
def generate(context: click.Context, check: bool, force: bool, store: Path | None) -> None:
    """Write flake.nix, flake.lock and nix/ from pins.toml."""
    if check and force:
        raise click.UsageError("--check writes nothing, and so there is nothing to force")
    root = root_of(context)

    def differences() -> list[project.Difference]:
        toolchain = pinsfile.load(root / pinsfile.FILE_NAME)
        sources.check_hashes(toolchain, nix_of(store))
        return project.differences(root, toolchain)

    if check:
        found = differences()
        click.echo("".join(one.unified() for one in found), nl=False)
        if found:
            count = "1 generated file differs" if len(found) == 1 else f"{len(found)} files differ"
            raise TnpuError(f"{count} from what pins.toml says", project.way_out(found))
        return
    with transaction.locked(root, say):
        found = differences()
        project.refuse_edited(found, force)
        project.write(root, found)
    for one in found:
        click.echo(f"{'removed' if one.wanted is None else 'wrote'} {one.path}")
    if not found:
        say("everything is as pins.toml says; nothing was written")
    elif git.untracked(root, ["flake.nix", "flake.lock", "nix"]):
        say("hint: Nix sees only what git tracks: git add flake.nix flake.lock nix")
