"""Having the image of the present pins in the registry, by the shortest way."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from tnpu_nix import build, history, restore, sources
from tnpu_nix.build import Built
from tnpu_nix.cache import roots, stores
from tnpu_nix.cache.access import Access, netrc_file
from tnpu_nix.cache.building import questions, with_caches
from tnpu_nix.errors import TnpuError
from tnpu_nix.images import push as image_push
from tnpu_nix.images.ensured import Ensured
from tnpu_nix.images.push import STREAM, Pushed, Watcher
from tnpu_nix.nix import Nix
from tnpu_nix.pins import Toolchain
from tnpu_nix.place import state_folder
from tnpu_nix.registry.client import Repository


def make(
    root: Path, toolchain: Toolchain, nix: Nix, say: Callable[[str], None], watch: build.Watcher
) -> Built:
    """Take the program that streams the image from the project's binary caches, or build it.

    Raises:
        TnpuError: it cannot be built.
    """
    sources.check_hashes(toolchain, nix)

    def prepare(derivations: Sequence[str]) -> bool:
        return build.fetch_sources_of(derivations, toolchain, nix, say)

    def run(using: Nix) -> Built:
        build.fetch_sources(root, toolchain, STREAM, nix, say, using)
        return restore.build(root, toolchain, STREAM, using, watch, say)

    asked: list[str] = []
    with contextlib.suppress(TnpuError):  # which the build meets too, and may get over
        asked = questions(root, STREAM, nix)
    caches = [stores.cache(url) for url in toolchain.cache.substituters]
    access = Access(netrc=netrc_file(None))
    try:
        keys = toolchain.cache.public_keys
        built = with_caches(run, caches, keys, nix, access, say, watch, prepare, asked)
    finally:
        # After a failure too: the LLVM that is built by then must not be collected.
        roots.keep_if_possible(root, nix, say)
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
    try:
        folder = state_folder(root)
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
