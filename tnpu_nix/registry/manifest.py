"""Image manifests and indexes of OCI and of Docker: which blobs an image is made of.

Source: the OCI image specification ("Image Manifest", "Image Index"); Docker's schema 2 has the
same fields under other media types. What several readers could take for different images is
refused, as the specification asks for since CVE-2021-41190.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tnpu_nix.registry import document
from tnpu_nix.registry.reference import is_digest

OCI_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
OCI_INDEX = "application/vnd.oci.image.index.v1+json"
DOCKER_MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
DOCKER_LIST = "application/vnd.docker.distribution.manifest.list.v2+json"
INDEXES = (OCI_INDEX, DOCKER_LIST)
MANIFESTS = (OCI_MANIFEST, DOCKER_MANIFEST)

_CONFIGS = (
    "application/vnd.oci.image.config.v1+json",
    "application/vnd.docker.container.image.v1+json",
)
_LAYERS = (
    "application/vnd.oci.image.layer.v1.tar",
    "application/vnd.oci.image.layer.v1.tar+gzip",
    "application/vnd.oci.image.layer.v1.tar+zstd",
    "application/vnd.docker.image.rootfs.diff.tar",
    "application/vnd.docker.image.rootfs.diff.tar.gzip",
    "application/vnd.docker.image.rootfs.diff.tar.zstd",
)
_LARGEST_CONFIG = 16 << 20  # bytes; one has some ten thousand
_NAME = "org.opencontainers.image.ref.name"  # annotation of an index: the image's tag
# By which containerd, and Docker upon it, name what they load before they look at the other.
_FULL_NAME = "io.containerd.image.name"
_AMD64 = ("amd64", "x86_64", "x86-64")  # containerd takes the others for the first


@dataclass(frozen=True)
class Blob:
    """A blob as a manifest names it."""

    digest: str
    size: int
    media_type: str

    @property
    def compressed(self) -> bool:
        """Whether a layer of this type is a compressed tar."""
        return self.media_type.endswith(("gzip", "zstd"))


@dataclass(frozen=True)
class Manifest:
    """The manifest of one image."""

    config: Blob
    layers: list[Blob]
    oddities: list[str] = field(default_factory=list)  # what no manifest of ours has, a line each

    def members(self) -> list[tuple[str, int, bool]]:
        """Return (digest, bytes, compressed) of each layer, the lowest first."""
        return [(one.digest, one.size, one.compressed) for one in self.layers]


def kind_of(content: dict[str, Any], said: str = "") -> str:
    """Return the media type of a manifest or index.

    Args:
        content: as JSON.
        said: what the one who named it says that it is: a descriptor, a registry's header.

    Raises:
        ValueError: it is none of those known here, or could be taken for two of them.
    """
    if "layers" in content and "manifests" in content:
        raise ValueError("ambiguous, it has both 'layers' and 'manifests'")
    if content.get("schemaVersion") != 2:
        raise ValueError("its schemaVersion is not 2")
    own, said = content.get("mediaType") or "", said if said in (*MANIFESTS, *INDEXES) else ""
    if own and said and own != said:
        raise ValueError(f"ambiguous, it calls itself {own}, and is said to be {said}")
    known = INDEXES if "manifests" in content else MANIFESTS
    kind = own or said or known[0]
    if kind not in known:
        raise ValueError(f"not what its media type says: {kind}")
    return str(kind)


def parse(content: dict[str, Any]) -> Manifest:
    """Read the manifest of an image.

    Raises:
        ValueError: it is none; the text says why.
    """
    kind_of(content)
    layers = content.get("layers")
    if not isinstance(layers, list):
        raise ValueError("it has no list of layers")
    found = Manifest(
        _blob(content.get("config"), "configuration", _CONFIGS),
        [_blob(one, "layer", _LAYERS) for one in layers],
    )
    found.oddities.extend(_oddities(content))
    return found


def _blob(descriptor: Any, what: str, kinds: tuple[str, ...]) -> Blob:
    blob = descriptor_of(descriptor, what)
    if kinds is _CONFIGS and blob.size > _LARGEST_CONFIG:
        raise ValueError(f"its configuration of {blob.size} bytes is larger than that of any image")
    if blob.media_type not in kinds:
        raise ValueError(f"its {what} is of a kind not known here: {blob.media_type or 'none'}")
    return blob


def descriptor_of(descriptor: Any, what: str) -> Blob:
    """Read what names a blob: its digest, size in bytes and media type.

    Raises:
        ValueError: it is no such thing; *what* says in the text what it should name.
    """
    if not isinstance(descriptor, dict):
        raise ValueError(f"it names no {what}")
    digest, size = descriptor.get("digest"), descriptor.get("size")
    if not isinstance(digest, str) or not is_digest(digest):
        raise ValueError(f"its {what} has no sha256 digest, but {digest!r}")
    if type(size) is not int or size < 0:
        raise ValueError(f"its {what} has no size, but {size!r}")
    return Blob(digest, size, str(descriptor.get("mediaType") or ""))


def _oddities(content: dict[str, Any]) -> list[str]:
    """Return what a manifest has beside what an image needs: some programs go by it."""
    known = ("schemaVersion", "mediaType", "config", "layers")
    lines = [f"the manifest has {name}" for name in _more(content, known)]
    parts = [("configuration", content["config"])]
    parts += [(f"layer {number}", one) for number, one in enumerate(content["layers"], 1)]
    for what, one in parts:
        for name in _more(one, ("mediaType", "digest", "size")):
            lines.append(f"the manifest has {name} for the {what}")
    return lines


def _more(found: dict[str, Any], known: tuple[str, ...]) -> list[str]:
    return [name for name, value in found.items() if name not in known and value not in (None, {})]


@dataclass(frozen=True)
class Chosen:
    """The entry of an index that an image was taken from."""

    blob: Blob  # its manifest, or an index of platforms
    tag: str  # that the entry carries, or the whole name; "" if none
    others: list[str]  # platforms of which the index names an image too


def choose(index: dict[str, Any], name: str = "") -> Chosen:
    """Return the entry of an index that names the image wanted, which is for linux/amd64.

    Programs differ in which of several they take: by order, by variant of the processor. So there
    must be but one that any of them could take.

    Args:
        name: the image's tag; "" for the one that there is.

    Raises:
        LookupError: there is none, or there are several; its text says which.
        ValueError: it is no index.
    """
    entries = index.get("manifests")
    if not isinstance(entries, list) or not all(isinstance(one, dict) for one in entries):
        raise ValueError("it has no list of manifests")
    if name:
        entries = [one for one in entries if _tag(one) == name]
        mine = entries
    else:
        mine = [one for one in entries if _may_be_taken(one)]
    if len(mine) == 1 and _may_be_taken(mine[0]):
        others = [_platform(one) for one in entries if one is not mine[0]]
        named = _annotation(mine[0], _FULL_NAME) or _tag(mine[0])
        return Chosen(descriptor_of(mine[0], "manifest"), named, others)
    if len(mine) < 2:
        raise LookupError(f"no image {name} for linux/amd64" if name else "no linux/amd64 image")
    names = sorted(_tag(one) or str(one.get("digest")) for one in mine)
    raise LookupError(f"several images: {', '.join(names)}")


def _may_be_taken(entry: dict[str, Any]) -> bool:
    system, processor, _ = _parts(entry)
    return system in ("linux", "") and processor in (*_AMD64, "")


def _parts(entry: dict[str, Any]) -> tuple[str, str, str]:
    platform = entry.get("platform")
    platform = platform if isinstance(platform, dict) else {}
    os, processor, variant = (
        str(platform.get(key) or "").strip().lower() for key in ("os", "architecture", "variant")
    )
    return os, processor, variant


def _platform(entry: dict[str, Any]) -> str:
    return "/".join(part for part in _parts(entry) if part) or "no platform"


def _tag(entry: dict[str, Any]) -> str:
    return _annotation(entry, _NAME)


def _annotation(entry: dict[str, Any], name: str) -> str:
    annotations = entry.get("annotations")
    return str(annotations.get(name, "")) if isinstance(annotations, dict) else ""


def manifest_of(data: bytes, said: str = "") -> Manifest:
    """Read the bytes of an image's manifest, of which *said* is the media type if anyone says so.

    Raises:
        ValueError: it is none; the text says why.
    """
    content = document.parse(data)
    if kind_of(content, said) in INDEXES:
        raise ValueError("an index where an image's manifest should be")
    return parse(content)
