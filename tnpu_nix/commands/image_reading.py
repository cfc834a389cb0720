"""`tnpu-nix image inspect | diff | verify`: the commands that read images."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import click

from tnpu_nix import build as builds
from tnpu_nix import image_diff, image_inspect, image_verify, pinsfile
from tnpu_nix.commands.common import json_option, nix_of, root_of, say, store_option
from tnpu_nix.images import expected
from tnpu_nix.images.contents import read_manifest, scan
from tnpu_nix.images.opening import FORMS, open_image

plain_http_option = click.option(
    "--plain-http",
    is_flag=True,
    help="Speak HTTP without TLS to a registry on another machine.",
)
offline_option = click.option(
    "--offline-profile", is_flag=True, help="The pins as hostpkgs builds them: a test bench."
)


@click.command(short_help="Prove that an image holds what the pins say.")
@click.argument("image", metavar="IMAGE")
@click.option(
    "--from",
    "caches",
    multiple=True,
    metavar="URL",
    help="A binary cache to ask for what the store does not have; by default those of [cache].",
)
@plain_http_option
@offline_option
@json_option
@store_option
@click.pass_context
def verify(
    context: click.Context,
    image: str,
    caches: tuple[str, ...],
    plain_http: bool,
    offline_profile: bool,
    as_json: bool,
    store: Path | None,
) -> None:
    """Prove that IMAGE holds what the pins say, and nothing else."""
    root = root_of(context)
    toolchain = pinsfile.load(root / pinsfile.FILE_NAME)
    builds.check_generated(root, toolchain)
    contents = scan(open_image(image, plain_http), say)
    wanted = expected.of_pins(
        root,
        toolchain,
        nix_of(store, offline_profile),
        caches or toolchain.cache.substituters,
        set(contents.store_paths()),
        say,
    )
    verdict = image_verify.verify(contents, wanted, say)
    error = verdict.error()
    if as_json:
        click.echo(json.dumps({"ok": error is None, **asdict(verdict)}, indent=2))
    else:
        for line in verdict.lines():
            click.echo(line)
    if error is not None:
        raise error


verify.help = f"{verify.help}\n\nIMAGE is {FORMS}."


@click.command(short_help="Show what an image is made of.")
@click.argument("image", metavar="IMAGE")
@click.option("--manifest", is_flag=True, help="Print its /etc/tnpu/manifest.json.")
@plain_http_option
@json_option
def inspect(image: str, manifest: bool, plain_http: bool, as_json: bool) -> None:
    """Show what IMAGE is made of: pins, components, layers."""
    opened = open_image(image, plain_http)
    if manifest:
        click.echo(json.dumps(read_manifest(opened), indent=2, sort_keys=True))
        return
    found = image_inspect.inspect(scan(opened, say))
    if as_json:
        click.echo(json.dumps(asdict(found), indent=2))
        return
    for line in found.lines():
        click.echo(line)


inspect.help = f"{inspect.help}\n\nIMAGE is {FORMS}."


@click.command(short_help="Compare two images, or two sets of pins.")
@click.argument("a", metavar="A")
@click.argument("b", metavar="B")
@plain_http_option
@offline_option
@json_option
@store_option
@click.pass_context
def diff(
    context: click.Context,
    a: str,
    b: str,
    plain_http: bool,
    offline_profile: bool,
    as_json: bool,
    store: Path | None,
) -> None:
    """Compare A and B: pins, components, layers, and what who has A needs for B."""
    nix = nix_of(store, offline_profile)

    def side(text: str) -> image_diff.Side:
        return image_diff.side(text, lambda: root_of(context), nix, plain_http, say)

    found = image_diff.diff(side(a), side(b))
    if as_json:
        click.echo(json.dumps(asdict(found), indent=2))
        return
    for line in found.lines():
        click.echo(line)


diff.help = f"{diff.help}\n\nA and B are each {image_diff.SIDES}."
