"""A repository of an image registry, read: the OCI distribution API."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from urllib3.exceptions import HTTPError

from tnpu_nix.errors import TnpuError
from tnpu_nix.registry import document
from tnpu_nix.registry import manifest as manifests
from tnpu_nix.registry.http import Patience, Response, Transport
from tnpu_nix.registry.manifest import DOCKER_LIST, DOCKER_MANIFEST, OCI_INDEX, OCI_MANIFEST
from tnpu_nix.registry.reference import Reference, is_digest

ACCEPT = ", ".join((DOCKER_MANIFEST, OCI_MANIFEST, DOCKER_LIST, OCI_INDEX))
_ACCEPT = {"Accept": ACCEPT}

CHUNK = 1 << 18  # bytes of a blob at a time


def digest_of(data: bytes) -> str:
    """Return ``sha256:`` and the hash in hexadecimal, as registries name what they keep."""
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


@dataclass(frozen=True)
class Found:
    """A manifest or an index as a registry has it."""

    digest: str  # of raw
    media_type: str
    raw: bytes
    content: dict[str, Any] = field(compare=False)  # raw as JSON


@dataclass(frozen=True)
class FoundImage:
    """The manifest of an image, and the index that led to it."""

    digest: str  # of the manifest
    manifest: manifests.Manifest
    others: list[str]  # platforms of which the index names an image too


class Repository:
    """One repository of a registry.

    Args:
        reference: names the repository; its tag and digest are of no account.
        writing: whether the right to push is asked for, beside that to pull.
        plain_http: speak HTTP without TLS to another machine; on this one that is found out.

    Attributes:
        distrusted: whether it has said that it has a blob that it lacks; it is not asked any more.
    """

    def __init__(
        self,
        reference: Reference,
        *,
        writing: bool = False,
        plain_http: bool = False,
        patience: Patience | None = None,
    ) -> None:
        self.reference = reference
        self.distrusted = False
        self.transport = Transport(
            reference, writing=writing, plain_http=plain_http, patience=patience or Patience()
        )

    def manifest(self, where: str) -> Found:
        """Return the manifest of a tag or digest as it is, an index too.

        Raises:
            TnpuError: it is not there, not what its digest says, or nothing that can be read in
                one way only.
        """
        what = f"manifest {where}"
        answer = self.transport.request("GET", f"manifests/{where}", headers=_ACCEPT, what=what)
        raw = answer.data
        said = answer.headers.get("Docker-Content-Digest") or digest_of(raw)
        wanted = where if where.startswith("sha256:") else said
        if wanted.startswith("sha256:") and digest_of(raw) != wanted:
            raise self._damaged(what, wanted, digest_of(raw))
        kind = answer.headers.get("Content-Type", "").partition(";")[0].strip()
        try:
            content = document.parse(raw)
            return Found(digest_of(raw), manifests.kind_of(content, kind), raw, content)
        except ValueError as error:
            raise self._no_image(what, error) from error

    def image(self, where: str) -> FoundImage:
        """Return the manifest of an image for linux/amd64, through an index if there is one.

        Raises:
            TnpuError: as for manifest; or the index has no such image, or several.
        """
        found, others = self.manifest(where), []
        try:
            if found.media_type in manifests.INDEXES:
                chosen = manifests.choose(found.content)
                found, others = self.manifest(chosen.blob.digest), chosen.others
            return FoundImage(found.digest, manifests.parse(found.content), others)
        except LookupError as error:
            raise TnpuError(
                f"{self.reference.repository} has at {where} an index with {error.args[0]}",
                "name the image by its own tag or digest",
            ) from error
        except ValueError as error:
            raise self._no_image(f"manifest {where}", error) from error

    def config(self, image: manifests.Manifest) -> bytes:
        """Return the configuration of an image, as it is.

        Raises:
            TnpuError: it is not there, or not what its digest and size say.
        """
        return b"".join(self.blob(image.config.digest, image.config.size))

    def tag_digest(self, tag: str) -> str | None:
        """Return the digest of the manifest that a tag leads to; None if there is no such tag."""
        answer = self.transport.request(
            "HEAD", f"manifests/{tag}", headers=_ACCEPT, accept=(200, 404), what=f"tag {tag}"
        )
        if answer.status == 404:
            return None
        said = answer.headers.get("Docker-Content-Digest", "")
        return said if is_digest(said) else self.manifest(tag).digest

    def tags(self) -> list[str]:
        """Return the repository's tags as the registry orders them; none if it is not there."""
        answer = self.transport.request("GET", "tags/list", accept=(200, 404), what="tags")
        if answer.status == 404:
            return []
        tags = self.transport.json(answer.data, "a list of tags").get("tags")
        return [str(tag) for tag in tags] if isinstance(tags, list) else []

    def has_blob(self, digest: str, size: int | None = None) -> bool:
        """Tell whether the repository has a blob, as far as it is to be trusted.

        Args:
            size: in bytes; a blob of which the registry says another is none.
        """
        if self.distrusted:
            return False
        answer = self.transport.request(
            "HEAD", f"blobs/{digest}", accept=(200, 404), what=f"blob {digest}"
        )
        said = answer.headers.get("Content-Length", "0")  # which not every registry says
        return answer.status == 200 and (size is None or said in ("0", str(size)))

    def blob(self, digest: str, size: int) -> Iterator[bytes]:
        """Yield a blob's bytes. A broken connection is taken up where it broke.

        Args:
            size: how many there should be, as the manifest says.

        Raises:
            TnpuError: it is not there; or what came is not what digest and size say, which is
                known when all of it has come.
        """
        hashed, have, failures = hashlib.sha256(), 0, 0
        while True:
            answer = self._part(digest, have)
            skip = have if answer.status == 200 else 0  # all of it comes once more
            whole = False
            try:
                for data in answer.stream(CHUNK, decode_content=False):
                    new = data[skip:]
                    skip = max(0, skip - len(data))
                    if new:
                        failures = 0
                        have += len(new)
                        if have > size:
                            raise self._wrong_size(digest, have, size)
                        hashed.update(new)
                        yield new
                whole = True
                break
            except HTTPError as error:
                failures += 1
                if failures > self.transport.patience.retries:
                    raise self.transport.unreachable(error) from error
                time.sleep(self.transport.patience.pause(failures))
            finally:
                if not whole:
                    answer.close()
        if have != size:
            raise self._wrong_size(digest, have, size)
        if (found := f"sha256:{hashed.hexdigest()}") != digest:
            raise self._damaged(f"blob {digest}", digest, found)

    def _part(self, digest: str, start: int) -> Response:
        """Ask for a blob from a byte on; the answer has status 200 if all of it comes."""
        return self.transport.request(
            "GET",
            f"blobs/{digest}",
            headers={"Range": f"bytes={start}-"} if start else {},
            accept=(200, 206),
            preload=False,
            what=f"blob {digest}",
        )

    def _damaged(self, what: str, wanted: str, found: str) -> TnpuError:
        return TnpuError(
            f"{self.reference.repository}: {what} is damaged: its digest is {found}, not {wanted}",
            "try again; if it stays so, push the image anew",
        )

    def _wrong_size(self, digest: str, have: int, size: int) -> TnpuError:
        count = f"{have} bytes" if have < size else "more"
        return TnpuError(
            f"{self.reference.repository}: blob {digest} is damaged: it has {count}, the manifest"
            f" says {size} bytes",
            "try again; if it stays so, push the image anew",
        )

    def _no_image(self, what: str, error: ValueError) -> TnpuError:
        return TnpuError(
            f"{self.reference.repository}: {what} is no image that can be read: {error}",
            "name the tag of an image, or push the image anew",
        )
