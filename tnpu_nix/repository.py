"""What a git URL says: which repository it names, and what its checkout is called in the store."""

from __future__ import annotations

import re
from urllib.parse import unquote, urlsplit

_SCP_LIKE = re.compile(r"^(?:[^@/\s]+@)?(?P<host>[^:/\s]+):(?!//)(?P<path>.*)$")
_DEFAULT_PORTS = {"http": 80, "https": 443, "ssh": 22, "git": 9418}
_NOT_IN_STORE_NAMES = re.compile(r"[^a-zA-Z0-9+._?=-]")


def same_repository_key(url: str) -> str:
    """Return one spelling for all URLs of a repository: ``host/owner/name`` in lower case.

    Scheme, user, default port, ``.git``, slashes at the end, percent-encoding and case do not
    tell repositories apart; ``git@host:owner/name`` is the scp-like form of ssh.
    """
    text = url.strip()
    if "://" in text:
        parts = urlsplit(text)
        try:
            port = parts.port
        except ValueError:
            port = None
        host = parts.hostname or ""
        if port is not None and port != _DEFAULT_PORTS.get(parts.scheme.lower().split("+")[-1]):
            host = f"{host}:{port}"
        path = parts.path
    elif match := _SCP_LIKE.match(text):
        host, path = match["host"], match["path"]
    else:
        host, path = "", text
    path = re.sub(r"/+", "/", unquote(path)).strip("/").lower()
    if host.lower().startswith("www."):
        host = host[4:]
    return f"{host.lower()}/{path.removesuffix('.git').rstrip('/')}"


def carries_password(url: str) -> bool:
    """Tell whether a URL has ``user:password@`` or a token in the user's place."""
    if "://" not in url:
        return False
    parts = urlsplit(url.strip())
    if parts.password:
        return True
    return parts.scheme.lower().startswith("http") and bool(parts.username)


def checkout_name(url: str, rev: str) -> str:
    """Return the store name of a checkout, ``<repo>-<first 7 of rev>``, as nix-prefetch-git gives.

    Source: url_to_name in nixpkgs' nix-prefetch-git. Characters that a store path cannot hold
    become ``-``, and a name cannot start with a dot.
    """
    last = url.rstrip("/").rsplit("/", 1)[-1].removesuffix(".git").rsplit(":", 1)[-1]
    base = _NOT_IN_STORE_NAMES.sub("-", last).lstrip(".")[:150] or "source"
    return f"{base}-{rev[:7]}"
