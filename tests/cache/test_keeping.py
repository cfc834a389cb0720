"""What is kept and what goes: roots in the store, sets of pins in a cache, pushes side by side."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cache.conftest import Lab, copy, edit, nix, read_until
from tests.cache.web import Nginx
from tests.conftest import environment, run_command
from tnpu_nix import pinsfile


def move(lab: Lab, spike_flag: str) -> None:
    """Move the toolchain on: only spike is another one then, and takes a second to build.

    It is one of these tests' own: what any process of this machine names, Nix does not collect.
    """
    (lab.project.root / "nix" / "overrides.nix").write_text(
        "final: prev: { spike-unwrapped = prev.spike-unwrapped.overrideAttrs"
        f' {{ moved = "{spike_flag} {os.getpid()}"; }}; }}\n'
    )


@pytest.fixture
def user(lab: Lab) -> Lab:
    """A lab whose reader has pulled; its store is collected in the tests."""
    done = lab.cache("pull", "llvm-toolchain", "--cache", lab.url)
    assert done.status == 0, done.err
    return lab


def collect(store: Path) -> None:
    done = nix(store, "nix-store", "--gc")
    assert done.returncode == 0, done.stderr


def pull_spike(lab: Lab, flag: str) -> Path:
    """Go to one of the three sets, pull there, and collect; return where its spike lies."""
    move(lab, flag)
    done = lab.cache("pull", "spike", "--cache", lab.url)
    assert done.status == 0, done.err
    collect(lab.reader)
    return lab.in_store("spike")


def test_a_collection_leaves_what_is_pinned_or_was_lately(moved: Lab) -> None:
    edit(moved.project, keep=2)
    assert moved.cache("pull", "llvm-toolchain", "--cache", moved.url).status == 0
    # LLVM is the same in all three: it is pinned all the time.
    llvm = [moved.in_store(name) for name in ("llvm-toolchain", "llvm", "mlir")]
    first = pull_spike(moved, "one")
    assert first.exists()
    second = pull_spike(moved, "two")
    assert first.exists() and second.exists() and all(path.exists() for path in llvm)
    third = pull_spike(moved, "three")
    assert third.exists() and second.exists() and all(path.exists() for path in llvm)
    assert not first.exists()


def test_without_a_root_a_collection_takes_it(moved: Lab) -> None:
    """The test above means something."""
    spike = pull_spike(moved, "three")
    assert spike.exists()
    shutil.rmtree(moved.project.root / ".tnpu-nix" / "roots")
    collect(moved.reader)
    assert not spike.exists()


def test_what_another_store_holds_takes_no_root_from_this_one(user: Lab, tmp_path: Path) -> None:
    """One project, on a disk that machines with stores of their own share."""
    paths = [user.in_store(name) for name in ("llvm-toolchain", "llvm", "mlir")]
    done = user.cache("pull", "pk", "--cache", user.url, store=tmp_path / "other")
    assert done.status == 0, done.err
    collect(user.reader)
    assert all(path.exists() for path in paths)


def test_what_a_failed_build_had_built_is_kept(user: Lab) -> None:
    shutil.rmtree(user.project.root / ".tnpu-nix" / "roots")
    (user.project.root / "nix" / "overrides.nix").write_text(
        "final: prev: { spike = prev.spike.overrideAttrs"
        ' { buildCommand = "exit 1"; installPhase = "exit 1"; }; }\n'
    )
    edit(user.project, substituters=[user.url])
    done = user.project.run("build", "spike", "--offline-profile", "--caches", env=user.env())
    assert done.status == 1
    collect(user.reader)
    assert user.in_store("llvm-toolchain").exists() and user.in_store("llvm").exists()


def names(lab: Lab) -> set[str]:
    """What the cache has, without hashes."""
    texts = [path.read_text() for path in lab.folder.glob("*.narinfo")]
    return {text.split("\n")[0].split("/")[-1] for text in texts}


@pytest.fixture(scope="module")
def three(filled: Lab, tmp_path_factory: pytest.TempPathFactory) -> Lab:
    """Four sets of pins in the cache: all of the first, spike and pk of the others."""
    bare = copy(filled, tmp_path_factory.mktemp("three"))
    (oldest,) = (bare.folder / "tnpu").glob("*.json")
    os.utime(oldest, (1e9 - 1, 1e9 - 1))
    for number, flag in enumerate(("one", "two", "three")):
        move(bare, flag)
        env = bare.env(bare.builder)
        done = bare.project.run("build", "spike", "--offline-profile", env=env)
        assert done.status == 0, done.err
        pushed = bare.push("spike", "pk", to=f"{bare.url}?compression=zstd")
        assert pushed.status == 0, pushed.err
        (newest,) = [
            path
            for path in (bare.folder / "tnpu").glob("*.json")
            if bare.path("spike") in path.read_text()
        ]
        os.utime(newest, (1e9 + number, 1e9 + number))
    return bare


@pytest.fixture
def moved(three: Lab, tmp_path: Path) -> Lab:
    """The same in a cache of the test's own."""
    return copy(three, tmp_path)


def spikes(lab: Lab) -> int:
    return sum("-spike-0" in name for name in names(lab))


def prune(lab: Lab, *arguments: str) -> dict[str, object]:
    done = lab.cache("prune", "--cache", lab.url, "--json", *arguments, store=lab.builder)
    assert done.status == 0, done.err
    answer: dict[str, object] = json.loads(done.out)
    return answer


def test_prune_removes_what_no_kept_set_reaches_and_nothing_else(moved: Lab) -> None:
    before = {path: path.read_bytes() for path in moved.folder.rglob("*") if path.is_file()}
    assert spikes(moved) == 4
    dry = prune(moved, "--keep", "2", "--dry-run")
    assert before == {path: path.read_bytes() for path in before}
    gone = prune(moved, "--keep", "2")
    assert gone == dry and len(gone["dropped"]) == 2  # type: ignore[arg-type]
    assert spikes(moved) == 2
    nars = {path.name for path in (moved.folder / "nar").iterdir()}
    texts = [path.read_text() for path in moved.folder.glob("*.narinfo")]
    assert nars == {text.split("URL: nar/")[1].split("\n")[0] for text in texts}
    checked = moved.cache("verify", "spike", "pk", "--cache", moved.url)
    assert checked.status == 0, checked.out
    assert prune(moved, "--keep", "2")["paths"] == []
    prune(moved, "--keep", "1")
    assert spikes(moved) == 1 and moved.narinfo("spike").exists()


def test_the_current_pins_are_kept_whatever_their_age(moved: Lab) -> None:
    move(moved, "one")
    prune(moved, "--keep", "1")
    assert moved.narinfo("spike").exists() and spikes(moved) == 2


def test_prune_leaves_others_paths_and_unfinished_uploads_alone(moved: Lab, tmp_path: Path) -> None:
    (tmp_path / "theirs").write_text("theirs")
    foreign = nix(moved.builder, "nix-store", "--add", str(tmp_path / "theirs")).stdout.strip()
    copied = nix(moved.builder, "nix", "copy", "--to", moved.url, foreign)
    assert copied.returncode == 0, copied.stderr
    loose = moved.folder / "nar" / "0000.nar.xz"
    loose.write_bytes(b"being uploaded by somebody else")
    found = prune(moved, "--keep", "1")
    assert found["foreign"] == 1 and loose.exists()
    assert any("theirs" in name for name in names(moved))
    prune(moved, "--keep", "1", "--foreign", "--grace", "0")
    assert not any("theirs" in name for name in names(moved)) and not loose.exists()
    assert moved.cache("verify", "spike", "pk", "--cache", moved.url).status == 0


def test_a_prune_waits_for_a_push_that_runs(moved: Lab) -> None:
    with (moved.folder / "tnpu" / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)  # as a push holds it
        argv = ["tnpu-nix", "cache", "prune", "--cache", moved.url, "--keep", "1"]
        env = environment(**moved.project.env, **moved.env(moved.builder))
        running = subprocess.Popen(
            [*argv, "--offline-profile"],
            cwd=moved.project.root,
            env=env,
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
        )
        read_until(running, "a push into it is running")
        assert spikes(moved) == 4
    assert running.wait() == 0 and spikes(moved) == 1


def test_prune_needs_no_project(moved: Lab, tmp_path: Path) -> None:
    """On the server the records are enough."""
    (tmp_path / "elsewhere").mkdir()
    words = ("cache", "prune", "--cache", moved.url, "--keep", "1")
    done = run_command(*words, cwd=tmp_path / "elsewhere")
    assert done.status == 0, done.err
    assert spikes(moved) == 1 and moved.narinfo("spike").exists()


def forget(lab: Lab) -> set[str]:
    """Take spike's latest set out of the cache; return what the cache has of its closure still."""
    argv = ("nix-store", "--query", "--requisites", lab.path("spike"))
    closure = nix(lab.builder, *argv).stdout.split()
    for path in closure:
        if "-spike-" in path:
            (lab.folder / f"{path[11:43]}.narinfo").unlink()
    for record in (lab.folder / "tnpu").glob("*.json"):
        if lab.path("spike") in record.read_text():
            record.unlink()
    found = {path for path in closure if (lab.folder / f"{path[11:43]}.narinfo").exists()}
    assert found
    return found


def test_what_a_push_over_http_counts_on_stays_although_no_narinfo_names_it_yet(
    moved: Lab, nginx: Callable[[Path], Nginx]
) -> None:
    server = nginx(moved.folder)
    counted_on = forget(moved)
    # As far as the record: no path is taken.
    begun = moved.push("spike", to=f"{server.at('kept404')}?compression=zstd")
    begun.failed_with("it takes no uploads")
    # A push of another output of the same set does not make it forgotten.
    assert moved.push("pk").status == 0
    gone = prune(moved, "--keep", "1")
    assert len(gone["dropped"]) == 3 and spikes(moved) == 0  # type: ignore[arg-type]
    assert counted_on.isdisjoint(gone["paths"])  # type: ignore[arg-type]


def test_a_set_whose_push_has_not_ended_stays_for_a_while(moved: Lab) -> None:
    kept = prune(moved, "--keep", "1", "--dry-run")["kept"]
    records = {one.stem: one for one in (moved.folder / "tnpu").glob("*.json")}
    victim = next(one for name, one in records.items() if name not in kept)  # type: ignore[operator]
    content = json.loads(victim.read_text())
    assert content["running"] == {}
    victim.write_text(json.dumps({**content, "running": {"killed": int(time.time())}}))
    for one in records.values():
        os.utime(one, (time.time() - (7200 if one == victim else 60),) * 2)
    assert victim.stem in prune(moved, "--keep", "1")["kept"]  # type: ignore[operator]
    gone = prune(moved, "--keep", "1", "--grace", "1")["dropped"]
    assert victim.stem in gone  # type: ignore[operator]


def test_records_of_before_they_held_closures_count(moved: Lab) -> None:
    for record in (moved.folder / "tnpu").glob("*.json"):
        before, content = record.stat().st_mtime, json.loads(record.read_text())
        assert moved.path("pk") in content.pop("closure")
        record.write_text(json.dumps(content))
        os.utime(record, (before, before))
    assert len(prune(moved, "--keep", "2")["dropped"]) == 2  # type: ignore[arg-type]
    assert spikes(moved) == 2
    assert moved.cache("verify", "spike", "pk", "--cache", moved.url).status == 0


def test_a_narinfo_can_have_nothing_removed_but_nars(moved: Lab) -> None:
    kept = {"nix-cache-info", moved.narinfo("spike").name, "nar"}
    record = next((moved.folder / "tnpu").glob("*.json"))
    kept.add(f"tnpu/{record.name}")
    for number, name in enumerate(sorted(kept)):
        digest = str(number) * 32
        text = moved.narinfo("pk").read_text()
        text = text.replace(moved.path("pk"), f"/nix/store/{digest}-evil")
        url = text.split("URL: ")[1].split("\n")[0]
        evil = moved.folder / f"{digest}.narinfo"
        evil.write_text(text.replace(url, name))
    words = ("prune", "--cache", moved.url, "--foreign", "--grace", "0", "--keep", "4")
    done = moved.cache(*words, store=moved.builder)
    assert done.status == 0, done.err
    assert all((moved.folder / name).exists() for name in kept)
    assert all(f"left alone: {name}, " in done.err for name in kept if name != "nar"), done.err
    assert not any("-evil" in name for name in names(moved))
    assert moved.cache("verify", "spike", "pk", "--cache", moved.url).status == 0


RUBBISH = {
    "a list for a path": '{"outputs": {"a": [["x"]]}, "sources": {}, "pins": {}}',
    "a word for a closure": '{"outputs": {}, "sources": {}, "pins": {}, "closure": "x"}',
    "too deep": "[" * 200_000,
}


@pytest.mark.parametrize("rubbish", RUBBISH)
def test_nothing_goes_where_a_record_cannot_be_read(moved: Lab, rubbish: str) -> None:
    record = moved.folder / "tnpu" / f"{'0' * 32}.json"
    record.write_text(RUBBISH[rubbish])
    done = moved.cache("prune", "--cache", moved.url, "--keep", "1", store=moved.builder)
    done.failed_with(f"{record} is no record of a push that can be read")
    assert spikes(moved) == 4


def test_prune_is_for_folders(lab: Lab) -> None:
    done = lab.cache("prune", "--cache", "https://cache.example")
    done.failed_with("no file:// cache")
    done = lab.cache("prune", "--cache", f"file://{lab.folder.parent}/nothing")
    done.failed_with("holds no binary cache")


def test_keep_and_push_are_keys_of_pins_toml(bare: Lab) -> None:
    edit(bare.project, push=bare.url, keep=1, substituters=[bare.url])
    done = bare.cache("push", "pk", store=bare.builder, TNPU_SIGNING_KEY_FILE=str(bare.key))
    assert done.status == 0, done.err
    assert bare.cache("pull", "pk").status == 0
    assert bare.cache("prune").status == 0
    text = pinsfile.edit(bare.project.pins.read_text(), {("cache", "keep"): 0})
    bare.project.pins.write_text(text)
    assert bare.cache("status").status == 1
