"""Archives of images: those of Docker, OCI layouts in a tar, and what is both; one unpacked."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

from tnpu_nix import process
from tnpu_nix.errors import TnpuError
from tnpu_nix.git import temporary_folder
from tnpu_nix.images import layout, members
from tnpu_nix.images.members import Members
from tnpu_nix.images.model import BROKEN_STREAM, Checked, Image, Layer, decompressed, layers_of
from tnpu_nix.registry import document, reference

__all__ = ["Archive", "Layer", "read", "unpack"]

_MANIFEST = "manifest.json"
# What `docker save` of newer versions writes beside the three that matter.
_KNOWN = ("Config", "RepoTags", "Layers", "LayerSources")
_SOURCE = {"mediaType", "digest", "size"}


@dataclass(frozen=True)
class Archive(Image):
    """An image in an archive: as `docker save` and dockerTools make it, or an OCI layout."""

    path: Path
    manifest_digest: str | None = None

    @property
    def where(self) -> str:
        """The path of the archive."""
        return str(self.path)

    @property
    def digest(self) -> str | None:
        """The digest of the image's manifest, which Docker's archives do not have."""
        return self.manifest_digest

    def tars(self, wanted: Collection[str] | None = None) -> Iterator[tuple[str, IO[bytes]]]:
        """Yield (member, uncompressed tar) of each layer, in the order of the archive."""
        left = {layer.member for layer in self.layers if wanted is None or layer.member in wanted}
        try:
            with members.opened(self.path) as stream:
                for name, _, content in members.walk(stream):
                    if name in left:
                        left.remove(name)
                        yield from self._layer(name, content)
                    if not left:
                        return
        except BROKEN_STREAM as error:
            raise unreadable(self.path, error) from error

    def _layer(self, name: str, content: IO[bytes]) -> Iterator[tuple[str, IO[bytes]]]:
        checked = Checked(content)
        # Docker names no media type, and takes both; an OCI layout does.
        said = {layer.member: layer.compressed for layer in self.layers}[name]
        tar = decompressed(cast(IO[bytes], checked), None if self.digest is None else said)
        yield name, tar
        if digest := layout.digest_of(name):
            checked.finish(digest, f"the layer {digest} of {self.path}")


@dataclass(frozen=True)
class Summary:
    """What an archive says of its image."""

    tag: str
    config: dict[str, Any]
    layers: list[Layer]
    oddities: list[str]
    digest: str | None = None  # of its manifest


def read(path: Path, name: str = "") -> Archive:
    """Read an archive, compressed or not.

    Args:
        name: the tag of an image in an OCI layout; "" for the only one.

    Raises:
        TnpuError: it cannot be read, holds no image, or could be taken for another one.
    """
    try:
        with members.opened(path) as stream:
            found = members.read(stream)
        return _archive(_summary(found, path, name), path)
    except BROKEN_STREAM as error:
        raise unreadable(path, error) from error


def _archive(found: Summary, path: Path) -> Archive:
    return Archive(
        found.tag, found.config, found.layers, path, found.digest, oddities=found.oddities
    )


def summary(stream: IO[bytes], path: Path) -> Summary:
    """Read a stream of Docker's archive to its end.

    Args:
        path: where it comes from, for an error.

    Raises:
        TnpuError: it cannot be read, or is no docker archive.
    """
    try:
        return _docker(members.read(stream))
    except BROKEN_STREAM as error:
        raise unreadable(path, error) from error


# Names by which programs find an image: it must be a file of that name that they find.
_ENTRANCES = (_MANIFEST, layout.INDEX, "oci-layout", "repositories")


def _summary(found: Members, path: Path, name: str) -> Summary:
    if linked := [one for one in _ENTRANCES if one in found.links]:
        raise ValueError(f"ambiguous, its {linked[0]} is a link")
    if "repositories" in found.sizes and _MANIFEST not in found.sizes:
        raise ValueError("ambiguous, old versions of Docker go by its repositories")
    of_docker = _docker(found) if _MANIFEST in found.sizes else None
    if layout.INDEX not in found.sizes:
        if of_docker is None:
            raise ValueError(f"it holds neither {_MANIFEST} nor {layout.INDEX}")
        return of_docker
    of_oci = _oci(found, path, name)
    if of_docker is None:
        return of_oci
    # Docker of today reads the one or the other, depending on where it keeps images.
    mine, theirs = (
        (one.config, [(layer.diff_id, layer.member) for layer in one.layers])
        for one in (of_docker, of_oci)
    )
    if mine != theirs:
        raise ValueError("ambiguous, its manifest.json and its index.json name different images")
    oddities = [*of_docker.oddities, *of_oci.oddities]
    docker, oci = of_docker.tag, of_oci.tag
    names = {reference.parse(one) for one in (docker, oci) if reference.is_name(one)}
    if len(names) > 1:
        oddities.append(f"{_MANIFEST} gives it the name {docker}, {layout.INDEX} {oci}")
    return Summary(docker or oci, of_docker.config, of_oci.layers, oddities, of_oci.digest)


def _oci(found: Members, path: Path, name: str) -> Summary:
    def blob(digest: str) -> bytes:
        return found.document(layout.blob(digest))

    image = layout.parse(found.document(layout.INDEX), blob, path, name)
    for layer in image.layers:
        if found.sizes.get(layer.member) != layer.size:
            raise ValueError(f"it holds no {layer.member} of {layer.size} bytes")
    return Summary(image.tag, image.config, image.layers, image.oddities, image.digest)


def _docker(found: Members) -> Summary:
    """Read Docker's half: manifest.json, and what it names."""
    images = document.parse_any(found.document(_MANIFEST))
    if not isinstance(images, list) or not all(isinstance(one, dict) for one in images):
        raise ValueError(f"its {_MANIFEST} is no list of images")
    if len(images) != 1:
        raise ValueError(f"it holds {len(images)} images, which one is not to be told")
    (manifest,) = images
    names, tags, configured = (manifest.get(key) for key in ("Layers", "RepoTags", "Config"))
    tags = tags or []
    if not (_are_texts(names) and _are_texts(tags) and isinstance(configured, str)):
        raise ValueError(f"its {_MANIFEST} does not name a configuration, layers and tags")
    files = [found.file(name) for name in names]
    config = document.configuration(found.document(configured))
    layers = layers_of(config, [(name, found.sizes[name], False) for name in files])
    return Summary(tags[0] if tags else "", config, layers, _oddities(manifest))


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


def _oddities(manifest: dict[str, Any]) -> list[str]:
    tags = manifest.get("RepoTags") or []
    names = [f"{_MANIFEST} gives it {len(tags)} names: {', '.join(tags)}"] if len(tags) > 1 else []
    names += [
        f"{_MANIFEST} gives it the name {one!r}, which is none that Docker takes"
        for one in tags
        if not reference.is_name(one)
    ]
    more = [key for key, value in manifest.items() if key not in _KNOWN and value]
    sources = manifest.get("LayerSources") or {}
    named = list(sources.values()) if isinstance(sources, dict) else [None]
    if any(not isinstance(one, dict) or one.keys() - _SOURCE for one in named):
        more.append("LayerSources with more than digest and size")
    return [*names, *(f"{_MANIFEST} has {key}" for key in more)]


def unreadable(path: Path, error: Exception) -> TnpuError:
    """Return the error of what is no archive of an image, or cannot be read."""
    return TnpuError(
        f"{path} is no image archive that can be read: {error}", "build or copy it anew"
    )


def unpack(archive: Archive, folder: Path) -> None:
    """Unpack the image's root file system into an empty folder, lowest layer first.

    Raises:
        TnpuError: an archive or layer cannot be unpacked.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with temporary_folder() as scratch:
        _tar("-xf", archive.path, "-C", scratch)
        for layer in archive.layers:
            _tar("-xf", scratch / layer.member, "-C", folder, "--delay-directory-restore")


def _tar(*arguments: str | Path) -> None:
    done = process.run(["tar", *arguments], timeout=None)
    if done.status != 0:
        raise TnpuError(f"tar failed: {done.stderr.strip()}", "check the disk and the archive")
