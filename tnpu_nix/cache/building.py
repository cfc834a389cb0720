"""A build that may take from the caches of pins.toml, and that no cache can hold up or fail."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from tnpu_nix.cache import settings, stores
from tnpu_nix.cache.pull import BROKE_OFF
from tnpu_nix.cache.stores import Cache
from tnpu_nix.cache.web import Access
from tnpu_nix.errors import TnpuError
from tnpu_nix.nix import Nix

Built = TypeVar("Built")


def with_caches(
    build: Callable[[Nix], Built],
    caches: Sequence[Cache],
    keys: Sequence[str],
    nix: Nix,
    access: Access,
    say: Callable[[str], None],
) -> Built:
    """Run *build* with those caches that answer, and again without one that broke off in it.

    What was built or fetched before that stays, and is not built or fetched again.

    Raises:
        TnpuError: the build failed, and not for a cache.
    """
    live = []
    for answer in stores.ask_all(caches, [], nix, access):
        if answer.trouble is None:
            live.append(answer.cache)
        else:
            say(f"going on without {answer.cache.address}: {answer.trouble}")
    while True:
        try:
            return build(settings.reading(nix, live, keys, access, extra="extra-"))
        except TnpuError as error:
            said = f"{error.said} {error.what}"
            broke = [one for one in live if one.address in said and BROKE_OFF.search(said)]
            if not broke:
                raise
        for one in broke:
            say(f"going on without {one.address}: it broke off")
        live = [one for one in live if one not in broke]
