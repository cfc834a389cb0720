"""The whole pipeline, offline: what the demo shows, and what the image holds."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.bench import members
from tests.conftest import Demo, Project, environment
from tnpu_nix import pinsfile
from tnpu_nix.flake import hostpkgs
from tnpu_nix.images import archive
from tnpu_nix.nix import Nix

# demo.folder
#   upstreams/   five bare git repositories, two commits each: tag v… <- main
#   project/     pins: spike moved from its tag to main by the demo, the others at main
#   store/       every build of these tests
TOOLS = (
    *("mlir-opt", "mlir-translate", "opt", "llc", "ld.lld", "triton-shared-opt"),
    *("python", "python3", "spike", "pk", "tnpu-doctor", "sh", "env"),
)


def built(project: Project, target: str = "tnpu-image") -> Path:
    done = project.run("build", target, "--offline-profile")
    assert done.status == 0, done.err
    return Path(done.out.strip())


@pytest.fixture(scope="session")
def image(demo: Demo, tmp_path_factory: pytest.TempPathFactory) -> archive.Archive:
    return archive.read(built(demo.project(tmp_path_factory.mktemp("image") / "project")))


@pytest.fixture(scope="session")
def pristine(image: archive.Archive, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The unpacked image; nothing is run in it, since Python leaves byte code where it runs."""
    folder = tmp_path_factory.mktemp("pristine")
    archive.unpack(image, folder)
    return folder


@pytest.fixture(scope="session")
def root(image: archive.Archive, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("root")
    archive.unpack(image, folder)
    return folder


def inside(root: Path, *command: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a command with an unpacked image as its whole world."""
    enter = [] if os.geteuid() == 0 else ["unshare", "--user", "--map-root-user"]
    given = [f"{name}={value}" for name, value in variables.items()]
    argv = [*enter, "chroot", str(root), "/bin/env", "-i", *given, *command]
    return subprocess.run(argv, capture_output=True, text=True)


def test_the_demo_says_that_its_contents_are_miniatures(demo: Demo) -> None:
    assert "MINIATURES" in demo.said.err


def test_the_demo_runs_every_tool_inside_the_image(demo: Demo) -> None:
    assert demo.said.out.count("tnpu-doctor: every tool of the pipeline works") == 2
    for tool in ("python3", "triton-shared-opt", "mlir-opt", "ld.lld", "kernel on spike"):
        assert re.search(rf"^ +{re.escape(tool)} +ok ", demo.said.out, re.M), demo.said.out


def test_the_demo_shows_what_a_bump_rebuilt_and_which_layers_changed(demo: Demo) -> None:
    match = re.search(r"layers: (\d+) of (\d+) are byte for byte as before", demo.said.out)
    assert match and int(match[1]) >= int(match[2]) // 2
    second = re.findall(r"^built \d+ derivations in [^:\n]+(?:: (.*))?$", demo.said.out, re.M)[-1]
    assert not re.search(r"\b(llvm|mlir|lld|triton|riscv-pk)-0", second or "")


def test_the_image_holds_the_pipelines_tools_and_links(root: Path) -> None:
    for tool in TOOLS:
        assert inside(root, "/bin/test", "-x", f"/bin/{tool}").returncode == 0, tool
    assert inside(root, "/workspace/mlir-env/bin/python3", "-c", "import triton").returncode == 0


def test_the_image_holds_nothing_of_the_build(pristine: Path) -> None:
    names = [path.name for path in pristine.rglob("*") if path.is_file() and not path.is_symlink()]
    assert not [name for name in names if name.endswith((".h", ".hpp", ".a", ".cmake"))]
    assert [name for name in names if name.endswith(".o")] == ["harness.o"]
    assert not [name for name in names if name.endswith((".c", ".cc", ".cpp"))]
    for compiler in ("gcc", "g++", "cc", "clang", "cc1", "as", "mlir-tblgen", "llvm-config"):
        assert compiler not in names


def test_every_elf_of_the_image_is_stripped_and_finds_its_libraries_in_it(pristine: Path) -> None:
    for path in (pristine / "nix" / "store").rglob("*"):
        if path.is_symlink() or not path.is_file() or path.read_bytes()[:4] != b"\x7fELF":
            continue
        read = subprocess.run(["readelf", "-S", "-d", str(path)], capture_output=True, text=True)
        assert ".debug_info" not in read.stdout, path
        for found in re.findall(r"Library r(?:un)?path: \[(.*)\]", read.stdout):
            for entry in filter(None, found.split(":")):
                assert entry.startswith(("/nix/store/", "$ORIGIN")), (path, entry)
                if entry.startswith("/nix"):
                    assert (pristine / entry.lstrip("/")).is_dir(), (path, entry)


def test_the_manifest_and_the_labels_say_what_the_pins_say(
    demo: Demo, root: Path, image: archive.Archive
) -> None:
    pins = dict(pinsfile.load(demo.folder / "project" / "pins.toml").pins.items())
    manifest = json.loads((root / "etc" / "tnpu" / "manifest.json").read_text())
    labels = image.config["config"]["Labels"]
    for name, pin in pins.items():
        assert manifest["pins"][name] == {
            "url": pin.url,
            "rev": pin.rev,
            "hash": pin.hash,
            "date": pin.date,
        }
        assert labels[f"tnpu.pin.{name}.revision"] == pin.rev
        assert labels[f"tnpu.pin.{name}.url"] == pin.url
    assert set(manifest["components"]) == {"llvm-tools", "pk", "python-env", "spike", "triton"}


def test_the_manifest_lists_the_store_paths_that_are_really_there(pristine: Path) -> None:
    manifest = json.loads((pristine / "etc" / "tnpu" / "manifest.json").read_text())
    listed = {Path(entry["path"]).name: entry["narHash"] for entry in manifest["storePaths"]}
    assert set(listed) == {path.name for path in (pristine / "nix" / "store").iterdir()}
    for name, nar_hash in listed.items():
        found = subprocess.run(
            ["nix-hash", "--type", "sha256", "--base32", str(pristine / "nix" / "store" / name)],
            env=environment(),
            capture_output=True,
            text=True,
        )
        assert nar_hash == f"sha256:{found.stdout.strip()}", name


def test_times_in_the_image_are_fixed(pristine: Path, image: archive.Archive) -> None:
    assert image.config["created"].startswith("1970-01-01T00:00:01")
    times = {path.lstat().st_mtime for path in pristine.rglob("*")}
    assert times <= {0.0, 1.0}


def test_the_image_builds_again_to_the_same_bytes(demo: Demo, image: archive.Archive) -> None:
    path = str(image.path).removeprefix(str(demo.store))
    checked = subprocess.run(
        ["nix-store", "--realise", "--check", path],
        env=environment(NIX_REMOTE=str(demo.store), NIX_CONFIG=offline_config()),
        capture_output=True,
        text=True,
    )
    assert checked.returncode == 0, checked.stderr


def offline_config() -> str:
    return (
        "sandbox = true\nsandbox-paths = /bin /usr /lib /lib64\nbuild-users-group =\nsubstituters ="
    )


def layer_of(image: archive.Archive) -> dict[str, str]:
    """Return store name (without hash) → diff id, of every layer that holds one store path."""
    found = {}
    names = members(image)
    for layer in image.layers:
        paths = {
            name.split("/")[2] for name in names[layer.member] if name.startswith("nix/store/")
        }
        if len(paths) == 1:
            found[paths.pop().split("-", 1)[1]] = layer.diff_id
    return found


@pytest.mark.parametrize(
    ("pin", "moved"),
    [("pk", "riscv-pk"), ("triton_shared", "triton"), ("spike", "spike-unwrapped")],
)
def test_a_move_of_one_pin_leaves_the_other_components_layers_as_they_are(
    demo: Demo, image: archive.Archive, tmp_path: Path, pin: str, moved: str
) -> None:
    project = demo.project(tmp_path / "project")
    url = pinsfile.load(project.pins).pins.named(pin).url
    tags = subprocess.run(["git", "ls-remote", "--tags", url], capture_output=True, text=True)
    tag = tags.stdout.split("refs/tags/")[1].split("\n")[0].removesuffix("^{}")
    assert project.run("bump", pin, tag).status == 0
    after = archive.read(built(project))
    before_layers, after_layers = layer_of(image), layer_of(after)

    def of(layers: dict[str, str], component: str) -> str:
        return next(layer for name, layer in layers.items() if component in name)

    assert of(before_layers, moved) != of(after_layers, moved)
    others = {"riscv-pk", "triton-0", "spike-unwrapped", "llvm-tools", "glibc", "bash", "dtc"}
    for other in others - {moved, f"{moved}-0"}:
        assert of(before_layers, other) == of(after_layers, other), other


def test_there_is_room_for_images_that_build_on_top(image: archive.Archive) -> None:
    assert len(image.layers) <= 64


def test_the_stream_gives_the_same_image(
    demo: Demo, image: archive.Archive, tmp_path: Path
) -> None:
    script = built(demo.project(tmp_path / "project"), "tnpu-image-stream")
    world, tar = tmp_path / "world", tmp_path / "stream.tar"
    mounts = f"""
      mkdir -p {world}; mount -t tmpfs tmpfs {world}; cd {world}
      mkdir nix bin usr lib lib64 tmp dev; mount --bind {demo.store}/nix nix
      for name in bin usr lib lib64 dev; do mount --rbind /$name $name; done
      chroot . {str(script).removeprefix(str(demo.store))} >{tar}
    """
    apart = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "-Urm"]
    subprocess.run([*apart, "bash", "-ec", mounts], check=True)
    streamed = archive.read(tar)
    assert [one.diff_id for one in streamed.layers] == [one.diff_id for one in image.layers]
    assert streamed.config == image.config


def test_the_image_is_pulled_from_a_signed_cache_without_a_build(
    demo: Demo, image: archive.Archive, tmp_path: Path
) -> None:
    """The third command of daily life, with the offline profile in nixpkgs' place."""
    mine = Nix(store=demo.store, offline_profile=True)
    secret, public = tmp_path / "secret", tmp_path / "public"
    key = ["nix-store", "--generate-binary-cache-key", "cache.example-1", str(secret), str(public)]
    subprocess.run(key, check=True, env=mine.environment())
    cache = tmp_path / "cache"
    path = str(image.path).removeprefix(str(demo.store))
    push = ["nix", "copy", "--to", f"file://{cache}?secret-key={secret}", path]
    subprocess.run(push, check=True, env=mine.environment())

    project = demo.project(tmp_path / "project")
    other = Nix(store=tmp_path / "store", offline_profile=True)
    argv = ["nix", "build", f"path:{project.root}#tnpu-image", "--no-link", "--max-jobs", "0"]
    argv += ["--override-input", "nixpkgs", f"path:{hostpkgs()}"]
    argv += ["--option", "substituters", f"file://{cache}"]
    without_key = subprocess.run(argv, env=other.environment(), capture_output=True, text=True)
    assert without_key.returncode != 0
    argv += ["--option", "extra-trusted-public-keys", public.read_text()]
    subprocess.run(argv, check=True, env=other.environment())
    assert other.on_disk(path).read_bytes() == image.path.read_bytes()


@pytest.mark.parametrize("broken", ["mlir-opt", "pk", "ld.lld", "triton-shared-opt"])
def test_the_doctor_names_what_fails(
    root: Path, image: archive.Archive, tmp_path: Path, broken: str
) -> None:
    """The image's programs on a PATH of our own, one of them replaced by one that fails."""
    tools = root / "tmp" / f"tools-{broken}"
    tools.mkdir()
    for tool in (root / "bin").iterdir():
        (tools / tool.name).symlink_to(f"/bin/{tool.name}")
    (tools / broken).unlink()
    (tools / broken).write_text("#!/bin/sh\necho broken on purpose >&2\nexit 3\n")
    (tools / broken).chmod(0o755)
    variables = {**image.environment, "PATH": f"/tmp/tools-{broken}"}
    done = inside(root, "/bin/tnpu-doctor", **variables)
    assert done.returncode == 1
    named = broken if broken != "pk" else "spike and pk"
    assert re.search(rf"^tnpu-doctor: failed: .*{re.escape(named)}", done.stderr, re.M)
    (tools / broken).unlink()
    done = inside(root, "/bin/tnpu-doctor", **variables)
    assert done.returncode == 1 and f"failed: {broken}" in done.stderr


def test_the_doctor_notices_a_missing_variable(root: Path, image: archive.Archive) -> None:
    for name in ("TRITON_SHARED_OPT_PATH", "LLVM_BINARY_DIR"):
        variables = {key: value for key, value in image.environment.items() if key != name}
        done = inside(root, "/bin/tnpu-doctor", **variables)
        assert done.returncode == 1
        assert name in done.stdout
        assert done.stderr == "tnpu-doctor: failed: environment\n"


def test_the_doctor_keeps_what_the_tools_made_where_it_is_told_to(
    root: Path, image: archive.Archive
) -> None:
    assert inside(root, "/bin/tnpu-doctor", "/tmp/kept", **image.environment).returncode == 0
    made = {path.name for path in (root / "tmp" / "kept").iterdir()}
    assert {"add.ttir", "add.linalg.mlir", "add.ll", "add.o", "add.elf"} < made
    assert inside(root, "/bin/tnpu-doctor", "--help", **image.environment).returncode == 2


def test_more_programs_come_into_the_image_by_name(demo: Demo, tmp_path: Path) -> None:
    project = demo.project(tmp_path / "project")
    text = project.pins.read_text()
    text = pinsfile.edit(text, {("image", "packages"): ["gnugrep", "findutils"]})
    project.pins.write_text(text)
    assert project.run("generate").status == 0
    folder = tmp_path / "root"
    archive.unpack(archive.read(built(project)), folder)
    assert inside(folder, "/bin/grep", "--version").returncode == 0
    assert inside(folder, "/bin/find", "--version").returncode == 0


def test_links_with_awkward_names_are_made_as_written(demo: Demo, tmp_path: Path) -> None:
    project = demo.project(tmp_path / "project")
    awkward = "/opt/a 'b' \"c\" $(id) ${x} ü"
    text = pinsfile.edit(project.pins.read_text(), {("image", "links", awkward): "pk"})
    project.pins.write_text(text)
    assert project.run("generate").status == 0
    folder = tmp_path / "root"
    archive.unpack(archive.read(built(project)), folder)
    assert (folder / awkward.lstrip("/")).is_symlink()
