"""Registries that lead elsewhere, and are not alone: who gets the password, and who is blamed."""

from __future__ import annotations

import hashlib
import http.client
import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from tests.conftest import Demo, run_command
from tests.forged import MANIFEST
from tests.registry import answered_by, free_port, registry
from tests.test_registry_lies import hand_on, said
from tests.verifying import Bench
from tnpu_nix import pinsfile

LOGIN = {"TNPU_REGISTRY_USER": "lab", "TNPU_REGISTRY_PASSWORD": "correct-horse"}
CONFIG = b'{"architecture": "amd64", "os": "linux", "rootfs": {"type": "layers", "diff_ids": []}}'
CONFIGURED = {
    "schemaVersion": 2,
    "mediaType": MANIFEST,
    "config": {
        "mediaType": "application/vnd.oci.image.config.v1+json",
        "digest": f"sha256:{hashlib.sha256(CONFIG).hexdigest()}",
        "size": len(CONFIG),
    },
    "layers": [],
}


@contextmanager
def leading_to(other: str) -> Iterator[str]:
    """A registry with a password, whose blobs lie elsewhere."""

    def answer(it: BaseHTTPRequestHandler) -> None:
        if not it.headers.get("Authorization"):
            said(401, WWW_Authenticate='Basic realm="lab"')(it)
        elif "/blobs/" in it.path:
            said(307, Location=f"http://{other}/blob")(it)
        else:
            said(200, json.dumps(CONFIGURED).encode(), Content_Type=MANIFEST)(it)

    with answered_by(answer) as host:
        yield host


@pytest.mark.parametrize("challenge", ['Bearer realm="http://{host}/token"', 'Basic realm="x"'])
def test_a_host_that_a_registry_leads_to_gets_no_password(tmp_path: Path, challenge: str) -> None:
    """Though it asks for one, as CVE-2020-15157 has it."""
    heard: list[tuple[str, str | None]] = []

    def answer(it: BaseHTTPRequestHandler) -> None:
        heard.append((it.path, it.headers.get("Authorization")))
        said(401, WWW_Authenticate=challenge.format(host=it.headers["Host"]))(it)

    with answered_by(answer) as other, leading_to(other) as host:
        words = ("image", "inspect", f"{host}/lab/x:1")
        done = run_command(*words, cwd=tmp_path, env=LOGIN)
    done.failed_with(f"{other}, where {host} leads to, answered with status 401")
    assert heard == [("/blob", None)]


def test_another_host_is_blamed_for_what_goes_wrong_there(tmp_path: Path) -> None:
    down = f"127.0.0.1:{free_port()}"
    words = ("image", "pull", "--retries", "0", "--to", tmp_path / "image.tar", "--from")
    with leading_to(down) as host:
        done = run_command(*words, f"{host}/lab/x:1", cwd=tmp_path, env=LOGIN)
        done.failed_with(f"{down} takes no connections")
    with answered_by(said(403)) as other, leading_to(other) as host:
        done = run_command(*words, f"{host}/lab/x:1", cwd=tmp_path, env=LOGIN)
        done.failed_with(f"{other}, where {host} leads to, answered with status 403")


def test_the_variables_are_for_the_registry_of_the_project(demo: Demo, tmp_path: Path) -> None:
    project = demo.project(tmp_path / "project")
    heard: set[str | None] = set()

    def answer(it: BaseHTTPRequestHandler) -> None:
        heard.add(it.headers.get("Authorization"))
        said(401, WWW_Authenticate='Basic realm="x"')(it)

    with answered_by(answer) as other:
        for verb in ("inspect", "verify"):
            done = project.run("image", verb, f"{other}/lab/x:1", env=LOGIN)
            assert done.status == 1 and "for lab/x" in done.err
        assert len(heard) == 2  # nothing says that it is not for this one
        heard.clear()
        changes = {("image", "registry"): f"127.0.0.1:{free_port()}/lab"}
        project.pins.write_text(pinsfile.edit(project.pins.read_text(), changes))
        assert project.run("generate").status == 0
        for words in (("inspect",), ("verify",), ("diff", "pins:.")):
            done = project.run("image", *words, f"{other}/lab/x:1", env=LOGIN)
            done.failed_with("wants a user and password", other)
        words = ("bump", "base", f"{other}/lab/base:v1")
        project.run(*words, env=LOGIN).failed_with("wants a user and password", other)
    assert heard == {None}


def test_wrong_variables_are_not_to_be_mended_by_a_login(tmp_path: Path) -> None:
    with answered_by(said(401, WWW_Authenticate='Basic realm="x"')) as host:
        done = run_command("image", "inspect", f"{host}/lab/x:1", cwd=tmp_path, env=LOGIN)
    done.failed_with("does not take the credentials", "these variables")
    assert "docker login" not in done.err


def test_a_registry_that_tells_no_sizes_is_sent_nothing_twice(
    built_image: Bench, tmp_path: Path
) -> None:
    uploads: list[str] = []
    with registry(tmp_path / "registry", password=False) as hub:

        def answer(it: BaseHTTPRequestHandler) -> None:
            if it.command == "HEAD" and "/blobs/" in it.path:
                behind = http.client.HTTPConnection("127.0.0.1", hub.port)
                behind.request("HEAD", it.path)
                it.send_response(behind.getresponse().status)
                it.end_headers()
                return
            uploads.extend([it.path] if it.command == "POST" else [])
            hand_on(it, hub.port)

        with answered_by(answer) as host:
            words = ("image", "push", "--offline-profile", "--to", f"{host}/lab/x:1")
            assert built_image.project.run(*words).status == 0
            assert uploads
            uploads.clear()
            assert built_image.project.run(*words).status == 0
    assert uploads == []
