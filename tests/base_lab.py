"""A project whose image lies upon another one, and a registry that has such bases."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests import altered
from tests.altered import Parts, file
from tests.conftest import Demo, Project, environment
from tests.registry import Registry, registry
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

    def build(self) -> Path:
        done = self.project.run("build", "--offline-profile")
        assert done.status == 0, done
        image = Path(done.out.strip())
        self.images.add(f"/nix/store/{image.name}")
        return image


def base_image(text: str) -> Parts:
    """A small base as distributions have them: /bin leads to usr/bin, there are users."""
    link = altered.info("bin", 0o777, type=b"2", linkname="usr/bin"), b""
    folders = [
        (altered.info(name, 0o755, type=b"5"), b"")
        for name in ("etc", "home", "tmp", "usr", "usr/bin")
    ]
    passwd = file("etc/passwd", b"root:x:0:0::/root:/bin/sh\nlab:x:1000:1000::/home:/bin/sh\n")
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
        altered.packed([*folders, link, passwd]),
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


@pytest.fixture(scope="module")
def image(lab: Lab) -> Path:
    """The image, laid upon the first base."""
    return lab.build()
