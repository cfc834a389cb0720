"""What a store or a binary cache knows of store paths and derivations, without their contents."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from tnpu_nix import process, store
from tnpu_nix.nix import Nix, failure, version
from tnpu_nix.prefetch import sri_from_base32

# A cache is asked each time: what it said yesterday proves nothing today.
_ASK_ANEW = (
    *("--option", "narinfo-cache-positive-ttl", "0"),
    *("--option", "narinfo-cache-negative-ttl", "0"),
)
# "nix derivation show" is what "nix show-derivation" has been called since.
_NEW_NAMES = (2, 14)


@dataclass(frozen=True)
class PathInfo:
    """A store path as a store's database or a cache's narinfo has it."""

    path: str
    nar_hash: str  # SRI
    nar_size: int  # bytes
    references: tuple[str, ...]  # store paths


def path_infos(
    nix: Nix, paths: Iterable[str], *, cache: str | None = None, recursive: bool = False
) -> dict[str, PathInfo]:
    """Return what is known of store paths; those that are not known are left out.

    Args:
        cache: URL of a binary cache to ask; None asks the store.
        recursive: of the paths' whole closures; none at all if one of the paths is not known.

    Raises:
        TnpuError: the store or cache cannot be asked.
    """
    wanted = list(paths)
    if not wanted or (cache is None and nix.store is not None and not _made(nix)):
        return {}
    argv = ["nix", "path-info", "--json", *(["--recursive"] if recursive else []), *wanted]
    done = process.run([*argv, *_at(cache)], env=nix.environment(), timeout=None)
    if done.status != 0:
        if re.search(r"is not valid|don't know how to build|does not exist", done.stderr):
            return {}
        raise failure(f"asking {cache or 'the store'} for {len(wanted)} store paths", done.stderr)
    found = store.by_path(json.loads(done.stdout))
    return {path: _info(path, one) for path, one in found.items() if one is not None}


def _made(nix: Nix) -> bool:
    # Asking could make a store of its own.
    return nix.on_disk("/nix/store").is_dir()


def _at(cache: str | None) -> list[str]:
    # The store is asked for what it has, not for what substituters would give it.
    return ["--offline"] if cache is None else ["--store", cache, *_ASK_ANEW]


def _info(path: str, entry: dict[str, Any]) -> PathInfo:
    return PathInfo(
        path,
        as_sri(entry["narHash"]),
        int(entry["narSize"]),
        tuple(str(one) for one in entry.get("references", [])),
    )


def as_sri(digest: str) -> str:
    """Return the SRI form of a sha256, also of ``sha256:`` and base32.

    Raises:
        ValueError: it is neither.
    """
    if digest.startswith("sha256-"):
        return digest
    return sri_from_base32(digest.removeprefix("sha256:"))


def unsigned(nix: Nix, paths: Iterable[str], cache: str, keys: Iterable[str]) -> set[str]:
    """Return those of a cache's paths that carry no signature of a trusted key.

    Args:
        keys: public keys to trust, beside those of the user's nix.conf.

    Raises:
        TnpuError: the cache cannot be asked.
    """
    wanted = list(paths)
    if not wanted:
        return set()
    argv = ["nix", "store", "verify", "--no-contents", "--sigs-needed", "1", *wanted]
    argv += [*_at(cache), "--option", "extra-trusted-public-keys", " ".join(keys)]
    done = process.run(argv, env=nix.environment(), timeout=None)
    found = set(re.findall(r"path '([^']+)' is untrusted", done.stderr))
    if done.status != 0 and not found:
        raise failure(f"asking {cache} for signatures", done.stderr)
    return found


def copy_from(nix: Nix, path: str, cache: str, keys: Iterable[str]) -> None:
    """Copy a store path from a cache into the store, if it is signed by a trusted key.

    Raises:
        TnpuError: the cache does not have it, or it is not signed.
    """
    argv = ["nix", "copy", "--from", cache, path, *_ASK_ANEW]
    argv += ["--option", "extra-trusted-public-keys", " ".join(keys)]
    done = process.run(argv, env=nix.environment(), timeout=None)
    if done.status != 0:
        raise failure(f"copying {path} from {cache}", done.stderr)


def is_intact(nix: Nix, *paths: str) -> bool:
    """Tell whether what lies at store paths has the NAR hashes that the store's database says."""
    argv = ["nix-store", "--verify-path", *paths]
    return process.run(argv, env=nix.environment(), timeout=None).status == 0


def derivations(nix: Nix, derivation: str, name: str) -> dict[str, dict[str, Any]]:
    """Return the derivations that one is built from and whose names match a regular expression.

    Returns:
        Name without hash and ``.drv`` → its environment, with the paths of its outputs.

    Raises:
        TnpuError: the store does not know the derivation.
    """
    done = process.run(
        ["nix-store", "--query", "--requisites", derivation], env=nix.environment(), timeout=None
    )
    if done.status != 0:
        raise failure(f"asking the store what {derivation} is built from", done.stderr)
    pattern = re.compile(rf"/[0-9a-z]{{32}}-(?:{name})\.drv")
    found = [path for path in done.stdout.split() if pattern.search(path)]
    if not found:
        return {}
    words = ["derivation", "show"] if version() >= _NEW_NAMES else ["show-derivation"]
    done = process.run(["nix", *words, *found], env=nix.environment(), timeout=None)
    if done.status != 0:
        raise failure("asking the store for derivations", done.stderr)
    answer = json.loads(done.stdout)
    shown = answer.get("derivations", answer)
    return {
        re.sub(r"^[0-9a-z]{32}-|\.drv$", "", path.rsplit("/", 1)[-1]): _environment(one)
        for path, one in shown.items()
    }


def _environment(shown: dict[str, Any]) -> dict[str, Any]:
    environment = dict(shown.get("env") or {})
    # With structured attributes all of it is one JSON text, or beside the environment.
    environment |= json.loads(environment.pop("__json", "{}"))
    environment |= shown.get("structuredAttrs") or {}
    return environment
