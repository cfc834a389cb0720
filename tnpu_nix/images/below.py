"""What of an image is its base's, where the image of the pins is not there to compare with."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tnpu_nix.images.contents import Contents
from tnpu_nix.images.expected import Expected
from tnpu_nix.images.tar import Entry
from tnpu_nix.storepath import root_of


@dataclass(frozen=True)
class Below:
    """The lowest layers of an image, so many as its base has by the pins."""

    layers: int  # 0 where the pins name no base
    proven: bool  # whether they are those of the base that was pinned, which the store has
    unknown: bool  # whether the store does not have the base, so that they may be its
    differences: list[str]  # layers that are not the base's
    entries: frozenset[int]  # id() of what a container sees of them
    roots: frozenset[str]  # store paths, with ``/`` at their start, that lie in no other layer

    def may_hold(self, entry: Entry) -> bool:
        """Tell whether a file is the base's, or may be."""
        return (self.proven or self.unknown) and id(entry) in self.entries


def below(contents: Contents, expected: Expected) -> Below:
    """Return what of an image is its base's, or may be."""
    known = expected.base is not None
    count = len(expected.base.layers) if expected.base is not None else expected.base_layers
    if not count:
        return Below(0, False, False, [], frozenset(), frozenset())
    differences = list(_differences(contents, expected))
    lower = {id(entry) for layer in contents.layers[:count] for entry in layer.entries.values()}
    mine: set[str] = set()
    others: set[str] = set()
    for path, entry in contents.entries.items():
        if root := root_of(path):
            (mine if id(entry) in lower else others).add(f"/{root}")
    return Below(
        layers=count,
        proven=known and not differences,
        unknown=not known,
        differences=differences,
        entries=frozenset(lower),
        roots=frozenset(mine - others),
    )


def _differences(contents: Contents, expected: Expected) -> Iterator[str]:
    if expected.base is None:
        return
    mine = [layer.diff_id for layer in contents.layers]
    theirs = [layer.diff_id for layer in expected.base.layers]
    for number, wanted in enumerate(theirs, 1):
        if mine[number - 1 : number] != [wanted]:
            yield f"layer {number} is not that of the base, {wanted}"
