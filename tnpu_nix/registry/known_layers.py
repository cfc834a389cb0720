"""Which layers a repository has already, by the hash of their uncompressed bytes."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from tnpu_nix.errors import TnpuError
from tnpu_nix.place import STATE_FOLDER, keep_note
from tnpu_nix.registry import document
from tnpu_nix.registry.client import Repository
from tnpu_nix.registry.upload import Blob

_FILE = "pushed-layers.json"
_MOST_RECORDED = 4096
# Each costs two requests; the newest image is not known by its tag.
_MOST_TAGS = 32
_GZIP_KINDS = (
    "application/vnd.oci.image.layer.v1.tar+gzip",
    "application/vnd.docker.image.rootfs.diff.tar.gzip",
)


class KnownLayers:
    """Finds layers in a repository; what is found once is not asked for again.

    A registry names a layer by the hash of its compressed bytes. What these were for a layer is
    told by a note of earlier pushes, and by the images that the repository holds: an image's
    configuration lists the hashes of its uncompressed layers in the order of the manifest's. What
    an image says may be false, so it is a guess until it has been proven.
    """

    def __init__(self, repository: Repository, root: Path) -> None:
        self._repository = repository
        self._root = root
        self._noted = _load(root).get(str(repository.reference.repository), {})
        self._there: dict[str, Blob] = {}
        self._elsewhere: dict[str, Blob] = {}
        self._deceived = False
        self._images = self._blobs_of_images()

    def find(self, diff_id: str) -> Blob | None:
        """Return the layer's blob if the repository has it.

        Args:
            diff_id: of the uncompressed layer, as an image's configuration has it.

        Raises:
            TnpuError: the registry does not answer.
        """
        if diff_id in self._there:
            return self._there[diff_id]
        if (noted := self._noted.get(diff_id)) and self._is_there(noted):
            return self.add(diff_id, noted)
        return None

    def guess(self, diff_id: str) -> Blob | None:
        """Return the blob that an image of the repository says to be a layer, if it is there.

        Raises:
            TnpuError: the registry does not answer.
        """
        if self._deceived or self._repository.distrusted:
            return None
        other = self._from_images(diff_id)
        return other if other and self._is_there(other) else None

    def distrust(self) -> None:
        """Make no guesses any more: one was false."""
        self._deceived = True

    @property
    def count(self) -> int:
        """How many layers the repository was found to have, or was sent, so far."""
        return len({**self._noted, **self._there})

    def doubt(self) -> None:
        """Ask again for what was found: the registry has been away, and may have lost it."""
        self._noted |= self._there
        self._there = {}

    def add(self, diff_id: str, blob: Blob) -> Blob:
        """Note that the repository has a layer."""
        self._there[diff_id] = blob
        return blob

    def keep(self) -> None:
        """Write the note for the next push. A push is not failed by a note that cannot be made."""
        notes = _load(self._root)
        newest = dict(list({**self._noted, **self._there}.items())[-_MOST_RECORDED:])
        notes[str(self._repository.reference.repository)] = newest
        plain = {
            name: {diff_id: asdict(blob) for diff_id, blob in layers.items()}
            for name, layers in notes.items()
        }
        keep_note(self._root, _FILE, json.dumps(plain))

    def _is_there(self, blob: Blob) -> bool:
        return self._repository.has_blob(blob.digest, blob.size)

    def _from_images(self, diff_id: str) -> Blob | None:
        """Return what an image in the repository says, reading no more images than it takes."""
        while diff_id not in self._elsewhere:
            layers = next(self._images, None)
            if layers is None:
                return None
            self._elsewhere.update(layers)
        return self._elsewhere[diff_id]

    def _blobs_of_images(self) -> Iterator[dict[str, Blob]]:
        for tag in self._repository.tags()[: -_MOST_TAGS - 1 : -1]:
            # An image that cannot be read is no help, and no harm.
            with contextlib.suppress(TnpuError, ValueError):
                yield self._layers_of(tag)

    def _layers_of(self, tag: str) -> dict[str, Blob]:
        image = self._repository.image(tag).manifest
        diff_ids = document.configuration(self._repository.config(image))["rootfs"]["diff_ids"]
        return {
            diff_id: Blob(layer.digest, layer.size)
            for diff_id, layer in zip(diff_ids, image.layers, strict=True)
            if layer.media_type in _GZIP_KINDS
        }


def _load(root: Path) -> dict[str, dict[str, Blob]]:
    try:
        content = json.loads((root / STATE_FOLDER / _FILE).read_text())
        return {
            str(name): {
                str(diff_id): Blob(str(blob["digest"]), int(blob["size"]))
                for diff_id, blob in layers.items()
            }
            for name, layers in content.items()
        }
    except (OSError, ValueError, TypeError, AttributeError, KeyError):
        return {}
