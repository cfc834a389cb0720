"""What is on a disk is not what the books say: in the store here, in a cache, in a build's way."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.cache.conftest import Lab, edit, nix
from tests.cache.test_faults import DAMAGES, forge
from tests.cache.web import Nginx
from tests.conftest import Ran
from tests.nix import take
from tnpu_nix import build as builds
from tnpu_nix import pinsfile
from tnpu_nix.cache import local
from tnpu_nix.cache.access import Access
from tnpu_nix.cache.building import with_caches
from tnpu_nix.cache.current import current
from tnpu_nix.cache.stores import Cache
from tnpu_nix.nix import Nix


def flip(file: Path) -> None:
    """Change one bit in the middle of a file, and nothing of its size and times."""
    before = file.stat()
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.chmod(0o644)
    file.write_bytes(content)
    file.chmod(before.st_mode)
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))


def flip_nar(lab: Lab, output: str = "pk") -> None:
    nar = lab.nar(output)
    size = nar.stat().st_size
    flip(nar)
    assert nar.stat().st_size == size


@pytest.fixture(scope="module")
def workshop(filled: Lab, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store that has all that pk is built with, and pk."""
    store = tmp_path_factory.mktemp("workshop") / "store"
    take(filled.project, Nix(store, offline_profile=True), filled.builder, "pk")
    return store


def remove(store: Path, path: str) -> None:
    nix(store, "nix-store", "--delete", "--ignore-liveness", path)
    assert not Path(f"{store}{path}").exists()


# Nix warns of these, and gives up all caches at one that it cannot read.
UNSIGNED = ("narinfo altered: size", "narinfo altered: signature", "forged")
# Those of which Nix says different things.
BUILDS: dict[str, Callable[[Lab], None]] = {
    **{name: DAMAGES[name] for name in ("narinfo empty", "forged", "NAR truncated", "NAR gone")},
    "NAR flipped": flip_nar,
}


@pytest.mark.parametrize("damage", BUILDS)
def test_a_build_takes_from_elsewhere_or_builds_what_a_cache_has_damaged(
    lab: Lab, workshop: Path, tmp_path: Path, damage: str
) -> None:
    good = f"file://{tmp_path}/second"
    shutil.copytree(lab.folder, tmp_path / "second")
    BUILDS[damage](lab)
    path = lab.path("pk")
    said = f"{path} is damaged in {lab.url}: "
    if damage == "narinfo empty":
        said = f"going on without {lab.url}: {path[11:43]}.narinfo in it cannot be read"
    elif damage in UNSIGNED:
        said = f"{path} in {lab.url} is signed by no key that pins.toml trusts"

    words = ("build", "pk", "--offline-profile", "--caches")
    remove(workshop, path)
    edit(lab.project, substituters=[lab.url, good])
    built = lab.project.run(*words, env=lab.env(workshop))
    assert built.status == 0, built.err
    assert built.err.count(said) == 1 and "building" not in built.err, built.err

    remove(workshop, path)
    edit(lab.project, substituters=[lab.url])
    built = lab.project.run(*words, env=lab.env(workshop))
    assert built.status == 0, built.err
    assert built.err.count(said) == 1 and "built riscv-pk" in built.err, built.err
    assert (lab.in_store("pk", workshop) / "bin" / "pk").is_file()


def test_what_refers_to_a_damaged_path_is_still_fetched(
    lab: Lab, nginx: Callable[[Path], Nginx]
) -> None:
    """And a cache that breaks off in the same build, at each of its ways to, does not harm."""
    server = nginx(lab.folder)
    paths = [Path(line) for line in requisites(lab, "spike")]
    (unwrapped,) = [path for path in paths if "-spike-unwrapped-" in path.name]
    narinfo = (lab.folder / f"{unwrapped.name[:32]}.narinfo").read_text()
    flip(lab.folder / re.search(r"^URL: (.*)", narinfo, re.M)[1])  # type: ignore[index]
    edit(lab.project, substituters=[server.at("infos500"), server.at("late500"), lab.url])
    built = lab.project.run("build", "spike", "--offline-profile", "--caches", env=lab.env())
    assert built.status == 0, built.err
    assert f"{unwrapped} is damaged in {lab.url}: " in built.err
    assert re.search("^built spike-unwrapped-", built.err, re.M)
    assert not re.search("^built spike-0", built.err, re.M), built.err
    for place, reason in (("infos500", "it answers 500"), ("late500", "it broke off")):
        assert f"going on without {server.at(place)}: {reason}" in built.err


def test_the_source_of_a_damaged_path_is_fetched_before_it_is_built(
    lab: Lab, workshop: Path
) -> None:
    """As `image ensure` has it, which else fetches sources only for what no cache has."""
    flip_nar(lab)
    root, using = lab.project.root, Nix(workshop, offline_profile=True)
    toolchain = pinsfile.load(lab.project.pins)
    remove(workshop, lab.path("pk"))
    remove(workshop, current(root, using).sources["pk"])
    said: list[str] = []

    def fetch(derivations: Sequence[str]) -> bool:
        return builds.fetch_sources_of(derivations, toolchain, using, said.append)

    def make(nix: Nix) -> builds.Built:
        builds.fetch_sources(root, toolchain, "pk", using, said.append, nix)
        return builds.build(root, "pk", nix, lambda running, ended: None)

    keys, access = [lab.public], Access()
    made = with_caches(make, [Cache(lab.url)], keys, using, access, said.append, prepare=fetch)
    assert made.path == lab.path("pk")
    assert any(f"{lab.path('pk')} is damaged in {lab.url}: " in line for line in said)
    assert any(one.verb == "building" and "riscv-pk" in one.name for one in made.activities)
    assert local.altered(using, [lab.path("pk")]) == []


def requisites(lab: Lab, output: str) -> list[str]:
    argv = ("nix-store", "--query", "--requisites", lab.path(output))
    return nix(lab.builder, *argv).stdout.split()


def writable(folder: Path) -> Path:
    folder.chmod(0o755)
    return folder


def drop(file: Path) -> None:
    writable(file.parent)
    file.unlink()


def turn(file: Path) -> None:
    """Have a link in the place of a file lead elsewhere."""
    drop(file)
    file.symlink_to("/elsewhere")


HURTS: dict[str, Callable[[Path], object]] = {
    "a bit": flip,
    "a file": drop,
    "a mode": lambda file: file.chmod(0o444),
    "a link": turn,
}


def hinted(done: Ran, verb: str) -> list[str]:
    """The command that a hint names, as the words behind `tnpu-nix`."""
    found = re.search(rf"`tnpu-nix (cache {verb} [^`]+)`", done.err.splitlines()[-1])
    assert found, done.err
    return shlex.split(found[1])


@pytest.mark.parametrize("hurt", HURTS)
def test_what_was_altered_on_the_disk_is_not_pushed_and_can_be_had_back(
    lab: Lab, nginx: Callable[[Path], Nginx], tmp_path: Path, hurt: str
) -> None:
    folder = tmp_path / "second"
    server = nginx(folder)
    url = server.url if hurt == "a bit" else f"file://{folder}"
    to = ("--to", f"{url}?compression=none", "--netrc", server.netrc(), "--key-file", lab.key)
    assert lab.cache("pull", "spike", "pk", "--cache", lab.url).status == 0
    (path,) = [one for one in requisites(lab, "spike") if "-spike-unwrapped-" in one]
    before = (Path(f"{lab.reader}{path}") / "bin" / "spike").read_bytes()
    HURTS[hurt](Path(f"{lab.reader}{path}") / "bin" / "spike")

    refused = lab.cache("push", "spike", "pk", *to, store=lab.reader)
    refused.failed_with(f"altered on the disk since it was built: {path}; nothing was uploaded")
    assert not list(folder.glob("*.narinfo")) and not list(folder.glob("nar/*"))

    command = hinted(refused, "pull")
    assert command[-2:] == ["--store", str(lab.reader)]
    if hurt == "a link":
        command = hinted(lab.cache("verify", "--here", "spike", "pk"), "pull")
    back = lab.project.run(*command, "--cache", lab.url, env=lab.env())
    assert back.status == 0 and f"{path} is altered on the disk" in back.err, back.err
    assert (Path(f"{lab.reader}{path}") / "bin" / "spike").read_bytes() == before
    assert lab.cache("verify", "--here", "spike", "pk").status == 0
    pushed = lab.cache("push", "spike", "pk", *to, store=lab.reader)
    assert pushed.status == 0, pushed.err
    reading = ("--cache", url, "--netrc", server.netrc())
    assert lab.cache("verify", "spike", "pk", *reading).status == 0
    assert lab.cache("pull", "spike", "pk", *reading, store=tmp_path / "fresh").status == 0


def test_what_the_cache_has_is_not_read_for_a_push(lab: Lab) -> None:
    """Only what is about to be uploaded is; unless the cache has it damaged as well."""
    assert lab.cache("pull", "pk", "--cache", lab.url).status == 0
    flip(lab.in_store("pk") / "bin" / "pk")
    words = ("push", "pk", "--to", lab.url, "--key-file", lab.key)
    assert lab.cache(*words, store=lab.reader).status == 0
    assert lab.cache("verify", "pk", "--cache", lab.url).status == 0
    flip_nar(lab)
    damaged = lab.nar("pk").read_bytes()
    refused = lab.cache(*words, "--repair", store=lab.reader)
    refused.failed_with(f"altered on the disk since it was built: {lab.path('pk')}")
    assert lab.nar("pk").read_bytes() == damaged


def test_what_no_cache_has_is_built_anew_by_what_is_said(
    lab: Lab, workshop: Path, tmp_path: Path
) -> None:
    build = ("build", "pk", "--offline-profile")
    assert lab.project.run(*build, env=lab.env(workshop)).status == 0
    program = lab.in_store("pk", workshop) / "bin" / "pk"
    before = program.read_bytes()
    flip(program)
    altered = program.read_bytes()
    to = ("--to", f"file://{tmp_path}/second?compression=none", "--key-file", lab.key)
    refused = lab.cache("push", "pk", *to, store=workshop)
    refused.failed_with(lab.path("pk"))
    flip_nar(lab)
    words = hinted(refused, "pull")
    for more in ((), ("--cache", lab.url)):  # no cache at all, or one that has it damaged too
        alone = lab.project.run(*words, *more, env=lab.env(workshop))
        alone.failed_with(f"no cache gave this whole: {lab.path('pk')}")
        assert program.read_bytes() == altered  # a flipped bit is better than nothing
    commands = re.search(r"hint: `(NIX_REMOTE=.*?)` removes .*; `tnpu-nix (.*?)` then", alone.err)
    assert commands, alone.err
    removed = nix(None, "bash", "-ec", commands[1])
    assert removed.returncode == 0 and not program.exists(), removed.stderr
    built = lab.project.run(*shlex.split(commands[2]), "pk")
    assert built.status == 0, built.err
    assert program.read_bytes() == before
    assert lab.cache("push", "pk", *to, store=workshop).status == 0


@pytest.mark.parametrize(
    ("place", "compression", "targets"),
    [("file", "xz", ["pk"]), ("web", "zstd", ["pk", "spike"])],
)
def test_what_verify_names_is_mended_by_the_command_that_it_names(
    bare: Lab,
    nginx: Callable[[Path], Nginx],
    tmp_path: Path,
    place: str,
    compression: str,
    targets: list[str],
) -> None:
    server = nginx(bare.folder)
    netrc = ("--netrc", server.netrc())
    url = (bare.url if place == "file" else server.url) + f"?compression={compression}"
    assert bare.push(*targets, *netrc, to=url).status == 0
    flip_nar(bare)
    # What `--repair` is for: a plain push compares sizes.
    assert json.loads(bare.push(*targets, *netrc, "--json", to=url).out)["uploaded"] == []

    reading = (*targets, "--cache", url, *netrc)
    checked = bare.cache("verify", *reading)
    checked.failed_with("not as it should be")
    assert re.findall(r"^BAD +(\S+): ", checked.out, re.M) == [bare.path("pk")]
    words = hinted(checked, "push")
    assert "--repair" in words and url in words and "--offline-profile" in words
    assert "--store" not in words  # what is to be pushed lies in another one than this
    more = ("--key-file", bare.key, *netrc)
    if place == "file":
        words = hinted(bare.cache("verify", *reading, store=bare.builder), "push")
        assert words[words.index("--store") + 1] == str(bare.builder)
    env = bare.env(bare.builder if place == "web" else None)
    mended = bare.project.run(*words, *more, env=env)
    assert mended.status == 0, mended.err
    count = len(list(bare.folder.glob("*.narinfo")))
    assert (
        f"1 of {count} paths uploaded" in mended.out
        and "1 of them were damaged there" in mended.out
    )
    assert bare.cache("verify", *reading).status == 0
    assert bare.cache("pull", *reading, store=tmp_path / "fresh").status == 0
    again = bare.push(*targets, *netrc, "--repair", "--json", to=url)
    assert json.loads(again.out)["uploaded"] == []


def test_the_hint_names_the_sources_and_leaves_out_what_pins_toml_says(lab: Lab) -> None:
    edit(lab.project, push=lab.url, substituters=[lab.url])
    key = {"TNPU_SIGNING_KEY_FILE": str(lab.key)}
    assert lab.cache("push", "--sources", store=lab.builder, **key).status == 0
    (narinfo,) = [one for one in lab.folder.glob("*.narinfo") if "-riscv-pk-5" in one.read_text()]
    flip(lab.folder / re.search(r"^URL: (.*)", narinfo.read_text(), re.M)[1])  # type: ignore[index]
    checked = lab.cache("verify")
    words = hinted(checked, "push")
    assert words == ["cache", "push", "--repair", "--sources", "--offline-profile"]
    mended = lab.project.run(*words, env=lab.env(lab.builder, **key))
    assert mended.status == 0 and lab.cache("verify").status == 0, mended.err


def test_a_damaged_path_that_was_signed_is_mended_by_a_plain_push(lab: Lab) -> None:
    """Its narinfo has the hash of what it is, and a good signature: readers take it."""
    forge(lab, "pk")
    sign = ("nix", "store", "sign", "--store", lab.url, "--key-file", str(lab.key))
    anew = ("--option", "narinfo-cache-positive-ttl", "0")  # nix knows the narinfo from before
    assert nix(None, *sign, *anew, lab.path("pk")).returncode == 0
    assert lab.cache("verify", "pk", "--cache", lab.url).status == 0
    pushed = lab.push("pk", "--json")
    assert json.loads(pushed.out)["mended"] == [lab.path("pk")], pushed
    assert lab.cache("pull", "pk", "--cache", lab.url).status == 0
    assert (lab.in_store("pk") / "bin" / "pk").is_file()
