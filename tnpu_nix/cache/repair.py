"""What is not in the store here as Nix has it in its books: gone from the disk, or altered."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence

from tnpu_nix import process
from tnpu_nix.cache import local, settings
from tnpu_nix.cache.access import Access, UnavailableError
from tnpu_nix.cache.stores import Cache
from tnpu_nix.errors import TnpuError
from tnpu_nix.nix import Nix


def fetch_anew(
    paths: Sequence[str],
    caches: Sequence[Cache],
    keys: Sequence[str],
    nix: Nix,
    access: Access,
    say: Callable[[str], None],
) -> list[str]:
    """Replace valid *paths* by what caches have of them; return those that no cache gave whole.

    A cache that stops answering is named, and not asked for the next path.

    `nix-store --repair-path` would go on to build what it cannot fetch. In a store of its own that
    harms: Nix 2.8 looks for the inputs below /nix/store, takes all of them for missing, and begins
    to replace them.
    """
    lost = []
    live = list(caches)
    for path in paths:
        whole = []
        for one in list(live):
            try:
                if _gives(one, path, keys, nix, access):
                    whole.append(one)
            except UnavailableError as error:
                live.remove(one)
                say(f"going on without {one.address}: {error}")
        if not whole or not _replace(path, settings.reading(nix, whole, keys, access)):
            lost.append(path)
    return lost


def _gives(one: Cache, path: str, keys: Sequence[str], nix: Nix, access: Access) -> bool:
    """Tell whether a cache has a path whole and signed, by a download of it.

    Nix removes what it is to repair before it fetches, and does not put it back if that fails.

    Raises:
        UnavailableError: the cache was silent for too long.
    """
    argv = ["nix", "store", "verify", "--store", one.url, path]
    checking = settings.checking(nix, keys, access)
    done = process.run(argv, env=checking.environment(), timeout=None)
    if settings.STALLED.search(done.stderr):
        raise UnavailableError(settings.STOPPED.format(path=path))
    return done.status == 0


def _replace(path: str, nix: Nix) -> bool:
    # Of a path, and not of a derivation: that is substituted, or fails.
    argv = ["nix-store", "--realise", "--repair", "--max-jobs", "0", path]
    done = process.run(argv, env=nix.environment(), timeout=None)
    return done.status == 0 and local.is_on_disk(nix, path) and not local.altered(nix, [path])


def beyond_caches(what: str, paths: Sequence[str], nix: Nix) -> TnpuError:
    """Return the error *what* about paths that are gone or altered here, and that no cache has."""
    listed = shlex.join(paths)
    hint = f"`nix-store --repair-path {listed}`, run by the owner of the store, builds them anew"
    if nix.store is not None:
        store = f"NIX_REMOTE={shlex.quote(str(nix.store))}"
        referrers = f"$({store} nix-store --query --referrers-closure {listed})"
        hint = (
            f"`{store} nix-store --delete --ignore-liveness {referrers}` removes them with what"
            f" refers to them; {nix.words('build')} then builds all of it anew"
        )
    return TnpuError(what, hint)
