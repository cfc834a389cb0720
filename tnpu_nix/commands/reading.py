"""The commands that read pins and ask repositories: check, verify, doctor, outdated, show."""

from __future__ import annotations

from pathlib import Path

import click

from tnpu_nix import coherence, pinsfile, sources
from tnpu_nix import doctor as doctors
from tnpu_nix import outdated as outdateds
from tnpu_nix import verify as verifies
from tnpu_nix.commands.common import json_option, nix_of, root_of, say, show_found, store_option
from tnpu_nix.errors import TnpuError
from tnpu_nix.pins import PIN_NAMES


@click.command()
@json_option
@store_option
@click.pass_context
def check(context: click.Context, as_json: bool, store: Path | None) -> None:
    """Hold what the sources say about each other's revisions against the pins."""
    nix = nix_of(store)
    toolchain = pinsfile.load(root_of(context) / pinsfile.FILE_NAME)
    found = coherence.findings(
        toolchain,
        lambda name: (
            sources.at_hand(toolchain, name, nix) or sources.fetch(toolchain, name, nix, say)
        ),
    )
    show_found(found, as_json, lambda one: one.lines())
    errors = [one for one in found if one.is_error and one.reason is None]
    if errors:
        raise TnpuError(f"the pins disagree: {errors[0].fault}", errors[0].hint)
    if not found:
        say("the sources agree with the pins")


@click.command()
@click.argument("names", nargs=-1, type=click.Choice(PIN_NAMES))
@json_option
@store_option
@click.pass_context
def verify(
    context: click.Context, names: tuple[str, ...], as_json: bool, store: Path | None
) -> None:
    """Fetch the pins NAMES (all by default) anew, past any cache, and compare."""
    toolchain = pinsfile.load(root_of(context) / pinsfile.FILE_NAME)
    found = verifies.verify(toolchain, names or PIN_NAMES, nix_of(store), say)
    show_found(found, as_json, lambda one: one.lines())
    wrong = [one.name for one in found if one.fault is not None]
    if wrong:
        raise TnpuError(f"not as pins.toml says: {', '.join(wrong)}", "see each one above")


@click.command()
@click.argument("names", nargs=-1, type=click.Choice(PIN_NAMES))
@json_option
@click.pass_context
def doctor(context: click.Context, names: tuple[str, ...], as_json: bool) -> None:
    """Check, before anything long starts, that every repository can be read.

    NAMES are pins, all by default. Says which pin, which variable or which right is missing.
    """
    toolchain = pinsfile.load(root_of(context) / pinsfile.FILE_NAME)
    found = doctors.examine(toolchain, names or PIN_NAMES, say)
    show_found(found, as_json, lambda one: one.lines())
    missing = [one.name for one in found if one.fault is not None]
    if missing:
        raise TnpuError(f"not ready: {', '.join(missing)}", "see each one above")


@click.command()
@json_option
@click.pass_context
def outdated(context: click.Context, as_json: bool) -> None:
    """Show how far each pin is behind the branch that it tracks."""
    toolchain = pinsfile.load(root_of(context) / pinsfile.FILE_NAME)
    show_found(outdateds.outdated(toolchain, say), as_json, lambda one: [one.line()])


@click.command()
@json_option
@click.pass_context
def show(context: click.Context, as_json: bool) -> None:
    """Show the pins."""
    toolchain = pinsfile.load(root_of(context) / pinsfile.FILE_NAME)
    pins = [{"name": name, **pin.model_dump()} for name, pin in toolchain.pins.items()]
    row = "{name:<14} {rev:.12} {date:.10} {track:<12} {url}".format
    show_found(pins, as_json, lambda pin: [row(**pin)])
