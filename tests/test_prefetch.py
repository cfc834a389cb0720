"""A source in the store: its hash depends on revision and flags of the pin, on nothing else."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from tests.conftest import (
    REPOSITORY,
    Edit,
    GitRepository,
    Project,
    environment,
)
from tnpu_nix.storepath import sri_from_base32


def test_what_a_bump_fetched_is_what_the_build_uses(
    pinned: Project, repository: GitRepository
) -> None:
    rev = repository.commit("second")
    assert pinned.run("bump", "spike", rev).status == 0
    name = f"thing-{rev[:7]}"
    argv = ["nix-store", "--print-fixed-path", "--recursive", "sha256"]
    argv += [pinned.pin().hash, name]
    env = environment(NIX_REMOTE=pinned.env["TNPU_NIX_STORE"])
    path = subprocess.run(argv, env=env, capture_output=True, text=True, check=True).stdout.strip()
    assert Path(f"{pinned.env['TNPU_NIX_STORE']}{path}").is_dir()
    assert f'name = "{name}"' in (pinned.root / "nix" / "sources.nix").read_text()


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
    expected = pinned.pin()
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
    assert pinned.pin() == expected


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
    assert "GIT_CONFIG_NOSYSTEM=1" in seen
    assert not [line for line in seen if line.split("=")[0] in hostile]


def test_submodules_are_part_of_the_hash_only_where_the_pin_says_so(
    pinned: Project, repository: GitRepository, tmp_path: Path, edit: Edit
) -> None:
    inner = GitRepository(tmp_path / "inner")
    inner.commit("inner", inside="inside")
    allow = ["-c", "protocol.file.allow=always"]
    repository.git(*allow, "submodule", "--quiet", "add", inner.url, "sub")
    repository.commit("with a submodule")
    assert pinned.run("bump", "spike", "main").status == 0
    without = pinned.pin().hash
    edit('track = "TorchSim"', 'track = "TorchSim"\nsubmodules = true')
    assert pinned.run("generate").status == 0
    assert pinned.run("bump", "spike", "main").status == 0
    assert pinned.pin().hash != without
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


def test_odd_variables_of_the_user_do_no_harm(pinned: Project) -> None:
    odd = {"HOME": "", "TMPDIR": "/nowhere", "GIT_SSH": "/bin/false", "GIT_WORK_TREE": "/"}
    done = pinned.run("bump", "spike", "main", env=odd)
    assert done.status == 0, done.err


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
    assert pinned.pin().date == "2026-01-02T03:04:05+00:00"
    sri = sri_from_base32("07b9isdv54ybd7ms6ci8gi3d5lry7cac7vspygkvmfbcp4wc63w0")
    assert pinned.pin().hash == sri


def test_the_shipped_program_is_found_from_an_installed_package() -> None:
    assert (REPOSITORY / "tnpu_nix" / "nix-prefetch-git").is_file()


def test_lfs_content_that_the_server_lost_is_not_a_lost_revision(
    pinned: Project, repository: GitRepository, edit: Edit
) -> None:
    pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{'a' * 64}\nsize 3\n"
    repository.commit("lfs", __gitattributes="*.bin filter=lfs diff=lfs merge=lfs -text\n")
    repository.commit("content", **{"thing__bin": pointer})
    edit(f'url = "{repository.url}"', f'url = "{repository.url}"\nlfs = true')
    pinned.run("bump", "spike", "main").failed_with("Git LFS content", "lfs = false")
