"""Pushes side by side, and pushes that are killed: nothing is lost, and the next goes on."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.cache.conftest import SMALL, Lab
from tests.cache.web import Nginx
from tests.conftest import environment
from tnpu_nix.cache import local, records, stores
from tnpu_nix.cache.access import Access
from tnpu_nix.cache.current import current
from tnpu_nix.nix import Nix


def start_push(lab: Lab, *targets: str) -> subprocess.Popen[str]:
    argv = ["tnpu-nix", "cache", "push", *targets, "--to", f"{lab.url}?compression=zstd"]
    env = environment(**lab.project.env, **lab.env(lab.builder))
    return subprocess.Popen(
        [*argv, "--key-file", str(lab.key), "--offline-profile"],
        cwd=lab.project.root,
        env=env,
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
    )


def test_pushes_side_by_side_lose_nothing(bare: Lab) -> None:
    running = [start_push(bare, "spike", "pk"), start_push(bare, "spike", "llvm-tools")]
    for one in running:
        _, said = one.communicate()
        assert one.returncode == 0, said
    checked = bare.cache("verify", *SMALL, "--cache", bare.url)
    assert checked.status == 0 and "not there" not in checked.out, checked.out
    assert bare.cache("pull", *SMALL, "--cache", bare.url).status == 0


def test_a_push_that_is_killed_leaves_a_sound_cache_and_the_next_goes_on(bare: Lab) -> None:
    running = start_push(bare)
    assert running.stderr is not None
    for line in running.stderr:
        if line.startswith("pushing python3"):
            break
    time.sleep(0.1)
    running.send_signal(signal.SIGKILL)
    running.wait()
    running.stderr.close()
    for _ in range(100):  # its nix dies with it
        if "nix copy" not in processes(bare):
            break
        time.sleep(0.05)
    checked = bare.cache("verify", "--cache", bare.url)
    assert "BAD" not in checked.out, checked.out
    again = bare.push(to=f"{bare.url}?compression=zstd")
    assert again.status == 0, again.err
    checked = bare.cache("verify", "--cache", bare.url)
    assert checked.status == 0, checked.out
    held = local.valid(Nix(bare.builder), [bare.path("tnpu-image")])
    assert held and bare.narinfo("tnpu-image").exists()


def processes(lab: Lab) -> str:
    """The command lines of all that runs on the test's cache."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if str(lab.folder) in line:
            found.append(line)
    return "\n".join(found)


@pytest.mark.parametrize("place", ["folder", "web"])
def test_pushes_of_one_set_at_a_time_are_all_in_its_record(
    bare: Lab, nginx: Callable[[Path], Nginx], place: str
) -> None:
    (bare.folder / records.FOLDER).mkdir(parents=True)
    url = bare.url if place == "folder" else nginx(bare.folder).at("kept404")
    one, access = stores.cache(url), Access()
    now = current(bare.project.root, Nix(bare.builder, offline_profile=True))
    pushes = [records.Push(now, frozenset({f"/nix/store/{number}"})) for number in range(8)]
    # A web server has no order of those who come within the same milliseconds.
    with ThreadPoolExecutor(8 if place == "folder" else 1) as pool:
        list(pool.map(lambda push: records.begin(one, push, access, print), pushes))
        for push in pushes:
            (record,) = records.load(bare.folder)
            assert record.running
            assert {path for push in pushes for path in push.closure} <= set(record.paths)
            records.end(one, push, access)
    (record,) = records.load(bare.folder)
    assert not record.running
