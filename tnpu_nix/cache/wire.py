"""Requests to a binary cache over HTTP, and what is wrong with it in words."""

from __future__ import annotations

import base64
import functools
import http.client
import io
import os
import socket
import ssl
import threading
import time
import urllib.error
import urllib.request
from typing import IO, Any
from urllib.parse import urlsplit

from tnpu_nix.cache import netrc
from tnpu_nix.cache.access import Access, NotThereError, UnavailableError
from tnpu_nix.errors import TnpuError

_CERTIFICATES = "NIX_SSL_CERT_FILE"
# Numbers of OpenSSL (X509_V_ERR_…, x509_vfy.h): self-signed, or from an authority not known here.
_UNKNOWN_ISSUER = (18, 19, 20, 21)
_LONGEST = 2**20  # bytes of an answer; a narinfo has some hundreds
_PATIENCE = 4  # time-outs that an answer may take altogether
_one_at_a_time = threading.Lock()
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
        found = netrc.find(access.netrc.read_text("utf-8"), urlsplit(url).hostname or "")
    except (OSError, UnicodeError) as error:
        fault = error.strerror if isinstance(error, OSError) else "it is no text in UTF-8"
        raise TnpuError(f"{access.netrc} cannot be read: {fault}", "mend that file") from error
    if found is None:
        return None
    return "Basic " + base64.b64encode(f"{found.login}:{found.password}".encode()).decode()


def _trusted() -> ssl.SSLContext:
    with _one_at_a_time:
        return _context()


@functools.cache
def _context() -> ssl.SSLContext:
    """Return the one context of the process.

    OpenSSL does not survive that the process ends while a thread still loads certificates.
    """
    certificates = os.environ.get(_CERTIFICATES)
    try:
        return ssl.create_default_context(cafile=certificates)
    except OSError as error:
        raise TnpuError(
            f"{certificates} holds no certificates that can be read: {error.strerror or error}",
            f"name a file in PEM form in {_CERTIFICATES}, or unset it",
        ) from error


class _Bounded(io.RawIOBase):
    """What a server sends, up to a length and within a time, its header lines included."""

    def __init__(self, raw: io.RawIOBase, sock: socket.socket) -> None:
        self._raw, self._sock = raw, sock
        self._timeout = sock.gettimeout() or 60.0
        self._until = time.monotonic() + _PATIENCE * self._timeout
        self._left = _LONGEST

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        left = self._until - time.monotonic()
        late = UnavailableError(f"its answer takes more than {_PATIENCE * self._timeout:g} s")
        self._sock.settimeout(max(0.001, min(left, self._timeout)))
        try:
            count: int | None = self._raw.readinto(buffer)
        except TimeoutError:
            if left >= self._timeout:
                raise
            raise late from None
        if time.monotonic() >= self._until:
            raise late
        self._left -= count or 0
        if self._left < 0:
            raise UnavailableError(f"its answer is longer than {_LONGEST >> 20} MiB")
        return count

    def close(self) -> None:
        self._raw.close()
        super().close()


class _Answer(http.client.HTTPResponse):
    def __init__(self, sock: socket.socket, *rest: Any, **more: Any) -> None:
        super().__init__(sock, *rest, **more)
        # From here on: what is sent before may take as long as it takes.
        self.fp = io.BufferedReader(_Bounded(self.fp.detach(), sock))


class _Plain(http.client.HTTPConnection):
    response_class = _Answer


class _Safe(http.client.HTTPSConnection):
    response_class = _Answer


class _Http(urllib.request.HTTPHandler):
    def http_open(self, asked: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(_Plain, asked)


class _Https(urllib.request.HTTPSHandler):
    def __init__(self) -> None:
        # The parent's own loads certificates, for a request without TLS as well.
        urllib.request.AbstractHTTPHandler.__init__(self)

    def https_open(self, asked: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(_Safe, asked, context=_trusted())


def request(
    url: str, access: Access, method: str = "GET", body: bytes | IO[bytes] | None = None
) -> tuple[bytes, int | None]:
    """Return the body of an answer to GET, and the length that any claims, in bytes.

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
    opener = urllib.request.build_opener(_Http, _Https)
    try:
        with opener.open(asked, timeout=access.timeout) as answer:
            length = answer.headers.get("Content-Length")
            content = answer.read() if method == "GET" else b""
            return content, None if length is None else int(length)
    except urllib.error.HTTPError as error:
        if error.code in (404, 403, 410):
            raise NotThereError(_status(error.code)) from error
        if error.code == 401 and authorization:
            raise UnavailableError(f"it refuses the password of {access.netrc} (401)") from error
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
