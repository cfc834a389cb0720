"""What `tnpu-nix image verify` takes for a proof: the store, its database, signed caches."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.altered import Parts, one_byte, with_fields
from tests.conftest import environment
from tests.verifying import Bench
from tnpu_nix.nix import Nix


@pytest.fixture(scope="module")
def bench(built_image: Bench, tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return built_image.apart(tmp_path_factory.mktemp("proof"))


@pytest.fixture(scope="module")
def own_store(bench: Bench) -> Path:
    """A store that has what the image is made of, and not the image."""
    store = bench.folder / "store"
    root = bench.path("tnpu-image-root/bin/pk").split("/")[2]
    nix_copy(bench, "--to", str(store), "--no-check-sigs", f"/nix/store/{root}")
    return store


def nix_copy(bench: Bench, *arguments: str) -> None:
    nix = Nix(store=Path(bench.project.env["TNPU_NIX_STORE"]), offline_profile=True)
    argv = ["nix", "copy", *arguments]
    done = subprocess.run(argv, env=environment(**nix.variables()), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_without_the_built_image_the_store_paths_are_proven_and_the_rest_is_said_not_to_be(
    bench: Bench, own_store: Path
) -> None:
    env = {"TNPU_NIX_STORE": str(own_store)}
    found = bench.found(bench.tar, env=env)
    assert found.kinds == {"unproven"}
    assert set(found.verdict["proven"].values()) == {"the store"}
    assert len(found.verdict["proven"]) == 13
    found.said.failed_with("could be proven", bench.image_path, "--from")

    path = bench.path("-host/bin/dtc")
    store_path = "/" + path.removesuffix("/bin/dtc")
    alteration = bench.alter(lambda parts: parts.change(path, one_byte))
    assert "has other content" in bench.found(alteration, env=env).line("file", f"/{path}")
    # Deleted behind Nix's back: the database still knows the hash, if not which file it is.
    gone = own_store / store_path.lstrip("/")
    subprocess.run(["chmod", "-R", "u+w", str(gone)], check=True)
    shutil.rmtree(gone)
    found = bench.found(alteration, env=env)
    assert "NAR hash" in found.line("store path", store_path)
    assert found.lines("file") == []
    assert bench.found(bench.tar, env=env).kinds == {"unproven"}


def test_what_a_push_leaves_in_the_store_proves_an_image_too(bench: Bench, tmp_path: Path) -> None:
    """Without the archive, but with the program that streams the image."""
    built = bench.project.run("build", "tnpu-image-stream", "--offline-profile")
    assert built.status == 0, built
    script = f"/nix/store/{Path(built.out.strip()).name}"
    store = tmp_path / "store"
    nix_copy(bench, "--to", str(store), "--no-check-sigs", script)
    env = {"TNPU_NIX_STORE": str(store)}
    done = bench.verify(bench.tar, env=env)
    assert done.status == 0, done
    image = bench.alter(lambda parts: parts.change("etc/passwd", one_byte))
    assert "has other content" in bench.found(image, env=env).line("file", "/etc/passwd")

    path = bench.path("-host/bin/dtc")
    victim = store / path
    victim.chmod(0o644)
    victim.write_bytes(b"altered in the store\n")
    done = bench.verify(bench.tar, env=env)
    done.failed_with("could be proven", "the store lacks something of", "or it was altered")


def test_a_setuid_bit_and_an_owner_are_seen_without_the_built_image(
    bench: Bench, own_store: Path
) -> None:
    path = bench.path("unstable-2026-02-01/bin/spike")

    def change(parts: Parts) -> None:
        parts.change(path, with_fields(mode=0o4555, gid=5))

    found = bench.found(bench.alter(change), env={"TNPU_NIX_STORE": str(own_store)})
    said = "\n".join(found.lines("file"))
    assert f"/{path} is a file of mode 4555" in said and "belongs to 0:5" in said


def test_a_signed_cache_proves_what_the_store_does_not_have(bench: Bench, tmp_path: Path) -> None:
    secret, public = tmp_path / "secret", tmp_path / "public"
    key = ["nix-store", "--generate-binary-cache-key", "lab-1", str(secret), str(public)]
    subprocess.run(key, check=True, env=environment())
    cache = tmp_path / "cache"
    root = "/nix/store/" + bench.path("tnpu-image-root/bin/pk").split("/")[2]
    nix_copy(bench, "--to", f"file://{cache}?compression=none&secret-key={secret}", root)

    url, empty = f"file://{cache}", {"TNPU_NIX_STORE": str(tmp_path / "store")}
    untrusted = bench.found(bench.tar, "--from", url, env=empty)
    assert untrusted.verdict["proven"] == {}
    trusted = empty | {"NIX_CONFIG": f"extra-trusted-public-keys = {public.read_text()}"}
    found = bench.found(bench.tar, "--from", url, env=trusted)
    assert set(found.verdict["proven"].values()) == {url} and len(found.verdict["proven"]) == 13
    assert found.kinds == {"unproven"}

    to = f"file://{cache}?compression=none&secret-key={secret}"
    nix_copy(bench, "--to", to, bench.image_path)
    done = bench.verify(bench.tar, "--from", url, env=trusted)
    assert done.status == 0, done


def test_a_store_whose_own_image_was_altered_proves_nothing(bench: Bench, tmp_path: Path) -> None:
    store = tmp_path / "store"
    nix_copy(bench, "--to", str(store), "--no-check-sigs", bench.image_path)
    mine = store / bench.image_path.lstrip("/")
    mine.chmod(0o644)
    with mine.open("r+b") as file_:
        file_.seek(4)
        file_.write(b"\x01")
    done = bench.verify(bench.tar, env={"TNPU_NIX_STORE": str(store)})
    done.failed_with("damaged", bench.image_path)
