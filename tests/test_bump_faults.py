"""Whatever goes wrong in a bump: one clear error, and every file as it was."""

from __future__ import annotations

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
    environment,
    run_with_mounts,
)
from tests.servers import serving
from tnpu_nix import prefetch


def test_an_interrupted_bump_leaves_nothing_running_and_nothing_behind(
    pinned: Project, repository: GitRepository, tmp_path: Path, edit: Edit
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    with serving(repository.path.parent, silent=True) as server:
        edit(repository.url, f"{server.url}/thing.git")
        assert pinned.run("generate").status == 0
        for kind in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            running = subprocess.Popen(
                [sys.executable, "-m", "tnpu_nix", "bump", "spike", "main"],
                cwd=pinned.root,
                env=environment(**{**pinned.env, "TMPDIR": str(scratch)}),
                stderr=subprocess.PIPE,
                text=True,
                # What runs the tests may ignore it, which a child would inherit.
                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
            )
            until(lambda: bool(server.requests))
            server.requests.clear()
            running.send_signal(kind)
            _, said = running.communicate(timeout=30)
            assert running.returncode == 1
            assert "stopped by the user" in said
            assert not list(scratch.iterdir())
            assert not processes_with(server.url)


def until(done: Callable[[], bool]) -> None:
    """Wait until something holds, which a deadline far away turns into a failure."""
    deadline = time.monotonic() + 60
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def processes_with(text: str) -> list[str]:
    """Return the command lines of this machine's processes that hold *text*."""
    found = subprocess.run(["pgrep", "--full", "--list-full", text], capture_output=True, text=True)
    return found.stdout.splitlines()


def test_a_pin_that_does_not_exist(pinned: Project) -> None:
    pinned.run("bump", "gcc", "main").failed_with("no pin 'gcc'", "triton_shared")


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("https://127.0.0.1:1/none.git", "cannot be reached"),
        ("https://nowhere.invalid/none.git", "cannot be reached"),
        ("file:///nowhere/at/all.git", "no git repository"),
    ],
)
def test_a_host_or_repository_that_is_not_there(
    pinned: Project, repository: GitRepository, edit: Edit, url: str, words: str
) -> None:
    edit(repository.url, url)
    assert pinned.run("generate").status == 0
    before = pinned.files()
    for what in ("main", "a" * 40):
        pinned.run("bump", "spike", what).failed_with(words)
    assert pinned.files() == before


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"password": "secret"}, "asks for a password"),
        ({"status": 403}, "asks for a password, or refuses"),
        ({"status": 404}, "no git repository, or one that this user cannot see"),
        ({"status": 500}, "500"),
    ],
)
def test_what_a_server_refuses(
    pinned: Project, repository: GitRepository, edit: Edit, options: dict[str, object], words: str
) -> None:
    with serving(repository.path.parent, **options) as server:
        edit(repository.url, f"{server.url}/thing.git")
        assert pinned.run("generate").status == 0
        before = pinned.files()
        for what in ("main", repository.git("rev-parse", "HEAD")):
            pinned.run("bump", "spike", what).failed_with(words)
        assert server.requests
    assert pinned.files() == before


def test_a_server_that_stalls_is_given_up_and_said_to_have(
    pinned: Project, repository: GitRepository, edit: Edit
) -> None:
    with serving(repository.path.parent, silent=True) as server:
        edit(repository.url, f"{server.url}/thing.git")
        assert pinned.run("generate").status == 0
        before = pinned.files()
        for what in ("main", "a" * 40):
            done = pinned.run("bump", "spike", what, env={"TNPU_NIX_TIMEOUT": "1"})
            done.failed_with(server.url)
            assert "stalled" in done.err or "no answer within" in done.err
        assert pinned.run("doctor", "spike", env={"TNPU_NIX_TIMEOUT": "1"}).status == 1
    assert pinned.files() == before
    pinned.run("bump", "spike", env={"TNPU_NIX_TIMEOUT": "soon"}).failed_with(
        "TNPU_NIX_TIMEOUT is 'soon'", "whole seconds"
    )


@pytest.mark.parametrize("after", [0, 40, 300])
def test_a_server_that_drops_the_connection(
    pinned: Project, repository: GitRepository, edit: Edit, after: int
) -> None:
    repository.commit("second", noise="".join(map(str, range(500))))
    with serving(repository.path.parent) as server:
        edit(repository.url, f"{server.url}/thing.git")
        assert pinned.run("generate").status == 0
        before = pinned.files()
        server.drops = after
        for what in ("main", repository.git("rev-parse", "HEAD")):
            pinned.run("bump", "spike", what).failed_with(server.url, "broke off")
        assert pinned.files() == before
        server.drops = None
        assert pinned.run("bump", "spike", "main").status == 0


def test_another_history_under_the_same_name(
    pinned: Project, repository: GitRepository, tmp_path: Path
) -> None:
    assert pinned.run("bump", "spike", "main").status == 0
    old = pinned.pin().rev
    repository.path.rename(tmp_path / "gone.git")
    other = GitRepository(repository.path)
    new = other.commit("another beginning")
    pinned.run("verify", "spike").failed_with("not as pins.toml says: spike")
    pinned.run("bump", "spike", old).failed_with(f"has no revision {old}", "force-push")
    done = pinned.run("bump", "spike", "main")
    assert done.status == 0, done.err
    assert f"{old[:12]} is no ancestor of the new revision" in done.out
    assert pinned.pin().rev == new


MIDWAY = {
    "turns read-only": (
        "mount --bind {root} {root} && mount -o remount,ro,bind {root}",
        "Read-only file system",
    ),
    "fills up": ("cat /dev/zero >{root}/filler 2>/dev/null || true", "No space left on device"),
}


@pytest.mark.parametrize("kind", MIDWAY)
def test_a_folder_that_cannot_be_written_any_more_once_the_bump_has_begun(
    pinned: Project, repository: GitRepository, tmp_path: Path, kind: str
) -> None:
    happens, words = MIDWAY[kind]
    root, kept = tmp_path / "mounted", tmp_path / "kept"
    root.mkdir()
    tools = tmp_path / "tools"
    tools.mkdir()
    shipped = Path(prefetch.__file__).with_name("nix-prefetch-git")
    # What is called in the middle of a bump, after the lock was taken.
    tool = tools / "nix-prefetch-git"
    tool.write_text(f'#!/bin/sh\n{happens.format(root=root)}\nexec bash {shipped} "$@"\n')
    tool.chmod(0o755)
    mounts = f"""
      mount -t tmpfs -o size=1m tmpfs {root}; cp -a {pinned.root}/. {root}
      trap 'cp -a {root} {kept}' EXIT
    """
    path = f"{tools}:{environment()['PATH']}"
    env = {**pinned.env, "PATH": path}
    done = run_with_mounts(mounts, "bump", "spike", "main", cwd=root, env=env)
    done.failed_with(words, "nothing was changed")
    after = Project(kept).files()
    after.pop("filler", None)
    assert after == pinned.files()


def test_a_netrc_opens_what_asks_for_a_password(
    pinned: Project, repository: GitRepository, edit: Edit, tmp_path: Path
) -> None:
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login lab password secret\n")
    with serving(repository.path.parent, password="secret") as server:
        edit(repository.url, f"{server.url}/thing.git")
        assert pinned.run("generate").status == 0
        done = pinned.run("bump", "spike", "main")
    assert done.status == 0, done.err
    assert "secret" not in done.out + done.err


def test_a_full_disk_changes_nothing(pinned: Project, repository: GitRepository) -> None:
    repository.commit("large", large="x" * 300_000)
    before = pinned.files()
    small = pinned.root.parent / "small"
    small.mkdir()
    mount = f"mount -t tmpfs -o size=100k tmpfs {small}"
    for env in ({"TMPDIR": str(small)}, {"TNPU_NIX_STORE": str(small / "store")}):
        done = run_with_mounts(
            mount, "bump", "spike", "main", cwd=pinned.root, env=pinned.env | env
        )
        done.failed_with("disk")
    assert pinned.files() == before


def test_without_nix_or_git_the_error_names_what_is_missing(
    pinned: Project, repository: GitRepository, tmp_path: Path
) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("bash", "mkdir", "mktemp", "rm", "chmod", "ln", "basename", "find", "cat", "git"):
        found = shutil.which(name)
        assert found
        (tools / name).symlink_to(found)
    before = pinned.files()
    pinned.run("bump", "spike", "main", env={"PATH": str(tools)}).failed_with(
        "nix is not installed"
    )
    (tools / "nix").symlink_to(shutil.which("nix") or "")
    (tools / "git").unlink()
    pinned.run("bump", "spike", "main", env={"PATH": str(tools)}).failed_with(
        "git is not installed"
    )
    assert pinned.files() == before


def test_a_hand_edited_file_stops_a_bump_before_anything_is_fetched(
    pinned: Project, repository: GitRepository
) -> None:
    (pinned.root / "nix" / "pk.nix").open("a").write("# mine\n")
    before = pinned.files()
    done = pinned.run("bump", "spike", "main")
    done.failed_with("nix/pk.nix", "edited by hand")
    assert "fetching" not in done.err
    assert pinned.files() == before
