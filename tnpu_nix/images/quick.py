"""`image ensure` of an image that is there: the question to the registry, and nothing else.

Loading the command line and the client of registries takes several times as long as the question.
So the command, once it has found a tag, keeps how it asked. The next one asks the same way, if
nothing has changed that the way depends on: the project's files, the options, the variables and
the auth files. Any other answer than the one before leaves the work to the command itself.
"""

from __future__ import annotations

import json
import os
import sys
import time

from tnpu_nix import fingerprint
from tnpu_nix.images import tag as image_tag

TYPE_CHECKING = False  # typing takes a while to load
if TYPE_CHECKING:
    from typing import Any

# What decides where an image is and which credentials are used, beside the files. Of the password
# nothing is kept.
_VARIABLES = (
    *("TNPU_REGISTRY_USER", "REGISTRY_AUTH_FILE", "DOCKER_CONFIG", "XDG_RUNTIME_DIR"),
    *("XDG_CONFIG_HOME", "HOME", "http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"),
    *("all_proxy", "ALL_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR"),
)
_FLAGS = ("--offline-profile", "--github-output")
_OPTIONS = ("--to", "--store")
_TIMEOUT = 5.0  # seconds
_MOST = 1 << 20  # bytes of an answer


def situation(to: str | None) -> list[str]:
    """Return what the way to ask depends on beside files."""
    return [to or "", *(f"{name}={os.environ.get(name, '')}" for name in _VARIABLES)]


def signature(path: str) -> list[int]:
    """Return what tells that a file has changed; empty if there is none."""
    try:
        found = os.stat(path)  # noqa: PTH116
    except OSError:
        return []
    return [found.st_mtime_ns, found.st_size, found.st_ino]


def answered(arguments: list[str]) -> bool:
    """Run `image ensure` with these arguments if that takes the one question alone.

    Returns:
        Whether it is done; what was printed and written then is what the command would have.
    """
    try:
        options = _options(arguments)
        root = _root()
        offline = "--offline-profile" in options
        kept = image_tag.remembered(root, fingerprint.of(root, offline))
        hit = json.loads(kept["hit"])
        github = os.environ["GITHUB_OUTPUT"] if "--github-output" in options else None
        if hit["situation"] != situation(options.get("--to")):
            return False
        if any(signature(path) != known for path, known in hit["files"].items()):
            return False
        if _ask(hit) != hit["digest"]:
            return False
        if github is not None:
            with open(github, "a") as file:  # noqa: PTH123
                file.write(hit["github"])
    except Exception:  # whatever it was: the command itself finds it, and has words for it
        return False
    sys.stderr.write(hit["warning"] if offline else "")
    sys.stdout.write(f"{hit['image']}\n")
    sys.stdout.flush()
    sys.stderr.write(f"{hit['line']}\n")
    return True


def _options(arguments: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    rest = iter(arguments)
    for word in rest:
        if word in _FLAGS:
            found[word] = ""
        elif word in _OPTIONS:
            found[word] = next(rest, "")
        else:
            raise LookupError(word)
    return found


def _root() -> str:
    folder = os.path.realpath(os.getcwd())  # noqa: PTH109
    while not os.path.lexists(f"{folder}/pins.toml"):
        folder, before = os.path.dirname(folder), folder  # noqa: PTH120
        if folder == before:
            raise LookupError("pins.toml")
    return folder


def _ask(hit: dict[str, str]) -> str | None:
    """Return the digest that the tag leads to; None for any other answer than that."""
    basic = _basic(hit)
    authorization = basic
    if hit["token_url"]:
        status, _, body = _request("GET", hit["token_url"], {"Authorization": basic}, hit["ca"])
        if status != 200:
            return None
        content = json.loads(body)
        authorization = f"Bearer {content.get('token') or content['access_token']}"
    headers = {"Authorization": authorization, "Accept": hit["accept"]}
    status, digest, _ = _request("HEAD", hit["url"], headers, hit["ca"])
    return digest if status == 200 else None


def _basic(hit: dict[str, str]) -> str:
    """Return the Authorization header's value for the credentials that were used before."""
    if hit["auth_file"]:
        with open(hit["auth_file"], "rb") as file:  # noqa: PTH123
            return f"Basic {json.load(file)['auths'][hit['auth_key']]['auth']}"
    user, password = os.environ.get(_VARIABLES[0]), os.environ.get("TNPU_REGISTRY_PASSWORD")
    if user is None or password is None:
        return ""
    import base64

    return f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"


def _request(
    method: str, url: str, headers: dict[str, str], certificates: str
) -> tuple[int, str | None, bytes]:
    """Make a request as HTTP/1.0, which needs no library; redirects are not followed.

    Returns:
        Status, digest and body.
    """
    import socket

    scheme, _, rest = url.partition("://")
    host, _, path = rest.partition("/")
    name, _, port = host.partition(":")
    given = {"Host": host, **{key: value for key, value in headers.items() if value}}
    lines = [f"{method} /{path} HTTP/1.0", *(f"{key}: {value}" for key, value in given.items())]
    port_number = int(port or (443 if scheme == "https" else 80))
    line: Any = socket.create_connection((name, port_number), _TIMEOUT)
    if scheme == "https":
        line = _wrapped(line, name, certificates)
    answer, until = b"", time.monotonic() + _TIMEOUT
    with line:
        line.sendall("\r\n".join([*lines, "", ""]).encode())
        while len(answer) < _MOST and not (method == "HEAD" and b"\r\n\r\n" in answer):
            if time.monotonic() > until:
                raise TimeoutError
            if not (part := line.recv(1 << 16)):
                break
            answer += part
    head, _, body = answer.partition(b"\r\n\r\n")
    first, *fields = head.decode("latin-1").split("\r\n")
    found = {key.lower(): value.strip() for key, _, value in (one.partition(":") for one in fields)}
    return int(first.split(" ")[1]), found.get("docker-content-digest"), body


def _wrapped(plain: Any, name: str, certificates: str) -> Any:
    import ssl

    context = ssl.create_default_context()
    for path in filter(None, certificates.split("\n")):
        context.load_verify_locations(path)
    return context.wrap_socket(plain, server_hostname=name)
