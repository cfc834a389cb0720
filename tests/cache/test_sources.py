"""What a build with caches asks of the upstreams: only sources of what no cache gives."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cache.conftest import Lab, edit
from tests.cache.test_faults import replace
from tests.conftest import Ran, run_with_mounts

WORDS = ("--offline-profile", "--caches")
# What the upstreams have nothing to do with: it is made of llvm, mlir and lld alone.
MADE = "llvm-tools"
STATES: dict[str, Callable[[Lab], None]] = {
    "whole": lambda lab: None,
    "lacking": lambda lab: lab.narinfo(MADE).unlink(),
    "damaged": lambda lab: lab.nar(MADE).write_bytes(lab.nar(MADE).read_bytes()[:-40]),
}


def out_of_reach(lab: Lab, *arguments: str) -> Ran:
    """Run the command where nothing lies in the upstreams' place."""
    upstreams = Path(lab.project.pin("llvm").url.removeprefix("file://")).parent
    assert (upstreams / Path(lab.project.pin("pk").url).name).exists()
    env = {**lab.project.env, **lab.env()}
    mounts = f"mount -t tmpfs tmpfs {upstreams}"
    return run_with_mounts(mounts, *arguments, cwd=lab.project.root, env=env)


@pytest.mark.parametrize("state", STATES)
def test_without_upstreams_a_build_takes_all_from_a_cache(lab: Lab, state: str) -> None:
    edit(lab.project, substituters=[lab.url])
    STATES[state](lab)
    done = out_of_reach(lab, "build", MADE, *WORDS)
    assert done.status == 0, done.err
    assert lab.in_store(MADE).exists()
    assert (f"building {MADE}-" in done.err) == (state != "whole"), done.err
    # Its inputs come out of the cache, but for what builds everything here.
    assert "building llvm-0" not in done.err and "fetching llvm at" not in done.err


@pytest.mark.parametrize("state", ["lacking", "damaged"])
def test_the_source_of_what_no_cache_gives_is_fetched(lab: Lab, state: str) -> None:
    edit(lab.project, substituters=[lab.url])
    if state == "lacking":
        lab.narinfo("pk").unlink()
    else:
        replace(lab.narinfo("pk"), "^Sig: lab-1:....", "Sig: lab-1:AAAA")
    out_of_reach(lab, "build", "pk", *WORDS).failed_with("fetching pk")
    done = lab.project.run("build", "pk", *WORDS, env=lab.env())
    assert done.status == 0, done.err
    assert done.err.count("fetching pk at") == 1 and "building riscv-pk" in done.err
