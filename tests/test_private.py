"""Private repositories: a token, a netrc or an ssh key opens them, and no token is ever seen."""

from __future__ import annotations

import base64
import contextlib
import os
import subprocess
import threading
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.conftest import Demo, Edit, GitRepository, Project
from tests.servers import GitServer, serving
from tests.ssh import sshd

VARIABLE = "TNPU_TOKEN"
TOKEN = 'tnpu_pat_$9"Zq\\x%s`Kd*Wm'  # what a shell, printf or git might take for something else
GUESS = "x" * 30


@dataclass
class Private:
    """A project whose spike lies behind a password that is a token."""

    project: Project
    repository: GitRepository
    server: GitServer

    def run(self, *arguments: str, token: str | None = TOKEN, **env: str) -> str:
        """Run a command that must succeed, and return all that it printed."""
        done = self.project.run(*arguments, env=env | ({VARIABLE: token} if token else {}))
        assert done.status == 0, done.err
        return done.out + done.err


@pytest.fixture
def private(pinned: Project, repository: GitRepository, edit: Edit) -> Iterator[Private]:
    with serving(repository.path.parent, password=TOKEN, user="x-access-token") as server:
        edit(
            f'url = "{repository.url}"', f'url = "{server.url}/thing.git"\ntoken-env = "{VARIABLE}"'
        )
        assert pinned.run("generate").status == 0
        yield Private(pinned, repository, server)


@contextlib.contextmanager
def process_table() -> Iterator[set[str]]:
    """Yield the argument lists of every process that runs at any time within the block."""
    seen: set[str] = set()
    over = threading.Event()

    def look() -> None:
        while not over.is_set():
            for entry in Path("/proc").glob("[0-9]*/cmdline"):
                with contextlib.suppress(OSError):
                    seen.add(entry.read_bytes().replace(b"\0", b" ").decode(errors="replace"))

    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        yield seen
    finally:
        over.set()
        watcher.join()


def holding(folder: Path, text: str) -> list[Path]:
    """Return the files below a folder, and the links, that hold a text."""
    found = []
    for path in folder.rglob("*"):
        data = os.fsencode(path.readlink()) if path.is_symlink() else b""
        if path.is_file() and not path.is_symlink():
            data = path.read_bytes()
        found += [path] if text.encode() in data or text in path.name else []
    return found


def forms(token: str) -> list[str]:
    """Every way in which a token could be written down."""
    return [token, base64.b64encode(f"x-access-token:{token}".encode()).decode()]


def test_a_token_opens_the_repository_and_is_nowhere_to_be_seen(
    private: Private, tmp_path: Path
) -> None:
    project, root = private.project, private.project.root
    private.repository.commit("second")
    for words in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "--message", "start"]):
        subprocess.run(["git", "-C", root, *words], check=True, env=os.environ | identity())
    with process_table() as seen:
        said = private.run("bump", "spike", "main", "--commit", **identity())
        said += private.run("bump", "spike", private.repository.git("rev-parse", "HEAD")[:9])
        said += private.run("verify", "spike") + private.run("doctor", "spike")
        said += private.run("outdated")
        said += private.run("--debug", "bump", "spike", "main", GIT_TRACE="1", GIT_TRACE_CURL="1")
    assert any("git-remote-http" in one for one in seen)  # the watch was close enough
    assert private.server.credentials
    assert project.pin().rev == private.repository.git("rev-parse", "HEAD")
    for text in forms(TOKEN):
        assert text not in said
        assert not [one for one in seen if text in one]
        # The project with its commits, the store, HOME and what is left of the temporary folder.
        assert holding(tmp_path, text) == []
    log = subprocess.run(["git", "-C", root, "log", "-p"], capture_output=True, text=True).stdout
    assert "second" in log and TOKEN not in log


def identity() -> dict[str, str]:
    names = [f"GIT_{who}_{what}" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")]
    return dict.fromkeys(names, "test")


@pytest.mark.parametrize("status", [401, 403, 404, 500])
def test_a_server_that_repeats_the_token_does_not_get_it_printed(
    private: Private, status: int
) -> None:
    private.server.repeats = True
    if status == 401:
        private.server.password = "another"
    else:
        private.server.status = status
    for words in (["bump", "spike", "main"], ["doctor", "spike"], ["bump", "spike", "a" * 40]):
        trace = {"GIT_TRACE": "1", "GIT_TRACE_CURL": "1", "GIT_TRACE_REDACT": "0"}
        done = private.project.run("--debug", *words, env={VARIABLE: TOKEN, **trace})
        assert done.status == 1
        assert any(text in one for text in forms(TOKEN) for one in private.server.credentials)
        for text in forms(TOKEN):
            assert text not in done.out + done.err


def break_token(private: Private) -> dict[str, str]:
    return {VARIABLE: GUESS}


def break_right(private: Private) -> dict[str, str]:
    private.server.status = 403
    return {VARIABLE: TOKEN}


def break_sight(private: Private) -> dict[str, str]:
    private.server.status = 404
    return {VARIABLE: TOKEN}


BROKEN: dict[str, tuple[Callable[[Private], dict[str, str]], tuple[str, ...]]] = {
    "unset": (lambda _: {}, (f"the variable {VARIABLE} is not set", f"export {VARIABLE}")),
    "empty": (lambda _: {VARIABLE: " \n"}, (f"the variable {VARIABLE} is empty",)),
    "two lines": (lambda _: {VARIABLE: "a\nhost=b"}, (f"{VARIABLE} holds blanks or line breaks",)),
    "wrong": (break_token, (f"token in {VARIABLE} is not valid there",)),
    "no right": (break_right, ("403", f"token in {VARIABLE} needs the right to read")),
    "unseen": (break_sight, (f"token in {VARIABLE} may not see that repository",)),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_what_is_missing_is_named_before_anything_long_starts(private: Private, kind: str) -> None:
    breaks, words = BROKEN[kind]
    env = breaks(private)
    before = private.project.files()
    found = private.project.run("doctor", "spike", env=env)
    found.failed_with("not ready: spike")
    private.project.run("bump", "spike", "main", env=env).failed_with(*words)
    assert private.project.files() == before
    for word in words:
        assert word in found.out
    assert "ok       nix" in found.out


def test_a_token_is_not_taken_along_to_another_server(private: Private, tmp_path: Path) -> None:
    with serving(private.repository.path.parent, password="other") as stranger:
        private.server.redirect = stranger.url
        done = private.project.run("bump", "spike", "main", env={VARIABLE: TOKEN})
        host = stranger.url.removeprefix("http://").split("/")[0]
        done.failed_with("password", f"{host} is another host, which is not sent the token")
        assert stranger.requests
        assert all(TOKEN not in base64.b64decode(one[6:]).decode() for one in stranger.credentials)


def test_a_token_comes_before_a_netrc_whose_user_sees_less(
    private: Private, tmp_path: Path
) -> None:
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login other password different\n")
    private.run("bump", "spike", "main")
    assert len(set(private.server.credentials)) == 1


def test_the_user_of_a_token_can_be_named(private: Private, edit: Edit) -> None:
    private.server.user = "deploy.bot-1"
    edit(f'token-env = "{VARIABLE}"', f'token-env = "{VARIABLE}"\ntoken-user = "deploy.bot-1"')
    private.run("bump", "spike", "main")


def test_a_private_submodule_of_the_same_server_is_fetched_with_the_token(
    private: Private, edit: Edit, tmp_path: Path
) -> None:
    part = GitRepository(private.repository.path.parent / "part.git")
    part.commit("part", inner="inside")
    allow = ["-c", "protocol.file.allow=always"]
    private.repository.git(*allow, "submodule", "--quiet", "add", "../part.git", "part")
    private.repository.git("config", "-f", ".gitmodules", "submodule.part.url", "../part.git")
    private.repository.commit("with a part")
    edit(f'token-env = "{VARIABLE}"', f'token-env = "{VARIABLE}"\nsubmodules = true')
    private.run("bump", "spike", "main")
    assert [one for one in (tmp_path / "store").rglob("inner") if one.read_text() == "inside"]


def test_a_netrc_elsewhere_is_named_by_its_variable(
    pinned: Project, repository: GitRepository, edit: Edit, tmp_path: Path
) -> None:
    netrc = tmp_path / "credentials"
    netrc.write_text("machine 127.0.0.1 login lab password secret\n")
    with serving(repository.path.parent, password="secret") as server:
        edit(repository.url, f"{server.url}/thing.git")
        assert pinned.run("generate").status == 0
        for words in (["bump", "spike", "main"], ["outdated"], ["doctor", "spike"]):
            done = pinned.run(*words, env={"NETRC": str(netrc)})
            assert "password" not in done.err, done.err
        assert "(netrc)" in done.out
        pinned.run("bump", "spike", "main", env={"NETRC": str(tmp_path / "no")}).failed_with(
            "NETRC names", "cannot be read"
        )


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('token-env = "ghp_012345"', "must be the name of an environment variable"),
        ('token-env = ""', "must be the name of an environment variable"),
        ('token-user = "a b"', "must be a user name"),
    ],
)
def test_a_token_in_place_of_its_variables_name_is_refused_and_not_repeated(
    private: Private, edit: Edit, line: str, words: str
) -> None:
    edit(f'token-env = "{VARIABLE}"', line)
    done = private.project.run("generate")
    done.failed_with("pins.spike.token-", words)
    assert "ghp_012345" not in done.err


@pytest.mark.parametrize("url", ["http://example.org/x.git", "git@example.org:x", "file:///x.git"])
def test_a_token_does_not_cross_a_network_in_the_clear(
    private: Private, edit: Edit, url: str
) -> None:
    edit(f"{private.server.url}/thing.git", url)
    private.project.run("generate").failed_with("pins.spike.token-env", "https")


def test_after_a_bump_the_build_needs_no_token(demo: Demo, tmp_path: Path) -> None:
    project = demo.project(tmp_path / "project")
    upstream = demo.folder / "upstreams"
    with serving(upstream, password=TOKEN, user="x-access-token") as server:
        text = project.pins.read_text()
        old = f'url = "{project.pin().url}"'
        name = project.pin().url.rsplit("/", 1)[-1]
        assert old in text
        new = f'url = "{server.url}/{name}"\ntoken-env = "{VARIABLE}"'
        project.pins.write_text(text.replace(old, new))
        assert project.run("generate").status == 0
        done = project.run("bump", "spike", env={VARIABLE: TOKEN})
        assert done.status == 0, done.err
    # The server is gone, the variable unset.
    done = project.run("build", "spike", "--offline-profile")
    assert done.status == 0, done.err
    assert holding(project.root, TOKEN) == []


def test_ssh_with_the_users_agent(
    pinned: Project, repository: GitRepository, edit: Edit, tmp_path: Path
) -> None:
    with sshd(tmp_path / "ssh") as ssh:
        edit(repository.url, ssh.url(repository.path))
        assert pinned.run("generate").status == 0
        for words in (["bump", "spike", "main"], ["verify", "spike"], ["doctor", "spike"]):
            done = pinned.run(*words, env=ssh.env)
            assert (done.status, "(ssh agent)" in done.out) == (0, words[0] == "doctor"), done.err
        without = ssh.env | {"SSH_AUTH_SOCK": ""}
        pinned.run("bump", "spike", "main", env=without).failed_with("refuses every ssh key")
        unknown = ssh.env["GIT_SSH_COMMAND"].replace("known_hosts", "nothing")
        done = pinned.run("doctor", "spike", env=ssh.env | {"GIT_SSH_COMMAND": unknown})
        done.failed_with("not ready: spike")
        assert "host key" in done.out


@pytest.mark.parametrize(
    ("line", "itself"),
    [
        ('url = "https://github.com/lab/x.git"', True),
        ('url = "https://github.com/lab/x.git"\ntoken-env = "T"', False),
        ('url = "git@github.com:lab/x.git"', False),
        ('url = "ssh://git@github.com/lab/x.git"', False),
    ],
)
def test_what_a_sandboxed_build_cannot_fetch_is_known(
    project: Project, edit: Edit, line: str, itself: bool
) -> None:
    edit(f'url = "{project.pin("pk").url}"', line)
    assert project.pin("pk").needs_credentials is not itself


def test_a_machine_without_the_source_fetches_it_with_the_token(demo: Demo, tmp_path: Path) -> None:
    project = demo.project(tmp_path / "project")
    upstream = GitRepository(tmp_path / "private" / "spike.git")
    upstream.git("fetch", "--quiet", project.pin().url)
    upstream.git("reset", "--quiet", "--hard", "FETCH_HEAD")
    upstream.commit(uuid.uuid4().hex)  # which the store, kept from run to run, cannot have
    with serving(upstream.path.parent, password=TOKEN, user="x-access-token") as server:
        text = project.pins.read_text()
        new = f'url = "{server.url}/spike.git"\ntoken-env = "{VARIABLE}"'
        project.pins.write_text(text.replace(f'url = "{project.pin().url}"', new))
        assert project.run("generate").status == 0
        elsewhere = {"TNPU_NIX_STORE": str(tmp_path / "store"), VARIABLE: TOKEN}
        done = project.run("bump", "spike", "main", env=elsewhere)
        assert done.status == 0, done.err
        build = ("build", "spike", "--offline-profile")
        project.run(*build).failed_with(f"the variable {VARIABLE} is not set")
        done = project.run(*build, env={VARIABLE: TOKEN})
        assert done.status == 0, done.err
        assert "fetching spike at" in done.err
