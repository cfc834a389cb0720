"""Requests to a binary cache over HTTP, and what is wrong with it in words."""

from __future__ import annotations

import base64
import http.client
import netrc
import os
import socket
import ssl
import urllib.error
import urllib.request
from typing import IO
from urllib.parse import urlsplit

from tnpu_nix.cache.access import Access, NotThereError, UnavailableError
from tnpu_nix.errors import TnpuError

_CERTIFICATES = "NIX_SSL_CERT_FILE"
# Numbers of OpenSSL (X509_V_ERR_…, x509_vfy.h): self-signed, or from an authority not known here.
_UNKNOWN_ISSUER = (18, 19, 20, 21)
_STATUSES = {
    401: "it asks for a password (401); put one into a netrc file",
    403: "it refuses this user (403)",
    405: "it takes no uploads (405)",
    413: "it takes no file of that size (413)",
    507: "it is full (507)",
}


def _authorization(url: str, access: Access) -> str | None:
    if access.netrc is None:
        return None
    try:
        found = netrc.netrc(str(access.netrc)).authenticators(urlsplit(url).hostname or "")
    except (netrc.NetrcParseError, OSError) as error:
        fault = error.msg if isinstance(error, netrc.NetrcParseError) else error.strerror
        raise TnpuError(f"{access.netrc} cannot be read: {fault}", "mend that file") from error
    if found is None:
        return None
    login, _, password = found
    return "Basic " + base64.b64encode(f"{login}:{password}".encode()).decode()


def _trusted() -> ssl.SSLContext:
    certificates = os.environ.get(_CERTIFICATES)
    try:
        return ssl.create_default_context(cafile=certificates)
    except OSError as error:
        raise TnpuError(
            f"{certificates} holds no certificates that can be read: {error.strerror or error}",
            f"name a file in PEM form in {_CERTIFICATES}, or unset it",
        ) from error


def request(
    url: str, access: Access, method: str = "GET", body: bytes | IO[bytes] | None = None
) -> tuple[bytes, int | None]:
    """Return the body of an answer and the length that it claims, in bytes.

    Args:
        body: what is sent: bytes, or a file that is read from its beginning.

    Raises:
        NotThereError: 404, or 403, which is how some servers say the same; the caller knows more.
        UnavailableError: anything else than success.
    """
    asked = urllib.request.Request(url, data=body, method=method)
    if body is not None and not isinstance(body, bytes):
        # Without a length it would go in chunks, which not every server takes.
        asked.add_header("Content-Length", str(os.fstat(body.fileno()).st_size))
    if authorization := _authorization(url, access):
        # Another server that this one leads to is not to see the password.
        asked.add_unredirected_header("Authorization", authorization)
    context = _trusted() if url[:6] == "https:" else None
    try:
        with urllib.request.urlopen(asked, timeout=access.timeout, context=context) as answer:
            length = answer.headers.get("Content-Length")
            return answer.read(), None if length is None else int(length)
    except urllib.error.HTTPError as error:
        if error.code in (404, 403, 410):
            raise NotThereError(_status(error.code)) from error
        raise UnavailableError(_status(error.code)) from error
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise UnavailableError(_reason(error, access)) from error


def _status(code: int) -> str:
    return _STATUSES.get(code, f"it answers {code}")


def _reason(error: Exception, access: Access) -> str:
    inner = error.reason if isinstance(error, urllib.error.URLError) else error
    match inner:
        case TimeoutError():
            return access.no_answer
        case ConnectionRefusedError():
            return "nothing listens there (connection refused)"
        case socket.gaierror():
            return "its host name is not known"
        case ssl.SSLCertVerificationError():
            reason = f"its certificate is not trusted here ({inner.verify_message})"
            if inner.verify_code not in _UNKNOWN_ISSUER:
                return reason
            return (
                f"{reason}; name the file of your own authority's certificates in"
                f" {_CERTIFICATES}, which Nix reads as well"
            )
        case ssl.SSLError():
            return f"no safe connection: {inner.reason}"
        case OSError():
            return f"no connection: {inner.strerror or inner}"
        case _:
            return "its answer is not HTTP"
