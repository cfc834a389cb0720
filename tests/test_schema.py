"""The schema and the version of pins.toml."""

from __future__ import annotations

import copy
import json
import tomllib
from typing import Any

import jsonschema
import pytest

from tests.conftest import REPOSITORY, Edit, Project


@pytest.fixture
def validator(project: Project) -> jsonschema.protocols.Validator:
    schema = json.loads(project.run("schema").out)
    kind = jsonschema.validators.validator_for(schema)
    kind.check_schema(schema)
    return kind(schema)


GOOD = tomllib.loads((REPOSITORY / "pins.toml").read_text())


def test_the_projects_own_pins_are_valid(validator: jsonschema.protocols.Validator) -> None:
    validator.validate(GOOD)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("pins", "pk", "rev"), "4f3debe"),
        (("pins", "pk", "hash"), "sha256-x"),
        (("pins", "pk", "colour"), "blue"),
        (("pins", "gcc"), {}),
        (("nixpkgs", "last-modified"), 0),
        (("image", "max-layers"), 500),
        (("python", "packages"), "numpy"),
        (("version",), 2),
    ],
)
def test_an_editor_sees_what_is_wrong(
    validator: jsonschema.protocols.Validator, path: tuple[str, ...], value: Any
) -> None:
    bad = copy.deepcopy(GOOD)
    table = bad
    for part in path[:-1]:
        table = table[part]
    table[path[-1]] = value
    assert not validator.is_valid(bad)


def test_a_file_of_a_newer_version_is_refused_in_words(project: Project, edit: Edit) -> None:
    edit("version = 1", "version = 7")
    project.run("generate").failed_with(
        "pins.toml is of version 7, and this tnpu-nix knows version 1", "use a newer tnpu-nix"
    )


@pytest.mark.parametrize("text", ['"1"', "0", "true", "1.5"])
def test_a_version_that_is_none_is_a_fault_like_others(
    project: Project, edit: Edit, text: str
) -> None:
    edit("version = 1", f"version = {text}")
    project.run("generate").failed_with("pins.toml has 1 fault")
