"""`tnpu-nix generate`: what it writes, what it leaves alone, and what it refuses."""

from __future__ import annotations

import fcntl
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import (
    Edit,
    GitRepository,
    Project,
    Ran,
    environment,
    run_command,
    run_with_mounts,
)
from tnpu_nix import journal


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


@pytest.mark.parametrize("where", ["another file system", "a folder outside"])
def test_a_nix_folder_that_leads_elsewhere_is_refused_whole(
    project: Project, edit: Edit, where: str, tmp_path: Path
) -> None:
    nix = project.root / "nix"
    edit('abi = "lp64d"', 'abi = "lp64"')
    edit('rev = "1559d3da', 'rev = "2559d3da')
    mounts = (
        f"cp -a {nix} {tmp_path}/copy; mount -t tmpfs tmpfs {nix}; cp -a {tmp_path}/copy/. {nix}"
    )
    if where == "a folder outside":
        nix.rename(tmp_path / "elsewhere")
        nix.symlink_to(tmp_path / "elsewhere")
        mounts = ""
    before = project.files()
    done = run_with_mounts(mounts, "generate", cwd=project.root)
    done.failed_with("leads out of the project's file system", "nothing was changed")
    assert project.files() == before
    assert not list((project.root / ".tnpu-nix").glob("staged"))


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


@pytest.fixture
def interrupted(project: Project, edit: Edit) -> Callable[[int], None]:
    """Bring the project to where a command was stopped after some of its renames."""

    def stop_after(renames: int) -> None:
        edit('rev = "1559d3da', 'rev = "2559d3da')  # flake.nix and flake.lock
        old = {path: (project.root / path).read_bytes() for path in ("flake.lock", "flake.nix")}
        assert project.run("generate").status == 0
        staging = project.root / ".tnpu-nix" / "staged"
        staging.mkdir()
        moves = []
        for number, (path, before) in enumerate(old.items()):
            new = (project.root / path).read_bytes()
            moves.append(journal.Move(path, journal.sha256(before), journal.sha256(new)))
            if number >= renames:
                (staging / path).write_bytes(new)
                (project.root / path).write_bytes(before)
        journal.write(staging, moves)

    return stop_after


@pytest.mark.parametrize("renames", [0, 1, 2])
def test_the_next_command_finishes_an_interrupted_write(
    project: Project, interrupted: Callable[[int], None], renames: int
) -> None:
    interrupted(renames)
    done = project.run("generate")
    assert done.status == 0, done.err
    assert "finished an interrupted write of flake.lock, flake.nix" in done.err
    assert project.run("generate", "--check").status == 0
    assert not (project.root / ".tnpu-nix" / "staged").exists()


def test_an_interrupted_write_does_not_undo_what_was_done_since(
    project: Project, interrupted: Callable[[int], None]
) -> None:
    interrupted(1)
    (project.root / "flake.nix").write_text("# by hand\n")
    done = project.run("generate")
    done.failed_with("flake.nix", "not written by tnpu-nix")
    assert "given up, since flake.nix changed" in done.err
    assert (project.root / "flake.nix").read_text() == "# by hand\n"


@pytest.mark.parametrize(
    "text",
    [
        '{"a": ',
        "[1]",
        '[{"path": "../victim", "old": null, "new": null}]',
        '[{"path": "nix/../../victim", "old": null, "new": null}]',
        '[{"path": "/etc/hostname", "old": null, "new": null}]',
        '[{"path": "nix/pk.nix", "staged": "..", "old": null, "new": null}]',
        '[{"path": "nix/pk.nix", "old": null, "new": "not what is staged"}]',
    ],
)
def test_a_journal_that_is_not_ours_is_dropped(project: Project, text: str) -> None:
    victim = project.root.parent / "victim"
    victim.write_text("x")
    before = project.files()
    staging = project.root / ".tnpu-nix" / "staged"
    staging.mkdir()
    (staging / journal.NAME).write_text(text)
    (staging / "nix").mkdir()
    (staging / "nix" / "pk.nix").write_text("planted")
    assert project.run("generate").status == 0
    assert victim.read_text() == "x"
    assert project.files() == before
    assert not staging.exists()


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


def test_who_waits_for_the_lock_is_told_so(project: Project) -> None:
    lock = project.root / ".tnpu-nix" / "lock"
    with lock.open("r+") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        held.write("4711")
        held.flush()
        argv = [sys.executable, "-m", "tnpu_nix", "generate"]
        waiting = subprocess.Popen(argv, cwd=project.root, stderr=subprocess.PIPE, text=True)
        assert waiting.stderr is not None
        assert "waiting for another tnpu-nix (process 4711)" in waiting.stderr.readline()
    assert waiting.wait() == 0


def test_a_journal_does_not_write_through_a_planted_link(project: Project) -> None:
    outside = project.root.parent / "outside"
    (project.root / "nix").rename(outside)
    (project.root / "nix").symlink_to(outside)
    staging = project.root / ".tnpu-nix" / "staged"
    (staging / "nix").mkdir(parents=True)
    (staging / "nix" / "evil").write_text("evil")
    journal.write(staging, [journal.Move("nix/evil", None, journal.sha256(b"evil"))])
    project.run("generate")
    assert not (outside / "evil").exists()


@pytest.mark.parametrize("kind", [signal.SIGKILL, signal.SIGTERM])
def test_a_generate_killed_at_any_moment_leaves_the_old_files_or_the_new(
    project: Project, kind: signal.Signals
) -> None:
    """From nothing to every file, and from one set of many files to another."""
    old = {"pins.toml": project.files()["pins.toml"]}
    new = project.files()
    started = time.monotonic()
    assert project.run("generate").status == 0
    usual = time.monotonic() - started
    moments = random.Random(7)
    seen = {len(old): 0, len(new): 0}
    for _ in range(30):
        for path in project.files():
            if path != "pins.toml":
                (project.root / path).unlink()
        shutil.rmtree(project.root / "nix", ignore_errors=True)
        argv = [sys.executable, "-m", "tnpu_nix", "generate"]
        running = subprocess.Popen(
            argv, cwd=project.root, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        time.sleep(usual * moments.uniform(0.5, 1.05))
        running.send_signal(kind)
        running.wait()
        time.sleep(0.05)  # the process that renames is not the one that was killed
        found = project.files()
        assert found in (old, new)
        seen[len(found)] += 1
    assert project.run("generate").status == 0
    assert project.files() == new
    assert all(seen.values()), seen


def test_a_folder_that_is_gone_is_said_to_be(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    script = f"cd {gone}; rmdir {gone}; exec {sys.executable} -m tnpu_nix generate"
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, env=environment())
    Ran(done.returncode, done.stdout, done.stderr).failed_with("the current folder is gone")


def test_a_read_only_folder_is_one_clear_error(project: Project, edit: Edit) -> None:
    edit('abi = "lp64d"', 'abi = "lp64"')
    before = project.files()
    mount = f"mount --bind {project.root} {project.root}; mount -o remount,ro,bind {project.root}"
    run_with_mounts(mount, "generate", cwd=project.root).failed_with("Read-only file system")
    assert project.files() == before


def test_a_full_disk_is_one_clear_error_and_changes_nothing(project: Project, edit: Edit) -> None:
    before = project.files()
    copy = project.root.parent / "small"
    copy.mkdir()
    # Room is left for some of the files that change, and not for all of them.
    mount = f"""
      mount -t tmpfs -o size=1m tmpfs {copy}; cp -a {project.root}/. {copy}; cd {copy}
      for file in nix/*.nix; do sed -i 's/ a / the /' $file; done
      cat /dev/zero >filler 2>/dev/null || true; truncate -s -16384 filler
      trap 'rm filler; cp -a {copy}/. {copy}.after' EXIT
    """
    done = run_with_mounts(mount, "generate", "--force", cwd=copy)
    done.failed_with("No space left on device", "nothing was changed")
    after = Project(Path(f"{copy}.after")).files()
    assert after.keys() == before.keys()
    assert not any((Path(f"{copy}.after") / ".tnpu-nix").glob("staged/*"))
