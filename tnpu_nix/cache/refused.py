"""What Nix says in passing, or not at all, of what a cache claims to have and does not give."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from tnpu_nix.build import Activity
from tnpu_nix.terminal import uncoloured

# The words of Nix 2.8 and of later ones; after them it looks elsewhere, or builds.
_UNSIGNED = re.compile(r"substitute for '([^']+)' from '([^']+)',? [^\n]*not signed by any")


class Teller:
    """Names each such path once, with the cache."""

    def __init__(self, say: Callable[[str], None], instead: str) -> None:
        """Take what is done *instead* of taking the path from that cache."""
        self._say = say
        self._instead = instead
        self._told: set[tuple[str, str]] = set()

    def damaged(self, path: str, url: str) -> bool:
        """Say that a cache has a path damaged; return whether that is news."""
        return self._tell(path, url, f"is damaged in {_address(url)}: it is {self._instead}")

    def _tell(self, path: str, url: str, words: str) -> bool:
        if (path, url) in self._told:
            return False
        self._told.add((path, url))
        self._say(f"{path} {words}")
        return True

    def after(self, activities: Sequence[Activity], warnings: Iterable[str]) -> None:
        """Say what a run of nix that succeeded had not been given by a cache.

        That is what it fetched again elsewhere, or built.
        """
        fetches = [one for one in activities if one.source]
        built = {one.name for one in activities if not one.source}
        for number, one in enumerate(fetches):
            again = any(one.path == later.path for later in fetches[number + 1 :])
            if again or one.name in built:
                self.damaged(one.path, one.source)
        plain = uncoloured("\n".join(warnings))
        for path, url in _UNSIGNED.findall(plain):
            words = f"in {_address(url)} is signed by no key that pins.toml trusts; not taken"
            self._tell(path, url, words)


def _address(url: str) -> str:
    return url.partition("?")[0]
