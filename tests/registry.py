"""Debian's docker-registry on loopback, with passwords; and a wire to it that counts and breaks."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import shutil
import signal
import socket
import subprocess
import threading
import time
from base64 import b64encode
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

SERVERS = Path(__file__).resolve().parent.parent / ".test-cache" / "servers"
PROGRAM = SERVERS / "usr" / "bin" / "docker-registry"
USER, PASSWORD = "lab", "correct horse"
# bcrypt of PASSWORD, the only kind of hash that the registry's htpasswd takes, at its lowest cost.
_HTPASSWD = f"{USER}:$2b$05$abcdefghijklmnopqrstuuHNbAKRhpaujgo33bRWs.NLUTJO3lOy2\n"


def free_port() -> int:
    """A port of 127.0.0.1 that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


@dataclass
class Registry:
    """A registry that can die and come back with what it had; it keeps everything in *folder*."""

    folder: Path
    settings: dict[str, object] = field(default_factory=dict)  # more of its configuration
    password: bool = True
    port: int = field(default_factory=free_port)
    process: subprocess.Popen[bytes] | None = None

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def auth_file(self) -> Path:
        """An auth file, as `docker login` leaves it."""
        return self.auth_file_for(self.host)

    def auth_file_for(self, host: str, password: str = PASSWORD) -> Path:
        path = self.folder / f"auth-{host.replace(':', '-')}-{len(password)}.json"
        pair = b64encode(f"{USER}:{password}".encode()).decode()
        path.write_text(json.dumps({"auths": {host: {"auth": pair}}}))
        return path

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text()

    def start(self) -> None:
        """Start it, and return when it answers."""
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "htpasswd").write_text(_HTPASSWD)
        auth = {"htpasswd": {"realm": "test", "path": str(self.folder / "htpasswd")}}
        config = {
            "version": 0.1,
            "log": {"level": "info"},
            "storage": {
                "filesystem": {"rootdirectory": str(self.folder / "data")},
                "delete": {"enabled": True},
            },
            "http": {"addr": self.host},
            **({"auth": auth} if self.password else {}),
            **self.settings,
        }
        (self.folder / "config.json").write_text(json.dumps(config))  # YAML holds JSON
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [str(PROGRAM), "serve", str(self.folder / "config.json")],
                stdout=log,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                env={"PATH": os.environ["PATH"], "OTEL_TRACES_EXPORTER": "none"},
                preexec_fn=_die_with_parent,
            )
        for _ in range(500):
            assert self.process.poll() is None, self.log
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port)):
                return
            time.sleep(0.02)
        raise AssertionError(f"the registry does not answer: {self.log}")

    def die(self) -> None:
        """End it at once, whatever it is doing."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def blobs(self) -> set[str]:
        """The digests of everything that it has."""
        folder = self.folder / "data/docker/registry/v2/blobs/sha256"
        return {f"sha256:{path.parent.name}" for path in folder.glob("*/*/data")}

    def tags(self, name: str) -> set[str]:
        """The tags of a repository, as they lie on the disk."""
        folder = self.folder / f"data/docker/registry/v2/repositories/{name}/_manifests/tags"
        return {path.name for path in folder.glob("*") if (path / "current/link").is_file()}

    def skopeo(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run skopeo with this registry's credentials."""
        argv = [*skopeo_program(), *arguments]
        env = {**os.environ, "REGISTRY_AUTH_FILE": str(self.auth_file)}
        return subprocess.run(argv, env=env, capture_output=True, text=True)


def skopeo_program() -> list[str]:
    program = shutil.which("skopeo")
    assert program is not None, "skopeo is not installed: make test-packages"
    return [program]


@contextlib.contextmanager
def registry(folder: Path, **options: object) -> Iterator[Registry]:
    """A registry that runs until the block ends."""
    made = Registry(folder, **options)  # type: ignore[arg-type]
    try:
        made.start()
        yield made
    finally:
        made.die()


@dataclass
class Wire:
    """A port that leads to another one; what goes through is counted and can be broken off."""

    target: int
    port: int = 0
    sent: int = 0  # bytes to the server
    received: int = 0  # bytes from the server
    break_at: int | None = None  # break once so many bytes have gone through in all
    on_break: Callable[[], None] = lambda: None
    connections: set[socket.socket] = field(default_factory=set)
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.port}"


@contextlib.contextmanager
def wire(target: int) -> Iterator[Wire]:
    """Lead a free port of 127.0.0.1 to the port *target* until the block ends."""
    listener = socket.create_server(("127.0.0.1", 0))
    made = Wire(target, listener.getsockname()[1])
    threading.Thread(target=_accept, args=(made, listener), daemon=True).start()
    try:
        yield made
    finally:
        with contextlib.suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        _cut(made)


def _accept(made: Wire, listener: socket.socket) -> None:
    while True:
        try:
            client, _ = listener.accept()
        except OSError:
            return
        try:
            server = socket.create_connection(("127.0.0.1", made.target))
        except OSError:
            client.close()
            continue
        with made.lock:
            made.connections |= {client, server}
        for source, sink, outwards in ((client, server, True), (server, client, False)):
            pump = threading.Thread(target=_pump, args=(made, source, sink, outwards), daemon=True)
            pump.start()


def _pump(made: Wire, source: socket.socket, sink: socket.socket, outwards: bool) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(1 << 16):
            sink.sendall(data)
            with made.lock:
                made.sent += len(data) if outwards else 0
                made.received += 0 if outwards else len(data)
                through = made.sent + made.received
                broken = made.break_at is not None and through >= made.break_at
                if broken:
                    made.break_at = None
            if broken:
                made.on_break()
                _cut(made)
    for one in (source, sink):
        with contextlib.suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)


def _cut(made: Wire) -> None:
    with made.lock:
        connections, made.connections = made.connections, set()
    for one in connections:
        with contextlib.suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)
        one.close()


@dataclass
class Answering:
    """A server that gives every request one answer, or none."""

    host: str
    requests: list[str] = field(default_factory=list)  # "METHOD path"
    authorizations: set[str] = field(default_factory=set)
    respond: Callable[[str], bytes] | None = None  # path → body, with status 200 from then on


@contextlib.contextmanager
def answered_by(answer: Callable[[BaseHTTPRequestHandler], None]) -> Iterator[str]:
    """Have a function answer each request on a free port; the block gets host and port."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            with contextlib.suppress(OSError):  # whoever asked has gone
                answer(self)

        do_HEAD = do_POST = do_PUT = do_PATCH = do_GET  # noqa: N815

        def log_message(self, *_arguments: object) -> None:
            pass

    with served_by(Handler) as host:
        yield host


@contextlib.contextmanager
def served_by(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    """Serve on a free port until the block ends, which gets host and port."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


@contextlib.contextmanager
def answering(
    status: int | None, headers: dict[str, str] | None = None, body: bytes = b"{}"
) -> Iterator[Answering]:
    """Answer everything on a free port with *status*; with None take requests and say nothing."""
    over = threading.Event()
    made = Answering("")

    def answer(it: BaseHTTPRequestHandler) -> None:
        made.requests.append(f"{it.command} {it.path}")
        made.authorizations.add(it.headers.get("Authorization", ""))
        if status is None:
            over.wait()
            return
        it.rfile.read(int(it.headers.get("Content-Length", "0")))
        said = made.respond(it.path) if made.respond else body
        it.send_response(200 if made.respond else status)
        for name, value in {**(headers or {}), "Content-Length": str(len(said))}.items():
            it.send_header(name, value)
        it.end_headers()
        if it.command != "HEAD":
            it.wfile.write(said)

    with answered_by(answer) as made.host:
        try:
            yield made
        finally:
            over.set()
