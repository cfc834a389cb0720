"""`tnpu-nix cache status` where the caches have everything, against the bare calls it stands for.

Those are `nix path-info` of the flake's outputs, once for each cache and once for the store here:
that is how Nix alone says which of them has them. They have to find out the store paths, and so has
the command; both have kept the evaluation.

Where somebody knows the store paths already, Nix answers sooner: one call for each path and cache
tells, for each, which cache has it; a call for all paths at once says nothing of one that a cache
lacks. That last one has no limit, since Python takes longer to start than Nix to answer from a
folder.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.compare import compare
from tests.cache.conftest import nix
from tests.cache.web import serving
from tests.conftest import REPOSITORY, Demo, Ran, environment
from tnpu_nix.flake import hostpkgs
from tnpu_nix.nix import Nix

LIMIT = 1.5


def main() -> None:
    """Push the demo's components into two caches, then measure."""
    folder = REPOSITORY / ".test-cache" / "demo"
    demo = [sys.executable, "-m", "tnpu_nix", "demo", str(folder)]
    subprocess.run(demo, env=environment(), check=True, capture_output=True)
    with tempfile.TemporaryDirectory() as scratch, contextlib.ExitStack() as stack:
        place = Path(scratch)
        project = Demo(Ran(0, "", ""), folder).project(place / "project")
        project.env["HOME"] = scratch
        cache = place / "cache"
        server = stack.enter_context(serving(cache, place / "nginx"))
        key = place / "key"
        assert project.run("cache", "keygen", "bench-1", "--file", key, "--write").status == 0
        push: list[str | Path] = [
            "push",
            "--to",
            f"file://{cache}?compression=zstd",
            "--key-file",
            key,
        ]
        pushed = project.run("cache", *push, "--offline-profile")
        assert pushed.status == 0, pushed.err
        folders = [f"file://{cache}", f"file://{cache}?priority=50"]
        _measure("two folders", project.root, project.env, folders)
        _measure("a folder and nginx", project.root, project.env, [folders[0], server.at("open")])


def _measure(name: str, root: Path, env: dict[str, str], urls: list[str]) -> None:
    words = [word for url in urls for word in ("--cache", url)]
    argv = [sys.executable, "-m", "tnpu_nix", "cache", "status", "--offline-profile", "--json"]
    run = {"cwd": root, "env": environment(**env), "check": True, "capture_output": True}

    def ours() -> subprocess.CompletedProcess[bytes]:
        return subprocess.run([*argv, *words], **run)  # type: ignore[call-overload, no-any-return]

    outputs = json.loads(ours().stdout)["outputs"]
    paths = [path for output in outputs for path in output["paths"] if output["caches"]]
    # What Nix remembers of a cache is no answer of the cache.
    forget = ("--option", "narinfo-cache-positive-ttl", "0")

    def bare(*asked: str) -> None:
        for url in urls:
            done = nix(None, "nix", "path-info", "--json", *forget, "--store", url, *asked)
            assert done.returncode == 0, done.stderr

    def one_by_one() -> None:
        for path in paths:
            bare(path)

    def of_the_flake() -> None:
        flake = [f"path:{root}#{output['name']}" for output in outputs]
        flake += ["--override-input", "nixpkgs", f"path:{hostpkgs()}", "--json", *forget]
        here = environment(**Nix(Path(env["TNPU_NIX_STORE"]), offline_profile=True).variables())
        elsewhere = [["--eval-store", env["TNPU_NIX_STORE"], "--store", url] for url in urls]
        for where in ([], *elsewhere):
            argv = ["nix", "path-info", *where, *flake]
            subprocess.run(argv, env=here, check=True, capture_output=True)

    print(compare(f"cache status, {name}", ours, of_the_flake, limit=LIMIT).line())
    print(compare("  each known path alone", ours, one_by_one, limit=LIMIT).line())
    print(compare("  all known paths at once", ours, lambda: bare(*paths)).line())


if __name__ == "__main__":
    main()
