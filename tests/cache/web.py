"""nginx on loopback, as a lab would set it up: a binary cache behind a password, with uploads."""

from __future__ import annotations

import contextlib
import ctypes
import re
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.conftest import REPOSITORY

_SERVERS = REPOSITORY / ".test-cache" / "servers"
_CONFIGURATION = """
daemon off;
master_process off;
user root;
pid {own}/pid;
error_log {own}/error.log;
events {{ }}
http {{
  access_log {own}/access.log;
  client_body_temp_path {own}/body;
  proxy_temp_path {own}/proxy;
  fastcgi_temp_path {own}/fastcgi;
  uwsgi_temp_path {own}/uwsgi;
  scgi_temp_path {own}/scgi;
  client_max_body_size 0;
  server {{
    listen 127.0.0.1:{port};
    root {folder};
{documented}
    location /open/ {{ alias {folder}/; }}
    location /403/ {{ return 403; }}
    location /404/ {{ return 404; }}
    location /500/ {{ return 500; }}
    location /late500/ {{ alias {folder}/; location ~ "/late500/nar/" {{ return 500; }} }}
    location /infos500/ {{ alias {folder}/; location ~ "narinfo$" {{ return 500; }} }}
    location /kept403/ {{ alias {folder}/; dav_methods PUT; {kept403} }}
    location /kept404/ {{ alias {folder}/; dav_methods PUT; {kept404} }}
    location /slow/ {{ alias {folder}/; location ~ "^/slow/(nar/.*)$" {{
      alias {folder}/$1; limit_rate 1; limit_rate_after 1; }} }}
  }}
}}
"""


def _documented(own: Path) -> str:
    """What docs/cache.md has its readers write for the cache itself."""
    text = (REPOSITORY / "docs" / "cache.md").read_text()
    (block,) = re.findall(r"^ +location / \{\n.*?^ +\}\n", text, re.M | re.S)
    return str(block).replace("/etc/nginx/cache.htpasswd", f"{own}/htpasswd")


def _kept(status: int, folder: Path) -> str:
    return (
        f'location ~ "^/kept{status}/(.*narinfo|nar/.*)$" {{ alias {folder}/$1;'
        f" if ($request_method = PUT) {{ return {status}; }} }}"
    )


@dataclass
class Nginx:
    """A running nginx."""

    url: str  # of the cache behind the password
    own: Path  # its files
    port: int

    def at(self, place: str) -> str:
        """The URL of a place: open, 403, 404, 500, late500 (only NARs fail), infos500 (narinfos),
        kept403 and kept404 (no upload of NARs and narinfos), slow."""
        return f"{self.url}/{place}"

    def netrc(self, password: str = "hush") -> Path:
        """A netrc file with a password."""
        path = self.own / f"netrc-{password}"
        path.write_text(f"machine 127.0.0.1 login lab password {password}\n")
        path.chmod(0o600)
        return path

    def requests(self) -> list[str]:
        """Method, path, status and bytes of every request so far."""
        lines = (self.own / "access.log").read_text().splitlines()
        return [line.split('"')[1].rsplit(" ", 1)[0] + line.split('"')[2] for line in lines]


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)


@contextlib.contextmanager
def serving(folder: Path, own: Path) -> Iterator[Nginx]:
    """Serve a folder, which need not exist yet, on a free port."""
    own.mkdir()
    folder.mkdir(exist_ok=True)
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    hashed = subprocess.run(
        ["openssl", "passwd", "-apr1", "hush"], capture_output=True, text=True, check=True
    )
    (own / "htpasswd").write_text(f"lab:{hashed.stdout.strip()}\n")
    (own / "conf").write_text(
        _CONFIGURATION.format(
            own=own,
            port=port,
            folder=folder,
            documented=_documented(own),
            kept403=_kept(403, folder),
            kept404=_kept(404, folder),
        )
    )
    argv = [str(_SERVERS / "usr" / "sbin" / "nginx"), "-p", str(own), "-c", str(own / "conf")]
    process = subprocess.Popen(
        [*argv, "-e", str(own / "error.log")],
        preexec_fn=_die_with_parent,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        _wait(port, process, own)
        yield Nginx(f"http://127.0.0.1:{port}", own, port)
    finally:
        process.terminate()
        process.wait()


def _wait(port: int, process: subprocess.Popen[bytes], own: Path) -> None:
    for _ in range(200):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
            return
        if process.poll() is not None:
            break
        time.sleep(0.05)
    raise AssertionError((own / "error.log").read_text())
