"""Which variable of old files wins, and what has a place in pins.toml: the real command."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import GitRepository, Project
from tests.lab import Lab, data, done, rest, row, write
from tests.versions_env import HARNESS, LAB
from tnpu_nix import pinsfile

RELEASES = """{
  "description": "GitHub release pins for CI",
  "pytorch_image": "ubuntu:22.04",
  "gem5": {"repository": "PSAL-POSTECH/gem5", "release_tag": "v1.0.1", "asset_name": "g.tar.gz"},
  "spike": {
    "repository": "<spike>",
    "release_tag": "v1.0",
    "asset_name": "spike-release.tar.gz"
  }
}"""
RELEASE = "RELEASE_REPO=PSAL-POSTECH/triton-npu\nRELEASE_TAG=toolchain-llvm23\nPATH=/x:$PATH\n"


def test_a_release_gives_a_pin_only_where_nothing_else_does(lab: Lab, here: Project) -> None:
    releases = write(here, lab.fill(RELEASES), "github-releases.json")
    harness = write(here, HARNESS, "triton-npu.json")
    text = lab.fill(LAB)
    lines = [one for one in text.splitlines() if "SPIKE" not in one]
    without = write(here, "\n".join([*lines, RELEASE]), "w")
    report = data(done(here.run("import", without, releases, harness, "--json")))
    assert here.pin("spike").rev == lab.older["spike"]
    assert report["pins"][3]["ref"] == "refs/tags/v1.0"
    assert "of a release, and nothing else" in row(report, "spike.release_tag")["why"]
    reasons = rest(report)
    assert "none of the five upstreams" in reasons["gem5.release_tag"]
    assert "names a tarball" in reasons["spike.asset_name"]
    assert "is the harness and no pin" in reasons["triton_npu.ref"]
    assert "import that file" in reasons["triton_npu.ref"]
    assert "cache replace" in reasons["triton_npu.release_tag"]
    assert "is the harness and no pin" in reasons["RELEASE_REPO"]
    assert "cache replace" in reasons["RELEASE_TAG"] and "a folder" in reasons["PATH"]
    assert "names none" in reasons["pytorch_image"]
    # A variable of the pin's own name wins, and a release lends its URL to nothing else.
    report = data(done(here.run("import", write(here, text), releases, "--json")))
    assert here.pin("spike").rev == lab.pinned["spike"]
    assert row(report, "spike.release_tag")["verdict"] == "disagrees"
    assert row(report, "spike.repository")["verdict"] == "agrees"


def test_a_release_s_repository_is_not_that_of_a_revision_from_another_file(
    lab: Lab, here: Project
) -> None:
    text = "\n".join(one for one in lab.fill(LAB).splitlines() if "SPIKE_REPO" not in one)
    releases = write(here, lab.fill(RELEASES), "github-releases.json")
    here.run("import", write(here, text), releases).failed_with(
        "spike: no file names its repository"
    )


def test_a_branch_beside_a_revision_is_tracked_and_a_version_is_only_compared(
    lab: Lab, here: Project
) -> None:
    lab.repositories["pk"].git("branch", "--force", "stable")
    text = (
        lab.fill(LAB)
        + "PK_BRANCH=origin/stable\nSPIKE_BRANCH=gone\nPK_VERSION=1.0\nSPIKE_TAG=v1.0\n"
    )
    report = data(done(here.run("import", write(here, text), "--json")))
    assert here.pin("pk").track == "stable" and here.pin("pk").rev == lab.pinned["pk"]
    assert row(report, "PK_BRANCH")["verdict"] == "tracked"
    assert "no branch of that name" in row(report, "SPIKE_BRANCH")["why"]
    assert row(report, "PK_VERSION")["verdict"] == "not known"
    assert row(report, "SPIKE_TAG")["verdict"] == "disagrees"
    assert "it is a tag" in row(report, "SPIKE_TAG")["why"]


def test_a_version_is_a_revision_only_where_a_tag_has_just_that_name(
    lab: Lab, here: Project
) -> None:
    text = lab.fill(LAB).replace(f"PK_SHA={lab.pinned['pk']}", "PK_VERSION=v1.0")
    done(here.run("import", write(here, text)))
    assert here.pin("pk").rev == lab.older["pk"]
    file = write(here, text.replace("PK_VERSION=v1.0", "PK_VERSION=1.0\nPK_BRANCH=main"))
    report = data(done(here.run("import", file, "--json")))
    assert here.pin("pk").rev == lab.pinned["pk"]
    assert "no branch or tag of that name" in row(report, "PK_VERSION")["why"]


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ("LLVM_COMMIT=<llvm~>", "LLVM_SHA and LLVM_COMMIT are equally plain"),
        ("LLVM_REPO=<pk>", "its name says llvm, its URL pk"),
        ("LLVM_URL=<base>/x.git", "LLVM_REPO and LLVM_URL are equally plain"),
        ("PK_SHA=" + "9" * 40, "pk: "),
        ("PK_SHA=nowhere", "has no branch or tag 'nowhere'"),
        (
            "SPIKE_REPO=<base>/one.git\nPK_REPO=<base>/one",
            "spike and pk are pins of one repository",
        ),
    ],
)
def test_what_cannot_be_decided_or_had_stops_before_anything_is_written(
    more: str, words: str, lab: Lab, here: Project
) -> None:
    ran = here.run("import", write(here, lab.fill(f"{LAB}\n{more}\n")))
    ran.failed_with()
    assert words in ran.out + ran.err
    assert list(here.files()) == ["versions.env"]


def test_unset_in_a_later_file_decides_between_two(lab: Lab, here: Project) -> None:
    file = write(here, lab.fill(LAB + "LLVM_COMMIT=<llvm~>\n"))
    done(here.run("import", file, write(here, "unset LLVM_SHA\n", "mine.env")))
    assert here.pin("llvm").rev == lab.older["llvm"]


def test_build_options_are_placed_only_where_pins_toml_has_the_very_key(
    lab: Lab, here: Project
) -> None:
    text = (
        lab.fill(LAB)
        + """
        # for kernels
        LLVM_TARGETS_TO_BUILD="X86;NVPTX;AMDGPU;RISCV;AArch64"
        LLVM_ENABLE_ASSERTIONS=ON
        LLVM_ENABLE_PROJECTS="mlir;lld"
        PK_ARCH=rv64imafdc PK_ABI=lp64d
        PYTHON_VERSION=3.12
        IMAGE_NAME=Not/An:Image
        SLURM_PARTITION=big SLURM_TIME=02:00:00
        CMAKE_BUILD_TYPE=Release
    """
    )
    report = data(done(here.run("import", write(here, text), "--json")))
    found = pinsfile.load(here.pins)
    assert found.llvm.targets == ["X86", "NVPTX", "AMDGPU", "RISCV", "AArch64"]
    assert found.llvm.assertions and found.pk.arch == "rv64imafdc" and found.pk.abi == "lp64d"
    assert found.python.version == "3.12" and found.slurm.partition == "big"
    assert "# for kernels\ntargets = [" in here.pins.read_text()
    reasons = rest(report)
    assert "is not an image name" in reasons["IMAGE_NAME"]
    assert {"LLVM_ENABLE_PROJECTS", "CMAKE_BUILD_TYPE"} <= set(reasons)
    text = text.replace("X86;NVPTX;AMDGPU;RISCV;AArch64", "X86;RISCV") + "PY_VERSION=3.13\n"
    reasons = rest(data(done(here.run("import", write(here, text), "--json"))))
    assert "lacks NVPTX, AMDGPU" in reasons["LLVM_TARGETS_TO_BUILD"]
    assert "of which PY_VERSION says something else" in reasons["PYTHON_VERSION"]


def test_another_repository_takes_nothing_over_from_the_one_before_it(
    lab: Lab, here: Project, tmp_path: Path
) -> None:
    done(here.run("import", write(here, lab.fill(LAB) + "SPIKE_BRANCH=main\n")))
    text = here.pins.read_text()
    here.pins.write_text(text.replace("[pins.spike]\n", '[pins.spike]\nmismatch = "old"\n'))
    done(here.run("generate"))
    fork = GitRepository(tmp_path / "fork.git", "--initial-branch=master")
    rev = fork.commit()
    file = write(here, f"SPIKE_URL={fork.url}\nSPIKE_SHA={rev}\n")
    done(here.run("import", file))
    found = here.pin("spike")
    assert (found.url, found.rev, found.track, found.mismatch) == (fork.url, rev, "master", None)
    # A URL alone says of no revision.
    file = write(here, f"SPIKE_URL={lab.repositories['spike'].url}\n")
    here.run("import", file).failed_with("spike: no file names its revision")


def test_every_value_of_a_variable_is_told_on_one_line_and_no_secret(
    lab: Lab, here: Project
) -> None:
    text = f'LLVM_SHA={lab.older["llvm"]}\nif [ -n "$CI" ]; then\n'
    text += f"LLVM_SHA={lab.pinned['llvm']}\nelse\nLLVM_SHA=third\nfi\nPARTS=(one\ntwo)\n"
    text += "MY_PASS=hunter2\nMY_PASS=other2\nreadonly DB_PASS=x; DB_PASS=hunter2\n"
    ran = here.run("import", write(here, text))
    ran.failed_with()
    block = ran.out[ran.out.index("  LLVM_SHA = third") :]
    assert f"assigned {lab.older['llvm']} (line 1) before" in block
    assert f"assigned {lab.pinned['llvm']} (line 3) before" in block
    assert "(one two) is an array" in ran.out
    assert "hunter2" not in ran.out + ran.err
