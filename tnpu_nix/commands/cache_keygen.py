"""`tnpu-nix cache keygen`: the key that signs what is pushed."""

from __future__ import annotations

from pathlib import Path

import click

from tnpu_nix.commands.cache_options import FILE
from tnpu_nix.commands.options import root_of, say
from tnpu_nix.errors import TnpuError
from tnpu_nix.nix import Nix


@click.command()
@click.argument("name", required=False)
@click.option(
    "--file",
    type=FILE,
    default=Path("cache-signing.key"),
    show_default=True,
    help="Where the secret key goes; a file that exists is left alone.",
)
@click.option("--write", is_flag=True, help="Put the public key into pins.toml, and regenerate.")
@click.option(
    "--show",
    type=FILE,
    metavar="FILE",
    help="Make no key: print the public key of the secret key in FILE.",
)
@click.pass_context
def keygen(
    context: click.Context, name: str | None, file: Path, write: bool, show: Path | None
) -> None:
    """Make a signing key called NAME (as cache.example-1) and print its public key."""
    from tnpu_nix import pinsfile
    from tnpu_nix.cache import keys

    if (name is None) == (show is None):
        raise click.UsageError("give the NAME of a key to make, or --show FILE, and not both")
    root = root_of(context) if write else None
    if root is not None:
        pinsfile.load(root / pinsfile.FILE_NAME)  # a fault of it is found before a key is made
    if show is not None:
        public = keys.public_of(show, Nix(), say)
    else:
        public = keys.generate(name or "", file, Nix())
        say(
            f"the secret key is in {file}: keep it out of git, and give it to pushes in"
            f" {keys.VARIABLE}"
        )
    click.echo(public)  # before pins.toml is touched: whatever comes of that, the key is made
    line = f'[cache]: public-keys = ["{public}"]'
    if root is None:
        say(f"hint: pins.toml, {line}")
        return
    try:
        _write_key(root, public)
    except (TnpuError, OSError) as error:
        reason = error.what if isinstance(error, TnpuError) else f"{error.strerror}"
        raise TnpuError(
            f"the key is not in pins.toml: {reason}", f"once that is mended, add it: {line}"
        ) from error


def _write_key(root: Path, public: str) -> None:
    from tnpu_nix import pinsfile, project, transaction

    with transaction.locked(root, say):
        text = pinsfile.read_text(root / pinsfile.FILE_NAME)
        known = pinsfile.parse(text).cache.public_keys
        if public in known:
            return
        edited = pinsfile.edit(text, {("cache", "public-keys"): [*known, public]})
        found = project.differences(root, pinsfile.parse(edited))
        project.refuse_edited(found, force=False)
        project.write(root, found, edited)
