"""What is on a disk is not what the books say: in the store here, in a cache, in a build's way."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cache.conftest import Lab, edit, nix
from tests.cache.test_faults import DAMAGES, forge
from tests.cache.web import Nginx
from tests.conftest import Ran


def flip(file: Path) -> None:
    """Change one bit in the middle of a file, and nothing of its size and times."""
    before = file.stat()
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.chmod(0o644)
    file.write_bytes(content)
    file.chmod(before.st_mode)
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))


def flip_nar(lab: Lab, output: str = "pk") -> None:
    nar = lab.nar(output)
    size = nar.stat().st_size
    flip(nar)
    assert nar.stat().st_size == size


@pytest.fixture(scope="module")
def workshop(filled: Lab, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store that has all that pk is built with, and pk."""
    store = tmp_path_factory.mktemp("workshop") / "store"
    words = ("build", "pk", "--offline-profile")
    built = filled.project.run(*words, env=filled.env(store))
    assert built.status == 0, built.err
    return store


def remove(store: Path, path: str) -> None:
    nix(store, "nix-store", "--delete", "--ignore-liveness", path)
    assert not Path(f"{store}{path}").exists()


# Nix warns of these, and gives up all caches at one that it cannot read.
UNSIGNED = ("narinfo altered: size", "narinfo altered: signature", "forged")
BUILDS: dict[str, Callable[[Lab], None]] = {**DAMAGES, "NAR flipped": flip_nar}


@pytest.mark.parametrize("damage", BUILDS)
def test_a_build_takes_from_elsewhere_or_builds_what_a_cache_has_damaged(
    lab: Lab, workshop: Path, tmp_path: Path, damage: str
) -> None:
    good = f"file://{tmp_path}/second"
    shutil.copytree(lab.folder, tmp_path / "second")
    BUILDS[damage](lab)
    path = lab.path("pk")
    said = f"{path} is damaged in {lab.url}: "
    if damage == "narinfo empty":
        said = f"going on without {lab.url}: {path[11:43]}.narinfo in it cannot be read"
    elif damage in UNSIGNED:
        said = f"{path} in {lab.url} is signed by no key that pins.toml trusts"

    words = ("build", "pk", "--offline-profile", "--caches")
    remove(workshop, path)
    edit(lab.project, substituters=[lab.url, good])
    built = lab.project.run(*words, env=lab.env(workshop))
    assert built.status == 0, built.err
    assert built.err.count(said) == 1 and "building" not in built.err, built.err

    remove(workshop, path)
    edit(lab.project, substituters=[lab.url])
    built = lab.project.run(*words, env=lab.env(workshop))
    assert built.status == 0, built.err
    assert built.err.count(said) == 1 and "built riscv-pk" in built.err, built.err
    assert (lab.in_store("pk", workshop) / "bin" / "pk").is_file()
