"""`tnpu-nix image verify` with caches for witnesses: behind passwords, silent, broken, lying."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

from tests.cache.conftest import Lab
from tests.cache.web import Nginx
from tests.conftest import Ran
from tests.registry import answered_by


def verify(lab: Lab, *options: str | Path) -> Ran:
    """Verify the image that the builder built, with a store that has nothing of it."""
    image = lab.in_store("tnpu-image", lab.builder)
    words = ["image", "verify", "--offline-profile", image, *options]
    return lab.project.run(*words, env=lab.env())


def test_a_cache_behind_a_password_proves_the_image(
    lab: Lab, nginx: Callable[[Path], Nginx]
) -> None:
    server = nginx(lab.folder)
    refused = verify(lab, "--from", server.url)
    refused.failed_with("could be proven", server.url, "(401)", "netrc")
    done = verify(lab, "--from", server.url, "--netrc", server.netrc())
    assert done.status == 0, done
    assert f"have the NAR hash that {server.url} has" in done.out
    assert not [one for one in server.requests() if one.startswith("PUT")]


def test_caches_that_are_of_no_use_are_passed_over(
    lab: Lab, nginx: Callable[[Path], Nginx], silent: str, tmp_path: Path
) -> None:
    server = nginx(lab.folder)
    damaged = tmp_path / "damaged"
    shutil.copytree(lab.folder, damaged)
    nar = damaged / lab.nar("tnpu-image").relative_to(lab.folder)
    nar.write_bytes(nar.read_bytes()[:-1000])
    forged = tmp_path / "forged"
    shutil.copytree(lab.folder, forged)
    for one in forged.glob("*.narinfo"):
        one.write_text(re.sub("NarSize: ", "NarSize: 9", one.read_text()))
    (tmp_path / "empty").mkdir()
    bad = [silent, *map(server.at, ("403", "404", "500", "late500")), "http://127.0.0.1:1"]
    bad += [f"file://{tmp_path}/{name}" for name in ("damaged", "forged", "empty", "absent")]
    urls = [word for url in (*bad, lab.url) for word in ("--from", url)]
    done = verify(lab, *urls, "--timeout", "0.5")
    assert done.status == 0, done
    for url in (silent, server.at("403"), server.at("500"), f"file://{damaged}", bad[-1]):
        assert url in done.err, url
    assert done.err.count(silent) == 1


@contextlib.contextmanager
def two_tongued(folder: Path, forge: Callable[[str], str]) -> Iterator[str]:
    """A cache that tells Nix the truth, and everyone else what *forge* makes of a narinfo."""

    def answer(it: BaseHTTPRequestHandler) -> None:
        path = folder / it.path.lstrip("/")
        text = path.read_text() if path.is_file() else ""
        if path.suffix == ".narinfo" and "Nix" not in it.headers["User-Agent"]:
            text = forge(text)
        it.send_response(200 if text else 404)
        it.send_header("Content-Length", str(len(text)))
        it.end_headers()
        it.wfile.write(text.encode())

    with answered_by(answer) as host:
        yield f"http://{host}"


def test_what_a_cache_told_us_is_what_has_to_be_signed(lab: Lab) -> None:
    """Not what it tells Nix, who checks the signature."""
    pk = lab.path("pk")

    def forge(text: str) -> str:
        false = f"NarHash: sha256:{'0' * 52}"
        return re.sub("NarHash: .*", false, text) if f"StorePath: {pk}\n" in text else text

    lab.narinfo("tnpu-image").unlink()
    lab.narinfo("tnpu-image-stream").unlink(missing_ok=True)
    with two_tongued(lab.folder, forge) as url:
        done = verify(lab, "--from", url, "--json")
    verdict = json.loads(done.out)
    lines = [one["what"] for one in verdict["findings"] if one["what"].startswith(pk)]
    assert lines == [f"{pk}: neither the store nor a cache knows its NAR hash"]
    assert set(verdict["proven"].values()) == {url} and pk not in verdict["proven"]
