"""The whole round: a key, a push, a look at it, a pull, as a lab and its users go through it."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cache.conftest import SMALL, Lab, edit, nix, read_only
from tests.cache.web import Nginx
from tests.conftest import environment, run_with_mounts
from tnpu_nix import pinsfile
from tnpu_nix.flake import hostpkgs
from tnpu_nix.images import archive


def test_keygen_makes_a_key_that_only_its_owner_reads(lab: Lab, tmp_path: Path) -> None:
    key = tmp_path / "a b.key"
    made = lab.cache("keygen", "cache.example-1", "--file", key)
    assert made.status == 0, made.err
    assert re.fullmatch(r"cache\.example-1:[A-Za-z0-9+/]{43}=\n", made.out)
    assert key.stat().st_mode & 0o777 == 0o600
    secret = key.read_text()
    assert secret.split(":")[1] not in made.out + made.err
    assert made.out.strip() in made.err  # what to put into pins.toml
    again = lab.cache("keygen", "cache.example-1", "--file", key)
    again.failed_with("exists")
    assert key.read_text() == secret


def test_keygen_writes_the_public_key_into_pins_toml(lab: Lab, tmp_path: Path) -> None:
    edit(lab.project, advertise=True, substituters=["https://cache.example"])
    made = lab.cache("keygen", "second-1", "--file", tmp_path / "second.key", "--write")
    assert made.status == 0, made.err
    keys = pinsfile.load(lab.project.pins).cache.public_keys
    assert keys == [lab.public, made.out.strip()]
    assert made.out.strip() in (lab.project.root / "flake.nix").read_text()
    assert lab.project.run("generate", "--check").status == 0


def test_the_public_key_is_printed_whatever_becomes_of_pins_toml(lab: Lab, tmp_path: Path) -> None:
    key = tmp_path / "second.key"
    words = ("cache", "keygen", "second-1", "--file", key, "--write")
    made = run_with_mounts(read_only(lab), *words, cwd=lab.project.root, env=lab.project.env)
    made.failed_with("the key is not in pins.toml", made.out.strip())
    shown = lab.cache("keygen", "--show", key)
    assert shown.status == 0 and shown.out == made.out and made.out.startswith("second-1:")
    written = lab.cache("keygen", "--show", key, "--write")
    assert written.status == 0, written.err
    assert lab.cache("keygen", "--show", key, "--write").status == 0  # and only once
    keys = pinsfile.load(lab.project.pins).cache.public_keys
    assert keys == [lab.public, made.out.strip()]


def test_keygen_takes_a_name_or_a_file(lab: Lab, tmp_path: Path) -> None:
    for words in ((), ("second-1", "--show", lab.key)):
        wrong = lab.cache("keygen", *words)
        assert wrong.status == 2 and "--show" in wrong.err
    lab.cache("keygen", "--show", tmp_path / "none").failed_with("cannot be read")
    (tmp_path / "public.key").write_text(lab.public)
    lab.cache("keygen", "--show", tmp_path / "public.key").failed_with("holds no secret")
    assert not (lab.project.root / "cache-signing.key").exists()


def test_a_key_that_others_can_read_is_warned_of(bare: Lab, tmp_path: Path) -> None:
    key = tmp_path / "open.key"
    key.write_text(bare.key.read_text())
    for mode, count in ((0o600, 0), (0o640, 1), (0o604, 1)):
        key.chmod(mode)
        words = ("push", "pk", "--to", f"{bare.url}?compression=none", "--key-file", key)
        pushed = bare.cache(*words, store=bare.builder)
        assert pushed.status == 0, pushed.err
        warned = f"warning: others can read the secret key {key}: chmod 600 {key}"
        assert pushed.err.count(warned) == count


def test_the_flake_carries_the_caches_only_if_it_is_to_advertise_them(lab: Lab) -> None:
    edit(lab.project, substituters=["https://cache.example"])
    assert "nixConfig" not in (lab.project.root / "flake.nix").read_text()
    edit(lab.project, advertise=True)
    text = (lab.project.root / "flake.nix").read_text()
    assert "https://cache.example" in text and lab.public in text


def test_a_push_uploads_what_is_missing_and_nothing_else(bare: Lab) -> None:
    fast = f"{bare.url}?compression=zstd"
    first = bare.push("spike", "--json", to=fast)
    assert first.status == 0, first.err
    assert bare.path("spike") in json.loads(first.out)["uploaded"]
    assert "pushed spike" in first.err
    before = {path: path.stat().st_mtime_ns for path in (bare.folder / "nar").iterdir()}
    second = bare.push("spike", "pk", "--json", to=fast)
    assert json.loads(second.out)["uploaded"] == [bare.path("pk")]
    after = {path: path.stat().st_mtime_ns for path in (bare.folder / "nar").iterdir()}
    assert before.items() < after.items() and len(after) == len(before) + 1


def test_sources_and_build_time_outputs_are_pushed_by_choice(bare: Lab) -> None:
    fast = f"{bare.url}?compression=none"
    without = bare.push("--no-build-time", "--json", to=fast)
    assert without.status == 0, without.err
    uploaded = json.loads(without.out)["uploaded"]
    assert bare.path("triton") in uploaded and bare.path("tnpu-image") in uploaded
    for name in ("llvm", "mlir", "lld", "llvm-toolchain"):
        assert bare.path(name) not in uploaded
    usual = json.loads(bare.push("--json", to=fast).out)["uploaded"]
    assert {bare.path(name) for name in ("llvm", "mlir", "lld", "llvm-toolchain")} == set(usual)
    sources = json.loads(bare.push("--sources", "--json", to=fast).out)["uploaded"]
    assert len(sources) == 5 and any("riscv-isa-sim-" in path for path in sources)


def test_the_key_is_in_no_argument_list_and_no_output(bare: Lab, tmp_path: Path) -> None:
    secret = bare.key.read_text().split(":")[1]
    trace = tmp_path / "trace"
    argv = ["strace", "-f", "-qq", "-e", "trace=execve", "-s", "4000", "-v", "-o", str(trace)]
    words = ["tnpu-nix", "cache", "push", "pk", "--to", bare.url, "--offline-profile"]
    env = environment(**bare.project.env, **bare.env(bare.builder))
    env["TNPU_SIGNING_KEY_FILE"] = str(bare.key)
    try:
        done = subprocess.run([*argv, *words], cwd=bare.project.root, env=env, capture_output=True)
    except FileNotFoundError:
        pytest.skip("strace is not installed")
    assert done.returncode == 0, done.stderr
    seen = trace.read_text() + done.stdout.decode() + done.stderr.decode()
    assert "secret-key=" in seen and secret[:40] not in seen


def test_a_push_without_a_key_says_so(bare: Lab) -> None:
    done = bare.cache("push", "pk", "--to", bare.url, store=bare.builder)
    done.failed_with("no signing key", "keygen")
    assert not bare.folder.exists()


def test_a_push_warns_of_a_key_that_nobody_trusts(bare: Lab, tmp_path: Path) -> None:
    other = tmp_path / "other.key"
    assert bare.cache("keygen", "other-1", "--file", other).status == 0
    done = bare.cache("push", "pk", "--to", bare.url, "--key-file", other, store=bare.builder)
    assert done.status == 0 and "pulls will refuse" in done.err


def test_what_is_not_built_cannot_be_pushed(bare: Lab) -> None:
    done = bare.cache("push", "--to", bare.url, "--key-file", bare.key, store=bare.reader)
    hint = f"`tnpu-nix build --offline-profile --store {bare.reader}`, then push"
    done.failed_with("nothing is built", hint)


def test_status_shows_output_by_output_who_has_it(lab: Lab, silent: str) -> None:
    lab.narinfo("pk").unlink()
    lab.narinfo("triton").write_text("nonsense")
    words = ["--cache", lab.url, "--cache", silent, "--timeout", "1"]
    said = lab.cache("status", "--json", *words)
    assert said.status == 0, said.err
    found = json.loads(said.out)
    assert [one["trouble"] for one in found["caches"]] == [None, "no answer within 1 s"]
    outputs = {one["name"]: one for one in found["outputs"]}
    assert set(outputs) >= {*SMALL, "llvm-toolchain", "tnpu-image", "triton"}
    assert outputs["spike"]["caches"] == [lab.url] and not outputs["spike"]["would_be_built"]
    assert outputs["pk"]["caches"] == [] and outputs["pk"]["would_be_built"]
    assert outputs["triton"]["damaged"] == [lab.url] and outputs["triton"]["would_be_built"]
    nar = int(re.search(r"NarSize: (\d+)", lab.narinfo("spike").read_text())[1])  # type: ignore[index]
    assert outputs["spike"]["nar_size"] == nar
    assert outputs["spike"]["download_size"] == lab.nar("spike").stat().st_size
    text = lab.cache("status", *words).out
    assert re.search(r"^pk +- +- +\? .*would be built$", text, re.M), text
    assert re.search(r"^triton +- +BAD ", text, re.M), text
    here = lab.cache("status", "pk", "--json", *words, store=lab.builder)
    assert json.loads(here.out)["outputs"][0]["here"]


def test_a_pull_brings_the_outputs_and_builds_nothing(lab: Lab) -> None:
    done = lab.cache("pull", *SMALL, "--cache", lab.url)
    assert done.status == 0, done.err
    assert done.out.splitlines() == [str(lab.in_store(name)) for name in SMALL]
    assert (lab.in_store("pk") / "bin" / "pk").is_file()
    assert "building" not in done.err
    again = lab.cache("pull", *SMALL)  # all is here: no cache is needed
    assert again.status == 0 and again.out == done.out and "fetching" not in again.err


def test_a_pull_names_what_no_cache_has_and_fetches_nothing(lab: Lab) -> None:
    lab.narinfo("pk").unlink()
    done = lab.cache("pull", *SMALL, "--cache", lab.url)
    done.failed_with("in no cache: pk", lab.path("pk"), f"{lab.url}: does not have it")
    assert lab.empty()


def test_a_build_time_output_is_pulled_when_it_is_asked_for(lab: Lab) -> None:
    done = lab.cache("pull", "llvm-toolchain", "--cache", lab.url)
    assert done.status == 0 and (lab.in_store("llvm-toolchain") / "lib").exists()


def test_verify_finds_a_good_cache_good(lab: Lab) -> None:
    done = lab.cache("verify", "--cache", lab.url)
    assert done.status == 0, done.out + done.err
    assert re.search(rf"^ok +{lab.url}: \d+ paths, 0 with faults", done.out, re.M)
    assert lab.cache("verify", "--here", *SMALL, store=lab.builder).status == 0


@pytest.mark.parametrize("kind", ["user", "ci", "daemon"])
def test_what_use_prints_is_what_plain_nix_needs(
    lab: Lab, nginx: Callable[[Path], Nginx], tmp_path: Path, kind: str
) -> None:
    """Plain nix, by these lines alone, takes an output from a cache behind a password."""
    server = nginx(lab.folder)
    edit(lab.project, substituters=[server.url])
    home = tmp_path / "home"
    home.mkdir()
    server.netrc().rename(home / ".netrc")
    used = lab.cache("use", kind, HOME=str(home))
    assert used.status == 0, used.err
    assert "machine 127.0.0.1 login USER password PASSWORD" in used.out
    text = used.out.replace("/etc/nix/netrc", str(home / ".netrc"))
    base = "build-users-group =\nextra-experimental-features = nix-command flakes\nsubstituters ="
    command = f"nix-store --realise {lab.path('spike')}"
    if kind == "ci":
        command = f"{text}\n{command}"
        variables = {"NIX_CONFIG": base}
    else:
        (tmp_path / "conf").mkdir()
        (tmp_path / "conf" / "nix.conf").write_text(f"{base}\n{text}")
        variables = {"NIX_CONF_DIR": str(tmp_path / "conf")}
    env = environment(HOME=str(home), NIX_REMOTE=str(lab.reader), **variables)
    done = subprocess.run(["bash", "-ec", command], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert lab.in_store("spike").exists()


def test_a_new_user_clones_pulls_and_runs_the_image(
    lab: Lab, nginx: Callable[[Path], Nginx], tmp_path: Path
) -> None:
    server = nginx(lab.folder)
    edit(lab.project, substituters=[server.url])
    lab.project.run("generate")
    git = ["git", "-C", str(lab.project.root), "-c", "user.name=a", "-c", "user.email=a@b.c"]
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "pins"]):
        subprocess.run([*git, *words], check=True, env=environment())
    clone, home = tmp_path / "clone", tmp_path / "home"
    subprocess.run(["git", "clone", "-q", str(lab.project.root), str(clone)], check=True)
    (home / ".config" / "nix").mkdir(parents=True)
    server.netrc().rename(home / ".netrc")
    lab.project.root, lab.project.env["HOME"] = clone, str(home)
    (home / ".config" / "nix" / "nix.conf").write_text(lab.cache("use").out)

    pulled = lab.cache("pull", "tnpu-image")
    assert pulled.status == 0, pulled.err
    image, root = archive.read(Path(pulled.out.strip())), tmp_path / "root"
    archive.unpack(image, root)
    enter = [] if os.geteuid() == 0 else ["unshare", "--user", "--map-root-user"]
    variables = [f"{name}={value}" for name, value in image.environment.items()]
    doctor = [*enter, "chroot", str(root), "/bin/env", "-i", *variables, "tnpu-doctor"]
    ran = subprocess.run(doctor, capture_output=True, text=True)
    assert "every tool of the pipeline works" in ran.stdout, ran

    # And the third command of daily life, by the lines that `use` printed.
    argv = ["nix", "build", f"path:{clone}#llvm-tools", "--no-link", "--max-jobs", "0"]
    argv += ["--override-input", "nixpkgs", f"path:{hostpkgs()}"]
    plain = nix(lab.reader, *argv, HOME=str(home))
    assert plain.returncode == 0, plain.stderr


def test_the_wire_carries_only_what_is_missing(bare: Lab, nginx: Callable[[Path], Nginx]) -> None:
    server = nginx(bare.folder)
    netrc = ("--netrc", server.netrc())
    fast = f"{server.url}?compression=zstd"
    first = bare.push("pk", *netrc, to=fast)
    assert first.status == 0, first.err
    uploads = [one for one in server.requests() if one.startswith("PUT /nar/")]
    assert len(uploads) == 1
    second = bare.push("pk", "spike", *netrc, to=fast)
    assert second.status == 0, second.err
    count = len(list((bare.folder / "nar").iterdir()))
    uploads = [one for one in server.requests() if one.startswith("PUT /nar/")]
    assert len(uploads) == count and len(set(uploads)) == count
    before = len(server.requests())
    status = bare.cache("status", *netrc, "--cache", server.url)
    assert status.status == 0
    asked = server.requests()[before:]
    assert not [one for one in asked if "/nar/" in one]
    assert len(asked) == 1 + len(bare.paths())  # nix-cache-info, and a narinfo for each output
    pulled = bare.cache("pull", "pk", *netrc, "--cache", server.url)
    assert pulled.status == 0, pulled.err
    nars = [one for one in server.requests() if one.startswith("GET /nar/")]
    assert len(nars) == 1


def test_the_record_of_a_push_goes_over_http_too(bare: Lab, nginx: Callable[[Path], Nginx]) -> None:
    server = nginx(bare.folder)
    assert bare.push("pk", "--netrc", server.netrc(), to=server.url).status == 0
    # By the server's lines in docs/cache.md, others on that machine can read it: as file://, too.
    files = [path for path in bare.folder.rglob("*") if path.is_file()]
    assert {path.stat().st_mode & 0o777 for path in files} == {0o644}
    (record,) = (bare.folder / "tnpu").glob("*.json")
    assert bare.path("triton") in json.loads(record.read_text())["outputs"]["triton"]
