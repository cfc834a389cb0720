"""A project whose image lies upon another one, and a registry that has such bases."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests import altered
from tests.altered import Parts, file
from tests.conftest import Demo, Project, environment
from tests.registry import Registry, registry
from tests.verifying import Found
from tnpu_nix import pinsfile
from tnpu_nix.nix import Nix
from tnpu_nix.pins import Base


@dataclass
class Lab:
    """A project, and a registry behind a password that has two base images."""

    project: Project
    hub: Registry
    bases: dict[str, Parts]  # tag → image
    folder: Path
    images: set[str] = field(default_factory=set)  # store paths of what was built

    @property
    def name(self) -> str:
        return f"{self.hub.host}/lab/torchsim_base"

    @property
    def base(self) -> Base:
        found = pinsfile.load(self.project.pins).image.base
        assert found is not None
        return found

    @property
    def store(self) -> Path:
        return Path(self.project.env["TNPU_NIX_STORE"])

    def build(self) -> Path:
        done = self.project.run("build", "--offline-profile")
        assert done.status == 0, done
        image = Path(done.out.strip())
        self.images.add(f"/nix/store/{image.name}")
        return image


def base_image(text: str) -> Parts:
    """A small base as distributions have them: /bin leads to usr/bin, there are users.

    Nothing that a base may have is strange: a folder twice, and files below the store that are no
    store paths, or none that a NAR could hold.
    """
    link = altered.info("bin", 0o777, type=b"2", linkname="usr/bin"), b""
    folders = [
        (altered.info(name, 0o755, type=b"5"), b"")
        for name in ("etc", "home", "tmp", "usr", "usr/bin")
    ]
    passwd = file("etc/passwd", b"root:x:0:0::/root:/bin/sh\nlab:x:1000:1000::/home:/bin/sh\n")
    own = f"nix/store/{'b' * 32}-own"
    odd = [
        file("nix/store/foo"),
        file(f"{own}-file", mode=0o600),
        (altered.info(own, 0o755, type=b"5"), b""),
        (altered.info(f"{own}/fifo", type=b"6"), b""),
    ]
    config = {
        "created": "2026-01-01T00:00:00Z",
        "architecture": "amd64",
        "os": "linux",
        "config": {"Env": ["PATH=/usr/bin", "TORCH_HOME=/opt/torch"]},
        "rootfs": {"type": "layers", "diff_ids": []},
        "history": [{"created": "2026-01-01T00:00:00Z", "comment": "base"}] * 2,
    }
    made = Parts(config, "lab/torchsim_base:1")
    made.layers = [
        altered.packed([*folders, folders[-1], link, passwd, *odd]),
        altered.packed([file("usr/bin/torch", text.encode(), 0o755)]),
    ]
    return made


@pytest.fixture(scope="module")
def lab(demo: Demo, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    folder = tmp_path_factory.mktemp("base")
    bases = {tag: base_image(f"torch {tag}\n") for tag in ("v1", "v2")}
    with registry(folder / "registry") as hub:
        project = demo.project(folder / "project")
        project.env["REGISTRY_AUTH_FILE"] = str(hub.auth_file)
        made = Lab(project, hub, bases, folder)
        for tag in bases:
            publish(made, tag, tag)
        publish(made, "v1", "latest")
        done = project.run("bump", "base", f"{made.name}:latest")
        assert done.status == 0, done
        yield made
        forget(demo.store, hub, made.images)


def forget(store: Path, hub: Registry, images: set[str]) -> None:
    """Delete what came from a registry whose name will never be again, and what is made of it.

    Of the images only those built here: others build theirs in that store at the same time.
    """
    prefix = f"docker-image-{hub.host.replace(':', '-')}-"
    paths = [f"/nix/store/{path.name}" for path in store.glob(f"nix/store/*-{prefix}*.tar")]
    env = environment(**Nix(store=store, offline_profile=True).variables())
    query = ["nix-store", "--query", "--referrers-closure", *paths]
    done = subprocess.run(query, env=env, capture_output=True, text=True, check=True)
    # The projects that were built in hold on to what they built, as users' do.
    delete = ["nix-store", "--delete", "--ignore-liveness", *done.stdout.split(), *images]
    subprocess.run(delete, env=env, capture_output=True)
    assert not list(store.glob(f"nix/store/*-{prefix}*.tar"))


def publish(lab: Lab, which: str, tag: str) -> None:
    tar = lab.bases[which].copy().write(lab.folder / f"{which}.tar")
    argv = ["--insecure-policy", "copy", "--quiet", "--dest-tls-verify=false"]
    done = lab.hub.skopeo(*argv, f"docker-archive:{tar}", f"docker://{lab.name}:{tag}")
    assert done.returncode == 0, done.stderr


def digest(lab: Lab, tag: str) -> str:
    argv = ["inspect", "--tls-verify=false", "--format", "{{.Digest}}"]
    done = lab.hub.skopeo(*argv, f"docker://{lab.name}:{tag}")
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def copy_to(store: Path, lab: Lab, path: str) -> None:
    nix = Nix(store=lab.store, offline_profile=True)
    argv = ["nix", "copy", "--to", str(store), "--no-check-sigs", path]
    done = subprocess.run(argv, env=environment(**nix.variables()), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def verified(lab: Lab, image: Path, store: Path) -> Found:
    words = ["image", "verify", "--offline-profile", "--json", image]
    done = lab.project.run(*words, env={"TNPU_NIX_STORE": str(store)})
    assert done.status == 1, done
    return Found(json.loads(done.out), done)


@pytest.fixture(scope="module")
def image(lab: Lab) -> Path:
    """The image, laid upon the first base."""
    return lab.build()
