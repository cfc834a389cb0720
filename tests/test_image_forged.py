"""`tnpu-nix image verify`: images that other programs would read otherwise than we do.

In each of them every digest is right, and the image of the pins is one of those that can be read
out of it; a reader in Go, as Docker and skopeo are, or one of another order, finds another one.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator

import pytest

from tests.altered import Parts
from tests.forged import (
    AMD64,
    CONFIG,
    EVIL,
    INDEX,
    MANIFEST,
    Docker,
    Forge,
    Forgery,
    publish,
    twice,
)
from tests.registry import Registry, registry
from tests.verifying import Bench


@pytest.fixture(scope="module")
def bench(built_image: Bench, tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return built_image.apart(tmp_path_factory.mktemp("forged"))


def test_the_image_itself_is_taken_in_each_of_these_forms(bench: Bench) -> None:
    """Else the others could be refused for a fault of the one who forged them."""
    forgery = Forgery(bench.parts)
    index = forgery.index(forgery.entry(forgery.manifest()))
    done = bench.verify(forgery.write(bench.folder / "layout", index))
    assert done.status == 0, done
    assert index["manifests"][0]["digest"] in done.out
    docker = Docker(bench.parts)
    docker.named(docker.entry)
    assert bench.verify(docker.write(bench.folder / "docker.tar")).status == 0
    # As `docker save` of today writes it: an archive of both kinds over the same blobs.
    names = [f"blobs/{one['digest'].replace(':', '/')}" for one in forgery.layers]
    config = f"blobs/{forgery.manifest()['config']['digest'].replace(':', '/')}"
    both = Docker(bench.parts, members=[])
    both.members = forgery.members(index)
    sources = {one["digest"]: one for one in forgery.layers}
    entry = {"Config": config, "RepoTags": None, "Layers": names, "LayerSources": sources}
    done = bench.verify(both.named(entry).write(bench.folder / "both.tar"))
    assert done.status == 0, done


def config_twice(it: Forgery) -> bytes:
    return twice(it.config, "config", EVIL)


def labels_twice(it: Forgery) -> bytes:
    inner = twice(it.config["config"], "Labels", {"evil": "1"}).decode()
    rest = {key: value for key, value in it.config.items() if key != "config"}
    return f'{{"config": {inner}, {json.dumps(rest)[1:]}'.encode()


def other_case_below_rootfs(it: Forgery) -> bytes:
    other = copy.deepcopy(it.config)
    other["rootfs"]["Diff_IDs"] = [it.blob(b"evil", "")["digest"]]
    return json.dumps(other).encode()


def other_case_at_the_top(it: Forgery) -> bytes:
    return json.dumps({**it.config, "Config": EVIL}).encode()


def other_case_of_a_setting(it: Forgery) -> bytes:
    other = copy.deepcopy(it.config)
    other["config"]["env"] = ["LD_PRELOAD=/bin/evil"]
    return json.dumps(other).encode()


def a_field_of_other_case_alone(it: Forgery) -> bytes:
    other = copy.deepcopy(it.config)
    other["config"]["volumes"] = {"/nix/store": {}}
    return json.dumps(other).encode()


def sixteen_bits(it: Forgery) -> bytes:
    return json.dumps(it.config).encode("utf-16")


@pytest.mark.parametrize(
    ("config", "word"),
    [
        (config_twice, "'config' twice"),
        (labels_twice, "'Labels' twice"),
        (other_case_below_rootfs, "both 'diff_ids' and 'Diff_IDs'"),
        (other_case_at_the_top, "both 'config' and 'Config'"),
        (other_case_of_a_setting, "both 'Env' and 'env'"),
        (a_field_of_other_case_alone, "'volumes', which others take for 'Volumes'"),
        (sixteen_bits, "not UTF-8"),
    ],
)
def test_a_configuration_that_is_read_in_two_ways_is_refused(
    bench: Bench, config: Callable[[Forgery], bytes], word: str
) -> None:
    forgery = Forgery(bench.parts)
    index = forgery.index(forgery.entry(forgery.manifest(config(forgery))))
    bench.verify(forgery.write(bench.folder / "layout", index)).failed_with(word)


def layers_of_other_case(it: Forgery) -> Forge | dict:
    evil = it.evil_manifest()
    return it.manifest(Config=evil["config"], Layers=[it.blob(b"evil", "")])


def layers_twice(it: Forgery) -> bytes:
    return twice(it.manifest(), "layers", [it.blob(b"evil", "")])


def manifest_and_index(it: Forgery) -> dict:
    return it.manifest(manifests=[it.entry(it.evil_manifest(), platform=AMD64)])


def another_kind(it: Forgery) -> dict:
    return it.manifest(mediaType="application/vnd.docker.distribution.manifest.v2+json")


def old_schema(it: Forgery) -> dict:
    return it.manifest(schemaVersion=1)


def other_artifact(it: Forgery) -> dict:
    return it.manifest() | {"config": it.document(it.config, "application/vnd.evil")}


def other_layer_kind(it: Forgery) -> dict:
    return it.manifest(layers=[{**one, "mediaType": "application/evil"} for one in it.layers])


def compressed_only_in_name(it: Forgery) -> dict:
    zipped = [{**one, "mediaType": f"{one['mediaType']}+gzip"} for one in it.layers]
    return it.manifest(layers=zipped)


def without_end(it: Forgery) -> dict:
    config = it.document(it.config, CONFIG)
    return it.manifest() | {"config": {**config, "size": 1 << 40}}


def size_of_another(it: Forgery) -> dict:
    config = it.document(it.config, CONFIG)
    return it.manifest() | {"config": {**config, "size": config["size"] - 1}}


@pytest.mark.parametrize(
    ("manifest", "word"),
    [
        (layers_of_other_case, "both 'config' and 'Config'"),
        (layers_twice, "'layers' twice"),
        (manifest_and_index, "both 'layers' and 'manifests'"),
        (another_kind, "is said to be"),
        (old_schema, "schemaVersion"),
        (other_artifact, "application/vnd.evil"),
        (other_layer_kind, "application/evil"),
        (compressed_only_in_name, "unlike its media type"),
        (without_end, "larger than that of any image"),
        (size_of_another, "is damaged or was altered"),
    ],
)
def test_a_manifest_that_is_read_in_two_ways_is_refused(
    bench: Bench, manifest: Callable[[Forgery], dict | bytes], word: str
) -> None:
    forgery = Forgery(bench.parts)
    entry = {**forgery.entry(manifest(forgery)), "mediaType": MANIFEST}
    layout = forgery.write(bench.folder / "layout", forgery.index(entry))
    bench.verify(layout).failed_with(word)


def variants(it: Forgery) -> dict:
    mine = it.entry(it.manifest(), platform={**AMD64, "variant": "v4"})
    return it.index(mine, it.entry(it.evil_manifest(), platform=AMD64))


def other_name_of_amd64(it: Forgery) -> dict:
    evil = it.entry(it.evil_manifest(), platform={"os": "Linux", "architecture": "x86_64"})
    return it.index(it.entry(it.manifest(), platform=AMD64), evil)


def without_platform(it: Forgery) -> dict:
    return it.index(it.entry(it.manifest(), platform=AMD64), it.entry(it.evil_manifest()))


@pytest.mark.parametrize("platforms", [variants, other_name_of_amd64, without_platform])
def test_an_index_of_which_several_could_be_taken_is_refused(
    bench: Bench, platforms: Callable[[Forgery], dict]
) -> None:
    forgery = Forgery(bench.parts)
    index = platforms(forgery)
    folder = bench.folder / "layout"
    bench.verify(forgery.write(folder, index)).failed_with("several images")
    below = forgery.index(forgery.entry(index))
    bench.verify(forgery.write(folder, below)).failed_with("several images")


def test_what_a_manifest_or_its_index_has_beside_the_image_is_named(bench: Bench) -> None:
    forgery = Forgery(bench.parts)
    chunked = {"io.github.containers.zstd-chunked.manifest-checksum": "sha256:0"}
    layers = [{**forgery.layers[0], "annotations": chunked}, *forgery.layers[1:]]
    more = {"annotations": {"org.opencontainers.image.revision": "evil"}, "artifactType": "evil"}
    manifest = forgery.manifest(layers=layers, **more)
    manifest["config"]["urls"] = ["https://evil.invalid/config"]
    arm = forgery.entry(forgery.evil_manifest(), platform={"os": "linux", "architecture": "arm64"})
    inner = forgery.index(forgery.entry(manifest, platform=AMD64), arm)
    layout = forgery.write(bench.folder / "layout", forgery.index(forgery.entry(inner)))
    found = bench.found(layout)
    assert found.kinds == {"manifest"}
    assert found.lines("manifest") == [
        "the manifest has annotations",
        "the manifest has artifactType",
        "the manifest has urls for the configuration",
        "the manifest has annotations for the layer 1",
        "the index also names images for linux/arm64",
    ]


def test_every_part_of_a_configuration_is_compared(bench: Bench) -> None:
    forgery = Forgery(bench.parts)
    config = forgery.config
    config["config"]["Volumes"] = {"/nix/store": {}}
    config["config"]["ExposedPorts"] = {"22/tcp": {}}
    config["config"]["Labels"]["empty"] = ""
    config["config"]["Healthcheck"] = {"Test": ["CMD", "/bin/evil"]}
    config["config"]["StopTimeout"] = 0
    config["author"], config["os.version"] = "mallory", "7"
    config["rootfs"]["more"] = "evil"
    config["history"][0]["comment"] = "lies"
    index = forgery.index(forgery.entry(forgery.manifest()))
    found = bench.found(forgery.write(bench.folder / "layout", index))
    assert found.kinds == {"configuration"}
    named = {line.partition(":")[0] for line in found.lines("configuration")}
    assert named == {
        "author",
        "config -> ExposedPorts -> 22/tcp",
        "config -> Healthcheck -> Test",
        "config -> Labels -> empty",
        "config -> StopTimeout",
        "config -> Volumes -> /nix/store",
        "history -> 001 -> comment",
        "os.version",
        "rootfs -> more",
    }


@pytest.fixture(scope="module")
def hub(bench: Bench) -> Iterator[Registry]:
    with registry(bench.folder / "registry", password=False) as made:
        yield made


def test_a_registry_is_read_as_strictly(bench: Bench, hub: Registry) -> None:
    forgery = Forgery(Parts(bench.parts.config, bench.parts.tag, bench.parts.layers[-1:]))
    for tag, manifest, word in (
        ("case", json.dumps(layers_of_other_case(forgery)).encode(), "both 'config' and 'Config'"),
        ("twice", layers_twice(forgery), "'layers' twice"),
        ("config", json.dumps(forgery.manifest(config_twice(forgery))).encode(), "'config' twice"),
    ):
        publish(f"{hub.host}/lab/x", forgery, tag, manifest, MANIFEST)
        bench.verify(f"{hub.host}/lab/x:{tag}").failed_with(word)
        pulled = bench.folder / "pulled.tar"
        done = bench.project.run(
            "image", "pull", "--from", f"{hub.host}/lab/x:{tag}", "--to", pulled
        )
        done.failed_with(word)
        assert not pulled.exists()

    for name in ("good", "evil"):
        manifest = forgery.manifest() if name == "good" else forgery.evil_manifest()
        publish(f"{hub.host}/lab/x", forgery, name, json.dumps(manifest).encode(), MANIFEST)
    for platforms in (variants, other_name_of_amd64):
        publish(
            f"{hub.host}/lab/x", forgery, "index", json.dumps(platforms(forgery)).encode(), INDEX
        )
        bench.verify(f"{hub.host}/lab/x:index").failed_with("several images")


def test_what_an_image_says_does_not_steer_the_terminal(bench: Bench) -> None:
    """In every command that shows what an image says of itself, and in its errors."""
    steering = "x\x1b[2J\x1b[1A\r\x9b8m\u202eok\u2028  is what the pins say"

    def change(parts: Parts) -> None:
        parts.config["config"]["Labels"]["tnpu.pin.spike.revision"] = steering
        parts.config["config"]["Env"].append(f"A={steering}")
        parts.tag = f"{steering}:{steering}"

    image = bench.alter(change)
    for words in (
        ["verify", "--offline-profile", image],
        ["inspect", image],
        ["diff", image, image],
    ):
        done = bench.project.run("image", *words)
        shown = done.out + done.err
        assert "a fault of tnpu-nix" not in shown
        assert not [one for one in shown if one in "\x1b\r\x9b\u202e\u2028"], shown
    assert r"\x1b[2J" in bench.verify(image).err
