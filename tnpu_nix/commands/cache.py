"""`tnpu-nix cache`: what was built once is built for all."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tnpu_nix.cache.current import (
    BUILD_TIME,
    KEEP,
    OPTIONAL,
    RUN_TIME,
    Current,
    current,
    named,
    paths_of,
)
from tnpu_nix.cache.settings import KINDS
from tnpu_nix.cache.stores import cache as cache_of
from tnpu_nix.commands.cache_keygen import keygen
from tnpu_nix.commands.cache_options import (
    FILE,
    common_options,
    reading_options,
    require_caches,
    session_of,
)
from tnpu_nix.commands.options import Number, json_option, nix_of, root_of, say, store_option
from tnpu_nix.errors import TnpuError
from tnpu_nix.nix import Nix

if TYPE_CHECKING:
    from tnpu_nix.cache.prune import Plan
    from tnpu_nix.cache.push import Pushed

# What takes longer to load than `status` to run is imported where it is used.


@click.group()
def cache() -> None:
    """Fill, use and check the binary cache."""


cache.add_command(keygen)


@cache.command()
@click.argument("targets", nargs=-1)
@click.option("--to", "url", metavar="URL", help="The cache; by default push in [cache].")
@click.option(
    "--key-file",
    type=FILE,
    envvar="TNPU_SIGNING_KEY_FILE",
    help="The secret key to sign with; by default $TNPU_SIGNING_KEY_FILE.",
)
@click.option("--unsigned", is_flag=True, help="Sign nothing: the server does that itself.")
@click.option(
    "--build-time/--no-build-time",
    default=True,
    show_default=True,
    help="Also what a bump of triton builds with: llvm, mlir, lld, llvm-toolchain.",
)
@click.option("--sources", is_flag=True, help="Also the pins' sources, as far as they are here.")
@click.option(
    "--repair", is_flag=True, help="Download and check what the cache has; replace what is damaged."
)
@common_options
@json_option
@click.pass_context
def push(
    context: click.Context,
    /,
    targets: tuple[str, ...],
    url: str | None,
    key_file: Path | None,
    unsigned: bool,
    build_time: bool,
    sources: bool,
    repair: bool,
    as_json: bool,
    **common: Any,
) -> None:
    """Upload what was built under the current pins (or only TARGETS), with all that it refers to.

    Only what the cache lacks is uploaded. LLVM and MLIR go along unless --no-build-time says
    otherwise: without them the next bump of triton builds LLVM again.
    """
    from tnpu_nix.cache import push as pushes
    from tnpu_nix.commands.common import error_console
    from tnpu_nix.progress import watching

    session = session_of(context, **common)
    now, nix = session.now, session.nix
    place = url or now.push
    if place is None:
        raise TnpuError("no cache to push to", "name it with --to URL, or as push in [cache]")
    target = pushes.target(cache_of(place), key_file, unsigned, session.keys, nix, say)
    usual = [*RUN_TIME, *(BUILD_TIME if build_time else ()), *OPTIONAL]
    paths = pushes.built(named(now, targets, usual), bool(targets), nix, say)
    if sources:
        paths += pushes.sources(now, nix, say)
    with watching(error_console, {}) as watch:
        done = pushes.push(now, paths, target, nix, session.access, watch, say, repair)
    if as_json:
        click.echo(json.dumps(asdict(done), indent=2))
    else:
        click.echo(_summary(done))


def _summary(done: Pushed) -> str:
    """Return what a push did, for people."""
    from tnpu_nix.terminal import size_text

    words = f"{len(done.uploaded)} of {done.paths} paths uploaded, {size_text(done.size)} unpacked"
    words += f"; {len(done.mended)} of them were damaged there" if done.mended else ""
    words += f"; {len(done.signed)} signed that were there" if done.signed else ""
    return f"{cache_of(done.url).address}: {words}"


@cache.command()
@click.argument("targets", nargs=-1)
@click.option(
    "--build-time",
    is_flag=True,
    help="Also what a bump of triton builds with: llvm, mlir, lld, llvm-toolchain.",
)
@click.option(
    "--repair", is_flag=True, help="Read what is here; fetch anew what was altered on the disk."
)
@reading_options
@json_option
@click.pass_context
def pull(
    context: click.Context,
    /,
    targets: tuple[str, ...],
    build_time: bool,
    repair: bool,
    as_json: bool,
    **how: Any,
) -> None:
    """Fetch the current pins' outputs (or only TARGETS) from caches, and print their paths.

    Nothing is built: if a cache lacks an output, it is named, and the exit status is 1.
    """
    from tnpu_nix.cache import roots
    from tnpu_nix.cache.pull import Puller
    from tnpu_nix.commands.common import error_console
    from tnpu_nix.progress import watching

    session = session_of(context, **how)
    wanted = named(session.now, targets, [*RUN_TIME, *(BUILD_TIME if build_time else ())])
    nix, access = session.nix, session.access
    with watching(error_console, {}) as watch:
        Puller(session.keys, nix, access, watch, say).pull(wanted, session.caches, repair)
    roots.keep_if_possible(session.root, nix, say, session.now)
    found = {name: [str(nix.on_disk(path)) for path in its] for name, its in wanted.items()}
    if as_json:
        click.echo(json.dumps(found, indent=2))
        return
    for path in paths_of(found):
        click.echo(path)


@cache.command()
@click.argument("targets", nargs=-1)
@reading_options
@json_option
@click.pass_context
def status(context: click.Context, /, targets: tuple[str, ...], as_json: bool, **how: Any) -> None:
    """Show for each output which cache has it, its size, and whether it would be built."""
    from tnpu_nix.cache import status as statuses

    session = session_of(context, **how)
    wanted = named(session.now, targets, session.now.outputs)
    found = statuses.status(session.now, wanted, session.caches, session.nix, session.access)
    if as_json:
        click.echo(json.dumps(asdict(found), indent=2))
        return
    for line in statuses.lines(found):
        click.echo(line)
    if not session.caches:
        say("hint: no cache is named: [cache] substituters in pins.toml, or --cache URL")


@cache.command()
@click.argument("targets", nargs=-1)
@click.option("--here", is_flag=True, help="Check the store of this machine, and no cache.")
@reading_options
@json_option
@click.pass_context
def verify(
    context: click.Context, /, targets: tuple[str, ...], here: bool, as_json: bool, **how: Any
) -> None:
    """Check signatures and contents of all under the current pins: in the caches, or here.

    Every path is downloaded once, and none is kept.
    """
    from tnpu_nix.cache import verify as verifies

    session = session_of(context, **how)
    wanted = named(session.now, targets, session.now.outputs)
    if not targets:
        wanted |= {f"{verifies.SOURCE}{name}": [path] for name, path in session.now.sources.items()}
    rest = (wanted, session.keys, session.nix, session.access, say)
    if here:
        found = [verifies.verify_here(*rest)]
    else:
        require_caches(session)
        found = [verifies.verify_cache(one, *rest) for one in session.caches]
    if as_json:
        click.echo(json.dumps([asdict(one) for one in found], indent=2))
    for line in (line for one in found for line in one.lines() if not as_json):
        click.echo(line)
    wrong = [one.where for one in found if not one.passed]
    if wrong:
        hint = verifies.way_out(found, wanted, targets, session.now.push, session.nix)
        raise TnpuError(f"not as it should be: {', '.join(wrong)}", hint)
    if not any(one.checked for one in found):
        raise TnpuError(
            "nothing of the current pins is there to be checked", "push, or pull, first"
        )


@cache.command()
@click.argument("kind", type=click.Choice(KINDS), default="user")
@click.option(
    "--cache",
    "urls",
    multiple=True,
    metavar="URL",
    help="Instead of those of pins.toml; may be repeated.",
)
@click.option(
    "--public-key",
    "keys",
    multiple=True,
    metavar="KEY",
    help="Beside those of pins.toml; may be repeated.",
)
@click.pass_context
def use(context: click.Context, kind: str, urls: tuple[str, ...], keys: tuple[str, ...]) -> None:
    """Print the lines of nix.conf by which plain nix takes outputs from the caches.

    For a user's ~/.config/nix/nix.conf, for the shell of a CI job, or for a daemon's
    /etc/nix/nix.conf.
    """
    from tnpu_nix import pinsfile
    from tnpu_nix.cache import settings

    its = pinsfile.load(root_of(context) / pinsfile.FILE_NAME).cache
    caches = [cache_of(url) for url in urls or its.substituters]
    trusted = [*its.public_keys, *keys]
    if not caches or not trusted:
        lacking = "cache" if not caches else "public key"
        raise TnpuError(
            f"no {lacking} is named",
            "name them in pins.toml ([cache] substituters, public-keys), or by options",
        )
    for line in settings.use(kind, caches, trusted):
        click.echo(line)


def _project(context: click.Context, nix: Nix, needed: bool) -> Current | None:
    """Return what the project stands for; None outside of one, if that will do."""
    try:
        root = root_of(context)
    except TnpuError:
        if needed:
            raise
        return None
    return current(root, nix)


@cache.command()
@click.option(
    "--cache", "url", metavar="URL", help="The file:// cache; by default push in [cache]."
)
@click.option(
    "--keep",
    type=click.IntRange(min=1),
    help="Sets of pins that stay, those pushed last; by default keep in [cache] (3).",
)
@click.option("--dry-run", is_flag=True, help="Say what would go, and remove nothing.")
@click.option(
    "--grace",
    type=Number(min=0),
    default=24.0,
    show_default=True,
    metavar="HOURS",
    help="Leave younger files of unfinished uploads alone, and sets whose push has not ended.",
)
@click.option("--foreign", is_flag=True, help="Also remove paths that no set of pins names.")
@click.option("--offline-profile", is_flag=True, help="The current pins' outputs with hostpkgs.")
@store_option
@json_option
@click.pass_context
def prune(
    context: click.Context,
    /,
    url: str | None,
    keep: int | None,
    dry_run: bool,
    grace: float,
    foreign: bool,
    offline_profile: bool,
    store: Path | None,
    as_json: bool,
) -> None:
    """Remove from a file:// cache what neither the current pins nor the last sets pushed reach.

    Outside of a project, with --cache, the last sets pushed are all that counts.
    """
    from tnpu_nix.cache import prune as prunes

    now = _project(context, nix_of(store, offline_profile), needed=url is None)
    place = url or (now and now.push)
    if not place:
        raise TnpuError("no cache to prune", "name it with --cache file:///folder")
    folder = cache_of(place).folder
    if folder is None:
        raise TnpuError(
            f"{place} is no file:// cache", "prune where its files are, with --cache file:///folder"
        )
    count = keep or (now.keep if now else KEEP)
    here = frozenset((*paths_of(now.outputs), *now.sources.values()) if now else ())
    digest = now.digest if now else None
    limits = prunes.Limits(count, digest, grace * 3600, foreign, here)
    plan = prunes.prune(folder, limits, dry_run, say)
    if as_json:
        shown = {"kept": [one.digest for one in plan.kept], "paths": plan.paths, "bytes": plan.size}
        shown |= {"dropped": [one.digest for one in plan.dropped], "foreign": plan.foreign}
        click.echo(json.dumps(shown, indent=2))
    else:
        _show_pruned(plan, dry_run)


def _show_pruned(plan: Plan, dry_run: bool) -> None:
    from tnpu_nix.terminal import size_text

    for path in plan.paths:
        click.echo(f"{'would remove' if dry_run else 'removed'} {path}")
    verb = "would go" if dry_run else "gone"
    click.echo(
        f"{len(plan.paths)} paths {verb}, {size_text(plan.size)}; sets of pins:"
        f" {len(plan.kept)} kept, {len(plan.dropped)} dropped"
        + (f"; {plan.foreign} paths of others left alone" if plan.foreign else "")
    )
