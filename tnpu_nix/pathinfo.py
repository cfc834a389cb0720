"""What the store knows of store paths and derivations, and whether they are as it says."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tnpu_nix import git, process, store
from tnpu_nix.nix import Nix, failure, version
from tnpu_nix.storepath import is_store_path, sri
from tnpu_nix.terminal import uncoloured

# "nix derivation show" is what "nix show-derivation" has been called since.
_NEW_NAMES = (2, 14)


@dataclass(frozen=True)
class PathInfo:
    """A store path as the store's database has it."""

    path: str
    nar_hash: str  # SRI
    nar_size: int  # bytes
    references: tuple[str, ...]  # store paths


def path_infos(nix: Nix, paths: Iterable[str], *, recursive: bool = False) -> dict[str, PathInfo]:
    """Return what the store knows of store paths; those that it does not know are left out.

    So are derivations, and what is no store path.

    Args:
        recursive: of the paths' whole closures; none at all if one of the paths is not known.

    Raises:
        TnpuError: the store cannot be asked.
    """
    # Nix would take what is no store path for something else to look up: a flake, an output. A
    # derivation it takes for its outputs.
    wanted = [path for path in paths if is_store_path(path) and not path.endswith(".drv")]
    if not wanted or (nix.store is not None and not _made(nix)):
        return {}
    # The store is asked for what it has, not for what substituters would give it.
    argv = ["nix", "path-info", "--json", "--offline", *wanted]
    argv += ["--recursive"] if recursive else []
    done = process.run(argv, env=nix.environment(), timeout=None)
    if done.status != 0:
        if re.search(r"is not valid|don't know how to build|does not exist", done.stderr):
            return {}
        raise failure(f"asking the store for {len(wanted)} store paths", done.stderr)
    found = store.by_path(json.loads(done.stdout))
    return {path: _info(path, one) for path, one in found.items() if one is not None}


def _made(nix: Nix) -> bool:
    # Asking could make a store of its own.
    return nix.on_disk("/nix/store").is_dir()


def _info(path: str, entry: dict[str, Any]) -> PathInfo:
    return PathInfo(
        path,
        sri(entry["narHash"]),
        int(entry["narSize"]),
        tuple(str(one) for one in entry.get("references", [])),
    )


def is_intact(nix: Nix, *paths: str) -> bool:
    """Tell whether what lies at store paths has the NAR hashes that the store's database says."""
    argv = ["nix-store", "--verify-path", *paths]
    return process.run(argv, env=nix.environment(), timeout=None).status == 0


@contextlib.contextmanager
def being_hashed(nix: Nix, paths: Iterable[str]) -> Iterator[Callable[[], list[str]]]:
    """Have Nix hash what lies at store paths, beside what the block does meanwhile.

    Yields a function that waits for it and returns the paths that are not as the store's database
    says: altered, damaged, or gone.
    """
    argv = ["nix-store", "--verify-path", *paths]
    with (
        git.temporary_folder() as scratch,
        process.stream_stderr(argv, env=nix.environment(), stdout_file=scratch / "out") as running,
    ):

        def wait() -> list[str]:
            assert running.stderr is not None
            said = uncoloured(running.stderr.read())
            if running.wait() == 0:
                return []
            found = re.findall(r"path '([^']+)' was modified|'[^']*(/nix/store/[^/']+)[^']*'", said)
            if not found:
                raise failure("checking the store", said)
            return list(dict.fromkeys(altered or gone for altered, gone in found))

        yield wait


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
    return {
        re.sub(r"^[0-9a-z]{32}-|\.drv$", "", path.rsplit("/", 1)[-1]): environment_of(one)
        for path, one in shown(nix, found).items()
    }


def shown(nix: Nix, derivations: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return each of some derivations as Nix shows it in JSON.

    Raises:
        TnpuError: the store does not know one of them.
    """
    if not derivations:
        return {}
    words = ["derivation", "show"] if version() >= _NEW_NAMES else ["show-derivation"]
    done = process.run(["nix", *words, *derivations], env=nix.environment(), timeout=None)
    if done.status != 0:
        raise failure("asking the store for derivations", done.stderr)
    answer = json.loads(done.stdout)
    return dict(answer.get("derivations", answer))


def environment_of(shown: dict[str, Any]) -> dict[str, Any]:
    """Return the environment of a derivation that is `shown`, with its structured attributes."""
    environment = dict(shown.get("env") or {})
    # With structured attributes all of it is one JSON text, or beside the environment.
    environment |= json.loads(environment.pop("__json", "{}"))
    environment |= shown.get("structuredAttrs") or {}
    return environment
