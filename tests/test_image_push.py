"""`tnpu-nix image tag`, `ensure`, `push` and `pull` against Debian's registry."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import uuid
from pathlib import Path

import pytest

from tests.conftest import Demo, environment
from tests.registry import PASSWORD, USER
from tests.registry_lab import NAME, Lab, lab
from tnpu_nix import pinsfile, process
from tnpu_nix.images import archive
from tnpu_nix.images import push as image_push
from tnpu_nix.nix import Nix

__all__ = ["lab"]  # a fixture


@pytest.fixture(scope="session")
def built(demo: Demo, tmp_path_factory: pytest.TempPathFactory) -> archive.Archive:
    project = demo.project(tmp_path_factory.mktemp("built") / "project")
    done = project.run("build", "--offline-profile")
    assert done.status == 0, done.err
    return archive.read(Path(done.out.strip()))


def test_the_tag_is_that_of_the_built_image_and_needs_no_build(
    demo: Demo, built: archive.Archive, tmp_path: Path
) -> None:
    project = demo.project(tmp_path / "elsewhere")
    env = {"TNPU_NIX_STORE": str(tmp_path / "empty-store")}
    done = project.run("image", "tag", "--offline-profile", env=env)
    assert done.status == 0, done.err
    assert built.tag == f"tnpu-demo:{done.out.strip()}"
    made = {path.name for path in (tmp_path / "empty-store/nix/store").iterdir()}
    assert not [name for name in made if re.search(r"(conf\.json|stream-tnpu-demo)$", name)]


def test_another_pin_gives_another_tag_and_another_way_back_the_same(lab: Lab) -> None:
    before, text = lab.tag(), lab.project.pins.read_text()
    lab.project.pins.write_text(pinsfile.edit(text, {("image", "packages"): ["gnugrep"]}))
    stale = lab.image("tag", "--offline-profile")
    stale.failed_with("not as pins.toml says", "tnpu-nix generate")
    assert lab.project.run("generate").status == 0
    assert lab.tag() != before
    lab.project.pins.write_text(text)
    assert lab.project.run("generate").status == 0
    assert lab.tag() == before


def test_ensure_pushes_what_is_lacking_and_then_finds_it(lab: Lab, tmp_path: Path) -> None:
    output = tmp_path / "github"
    output.write_text("earlier=line\n")
    asked = json.loads(lab.made("ensure", "--dry-run", "--json").out)
    assert (asked["action"], asked["digest"]) == ("absent", "")
    assert lab.registry.tags(NAME) == set() == lab.registry.blobs()
    first = lab.image("ensure", "--offline-profile", "--github-output", GITHUB_OUTPUT=str(output))
    assert first.status == 0, first.err
    image = f"{lab.repository}:{lab.tag()}"
    assert first.out == f"{image}\n"
    assert "pushed 1" in first.err
    values = dict(line.split("=", 1) for line in output.read_text().splitlines())
    assert values["image"] == image and values["action"] == "pushed" and values["earlier"]

    size = lab.sent_by("ensure", "--json")
    assert size < 4096  # questions only
    found = json.loads(lab.made("ensure", "--json").out)
    assert (found["action"], found["digest"]) == ("present", values["digest"])


def test_without_a_file_for_githubs_outputs_nothing_is_begun(lab: Lab) -> None:
    done = lab.image("ensure", "--offline-profile", "--github-output", GITHUB_OUTPUT="")
    done.failed_with("GITHUB_OUTPUT", "--json")
    assert lab.wire.sent == 0


@pytest.mark.parametrize("verb", ["ensure", "push", "tag"])
def test_a_file_for_githubs_outputs_that_cannot_be_written_is_noticed_first(
    lab: Lab, tmp_path: Path, verb: str
) -> None:
    for place in (tmp_path, tmp_path / "none" / "output"):
        done = lab.image(verb, "--offline-profile", "--github-output", GITHUB_OUTPUT=str(place))
        done.failed_with(f"{place}, which the variable GITHUB_OUTPUT names, cannot be written")
    assert lab.wire.sent == 0
    assert not (lab.project.root / ".tnpu-nix" / "push.lock").exists()


def test_a_full_disk_is_said_after_the_push_too(lab: Lab) -> None:
    done = lab.image("ensure", "--offline-profile", "--github-output", GITHUB_OUTPUT="/dev/full")
    done.failed_with("/dev/full", "No space left on device")
    assert lab.registry.tags(NAME) == {lab.tag()}


def test_skopeo_finds_the_image_that_was_built(lab: Lab, built: archive.Archive) -> None:
    lab.made("push")
    found = lab.registry.skopeo(
        *("inspect", "--tls-verify=false", "--config"),
        f"docker://{lab.registry.host}/{NAME}:{lab.tag()}",
    )
    assert json.loads(found.stdout) == built.config


def test_a_pull_gives_the_image_that_was_built(
    lab: Lab, built: archive.Archive, tmp_path: Path
) -> None:
    lab.made("push")
    file = tmp_path / "pulled.tar"
    done = lab.image("pull", "--offline-profile", "--to", str(file))
    assert done.out == f"{file}\n"
    pulled = archive.read(file)
    assert pulled.config == built.config
    assert pulled.layers == built.layers  # names, sizes and hashes
    archive.unpack(pulled, tmp_path / "root")
    assert (tmp_path / "root/etc/tnpu/manifest.json").is_file()
    read = subprocess.run(
        ["skopeo", "inspect", f"docker-archive:{file}"], capture_output=True, text=True
    )
    assert read.returncode == 0, read.stderr


def test_only_what_the_registry_lacks_is_uploaded(lab: Lab) -> None:
    everything = lab.sent_by("push")
    again = json.loads(lab.made("push", "--to", f"{lab.repository}:again", "--json").out)
    assert again["layers_uploaded"] == 0
    lab.forget()  # then the images that are there tell
    assert lab.sent_by("push", "--to", f"{lab.repository}:elsewhere") < 20_000

    url = pinsfile.load(lab.project.pins).pins.spike.url
    tags = subprocess.run(["git", "ls-remote", "--tags", url], capture_output=True, text=True)
    older = re.search(r"refs/tags/([^\s^]+)", tags.stdout)
    assert older is not None
    assert lab.project.run("bump", "spike", older[1]).status == 0
    assert lab.sent_by("ensure") < everything / 20


def test_what_is_said_to_be_uploaded_is_what_went_over_the_wire(lab: Lab) -> None:
    """Where no image tells, a small layer is asked for, and a large one is sent once more."""

    def push() -> tuple[int, int]:
        before = lab.wire.sent
        said = json.loads(lab.made("push", "--json").out)
        sent = lab.wire.sent - before
        # The rest is requests, the configuration and the manifest.
        assert said["bytes_uploaded"] <= sent < said["bytes_uploaded"] + 100_000
        return said["layers_uploaded"], said["bytes_uploaded"]

    layers, size = push()
    lab.forget()
    repository = lab.registry.folder / f"data/docker/registry/v2/repositories/{NAME}"
    shutil.rmtree(repository / "_manifests")
    again, again_size = push()
    assert 0 < again < layers and 0 < again_size < size
    # Of the layers, those that are larger than what goes in one request.
    blobs = [
        blob.stat().st_size for blob in lab.registry.folder.rglob("data/docker/**/sha256/*/*/data")
    ]
    assert again == sum(1 for blob in blobs if blob > 4 << 20)


def test_layers_that_another_program_pushed_are_used(lab: Lab, built: archive.Archive) -> None:
    copied = lab.registry.skopeo(
        "copy",
        "--dest-tls-verify=false",
        f"docker-archive:{_plain(built, lab)}",
        f"docker://{lab.registry.host}/{NAME}:by-skopeo",
    )
    assert copied.returncode == 0, copied.stderr
    assert json.loads(lab.made("push", "--json").out)["layers_uploaded"] == 0


def _plain(built: archive.Archive, lab: Lab) -> Path:
    """The image as skopeo of Debian 12 reads it: not compressed as a whole."""
    file = lab.registry.folder / "image.tar"
    with file.open("wb") as out:
        subprocess.run(["gzip", "-dc", str(built.path)], stdout=out, check=True)
    return file


def test_the_same_image_has_the_same_digest_wherever_it_is_pushed(lab: Lab) -> None:
    one = json.loads(lab.made("push", "--json").out)["digest"]
    lab.forget()
    other = lab.made("push", "--json", "--to", f"{lab.wire.host}/other/name")
    assert json.loads(other.out)["digest"] == one


def test_the_image_comes_from_the_binary_cache_where_that_has_it(
    demo: Demo, lab: Lab, tmp_path: Path
) -> None:
    mine = Nix(store=demo.store, offline_profile=True)
    secret, public = tmp_path / "secret", tmp_path / "public"
    key = ["nix-store", "--generate-binary-cache-key", "cache.example-1", str(secret), str(public)]
    subprocess.run(key, check=True, env=mine.environment())
    done = lab.project.run("build", "tnpu-image-stream", "--offline-profile")
    path = done.out.strip().removeprefix(str(demo.store))
    copy = [
        "nix",
        "copy",
        "--to",
        f"file://{tmp_path}/cache?compression=none&secret-key={secret}",
        path,
    ]
    subprocess.run(copy, check=True, env=mine.environment(), capture_output=True)

    cache = {
        ("cache", "substituters"): [f"file://{tmp_path}/cache"],
        ("cache", "public-keys"): [public.read_text().strip()],
    }
    lab.project.pins.write_text(pinsfile.edit(lab.project.pins.read_text(), cache))
    assert lab.project.run("generate").status == 0
    lab.project.env["TNPU_NIX_STORE"] = str(tmp_path / "fresh-store")
    found = json.loads(lab.made("ensure", "--json").out)
    assert (found["action"], found["built"]) == ("pulled", [])
    assert any("llvm-tools" in name for name in found["fetched"])


def test_what_has_to_be_built_is_said_to_be_built(lab: Lab) -> None:
    new = ("image", "links", f"/opt/{uuid.uuid4()}")  # the demo's store keeps what tests built
    lab.project.pins.write_text(pinsfile.edit(lab.project.pins.read_text(), {new: "pk"}))
    assert lab.project.run("generate").status == 0
    found = json.loads(lab.made("ensure", "--json").out)
    assert found["action"] == "built"
    assert any("image-root" in name for name in found["built"])
    assert lab.image("ensure", "--offline-profile").err.endswith("nothing was built or pushed\n")


def test_credentials_come_from_variables_too_and_appear_nowhere(lab: Lab) -> None:
    variables = {"TNPU_REGISTRY_USER": USER, "TNPU_REGISTRY_PASSWORD": PASSWORD}
    lab.project.env["REGISTRY_AUTH_FILE"] = "/nonexistent"
    done = lab.project.run("--debug", "image", "push", "--offline-profile", env=variables)
    assert done.status == 0, done.err
    kept = b"".join(
        path.read_bytes() for path in (lab.project.root / ".tnpu-nix").rglob("*") if path.is_file()
    )
    assert PASSWORD not in done.out + done.err and PASSWORD.encode() not in kept


def test_a_terminal_gets_a_bar_and_a_pipe_gets_lines(lab: Lab) -> None:
    plain = lab.made("push")
    size = r"\d+\.\d [KM]iB"
    assert re.search(rf"^layer \d+ pushed: {size}, {size} on the wire, {size}/s$", plain.err, re.M)
    assert "\x1b" not in plain.err
    command = f"tnpu-nix image push --offline-profile --to {lab.repository}2"
    done = subprocess.run(
        ["script", "--quiet", "--return", "--command", command, "/dev/null"],
        cwd=lab.project.root,
        env=environment(**lab.project.env, TERM="xterm", COLUMNS="150"),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout
    assert re.search(r"layer \d+ [0-9a-f]{12}", done.stdout) and "\x1b[" in done.stdout


def test_in_a_store_of_its_own_the_stream_finds_its_interpreter(
    demo: Demo, built: archive.Archive, tmp_path: Path
) -> None:
    """As without the offline profile, where the program begins with a path in /nix/store."""
    done = demo.project(tmp_path / "project").run("build", "tnpu-image-stream", "--offline-profile")
    nix = Nix(store=demo.store)
    argv = image_push.command_for(Path(done.out.strip()), nix)
    file = tmp_path / "image.tar"
    with file.open("wb") as out, process.stream_stdout(argv, env=nix.environment()) as stream:
        shutil.copyfileobj(stream, out)
    assert archive.read(file).config == built.config
