"""`tnpu-nix image inspect | diff | verify`: the commands that read images."""

from __future__ import annotations

import contextlib
import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tnpu_nix.commands.options import (
    json_option,
    netrc_option,
    nix_of,
    root_of,
    say,
    show,
    store_option,
    timeout_option,
)
from tnpu_nix.errors import TnpuError

if TYPE_CHECKING:
    from tnpu_nix.images.diff import Side
    from tnpu_nix.images.model import Image

# What takes time to load is loaded where it is used: the group is one with `image ensure`.

_FORMS = (
    "an archive (of Docker or OCI), a folder with an OCI layout, oci:PATH[:TAG], or"
    " [docker://]host[:port]/name:tag"
)
_plain_http_option = click.option(
    "--plain-http",
    is_flag=True,
    help="Talk to the registry without TLS (on loopback: found out).",
)
_offline_option = click.option(
    "--offline-profile", is_flag=True, help="The pins as hostpkgs builds them: a test bench."
)


def _bind(context: click.Context) -> None:
    """The credentials in the variables are for the project's registry, if it has one."""
    from tnpu_nix import pinsfile
    from tnpu_nix.registry import credentials, reference

    if os.environ.get(credentials.USER_VARIABLE):
        with contextlib.suppress(TnpuError):
            ours = pinsfile.load(root_of(context) / pinsfile.FILE_NAME).image.registry
            if ours is not None:
                credentials.bind(reference.parse(f"{ours}/x").host)


def _print(found: Any, as_json: bool, **more: Any) -> None:
    if as_json:
        click.echo(json.dumps({**more, **asdict(found)}, indent=2))
        return
    show(found.lines())


def _print_manifest(image: Image) -> None:
    from tnpu_nix.images.contents import read_manifest

    told = read_manifest(image)
    if not told:
        raise TnpuError(
            f"{image.where} has no /etc/tnpu/manifest.json that can be read",
            "images of `tnpu-nix build` have one; without --manifest it is shown what this one is",
        )
    click.echo(json.dumps(told, indent=2, sort_keys=True))


@click.command(short_help="Show what an image is made of.")
@click.argument("image", metavar="IMAGE")
@click.option("--manifest", is_flag=True, help="Print its /etc/tnpu/manifest.json.")
@click.option("--sbom", is_flag=True, help="Print a bill of materials (CycloneDX 1.6, JSON).")
@_plain_http_option
@_offline_option
@json_option
@store_option
@click.pass_context
def inspect(
    context: click.Context,
    image: str,
    manifest: bool,
    sbom: bool,
    plain_http: bool,
    offline_profile: bool,
    as_json: bool,
    store: Path | None,
) -> None:
    """Show what IMAGE is made of: pins, components, layers."""
    from tnpu_nix.images import inspection as image_inspect
    from tnpu_nix.images.contents import scan
    from tnpu_nix.images.opening import open_image

    if manifest + sbom + as_json > 1:
        raise click.UsageError("one of --manifest, --sbom and --json")
    _bind(context)
    opened = open_image(image, plain_http)
    if manifest:
        _print_manifest(opened)
        return
    found = image_inspect.inspect(scan(opened, say))
    if not sbom:
        _print(found, as_json)
        return
    from tnpu_nix.images import licences
    from tnpu_nix.images import sbom as sboms

    sboms.check_library()
    try:
        known = licences.of_parts(root_of(context), found.parts, nix_of(store, offline_profile))
    except TnpuError as error:
        say(f"licences are left out, since Nix cannot be asked for them: {error.what}")
        known = {}
    click.echo(sboms.cyclonedx(found, known))


@click.command(short_help="Compare two images, or two sets of pins.")
@click.argument("a", metavar="A")
@click.argument("b", metavar="B")
@_plain_http_option
@_offline_option
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
    from tnpu_nix.images import diff as image_diff

    _bind(context)
    nix = nix_of(store, offline_profile)

    def side(text: str) -> Side:
        return image_diff.side(text, lambda: root_of(context), nix, plain_http, say)

    _print(image_diff.diff(side(a), side(b)), as_json)


@click.command(short_help="Prove that an image holds what the pins say.")
@click.argument("image", metavar="IMAGE")
@click.option(
    "--from",
    "caches",
    multiple=True,
    metavar="URL",
    help="A binary cache to ask for what the store does not have; by default those of [cache].",
)
@netrc_option
@timeout_option
@_plain_http_option
@_offline_option
@json_option
@store_option
@click.pass_context
def verify(
    context: click.Context,
    image: str,
    caches: tuple[str, ...],
    netrc: Path | None,
    timeout: float,
    plain_http: bool,
    offline_profile: bool,
    as_json: bool,
    store: Path | None,
) -> None:
    """Prove that IMAGE holds what the pins say, and nothing else."""
    from tnpu_nix import build, pinsfile
    from tnpu_nix.cache import stores
    from tnpu_nix.cache.access import Access, netrc_file
    from tnpu_nix.images import expected
    from tnpu_nix.images import verify as image_verify
    from tnpu_nix.images.contents import scan
    from tnpu_nix.images.opening import open_image
    from tnpu_nix.images.witnesses import Witnesses

    _bind(context)
    root = root_of(context)
    toolchain = pinsfile.load(root / pinsfile.FILE_NAME)
    build.check_generated(root, toolchain)
    nix, access = nix_of(store, offline_profile), Access(timeout, netrc_file(netrc))
    asked = [stores.cache(url) for url in caches or toolchain.cache.substituters]
    witnesses = Witnesses(asked, toolchain.cache.public_keys, access, nix, say)
    contents = scan(open_image(image, plain_http), say)
    present = set(contents.store_paths())
    wanted = expected.of_pins(root, toolchain, nix, witnesses, present, say)
    verdict = image_verify.verify(contents, wanted, say)
    error = verdict.error()
    _print(verdict, as_json, ok=error is None)
    if error is not None:
        raise error


inspect.help = f"{inspect.help}\n\nIMAGE is {_FORMS}."
verify.help = f"{verify.help}\n\nIMAGE is {_FORMS}."
diff.help = (
    f"{diff.help}\n\nA and B are each {_FORMS}; or pins:PATH, a pins.toml; or git:REV, the"
    " project's pins.toml in that git revision."
)
