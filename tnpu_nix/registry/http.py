"""Requests to one repository of a registry: TLS, authentication, redirects, retries."""

from __future__ import annotations

import functools
import re
import ssl
import time
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode, urljoin, urlsplit

import urllib3
from urllib3.exceptions import (
    ConnectTimeoutError,
    HTTPError,
    NewConnectionError,
    ReadTimeoutError,
    SSLError,
)

from tnpu_nix import __version__
from tnpu_nix.errors import TnpuError
from tnpu_nix.registry import credentials, document
from tnpu_nix.registry.answers import (
    Challenge,
    RegistryError,
    challenge,
    refused,
    refused_elsewhere,
    unreachable,
)
from tnpu_nix.registry.credentials import Credentials
from tnpu_nix.registry.reference import Reference

Body = bytes | Iterator[bytes]
Response = urllib3.BaseHTTPResponse

_RETRIED = (429, 500, 502, 503, 504)
_REDIRECTS = (301, 302, 303, 307, 308)
_LONGEST_PAUSE = 20.0
_LARGEST = 16 << 20  # bytes of a manifest or any other document; registries take 4 MiB
# What can stand in a header, of which the token becomes a part.
_TOKEN = re.compile(r"[\x21-\x7e]+")
# Where docker and podman keep the certificates of registries' own CAs, below a registry's host.
_CERTIFICATE_FOLDERS = ("/etc/docker/certs.d", "/etc/containers/certs.d")


@dataclass(frozen=True)
class Patience:
    """How long a registry may stay silent, and how often it is asked again."""

    connect: float = 10.0  # seconds until a connection is there
    read: float = 60.0  # seconds between two bytes
    retries: int = 4  # after a connection that broke, or an answer of a registry in trouble

    @property
    def tries(self) -> int:
        """How often a single request is made; a push or pull as a whole tries longer."""
        return 1 + min(self.retries, 2)

    def pause(self, failures: int, said: str | None = None) -> float:
        """Return the seconds to wait after so many failures; *said* is a Retry-After header."""
        if said is not None and said.isascii() and said.isdigit():
            return min(float(said), _LONGEST_PAUSE)
        return min(0.5 * 2.0 ** (failures - 1), _LONGEST_PAUSE)


def certificates(host: str) -> list[Path]:
    """Return the CA certificates that docker or podman was given for a host."""
    folders = [Path(folder, host) for folder in _CERTIFICATE_FOLDERS]
    return [path for folder in folders for path in sorted(folder.glob("*.crt"))]


@functools.lru_cache
def _tls(host: str) -> ssl.SSLContext:
    """The system's CA bundle (or SSL_CERT_FILE), and the host's own."""
    context = ssl.create_default_context()
    for path in certificates(host):
        context.load_verify_locations(path)
    return context


def _proxy(scheme: str, host: str) -> str | None:
    """Return the proxy that the environment names for a host."""
    if urllib.request.proxy_bypass(host.rsplit(":", 1)[0]):
        return None
    return urllib.request.getproxies().get(scheme)


@functools.lru_cache
def _pool(scheme: str, host: str) -> urllib3.PoolManager:
    """Return the connections to a host, through the proxy that the environment names for it."""
    tls = _tls(host) if scheme == "https" else None
    proxy = _proxy(scheme, host)
    if proxy is None:
        return urllib3.PoolManager(ssl_context=tls, maxsize=8)
    parts = urlsplit(proxy)
    user = f"{parts.username}:{parts.password or ''}" if parts.username else None
    return urllib3.ProxyManager(
        f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}",
        proxy_headers=urllib3.make_headers(proxy_basic_auth=user),
        ssl_context=tls,
        maxsize=8,
    )


class _Read(urllib3.HTTPResponse):
    """An answer whose body has been read; urllib3 takes an empty one for none."""

    @property
    def data(self) -> bytes:
        return super().data or b""


class Transport:
    """Makes the requests about one repository, with the credentials that belong to it."""

    def __init__(
        self, reference: Reference, *, writing: bool, plain_http: bool, patience: Patience
    ) -> None:
        self.reference = reference
        self.patience = patience
        self._writing = writing
        self._scheme = "http" if plain_http else "https"
        self._settled = plain_http or not reference.is_loopback
        self._credentials: Credentials | None = None
        self._authorization: str | None = None
        self._token_url = ""
        self._asked = reference.api_host  # the host of the last request: redirects lead to others

    def way(self, path: str) -> dict[str, str] | None:
        """Return how a path was asked for, so that it can be asked for again without this class.

        None where that takes more than a request, or one for a token before it: a proxy, a helper
        program, a refresh token.
        """
        url, who = self._url(path), self._credentials
        hosts = [urlsplit(one)[:2] for one in (url, self._token_url) if one]
        if any(_proxy(scheme, host) for scheme, host in hosts):
            return None
        from_file = who is not None and who.key != ""
        if who is not None and not from_file and who.source != credentials.VARIABLES:
            return None
        extra = [str(file) for _, host in hosts for file in certificates(host)]
        return {
            "url": url,
            "token_url": self._token_url,
            "auth_file": who.source if who is not None and from_file else "",
            "auth_key": who.key if who is not None else "",
            "ca": "\n".join(extra),
        }

    def request(
        self,
        method: str,
        path: str,
        *,
        headers: Mapping[str, str] | None = None,
        body: Body | None = None,
        accept: tuple[int, ...] = (200,),
        preload: bool = True,
        tries: int | None = None,
        what: str = "",
    ) -> Response:
        """Make one request, as often as it takes.

        Args:
            path: below the repository (``manifests/…``), or a URL that the registry gave.
            accept: statuses that are answers; any other is an error.
            preload: read the body at once; without it the caller reads and closes it.
            tries: how often at most, instead of what the patience says.
            what: is asked for, for errors; the path by default.

        Raises:
            RegistryError: the registry answered with another status.
            TnpuError: there is no answer, or none that a registry gives.
        """
        try:
            return self._tried(method, path, headers or {}, body, accept, preload, tries, what)
        except (ValueError, RecursionError) as error:
            if isinstance(error, HTTPError):
                raise self.unreachable(error) from error
            # What it says may repeat what we sent, the authorization too.
            raise self._misconfigured(
                "answers as no registry does (a bad header or URL)"
            ) from error

    def _tried(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str],
        body: Body | None,
        accept: tuple[int, ...],
        preload: bool,
        tries: int | None,
        what: str,
    ) -> Response:
        most = tries or self.patience.tries
        for failures in range(1, most + 1):
            try:
                answer = self._authorized(method, path, dict(headers), body, preload)
            except HTTPError as error:
                if failures == most or isinstance(error, SSLError | ReadTimeoutError):
                    raise self.unreachable(error) from error
                time.sleep(self.patience.pause(failures))
                continue
            if answer.status in accept:
                return answer
            if failures == most or answer.status not in _RETRIED:
                raise self._refusal(method, what or path.split("?")[0], answer)
            time.sleep(self.patience.pause(failures, answer.headers.get("Retry-After")))
        raise AssertionError("tries is at least 1")

    def unreachable(self, error: BaseException) -> TnpuError:
        """Return the error of a registry that cannot be talked to."""
        waited = self.patience.read
        if isinstance(error, ConnectTimeoutError):
            waited = self.patience.connect
        return unreachable(self._asked, error, waited)

    def log_in(self) -> None:
        """Get the authorization before a request whose body cannot be sent twice."""
        self.request("GET", "/v2/", accept=(200, 404), what="API")

    def _refusal(self, method: str, what: str, answer: Response) -> RegistryError:
        said = b"" if method == "HEAD" else self._whole(answer).data[: 1 << 16]
        if self._asked != self.reference.api_host:
            return refused_elsewhere(self.reference, self._asked, what, answer.status, said)
        return refused(self.reference, method, what, answer.status, said, self._credentials)

    def _url(self, path: str) -> str:
        base = f"{self._scheme}://{self.reference.api_host}"
        if path.startswith("/"):
            return f"{base}{path}"
        url = urljoin(f"{base}/v2/{quote(self.reference.name)}/", path)
        parts = urlsplit(url)
        # A registry behind a proxy may not know that it is spoken to by TLS.
        same = parts.netloc == self.reference.api_host
        return parts._replace(scheme=self._scheme).geturl() if same else url

    def _authorized(
        self, method: str, path: str, headers: dict[str, str], body: Body | None, preload: bool
    ) -> Response:
        """Make the request; a 401 is answered, once, with what the registry asks for."""
        self._settle()
        answer = self._follow(method, self._url(path), headers, body, preload)
        # Only the registry itself may ask: another host that it leads to would get the password.
        if answer.status != 401 or self._asked != self.reference.api_host:
            return answer
        wanted = challenge(answer.headers.get("WWW-Authenticate", ""))
        if wanted is None or not self._answer(wanted) or isinstance(body, Iterator):
            return answer
        answer.close()
        return self._follow(method, self._url(path), headers, body, preload)

    def _settle(self) -> None:
        """Find out whether a registry on this machine speaks TLS; elsewhere it has to."""
        if self._settled:
            return
        try:
            probe = self._send("GET", f"http://{self.reference.api_host}/v2/", {}, None, True)
            speaks_tls = probe.status == 400 and b"HTTPS" in probe.data
        except (ReadTimeoutError, ConnectTimeoutError, NewConnectionError):
            raise
        except HTTPError:
            speaks_tls = True  # what it said was no HTTP
        self._scheme = "https" if speaks_tls else "http"
        self._settled = True

    def _follow(
        self, method: str, url: str, headers: dict[str, str], body: Body | None, preload: bool
    ) -> Response:
        """Make the request and follow redirects; no other host than the registry gets a token."""
        for _ in range(6):
            mine = urlsplit(url)[:2] == (self._scheme, self.reference.api_host)
            own = {"Authorization": self._authorization} if mine and self._authorization else {}
            answer = self._send(method, url, {**headers, **own}, body, preload)
            where = answer.headers.get("Location")
            if answer.status not in _REDIRECTS or where is None or method not in ("GET", "HEAD"):
                return answer
            answer.close()
            target = urljoin(url, where)
            if urlsplit(url).scheme == "https" and urlsplit(target).scheme != "https":
                raise self._misconfigured("redirects from https to plain http")
            url = target
        raise self._misconfigured("redirects in circles")

    def _send(
        self, method: str, url: str, headers: dict[str, str], body: Body | None, preload: bool
    ) -> Response:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https"):
            raise self._misconfigured(f"leads to {parts.scheme or 'nowhere'!r}, which is not HTTP")
        self._asked = parts.netloc
        answer = _pool(parts.scheme, parts.netloc).request(
            method,
            url,
            headers={"User-Agent": f"tnpu-nix/{__version__}", **headers},
            body=body,
            chunked=isinstance(body, Iterator),
            timeout=urllib3.Timeout(connect=self.patience.connect, read=self.patience.read),
            retries=False,
            redirect=False,
            preload_content=False,
            decode_content=False,
        )
        return self._whole(answer) if preload and method != "HEAD" else answer

    def _whole(self, answer: Response) -> Response:
        """Return an answer with its body, which is a document's: neither large nor long to come."""
        if isinstance(answer, _Read):
            return answer
        data, until = b"", time.monotonic() + 2 * self.patience.read
        try:
            # One that has no body is closed from the start.
            while not answer.closed and (piece := answer.read1(1 << 16, decode_content=False)):
                data += piece
                if len(data) > _LARGEST or time.monotonic() > until:
                    raise self._misconfigured("gives an answer without end")
        finally:
            answer.close()
        return _Read(data, answer.headers, answer.status)

    def _answer(self, wanted: Challenge) -> bool:
        """Get the authorization that was asked for; False if there is nothing new to try."""
        if self._credentials is None:
            self._credentials = credentials.find(self.reference)
        before = self._authorization
        if wanted.scheme == "basic":
            self._authorization = self._credentials.basic if self._credentials else None
        else:
            self._authorization = f"Bearer {self._token(wanted.parameters)}"
        return self._authorization not in (None, before)

    def _token(self, parameters: Mapping[str, str]) -> str:
        """Ask the registry's token service (the distribution project's token specification)."""
        realm, who = parameters.get("realm", ""), self._credentials
        if urlsplit(realm).scheme not in ("https", self._scheme):
            raise self._misconfigured(
                f"sends its users for tokens to {realm!r}, which is not https"
            )
        rights = "pull,push" if self._writing else "pull"
        fields = {"scope": f"repository:{self.reference.name}:{rights}"}
        if service := parameters.get("service"):
            fields["service"] = service
        if who is not None and who.is_token:
            fields |= {"grant_type": "refresh_token", "refresh_token": who.password}
            form = urlencode({**fields, "client_id": "tnpu-nix"}).encode()
            kind = {"Content-Type": "application/x-www-form-urlencoded"}
            answer = self._send("POST", realm, kind, form, True)
        else:
            url = f"{realm}{'&' if '?' in realm else '?'}{urlencode(fields)}"
            own = {"Authorization": who.basic} if who is not None else {}
            answer = self._send("GET", url, own, None, True)
            self._token_url = url
        if answer.status != 200:
            method = "PUT" if self._writing else "GET"
            raise refused(self.reference, method, "token", answer.status, answer.data, who)
        content = self.json(answer.data, "an answer of its token service")
        token = content.get("token") or content.get("access_token")
        if not isinstance(token, str) or not _TOKEN.fullmatch(token):
            raise self._misconfigured("has a token service that gives no tokens")
        return token

    def json(self, raw: bytes, what: str) -> dict[str, Any]:
        """Return what the registry gave as a JSON object.

        Raises:
            TnpuError: it is none.
        """
        try:
            content = document.lenient(raw)
        except ValueError:
            content = None
        if not isinstance(content, dict):
            raise self._misconfigured(f"gave {what} that is no JSON object")
        return content

    def _misconfigured(self, what: str) -> TnpuError:
        return TnpuError(
            f"{self.reference.host} {what}",
            "check that this is a registry, and its configuration and the proxy before it",
        )
