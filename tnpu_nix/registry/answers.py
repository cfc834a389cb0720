"""What registries answer when they refuse, and what a user can do about it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from urllib3.exceptions import (
    ConnectTimeoutError,
    NameResolutionError,
    NewConnectionError,
    ReadTimeoutError,
    SSLError,
)

from tnpu_nix.errors import TnpuError
from tnpu_nix.registry import credentials, document
from tnpu_nix.registry.credentials import (
    PASSWORD_VARIABLE,
    USER_VARIABLE,
    VARIABLES,
    Credentials,
)
from tnpu_nix.registry.reference import Reference


class RegistryError(TnpuError):
    """A registry refused a request.

    Attributes:
        status: the HTTP status.
        codes: the registry's own error codes (``MANIFEST_UNKNOWN``, …).
    """

    def __init__(self, what: str, hint: str, status: int, codes: tuple[str, ...]) -> None:
        super().__init__(what, hint)
        self.status = status
        self.codes = codes


@dataclass(frozen=True)
class Challenge:
    """How a server wants its users to authenticate."""

    scheme: str  # "bearer" or "basic"
    parameters: Mapping[str, str] = field(default_factory=dict)


def challenge(header: str) -> Challenge | None:
    """Read a WWW-Authenticate header; Bearer is preferred where there are several schemes."""
    found: dict[str, Challenge] = {}
    for part in re.finditer(
        r'(?i)\b(basic|bearer)\s+((?:[^",]|"[^"]*"|,)*?)(?=,\s*(?:basic|bearer)\s|$)', header
    ):
        pairs = re.findall(r'([A-Za-z_]+)\s*=\s*(?:"([^"]*)"|([^\s",]+))', part[2])
        parameters = {key.lower(): quoted or plain for key, quoted, plain in pairs}
        found[part[1].lower()] = Challenge(part[1].lower(), parameters)
    bearer = found.get("bearer")
    if bearer is not None and bearer.parameters.get("realm"):
        return bearer
    return found.get("basic")


def _right_for(who: Credentials | None, host: str) -> str:
    if who is None:
        return f"log in: `docker login {host}`"
    return f"ask for that right for {who.user!r}, from {who.source}"


def refused(
    reference: Reference,
    method: str,
    what: str,
    status: int,
    body: bytes,
    who: Credentials | None,
) -> RegistryError:
    """Return the error for an answer's status.

    Args:
        method: of the request: what does not only read needs the right to push.
        what: was asked for, for people.
        body: of the answer; registries say in it what they mean.
        who: the credentials that were used, if any.
    """
    codes, messages = _said(body)
    said = f" ({'; '.join(messages)})" if messages else ""
    host, name, reads = reference.host, reference.name, method in ("GET", "HEAD")
    if status == 401:
        text, hint = _unknown_user(reference, who)
    elif status in (403, 405) or "DENIED" in codes:
        text = f"{host} denies the right to {'pull from' if reads else 'push to'} {name}{said}"
        hint = _right_for(who, host)
    elif status == 404 and not reads:
        text = f"{host} knows no repository {name} that could be pushed to{said}"
        hint = "check the name; some registries want the project or repository made before"
    elif status == 404:
        text = f"{host} has no {what} of {name}{said}"
        hint = "check the name and the tag; `tnpu-nix image ensure` makes the tag of these pins"
    elif status == 429:
        text = f"{host} takes no more requests for now (status 429){said}"
        hint = "wait, or log in: registries allow known users more"
    elif status >= 500:
        text = f"{host} is in trouble: it answered with status {status} for {what}{said}"
        hint = "try again later; its administrator finds the reason in the registry's log"
    else:
        text = f"{host} answered with status {status} for {what} of {name}{said}"
        hint = "check that this is a registry, and the proxy before it"
    return RegistryError(text, hint, status, codes)


def refused_elsewhere(
    reference: Reference, host: str, what: str, status: int, body: bytes
) -> RegistryError:
    """Return the error for an answer of another host, which the registry has led to."""
    codes, messages = _said(body)
    said = f" ({'; '.join(messages)})" if messages else ""
    return RegistryError(
        f"{host}, where {reference.host} leads to, answered with status {status} for {what} of"
        f" {reference.name}{said}",
        f"try again; whoever runs {reference.host} knows how {host} is to be reached",
        status,
        codes,
    )


def _unknown_user(reference: Reference, who: Credentials | None) -> tuple[str, str]:
    host, name = reference.host, reference.name
    if who is not None:
        login = f"run `docker login {host}` or `skopeo login {host}` anew"
        if who.source == VARIABLES:  # which go before what a login writes
            login = "correct these variables, or unset them to use the auth files"
        return f"{host} does not take the credentials for {name}: {_shown(who)}", login
    return (
        f"{host} wants a user and password for {name}, and there are none",
        f"run `docker login {host}` or `skopeo login {host}`, or set {USER_VARIABLE} and"
        f" {PASSWORD_VARIABLE} (read: {credentials.described()})",
    )


def _shown(who: Credentials) -> str:
    return f"as {who.user!r}, from {who.source}"


def _said(body: bytes) -> tuple[tuple[str, ...], list[str]]:
    """Return the codes and messages of a registry's error document."""
    try:
        errors = document.lenient(body)["errors"]
        codes = tuple(str(one.get("code", "")) for one in errors)
        texts = [str(one.get("message") or one.get("code", "")).strip()[:200] for one in errors]
    except (ValueError, KeyError, TypeError, AttributeError):
        return (), []
    return codes, [text for text in texts if text]


def unreachable(host: str, error: BaseException, silence: float, doing: str = "") -> TnpuError:
    """Return the error for a connection that could not be made, or that broke.

    Args:
        host: with the port, if one is named; the registry or another that it leads to.
        silence: seconds that were waited for an answer.
        doing: what was going on, for people.
    """
    during = f" {doing}" if doing else ""
    match error:
        case NameResolutionError():
            return TnpuError(
                f"{host} could not be found{during}: its name is not known to the network",
                "check the name, the network and the proxy (HTTPS_PROXY)",
            )
        case NewConnectionError():
            return TnpuError(
                f"{host} takes no connections{during}: {_reason(error)}",
                "check that the registry runs, the port, the network and the proxy (HTTPS_PROXY)",
            )
        case ConnectTimeoutError() | ReadTimeoutError() | TimeoutError():
            return TnpuError(
                f"{host} gave no answer within {silence:g} seconds{during}",
                "check the registry and the network; --timeout SECONDS waits longer",
            )
        case SSLError():
            return _tls(host, str(error))
        case _:
            return TnpuError(
                f"the connection to {host} broke{during}: {_reason(error)}",
                "run the command again: what has arrived is not sent again",
            )


def _tls(host: str, said: str) -> TnpuError:
    if "CERTIFICATE_VERIFY_FAILED" in said:
        why = re.search(r"verify failed: ([^(\])]+)", said)
        return TnpuError(
            f"the certificate of {host} is not trusted: {why[1].strip() if why else 'unknown'}",
            f"put its CA into /etc/docker/certs.d/{host}/ca.crt, or name it with SSL_CERT_FILE",
        )
    return TnpuError(
        f"{host} does not speak TLS",
        "check the port; --plain-http is for registries without TLS",
    )


def _reason(error: BaseException) -> str:
    """Return the innermost reason, in the system's words."""
    inner: BaseException | None = error
    while inner is not None:
        if isinstance(inner, OSError) and inner.strerror:
            return inner.strerror
        inner = inner.__cause__ or inner.__context__ or _argument(inner)
    return re.sub(r"<[^>]*>:? *", "", str(error)).strip() or type(error).__name__


def _argument(error: BaseException) -> BaseException | None:
    return next((one for one in error.args if isinstance(one, BaseException)), None)
