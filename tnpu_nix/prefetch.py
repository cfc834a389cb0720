"""nix-prefetch-git as a subprocess: a revision of a repository → its hash, date and store path."""

from __future__ import annotations

import json
import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from tnpu_nix import git, process
from tnpu_nix.errors import TnpuError
from tnpu_nix.git_failure import failure as git_failure
from tnpu_nix.nix import Nix
from tnpu_nix.nix import failure as store_failure
from tnpu_nix.pins import Pin
from tnpu_nix.remote import Remote
from tnpu_nix.repository import checkout_name
from tnpu_nix.storepath import sri_from_base32

# Seconds for a whole source; LLVM's is half a gigabyte even without its history.
TIMEOUT = 3600.0

_SHIPPED = Path(__file__).with_name("nix-prefetch-git")


@dataclass(frozen=True)
class Prefetched:
    """A source in the store."""

    rev: str  # 40 hexadecimal digits
    hash: str  # SRI, of the NAR
    date: str  # of the commit, ISO 8601 with offset
    path: str  # store path


def program() -> Path:
    """Return the nix-prefetch-git that is used: the one on PATH, else the one shipped here."""
    found = shutil.which("nix-prefetch-git")
    return Path(found) if found else _SHIPPED


def prefetch(nix: Nix, pin: Pin, rev: str) -> Prefetched:
    """Put one revision of a pin's repository into the store.

    Args:
        pin: names the repository, and says whether submodules and Git LFS content are part of
            the source, and so of its hash.
        rev: 40 hexadecimal digits; need not be the pin's own.

    Raises:
        TnpuError: the repository, the revision or the store is not to be had.
    """
    chosen, url = program(), pin.url
    argv = [
        *(["bash", chosen] if chosen == _SHIPPED else [chosen]),
        *("--url", url, "--rev", rev, "--quiet"),
        # On a name that a store path cannot have, only the shipped program can help.
        *(["--name", checkout_name(url, rev)] if chosen == _SHIPPED else []),
        *(["--fetch-submodules"] if pin.submodules else []),
        *(["--fetch-lfs"] if pin.lfs else []),
    ]
    with git.isolated(pin.remote) as env:
        # It takes the netrc from NETRC; nix has settings in the user's own home.
        home = {"HOME": os.environ["HOME"]} if "HOME" in os.environ else {}
        done = process.run(argv, env={**env, **home, **nix.variables()}, timeout=TIMEOUT)
    if done.status != 0:
        raise _failure(pin.remote, rev, done.stderr)
    return _parse(url, rev, done.stdout)


def _failure(remote: Remote, rev: str, stderr: str) -> TnpuError:
    if re.search(r"'lfs' is not a git command|git-lfs: (?:command )?not found", stderr):
        return TnpuError(f"{remote.url} needs git-lfs, which is not installed", "install git-lfs")
    if re.search(r"^error: ", stderr, re.M) and "fatal: " not in stderr:
        return store_failure("adding the source to the Nix store", stderr)
    return git_failure(remote, stderr, rev)


def _parse(url: str, rev: str, stdout: str) -> Prefetched:
    """Read nix-prefetch-git's answer; older ones give `sha256` in base32 and no `hash`."""
    try:
        answer = json.loads(stdout)
        found = Prefetched(
            rev=answer["rev"],
            hash=answer.get("hash") or sri_from_base32(answer["sha256"]),
            # Newer git writes UTC as "Z"; pins.toml should not change with git's version.
            date=re.sub(r"Z$", "+00:00", answer["date"]),
            path=answer["path"],
        )
    except (ValueError, KeyError, TypeError) as error:
        raise TnpuError(
            f"{program()} printed no answer that can be read for {url}",
            "update it, or take it off PATH: tnpu-nix ships one of its own",
        ) from error
    if found.rev != rev or not found.date or not found.path:
        raise TnpuError(
            f"{program()} answered for revision {found.rev or 'none'} instead of {rev}",
            "run the command again; if it stays so, take that program off PATH",
        )
    return found
