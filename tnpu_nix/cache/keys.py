"""Signing keys: made once, kept in a file that only its owner reads, never shown."""

from __future__ import annotations

import os
import re
import shlex
import stat
from collections.abc import Callable
from pathlib import Path

from tnpu_nix import process
from tnpu_nix.errors import TnpuError
from tnpu_nix.nix import Nix, failure

VARIABLE = "TNPU_SIGNING_KEY_FILE"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_SECRET = re.compile(r"[^:\s]+:[A-Za-z0-9+/]{86}==\s*")


def generate(name: str, file: Path, nix: Nix) -> str:
    """Make a key pair; the secret key goes to *file*, the public key line is returned.

    Raises:
        TnpuError: the file exists, or cannot be written; the name cannot be a key's.
    """
    if not _NAME.fullmatch(name):
        raise TnpuError(
            f"{name!r} is no name of a key", "take letters, digits and . _ -, as cache.example-1"
        )
    argv = ["nix", "key", "generate-secret", "--key-name", name]
    done = process.run(argv, env=nix.environment())
    if done.status != 0:
        raise failure("making a key", done.stderr)
    public = _public(done.stdout, nix)
    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError as error:
        raise TnpuError(
            f"{file} exists, and a key that is lost cannot be had again",
            "name another file with --file, or move that one away",
        ) from error
    try:
        with os.fdopen(descriptor, "w") as sink:
            sink.write(done.stdout)
    except OSError:
        file.unlink(missing_ok=True)  # half a key would be in the way of a whole one
        raise
    return public


def public_of(file: Path, nix: Nix, say: Callable[[str], None]) -> str:
    """Return the public key line that belongs to the secret key in *file*.

    *say* is told if others than the owner can read that file.

    Raises:
        TnpuError: the file cannot be read, or holds no secret key; its content is not repeated.
    """
    try:
        secret = file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise TnpuError(
            f"the signing key {file} cannot be read: {reason}",
            f"name its file with --key-file or in {VARIABLE}; `tnpu-nix cache keygen` makes one",
        ) from error
    if not _SECRET.fullmatch(secret):
        raise TnpuError(
            f"{file} holds no secret signing key", "name the file that `cache keygen` wrote"
        )
    mode = file.stat().st_mode
    if stat.S_ISREG(mode) and mode & 0o077:
        say(f"warning: others can read the secret key {file}: chmod 600 {shlex.quote(str(file))}")
    return _public(secret, nix)


def _public(secret: str, nix: Nix) -> str:
    argv = ["nix", "key", "convert-secret-to-public"]
    done = process.run(argv, env=nix.environment(), stdin=secret)
    if done.status != 0:
        raise TnpuError("the signing key cannot be used by nix", "make one with `cache keygen`")
    return done.stdout.strip()
