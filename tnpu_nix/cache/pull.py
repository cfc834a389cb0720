"""Outputs of the current pins, from caches alone."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from tnpu_nix import git, process
from tnpu_nix.build import Log, Watcher, run_logged
from tnpu_nix.cache import local, settings, stores
from tnpu_nix.cache.access import Access, UnavailableError
from tnpu_nix.cache.current import paths_of
from tnpu_nix.cache.refused import Teller
from tnpu_nix.cache.repair import beyond_caches, fetch_anew
from tnpu_nix.cache.stores import Answer, Cache
from tnpu_nix.errors import TnpuError
from tnpu_nix.nix import Nix, failure
from tnpu_nix.terminal import uncoloured

Say = Callable[[str], None]
_NOT_OBEYED = re.compile(
    r"ignoring (?:untrusted substituter|untrusted setting|the (?:user|client)-specified setting)"
    r"|you are not (?:a trusted user|privileged)|not a trusted user"
)
BROKE_OFF = re.compile(r"unable to download|is disabled|curl error|transfer of")
_NO_FAULT_OF_A_CACHE = re.compile(r"No space left on device|disk is full|Read-only file system")
_VERIFY = "{verify} names the paths, and the command that mends them"
# What nix says, what it means of the caches at {where}, and what to do, where {verify} is the
# command that looks at them; the first that fits counts.
_CAUSES = (
    (
        _NOT_OBEYED.pattern,
        "the Nix daemon does not take these caches from this user, whom it does not trust",
        "its owner adds the lines of `tnpu-nix cache use daemon` to /etc/nix/nix.conf",
    ),
    (
        "is not signed by any of the keys|lacks a valid signature|signature is not valid",
        "what {where} has is not signed by a key that pins.toml trusts; it was not taken",
        "if you trust its owner, put the public key into [cache] public-keys; "
        "{verify} says which paths it is about",
    ),
    (
        r"is incomplete|does not exist in binary cache|\.narinfo' is corrupt",
        "{where} does not hold together: it lacks, or garbles, what it says it has",
        _VERIFY,
    ),
    (
        BROKE_OFF.pattern,
        "{where} broke off in the middle of a download",
        "run the command again: what was fetched before is kept and whole",
    ),
    (
        r"hash mismatch|(?i:lzma|zstd|xz|bad archive|input .*truncated|unexpected end)",
        "what {where} sends is not what its signature says: damaged or altered; not taken",
        _VERIFY,
    ),
    (
        r"File exists|build of '[^\n]*' failed|Assertion `",
        "what {where} has of this cannot be taken, and nix does not say why",
        _VERIFY,
    ),
)


@dataclass(frozen=True)
class Puller:
    """What fetches from caches, and builds nothing."""

    keys: Sequence[str]  # public ones, which signatures are checked with
    nix: Nix
    access: Access
    watch: Watcher
    say: Say

    def pull(
        self, outputs: dict[str, list[str]], caches: Sequence[Cache], repair: bool = False
    ) -> None:
        """Realise *outputs* from caches; what is not to be had is named.

        Args:
            repair: also read all that is here, and fetch anew what was altered on the disk.

        Raises:
            TnpuError: an output is in no cache, or what a cache has is not to be trusted. Whatever
                was fetched before is whole and signed, as Nix takes it path by path.
        """
        paths = paths_of(outputs)
        here = local.valid(self.nix, paths)
        missing = [path for path in paths if path not in here]
        held = local.closure(self.nix, list(here))
        gone = local.gone(self.nix, held)
        altered = self._altered(path for path in held if path not in gone) if repair else []
        if not missing and not gone and not altered:
            return
        if not caches and (missing or gone):
            raise TnpuError(
                "no cache is named to pull from",
                "name one in pins.toml ([cache] substituters), or with --cache URL",
            )
        alive = self._alive(outputs, missing, missing or paths, caches)
        if missing:
            self._fetch(missing, alive)
        whole = local.closure(self.nix, paths)
        # Paths that Nix has in its books, of old or just now for a reference, and not on the disk.
        gone = local.gone(self.nix, whole)
        if repair:
            altered += self._altered(one for one in whole if one not in held and one not in gone)
        self._fetch_anew(gone, altered, alive)

    def _altered(self, paths: Iterable[str]) -> list[str]:
        paths = list(paths)
        if paths:
            self.say(f"reading {len(paths)} paths that are here")
        return local.altered(self.nix, paths)

    def _alive(
        self,
        outputs: dict[str, list[str]],
        missing: Sequence[str],
        asked: Sequence[str],
        caches: Sequence[Cache],
    ) -> list[Cache]:
        """Return the caches that answer; raise if one of the *missing* paths is in none."""
        answers = stores.ask_all(caches, asked, self.nix, self.access)
        _refuse_to_build(outputs, missing, answers, self.nix)
        return stores.answering(answers, self.say)

    def _fetch_anew(
        self, gone: Sequence[str], altered: Sequence[str], caches: Sequence[Cache]
    ) -> None:
        for reason, those in (("gone from the disk", gone), ("altered on the disk", altered)):
            for path in those:
                self.say(f"{path} is {reason} although Nix has it in its books; fetching it anew")
        wanted = [*gone, *altered]
        if lost := fetch_anew(wanted, caches, self.keys, self.nix, self.access, self.say):
            raise beyond_caches(f"no cache gave this whole: {', '.join(lost)}", lost, self.nix)

    def _fetch(self, paths: Sequence[str], caches: Sequence[Cache]) -> None:
        """Substitute paths; a cache that breaks off is left out, and the others give the rest.

        Nix alone would wait for such a cache once for every path.
        """
        live = list(caches)
        tell = Teller(self.say, "taken from another")
        while True:
            log, status, failing = self._realise(paths, live)
            if status == 0 and not failing:
                tell.after(log.finished, log.warnings)
                return
            reason = "it broke off"
            if not failing and len(live) > 1:
                failing = self._incoherent(paths, live)
                reason = "what it says of its content cannot be read"
            others = [one for one in live if one not in failing]
            if not failing or not others:
                self._sweep(log)
                if not failing and _may_be_of_one(log) and self._without_one(paths, live):
                    return
                raise _failed(log, live, self.nix)
            for one in failing:
                self.say(f"going on without {one.address}: {reason}")
            live = others

    def _without_one(self, paths: Sequence[str], caches: Sequence[Cache]) -> bool:
        """Try again without one cache, or with one alone; return whether some set gave all.

        Nix does not always say which cache a fault is about, and one can cost it all the others.
        """
        for some in stores.subsets(caches):
            log, status, failing = self._realise(paths, some)
            if status == 0 and not failing:
                bad = ", ".join(one.address for one in caches if one not in some)
                self.say(f"going on without {bad}: with it, nix fails")
                return True
            self._sweep(log)
        return False

    def _incoherent(self, paths: Sequence[str], caches: Sequence[Cache]) -> list[Cache]:
        """Return the caches with a narinfo that cannot be read: at one, Nix gives them all up."""
        found = []
        for one in caches:
            with contextlib.suppress(UnavailableError):
                walked = stores.closure(one, paths, self.nix, self.access)
                if any(info.fault for info in walked.infos.values()):
                    found.append(one)
        return found

    def _sweep(self, log: Log) -> None:
        """Remove what Nix unpacked and then found to have another hash; it lets that lie about."""
        said = _said(log)
        for path in dict.fromkeys(re.findall(r"hash mismatch[^/]*'(/nix/store/[^']+)'", said)):
            if not local.valid(self.nix, [path]) and local.is_on_disk(self.nix, path):
                process.run(["nix-store", "--delete", path], env=self.nix.environment())

    def _realise(
        self, paths: Sequence[str], caches: Sequence[Cache]
    ) -> tuple[Log, int, list[Cache]]:
        """Run nix once, or until a cache breaks off while there are others."""
        reading = settings.reading(self.nix, caches, self.keys, self.access)
        argv = ["nix-store", "--realise", "--max-jobs", "0", "--log-format", "internal-json"]
        log = Log(self.watch)

        def broken() -> list[Cache]:
            said = " ".join(log.messages[-3:] + log.warnings[-3:])
            found = [one for one in caches if one.address in said and BROKE_OFF.search(said)]
            return found if len(found) < len(caches) else []

        with git.temporary_folder() as scratch:
            argv += paths
            status = run_logged(argv, reading, log, scratch / "answer", lambda: bool(broken()))
        return (log, 1, broken()) if status is None else (log, status, [])


def _refuse_to_build(
    outputs: dict[str, list[str]], missing: Sequence[str], answers: Sequence[Answer], nix: Nix
) -> None:
    """Raise if an output is in no cache, before anything is fetched."""
    had = {path for one in answers for path, info in one.found.items() if info and not info.fault}
    lost = {
        name: [path for path in its if path in missing and path not in had]
        for name, its in outputs.items()
    }
    lost = {name: its for name, its in lost.items() if its}
    if not lost:
        return
    wanted = [path for its in lost.values() for path in its]
    looked = [f"  {one.cache.url}: {one.trouble or _lacks(one, wanted)}" for one in answers]
    details = [f"missing: {name}: {path}" for name, its in lost.items() for path in its]
    details += ["looked for in:", *looked]
    if all(one.trouble for one in answers):
        what, hint = "no cache can be used", "check the network, the netrc file and the URLs above"
    else:
        what = f"in no cache: {', '.join(lost)}"
        hint = _to_be_pushed(list(lost), answers[0].cache, nix)
        if any((info := one.found.get(path)) and info.fault for one in answers for path in wanted):
            hint = _VERIFY.format(verify=nix.words("cache", "verify"))
    raise TnpuError(f"{what}; nothing was built or fetched", hint, tuple(details))


def _to_be_pushed(names: Sequence[str], one: Cache, nix: Nix) -> str:
    """Return the hint about outputs that no cache has: the commands that put them into one."""
    # The image, which is what a build makes by default, holds what else is pulled.
    builds = [nix.words("build", *([] if "tnpu-image" in names else [name])) for name in names]
    to = ["--to", one.url] if nix.caches else []
    commands = [*dict.fromkeys(builds), nix.words("cache", "push", *names, *to)]
    return f"{', '.join(commands)}, where it may be built and with the signing key, put it there"


def _lacks(answer: Answer, paths: Sequence[str]) -> str:
    """Return why a cache that answers does not give all of these paths."""
    found = (answer.found.get(path) for path in paths)
    faults = dict.fromkeys(info.fault for info in found if info is not None and info.fault)
    return "; ".join(faults) or "does not have it"


def _said(log: Log) -> str:
    return uncoloured("\n".join([*log.warnings, *log.messages]))


def _may_be_of_one(log: Log) -> bool:
    """Tell whether a failure that names no cache may yet be the fault of one."""
    said = _said(log)
    return not _NO_FAULT_OF_A_CACHE.search(said) and not _NOT_OBEYED.search(said)


def _failed(log: Log, caches: Sequence[Cache], nix: Nix) -> TnpuError:
    said = _said(log)
    details = tuple(dict.fromkeys(line.strip()[:300] for line in said.splitlines() if line.strip()))
    tail = details[-6:]
    where = ", ".join(one.address for one in caches)
    if not _NO_FAULT_OF_A_CACHE.search(said):
        for pattern, what, hint in _CAUSES:
            if re.search(pattern, said):
                verify = nix.words("cache", "verify")
                return TnpuError(what.format(where=where), hint.format(verify=verify), tail)
    return failure("pulling", said, tail)
