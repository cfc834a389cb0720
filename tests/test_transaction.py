"""Several files written as one: all or none, whenever a command is killed or a disk is full."""

from __future__ import annotations

import fcntl
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
    Project,
    run_with_mounts,
)
from tnpu_nix import journal


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


def test_who_waits_for_the_lock_is_told_so(project: Project) -> None:
    lock = project.root / ".tnpu-nix" / "lock"
    with lock.open("r+") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        held.truncate()
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
    wait = time.monotonic() - started
    moments = random.Random(7)
    seen = {len(old): 0, len(new): 0}
    for _ in range(10):
        for path in project.files():
            if path != "pins.toml":
                (project.root / path).unlink()
        shutil.rmtree(project.root / "nix", ignore_errors=True)
        argv = [sys.executable, "-m", "tnpu_nix", "generate"]
        running = subprocess.Popen(
            argv, cwd=project.root, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        time.sleep(wait * moments.uniform(0.8, 1.2))
        running.send_signal(kind)
        running.wait()
        time.sleep(0.05)  # the process that renames is not the one that was killed
        found = project.files()
        assert found in (old, new)
        seen[len(found)] += 1
        # Stay around the moment of the write, however busy the machine is.
        wait *= 1.15 if found == old else 0.9
    assert project.run("generate").status == 0
    assert project.files() == new
    assert all(seen.values()), seen


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
