"""What a build would do now: which components it builds, has from a cache, or finds there."""

from __future__ import annotations

import contextlib
import os
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from tnpu_nix import anew, evaluated, flake, history, ondisk, place, store
from tnpu_nix.flake import Output, derivation_name
from tnpu_nix.nix import Nix
from tnpu_nix.repository import checkout_name
from tnpu_nix.terminal import size_text

if TYPE_CHECKING:
    from tnpu_nix.pins import Toolchain

COMPONENTS = (
    *("llvm", "mlir", "lld", "llvm-toolchain", "llvm-tools", "triton", "python-env"),
    *("spike", "pk", "tnpu-image"),
)
BUILT, SUBSTITUTED, THERE, UNNEEDED = "built", "substituted", "there", "unneeded"
# As nix/sources.nix names the checkouts.
_SOURCE = re.compile(r'^ +name = "([^"]+)";', re.M)


@dataclass(frozen=True)
class Component:
    """A component, and what a build would do about it."""

    name: str  # one of COMPONENTS, or the target
    derivation: str  # store path, .drv
    paths: dict[str, str]  # output → store path
    version: str | None
    source: str | None  # name of the checkout it is built from, REPO-REV7
    state: str  # BUILT, SUBSTITUTED, THERE, or UNNEEDED: neither there nor asked for
    size: int | None  # bytes of the outputs' NARs, where the store or a cache knows them
    closure: int | None  # bytes of the NARs of the first output's closure, where it is there
    download: int | None  # bytes to download, where it is substituted
    seconds: float | None  # that its last build took
    rebuilt: bool | None = None  # by a bump: whether it is another derivation; None: no bump


@dataclass(frozen=True)
class Plan:
    """What a build of a target would do."""

    target: str
    components: list[Component]
    built: list[str]  # derivations that are no components, and no sources
    sources: list[str]  # derivations of sources that would be fetched
    substituted: dict[str, int | None]  # every path from a cache → bytes to download
    seconds: float  # that the builds took the last time, as far as known
    untimed: int  # how many derivations that would be built have never been timed
    needs: dict[str, list[str]] | None = None  # component → components; None: nobody asked
    tokens: dict[str, str] = field(default_factory=dict)  # source → variable that lacks its token
    gone: list[str] = field(default_factory=list)  # needed, valid to Nix, and not on the disk

    def states(self, state: str) -> list[Component]:
        """Return the components in that state."""
        return [one for one in self.components if one.state == state]

    def moved(self, rebuilt: bool) -> list[str]:
        """Return the components that a bump makes other derivations of, or the ones it does not."""
        return [one.name for one in self.components if one.rebuilt is rebuilt]

    @property
    def download(self) -> int | None:
        """Bytes to download from caches; None where a cache does not say."""
        sizes = list(self.substituted.values())
        return None if None in sizes else sum(size for size in sizes if size is not None)


def table(plan: Plan) -> list[list[str]]:
    """Return the components as rows of words, the headings first.

    A column in which nothing stands below its heading is left out.
    """
    rows: list[tuple[str, ...]] = [
        ("component", "state", "download", "size", "closure", "last build", "from")
    ]
    rows += [_row(one) for one in plan.components]
    columns = [column for column in zip(*rows, strict=True) if any(column[1:])]
    return [list(row) for row in zip(*columns, strict=True)]


def lines(plan: Plan) -> list[str]:
    """Return a plan for people: a table of the components, and what there is to do in all."""
    rows = table(plan)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    padded = ([word.ljust(width) for word, width in zip(row, widths, strict=True)] for row in rows)
    shown = ["  ".join(row).rstrip() for row in padded]
    rebuilt, kept = plan.moved(True), plan.moved(False)
    moves = [f"rebuilds {', '.join(rebuilt)}"] if rebuilt else []
    moves += [f"keeps    {', '.join(kept)}"] if kept else []
    return [*shown, "", *moves, *work(plan)]


def _row(one: Component) -> tuple[str, ...]:
    sizes = (one.download, one.size, one.closure)
    took = "" if one.seconds is None else history.duration(one.seconds)
    shown = ("" if number is None else size_text(number) for number in sizes)
    return (one.name, one.state, *shown, took, one.source or one.version or "")


def work(plan: Plan) -> list[str]:
    """Return what there is to do in all: a line each for builds, sources and downloads."""
    said = []
    components = len(plan.states(BUILT))
    if count := components + len(plan.built):
        known = f"at least {history.duration(plan.seconds)} by the last builds"
        untimed = f"{plan.untimed} never timed here" if plan.untimed else ""
        how_long = ", ".join(
            word for word in (known if plan.untimed < count else "", untimed) if word
        )
        others = _counted(len(plan.built), "other derivation")
        said.append(f"builds {_counted(components, 'component')} and {others}: {how_long}")
    if plan.sources:
        names = ", ".join(derivation_name(one) for one in plan.sources)
        said.append(f"fetches {_counted(len(plan.sources), 'source')}: {names}")
    said += [
        f"{name} needs a token, and the variable {variable} is not set"
        for name, variable in plan.tokens.items()
    ]
    if plan.substituted:
        bytes_ = "" if plan.download is None else f", {size_text(plan.download)}"
        said.append(f"downloads {_counted(len(plan.substituted), 'store path')}{bytes_}")
    if plan.gone:
        names = ", ".join(derivation_name(one) for one in plan.gone)
        said.append(f"gone from the disk although Nix has it in its books: {names}")
    return said or [f"nothing to build or to fetch: {plan.target} is there"]


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


@dataclass
class _Sizes:
    """What store and caches know of paths."""

    here: dict[str, store.PathInfo]
    there: dict[str, store.PathInfo] = field(default_factory=dict)


def names(target: str) -> list[str]:
    """Return what a plan of *target* shows: the components, and the target if it is none."""
    return list(dict.fromkeys((*COMPONENTS, target)))


def plan(
    root: Path, target: str, nix: Nix, check: Callable[[], None], *, needs: bool = False
) -> Plan:
    """Return what building *target*, one of `flake.TARGETS`, would do now.

    Args:
        check: as for `evaluated.outputs`.
        needs: ask the derivations, too, which component is built from which.

    Raises:
        TnpuError: the flake does not evaluate, or what *check* raises.
    """
    found = evaluated.outputs(root, names(target), nix, check)
    made = _plan(root, target, found, nix, history.load(root), needs)
    return replace(made, tokens=_tokens(root, made.sources))


def plan_of_bump(
    root: Path, bumped: Toolchain, target: str, nix: Nix, *, needs: bool = False
) -> Plan:
    """Return what building *target* would do if pins.toml were *bumped*; nothing is written.

    A component counts as rebuilt if it is another derivation than now.

    Raises:
        TnpuError: the flake does not evaluate, as it is or as it would be.
    """
    with flake.copied(root) as copy:
        before = flake.evaluate(copy, nix, names(target))
    with _rendered(root, bumped) as copy:
        after = flake.evaluate(copy, nix, names(target))
        made = _plan(copy, target, after, nix, history.load(root), needs)
    components = [
        replace(one, rebuilt=before[one.name].derivation != one.derivation)
        for one in made.components
    ]
    return replace(made, components=components, tokens=_tokens(root, made.sources))


@contextlib.contextmanager
def _rendered(root: Path, toolchain: Toolchain) -> Iterator[Path]:
    """Yield a copy of the flake as it would be generated from *toolchain*."""
    # Here and not above: nobody else needs the templates.
    from tnpu_nix import project

    with flake.copied(root) as copy:
        for one in project.differences(copy, toolchain):
            path = copy / one.path
            path.unlink(missing_ok=True)
            if one.wanted is not None:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(one.wanted)
        yield copy


def _plan(
    root: Path,
    target: str,
    found: Mapping[str, Output],
    nix: Nix,
    took: Mapping[str, float],
    with_needs: bool,
) -> Plan:
    paths = [path for one in found.values() for path in one.paths.values()]
    held: dict[str, store.PathInfo] = {}
    missing = _missing(
        root,
        target,
        found[target],
        nix,
        lambda: held.update(store.path_infos(paths, nix, closure=True)),
    )
    absent = set(ondisk.gone(nix, held))
    here = {path: info for path, info in held.items() if path not in absent}
    lost = _gone(found[target], missing, held, here, nix)
    sizes = _Sizes(here, _in_caches([*missing.fetched, *lost], root, nix))
    missing, lost = _with_gone(missing, lost, found[target], sizes, root, nix)
    components = [_component(found[name], missing, sizes, took) for name in names(target)]
    known = {one.derivation for one in found.values()}
    checkouts = set(_SOURCE.findall((root / "nix" / "sources.nix").read_text()))
    # They come from git; Nix calls fetching them a build.
    sources = [one for one in missing.built if derivation_name(one) in checkouts]
    building = [one for one in missing.built if one not in sources]
    timed = [took.get(history.component(derivation_name(one))) for one in building]
    return Plan(
        target,
        components,
        [one for one in building if one not in known],
        sources,
        {path: _download(sizes.there.get(path)) for path in missing.fetched},
        round(sum(one for one in timed if one is not None), 1),
        timed.count(None),
        _needs(found, nix) if with_needs else None,
        gone=lost,
    )


def _tokens(root: Path, sources: list[str]) -> dict[str, str]:
    """Return those *sources* that a token is needed for, and the variables, which are not set."""
    if not sources:
        return {}
    # The file alone, which was checked: the model of it takes long to load.
    pins = tomllib.loads((root / place.FILE_NAME).read_text())["pins"].values()
    named = {checkout_name(pin["url"], pin["rev"]): pin.get("token-env") for pin in pins}
    wanted = {name: named.get(name) for name in map(derivation_name, sources)}
    return {name: one for name, one in wanted.items() if one and not os.environ.get(one)}


def _gone(
    target: Output,
    missing: store.Missing,
    held: Mapping[str, store.PathInfo],
    here: Mapping[str, store.PathInfo],
    nix: Nix,
) -> list[str]:
    """Return what is gone from the disk, and that a build of the target has a use for.

    All that a built target consists of is looked at. Of what goes into one still to be built, the
    components are, which costs nothing: a build finds the rest, too.

    Args:
        held: outputs of components that Nix has in its books.
        here: those of them that are on the disk.
    """
    ours = [path for name in target.installed if (path := target.paths[name]) in held]
    needed = ondisk.requisites(nix, ours)
    if len(here) < len(held):
        needed += ondisk.requisites(nix, missing.built, outputs=True)
    return list(dict.fromkeys(ondisk.gone(nix, needed)))


def _with_gone(
    missing: store.Missing,
    lost: list[str],
    target: Output,
    sizes: _Sizes,
    root: Path,
    nix: Nix,
) -> tuple[store.Missing, list[str]]:
    """Add what is gone from the disk to what is missing: a cache has it, or it is built.

    What is built for that is looked at in turn, as Nix takes its inputs to be there. Returned is
    also all that is gone.
    """
    if not lost:
        return missing, lost
    by = ondisk.derivers(nix, lost, target.derivation)

    def cached(paths: list[str]) -> Mapping[str, store.PathInfo]:
        sizes.there.update(found := _in_caches(paths, root, nix))
        return found

    more = anew.made(
        [by[path] for path in lost if path in by and path not in sizes.there], nix, cached
    )
    fetched = [path for path in (*lost, *more.fetched) if path in sizes.there]
    return (
        store.Missing(
            list(dict.fromkeys([*missing.built, *more.built])),
            list(dict.fromkeys([*missing.fetched, *fetched])),
        ),
        list(dict.fromkeys([*lost, *more.gone])),
    )


def _missing(
    root: Path, target: str, output: Output, nix: Nix, meanwhile: Callable[[], None]
) -> store.Missing:
    what = f"planning {target}"
    if flake.names_caches(root):
        # Whether this user trusts them is known only where the flake itself is built.
        with flake.copied(root) as copy:
            argv = ["nix", "build", *flake.installable(nix, copy, target), "--no-link"]
            return store.dry_run(argv, nix, what, meanwhile)
    wanted = f"{output.derivation}!{','.join(output.installed)}"
    return store.dry_run(["nix-store", "--realise", wanted], nix, what, meanwhile)


def _in_caches(paths: list[str], root: Path, nix: Nix) -> dict[str, store.PathInfo]:
    """Return what the first cache that has each of the paths says of it."""
    known: dict[str, store.PathInfo] = {}
    for cache in [*store.substituters(nix), *flake.own_caches(root, nix)] if paths else []:
        unknown = [path for path in paths if path not in known]
        known |= store.path_infos(unknown, nix, cache)
    return known


def _download(info: store.PathInfo | None) -> int | None:
    return None if info is None else info.download


def _component(
    one: Output, missing: store.Missing, sizes: _Sizes, took: Mapping[str, float]
) -> Component:
    paths = [one.paths[name] for name in one.installed]
    here = [sizes.here[path] for path in paths if path in sizes.here]
    there = [sizes.there[path] for path in paths if path in sizes.there]
    downloads = [info.download for info in there if info.download is not None]
    if one.derivation in missing.built:
        state = BUILT
    elif any(path in missing.fetched for path in paths):
        state = SUBSTITUTED
    else:
        state = THERE if len(here) == len(paths) else UNNEEDED
    return Component(
        one.name,
        one.derivation,
        one.paths,
        one.version,
        one.source,
        state,
        size=sum(info.size for info in here + there) if here + there else None,
        closure=here[0].closure if state == THERE else None,
        download=sum(downloads) if downloads else None,
        seconds=took.get(history.component(derivation_name(one.derivation))),
    )


def _needs(found: Mapping[str, Output], nix: Nix) -> dict[str, list[str]]:
    """Return component → the components it is built from, whatever derivations lie between.

    Those are left out that another one of its needs brings along: a derivation names its inputs'
    inputs, too, where it forbids references to them.
    """
    whole = store.derivation_graph([one.derivation for one in found.values()], nix)
    names = {one.derivation: one.name for one in found.values()}
    needs = {one.name: _nearest(one.derivation, whole, names) for one in found.values()}

    def reached(name: str) -> set[str]:
        return needs[name].union(*map(reached, needs[name]))

    direct = {name: all_.difference(*map(reached, all_)) for name, all_ in needs.items()}
    return {name: [one for one in needs if one in direct[name]] for name in needs}


def _nearest(start: str, graph: Mapping[str, set[str]], names: Mapping[str, str]) -> set[str]:
    """Return the names that are met first on all ways through the graph."""
    met: set[str] = set()
    ahead = list(graph[start])
    while ahead:
        if (path := ahead.pop()) not in met:
            met.add(path)
            ahead += [] if path in names else graph[path]
    return {names[path] for path in met if path in names}
