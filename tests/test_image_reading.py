"""`tnpu-nix image inspect` and `diff`: what they show is what the image really holds."""

from __future__ import annotations

import base64
import json
import re
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from tests import altered
from tests.altered import Parts
from tests.conftest import Demo, Project
from tests.registry import registry, skopeo_program
from tnpu_nix.images import sbom
from tnpu_nix.images.inspection import Inspected, Part, PinOf


@dataclass
class Bench:
    """The demo's project; the image before its last bump, and the one after it, in parts."""

    project: Project
    old: Path
    new: Path
    old_parts: Parts
    new_parts: Parts
    folder: Path

    def json(self, *arguments: str | Path, env: dict[str, str] | None = None) -> Any:
        done = self.project.run("image", *arguments, "--json", env=env)
        assert done.status == 0, done
        return json.loads(done.out)

    def layout(self, name: str, parts: Parts, *options: str) -> Path:
        """Write an image as an OCI layout, with skopeo."""
        tar, folder = parts.copy().write(self.folder / f"{name}.tar"), self.folder / name
        argv = [*skopeo_program(), "--insecure-policy", "copy", "--quiet", *options]
        subprocess.run([*argv, f"docker-archive:{tar}", f"oci:{folder}:{name}"], check=True)
        return folder

    def sbom(self, image: Path) -> Any:
        done = self.project.run("image", "inspect", "--sbom", "--offline-profile", image)
        assert done.status == 0, done
        return json.loads(done.out)


def build(project: Project) -> Path:
    assert project.run("generate").status == 0
    done = project.run("build", "--offline-profile")
    assert done.status == 0, done
    return Path(done.out.strip())


@pytest.fixture(scope="module")
def bench(demo: Demo, tmp_path_factory: pytest.TempPathFactory) -> Bench:
    folder = tmp_path_factory.mktemp("reading")
    project, before = demo.project(folder / "project"), demo.project(folder / "before")
    committed = ["git", "-C", str(demo.folder / "project"), "show", "HEAD:pins.toml"]
    before.pins.write_bytes(subprocess.run(committed, capture_output=True, check=True).stdout)
    old, new = build(before), build(project)
    assert old != new
    parts = altered.take_apart(old), altered.take_apart(new)
    return Bench(project, old, new, *parts, folder)


@pytest.fixture(scope="module")
def layout(bench: Bench) -> Path:
    return bench.layout("layout", bench.new_parts)


def store_paths(parts: Parts) -> set[str]:
    names = {name for layer in parts.layers for name in altered.names(layer)}
    return {f"/{name}" for name in names if re.fullmatch(r"nix/store/[^/]+", name)}


def test_inspect_shows_pins_components_and_layers_on_a_screen(bench: Bench) -> None:
    done = bench.project.run("image", "inspect", bench.new)
    assert done.status == 0, done
    pin = bench.project.pin("triton")
    assert re.search(rf"^  triton +{pin.rev[:12]} {pin.date[:10]} ", done.out, re.M)
    assert re.search(r"^  triton .* from triton, triton_shared, llvm$", done.out, re.M)
    assert re.search(r"^ +\d+ [0-9a-f]{12} .*spike-unwrapped", done.out, re.M)
    assert len(done.out.splitlines()) < 45
    assert max(map(len, done.out.splitlines())) < 200


def test_inspect_tells_programs_what_the_image_really_holds(bench: Bench, layout: Path) -> None:
    found = bench.json("inspect", layout)
    index = json.loads((layout / "index.json").read_text())
    assert found["digest"] == index["manifests"][0]["digest"]
    assert {part["path"] for part in found["parts"]} == store_paths(bench.new_parts)
    manifest = json.loads(bench.project.run("image", "inspect", "--manifest", layout).out)
    sizes = {entry["path"]: entry["narSize"] for entry in manifest["storePaths"]}
    assert {part["path"]: part["nar_size"] for part in found["parts"]} == sizes
    tars = [len(layer) for layer in bench.new_parts.layers]
    assert [layer["tar_size"] for layer in found["layers"]] == tars
    assert all(layer["compressed"] for layer in found["layers"])


def test_layers_compressed_with_zstd_are_read(bench: Bench) -> None:
    folder = bench.layout("zstd", bench.new_parts, "--dest-compress-format", "zstd")
    found = bench.json("inspect", f"oci:{folder}:zstd")
    assert {part["path"] for part in found["parts"]} == store_paths(bench.new_parts)
    bench.project.run("image", "inspect", f"oci:{folder}:other").failed_with("no image other")


def needed(bench: Bench) -> list[int]:
    """The numbers of the layers that only the new image has."""
    layers = bench.new_parts.layers
    return [number for number, one in enumerate(layers) if one not in bench.old_parts.layers]


def test_diff_counts_what_who_has_one_image_needs_for_the_other(bench: Bench, layout: Path) -> None:
    found = bench.json("diff", bench.old, bench.new)
    assert [one["name"] for one in found["pins"]] == ["spike"]
    assert found["pins"][0]["new"] == bench.project.pin("spike").rev
    assert [one["name"] for one in found["components"]] == ["spike"]
    assert found["same_components"] == ["llvm-tools", "pk", "python-env", "triton"]
    layers, numbers = bench.new_parts.layers, needed(bench)
    assert found["layers"]["needed"] == sum(len(layers[number]) for number in numbers)
    assert found["layers"]["shared"] == len(layers) - len(numbers)
    assert found["layers"]["compressed"] is False
    in_order = sum(len(layer) for layer in layers[min(numbers) :])
    assert found["layers"]["needed_in_order"] == in_order

    manifest = json.loads(blob(layout, bench.json("inspect", layout)["digest"]))
    sizes = [layer["size"] for layer in manifest["layers"]]
    found = bench.json("diff", bench.old, layout)
    assert found["layers"]["needed"] == sum(sizes[number] for number in numbers)
    assert found["layers"]["compressed"] is True

    with registry(bench.folder / "registry") as hub:
        argv = ["--insecure-policy", "copy", "--quiet", "--dest-tls-verify=false"]
        done = hub.skopeo(*argv, f"oci:{layout}", f"docker://{hub.host}/lab/tnpu:new")
        assert done.returncode == 0, done.stderr
        env = {"REGISTRY_AUTH_FILE": str(hub.auth_file)}
        remote = bench.json("diff", bench.old, f"{hub.host}/lab/tnpu:new", env=env)
        assert remote["layers"] == found["layers"]


def blob(layout: Path, digest: str) -> str:
    return (layout / "blobs" / digest.replace(":", "/")).read_text()


def test_diff_of_two_equal_images_is_nothing(bench: Bench, layout: Path) -> None:
    done = bench.project.run("image", "diff", bench.new, layout)
    assert done.status == 0
    count = len(bench.new_parts.layers)
    assert f"layers: {count} of {count} are shared" in done.out
    assert "who has A needs 0 B" in done.out and "->" not in done.out


def test_diff_of_pins_says_what_is_rebuilt_and_finds_the_images_in_the_store(
    bench: Bench, demo: Demo
) -> None:
    project = Project(demo.folder / "project", {"TNPU_NIX_STORE": str(demo.store)})
    done = project.run("image", "diff", "--offline-profile", "git:HEAD", "pins:.")
    assert done.status == 0, done
    spike = project.pin("spike").rev
    assert re.search(rf"^  spike +[0-9a-f]{{12}} -> {spike[:12]}$", done.out, re.M)
    assert "  rebuilds: spike\n" in done.out
    total = len(bench.new_parts.layers)
    assert f"layers: {total - len(needed(bench))} of {total} are shared" in done.out

    project.run("image", "diff", "git:nothing", "pins:.").failed_with("no revision 'nothing'")
    project.run("image", "diff", "pins:/absent", "pins:.").failed_with("/absent")


def test_diff_of_pins_whose_flake_cannot_be_evaluated_compares_the_revisions(
    bench: Bench, project: Project
) -> None:
    """This repository's own pins, whose nixpkgs is out of reach."""
    text = project.pins.read_text()
    other = project.root / "other.toml"
    other.write_text(text.replace(project.pin("pk").rev, "0" * 40))
    env = {"NIX_CONFIG": "connect-timeout = 1\ndownload-attempts = 1", "https_proxy": "127.0.0.1:9"}
    done = project.run("image", "diff", "pins:pins.toml", f"pins:{other}", env=env)
    assert done.status == 0, done
    assert "was not evaluated" in done.err
    assert re.search(rf"^  pk +{project.pin('pk').rev[:12]} -> 000000000000$", done.out, re.M)
    assert "rebuilds: pk, spike" in done.out and "layers are not compared" in done.out


def test_the_bill_of_materials_is_valid_and_lists_what_is_really_there(
    bench: Bench, layout: Path
) -> None:
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    found = bench.sbom(layout)
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(json.dumps(found)) is None
    assert found == bench.sbom(layout)
    components = {one["bom-ref"]: one for one in found["components"]}
    assert set(components) == store_paths(bench.new_parts)

    (spike,) = [one for one in components.values() if one["name"] == "spike"]
    pin = bench.project.pin("spike")
    (source,) = spike["externalReferences"]
    assert source["type"] == "vcs" and source["url"] == pin.url
    digest = base64.b64decode(pin.hash.removeprefix("sha256-")).hex()
    assert source["hashes"] == [{"alg": "SHA-256", "content": digest}]
    properties = {one["name"]: one["value"] for one in spike["properties"]}
    assert properties["tnpu:pin:spike:revision"] == pin.rev
    assert spike["pedigree"]["commits"][0]["uid"] == pin.rev
    manifest = json.loads(bench.project.run("image", "inspect", "--manifest", layout).out)
    assert {entry["path"] for entry in manifest["storePaths"]} == set(components)


def test_the_bill_of_materials_has_the_licences_that_nix_knows(bench: Bench, layout: Path) -> None:
    licences = {
        component["bom-ref"].split("-", 1)[1]: [
            one.get("expression") or one["license"].get("id") or one["license"]["name"]
            for one in component["licenses"]
        ]
        for component in bench.sbom(layout)["components"]
        if "licenses" in component
    }
    version = "0-unstable-2026-02-01"
    llvm = "Apache-2.0 WITH LLVM-exception"
    ours = {
        f"llvm-tools-{version}": [llvm],
        f"python3.11-triton-{version}": ["MIT", llvm],
        f"riscv-pk-riscv64-unknown-elf-{version}": ["BSD-3-Clause"],
        f"spike-unwrapped-{version}": ["BSD-3-Clause"],
    }
    assert {name: its for name, its in licences.items() if name in ours} == ours
    assert {name: its for name, its in licences.items() if "-host" in name} == {
        "bash-host": ["GPL-3.0-or-later"],
        "coreutils-host": ["GPL-3.0-or-later"],
        "dtc-host": ["BSD-2-Clause", "GPL-2.0-or-later"],
    }


def test_the_bill_of_materials_follows_the_image_and_the_flake(
    bench: Bench, demo: Demo, tmp_path: Path
) -> None:
    """A path taken out of the image is not in it; a licence that an overlay gives is."""
    parts = bench.new_parts.copy()
    (gone,) = [path for path in store_paths(parts) if "tnpu-doctor" in path]
    parts.remove(gone.lstrip("/"))
    image = parts.write(tmp_path / "image.tar")
    project = demo.project(tmp_path / "project")
    (project.root / "nix" / "overrides.nix").write_text(
        '_final: prev: { pk = prev.pk // { meta.license = { spdxId = "BSD-3-Clause"; }; }; }\n'
    )
    done = project.run("image", "inspect", "--sbom", "--offline-profile", image)
    assert done.status == 0, done
    components = {one["bom-ref"]: one for one in json.loads(done.out)["components"]}
    assert set(components) == store_paths(bench.new_parts) - {gone}
    (pk,) = [one for one in components.values() if one["name"] == "pk"]
    assert pk["licenses"] == [{"license": {"id": "BSD-3-Clause"}}]


def test_without_a_project_or_the_library_the_bill_of_materials_says_so(
    bench: Bench, tmp_path: Path
) -> None:
    nowhere = Project(tmp_path)
    done = nowhere.run("image", "inspect", "--sbom", bench.new)
    assert done.status == 0 and "licences are left out" in done.err
    assert json.loads(done.out)["components"]

    (tmp_path / "cyclonedx").mkdir()
    (tmp_path / "cyclonedx" / "__init__.py").write_text("raise ImportError('not here')\n")
    done = nowhere.run("image", "inspect", "--sbom", bench.new, env={"PYTHONPATH": str(tmp_path)})
    done.failed_with("cyclonedx-python-lib", "pip install")


def test_a_source_on_github_has_a_package_url(bench: Bench) -> None:
    found = Inspected(**bench.json("inspect", bench.new) | {"parts": [], "layers": []})
    rev, url = "a" * 40, "git@github.com:lab/riscv-pk.git"
    pin = PinOf("pk", url, rev, "sha256-nonsense", "2026-01-01")
    part = Part("/nix/store/x-pk-1", "pk", "1", "pk", ["pk"], "sha256-x", 1)
    image = replace(found, pins=[pin], parts=[part])
    (component,) = json.loads(sbom.cyclonedx(image, {}))["components"]
    assert component["purl"] == f"pkg:github/lab/riscv-pk@{rev}"
    assert component["externalReferences"][0]["url"] == url
    assert "hashes" not in component["externalReferences"][0]
