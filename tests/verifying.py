"""What the tests of `tnpu-nix image verify` share: the built image, whole and in parts."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tests import altered
from tests.altered import Parts
from tests.conftest import Demo, Project, Ran


@dataclass
class Bench:
    """The demo's project, its built image, and the same image in parts."""

    project: Project
    image: Path  # in the demo's store
    tar: Path  # the same, not compressed
    parts: Parts
    folder: Path

    def verify(self, image: Path | str, *options: str, env: dict[str, str] | None = None) -> Ran:
        return self.project.run("image", "verify", "--offline-profile", image, *options, env=env)

    def alter(self, change: Callable[[Parts], object]) -> Path:
        """Write the image with a change, in which every digest is right again."""
        parts = self.parts.copy()
        change(parts)
        return parts.write(self.folder / "altered.tar")

    def found(self, image: Path | str, *options: str, env: dict[str, str] | None = None) -> Found:
        done = self.verify(image, "--json", *options, env=env)
        assert done.status == 1, done
        verdict = json.loads(done.out)
        assert verdict["ok"] is False
        return Found(verdict, done)

    def path(self, part: str) -> str:
        """The one path of the image that ends like this, without ``/`` at its start."""
        found = {name for layer in self.parts.layers for name in altered.names(layer)}
        (path,) = [name for name in found if name.endswith(part)]
        return path

    def apart(self, folder: Path) -> Bench:
        """The same with a folder of its own."""
        return replace(self, folder=folder)

    @property
    def image_path(self) -> str:
        return f"/nix/store/{self.image.name}"


@dataclass
class Found:
    """What `verify --json` found."""

    verdict: dict[str, Any]
    said: Ran

    def lines(self, kind: str) -> list[str]:
        return [one["what"] for one in self.verdict["findings"] if one["kind"] == kind]

    def line(self, kind: str, start: str) -> str:
        """The one line of a kind that begins so."""
        found = [line for line in self.lines(kind) if line.startswith(f"{start} ")]
        assert len(found) == 1, (start, self.lines(kind))
        return found[0]

    @property
    def kinds(self) -> set[str]:
        return {one["kind"] for one in self.verdict["findings"]}


def made(demo: Demo, folder: Path) -> Bench:
    """Build the demo's image, and unzip it and take it apart in a folder."""
    project = demo.project(folder / "project")
    built = project.run("build", "--offline-profile")
    assert built.status == 0, built
    image = Path(built.out.strip())
    parts = altered.take_apart(image)
    tar = folder / "image.tar"
    with tar.open("wb") as sink:
        subprocess.run(["gzip", "-dc", str(image)], stdout=sink, check=True)
    return Bench(project, image, tar, parts, folder)
