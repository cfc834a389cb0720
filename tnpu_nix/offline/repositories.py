"""The miniature upstreams as git repositories, with the same revisions on every machine."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tnpu_nix import git, process
from tnpu_nix.errors import TnpuError
from tnpu_nix.remote import Remote

BRANCH = "main"

_UPSTREAMS = Path(__file__).parent / "upstreams"
_AUTHOR = "tnpu-nix miniature <miniature@example.invalid>"
# Seconds since 1970 of the first commit and of the second: 2026-01-01 and 2026-02-01, noon UTC.
_DATES = (1767268800, 1769947200)
# What an installation may have lost: packaging drops execute permissions and files named .*.
_EXECUTABLE = ("configure",)
_DOT = "dot-"


@dataclass(frozen=True)
class Repository:
    """A bare repository on this machine.

    Attributes:
        name: the pin's name, as in pins.toml.
        url: ``file://`` URL that git and nix-prefetch-git take.
        head: revision that the branch is at.
        history: revisions of the branch, oldest first.
        branch: the only branch, also what HEAD names.
        tags: tag -> revision.
    """

    name: str
    url: str
    head: str
    history: tuple[str, ...]
    branch: str
    tags: Mapping[str, str]


@dataclass(frozen=True)
class _Upstream:
    """How a source tree becomes a repository of two commits; the first one carries the tag."""

    name: str
    repository: str
    tag: str
    # path -> (text at the head, text at the tag)
    earlier: Mapping[str, tuple[str, str]]
    # (path, upstream): the file holds that upstream's revision at the same age, head or tag
    couplings: tuple[tuple[str, str], ...] = ()
    # path -> upstream: that upstream at the same age is a submodule there
    submodules: Mapping[str, str] = field(default_factory=dict)


# Each upstream stands after those whose revisions it names.
_ALL = (
    _Upstream(
        "llvm",
        "llvm-project.git",
        "llvmorg-23-init",
        {"README.md": ("# llvm-project, in miniature", "# llvm-project in miniature")},
    ),
    _Upstream("triton", "triton.git", "v3.6.0", {}, (("cmake/llvm-hash.txt", "llvm"),)),
    _Upstream(
        "triton_shared",
        "triton-shared.git",
        "v0.1.0",
        {"VERSION": ("0.2.0", "0.1.0")},
        (("triton-hash.txt", "triton"),),
        {"triton": "triton"},
    ),
    _Upstream("spike", "riscv-isa-sim.git", "v1.1.0", {"VERSION": ("1.1.1-dev", "1.1.0")}),
    _Upstream("pk", "riscv-pk.git", "v1.0.0", {"VERSION": ("1.1.0", "1.0.0")}),
)


def make_repositories(destination: Path) -> dict[str, Repository]:
    """Return the five repositories below *destination*, by the pin's name.

    What is there already and whole is kept; what is missing, damaged or of another version of the
    miniatures is made anew. The revisions depend on the source trees alone.

    Raises:
        TnpuError: git is missing or failed, or the folder cannot be written.
    """
    made: dict[str, Repository] = {}
    with git.isolated(Remote(str(destination.absolute()))) as env:
        try:
            destination.mkdir(parents=True, exist_ok=True)
            for upstream in _ALL:
                made[upstream.name] = _settle(upstream, destination.resolve(), made, env)
        except OSError as error:
            raise TnpuError(
                f"the miniature repositories cannot be made in {destination}: {error.strerror}",
                "name a folder that can be written, on a disk with room",
            ) from error
    return made


def _settle(
    upstream: _Upstream, destination: Path, made: Mapping[str, Repository], env: Mapping[str, str]
) -> Repository:
    """Make the repository beside its place, and move it there unless an equal one is there."""
    place = destination / upstream.repository
    with tempfile.TemporaryDirectory(prefix=".making-", dir=destination) as folder:
        fresh = Path(folder) / upstream.repository
        _import(fresh, _stream(upstream, made), env)
        if not _same(place, fresh, env):
            if place.exists() or place.is_symlink():
                place.rename(Path(folder) / "replaced")
            fresh.rename(place)
    history = tuple(_git(place, env, "rev-list", "--reverse", BRANCH).split())
    return Repository(
        name=upstream.name,
        url=place.as_uri(),
        head=history[-1],
        history=history,
        branch=BRANCH,
        tags={upstream.tag: history[0]},
    )


def _git(repository: Path, env: Mapping[str, str], *arguments: str, stdin: str = "") -> str:
    argv = ["git", f"--git-dir={repository}", *arguments]
    done = process.run(argv, env=env, stdin=stdin)
    if done.status != 0:
        raise TnpuError(
            f"git {arguments[0]} failed in {repository}: {done.stderr.strip()}",
            "check that git works on this machine (git --version)",
        )
    return done.stdout


def _import(repository: Path, stream: str, env: Mapping[str, str]) -> None:
    """Make a bare repository of a stream for git fast-import.

    fast-import stores bytes as they are: no attribute, filter, line ending or umask changes them.
    """
    _git(repository, env, "init", "--quiet", "--bare", f"--initial-branch={BRANCH}", "--template=")
    # A bump may name any revision, and a prefetch asks for it by its name alone.
    for key in ("allowAnySHA1InWant", "allowFilter"):
        _git(repository, env, "config", f"uploadpack.{key}", "true")
    _git(repository, env, "-c", "fastimport.unpackLimit=0", "fast-import", "--quiet", stdin=stream)
    for path in (repository, *repository.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)


def _same(there: Path, fresh: Path, env: Mapping[str, str]) -> bool:
    """Tell whether *there* is whole and has the branch, tag and settings of *fresh*."""
    try:
        if any((there / name).read_bytes() != (fresh / name).read_bytes() for name in _SETTINGS):
            return False
        refs = [_git(one, env, "for-each-ref") for one in (there, fresh)]
        _git(there, env, "fsck", "--full", "--strict", "--no-dangling")
    except (TnpuError, OSError):
        return False
    return refs[0] == refs[1]


_SETTINGS = ("HEAD", "config")


def _stream(upstream: _Upstream, made: Mapping[str, Repository]) -> str:
    head = dict(_tree(_UPSTREAMS / upstream.name))
    tagged = dict(head)
    for path, (new, old) in upstream.earlier.items():
        if new not in head[path]:
            raise AssertionError(f"{upstream.name}/{path} no longer holds {new!r}")
        tagged[path] = head[path].replace(new, old, 1)
    for path, other in upstream.couplings:
        head[path] = made[other].head
        tagged[path] = made[other].history[0]
    first = {path: made[other].history[0] for path, other in upstream.submodules.items()}
    second = {path: made[other].head for path, other in upstream.submodules.items()}
    title = f"{upstream.repository.removesuffix('.git')} in miniature"
    return "".join(
        [
            _commit(1, title, tagged, first),
            f"reset refs/tags/{upstream.tag}\nfrom :1\n\n",
            _commit(2, "Move on", head, second),
        ]
    )


def _tree(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield path and text of every file of a source tree, in a fixed order."""
    for path in sorted(folder.rglob("*")):
        if path.is_dir() or "__pycache__" in path.parts:
            continue
        parts = path.relative_to(folder).parts
        yield "/".join(_real_name(part) for part in parts), path.read_text(encoding="ascii")


def _real_name(part: str) -> str:
    return f".{part.removeprefix(_DOT)}" if part.startswith(_DOT) else part


def _commit(
    number: int, message: str, files: Mapping[str, str], submodules: Mapping[str, str]
) -> str:
    """Return a commit of exactly these files for git fast-import, on top of the one before."""
    who = f"{_AUTHOR} {_DATES[number - 1]} +0000"
    lines = [
        f"commit refs/heads/{BRANCH}\nmark :{number}\nauthor {who}\ncommitter {who}\n",
        _data(message + "\n"),
    ]
    if number > 1:
        lines.append(f"from :{number - 1}\ndeleteall\n")
    for path, text in sorted(files.items()):
        mode = "100755" if path in _EXECUTABLE else "100644"
        lines.append(f"M {mode} inline {path}\n{_data(text)}")
    lines += [f"M 160000 {rev} {path}\n" for path, rev in sorted(submodules.items())]
    return "".join(lines) + "\n"


def _data(text: str) -> str:
    # Lengths are in bytes; the trees are ASCII, so that they are in characters too.
    return f"data {len(text)}\n{text}\n"
