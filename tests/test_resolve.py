"""What a name of a revision means: branches, tags, short revisions, and what is none."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.conftest import (
    Edit,
    GitRepository,
    Project,
    environment,
    run_with_mounts,
)
from tests.servers import serving


@pytest.mark.parametrize("how", ["light", "annotated", "tag of a tag", "object of the tag"])
def test_tags_of_every_kind_lead_to_their_commit(
    pinned: Project, repository: GitRepository, how: str
) -> None:
    rev = repository.git("rev-parse", "HEAD")
    repository.git("tag", "v1", *(["-a", "-m", "x"] if how != "light" else []))
    if how == "tag of a tag":
        repository.git("tag", "-a", "-m", "y", "v2", "v1")
    repository.commit("later")
    name = {"tag of a tag": "v2", "object of the tag": repository.git("rev-parse", "v1")}
    done = pinned.run("bump", "spike", name.get(how, "v1"))
    assert done.status == 0, done.err
    assert pinned.pin().rev == rev


def test_a_branch_and_a_tag_of_one_name_are_told_apart(
    pinned: Project, repository: GitRepository
) -> None:
    old = repository.git("rev-parse", "HEAD")
    repository.git("tag", "both")
    new = repository.commit("later")
    repository.git("branch", "both")
    pinned.run("bump", "spike", "both").failed_with("refs/heads/both", "refs/tags/both")
    assert pinned.run("bump", "spike", "refs/tags/both").status == 0
    assert pinned.pin().rev == old
    assert pinned.run("bump", "spike", "refs/heads/both").status == 0
    assert pinned.pin().rev == new


def test_a_revision_that_no_ref_leads_to_directly_is_found(
    pinned: Project, repository: GitRepository
) -> None:
    old = repository.git("rev-parse", "HEAD")
    for number in range(3):
        repository.commit(f"{number}")
    assert pinned.run("bump", "spike", old.upper()).status == 0
    assert pinned.pin().rev == old


@pytest.mark.parametrize("filters", ["true", "false"])
def test_a_repository_named_by_its_path_is_like_any_other(
    pinned: Project, repository: GitRepository, edit: Edit, filters: str
) -> None:
    old = repository.git("rev-parse", "HEAD")
    repository.commit("second")
    repository.git("config", "uploadpack.allowFilter", filters)
    edit(repository.url, str(repository.path))
    assert pinned.run("generate").status == 0
    for what in ("main", old, old[:9]):
        done = pinned.run("bump", "spike", what)
        assert done.status == 0, done.err


def test_a_short_revision_is_enough(pinned: Project, repository: GitRepository) -> None:
    old = repository.git("rev-parse", "HEAD")
    for number in range(3):
        repository.commit(f"{number}")
    for digits in (7, 12, 39):
        assert pinned.run("bump", "spike", "main").status == 0
        done = pinned.run("bump", "spike", old[:digits].upper())
        assert done.status == 0, done.err
        assert pinned.pin().rev == old
    pinned.run("bump", "spike", old[:6]).failed_with("a short revision has 7 hexadecimal digits")
    pinned.run("bump", "spike", "0123456").failed_with("has no revision 0123456")


def test_a_branch_comes_before_a_short_revision_of_the_same_spelling(
    pinned: Project, repository: GitRepository
) -> None:
    old = repository.git("rev-parse", "HEAD")
    new = repository.commit("second")
    repository.git("branch", old[:7], new)
    assert pinned.run("bump", "spike", old[:7]).status == 0
    assert pinned.pin().rev == new


def test_a_short_revision_that_commits_share_lists_them(
    pinned: Project, repository: GitRepository
) -> None:
    """Of 60,000 commits some share 7 digits; dates and authors are fixed, and so which."""
    lines = []
    for number in range(60_000):
        lines += ["commit refs/heads/many", "committer T <t@example.invalid> 1767323045 +0000"]
        lines += [f"data {len(str(number))}", f"{number}"]
    feed = "\n".join([*lines, ""])
    argv = ["git", "-C", str(repository.path), "fast-import", "--quiet"]
    subprocess.run(argv, input=feed, text=True, check=True, env=environment())
    revisions = repository.git("rev-list", "many").split()
    first: dict[str, str] = {}
    shared = next(
        (rev, first[rev[:7]]) for rev in revisions if first.setdefault(rev[:7], rev) != rev
    )
    done = pinned.run("bump", "spike", shared[0][:7])
    done.failed_with("is the beginning of 2 revisions", shared[0][:12], shared[1][:12])
    assert pinned.run("bump", "spike", shared[0][:12]).status == 0


def test_without_a_revision_the_pin_follows_the_branch_that_it_tracks(
    pinned: Project, repository: GitRepository
) -> None:
    repository.git("checkout", "--quiet", "-b", "TorchSim")
    rev = repository.commit("on the branch")
    done = pinned.run("bump", "spike")
    assert done.status == 0, done.err
    assert pinned.pin().rev == rev
    repository.git("checkout", "--quiet", "main")
    repository.git("branch", "-D", "TorchSim")
    pinned.run("bump", "spike").failed_with("no branch or tag 'refs/heads/TorchSim'", "it has main")


def test_a_server_that_knows_no_filter_is_asked_all_the_same(
    pinned: Project, repository: GitRepository, edit: Edit
) -> None:
    old = repository.git("rev-parse", "HEAD")
    repository.commit("second")
    repository.git("config", "uploadpack.allowFilter", "false")
    with serving(repository.path.parent) as server:
        edit(repository.url, f"{server.url}/thing.git")
        assert pinned.run("generate").status == 0
        assert pinned.run("bump", "spike", old).status == 0
        pinned.run("bump", "spike", "f" * 40).failed_with("has no revision")


BAD_REVISIONS = {"f" * 40: "has no revision ffff", "nowhere": "no branch or tag 'nowhere'"}


@pytest.mark.parametrize("what", BAD_REVISIONS)
def test_a_revision_that_does_not_exist(pinned: Project, what: str) -> None:
    before = pinned.files()
    pinned.run("bump", "spike", what).failed_with(BAD_REVISIONS[what])
    assert pinned.files() == before


@pytest.mark.parametrize("kind", ["tree", "blob"])
def test_a_tag_of_what_is_no_commit(pinned: Project, repository: GitRepository, kind: str) -> None:
    thing = {"tree": "HEAD^{tree}", "blob": "HEAD:file"}[kind]
    repository.git("tag", "odd", thing)
    for what in ("odd", repository.git("rev-parse", thing)):
        pinned.run("bump", "spike", what).failed_with("is a tree or a file, not a commit")


def test_refs_of_a_forge_are_offered_and_taken_by_their_full_names(
    pinned: Project, repository: GitRepository
) -> None:
    rev = repository.git("rev-parse", "HEAD")
    repository.git("update-ref", "refs/pull/1/head", rev)
    pinned.run("bump", "spike", "pull/1/head").failed_with("it has refs/pull/1/head")
    assert pinned.run("bump", "spike", "refs/pull/1/head").status == 0


def test_an_empty_repository_is_said_to_be(pinned: Project, tmp_path: Path, edit: Edit) -> None:
    empty = GitRepository(tmp_path / "empty.git")
    edit((tmp_path / "upstream" / "thing.git").as_uri(), empty.url)
    assert pinned.run("generate").status == 0
    pinned.run("bump", "spike", "main").failed_with("no branch or tag 'main'", "is empty")


def test_a_repository_of_sha256_objects_is_refused_in_words(
    pinned: Project, tmp_path: Path, edit: Edit
) -> None:
    other = GitRepository(tmp_path / "other.git", "--object-format=sha256")
    other.commit("first")
    edit((tmp_path / "upstream" / "thing.git").as_uri(), other.url)
    assert pinned.run("generate").status == 0
    pinned.run("bump", "spike", "main").failed_with("revisions of 64 digits")


def test_a_repository_on_this_machine_need_not_have_every_file_of_its_past(
    pinned: Project, repository: GitRepository
) -> None:
    repository.commit("large", large="x" * 1000)
    blob = repository.git("rev-parse", "HEAD:large")
    (repository.path / "large").unlink()
    rev = repository.commit("without")
    (repository.path / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    done = pinned.run("bump", "spike", rev[:9])
    assert done.status == 0, done.err
    assert pinned.pin().rev == rev


def test_a_tag_of_a_tree_does_not_hide_the_commits(
    pinned: Project, repository: GitRepository
) -> None:
    repository.git("tag", "tree", "HEAD^{tree}")
    rev = repository.commit("second")
    done = pinned.run("bump", "spike", rev[:9])
    assert done.status == 0, done.err
    assert pinned.pin().rev == rev


def test_a_dry_run_needs_no_right_to_write(pinned: Project, repository: GitRepository) -> None:
    root = pinned.root
    mount = f"mount --bind {root} {root}; mount -o remount,ro,bind {root}"
    words = ("bump", "spike", "main", "--dry-run")
    done = run_with_mounts(mount, *words, cwd=root, env=pinned.env)
    assert done.status == 0, done.err
    assert "would write pins.toml" in done.out
