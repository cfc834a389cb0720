"""What a bump says, and the git commit that it makes of that."""

from __future__ import annotations

import subprocess

import pytest

from tests.conftest import GitRepository, Project, environment
from tnpu_nix.commits import SCREENFUL, compare_link
from tnpu_nix.flake import TARGETS
from tnpu_nix.pins import REBUILT

OLD, NEW = "a" * 40, "b" * 40


def test_the_commits_in_between_are_counted_and_shown(
    pinned: Project, repository: GitRepository
) -> None:
    assert pinned.run("bump", "spike", "main").status == 0
    revisions = [repository.commit(f"subject {number}") for number in range(3)]
    done = pinned.run("bump", "spike", "main")
    shown = [f"        {rev[:12]} subject {n}" for n, rev in enumerate(revisions)]
    assert "\n".join(["  log   3 commits", *reversed(shown)]) in done.out


def test_more_than_a_screenful_is_cut_and_said_to_be(
    pinned: Project, repository: GitRepository
) -> None:
    assert pinned.run("bump", "spike", "main").status == 0
    for number in range(SCREENFUL + 5):
        repository.git("commit", "--quiet", "--allow-empty", "--message", f"{number}")
    done = pinned.run("bump", "spike", "main")
    assert f"  log   {SCREENFUL + 5} commits" in done.out
    assert "        and 5 more\n" in done.out


def test_a_step_back_is_no_history(pinned: Project, repository: GitRepository) -> None:
    old = repository.git("rev-parse", "HEAD")
    repository.commit("second")
    assert pinned.run("bump", "spike", "main").status == 0
    assert "is no ancestor of the new revision" in pinned.run("bump", "spike", old).out


@pytest.mark.parametrize(
    ("url", "link"),
    [
        ("https://github.com/o/r.git", f"https://github.com/o/r/compare/{OLD}...{NEW}"),
        ("git@github.com:o/r.git", f"https://github.com/o/r/compare/{OLD}...{NEW}"),
        ("ssh://git@gitlab.com:2222/g/s/r", f"https://gitlab.com/g/s/r/-/compare/{OLD}...{NEW}"),
        ("https://gitlab.lab.org/g/r.git/", f"https://gitlab.lab.org/g/r/-/compare/{OLD}...{NEW}"),
        ("https://codeberg.org/o/r", f"https://codeberg.org/o/r/compare/{OLD}...{NEW}"),
        ("https://git.lab.org/r.git", None),
        ("file:///srv/github.com/r.git", None),
        ("/srv/r.git", None),
    ],
)
def test_forges_that_have_a_compare_page_are_linked(url: str, link: str | None) -> None:
    assert compare_link(url, OLD, NEW) == link


def test_what_is_rebuilt_and_what_is_kept_is_said(
    pinned: Project, repository: GitRepository
) -> None:
    done = pinned.run("bump", "spike", "main")
    assert "rebuilds spike, tnpu-image\n" in done.out
    assert (
        "keeps    llvm, mlir, lld, llvm-toolchain, llvm-tools, triton, python-env, pk" in done.out
    )


def test_what_is_said_to_be_rebuilt_are_targets() -> None:
    assert {one for parts in REBUILT.values() for one in parts} <= set(TARGETS)


@pytest.fixture
def committed(pinned: Project) -> Project:
    """A project in a git repository, all committed, with an identity to commit as."""
    identity = [("user.name", "Lab"), ("user.email", "lab@example.invalid")]
    git(pinned, "init", "--quiet", "--initial-branch=main")
    for key, value in identity:
        git(pinned, "config", key, value)
    git(pinned, "add", "--all")
    git(pinned, "commit", "--quiet", "--message", "first")
    return pinned


def git(project: Project, *arguments: str) -> str:
    argv = ["git", "-C", str(project.root), *arguments]
    done = subprocess.run(argv, capture_output=True, text=True, env=environment())
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_one_commit_of_exactly_what_was_written(
    committed: Project, repository: GitRepository
) -> None:
    (committed.root / "notes").write_text("mine")
    git(committed, "add", "notes")
    old = committed.pin().rev
    rev = repository.git("rev-parse", "HEAD")
    done = committed.run("bump", "spike", "main", "--commit")
    assert done.status == 0, done.err
    files = git(committed, "show", "--name-only", "--format=", "HEAD").split()
    assert files == ["nix/sources.nix", "pins.toml"]
    message = git(committed, "log", "-1", "--format=%B")
    assert message.startswith(f"spike: {old[:12]} -> {rev[:12]}\n\n")
    assert "rebuilds spike, tnpu-image" in message
    assert git(committed, "diff", "--cached", "--name-only") == "notes\n"


def test_it_is_refused_where_those_files_have_other_changes(
    committed: Project, repository: GitRepository
) -> None:
    committed.pins.open("a").write("# a thought\n")
    before = committed.files()
    committed.run("bump", "spike", "main", "--commit").failed_with("pins.toml", "commit or stash")
    assert committed.files() == before
    assert git(committed, "log", "--format=%s") == "first\n"


def test_outside_a_repository_there_is_nothing_to_commit_to(
    pinned: Project, repository: GitRepository
) -> None:
    before = pinned.files()
    pinned.run("bump", "spike", "main", "--commit").failed_with("lies in no git repository")
    assert pinned.files() == before


def test_nothing_is_committed_where_nothing_is_written(
    committed: Project, repository: GitRepository
) -> None:
    for _ in range(2):
        assert committed.run("bump", "spike", "main", "--commit").status == 0
    assert git(committed, "log", "--format=%s").count("spike: ") == 1


def test_a_hook_that_refuses_leaves_the_files_written_and_says_so(
    committed: Project, repository: GitRepository
) -> None:
    hook = committed.root / ".git" / "hooks" / "pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\necho not on a Monday >&2\nexit 1\n")
    hook.chmod(0o755)
    done = committed.run("bump", "spike", "main", "--commit")
    done.failed_with("git made no commit: not on a Monday", "the files are written")
    # A second try has nothing to move, and must not say that all is well.
    again = committed.run("bump", "spike", "main", "--commit")
    again.failed_with("changed since the last git commit", "pins.toml")
    assert committed.run("generate", "--check").status == 0


def test_a_dry_run_and_a_commit_do_not_go_together(pinned: Project) -> None:
    assert pinned.run("bump", "spike", "--dry-run", "--commit").status == 2
