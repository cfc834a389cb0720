"""`tnpu-nix bump`: real git, a real store, and every file as it was when anything goes wrong."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import (
    REPOSITORY,
    Edit,
    GitRepository,
    Project,
    environment,
    run_with_mounts,
)
from tests.servers import serving
from tnpu_nix import pinsfile
from tnpu_nix.bump import triton_options
from tnpu_nix.prefetch import sri_from_base32


def nar_hash(folder: Path) -> str:
    """The hash that nix itself gives a plain folder."""
    argv = ["nix-hash", "--type", "sha256", "--base32", str(folder)]
    done = subprocess.run(argv, env=environment(), capture_output=True, text=True, check=True)
    return sri_from_base32(done.stdout.strip())


def pin(project: Project, name: str = "spike") -> object:
    return dict(pinsfile.load(project.pins).pins.items())[name]


def test_a_branch_is_followed_and_written_with_comments_and_order_kept(
    pinned: Project, repository: GitRepository, tmp_path: Path
) -> None:
    rev = repository.commit("second", file="content", run__sh="x")
    before = pinned.pins.read_text()
    done = pinned.run("bump", "spike", "main")
    assert done.status == 0, done.err
    assert rev in done.out and "refs/heads/main" in done.out and "pins.toml" in done.out
    plain = tmp_path / "plain"
    plain.mkdir()
    repository.git("checkout-index", "--all", f"--prefix={plain}/")
    found = pin(pinned)
    assert (found.rev, found.hash) == (rev, nar_hash(plain))  # type: ignore[attr-defined]
    assert found.date == "2026-01-02T03:04:05Z".replace("Z", "+00:00")  # type: ignore[attr-defined]
    changed = [
        (old, new)
        for old, new in zip(before.splitlines(), pinned.pins.read_text().splitlines(), strict=True)
        if old != new
    ]
    assert [new.split(" = ")[0] for _, new in changed] == ["rev", "hash", "date"]
    assert pinned.run("generate", "--check").status == 0


def test_what_a_bump_fetched_is_what_the_build_uses(
    pinned: Project, repository: GitRepository
) -> None:
    rev = repository.commit("second")
    assert pinned.run("bump", "spike", rev).status == 0
    name = f"thing-{rev[:7]}"
    argv = ["nix-store", "--print-fixed-path", "--recursive", "sha256"]
    argv += [pin(pinned).hash, name]  # type: ignore[attr-defined]
    env = environment(NIX_REMOTE=pinned.env["TNPU_NIX_STORE"])
    path = subprocess.run(argv, env=env, capture_output=True, text=True, check=True).stdout.strip()
    assert Path(f"{pinned.env['TNPU_NIX_STORE']}{path}").is_dir()
    assert f'name = "{name}"' in (pinned.root / "nix" / "sources.nix").read_text()


@pytest.mark.parametrize("how", ["light", "annotated", "tag of a tag", "object of the tag"])
def test_tags_of_every_kind_lead_to_their_commit(
    pinned: Project, repository: GitRepository, how: str
) -> None:
    rev = repository.git("rev-parse", "HEAD")
    repository.git("tag", "v1", *(["-a", "-m", "x"] if how != "light" else []))
    if how == "tag of a tag":
        repository.git("tag", "-a", "-m", "y", "v2", "v1")
    repository.commit("later")
    name = {"tag of a tag": "v2", "object of the tag": repository.git("rev-parse", "v1")}
    done = pinned.run("bump", "spike", name.get(how, "v1"))
    assert done.status == 0, done.err
    assert pin(pinned).rev == rev  # type: ignore[attr-defined]


def test_a_branch_and_a_tag_of_one_name_are_told_apart(
    pinned: Project, repository: GitRepository
) -> None:
    old = repository.git("rev-parse", "HEAD")
    repository.git("tag", "both")
    new = repository.commit("later")
    repository.git("branch", "both")
    pinned.run("bump", "spike", "both").failed_with("refs/heads/both", "refs/tags/both")
    assert pinned.run("bump", "spike", "refs/tags/both").status == 0
    assert pin(pinned).rev == old  # type: ignore[attr-defined]
    assert pinned.run("bump", "spike", "refs/heads/both").status == 0
    assert pin(pinned).rev == new  # type: ignore[attr-defined]


def test_a_revision_that_no_ref_leads_to_directly_is_found(
    pinned: Project, repository: GitRepository
) -> None:
    old = repository.git("rev-parse", "HEAD")
    for number in range(3):
        repository.commit(f"{number}")
    assert pinned.run("bump", "spike", old.upper()).status == 0
    assert pin(pinned).rev == old  # type: ignore[attr-defined]


def test_a_bump_to_what_is_pinned_writes_nothing(
    pinned: Project, repository: GitRepository
) -> None:
    assert pinned.run("bump", "spike", "main").status == 0
    before = {path: (pinned.root / path).stat().st_mtime_ns for path in pinned.files()}
    done = pinned.run("bump", "spike", "main")
    assert "nothing was written" in done.out
    assert before == {path: (pinned.root / path).stat().st_mtime_ns for path in pinned.files()}


def test_no_git_configuration_can_change_a_hash(
    pinned: Project, repository: GitRepository, tmp_path: Path
) -> None:
    repository.commit(
        "awkward",
        text="a\nb\n",
        dos="a\r\nb\r\n",
        __gitattributes="*.c text eol=crlf\nsubst export-subst\nhidden export-ignore\n",
        main__c="int x;\n",
        subst="$Format:%H$\n",
        hidden="here\n",
    )
    (repository.path / "link").symlink_to("text")
    repository.commit("link")
    assert pinned.run("bump", "spike", "main").status == 0
    expected = pin(pinned)
    (tmp_path / "attributes").write_text("* text eol=crlf\n* filter=evil\n")
    (tmp_path / ".gitconfig").write_text(
        "[core]\nautocrlf = true\neol = crlf\nsymlinks = false\n"
        f"attributesFile = {tmp_path}/attributes\n"
        '[filter "evil"]\nsmudge = echo evil\n[url "file:///nowhere/"]\ninsteadOf = file://\n'
    )
    (tmp_path / ".config" / "git").mkdir(parents=True)
    shutil.copy(tmp_path / "attributes", tmp_path / ".config" / "git" / "attributes")
    hostile = {
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "core.autocrlf",
        "GIT_CONFIG_VALUE_0": "true",
        "GIT_DIR": str(tmp_path),
        "NIX_HASH_ALGO": "sha512",
        "NIX_PREFETCH_GIT_LEAVE_DOT_GIT": "1",
    }
    shutil.rmtree(pinned.root / ".tnpu-nix")
    assert pinned.run("bump", "spike", "HEAD", env=hostile).status == 0
    assert pin(pinned) == expected


def test_the_stores_own_settings_reach_the_prefetch(
    pinned: Project, repository: GitRepository, tmp_path: Path
) -> None:
    """Whatever the user's environment says of another store."""
    env = {"NIX_REMOTE": str(tmp_path / "other"), "NIX_CONFIG": "warn-dirty = false"}
    assert pinned.run("bump", "spike", "main", env=env).status == 0
    assert not (tmp_path / "other").exists()
    assert Path(pinned.env["TNPU_NIX_STORE"]).exists()


def test_what_would_change_a_real_nix_prefetch_git_does_not_reach_it(
    pinned: Project, repository: GitRepository, tmp_path: Path
) -> None:
    hostile = {
        **{"NIX_HASH_ALGO": "sha512", "PRINT_PATH": "1", "NIX_PREFETCH_GIT_LEAVE_DOT_GIT": "1"},
        **{"GIT_DIR": "/x", "GIT_CONFIG_COUNT": "7"},
    }
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "nix-prefetch-git").write_text('#!/bin/sh\nenv >"$HOME/environment"\nexit 1\n')
    (tools / "nix-prefetch-git").chmod(0o755)
    path = f"{tools}:{os.environ['PATH']}"
    assert pinned.run("bump", "spike", "main", env={**hostile, "PATH": path}).status == 1
    seen = (tmp_path / "environment").read_text().splitlines()
    assert not [line for line in seen if line.split("=")[0] in hostile and line[-1] != "1"]
    assert "GIT_CONFIG_COUNT=1" in seen  # ours, for submodules on this machine


def test_an_interrupted_bump_leaves_nothing_running_and_nothing_behind(
    pinned: Project, repository: GitRepository, tmp_path: Path, edit: Edit
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    with serving(repository.path.parent, silent=True) as server:
        edit(repository.url, f"{server.url}/thing.git")
        assert pinned.run("generate").status == 0
        for kind in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            running = subprocess.Popen(
                [sys.executable, "-m", "tnpu_nix", "bump", "spike", "main"],
                cwd=pinned.root,
                env=environment(**pinned.env, TMPDIR=str(scratch)),
                stderr=subprocess.PIPE,
                text=True,
            )
            until(lambda: bool(server.requests))
            server.requests.clear()
            running.send_signal(kind)
            _, said = running.communicate(timeout=30)
            assert running.returncode == 1
            assert "stopped by the user" in said
            assert not list(scratch.iterdir())
            assert not processes_with(server.url)


def until(done: Callable[[], bool]) -> None:
    """Wait until something holds, which a deadline far away turns into a failure."""
    deadline = time.monotonic() + 60
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def processes_with(text: str) -> list[str]:
    """Return the command lines of this machine's processes that hold *text*."""
    found = subprocess.run(["pgrep", "--full", "--list-full", text], capture_output=True, text=True)
    return found.stdout.splitlines()


def test_a_server_that_knows_no_filter_is_asked_all_the_same(
    pinned: Project, repository: GitRepository, edit: Edit
) -> None:
    old = repository.git("rev-parse", "HEAD")
    repository.commit("second")
    repository.git("config", "uploadpack.allowFilter", "false")
    with serving(repository.path.parent) as server:
        edit(repository.url, f"{server.url}/thing.git")
        assert pinned.run("generate").status == 0
        assert pinned.run("bump", "spike", old).status == 0
        pinned.run("bump", "spike", "f" * 40).failed_with("has no revision")


def test_submodules_are_part_of_the_hash_only_where_the_pin_says_so(
    pinned: Project, repository: GitRepository, tmp_path: Path, edit: Edit
) -> None:
    inner = GitRepository(tmp_path / "inner")
    inner.commit("inner", inside="inside")
    allow = ["-c", "protocol.file.allow=always"]
    repository.git(*allow, "submodule", "--quiet", "add", inner.url, "sub")
    repository.commit("with a submodule")
    assert pinned.run("bump", "spike", "main").status == 0
    without = pin(pinned).hash  # type: ignore[attr-defined]
    edit('track = "TorchSim"', 'track = "TorchSim"\nsubmodules = true')
    assert pinned.run("generate").status == 0
    assert pinned.run("bump", "spike", "main").status == 0
    assert pin(pinned).hash != without  # type: ignore[attr-defined]
    assert "fetchSubmodules = true;" in (pinned.root / "nix" / "sources.nix").read_text()


def test_lfs_content_is_part_of_the_hash_only_where_the_pin_says_so(
    pinned: Project, repository: GitRepository, edit: Edit, tmp_path: Path
) -> None:
    repository.git("lfs", "install", "--local")
    repository.git("lfs", "track", "*.bin")
    repository.commit("with LFS", data__bin="the content")
    for flag, content in (("false", "version https://git-lfs"), ("true", "the content")):
        edit('track = "TorchSim"', f'track = "TorchSim"\nlfs = {flag}')
        assert pinned.run("generate").status == 0
        assert pinned.run("bump", "spike", "main").status == 0
        found = Path(pinned.env["TNPU_NIX_STORE"]).glob("nix/store/*-thing-*/data.bin")
        assert any(path.read_text().startswith(content) for path in found)
        edit(f"\nlfs = {flag}", "")


def test_lfs_without_the_program_for_it_is_named(
    pinned: Project, repository: GitRepository, edit: Edit, tmp_path: Path
) -> None:
    repository.commit("plain")
    edit('track = "TorchSim"', 'track = "TorchSim"\nlfs = true')
    assert pinned.run("generate").status == 0
    tools = tmp_path / "tools"
    tools.mkdir()
    for folder in ("/usr/bin", "/bin"):
        for tool in Path(folder).iterdir():
            if tool.name != "git-lfs" and not (tools / tool.name).is_symlink():
                (tools / tool.name).symlink_to(tool)
    pinned.run("bump", "spike", "main", env={"PATH": str(tools)}).failed_with("needs git-lfs")


BAD_REVISIONS = {"f" * 40: "has no revision ffff", "nowhere": "no branch or tag 'nowhere'"}


@pytest.mark.parametrize("what", BAD_REVISIONS)
def test_a_revision_that_does_not_exist(pinned: Project, what: str) -> None:
    before = pinned.files()
    pinned.run("bump", "spike", what).failed_with(BAD_REVISIONS[what])
    assert pinned.files() == before


@pytest.mark.parametrize("kind", ["tree", "blob"])
def test_a_tag_of_what_is_no_commit(pinned: Project, repository: GitRepository, kind: str) -> None:
    thing = {"tree": "HEAD^{tree}", "blob": "HEAD:file"}[kind]
    repository.git("tag", "odd", thing)
    for what in ("odd", repository.git("rev-parse", thing)):
        pinned.run("bump", "spike", what).failed_with("is a tree or a file, not a commit")


def test_refs_of_a_forge_are_offered_and_taken_by_their_full_names(
    pinned: Project, repository: GitRepository
) -> None:
    rev = repository.git("rev-parse", "HEAD")
    repository.git("update-ref", "refs/pull/1/head", rev)
    pinned.run("bump", "spike", "pull/1/head").failed_with("it has refs/pull/1/head")
    assert pinned.run("bump", "spike", "refs/pull/1/head").status == 0


def test_a_submodule_that_cannot_be_had_is_named(
    pinned: Project, repository: GitRepository, tmp_path: Path, edit: Edit
) -> None:
    inner = GitRepository(tmp_path / "inner")
    inner.commit("inner")
    repository.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", inner.url)
    repository.commit("with a submodule")
    shutil.rmtree(inner.path)
    edit('track = "TorchSim"', 'track = "TorchSim"\nsubmodules = true')
    assert pinned.run("generate").status == 0
    pinned.run("bump", "spike", "main").failed_with(f"the submodule {inner.url} of")


def test_an_empty_repository_is_said_to_be(pinned: Project, tmp_path: Path, edit: Edit) -> None:
    empty = GitRepository(tmp_path / "empty.git")
    edit((tmp_path / "upstream" / "thing.git").as_uri(), empty.url)
    assert pinned.run("generate").status == 0
    pinned.run("bump", "spike", "main").failed_with("no branch or tag 'main'", "is empty")


def test_odd_variables_of_the_user_do_no_harm(pinned: Project) -> None:
    odd = {"HOME": "", "TMPDIR": "/nowhere", "GIT_SSH": "/bin/false", "GIT_WORK_TREE": "/"}
    done = pinned.run("bump", "spike", "main", env=odd)
    assert done.status == 0, done.err


def test_a_repository_of_sha256_objects_is_refused_in_words(
    pinned: Project, tmp_path: Path, edit: Edit
) -> None:
    other = GitRepository(tmp_path / "other.git", "--object-format=sha256")
    other.commit("first")
    edit((tmp_path / "upstream" / "thing.git").as_uri(), other.url)
    assert pinned.run("generate").status == 0
    pinned.run("bump", "spike", "main").failed_with("revisions of 64 digits")


def test_a_pin_that_does_not_exist(pinned: Project) -> None:
    pinned.run("bump", "gcc", "main").failed_with("no pin 'gcc'", "triton_shared")


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("https://127.0.0.1:1/none.git", "cannot be reached"),
        ("https://nowhere.invalid/none.git", "cannot be reached"),
        ("file:///nowhere/at/all.git", "no git repository"),
    ],
)
def test_a_host_or_repository_that_is_not_there(
    pinned: Project, repository: GitRepository, edit: Edit, url: str, words: str
) -> None:
    edit(repository.url, url)
    assert pinned.run("generate").status == 0
    before = pinned.files()
    for what in ("main", "a" * 40):
        pinned.run("bump", "spike", what).failed_with(words)
    assert pinned.files() == before


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"password": "secret"}, "asks for a password"),
        ({"status": 403}, "asks for a password, or refuses"),
        ({"status": 404}, "no git repository, or one that this user cannot see"),
        ({"status": 500}, "500"),
    ],
)
def test_what_a_server_refuses(
    pinned: Project, repository: GitRepository, edit: Edit, options: dict[str, object], words: str
) -> None:
    with serving(repository.path.parent, **options) as server:
        edit(repository.url, f"{server.url}/thing.git")
        assert pinned.run("generate").status == 0
        before = pinned.files()
        for what in ("main", repository.git("rev-parse", "HEAD")):
            pinned.run("bump", "spike", what).failed_with(words)
        assert server.requests
    assert pinned.files() == before


def test_a_netrc_opens_what_asks_for_a_password(
    pinned: Project, repository: GitRepository, edit: Edit, tmp_path: Path
) -> None:
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login lab password secret\n")
    with serving(repository.path.parent, password="secret") as server:
        edit(repository.url, f"{server.url}/thing.git")
        assert pinned.run("generate").status == 0
        done = pinned.run("bump", "spike", "main")
    assert done.status == 0, done.err
    assert "secret" not in done.out + done.err


def test_a_full_disk_changes_nothing(pinned: Project, repository: GitRepository) -> None:
    repository.commit("large", large="x" * 300_000)
    before = pinned.files()
    small = pinned.root.parent / "small"
    small.mkdir()
    mount = f"mount -t tmpfs -o size=100k tmpfs {small}"
    for env in ({"TMPDIR": str(small)}, {"TNPU_NIX_STORE": str(small / "store")}):
        done = run_with_mounts(
            mount, "bump", "spike", "main", cwd=pinned.root, env=pinned.env | env
        )
        done.failed_with("disk")
    assert pinned.files() == before


def test_without_nix_or_git_the_error_names_what_is_missing(
    pinned: Project, repository: GitRepository, tmp_path: Path
) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("bash", "mkdir", "mktemp", "rm", "chmod", "ln", "basename", "find", "cat", "git"):
        found = shutil.which(name)
        assert found
        (tools / name).symlink_to(found)
    before = pinned.files()
    pinned.run("bump", "spike", "main", env={"PATH": str(tools)}).failed_with(
        "nix is not installed"
    )
    (tools / "nix").symlink_to(shutil.which("nix") or "")
    (tools / "git").unlink()
    pinned.run("bump", "spike", "main", env={"PATH": str(tools)}).failed_with(
        "git is not installed"
    )
    assert pinned.files() == before


def test_a_hand_edited_file_stops_a_bump_before_anything_is_fetched(
    pinned: Project, repository: GitRepository
) -> None:
    (pinned.root / "nix" / "pk.nix").open("a").write("# mine\n")
    before = pinned.files()
    done = pinned.run("bump", "spike", "main")
    done.failed_with("nix/pk.nix", "edited by hand")
    assert "fetching" not in done.err
    assert pinned.files() == before


def test_a_bump_killed_at_any_moment_leaves_the_old_files_or_the_new(
    pinned: Project, repository: GitRepository
) -> None:
    old_rev = repository.git("rev-parse", "HEAD")
    new_rev = repository.commit("second")
    states = {}
    for rev in (old_rev, new_rev):
        assert pinned.run("bump", "spike", rev).status == 0
        states[rev] = pinned.files()
    started = time.monotonic()
    assert pinned.run("bump", "spike", old_rev).status == 0
    usual = time.monotonic() - started
    moments = random.Random(4)
    landed = {old_rev: 0, new_rev: 0}
    at = old_rev
    for _ in range(40):
        aim = new_rev if at == old_rev else old_rev
        argv = [sys.executable, "-m", "tnpu_nix", "bump", "spike", aim]
        running = subprocess.Popen(
            argv,
            cwd=pinned.root,
            env=environment(**pinned.env),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        # Most of the kills fall where the files are written: at the end.
        time.sleep(usual * moments.choice([moments.uniform(0.05, 0.7), moments.uniform(0.7, 1.1)]))
        os.killpg(running.pid, 9)
        running.wait()
        time.sleep(0.05)  # the process that renames is not the one that was killed
        found = pinned.files()
        assert found in states.values()
        at = old_rev if found == states[old_rev] else new_rev
        landed[at] += 1
    assert pinned.run("bump", "spike", new_rev).status == 0
    assert pinned.files() == states[new_rev]
    assert not list((pinned.root / ".tnpu-nix").glob("staged/*"))


def test_two_bumps_at_once_lose_nothing(
    pinned: Project, repository: GitRepository, tmp_path: Path, edit: Edit
) -> None:
    other = GitRepository(tmp_path / "other.git")
    other.commit("other")
    edit("https://github.com/riscv-software-src/riscv-pk.git", other.url)
    assert pinned.run("generate").status == 0
    running = [
        subprocess.Popen(
            [sys.executable, "-m", "tnpu_nix", "bump", name, "main"],
            cwd=pinned.root,
            env=environment(**pinned.env),
        )
        for name in ("spike", "pk")
    ]
    assert [one.wait() for one in running] == [0, 0]
    assert pin(pinned, "spike").rev == repository.git("rev-parse", "HEAD")  # type: ignore[attr-defined]
    assert pin(pinned, "pk").rev == other.git("rev-parse", "HEAD")  # type: ignore[attr-defined]
    assert pinned.run("generate", "--check").status == 0


NEEDS = {
    'requires = ["setuptools", "pybind11>=2.13.1"]': {"build-requires": ["pybind11"]},
    'requires = [\n "cmake>=3.20,<4.0",\n "nanobind==2.10.2",\n]': {"build-requires": ["nanobind"]},
    'requires = ["setuptools"]': {},
}


@pytest.mark.parametrize("requires", NEEDS)
def test_triton_is_asked_what_its_build_needs(tmp_path: Path, requires: str) -> None:
    (tmp_path / "pyproject.toml").write_text(f"[build-system]\n{requires}\n")
    assert triton_options(tmp_path) == NEEDS[requires]


def test_triton_that_wants_json_without_proton_is_noticed(tmp_path: Path) -> None:
    call = "get_thirdparty_packages([get_json_package_info()])"
    for function, wanted in (("get_proton_cmake_args", False), ("build_extension", True)):
        (tmp_path / "setup.py").write_text(f"def {function}(self):\n    return {call}\n")
        assert triton_options(tmp_path) == {"nlohmann-json": wanted}


def test_a_bump_of_triton_writes_what_the_new_source_needs(
    project: Project, repository: GitRepository, edit: Edit
) -> None:
    edit("https://github.com/triton-lang/triton.git", repository.url)
    assert project.run("generate").status == 0
    repository.commit("new", pyproject__toml='[build-system]\nrequires = ["nanobind"]\n')
    done = project.run("bump", "triton", "main")
    assert "build-requires = ['nanobind']" in done.out
    assert pinsfile.load(project.pins).triton.build_requires == ["nanobind"]
    assert "[ python.pkgs.nanobind ]" in (project.root / "nix" / "triton.nix").read_text()


def test_a_nix_prefetch_git_on_path_is_preferred(
    pinned: Project, repository: GitRepository, tmp_path: Path
) -> None:
    """The real one is not packaged in Debian; its answer was recorded from nixpkgs' program."""
    rev = repository.git("rev-parse", "HEAD")
    tools = tmp_path / "tools"
    tools.mkdir()
    program = tools / "nix-prefetch-git"
    program.write_text(
        '#!/bin/sh\necho "$@" >"$HOME/arguments"\necho \'{"url": "u", "rev": "' + rev + '",'
        ' "date": "2026-01-02T03:04:05Z", "path": "/nix/store/x",'
        ' "sha256": "07b9isdv54ybd7ms6ci8gi3d5lry7cac7vspygkvmfbcp4wc63w0", "hash": "",'
        ' "fetchLFS": false, "fetchSubmodules": false, "deepClone": false,'
        ' "leaveDotGit": false}\'\n'
    )
    program.chmod(0o755)
    done = pinned.run("bump", "spike", rev, env={"PATH": f"{tools}:{os.environ['PATH']}"})
    assert done.status == 0, done.err
    assert (tmp_path / "arguments").read_text() == f"--url {repository.url} --rev {rev} --quiet\n"
    assert pin(pinned).date == "2026-01-02T03:04:05+00:00"  # type: ignore[attr-defined]
    sri = sri_from_base32("07b9isdv54ybd7ms6ci8gi3d5lry7cac7vspygkvmfbcp4wc63w0")
    assert pin(pinned).hash == sri  # type: ignore[attr-defined]


def test_base32_is_turned_into_the_sri_that_nix_gives() -> None:
    # nix-hash --type sha256 --to-sri of the same digest, Nix 2.26.
    digest = "0wpwzrpsmqd7syw4d4ly4glf5fp5g2gfwxs5avyxjk8bs47hszvf"
    expected = subprocess.run(
        [
            "nix",
            "--extra-experimental-features",
            "nix-command",
            "hash",
            "to-sri",
            "--type",
            "sha256",
            digest,
        ],
        env=environment(),
        capture_output=True,
        text=True,
    )
    assert sri_from_base32(digest) == expected.stdout.strip()
    with pytest.raises(ValueError, match="base32"):
        sri_from_base32("short")


def test_the_shipped_program_is_found_from_an_installed_package() -> None:
    assert (REPOSITORY / "tnpu_nix" / "nix-prefetch-git").is_file()
