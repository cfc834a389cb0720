"""A build whose result lies on the disk, also where something else than Nix has deleted of it.

Nix would repair such a path by itself, and in a store of its own cannot: there it looks for what it
compares in /nix/store, finds nothing, and takes the whole machine's tools for damaged (worker and
derivation goals of Nix 2.8 to 2.26, pathContentsGood). So a path is realised once more in a scratch
store, which has all else from the damaged one, and is taken over from there by a substitution.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import quote

from tnpu_nix import build as builds
from tnpu_nix import flake, git, ondisk, process, store
from tnpu_nix.build import Built, Log, Watcher, run_logged
from tnpu_nix.errors import TnpuError
from tnpu_nix.nix import Nix
from tnpu_nix.pins import Toolchain
from tnpu_nix.repository import checkout_name
from tnpu_nix.sources import fetch
from tnpu_nix.storepath import fixed_output_path

Say = Callable[[str], None]


def build(
    root: Path, toolchain: Toolchain, target: str, nix: Nix, watch: Watcher, say: Say
) -> Built:
    """Do what `build.build` does, and bring back what is gone from the disk of the result.

    Its closure is looked at after a build, and what it is built from after one that failed.

    Raises:
        TnpuError: the build failed, or a path is gone that this user cannot bring back.
    """
    done: list[builds.Activity] = []
    while True:
        try:
            built = builds.build(root, target, nix, watch)
        except TnpuError:
            if not (lost := _inputs_gone(root, target, nix)):
                raise
        else:
            if not (lost := ondisk.gone(nix, ondisk.requisites(nix, built.paths))):
                return replace(built, activities=done + built.activities)
            done += built.activities
        for path in lost:
            say(f"{path} is gone from the disk although Nix has it in its books; made anew")
        if derivations := [path for path in lost if path.endswith(".drv")]:
            _forget(derivations, nix)  # the next evaluation writes them
        elif (home := ondisk.own_folder(nix)) is None:
            _repair_here(lost, _derivation(root, target, nix), nix)
        else:
            with _scratch(home, nix) as scratch:
                derivation = _derivation(root, target, nix)
                done += _make_anew(lost, derivation, toolchain, nix, scratch, watch, say)


def _inputs_gone(root: Path, target: str, nix: Nix) -> list[str]:
    """Return what is gone from the disk of all that a build still to be made needs."""
    with contextlib.suppress(TnpuError):
        derivation = _derivation(root, target, nix)
        # Of derivations that are gone nothing more can be asked.
        if lost := ondisk.gone(nix, ondisk.requisites(nix, [derivation])):
            return lost
        planned = store.dry_run(["nix-store", "--realise", derivation], nix, target)
        return ondisk.gone(nix, ondisk.requisites(nix, planned.built, outputs=True))
    return []


def _derivation(root: Path, target: str, nix: Nix) -> str:
    with flake.copied(root) as copy:
        return flake.evaluate(copy, nix, [target])[target].derivation


@contextlib.contextmanager
def _scratch(home: Path, nix: Nix) -> Iterator[Nix]:
    """Yield an empty store, on the same disk, that takes from the one in *home* what that has."""
    try:
        made = TemporaryDirectory(prefix=".tnpu-nix-", dir=home)
    except OSError as error:
        raise TnpuError(
            f"{home} cannot be written: {error.strerror}",
            "paths are gone from this store; its owner brings them back with `tnpu-nix build`",
        ) from error
    with made as folder:
        # What only the books of the other have fails to be copied, and is built.
        more = (*_reading(nix, home).config, "fallback = true")
        yield replace(nix, store=Path(folder), config=more)


def _reading(nix: Nix, other: Path | None) -> Nix:
    """Return how nix is run to take also from the store in another folder of this machine."""
    url = f"local?root={quote(str(other))}&trusted=true"
    return replace(nix, config=(*nix.config, f"extra-substituters = {url}"))


def _make_anew(
    lost: Sequence[str],
    derivation: str,
    toolchain: Toolchain,
    nix: Nix,
    scratch: Nix,
    watch: Watcher,
    say: Say,
) -> list[builds.Activity]:
    """Realise in the scratch store what *derivation* needs and is gone, and take it over."""
    known = ondisk.derivers(nix, lost, derivation)
    # What no derivation gives, a cache may give.
    wanted = list(dict.fromkeys(known.get(path, path) for path in lost))
    _fetch_sources({flake.derivation_name(path) for path in lost}, toolchain, nix, scratch, say)
    log, status = _realise(wanted, scratch, watch)
    if status != 0:
        # No cache has it: sources may be needed that the damaged store has not had for long.
        needed = ondisk.requisites(nix, [*known.values()])
        names = {flake.derivation_name(path) for path in needed if path.endswith(".drv")}
        if _fetch_sources(names, toolchain, nix, scratch, say):
            log, status = _realise(wanted, scratch, watch)
    if status != 0:
        raise builds.failed("what is gone from the disk", log)
    # What had to be built once more on the way there need not be so next time.
    inputs = ondisk.gone(nix, ondisk.requisites(nix, [*known.values()], outputs=True))
    also = [path for path in inputs if ondisk.is_on_disk(scratch, path)]
    argv = ["nix-store", "--repair-path", *dict.fromkeys([*also, *lost])]
    _repair(lost, argv, _reading(nix, scratch.store))
    return log.finished


def _fetch_sources(names: Set[str], toolchain: Toolchain, nix: Nix, scratch: Nix, say: Say) -> bool:
    """Fetch those sources that Nix cannot fetch and that neither store has; tell whether any."""
    found = False
    for name, pin in toolchain.pins.items():
        checkout = checkout_name(pin.url, pin.rev)
        if checkout not in names or not (scratch.offline_profile or pin.needs_credentials):
            continue
        path = fixed_output_path(pin.hash, checkout)
        if not any(ondisk.is_on_disk(one, path) for one in (nix, scratch)):
            fetch(toolchain, name, scratch, say)
            found = True
    return found


def _realise(wanted: Sequence[str], scratch: Nix, watch: Watcher) -> tuple[Log, int | None]:
    argv = ["nix-store", "--realise", *wanted, "--log-format", "internal-json"]
    log = Log(watch, builds.MAKING)  # what is copied on this disk is no news
    with git.temporary_folder() as folder:
        return log, run_logged(argv, scratch, log, folder / "answer")


def _repair_here(lost: Sequence[str], derivation: str, nix: Nix) -> None:
    """Let Nix itself repair the machine's own store, where it can."""
    known = ondisk.derivers(nix, lost, derivation)
    if known:
        _repair([*known], ["nix-store", "--realise", "--repair", *set(known.values())], nix)
    if others := [path for path in lost if path not in known]:
        _repair(others, ["nix-store", "--repair-path", *others], nix)


def _repair(lost: Sequence[str], argv: list[str], nix: Nix) -> None:
    done = process.run(argv, env=nix.environment(), timeout=None)
    if still := ondisk.gone(nix, lost):
        raise _not_ours(still[0], " ".join(argv), done.stderr)


def _forget(derivations: Sequence[str], nix: Nix) -> None:
    """Have Nix forget derivations, and those that are made of them; what they built stays."""
    asked = ["nix-store", "--query", "--referrers-closure"]
    users = process.run([*asked, *derivations], env=nix.environment()).stdout.split()
    argv = ["nix-store", "--delete", "--ignore-liveness"]
    argv += [path for path in users if path.endswith(".drv")]
    done = process.run(argv, env=nix.environment(), timeout=None)
    if done.status != 0:
        path = derivations[0]
        command = f"nix-store --delete --ignore-liveness $({' '.join(asked)} {path})"
        raise _not_ours(path, command, done.stderr)


def _not_ours(path: str, command: str, said: str) -> TnpuError:
    return TnpuError(
        f"{path} is gone from the disk although Nix has it in its books, and this user cannot"
        " bring it back",
        f"the owner of the store does, by `{command}`",
        tuple(said.splitlines()[-3:]),
        said,
    )
