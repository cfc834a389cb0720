"""`tnpu-nix image verify`: the names that come out of an image, its own and those of its files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.altered import Parts, file
from tests.conftest import Demo, run_with_mounts
from tests.forged import Docker, Forgery
from tests.verifying import Bench
from tnpu_nix.images import archive, compare
from tnpu_nix.images.opening import open_image
from tnpu_nix.nix import Nix
from tnpu_nix.pathinfo import path_infos
from tnpu_nix.storepath import is_store_path

HASH = "a" * 32
STRANGE = [
    "foo",
    ".links/x",
    HASH,
    f"{HASH}-",
    f".{HASH}-x",
    f"{'e' * 32}-x",
    f"{HASH}-b ad",
    f"{HASH}-x!out",
    f"{HASH}-x^out",
    f"{HASH}-x.drv^*",
    f"{HASH}-x#y",
    f"{HASH}-x*",
    f"{HASH}-x\ny",
    f"{HASH}-x\n",
    f"{HASH}-\udcff",
    f"{HASH}-\u00e4",
    f"{HASH}-.",
    f"{HASH}-..",
    f"{HASH}-.-x",
    f"{HASH}-{'x' * 212}",
]
GOOD = [f"{HASH}-{name}" for name in ("x", "x?y=1", ".x", "--x", "x.drv", "x" * 211)]


@pytest.fixture(scope="module")
def bench(built_image: Bench, tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return built_image.apart(tmp_path_factory.mktemp("named"))


@pytest.fixture(scope="module")
def small(bench: Bench) -> Parts:
    """The uppermost layer alone: what is said of an image before its layers are read."""
    config = {**bench.parts.config, "history": bench.parts.config["history"][-1:]}
    return Parts(config, bench.parts.tag, bench.parts.layers[-1:])


def test_nix_is_asked_for_store_paths_alone(demo: Demo) -> None:
    """One that Nix takes for a flake, or that it refuses, would hide what it knows of the rest."""
    nix = Nix(store=demo.store, offline_profile=True)
    valid = next(
        path
        for one in (demo.store / "nix" / "store").glob("*-tnpu-image-root")
        if is_store_path(path := f"/nix/store/{one.name}") and path_infos(nix, [path])
    )
    assert all(is_store_path(f"/nix/store/{name}") for name in GOOD)
    assert not any(is_store_path(f"/nix/store/{name}") for name in STRANGE)
    assert not any(is_store_path(path) for path in ("", HASH, f"{valid}/x", f"/nix{valid}"))
    names = [f"/nix/store/{name}" for name in (*GOOD, *STRANGE)]
    assert list(path_infos(nix, [*names, valid])) == [valid]


def test_what_lies_below_the_store_and_is_no_store_path_is_named(bench: Bench) -> None:
    files = [file(f"nix/store/{name}") for name in (*STRANGE, *GOOD)]
    found = bench.found(bench.alter(lambda parts: parts.add_layer(*files)))
    said = set(found.lines("file"))
    assert said == {f"/nix/store/{name} does not belong there: a file" for name in STRANGE}
    assert set(found.lines("store path")) == {
        f"/nix/store/{name} does not belong there" for name in GOOD
    }
    assert "unproven" not in found.kinds


def test_an_image_of_another_name_is_proven_with_its_name(bench: Bench) -> None:
    def rename(parts: Parts) -> None:
        parts.tag = "ubuntu:latest"

    done = bench.verify(bench.alter(rename))
    assert done.status == 0, done
    assert f", named ubuntu:latest, not {bench.parts.tag}" in done.out


def test_the_tag_of_other_pins_is_refused_and_so_is_an_altered_form_of_the_configuration(
    bench: Bench,
) -> None:
    other = f"tnpu-demo:{'0' * 32}"

    def change(parts: Parts) -> None:
        parts.tag = other
        parts.config["created"] = "1970-W01-4T00:00:01Z"
        parts.config["history"].append({})
        parts.config["history"][0]["empty_layer"] = 0
        parts.config["author"] = False
        parts.config["config"]["StopSignal"] = {}
        parts.config["config"]["Tty"] = ""

    found = bench.found(bench.alter(change))
    assert found.kinds == {"name", "configuration"}
    assert found.line("name", "it").startswith(f"it is named {other}")
    assert found.verdict["name"] == other and found.verdict["name_of_pins"] == bench.parts.tag
    assert {line.partition(":")[0] for line in found.lines("configuration")} == {
        "author",
        "config -> StopSignal",
        "config -> Tty",
        "created",
        "history -> 001 -> empty_layer",
        "history -> entries",
    }


@pytest.mark.parametrize("name", ["a\nb:c", "", "evil", "Evil:1", "a@b:c", "docker://a:1", "a:b c"])
def test_a_name_that_docker_does_not_take_is_named(small: Parts, tmp_path: Path, name: str) -> None:
    small.tag = name
    (said,) = archive.read(small.write(tmp_path / "image.tar")).oddities
    assert repr(name) in said


@pytest.mark.parametrize("name", ["ubuntu:latest", "127.0.0.1:5000/lab/x:1", "localhost/x:V1"])
def test_any_other_name_is_none_of_the_faults(small: Parts, tmp_path: Path, name: str) -> None:
    small.tag = name
    assert archive.read(small.write(tmp_path / "image.tar")).oddities == []


def test_docker_and_containerd_find_the_same_name(small: Parts, tmp_path: Path) -> None:
    """In an archive of both kinds, as `docker save` writes it."""
    small.tag = "lab/x:1"
    for whole, faults in (("docker.io/lab/x:1", 0), ("docker.io/library/ubuntu:latest", 1)):
        names = {"io.containerd.image.name": whole, "org.opencontainers.image.ref.name": "1"}
        forgery = Forgery(small)
        manifest = forgery.manifest()
        index = forgery.index(forgery.entry(manifest, annotations=names))
        layout = open_image(str(forgery.write(tmp_path / "layout", index)))
        assert layout.tag == whole
        blobs = [f"blobs/{one['digest'].replace(':', '/')}" for one in forgery.layers]
        config = f"blobs/{manifest['config']['digest'].replace(':', '/')}"
        both = Docker(small, members=[])
        both.members = forgery.members(index)
        both.named({"Config": config, "RepoTags": [small.tag], "Layers": blobs})
        found = archive.read(both.write(tmp_path / "both.tar"))
        assert found.tag == small.tag and len(found.oddities) == faults
        assert all(whole in line for line in found.oddities)


GO_READS = ["1970-01-01T00:00:01Z", "1970-01-01T00:00:01.000Z", "1970-01-01T01:00:01+01:00"]
GO_REFUSES = [
    "19700101T000001Z",
    "1970-01-01T00:00:01",
    "1970-W01-4T00:00:01Z",
    "1970-01-01 00:00:01Z",
    "1970-01-01t00:00:01z",
    "1970-01-01T00:00:01+0000",
    "1970-01-01T00:00:01,5Z",
    "1970-01-01T00:00:60Z",
    "1970-01-01T00:00:01Z\n",
    "1970-01-01T00:00:01.5Z",  # which it reads, as another time
    [1.0, ""],
]


def test_times_are_compared_in_the_forms_that_gos_programs_read() -> None:
    for place in ("created", "history"):

        def config(time: object, place: str = place) -> dict[str, object]:
            return {"created": time} if place == "created" else {"history": [{"created": time}]}

        wanted = config("1970-01-01T00:00:01+00:00")
        for time in GO_READS:
            assert list(compare.config_differences(config(time), wanted)) == [], time
        for other in GO_REFUSES:
            assert len(list(compare.config_differences(config(other), wanted))) == 1, other


def test_the_form_of_a_configuration_is_judged_without_the_image_too(small: Parts) -> None:
    parts = small.copy()
    layers = {"diff_ids": ["sha256:0"], "type": "layers"}
    good = {**parts.config, "rootfs": layers}
    assert list(compare.form_faults(good, upon_another=False)) == []
    history = [*parts.config["history"], {}]
    for change in ({"created": "1970-01-01"}, {"created": None}, {"history": history}):
        (said,) = compare.form_faults({**good, **change}, upon_another=False)
        assert said.startswith(f"{next(iter(change))}: ")
    empty = [*parts.config["history"], {"empty_layer": True}]
    for one in (empty, history):
        faults = list(compare.form_faults({**good, "history": one}, upon_another=one is history))
        assert faults == []


def test_a_full_folder_for_temporary_files_is_said_to_be_full(bench: Bench, tmp_path: Path) -> None:
    """It is not the layer's fault, whose files are put there to be hashed again."""
    path = bench.path("-host/bin/dtc")
    image = bench.alter(lambda parts: parts.add_layer(file(path)))
    folder = tmp_path / "full"
    folder.mkdir()
    mount = f"mount -t tmpfs -o size=8k tmpfs {folder}"
    env = {**bench.project.env, "TMPDIR": str(folder)}
    verify = ["verify", "--offline-profile"]
    # Of the image as it is nothing is put there, but the flake is copied.
    for words in (["inspect", image], [*verify, image], [*verify, bench.tar]):
        done = run_with_mounts(mount, "image", *words, cwd=bench.project.root, env=env)
        done.failed_with("temporary files", str(folder), "No space left", "TMPDIR")
        assert "layer" not in done.err.rsplit("error:", 1)[1]


def test_a_manifest_that_is_not_there_is_missed(small: Parts, bench: Bench) -> None:
    parts = small.copy()
    image = parts.write(bench.folder / "small.tar")
    told = bench.project.run("image", "inspect", "--manifest", image)
    assert told.status == 0 and "pins" in json.loads(told.out)
    parts.remove("etc/tnpu/manifest.json")
    without = parts.write(bench.folder / "without.tar")
    done = bench.project.run("image", "inspect", "--manifest", without)
    done.failed_with("without.tar has no /etc/tnpu/manifest.json")
    assert done.out == ""
