"""`tnpu-nix generate`: what it writes, what it leaves alone, and what it refuses."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import (
    Edit,
    GitRepository,
    Project,
    Ran,
    environment,
    run_command,
)


def times(project: Project) -> dict[str, int]:
    return {path: (project.root / path).stat().st_mtime_ns for path in project.files()}


def test_nothing_is_written_when_nothing_changes(project: Project) -> None:
    before = times(project)
    done = project.run("generate")
    assert (done.status, done.out) == (0, "")
    assert times(project) == before


def test_only_what_changes_is_written(project: Project, edit: Edit) -> None:
    before = times(project)
    edit('abi = "lp64d"', 'abi = "lp64"')
    assert project.run("generate").out == "wrote nix/pk.nix\n"
    assert {path for path, when in times(project).items() if when != before[path]} == {
        "pins.toml",
        "nix/pk.nix",
    }


def test_check_prints_a_unified_diff_and_writes_nothing(project: Project, edit: Edit) -> None:
    edit('abi = "lp64d"', 'abi = "lp64"')
    before = project.files()
    done = project.run("generate", "--check")
    done.failed_with("1 generated file differs", "tnpu-nix generate")
    assert done.out.startswith("--- a/nix/pk.nix\n+++ b/nix/pk.nix\n@@ ")
    assert '-        "--with-abi=lp64d"\n+        "--with-abi=lp64"\n' in done.out
    assert project.files() == before


def test_check_of_an_agreeing_project_is_silent(project: Project) -> None:
    done = project.run("generate", "--check")
    assert (done.status, done.out, done.err) == (0, "", "")


def test_check_of_an_edit_by_hand_says_the_way_out(project: Project) -> None:
    (project.root / "nix" / "pk.nix").open("a").write("# mine\n")
    project.run("generate", "--check").failed_with("edited by hand: nix/pk.nix", "--force")


def test_check_works_where_nothing_can_be_written(project: Project) -> None:
    (project.root / ".tnpu-nix").rename(project.root.parent / "state")
    assert project.run("generate", "--check").status == 0
    assert not (project.root / ".tnpu-nix").exists()


def test_check_shows_files_that_are_missing(project: Project) -> None:
    (project.root / "nix" / "pk.nix").unlink()
    done = project.run("generate", "--check")
    done.failed_with("1 generated file differs")
    assert done.out.startswith("--- /dev/null\n+++ b/nix/pk.nix\n")


HINTS = {"flake.lock": "[nixpkgs] in pins.toml"}


@pytest.mark.parametrize("path", ["nix/pk.nix", "flake.nix", "nix/doctor/harness.c", "flake.lock"])
def test_an_edit_by_hand_is_reported_before_it_is_lost(project: Project, path: str) -> None:
    file = project.root / path
    original = file.read_text()
    file.write_text(original.replace("\n", "\n\n", 7))
    before = project.files()
    project.run("generate").failed_with(path, "edited by hand", HINTS.get(path, "overrides.nix"))
    assert project.files() == before
    assert project.run("generate", "--force").out == f"wrote {path}\n"
    assert file.read_text() == original


def test_an_edit_by_hand_stops_a_change_of_other_files_too(project: Project, edit: Edit) -> None:
    (project.root / "nix" / "mlir.nix").open("a").write("# mine\n")
    edit('abi = "lp64d"', 'abi = "lp64"')
    before = project.files()
    project.run("generate").failed_with("nix/mlir.nix")
    assert project.files() == before


def test_stale_files_are_not_taken_for_edited_ones(project: Project, edit: Edit) -> None:
    edit('rev = "1559d3da', 'rev = "2559d3da')
    assert project.run("generate").out == "wrote flake.lock\nwrote flake.nix\n"


def test_files_of_others_are_never_touched(project: Project) -> None:
    (project.root / "nix" / "overrides.nix").write_text("_: _: { }")
    (project.root / "nix" / "notes.nix").write_text("# ours\n")
    (project.root / "nix" / "pk.nix").write_text("{ }: our own")
    before = project.files()
    for force in ([], ["--force"]):
        project.run("generate", *force).failed_with("nix/pk.nix", "not written by tnpu-nix")
        assert project.files() == before
    (project.root / "nix" / "pk.nix").unlink()
    assert project.run("generate").status == 0
    assert (project.root / "nix" / "notes.nix").read_text() == "# ours\n"


def test_a_generated_file_that_is_no_longer_one_goes(project: Project) -> None:
    old = project.root / "nix" / "old.nix"
    text = (project.root / "nix" / "pk.nix").read_text().replace("nix/pk.nix", "nix/old.nix", 1)
    old.write_text(text)
    assert project.run("generate").out == "removed nix/old.nix\n"
    old.write_text(text + "# edited\n")
    project.run("generate").failed_with("nix/old.nix", "edited by hand")
    assert old.exists()


def test_it_works_from_any_folder_below_and_by_name(project: Project, tmp_path: Path) -> None:
    below = project.root / "nix" / "doctor"
    assert run_command("generate", "--check", cwd=below).status == 0
    assert run_command("--project", project.root, "generate", "--check", cwd=tmp_path).status == 0
    run_command("generate", cwd=tmp_path).failed_with("no pins.toml", "--project")
    run_command("--project", tmp_path, "generate", cwd=below).failed_with("holds no pins.toml")


@pytest.mark.parametrize("kind", ["folder", "fifo", "link to nowhere"])
def test_what_is_called_pins_toml_is_not_passed_over(project: Project, kind: str) -> None:
    below = project.root / "below"
    below.mkdir()
    odd = below / "pins.toml"
    {"folder": odd.mkdir, "fifo": lambda: os.mkfifo(odd), "link to nowhere": lambda: None}[kind]()
    if kind == "link to nowhere":
        odd.symlink_to("nowhere")
    run_command("generate", cwd=below).failed_with(str(odd))


def test_a_git_repository_is_told_what_to_add(tmp_path: Path, project: Project) -> None:
    mine = GitRepository(tmp_path / "mine")
    (mine.path / "pins.toml").write_bytes(project.pins.read_bytes())
    done = run_command("generate", cwd=mine.path)
    assert "git add flake.nix flake.lock nix" in done.err
    assert ".tnpu-nix" not in mine.git("status", "--porcelain")


@pytest.mark.parametrize("name", ["overrides.nix", "copy.nix", "sub/pk.nix"])
def test_a_copy_of_a_generated_file_belongs_to_whoever_made_it(project: Project, name: str) -> None:
    copy = project.root / "nix" / name
    copy.parent.mkdir(exist_ok=True)
    shutil.copy(project.root / "nix" / "pk.nix", copy)
    for edit in ("", "# mine\n"):
        copy.open("a").write(edit)
        before = copy.read_bytes()
        for force in ([], ["--force"]):
            assert project.run("generate", *force).status == 0
            assert copy.read_bytes() == before


@pytest.mark.parametrize("what", ["folder", "fifo", "link", "link to nowhere", "nix is a file"])
def test_what_is_in_the_way_is_named_and_nothing_is_written(
    project: Project, edit: Edit, what: str
) -> None:
    target = project.root / "nix" / "pk.nix"
    edit('abi = "lp64d"', 'abi = "lp64"')
    away = target.rename(project.root.parent / "away")
    if what == "folder":
        target.mkdir()
    elif what == "fifo":
        os.mkfifo(target)
    elif what == "link":
        target.symlink_to(away)
    elif what == "link to nowhere":
        target.symlink_to("nowhere")
    else:
        shutil.rmtree(target.parent)
        target = target.parent
        target.write_text("a file")
    before = project.files()
    project.run("generate").failed_with(str(target))
    assert project.files() == before


def test_bytes_that_are_no_text_are_an_edit_like_any_other(project: Project) -> None:
    for path in ("nix/pk.nix", "flake.lock"):
        (project.root / path).open("ab").write(b"# \xff\n")
    done = project.run("generate", "--check")
    done.failed_with("2 files differ")
    assert "-# \N{REPLACEMENT CHARACTER}" in done.out
    project.run("generate").failed_with("edited by hand", "flake.lock, nix/pk.nix")
    assert project.run("generate", "--force").status == 0


def test_line_endings_of_a_checkout_are_no_edit_by_hand(project: Project) -> None:
    before = project.files()
    for path in before:
        if path not in ("pins.toml", "flake.lock"):
            file = project.root / path
            file.write_bytes(file.read_bytes().replace(b"\n", b"\r\n"))
    done = project.run("generate")
    assert done.status == 0, done.err
    assert project.files() == before


def test_checking_and_forcing_at_once_is_a_wrong_command_line(project: Project) -> None:
    assert project.run("generate", "--check", "--force").status == 2


def test_git_that_hangs_costs_no_more_than_a_hint(tmp_path: Path, project: Project) -> None:
    mine = GitRepository(tmp_path / "mine")
    (mine.path / "pins.toml").write_bytes(project.pins.read_bytes())
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / ".gitconfig").write_text("[core]\nfsmonitor = sleep 60\n")
    started = subprocess.run(
        [sys.executable, "-m", "tnpu_nix", "generate"],
        cwd=mine.path,
        env=environment(HOME=str(tmp_path / "home")),
        timeout=30,
    )
    assert started.returncode == 0


def test_a_folder_that_is_gone_is_said_to_be(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    script = f"cd {gone}; rmdir {gone}; exec {sys.executable} -m tnpu_nix generate"
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, env=environment())
    Ran(done.returncode, done.stdout, done.stderr).failed_with("the current folder is gone")
