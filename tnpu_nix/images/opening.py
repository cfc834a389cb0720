"""From what a user writes to an image: a path, an OCI layout, a reference in a registry."""

from __future__ import annotations

from pathlib import Path

from tnpu_nix.errors import TnpuError
from tnpu_nix.images import archive, layout, remote
from tnpu_nix.images.model import Image

FORMS = "an archive, a folder with an OCI layout, oci:PATH[:TAG], or [docker://]host/name:tag"


def open_image(text: str, plain_http: bool = False) -> Image:
    """Return an image by one of `FORMS`; an archive is one of Docker or of OCI.

    Raises:
        TnpuError: there is no such image, or it cannot be read.
    """
    scheme, _, rest = text.partition(":")
    if scheme in ("oci", "oci-archive") and not rest.startswith("//"):
        return _named(rest)
    if scheme == "docker-archive":
        return archive.read(_existing(Path(rest)))
    if scheme == "docker" and rest.startswith("//"):
        return remote.read(text, plain_http)
    path = Path(text)
    if path.exists():
        return _read(path)
    if text.startswith((".", "/")) or "/" not in text:
        raise _absent(text)
    return remote.read(text, plain_http)


def _named(rest: str) -> Image:
    """As skopeo has it: the path, and after a colon the tag."""
    if Path(rest).exists():
        return _read(Path(rest))
    path, _, tag = rest.rpartition(":")
    return _read(_existing(Path(path or rest)), tag if path else "")


def _read(path: Path, tag: str = "") -> Image:
    return layout.read(path, tag) if path.is_dir() else archive.read(path, tag)


def _existing(path: Path) -> Path:
    if not path.exists():
        raise _absent(str(path))
    return path


def _absent(text: str) -> TnpuError:
    return TnpuError(f"there is no image {text}", f"name {FORMS}")
