"""Requests to a binary cache over HTTP: short time-outs, the user's netrc, reasons in words."""

from __future__ import annotations

import base64
import http.client
import netrc
import os
import queue
import socket
import ssl
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit

from tnpu_nix.errors import TnpuError

Item = TypeVar("Item")
Result = TypeVar("Result")
_WORKERS = 16
_STATUSES = {
    401: "it asks for a password (401); put one into a netrc file",
    403: "it refuses this user (403)",
    405: "it takes no uploads (405)",
    413: "it takes no file of that size (413)",
    507: "it is full (507)",
}


class UnavailableError(Exception):
    """A cache that is of no use now; the text says why, in a few words."""


class NotThereError(Exception):
    """The cache answers, and does not have what was asked for."""


@dataclass(frozen=True)
class Access:
    """How caches are reached."""

    timeout: float = 5.0  # seconds without an answer
    netrc: Path | None = None

    @property
    def no_answer(self) -> str:
        """What is said of a cache that gives no answer."""
        return f"no answer within {self.timeout:g} s"


def netrc_file(named: Path | None) -> Path | None:
    """Return the netrc file that is used: the one named, $NETRC, ~/.netrc, or Nix's own.

    Raises:
        TnpuError: the one named is not there.
    """
    if named is not None and not named.is_file():
        raise TnpuError(f"{named} is no file", "name a netrc file, or leave the option out")
    usual = [os.environ.get("NETRC"), Path.home() / ".netrc", "/etc/nix/netrc"]
    there = (Path(one) for one in ([named] if named else usual) if one)
    return next((one.absolute() for one in there if os.access(one, os.R_OK)), None)


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


def request(
    url: str, access: Access, method: str = "GET", body: bytes | None = None
) -> tuple[bytes, int | None]:
    """Return the body of an answer and the length that it claims, in bytes.

    Raises:
        NotThereError: 404, or 403, which is how some servers say the same; the caller knows more.
        UnavailableError: anything else than success.
    """
    asked = urllib.request.Request(url, data=body, method=method)
    if authorization := _authorization(url, access):
        # Another server that this one leads to is not to see the password.
        asked.add_unredirected_header("Authorization", authorization)
    certificates = os.environ.get("NIX_SSL_CERT_FILE")
    context = ssl.create_default_context(cafile=certificates) if url[:6] == "https:" else None
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
        case ssl.SSLError():
            return f"no safe connection: {inner.reason}"
        case OSError():
            return f"no connection: {inner.strerror or inner}"
        case _:
            return "its answer is not HTTP"


def all_at_once(
    function: Callable[[Item], Result], items: Sequence[Item], access: Access
) -> list[Result]:
    """Call a function with all items beside each other; return the results in order.

    Raises:
        UnavailableError: for a time-out's length no call has ended.
    """
    waiting: queue.SimpleQueue[int] = queue.SimpleQueue()
    ended: queue.SimpleQueue[tuple[int, Result | Exception]] = queue.SimpleQueue()
    for number in range(len(items)):
        waiting.put(number)

    def work() -> None:
        while True:
            try:
                number = waiting.get_nowait()
            except queue.Empty:
                return
            try:
                ended.put((number, function(items[number])))
            except Exception as error:
                ended.put((number, error))

    # Daemons: one that hangs in a name server's silence must not hold the command up.
    for _ in range(min(_WORKERS, len(items))):
        threading.Thread(target=work, daemon=True).start()
    results: dict[int, Result] = {}
    while len(results) < len(items):
        try:
            # A moment more than a request has: its own reason is the better one.
            number, outcome = ended.get(timeout=access.timeout + 0.5)
        except queue.Empty:
            raise UnavailableError(access.no_answer) from None
        if isinstance(outcome, Exception):
            raise outcome
        results[number] = outcome
    return [results[number] for number in range(len(items))]
