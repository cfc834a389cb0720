"""The miniature upstreams as git repositories: the same revisions everywhere."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.conftest import environment
from tnpu_nix.offline.repositories import Repository, make_repositories
from tnpu_nix.pins import PIN_NAMES


def show(repository: Repository, what: str) -> str:
    argv = ["git", "--git-dir", repository.url.removeprefix("file://"), "show", what]
    return subprocess.run(argv, env=environment(), capture_output=True, text=True).stdout.strip()


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Repository]:
    return make_repositories(tmp_path_factory.mktemp("upstreams"))


def test_there_is_one_for_each_pin_with_two_revisions_and_a_tag(
    made: dict[str, Repository],
) -> None:
    assert set(made) == set(PIN_NAMES)
    for repository in made.values():
        assert len(repository.history) == 2
        assert repository.history[-1] == repository.head
        assert list(repository.tags.values()) == [repository.history[0]]


def test_revisions_do_not_depend_on_the_user_or_the_machine(
    made: dict[str, Repository], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".gitconfig").write_text(
        "[core]\nautocrlf = true\n[user]\nname = Else\n[commit]\ngpgsign = true\n"
        "[init]\ndefaultBranch = other\ndefaultObjectFormat = sha256\n"
    )
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("GIT_AUTHOR_NAME", "Somebody")
    monkeypatch.setenv("TZ", "Asia/Seoul")
    before = os.umask(0o077)
    try:
        again = make_repositories(tmp_path / "upstreams")
    finally:
        os.umask(before)
    assert {name: one.history for name, one in again.items()} == {
        name: one.history for name, one in made.items()
    }


def test_the_coupling_files_agree_at_both_ages(made: dict[str, Repository]) -> None:
    for age in (0, 1):
        triton = made["triton"].history[age]
        llvm_hash = show(made["triton"], f"{triton}:cmake/llvm-hash.txt")
        assert llvm_hash == made["llvm"].history[age]
        shared = made["triton_shared"].history[age]
        assert show(made["triton_shared"], f"{shared}:triton-hash.txt") == triton


@pytest.mark.parametrize("damage", ["nothing", "a repository", "HEAD", "a ref"])
def test_a_second_call_keeps_what_is_whole_and_mends_the_rest(
    made: dict[str, Repository], tmp_path: Path, damage: str
) -> None:
    first = make_repositories(tmp_path)
    broken = Path(first["pk"].url.removeprefix("file://"))
    untouched = Path(first["llvm"].url.removeprefix("file://")) / "HEAD"
    when = untouched.stat().st_mtime_ns
    if damage == "a repository":
        shutil.rmtree(broken)
    elif damage == "HEAD":
        (broken / "HEAD").unlink()
    elif damage == "a ref":
        argv = ["git", "--git-dir", str(broken), "update-ref", "refs/heads/main"]
        subprocess.run([*argv, first["pk"].history[0]], check=True)
    again = make_repositories(tmp_path)
    assert again == first
    assert show(again["pk"], "--format=%H main").startswith(first["pk"].head)
    assert untouched.stat().st_mtime_ns == when
