"""The commands: each calls one module and prints."""

from __future__ import annotations

import json
import os
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from tnpu_nix import __version__, coherence, git, history, pinsfile, project, sources, transaction
from tnpu_nix import build as builds
from tnpu_nix import bump as bumps
from tnpu_nix import outdated as outdateds
from tnpu_nix import verify as verifies
from tnpu_nix.errors import TnpuError
from tnpu_nix.nix import Nix, check_version
from tnpu_nix.pins import PIN_NAMES, Toolchain
from tnpu_nix.progress import watching

_error_console = Console(stderr=True)


def _say(line: str) -> None:
    click.echo(line, err=True)


class _Group(click.Group):
    """Turns every failure into two lines and exit status 1; --debug shows the traceback."""

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except BrokenPipeError:
            # Whoever read us has had enough. Python would complain once more when it ends.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(1)
        except (Exception, KeyboardInterrupt) as error:
            if ctx.params.get("debug"):
                traceback.print_exc()
                _say(getattr(error, "said", ""))
            _say(_as_tnpu_error(error).render())
            sys.exit(1)


def _as_tnpu_error(error: BaseException) -> TnpuError:
    match error:
        case TnpuError():
            return error
        case KeyboardInterrupt():
            return TnpuError("stopped by the user", "run the command again to go on")
        case OSError():
            named = error.filename or "standard output"
            hint = "check the rights and the room there, then run the command again"
            return TnpuError(f"{named}: {error.strerror or error}", hint)
        case _:
            return TnpuError(
                f"a fault of tnpu-nix itself: {type(error).__name__}: {error}",
                "please report it with what it prints with --debug",
            )


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="tnpu-nix")
@click.option(
    "--project",
    "named",
    type=click.Path(file_okay=False, path_type=Path),
    help="The folder that holds pins.toml; by default the nearest one at or above this folder.",
)
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
@click.pass_context
def main(context: click.Context, named: Path | None, debug: bool) -> None:
    """Turn one pin per upstream into Nix derivations and an OCI image."""
    context.obj = named
    # Whoever ends us has what we started ended too, in a way that lets it clean up.
    for kind in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(kind, signal.default_int_handler)
    # A terminal that cannot show a character of some file must not end the command.
    sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]


def _root(context: click.Context) -> Path:
    try:
        here = Path.cwd()
    except FileNotFoundError as error:
        raise TnpuError("the current folder is gone", "go to one that exists") from error
    return project.find(here, context.obj)


_store = click.option(
    "--store",
    type=click.Path(file_okay=False, path_type=Path),
    envvar="TNPU_NIX_STORE",
    help="Use a Nix store of its own in this folder instead of the machine's.",
)


_json = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")


def _nix(store: Path | None, offline_profile: bool = False) -> Nix:
    if offline_profile:
        _say("offline profile: hostpkgs in nixpkgs' place, a test bench and not the real thing")
    return Nix(store=None if store is None else store.absolute(), offline_profile=offline_profile)


def _show(found: Sequence[Any], as_json: bool, lines: Callable[[Any], list[str]]) -> None:
    """Print what a reading command found, as text or as JSON."""
    if as_json:
        plain = [one if isinstance(one, dict) else asdict(one) for one in found]
        click.echo(json.dumps(plain, indent=2))
        return
    for line in (line for one in found for line in lines(one)):
        click.echo(line)


@main.command()
@click.option("--check", is_flag=True, help="Write nothing; print a diff, exit 1 if there is one.")
@click.option("--force", is_flag=True, help="Overwrite generated files that were edited by hand.")
@_store
@click.pass_context
def generate(context: click.Context, check: bool, force: bool, store: Path | None) -> None:
    """Write flake.nix, flake.lock and nix/ from pins.toml."""
    if check and force:
        raise click.UsageError("--check writes nothing, and so there is nothing to force")
    root = _root(context)

    def differences() -> list[project.Difference]:
        toolchain = pinsfile.load(root / pinsfile.FILE_NAME)
        sources.check_hashes(toolchain, _nix(store))
        return project.differences(root, toolchain)

    if check:
        found = differences()
        click.echo("".join(one.unified() for one in found), nl=False)
        if found:
            count = "1 generated file differs" if len(found) == 1 else f"{len(found)} files differ"
            raise TnpuError(f"{count} from what pins.toml says", project.way_out(found))
        return
    with transaction.locked(root, _say):
        found = differences()
        project.refuse_edited(found, force)
        project.write(root, found)
    for one in found:
        click.echo(f"{'removed' if one.wanted is None else 'wrote'} {one.path}")
    if not found:
        _say("everything is as pins.toml says; nothing was written")
    elif git.untracked(root, ["flake.nix", "flake.lock", "nix"]):
        _say("hint: Nix sees only what git tracks: git add flake.nix flake.lock nix")


@main.command()
@click.argument("pins", nargs=-1, required=True, metavar="NAME [REV] | NAME=REV...")
@click.option("--dry-run", is_flag=True, help="Show all that would change, and write nothing.")
@click.option("--follow", is_flag=True, help="Move llvm to the revision that triton names.")
@click.option("--commit", is_flag=True, help="Make one git commit of exactly the files written.")
@_store
@click.pass_context
def bump(context: click.Context, /, pins: tuple[str, ...], store: Path | None, **how: bool) -> None:
    """Move the pin NAME to REV, or several pins at once, all or none.

    REV is a full or short revision (7 digits or more), a branch or a tag; without it the pin moves
    to the head of the branch that it tracks.
    """
    if how["commit"] and how["dry_run"]:
        raise click.UsageError("--dry-run writes nothing, and so there is nothing to commit")
    moved = bumps.bump(_root(context), _requests(pins), _nix(store), _say, **how)
    for line in moved.lines():
        click.echo(line)


def _requests(words: tuple[str, ...]) -> list[bumps.Request]:
    if all("=" in word for word in words):
        return [_request(*word.split("=", 1)) for word in words]
    mixed = "=" in words[0] or any(word.split("=")[0] in PIN_NAMES for word in words[1:])
    if len(words) > 2 or mixed:
        raise click.UsageError("one pin as NAME [REV], or several as NAME=REV NAME=REV")
    return [_request(*words)]


def _request(name: str, what: str | None = None) -> bumps.Request:
    # triton-shared is what its repository is called; the pin is a name that TOML and Nix share.
    return bumps.Request(name.replace("-", "_"), what)


@main.command()
@_json
@_store
@click.pass_context
def check(context: click.Context, as_json: bool, store: Path | None) -> None:
    """Hold what the sources say about each other's revisions against the pins."""
    nix = _nix(store)
    toolchain = pinsfile.load(_root(context) / pinsfile.FILE_NAME)
    found = coherence.findings(
        toolchain,
        lambda name: (
            sources.at_hand(toolchain, name, nix) or sources.fetch(toolchain, name, nix, _say)
        ),
    )
    _show(found, as_json, lambda one: one.lines())
    errors = [one for one in found if one.is_error and one.reason is None]
    if errors:
        raise TnpuError(f"the pins disagree: {errors[0].fault}", errors[0].hint)
    if not found:
        _say("the sources agree with the pins")


@main.command()
@click.argument("names", nargs=-1, type=click.Choice(PIN_NAMES))
@_json
@_store
@click.pass_context
def verify(
    context: click.Context, names: tuple[str, ...], as_json: bool, store: Path | None
) -> None:
    """Fetch the pins NAMES (all by default) anew, past any cache, and compare."""
    toolchain = pinsfile.load(_root(context) / pinsfile.FILE_NAME)
    found = verifies.verify(toolchain, names or PIN_NAMES, _nix(store), _say)
    _show(found, as_json, lambda one: one.lines())
    wrong = [one.name for one in found if one.fault is not None]
    if wrong:
        raise TnpuError(f"not as pins.toml says: {', '.join(wrong)}", "see each one above")


@main.command()
@_json
@click.pass_context
def outdated(context: click.Context, as_json: bool) -> None:
    """Show how far each pin is behind the branch that it tracks."""
    toolchain = pinsfile.load(_root(context) / pinsfile.FILE_NAME)
    _show(outdateds.outdated(toolchain, _say), as_json, lambda one: [one.line()])


@main.command()
@_json
@click.pass_context
def show(context: click.Context, as_json: bool) -> None:
    """Show the pins."""
    toolchain = pinsfile.load(_root(context) / pinsfile.FILE_NAME)
    pins = [{"name": name, **pin.model_dump()} for name, pin in toolchain.pins.items()]
    row = "{name:<14} {rev:.12} {date:.10} {track:<12} {url}".format
    _show(pins, as_json, lambda pin: [row(**pin)])


@main.command()
def schema() -> None:
    """Print the JSON schema of pins.toml, for editors that complete and check it."""
    click.echo(json.dumps(Toolchain.model_json_schema(), indent=2))


@main.command()
@click.argument("target", default="tnpu-image")
@click.option(
    "--offline-profile",
    is_flag=True,
    help="Build from hostpkgs, made of this machine's own compilers: a test bench.",
)
@_store
@click.pass_context
def build(context: click.Context, target: str, offline_profile: bool, store: Path | None) -> None:
    """Build TARGET (tnpu-image by default) and print its path."""
    if target not in builds.TARGETS:
        raise click.UsageError(f"no target {target!r}; targets are {', '.join(builds.TARGETS)}")
    nix = _nix(store, offline_profile)
    root = _root(context)
    toolchain = pinsfile.load(root / pinsfile.FILE_NAME)
    check_version(nix)
    builds.check_generated(root, toolchain)
    sources.check_hashes(toolchain, nix)
    if nix.offline_profile:
        builds.fetch_sources(root, toolchain, target, nix, _say)
    with watching(_error_console, history.load(root)) as watch:
        built = builds.build(root, target, nix, watch)
    history.record(root, built.activities)
    click.echo(nix.on_disk(built.path))


@main.command()
@click.argument(
    "folder", type=click.Path(file_okay=False, path_type=Path), default=Path("tnpu-demo")
)
def demo(folder: Path) -> None:
    """Run the whole pipeline in FOLDER with miniature upstreams, without network."""
    # Here and not above: no other command needs the miniatures.
    from tnpu_nix.offline import demo as demos

    with watching(_error_console, history.load(folder / "project")) as watch:
        demos.run(folder, _say, click.echo, watch)
