"""A repository of an image registry, read: the OCI distribution API."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from urllib3.exceptions import HTTPError

from tnpu_nix.errors import TnpuError
from tnpu_nix.registry.http import Patience, Response, Transport
from tnpu_nix.registry.reference import Reference

OCI_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
OCI_INDEX = "application/vnd.oci.image.index.v1+json"
DOCKER_MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
DOCKER_LIST = "application/vnd.docker.distribution.manifest.list.v2+json"
_INDEXES = (OCI_INDEX, DOCKER_LIST)
ACCEPT = ", ".join((DOCKER_MANIFEST, OCI_MANIFEST, DOCKER_LIST, OCI_INDEX))
_ACCEPT = {"Accept": ACCEPT}

CHUNK = 1 << 18  # bytes of a blob at a time


def digest_of(data: bytes) -> str:
    """Return ``sha256:`` and the hash in hexadecimal, as registries name what they keep."""
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


@dataclass(frozen=True)
class Manifest:
    """A manifest as a registry has it."""

    digest: str  # of raw
    media_type: str
    raw: bytes
    content: dict[str, Any] = field(compare=False)  # raw as JSON

    @property
    def is_index(self) -> bool:
        """Whether it lists images for several platforms instead of an image's layers."""
        return self.media_type in _INDEXES


class Repository:
    """One repository of a registry.

    Args:
        reference: names the repository; its tag and digest are of no account.
        writing: whether the right to push is asked for, beside that to pull.
        plain_http: speak HTTP without TLS to another machine; on this one that is found out.
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
        self.transport = Transport(
            reference, writing=writing, plain_http=plain_http, patience=patience or Patience()
        )

    def manifest(self, where: str) -> Manifest:
        """Return the manifest of a tag or digest as it is, an index too.

        Raises:
            TnpuError: it is not there, or not what its digest says.
        """
        what = f"manifest {where}"
        answer = self.transport.request("GET", f"manifests/{where}", headers=_ACCEPT, what=what)
        raw = answer.data
        said = answer.headers.get("Docker-Content-Digest") or digest_of(raw)
        wanted = where if where.startswith("sha256:") else said
        if wanted.startswith("sha256:") and digest_of(raw) != wanted:
            raise self._damaged(what, wanted, digest_of(raw))
        content = self.transport.json(raw, f"a {what}")
        kind = str(content.get("mediaType") or answer.headers.get("Content-Type", ""))
        return Manifest(digest_of(raw), kind.partition(";")[0].strip(), raw, content)

    def image(self, where: str) -> Manifest:
        """Return the manifest of an image for linux/amd64, through an index if there is one.

        Raises:
            TnpuError: as for manifest; or the index has no such image.
        """
        found = self.manifest(where)
        if not found.is_index:
            return found
        for entry in found.content.get("manifests") or []:
            platform = entry.get("platform") or {}
            if (platform.get("os"), platform.get("architecture")) == ("linux", "amd64"):
                return self.manifest(str(entry["digest"]))
        raise TnpuError(
            f"{self.reference.repository} has at {where} an index without a linux/amd64 image",
            "name the image by its own tag or digest",
        )

    def config(self, manifest: Manifest) -> dict[str, Any]:
        """Return the configuration of an image, from its manifest.

        Raises:
            TnpuError: it is not there, or not what its digest says.
        """
        digest = str((manifest.content.get("config") or {}).get("digest", ""))
        return self.transport.json(b"".join(self.blob(digest)), f"a configuration {digest}")

    def tag_digest(self, tag: str) -> str | None:
        """Return the digest of the manifest that a tag leads to; None if there is no such tag."""
        answer = self.transport.request(
            "HEAD", f"manifests/{tag}", headers=_ACCEPT, accept=(200, 404), what=f"tag {tag}"
        )
        if answer.status == 404:
            return None
        return answer.headers.get("Docker-Content-Digest") or self.manifest(tag).digest

    def tags(self) -> list[str]:
        """Return the repository's tags as the registry orders them; none if it is not there."""
        answer = self.transport.request("GET", "tags/list", accept=(200, 404), what="tags")
        if answer.status == 404:
            return []
        tags = self.transport.json(answer.data, "a list of tags").get("tags")
        return [str(tag) for tag in tags or []]

    def blob_size(self, digest: str) -> int | None:
        """Return a blob's size in bytes; None if the repository does not have it."""
        answer = self.transport.request(
            "HEAD", f"blobs/{digest}", accept=(200, 404), what=f"blob {digest}"
        )
        return int(answer.headers.get("Content-Length", "0")) if answer.status == 200 else None

    def has_blob(self, digest: str) -> bool:
        """Tell whether the repository has a blob."""
        return self.blob_size(digest) is not None

    def blob(self, digest: str) -> Iterator[bytes]:
        """Yield a blob's bytes. A broken connection is taken up where it broke.

        Raises:
            TnpuError: it is not there; or what came is not what the digest says, which is known
                when all of it has come.
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
        found = f"sha256:{hashed.hexdigest()}"
        if found != digest:
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
