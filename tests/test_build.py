"""`tnpu-nix build`: what it prints, and what it says when the build cannot be."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from os import mkfifo
from pathlib import Path

import pytest

from tests.conftest import Demo, GitRepository, Project, Ran, environment, run_with_mounts
from tnpu_nix import pinsfile
from tnpu_nix.flake import derivation_name, hostpkgs
from tnpu_nix.history import duration, load
from tnpu_nix.nix import Nix, failure


@pytest.fixture
def bench(demo: Demo, tmp_path: Path) -> Project:
    """A copy of the demo's project, in the demo's store."""
    return demo.project(tmp_path / "project")


def repin(project: Project, name: str, **values: str) -> None:
    """Write values of a pin by hand, and regenerate."""
    changes = {("pins", name, key): value for key, value in values.items()}
    project.pins.write_text(pinsfile.edit(project.pins.read_text(), changes))
    assert project.run("generate").status == 0


def test_standard_output_is_the_path_and_nothing_else(bench: Project) -> None:
    done = bench.run("build", "pk", "--offline-profile")
    assert done.status == 0, done.err
    assert done.out.count("\n") == 1
    assert (Path(done.out.strip()) / "bin" / "pk").is_file()
    assert "a test bench and not the real thing" in done.err


@pytest.mark.parametrize("where", ["a git repository", "a b", "a#b?c%20d", "ü한"])
def test_it_works_wherever_the_project_lies(demo: Demo, tmp_path: Path, where: str) -> None:
    project = demo.project(tmp_path / where / "project")
    if where == "a git repository":  # with nothing tracked in it yet
        subprocess.run(["git", "init", "--quiet", str(project.root)], check=True)
    done = project.run("build", "pk", "--offline-profile")
    assert done.status == 0, done.err


def test_nix_build_itself_gives_the_same_path(bench: Project) -> None:
    """What `tnpu-nix build` gives is what people get from `nix build .#pk`."""
    mine = bench.run("build", "pk", "--offline-profile").out.strip()
    git = ["git", "-C", str(bench.root)]
    subprocess.run([*git, "init", "--quiet"], check=True)
    subprocess.run([*git, "add", "--all"], check=True)
    nix = Nix(store=Path(bench.env["TNPU_NIX_STORE"]), offline_profile=True)
    argv = ["nix", "build", ".#pk", "--no-link", "--json"]
    argv += ["--override-input", "nixpkgs", f"path:{hostpkgs()}"]
    done = subprocess.run(argv, cwd=bench.root, env=nix.environment(), capture_output=True)
    assert done.returncode == 0, done.stderr
    assert str(nix.on_disk(json.loads(done.stdout)[0]["outputs"]["out"])) == mine


def test_components_say_what_they_are_and_under_which_licence(bench: Project) -> None:
    nix = Nix(store=Path(bench.env["TNPU_NIX_STORE"]), offline_profile=True)
    argv = ["nix", "eval", "--json", "path:.#packages.x86_64-linux", "--apply"]
    argv += ["builtins.mapAttrs (_: one: removeAttrs one.meta [ ])"]
    argv += ["--override-input", "nixpkgs", f"path:{hostpkgs()}"]
    done = subprocess.run(argv, cwd=bench.root, env=nix.environment(), capture_output=True)
    assert done.returncode == 0, done.stderr
    metas = json.loads(done.stdout)
    llvm, bsd, mit = "Apache-2.0 WITH LLVM-exception", "BSD-3-Clause", "MIT"
    parts = ("llvm", "mlir", "lld", "llvm-toolchain", "llvm-tools")
    licences = {name: [llvm] for name in parts}
    licences |= {"triton": [mit, llvm], "spike": [bsd], "pk": [bsd]}
    for name, expected in licences.items():
        meta = metas[name]
        assert meta["description"] and meta["homepage"].startswith("https://"), name
        found = meta["license"] if isinstance(meta["license"], list) else [meta["license"]]
        assert [one["spdxId"] for one in found] == expected, name
        assert all(one["fullName"] for one in found), name


def test_what_is_built_is_shown_in_plain_lines_off_a_terminal(
    bench: Project, tmp_path: Path
) -> None:
    broken(bench, tmp_path, "echo compiling; exit 0")
    done = bench.run("build", "spike-unwrapped", "--offline-profile")
    assert done.status == 2  # not a target of its own
    done = bench.run("build", "spike", "--offline-profile")
    assert "building spike-unwrapped-0-unstable-2026-01-02\n" in done.err
    assert "\x1b" not in done.err


def test_a_terminal_gets_a_live_display(bench: Project, tmp_path: Path) -> None:
    broken(bench, tmp_path, "for i in 1 2 3 4; do echo step $i; sleep 0.5; done; exit 1")
    done = on_terminal(bench, "build spike --offline-profile")
    assert done.returncode == 1
    assert "\x1b[" in done.stdout
    assert "building spike-unwrapped-0-unstable-2026-01-02  configurePhase" in done.stdout
    assert "step 2" in done.stdout


def test_a_terminal_says_how_long_a_component_took_the_last_time(
    bench: Project, tmp_path: Path
) -> None:
    broken(bench, tmp_path, "sleep 1; exit 1")
    history = bench.root / ".tnpu-nix" / "history.json"
    for text, expected in (('{"spike-unwrapped": 754.2}', True), ("damaged", False)):
        history.write_text(text)
        done = on_terminal(bench, "build spike --offline-profile")
        assert (" of about 12 min 34 s" in done.stdout) is expected


def test_what_a_build_took_is_kept_by_component(bench: Project, tmp_path: Path) -> None:
    env = {"TNPU_NIX_STORE": str(tmp_path / "store")}
    assert bench.run("build", "pk", "--offline-profile", env=env).status == 0
    assert load(bench.root)["riscv-pk-riscv64-unknown-elf"] > 0


def on_terminal(project: Project, arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command on a terminal of its own, and return what it showed there."""
    command = f"{sys.executable} -m tnpu_nix {arguments}"
    return subprocess.run(
        ["script", "--quiet", "--return", "--command", command, "/dev/null"],
        cwd=project.root,
        env=environment(**project.env, TERM="xterm", COLUMNS="150"),
        capture_output=True,
        text=True,
    )


def broken(project: Project, tmp_path: Path, configure: str) -> GitRepository:
    """Pin spike to a repository whose configure does as told."""
    upstream = GitRepository(tmp_path / "broken.git")
    upstream.commit("broken", configure=f"#!/bin/sh\n{configure}\n")
    (upstream.path / "configure").chmod(0o755)
    upstream.commit("executable")
    changes = {("pins", "spike", "url"): upstream.url}
    project.pins.write_text(pinsfile.edit(project.pins.read_text(), changes))
    assert project.run("generate").status == 0
    assert project.run("bump", "spike", "main").status == 0
    return upstream


def test_a_failing_derivation_shows_the_end_of_its_log(bench: Project, tmp_path: Path) -> None:
    broken(bench, tmp_path, "for i in $(seq 60); do echo line $i; done; echo no luck >&2; exit 7")
    done = bench.run("build", "spike", "--offline-profile")
    done.failed_with("building spike failed in spike-unwrapped-0-unstable-2026-01-02")
    name = "spike-unwrapped-0-unstable-2026-01-02> "
    shown = [line.removeprefix(name) for line in done.err.splitlines() if line.startswith(name)]
    assert "no luck" in shown and "line 60" in shown and "line 1" not in shown
    assert len(shown) == 25


def test_a_hash_that_is_not_the_sources_is_named_with_its_pin(bench: Project) -> None:
    wrong = "sha256-" + "B" * 42 + "A="
    repin(bench, "pk", hash=wrong)
    done = bench.run("build", "pk", "--offline-profile")
    done.failed_with("pins.pk.hash", wrong, "tnpu-nix bump pk ")
    assert "fetching pk at" in done.err


def test_a_source_that_was_collected_is_fetched_again(bench: Project, tmp_path: Path) -> None:
    """With a store that holds nothing yet, as after a garbage collection."""
    done = bench.run(
        *("build", "pk", "--offline-profile"), env={"TNPU_NIX_STORE": str(tmp_path / "store")}
    )
    assert done.status == 0, done.err
    assert "fetching pk at" in done.err and "fetching llvm" not in done.err


def test_stale_generated_files_stop_a_build(bench: Project) -> None:
    text = pinsfile.edit(bench.pins.read_text(), {("pk", "abi"): "lp64"})
    bench.pins.write_text(text)
    bench.run("build", "pk", "--offline-profile").failed_with("nix/pk.nix", "tnpu-nix generate")


@pytest.mark.parametrize("read", ["../extra.txt", "/etc/hostname", "../../elsewhere/extra.txt"])
def test_what_a_build_does_not_see_is_said_so(bench: Project, read: str) -> None:
    (bench.root / "extra.txt").write_text("more")
    overrides = bench.root / "nix" / "overrides.nix"
    text = "final: prev: { pk = prev.pk.overrideAttrs { more = builtins.readFile %s; }; }\n"
    overrides.write_text(text % read)
    name = read.rpartition("../")[2]
    for command in ("build", "plan"):
        done = bench.run(command, "pk", "--offline-profile")
        done.failed_with(name, "which a build does not see", "hint: put it below nix/")
    (bench.root / "nix" / "extra.txt").write_text("more")
    overrides.write_text(text % "./extra.txt")
    assert bench.run("plan", "pk", "--offline-profile").status == 0


def test_a_link_that_leads_nowhere_is_no_hindrance_and_one_in_circles_is_named(
    bench: Project,
) -> None:
    link = bench.root / "nix" / ".#overrides.nix"
    link.symlink_to("somebody@there.4711:1")  # as an editor locks a file
    assert bench.run("build", "pk", "--offline-profile").status == 0
    link.unlink()
    link.symlink_to(".")
    done = bench.run("build", "pk", "--offline-profile")
    done.failed_with(f"{link} leads back to where it lies", "remove that link")
    link.unlink()
    mkfifo(link)
    for command in ("build", "plan"):
        done = bench.run(command, "pk", "--offline-profile")
        done.failed_with(f"{link}", "cannot be read", "pipe")


@pytest.mark.parametrize("fresh", [False, True])
def test_a_project_that_cannot_be_written_is_planned_and_built(bench: Project, fresh: bool) -> None:
    """A read-only checkout; what there is to write says where it cannot be."""
    if fresh:  # as after `git clean -dxf`
        shutil.rmtree(bench.root / ".tnpu-nix")
    root = bench.root
    mounts = f"mount --bind {root} {root}; mount -o remount,ro,bind {root}"
    before = bench.files()

    def run(*words: str) -> Ran:
        return run_with_mounts(mounts, *words, cwd=root, env=bench.env)

    done = run("build", "pk", "--offline-profile")
    assert done.status == 0, done.err
    assert (Path(done.out.strip()) / "bin" / "pk").is_file()
    assert "Read-only file system; the next garbage collection may take" in done.err
    for words in (["plan", "pk"], ["plan", "pk", "--bump", "spike=v1.1.0"]):
        done = run(*words, "--offline-profile")
        assert done.status == 0 and "pk is there" in done.out, done.err
    run("bump", "spike", "v1.1.0").failed_with("cannot be written: Read-only file system")
    assert bench.files() == before


def test_an_unknown_target_is_a_wrong_command_line(bench: Project) -> None:
    done = bench.run("build", "gcc")
    assert done.status == 2
    assert "targets are tnpu-image" in done.err


def test_without_nix_the_error_says_how_to_get_it(bench: Project, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    done = bench.run("build", "pk", env={"PATH": str(empty)})
    done.failed_with("nix is not installed", "apt install nix-bin")


@pytest.mark.parametrize(
    ("says", "options", "words"),
    [
        ("nix (Nix) 2.3.16", ["--offline-profile"], "Nix 2.3.16 is too old: 2.8 is needed"),
        ("nix (Nix) 2.17.1", [], "Nix 2.17.1 is too old: 2.18 is needed by nixpkgs"),
        ("nothing at all", [], "`nix --version` says 'nothing at all'"),
    ],
)
def test_a_nix_that_is_too_old_is_named(
    bench: Project, tmp_path: Path, says: str, options: list[str], words: str
) -> None:
    """Stands in for old versions, which Debian no longer has; the words are theirs."""
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "nix").write_text(f"#!/bin/sh\necho '{says}'\n")
    (tools / "nix").chmod(0o755)
    bench.run("build", "pk", *options, env={"PATH": str(tools)}).failed_with(words)


def test_a_full_disk_is_one_clear_error(bench: Project) -> None:
    small = bench.root.parent / "small"
    small.mkdir()
    mount = f"mount -t tmpfs -o size=3m tmpfs {small}"
    env = {"TNPU_NIX_STORE": str(small / "store")}
    done = run_with_mounts(mount, "build", "pk", "--offline-profile", cwd=bench.root, env=env)
    done.failed_with("disk", "make room")


def test_a_sandbox_that_cannot_be_had_is_one_clear_error(bench: Project, tmp_path: Path) -> None:
    """As on a machine that allows no user namespaces to a user without privileges."""
    broken(bench, tmp_path, "exit 0")
    command = f"{sys.executable} -m tnpu_nix build spike --offline-profile"
    inner = (
        "echo 0 >/proc/sys/user/max_user_namespaces;"
        f" exec setpriv --bounding-set=-sys_admin --inh-caps=-sys_admin {command}"
    )
    done = subprocess.run(
        ["unshare", "--user", "--map-root-user", "sh", "-c", inner],
        cwd=bench.root,
        env=environment(**bench.env),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert "the sandbox that the build needs cannot be had" in done.stderr, done.stderr
    assert "hint: run as root, or allow user namespaces" in done.stderr


@pytest.mark.parametrize(
    ("stderr", "words"),
    [
        (
            "error: path '/nix/store/0123456789abcdfghijklmnpqrsvwxyz-source/x' does not exist",
            "x is read, which a build does not see",
        ),
        # Recorded from Nix 2.26.3 and 2.8.0.
        ("error: writing to file: No space left on device", "disk of the Nix store is full"),
        (
            "error: unable to download 'https://cache.nixos.org/x': Could not resolve hostname",
            "a server could not be reached",
        ),
        (
            "error: a 'x86_64-linux' with features {big-parallel} is required to build"
            " '/nix/store/x.drv', but I am a 'x86_64-linux' with features {kvm}",
            "offers the feature big-parallel",
        ),
    ],
)
def test_known_causes_of_nixs_failures_come_with_what_to_do(stderr: str, words: str) -> None:
    assert words in failure("building x", stderr).what


def test_a_message_of_several_lines_is_told_in_one() -> None:
    # Recorded from Nix 2.8.0.
    stderr = (
        "error: getting the HEAD of the Git tree '/x' failed with exit code 128:\n"
        "       fatal: cannot change to '/x': No such file or directory\n\n"
        "(use '--show-trace' to show detailed location information)\n"
    )
    assert failure("evaluating y", stderr).what == (
        "evaluating y failed: getting the HEAD of the Git tree '/x' failed with exit code 128:"
        " fatal: cannot change to '/x': No such file or directory"
    )


def test_names_and_durations_are_for_people() -> None:
    path = "/nix/store/0123456789abcdfghijklmnpqrsvwxyz-llvm-0-unstable-2026-01-29.drv"
    assert derivation_name(path) == "llvm-0-unstable-2026-01-29"
    assert [duration(s) for s in (4.21, 59.99, 185, 3720)] == [
        *("4.2 s", "1 min 00 s", "3 min 05 s", "1 h 02 min")
    ]
