"""What the sources say of each other's revisions: `check`, `bump`, and `bump --follow`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import Trio, coupling
from tnpu_nix.sources import triton_options

both_forms = pytest.mark.parametrize("trio", ["llvm-hash.txt", "llvm-info.json"], indirect=True)


@both_forms
def test_pins_that_agree_pass(trio: Trio) -> None:
    done = trio.project.run("check")
    assert (done.status, done.out) == (0, "")
    assert "the sources agree" in done.err


@both_forms
def test_triton_with_another_llvm_is_an_error(trio: Trio) -> None:
    trio.bump("llvm", trio.llvm[1])
    trio.project.run("check").failed_with(trio.llvm[0], trio.llvm[1], "tnpu-nix bump llvm ")


def test_triton_shared_with_another_triton_is_a_warning(trio: Trio) -> None:
    trio.bump(f"triton={trio.triton[1]}", f"llvm={trio.llvm[1]}")
    done = trio.project.run("check")
    assert done.status == 0
    assert done.out.startswith("warning: triton_shared was last tested with triton ")


def test_a_bump_says_what_does_not_fit_any_more(trio: Trio) -> None:
    done = trio.project.run("bump", "triton", trio.triton[1])
    assert done.status == 0
    assert f"names LLVM {trio.llvm[1]}, the llvm pin is {trio.llvm[0]}" in done.out
    assert "warning: triton_shared was last tested with" in done.out


def test_a_mismatch_that_is_wanted_is_told_with_its_reason_each_time(trio: Trio) -> None:
    text = trio.project.pins.read_text()
    for name in ("triton", "triton_shared"):
        reason = f'[pins.{name}]\nmismatch = "the lab pairs these"'
        text = text.replace(f"[pins.{name}]", reason)
    trio.project.pins.write_text(text)
    assert trio.project.run("generate").status == 0
    trio.bump("triton", trio.triton[1])
    done = trio.project.run("check")
    assert done.status == 0
    assert done.out.count("wanted: ") == 2
    assert done.out.count("  because: the lab pairs these") == 2


@both_forms
def test_llvm_follows_triton_in_the_same_transaction(trio: Trio) -> None:
    trio.bump("triton", trio.triton[1], "--follow")
    assert trio.project.pin("llvm").rev == trio.llvm[1]
    assert trio.project.pin("triton").rev == trio.triton[1]


def test_following_an_llvm_that_is_not_there_moves_nothing(trio: Trio) -> None:
    nowhere = "e" * 40
    form = next((trio.repositories["triton"].path / "cmake").iterdir()).name
    trio.repositories["triton"].commit("bad", **coupling(form, nowhere))
    before = trio.project.files()
    trio.project.run("bump", "triton", "main", "--follow").failed_with(f"no revision {nowhere}")
    assert trio.project.files() == before


@pytest.mark.parametrize("words", [["spike", "main"], ["triton=main", "llvm=main"]])
def test_follow_goes_with_triton_alone(trio: Trio, words: list[str]) -> None:
    trio.project.run("bump", *words, "--follow").failed_with()


@both_forms
def test_a_coupling_file_that_names_no_revision_is_said_to(trio: Trio) -> None:
    form = next((trio.repositories["triton"].path / "cmake").iterdir()).name
    for text in ("", "main", '{"llvm_hash": 3}', "[]"):
        name = form.replace(".", "__")
        trio.repositories["triton"].commit("odd", **{f"cmake/{name}": text})
        trio.project.run("bump", "triton", "main").failed_with(f"cmake/{form} names no LLVM")


@pytest.mark.parametrize("key", ["llvm_repository", "repository", "url"])
def test_a_repository_that_the_coupling_file_names_is_compared(trio: Trio, key: str) -> None:
    info = {"llvm_hash": trio.llvm[0], key: "https://github.com/triton-lang/llvm-project"}
    # Beside what is no source: where a build of that LLVM can be had.
    info["release_base_url"] = "https://github.com/triton-lang/elsewhere/releases"
    trio.repositories["triton"].commit("own", **{"cmake/llvm-info__json": json.dumps(info)})
    done = trio.project.run("bump", "triton", "main")
    assert "takes LLVM from https://github.com/triton-lang/llvm-project," in done.out


def test_sources_that_are_not_at_hand_are_fetched(trio: Trio, tmp_path: Path) -> None:
    done = trio.project.run("check", env={"TNPU_NIX_STORE": str(tmp_path / "other")})
    assert done.status == 0, done.err
    assert "fetching triton at" in done.err and "fetching llvm" not in done.err


def test_findings_as_json(trio: Trio) -> None:
    trio.bump(f"triton={trio.triton[1]}", f"llvm={trio.llvm[1]}")
    (finding,) = json.loads(trio.project.run("check", "--json").out)
    assert (finding["pin"], finding["is_error"]) == ("triton_shared", False)


ODD = {
    "setup__py": ["# \udce9\n", "x = (", "\0"],
    "pyproject__toml": ["# \udce9\n", "[build-system]\nrequires = [1]", 'build-system = "x"', "["],
}


@pytest.mark.parametrize("name", ODD)
def test_a_triton_whose_files_cannot_be_understood_is_built_as_pins_toml_says(
    tmp_path: Path, name: str
) -> None:
    for text in ODD[name]:
        path = tmp_path / name.replace("__", ".")
        path.write_bytes(text.encode(errors="surrogateescape"))
        assert triton_options(tmp_path) == {}


def test_a_link_out_of_the_source_says_nothing_of_it(trio: Trio, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("of this machine")
    triton = trio.repositories["triton"]
    (triton.path / "cmake" / "llvm-info.json").unlink()
    (triton.path / "cmake" / "llvm-info.json").symlink_to(secret)
    triton.commit("a link")
    done = trio.project.run("bump", "triton", "main")
    assert done.status == 0, done.err
    assert "of this machine" not in done.out + done.err
