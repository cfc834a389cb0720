"""The whole pipeline on this machine alone: miniature upstreams to a running image."""

from __future__ import annotations

import os
import shutil
import time
from dataclasses import dataclass
from pathlib import Path

from tnpu_nix import build, history, pinsfile, process, render, transaction
from tnpu_nix.build import Built, Watcher
from tnpu_nix.bump import Request, Say, bump
from tnpu_nix.errors import TnpuError
from tnpu_nix.history import duration
from tnpu_nix.images import archive
from tnpu_nix.nix import Nix, check_version, own_store_works
from tnpu_nix.offline.repositories import Repository, make_repositories
from tnpu_nix.pins import PIN_NAMES
from tnpu_nix.terminal import size_text

_BUMPED = "spike"
_HEAD = """\
# Pins of the demo: miniature stand-ins for the upstreams, in git repositories on this machine.

version = 1

[image]
name = "tnpu-demo"

[image.links]
"/workspace/mlir-env" = "python-env"

[python]
version = "{python}"

# Never fetched: the offline profile puts hostpkgs in its place.
[nixpkgs]
rev = "{zeros}"
hash = "{no_hash}"
last-modified = 1
"""
# Not a revision or hash of anything: `bump` writes the real ones.
_PIN = """
[pins.{name}]
url = "{url}"
rev = "{zeros}"
hash = "{no_hash}"
date = "1970-01-01"
"""
_ZEROS = "0" * 40
_NO_HASH = "sha256-" + "A" * 43 + "="

_IDENTITY = ("-c", "user.name=tnpu-nix demo", "-c", "user.email=demo@example.invalid")


@dataclass(frozen=True)
class Places:
    """The folders of a demo."""

    folder: Path

    @property
    def upstreams(self) -> Path:
        """The miniature git repositories."""
        return self.folder / "upstreams"

    @property
    def project(self) -> Path:
        """The project: pins.toml and what is generated from it, in a git repository."""
        return self.folder / "project"

    @property
    def store(self) -> Path:
        """The Nix store of the demo's own."""
        return self.folder / "store"

    @property
    def root(self) -> Path:
        """The unpacked root file system of the image built last."""
        return self.folder / "root"


def run(folder: Path, say: Say, result: Say, watch: Watcher) -> None:
    """Run the demo in *folder*; a second run there uses what the first one built.

    Args:
        say: takes lines about what is going on.
        result: takes the lines that are the demo's outcome.
        watch: shows a build.

    Raises:
        TnpuError: any step failed.
    """
    places = Places(folder.resolve())
    say("This demo builds MINIATURES: a few files each, with the build interfaces of LLVM, triton,")
    say("triton_shared, spike and pk, but not those programs. Nix, git and the image are real.")
    nix = _choose_store(places, say)
    upstreams = make_repositories(places.upstreams)
    _start_project(places, upstreams, say)
    for name in PIN_NAMES:
        # The pin that moves later starts at the older of its two revisions.
        (tag,) = upstreams[name].tags
        _bump(places, name, tag if name == _BUMPED else upstreams[name].branch, nix, say)

    first = _build(places, nix, result, watch)
    image = archive.read(nix.on_disk(first.path))
    result(f"image: {nix.on_disk(first.path)} ({len(image.layers)} layers)")
    _doctor(places, image, result)
    _git(places, *_IDENTITY, "commit", "--quiet", "--allow-empty", "--message", "The first image")

    _bump(places, _BUMPED, upstreams[_BUMPED].branch, nix, say)
    second = _build(places, nix, result, watch)
    after = archive.read(nix.on_disk(second.path))
    _doctor(places, after, result)
    _compare(image, after, result)
    result(f"the project is in {places.project}; `git diff HEAD` there shows what the bump changed")


def _choose_store(places: Places, say: Say) -> Nix:
    own = Nix(store=places.store, offline_profile=True)
    check_version(own)
    if own_store_works(own):
        return own
    say("this machine allows no store of its own (no user namespaces); using the machine's store")
    return Nix(store=None, offline_profile=True)


def _host_python() -> str:
    """Return the version, as 3.11, of the machine's Python, which hostpkgs is made of."""
    code = "import sys; print('%d.%d' % sys.version_info[:2])"
    done = process.run(["/usr/bin/python3", "-c", code])
    if done.status != 0:
        raise TnpuError("/usr/bin/python3 does not work", "install Debian's python3")
    return done.stdout.strip()


def _start_project(places: Places, upstreams: dict[str, Repository], say: Say) -> None:
    """Write the pins.toml to start from, in a git repository that will show what changes."""
    places.project.mkdir(parents=True, exist_ok=True)
    # What an earlier demo generated, perhaps with an earlier generator, is this one's to replace.
    shutil.rmtree(places.project / "nix", ignore_errors=True)
    for name in (render.FLAKE, render.LOCK):
        (places.project / name).unlink(missing_ok=True)
    blanks = {"zeros": _ZEROS, "no_hash": _NO_HASH}
    text = _HEAD.format(python=_host_python(), **blanks)
    text += "".join(_PIN.format(name=name, url=upstreams[name].url, **blanks) for name in PIN_NAMES)
    with transaction.locked(places.project, say):
        transaction.write(places.project, {pinsfile.FILE_NAME: text.encode()})
    if not (places.project / ".git").exists():
        _git(places, "init", "--quiet")


def _git(places: Places, *arguments: str) -> None:
    done = process.run(["git", "-C", places.project, *arguments])
    if done.status != 0:
        raise TnpuError(f"git failed in the demo's project: {done.stderr}", "see git's words above")


def _bump(places: Places, name: str, what: str, nix: Nix, say: Say) -> None:
    say(f"$ tnpu-nix bump {name} {what}")
    moved = bump(places.project, [Request(name, what)], nix, lambda _line: None)
    for line in moved.lines():
        say(f"    {line}")


def _build(places: Places, nix: Nix, result: Say, watch: Watcher) -> Built:
    store = f" --store {nix.store}" if nix.store is not None else ""
    result(f"$ tnpu-nix build tnpu-image --offline-profile{store}")
    _git(places, "add", "--all")
    toolchain = pinsfile.load(places.project / pinsfile.FILE_NAME)
    build.fetch_sources(places.project, toolchain, "tnpu-image", nix, result)
    started = time.monotonic()
    built = build.build(places.project, "tnpu-image", nix, watch)
    history.record(places.project, built.activities)
    names = [one.name for one in built.activities]
    took = duration(time.monotonic() - started)
    result(f"built {len(names)} derivations in {took}" + (f": {', '.join(names)}" if names else ""))
    return built


def _doctor(places: Places, image: archive.Archive, result: Say) -> None:
    """Run tnpu-doctor with the unpacked image as its whole world."""
    _remove(places.root)
    archive.unpack(image, places.root)
    enter = [] if os.geteuid() == 0 else ["unshare", "--user", "--map-root-user"]
    variables = [f"{name}={value}" for name, value in image.environment.items()]
    argv = [*enter, "chroot", str(places.root), "/bin/env", "-i", *variables, "tnpu-doctor"]
    result(f"$ {' '.join(argv)}")
    done = process.run(argv, timeout=None)
    for line in (done.stdout + done.stderr).splitlines():
        result(f"    {line}")
    if done.status != 0:
        raise TnpuError("tnpu-doctor failed inside the image", "its own words are above")


def _remove(folder: Path) -> None:
    """Remove an unpacked image; its store paths are read-only."""
    if folder.exists():
        process.run(["chmod", "-R", "u+w", folder])
        shutil.rmtree(folder)


def _compare(before: archive.Archive, after: archive.Archive, result: Say) -> None:
    """Say which layers someone who has the old image needs for the new one."""
    have = {layer.diff_id for layer in before.layers}
    new = [layer for layer in after.layers if layer.diff_id not in have]
    total = sum(layer.size for layer in after.layers)
    needed = sum(layer.size for layer in new)
    result(
        f"layers: {len(after.layers) - len(new)} of {len(after.layers)} are byte for byte as"
        f" before; {len(new)} are new, {size_text(needed)} of {size_text(total)}"
    )
