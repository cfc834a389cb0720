"""Signatures in a cache: damaged ones are mended, those of others stay; and what is unknown."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from tests.cache.conftest import Lab, read_until
from tests.cache.web import Nginx
from tests.conftest import environment
from tests.registry import served_by
from tnpu_nix.cache.turns import turn_of


def signature(text: str) -> str:
    return str(re.findall(r"^Sig: (.*)$", text, re.M)[0])


def instead(text: str, *lines: str) -> str:
    """A narinfo with other signatures."""
    kept = re.sub(r"^Sig: .*\n", "", text, flags=re.M)
    return kept + "".join(f"Sig: {line}\n" for line in lines)


HURTS: dict[str, Callable[[str], str]] = {
    "cut": lambda text: instead(text, signature(text)[:-10]),
    "no base64": lambda text: instead(text, "lab-1:!!!!"),
    "short": lambda text: instead(text, "lab-1:AAAA"),
    "empty": lambda text: instead(text, "lab-1:"),
    "a short one before a good one": lambda text: instead(text, "lab-1:AAAA", signature(text)),
    "a short one behind a good one": lambda text: instead(text, signature(text), "lab-1:AAAA"),
    "wrong": lambda text: instead(text, f"lab-1:{'A' * 86}=="),
    "none": instead,
}
# Such as are mended without an upload.
SIGNED = ("wrong", "none")


@pytest.mark.parametrize("hurt", HURTS)
def test_a_damaged_signature_is_mended(lab: Lab, hurt: str) -> None:
    text = lab.narinfo("pk").read_text()
    lab.narinfo("pk").write_text(HURTS[hurt](text))
    checked = lab.cache("verify", "pk", "--cache", lab.url)
    # What a push leaves alone is no fault; Nix takes a path that one of its signatures holds for.
    assert checked.status == 1 or hurt == "a short one behind a good one", checked.out
    repair = ("--repair",) if hurt in ("cut", "short") else ()
    pushed = lab.push("pk", "--json", *repair, to=f"{lab.url}?compression=zstd")
    assert pushed.status == 0, pushed.err
    done = json.loads(pushed.out)
    assert done["signed" if hurt in SIGNED else "mended"] == [lab.path("pk")], done
    assert lab.cache("verify", "pk", "--cache", lab.url).status == 0
    again = json.loads(lab.push("pk", "--json").out)
    assert again["uploaded"] == again["signed"] == []


def test_a_damaged_signature_is_mended_over_http(lab: Lab, nginx: Callable[[Path], Nginx]) -> None:
    server = nginx(lab.folder)
    netrc = ("--netrc", server.netrc())
    lab.narinfo("pk").write_text(HURTS["cut"](lab.narinfo("pk").read_text()))
    pushed = lab.push("pk", *netrc, "--repair", to=f"{server.url}?compression=zstd")
    assert pushed.status == 0, pushed.err
    checked = lab.cache("verify", "pk", "--cache", server.url, *netrc)
    assert checked.status == 0, checked.out


def other_key(lab: Lab, tmp_path: Path) -> tuple[Path, str]:
    """Another key than the lab's: its file and its public half."""
    file = tmp_path / "other.key"
    made = lab.cache("keygen", "other-1", "--file", file)
    assert made.status == 0, made.err
    return file, made.out.strip()


def names(text: str) -> list[str]:
    """The names of the keys that a narinfo is signed with."""
    return sorted(re.findall(r"^Sig: ([^:]+):", text, re.M))


def test_what_is_put_there_anew_keeps_the_signatures_of_others(lab: Lab, tmp_path: Path) -> None:
    key, public = other_key(lab, tmp_path)
    words = ("push", "pk", "--to", f"{lab.url}?compression=zstd", "--key-file", key)
    assert lab.cache(*words, store=lab.builder).status == 0
    text = lab.narinfo("pk").read_text()
    assert names(text) == ["lab-1", "other-1"]
    lab.nar("pk").unlink()
    pushed = lab.push("pk", "--json", to=f"{lab.url}?compression=zstd")
    assert json.loads(pushed.out)["mended"] == [lab.path("pk")], pushed.err
    assert sorted(lab.narinfo("pk").read_text().split("\n")) == sorted(text.split("\n"))
    lab.narinfo("pk").write_text(text.replace("other-1:", "other-1:A", 1))
    assert lab.push("pk", to=f"{lab.url}?compression=zstd").status == 0
    assert names(lab.narinfo("pk").read_text()) == ["lab-1"]
    assert public


def test_pushes_with_different_keys_at_a_time_both_sign(bare: Lab, tmp_path: Path) -> None:
    key, public = other_key(bare, tmp_path)
    env = environment(**bare.project.env, **bare.env(bare.builder))
    argv = ["tnpu-nix", "cache", "push", "spike", "pk", "llvm-tools", "--offline-profile"]
    argv += ["--to", f"{bare.url}?compression=zstd", "--key-file"]
    running = [
        subprocess.Popen([*argv, str(file)], cwd=bare.project.root, env=env, stderr=-1, text=True)
        for file in (bare.key, key, bare.key)
    ]
    for one in running:
        _, said = one.communicate()
        assert one.returncode == 0, said
    found = list(bare.folder.glob("*.narinfo"))
    assert len(found) > 3
    for file in found:
        assert names(file.read_text()) == ["lab-1", "other-1"], file
    words = ("verify", "spike", "--cache", bare.url)
    assert bare.cache(*words).status == 0
    assert bare.cache(*words, "--public-key", public).status == 0


def test_a_push_waits_for_one_with_another_key_alone(bare: Lab, tmp_path: Path) -> None:
    """What it finds missing before, the other one puts there, and it would put there again."""
    own = bare.folder / "tnpu"
    own.mkdir(parents=True)
    key, _ = other_key(bare, tmp_path)
    env = environment(**bare.project.env, **bare.env(bare.builder))
    argv = ["tnpu-nix", "cache", "push", "pk", "--offline-profile", "--to", bare.url]
    argv += ["--key-file", str(key)]
    with turn_of(own, bare.public, print):
        running = subprocess.Popen(argv, cwd=bare.project.root, env=env, stderr=-1, text=True)
        read_until(running, "waiting: a push with another key is running")
        assert not bare.narinfo("pk").exists()
        assert bare.push("pk").status == 0
        assert running.poll() is None
    _, said = running.communicate()
    assert running.returncode == 0, said
    assert names(bare.narinfo("pk").read_text()) == ["lab-1", "other-1"]


class Silent(BaseHTTPRequestHandler):
    """Serves a folder, and says of nothing how long it is."""

    folder: Path

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        file = self.folder / self.path.lstrip("/").partition("?")[0]
        if not file.is_file():
            self.send_error(404)
            return
        self.send_response(200)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(file.read_bytes())

    do_HEAD = do_GET  # noqa: N815

    def do_PUT(self) -> None:
        content = self.rfile.read(int(self.headers["Content-Length"]))
        (self.folder / self.path.lstrip("/").partition("?")[0]).write_bytes(content)
        self.send_response(201)
        self.end_headers()


@pytest.fixture
def vague(lab: Lab) -> Iterator[str]:
    """The URL of a server of the lab's cache that gives no sizes."""
    handler = type("_Silent", (Silent,), {"folder": lab.folder})
    with served_by(handler) as host:
        yield f"http://{host}"


def test_what_is_unknown_is_not_damaged(lab: Lab, vague: str) -> None:
    for url in (vague, lab.url):
        done = lab.push("pk", "spike", "--json", to=f"{url}?compression=zstd")
        assert done.status == 0 and json.loads(done.out)["uploaded"] == [], done
    text = lab.narinfo("pk").read_text()
    for line in ("", "FileSize: 0\n"):
        lab.narinfo("pk").write_text(re.sub(r"^FileSize: .*\n", line, text, flags=re.M))
        done = lab.push("pk", "--json", to=f"{lab.url}?compression=zstd")
        assert json.loads(done.out)["uploaded"] == [], done
    lab.nar("pk").unlink()
    done = lab.push("pk", "--json", to=f"{vague}?compression=zstd")
    assert json.loads(done.out)["mended"] == [lab.path("pk")], done
    assert lab.nar("pk").is_file()
