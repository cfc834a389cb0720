"""`tnpu-nix import`: real files of pins, real git, a real store, one transaction."""

from __future__ import annotations

import re
import shutil
import tomllib
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY, GitRepository, Project, run_command, run_with_mounts
from tests.lab import Lab, data, done, rest, row, write
from tests.nix import nar_hash
from tests.versions_env import HARNESS, LAB, STYLES
from tnpu_nix import pinsfile
from tnpu_nix.offline.repositories import make_repositories
from tnpu_nix.pins import PIN_NAMES


@pytest.mark.parametrize("style", STYLES)
def test_files_in_every_style_give_the_same_pins(style: str, lab: Lab, here: Project) -> None:
    done(here.run("import", write(here, lab.fill(STYLES[style]))))
    for name, pin in pinsfile.load(here.pins).pins.items():
        assert pin.rev == lab.pinned[name], name
        assert Path(pin.url.removeprefix("file://")).resolve() == lab.repositories[name].path
        assert pin.track == "main" and pin.date == "2026-01-02T03:04:05+00:00"
    assert here.run("generate", "--check").status == 0


def test_the_hash_is_that_of_the_source_and_a_second_import_writes_nothing(
    lab: Lab, here: Project, tmp_path: Path
) -> None:
    file = write(here, lab.fill(LAB))
    done(here.run("import", file))
    plain = tmp_path / "plain"
    lab.repositories["pk"].git("checkout-index", "--all", f"--prefix={plain}/")
    assert here.pin("pk").hash == nar_hash(plain)
    before = here.files()
    again = done(here.run("import", file))
    assert "nothing was written" in again.out
    assert here.files() == before


def test_variables_of_one_repository_stand_together_with_winner_and_disagreement(
    lab: Lab, here: Project
) -> None:
    file = write(here, lab.fill(LAB + f"TRITON_SHARED_TESTED_SHA={lab.pinned['triton_shared']}\n"))
    said = done(here.run("import", file)).out
    block = said[said.index("triton_shared:") : said.index("spike:")]
    assert "4 variables name a revision, and 2 disagree" in block
    assert re.search(r"TRITON_SHARED_SHA +wins", block)
    assert "a full revision under the pin's own name" in block
    assert re.search(r"TRITON_SHARED_BACKEND_SHA +disagrees", block)
    assert "BACKEND in its name says that it is of something beside the pin" in block
    assert re.search(r"TRITON_SHARED_TESTED_SHA +agrees", block)
    assert "RELEASE_TAG = toolchain-llvm23" in said and "names a release of tarballs" in said


def test_comments_are_carried_over(lab: Lab, here: Project) -> None:
    done(here.run("import", write(here, lab.fill(LAB))))
    text = here.pins.read_text()
    assert text.startswith(
        "# Pins of the toolchain; setup/restore.sh sources this file.\n\nversion = 1\n"
    )
    assert "# LLVM 23.0.0git, the revision in triton's cmake/llvm-hash.txt\n[pins.llvm]\n" in text
    assert (
        "# the real pin\n"
        "# TRITON_SHARED_BACKEND_SHA: Where backend/{compiler.py,driver.py,name.conf} come from.\n"
        "# TRITON_SHARED_PREBUILT_SHA: What the tarball holds. Had gone stale twice over.\n"
        "[pins.triton_shared]\n"
    ) in text


def test_a_project_keeps_what_the_files_do_not_say(lab: Lab, here: Project, tmp_path: Path) -> None:
    done(here.run("import", write(here, lab.fill(LAB))))
    text = here.pins.read_text().replace("[pins.spike]\n", "# ours\n[pins.spike]\n")
    here.pins.write_text(text + '\n[image]\nname = "kept"  # as it was\n')
    done(here.run("generate"))
    before = here.pins.read_text()
    ran = done(here.run("import", write(here, f"# older\nSPIKE_SHA={lab.older['spike']}\n")))
    assert "not in the files: spike: url as in pins.toml" in ran.out
    assert "not in the files: pk: url and rev, hash and date as in pins.toml" in ran.out
    old, new = before.splitlines(), here.pins.read_text().splitlines()
    assert [one for one in old if one not in new] == [
        f'rev = "{lab.pinned["spike"]}"',
        next(one for one in old if one.startswith("hash") and old.index(one) > old.index("# ours")),
    ]
    assert new[new.index("# ours") : new.index("# ours") + 3] == [
        "# ours",
        "# older",
        "[pins.spike]",
    ]
    assert here.pin("spike").rev == lab.older["spike"]
    assert here.run("generate", "--check").status == 0


def test_what_is_pinned_already_is_not_asked_for_again(
    lab: Lab, here: Project, tmp_path: Path
) -> None:
    gone = GitRepository(tmp_path / "gone.git")
    rev = gone.commit()
    text = lab.fill(LAB).replace(lab.repositories["pk"].url, gone.url)
    file = write(here, text.replace(lab.pinned["pk"], rev))
    done(here.run("import", file))
    shutil.rmtree(gone.path)
    assert "nothing was written" in done(here.run("import", file)).out


def test_what_no_file_says_is_left_out_and_named_and_nothing_is_written(
    lab: Lab, here: Project
) -> None:
    lines = [one for one in lab.fill(LAB).splitlines() if "PK_" not in one and "SPIKE_R" not in one]
    lines = [one for one in lines if not one.startswith("TRITON_SHARED_SHA")]
    ran = here.run("import", write(here, "\n".join(lines)))
    ran.failed_with("the files do not say all of triton_shared, spike, pk; nothing was written")
    assert "pk: no file names its repository (PK_URL=…)" in ran.err
    assert "pk: no file names its revision (PK_SHA=…)" in ran.err
    assert "spike: no file names its repository (SPIKE_URL=…)" in ran.err
    # The notes beside the pin are no pin.
    assert "triton_shared: no file names its revision (TRITON_SHARED_SHA=…)" in ran.err
    assert list(here.files()) == ["versions.env"]
    found = tomllib.loads(ran.out[ran.out.index("[pins.") :])
    assert set(found["pins"]) == {"llvm", "triton", "triton_shared", "spike"}
    assert found["pins"]["llvm"]["rev"] == lab.pinned["llvm"]
    assert found["pins"]["spike"] == {"rev": lab.pinned["spike"]}


def test_a_second_file_says_what_the_first_leaves_out(lab: Lab, here: Project) -> None:
    lines = lab.fill(LAB).splitlines()
    more = write(here, "\n".join(one for one in lines if "_REPO" in one), "urls.env")
    file = write(here, "\n".join(one for one in lines if "_REPO" not in one))
    assert here.run("import", file).status == 1
    done(here.run("import", file, more))
    assert here.pin("pk").rev == lab.pinned["pk"]


def test_another_pins_toml_supplies_what_is_left_out_and_each_value_is_named(
    lab: Lab, here: Project, tmp_path: Path
) -> None:
    done(here.run("import", write(here, lab.fill(LAB))))
    base = tmp_path / "base.toml"
    base.write_text(here.pins.read_text() + '\n[slurm]\npartition = "big"\n')
    root = tmp_path / "new"
    root.mkdir()
    new = Project(root, here.env)
    file = write(new, f"LLVM_SHA={lab.older['llvm']}\n")
    ran = done(new.run("import", file, "--base", base))
    assert f"not in the files: llvm: url as in {base}" in ran.out
    assert f"not in the files: pk: url and rev, hash and date as in {base}" in ran.out
    found = pinsfile.load(new.pins)
    assert found.pins.llvm.rev == lab.older["llvm"] and found.slurm.partition == "big"
    assert found.pins.pk == here.pin("pk")
    new.run("import", file, "--base", base).failed_with("leave out --base")


def test_nothing_names_a_package_set_so_the_tested_one_is_written_and_said(
    lab: Lab, here: Project
) -> None:
    ran = done(here.run("import", write(here, lab.fill(LAB))))
    assert "not in the files: nixpkgs: the one that tnpu-nix is tested with" in ran.out
    own = pinsfile.load(REPOSITORY / "pins.toml").nixpkgs
    assert pinsfile.load(here.pins).nixpkgs == own


def test_a_dry_run_shows_everything_and_writes_nothing(lab: Lab, here: Project) -> None:
    file = write(here, lab.fill(LAB))
    dry = done(here.run("import", file, "--dry-run"))
    assert list(here.files()) == [file]
    real = done(here.run("import", file))
    assert real.out == dry.out.replace("would write", "wrote")


def test_a_dry_run_works_in_a_folder_that_cannot_be_written(lab: Lab, here: Project) -> None:
    file = write(here, lab.fill(LAB))
    mount = f"mount --bind {here.root} {here.root}; mount -o remount,ro,bind {here.root}"
    ran = run_with_mounts(mount, "import", file, "--dry-run", cwd=here.root, env=here.env)
    assert ran.status == 0, ran
    assert "would write" in ran.out


def test_the_session_in_the_documentation_is_what_the_command_prints(
    here: Project, tmp_path: Path
) -> None:
    text = (REPOSITORY / "docs" / "migrating.md").read_text()
    indented = re.findall(r"(?:^    .*\n|^\n)+", text, re.M)
    blocks = [re.sub(r"^    ", "", one, flags=re.M).strip("\n") + "\n" for one in indented]
    (file,) = (one for one in blocks if one.startswith("# Pins of the toolchain"))
    (session,) = (one for one in blocks if one.startswith("$ tnpu-nix import setup/versions.env t"))
    (pin,) = (one for one in blocks if "[pins.triton_shared]" in one)
    # The miniatures may change after the page was written; their revisions are then others.
    real = {}
    for name, repository in make_repositories(tmp_path / "git").items():
        for role, rev in (("SHA", repository.head), ("BACKEND_SHA", *repository.tags.values())):
            if found := re.search(rf"^{name.upper()}_{role}=(\w+)", file, re.M):
                real |= {found[1]: rev, found[1][:12]: rev[:12]}

    def translated(text: str) -> str:
        text = text.replace("file:///srv/git", (tmp_path / "git").as_uri())
        return re.sub(r"\b[0-9a-f]{12,40}\b", lambda one: real.get(one[0], one[0]), text)

    def vague(text: str) -> str:
        return re.sub(r"(sha256-)\S+|\b[0-9a-f]{40}(?= \(refs)", "…", text)

    for folder, name, content in (
        ("setup", "versions.env", translated(file)),
        ("thirdparty", "triton-npu.json", HARNESS),
    ):
        (here.root / folder).mkdir()
        (here.root / folder / name).write_text(content)
    command, expected = session.split("\n", 1)
    ran = done(here.run(*command.split()[2:]))
    assert vague(ran.out) == vague(translated(expected))
    assert vague(translated(pin)) in vague(here.pins.read_text())


def test_the_report_as_json(lab: Lab, here: Project) -> None:
    text = lab.fill(LAB) + "GEM5_SHA=1\nPYTHON_VERSION=3.12.4\nsource other.env\n"
    report = data(done(here.run("import", write(here, text), "--json")))
    assert [one["name"] for one in report["pins"]] == list(PIN_NAMES)
    pin = here.pin("triton_shared").model_dump()
    for key in ("url", "rev", "hash", "date"):
        assert report["pins"][2][key] == pin[key]
    assert row(report, "TRITON_SHARED_SHA")["verdict"] == "wins"
    assert row(report, "TRITON_SHARED_PREBUILT_SHA")["verdict"] == "disagrees"
    assert rest(report)["GEM5_SHA"].startswith("names none of the five upstreams")
    assert "reads another file" in rest(report)["source other.env"]
    assert [one["key"] for one in report["options"]] == ["python.version"]
    assert report["written"] is True and "pins.toml" in report["files"]
    failed = data(here.run("import", write(here, "PK_SHA=nowhere\n"), "--json"))
    assert failed["written"] is False and "[pins.pk]" in failed["toml"]


SECRETS = """# password: hunter2hunter2

GITHUB_TOKEN=hunter2hunter2
LLVM_FORK_URL=https://someone:hunter2hunter2@h/llvm.git
LLVM_EXTRA_URL=https://hunter2hunter2@h/x.git
SSH_EXTRA_URL=git:hunter2hunter2@h:a/b
QUERY_URL=https://h/x.git?private_token=hunter2hunter2
# https://u:hunter2hunter2@h/x
PK_TAG=v1.0 # token: hunter2hunter2
API_KEY=hunter2hunter2
NOTE="Bearer $API_KEY"
note hunter2hunter2
SPIKE_TOKEN=hunter2hunter2
SPIKE_TOKEN=x
SPIKE_TAG=hunter2hunter2
SPIKE_TAG=v1.0
OTHER=ghp_hunter2hunter2
"""


def test_no_secret_is_printed_or_written(lab: Lab, here: Project) -> None:
    file = write(here, SECRETS + lab.fill(LAB))
    for options in ([], ["--json"]):
        ran = here.run("import", file, *options)
        assert "hunter2" not in ran.out + ran.err
    done(ran)
    (here.root / file).unlink()
    for path in here.root.rglob("*"):
        assert not path.is_file() or b"hunter2" not in path.read_bytes(), path


def test_credentials_in_a_url_are_left_out_and_a_token_s_variable_is_kept(
    here: Project, lab: Lab
) -> None:
    text = "".join(
        f"{name.upper()}_URL=https://{who}@127.0.0.1:1/{name}.git\n{name.upper()}_SHA={'a' * 40}\n"
        for name, who in {
            "llvm": "u:hunter2",
            "triton": "x-access-token:${TNPU_TOKEN}",
            "triton_shared": "$OTHER_TOKEN",
            "spike": "bot:${A_TOKEN:?is not set}",
            "pk": "hunter2",
        }.items()
    )
    ran = here.run("import", write(here, text), "--json", env={"TNPU_TOKEN": "hunter2hunter2"})
    ran.failed_with()
    assert "hunter2" not in ran.out + ran.err
    report = data(ran)
    assert [one["url"] for one in report["pins"]] == [
        f"https://127.0.0.1:1/{name}.git" for name in PIN_NAMES
    ]
    assert "was left out" in row(report, "LLVM_URL")["why"]
    # What asks the repository takes the token from the variable that the file names.
    assert "the variable OTHER_TOKEN is not set" in ran.err
    assert "the variable A_TOKEN is not set" in ran.err
    assert "the variable TNPU_TOKEN" not in ran.err
    found = tomllib.loads(report["toml"])["pins"]
    assert found["triton"]["token-env"] == "TNPU_TOKEN"
    assert found["spike"]["token-user"] == "bot"
    assert "token-env" not in found["llvm"]


def test_nothing_of_the_environment_gets_in_and_nothing_is_run(lab: Lab, here: Project) -> None:
    mark = here.root / "ran"
    text = lab.fill(LAB).replace(f"PK_SHA={lab.pinned['pk']}", "PK_SHA=$OUTSIDE")
    text += f"X=$(touch {mark})\ntouch {mark}\nSPIKE_TAG=`touch {mark}; echo v1.0`\n"
    ran = here.run("import", write(here, text), "--json", env={"OUTSIDE": lab.pinned["pk"]})
    ran.failed_with("do not say all of pk")
    assert rest(data(ran))["PK_SHA"] == (
        "$OUTSIDE is a reference to OUTSIDE, which the files do not define"
    )
    assert "would have to be run" in rest(data(ran))["SPIKE_TAG"]
    assert not mark.exists()


def test_hand_edited_files_stop_an_import_before_anything_is_fetched(
    lab: Lab, here: Project
) -> None:
    file = write(here, lab.fill(LAB))
    (here.root / "flake.nix").write_text("{ }\n")
    ran = here.run("import", file)
    ran.failed_with("not written by tnpu-nix")
    assert "asking" not in ran.err and not here.pins.exists()


@pytest.mark.parametrize("words", [[], ["nowhere.env"], ["."], ["versions.env", "--base", "x"]])
def test_a_wrong_command_line(words: list[str], here: Project) -> None:
    write(here, "A=1")
    assert here.run("import", *words).status == 2


def test_a_folder_below_a_project_and_a_named_one_are_found(
    lab: Lab, here: Project, tmp_path: Path
) -> None:
    file = write(here, lab.fill(LAB))
    inner = here.root / "setup"
    inner.mkdir()
    done(here.run("import", file))
    done(run_command("import", "../versions.env", cwd=inner, env=here.env))
    assert list(inner.iterdir()) == []
    done(run_command("--project", str(inner), "import", file, cwd=here.root, env=here.env))
    assert (inner / "pins.toml").exists()
    run_command(
        "--project", str(tmp_path / "none"), "import", file, cwd=here.root, env=here.env
    ).failed_with("is no folder")
