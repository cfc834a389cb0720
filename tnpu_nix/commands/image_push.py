"""`tnpu-nix image tag`, `ensure`, `push` and `pull`."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click

from tnpu_nix import fingerprint
from tnpu_nix.commands.network import Network, registry_options
from tnpu_nix.commands.options import json_option, nix_of, root_of, say, store_option
from tnpu_nix.errors import TnpuError
from tnpu_nix.images import tag as image_tag
from tnpu_nix.terminal import size_text

if TYPE_CHECKING:
    from tnpu_nix.images.ensured import Ensured
    from tnpu_nix.nix import Nix
    from tnpu_nix.registry.client import Repository
    from tnpu_nix.registry.reference import Reference

# What takes time to load is loaded where it is used: `ensure` of an image that is there is to
# take no longer than the question to the registry.

_Command = Callable[..., Any]

_offline_option = click.option(
    "--offline-profile",
    is_flag=True,
    help="Build from hostpkgs, made of this machine's own compilers: a test bench.",
)
_to_option = click.option(
    "--to",
    metavar="REF",
    help="host[:port]/name[:tag] instead of [image] registry and name, and the pins' tag.",
)
_github_option = click.option(
    "--github-output",
    is_flag=True,
    help="Append tag, image, digest and action to the file that $GITHUB_OUTPUT names.",
)


def _nix_options(command: _Command) -> _Command:
    return _offline_option(store_option(command))


def _values(root: Path, nix: Nix) -> dict[str, str]:
    """Return ``tag``, and ``repository`` where pins.toml has one; evaluated or remembered."""
    key = fingerprint.of(str(root), nix.offline_profile)
    if kept := image_tag.remembered(str(root), key):
        return kept
    from tnpu_nix import build, flake, pinsfile
    from tnpu_nix.nix import check_version
    from tnpu_nix.registry.reference import is_tag

    toolchain = pinsfile.load(root / pinsfile.FILE_NAME)
    check_version(nix)
    build.check_generated(root, toolchain)
    tag = flake.image_tag(root, nix)
    if not is_tag(tag):
        raise TnpuError(f"the image's tag {tag!r} is none that a registry takes", "change the tag")
    values = {"tag": tag}
    if toolchain.image.registry is not None:
        values["repository"] = f"{toolchain.image.registry.rstrip('/')}/{toolchain.image.name}"
    image_tag.remember(str(root), key, values)
    return values


def _destination(named: str | None, values: dict[str, str]) -> Reference:
    """Return the image's place in a registry, with a tag."""
    from tnpu_nix.registry.reference import parse

    text = named or values.get("repository")
    if text is None:
        raise TnpuError(
            "no registry is named",
            'put `registry = "host/path"` under [image] in pins.toml, or give a whole reference:'
            " --to for ensure and push, --from for pull",
        )
    reference = parse(text)
    if reference.digest is not None:
        raise TnpuError(f"{reference} names a digest", "name a tag, or none for the pins' own")
    return reference if reference.tag else reference.tagged(values["tag"])


def _github_file(context: click.Context, wanted: bool) -> IO[bytes] | None:
    """Return the file for a step's outputs, open before anything is done that takes long."""
    if not wanted:
        return None
    name = os.environ.get("GITHUB_OUTPUT")
    if not name:
        raise TnpuError(
            "--github-output, but the variable GITHUB_OUTPUT names no file",
            "a step of a GitHub workflow has it; elsewhere use --json",
        )
    try:
        # Without a buffer: what cannot be written is not tried again when the file is closed.
        return context.with_resource(Path(name).open("ab", buffering=0))
    except OSError as error:
        raise _unwritable(name, error) from error


def _write_github(file: IO[bytes] | None, lines: str) -> None:
    if file is None:
        return
    try:
        file.write(lines.encode())
    except OSError as error:
        raise _unwritable(file.name, error) from error


def _unwritable(name: str, error: OSError) -> TnpuError:
    return TnpuError(
        f"{name}, which the variable GITHUB_OUTPUT names, cannot be written:"
        f" {error.strerror or error}",
        "name a file that can be written, or use --json",
    )


def _lines(values: dict[str, str]) -> str:
    """Return ``name=value`` lines; none of the values can hold a line break."""
    return "".join(f"{name}={value}\n" for name, value in values.items())


def _github_lines(found: Ensured) -> str:
    named = {"tag": found.tag, "image": found.image, "digest": found.digest}
    return _lines({**named, "action": found.action})


def _show(found: Ensured, as_json: bool, github: IO[bytes] | None) -> None:
    from dataclasses import asdict

    _write_github(github, _github_lines(found))
    if as_json:
        click.echo(json.dumps(asdict(found), indent=2))
        return
    click.echo(found.image)
    say(found.line())


@click.command()
@_nix_options
@json_option
@_github_option
@click.pass_context
def tag(
    context: click.Context,
    offline_profile: bool,
    store: Path | None,
    as_json: bool,
    github_output: bool,
) -> None:
    """Print the tag that the pins give the image; nothing is built."""
    github = _github_file(context, github_output)
    values = _values(root_of(context), nix_of(store, offline_profile))
    found = {"tag": values["tag"]}
    if "repository" in values:
        found["image"] = str(_destination(None, values))
    _write_github(github, _lines(found))
    click.echo(json.dumps(found, indent=2) if as_json else values["tag"])


@click.command()
@_to_option
@click.option("--dry-run", is_flag=True, help="Only ask: present or absent; nothing is made.")
@_nix_options
@registry_options
@json_option
@_github_option
@click.pass_context
def ensure(
    context: click.Context,
    to: str | None,
    dry_run: bool,
    offline_profile: bool,
    store: Path | None,
    network: Network,
    as_json: bool,
    github_output: bool,
) -> None:
    """Have the image of these pins in the registry.

    If the registry has the tag, nothing else is done. If not, the image is taken from the binary
    cache or built, and pushed.
    """
    github = _github_file(context, github_output)
    root, nix = root_of(context), nix_of(store, offline_profile)
    reference = _destination(to, _values(root, nix))
    repository = network.repository(reference)
    found = _present(repository)
    if found is not None:
        _keep_way(root, nix, to, repository, found)
    elif dry_run:
        found = _absent(reference)
    else:
        from tnpu_nix.images.ensure import alone

        with alone(root, say) as waited:
            found = _present(network.repository(reference)) if waited else None
            if found is None:
                found = _make_and_push(root, nix, reference, network)
    _show(found, as_json, github)


def _absent(reference: Reference) -> Ensured:
    from tnpu_nix.images.ensured import ABSENT, Ensured

    assert reference.tag is not None
    return Ensured(ABSENT, reference.tag, str(reference), "")


def _present(repository: Repository) -> Ensured | None:
    reference = repository.reference
    assert reference.tag is not None
    digest = repository.tag_digest(reference.tag)
    if digest is None:
        return None
    from tnpu_nix.images.ensured import PRESENT, Ensured

    return Ensured(PRESENT, reference.tag, str(reference), digest)


def _keep_way(root: Path, nix: Nix, to: str | None, repository: Repository, found: Ensured) -> None:
    """Keep how the tag was found, for `quick`."""
    from tnpu_nix.commands.options import OFFLINE_WARNING
    from tnpu_nix.images import quick
    from tnpu_nix.registry import credentials
    from tnpu_nix.registry.client import ACCEPT

    way = repository.transport.way(f"manifests/{found.tag}")
    if way is None:
        return
    key = fingerprint.of(str(root), nix.offline_profile)
    values = image_tag.remembered(str(root), key)
    hit = {
        **way,
        "accept": ACCEPT,
        "situation": quick.situation(to),
        "files": {str(path): quick.signature(str(path)) for path in credentials.files()},
        "digest": found.digest,
        "image": found.image,
        "line": found.line(),
        "github": _github_lines(found),
        "warning": f"{OFFLINE_WARNING}\n",
    }
    image_tag.remember(str(root), key, {**values, "hit": json.dumps(hit)})


def _make_and_push(root: Path, nix: Nix, reference: Reference, network: Network) -> Ensured:
    from tnpu_nix import history, pinsfile
    from tnpu_nix.commands.common import error_console
    from tnpu_nix.images import ensure as image_ensure
    from tnpu_nix.images.progress import moving
    from tnpu_nix.progress import watching

    assert reference.tag is not None
    toolchain = pinsfile.load(root / pinsfile.FILE_NAME)
    repository = network.repository(reference, writing=True)
    repository.transport.log_in()  # a build of hours is not to end at a closed door
    with watching(error_console, history.load(root)) as watch:
        built = image_ensure.make(root, toolchain, nix, say, watch)
    with moving(error_console) as moved:
        pushed = image_ensure.push(root, built, nix, repository, reference.tag, moved)
    return image_ensure.told(repository, reference.tag, built, pushed)


@click.command()
@_to_option
@_nix_options
@registry_options
@json_option
@_github_option
@click.pass_context
def push(
    context: click.Context,
    to: str | None,
    offline_profile: bool,
    store: Path | None,
    network: Network,
    as_json: bool,
    github_output: bool,
) -> None:
    """Push the image of these pins, also where the registry has its tag already.

    Only layers that the registry lacks are uploaded, and the tag is written last.
    """
    from tnpu_nix.images.ensure import alone

    github = _github_file(context, github_output)
    root, nix = root_of(context), nix_of(store, offline_profile)
    reference = _destination(to, _values(root, nix))
    with alone(root, say):
        found = _make_and_push(root, nix, reference, network)
    _show(found, as_json, github)


@click.command()
@click.option(
    "--from", "named", metavar="REF", help="host[:port]/name[:tag] instead of the pins' image."
)
@click.option(
    "--to",
    "file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The archive to write; by default NAME-TAG.tar in this folder.",
)
@_nix_options
@registry_options
@json_option
@click.pass_context
def pull(
    context: click.Context,
    named: str | None,
    file: Path | None,
    offline_profile: bool,
    store: Path | None,
    network: Network,
    as_json: bool,
) -> None:
    """Write the registry's image of these pins to an archive for `docker load`."""
    from dataclasses import asdict

    from tnpu_nix.commands.common import error_console
    from tnpu_nix.images.progress import moving
    from tnpu_nix.images.pull import pull as pulls

    reference = _named(context, named, offline_profile, store)
    assert reference.tag is not None
    target = file or Path(f"{reference.name.rpartition('/')[2]}-{reference.tag}.tar")
    with moving(error_console) as moved:
        done = pulls(network.repository(reference), reference.tag, target, moved)
    say(f"pulled {done.image}: {done.layers} layers, {size_text(done.bytes_downloaded)}")
    click.echo(json.dumps(asdict(done), indent=2) if as_json else done.file)


def _named(
    context: click.Context, named: str | None, offline_profile: bool, store: Path | None
) -> Reference:
    """Return the image to pull; a reference with a tag needs no project."""
    from tnpu_nix.registry.reference import parse

    if named is not None and parse(named).tag is not None:
        return parse(named)
    return _destination(named, _values(root_of(context), nix_of(store, offline_profile)))
