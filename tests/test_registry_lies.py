"""Registries that lie or make no sense: one clear error, no end of patience, no secret told."""

from __future__ import annotations

import gzip
import http.client
import json
import os
import shutil
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from tests.altered import file, packed
from tests.conftest import Demo, Ran, run_command
from tests.forged import MANIFEST, Forgery, publish
from tests.registry import answered_by, registry
from tests.servers import body_of
from tests.verifying import Bench

Answer = Callable[[BaseHTTPRequestHandler], None]
TOKEN = "SECRET-TOKEN-123"


def said(status: int, body: bytes = b"{}", **headers: str) -> Answer:
    def answer(it: BaseHTTPRequestHandler) -> None:
        it.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            it.send_header(name.replace("_", "-"), value)
        it.end_headers()
        if it.command != "HEAD":
            it.wfile.write(body)

    return answer


def without_end(piece: bytes, pause: float, status: int = 200, **headers: str) -> Answer:
    def answer(it: BaseHTTPRequestHandler) -> None:
        it.send_response(status)
        for name, value in headers.items():
            it.send_header(name, value)
        it.end_headers()
        while it.command != "HEAD":
            it.wfile.write(piece)
            time.sleep(pause)

    return answer


def pull(host: str, folder: Path) -> Ran:
    words = ("image", "pull", "--from", f"{host}/lab/x:1", "--to", folder / "image.tar")
    return run_command(*words, "--timeout", "0.5", "--retries", "0", cwd=folder)


DEEP = b"[" * 200_000
ANSWERS: dict[str, Answer] = {
    "no JSON": said(200, b"<html>"),
    "deep JSON": said(200, b'{"a":' + DEEP),
    "a deep error": said(404, b'{"errors":' + DEEP),
    "an error of another form": said(404, b'{"errors": {"code": 5}}'),
    "an answer without end": without_end(b"x" * (1 << 20), 0),
    "an error without end": without_end(b"x" * (1 << 20), 0, 404),
    "an answer by drips": without_end(b" ", 0.1),
    "a redirect without end": without_end(b"x" * (1 << 20), 0, 307, Location="/v2/"),
    "a redirect to nowhere": said(307, Location="http://[bad/x"),
    "a redirect to a file": said(307, Location="file:///etc/passwd"),
    "a realm that is no URL": said(401, WWW_Authenticate='Bearer realm="http://[bad/x"'),
    "no time to wait": said(503, Retry_After="\xb2"),
    "nothing": said(200, b""),
    **{f"{status} and nothing": said(status, b"") for status in (401, 403, 404, 413, 429, 502)},
    "another type": said(200, b'{"schemaVersion": 2, "layers": 5}', Content_Type=MANIFEST),
}


@pytest.mark.parametrize("kind", ANSWERS)
def test_an_answer_that_makes_no_sense_is_one_clear_error(kind: str, tmp_path: Path) -> None:
    with answered_by(ANSWERS[kind]) as host:
        pull(host, tmp_path).failed_with(host.split(":")[0])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("token", [f"{TOKEN}\n", f"{TOKEN}\u2603", [TOKEN], {"a": TOKEN}, None])
def test_a_token_that_is_none_is_told_to_nobody(token: object, tmp_path: Path) -> None:
    def answer(it: BaseHTTPRequestHandler) -> None:
        if it.path.startswith("/token"):
            said(200, json.dumps({"token": token}).encode())(it)
            return
        realm = f'Bearer realm="http://{it.headers["Host"]}/token",service="x"'
        said(401, WWW_Authenticate=realm)(it)

    with answered_by(answer) as host:
        done = pull(host, tmp_path)
    done.failed_with("token")
    assert TOKEN not in done.out + done.err


def test_a_digest_that_is_none_is_not_handed_on(demo: Demo, tmp_path: Path) -> None:
    """A workflow puts it into its shell."""
    project = demo.project(tmp_path / "project")
    evil = {"Docker_Content_Digest": "evil $(id)", "Content_Type": MANIFEST}
    manifest = {"schemaVersion": 2, "config": {}, "layers": []}
    with answered_by(said(200, json.dumps(manifest).encode(), **evil)) as host:
        words = ("image", "ensure", "--offline-profile", "--dry-run", "--json", "--to")
        done = project.run(*words, f"{host}/lab/x")
    assert "evil" not in done.out + done.err
    assert done.status == 1 or json.loads(done.out)["digest"].startswith("sha256:")


def test_an_archive_takes_the_place_of_files_only(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    (tmp_path / "link").symlink_to(pipe)
    (tmp_path / "circle").symlink_to(tmp_path / "circle")
    for name in ("pipe", "link", "circle"):
        words = ("image", "pull", "--from", "127.0.0.1:1/x:1", "--to", tmp_path / name)
        run_command(*words, cwd=tmp_path).failed_with("no file that can be replaced")
    assert pipe.is_fifo()


def test_an_image_that_names_other_layers_as_ours_deceives_no_push(
    built_image: Bench, tmp_path: Path
) -> None:
    """Its configuration has our layers' digests, and its manifest other blobs."""
    with registry(tmp_path / "registry", password=False) as hub:
        forgery = Forgery(built_image.parts)
        forgery.blobs.clear()
        kind = "application/vnd.oci.image.layer.v1.tar+gzip"
        forgery.layers = [
            forgery.blob(gzip.compress(packed([file(f"bin/{number}")]), mtime=0), kind)
            for number, _ in enumerate(built_image.parts.layers)
        ]
        manifest = json.dumps(forgery.manifest()).encode()
        publish(f"{hub.host}/lab/x", forgery, "other", manifest, MANIFEST)
        ours = f"{hub.host}/lab/x:ours"
        done = built_image.project.run("image", "push", "--offline-profile", "--to", ours)
        assert done.status == 0, done
        assert "names a layer that is another" in done.err
        done = built_image.verify(ours)
        assert done.status == 0, done


def test_a_registry_that_says_it_has_what_was_collected_is_sent_all_of_it(
    built_image: Bench, tmp_path: Path
) -> None:
    """As one that keeps its answers does. No server of ours can; it is before a real one."""
    sizes: dict[str, int] = {}
    with registry(tmp_path / "registry", password=False) as hub:

        def answer(it: BaseHTTPRequestHandler) -> None:
            digest = it.path.rpartition("/blobs/sha256:")[2]
            if it.command == "HEAD" and digest in sizes:
                said(200, b"x" * sizes[digest])(it)
            else:
                hand_on(it, hub.port)

        with answered_by(answer) as host:
            words = ("image", "push", "--offline-profile", "--to", f"{host}/lab/x:1")
            assert built_image.project.run(*words).status == 0
            blobs = hub.folder / "data/docker/registry/v2/blobs/sha256"
            sizes |= {one.parent.name: one.stat().st_size for one in blobs.glob("*/*/data")}
            hub.die()
            shutil.rmtree(hub.folder / "data/docker/registry/v2/repositories")
            shutil.rmtree(blobs)
            hub.start()
            done = built_image.project.run(*words)
            assert done.status == 0, done
            assert done.err.count("lacks what it says it has") == 1
        done = built_image.verify(f"{hub.host}/lab/x:1")
        assert done.status == 0, done


def hand_on(it: BaseHTTPRequestHandler, port: int) -> None:
    """Have a server behind answer."""
    body = body_of(it)
    of_the_form = ("Transfer-Encoding", "Content-Length")
    headers = {name: value for name, value in it.headers.items() if name not in of_the_form}
    behind = http.client.HTTPConnection("127.0.0.1", port)
    behind.request(it.command, it.path, body, headers)
    answer = behind.getresponse()
    headers = {name: value for name, value in answer.getheaders() if name not in of_the_form}
    said(answer.status, answer.read(), **headers)(it)


def test_a_registry_that_forgets_what_it_takes_is_given_up(
    built_image: Bench, tmp_path: Path
) -> None:
    """It takes small layers each time anew, and fails on the large ones."""
    requests: list[str] = []

    def answer(it: BaseHTTPRequestHandler) -> None:
        requests.append(it.command)
        body_of(it)
        statuses = {"HEAD": 404, "POST": 202, "PUT": 201, "PATCH": 500, "GET": 404}
        said(statuses[it.command], Location="/v2/lab/x/blobs/uploads/1")(it)

    with answered_by(answer) as host:
        words = ("image", "push", "--offline-profile", "--retries", "1", "--to", f"{host}/lab/x:1")
        built_image.project.run(*words).failed_with("500")
    assert requests.count("PATCH") <= 4
