"""The schema and the version of pins.toml."""

from __future__ import annotations

import copy
import json
import re
import tomllib
from typing import Any

import jsonschema
import pytest

from tests.conftest import REPOSITORY, Edit, Project
from tnpu_nix import pinsfile


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


@pytest.mark.parametrize("text", ['"1"', "-1", "true", "1.5"])
def test_a_version_that_is_none_is_a_fault_like_others(
    project: Project, edit: Edit, text: str
) -> None:
    edit("version = 1", f"version = {text}")
    project.run("generate").failed_with("pins.toml has 1 fault")


def as_version_0(text: str) -> str:
    """The same pins as they were kept by hand: no version, tables at the top, flake.lock's keys."""
    text = text.replace("version = 1  # of the format of this file\n", "")
    text = re.sub(r"(last-modified = .*?\n).*\n(?=\[python\])", r"\1\n", text, flags=re.S)
    nixpkgs = 'url = "github:NixOS/nixpkgs/nixos-unstable"'
    text = re.sub(r"owner = .*\nrepo = .*\nref = .*", nixpkgs, text)
    head, tail = text.split("[nixpkgs]")
    tail = tail.replace("\nhash =", "\nnarHash =").replace("last-modified", "lastModified")
    return head.replace("[pins.", "[") + "[nixpkgs]" + tail


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
@pytest.mark.parametrize("says", ["", "version = 0\n"])
def test_a_file_of_an_older_version_is_upgraded_by_a_command(
    project: Project, ending: str, says: str
) -> None:
    new = pinsfile.load(project.pins)
    old = (says + as_version_0(project.pins.read_text())).replace("\n", ending)
    project.pins.write_bytes(old.encode())
    project.run("generate").failed_with("pins.toml is of version 0", "`tnpu-nix upgrade`")
    dry = project.run("upgrade", "--dry-run")
    assert dry.status == 0, dry.err
    assert project.pins.read_bytes() == old.encode()
    done = project.run("upgrade")
    assert done.status == 0, done.err
    assert done.out == dry.out and "+[pins.llvm]" in done.out
    assert pinsfile.load(project.pins) == new
    text = project.pins.read_bytes().decode()
    assert text.count(ending) == text.count("\n")
    comments = [line for line in old.splitlines() if line.startswith("#")]
    assert [line for line in text.splitlines() if line.startswith("#")] == comments
    assert project.run("generate", "--check").status == 0
    assert "already" in project.run("upgrade").err


def test_a_file_without_a_version_is_read_and_given_one(project: Project, edit: Edit) -> None:
    before = project.pins.read_text()
    edit("version = 1  # of the format of this file\n\n", "")
    assert project.run("generate", "--check").status == 0
    assert project.run("upgrade").status == 0
    assert project.pins.read_text() == before


def test_an_upgrade_that_would_not_give_a_whole_file_writes_nothing(project: Project) -> None:
    text = as_version_0(project.pins.read_text()).replace("[spike]", "[spark]")
    project.pins.write_text(text)
    project.run("upgrade").failed_with("pins.spike", "missing pin")
    project.pins.write_text("spike = { url = 'x', rev = 'y' }\n")
    project.run("upgrade").failed_with("the table of spike", "[pins.spike]")
    assert project.pins.read_text() == "spike = { url = 'x', rev = 'y' }\n"


def test_a_fault_is_named_by_its_line_in_the_upgraded_file(project: Project) -> None:
    """The file on the disk has other lines, and the error says that it does not mean those."""
    old = as_version_0(project.pins.read_text())
    project.pins.write_text(old)
    assert project.run("upgrade").status == 0
    lines = project.pins.read_text().split("\n")
    number = lines.index('version = "3.11"') + 1
    assert old.split("\n").index(lines[number - 1]) + 1 != number
    project.pins.write_text(old.replace('version = "3.11"', "version = 3"))
    for words in (["upgrade"], ["upgrade", "--dry-run"]):
        project.run(*words).failed_with(f"pins.toml as upgraded:{number}: python.version")


def test_an_upgrade_of_a_newer_file_is_refused(project: Project, edit: Edit) -> None:
    edit("version = 1", "version = 7")
    project.run("upgrade").failed_with("use a newer tnpu-nix")
