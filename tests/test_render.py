"""The generated Nix: hostile strings arrive unharmed, and it evaluates where hostpkgs is not."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import tomlkit
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.conftest import REPOSITORY
from tests.nix import evaluate
from tnpu_nix import pinsfile, render

SURFACE = REPOSITORY / "tests" / "surface.nix"
GOOD = (REPOSITORY / "pins.toml").read_text()
HOSTILE = [
    'a"b',
    '${builtins.abort "no"}',
    "$${x}",
    "''${x}",
    "back\\slash\\",
    "\\${x}",
    "line\nbreak\r\n\ttab",
    "ünïcödé 한글 🙂",
    "'single' `id` $(id) #comment */ -- {{ jinja }} {% raw %} <# #>",
]


def changed(changes: dict[tuple[str, ...], Any]) -> dict[str, str]:
    return render.render(pinsfile.parse(pinsfile.edit(GOOD, changes)))


def write(files: dict[str, str], folder: Path) -> Path:
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    return folder


@settings(
    max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))))
def test_any_string_is_quoted_so_that_nix_reads_it_back(tmp_path: Path, texts: list[str]) -> None:
    assert evaluate(render.nix_strings([*texts, *HOSTILE], 0), tmp_path) == [*texts, *HOSTILE]


@pytest.mark.parametrize("name", ["numpy", "with", "or", "a b", 'x"y', "${x}", "7zip", "a.b", "é"])
def test_any_attribute_name_is_quoted_where_nix_demands_it(tmp_path: Path, name: str) -> None:
    expression = f"{{ {render.nix_attribute(name)} = 1; }}"
    assert evaluate(expression, tmp_path) == {name: 1}


def test_hostile_strings_in_pins_toml_reach_evaluated_nix_unharmed(tmp_path: Path) -> None:
    text = "".join(HOSTILE)
    url = "/srv/" + "".join(one for one in text if not one.isspace())
    folder = write(
        changed(
            {
                ("pins", "pk", "url"): url,
                ("pk", "abi"): text,
                ("llvm", "cmake-flags"): [text],
                ("triton", "cmake-flags"): [text],
                ("python", "packages"): ['num${py}"\n'],
                ("image", "links"): {"/opt/" + text.replace("\n", ""): "pk"},
                ("cache", "advertise"): True,
                ("cache", "substituters"): HOSTILE,
            }
        ),
        tmp_path,
    )
    sources = evaluate(f"import {folder}/nix/sources.nix {{ fetchgit = x: x; }}", tmp_path)
    assert sources["pk"]["url"] == url
    flake = evaluate(f"(import {folder}/flake.nix).nixConfig", tmp_path)
    assert flake["extra-substituters"] == HOSTILE
    given = f"""
      let pkgs = import {SURFACE}; stdenv = pkgs.stdenv // {{ mkDerivation = x: x; }}; in
      (import {folder}/nix/pk.nix {{
        inherit (pkgs) lib;
        inherit stdenv;
        sources.pk.version = "1";
      }}).preConfigure
    """
    script = evaluate(given, tmp_path).replace("patchShebangs .", f"cd {tmp_path}")
    shown = subprocess.run(
        ["bash", "-ec", f'{script}\nprintf %s "${{configureFlagsArray[1]}}"'],
        capture_output=True,
        check=True,
    )
    assert shown.stdout.decode() == f"--with-abi={text}"


@pytest.mark.parametrize("version", ["3.11", "3.13"])
@pytest.mark.parametrize("requires", [["pybind11"], ["nanobind"], ["pybind11", "nanobind"]])
@pytest.mark.parametrize("call", ["{ inherit pkgs; }", "pkgs"])
def test_every_component_evaluates_on_a_package_set_that_is_not_hostpkgs(
    tmp_path: Path, version: str, requires: list[str], call: str
) -> None:
    changes: dict[tuple[str, ...], Any] = {
        ("python", "version"): version,
        ("triton", "build-requires"): requires,
        ("triton", "nlohmann-json"): True,
    }
    folder = write(changed(changes), tmp_path)
    expression = f"""
      let pkgs = import {SURFACE}; in
      builtins.mapAttrs (_: one: one.drvPath) (import {folder}/nix ({call}))
    """
    found = evaluate(expression, tmp_path)
    assert {"llvm", "mlir", "lld", "llvm-toolchain", "triton", "python-env", "spike", "pk"} < set(
        found
    )
    assert {"tnpu-image", "tnpu-image-stream"} < set(found)
    assert all(path.endswith(".drv") for path in found.values())


def test_the_flake_has_the_outputs_that_it_promises(tmp_path: Path) -> None:
    folder = write(changed({}), tmp_path)
    expression = f"""
      let
        nixpkgs.legacyPackages.x86_64-linux = import {SURFACE} // {{ mkShell = x: x; }};
        flake = (import {folder}/flake.nix).outputs {{ inherit nixpkgs; self = flake; }};
      in
      builtins.mapAttrs (
        name: output: if name == "overlays" then [ ] else builtins.attrNames output.x86_64-linux
      ) flake
    """
    outputs = evaluate(expression, tmp_path)
    assert set(outputs) == {"packages", "checks", "devShells", "overlays", "formatter"}
    assert {"default", "tnpu-image", "tnpu-image-stream", "llvm-toolchain"} < set(
        outputs["packages"]
    )
    assert "tnpu-nix" not in outputs["packages"]


def test_the_front_end_is_an_output_of_the_repository_that_holds_it(tmp_path: Path) -> None:
    folder = write(changed({}), tmp_path / "flake")
    files = ("README.md", "pyproject.toml", "tnpu_nix/cli.py", "unrelated")
    write(dict.fromkeys(files, "x"), folder)
    expression = f"""
      let
        pkgs = import {SURFACE};
        outputs =
          pkgs:
          ((import {folder}/flake.nix).outputs {{
            nixpkgs.legacyPackages.x86_64-linux = pkgs;
          }}).packages.x86_64-linux.tnpu-nix;
      in
      {{
        inherit (outputs pkgs) drvPath;
        source = builtins.readDir (outputs (pkgs // {{ callPackage = _: given: given; }})).src;
      }}
    """
    found = evaluate(expression, tmp_path / "store", "--read-write-mode")
    assert "tnpu-nix" in found["drvPath"]
    assert set(found["source"]) == {"README.md", "pyproject.toml", "tnpu_nix"}


def test_overrides_are_an_overlay_over_the_components(tmp_path: Path) -> None:
    folder = write(changed({}), tmp_path)
    (folder / "nix" / "overrides.nix").write_text("final: prev: { pk = prev.pk // { mark = 1; }; }")
    assert evaluate(f"(import {folder}/nix (import {SURFACE})).pk.mark", tmp_path) == 1


def test_the_same_pins_give_the_same_bytes() -> None:
    assert changed({}) == changed({})


def test_files_say_that_they_are_generated_and_notice_an_edit() -> None:
    for path, text in changed({}).items():
        if path == "flake.lock":
            continue
        assert "generated by tnpu-nix" in text.split("\n")[0], path
        assert render.is_generated(path, text) and render.is_untouched(text), path
        assert not render.is_generated("nix/copy.nix", text), path
        assert not render.is_untouched(text + " "), path
        assert not render.is_untouched(text.replace("\n", "\n\n", 5)), path


def test_the_lock_holds_nixpkgs_alone_at_the_pinned_revision() -> None:
    lock = json.loads(changed({})["flake.lock"])
    assert set(lock["nodes"]) == {"root", "nixpkgs"}
    pinned = tomlkit.parse(GOOD)["nixpkgs"]
    locked = lock["nodes"]["nixpkgs"]["locked"]
    assert (locked["rev"], locked["narHash"]) == (pinned["rev"], pinned["hash"])
    assert locked["lastModified"] == pinned["last-modified"]


def test_the_committed_files_are_what_pins_toml_says() -> None:
    for path, text in changed({}).items():
        assert (REPOSITORY / path).read_text() == text, f"{path} is stale: tnpu-nix generate"
