"""The image that ours is laid upon, as a pin: resolved in its registry and put into the store."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tnpu_nix import flake, git, nix, process
from tnpu_nix.errors import TnpuError
from tnpu_nix.images.nar import sri
from tnpu_nix.nix import Nix
from tnpu_nix.pins import Base, Toolchain
from tnpu_nix.registry import credentials, reference
from tnpu_nix.registry.credentials import Credentials
from tnpu_nix.registry.reference import Reference

NAME = "base"

# Seconds for a whole image; a base with torch in it is some gigabytes.
_TIMEOUT = 3600.0

Say = Callable[[str], None]


@dataclass(frozen=True)
class Moved:
    """The base before and after."""

    old: Base | None
    new: Base

    def lines(self) -> list[str]:
        """Return what changed, for people."""
        if self.old == self.new:
            return [f"base is at {self.new.digest} already"]
        old = self.old or Base.model_construct(digest="none", hash="none", tag="none")
        return [
            f"base: {self.new.image}:{self.new.tag}, {self.new.layers} layers",
            f"  digest  {old.digest} -> {self.new.digest}",
            f"  hash    {old.hash} -> {self.new.hash}",
        ]

    def changes(self) -> dict[tuple[str, ...], Any]:
        """Return the keys of pins.toml that the move writes, with their values."""
        values = self.new.model_dump() if self.old != self.new else {}
        return {("image", NAME, key): value for key, value in values.items()}


def move(toolchain: Toolchain, what: str | None, nix_: Nix, say: Say) -> Moved:
    """Find out where the base moves to, and put that image into the store.

    Args:
        what: a tag or a digest in the base's repository, or a whole reference
            (host/name:tag); None: the tag that is followed.

    Raises:
        TnpuError: there is no such image, or it cannot be fetched.
    """
    from tnpu_nix.images import remote  # which takes time to load, and most commands never need

    old = toolchain.image.base
    named = _named(old, what)
    credentials.bind(_owner(toolchain, named))
    say(f"asking {named.repository} for {named.where}")
    found = remote.read(str(named))
    tag = named.tag or (old.tag if old is not None else "latest")
    new = Base.model_construct(
        image=named.repository,
        tag=tag,
        digest=found.manifest_digest,
        hash="",
        layers=len(found.layers),
    )
    if old is not None and new.model_copy(update={"hash": old.hash}) == old and _there(old, nix_):
        return Moved(old, old)
    say(f"fetching {named.repository}@{new.digest}")
    return Moved(old, new.model_copy(update={"hash": _prefetch(toolchain, new, nix_, say)}))


def _there(base: Base, nix_: Nix) -> bool:
    argv = ["nix-store", "--print-fixed-path", "sha256", base.hash, base.archive_name]
    done = process.run(argv, env=nix_.environment())
    return done.status == 0 and nix.is_valid(nix_, done.stdout.strip())


def _named(old: Base | None, what: str | None) -> Reference:
    if what is not None and "/" in what:
        return reference.parse(what)
    if old is None:
        raise TnpuError(
            "pins.toml has no [image.base]",
            "`tnpu-nix bump base host/name:tag` adds one",
        )
    at = reference.parse(old.image)
    if what is None:
        return at.tagged(old.tag)
    return reference.parse(f"{old.image}{'@' if reference.is_digest(what) else ':'}{what}")


def fetch(toolchain: Toolchain, nix_: Nix, say: Say) -> None:
    """Put the base that pins.toml names into the store.

    Raises:
        TnpuError: it is not to be had, or its hash is not the one in pins.toml.
    """
    base = toolchain.image.base
    assert base is not None
    say(f"fetching {base.image}@{base.digest}")
    found = _prefetch(toolchain, base, nix_, say)
    if found != base.hash:
        raise TnpuError(
            f"image.base.hash in pins.toml is {base.hash}, but the archive of"
            f" {base.image}@{base.digest} has {found}",
            "another version of skopeo may make another archive; `tnpu-nix bump base` of the"
            " same digest writes the hash",
        )


def has_credentials(toolchain: Toolchain, base: Base) -> bool:
    """Tell whether we have credentials for a base's registry; pullImage's sandbox has none.

    Raises:
        TnpuError: an auth file cannot be read.
    """
    return _credentials(toolchain, reference.parse(base.image)) is not None


def _credentials(toolchain: Toolchain, named: Reference) -> Credentials | None:
    credentials.bind(_owner(toolchain, named))
    return credentials.find(named)


def _prefetch(toolchain: Toolchain, base: Base, nix_: Nix, say: Say) -> str:
    """Put the archive into the store as pullImage does, and return its SRI hash.

    Source: nixpkgs' pullImage, which has skopeo copy the image of that digest to a docker archive
    that carries the image's name and tag, and takes the archive as a flat file.
    """
    with git.temporary_folder() as scratch, _auth_file(toolchain, base) as variables:
        file = scratch / base.archive_name
        argv: list[str | Path] = [
            *_skopeo(toolchain, nix_, say),
            *("--insecure-policy", "--override-os", "linux", "--override-arch", "amd64"),
            *("copy", "--quiet", *_tls(base)),
            f"docker://{base.image}@{base.digest}",
            f"docker-archive:{file}:{base.image}:{base.tag}",
        ]
        env = {**nix_.environment(), **variables}
        done = process.run(argv, env=env, timeout=_TIMEOUT)
        if done.status != 0:
            said = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
            raise TnpuError(f"skopeo failed on {base.image}: {said}", _hint(base, said))
        return _add(nix_, file)


def _hint(base: Base, said: str) -> str:
    """Return what to do about a failure of skopeo, whose last line is what it *said*."""
    # Registries use one for the other: who may not know of a repository is not told of it.
    if not re.search(r"unauthorized|authentication required|denied|forbidden", said, re.I):
        return "check the registry"
    host = reference.parse(base.image).host
    return (
        f"log in: `docker login {host}` or `skopeo login {host}`, or set {credentials.VARIABLES}"
        f" (read: {credentials.described()})"
    )


def _add(nix_: Nix, file: Path) -> str:
    argv: list[str | Path] = ["nix-store", "--add-fixed", "sha256", file]
    done = process.run(argv, env=nix_.environment(), timeout=None)
    if done.status != 0:
        raise nix.failure("adding the base image to the Nix store", done.stderr)
    with file.open("rb") as archive:
        return sri(hashlib.file_digest(archive, "sha256").digest())


def _tls(base: Base) -> list[str]:
    # A registry on this machine may speak plain HTTP; skopeo tries that only when told.
    return ["--src-tls-verify=false"] if reference.parse(base.image).is_loopback else []


def _owner(toolchain: Toolchain, base: Reference) -> str:
    """Return the host that the variables with credentials are for: the one that we push to."""
    ours = toolchain.image.registry
    return base.host if ours is None else reference.parse(f"{ours}/{base.name}").host


@contextlib.contextmanager
def _auth_file(toolchain: Toolchain, base: Base) -> Iterator[dict[str, str]]:
    """Yield the variable by which skopeo finds what we know of the registry's credentials.

    They lie in memory: a command that is killed leaves no file with a password.
    """
    named = reference.parse(base.image)
    known = _credentials(toolchain, named)
    if known is None or known.is_token:
        yield {}  # skopeo looks at the same files as we do
        return
    entry = {"auths": {named.host: {"auth": known.basic.removeprefix("Basic ")}}}
    with os.fdopen(os.memfd_create("auth.json"), "w") as file:
        json.dump(entry, file)
        file.flush()
        yield {"REGISTRY_AUTH_FILE": f"/proc/{os.getpid()}/fd/{file.fileno()}"}


def _skopeo(toolchain: Toolchain, nix_: Nix, say: Say) -> list[str | Path]:
    """Return the words that run skopeo: that of nixpkgs, which pullImage will use, if it is there.

    Another version may write another archive of the same image.
    """
    if not nix_.offline_profile:
        package = flake.package_set(toolchain, nix_).partition("#")[0]
        options = ["--option", "connect-timeout", "5", "--option", "download-attempts", "1"]
        words: list[str | Path] = [
            "nix",
            "shell",
            f"{package}#skopeo",
            *options,
            "--command",
            "skopeo",
        ]
        tried = process.run([*words, "--version"], env=nix_.environment(), timeout=None)
        if tried.status == 0:
            return words
    found = process.run(["skopeo", "--version"]).stdout.strip()
    say(f"taking {found} from PATH; the hash is that of an archive as this version writes it")
    return ["skopeo"]
