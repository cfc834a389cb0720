"""Who we are to a registry: the auth files of docker and podman, their helpers, or variables."""

from __future__ import annotations

import base64
import binascii
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tnpu_nix import process
from tnpu_nix.errors import TnpuError
from tnpu_nix.registry.reference import DOCKER_HUB, Reference

USER_VARIABLE, PASSWORD_VARIABLE = "TNPU_REGISTRY_USER", "TNPU_REGISTRY_PASSWORD"
VARIABLES = f"{USER_VARIABLE} and {PASSWORD_VARIABLE}"

# Under what docker keeps the credentials of Docker Hub.
_HUB_KEYS = ("https://index.docker.io/v1/", "index.docker.io", "registry-1.docker.io")


# The registry that the variables are for; None where nothing says which.
_host: str | None = None


def bind(host: str) -> None:
    """Say which registry the variables are for; no other host is sent them then.

    The first word counts: the registry that a command pushes to goes before that of a base image.
    """
    global _host
    _host = _host or host


@dataclass(frozen=True)
class Credentials:
    """A user name and password, or an identity token, and where they were found."""

    user: str
    password: str = field(repr=False)
    source: str  # for people: a file, a helper program or the variables' names
    is_token: bool = False  # the password is a refresh token of the registry's token service
    key: str = ""  # of "auths" in the file, where the entry is user and password in base64

    @property
    def basic(self) -> str:
        """The value of an Authorization header."""
        pair = f"{self.user}:{self.password}".encode()
        return f"Basic {base64.b64encode(pair).decode()}"


def files() -> list[Path]:
    """Return the auth files to be read, in order, whether or not they are there.

    The order is that of containers-auth.json(5), with docker's own file last.
    """
    if named := os.environ.get("REGISTRY_AUTH_FILE"):
        return [Path(named)]
    home = Path(os.environ.get("HOME") or "/")
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    config = Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config")
    docker = Path(os.environ.get("DOCKER_CONFIG") or home / ".docker")
    return [
        Path(runtime) / "containers/auth.json" if runtime else _without_runtime_folder(),
        config / "containers/auth.json",
        docker / "config.json",
    ]


def _without_runtime_folder() -> Path:
    return Path(f"/run/containers/{os.geteuid()}/auth.json")


def find(reference: Reference) -> Credentials | None:
    """Return the credentials for a repository; None where nobody has any.

    Raises:
        TnpuError: an auth file cannot be read, or a credential helper failed.
    """
    user, password = os.environ.get(USER_VARIABLE), os.environ.get(PASSWORD_VARIABLE)
    if user and password and _host in (None, reference.host):
        return Credentials(user, password, VARIABLES)
    if bool(user) != bool(password):
        raise TnpuError(
            f"only one of {VARIABLES} is set",
            "set both, or neither to use the auth file of docker or podman",
        )
    for path in files():
        if found := _in_file(path, reference):
            return found
    return None


def described() -> str:
    """Return where credentials were looked for, for an error's hint."""
    there = [str(path) for path in files() if path.is_file()]
    return ", ".join(there) if there else "no auth file is there"


def _keys(reference: Reference) -> Iterator[str]:
    """Under what an auth file may keep the credentials, the most specific first."""
    parts = reference.repository.split("/")
    for count in range(len(parts), 0, -1):
        yield "/".join(parts[:count])
    if reference.host == DOCKER_HUB:
        yield from _HUB_KEYS


def _in_file(path: Path, reference: Reference) -> Credentials | None:
    try:
        content = json.loads(path.read_text())
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        # Of the file's own text nothing may be shown.
        why = error.strerror if isinstance(error, OSError) else "it is no JSON"
        raise TnpuError(
            f"the auth file {path} cannot be read: {why}",
            f"mend it (`docker login {reference.host}` writes it) or name another with"
            " REGISTRY_AUTH_FILE",
        ) from None
    if not isinstance(content, dict):
        return None
    keys = list(_keys(reference))
    helpers = _table(content, "credHelpers")
    named = next((helpers[key] for key in keys if key in helpers), content.get("credsStore"))
    if isinstance(named, str) and (found := _ask_helper(named, keys, reference)):
        return found
    auths = {_plain_key(key): (key, value) for key, value in _table(content, "auths").items()}
    for key in keys:
        written, entry = auths.get(_plain_key(key), ("", None))
        if isinstance(entry, dict) and (found := _entry(entry, path, written)):
            return found
    return None


def _table(content: dict[str, Any], key: str) -> dict[str, Any]:
    found = content.get(key)
    return found if isinstance(found, dict) else {}


def _plain_key(key: str) -> str:
    """Return a key without scheme and version: older clients wrote https://host/v1/."""
    plain = key.removeprefix("https://").removeprefix("http://").rstrip("/")
    return plain.removesuffix("/v1").removesuffix("/v2")


def _entry(entry: dict[str, Any], path: Path, key: str) -> Credentials | None:
    if token := entry.get("identitytoken"):
        return Credentials("<token>", str(token), str(path), is_token=True)
    if entry.get("username") and entry.get("password"):
        return Credentials(str(entry["username"]), str(entry["password"]), str(path))
    try:
        pair = base64.b64decode(str(entry.get("auth") or ""), validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return None
    user, colon, password = pair.partition(":")
    found = Credentials(user, password.rstrip("\0"), str(path), key=key)
    return found if colon else None


def _ask_helper(name: str, keys: list[str], reference: Reference) -> Credentials | None:
    """Ask docker-credential-NAME, which takes the server on standard input."""
    program = f"docker-credential-{name}"
    servers = [_HUB_KEYS[0]] if reference.host == DOCKER_HUB else [keys[-1]]
    for server in servers:
        done = process.run([program, "get"], stdin=server, timeout=30.0)
        if done.status != 0:
            if "not found" in (done.stdout + done.stderr).lower():
                continue
            raise TnpuError(
                f"{program} gave no credentials for {reference.host} (exit status {done.status})",
                f"run `docker login {reference.host}`, or set {USER_VARIABLE} and"
                f" {PASSWORD_VARIABLE}",
            )
        try:
            answer = json.loads(done.stdout)
            user, secret = str(answer["Username"]), str(answer["Secret"])
        except (ValueError, KeyError, TypeError):
            raise TnpuError(
                f"{program} gave an answer that is none of a credential helper",
                f"mend the helper, or set {USER_VARIABLE} and {PASSWORD_VARIABLE}",
            ) from None
        return Credentials(user, secret, program, is_token=user == "<token>")
    return None
