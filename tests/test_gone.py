"""What something else than Nix has deleted from the store: plan says so, build brings it back."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.conftest import Demo, Project, Ran, environment, run_with_mounts
from tests.nix import as_cache, take
from tnpu_nix import flake
from tnpu_nix.nix import Nix


@dataclass
class Lab:
    """The demo's project, and a store of its own that took from the demo's what a test needs."""

    project: Project
    nix: Nix
    source: Path  # the demo's store, which may serve as a cache

    def run(self, *arguments: str, cached: bool = False) -> Ran:
        env = {"NIX_CONFIG": as_cache(self.source)} if cached else {}
        return self.project.run(*arguments, "--offline-profile", env=env)

    def built(self, *arguments: str, cached: bool = False) -> Ran:
        done = self.run("build", *arguments, cached=cached)
        assert done.status == 0, done.err
        return done

    def ask(self, *argv: str) -> list[str]:
        env = environment(**self.nix.variables())
        done = subprocess.run(argv, env=env, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout.split()

    def output(self, name: str) -> flake.Output:
        return flake.outputs(self.project.root, self.nix)[name]

    def path(self, name: str) -> str:
        return self.output(name).paths["out"]

    def there(self, path: str) -> bool:
        return self.nix.on_disk(path).exists()

    def lose(self, path: str) -> None:
        lying = self.nix.on_disk(path)
        if lying.is_dir():
            subprocess.run(["chmod", "-R", "u+w", lying], check=True)
            shutil.rmtree(lying)
        else:
            lying.unlink()

    def override(self, text: str) -> None:
        overrides = self.project.root / "nix" / "overrides.nix"
        overrides.write_text(f"final: prev: {{ {text} }}\n")


@pytest.fixture
def lab(demo: Demo, tmp_path: Path) -> Lab:
    project = demo.project(tmp_path / "project")
    store = tmp_path / "store"
    own = Project(project.root, {"TNPU_NIX_STORE": str(store)})
    made = Lab(own, Nix(store, offline_profile=True), demo.store)
    assert not store.exists()
    return made


def fill(lab: Lab, target: str) -> str:
    """Have the demo's store give what a target is built from and consists of; return its path."""
    return take(lab.project, lab.nix, lab.source, target)


def planned(lab: Lab, target: str) -> tuple[dict[str, str], list[str]]:
    """Return the states of the components, and what is said to be gone."""
    done = lab.run("plan", target, "--json")
    assert done.status == 0, done.err
    plan = json.loads(done.out)
    return {one["name"]: one["state"] for one in plan["components"]}, plan["gone"]


def contents(folder: Path) -> dict[str, bytes]:
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def test_a_result_that_is_gone_is_planned_and_built(lab: Lab) -> None:
    path = fill(lab, "pk")
    before = contents(lab.nix.on_disk(path))
    assert planned(lab, "pk") == (planned(lab, "pk")[0] | {"pk": "there"}, [])
    lab.lose(path)
    # From an evaluation that was kept: the disk is looked at each time.
    states, gone = planned(lab, "pk")
    assert states["pk"] == "built" and gone == [path]
    shown = lab.run("plan", "pk").out
    assert "builds 1 component" in shown
    assert "gone from the disk although Nix has it in its books: riscv-pk-" in shown
    done = lab.built("pk")
    assert done.out.strip() == str(lab.nix.on_disk(path))
    assert f"{path} is gone from the disk" in done.err and "building riscv-pk-" in done.err
    assert contents(lab.nix.on_disk(path)) == before
    assert planned(lab, "pk")[0]["pk"] == "there"
    assert not list(lab.project.root.parent.glob("store/.tnpu-nix-*"))
    assert "gone" not in lab.built("pk").err


def test_what_a_result_refers_to_is_brought_back(lab: Lab) -> None:
    spike = fill(lab, "spike")
    referred = lab.ask("nix-store", "--query", "--requisites", spike)
    (lost,) = (path for path in referred if "spike-unwrapped" in path and path != spike)
    lab.lose(lost)
    assert planned(lab, "spike")[1] == [lost]
    assert planned(lab, "pk")[1] == []  # which has no use for it
    done = lab.built("spike")
    assert "building spike-unwrapped-" in done.err and lab.there(lost)


def test_what_a_build_still_needs_is_brought_back(lab: Lab) -> None:
    fill(lab, "pk")
    lab.override('pk = prev.pk.overrideAttrs { another = "1"; };')
    inputs = lab.ask("nix-store", "--query", "--requisites", lab.output("pk").derivation)
    outputs = lab.ask("nix-store", "--query", "--outputs", *(x for x in inputs if ".drv" in x))
    for name in ("-riscv-pk-", "-make-host"):  # a source, and a program
        (lost,) = (path for path in outputs if name in path and "riscv64" not in path)
        lab.lose(lost)
        done = lab.built("pk")
        assert f"{lost} is gone from the disk" in done.err and lab.there(lost)
        lab.override(f'pk = prev.pk.overrideAttrs {{ another = "{name}"; }};')


def test_what_cannot_be_made_anew_is_named_and_leaves_nothing_behind(lab: Lab) -> None:
    fill(lab, "pk")
    inputs = lab.ask("nix-store", "--query", "--requisites", lab.output("pk").derivation)
    outputs = lab.ask("nix-store", "--query", "--outputs", *(x for x in inputs if ".drv" in x))
    (source,) = (path for path in outputs if "-riscv-pk-" in path and "riscv64" not in path)
    for path in (lab.path("pk"), source):
        lab.lose(path)
    upstream = Path(lab.project.pin("pk").url.removeprefix("file://"))
    mounts = f"mount -t tmpfs tmpfs {upstream}"  # where only this command sees it
    words = ("build", "pk", "--offline-profile")
    done = run_with_mounts(mounts, *words, cwd=lab.project.root, env=lab.project.env)
    done.failed_with(str(upstream))
    assert not list(lab.project.root.parent.glob("store/.tnpu-nix-*"))
    # Its source is gone too, and Nix cannot fetch that.
    assert "fetching pk at" in lab.built("pk").err and lab.there(lab.path("pk"))


def test_a_component_that_another_needs_is_planned(lab: Lab) -> None:
    fill(lab, "spike")
    pk = lab.path("pk")
    lab.override('spike = prev.spike.overrideAttrs { another = "1"; };')
    lab.lose(pk)
    states, gone = planned(lab, "spike")
    assert gone == [pk] and (states["spike"], states["pk"]) == ("built", "built")
    states, gone = planned(lab, "llvm")
    assert gone == [] and states["pk"] == "unneeded"


@pytest.mark.parametrize(
    ("target", "lost"),
    [
        # A program that pk is built with, and that a built pk does not refer to.
        ("pk", ["-riscv-pk-riscv64", "-make-host"]),
        ("tnpu-image", ["-tnpu-demo.tar.gz", "-riscv-pk-riscv64"]),
    ],
)
def test_what_is_planned_where_several_paths_are_gone_is_what_a_build_does(
    lab: Lab, target: str, lost: list[str]
) -> None:
    fill(lab, target)
    inputs = lab.ask("nix-store", "--query", "--requisites", lab.output(target).derivation)
    outputs = lab.ask("nix-store", "--query", "--outputs", *(x for x in inputs if ".drv" in x))
    paths = [path for path in outputs if any(name in path for name in lost)]
    assert len(paths) == len(lost)
    for path in paths:
        lab.lose(path)
    plan = json.loads(lab.run("plan", target, "--json").out)
    assert sorted(plan["gone"]) == sorted(paths)
    said = lab.built(target).err.splitlines()
    built = [line.split()[1] for line in said if line.startswith("building ")]
    components = [one["derivation"] for one in plan["components"] if one["state"] == "built"]
    expected = map(flake.derivation_name, [*components, *plan["built"]])
    assert sorted(built) == sorted(expected) and plan["sources"] == []


def test_a_derivation_that_is_gone_is_written_anew(lab: Lab) -> None:
    fill(lab, "pk")
    derivation = lab.output("pk").derivation
    lab.lose(derivation)
    done = lab.built("pk")
    assert f"{derivation} is gone from the disk" in done.err and lab.there(derivation)
    assert planned(lab, "pk")[0]["pk"] == "there"


def test_a_cache_gives_back_what_is_gone(lab: Lab, demo: Demo, tmp_path: Path) -> None:
    """A signed cache in a folder, which the flake's owner names in pins.toml."""
    from tnpu_nix import pinsfile

    secret, public = tmp_path / "secret", tmp_path / "public"
    key = ("nix-store", "--generate-binary-cache-key", "cache.example-1", str(secret), str(public))
    lab.ask(*key)
    spike = fill(lab, "spike")
    lab.ask("nix", "copy", "--to", f"file://{tmp_path}/cache?secret-key={secret}", spike)
    values = {"substituters": [f"file://{tmp_path}/cache"], "public-keys": [public.read_text()]}
    changes = {("cache", name): value for name, value in values.items()}
    lab.project.pins.write_text(pinsfile.edit(lab.project.pins.read_text(), changes))
    assert lab.project.run("generate").status == 0
    lab.lose(spike)
    done = lab.run("plan", "spike", "--caches")
    assert "downloads 1 store path, " in done.out and "builds" not in done.out
    done = lab.built("spike", "--caches")
    assert lab.there(spike) and "building" not in done.err


def test_a_store_of_its_own_may_be_named_by_nixs_variable(lab: Lab) -> None:
    path = fill(lab, "pk")
    lab.lose(path)
    own = Project(lab.project.root, {"NIX_REMOTE": str(lab.nix.store)})
    assert "gone from the disk" in own.run("plan", "pk", "--offline-profile").out
    done = own.run("build", "pk", "--offline-profile")
    assert done.out.strip() == str(lab.nix.on_disk(path)) and lab.there(path), done.err
    assert own.run("plan", "pk", "--offline-profile").out.endswith("pk is there\n")


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a store at /nix")
@pytest.mark.parametrize("user", ["the owner", "a stranger"])
def test_in_the_machines_own_store_its_owner_can_and_others_are_told_how(
    lab: Lab, tmp_path: Path, user: str
) -> None:
    path = fill(lab, "pk")
    lab.lose(path)
    store, socket = lab.nix.store, tmp_path / "socket"
    mounts = f"mount --bind {store}/nix /nix; export NIX_REMOTE=local"
    if user == "a stranger":
        (tmp_path / "nix.conf").write_text("build-users-group =\ntrusted-users = nobody\n")
        mounts += f"""
          export NIX_DAEMON_SOCKET_PATH={socket}
          NIX_CONF_DIR={tmp_path} setpriv --pdeathsig TERM nix-daemon >{tmp_path}/log 2>&1 &
          trap "kill $!" EXIT
          until test -S {socket}; do sleep 0.1; done
          export NIX_REMOTE=daemon
        """
    words = ("build", "pk", "--offline-profile")
    done = run_with_mounts(mounts, *words, cwd=lab.project.root)
    if user == "the owner":
        assert done.status == 0, done.err
        assert done.out.strip() == path and lab.there(path)
    else:
        done.failed_with(f"{path} is gone from the disk", "by `nix-store --realise --repair /nix")


def test_a_store_on_another_machine_is_believed(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of it lies on this disk, and nothing is gone from it."""
    from tnpu_nix import ondisk

    paths = ["/nix/store/00000000000000000000000000000000-nowhere"]
    ours = paths if Path("/nix/store").is_dir() else []
    for remote, expected in (("ssh-ng://other.example", []), ("daemon", ours), ("auto", ours)):
        monkeypatch.setenv("NIX_REMOTE", remote)
        assert ondisk.gone(Nix(), paths) == expected
