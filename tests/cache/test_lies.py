"""Servers that lie, drip, flood or die: what is said of them, and that others make up for them."""

from __future__ import annotations

import contextlib
import json
import os
import re
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from tests.cache.conftest import Lab, edit, nix
from tests.registry import served_by

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
    with served_by(handler) as host:
        yield f"http://{host}"


def field(key: str, value: str) -> Lie:
    """A narinfo with another value of a key; one that is not there is added."""

    def lie(name: str, content: bytes) -> bytes:
        if not name.endswith(".narinfo"):
            return content
        kept = re.sub(rf"^{key}: .*\n".encode(), b"", content, flags=re.M)
        return kept + f"{key}: {value}\n".encode()

    return lie


def greeting(text: str) -> Lie:
    return lambda name, content: text.encode() if name == "nix-cache-info" else content


LIES: dict[str, Lie] = {
    "priority": greeting("StoreDir: /nix/store\nPriority: abc\n"),
    "store": greeting("StoreDir: /gnu/store\n"),
    "page": greeting("<html><body>Welcome to our hotel</body></html>"),
    "hash": field("NarHash", "sha256:" + "e" * 52),
    "size": field("NarSize", "9" * 30),
    "address": field("CA", "fixed:r:sha256:" + "0" * 52),
    "deriver": field("Deriver", "../../x.drv"),
    "signature": field("Sig", "lab-1:zzz"),
}
WORDS = {
    "priority": "the Priority in its nix-cache-info is no number",
    "store": "its paths are for the store '/gnu/store'",
    "page": "its nix-cache-info names no StoreDir: not a binary cache",
    "hash": "its narinfo has a hash that is none",
    "size": "its narinfo cannot be read",
    "address": "its narinfo has the address of another content",
    "deriver": "its narinfo names a deriver that is no store path",
}


@pytest.mark.parametrize("mode", WORDS)
def test_a_good_cache_makes_up_for_one_that_lies(lab: Lab, liar: str, mode: str) -> None:
    bad = f"{liar}/{mode}"
    alone = lab.cache("pull", "pk", "--cache", bad)
    alone.failed_with(f"{bad}: {WORDS[mode]}")
    if "narinfo" in WORDS[mode] and "nix-cache-info" not in WORDS[mode]:
        command = f"tnpu-nix cache verify --cache {bad} --offline-profile --store {lab.reader}"
        alone.failed_with(f"`{command}` names the paths")
    shown = json.loads(lab.cache("status", "pk", "--json", "--cache", bad).out)
    assert shown["caches"][0]["trouble"] or shown["outputs"][0]["damaged"] == [bad], shown
    assert not shown["outputs"][0]["caches"] and lab.empty()

    pulled = lab.cache("pull", "pk", "--cache", bad, "--cache", lab.url)
    assert pulled.status == 0, pulled.err
    assert f"going on without {bad}: " in pulled.err and lab.in_store("pk").exists()


def test_a_cache_is_left_out_that_nix_does_not_name(lab: Lab, liar: str) -> None:
    bad = f"{liar}/signature"
    alone = lab.cache("pull", "pk", "--cache", bad)
    alone.failed_with(f"what {bad} has is not signed by a key")
    pulled = lab.cache("pull", "pk", "--cache", bad, "--cache", lab.url)
    assert pulled.status == 0, pulled.err
    assert f"going on without {bad}: with it, nix fails" in pulled.err


@pytest.mark.parametrize("mode", ["priority", "hash", "size", "address", "signature"])
def test_a_build_goes_on_without_a_cache_that_lies(lab: Lab, liar: str, mode: str) -> None:
    bad = f"{liar}/{mode}"
    edit(lab.project, substituters=[bad, lab.url])
    built = lab.project.run("build", "pk", "--offline-profile", "--caches", env=lab.env())
    assert built.status == 0, built.err
    assert f"without {bad}: " in built.err and "fetched riscv-pk" in built.err
    assert "building" not in built.err


def test_the_address_of_a_content_is_reckoned_as_nix_does(lab: Lab, tmp_path: Path) -> None:
    from tnpu_nix.storepath import content_addressed_path

    store, file = tmp_path / "store", tmp_path / "file"
    file.write_text("content")
    text = """let a = builtins.toFile "a" "x"; in derivation {
      name = "d"; system = "x"; builder = builtins.toFile "b" "see ${a}"; }"""
    nix(store, "nix-instantiate", "-E", text)
    for how in (["sha1"], ["--recursive", "sha256"], ["--recursive", "sha512"], ["md5"]):
        nix(store, "nix-store", "--add-fixed", *how, str(file))
    answer = json.loads(nix(store, "nix", "path-info", "--json", "--all").stdout)
    entries = answer if isinstance(answer, list) else [{"path": k, **v} for k, v in answer.items()]
    kinds = set()
    for one in entries:
        kinds.add(one["ca"].rpartition(":")[0])
        name = one["path"][len("/nix/store/") + 33 :]
        found = content_addressed_path(one["ca"], name, one["references"], False)
        assert found == one["path"], one
    assert kinds == {"text:sha256", "fixed:sha1", "fixed:md5", "fixed:r:sha256", "fixed:r:sha512"}


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


def test_a_damaged_database_of_nix_is_named(lab: Lab) -> None:
    assert lab.cache("pull", "pk", "--cache", lab.url).status == 0
    (lab.reader / "nix" / "var" / "nix" / "db" / "db.sqlite").write_bytes(os.urandom(9999))
    lab.cache("status", "pk", "--cache", lab.url).failed_with("asking the Nix store failed")


@pytest.mark.parametrize("url", ["http://[::1", "http://host:99999999", "file:///a#b", "http://:9"])
def test_what_is_no_url_of_a_cache_is_refused(lab: Lab, url: str) -> None:
    lab.cache("status", "pk", "--cache", url).failed_with("is no URL of a cache")


def test_a_folder_that_versions_of_nix_read_in_two_ways_is_refused(lab: Lab) -> None:
    url = f"file://{lab.project.root}/a%20b"
    lab.push("pk", to=url).failed_with(url, "of one name to some versions of Nix")
    assert not (lab.project.root / "a%20b").exists() and not (lab.project.root / "a b").exists()


def test_paths_and_numbers_that_would_be_taken_for_others_are_refused(
    lab: Lab, tmp_path: Path
) -> None:
    lab.cache("status", "pk", store=tmp_path / "a?b").failed_with("takes what follows the ?")
    netrc = tmp_path / "a#b"
    netrc.write_text("")
    words = ["pull", "pk", "--cache", lab.url]
    lab.cache(*words, "--netrc", netrc).failed_with("# begins a comment")
    wrong = lab.cache(*words, "--timeout", "nan")
    assert wrong.status == 2 and "is not a number" in wrong.err


def test_a_bad_cache_alone_is_named_with_what_to_do(lab: Lab) -> None:
    """Nix fetches a reference that the cache lacks, and says of the output only that it failed."""
    text = lab.narinfo("spike").read_text()
    own = lab.path("spike")[11:43]
    referred = re.search(r"^References: (.*)$", text, re.M)
    assert referred
    names = [one for one in referred[1].split() if not one.startswith(own)]
    (lab.folder / f"{names[0][:32]}.narinfo").unlink()
    pulled = lab.cache("pull", "spike", "--cache", lab.url)
    pulled.failed_with(lab.url, f"`tnpu-nix cache verify --cache {lab.url} ")
