"""Projects that cannot be written, servers with a certificate of their own, and sizes."""

from __future__ import annotations

import http.server
import re
import ssl
import subprocess
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.cache.conftest import Lab, edit, read_only
from tests.conftest import Ran, run_command, run_with_mounts


def in_read_only(lab: Lab, *words: str | Path, store: Path | None = None) -> Ran:
    env = {**lab.project.env, **lab.env(store), "TNPU_SIGNING_KEY_FILE": str(lab.key)}
    done = run_with_mounts(read_only(lab), *words, cwd=lab.project.root, env=env)
    assert "Traceback" not in done.err
    return done


@pytest.mark.parametrize("remembered", [False, True])
def test_a_project_that_cannot_be_written_serves_all_that_writes_nothing_there(
    lab: Lab, remembered: bool
) -> None:
    edit(lab.project, substituters=[lab.url], push=lab.url)
    state = lab.project.root / ".tnpu-nix"
    if remembered:
        assert lab.cache("pull", "pk").status == 0  # its roots are there, in an older folder
    else:
        for path in sorted(state.rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
        state.rmdir()
    before = lab.project.files()
    for words in (
        ("status",),
        ("pull", "pk", "--repair"),
        ("verify", "pk"),
        ("verify", "--here", "pk"),
        ("prune", "--keep", "1"),
    ):
        done = in_read_only(lab, "cache", *words, "--offline-profile")
        assert done.status == 0, done
        warned = done.err.count("warning: no roots can be made: ")
        assert warned == (words[0] == "pull") and "read-only" not in done.err, done.err
    push = ("cache", "push", "pk", "--offline-profile")
    assert in_read_only(lab, *push, store=lab.builder).status == 0
    build = ("build", "pk", "--offline-profile", "--caches")
    assert in_read_only(lab, *build).status == 0
    assert lab.project.files() == before and state.exists() == remembered
    if remembered:
        return
    assert in_read_only(lab, "cache", "use").status == 0
    assert in_read_only(lab, "cache", "keygen", "--show", lab.key).status == 0
    elsewhere = lab.key.with_name(f"{lab.project.root.parent.name}.key")
    assert in_read_only(lab, "cache", "keygen", "a-1", "--file", elsewhere).status == 0
    assert lab.project.files() == before and not state.exists()


@pytest.fixture
def safe(lab: Lab, tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """The cache over HTTPS, and the certificate of the authority that nobody else knows."""
    key, certificate = tmp_path / "tls.key", tmp_path / "tls.crt"
    argv = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    argv += ["-subj", "/CN=lab", "-addext", "subjectAltName=IP:127.0.0.1"]
    argv += ["-keyout", str(key), "-out", str(certificate)]
    subprocess.run(argv, check=True, capture_output=True)

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *arguments: object) -> None:
            pass

    handler = partial(Quiet, directory=str(lab.folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        server.socket = context.wrap_socket(server.socket, server_side=True)
        running = threading.Thread(target=server.serve_forever, daemon=True)
        running.start()
        yield f"https://127.0.0.1:{server.server_port}", certificate
        server.shutdown()


def test_a_certificate_of_ones_own_authority_is_named_and_then_trusted(
    lab: Lab, safe: tuple[str, Path]
) -> None:
    url, certificate = safe
    refused = lab.cache("pull", "pk", "--cache", url)
    refused.failed_with("its certificate is not trusted here", "NIX_SSL_CERT_FILE")
    trusting = {"NIX_SSL_CERT_FILE": str(certificate)}
    for verb in ("status", "pull", "verify"):
        done = lab.cache(verb, "pk", "--cache", url, **trusting)
        assert done.status == 0, done.err
    assert lab.in_store("pk").exists()

    other = url.replace("127.0.0.1", "localhost")
    named = lab.cache("pull", "spike", "--cache", other, **trusting)
    named.failed_with("its certificate is not trusted here (Hostname mismatch")
    assert "NIX_SSL_CERT_FILE" not in named.err  # which would not help
    empty = certificate.with_name("empty.crt")
    for wrong in (empty, certificate.with_name("none.crt")):
        empty.touch()
        done = lab.cache("status", "--cache", url, NIX_SSL_CERT_FILE=str(wrong))
        done.failed_with(f"{wrong} holds no certificates that can be read", "NIX_SSL_CERT_FILE")


def test_sizes_are_in_the_units_of_nix(lab: Lab, tmp_path: Path) -> None:
    pushed = lab.push("spike", to=f"file://{tmp_path}/second?compression=none")
    status = lab.cache("status", "--cache", lab.url)
    for path in lab.folder.glob("tnpu/*.json"):
        path.unlink()
    # Outside of the project, whose set would be spared.
    prune = ("cache", "prune", "--cache", lab.url, "--foreign", "--keep", "1")
    pruned = run_command(*prune, cwd=tmp_path)
    assert "0 dropped" in pruned.out
    for one in (pushed, status, pruned):
        sizes = re.findall(r"[0-9.]+ ([a-zA-Z]*B)\b", one.out + one.err)
        assert "MiB" in sizes and set(sizes) <= {"B", "KiB", "MiB", "GiB"}, one
