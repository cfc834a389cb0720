"""Servers that lie, drip, flood or die: what is said of them, and that others make up for them."""

from __future__ import annotations

import contextlib
import os
import re
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.cache.conftest import Lab

# What a mode makes of a file's name and content.
Lie = Callable[[str, bytes], bytes]


class Liar(BaseHTTPRequestHandler):
    """Serves a folder under /MODE/, as the mode has it."""

    folder: Path
    lies: dict[str, Lie]

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        mode, _, name = self.path.lstrip("/").partition("?")[0].partition("/")
        with contextlib.suppress(OSError):
            if mode == "flood":
                self.flood()
            elif mode == "drip":
                self.drip()
            else:
                self.give(name, self.lies.get(mode, lambda _, content: content))

    do_HEAD = do_GET  # noqa: N815
    do_PUT = do_GET  # noqa: N815

    def flood(self) -> None:
        self.send_response(200)
        self.end_headers()
        while True:
            self.wfile.write(b"Key: value\n" * 10_000)

    def drip(self) -> None:
        self.wfile.write(b"HTTP/1.1 200 OK\r\n")
        while True:
            self.wfile.write(b"x")
            self.wfile.flush()
            time.sleep(0.1)

    def give(self, name: str, lie: Lie) -> None:
        file = self.folder / name
        if not file.is_file():
            self.send_error(404)
            return
        content = lie(name, file.read_bytes())
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


@pytest.fixture
def liar(lab: Lab) -> Iterator[str]:
    """The URL of a server that lies about the lab's cache; below it come the modes."""
    handler = type("_Liar", (Liar,), {"folder": lab.folder, "lies": LIES})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def field(key: str, value: str) -> Lie:
    """A narinfo with another value of a key; one that is not there is added."""

    def lie(name: str, content: bytes) -> bytes:
        if not name.endswith(".narinfo"):
            return content
        kept = re.sub(rf"^{key}: .*\n".encode(), b"", content, flags=re.M)
        return kept + f"{key}: {value}\n".encode()

    return lie


LIES: dict[str, Lie] = {}


def test_a_dead_cache_with_tls_does_not_crash_the_command(lab: Lab) -> None:
    for _ in range(5):
        done = lab.cache("status", "--cache", "https://127.0.0.1:1")
        assert done.status == 0, (done.status, done.err)
        assert "nothing listens there" in done.out


@pytest.mark.parametrize("mode", ["flood", "drip"])
def test_an_answer_without_end_is_given_up(lab: Lab, liar: str, mode: str) -> None:
    from tnpu_nix.cache import wire
    from tnpu_nix.cache.access import Access, UnavailableError

    words = {"flood": "longer than 1 MiB", "drip": "more than 2 s"}[mode]
    with pytest.raises(UnavailableError, match=words):
        wire.request(f"{liar}/{mode}/nix-cache-info", Access(0.5))
    done = lab.cache("status", "pk", "--timeout", "0.5", "--cache", f"{liar}/{mode}")
    assert done.status == 0 and f"{liar}/{mode}: " in done.out
    lab.push("pk", "--timeout", "0.5", to=f"{liar}/{mode}").failed_with(f"{liar}/{mode}")


@pytest.mark.parametrize("content", [b"machine caf\xe9 login a password b", os.urandom(999)])
def test_a_netrc_file_that_is_no_text_is_named(
    lab: Lab, liar: str, tmp_path: Path, content: bytes
) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_bytes(content + b"\xff")
    done = lab.cache("pull", "pk", "--cache", f"{liar}/true", "--netrc", netrc)
    done.failed_with(f"{netrc} cannot be read")
