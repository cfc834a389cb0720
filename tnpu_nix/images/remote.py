"""Images in a registry, read without being kept."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import IO

from tnpu_nix.errors import TnpuError
from tnpu_nix.images.model import (
    CHUNK,
    Image,
    Layer,
    as_stream,
    decompressed,
    layers_of,
    oddities_of,
)
from tnpu_nix.registry import client as registry
from tnpu_nix.registry import document, reference


@dataclass(frozen=True)
class Remote(Image):
    """An image in a registry."""

    repository: registry.Repository
    manifest_digest: str

    @property
    def where(self) -> str:
        """The reference of the image."""
        return str(self.repository.reference)

    @property
    def digest(self) -> str:
        """The digest of the image's manifest."""
        return self.manifest_digest

    def tars(self, wanted: Collection[str] | None = None) -> Iterator[tuple[str, IO[bytes]]]:
        """Yield (digest, uncompressed tar) of each layer, fetched while it is read."""
        for digest, layer in {layer.member: layer for layer in self.layers}.items():
            if wanted is not None and digest not in wanted:
                continue
            stream = as_stream(self.repository.blob(digest, layer.size))
            yield digest, self._tar(stream, layer)
            while stream.read(CHUNK):
                pass  # the digest is known to be right when all has come

    def _tar(self, stream: IO[bytes], layer: Layer) -> IO[bytes]:
        try:
            return decompressed(stream, layer.compressed)
        except ValueError as error:
            raise TnpuError(f"{self.where} is no image: {error}", "push it anew") from error


def read(text: str, plain_http: bool = False) -> Remote:
    """Read the manifest and the configuration of an image in a registry.

    Args:
        text: ``[docker://]host[:port]/name[:tag|@digest]``.
        plain_http: speak HTTP without TLS to another machine.

    Raises:
        TnpuError: it is not there, or is no image.
    """
    named = reference.parse(text)
    repository = registry.Repository(named, plain_http=plain_http)
    found = repository.image(named.where)
    try:
        config = document.configuration(repository.config(found.manifest))
        layers = layers_of(config, found.manifest.members())
    except ValueError as error:
        raise TnpuError(
            f"what {named} leads to is no image: {error}", "name the tag of an image"
        ) from error
    tag = f"{named.repository}:{named.tag}" if named.tag else ""
    oddities = oddities_of(found.manifest, found.others)
    return Remote(tag, config, layers, repository, found.digest, oddities=oddities)
