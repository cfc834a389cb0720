"""What a hint names runs as it stands: with the store, caches and netrc file that were given."""

from __future__ import annotations

import re
import shlex
import subprocess

from tests.cache.conftest import Lab
from tests.conftest import Ran


def hinted(lab: Lab, done: Ran) -> list[Ran]:
    """Run the commands of a hint, where no variable names the store."""
    found = re.findall(r"`tnpu-nix (.*?)`", done.err.splitlines()[-1])
    assert found, done.err
    env = {"TNPU_SIGNING_KEY_FILE": str(lab.key)}
    return [lab.project.run(*shlex.split(words), env=env) for words in found]


def test_what_a_damaged_cache_is_looked_at_with(lab: Lab) -> None:
    lab.nar("pk").write_bytes(lab.nar("pk").read_bytes()[:-40])
    netrc = lab.folder.parent / "a netrc"
    netrc.touch()
    words = ("--cache", lab.url, "--public-key", lab.public, "--netrc", netrc)
    pulled = lab.cache("pull", "pk", *words)
    pulled.failed_with(shlex.join(map(str, words)))
    (checked,) = hinted(lab, pulled)
    checked.failed_with("not as it should be")
    assert f"BAD      {lab.path('pk')}: " in checked.out


def test_what_fills_a_cache_that_lacks_an_output(lab: Lab) -> None:
    lab.nar("pk").unlink()
    lab.narinfo("pk").unlink()
    url = f"{lab.url}?compression=zstd"
    pulled = lab.cache("pull", "pk", "--cache", url)
    pulled.failed_with("in no cache: pk")
    built, pushed = hinted(lab, pulled)
    assert built.status == 0 and pushed.status == 0, pushed.err
    assert lab.narinfo("pk").exists()


def test_what_mends_the_store_here_is_taken_from_the_cache_that_was_given(lab: Lab) -> None:
    assert lab.cache("pull", "pk", "--cache", lab.url).status == 0
    subprocess.run(["chmod", "-R", "u+w", lab.in_store("pk")], check=True)
    (lab.in_store("pk") / "bin" / "pk").write_text("altered")
    checked = lab.cache("verify", "pk", "--here", "--cache", lab.url)
    (mended,) = hinted(lab, checked)
    assert mended.status == 0, mended.err
    assert lab.cache("verify", "pk", "--here").status == 0
