"""A build that may take from the caches of pins.toml, and that no cache can hold up or fail."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar, cast

from tnpu_nix import evaluated, git, plan, process, store
from tnpu_nix.build import FAILED_AT, Activity, Built, Log, Watcher, run_logged
from tnpu_nix.cache import local, narinfo, settings, stores
from tnpu_nix.cache.access import Access
from tnpu_nix.cache.pull import BROKE_OFF
from tnpu_nix.cache.refused import Teller
from tnpu_nix.cache.stores import Cache
from tnpu_nix.errors import TnpuError
from tnpu_nix.flake import derivation_name
from tnpu_nix.nix import Nix

Result = TypeVar("Result")
Say = Callable[[str], None]
Prepare = Callable[[Sequence[str]], bool]
# What Nix says when a cache claims to have a path, and does not give it whole.
_REFUSED = re.compile(r"some substitutes for the outputs of derivation '([^']+\.drv)' failed")
# What makes it give up all caches; which cache it is about, it does not say.
_CORRUPT = re.compile(r"NAR info file '([0-9a-z]{32})\.narinfo' is corrupt")


# What else it says, or dies with, when it is at a cache and not at a build.
_AT_A_CACHE = re.compile(
    r"Assertion `|terminate called|stoi|NAR info|narinfo|substitut|binary cache|is incomplete"
    r"|File exists|content-addressed|signature|invalid (?:hash|base)|importing|status 5\d\d"
)

_AT_A_BUILD = re.compile("builder for '|builder failed|Cannot build '")


def _unwatched(running: dict[int, Activity], ended: Activity | None) -> None:
    pass


def questions(
    root: Path, target: str, nix: Nix, check: Callable[[], None] = lambda: None
) -> list[str]:
    """Return store paths to ask caches about before a build or a plan of *target*.

    Args:
        check: as for `evaluated.outputs`.

    Raises:
        TnpuError: the flake does not evaluate, or what *check* raises.
    """
    found = evaluated.outputs(root, plan.names(target), nix, check)
    return list(dict.fromkeys(path for one in found.values() for path in one.paths.values()))


def with_caches(
    build: Callable[[Nix], Result],
    caches: Sequence[Cache],
    keys: Sequence[str],
    nix: Nix,
    access: Access,
    say: Say,
    watch: Watcher = _unwatched,
    prepare: Prepare = lambda derivations: False,
    asked: Sequence[str] = (),
) -> Result:
    """Run *build* with those caches that answer, and again without one that broke off in it.

    What was built or fetched before that stays, and is not built or fetched again. A path that a
    cache has damaged is named and, if no other cache has it, built here, and it alone: what refers
    to it may still be fetched. Where nix fails at a cache and does not say at which, each is left
    out in turn, and at last all of them.

    Args:
        watch: told of the building of such paths.
        prepare: called with the derivations that such a path is built by, before they are, since
            it was to be fetched; puts those that are sources into the store, if it has to, and
            returns whether there were any.
        asked: store paths that every cache is asked about first. Nix itself would wait without
            end for one that answers a byte now and then.

    Raises:
        TnpuError: the build failed, and not for a cache.
    """
    live = stores.answering(stores.ask_all(caches, asked, nix, access), say)
    run = _Run(keys, nix, access, say, watch, live, Teller(say, "taken from elsewhere, or built"))
    while True:
        try:
            result = build(run.reading(run.fallback))
        except TnpuError as error:
            run.after(error, prepare)
            continue
        # A plan of a build, which is no build, has nothing to tell.
        return cast(Result, run.told(result)) if isinstance(result, Built) else result


@dataclass
class _Run:
    """The caches that are left, and what became of paths that one had damaged."""

    keys: Sequence[str]
    nix: Nix
    access: Access
    say: Say
    watch: Watcher
    live: list[Cache]
    tell: Teller
    fallback: bool = False  # whether what is to be fetched may be built
    first: TnpuError | None = None  # of those that no cache in particular is to blame for
    trials: list[list[Cache]] | None = None  # sets of caches still to be tried
    answering: list[Cache] = field(default_factory=list)  # before the first of them
    prepared: list[str] = field(default_factory=list)  # derivations, after they had failed
    made: list[Activity] = field(default_factory=list)  # what was built in their place

    def reading(self, fallback: bool) -> Nix:
        return settings.reading(self.nix, self.live, self.keys, self.access, "extra-", fallback)

    def after(self, error: TnpuError, prepare: Prepare) -> None:
        """Make ready for another try, or raise if there is nothing left to be tried."""
        said = f"{error.said} {error.what}"
        if self.leave_out(said) or self.fetch_sources(said, prepare):
            return
        refused = _REFUSED.findall(said)
        if refused and not self.fallback:
            if not self.make_up_for(refused, prepare):
                # Whatever else is not given is built, with what refers to it.
                prepare(self._planned(refused, self.nix))
                self.fallback = True
            return
        self.first = self.first or error
        if not self.try_others(said):
            raise self.first from None

    def fetch_sources(self, said: str, prepare: Prepare) -> bool:
        """Have the sources fetched that nix failed to; return whether there were any.

        Of what a cache has with a signature that nobody trusts, Nix says that it would be fetched,
        and then goes on to build it.
        """
        new = [one for one in FAILED_AT.findall(said) if one not in self.prepared]
        self.prepared += new
        return prepare(new)

    def leave_out(self, said: str) -> bool:
        """Leave out the caches that a failure of nix is about; return whether there were any."""
        bad = {
            one: "it broke off"
            for one in self.live
            if one.address in said and BROKE_OFF.search(said)
        }
        for digest in _CORRUPT.findall(said):
            asked = f"{narinfo.STORE}/{digest}-x"
            for answer in stores.ask_all(self.live, [asked], self.nix, self.access):
                found = answer.found.get(asked)
                # Of another path it is in any case: its name is not known here.
                if found is not None and found.fault not in (None, narinfo.OTHER_PATH):
                    fault = (found.fault or "").removeprefix("its narinfo ")
                    bad[answer.cache] = f"{digest}.narinfo in it {fault}"
        for one, reason in bad.items():
            self.say(f"going on without {one.address}: {reason}")
        self.live = [one for one in self.live if one not in bad]
        return bool(bad)

    def try_others(self, said: str) -> bool:
        """Go on with fewer caches after a failure that names none; return whether there are any."""
        if self.trials is None:
            if not self.live or _AT_A_BUILD.search(said) or not _AT_A_CACHE.search(said):
                return False
            self.answering, self.trials = self.live, [*stores.subsets(self.live), []]
        if not self.trials:
            return False
        self.live = self.trials.pop(0)
        bad = ", ".join(one.address for one in self.answering if one not in self.live)
        self.say(f"trying without {bad}: nix failed, and does not say at which cache")
        return True

    def make_up_for(self, derivations: Sequence[str], prepare: Prepare) -> bool:
        """Build what the caches have damaged of the outputs of *derivations*, or of their closures.

        Returns:
            Whether something was found, and all of it built.
        """
        new = [one for one in self._refused(derivations) if self.tell.damaged(*one)]
        # All of them, also after one that fails.
        paths = dict.fromkeys(path for path, _ in new)
        built = [self._build(path, derivations, prepare) for path in paths]
        return bool(built) and all(built)

    def _refused(self, derivations: Sequence[str]) -> list[tuple[str, str]]:
        """Fetch the outputs of *derivations*, and return the paths that do not come, with caches.

        Of what nix says of a fetch that fails, not all names the path, or the cache.
        """
        outputs = _query(self.nix, "--outputs", derivations)
        argv = ["nix-store", "--realise", "--keep-going", *outputs]
        log = self._run(argv, fallback=False)[1]
        fetched = [one for one in (*log.finished, *log.running.values()) if one.source]
        valid = local.valid(self.nix, list({one.path for one in fetched}))
        return [(one.path, one.source) for one in fetched if one.path not in valid]

    def _build(self, path: str, derivations: Sequence[str], prepare: Prepare) -> bool:
        """Build the derivation, one that *derivations* depend on, that has *path* as an output."""
        name = derivation_name(path)
        for needed in _query(self.nix, "--requisites", derivations):
            # An output that is not the first has its own name behind the derivation's.
            named_so = f"{name}-".startswith(f"{derivation_name(needed)}-")
            if not needed.endswith(".drv") or not named_so:
                continue
            if path in _query(self.nix, "--outputs", [needed]):
                prepare([needed, *self._inputs_to_build(needed)])
                status, log = self._run(["nix-store", "--realise", needed], fallback=True)
                self.made += log.finished
                return status == 0
        return False

    def _inputs_to_build(self, derivation: str) -> list[str]:
        inputs = _query(self.nix, "--references", [derivation])
        return self._planned([one for one in inputs if one.endswith(".drv")], self.reading(False))

    def _planned(self, derivations: Sequence[str], nix: Nix) -> list[str]:
        """Return what that nix would build to have these."""
        if not derivations:
            return []
        argv = ["nix-store", "--realise", *derivations]
        return store.dry_run(argv, nix, "planning what a cache does not give").built

    def _run(self, argv: list[str], fallback: bool) -> tuple[int | None, Log]:
        log = Log(self.watch)
        argv = [*argv, "--log-format", "internal-json"]
        with git.temporary_folder() as scratch:
            return run_logged(argv, self.reading(fallback), log, scratch / "answer"), log

    def told(self, built: Built) -> Built:
        """Name what was damaged and yet did not fail the build; add what was built for it."""
        self.tell.after(built.activities, built.warnings)
        return replace(built, activities=[*self.made, *built.activities])


def _query(nix: Nix, what: str, derivations: Sequence[str]) -> list[str]:
    argv = ["nix-store", "--query", what, *derivations]
    return process.run(argv, env=nix.environment(), timeout=None).stdout.split()
