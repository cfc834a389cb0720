"""Having the image of the present pins in the registry, by the shortest way."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tnpu_nix import build, history, image_push, image_tag, sources
from tnpu_nix.build import Built
from tnpu_nix.errors import TnpuError
from tnpu_nix.image_push import Pushed, Watcher
from tnpu_nix.nix import Nix
from tnpu_nix.pins import Cache, Toolchain
from tnpu_nix.registry import Repository

STREAM = "tnpu-image-stream"
PRESENT = "present"


@dataclass(frozen=True)
class Ensured:
    """What it took to have the image in the registry."""

    action: str  # "present", or how it came to be there: "pulled", "built" or "pushed"
    tag: str
    image: str  # host/name:tag
    digest: str  # of the manifest
    built: list[str] = field(default_factory=list)  # derivations
    fetched: list[str] = field(default_factory=list)  # store paths from a binary cache
    layers_uploaded: int = 0
    bytes_uploaded: int = 0

    def line(self) -> str:
        """Return what happened, for people."""
        if self.action == PRESENT:
            return "present: nothing was built or pushed"
        ways = {
            "built": f"built {len(self.built)} derivations"
            + (f", pulled {len(self.fetched)} store paths" if self.fetched else ""),
            "pulled": f"pulled {len(self.fetched)} store paths from the binary cache",
            "pushed": "the store had it",
        }
        return (
            f"{ways[self.action]}; pushed {self.layers_uploaded} layers,"
            f" {self.bytes_uploaded / 1e6:.1f} MB"
        )


def cache_lines(cache: Cache) -> tuple[str, ...]:
    """Return the lines of nix.conf that let a build take from the project's binary caches."""
    lines = []
    if cache.substituters:
        lines.append(f"extra-substituters = {' '.join(cache.substituters)}")
    if cache.public_keys:
        lines.append(f"extra-trusted-public-keys = {' '.join(cache.public_keys)}")
    return tuple(lines)


def make(
    root: Path, toolchain: Toolchain, nix: Nix, say: Callable[[str], None], watch: build.Watcher
) -> Built:
    """Build the program that streams the image, or take it from a binary cache.

    Raises:
        TnpuError: it cannot be built.
    """
    sources.check_hashes(toolchain, nix)
    if nix.offline_profile:
        build.fetch_sources(root, toolchain, STREAM, nix, say)
    built = build.build(root, STREAM, nix, watch)
    history.record(root, built.activities)
    return built


def push(
    root: Path, built: Built, nix: Nix, repository: Repository, tag: str, watch: Watcher
) -> Pushed:
    """Push what `make` gave under a tag."""
    return image_push.push(nix.on_disk(built.path), nix, repository, tag, root, watch)


def told(repository: Repository, tag: str, built: Built, pushed: Pushed) -> Ensured:
    """Return what happened, from what the build and the push did."""
    done = {verb: [one.name for one in built.activities if one.verb == verb] for verb in _VERBS}
    action = next((_VERBS[verb] for verb, names in done.items() if names), "pushed")
    return Ensured(
        action=action,
        tag=tag,
        image=str(repository.reference.tagged(tag)),
        digest=pushed.digest,
        built=done["building"],
        fetched=done["fetching"],
        layers_uploaded=pushed.uploaded,
        bytes_uploaded=pushed.bytes_uploaded,
    )


# What a build did, in the order of what counts most, and what that is called.
_VERBS = {"building": "built", "fetching": "pulled"}


@contextlib.contextmanager
def alone(root: Path, say: Callable[[str], None]) -> Iterator[bool]:
    """Hold off other pushes of this project until the block ends.

    Yields whether one had to be waited for: it may have done the work.

    Raises:
        TnpuError: the project's folder cannot be written.
    """
    folder = root / image_tag.STATE_FOLDER
    try:
        folder.mkdir(exist_ok=True)
        descriptor = os.open(folder / "push.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise TnpuError(
            f"{error.filename} cannot be written: {error.strerror}", "mend the folder's rights"
        ) from error
    waited = False
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waited = True
            say("another push of this project is running; waiting for it")
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield waited
    finally:
        os.close(descriptor)
