"""A repository and how it is asked: the token that a pin names goes to git where nobody sees it."""

from __future__ import annotations

import base64
import ipaddress
import os
import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from tnpu_nix import process
from tnpu_nix.errors import TnpuError

# Who git says it is; forges that take a token for the password let any name stand here.
TOKEN_USER = "x-access-token"

_CONTROL = re.compile(r"[\x00-\x20\x7f]")


@dataclass(frozen=True)
class Remote:
    """A repository, and the environment variable that holds a token for it."""

    url: str
    token_env: str | None = None  # None: a netrc file, an ssh agent, or nothing
    token_user: str = TOKEN_USER

    def token(self) -> str | None:
        """Return the token, None if the repository has none; it is masked from now on.

        Raises:
            TnpuError: the variable is not set, or holds no token.
        """
        if self.token_env is None:
            return None
        text = os.environ.get(self.token_env, "").strip()
        if not text:
            state = "empty" if self.token_env in os.environ else "not set"
            raise TnpuError(
                f"{self.url} needs a token, and the variable {self.token_env} is {state}",
                f"export {self.token_env} with a token that may read that repository",
            )
        if _CONTROL.search(text):
            raise TnpuError(
                f"the variable {self.token_env} holds blanks or line breaks, which no token has",
                f"export {self.token_env} with the token alone",
            )
        process.hide(text)
        process.hide(base64.b64encode(f"{self.token_user}:{text}".encode()).decode())
        return text

    def credential_helper(self) -> str:
        """Return the lines of git configuration by which git asks the environment for the token.

        They hold the variable's name, not its content, and go for this host alone: where a
        redirect or a submodule leads to another one, no token is sent.
        """
        parts = urlsplit(self.url)
        answer = f"printf 'username=%s\\npassword=%s\\n' {self.token_user} \"${self.token_env}\""
        helper = f'!f() {{ test "$1" = get && {answer}; }}; f'
        host = _quoted(f"{parts.scheme}://{parts.netloc}")
        return f"[credential {host}]\n    helper = {_quoted(helper)}\n"


def _quoted(text: str) -> str:
    """Return a text as git's configuration spells it."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def token_fault(url: str) -> str | None:
    """Return why a token cannot go to a URL, or None: it must not cross a network in the clear."""
    parts = urlsplit(url)
    if parts.scheme == "https" or (parts.scheme == "http" and _is_loopback(parts.hostname or "")):
        return None
    return "needs a pin with an https URL: a token must not cross the network in the clear"


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
