"""`tnpu-nix image verify`: an image as it was built, in every form, and images altered by hand."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import altered
from tests.altered import Parts, file, one_byte, with_fields
from tests.conftest import Demo, environment
from tests.registry import Registry, registry, skopeo_program
from tests.verifying import Bench


@pytest.fixture(scope="module")
def bench(built_image: Bench, tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return built_image.apart(tmp_path_factory.mktemp("altered"))


@pytest.fixture(scope="module")
def layout(bench: Bench) -> Path:
    """The image as an OCI layout."""
    folder = bench.folder / "layout"
    copy = [*skopeo_program(), "--insecure-policy", "copy", "--quiet"]
    subprocess.run([*copy, f"docker-archive:{bench.tar}", f"oci:{folder}:lab"], check=True)
    return folder


@pytest.fixture(scope="module")
def hub(bench: Bench, layout: Path) -> Iterator[Registry]:
    """A registry behind a password that has the image as `lab/tnpu:lab`."""
    with registry(bench.folder / "registry") as made:
        argv = ["--insecure-policy", "copy", "--quiet", "--dest-tls-verify=false"]
        done = made.skopeo(*argv, f"oci:{layout}:lab", f"docker://{made.host}/lab/tnpu:lab")
        assert done.returncode == 0, done.stderr
        yield made


def test_the_image_as_it_was_built_is_what_the_pins_say(bench: Bench) -> None:
    done = bench.verify(bench.image)
    assert done.status == 0, done
    assert f"ok       {bench.image} is what the pins say: {bench.image_path}" in done.out
    assert "DIFFERS" not in done.out and "unproven" not in done.out


def test_an_oci_layout_of_it_is_too(bench: Bench, layout: Path) -> None:
    done = bench.verify(layout, "--json")
    assert done.status == 0, done
    verdict = json.loads(done.out)
    assert verdict["ok"] is True and verdict["findings"] == []
    index = json.loads((layout / "index.json").read_text())
    assert verdict["digest"] == index["manifests"][0]["digest"]
    assert set(verdict["proven"].values()) == {"the store"}
    named = json.loads((manifest_of(bench)).decode())["storePaths"]
    assert set(verdict["proven"]) == {entry["path"] for entry in named}


def manifest_of(bench: Bench) -> bytes:
    (found,) = [
        data
        for member, data in altered.unpacked(bench.parts.layers[-1])
        if member.name.endswith("etc/tnpu/manifest.json")
    ]
    return found


def test_it_is_proven_in_a_registry(bench: Bench, hub: Registry) -> None:
    reference = f"{hub.host}/lab/tnpu:lab"
    env = {"REGISTRY_AUTH_FILE": str(hub.auth_file)}
    assert bench.verify(reference, env=env).status == 0
    refused = bench.verify(f"docker://{hub.host}/lab/tnpu:absent", env=env)
    refused.failed_with("lab/tnpu", "absent")


def test_a_blob_of_the_registry_that_was_altered_is_refused(bench: Bench, layout: Path) -> None:
    """A byte of a compressed layer, in place: its digest no longer holds."""
    copy = bench.folder / "broken-layout"
    shutil.copytree(layout, copy)
    blob = max((copy / "blobs" / "sha256").iterdir(), key=lambda path: path.stat().st_size)
    data = bytearray(blob.read_bytes())
    data[-5] ^= 1  # in the check sum that gzip keeps at the end
    blob.write_bytes(data)
    bench.verify(copy).failed_with(blob.name)


def test_an_image_of_other_pins_is_refused_by_the_name_of_the_pin(
    bench: Bench, demo: Demo, tmp_path: Path
) -> None:
    other = demo.project(tmp_path / "project")
    url = other.pin("spike").url
    tags = subprocess.run(["git", "ls-remote", "--tags", url], capture_output=True, text=True)
    tag = tags.stdout.split("refs/tags/")[1].split("\n")[0].removesuffix("^{}")
    assert other.run("bump", "spike", tag).status == 0
    done = other.run("image", "verify", "--offline-profile", bench.image)
    old, new = bench.project.pin("spike").rev, other.pin("spike").rev
    done.failed_with("not what the pins say", "spike", f"has rev {old}, pins.toml has {new}")
    assert f"DIFFERS  pin: the label tnpu.pin.spike.revision is {old}" in done.out
    assert "spike-unwrapped" in done.out and "llvm-tools" not in done.out


def test_one_byte_in_one_file_is_refused_with_the_file(bench: Bench) -> None:
    path = bench.path("llvm-tools-0-unstable-2026-02-01/bin/llc")
    image = bench.alter(lambda parts: parts.change(path, one_byte))
    done = bench.verify(image)
    done.failed_with("is not what the pins say")
    store_path = "/" + path.removesuffix("/bin/llc")
    assert f"DIFFERS  store path: {store_path} has the NAR hash" in done.out
    assert f"DIFFERS  file: /{path} has other content" in done.out
    assert len([line for line in done.out.splitlines() if line.startswith("DIFFERS  file")]) == 1


def everything(bench: Bench, parts: Parts, root: str, doctor: str, extra: str) -> None:
    """Alter one file in each way that there is."""
    xattr = {"SCHILY.xattr.security.capability": "cap"}
    parts.change(bench.path("-host/bin/dtc"), with_fields(mode=0o4555))
    parts.change(f"{doctor}/share/tnpu-doctor/hello", with_fields(uid=1000))
    parts.change(f"{doctor}/share/tnpu-doctor/add.py", with_fields(mtime=7))
    parts.change(f"{doctor}/share/tnpu-doctor/harness.o", with_fields(pax_headers=xattr))
    parts.change(f"{root}/bin/pk", with_fields(linkname="/bin/evil"))
    parts.remove(f"{root}/bin/llc")
    parts.change("etc/passwd", one_byte)
    parts.change("tmp", with_fields(mode=0o777))
    parts.change("usr/bin/env", with_fields(linkname="/bin/evil"))
    parts.remove("bin/cat")
    parts.add(file("bin/evil", mode=0o555))
    parts.add(file("etc/ld.so.preload"))
    parts.add(file(extra))
    parts.add(file(f"{doctor}/share/more"))
    parts.add((altered.info("bin/hard", type=b"1", linkname="bin/evil"), b""))
    parts.add((altered.info("dev", 0o755, type=b"5"), b""))
    parts.add((altered.info("dev/mem", 0o666, type=b"3", devmajor=1, devminor=1), b""))


def test_every_kind_of_alteration_is_named(bench: Bench) -> None:
    """All in one image; each line names what was done to that file, and nothing else is named."""
    root = "/".join(bench.path("tnpu-image-root/bin/pk").split("/")[:3])
    doctor = "/".join(bench.path("tnpu-doctor/share/tnpu-doctor/add.py").split("/")[:3])
    extra = f"nix/store/{'a' * 32}-extra"
    image = bench.alter(lambda parts: everything(bench, parts, root, doctor, extra))
    found = bench.found(image)
    expected = {
        f"/{bench.path('-host/bin/dtc')}": "has mode 4555 instead of 555",
        f"/{doctor}/share/tnpu-doctor/hello": "belongs to 1000:0 instead of 0:0",
        f"/{doctor}/share/tnpu-doctor/add.py": "has the time 7 instead of 1",
        f"/{doctor}/share/tnpu-doctor/harness.o": "security.capability",
        f"/{root}/bin/pk": "leads to /bin/evil instead of /nix/store/",
        f"/{root}/bin/llc": "is missing",
        "/etc/passwd": "has other content",
        "/tmp": "has mode 777 instead of 1777",
        "/usr/bin/env": "leads to /bin/evil instead of",
        "/bin/cat": "is missing",
        "/bin/evil": "does not belong there: a file",
        "/etc/ld.so.preload": "does not belong there: a file",
        f"/{doctor}/share/more": "does not belong there",
        "/bin/hard": "does not belong there: a hard link",
        "/dev": "does not belong there",
        "/dev/mem": "does not belong there: a character device",
    }
    for path, words in expected.items():
        assert words in found.line("file", path)
    assert len(found.lines("file")) == len(expected), found.lines("file")
    assert found.line("store path", f"/{extra}").endswith("does not belong there")
    # What no NAR knows of leaves the hash as it is.
    assert {line.split()[0] for line in found.lines("store path")} == {
        f"/{one}" for one in (root, doctor, extra)
    }


def test_an_altered_file_with_an_altered_manifest_is_refused(bench: Bench) -> None:
    """The image says of the file just what it is; the pins say something else."""
    path = bench.path("riscv64-unknown-elf-0-unstable-2026-02-01/bin/pk")
    store_path = "/" + path.removesuffix("/bin/pk")

    def change(parts: Parts) -> None:
        parts.change(path, one_byte)
        members = altered.unpacked(parts.layers[parts.layer_with(path)])
        folder = bench.folder / "repacked"
        for member, data in members:
            place = folder / member.name
            if member.isdir():
                place.mkdir(parents=True, exist_ok=True)
            elif member.isreg():
                place.write_bytes(data)
                place.chmod(member.mode)
        argv = ["nix-hash", "--type", "sha256", "--base32", str(folder / store_path.lstrip("/"))]
        done = subprocess.run(argv, env=environment(), capture_output=True, text=True, check=True)
        manifest = json.loads(manifest_of(bench))
        entry = next(one for one in manifest["storePaths"] if one["path"] == store_path)
        entry["narHash"] = f"sha256:{done.stdout.strip()}"
        text = json.dumps(manifest, indent=2, sort_keys=True).encode() + b"\n"
        parts.change("etc/tnpu/manifest.json", lambda member: [(member[0], text)])

    found = bench.found(bench.alter(change))
    assert "NAR hash" in found.line("store path", store_path)
    assert {line.split()[0] for line in found.lines("file")} == {
        f"/{path}",
        "/etc/tnpu/manifest.json",
    }


def test_what_a_container_starts_with_is_compared(bench: Bench) -> None:
    def change(parts: Parts) -> None:
        parts.config["config"]["Labels"]["tnpu.pin.pk.revision"] = "f" * 40
        parts.config["config"]["Labels"]["tnpu.pin.mine.revision"] = "f" * 40
        parts.config["config"]["Env"].append("LD_PRELOAD=/tmp/x.so")
        parts.config["config"]["User"] = "1000"

    found = bench.found(bench.alter(change))
    assert any("tnpu.pin.pk.revision" in line for line in found.lines("pin"))
    assert any("tnpu.pin.mine.revision" in line for line in found.lines("pin"))
    said = "\n".join(found.lines("configuration"))
    assert "config -> User: 1000 instead of nothing" in said and "LD_PRELOAD" in said
    assert "file" not in found.kinds and "store path" not in found.kinds


def test_layers_in_another_order_and_layers_on_top_are_refused(bench: Bench) -> None:
    def swap(parts: Parts) -> None:
        parts.layers[0], parts.layers[1] = parts.layers[1], parts.layers[0]

    found = bench.found(bench.alter(swap))
    assert found.kinds == {"layer"}
    assert "in another order" in found.lines("layer")[0]

    pk = bench.path("riscv64-unknown-elf-0-unstable-2026-02-01/bin/pk")
    folder, name = pk.rsplit("/", 1)

    def cover(parts: Parts) -> None:
        whiteout = file(f"{folder}/.wh.{name}", b"")
        parts.add_layer(whiteout, file("etc/passwd", b"root::0:0::/:/bin/sh\n", 0o644))

    found = bench.found(bench.alter(cover))
    assert found.line("file", f"/{pk}").endswith("is missing")
    assert "has other content" in found.line("file", "/etc/passwd")
    assert "NAR hash" in found.line("store path", f"/{folder.removesuffix('/bin')}")


def test_what_hides_in_a_tar_is_found(bench: Bench) -> None:
    """Members of one name, members behind the end, and a digest that is not the layer's."""

    def change(parts: Parts) -> None:
        evil = altered.packed([file("bin/evil")])
        parts.add(file("etc/passwd", b"root::0:0::/:/bin/sh\n", 0o644))
        parts.layers[0] = parts.layers[0] + evil

    found = bench.found(bench.alter(change))
    said = "\n".join(found.lines("layer"))
    assert "layer 1: something follows the end of the archive" in said
    assert "/etc/passwd comes twice" in said
    assert "has other content" in found.line("file", "/etc/passwd")

    broken = bench.folder / "one-bit.tar"
    data = bytearray(bench.tar.read_bytes())
    at = data.index(b"#!/", 1 << 20)
    data[at + 1] ^= 1
    broken.write_bytes(data)
    found = bench.found(broken)
    assert any("configuration says" in line for line in found.lines("layer"))
    assert len(found.lines("store path")) == 1 and len(found.lines("file")) == 1


def test_what_is_no_image_is_said_to_be_none(bench: Bench, tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_text("no image\n")
    bench.verify(text).failed_with("no image archive")
    bench.verify(tmp_path).failed_with("no OCI layout")
    bench.verify(tmp_path / "absent").failed_with("there is no image")
    cut = tmp_path / "cut.tar"
    shutil.copy(bench.tar, cut)
    os.truncate(cut, 5_000_000)
    bench.verify(cut).failed_with("cut.tar")
