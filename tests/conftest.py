"""What the tests share: the real command, real git repositories, a private Nix store."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tnpu_nix import pinsfile
from tnpu_nix.pins import Pin

if TYPE_CHECKING:
    from tests.lab import Lab
    from tests.verifying import Bench

REPOSITORY = Path(__file__).resolve().parent.parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files that need the demo come last: while one process makes it, others have work to do."""
    late = {item.path for item in items if "demo" in getattr(item, "fixturenames", ())}
    items.sort(key=lambda item: item.path in late)


@dataclass
class Project:
    """A project in a folder of its own, and the command run in it."""

    root: Path
    env: dict[str, str] = field(default_factory=dict)

    @property
    def pins(self) -> Path:
        return self.root / "pins.toml"

    def run(self, *arguments: str | Path, env: dict[str, str] | None = None) -> Ran:
        """Run the real `tnpu-nix` here."""
        return run_command(*arguments, cwd=self.root, env={**self.env, **(env or {})})

    def pin(self, name: str = "spike") -> Pin:
        """A pin as pins.toml has it now."""
        return pinsfile.load(self.pins).pins.named(name)

    def files(self) -> dict[str, bytes]:
        """Every file that a user sees, with its content."""
        return {
            path.relative_to(self.root).as_posix(): path.read_bytes()
            for path in sorted(self.root.rglob("*"))
            if path.is_file() and not {".tnpu-nix", ".git"} & set(path.parts)
        }


@dataclass
class Ran:
    """A command that ended."""

    status: int
    out: str
    err: str

    def failed_with(self, *words: str) -> None:
        """Assert that it failed as users are promised: what and why, then what to do."""
        assert self.status == 1, self
        lines = self.err.rstrip("\n").split("\n")
        assert lines[-2].startswith("tnpu-nix: error: "), self.err
        assert lines[-1].startswith("  hint: "), self.err
        assert "Traceback" not in self.err and "a fault of tnpu-nix" not in self.err
        for word in words:
            assert word in self.err, f"{word!r} is not in: {self.err}"


def environment(**more: str) -> dict[str, str]:
    """This process's environment with the command on PATH and nothing of the user's git or nix."""
    clean = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("GIT_", "NIX_", "TNPU_"))
    }
    clean["PATH"] = f"{Path(sys.executable).parent}:{clean['PATH']}"
    return {**clean, **more}


def run_command(
    *arguments: str | Path, cwd: Path, env: dict[str, str] | None = None, timeout: float = 280
) -> Ran:
    """Run the real `tnpu-nix` in a folder."""
    argv = [sys.executable, "-m", "tnpu_nix", *map(str, arguments)]
    done = subprocess.run(
        argv,
        cwd=cwd,
        env=environment(**(env or {})),
        capture_output=True,
        text=True,
        timeout=timeout,
        stdin=subprocess.DEVNULL,
    )
    return Ran(done.returncode, done.stdout, done.stderr)


def run_with_mounts(
    mounts: str, *arguments: str | Path, cwd: Path, env: dict[str, str] | None = None
) -> Ran:
    """Run the command where a shell script has mounted things that nobody else sees."""
    command = shlex.join([sys.executable, "-m", "tnpu_nix", *map(str, arguments)])
    script = f"""
      set -e
      {mounts}
      cd {shlex.quote(str(cwd))}
      {command} || exit
    """
    apart = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "-Urm"]
    done = subprocess.run(
        [*apart, "bash", "-c", script],
        env=environment(**(env or {})),
        capture_output=True,
        text=True,
        timeout=280,
        stdin=subprocess.DEVNULL,
    )
    return Ran(done.returncode, done.stdout, done.stderr)


class GitRepository:
    """A real repository, made commit by commit."""

    def __init__(self, path: Path, *options: str) -> None:
        self.path = path
        self.url = path.as_uri()
        path.mkdir(parents=True)
        self.git("init", "--quiet", "--initial-branch=main", *options)

    def git(self, *arguments: str, **more: str) -> str:
        """Run git in it, apart from the user's configuration, with a fixed identity and date."""
        identity = {"NAME": "Test", "EMAIL": "test@example.invalid", "DATE": "2026-01-02T03:04:05Z"}
        env = environment(GIT_CONFIG_GLOBAL="/dev/null", GIT_CONFIG_NOSYSTEM="1")
        for who in ("AUTHOR", "COMMITTER"):
            env |= {f"GIT_{who}_{key}": value for key, value in identity.items()}
        argv = ["git", "-C", str(self.path), *arguments]
        done = subprocess.run(argv, env={**env, **more}, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def commit(self, message: str = "change", **files: str) -> str:
        """Commit files (name with ``__`` for a dot → content) and return the revision."""
        for name, content in (files or {"file": message}).items():
            (self.path / name.replace("__", ".")).write_bytes(content.encode())
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "--message", message)
        return self.git("rev-parse", "HEAD")


@pytest.fixture
def repository(tmp_path: Path) -> GitRepository:
    """A git repository with one commit on main."""
    made = GitRepository(tmp_path / "upstream" / "thing.git")
    made.commit("first")
    return made


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A copy of this repository's own pins.toml, generated, in a folder of its own."""
    root = tmp_path / "project"
    root.mkdir()
    scratch = tmp_path / "tmp"  # what killed commands leave does not stay on the machine
    scratch.mkdir()
    env = {"TNPU_NIX_STORE": str(tmp_path / "store"), "HOME": str(tmp_path)}
    made = Project(root, {**env, "TMPDIR": str(scratch)})
    made.pins.write_bytes((REPOSITORY / "pins.toml").read_bytes())
    assert made.run("generate").status == 0
    return made


@pytest.fixture
def pinned(project: Project, repository: GitRepository) -> Project:
    """A project whose spike pin is the repository of the test."""
    text = project.pins.read_text()
    url = "https://github.com/PSAL-POSTECH/riscv-isa-sim.git"
    project.pins.write_text(text.replace(url, repository.url))
    assert project.run("generate").status == 0
    return project


TRIO_URLS = {
    "llvm": "https://github.com/llvm/llvm-project.git",
    "triton": "https://github.com/triton-lang/triton.git",
    "triton_shared": "https://github.com/facebookincubator/triton-shared.git",
}


@dataclass
class Trio:
    """llvm, triton and triton_shared as repositories, and a project that pins them.

    llvm    A -- B            B is the head
    triton  names A, then B   (in either form of the coupling file)
    shared  names the first triton
    """

    project: Project
    repositories: dict[str, GitRepository]
    llvm: tuple[str, str]
    triton: tuple[str, str]

    def bump(self, *words: str) -> None:
        done = self.project.run("bump", *words)
        assert done.status == 0, done.err


def coupling(form: str, rev: str) -> dict[str, str]:
    if form == "llvm-hash.txt":
        return {"cmake/llvm-hash__txt": rev}
    info = {"llvm_hash": rev, "build_number": 2, "sha256sum": {}}
    return {"cmake/llvm-info__json": json.dumps(info)}


@pytest.fixture
def trio(project: Project, tmp_path: Path, request: pytest.FixtureRequest) -> Trio:
    """A trio, whose triton names its LLVM in the newer form, or in that of the parameter."""
    form = getattr(request, "param", "llvm-info.json")
    made = {name: GitRepository(tmp_path / "repos" / f"{name}.git") for name in TRIO_URLS}
    # This repository's own pins say why theirs may disagree; these tests begin without that.
    lines = project.pins.read_text().splitlines(keepends=True)
    text = "".join(line for line in lines if not line.startswith("mismatch"))
    for name, url in TRIO_URLS.items():
        text = text.replace(url, made[name].url)
    project.pins.write_text(text)
    assert project.run("generate").status == 0
    llvm = (made["llvm"].commit("A"), made["llvm"].commit("B"))
    (made["triton"].path / "cmake").mkdir()
    triton = tuple(made["triton"].commit(rev, **coupling(form, rev)) for rev in llvm)
    made["triton_shared"].commit("shared", **{"triton-hash__txt": triton[0] + "\n"})
    found = Trio(project, made, llvm, triton)  # type: ignore[arg-type]
    found.bump(f"llvm={llvm[0]}", f"triton={triton[0]}", "triton_shared=main")
    return found


@pytest.fixture(autouse=True, scope="session")
def _stores_can_be_removed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Nix stores are read-only trees, which pytest could not remove later."""
    yield
    base = tmp_path_factory.getbasetemp()
    subprocess.run(["chmod", "-R", "u+w", base], check=False, capture_output=True)


def made_once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], None]) -> Path:
    """A folder that all processes of this run of the tests share; the first of them fills it."""
    base = factory.getbasetemp()
    base = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    folder, done = base / name, base / f"{name}.done"
    with (base / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            make(folder)
            done.touch()
    return folder


Edit = Callable[[str, str], None]


@pytest.fixture
def edit(project: Project) -> Edit:
    """Replace text in the project's pins.toml; the text must be there."""

    def replace(old: str, new: str) -> None:
        text = project.pins.read_text()
        assert old in text
        project.pins.write_text(text.replace(old, new, 1))

    return replace


@dataclass(frozen=True)
class Demo:
    """A demo that has run: what it printed, its folder, and its store to build more in."""

    said: Ran
    folder: Path

    @property
    def store(self) -> Path:
        return self.folder / "store"

    def project(self, root: Path) -> Project:
        """A copy of the demo's project outside git, which builds in the demo's store."""
        shutil.copytree(self.folder / "project", root, ignore=shutil.ignore_patterns(".git"))
        return Project(root, {"TNPU_NIX_STORE": str(self.store)})


@pytest.fixture(scope="session")
def demo(testrun_uid: str) -> Demo:
    """The demo, run without any network; its folder stays, so that a second run is quick.

    Of several processes that share the tests the first runs it, and the others take what it said.
    """
    folder = REPOSITORY / ".test-cache" / "demo"
    folder.parent.mkdir(exist_ok=True)
    record = folder.with_suffix(".json")
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with contextlib.suppress(OSError, ValueError):
            known = json.loads(record.read_text())
            if known["run"] == testrun_uid:
                return Demo(Ran(**known["said"]), folder)
        said = _run_demo(folder)
        assert said.status == 0, said
        record.write_text(json.dumps({"run": testrun_uid, "said": asdict(said)}))
    return Demo(said, folder)


def _run_demo(folder: Path) -> Ran:
    apart = ["unshare", "--net"] if os.geteuid() == 0 else ["unshare", "--user", "--net", "-r"]
    done = subprocess.run(
        [*apart, sys.executable, "-m", "tnpu_nix", "demo", str(folder)],
        env=environment(),
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )
    return Ran(done.returncode, done.stdout, done.stderr)


@pytest.fixture(scope="session")
def built_image(demo: Demo, tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """The demo's image, whole and in parts, to be altered."""
    from tests.verifying import made

    return made(demo, tmp_path_factory.mktemp("image"))


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    """Five upstreams to import pins of."""
    from tests.lab import Lab

    return Lab(tmp_path_factory.mktemp("upstreams"))


@pytest.fixture
def here(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """An empty folder, and a store that all such folders share."""
    root = tmp_path / "here"
    root.mkdir()
    store = tmp_path_factory.getbasetemp() / "shared-store"
    return Project(root, {"TNPU_NIX_STORE": str(store), "HOME": str(tmp_path)})
