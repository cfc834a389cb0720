"""What an image holds: every file of its layers laid on each other, and each store path's NAR hash.

Layers are read as streams, each once. Only a store path whose files do not come in the order of a
NAR, or from several layers, is read again and written to a temporary folder.
"""

from __future__ import annotations

import contextlib
import hashlib
import posixpath
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tnpu_nix.errors import TnpuError
from tnpu_nix.git import temporary_fault, temporary_folder
from tnpu_nix.images.model import CHUNK, Image
from tnpu_nix.images.nar import OrderError, Parts, hash_tree
from tnpu_nix.images.tar import Entry, Scanned, Sink, scan_tar
from tnpu_nix.registry import document
from tnpu_nix.storepath import root_of

STORE = "nix/store"
MANIFEST = "etc/tnpu/manifest.json"
_WHITEOUT, _OPAQUE = ".wh.", ".wh..wh..opq"


@dataclass(frozen=True)
class Nar:
    """A store path as a NAR."""

    hash: str  # SRI
    size: int  # bytes


@dataclass(frozen=True)
class Contents:
    """What an image holds."""

    image: Image
    layers: list[Scanned]  # as they are, the lowest first
    entries: dict[str, Entry]  # path without "/" at its start → what a container sees there
    nars: dict[str, Nar]  # "/nix/store/…" → its NAR
    mislabelled: list[str] = field(default_factory=list)  # layers that are not those it names
    unhashed: dict[str, str] = field(default_factory=dict)  # store path → why it has no NAR

    @property
    def manifest(self) -> dict[str, Any]:
        """What /etc/tnpu/manifest.json says; empty if there is none that can be read."""
        kept = [layer.kept for layer in self.layers if layer.kept is not None]
        return parse_manifest(kept[-1]) if kept and MANIFEST in self.entries else {}

    def store_paths(self) -> list[str]:
        """Return the store paths that are really there, sorted."""
        return sorted({f"/{root}" for path in self.entries if (root := root_of(path))})

    def of(self, store_path: str) -> dict[Parts, Entry]:
        """Return what lies below a store path, and the path itself as ()."""
        return _below(self.entries, store_path.lstrip("/"))


def parse_manifest(data: bytes) -> dict[str, Any]:
    """Return a manifest.json as it was parsed; empty if it is none."""
    try:
        found = document.lenient(data)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def scan(image: Image, say: Callable[[str], None] = lambda _line: None) -> Contents:
    """Read all layers of an image.

    Args:
        say: takes a line about what is going on.

    Raises:
        TnpuError: a layer is missing or cannot be read.
    """
    found: dict[str, Scanned] = {}
    say(f"reading {len(image.layers)} layers of {image.where}")
    for member, tar in image.tars():
        found[member] = scan_tar(tar, f"{member} of {image.where}", keep=MANIFEST)
    absent = [layer.member for layer in image.layers if layer.member not in found]
    if absent:
        raise TnpuError(f"{image.where} has no layer {absent[0]}", "fetch or push the image again")
    layers = [found[layer.member] for layer in image.layers]
    entries, mixed = _merged(layers)
    nars = {
        f"/{root}": Nar(*nar)
        for layer in layers
        for root, nar in layer.nars.items()
        if root not in mixed
    }
    contents = Contents(image, layers, entries, nars, _mislabelled(image, layers))
    _hash_the_rest(contents)
    return contents


def read_manifest(image: Image) -> dict[str, Any]:
    """Return an image's /etc/tnpu/manifest.json, from as few layers as it takes; {} if none."""
    last = image.layers[-1].member if image.layers else ""
    rest = {layer.member for layer in image.layers} - {last}
    for wanted in ({last}, rest):
        kept = {
            member: scan_tar(tar, member, keep=MANIFEST).kept for member, tar in image.tars(wanted)
        }
        for layer in reversed(image.layers):
            if text := kept.get(layer.member):
                return parse_manifest(text)
    return {}


def _mislabelled(image: Image, layers: list[Scanned]) -> list[str]:
    return [
        f"layer {number}: its content has the digest {layer.diff_id}, the image's configuration"
        f" says {said.diff_id}"
        for number, (layer, said) in enumerate(zip(layers, image.layers, strict=True), 1)
        if layer.diff_id != said.diff_id
    ]


def _merged(layers: list[Scanned]) -> tuple[dict[str, Entry], set[str]]:
    """Lay the layers on each other; with it the store paths that several of them touch."""
    entries: dict[str, Entry] = {}
    touched: dict[str, int] = {}
    mixed: set[str] = set()
    for number, layer in enumerate(layers):
        for path in layer.entries:
            folder, name = posixpath.split(path)
            if name.startswith(_WHITEOUT):
                removed = folder if name == _OPAQUE else posixpath.join(folder, name[4:])
                mixed |= _remove(entries, removed, itself=name != _OPAQUE)
        for path, entry in layer.entries.items():
            if posixpath.basename(path).startswith(_WHITEOUT):
                continue
            old = entries.get(path)
            if old and old.kind == "directory" and entry.kind != "directory":
                mixed |= _remove(entries, path, itself=True)
            entries[path] = entry
            if (root := root_of(path)) and touched.setdefault(root, number) != number:
                mixed.add(root)
    return entries, mixed


def _remove(entries: dict[str, Entry], path: str, itself: bool) -> set[str]:
    """Remove what lies below a path; return the store paths that lost something."""
    gone = [one for one in entries if one.startswith(f"{path}/") or (itself and one == path)]
    for one in gone:
        del entries[one]
    return {root for one in gone if (root := root_of(one))}


def _below(entries: dict[str, Entry], root: str) -> dict[Parts, Entry]:
    found: dict[Parts, Entry] = {}
    for path, entry in entries.items():
        if path == root:
            found[()] = entry
        elif path.startswith(f"{root}/"):
            found[tuple(path[len(root) + 1 :].split("/"))] = entry
    return found


def _hash_the_rest(contents: Contents) -> None:
    """Hash the store paths whose files came in no order that could be hashed on the way."""
    left = [path for path in contents.store_paths() if path not in contents.nars]
    if not left:
        return
    with temporary_folder() as folder:
        _spool(contents, {path.lstrip("/") for path in left}, folder)
        for path in left:

            def content(parts: Parts, root: str = path) -> Iterator[bytes]:
                return _pieces(folder / _spooled("/".join([root.lstrip("/"), *parts])))

            try:
                contents.nars[path] = Nar(*hash_tree(contents.of(path), content))
            except OrderError as error:
                contents.unhashed[path] = f"{path} is nothing that Nix makes: {error}"


def _spool(contents: Contents, roots: set[str], folder: Path) -> None:
    """Write the files below *roots* that a container would see into a folder."""
    final = {id(entry) for path, entry in contents.entries.items() if root_of(path) in roots}
    layers = {
        layer.member: scanned
        for layer, scanned in zip(contents.image.layers, contents.layers, strict=True)
        if any(id(entry) in final for entry in scanned.entries.values())
    }
    for member, tar in contents.image.tars(layers):
        scan_tar(tar, member, _spooling(layers[member], final, folder))


def _spooling(layer: Scanned, final: set[int], folder: Path) -> Sink:
    def sink(path: str, _entry: Entry, pieces: Iterator[bytes]) -> None:
        # Of two members of one name the later is written last, and stays.
        if id(layer.entries.get(path)) in final:
            _write(folder / _spooled(path), pieces)

    return sink


def _write(path: Path, pieces: Iterator[bytes]) -> None:
    """Write a file; what fails at that is no fault of the layer that the pieces come from."""
    with _writing():
        file = path.open("wb", buffering=0)
    with file:
        for piece in pieces:
            left = memoryview(piece)
            while left:
                with _writing():
                    left = left[file.write(left) :]


@contextlib.contextmanager
def _writing() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise temporary_fault(error) from error


def _spooled(path: str) -> str:
    return hashlib.sha256(path.encode(errors="surrogateescape")).hexdigest()


def _pieces(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while piece := file.read(CHUNK):
            yield piece
