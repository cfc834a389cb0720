"""`tnpu-nix init-ci`."""

from __future__ import annotations

import click

from tnpu_nix import ci, pinsfile, project, transaction
from tnpu_nix.commands.common import root_of, say


@click.command("init-ci")
@click.option("--force", is_flag=True, help="Overwrite a workflow that was edited by hand.")
@click.pass_context
def init_ci(context: click.Context, force: bool) -> None:
    """Write a GitHub workflow for a self-hosted runner: preflight, ensure, smoke.

    From then on `generate` keeps it as pins.toml says.
    """
    root = root_of(context)
    with transaction.locked(root, say):
        toolchain = pinsfile.load(root / pinsfile.FILE_NAME)
        found = project.workflow_differences(root, toolchain)
        project.refuse_edited(found, force)
        project.write(root, found)
    for one in found:
        click.echo(f"wrote {one.path}")
    if not found:
        say(f"{ci.WORKFLOW} is as pins.toml says; nothing was written")
    if toolchain.image.registry is None:
        say("hint: [image] in pins.toml names no registry; the job ensure fails until it does")
