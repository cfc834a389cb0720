"""`tnpu-nix init-ci`: whose file the workflow is, and whether GitHub and a shell can read it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from tests.conftest import REPOSITORY, Edit, Project, environment

WORKFLOW = ".github/workflows/tnpu.yml"
AWKWARD = "a 'b' \"c\" $(id) ${x} # ü: \\"
SLURM = '[slurm]\npartition = "big"\ncpus = 16\ntime = "02:00:00"\nmemory = "64G"\n'
TOKENS = {"spike": "SPIKE_TOKEN", "triton_shared": "LAB_TOKEN", "pk": "LAB_TOKEN"}
BASE = f"""[image.base]
image = "ghcr.io/lab/torchsim_base"
digest = "sha256:{"0" * 64}"
hash = "sha256-{"A" * 43}="
layers = 3
"""
REGISTRY = {"TNPU_REGISTRY_USER", "TNPU_REGISTRY_PASSWORD"}
KINDS = ("plain", "slurm", "tokens", "all", "awkward")


@dataclass(frozen=True)
class Made:
    """A project with a workflow, and what pins.toml says of it: one of KINDS."""

    kind: str
    project: Project


@pytest.fixture(scope="module")
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Made:
    kind: str = request.param
    root = tmp_path_factory.mktemp(kind)
    text = (REPOSITORY / "pins.toml").read_text()
    if kind in ("tokens", "all"):
        for name, variable in TOKENS.items():
            text = text.replace(f"[pins.{name}]\n", f'[pins.{name}]\ntoken-env = "{variable}"\n')
    if kind in ("slurm", "all"):
        text += SLURM
    if kind == "all":
        text += '[ci]\nbranch = "trunk"\nsmoke = "python3 run.py smoke"\n'
        text += f'[cache]\npush = "https://cache.example"\n{BASE}'
    if kind == "awkward":
        text += f"[slurm]\npartition = '''{AWKWARD}'''\n[ci]\nsmoke = '''{AWKWARD}\n{AWKWARD}'''\n"
    project = Project(root, {"HOME": str(root)})
    project.pins.write_text(text)
    done = project.run("init-ci")
    assert (done.status, done.out) == (0, f"wrote {WORKFLOW}\n"), done.err
    return Made(kind, project)


every_kind = pytest.mark.parametrize("made", KINDS, indirect=True)


def workflow(project: Project) -> dict[str, Any]:
    found: dict[str, Any] = YAML(typ="safe").load((project.root / WORKFLOW).read_text())
    return found


def steps(project: Project) -> list[dict[str, Any]]:
    return [step for job in workflow(project)["jobs"].values() for step in job["steps"]]


def scripts(project: Project) -> list[str]:
    return [step["run"] for step in steps(project) if "run" in step]


@every_kind
def test_it_is_a_workflow_by_githubs_schema(made: Made) -> None:
    argv = [sys.executable, "-m", "check_jsonschema"]
    argv += ["--builtin-schema", "vendor.github-workflows", str(made.project.root / WORKFLOW)]
    done = subprocess.run(argv, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


@every_kind
def test_its_scripts_are_clean_and_hold_no_expressions(made: Made) -> None:
    """An expression in a script would be put there as words, whatever those are."""
    shellcheck = Path(sys.executable).with_name("shellcheck")
    assert len(scripts(made.project)) > 8
    for script in scripts(made.project):
        assert "${{" not in script
        argv = [shellcheck, "--shell=bash", "-"]
        done = subprocess.run(argv, input=script, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout


@every_kind
def test_what_it_refers_to_is_there(made: Made) -> None:
    jobs = workflow(made.project)["jobs"]
    for job in jobs.values():
        needed = [job["needs"]] if isinstance(job.get("needs"), str) else job.get("needs", [])
        assert set(needed) <= set(jobs)
        for name, output in re.findall(r"needs\.(\w+)\.outputs\.(\w+)", str(job)):
            assert name in needed and output in jobs[name]["outputs"]
        known: set[str] = set()
        for step in job["steps"]:
            assert set(re.findall(r"steps\.(\w+)\.", str(step))) <= known
            known |= {step["id"]} if "id" in step else set()
        assert set(re.findall(r"steps\.(\w+)\.", str(job.get("outputs")))) <= known


@every_kind
def test_it_can_do_little_and_runs_nothing_of_a_fork(made: Made) -> None:
    found = workflow(made.project)
    assert found["permissions"] == {"contents": "read"}
    assert not any("permissions" in job for job in found["jobs"].values())
    assert "pull_request_target" not in found["on"]
    assert "head.repo.full_name == github.repository" in found["jobs"]["preflight"]["if"]
    assert [name for name, job in found["jobs"].items() if "needs" not in job] == ["preflight"]
    for step in steps(made.project):
        if "uses" in step:
            assert re.fullmatch(r"actions/checkout@[0-9a-f]{40}", step["uses"])
            assert step["with"]["persist-credentials"] is False


@every_kind
def test_secrets_are_the_pins_tokens_and_the_registrys(made: Made) -> None:
    tokens = {"LAB_TOKEN", "SPIKE_TOKEN"} if made.kind in ("tokens", "all") else set()
    key = {"TNPU_SIGNING_KEY"} if made.kind == "all" else set()
    text = (made.project.root / WORKFLOW).read_text()
    assert set(re.findall(r"secrets\.(\w+)", text)) == tokens | REGISTRY | key
    for step in steps(made.project):
        for name, value in step.pop("env", {}).items():
            if "secrets." in value:
                assert value == f"${{{{ secrets.{name} }}}}"
        assert "secrets." not in str(step)


@every_kind
def test_each_part_of_the_build_has_a_walltime_of_its_own(made: Made, tmp_path: Path) -> None:
    """The steps as a shell runs them, with an srun that says what it was given."""
    tools = tmp_path / "tools"
    for name in ("srun", "tnpu-nix"):
        tool(tools, name, f'printf "%s\\n" {name} "$@"')
    job = workflow(made.project)["jobs"]["ensure"]
    env = environment(**job.get("env", {}))
    env["PATH"] = f"{tools}:{env['PATH']}"
    expected = {
        "slurm": ["--partition=big", "--cpus-per-task=16", "--time=02:00:00", "--mem=64G"],
        "awkward": [f"--partition={AWKWARD}"],
    }
    built = []
    for step in job["steps"]:
        if not str(step.get("name")).startswith("Build "):
            continue
        assert step["if"] == "steps.look.outputs.action == 'absent'"
        argv = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
        done = subprocess.run(argv, env=env, capture_output=True, text=True, check=True)
        words = done.stdout.splitlines()
        built.append(words[-1])
        options = expected.get("slurm" if made.kind == "all" else made.kind)
        if options is None:
            assert words == ["tnpu-nix", "build", "--caches", words[-1]]
        else:
            name = f"--job-name=build-{words[-1]}"
            given = ["srun", "--quit-on-interrupt", name, *options]
            assert words == [*given, "tnpu-nix", "build", "--caches", words[-1]]
    assert built == ["llvm", "mlir", "lld", "triton", "tnpu-image-stream"]


@every_kind
def test_what_asks_a_registry_has_the_variables_for_it(made: Made) -> None:
    """The image's, and in the build that fetches it, the base's."""
    asking = ["tnpu-nix image", "docker pull"]
    asking += ["tnpu-nix build --caches tnpu-image-stream"] if made.kind == "all" else []
    for step in steps(made.project):
        asks = any(command in step.get("run", "") for command in asking)
        assert REGISTRY & set(step.get("env", {})) == (REGISTRY if asks else set())


def tool(folder: Path, name: str, script: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/bash\n{script}\n")
    (folder / name).chmod(0o755)


def ran(step: dict[str, Any], tools: Path, **env: str | Path) -> int:
    """Run a step's script as a runner does, and return its exit status."""
    argv = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
    given = {"PATH": f"{tools}:{os.environ['PATH']}", "RUNNER_TEMP": tools, **env}
    return subprocess.run(argv, env={key: str(value) for key, value in given.items()}).returncode


@pytest.mark.parametrize("made", ["plain"], indirect=True)
@pytest.mark.parametrize("user", ["", "lab"])
def test_smoke_pulls_with_the_secrets_or_the_runners_own_login(
    made: Made, user: str, tmp_path: Path
) -> None:
    said = tmp_path / "said"
    tool(tmp_path, "docker", f'echo "$1 ${{DOCKER_CONFIG-its own}} ${{*: -1}}" >>{said}; cat >&2')
    (step,) = (step for step in steps(made.project) if "docker pull" in step.get("run", ""))
    env = {"TNPU_REGISTRY_USER": user, "TNPU_REGISTRY_PASSWORD": user and "secret"}
    image = {"IMAGE": "ghcr.io/lab/tnpu:tag", "DIGEST": "sha256:0"}
    assert ran(step, tmp_path, **env, **image) == 0
    words = [line.split(" ") for line in said.read_text().splitlines()]
    assert [one[0] for one in words] == (["login"] if user else []) + ["pull", "run"]
    folder = f"{tmp_path}/docker" if user else "its own"
    assert {" ".join(one[1:-1]) for one in words} == {folder}
    assert words[-2][-1] == "ghcr.io/lab/tnpu@sha256:0"


FAKE = """
case "$*" in
  "image ensure --dry-run --github-output")
    [[ -e $WORLD/image ]] && found=present || found=absent
    echo "action=$found" >>"$GITHUB_OUTPUT" ;;
  "image ensure "*) touch "$WORLD/image" ;;
  "cache push "*) [[ -e $WORLD/broken ]] && exit 1; touch "$WORLD/cache" ;;
esac
"""


@pytest.mark.parametrize("made", ["all"], indirect=True)
def test_a_cache_that_could_not_be_filled_is_filled_by_the_next_run(
    made: Made, tmp_path: Path
) -> None:
    """The job as GitHub runs it: until a step fails, without those whose condition is false."""
    tool(tmp_path, "tnpu-nix", FAKE)
    tool(tmp_path, "srun", 'while [[ $1 == --* ]]; do shift; done; exec "$@"')
    job, output = workflow(made.project)["jobs"]["ensure"], tmp_path / "output"

    def run() -> list[str]:
        done, action = [], ""
        output.write_text("")
        for step in job["steps"]:
            if "run" in step and step.get("if") in (
                None,
                f"steps.look.outputs.action == '{action}'",
            ):
                env: dict[str, str | Path] = {
                    "WORLD": tmp_path,
                    "GITHUB_OUTPUT": output,
                    "TNPU_SIGNING_KEY": "key",
                }
                done.append(step["name"])
                if ran(step, tmp_path, **job.get("env", {}), **env) != 0:
                    break
            action = output.read_text().strip().removeprefix("action=")
        return done

    (tmp_path / "broken").touch()
    assert run()[-1] == "Fill the binary cache"
    (tmp_path / "broken").unlink()
    assert run()[-2:] == ["Fill the binary cache", "Have the image in the registry"]
    assert (tmp_path / "cache").exists() and (tmp_path / "image").exists()
    assert len(run()) == 2  # the image is there


@pytest.mark.parametrize("made", ["awkward"], indirect=True)
def test_the_labs_own_kernels_are_run_as_written(made: Made) -> None:
    (step,) = (step for step in steps(made.project) if "SMOKE" in step.get("env", {}))
    assert step["env"]["SMOKE"] == f"{AWKWARD}\n{AWKWARD}"
    assert step["run"].rstrip().endswith('"${IMAGE%:*}@$DIGEST" bash -c "$SMOKE"')


@pytest.mark.parametrize("made", ["all"], indirect=True)
def test_it_calls_commands_that_there_are(made: Made) -> None:
    lines = [line.strip() for script in scripts(made.project) for line in script.splitlines()]
    called = {line for line in lines if line.startswith("tnpu-nix ")}
    assert {"tnpu-nix generate --check", "tnpu-nix doctor"} < called
    for line in called:
        _, *words = line.split()
        options = [word for word in words if word.startswith("--")]
        verbs = words[:2] if words[0] in ("cache", "image") else words[:1]
        helped = made.project.run(*verbs, "--help")
        assert helped.status == 0
        assert all(option in helped.out for option in options)


def test_a_runner_that_lacks_tools_is_told_which(project: Project, tmp_path: Path) -> None:
    assert project.run("init-ci").status == 0
    (tmp_path / "git").write_text("#!/bin/sh\n")
    (tmp_path / "git").chmod(0o755)
    argv = ["/bin/bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", scripts(project)[0]]
    done = subprocess.run(argv, env={"PATH": str(tmp_path)}, capture_output=True, text=True)
    assert done.returncode == 1
    assert re.findall(r"::error::(\S+)", done.stdout) == ["docker", "nix", "tnpu-nix"]


def test_it_is_written_once_and_then_kept_by_generate(project: Project, edit: Edit) -> None:
    assert project.run("generate", "--check").status == 0  # nobody wants it yet
    assert not (project.root / WORKFLOW).exists()
    assert project.run("init-ci").status == 0
    again = project.run("init-ci")
    assert again.status == 0 and "nothing was written" in again.err
    project.pins.write_text(project.pins.read_text() + SLURM)
    stale = project.run("generate", "--check")
    assert stale.status == 1 and f"+++ b/{WORKFLOW}" in stale.out
    assert project.run("generate").out == f"wrote {WORKFLOW}\n"
    assert "--partition=" in (project.root / WORKFLOW).read_text()


def test_a_registry_that_is_not_named_is_said(project: Project, edit: Edit) -> None:
    assert "names no registry" in project.run("init-ci").err
    edit("[image]\n", '[image]\nregistry = "registry.example/lab"\n')
    assert "names no registry" not in project.run("init-ci").err


def test_edits_by_hand_are_not_lost(project: Project) -> None:
    assert project.run("init-ci").status == 0
    file = project.root / WORKFLOW
    written = file.read_text()
    file.write_text(written.replace("timeout-minutes: 60", "timeout-minutes: 90"))
    for verb in ("init-ci", "generate"):
        project.run(verb).failed_with("edited by hand", WORKFLOW, "without its first line")
        assert "timeout-minutes: 90" in file.read_text()
    assert project.run("init-ci", "--force").status == 0
    assert file.read_text() == written


def test_a_file_that_is_not_ours_is_left_alone(project: Project) -> None:
    assert project.run("init-ci").status == 0
    file = project.root / WORKFLOW
    mine = file.read_text().split("\n", 1)[1].replace("timeout-minutes: 60", "timeout-minutes: 90")
    file.write_text(mine)
    assert project.run("generate").status == 0
    assert project.run("generate", "--force").status == 0
    project.run("init-ci").failed_with("not written by tnpu-nix", WORKFLOW)
    project.run("init-ci", "--force").failed_with("not written by tnpu-nix", WORKFLOW)
    assert file.read_text() == mine


def test_an_expression_of_githubs_is_no_value(project: Project) -> None:
    text = project.pins.read_text()
    project.pins.write_text(text + '[ci]\nsmoke = "echo ${{ secrets.LAB }}"\n')
    project.run("init-ci").failed_with("ci.smoke", "expression")
