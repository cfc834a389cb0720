"""What a Nix store says without building: what is missing, how large paths are, who needs whom."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tnpu_nix import process
from tnpu_nix.nix import Nix, failure

_BUILT = re.compile(r"(?:this|these).* derivations? will be built:")
_FETCHED = re.compile(r"(?:this|these).* paths? will be fetched")
_FOLDER = "/nix/store"  # of a store of its own, too
_PATH = re.compile(r"  (/\S+)$")
# One edge of `nix-store --query --graph`: what is needed, and what needs it.
_EDGE = re.compile(r'^"([^"]+)" -> "([^"]+)" ', re.M)


@dataclass(frozen=True)
class Missing:
    """What a build would do, as Nix plans it."""

    built: list[str]  # derivations, in the order that Nix would build them in
    fetched: list[str]  # store paths that a substituter has


@dataclass(frozen=True)
class PathInfo:
    """A store path that is there, in a store or in a binary cache."""

    size: int  # bytes of its NAR
    closure: int | None  # bytes of the NARs of its closure; None where nobody asked
    download: int | None  # bytes of the file in a binary cache


def dry_run(
    argv: Sequence[str], nix: Nix, what: str, meanwhile: Callable[[], None] = lambda: None
) -> Missing:
    """Run a command of nix with ``--dry-run`` and return what it says it would do.

    Args:
        meanwhile: called while nix is at it; what it raises ends that.

    Raises:
        TnpuError: it fails; *what* is what it was to find out.
    """
    nowhere = Path(os.devnull)
    words = [*argv, "--dry-run"]
    with process.stream_stderr(words, env=nix.environment(), stdout_file=nowhere) as running:
        assert running.stderr is not None
        meanwhile()
        said = process.mask(running.stderr.read())
        status = running.wait()
    if status != 0:
        raise failure(what, said)
    missing = Missing([], [])
    into: list[str] | None = None
    for line in said.splitlines():
        if found := _PATH.match(line):
            if into is not None:
                into.append(found[1])
        elif _BUILT.match(line):
            into = missing.built
        else:
            into = missing.fetched if _FETCHED.match(line) else None
    return missing


def path_infos(
    paths: Iterable[str], nix: Nix, cache: str | None = None, closure: bool = False
) -> dict[str, PathInfo]:
    """Return what the store, or the binary cache *cache*, knows of those *paths* that it holds.

    Nothing is known where it cannot be asked.
    """
    wanted = list(paths)
    if not wanted:
        return {}
    argv = ["nix", "path-info", "--json", *(["--closure-size"] if closure else []), *wanted]
    try:
        done = process.run([*argv, *(["--store", cache] if cache else [])], env=nix.environment())
        answer = json.loads(done.stdout)
    except (ValueError, process.TimedOutError):
        return {}
    return {
        path: PathInfo(one["narSize"], one.get("closureSize"), one.get("downloadSize"))
        for path, one in by_path(answer).items()
        if one is not None
    }


def by_path(answer: Any) -> dict[str, dict[str, Any] | None]:
    """Read the JSON of `nix path-info`: path → what is known of it, None if it is not there.

    Nix 2.8 prints a list, in which missing paths have ``"valid": false``; newer ones an object by
    path, in which they are null.
    """
    if isinstance(answer, list):
        return {one["path"]: one if one.get("valid", True) else None for one in answer}
    return dict(answer)


def substituters(nix: Nix) -> list[str]:
    """Return the URLs of the binary caches that nix is set to use, in its order."""
    # The older name; later ones warn of it on standard error.
    done = process.run(["nix", "show-config", "--json"], env=nix.environment())
    try:
        value = json.loads(done.stdout)["substituters"]["value"]
    except (ValueError, KeyError):
        return []
    return value.split() if isinstance(value, str) else [str(one) for one in value]


def derivation_graph(derivations: Iterable[str], nix: Nix) -> dict[str, set[str]]:
    """Return each derivation that *derivations* need, themselves included → what it needs itself.

    Sources that are files of the store, and no derivations, are left out.

    Raises:
        TnpuError: the store cannot be asked.
    """
    graph = reference_graph(derivations, nix)
    return {
        path: {one for one in needed if one.endswith(".drv")}
        for path, needed in graph.items()
        if path.endswith(".drv")
    }


def reference_graph(paths: Iterable[str], nix: Nix) -> dict[str, set[str]]:
    """Return each path that *paths*, which are valid, refer to, and themselves → what it refers to.

    Raises:
        TnpuError: the store cannot be asked.
    """
    graph: dict[str, set[str]] = {path: set() for path in paths}
    if not graph:
        return graph
    argv = ["nix-store", "--query", "--graph", *graph]
    done = process.run(argv, env=nix.environment(), timeout=None)
    if done.status != 0:
        raise failure("asking for the graph of references", done.stderr)
    for needed, by in _EDGE.findall(done.stdout):
        graph.setdefault(f"{_FOLDER}/{by}", set()).add(f"{_FOLDER}/{needed}")
        graph.setdefault(f"{_FOLDER}/{needed}", set())
    return graph
