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

from benchmarks.compare import compare
from tnpu_nix.flake import hostpkgs
from tnpu_nix.nix import Nix

_REPOSITORY = Path(__file__).resolve().parent.parent
_DEMO = _REPOSITORY / ".test-cache" / "demo"
_LIMIT = 1.3


def main() -> None:
    """Print how plan compares with the evaluation still to be made, and kept from a run before."""
    with TemporaryDirectory() as scratch:
        if len(sys.argv) > 1:
            project, store = Path(scratch) / "project", Path(scratch) / "store"
            packages = _stand_in(Path(scratch) / "packages", Path(sys.argv[1]).resolve())
            project.mkdir()
            names = ("pins.toml", "flake.nix", "flake.lock", "nix")
            subprocess.run(["cp", "-r", *(_REPOSITORY / one for one in names), project], check=True)
            (project / ".tnpu-nix").mkdir()
            _measure("plan, real package set", project, store, packages)
            return
        demo = [sys.executable, "-m", "tnpu_nix", "demo", str(_DEMO)]
        subprocess.run(demo, check=True, capture_output=True)
        _measure("plan, miniatures", _DEMO / "project", _DEMO / "store", None)


def _stand_in(folder: Path, packages: Path) -> Path:
    """Make a flake that hands on another one's package set, as small as hostpkgs is."""
    folder.mkdir()
    (folder / "flake.nix").write_text(
        f'{{ inputs.set.url = "path:{packages}";'
        " outputs = { set, ... }: { inherit (set) legacyPackages; }; }"
    )
    env = Nix().environment()
    argv = ["nix", "flake", "lock", f"path:{folder}", "--store", str(folder.parent / "store")]
    subprocess.run(argv, env=env, check=True, capture_output=True)
    return folder


def _measure(name: str, project: Path, store: Path, packages: Path | None) -> None:
    nix = Nix(store=store, offline_profile=True)
    bare = ["nix", "build", f"path:{project}#tnpu-image", "--no-link", "--dry-run"]
    bare += ["--override-input", "nixpkgs", f"path:{hostpkgs()}"]
    ours = [sys.executable, "-m", "tnpu_nix", "--project", str(project), "plan"]
    ours += ["--offline-profile", "--store", str(store)]
    limit = None if packages is None else _LIMIT
    run, other = (_runner(argv, nix.environment(), packages) for argv in (ours, bare))
    kept = project / ".tnpu-nix" / "evaluated.json"

    def anew() -> None:
        kept.unlink(missing_ok=True)
        run()

    print(compare(f"{name}, evaluated anew", anew, other, limit=limit).line())
    print(compare(f"{name}, a second time", run, other, limit=limit).line())


def _runner(argv: list[str], env: dict[str, str], packages: Path | None) -> Callable[[], object]:
    """Return what runs a command, with *packages* where hostpkgs is, if given."""
    if packages is not None:
        apart = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "-Urm"]
        script = f'mount --bind "{packages}" "{hostpkgs()}"; exec "$@"'
        argv = [*apart, "bash", "-ec", script, "bash", *argv]
    return lambda: subprocess.run(argv, env=env, check=True, capture_output=True)


if __name__ == "__main__":
    main()
