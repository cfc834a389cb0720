"""What caches, networks and disks do to a pull and a push, and what is said of it."""

from __future__ import annotations

import json
import lzma
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cache.conftest import SMALL, Lab
from tests.cache.web import Nginx
from tests.conftest import environment, run_with_mounts


def replace(file: Path, pattern: str, new: str) -> None:
    text, count = re.subn(pattern, new, file.read_text(), flags=re.M)
    assert count, (pattern, text)
    file.write_text(text)


def forge(lab: Lab, output: str) -> None:
    """Have the cache serve another content under a narinfo that fits it in all but the signature.

    That is the most that a liar without the key can do.
    """
    forged = lab.folder / "nar" / "forged.nar.xz"
    other = lab.folder.parent / "forged"
    other.mkdir()
    (other / "evil").write_text("evil")
    dump = ["nix-store", "--dump", str(other)]
    nar = subprocess.run(dump, env=environment(), stdout=subprocess.PIPE, check=True).stdout
    forged.write_bytes(lzma.compress(nar))
    digest = subprocess.run(
        ["nix-hash", "--type", "sha256", "--base32", str(other)], capture_output=True, text=True
    ).stdout.strip()
    shutil.rmtree(other)
    narinfo = lab.narinfo(output)
    replace(narinfo, "^URL: .*", "URL: nar/forged.nar.xz")
    replace(narinfo, "^Compression: .*", "Compression: xz")
    replace(narinfo, "^NarHash: .*", f"NarHash: sha256:{digest}")
    replace(narinfo, "^NarSize: .*", f"NarSize: {len(nar)}")
    replace(narinfo, "^FileSize: .*", f"FileSize: {forged.stat().st_size}")


def truncate(lab: Lab) -> None:
    nar = lab.nar("pk")
    nar.write_bytes(nar.read_bytes()[:-40])


def alter(lab: Lab) -> None:
    """Another path's NAR, whole in itself, in the place of the right one."""
    shutil.copy(lab.nar("spike"), lab.nar("pk"))


DAMAGES: dict[str, Callable[[Lab], None]] = {
    "narinfo altered: size": lambda lab: replace(lab.narinfo("pk"), r"^NarSize: \d+", "NarSize: 7"),
    "narinfo altered: signature": lambda lab: replace(
        lab.narinfo("pk"), "^Sig: lab-1:....", "Sig: lab-1:AAAA"
    ),
    "narinfo empty": lambda lab: lab.narinfo("pk").write_text(""),
    "NAR truncated": truncate,
    "NAR altered": alter,
    "NAR gone": lambda lab: lab.nar("pk").unlink(),
    "forged": lambda lab: forge(lab, "pk"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_cache_that_lies_is_refused_reported_and_mended_by_a_push(lab: Lab, damage: str) -> None:
    DAMAGES[damage](lab)
    pulled = lab.cache("pull", "pk", "--cache", lab.url)
    pulled.failed_with()
    assert lab.url in pulled.err
    assert not lab.in_store("pk").exists()

    checked = lab.cache("verify", "pk", "spike", "--cache", lab.url)
    checked.failed_with("not as it should be")
    assert re.findall(r"^BAD +(\S+): ", checked.out, re.M) == [lab.path("pk")], checked.out

    pushed = lab.push("pk")
    assert pushed.status == 0, pushed.err
    assert lab.cache("verify", "pk", "spike", "--cache", lab.url).status == 0
    assert lab.cache("pull", "pk", "--cache", lab.url).status == 0


SAID = {
    "NAR truncated": "{path} is damaged in {url}: it is taken from another",
    "forged": "{path} in {url} is signed by no key that pins.toml trusts",
    "narinfo empty": "going on without {url}: what it says of its content cannot be read",
}


@pytest.mark.parametrize("damage", SAID)
def test_another_cache_makes_up_for_one_that_lies(lab: Lab, tmp_path: Path, damage: str) -> None:
    shutil.copytree(lab.folder, tmp_path / "second")
    DAMAGES[damage](lab)
    pulled = lab.cache("pull", "pk", "--cache", lab.url, "--cache", f"file://{tmp_path}/second")
    assert pulled.status == 0, pulled.err
    assert pulled.err.count(SAID[damage].format(path=lab.path("pk"), url=lab.url)) == 1
    assert (lab.in_store("pk") / "bin" / "pk").read_bytes() == (
        lab.in_store("pk", lab.builder) / "bin" / "pk"
    ).read_bytes()


def test_a_cache_signed_with_another_key_is_refused_until_that_key_is_trusted(
    bare: Lab, tmp_path: Path
) -> None:
    key = tmp_path / "other.key"
    public = bare.cache("keygen", "other-1", "--file", key).out.strip()
    words = ["push", "spike", "--to", f"{bare.url}?compression=none", "--key-file", key]
    assert bare.cache(*words, store=bare.builder).status == 0
    pulled = bare.cache("pull", "spike", "--cache", bare.url)
    pulled.failed_with("is not signed by a key that pins.toml trusts")
    assert bare.empty()
    bare.cache("verify", "spike", "--cache", bare.url).failed_with()
    trusting = ("--cache", bare.url, "--public-key", public)
    assert bare.cache("verify", "spike", *trusting).status == 0
    assert bare.cache("pull", "spike", *trusting).status == 0


def test_two_keys_of_one_name_are_refused(lab: Lab) -> None:
    other = f"lab-1:{'A' * 43}="
    done = lab.cache("status", "--cache", lab.url, "--public-key", other)
    done.failed_with("two public keys are called lab-1")


def test_a_push_with_a_new_key_signs_what_is_there_already(bare: Lab, tmp_path: Path) -> None:
    old = tmp_path / "old.key"
    assert bare.cache("keygen", "old-1", "--file", old).status == 0
    words = ["push", "spike", "--to", f"{bare.url}?compression=none", "--key-file", old]
    assert bare.cache(*words, store=bare.builder).status == 0
    pushed = bare.push("spike", "--json")
    assert pushed.status == 0, pushed.err
    found = json.loads(pushed.out)
    assert found["uploaded"] == [] and bare.path("spike") in found["signed"]
    assert bare.cache("pull", "spike", "--cache", bare.url).status == 0


@pytest.mark.parametrize("parameter", ["trusted=1", "priority=1&trusted=true"])
def test_a_url_cannot_turn_signatures_off(lab: Lab, parameter: str) -> None:
    done = lab.cache("pull", "pk", "--cache", f"{lab.url}?{parameter}")
    done.failed_with("unsigned")
    assert lab.empty()


def test_a_password_in_a_url_is_refused_and_not_repeated(lab: Lab) -> None:
    done = lab.cache("status", "--cache", "https://lab:hush@cache.example")
    done.failed_with("netrc")
    assert "hush" not in done.err + done.out


TROUBLES = {
    "401": "it asks for a password (401)",
    "403": "it refuses this user (403)",
    "404": "not a binary cache",
    "500": "it answers 500",
    "silent": "no answer within 0.5 s",
    "refused": "connection refused",
}


@pytest.mark.parametrize("trouble", TROUBLES)
def test_a_cache_in_trouble_is_named_and_the_others_are_used(
    lab: Lab, nginx: Callable[[Path], Nginx], silent: str, trouble: str
) -> None:
    server = nginx(lab.folder)
    urls = {
        "401": server.url,
        "silent": silent,
        "refused": "http://127.0.0.1:9",
    }
    bad = urls.get(trouble, server.at(trouble))
    words = ["--timeout", "0.5", "--cache", bad]
    said = json.loads(lab.cache("status", "--json", *words).out)
    assert TROUBLES[trouble] in said["caches"][0]["trouble"]
    alone = lab.cache("pull", "pk", *words)
    alone.failed_with("no cache can be used", TROUBLES[trouble], lab.path("pk"))
    assert lab.empty()
    both = lab.cache("pull", "pk", *words, "--cache", server.at("open"))
    assert both.status == 0, both.err
    assert f"going on without {bad}: " in both.err
    lab.cache("verify", "pk", *words).failed_with(bad)
    pushed = lab.push("pk", "--timeout", "0.5", to=bad)
    if trouble != "404":  # an empty cache answers so, and takes uploads
        pushed.failed_with(TROUBLES[trouble])
    assert pushed.status == 1


def test_a_wrong_password_is_not_shown(lab: Lab, nginx: Callable[[Path], Nginx]) -> None:
    server = nginx(lab.folder)
    wrong = server.netrc("wrongword").rename(server.own / "netrc")
    done = lab.cache("pull", "pk", "--cache", server.url, "--netrc", wrong)
    done.failed_with(f"it refuses the password of {wrong} (401)")
    assert "wrongword" not in done.err + done.out
    right = lab.cache("pull", "pk", "--cache", server.url, "--netrc", server.netrc())
    assert right.status == 0 and "hush" not in right.err + right.out


@pytest.mark.parametrize("place", ["late500", "slow"])
def test_a_cache_that_breaks_off_in_a_download_is_left_for_another(
    lab: Lab, nginx: Callable[[Path], Nginx], place: str
) -> None:
    server = nginx(lab.folder)
    words = ["pull", *SMALL, "--timeout", "2", "--cache", server.at(place)]
    both = lab.cache(*words, "--cache", server.at("open"))
    assert both.status == 0, both.err
    if place == "late500":
        assert f"going on without {server.at(place)}: it broke off" in both.err


def test_a_pull_without_network_says_so_and_leaves_nothing(
    lab: Lab, nginx: Callable[[Path], Nginx]
) -> None:
    server = nginx(lab.folder)
    words = ["cache", "pull", "pk", "--cache", server.url, "--cache", "https://cache.example"]
    argv = ["tnpu-nix", *words, "--offline-profile", "--timeout", "3"]
    env = environment(**lab.project.env, **lab.env())
    apart = ["unshare", "--net"] if os.geteuid() == 0 else ["unshare", "--user", "--net", "-r"]
    done = subprocess.run(
        [*apart, *argv], cwd=lab.project.root, env=env, capture_output=True, text=True
    )
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert "no cache can be used; nothing was built or fetched" in done.stderr
    assert "https://cache.example" in done.stderr
    assert lab.empty()


def test_a_full_cache_is_said_to_be_full_and_the_next_push_goes_on(bare: Lab) -> None:
    small = f"mkdir -p {bare.folder}; mount -t tmpfs -o size=5m tmpfs {bare.folder}"
    keep = f"{small}; trap 'cp -r {bare.folder} {bare.folder}-after' EXIT"
    words = ["push", *SMALL, "--to", f"{bare.url}?compression=none", "--key-file", bare.key]
    done = bare.mounted(keep, *words, store=bare.builder)
    done.failed_with("it is full", "make room")
    after = Path(f"{bare.folder}-after")
    checked = bare.cache("verify", "--cache", f"file://{after}", *SMALL)
    assert "BAD" not in checked.out, checked.out
    assert bare.push(*SMALL, to=f"file://{after}?compression=none").status == 0
    assert bare.cache("verify", "--cache", f"file://{after}", *SMALL).status == 0


def test_a_path_deleted_behind_our_back_is_noticed_and_fetched_anew(lab: Lab) -> None:
    assert lab.cache("pull", "spike", "pk", "--cache", lab.url).status == 0
    for path in (lab.in_store("pk"), lab.in_store("spike")):
        subprocess.run(["chmod", "-R", "u+w", path.parent], check=True)
        shutil.rmtree(path)
    dead = lab.cache("verify", "--here", "pk")
    assert dead.status == 1
    said = json.loads(lab.cache("status", "pk", "--json", "--cache", lab.url).out)
    assert not said["outputs"][0]["here"]
    lab.cache("push", "pk", "--to", lab.url, "--key-file", lab.key, store=lab.reader).failed_with(
        "not built: pk"
    )
    pulled = lab.cache("pull", "spike", "pk", "--cache", lab.url)
    assert pulled.status == 0, pulled.err
    assert (lab.in_store("pk") / "bin" / "pk").is_file() and lab.in_store("spike").exists()


def test_a_reference_deleted_behind_our_back_is_fetched_anew(lab: Lab) -> None:
    assert lab.cache("pull", "spike", "--cache", lab.url).status == 0
    (unwrapped,) = lab.reader.glob("nix/store/*-spike-unwrapped-*[!v]")
    subprocess.run(["chmod", "-R", "u+w", unwrapped], check=True)
    shutil.rmtree(unwrapped)
    pulled = lab.cache("pull", "spike", "--cache", lab.url)
    assert pulled.status == 0, pulled.err
    assert "is gone from the disk" in pulled.err and unwrapped.exists()


def test_a_build_goes_on_without_a_dead_cache(
    lab: Lab, nginx: Callable[[Path], Nginx], silent: str
) -> None:
    from tests.cache.conftest import edit

    server = nginx(lab.folder)
    edit(lab.project, substituters=["http://127.0.0.1:9", server.at("500"), server.at("open")])
    built = lab.project.run("build", "spike", "--offline-profile", "--caches", env=lab.env())
    assert built.status == 0, built.err
    assert "fetched spike" in built.err and "building" not in built.err
    assert "going on without http://127.0.0.1:9" in built.err


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a store at /nix")
@pytest.mark.parametrize("configured", [False, True])
def test_a_daemon_that_does_not_trust_the_user_is_named(
    lab: Lab, tmp_path: Path, configured: bool
) -> None:
    """A daemon of the test's own on a store of its own, mounted where only the test sees it."""
    socket, conf = tmp_path / "socket", tmp_path / "conf"
    conf.mkdir()
    lines = ["build-users-group =", "substituters =", "trusted-users = nobody"]
    if configured:
        lines.append(lab.cache("use", "daemon", "--cache", lab.url).out)
    (conf / "nix.conf").write_text("\n".join(lines))
    mounts = f"""
      mkdir -p {lab.reader}/nix/store {lab.reader}/nix/var/nix /nix
      mount --bind {lab.reader}/nix /nix
      export NIX_DAEMON_SOCKET_PATH={socket}
      # "local", or it would take the daemon that it is for its own store's.
      NIX_REMOTE=local NIX_CONF_DIR={conf} \\
        setpriv --pdeathsig TERM nix-daemon >{tmp_path}/log 2>&1 &
      trap "kill $!" EXIT
      until test -S {socket}; do sleep 0.1; done
      export NIX_REMOTE=daemon
    """
    words = ["cache", "pull", "pk", "--cache", lab.url, "--offline-profile"]
    done = run_with_mounts(mounts, *words, cwd=lab.project.root, env=lab.project.env)
    if configured:
        assert done.status == 0, done.err
        assert lab.in_store("pk").exists()
    else:
        done.failed_with("the Nix daemon does not take these caches", "cache use daemon")
        assert lab.empty()
