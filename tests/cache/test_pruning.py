"""A prune spares what the clone has now, and what a push beside it counts on."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path

import pytest

from tests.cache.conftest import Lab
from tests.conftest import environment
from tnpu_nix.cache.prune import Limits, prune

LONG_AGO = 1e9


def record(lab: Lab, name: str, *paths: str, running: bool = False) -> Path:
    """A record of a push, in the cache."""
    content = {"outputs": {"x": list(paths)}, "sources": {}, "pins": {}}
    begun = {"other": int(time.time())} if running else {}
    path = lab.folder / "tnpu" / f"{name * 32}.json"
    path.write_text(json.dumps({**content, "closure": list(paths), "running": begun}))
    return path


def replace_records(lab: Lab, *paths: str) -> None:
    """Have the cache filled by an old set of another digest, and since then by one of *paths*."""
    (its,) = (lab.folder / "tnpu").glob("*.json")
    closure = json.loads(its.read_text())["closure"]
    its.unlink()
    os.utime(record(lab, "a", *closure), (LONG_AGO, LONG_AGO))
    record(lab, "b", *paths)


@pytest.mark.parametrize("foreign", [(), ("--foreign",)])
def test_what_the_clone_has_now_stays_although_it_was_never_pushed_as_a_set(
    lab: Lab, foreign: tuple[str, ...]
) -> None:
    replace_records(lab, lab.path("pk"))
    words = ("prune", "--cache", lab.url, "--keep", "1", "--json", *foreign)
    done = lab.cache(*words, store=lab.builder)
    assert done.status == 0, done.err
    assert json.loads(done.out)["dropped"] == ["a" * 32]
    for name in ("llvm", "mlir", "lld", "spike", "tnpu-image"):
        assert lab.narinfo(name).exists() and lab.nar(name).exists(), name
    checked = lab.cache("verify", "llvm-toolchain", "spike", "--cache", lab.url)
    assert checked.status == 0, checked.out


def test_outside_of_a_clone_the_records_alone_count(lab: Lab) -> None:
    """The test above means something."""
    replace_records(lab, lab.path("pk"))
    llvm = lab.narinfo("llvm")
    prune(lab.folder, Limits(1, None, 0.0, False), False, print)
    assert not llvm.exists() and lab.narinfo("pk").exists()


def age(*files: Path) -> None:
    for file in files:
        os.utime(file, (LONG_AGO, LONG_AGO))


def nars(lab: Lab) -> list[Path]:
    return sorted((lab.folder / "nar").iterdir())


@pytest.mark.parametrize("running", [True, False])
def test_a_nar_without_a_narinfo_stays_while_a_push_runs(lab: Lab, running: bool) -> None:
    """What was interrupted days ago is there, so a push over HTTP does not upload it again."""
    before, loose = nars(lab), lab.nar("pk")
    lab.narinfo("pk").unlink()
    replace_records(lab, lab.path("spike"))
    record(lab, "c", lab.path("pk"), running=running)
    age(*before)
    said: list[str] = []
    gone = prune(lab.folder, Limits(1, None, 3600.0, False), False, said.append)
    assert gone.paths and ("while a push runs" in "".join(said)) == running
    assert loose.exists() == running and (nars(lab) == before) == running
    # It has ended, or been killed long ago.
    later = prune(lab.folder, Limits(1, None, 0.0, False), False, said.append)
    assert not loose.exists() and later.waiting == 0
    assert len(nars(lab)) == len(list(lab.folder.glob("*.narinfo")))


def test_what_went_before_a_push_began_is_counted_and_its_nars_stay(lab: Lab) -> None:
    """The push finds the NARs there, whose narinfos have gone."""
    count = 1500
    replace_records(lab, lab.path("pk"))
    text = lab.narinfo("pk").read_text()
    digests = [f"{number:032}" for number in range(count)]
    for digest in digests:
        made = text.replace(lab.path("pk"), f"/nix/store/{digest}-old")
        made = made.replace("URL: nar/", f"URL: nar/{digest}")
        (lab.folder / f"{digest}.narinfo").write_text(made)
        (lab.folder / made.split("URL: ")[1].split("\n")[0]).write_text("")
    age(record(lab, "a", *(f"/nix/store/{digest}-old" for digest in digests)), *nars(lab))
    before = nars(lab)
    coming = record(lab, "c", lab.path("spike"), running=True)
    waiting = coming.rename(coming.with_suffix(".later"))
    argv = ["tnpu-nix", "cache", "prune", "--cache", lab.url, "--keep", "1", "--json", "--foreign"]
    first = lab.folder / f"{digests[0]}.narinfo"
    size = first.stat().st_size
    with subprocess.Popen(
        argv, cwd=lab.folder, env=environment(), stdout=-1, stderr=-1, text=True
    ) as running:
        while first.exists() and running.poll() is None:
            time.sleep(0.001)
        waiting.touch()
        waiting.rename(coming)
        out, err = running.communicate()
    assert running.returncode == 0 and "a push has begun meanwhile" in err, err
    gone = json.loads(out)
    assert {f"/nix/store/{digest}-old" for digest in digests} <= set(gone["paths"])
    assert gone["dropped"] and gone["bytes"] >= size * count
    assert nars(lab) == before and not first.exists()
