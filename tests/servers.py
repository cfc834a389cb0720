"""Git over HTTP on loopback, with git's own backend: open, behind a password, stalled, broken."""

from __future__ import annotations

import base64
import contextlib
import os
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit


@dataclass
class GitServer:
    """A server of every repository below a folder."""

    folder: Path
    url: str = ""
    password: str | None = None  # of the user; None: whoever asks is served
    user: str = "lab"
    status: int | None = None  # answer everything with this status, once the password is right
    repeats: bool = False  # say in each refusal what credentials were sent
    redirect: str | None = None  # send whoever asks to this server
    silent: bool = False  # take requests and never answer
    drops: int | None = None  # break the connection after so many bytes of an answer's body
    requests: list[str] = field(default_factory=list)
    credentials: list[str] = field(default_factory=list)  # Authorization headers, as they came


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing: that clients break off is what some tests are about."""


@contextlib.contextmanager
def serving(folder: Path, **options: object) -> Iterator[GitServer]:
    """Serve the git repositories below *folder* over HTTP on a free port of 127.0.0.1."""
    state = GitServer(folder, **options)  # type: ignore[arg-type]

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            _answer(self, state)

        do_POST = do_GET  # noqa: N815

        def log_message(self, *_arguments: object) -> None:
            pass

    server = _Server(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    state.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield state
    finally:
        state.silent = False
        server.shutdown()
        server.server_close()


def _answer(handler: BaseHTTPRequestHandler, state: GitServer) -> None:
    state.requests.append(handler.path)
    while state.silent:
        time.sleep(0.05)
    sent = handler.headers.get("Authorization", "")
    state.credentials += [sent] if sent else []
    if state.redirect is not None:
        _refuse(handler, 302, "", Location=state.redirect + handler.path)
        return
    told = f"you sent {base64.b64decode(sent.removeprefix('Basic ')).decode()}, {sent}"
    if state.password is not None:
        wanted = base64.b64encode(f"{state.user}:{state.password}".encode()).decode()
        if sent != f"Basic {wanted}":
            text = told if state.repeats else ""
            _refuse(handler, 401, text, **{"WWW-Authenticate": 'Basic realm="lab"'})
            return
    if state.status is not None:
        _refuse(handler, state.status, told if state.repeats else "")
        return
    _backend(handler, state)


def _refuse(handler: BaseHTTPRequestHandler, status: int, text: str, **headers: str) -> None:
    """Answer without a repository; git repeats plain text of an error to its user."""
    body = text.encode()
    handler.send_response(status)
    for name, value in headers.items():
        handler.send_header(name, value)
    handler.send_header("Content-Type", "text/plain")
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body)


def _backend(handler: BaseHTTPRequestHandler, state: GitServer) -> None:
    """Hand the request to `git http-backend`, as a web server does by CGI."""
    parts = urlsplit(handler.path)
    env = {
        "PATH": os.environ["PATH"],
        "GIT_PROJECT_ROOT": str(state.folder),
        "GIT_HTTP_EXPORT_ALL": "1",
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "safe.directory",
        "GIT_CONFIG_VALUE_0": "*",
        "PATH_INFO": parts.path,
        "QUERY_STRING": parts.query,
        "REQUEST_METHOD": handler.command,
        "CONTENT_TYPE": handler.headers.get("Content-Type", ""),
        "HTTP_CONTENT_ENCODING": handler.headers.get("Content-Encoding", ""),
        "HTTP_GIT_PROTOCOL": handler.headers.get("Git-Protocol", ""),
    }
    body = body_of(handler)
    done = subprocess.run(["git", "http-backend"], env=env, input=body, capture_output=True)
    head, _, content = done.stdout.partition(b"\r\n\r\n")
    headers = [line.split(": ", 1) for line in head.decode().split("\r\n") if ": " in line]
    status = next((value for name, value in headers if name == "Status"), "200 OK")
    handler.send_response(int(status.split()[0]))
    for name, value in headers:
        if name != "Status":
            handler.send_header(name, value)
    handler.send_header("Content-Length", str(len(content)))
    handler.end_headers()
    handler.wfile.write(content[: state.drops])
    if state.drops is not None and len(content) > state.drops:
        handler.wfile.flush()
        handler.connection.shutdown(socket.SHUT_RDWR)


def body_of(handler: BaseHTTPRequestHandler) -> bytes:
    """Read the body of a request, in chunks or of a length that it says."""
    if handler.headers.get("Transfer-Encoding") != "chunked":
        return handler.rfile.read(int(handler.headers.get("Content-Length", "0")))
    body = b""
    while size := int(handler.rfile.readline(), 16):
        body += handler.rfile.read(size)
        handler.rfile.readline()
    handler.rfile.readline()
    return body
