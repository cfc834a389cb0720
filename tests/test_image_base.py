"""`[image.base]`: an image in a registry that ours is laid upon, moved by `bump base`."""

from __future__ import annotations

import base64
import json
import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packageurl import PackageURL

from tests import altered
from tests.altered import file
from tests.base_lab import Lab, copy_to, digest, image, lab, publish, verified
from tests.conftest import Demo, Project, environment
from tnpu_nix import build, pinsfile
from tnpu_nix.images import archive
from tnpu_nix.nix import Nix
from tnpu_nix.registry import credentials

__all__ = ["image", "lab"]  # fixtures


def test_a_bump_writes_digest_and_hash_of_the_base(lab: Lab) -> None:
    assert (lab.base.image, lab.base.tag, lab.base.layers) == (lab.name, "latest", 2)
    assert lab.base.digest == digest(lab, "v1")
    assert lab.project.run("generate", "--check").status == 0
    text = (lab.project.root / "nix" / "image.nix").read_text()
    assert f'imageDigest = "{lab.base.digest}";' in text and f'hash = "{lab.base.hash}";' in text
    again = lab.project.run("bump", "base")
    assert again.status == 0 and f"base is at {lab.base.digest} already" in again.out


def test_the_image_lies_upon_the_base(lab: Lab, image: Path) -> None:
    below, found = lab.bases["v1"].copy(), altered.take_apart(image)
    assert found.layers[:2] == below.layers
    assert len(found.layers) <= 64
    config = found.config["config"]
    assert config["Labels"]["org.opencontainers.image.base.digest"] == lab.base.digest
    assert "TORCH_HOME=/opt/torch" in config["Env"]
    names = altered.names(found.layers[-1])
    assert "nix/tnpu/bin/spike" in names
    assert not {"bin", "etc/passwd", "tmp", "usr/bin/env"} & names


def test_the_toolchain_and_the_bases_own_programs_work_in_it(
    lab: Lab, image: Path, tmp_path: Path
) -> None:
    read = archive.read(image)
    archive.unpack(read, tmp_path / "root")
    assert (tmp_path / "root/bin").is_symlink()
    assert "lab:x:1000" in (tmp_path / "root/etc/passwd").read_text()
    variables = [f"{name}={value}" for name, value in read.environment.items()]
    enter = [] if os.geteuid() == 0 else ["unshare", "--user", "--map-root-user"]
    argv = [*enter, "chroot", str(tmp_path / "root"), "/nix/tnpu/bin/env", "-i", *variables]
    done = subprocess.run([*argv, "tnpu-doctor"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    found = subprocess.run([*argv, "sh", "-c", "command -v torch"], capture_output=True, text=True)
    assert found.stdout == "/usr/bin/torch\n"


def test_verify_proves_the_base_too(lab: Lab, image: Path) -> None:
    done = lab.project.run("image", "verify", "--offline-profile", image)
    assert done.status == 0, done
    parts = altered.take_apart(image)
    parts.change("usr/bin/torch", altered.one_byte)
    changed = parts.write(lab.folder / "altered.tar")
    done = lab.project.run("image", "verify", "--offline-profile", changed)
    done.failed_with("is not what the pins say")
    assert "DIFFERS  file: /usr/bin/torch has other content" in done.out


def test_the_base_is_a_pin_like_the_others_to_a_comparison(
    lab: Lab, image: Path, demo: Demo, tmp_path: Path
) -> None:
    without, other = demo.project(tmp_path / "without"), Project(tmp_path / "b", lab.project.env)
    subprocess.run(["cp", "-r", lab.project.root, other.root], check=True)
    assert other.run("bump", "base", "v2").status == 0
    one, two = f"{lab.name}:latest@{lab.base.digest}", f"{lab.name}:v2@{digest(lab, 'v2')}"

    none, first, second = (f"pins:{one.root}" for one in (without, lab.project, other))
    for left, right, a, b in (
        (none, first, None, one),
        (first, str(image), one, one),
        (str(image), second, one, two),
        (second, none, two, None),
    ):
        done = lab.project.run("image", "diff", "--offline-profile", left, right, "--json")
        assert done.status == 0, done
        found = json.loads(done.out)
        assert found["pins"] == ([] if a == b else [{"name": "base", "old": a, "new": b}])
        assert ("base" in found["same_pins"]) is (a == b)
    done = lab.project.run("image", "diff", "--offline-profile", none, image)
    assert f"  base           none -> {one[: one.index('@') + 20]}\n" in done.out


def test_the_bill_of_materials_has_the_base(lab: Lab, image: Path) -> None:
    done = lab.project.run("image", "inspect", "--sbom", "--offline-profile", image)
    assert done.status == 0, done
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(done.out) is None
    found = json.loads(done.out)
    (base,) = (one for one in found["components"] if one["bom-ref"] == "base")
    assert (base["type"], base["name"], base["version"]) == ("container", lab.name, "latest")
    content = lab.base.digest.removeprefix("sha256:")
    assert base["hashes"] == [{"alg": "SHA-256", "content": content}]
    purl = PackageURL.from_string(base["purl"])
    assert (purl.type, purl.name, purl.version) == ("oci", "torchsim_base", lab.base.digest)
    assert purl.qualifiers == {"repository_url": lab.name, "tag": "latest"}
    (root,) = (one for one in found["dependencies"] if one["ref"] == "image")
    assert "base" in root["dependsOn"]
    shown = lab.project.run("image", "inspect", image).out
    assert re.search(rf"^base +{lab.name}:latest@{lab.base.digest}$", shown, re.M)


@pytest.mark.parametrize("labels", [("", ""), ("No Reference", "x"), ("lab/base", ""), ("", "x")])
def test_labels_of_a_base_that_say_nothing_make_no_invalid_bill(
    lab: Lab, tmp_path: Path, labels: tuple[str, str]
) -> None:
    parts = lab.bases["v1"].copy()
    names = [f"org.opencontainers.image.base.{key}" for key in ("name", "digest")]
    parts.config["config"]["Labels"] = dict(zip(names, labels, strict=True))
    done = Project(tmp_path).run("image", "inspect", "--sbom", parts.write(tmp_path / "it.tar"))
    assert done.status == 0, done
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(done.out) is None
    found = json.loads(done.out).get("components", [])
    bases = [one for one in found if one["bom-ref"] == "base"]
    assert len(bases) == any(labels) and not any("purl" in one for one in bases)


@pytest.fixture(scope="module")
def elsewhere(lab: Lab, image: Path) -> Path:
    """A store that has the toolchain, and neither the image nor its base."""
    (root,) = {
        "/".join(["", *name.split("/")[:3]])
        for layer in altered.take_apart(image).layers
        for name in altered.names(layer)
        if "-tnpu-image-root/bin/pk" in name
    }
    store = lab.folder / "elsewhere"
    copy_to(store, lab, root)
    return store


OWN = f"/nix/store/{'b' * 32}-own"


def test_without_image_and_base_what_may_be_the_bases_is_unproven(
    lab: Lab, image: Path, elsewhere: Path
) -> None:
    found = verified(lab, image, elsewhere)
    assert found.kinds == {"unproven"} and len(found.verdict["proven"]) == 13
    said = "\n".join(found.lines("unproven"))
    assert "TORCH_HOME=/opt/torch: they may be the base's" in said
    assert "layer 1: /usr/bin comes twice" in said
    assert f"{OWN}-file may be the base's" in said and "nix/store/foo" not in said

    parts = altered.take_apart(image)
    variables = parts.config["config"]["Env"]
    variables[variables.index("HOME=/root")] = "HOME=/evil"
    parts.config["config"]["User"] = "lab"
    parts.add(file("nix/store/mine"))
    parts.add(file(f"nix/store/{'c' * 32}-mine"))
    parts.add(file(f"{OWN.lstrip('/')}/more"))
    parts.add(file("etc/tnpu/manifest.json", b"{}"))
    found = verified(lab, parts.write(lab.folder / "altered.tar"), elsewhere)
    assert found.lines("configuration") == [
        "config -> User: lab instead of nothing",
        "config -> Env: HOME=/evil instead of HOME=/root",
    ]
    assert found.lines("file") == ["/nix/store/mine does not belong there: a file"]
    assert {line.split()[0] for line in found.lines("store path")} == {
        OWN,
        f"/nix/store/{'c' * 32}-mine",
    }
    assert any("/etc/tnpu/manifest.json comes twice" in one for one in found.lines("layer"))
    assert any(one.startswith(f"{OWN} is nothing that Nix makes") for one in found.lines("layer"))


def test_without_the_image_the_base_in_the_store_proves_what_is_the_bases(
    lab: Lab, image: Path, elsewhere: Path
) -> None:
    (base,) = lab.store.glob(f"nix/store/*-{lab.base.archive_name}")
    copy_to(elsewhere, lab, f"/nix/store/{base.name}")
    found = verified(lab, image, elsewhere)
    assert found.kinds == {"unproven"}
    (rest,) = found.lines("unproven")
    assert "files outside the store paths" in rest

    parts = altered.take_apart(image)
    parts.change("usr/bin/torch", altered.one_byte)
    variables = parts.config["config"]["Env"]
    variables[variables.index("TORCH_HOME=/opt/torch")] = "TORCH_HOME=/evil"
    found = verified(lab, parts.write(lab.folder / "altered.tar"), elsewhere)
    assert "layer 2 is not that of the base" in "\n".join(found.lines("layer"))
    (said,) = found.lines("configuration")
    assert said.startswith("config -> Env: ") and "TORCH_HOME=/evil" in said


def test_a_bump_follows_the_tag_along_with_other_pins(
    lab: Lab, image: Path, tmp_path: Path
) -> None:
    project = Project(tmp_path / "project", lab.project.env)
    subprocess.run(["cp", "-r", lab.project.root, project.root], check=True)
    publish(lab, "v2", "latest")
    old = pinsfile.load(project.pins).image.base
    dry = project.run("bump", "--dry-run", "base")
    assert "would write" in dry.out and pinsfile.load(project.pins).image.base == old
    rev = project.pin("spike").rev
    done = project.run("bump", "base=v2", f"spike={rev}")
    assert done.status == 0, done
    new = pinsfile.load(project.pins).image.base
    assert old is not None and new is not None
    assert (new.digest, new.tag) == (digest(lab, "v2"), "v2")
    assert f"digest  {old.digest} -> {new.digest}" in done.out
    assert "rebuilds tnpu-image" in done.out
    back = project.run("bump", "base", f"{lab.name}@{old.digest}")
    assert back.status == 0
    assert pinsfile.load(project.pins).image.base == new.model_copy(
        update={"digest": old.digest, "hash": back_hash(project)}
    )
    diff = project.run("image", "diff", "--offline-profile", "pins:pins.toml", image)
    assert "the same: llvm, triton, triton_shared, spike, pk" in diff.out


@pytest.mark.parametrize("words", [["base", "v2"], ["base"], ["base={name}:v2", "spike=v1.1.0"]])
def test_what_a_dry_run_says_of_plan_can_be_run_as_it_stands(
    lab: Lab, tmp_path: Path, words: list[str]
) -> None:
    project = Project(tmp_path / "project", lab.project.env)
    subprocess.run(["cp", "-r", lab.project.root, project.root], check=True)
    publish(lab, "v2", "latest")
    named = [word.format(name=lab.name) for word in words]
    dry = project.run("bump", "--dry-run", *named)
    hint = re.search(r"^hint: `tnpu-nix (plan .*)` asks", dry.err, re.M)
    assert hint is not None, dry
    given = shlex.split(hint[1])
    if words == ["base", "v2"]:
        assert given == ["plan", "--bump", "base=v2", "--store", project.env["TNPU_NIX_STORE"]]
    done = project.run(*given, "--offline-profile")
    assert done.status == 0, done
    rebuilt = "spike, tnpu-image" if "spike" in str(words) else "tnpu-image"
    assert f"rebuilds {rebuilt}\n" in done.out


def back_hash(project: Project) -> str:
    base = pinsfile.load(project.pins).image.base
    assert base is not None
    return base.hash


def test_a_build_fetches_a_base_that_the_store_does_not_have(lab: Lab, tmp_path: Path) -> None:
    """Under its own digest, whatever the tag leads to by now."""
    project = Project(tmp_path / "project", lab.project.env)
    subprocess.run(["cp", "-r", lab.project.root, project.root], check=True)
    publish(lab, "v2", "v3")
    elsewhere = {"TNPU_NIX_STORE": str(tmp_path / "store")}
    assert project.run("bump", "base", "v3", env=elsewhere).status == 0
    publish(lab, "v1", "v3")
    done = project.run("build", "--offline-profile")
    assert done.status == 0, done
    assert f"fetching {lab.name}@{digest(lab, 'v2')}" in done.err
    found = altered.take_apart(Path(done.out.strip()))
    assert found.layers[:2] == lab.bases["v2"].layers

    text = project.pins.read_text()
    old = pinsfile.load(project.pins).image.base
    assert old is not None
    project.pins.write_text(text.replace(old.hash, f"sha256-{'A' * 43}="))
    assert project.run("generate").status == 0
    done = project.run("build", "--offline-profile")
    done.failed_with("image.base.hash in pins.toml is", f"has {old.hash}", "bump base")


def test_a_build_that_may_not_fetch_the_base_says_how_to_log_in(lab: Lab, tmp_path: Path) -> None:
    project = Project(tmp_path / "project", lab.project.env)
    subprocess.run(["cp", "-r", lab.project.root, project.root], check=True)
    # An archive that the store does not have.
    text = pinsfile.edit(project.pins.read_text(), {("image", "base", "tag"): "v5"})
    project.pins.write_text(text)
    assert project.run("generate").status == 0
    for wrong in ("/nonexistent", str(lab.hub.auth_file_for(lab.hub.host, "wrong"))):
        done = project.run("build", "--offline-profile", env={"REGISTRY_AUTH_FILE": wrong})
        done.failed_with("skopeo failed", f"`skopeo login {lab.hub.host}`", "TNPU_REGISTRY_USER")


def test_a_build_with_nixpkgs_fetches_a_base_that_needs_a_password(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """pullImage would have none. Of such a build only this part can be had here."""
    monkeypatch.setattr(credentials, "_host", None)
    toolchain, nix = pinsfile.load(lab.project.pins), Nix(tmp_path / "store")
    to_build = [f"/nix/store/{'a' * 32}-{lab.base.archive_name}.drv"]
    monkeypatch.setenv("REGISTRY_AUTH_FILE", str(tmp_path / "none"))
    assert not build.fetch_sources_of(to_build, toolchain, nix, print)
    monkeypatch.setenv("REGISTRY_AUTH_FILE", str(lab.hub.auth_file))
    assert build.fetch_sources_of(to_build, toolchain, nix, print)
    assert list((tmp_path / "store/nix/store").glob(f"*-{lab.base.archive_name}"))


def test_a_bump_that_fails_leaves_everything_as_it_was(
    lab: Lab, demo: Demo, tmp_path: Path
) -> None:
    project = demo.project(tmp_path / "project")
    before = project.files()
    project.run("bump", "base").failed_with("no [image.base]", "bump base host/name:tag")
    wrong = {"REGISTRY_AUTH_FILE": str(lab.hub.auth_file_for(lab.hub.host, "wrong"))}
    project.run("bump", "base", f"{lab.name}:v1", env=wrong).failed_with(lab.hub.host)
    right = {"REGISTRY_AUTH_FILE": str(lab.hub.auth_file)}
    absent = project.run("bump", "base", f"{lab.name}:absent", env=right)
    absent.failed_with("torchsim_base")
    project.run("bump", f"base={lab.name}:v1", "spike=nothing", env=right).failed_with("nothing")
    assert project.files() == before


def test_variables_give_skopeo_the_password_and_nobody_sees_it(
    lab: Lab, demo: Demo, tmp_path: Path
) -> None:
    project = demo.project(tmp_path / "project")
    entry = json.loads(lab.hub.auth_file.read_text())["auths"][lab.hub.host]["auth"]
    user, password = base64.b64decode(entry).decode().split(":", 1)
    env = {"TNPU_REGISTRY_USER": user, "TNPU_REGISTRY_PASSWORD": password, "HOME": str(tmp_path)}
    # A command that is killed now leaves what lies in the temporary folder while skopeo runs.
    temporary, seen = tmp_path / "tmp", tmp_path / "seen"
    shim = tmp_path / "bin" / "skopeo"
    shim.parent.mkdir()
    temporary.mkdir()
    shim.write_text(
        f"#!/bin/sh\necho ran >>{seen}\ngrep -rlFe {entry} -e {password} {temporary} >>{seen}\n"
        f'exec {shutil.which("skopeo")} "$@"\n'
    )
    shim.chmod(0o755)
    env |= {"TMPDIR": str(temporary), "PATH": f"{shim.parent}:{environment()['PATH']}"}
    done = project.run("bump", "base", f"{lab.name}:v1", env=env)
    assert done.status == 0, done
    written = b"".join(project.files().values())
    assert password not in done.out + done.err and password.encode() not in written
    assert set(seen.read_text().split()) == {"ran"}


def test_the_password_of_our_registry_is_not_that_of_the_base(
    lab: Lab, demo: Demo, tmp_path: Path
) -> None:
    project = demo.project(tmp_path / "project")
    changes = {("image", "registry"): "127.0.0.1:1/lab"}
    project.pins.write_text(pinsfile.edit(project.pins.read_text(), changes))
    assert project.run("generate").status == 0
    env = {"TNPU_REGISTRY_USER": "ours", "TNPU_REGISTRY_PASSWORD": "ours"}
    env["REGISTRY_AUTH_FILE"] = str(lab.hub.auth_file)
    done = project.run("bump", "base", f"{lab.name}:v1", env=env)
    assert done.status == 0, done
