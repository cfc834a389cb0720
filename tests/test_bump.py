"""`tnpu-nix bump`: real git, a real store, one transaction."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import (
    Edit,
    GitRepository,
    Project,
    environment,
)
from tests.nix import nar_hash
from tnpu_nix import pinsfile
from tnpu_nix.sources import triton_options


def test_a_branch_is_followed_and_written_with_comments_and_order_kept(
    pinned: Project, repository: GitRepository, tmp_path: Path
) -> None:
    rev = repository.commit("second", file="content", run__sh="x")
    before = pinned.pins.read_text()
    done = pinned.run("bump", "spike", "main")
    assert done.status == 0, done.err
    assert rev in done.out and "refs/heads/main" in done.out and "pins.toml" in done.out
    plain = tmp_path / "plain"
    plain.mkdir()
    repository.git("checkout-index", "--all", f"--prefix={plain}/")
    found = pinned.pin()
    assert (found.rev, found.hash) == (rev, nar_hash(plain))
    assert found.date == "2026-01-02T03:04:05Z".replace("Z", "+00:00")
    changed = [
        (old, new)
        for old, new in zip(before.splitlines(), pinned.pins.read_text().splitlines(), strict=True)
        if old != new
    ]
    assert [new.split(" = ")[0] for _, new in changed] == ["rev", "hash", "date"]
    assert pinned.run("generate", "--check").status == 0


@pytest.fixture
def two(pinned: Project, tmp_path: Path, edit: Edit) -> GitRepository:
    """Beside spike, pk is pinned to a repository of the test."""
    other = GitRepository(tmp_path / "other.git")
    other.commit("other")
    edit("https://github.com/riscv-software-src/riscv-pk.git", other.url)
    assert pinned.run("generate").status == 0
    return other


def test_several_pins_move_in_one_transaction(
    pinned: Project, repository: GitRepository, two: GitRepository
) -> None:
    done = pinned.run("bump", "spike=main", f"pk={two.git('rev-parse', 'HEAD')[:8]}")
    assert done.status == 0, done.err
    assert pinned.pin("spike").rev == repository.git("rev-parse", "HEAD")
    assert pinned.pin("pk").rev == two.git("rev-parse", "HEAD")
    assert pinned.run("generate", "--check").status == 0


@pytest.mark.parametrize("words", [["spike=main", "pk=nowhere"], ["spike=main", "spike=main"]])
def test_of_several_pins_all_move_or_none(
    pinned: Project, two: GitRepository, words: list[str]
) -> None:
    before = pinned.files()
    pinned.run("bump", *words).failed_with()
    assert pinned.files() == before


def test_triton_shared_may_be_spelled_as_its_repository_is(
    pinned: Project, repository: GitRepository, edit: Edit
) -> None:
    edit(pinned.pin("triton_shared").url, repository.url + "/x")
    pinned.run("bump", "triton-shared").failed_with("no git repository")


@pytest.mark.parametrize("words", [["spike", "main", "x"], ["spike", "pk=main"], []])
def test_a_bump_that_cannot_be_understood_is_a_wrong_command_line(
    pinned: Project, words: list[str]
) -> None:
    assert pinned.run("bump", *words).status == 2


def test_a_dry_run_shows_everything_and_writes_nothing(
    pinned: Project, repository: GitRepository
) -> None:
    before = pinned.files()
    dry = pinned.run("bump", "spike", "main", "--dry-run")
    assert dry.status == 0
    assert pinned.files() == before
    assert "would write pins.toml, nix/sources.nix" in dry.out
    real = pinned.run("bump", "spike", "main")
    assert real.out == dry.out.replace("would write", "wrote")


def test_a_bump_to_what_is_pinned_writes_nothing(
    pinned: Project, repository: GitRepository
) -> None:
    assert pinned.run("bump", "spike", "main").status == 0
    before = {path: (pinned.root / path).stat().st_mtime_ns for path in pinned.files()}
    done = pinned.run("bump", "spike", "main")
    assert "nothing was written" in done.out
    assert before == {path: (pinned.root / path).stat().st_mtime_ns for path in pinned.files()}


def test_two_bumps_at_once_lose_nothing(
    pinned: Project, repository: GitRepository, tmp_path: Path, edit: Edit
) -> None:
    other = GitRepository(tmp_path / "other.git")
    other.commit("other")
    edit("https://github.com/riscv-software-src/riscv-pk.git", other.url)
    assert pinned.run("generate").status == 0
    running = [
        subprocess.Popen(
            [sys.executable, "-m", "tnpu_nix", "bump", name, "main"],
            cwd=pinned.root,
            env=environment(**pinned.env),
        )
        for name in ("spike", "pk")
    ]
    assert [one.wait() for one in running] == [0, 0]
    assert pinned.pin("spike").rev == repository.git("rev-parse", "HEAD")
    assert pinned.pin("pk").rev == other.git("rev-parse", "HEAD")
    assert pinned.run("generate", "--check").status == 0


NEEDS = {
    'requires = ["setuptools", "pybind11>=2.13.1"]': {"build-requires": ["pybind11"]},
    'requires = [\n "cmake>=3.20,<4.0",\n "nanobind==2.10.2",\n]': {"build-requires": ["nanobind"]},
    'requires = ["setuptools"]': {},
}


@pytest.mark.parametrize("requires", NEEDS)
def test_triton_is_asked_what_its_build_needs(tmp_path: Path, requires: str) -> None:
    (tmp_path / "pyproject.toml").write_text(f"[build-system]\n{requires}\n")
    assert triton_options(tmp_path) == NEEDS[requires]


def test_triton_that_wants_json_without_proton_is_noticed(tmp_path: Path) -> None:
    call = "get_thirdparty_packages([get_json_package_info()])"
    for function, wanted in (("get_proton_cmake_args", False), ("build_extension", True)):
        (tmp_path / "setup.py").write_text(f"def {function}(self):\n    return {call}\n")
        assert triton_options(tmp_path) == {"nlohmann-json": wanted}


def test_a_bump_of_triton_writes_what_the_new_source_needs(
    project: Project, repository: GitRepository, edit: Edit
) -> None:
    edit("https://github.com/triton-lang/triton.git", repository.url)
    assert project.run("generate").status == 0
    repository.commit("new", pyproject__toml='[build-system]\nrequires = ["nanobind"]\n')
    done = project.run("bump", "triton", "main")
    assert "build-requires = ['nanobind']" in done.out
    assert pinsfile.load(project.pins).triton.build_requires == ["nanobind"]
    assert "[ python.pkgs.nanobind ]" in (project.root / "nix" / "triton.nix").read_text()
