"""`tnpu-nix build`."""

from __future__ import annotations

import contextlib
from pathlib import Path

import click

from tnpu_nix import build as builds
from tnpu_nix import flake, history, ondisk, pinsfile, restore, sources
from tnpu_nix.build import Built, Watcher
from tnpu_nix.cache import roots, stores
from tnpu_nix.cache.access import Access, netrc_file
from tnpu_nix.cache.building import questions, with_caches
from tnpu_nix.commands.common import error_console, nix_of, root_of, say, store_option
from tnpu_nix.errors import TnpuError
from tnpu_nix.nix import Nix, check_version
from tnpu_nix.pins import Toolchain
from tnpu_nix.progress import watching


@click.command()
@click.argument("target", default="tnpu-image")
@click.option(
    "--offline-profile",
    is_flag=True,
    help="Build from hostpkgs, made of this machine's own compilers: a test bench.",
)
@click.option("--caches", is_flag=True, help="Take what the caches of pins.toml have of it.")
@store_option
@click.pass_context
def build(
    context: click.Context, target: str, offline_profile: bool, caches: bool, store: Path | None
) -> None:
    """Build TARGET (tnpu-image by default) and print its path."""
    if target not in flake.TARGETS:
        raise click.UsageError(f"no target {target!r}; targets are {', '.join(flake.TARGETS)}")
    nix = nix_of(store, offline_profile)
    root = root_of(context)
    flake.check_target(root, target)
    toolchain = pinsfile.load(root / pinsfile.FILE_NAME)
    check_version(nix)
    builds.check_generated(root, toolchain)
    sources.check_hashes(toolchain, nix)
    try:
        with watching(error_console, history.load(root)) as watch:
            built = _build(root, toolchain, target, nix, watch, caches)
    finally:
        # After a failure or a stop too: the LLVM that is built by then must not be collected.
        roots.keep_if_possible(root, nix, say)
    history.record(root, built.activities)
    click.echo(f"{ondisk.own_folder(nix) or ''}{built.path}")


def _build(
    root: Path, toolchain: Toolchain, target: str, nix: Nix, watch: Watcher, caches: bool
) -> Built:
    def make(using: Nix) -> Built:
        # By what the caches have, and not by what the store has: they may lie out of reach.
        builds.fetch_sources(root, toolchain, target, nix, say, using)
        return restore.build(root, toolchain, target, using, watch, say)

    if not caches:
        return make(nix)
    asked: list[str] = []
    with contextlib.suppress(TnpuError):  # which the build meets too, and may get over
        asked = questions(root, target, nix)
    return with_caches(
        make,
        [stores.cache(url) for url in toolchain.cache.substituters],
        toolchain.cache.public_keys,
        nix,
        Access(netrc=netrc_file(None)),
        say,
        watch,
        lambda derivations: builds.fetch_sources_of(derivations, toolchain, nix, say),
        asked,
    )
