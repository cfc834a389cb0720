"""`tnpu-nix plan` against a bare `nix build --dry-run` of the same flake: at most 1.3 times.

With the demo's project and miniatures, whose evaluation is over before Python has started; what it
shows is what plan costs in itself. A real package set takes seconds. With the folder of one as an
argument (a flake with legacyPackages), that stands in nixpkgs' place, and this repository is the
project; whoever runs it must be root, or be allowed to mount in a namespace of its own.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.compare import Ratio, compare
from tnpu_nix.flake import hostpkgs
from tnpu_nix.nix import Nix

_REPOSITORY = Path(__file__).resolve().parent.parent
_DEMO = _REPOSITORY / ".test-cache" / "demo"
_LIMIT = 1.3


def main() -> None:
    """Print both ratios, or that with another package set."""
    if len(sys.argv) > 1:
        with TemporaryDirectory() as store:
            packages = Path(sys.argv[1]).resolve()
            print(_measure("plan, real package set", _REPOSITORY, Path(store), packages).line())
        return
    demo = [sys.executable, "-m", "tnpu_nix", "demo", str(_DEMO)]
    subprocess.run(demo, check=True, capture_output=True)
    print(_measure("plan, miniatures", _DEMO / "project", _DEMO / "store", None).line())


def _measure(name: str, project: Path, store: Path, packages: Path | None) -> Ratio:
    nix = Nix(store=store, offline_profile=True)
    bare = ["nix", "build", f"path:{project}#tnpu-image", "--no-link", "--dry-run"]
    bare += ["--override-input", "nixpkgs", f"path:{hostpkgs()}"]
    ours = [sys.executable, "-m", "tnpu_nix", "--project", str(project), "plan"]
    ours += ["--offline-profile", "--store", str(store)]
    env = nix.environment()
    limit = None if packages is None else _LIMIT
    with TemporaryDirectory() as clean:
        if packages is not None:
            # nix copies a flake's whole folder; that of a working tree is no part of either.
            names = ["flake.nix", "flake.lock", "nix", "tnpu_nix", "pyproject.toml", "README.md"]
            subprocess.run(["cp", "-r", *(project / one for one in names), clean], check=True)
            bare[2] = f"path:{clean}#tnpu-image"
        return compare(
            name, _runner(ours, env, packages), _runner(bare, env, packages), limit=limit
        )


def _runner(argv: list[str], env: dict[str, str], packages: Path | None) -> Callable[[], object]:
    """Return what runs a command, with *packages* where hostpkgs is, if given."""
    if packages is not None:
        apart = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "-Urm"]
        script = f'mount --bind "{packages}" "{hostpkgs()}"; exec "$@"'
        argv = [*apart, "bash", "-ec", script, "bash", *argv]
    return lambda: subprocess.run(argv, env=env, check=True, capture_output=True)


if __name__ == "__main__":
    main()
