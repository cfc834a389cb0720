"""`[image.base]` in pins.toml and in the generated Nix, where no registry is needed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.conftest import REPOSITORY, Edit, Project
from tests.nix import evaluate
from tnpu_nix import pinsfile


def test_a_base_with_too_many_layers_or_a_wrong_name_is_a_fault(
    project: Project, edit: Edit
) -> None:
    table = f"""
[image.base]
image = "lab/torchsim_base"
digest = "sha256:{"0" * 64}"
hash = "sha256-{"A" * 43}="
layers = 60
"""
    project.pins.write_text(project.pins.read_text() + table)
    done = project.run("generate")
    done.failed_with("fault")
    assert "docker.io/lab/torchsim_base" in done.err
    edit('"lab/torchsim_base"', '"ghcr.io/lab/torchsim_base"')
    done = project.run("generate")
    done.failed_with("fault")
    assert "max-layers is 64, of which the base has 60" in done.err
    edit("layers = 60", "layers = 40")
    assert project.run("generate").status == 0


def test_the_base_is_an_argument_of_a_package_set_that_is_not_hostpkgs(
    project: Project, tmp_path: Path
) -> None:
    values = {"image": "ghcr.io/lab/base", "tag": "v1", "layers": 3}
    values |= {"digest": f"sha256:{'0' * 64}", "hash": f"sha256-{'A' * 43}="}
    changes = {("image", "base", key): value for key, value in values.items()}
    project.pins.write_text(pinsfile.edit(project.pins.read_text(), changes))
    assert project.run("generate").status == 0
    surface = REPOSITORY / "tests" / "surface.nix"
    expression = f"""
      let given = (import {project.root}/nix (import {surface})).tnpu-image.arguments; in
      {{ inherit (given.fromImage) arguments; inherit (given) extraCommands; }}
    """
    found: Any = evaluate(expression, tmp_path / "eval")
    assert found["arguments"] == {
        "imageName": values["image"],
        "imageDigest": values["digest"],
        "hash": values["hash"],
        "finalImageTag": values["tag"],
    }
    assert "etc/passwd" not in found["extraCommands"]
