"""Git over HTTP on loopback, with git's own backend: open, behind a password, stalled, broken."""

from __future__ import annotations

import base64
import contextlib
import os
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
    password: str | None = None  # of the user "lab"; None: whoever asks is served
    status: int | None = None  # answer everything with this status
    silent: bool = False  # take requests and never answer
    requests: list[str] = field(default_factory=list)


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

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
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
    if state.status is not None:
        handler.send_error(state.status)
        return
    if state.password is not None:
        wanted = base64.b64encode(f"lab:{state.password}".encode()).decode()
        if handler.headers.get("Authorization") != f"Basic {wanted}":
            handler.send_response(401)
            handler.send_header("WWW-Authenticate", 'Basic realm="lab"')
            handler.send_header("Content-Length", "0")
            handler.end_headers()
            return
    _backend(handler, state)


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
    body = _body(handler)
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
    handler.wfile.write(content)


def _body(handler: BaseHTTPRequestHandler) -> bytes:
    if handler.headers.get("Transfer-Encoding") != "chunked":
        return handler.rfile.read(int(handler.headers.get("Content-Length", "0")))
    body = b""
    while size := int(handler.rfile.readline(), 16):
        body += handler.rfile.read(size)
        handler.rfile.readline()
    handler.rfile.readline()
    return body
