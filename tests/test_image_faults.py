"""Pushing to and pulling from registries that fail, and out of stores that are damaged."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.conftest import Demo, Ran, environment
from tests.nix import take
from tests.registry import PASSWORD, USER, answering
from tests.registry_lab import NAME, Lab, lab
from tnpu_nix.images import archive
from tnpu_nix.nix import Nix

__all__ = ["lab"]  # a fixture
_MIDDLE = 9_000_000  # bytes: in the demo's largest layer


def killed_in_the_middle(lab: Lab) -> threading.Event:
    """Have the registry die once so much has been sent; the event tells that it has."""
    dead = threading.Event()

    def die() -> None:
        lab.registry.die()
        dead.set()

    lab.wire.break_at, lab.wire.on_break = _MIDDLE, die
    return dead


def test_a_registry_that_dies_and_comes_back_gets_the_rest(lab: Lab) -> None:
    tag, dead = lab.tag(), killed_in_the_middle(lab)
    with ThreadPoolExecutor() as pool:
        push = pool.submit(lab.image, "push", "--offline-profile", "--json")
        assert dead.wait(60)
        time.sleep(1)
        lab.registry.start()
        done = push.result()
    assert done.status == 0, done.err
    assert "going on in 1 s where it stopped" in done.err
    found = json.loads(done.out)
    assert lab.registry.tags(NAME) == {tag}
    # What had arrived was not sent a second time, but for the layer that was cut off.
    assert lab.wire.sent < found["bytes_uploaded"] + _MIDDLE
    copied = lab.registry.skopeo(
        *("copy", "--src-tls-verify=false", f"docker://{lab.registry.host}/{NAME}:{tag}"),
        f"dir:{lab.registry.folder}/copy",
    )
    assert copied.returncode == 0, copied.stderr  # every layer is there and whole


def test_a_registry_that_stays_dead_is_one_error_and_no_tag(lab: Lab) -> None:
    tag, _dead = lab.tag(), killed_in_the_middle(lab)
    done = lab.image("push", "--offline-profile", "--retries", "1")
    done.failed_with(lab.wire.host)
    assert done.err.count("tnpu-nix: error:") == 1
    assert lab.registry.tags(NAME) == set()
    lab.registry.start()
    rest = json.loads(lab.made("push", "--json").out)["layers_uploaded"]
    found = lab.registry.skopeo(
        "inspect", "--tls-verify=false", f"docker://{lab.registry.host}/{NAME}:{tag}"
    )
    layers = len(json.loads(found.stdout)["Layers"])
    assert 0 < rest < layers  # the ones before the largest had arrived


@pytest.mark.parametrize("apart", [False, True], ids=["one folder", "two machines"])
def test_two_ensures_at_once_both_end_well(
    lab: Lab, demo: Demo, tmp_path: Path, apart: bool
) -> None:
    other = lab.project
    if apart:
        other = demo.project(tmp_path / "other")
        other.pins.write_bytes(lab.project.pins.read_bytes())
        other.env.update(lab.project.env)
    with ThreadPoolExecutor() as pool:
        arguments = ("image", "ensure", "--offline-profile", "--json")
        both = [pool.submit(one.run, *arguments) for one in (lab.project, other)]
        done = [one.result() for one in both]
    assert [one.status for one in done] == [0, 0], done
    found = [json.loads(one.out) for one in done]
    assert found[0]["digest"] == found[1]["digest"]
    if not apart:
        assert sorted(one["action"] for one in found) == ["present", "pushed"]
    assert lab.made("ensure").err.endswith("nothing was built or pushed\n")


def asked(lab: Lab, host: str, verb: str, **variables: str) -> Ran:
    """Run a command on another registry's image; it fails within the time-out."""
    option = "--from" if verb == "pull" else "--to"
    arguments = (
        "--offline-profile",
        option,
        f"{host}/{NAME}",
        "--timeout",
        "0.7",
        "--retries",
        "1",
    )
    return lab.image(verb, *arguments, **variables)


@pytest.mark.parametrize("verb", ["ensure", "push", "pull"])
@pytest.mark.parametrize(
    ("status", "words"),
    [
        (403, "denies the right to"),
        (500, "is in trouble: it answered with status 500"),
        (None, "gave no answer within 0.7 seconds"),
    ],
)
def test_a_registry_that_refuses_is_one_clear_error(
    lab: Lab, verb: str, status: int | None, words: str
) -> None:
    with answering(status) as server:
        asked(lab, server.host, verb).failed_with(server.host, words)


def test_what_is_not_there_is_named(lab: Lab) -> None:
    done = asked(lab, lab.wire.host, "pull")
    done.failed_with(f"has no manifest {lab.tag()} of {NAME}", "image ensure")
    with answering(404) as server:
        asked(lab, server.host, "push").failed_with(f"knows no repository {NAME}")


def test_no_credentials_and_wrong_ones_are_told_apart(lab: Lab) -> None:
    for verb in ("ensure", "push", "pull"):
        done = asked(lab, lab.wire.host, verb, REGISTRY_AUTH_FILE="/nonexistent")
        done.failed_with("wants a user and password", "docker login", "TNPU_REGISTRY_USER")
        wrong = lab.registry.auth_file_for(lab.wire.host, "wrong")
        done = asked(lab, lab.wire.host, verb, REGISTRY_AUTH_FILE=str(wrong))
        done.failed_with("does not take the credentials", "'lab'", str(wrong))
    assert lab.registry.blobs() == set()


def test_a_broken_auth_file_is_named_and_not_shown(lab: Lab, tmp_path: Path) -> None:
    broken = tmp_path / "auth.json"
    broken.write_text('{"auths": {"secret-thing')
    done = asked(lab, lab.wire.host, "push", REGISTRY_AUTH_FILE=str(broken))
    done.failed_with(str(broken), "is no JSON")
    assert "secret-thing" not in done.err


def test_without_network_a_pull_leaves_nothing_behind(lab: Lab, tmp_path: Path) -> None:
    lab.made("push")
    target = tmp_path / "target"
    target.mkdir()
    argv = [sys.executable, "-m", "tnpu_nix", "image", "pull", "--offline-profile"]
    argv += ["--retries", "0", "--to", str(target / "image.tar")]
    apart = ["unshare", "--net"] if os.geteuid() == 0 else ["unshare", "--user", "--net", "-r"]
    done = subprocess.run(
        [*apart, *argv],
        cwd=lab.project.root,
        env=environment(**lab.project.env),
        capture_output=True,
        text=True,
    )
    Ran(done.returncode, done.stdout, done.stderr).failed_with(lab.wire.host, "the network")
    assert list(target.iterdir()) == []


def test_a_pull_that_breaks_goes_on_where_it_broke(lab: Lab, tmp_path: Path) -> None:
    lab.made("push")
    lab.wire.sent = lab.wire.received = 0
    lab.wire.break_at = _MIDDLE
    file = tmp_path / "image.tar"
    done = lab.image("pull", "--offline-profile", "--to", str(file), "--json")
    assert done.status == 0, done.err
    assert lab.wire.break_at is None
    found = json.loads(done.out)
    assert lab.wire.received < found["bytes_downloaded"] + 2_000_000
    archive.unpack(archive.read(file), tmp_path / "root")


def test_a_pull_that_stays_broken_leaves_the_old_file(lab: Lab, tmp_path: Path) -> None:
    lab.made("push")
    file = tmp_path / "image.tar"
    file.write_text("old")
    lab.wire.sent = lab.wire.received = 0
    lab.wire.break_at, lab.wire.on_break = _MIDDLE, lab.registry.die
    done = lab.image("pull", "--offline-profile", "--to", str(file), "--retries", "1")
    done.failed_with(lab.wire.host)
    assert file.read_text() == "old"
    assert not list(tmp_path.glob("*.part")) and not list(tmp_path.glob(".*.part"))


def test_what_a_killed_pull_left_goes_with_the_next_into_that_file(
    lab: Lab, tmp_path: Path
) -> None:
    lab.made("push")
    file, runs = tmp_path / "image.tar", tmp_path / ".image.tar.1.part"
    words = ("image", "pull", "--offline-profile", "--to", str(file))
    lab.wire.sent = lab.wire.received = 0
    with runs.open("w") as other:
        fcntl.flock(other, fcntl.LOCK_SH)  # that of a pull that runs
        argv = [sys.executable, "-m", "tnpu_nix", *words]
        running = subprocess.Popen(
            argv, cwd=lab.project.root, env=environment(**lab.project.env), stderr=subprocess.PIPE
        )
        lab.wire.break_at, lab.wire.on_break = _MIDDLE, running.kill
        running.communicate()
        left = tmp_path / f".image.tar.{running.pid}.part"
        assert left.stat().st_size > 0 and not file.exists()
        assert lab.project.run(*words).status == 0
        assert not left.exists() and runs.exists()
    assert lab.project.run(*words).status == 0
    assert not list(tmp_path.glob(".*.part"))


def test_a_damaged_layer_is_noticed(lab: Lab, tmp_path: Path) -> None:
    lab.made("push")
    blobs = (lab.registry.folder / "data/docker/registry/v2/blobs").glob("sha256/*/*/data")
    largest = max(blobs, key=lambda path: path.stat().st_size)
    with largest.open("r+b") as data:
        data.seek(1_000_000)
        data.write(b"damaged")
    done = lab.image("pull", "--offline-profile", "--to", str(tmp_path / "image.tar"))
    done.failed_with("push")
    assert not (tmp_path / "image.tar").exists()


def own_store(lab: Lab, demo: Demo, tmp_path: Path) -> tuple[Path, Nix]:
    """Give the lab a store of its own, to be damaged."""
    store = tmp_path / "store"
    nix = Nix(store=store, offline_profile=True)
    take(lab.project, nix, demo.store, "tnpu-image-stream")
    lab.project.env["TNPU_NIX_STORE"] = str(store)
    return store, nix


def streamed(lab: Lab, nix: Nix, name: str) -> str:
    """The store path of that name that the image is streamed from."""
    script = Path(lab.project.run("build", "tnpu-image-stream", "--offline-profile").out.strip())
    assert nix.store is not None
    query = ["nix-store", "--query", "--requisites", "/" + str(script.relative_to(nix.store))]
    closure = subprocess.run(query, env=nix.environment(), capture_output=True, text=True)
    return next(path for path in closure.stdout.split() if name in path)


def test_a_store_path_that_is_gone_is_named_and_made_anew(
    lab: Lab, demo: Demo, tmp_path: Path
) -> None:
    store, nix = own_store(lab, demo, tmp_path)
    gone = streamed(lab, nix, "spike-unwrapped")
    subprocess.run(["chmod", "-R", "u+w", f"{store}{gone}"], check=True)
    subprocess.run(["rm", "-r", f"{store}{gone}"], check=True)

    done = lab.made("push", "--json")
    assert f"{gone} is gone from the disk" in done.err
    assert json.loads(done.out)["action"] == "built"
    assert lab.registry.tags(NAME) == {lab.tag()}


def test_a_store_path_that_was_altered_is_named_and_nothing_is_tagged(
    lab: Lab, demo: Demo, tmp_path: Path
) -> None:
    """A byte on the disk, where Nix does not look: the image would be another under the tag."""
    store, nix = own_store(lab, demo, tmp_path)
    path = streamed(lab, nix, "-riscv-pk-")
    victim = next(Path(f"{store}{path}").rglob("pk"))
    victim.chmod(0o644)
    data = bytearray(victim.read_bytes())
    data[-1] ^= 1
    victim.write_bytes(data)
    for verb in ("push", "ensure"):
        lab.image(verb, "--offline-profile").failed_with("altered on the disk", path, "tagged")
        assert lab.registry.tags(NAME) == set()
    data[-1] ^= 1
    victim.write_bytes(data)
    victim.chmod(0o555)
    lab.made("ensure")
    assert lab.registry.tags(NAME) == {lab.tag()}


def test_a_folder_that_cannot_be_written_is_named(lab: Lab, tmp_path: Path) -> None:
    lab.made("push")
    target = str(tmp_path / "missing" / "image.tar")
    lab.image("pull", "--offline-profile", "--to", target).failed_with(target)


def test_no_password_is_in_any_error(lab: Lab) -> None:
    lab.registry.die()
    done = lab.project.run("--debug", "image", "push", "--offline-profile", "--retries", "0")
    assert done.status == 1
    assert PASSWORD not in done.err + done.out
    named = f"https://{USER}:{PASSWORD}@registry.example/{NAME}"
    done = lab.image("push", "--offline-profile", "--to", named)
    done.failed_with("is no image reference")
    assert PASSWORD not in done.err
