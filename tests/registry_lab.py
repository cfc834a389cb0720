"""A project, a registry and the wire between them, for the tests of images in registries."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.conftest import Demo, Project, Ran
from tests.registry import Registry, Wire, registry, wire
from tnpu_nix import pinsfile

NAME = "lab/tnpu-demo"


@dataclass
class Lab:
    """A copy of the demo's project, a registry, and the wire between them."""

    project: Project
    registry: Registry
    wire: Wire

    @property
    def repository(self) -> str:
        return f"{self.wire.host}/{NAME}"

    def image(self, *arguments: str, **variables: str) -> Ran:
        return self.project.run("image", *arguments, env=variables)

    def made(self, *arguments: str) -> Ran:
        """Run a command that builds, and that succeeds."""
        done = self.image(*arguments, "--offline-profile")
        assert done.status == 0, done.err
        return done

    def tag(self) -> str:
        return self.made("tag").out.strip()

    def forget(self) -> None:
        """Be another machine: nothing is known of earlier pushes."""
        shutil.rmtree(self.project.root / ".tnpu-nix", ignore_errors=True)

    def sent_by(self, *arguments: str) -> int:
        """Return the bytes that a command that succeeds sends to the registry."""
        before = self.wire.sent
        self.made(*arguments)
        return self.wire.sent - before


@pytest.fixture
def lab(demo: Demo, tmp_path: Path) -> Iterator[Lab]:
    project = demo.project(tmp_path / "project")
    with registry(tmp_path / "registry") as server, wire(server.port) as line:
        text = pinsfile.edit(project.pins.read_text(), {("image", "registry"): f"{line.host}/lab"})
        project.pins.write_text(text)
        project.env["REGISTRY_AUTH_FILE"] = str(server.auth_file_for(line.host))
        yield Lab(project, server, line)
