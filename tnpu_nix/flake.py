"""The project's own flake, as nix is given it, and what its outputs are called in the store."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from tnpu_nix import git, place, process
from tnpu_nix.errors import TnpuError
from tnpu_nix.nix import Nix, failure

if TYPE_CHECKING:
    from tnpu_nix.pins import Toolchain

TARGETS = (
    *("tnpu-image", "tnpu-image-stream", "llvm", "mlir", "lld", "llvm-toolchain", "llvm-tools"),
    *("triton", "python-env", "spike", "pk", "tnpu-nix", "default"),
)

SYSTEM = "x86_64-linux"
# What the output tnpu-nix is built from, in the one repository that has it.
_FRONT_END = ("pyproject.toml", "README.md")
# `meta.outputsToInstall` is what `nix build` goes by where no output of a derivation is named.
_PATHS = """packages: builtins.mapAttrs (_: one: {
  derivation = one.drvPath;
  paths = builtins.listToAttrs (
    map (output: { name = output; value = one.${output}.outPath; }) one.outputs
  );
  installed = one.meta.outputsToInstall or [ "out" ];
  version = one.version or null;
  source = one.src.name or null;
}) %s"""


@dataclass(frozen=True)
class Output:
    """What an output of the flake is called in the store, whether it is built or not."""

    name: str  # one of TARGETS
    derivation: str  # store path, .drv
    paths: dict[str, str]  # output of the derivation ("out", …) → store path
    installed: list[str]  # those of the paths that a build of it makes sure of
    version: str | None
    source: str | None  # name of what it is built from, where that is one thing


def check_target(root: Path, target: str) -> None:
    """Raise if a target is none of this project's."""
    if target == "tnpu-nix" and not (root / "tnpu_nix" / "cli.py").is_file():
        raise TnpuError(
            "this project has no output tnpu-nix",
            "the front end is an output of the one repository that holds it",
        )


def hostpkgs() -> Path:
    """Return the folder of the offline profile's package set."""
    return Path(str(resources.files("tnpu_nix.offline"))) / "hostpkgs"


@contextlib.contextmanager
def copied(root: Path) -> Iterator[Path]:
    """Yield a copy of the project's own flake, and of nothing else that lies there.

    Nix copies a flake's whole folder into the store: all of it outside git, and in git only what
    is tracked. A copy of the files that matter is the same flake in both cases, and its path has
    no characters that a flake reference gives a meaning to. Links are followed; one that leads
    nowhere, as an editor makes it for a lock, is left out.

    Raises:
        TnpuError: a file cannot be read, or a link leads round in circles.
    """
    with git.temporary_folder() as folder:
        for name in (place.FLAKE, place.LOCK, *_FRONT_END):
            if (root / name).is_file():
                shutil.copy(root / name, folder / name)
        for name in ("nix", "tnpu_nix"):
            if (root / name).is_dir():
                _copy(root / name, folder / name)
        yield folder


def _copy(source: Path, target: Path) -> None:
    def ignored(folder: str, names: list[str]) -> list[str]:
        # shutil has a switch for links that lead nowhere, which takes relative ones for such.
        there = Path(folder)
        for path in map(there.joinpath, names):
            if (
                path.is_symlink()
                and path.is_dir()
                and there.resolve().is_relative_to(path.resolve())
            ):
                raise TnpuError(f"{path} leads back to where it lies", "remove that link")
        return [one for one in names if one == "__pycache__" or not (there / one).exists()]

    try:
        shutil.copytree(source, target, ignore=ignored)
    except shutil.Error as error:
        path, _, why = error.args[0][0]
        for number in (errno.ENOSPC, errno.EDQUOT):  # of the copy's place, not of the file
            if f"[Errno {number}]" in why:
                raise OSError(number, os.strerror(number)) from error
        reason = re.sub(r"^\[Errno \d+\] |: '.*", "", why)
        raise TnpuError(
            f"{path} cannot be read: {reason}", "a build copies all that is there"
        ) from error


def installable(nix: Nix, copy: Path, target: str) -> list[str]:
    """Return the words that name an output of a copied flake to nix."""
    words = [f"path:{quote(str(copy))}#{target}"]
    if nix.offline_profile:
        words += ["--override-input", "nixpkgs", f"path:{quote(str(hostpkgs()))}"]
    return words


def package_set(toolchain: Toolchain, nix: Nix) -> str:
    """Return the word that names the package set that everything is built from to nix."""
    if nix.offline_profile:
        return f"path:{quote(str(hostpkgs()))}#legacyPackages.{SYSTEM}"
    at = toolchain.nixpkgs
    locked = f"github:{at.owner}/{at.repo}/{at.rev}?narHash={quote(at.hash, safe='')}"
    return f"{locked}#legacyPackages.{SYSTEM}"


def outputs(root: Path, nix: Nix) -> dict[str, Output]:
    """Evaluate the flake and return its outputs by name; nothing is built or fetched for it.

    The derivations are in the store afterwards. An output under two names (``default``) is there
    under both.

    Raises:
        TnpuError: the flake does not evaluate.
    """
    with copied(root) as copy:
        return evaluate(copy, nix)


def evaluate(
    copy: Path, nix: Nix, names: Iterable[str] = (), meanwhile: Callable[[], None] = lambda: None
) -> dict[str, Output]:
    """Do what `outputs` does for a copied flake, and evaluate no more than *names*, if given.

    Args:
        meanwhile: called while nix is at it; what it raises ends that.
    """
    wanted = " ".join(f'"{name}" = null;' for name in names)
    packages = f"(builtins.intersectAttrs {{ {wanted} }} packages)" if wanted else "packages"
    words = installable(nix, copy, f"packages.{SYSTEM}")
    argv = ["nix", "eval", "--json", *words, "--apply", _PATHS % packages]
    with git.temporary_folder() as scratch:
        answer = scratch / "answer.json"
        with process.stream_stderr(argv, env=nix.environment(), stdout_file=answer) as running:
            assert running.stderr is not None
            meanwhile()
            said = running.stderr.read()
            status = running.wait()
        if status != 0:
            raise failure("evaluating the flake", process.mask(said))
        found = json.loads(answer.read_text())
    return {name: Output(name, **values) for name, values in found.items()}


def names_caches(root: Path) -> bool:
    """Tell whether a project's flake carries binary caches of its own in its nixConfig."""
    return "nixConfig" in (root / place.FLAKE).read_text()


def own_caches(root: Path, nix: Nix) -> list[str]:
    """Return the URLs of the binary caches that a project's flake carries in its nixConfig."""
    if not names_caches(root):
        return []
    file = str(root / place.FLAKE)
    argv = ["nix", "eval", "--json", "--file", file, "nixConfig.extra-substituters"]
    done = process.run(argv, env=nix.environment())
    return [str(one) for one in json.loads(done.stdout)] if done.status == 0 else []


def derivation_name(path: str) -> str:
    """Return the name in a store path: without folder, hash and ``.drv``."""
    return re.sub(r"^[0-9a-z]{32}-", "", path.rsplit("/", 1)[-1]).removesuffix(".drv")


def image_tag(root: Path, nix: Nix) -> str:
    """Evaluate the tag that dockerTools gives the project's image; nothing is built or fetched.

    It is the hash in the store path of the image's configuration, which depends on everything
    that goes into the image; `docker load` of a built image shows the same tag.

    Raises:
        TnpuError: the flake does not evaluate.
    """
    with copied(root) as copy:
        words = installable(nix, copy, f"packages.{SYSTEM}.tnpu-image-stream.imageTag")
        argv = ["nix", "eval", "--raw", *words]
        done = process.run(argv, env=nix.environment(), timeout=None)
    if done.status != 0:
        raise failure("evaluating the image's tag", done.stderr)
    return done.stdout.strip()
