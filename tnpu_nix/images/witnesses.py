"""What binary caches vouch for of the store paths in an image."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from tnpu_nix import process
from tnpu_nix.cache import settings, signed, stores
from tnpu_nix.cache.access import Access, UnavailableError
from tnpu_nix.cache.narinfo import PathInfo
from tnpu_nix.cache.stores import Cache
from tnpu_nix.nix import Nix, failure

Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Vouched:
    """A store path's NAR hash, and who says so."""

    nar_hash: str  # SRI
    by: str  # "the store", a cache's URL, or the image that was built from the pins


Known = dict[str, Vouched]  # by store path


@dataclass
class Witnesses:
    """The binary caches that are asked for what the store does not have, in their order.

    One that is silent or refuses is left out from then on; of one that lies nothing is taken.
    """

    caches: list[Cache]
    keys: Sequence[str]  # public keys to trust, beside those of the user's nix.conf
    access: Access
    nix: Nix
    say: Callable[[str], None]

    def closure(self, path: str) -> Known:
        """Return a path's closure from the first cache that has it whole and signed, or {}."""

        def ask(cache: Cache) -> stores.Closure:
            return stores.closure(cache, [path], self.nix, self.access)

        for cache, walked in self._each(ask):
            found = self._signed(walked.infos.values(), cache)
            if found and not walked.missing and len(found) == len(walked.infos):
                return found
        return {}

    def infos(self, paths: set[str]) -> Known:
        """Return what the caches have of paths, each from the first that has it signed."""
        found: Known = {}

        def ask(cache: Cache) -> stores.Found:
            left = sorted(paths - found.keys())
            return stores.infos(cache, left, self.nix, self.access) if left else {}

        for cache, said in self._each(ask):
            found |= self._signed((one for one in said.values() if one is not None), cache)
        return found

    def fetch(self, path: str) -> bool:
        """Copy a path into the store from the first cache that gives it; tell whether one did."""

        def ask(cache: Cache) -> stores.Found:
            return stores.infos(cache, [path], self.nix, self.access)

        for cache, said in self._each(ask):
            if said[path] is not None and self._copied(path, cache):
                return True
        return False

    def _copied(self, path: str, cache: Cache) -> bool:
        self.say(f"fetching {path} from {cache.address}")
        reading = settings.reading(self.nix, [cache], self.keys, self.access, extra="extra-")
        argv = ["nix", "copy", "--from", cache.url, path]
        done = process.run(argv, env=reading.environment(), timeout=None)
        if done.status != 0:
            why = failure("fetching it", done.stderr).what
            self.say(f"going on without what {cache.address} has of it: {why}")
        return done.status == 0

    def _each(self, ask: Callable[[Cache], Answer]) -> Iterator[tuple[Cache, Answer]]:
        """Ask the caches one after the other; those that cannot be asked are left out for good."""
        for cache in list(self.caches):
            try:
                answer = ask(cache)
            except UnavailableError as error:
                self.say(f"going on without {cache.address}: {error}")
                self.caches.remove(cache)
            else:
                yield cache, answer

    def _signed(self, infos: Iterable[PathInfo], cache: Cache) -> Known:
        taken = signed.signed(infos, self.keys, self.nix)
        return {one.path: Vouched(one.nar_sri, cache.url) for one in taken}
