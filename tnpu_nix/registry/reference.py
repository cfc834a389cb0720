"""Names of images in registries: ``[docker://]host[:port]/name[:tag|@digest]``."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass, replace

from tnpu_nix.errors import TnpuError

# From the grammar of the OCI distribution specification ("Pulling manifests").
_NAME = re.compile(
    r"[a-z0-9]+(?:(?:\.|_{1,2}|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:\.|_{1,2}|-+)[a-z0-9]+)*)*"
)
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_HOST = re.compile(
    r"(?:[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:]+\])(?::[0-9]{1,5})?"
)

DOCKER_HUB = "docker.io"
# What Docker Hub calls itself elsewhere.
_HUB_ALIASES = ("docker.io", "index.docker.io", "registry-1.docker.io", "registry.hub.docker.com")


@dataclass(frozen=True)
class Reference:
    """An image, or a repository of images, in a registry."""

    host: str  # with its port, if any; "docker.io" for Docker Hub
    name: str  # of the repository: parts joined by "/"
    tag: str | None = None
    digest: str | None = None  # "sha256:" and 64 hexadecimal digits

    @property
    def api_host(self) -> str:
        """The host (and port) that serves the registry's API."""
        return "registry-1.docker.io" if self.host == DOCKER_HUB else self.host

    @property
    def repository(self) -> str:
        """Host and name, without tag or digest."""
        return f"{self.host}/{self.name}"

    @property
    def where(self) -> str:
        """What names the manifest in the repository: the digest, else the tag."""
        return self.digest or self.tag or "latest"

    @property
    def is_loopback(self) -> bool:
        """Whether the registry runs on this machine."""
        name = re.sub(r":\d+$", "", self.host).strip("[]")
        try:
            return ipaddress.ip_address(name).is_loopback
        except ValueError:
            return name == "localhost"

    def tagged(self, tag: str) -> Reference:
        """Return the image of that tag in the same repository."""
        return replace(self, tag=tag, digest=None)

    def __str__(self) -> str:
        end = f"@{self.digest}" if self.digest else f":{self.tag}" if self.tag else ""
        return f"{self.repository}{end}"


def is_tag(text: str) -> bool:
    """Tell whether registries take *text* as a tag."""
    return _TAG.fullmatch(text) is not None


def is_digest(text: str) -> bool:
    """Tell whether *text* is a digest as registries name manifests and blobs."""
    return _DIGEST.fullmatch(text) is not None


def is_name(text: str) -> bool:
    """Tell whether *text* is an image's name as `docker load` takes it: [host/]name:tag."""
    try:
        return parse(text).tag is not None and not re.search(r"://|@", text)
    except TnpuError:
        return False


def parse(text: str) -> Reference:
    """Read a reference; one without tag and digest names the repository.

    A first part with neither dot nor port is a host only if it is ``localhost``: as for docker,
    ``ubuntu`` is ``docker.io/library/ubuntu``.

    Raises:
        TnpuError: *text* is no reference.
    """
    rest = text.removeprefix("docker://")
    if "://" in rest or "@" in rest.partition("/")[0]:
        shown = rest.rpartition("@")[2]  # what stands before may be a password
        raise _wrong(shown, "it was given as a URL, or with a user name")
    rest, _, digest = rest.partition("@")
    first, slash, others = rest.partition("/")
    if slash and (first == "localhost" or re.search(r"[.:]", first)):
        host, path = first, others
    else:
        host, path = DOCKER_HUB, rest
    name, colon, tag = path.rpartition(":") if ":" in path else (path, "", "")
    if host.lower() in _HUB_ALIASES:
        host, name = DOCKER_HUB, name if "/" in name else f"library/{name}"
    if not _HOST.fullmatch(host):
        raise _wrong(text, f"{host!r} is no host")
    if not _NAME.fullmatch(name):
        raise _wrong(text, f"{name!r} is no name of lower-case letters, digits and . _ - /")
    if colon and not is_tag(tag):
        raise _wrong(text, f"{tag!r} is no tag")
    if "@" in text and not _DIGEST.fullmatch(digest):
        raise _wrong(text, f"{digest!r} is no sha256 digest")
    return Reference(host.lower(), name, tag or None, digest or None)


def _wrong(text: str, why: str) -> TnpuError:
    return TnpuError(
        f"{text!r} is no image reference: {why}",
        "write host[:port]/name[:tag] or host[:port]/name@sha256:…",
    )
