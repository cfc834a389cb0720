"""netrc files: the password that we send is the one that Nix sends, and none is ever shown."""

from __future__ import annotations

import contextlib
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from tests.cache.conftest import Lab, nix
from tests.registry import answered_by
from tnpu_nix.cache import wire
from tnpu_nix.cache.access import Access, NotThereError

HOST = "machine 127.0.0.1"
FILES = {
    "an entry": f"{HOST} login lab password hush",
    "several lines": f"{HOST}\n  login lab\n\tpassword hush\n",
    "the password first": f"{HOST} password hush login lab",
    "two entries": f"{HOST} login lab password first\n{HOST} login lab password second",
    "another host before": f"machine other login x password y\n{HOST} login lab password hush",
    "a default": "machine other login x password y\ndefault login lab password hush",
    "a default behind": f"{HOST} login lab password hush\ndefault login x password y",
    "capitals": f"{HOST.upper()} LOGIN lab PASSWORD hush",
    "quotes": f'{HOST} login "lab" password "correct horse"',
    "escapes": f'{HOST} login lab password "a\\"b\\\\c"',
    "a comment": f"# {HOST} login x password y\n{HOST} login lab password hush",
    "a macro": f"macdef init\n{HOST} login x password y\n\n{HOST} login lab password hush",
    "unknown words": f"{HOST} port 80 login lab password hush",
    "a forgotten word": f"{HOST} login lab S3cr3tPassw0rd",
    "a password with a blank": f"{HOST} login lab password correct horse-battery",
    "another host": "machine other login lab password hush",
    "nothing": "",
}


@pytest.mark.parametrize("kind", FILES)
def test_the_password_is_the_one_that_nix_takes(kind: str, tmp_path: Path) -> None:
    netrc, store = tmp_path / "netrc", tmp_path / "store"
    netrc.write_text(FILES[kind])
    heard: list[str | None] = []

    def answer(it: BaseHTTPRequestHandler) -> None:
        heard.append(it.headers.get("Authorization"))
        it.send_response(404)
        it.send_header("Content-Length", "0")
        it.end_headers()

    with answered_by(answer) as host:
        asked = ("nix", "store", "ping", "--store", f"http://{host}")
        nix(store, *asked, "--option", "netrc-file", str(netrc))
        theirs = set(heard)
        heard.clear()
        with contextlib.suppress(NotThereError):
            wire.request(f"http://{host}/nix-cache-info", Access(5.0, netrc))
    assert theirs == set(heard) and len(theirs) == 1


@pytest.mark.parametrize("kind", ["a forgotten word", "a password with a blank", "an entry"])
def test_no_password_is_shown_where_it_is_refused(lab: Lab, tmp_path: Path, kind: str) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text(FILES[kind])

    def answer(it: BaseHTTPRequestHandler) -> None:
        it.send_response(401)
        it.send_header("Content-Length", "0")
        it.end_headers()

    with answered_by(answer) as host:
        done = lab.cache("pull", "pk", "--cache", f"http://{host}", "--netrc", netrc)
    done.failed_with("no cache can be used")
    for secret in ("S3cr3tPassw0rd", "horse", "hush"):
        assert secret not in done.out + done.err
