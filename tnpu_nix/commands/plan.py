"""`tnpu-nix plan`."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import click

from tnpu_nix import flake
from tnpu_nix import plan as plans
from tnpu_nix.commands.options import json_option, nix_of, root_of, say, store_option
from tnpu_nix.nix import Nix, check_version

_PICTURES = (".svg", ".html")


@click.command()
@click.argument("target", default="tnpu-image")
@click.option(
    *("--bump", "bumped"),
    multiple=True,
    metavar="NAME[=REV]",
    help="Plan for this pin moved as `bump NAME REV` would move it; writes nothing.",
)
@click.option(
    *("--graph", "picture"),
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Draw the components into FILE, which ends in .svg or .html.",
)
@click.option(
    "--offline-profile",
    is_flag=True,
    help="Plan for a build from hostpkgs, made of this machine's own compilers: a test bench.",
)
@click.option("--caches", is_flag=True, help="Take what the caches of pins.toml have of it.")
@json_option
@store_option
@click.pass_context
def plan(
    context: click.Context,
    target: str,
    bumped: tuple[str, ...],
    picture: Path | None,
    offline_profile: bool,
    caches: bool,
    as_json: bool,
    store: Path | None,
) -> None:
    """Show what building TARGET (tnpu-image by default) would do now; nothing is built."""
    if target not in flake.TARGETS:
        meant = f"write --bump {bumped[-1]}={target} for a revision; " if bumped else ""
        raise click.UsageError(
            f"no target {target!r}; {meant}targets are {', '.join(flake.TARGETS)}"
        )
    if picture is not None and picture.suffix not in _PICTURES:
        raise click.UsageError(f"--graph wants a file that ends in {' or '.join(_PICTURES)}")
    nix = nix_of(store, offline_profile)
    root = root_of(context)
    flake.check_target(root, target)
    # One derivation under two names would count twice.
    target = "tnpu-image" if target == "default" else target
    needs = as_json or picture is not None

    def make(using: Nix) -> plans.Plan:
        return _plan(root, target, bumped, using, needs)

    made = _with_caches(root, target, nix, make) if caches else make(nix)
    if picture is not None:
        # Here and not above: no other use of the command needs what draws.
        from tnpu_nix import graph

        graph.write(made, picture)
        say(f"wrote {picture}")
    click.echo(json.dumps(_plain(made), indent=2) if as_json else "\n".join(plans.lines(made)))


def _with_caches(
    root: Path, target: str, nix: Nix, make: Callable[[Nix], plans.Plan]
) -> plans.Plan:
    """Make a plan with the caches that a build would go on with."""
    from tnpu_nix import pinsfile
    from tnpu_nix.cache import stores
    from tnpu_nix.cache.access import Access, netrc_file
    from tnpu_nix.cache.building import questions, with_caches

    its = pinsfile.load(root / pinsfile.FILE_NAME).cache
    caches = [stores.cache(url) for url in its.substituters]
    access = Access(netrc=netrc_file(None))
    asked = questions(root, target, nix, lambda: _check(root, nix))
    return with_caches(make, caches, its.public_keys, nix, access, say, asked=asked)


def _check(root: Path, nix: Nix) -> None:
    # Loaded while nix evaluates: it takes as long as a small evaluation does.
    from tnpu_nix import build, pinsfile

    check_version(nix)
    build.check_generated(root, pinsfile.load(root / pinsfile.FILE_NAME))


def _plan(root: Path, target: str, bumped: tuple[str, ...], nix: Nix, needs: bool) -> plans.Plan:
    def check() -> None:
        _check(root, nix)

    if not bumped:
        return plans.plan(root, target, nix, check, needs=needs)
    from tnpu_nix import bump

    check()
    pairs = [word.partition("=") for word in bumped]
    requests = [bump.Request(name.replace("-", "_"), rev or None) for name, _, rev in pairs]
    moved = bump.bump(root, requests, nix, say, dry_run=True)
    return plans.plan_of_bump(root, moved.toolchain, target, nix, needs=needs)


def _plain(made: plans.Plan) -> dict[str, object]:
    return {**asdict(made), "download": made.download}
