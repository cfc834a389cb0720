"""Options that the commands of `tnpu-nix cache` share, and what they come to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import click

from tnpu_nix.cache.access import Access, netrc_file
from tnpu_nix.cache.current import Current, current
from tnpu_nix.cache.settings import check_names
from tnpu_nix.cache.stores import Cache
from tnpu_nix.cache.stores import cache as cache_of
from tnpu_nix.commands.options import (
    netrc_option,
    nix_of,
    root_of,
    store_option,
    timeout_option,
)
from tnpu_nix.errors import TnpuError
from tnpu_nix.nix import Nix

Command = TypeVar("Command", bound=Callable[..., Any])
FILE = click.Path(dir_okay=False, path_type=Path)


@dataclass(frozen=True)
class Session:
    """What the options of a command come to."""

    root: Path
    nix: Nix
    access: Access
    now: Current
    caches: list[Cache]
    keys: list[str]


def reading_options(command: Command) -> Command:
    """Give a command the options by which caches are found and reached."""
    for option in reversed(
        (
            click.option(
                "--cache",
                "urls",
                multiple=True,
                metavar="URL",
                help="Use this cache instead of those of pins.toml; may be repeated.",
            ),
            click.option(
                "--public-key",
                "keys",
                multiple=True,
                metavar="KEY",
                help="Trust this key beside those of pins.toml; may be repeated.",
            ),
            *_common,
        )
    ):
        command = option(command)
    return command


_common = (
    netrc_option,
    timeout_option,
    click.option(
        "--offline-profile", is_flag=True, help="The outputs as built from hostpkgs: a test bench."
    ),
    store_option,
)


def common_options(command: Command) -> Command:
    for option in reversed(_common):
        command = option(command)
    return command


def session_of(
    context: click.Context,
    netrc: Path | None,
    timeout: float,
    offline_profile: bool,
    store: Path | None,
    urls: tuple[str, ...] = (),
    keys: tuple[str, ...] = (),
) -> Session:
    named = [*(("--cache", url) for url in urls), *(("--public-key", key) for key in keys)]
    nix = replace(
        nix_of(store, offline_profile),
        caches=tuple(word for pair in named for word in pair),
        netrc=None if netrc is None else netrc.absolute(),
    )
    root = root_of(context)
    access = Access(timeout, netrc_file(netrc))
    now = current(root, nix)
    caches = [cache_of(url) for url in urls or now.substituters]
    trusted = list(dict.fromkeys([*now.public_keys, *keys]))
    check_names(trusted)
    return Session(root, nix, access, now, caches, trusted)


def require_caches(session: Session) -> None:
    if not session.caches:
        raise TnpuError(
            "no cache is named", "name one in pins.toml ([cache] substituters), or with --cache URL"
        )
