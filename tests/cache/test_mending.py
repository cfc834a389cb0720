"""A push mends what a cache has damaged, also what others refer to and what refers to others."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path

import pytest

from tests.cache.conftest import Lab, nix
from tests.cache.test_faults import DAMAGES
from tests.cache.web import Nginx


@dataclass
class Turned(Lab):
    """A lab that takes another path for its pk, so that what befalls pk befalls that one."""

    instead: str = ""

    def path(self, output: str) -> str:
        return self.instead if output == "pk" else super().path(output)


def references(lab: Lab, path: str) -> list[str]:
    argv = ("nix-store", "--query", "--references", path)
    return [one for one in nix(lab.builder, *argv).stdout.split() if one != path]


def middle(lab: Lab) -> str:
    """The path that spike refers to and that refers to others."""
    (path,) = [one for one in references(lab, lab.path("spike")) if "-spike-unwrapped-" in one]
    assert references(lab, path)
    return path


def turned(lab: Lab) -> Turned:
    given = {one.name: getattr(lab, one.name) for one in fields(lab)}
    return Turned(**given, instead=middle(lab))


def remove(lab: Lab, path: str) -> None:
    (lab.folder / f"{path[11:43]}.narinfo").unlink()


# Over HTTP the same is done by other means, whatever the damage.
KINDS = [*((one, "file") for one in DAMAGES), ("narinfo altered: size", "web"), ("forged", "web")]


@pytest.mark.parametrize(("damage", "place"), KINDS)
def test_a_damaged_path_that_has_references_is_mended(
    lab: Lab, nginx: Callable[[Path], Nginx], damage: str, place: str
) -> None:
    server = nginx(lab.folder)
    url = lab.url if place == "file" else server.url
    netrc = ("--netrc", server.netrc())
    DAMAGES[damage](turned(lab))
    pushed = lab.push("spike", "--json", *netrc, to=f"{url}?compression=zstd")
    assert pushed.status == 0, pushed.err
    if damage != "narinfo altered: signature":  # which is added without an upload
        assert json.loads(pushed.out)["mended"] == [middle(lab)]
    checked = lab.cache("verify", "spike", "--cache", url, *netrc)
    assert checked.status == 0 and "not there" not in checked.out, checked.out
    assert lab.cache("pull", "spike", "--cache", url, *netrc).status == 0


def test_what_is_missing_below_and_above_a_damaged_path_comes_with_it(lab: Lab) -> None:
    path = middle(lab)
    missing = {references(lab, path)[0], lab.path("spike"), lab.path("pk")}
    for one in missing:
        remove(lab, one)
    (lab.folder / f"{path[11:43]}.narinfo").write_text("")
    pushed = lab.push("spike", "pk", "--json", to=f"{lab.url}?compression=zstd")
    assert pushed.status == 0, pushed.err
    assert set(json.loads(pushed.out)["uploaded"]) == {*missing, path}
    checked = lab.cache("verify", "spike", "pk", "--cache", lab.url)
    assert checked.status == 0 and "not there" not in checked.out, checked.out


def test_what_is_missing_is_uploaded_although_what_is_damaged_cannot_be_mended(lab: Lab) -> None:
    nar = turned(lab).nar("pk")
    nar.unlink()
    nar.mkdir()
    remove(lab, lab.path("pk"))
    pushed = lab.push("spike", "pk", to=f"{lab.url}?compression=zstd")
    pushed.failed_with(f"{lab.url} takes no push: Is a directory")
    assert lab.narinfo("pk").exists()
    assert lab.cache("pull", "pk", "--cache", lab.url).status == 0


@pytest.mark.parametrize(
    ("place", "said"),
    [("kept403", "it refuses this user (403)"), ("kept404", "it takes no uploads (404)")],
)
@pytest.mark.parametrize("state", ["damaged", "missing"])
def test_a_cache_that_takes_records_and_no_paths_is_named_with_the_reason(
    lab: Lab, nginx: Callable[[Path], Nginx], place: str, said: str, state: str
) -> None:
    url = nginx(lab.folder).at(place)
    if state == "missing":
        remove(lab, lab.path("pk"))
    else:
        lab.narinfo("pk").write_text("")
    lab.push("pk", to=f"{url}?compression=zstd").failed_with(f"{url} takes no push: {said}")


@pytest.mark.parametrize("place", ["file", "web"])
@pytest.mark.parametrize("lost", ["all", "nix-cache-info"])
def test_a_cache_that_was_emptied_is_filled_anew(
    bare: Lab, nginx: Callable[[Path], Nginx], place: str, lost: str
) -> None:
    """Nix remembers of the URL that there is a cache."""
    server = nginx(bare.folder)
    netrc = ("--netrc", server.netrc())
    url = bare.url if place == "file" else server.url
    words = ("pk", *netrc)
    assert bare.push(*words, to=f"{url}?compression=zstd").status == 0
    info = (bare.folder / "nix-cache-info").read_text()
    for path in bare.folder.iterdir():
        if lost == path.name:
            path.unlink()
        elif lost == "all":
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    again = bare.push(*words, "--json", to=f"{url}?compression=zstd")
    assert again.status == 0, again.err
    assert json.loads(again.out)["uploaded"] == ([bare.path("pk")] if lost == "all" else [])
    assert (bare.folder / "nix-cache-info").read_text() == info
    assert bare.cache("status", "pk", "--cache", url, *netrc).status == 0
    assert bare.cache("pull", "pk", "--cache", url, *netrc).status == 0
