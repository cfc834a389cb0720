"""`tnpu-nix plan`: what it says a build would do, against what builds and nix itself do and say."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.conftest import Demo, GitRepository, Project
from tnpu_nix import flake, pinsfile
from tnpu_nix.flake import derivation_name
from tnpu_nix.nix import Nix
from tnpu_nix.pins import PIN_NAMES, REBUILT
from tnpu_nix.plan import COMPONENTS

_SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def bench(demo: Demo, tmp_path: Path) -> Project:
    """A copy of the demo's project, in the demo's store, in which all of it is built."""
    return demo.project(tmp_path / "project")


@pytest.fixture
def own(bench: Project, tmp_path: Path) -> Project:
    """The same with a store of its own, which holds nothing yet."""
    return Project(bench.root, {"TNPU_NIX_STORE": str(tmp_path / "store")})


def planned(project: Project, *arguments: str, **env: str) -> dict[str, Any]:
    done = project.run("plan", "--offline-profile", "--json", *arguments, env=env)
    assert done.status == 0, done.err
    found: dict[str, Any] = json.loads(done.out)
    return found


def states(plan: dict[str, Any]) -> dict[str, str]:
    return {one["name"]: one["state"] for one in plan["components"]}


def nix_of(project: Project) -> Nix:
    return Nix(store=Path(project.env["TNPU_NIX_STORE"]), offline_profile=True)


def nix(project: Project, *argv: str) -> str:
    env = nix_of(project).environment()
    done = subprocess.run(argv, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_what_is_built_is_there_with_its_sizes(bench: Project) -> None:
    plan = planned(bench)
    assert states(plan) == dict.fromkeys(COMPONENTS, "there")
    assert plan["built"] == plan["sources"] == [] and plan["substituted"] == {}
    outputs = flake.outputs(bench.root, nix_of(bench))
    for one in plan["components"]:
        assert one["derivation"] == outputs[one["name"]].derivation
        out = one["paths"]["out"]
        assert one["size"] == int(nix(bench, "nix-store", "--query", "--size", out))
        closure = nix(bench, "nix-store", "--query", "--requisites", out).split()
        sizes = nix(bench, "nix-store", "--query", "--size", *closure).split()
        assert one["closure"] == sum(map(int, sizes))
    text = bench.run("plan", "--offline-profile").out
    assert text.endswith("nothing to build or to fetch: tnpu-image is there\n")


def test_a_build_does_what_was_planned(own: Project) -> None:
    plan = planned(own, "pk")
    expected = {**dict.fromkeys(COMPONENTS, "unneeded"), "pk": "built"}
    assert states(plan) == expected
    assert [derivation_name(one)[:8] for one in plan["sources"]] == ["riscv-pk"]
    done = own.run("build", "pk", "--offline-profile")
    assert done.status == 0, done.err
    pk = next(one["derivation"] for one in plan["components"] if one["name"] == "pk")
    built = [line.split()[1] for line in done.err.splitlines() if line.startswith("building ")]
    assert sorted(built) == sorted(map(derivation_name, [pk, *plan["built"]]))
    # Both from an evaluation that was kept: what the store holds is looked at each time.
    assert states(planned(own, "pk"))["pk"] == "there"
    (path,) = flake.outputs(own.root, nix_of(own))["pk"].paths.values()
    # What was built is kept from being collected.
    nix(own, "nix-store", "--delete", "--ignore-liveness", path)
    again = planned(own, "pk")
    assert states(again)["pk"] == "built" and again["built"] == []


def test_how_long_the_builds_took_is_said_as_a_lower_bound(own: Project) -> None:
    history = own.root / ".tnpu-nix" / "history.json"
    history.write_text('{"riscv-pk-riscv64-unknown-elf": 3725, "bash-host": 2}')
    plan = planned(own, "pk")
    assert plan["seconds"] == 3727
    assert plan["untimed"] == len(plan["built"]) - 1
    text = own.run("plan", "pk", "--offline-profile").out
    others = len(plan["built"])
    assert f"builds 1 component and {others} other derivations: at least 1 h 02 min" in text
    assert f", {others - 1} never timed here\n" in text
    assert "fetches 1 source: riscv-pk-" in text


@pytest.fixture
def cached(bench: Project, tmp_path: Path) -> Project:
    """A project whose flake names a signed binary cache that holds pk, and an empty store."""
    secret, public = tmp_path / "secret", tmp_path / "public"
    key = ("nix-store", "--generate-binary-cache-key", "cache.example-1", str(secret), str(public))
    nix(bench, *key)
    pk = next(one["paths"]["out"] for one in planned(bench)["components"] if one["name"] == "pk")
    nix(bench, "nix", "copy", "--to", f"file://{tmp_path}/cache?secret-key={secret}", pk)
    values = {
        "advertise": True,
        "substituters": [f"file://{tmp_path}/cache"],
        "public-keys": [public.read_text()],
    }
    changes = {("cache", key): value for key, value in values.items()}
    bench.pins.write_text(pinsfile.edit(bench.pins.read_text(), changes))
    assert bench.run("generate").status == 0
    return Project(bench.root, {"TNPU_NIX_STORE": str(tmp_path / "store")})


def test_what_a_cache_has_is_substituted_with_its_download(cached: Project, tmp_path: Path) -> None:
    assert states(planned(cached, "pk"))["pk"] == "built"  # the user has not agreed to the cache
    trusting = {"NIX_CONFIG": "accept-flake-config = true"}
    plan = planned(cached, "pk", **trusting)
    (pk,) = (one for one in plan["components"] if one["name"] == "pk")
    (described,) = (tmp_path / "cache").glob("*.narinfo")
    fields = dict(line.split(": ", 1) for line in described.read_text().splitlines())
    assert pk["state"] == "substituted"
    assert (pk["download"], pk["size"]) == (int(fields["FileSize"]), int(fields["NarSize"]))
    assert plan["substituted"] == {pk["paths"]["out"]: plan["download"]}
    assert plan["built"] == plan["sources"] == []
    assert planned(cached, "pk", "--caches") == plan  # as `build --caches` asks the user nothing
    done = cached.run("build", "pk", "--offline-profile", env=trusting)
    assert "fetching riscv-pk-" in done.err and "building" not in done.err


@pytest.mark.parametrize("name", PIN_NAMES)
def test_what_a_bump_rebuilds_is_what_its_table_says(demo: Demo, bench: Project, name: str) -> None:
    """Two revisions of each upstream: of the older one, whatever is not the pin is the move."""
    upstream = bench.pin(name).url.removeprefix("file://")
    git = ["git", "-C", upstream, "log", "--format=%H", "--all"]
    revisions = subprocess.run(git, capture_output=True, text=True, check=True).stdout.split()
    (rev,) = set(revisions) - {bench.pin(name).rev}
    before = bench.files()
    plan = planned(bench, "--bump", f"{name}={rev}")
    rebuilt = {one["name"] for one in plan["components"] if one["rebuilt"]}
    assert rebuilt == {*REBUILT[name], "tnpu-image"}
    assert bench.files() == before
    now = {one["name"]: one["derivation"] for one in planned(bench)["components"]}
    for one in plan["components"]:
        assert (one["derivation"] != now[one["name"]]) is one["rebuilt"]


def test_a_bump_is_planned_from_derivations_and_not_from_the_table(bench: Project) -> None:
    (bench.root / "nix" / "overrides.nix").write_text(
        "final: prev: { pk = prev.pk.overrideAttrs { after = final.spike-unwrapped; }; }\n"
    )
    done = bench.run("plan", "--offline-profile", "--bump", "spike=v1.1.0")
    assert done.status == 0, done.err
    assert "rebuilds spike, pk, tnpu-image\n" in done.out
    assert "keeps    llvm, mlir, lld, llvm-toolchain, llvm-tools, triton, python-env\n" in done.out


def test_a_dry_run_of_a_bump_says_how_to_ask(pinned: Project, repository: GitRepository) -> None:
    rev = repository.git("rev-parse", "HEAD")
    done = pinned.run("bump", "spike", "main", "--dry-run")
    store = pinned.env["TNPU_NIX_STORE"]
    assert f"hint: `tnpu-nix plan --bump spike={rev} --store {store}` asks" in done.err


def test_an_evaluation_is_not_kept_past_a_change(bench: Project) -> None:
    before = planned(bench)
    overrides = bench.root / "nix" / "overrides.nix"
    overrides.write_text('final: prev: { pk = prev.pk.overrideAttrs { another = "1"; }; }\n')
    assert states(planned(bench))["pk"] == "built"
    overrides.unlink()
    assert planned(bench) == before
    kept = bench.root / ".tnpu-nix" / "evaluated.json"
    for text in ("damaged", '{"key": 1, "outputs": [{}]}'):
        kept.write_text(text)
        assert planned(bench) == before


def test_an_evaluation_is_not_kept_past_a_change_behind_a_link(bench: Project) -> None:
    lab = bench.root.parent / "lab"
    (lab / "more").mkdir(parents=True)
    nix_folder = bench.root / "nix"
    (nix_folder / "more").symlink_to("../../lab/more")
    (nix_folder / "overrides.nix").symlink_to("../../lab/overrides.nix")
    (lab / "more" / "round").symlink_to("/nowhere")  # as an editor locks a file
    text = 'final: prev: { pk = prev.pk.overrideAttrs { more = import ./more/it.nix + "%s"; }; }\n'
    seen = set()
    for word, more in (("a", '"a"'), ("b", '"a"'), ("b", '"b"')):
        (lab / "overrides.nix").write_text(text % word)
        (lab / "more" / "it.nix").write_text(more)
        plan = planned(bench, "pk")
        assert plan == planned(bench, "pk")
        seen |= {one["derivation"] for one in plan["components"] if one["name"] == "pk"}
    assert len(seen) == 3


def test_a_second_plan_loads_nothing_that_takes_long(bench: Project) -> None:
    """To load what reads pins.toml and writes templates takes longer than all the rest."""
    for loaded in (True, False):
        done = bench.run("plan", "--offline-profile", env={"PYTHONPROFILEIMPORTTIME": "1"})
        assert done.status == 0
        modules = {line.rsplit("|", 1)[-1].strip() for line in done.err.splitlines()}
        slow = {"pydantic", "jinja2", "tomlkit"}
        assert modules & slow == (slow if loaded else set())


def test_what_a_build_refuses_is_refused(bench: Project) -> None:
    assert bench.run("plan", "--offline-profile").status == 0
    text = bench.pins.read_text()
    bench.pins.write_text(pinsfile.edit(text, {("image", "name"): "other"}))
    bench.run("plan", "--offline-profile").failed_with("not as pins.toml says", "generate")
    bench.pins.write_text(text)
    (bench.root / "nix" / "pk.nix").open("a").write("# mine\n")
    bench.run("plan", "--offline-profile").failed_with("nix/pk.nix", "edited by hand")
    (bench.root / "nix" / "pk.nix").write_text("no nix at all {")
    bench.run("plan", "--offline-profile").failed_with("nix/pk.nix", "edited by hand")


def test_a_source_that_needs_a_token_is_said_to(own: Project) -> None:
    values = {"url": "https://host.invalid/lab/riscv-pk.git", "token-env": "LAB_TOKEN"}
    changes = {("pins", "pk", key): value for key, value in values.items()}
    own.pins.write_text(pinsfile.edit(own.pins.read_text(), changes))
    assert own.run("generate").status == 0
    line = f"riscv-pk-{own.pin('pk').rev[:7]} needs a token, and the variable LAB_TOKEN is not set"
    for more in ([], ["--bump", "spike=v1.1.0"]):
        done = own.run("plan", "pk", "--offline-profile", *more)
        assert f"\n{line}\n" in done.out, done
    assert line not in own.run("plan", "llvm", "--offline-profile").out
    done = own.run("plan", "pk", "--offline-profile", env={"LAB_TOKEN": "secret"})
    assert "fetches 1 source: riscv-pk" in done.out and "token" not in done.out


def test_a_fresh_clone_is_planned_and_remembered(bench: Project) -> None:
    state = bench.root / ".tnpu-nix"
    shutil.rmtree(state)
    plan = planned(bench)
    assert json.loads((state / "evaluated.json").read_text())["outputs"]
    assert (state / ".gitignore").read_text() == "*\n"
    assert planned(bench) == plan


def test_a_target_under_two_names_counts_once_and_one_of_another_project_is_none(
    own: Project,
) -> None:
    assert planned(own, "default") == planned(own, "tnpu-image")
    for command in ("plan", "build"):
        own.run(command, "tnpu-nix", "--offline-profile").failed_with("has no output tnpu-nix")


def test_wrong_command_lines(bench: Project, tmp_path: Path) -> None:
    assert bench.run("plan", "gcc").status == 2
    done = bench.run("plan", "--graph", tmp_path / "plan.png")
    assert done.status == 2 and ".svg or .html" in done.err
    bench.run("plan", "--offline-profile", "--bump", "gcc=1").failed_with("no pin 'gcc'")


def boxes(root: ElementTree.Element) -> list[tuple[float, float, float, float]]:
    """The boxes of the components: left, top, right, bottom."""
    found = []
    for rectangle in root.iter(f"{_SVG}rect"):
        if rectangle.get("rx"):
            x, y, width, height = (
                float(rectangle.get(key, "")) for key in ("x", "y", "width", "height")
            )
            found.append((x, y, x + width, y + height))
    return found


def test_the_picture_shows_each_component_with_its_state_in_a_place_of_its_own(
    bench: Project, own: Project, tmp_path: Path
) -> None:
    file = tmp_path / "plan.svg"
    for project, state in ((bench, "THERE"), (own, "BUILT")):
        plan = planned(project, "--graph", str(file))
        root = ElementTree.parse(file).getroot()
        words = [text.text for text in root.iter(f"{_SVG}text")]
        assert set(COMPONENTS) <= set(words)
        assert words.count(state) == len(COMPONENTS)
        edges = sum(map(len, plan["needs"].values()))
        assert (
            len(list(root.iter(f"{_SVG}path"))) - 1 == edges > len(COMPONENTS)
        )  # one is the arrow
        found = boxes(root)
        assert len(found) == len(COMPONENTS)
        _, _, across, down = map(float, root.get("viewBox", "").split())
        for left, top, right, bottom in found:
            assert 0 <= left < right <= across and 0 <= top < bottom <= down
        for number, one in enumerate(found):
            for other in found[:number]:
                apart = one[0] >= other[2] or other[0] >= one[2]
                assert apart or one[1] >= other[3] or other[1] >= one[3]
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".plan")] == []


def test_what_needs_what_is_read_off_the_derivations(bench: Project) -> None:
    needs = planned(bench)["needs"]
    assert needs["llvm"] == needs["pk"] == []
    assert needs["mlir"] == needs["lld"] == ["llvm"]
    assert needs["triton"] == ["llvm-toolchain"]
    assert needs["tnpu-image"] == ["llvm-tools", "python-env", "spike"]


def test_a_page_has_the_picture_and_the_table(bench: Project, tmp_path: Path) -> None:
    file = tmp_path / "plan.html"
    assert bench.run("plan", "--offline-profile", "--graph", file).status == 0
    page = ElementTree.fromstring(
        file.read_text().split("\n", 1)[1].replace('<meta charset="utf-8">', "")
    )
    assert len(list(page.iter(f"{_SVG}svg"))) == 1
    assert [row[0].text for row in page.iter("tr")] == ["component", *COMPONENTS]
    bench.run("plan", "--offline-profile", "--graph", tmp_path / "no" / "plan.html").failed_with(
        "cannot be written"
    )
