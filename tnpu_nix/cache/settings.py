"""Lines of nix.conf: those that our own runs of nix get, and those that `cache use` prints."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

from tnpu_nix.cache.access import Access
from tnpu_nix.cache.stores import Cache
from tnpu_nix.errors import TnpuError
from tnpu_nix.nix import Nix

KINDS = ("user", "ci", "daemon")
# Without these Nix waits for minutes for a server that is silent, and tries five times.
_PATIENCE = ("connect-timeout = 5", "stalled-download-timeout = 30", "download-attempts = 2")

# What curl says, by way of nix, of a server that is silent for so long, and what we say.
STALLED = re.compile(r"Timeout was reached|Operation too slow|Operation timed out")
STOPPED = "it stopped answering in the download of {path}"
_UPLOADING = 6  # times the time-out: how long a server may take to answer an upload


def trusting(keys: Sequence[str], extra: str = "") -> tuple[str, ...]:
    """Return the lines by which Nix takes what these keys signed, and looks instead of remembering.

    Nix keeps for an hour that a cache lacks a path, and for a month that it has one: after a push,
    a prune or a fault that is wrong.
    """
    return (
        f"{extra}trusted-public-keys = {' '.join(keys)}",
        "require-sigs = true",
        "narinfo-cache-negative-ttl = 0",
        "narinfo-cache-positive-ttl = 0",
    )


def check_names(keys: Sequence[str]) -> None:
    """Raise if two public keys have one name: Nix, which goes by the name, would know one only."""
    names = [key.partition(":")[0] for key in keys]
    for name in names:
        if names.count(name) > 1:
            raise TnpuError(
                f"two public keys are called {name}, and Nix would take one of them for both",
                "give each key a name of its own (`tnpu-nix cache keygen NAME`)",
            )


def reading(
    nix: Nix,
    caches: Sequence[Cache],
    keys: Sequence[str],
    access: Access,
    extra: str = "",
    fallback: bool = False,
) -> Nix:
    """Return *nix* as it fetches from these caches.

    Args:
        extra: ``extra-`` where the caches of nix.conf count as well; else no others do.
        fallback: build what a cache claims to have and does not give. With it, Nix 2.8 aborts when
            a cache answers 500 to a question about a path; it names that cache then.
    """
    lines = [
        f"{extra}substituters = {' '.join(one.url for one in caches)}",
        *trusting(keys, extra),
        *_limits(access.timeout, 1),
        f"fallback = {'true' if fallback else 'false'}",
    ]
    return _with_netrc(replace(nix, config=(*nix.config, *lines)), access)


def checking(nix: Nix, keys: Sequence[str], access: Access) -> Nix:
    """Return *nix* as it looks into a cache that it is given by URL."""
    lines = (*trusting(keys), *_limits(access.timeout, 2))
    return _with_netrc(replace(nix, config=(*nix.config, *lines)), access)


def writing(nix: Nix, keys: Sequence[str], access: Access) -> Nix:
    """Return *nix* as it uploads to a cache that it is given by URL.

    A server may be silent while it puts a large file, which has been sent whole, into its place.
    """
    lines = (*trusting(keys), *_limits(_UPLOADING * access.timeout, 2))
    return _with_netrc(replace(nix, config=(*nix.config, *lines)), access)


def _limits(timeout: float, attempts: int) -> tuple[str, ...]:
    """Return the lines by which Nix gives up on a server; else it waits for five minutes, twice."""
    seconds = max(1, round(timeout))
    return (
        f"connect-timeout = {seconds}",
        f"stalled-download-timeout = {seconds}",
        f"download-attempts = {attempts}",
    )


def _with_netrc(nix: Nix, access: Access) -> Nix:
    if access.netrc is None:
        return nix
    if re.search(r"[#\n]", str(access.netrc)):
        raise TnpuError(
            f"Nix cannot be told of the netrc file {str(access.netrc)!r}: # begins a comment",
            "give the file, or its folder, another name",
        )
    return replace(nix, config=(*nix.config, f"netrc-file = {access.netrc}"))


def use(kind: str, caches: Sequence[Cache], keys: Sequence[str]) -> list[str]:
    """Return what to put where, so that plain `nix` takes outputs from the caches.

    All of it can be appended to the file that it is for: what is not for Nix is a comment.

    Args:
        kind: one of KINDS.
    """
    lines = {"user": _user, "ci": _ci, "daemon": _daemon}[kind](caches, keys)
    hosts = dict.fromkeys(urlsplit(one.url).hostname for one in caches if one.is_web)
    if hosts:
        lines += ["# If the cache asks for a password, one line a host in the netrc file:"]
        lines += [f"#   machine {host} login USER password PASSWORD" for host in hosts]
    return lines


def _settings(caches: Sequence[Cache], keys: Sequence[str]) -> list[str]:
    return [
        f"extra-substituters = {' '.join(one.url for one in caches)}",
        f"extra-trusted-public-keys = {' '.join(keys)}",
        *_PATIENCE,
    ]


def _user(caches: Sequence[Cache], keys: Sequence[str]) -> list[str]:
    return [
        "# For ~/.config/nix/nix.conf. Where a daemon runs Nix it obeys these lines only if it",
        "# trusts you; if not, its owner adds those of `tnpu-nix cache use daemon`.",
        *_settings(caches, keys),
        *([f"netrc-file = {Path.home()}/.netrc"] if any(one.is_web for one in caches) else []),
    ]


def _ci(caches: Sequence[Cache], keys: Sequence[str]) -> list[str]:
    return [
        "# For the shell of a CI job, before it runs nix. The job's secrets hold the password: let",
        "# it write the netrc file, with mode 0600, and name it in the line netrc-file.",
        'export NIX_CONFIG="${NIX_CONFIG:-}',
        *_settings(caches, keys),
        'netrc-file = ${NETRC:-$HOME/.netrc}"',
    ]


def _daemon(caches: Sequence[Cache], keys: Sequence[str]) -> list[str]:
    return [
        "# For /etc/nix/nix.conf on the machine whose daemon builds and fetches for all users;",
        "# then `systemctl restart nix-daemon`. Users need no lines of their own.",
        *_settings(caches, keys),
        f"extra-trusted-substituters = {' '.join(one.url for one in caches)}",
        "netrc-file = /etc/nix/netrc",
    ]
