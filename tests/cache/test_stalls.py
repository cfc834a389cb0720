"""Caches that fall silent or drip in the middle of their work: others go on, interrupts end all."""

from __future__ import annotations

import contextlib
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from tests.cache.conftest import Lab, edit
from tests.conftest import environment
from tests.registry import served_by


@dataclass
class Place:
    """A folder that is served below /MODE/, and what the server does."""

    folder: Path
    url: str = ""
    over: threading.Event = field(default_factory=threading.Event)  # the test has ended
    stalled: threading.Event = field(default_factory=threading.Event)  # somebody waits in vain
    asked: list[str] = field(default_factory=list)  # mode/file

    def of(self, mode: str) -> str:
        return f"{self.url}/{mode}"


class Staller(BaseHTTPRequestHandler):
    """NARs stop after 100 bytes, narinfos do not come or drip, uploads of NARs get no answer."""

    place: Place

    def log_message(self, *_: object) -> None:
        pass

    def wait(self) -> None:
        self.place.stalled.set()
        self.place.over.wait()
        self.close_connection = True

    def do_GET(self) -> None:
        mode, _, name = self.path.lstrip("/").partition("?")[0].partition("/")
        self.place.asked.append(f"{mode}/{name}")
        with contextlib.suppress(OSError):
            self.give(mode, name)

    do_HEAD = do_GET  # noqa: N815

    def give(self, mode: str, name: str) -> None:
        file = self.place.folder / name
        if not file.is_file():
            self.send_error(404)
            return
        content = file.read_bytes()
        if mode == "silent" and name.endswith(".narinfo"):
            self.wait()
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command == "HEAD":
            return
        if mode == "stalls" and name.startswith("nar/"):
            self.wfile.write(content[:100])
            self.wfile.flush()
            self.wait()
        elif mode == "drips" and name.endswith(".narinfo"):
            for byte in content:
                self.wfile.write(bytes([byte]))
                if self.place.over.wait(0.2):
                    return
        else:
            self.wfile.write(content)

    def do_PUT(self) -> None:
        name = self.path.split("?")[0].split("/", 2)[2]
        content = self.rfile.read(int(self.headers["Content-Length"]))
        if name.startswith("nar/"):
            self.wait()
            return
        file = self.place.folder / name
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(content)
        self.send_response(201)
        self.send_header("Content-Length", "0")
        self.end_headers()


@pytest.fixture
def place(lab: Lab) -> Iterator[Place]:
    """The lab's cache behind a server that stalls."""
    made = Place(lab.folder)
    handler = type("_Staller", (Staller,), {"place": made})
    with served_by(handler) as host:
        made.url = f"http://{host}"
        try:
            yield made
        finally:
            made.over.set()


def lose(path: Path) -> None:
    subprocess.run(["chmod", "-R", "u+w", path], check=True)
    shutil.rmtree(path)


def test_what_is_gone_comes_from_another_cache_than_one_that_stalls(lab: Lab, place: Place) -> None:
    assert lab.cache("pull", "pk", "spike", "--cache", lab.url).status == 0
    for name in ("pk", "spike"):
        lose(lab.in_store(name))
    bad = place.of("stalls")
    words = ("pull", "pk", "spike", "--timeout", "1", "--cache", bad, "--cache", lab.url)
    done = lab.cache(*words)
    assert done.status == 0, done.err
    assert done.err.count(f"going on without {bad}: it stopped answering in the download of") == 1
    assert lab.in_store("pk").exists() and lab.in_store("spike").exists()


def test_a_cache_that_stops_answering_is_said_to(lab: Lab, place: Place) -> None:
    lab.nar("pk").unlink()
    lab.narinfo("pk").unlink()
    bad, mute = place.of("stalls"), place.of("mute")
    with ThreadPoolExecutor() as beside:  # each waits, and more than once
        words = ("spike", "--timeout", "1")
        verify = beside.submit(lab.cache, "verify", *words, "--cache", bad)
        repair = beside.submit(lab.push, *words, "--repair", to=bad)
        words = ("pk", "--timeout", "0.3")
        upload = beside.submit(lab.push, *words, to=f"{mute}?compression=zstd")
    said = "it stopped answering in the download of /nix/store/"
    verify.result().failed_with(bad)
    assert f"FAILED   {bad}: {said}" in verify.result().out
    repair.result().failed_with(f"{bad} takes no push: {said}")
    upload.result().failed_with(f"{mute} takes no push: it stopped answering")


def test_a_cache_whose_narinfos_do_not_come_is_left_out(lab: Lab, place: Place) -> None:
    edit(lab.project, substituters=[place.of("drips"), place.of("silent"), lab.url])
    words = ("pk", "--offline-profile", "--caches")
    with ThreadPoolExecutor() as beside:
        others = lab.env(lab.folder.parent / "other")
        plan = beside.submit(lab.project.run, "plan", *words, env=others)
        build = beside.submit(lab.project.run, "build", *words, env=lab.env())
    for done in (plan.result(), build.result()):
        assert done.status == 0 and "building" not in done.err, done.err
        for mode in ("drips", "silent"):
            assert f"going on without {place.of(mode)}: " in done.err
    assert "downloads 1 store path, " in plan.result().out and "builds" not in plan.result().out
    # Nix itself was never sent there.
    narinfos = [one for one in place.asked if one.endswith(".narinfo")]
    assert all(narinfos.count(one) <= 2 for one in narinfos), place.asked


def with_mark(mark: str) -> list[str]:
    """The command lines of the processes that run with a variable of that content."""
    found = []
    for folder in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if mark.encode() in (folder / "environ").read_bytes():
                found.append((folder / "cmdline").read_text().replace("\0", " "))
    return found


@pytest.mark.parametrize("kind", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("command", ["verify", "push"])
def test_a_command_that_waits_for_a_cache_ends_with_all_that_it_started(
    lab: Lab, place: Place, command: str, kind: signal.Signals
) -> None:
    mark = f"TNPU_TEST_MARK={lab.folder}"
    bad = place.of("stalls")
    words = ["cache", command, "pk", "spike", "--timeout", "600", "--offline-profile"]
    if command == "push":
        words += ["--repair", "--to", bad, "--key-file", str(lab.key)]
    else:
        words += ["--cache", bad]
    store = lab.builder if command == "push" else lab.reader
    env = {**lab.project.env, **lab.env(store), "TNPU_TEST_MARK": str(lab.folder)}
    running = subprocess.Popen(
        [sys.executable, "-m", "tnpu_nix", *words],
        cwd=lab.project.root,
        env=environment(**env),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        # A shell has what it starts in the background ignore interrupts.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    try:
        assert place.stalled.wait(120)
        assert any("nix store verify" in one for one in with_mark(mark))
        running.send_signal(kind)
        said = running.communicate(timeout=120)[1]
    finally:
        running.kill()
    assert running.returncode == 1 and "stopped by the user" in said, said
    assert with_mark(mark) == []
