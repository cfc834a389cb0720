"""A lab for the tests of import: five upstreams, an empty folder, and what a report says."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.conftest import GitRepository, Project, Ran

FOLDERS = {
    "llvm": "llvm-project",
    "triton": "triton",
    "triton_shared": "triton-shared",
    "spike": "riscv-isa-sim",
    "pk": "riscv-pk",
}


@dataclass
class Lab:
    """Five upstreams, each with a pinned revision and an older one that has the tag v1.0."""

    folder: Path
    repositories: dict[str, GitRepository] = field(default_factory=dict)
    pinned: dict[str, str] = field(default_factory=dict)
    older: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, folder in FOLDERS.items():
            repository = GitRepository(self.folder / f"{folder}.git")
            self.older[name] = repository.commit("first", file=name)
            repository.git("tag", "v1.0")
            self.pinned[name] = repository.commit("second", file=f"{name} again")
            self.repositories[name] = repository
            (self.folder / folder).symlink_to(f"{folder}.git")

    def fill(self, text: str) -> str:
        """Put URLs and revisions into a file of tests.versions_env."""
        text = text.replace("<base>", self.folder.as_uri())
        for name, repository in self.repositories.items():
            text = text.replace(f"<{name}>", repository.url)
            text = text.replace(f"<{name}!>", self.pinned[name])
            text = text.replace(f"<{name}!7>", self.pinned[name][:7])
            text = text.replace(f"<{name}~>", self.older[name])
        return text


def write(project: Project, text: str, name: str = "versions.env") -> str:
    (project.root / name).write_bytes(text.encode())
    return name


def done(ran: Ran) -> Ran:
    assert ran.status == 0, ran
    return ran


def data(ran: Ran) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(ran.out)
    return found


def row(report: dict[str, Any], variable: str) -> dict[str, Any]:
    """What the report says of a variable that speaks of a pin."""
    rows = [one for pin in report["pins"] for one in pin["rows"] if one["name"] == variable]
    assert len(rows) == 1, rows
    found: dict[str, Any] = rows[0]
    return found


def rest(report: dict[str, Any]) -> dict[str, str]:
    return {one["name"]: one["reason"] for one in report["not_placed"]}
