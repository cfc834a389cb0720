"""Faults of pins.toml: all at once, each with file, line and key."""

from __future__ import annotations

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conftest import REPOSITORY, Project
from tnpu_nix import pinsfile
from tnpu_nix.errors import TnpuError
from tnpu_nix.repository import same_repository_key

GOOD = (REPOSITORY / "pins.toml").read_text()


def faults(text: str) -> tuple[str, ...]:
    with pytest.raises(TnpuError) as caught:
        pinsfile.parse(text)
    return caught.value.details


def line_of(text: str, part: str) -> int:
    return next(n for n, line in enumerate(text.splitlines(), 1) if line.startswith(part))


def test_the_projects_own_pins_are_the_known_good_ones() -> None:
    toolchain = pinsfile.parse(GOOD)
    assert [name for name, _ in toolchain.pins.items()] == [
        *("llvm", "triton", "triton_shared", "spike", "pk")
    ]
    assert toolchain.pins.pk.rev == "4f3debe4d04f56d31089c1c716a27e2d5245e9a1"


def test_every_fault_is_reported_at_once_with_line_and_key() -> None:
    text = (
        GOOD.replace("ac5dc54d509169d387fcfd495d71853d81c46484", "ac5dc54")
        .replace("sha256-UnWZ", "sha256-U nWZ")
        .replace('[python]\nversion = "3.11"', '[python]\nversion = "3.11"\ncolour = "blue"')
        .replace("riscv-software-src/riscv-pk.git", "psal-postech/RISCV-ISA-SIM")
        .replace('targets = ["X86",', "targets = [")
    )
    found = faults(text)
    places = {tuple(fault.split(": ", 2)[:2]) for fault in found}
    expected = [
        ('rev = "ac5dc54"', "pins.llvm.rev"),
        ('hash = "sha256-U ', "pins.triton.hash"),
        ('url = "https://github.com/psal-', "pins.pk.url"),
        ("targets", "llvm.targets"),
        ("colour", "python.colour"),
    ]
    assert places == {(f"pins.toml:{line_of(text, start)}", key) for start, key in expected}
    assert any("spike and pk are pins of one repository" in fault for fault in found)


@pytest.mark.parametrize(
    ("change", "place", "words"),
    [
        (("[pins.pk]", "[pins.pkk]"), "pins.pk", "missing pin"),
        (("[pins.pk]", "[pins.pkk]"), "pins.pkk", "unknown key"),
        (('rev = "4f3debe4', 'rev = "4F3DEBE4'), "pins.pk.rev", "40 hexadecimal digits"),
        (('hash = "sha256-xfFZ', 'hash = "sha512-xfFZ'), "pins.pk.hash", "SRI hash"),
        (('date = "2024-05-22', 'date = "yesterday'), "pins.pk.date", "ISO 8601"),
        (('url = "https://github.com/riscv', 'url = "https://u:pw@g/r'), "pins.pk.url", "password"),
        (('name = "tnpu-toolchain"', 'name = "Upper Case"'), "image.name", "image name"),
        (('"python-env"', '"llvm"'), "image.links./workspace/mlir-env", "no component"),
        (('"/workspace/mlir-env"', '"/nix/x"'), "image.links./nix/x", "own folders"),
        (('version = "3.11"', "version = 3.11"), "python.version", "string"),
        (('arch = "rv64gc', 'arch = "\\u0000rv64gc'), "pk.arch", "control character"),
    ],
)
def test_each_kind_of_fault_names_its_key(change: tuple[str, str], place: str, words: str) -> None:
    text = GOOD.replace(*change)
    assert text != GOOD
    assert any(f": {place}: " in fault and words in fault for fault in faults(text)), faults(text)


@pytest.mark.parametrize(
    "spelling",
    [
        "https://github.com/PSAL-POSTECH/riscv-isa-sim",
        "https://github.com/psal-postech/RISCV-isa-sim.git/",
        "git@github.com:PSAL-POSTECH/riscv-isa-sim.git",
        "ssh://git@github.com/PSAL-POSTECH/riscv-isa-sim",
        "ssh://git@github.com:22/PSAL-POSTECH/riscv-isa-sim.git",
        "git+ssh://git@GitHub.com/PSAL-POSTECH//riscv-isa-sim.git",
        "https://www.github.com:443/PSAL-POSTECH/riscv%2Disa%2Dsim.git",
        "git://github.com/PSAL-POSTECH/riscv-isa-sim.git",
    ],
)
def test_one_repository_is_found_however_its_url_is_spelled(spelling: str) -> None:
    text = GOOD.replace("https://github.com/riscv-software-src/riscv-pk.git", spelling)
    assert any("pins.pk.url: spike and pk" in fault for fault in faults(text))


def test_other_repositories_are_not_taken_for_the_same() -> None:
    urls = ["https://h/a/b", "https://h/a/c", "https://h:8080/a/b", "https://i/a/b", "h:a/b.d"]
    assert len({same_repository_key(url) for url in urls}) == len(urls)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('[image]\nname = "a\n', 2),
        ("[image]\n\nname = = 3\n", 3),
        ("[image]\nname = 'a'\nname = 'b'\n", 3),
        ("[pins\n", 1),
    ],
)
def test_what_is_not_toml_is_said_with_its_line(text: str, line: int, project: Project) -> None:
    project.pins.write_text(text)
    project.run("generate").failed_with(f"pins.toml:{line}: not TOML")


def test_what_is_not_utf8_is_said_with_its_line(project: Project) -> None:
    project.pins.write_bytes(b'[image]\nname = "\xff"\n')
    project.run("generate").failed_with("pins.toml:2: not UTF-8")


def test_lines_are_found_in_any_way_of_writing_toml() -> None:
    text = (
        'pins = { llvm = { url = "a b" } }\n\n# comment\nimage.links."/a b" = """\nx\n[llvm]\n"""\n'
    )
    placed = {fault.split(": ")[1]: fault.split(":")[1] for fault in faults(text)}
    assert placed["pins.llvm.url"] == "1"
    assert placed["image.links./a b"] == "4"
    assert placed["nixpkgs"] == "1"


def test_an_edit_keeps_comments_order_blank_lines_and_line_endings() -> None:
    new = "f" * 40
    edited = pinsfile.edit(GOOD, {("pins", "pk", "rev"): new})
    assert edited == GOOD.replace("4f3debe4d04f56d31089c1c716a27e2d5245e9a1", new)
    windows = GOOD.replace("\n", "\r\n")
    assert pinsfile.edit(windows, {("pins", "pk", "rev"): new}) == edited.replace("\n", "\r\n")


def test_an_edit_to_what_is_there_already_changes_nothing() -> None:
    spelled = GOOD.replace('"main"', "'main'")
    assert pinsfile.edit(spelled, {("pins", "llvm", "track"): "main"}) == spelled


@given(st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1))
def test_an_edit_writes_any_text_so_that_it_is_read_back(value: str) -> None:
    edited = pinsfile.edit(GOOD, {("pins", "pk", "track"): value, ("cache", "x"): [value]})
    data = tomllib.loads(edited)
    assert data["pins"]["pk"]["track"] == value
    assert data["cache"]["x"] == [value]
