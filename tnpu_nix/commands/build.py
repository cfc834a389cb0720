"""`tnpu-nix build`."""

from __future__ import annotations

import contextlib
from pathlib import Path

import click

from tnpu_nix import build as builds
from tnpu_nix import flake, history, pinsfile, sources
from tnpu_nix.build import Built, Watcher
from tnpu_nix.cache import roots, stores
from tnpu_nix.cache.access import Access, netrc_file
from tnpu_nix.cache.building import with_caches
from tnpu_nix.cache.current import current
from tnpu_nix.commands.common import error_console, nix_of, root_of, say, store_option
from tnpu_nix.errors import TnpuError
from tnpu_nix.nix import Nix, check_version
from tnpu_nix.pins import Cache
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
    toolchain = pinsfile.load(root / pinsfile.FILE_NAME)
    check_version(nix)
    builds.check_generated(root, toolchain)
    sources.check_hashes(toolchain, nix)
    builds.fetch_sources(root, toolchain, target, nix, say)
    try:
        with watching(error_console, history.load(root)) as watch:
            built = _build(root, target, nix, watch, toolchain.cache if caches else None)
    finally:
        # After a failure or a stop too: the LLVM that is built by then must not be collected.
        with contextlib.suppress(TnpuError):
            roots.keep(root, nix, current(root, nix))
    history.record(root, built.activities)
    click.echo(nix.on_disk(built.path))


def _build(root: Path, target: str, nix: Nix, watch: Watcher, its: Cache | None) -> Built:
    if its is None:
        return builds.build(root, target, nix, watch)
    return with_caches(
        lambda using: builds.build(root, target, using, watch),
        [stores.cache(url) for url in its.substituters],
        its.public_keys,
        nix,
        Access(netrc=netrc_file(None)),
        say,
        watch,
    )
