"""The options about talking to a registry, and the repository that they open."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from tnpu_nix.commands.options import Number

if TYPE_CHECKING:
    from tnpu_nix.registry.client import Repository
    from tnpu_nix.registry.reference import Reference

_LONGEST_CONNECT = 10.0  # seconds


@dataclass(frozen=True)
class Network:
    """How registries are talked to."""

    plain_http: bool
    timeout: float  # seconds that the registry may stay silent
    retries: int  # after a connection that broke

    def repository(self, reference: Reference, writing: bool = False) -> Repository:
        """Return a repository to read, or to write to as well."""
        from tnpu_nix.registry import credentials
        from tnpu_nix.registry.client import Repository
        from tnpu_nix.registry.http import Patience

        credentials.bind(reference.host)
        return Repository(
            reference,
            writing=writing,
            plain_http=self.plain_http,
            patience=Patience(min(self.timeout, _LONGEST_CONNECT), self.timeout, self.retries),
        )


def registry_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options about registries; it gets a Network as ``network``."""

    @click.option(
        "--plain-http",
        is_flag=True,
        help="Talk to the registry without TLS; on loopback that is found out.",
    )
    @click.option(
        "--timeout",
        type=Number(min=0.1),
        default=60.0,
        show_default=True,
        help="Seconds that the registry may stay silent.",
    )
    @click.option(
        "--retries",
        type=click.IntRange(min=0),
        default=4,
        show_default=True,
        help="How often to go on after a connection that broke, with growing pauses.",
    )
    @functools.wraps(command)
    def with_network(
        *args: Any, plain_http: bool, timeout: float, retries: int, **options: Any
    ) -> Any:
        return command(*args, network=Network(plain_http, timeout, retries), **options)

    return with_network
