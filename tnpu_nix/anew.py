"""What has to be built once more where outputs of derivations are gone from the disk.

A build makes them anew in a scratch store (`restore`), which takes from the damaged one what is
whole there: with all that it refers to. For the rest Nix builds in it, and looks at its inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tnpu_nix import ondisk, pathinfo, process, store
from tnpu_nix.nix import Nix


@dataclass
class Anew:
    """What making something anew comes to."""

    built: list[str] = field(default_factory=list)  # derivations
    fetched: list[str] = field(default_factory=list)  # store paths that a cache has
    gone: list[str] = field(default_factory=list)  # store paths, valid to Nix, not on the disk


@dataclass(frozen=True)
class _Maker:
    derivation: str
    always: bool  # it is not to be substituted (allowSubstitutes), not even from the other store


def made(
    derivations: Sequence[str], nix: Nix, cached: Callable[[list[str]], Container[str]]
) -> Anew:
    """Return what is built and fetched to build *derivations* from what is whole in the store.

    Args:
        cached: returns those of some store paths that a cache has.

    Raises:
        TnpuError: the store cannot be asked.
    """
    found = Anew()
    ahead = list(dict.fromkeys(derivations))
    while ahead:
        found.built += ahead
        makers = _inputs(ahead, nix)
        lost = _lost(list(makers), nix, cached, found)
        wanted = [by.derivation for path, by in makers.items() if by.always or path in lost]
        ahead = [one for one in dict.fromkeys(wanted) if one not in found.built]
    return found


def _inputs(derivations: Sequence[str], nix: Nix) -> dict[str, _Maker]:
    """Return the outputs that derivations are built from, and what each of them is built by."""
    wanted: dict[str, list[str]] = {}
    for one in pathinfo.shown(nix, derivations).values():
        for derivation, asked in one["inputDrvs"].items():
            names = asked["outputs"] if isinstance(asked, dict) else asked  # since Nix 2.18
            wanted.setdefault(derivation, []).extend(names)
    found: dict[str, _Maker] = {}
    for derivation, one in pathinfo.shown(nix, list(wanted)).items():
        allowed = pathinfo.environment_of(one).get("allowSubstitutes", True)
        maker = _Maker(derivation, always=allowed in ("", "0", False))
        outputs = (one["outputs"][name].get("path") for name in wanted[derivation])
        # Where an output goes is not always known before it is built.
        found |= {path: maker for path in outputs if path}
    return found


def _lost(
    paths: Sequence[str], nix: Nix, cached: Callable[[list[str]], Container[str]], found: Anew
) -> set[str]:
    """Return those of *paths* that neither store nor caches give with all that they refer to."""
    argv = ["nix-store", "--check-validity", "--print-invalid", *paths]
    done = process.run(argv, env=nix.environment()) if paths else None
    never = set(done.stdout.split()) if done is not None else set()
    references = store.reference_graph([path for path in paths if path not in never], nix)
    gone = ondisk.gone(nix, references)
    wanted = [path for path in (*gone, *sorted(never)) if path not in found.fetched]
    there = cached(wanted)
    found.fetched += [path for path in wanted if path in there]
    found.gone += [path for path in gone if path not in found.gone]
    return _reaching({path for path in (*gone, *never) if path not in found.fetched}, references)


def _reaching(ends: Iterable[str], references: Mapping[str, set[str]]) -> set[str]:
    """Return *ends*, and all that refers to one of them."""
    users: dict[str, list[str]] = {}
    for path, needed in references.items():
        for one in needed:
            users.setdefault(one, []).append(path)
    reached: set[str] = set()
    ahead = list(ends)
    while ahead:
        if (path := ahead.pop()) not in reached:
            reached.add(path)
            ahead += users.get(path, [])
    return reached
