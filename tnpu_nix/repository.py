"""What a git URL says: which repository it names, and what its checkout is called in the store."""

from __future__ import annotations

import posixpath
import re
from urllib.parse import unquote, urlsplit

_USER = re.compile(r"(?P<scheme>[^:/?#]+)://(?P<user>[^/?#]*)@")
_SCP_LIKE = re.compile(r"(?:[^@/\[\s]+@)?(?P<host>\[[^\]\s]+\]|[^:/\s]+):(?!//|:)(?P<path>.+)")
_SSH = ("ssh", "git+ssh", "ssh+git")
_DEFAULT_PORTS = {"http": 80, "https": 443, "git": 9418, "ftp": 21, "ftps": 990}
_NOT_IN_STORE_NAMES = re.compile(r"[^a-zA-Z0-9+._?=-]")


def same_repository_key(url: str) -> str:
    """Return one spelling for all URLs of a repository: ``host/owner/name`` in lower case.

    Scheme, user, default port, ``.git``, slashes at the end, percent-encoding and case do not
    tell repositories apart, nor does ssh's port: a server has one of its own for ssh.
    ``git@host:owner/name`` is the scp-like form of ssh. On this machine case does matter:
    ``file:/folder/name``.
    """
    host, path = _host_and_path(url.strip())
    if host:
        path = f"/{path}".lower()
    path = posixpath.normpath(re.sub(r"/+", "/", path)).removesuffix(".git").rstrip("/")
    return f"{host.removeprefix('www.')}{path}" if host else f"file:{path}"


def _host_and_path(text: str) -> tuple[str, str]:
    """Return the host, with a port that matters, and the path; no host is this machine."""
    if "://" not in text:
        match = _SCP_LIKE.match(text)
        if match is None:
            return "", text
        # In brackets stand an IPv6 address, or a host with ssh's port.
        host = match["host"].strip("[]").rpartition("@")[2]
        host = host.split(":")[0] if host.count(":") == 1 else host
        return host.lower().rstrip("."), match["path"]
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        return "", text
    if parts.scheme == "file":
        return "", unquote(parts.path)
    host = (parts.hostname or "").rstrip(".")
    if port not in (None, _DEFAULT_PORTS.get(parts.scheme)) and parts.scheme not in _SSH:
        host = f"{host}:{port}"
    return host, unquote(parts.path)


def is_ssh(url: str) -> bool:
    """Tell whether a git URL is one of ssh, in either of its forms."""
    if "://" in url:
        return url.split("://", 1)[0].lower() in _SSH
    return not url.startswith("/") and _SCP_LIKE.match(url) is not None


def carries_password(url: str) -> bool:
    """Tell whether a URL has ``user:password@``, or a token in the user's place.

    Only ssh has a use for a bare user name; anywhere else it may be a token.
    """
    text = url.strip()
    if match := _USER.match(text):
        return match["scheme"].lower() not in _SSH or ":" in match["user"]
    user, at, _ = text.split("/")[0].rpartition("@")
    return bool(at) and ":" in user


def url_fault(url: str) -> str | None:
    """Return why a URL cannot be a pin's, or None.

    The words do not repeat the URL, which may hold a secret.
    """
    if carries_password(url):
        return "holds a user name or password; keep credentials in a netrc file"
    if not url.startswith("/") and re.search(r"[?#]", url):
        return "holds ? or #, behind which a token may stand; give the plain URL"
    if re.search(r"\s", url):
        return "holds a blank; write %20 in its place, and file:// before a path"
    if not _is_git_url(url):
        return "is not a git URL: https://host/path, ssh://, git@host:path, file:// or /path"
    return None


def _is_git_url(url: str) -> bool:
    # A relative path would mean something else in each folder that git is run in.
    if "://" not in url:
        is_path = url.startswith("/") and url.strip("/") != ""
        return is_path or (not url.startswith("-") and _SCP_LIKE.match(url) is not None)
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        return False
    known = parts.scheme in _DEFAULT_PORTS or parts.scheme in _SSH
    return bool(parts.path.strip("/")) and (parts.scheme == "file" or (known and bool(host)))


def checkout_name(url: str, rev: str) -> str:
    """Return the store name of a checkout, ``<repo>-<first 7 of rev>``, as nix-prefetch-git gives.

    Source: url_to_name in nixpkgs' nix-prefetch-git. Characters that a store path cannot hold
    become ``-``, and a name cannot start with a dot.
    """
    last = url.rstrip("/").rsplit("/", 1)[-1].removesuffix(".git").rsplit(":", 1)[-1]
    base = _NOT_IN_STORE_NAMES.sub("-", last).lstrip(".")[:150] or "source"
    return f"{base}-{rev[:7]}"
