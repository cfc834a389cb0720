"""Killed at any moment, a command leaves the old files or the new, and the next one just works."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections.abc import Sequence

from tests.conftest import GitRepository, Project, Trio, environment

Files = dict[str, bytes]


def started(project: Project, words: Sequence[str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "tnpu_nix", *words],
        cwd=project.root,
        env=environment(**project.env),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def kill_at_random(project: Project, there: Sequence[str], back: Sequence[str], times: int) -> None:
    """Kill two commands in turns, which lead from one set of files to another and back.

    Every set that is found must be one of the two; in the end neither needs a repair.
    """
    states: list[Files] = []
    for words in (back, there, back):
        begun = time.monotonic()
        done = project.run(*words)
        usual = time.monotonic() - begun
        assert done.status == 0, done.err
        states.append(project.files())
    old, new = states[0], states[1]
    assert old == states[2] != new
    moments, at, changes = random.Random(4), old, 0
    for _ in range(times):
        running = started(project, there if at == old else back)
        # Most of the kills fall where the files are written: at the end.
        time.sleep(usual * moments.choice([moments.uniform(0, 0.7), moments.uniform(0.7, 1.1)]))
        os.killpg(running.pid, 9)
        running.wait()
        time.sleep(0.05)  # the process that renames is not the one that was killed
        found = project.files()
        assert found in (old, new)
        changes += found != at
        # Stay around the moment of the write, however busy the machine is.
        usual *= 0.92 if found != at else 1.08
        at = found
    assert changes
    done = project.run(*there)
    assert done.status == 0, done.err
    assert project.files() == new
    assert not list((project.root / ".tnpu-nix").glob("staged/*"))


def test_a_killed_bump(pinned: Project, repository: GitRepository) -> None:
    revs = (repository.git("rev-parse", "HEAD"), repository.commit("second"))
    there, back = (["bump", "spike", rev] for rev in reversed(revs))
    kill_at_random(pinned, there, back, 20)


def test_a_killed_bump_that_takes_llvm_along(trio: Trio) -> None:
    there, back = (["bump", "triton", rev, "--follow"] for rev in reversed(trio.triton))
    kill_at_random(trio.project, there, back, 16)


def test_a_killed_import(pinned: Project, repository: GitRepository) -> None:
    revs = {"old": repository.git("rev-parse", "HEAD"), "new": repository.commit("second")}
    for name, rev in revs.items():
        (pinned.root / f"{name}.env").write_text(f"export SPIKE_SHA={rev}\n")
    kill_at_random(pinned, ["import", "new.env"], ["import", "old.env"], 16)
    assert pinned.pin().rev == revs["new"]
