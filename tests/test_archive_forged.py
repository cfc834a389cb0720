"""`tnpu-nix image verify`: archives that programs read otherwise than we do, or each other."""

from __future__ import annotations

import gzip
import tarfile
from collections.abc import Callable

import pytest

from tests.altered import file, info, packed
from tests.forged import Docker, Forgery
from tests.verifying import Bench


@pytest.fixture(scope="module")
def bench(built_image: Bench, tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return built_image.apart(tmp_path_factory.mktemp("archives"))


def named_twice(it: Docker) -> Docker:
    return it.named(it.evil_entry()).named(it.entry)


def named_twice_the_other_way(it: Docker) -> Docker:
    return it.named(it.entry).named(it.evil_entry())


def named_otherwise(it: Docker) -> Docker:
    return it.named(it.evil_entry(), name="./manifest.json").named(it.entry)


def named_from_the_root(it: Docker) -> Docker:
    return it.named(it.entry).named(it.evil_entry(), name="/x/..//manifest.json")


def two_images(it: Docker) -> Docker:
    return it.named(it.entry, {**it.evil_entry(), "RepoTags": ["localhost/other:1"]})


def keys_of_other_case(it: Docker) -> Docker:
    return it.named({**it.entry, "config": it.evil_entry()["Config"]})


def a_layer_twice(it: Docker) -> Docker:
    it.members.insert(0, (it.entry["Layers"][-1], packed([file("bin/evil")])))
    return it.named(it.entry)


def another_image_of_oci(it: Docker) -> Docker:
    forgery = Forgery(it.parts)
    it.members += forgery.members(forgery.index(forgery.entry(forgery.evil_manifest())))
    return it.named(it.entry)


def a_file_that_is_a_folder(it: Docker) -> Docker:
    it.members.append((f"{it.entry['Config']}/x", b""))
    return it.named(it.entry)


@pytest.mark.parametrize(
    ("forge", "word"),
    [
        (named_twice, "holds manifest.json twice"),
        (named_twice_the_other_way, "holds manifest.json twice"),
        (named_otherwise, "holds manifest.json twice"),
        (named_from_the_root, "leads out of it"),
        (two_images, "it holds 2 images"),
        (keys_of_other_case, "both 'Config' and 'config'"),
        (a_layer_twice, "layer.tar twice"),
        (another_image_of_oci, "name different images"),
        (a_file_that_is_a_folder, "is a folder and is none"),
    ],
)
def test_an_archive_that_is_read_in_two_ways_is_refused(
    bench: Bench, forge: Callable[[Docker], Docker], word: str
) -> None:
    bench.verify(forge(Docker(bench.parts)).write(bench.folder / "forged.tar")).failed_with(word)


def test_links_of_an_archive_lead_nowhere_else(bench: Bench) -> None:
    docker = Docker(bench.parts)
    docker.named(docker.entry)
    layer = docker.entry["Layers"][0]
    folder = info(layer.split("/")[0], type=tarfile.SYMTYPE, linkname="elsewhere")
    path = docker.write(bench.folder / "forged.tar", folder)
    bench.verify(path).failed_with("is a folder and is none")
    hard = info("manifest.json", type=tarfile.LNKTYPE, linkname=layer)
    bench.verify(docker.write(path, hard)).failed_with("twice")
    hard.name = "hard"
    bench.verify(docker.write(path, hard)).failed_with("neither a file nor a folder")


def test_what_follows_the_end_of_an_archive_is_seen(bench: Bench) -> None:
    """Go reads on in a gzip of several parts, and `tar -i` beyond the end."""
    docker, more = Docker(bench.parts), Docker(bench.parts, members=[])
    good = docker.named(docker.entry).write(bench.folder / "good.tar").read_bytes()
    more.members = []
    evil = more.named(more.evil_entry()).write(bench.folder / "evil.tar").read_bytes()
    joined = bench.folder / "forged.tar"
    joined.write_bytes(good + evil)
    bench.verify(joined).failed_with("something follows its end")
    open_end = good.rstrip(b"\0")
    open_end += bytes(-len(open_end) % 512)
    joined.write_bytes(gzip.compress(open_end, 1) + gzip.compress(evil, 1))
    bench.verify(joined).failed_with("holds manifest.json twice")
