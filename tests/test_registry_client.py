"""References, credentials, tokens and redirects, as `tnpu-nix image` meets them."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from tests.registry import PASSWORD, USER, Registry, answering, free_port, registry
from tests.registry_lab import NAME, Lab, lab
from tnpu_nix.errors import TnpuError
from tnpu_nix.registry.answers import challenge
from tnpu_nix.registry.reference import parse

__all__ = ["lab"]  # a fixture
_DIGEST = "sha256:" + "0a" * 32


@pytest.mark.parametrize(
    ("text", "host", "name", "where"),
    [
        ("ghcr.io/lab/tool:1", "ghcr.io", "lab/tool", "1"),
        ("docker://localhost:5000/tool", "localhost:5000", "tool", "latest"),
        ("localhost/tool", "localhost", "tool", "latest"),
        (f"host.example:1/a/b/c@{_DIGEST}", "host.example:1", "a/b/c", _DIGEST),
        (f"host.example/a:tag@{_DIGEST}", "host.example", "a", _DIGEST),
        ("ubuntu", "docker.io", "library/ubuntu", "latest"),
        ("lab/tool:x", "docker.io", "lab/tool", "x"),
        ("index.docker.io/lab/tool", "docker.io", "lab/tool", "latest"),
        ("[::1]:5000/tool", "[::1]:5000", "tool", "latest"),
    ],
)
def test_references_are_read_as_docker_reads_them(
    text: str, host: str, name: str, where: str
) -> None:
    found = parse(text)
    assert (found.host, found.name, found.where) == (host, name, where)


@pytest.mark.parametrize(
    "text",
    [
        *("", "Upper/Case", "host.example/", "host.example/a:", "host.example/a@sha256:12", "a b"),
        *("https://host.example/a", "user:pw@host.example/a", "host.example/a:x y"),
        "host.example/../a",
    ],
)
def test_what_is_no_reference_is_refused(text: str) -> None:
    with pytest.raises(TnpuError):
        parse(text)


def test_loopback_is_known_by_its_names() -> None:
    for host in ("127.0.0.1:5000", "127.8.0.1", "localhost:1", "[::1]:5000"):
        assert parse(f"{host}/a").is_loopback, host
    for host in ("10.0.0.1:5000", "localhost.example:5000", "registry.example"):
        assert not parse(f"{host}/a").is_loopback, host


@pytest.mark.parametrize(
    ("header", "scheme"),
    [
        ('Basic realm="a, b"', "basic"),
        ('Basic realm="x", Bearer realm="https://t.example/token",service="s"', "bearer"),
        ('Bearer realm="https://t.example/token",service="s",scope="a:b:pull,push"', "bearer"),
    ],
)
def test_challenges_are_read(header: str, scheme: str) -> None:
    found = challenge(header)
    assert found is not None and found.scheme == scheme
    if scheme == "bearer":
        assert found.parameters["realm"] == "https://t.example/token"
        assert found.parameters["service"] == "s"


def test_a_helper_program_gives_credentials(lab: Lab, tmp_path: Path) -> None:
    """As docker's credsStore and credHelpers name them; the server goes to standard input."""
    folder = tmp_path / "bin"
    folder.mkdir()
    helper = folder / "docker-credential-lab"
    answer = json.dumps({"Username": USER, "Secret": PASSWORD})
    helper.write_text(
        f"#!/bin/sh\necho \"$*\" >{folder}/arguments\ncat >{folder}/asked\necho '{answer}'\n"
    )
    helper.chmod(0o755)
    auth = tmp_path / "config.json"
    auth.write_text(json.dumps({"credHelpers": {lab.wire.host: "lab"}}))
    path = f"{folder}:{os.environ['PATH']}"
    lab.project.env |= {"REGISTRY_AUTH_FILE": str(auth), "PATH": path}
    lab.made("push")
    assert (folder / "asked").read_text().strip() == lab.wire.host
    assert (folder / "arguments").read_text() == "get\n"


def test_credentials_of_a_namespace_go_before_those_of_its_host(lab: Lab, tmp_path: Path) -> None:
    right = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
    wrong = base64.b64encode(b"other:wrong").decode()
    auth = tmp_path / "auth.json"
    auths = {lab.wire.host: {"auth": wrong}, f"{lab.wire.host}/lab": {"auth": right}}
    auth.write_text(json.dumps({"auths": auths}))
    lab.project.env["REGISTRY_AUTH_FILE"] = str(auth)
    lab.made("push")


def test_a_redirect_to_storage_elsewhere_carries_no_credentials(lab: Lab) -> None:
    """Registries send whoever pulls a blob to their storage, which is another host."""
    with answering(200, body=b"{}") as storage:
        headers = {"Location": f"http://{storage.host}/blob"}
        with answering(307, headers) as server:
            auth = lab.registry.auth_file_for(server.host)
            lab.image(
                *("pull", "--offline-profile", "--from", f"{server.host}/{NAME}"),
                REGISTRY_AUTH_FILE=str(auth),
            )
    assert storage.requests
    assert storage.authorizations == {""}


def test_a_tag_that_was_found_is_asked_for_at_once(lab: Lab) -> None:
    lab.made("ensure")
    slow = lab.made("ensure")
    before = len(_requests(lab.registry))
    quick = lab.made("ensure")
    assert (quick.out, quick.err) == (slow.out, slow.err)
    assert _requests(lab.registry)[before:] == [f"HEAD /v2/{NAME}/manifests/{lab.tag()}"]


def test_what_was_found_is_not_believed_when_something_changed(lab: Lab, tmp_path: Path) -> None:
    for _ in range(3):
        lab.made("ensure")
    wrong = lab.registry.auth_file_for(lab.wire.host, "wrong")
    done = lab.image("ensure", "--offline-profile", REGISTRY_AUTH_FILE=str(wrong))
    done.failed_with("does not take the credentials")
    auth = Path(lab.project.env["REGISTRY_AUTH_FILE"])
    kept = auth.read_text()
    auth.write_text(wrong.read_text())
    lab.image("ensure", "--offline-profile").failed_with("does not take the credentials")
    auth.write_text(kept)
    tags = lab.registry.folder / f"data/docker/registry/v2/repositories/{NAME}/_manifests/tags"
    shutil.rmtree(tags)
    assert "pushed" in lab.made("ensure").err
    assert lab.registry.tags(NAME) == {lab.tag()}


def _requests(server: Registry) -> list[str]:
    """What the registry was asked, as its log has it."""
    lines = [line for line in server.log.splitlines() if '"HEAD ' in line or '"GET ' in line]
    return [" ".join(line.split('"')[1].split()[:2]) for line in lines]


def test_a_registry_with_a_token_service(lab: Lab, tmp_path: Path) -> None:
    """As Docker Hub, ghcr.io and Harbor have one; docker-registry checks the tokens."""
    with answering(500) as tokens:
        key, certificate = _key(tmp_path)
        port = free_port()
        service = {
            "realm": f"http://{tokens.host}/token",
            "service": "lab",
            "issuer": "lab-issuer",
            "rootcertbundle": str(certificate),
        }
        auth = {"auth": {"token": service}}
        with registry(tmp_path / "tokens", settings=auth, port=port) as server:
            lab.project.env["REGISTRY_AUTH_FILE"] = str(server.auth_file)
            target = ("--to", f"{server.host}/{NAME}", "--retries", "0")
            done = lab.image("ensure", "--offline-profile", *target)
            done.failed_with(server.host, "500")
            tokens.respond = lambda path: _token(path, key, certificate)
            for verb in ("ensure", "push", "ensure", "ensure"):
                lab.made(verb, *target)
            assert server.tags(NAME) == {lab.tag()}
            for text in (b'["x"]', b"null", b"[" * 200_000, b'{"token": ["x"]}'):
                tokens.respond = lambda _path, text=text: text
                lab.image("ensure", "--offline-profile", *target[:2]).failed_with("token")
    asked = [one for one in tokens.requests if "scope" in one]
    assert any("pull%2Cpush" in one for one in asked) and all("service=lab" in one for one in asked)
    pair = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
    assert tokens.authorizations == {f"Basic {pair}"}


def _key(folder: Path) -> tuple[Path, Path]:
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    argv = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=lab"]
    argv += ["-keyout", str(key), "-out", str(certificate)]
    subprocess.run(argv, check=True, capture_output=True)
    return key, certificate


def _token(path: str, key: Path, certificate: Path) -> bytes:
    """A token as the distribution project specifies it, for the rights that are asked for."""
    from urllib.parse import parse_qs, urlsplit

    kind, name, rights = parse_qs(urlsplit(path).query)["scope"][0].rsplit(":", 2)
    body = certificate.read_text().replace("\n", "").split("-----")[2]
    now = int(time.time())
    head = {"typ": "JWT", "alg": "RS256", "x5c": [body]}
    claims = {
        **{"iss": "lab-issuer", "sub": USER, "aud": "lab", "jti": "1"},
        **{"exp": now + 300, "nbf": now - 60, "iat": now},
        "access": [{"type": kind, "name": name, "actions": rights.split(",")}],
    }
    signed = b".".join(_url64(json.dumps(part).encode()) for part in (head, claims))
    argv = ["openssl", "dgst", "-sha256", "-sign", str(key)]
    signature = subprocess.run(argv, input=signed, check=True, capture_output=True).stdout
    return json.dumps({"token": (signed + b"." + _url64(signature)).decode()}).encode()


def _url64(data: bytes) -> bytes:
    return base64.urlsafe_b64encode(data).rstrip(b"=")


def test_a_registry_with_tls_on_this_machine(lab: Lab, tmp_path: Path) -> None:
    argv = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost"]
    argv += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(tmp_path / "key.pem")]
    certificate = tmp_path / "certificate.pem"
    subprocess.run([*argv, "-out", str(certificate)], check=True, capture_output=True)
    port = free_port()
    tls = {"certificate": str(certificate), "key": str(tmp_path / "key.pem")}
    http = {"http": {"addr": f"127.0.0.1:{port}", "tls": tls}}
    with registry(tmp_path / "tls", settings=http, port=port) as server:
        lab.project.env["REGISTRY_AUTH_FILE"] = str(server.auth_file)
        target = ("--to", f"{server.host}/{NAME}", "--retries", "0")
        done = lab.image("push", "--offline-profile", *target)
        done.failed_with("is not trusted", "/etc/docker/certs.d", "SSL_CERT_FILE")
        lab.project.env["SSL_CERT_FILE"] = str(certificate)
        for verb in ("push", "ensure", "ensure"):
            lab.made(verb, *target)
        assert server.tags(NAME) == {lab.tag()}
