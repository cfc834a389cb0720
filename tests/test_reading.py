"""The commands that read: `show`, `outdated`, `verify`."""

from __future__ import annotations

import json
from pathlib import Path

from tests.conftest import Edit, GitRepository, Project
from tnpu_nix.pins import PIN_NAMES


def test_show_lists_every_pin(project: Project) -> None:
    done = project.run("show")
    assert [line.split()[0] for line in done.out.splitlines()] == list(PIN_NAMES)
    assert "spike          f5816b03e147 2025-08-05 TorchSim " in done.out
    shown = {one["name"]: one for one in json.loads(project.run("show", "--json").out)}
    assert shown["pk"]["rev"] == project.pin("pk").rev
    assert shown["pk"]["submodules"] is False


def standing(project: Project, name: str = "spike") -> dict[str, object]:
    done = project.run("outdated", "--json")
    assert done.status == 0, done.err
    return next(one for one in json.loads(done.out) if one["name"] == name)


def test_outdated_counts_commits_and_days(
    pinned: Project, repository: GitRepository, edit: Edit
) -> None:
    edit('track = "TorchSim"', 'track = "main"')
    assert pinned.run("generate").status == 0
    assert pinned.run("bump", "spike").status == 0
    assert standing(pinned)["state"] == "current"
    for number in range(3):
        later = {"GIT_COMMITTER_DATE": f"2026-01-{10 + number:02d}T00:00:00Z"}
        repository.git("commit", "--quiet", "--allow-empty", "--message", "x", **later)
    found = standing(pinned)
    assert (found["state"], found["commits"], found["days"]) == ("behind", 3, 9)
    assert found["head"] == repository.git("rev-parse", "main")
    assert "3 commits and 9 days behind main" in pinned.run("outdated").out


def test_outdated_tells_a_rewritten_history_and_a_deleted_branch(
    pinned: Project, repository: GitRepository, edit: Edit
) -> None:
    edit('track = "TorchSim"', 'track = "main"')
    assert pinned.run("generate").status == 0
    repository.commit("second")
    assert pinned.run("bump", "spike").status == 0
    repository.git("reset", "--quiet", "--hard", "HEAD~1")
    repository.commit("another second")
    found = standing(pinned)
    assert found["state"] == "gone" and "no longer holds" in str(found["note"])
    repository.git("branch", "--move", "main", "trunk")
    found = standing(pinned)
    assert found["state"] == "gone" and "no branch main" in str(found["note"])


def test_outdated_goes_on_past_a_repository_that_cannot_be_asked(
    pinned: Project, repository: GitRepository, edit: Edit
) -> None:
    edit("https://github.com/riscv-software-src/riscv-pk.git", "https://127.0.0.1:1/pk.git")
    found = standing(pinned, "pk")
    assert found["state"] == "unknown" and "cannot be reached" in str(found["note"])


def test_verify_passes_what_is_as_pinned(pinned: Project, repository: GitRepository) -> None:
    assert pinned.run("bump", "spike", "main").status == 0
    done = pinned.run("verify", "spike")
    assert (done.status, done.out) == (0, "ok       spike\n")


def test_verify_catches_a_revision_edited_by_hand(
    pinned: Project, repository: GitRepository, edit: Edit
) -> None:
    assert pinned.run("bump", "spike", "main").status == 0
    old = pinned.pin().rev
    edit(old, repository.commit("second"))
    done = pinned.run("verify", "spike")
    done.failed_with("not as pins.toml says: spike")
    assert "MISMATCH spike: pins.toml has hash" in done.out


def test_generate_and_build_notice_it_without_the_network(
    pinned: Project, repository: GitRepository, edit: Edit
) -> None:
    assert pinned.run("bump", "spike", "main").status == 0
    old = pinned.pin().rev
    new = repository.commit("second")
    edit(old, new)
    before = pinned.files()
    words = ("pins.spike.hash", f"belongs to revision {old[:7]}", f"tnpu-nix bump spike {new}")
    pinned.run("generate").failed_with(*words)
    pinned.run("generate", "--check").failed_with(*words)
    assert pinned.files() == before
    # As a generator that did not notice would have left it.
    sources = pinned.root / "nix" / "sources.nix"
    elsewhere = {"TNPU_NIX_STORE": str(pinned.root.parent / "empty")}
    assert pinned.run("generate", env=elsewhere).status == 0
    assert new in sources.read_text()
    pinned.run("build", "spike", "--offline-profile").failed_with(*words)


def test_a_source_that_lies_where_nix_has_no_book_of_it_is_no_other_revision(
    pinned: Project,
) -> None:
    assert pinned.run("bump", "spike", "main").status == 0
    (source,) = Path(pinned.env["TNPU_NIX_STORE"]).glob(f"nix/store/*-{pinned.pin().rev[:7]}")
    other = pinned.root.parent / "other"
    (other / "nix" / "store" / source.name).mkdir(parents=True)
    done = pinned.run("generate", env={"TNPU_NIX_STORE": str(other)})
    assert done.status == 0, done


def test_verify_lists_every_failure_and_goes_on(
    pinned: Project, repository: GitRepository, edit: Edit
) -> None:
    assert pinned.run("bump", "spike", "main").status == 0
    edit("https://github.com/riscv-software-src/riscv-pk.git", "file:///nowhere/pk.git")
    edit(pinned.pin("llvm").url, "https://127.0.0.1:1/llvm.git")
    done = pinned.run("verify", "--json", "pk", "llvm", "spike")
    done.failed_with("not as pins.toml says: pk, llvm")
    faults = {one["name"]: one["fault"] for one in json.loads(done.out)}
    assert "no git repository" in faults["pk"]
    assert "cannot be reached" in faults["llvm"]
    assert faults["spike"] is None


def test_verify_notices_a_revision_that_a_force_push_removed(
    pinned: Project, repository: GitRepository
) -> None:
    repository.commit("second")
    assert pinned.run("bump", "spike", "main").status == 0
    repository.git("reset", "--quiet", "--hard", "HEAD~1")
    repository.git("reflog", "expire", "--expire=now", "--all")
    repository.git("gc", "--quiet", "--prune=now")
    done = pinned.run("verify", "spike")
    done.failed_with("not as pins.toml says: spike")
    assert "has no revision" in done.out


def test_verify_of_an_unknown_pin_is_a_wrong_command_line(project: Project) -> None:
    assert project.run("verify", "gcc").status == 2
