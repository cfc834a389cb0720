"""A lab with a cache: the demo's outputs, pushed once; each test has copies of its own."""

from __future__ import annotations

import shlex
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.cache.web import Nginx, serving
from tests.conftest import Demo, Project, Ran, environment, made_once, run_with_mounts
from tnpu_nix import pinsfile

# A few megabytes: the components without the image and its Python.
SMALL = ("spike", "pk", "llvm-tools")


@dataclass
class Lab:
    """A project whose outputs are built, a signing key, and a `file://` cache."""

    project: Project
    builder: Path  # the store that has everything
    reader: Path  # a store that has nothing
    key: Path
    public: str
    folder: Path  # of the cache

    @property
    def url(self) -> str:
        return f"file://{self.folder}"

    def cache(self, *arguments: str | Path, store: Path | None = None, **env: str) -> Ran:
        """Run `tnpu-nix cache`, by default with the reader's store."""
        words = [*arguments, *self._profile(str(arguments[0]))]
        return self.project.run("cache", *words, env=self.env(store, **env))

    def env(self, store: Path | None = None, **more: str) -> dict[str, str]:
        return {"TNPU_NIX_STORE": str(store or self.reader), **more}

    def _profile(self, verb: str) -> list[str]:
        return [] if verb in ("keygen", "use") else ["--offline-profile"]

    def push(self, *arguments: str | Path, to: str | None = None, **env: str) -> Ran:
        """Push from the builder's store, signed with the lab's key."""
        words = ["push", *arguments, "--to", to or self.url, "--key-file", self.key]
        return self.cache(*words, store=self.builder, **env)

    def mounted(self, mounts: str, *arguments: str | Path, store: Path | None = None) -> Ran:
        words = ["cache", *arguments, "--offline-profile"]
        env = {**self.project.env, **self.env(store)}
        return run_with_mounts(mounts, *words, cwd=self.project.root, env=env)

    def path(self, output: str) -> str:
        """The store path of an output."""
        return self.paths()[output]

    def paths(self) -> dict[str, str]:
        from tnpu_nix.cache.current import current
        from tnpu_nix.nix import Nix

        now = current(self.project.root, Nix(self.builder, offline_profile=True))
        return {name: paths[0] for name, paths in now.outputs.items()}

    def narinfo(self, output: str) -> Path:
        return self.folder / f"{self.path(output)[11:43]}.narinfo"

    def nar(self, output: str) -> Path:
        text = self.narinfo(output).read_text()
        return self.folder / next(
            line[5:] for line in text.splitlines() if line.startswith("URL: ")
        )

    def in_store(self, output: str, store: Path | None = None) -> Path:
        return Path(f"{store or self.reader}{self.path(output)}")

    def empty(self, store: Path | None = None) -> bool:
        """Whether no output lies in the store; evaluation may have put derivations there."""
        outputs = self.paths().values()
        return not any(Path(f"{store or self.reader}{path}").exists() for path in outputs)


def read_until(running: subprocess.Popen[str], words: str) -> None:
    """Read what a command says to standard error until it has said some words."""
    assert running.stderr is not None
    said = ""
    while words not in said:
        line = running.stderr.readline()
        assert line, said
        said += line


@pytest.fixture(scope="session")
def filled(demo: Demo, tmp_path_factory: pytest.TempPathFactory) -> Lab:
    """The lab that the tests' own are copied from: everything is in its cache."""

    def lab(base: Path) -> Lab:
        project = Project(base / "project", {"HOME": str(base)})
        public = base / "lab.public"
        text = public.read_text() if public.exists() else ""
        return Lab(project, demo.store, base / "reader", base / "lab.key", text, base / "cache")

    def fill(base: Path) -> None:
        demo.project(base / "project")
        new = lab(base)
        made = new.project.run("cache", "keygen", "lab-1", "--file", new.key, "--write")
        assert made.status == 0, made.err
        (base / "lab.public").write_text(made.out.strip())
        # xz, which Nix takes if it is not told, is ten times as slow.
        pushed = new.push(to=f"{new.url}?compression=zstd")
        assert pushed.status == 0, pushed.err

    return lab(made_once(tmp_path_factory, "lab", fill))


def copy(lab: Lab, place: Path) -> Lab:
    """A lab like another, in a folder of its own, whose reader has nothing."""
    for name, source in (("project", lab.project.root), ("cache", lab.folder)):
        if source.exists():
            shutil.copytree(source, place / name, symlinks=True)
    project = Project(place / "project", {"HOME": str(place)})
    return Lab(project, lab.builder, place / "reader", lab.key, lab.public, place / "cache")


@pytest.fixture
def lab(filled: Lab, tmp_path: Path) -> Lab:
    """A lab of the test's own, with everything in its cache."""
    return copy(filled, tmp_path)


@pytest.fixture
def bare(lab: Lab) -> Lab:
    """A lab of the test's own, with an empty cache."""
    shutil.rmtree(lab.folder)
    return lab


@pytest.fixture
def nginx(tmp_path: Path) -> Iterator[Callable[[Path], Nginx]]:
    """Starts nginx over a folder; the user is lab, the password hush."""
    with ExitStack() as stack:
        yield lambda folder: stack.enter_context(serving(folder, tmp_path / "nginx"))


@pytest.fixture
def silent() -> Iterator[str]:
    """The URL of a server that takes connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


def edit(project: Project, **values: object) -> None:
    """Set keys of [cache] in pins.toml, and regenerate."""
    changes: dict[tuple[str, ...], object] = {
        ("cache", key.replace("_", "-")): value for key, value in values.items()
    }
    project.pins.write_text(pinsfile.edit(project.pins.read_text(), changes))
    assert project.run("generate").status == 0


def read_only(lab: Lab) -> str:
    """Mounts that keep everybody, root as well, from writing in the project's folder."""
    root = shlex.quote(str(lab.project.root))
    return f"mount --bind {root} {root}; mount -o remount,bind,ro {root}"


def nix(store: Path | None, *argv: str, **more: str) -> subprocess.CompletedProcess[str]:
    """Run a program of Nix itself on a store of its own."""
    config = "extra-experimental-features = nix-command flakes\nbuild-users-group ="
    env = environment(NIX_CONFIG=config, **more)
    if store is not None:
        env["NIX_REMOTE"] = str(store)
    return subprocess.run(argv, env=env, capture_output=True, text=True)
