"""Building expressions of hostpkgs in tests: the real nix-build, in the demo's store."""

from __future__ import annotations

import json
import subprocess
import tarfile
from dataclasses import dataclass
from pathlib import Path

from tests.conftest import environment
from tnpu_nix.flake import hostpkgs
from tnpu_nix.images.archive import Archive
from tnpu_nix.nix import Nix


@dataclass(frozen=True)
class Bench:
    """A store to build expressions in, in which the names of hostpkgs are known."""

    nix: Nix

    def run(self, *argv: str) -> subprocess.CompletedProcess[str]:
        env = environment(**self.nix.variables())
        return subprocess.run(argv, env=env, capture_output=True, text=True)

    def nix_build(self, expression: str, *options: str) -> subprocess.CompletedProcess[str]:
        whole = f"with import {hostpkgs()} {{ }}; {expression}"
        return self.run("nix-build", "--no-out-link", *options, "--expr", whole)

    def build(self, expression: str, *options: str) -> Path:
        """Build, and return where the result lies on the disk."""
        done = self.nix_build(expression, *options)
        assert done.returncode == 0, done.stderr
        return self.nix.on_disk(done.stdout.split()[0])

    def fails(self, expression: str) -> str:
        """Build what does not build, and return what was said."""
        done = self.nix_build(expression)
        assert done.returncode != 0, done.stdout
        return done.stderr

    def evaluate(self, expression: str) -> object:
        whole = f"with import {hostpkgs()} {{ }}; {expression}"
        done = self.run("nix-instantiate", "--eval", "--strict", "--json", "--expr", whole)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def query(self, kind: str, path: Path) -> list[str]:
        """Return the names, without their hashes, of a path's references or requisites."""
        inside = str(path).removeprefix(str(self.nix.store))
        done = self.run("nix-store", "--query", kind, inside)
        assert done.returncode == 0, done.stderr
        return [line.split("-", 1)[1] for line in done.stdout.split()]


def derivation(name: str, rest: str) -> str:
    """Return the expression of a derivation without a source."""
    return f'(stdenv.mkDerivation {{ name = "{name}"; dontUnpack = true; {rest} }})'


def script(name: str, commands: str, more: str = "") -> str:
    """Return the expression of a command's result."""
    return f"(runCommand \"{name}\" {{ {more} }} ''\n{commands}\n'')"


def inserted(expression: str) -> str:
    """Return an expression as part of a Nix string."""
    return f"${{{expression}}}"


def python_package(name: str, dependencies: str = "", more: str = "") -> str:
    """Return the expression of a Python package with a program of its name."""
    return f"""(python3.pkgs.buildPythonPackage {{
      pname = "{name}"; version = "1"; pyproject = true;
      src = runCommand "{name}-src" {{ }} ''
        mkdir $out
        cat >$out/pyproject.toml <<'END'
        [build-system]
        requires = ["setuptools"]
        build-backend = "setuptools.build_meta"
        [project]
        name = "{name}"
        version = "1"
        [project.scripts]
        {name} = "{name}:main"
        [tool.setuptools]
        py-modules = ["{name}"]
        END
        echo 'import os, sys, first' >$out/{name}.py
        echo 'def main(): print(sys.argv[0], first.__name__, os.environ.get("A"))' >>$out/{name}.py
      '';
      build-system = [ python3.pkgs.setuptools python3.pkgs.wheel ];
      dependencies = [ {dependencies} ];
      pythonImportsCheck = [ "{name}" ];
      {more}
    }})"""


def members(image: Archive) -> dict[str, list[str]]:
    """Return layer (its name in the archive) → the names of the files in it."""
    found: dict[str, list[str]] = {}
    wanted = {layer.member for layer in image.layers}
    with tarfile.open(image.path, "r|*") as tar:
        for member in tar:
            if member.name in wanted and (content := tar.extractfile(member)):
                with tarfile.open(fileobj=content, mode="r|") as layer:
                    found[member.name] = [one.name.removeprefix("./") for one in layer]
    return found
