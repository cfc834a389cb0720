"""`tnpu-nix build`."""

from __future__ import annotations

from pathlib import Path

import click

from tnpu_nix import build as builds
from tnpu_nix import flake, history, pinsfile, sources
from tnpu_nix.commands.common import error_console, nix_of, root_of, say, store_option
from tnpu_nix.nix import check_version
from tnpu_nix.progress import watching


@click.command()
@click.argument("target", default="tnpu-image")
@click.option(
    "--offline-profile",
    is_flag=True,
    help="Build from hostpkgs, made of this machine's own compilers: a test bench.",
)
@store_option
@click.pass_context
def build(context: click.Context, target: str, offline_profile: bool, store: Path | None) -> None:
    """Build TARGET (tnpu-image by default) and print its path."""
    if target not in flake.TARGETS:
        raise click.UsageError(f"no target {target!r}; targets are {', '.join(flake.TARGETS)}")
    nix = nix_of(store, offline_profile)
    root = root_of(context)
    toolchain = pinsfile.load(root / pinsfile.FILE_NAME)
    check_version(nix)
    builds.check_generated(root, toolchain)
    sources.check_hashes(toolchain, nix)
    if nix.offline_profile:
        builds.fetch_sources(root, toolchain, target, nix, say)
    with watching(error_console, history.load(root)) as watch:
        built = builds.build(root, target, nix, watch)
    history.record(root, built.activities)
    click.echo(nix.on_disk(built.path))
