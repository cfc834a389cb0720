"""`tnpu-nix image inspect | diff | verify`: the commands that read images."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import click

from tnpu_nix import build as builds
from tnpu_nix import image_verify, pinsfile
from tnpu_nix.commands.common import json_option, nix_of, root_of, say, store_option
from tnpu_nix.images import expected
from tnpu_nix.images.contents import scan
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
