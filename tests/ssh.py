"""A real sshd on loopback, which takes the key of an agent of the test's own."""

from __future__ import annotations

import contextlib
import getpass
import os
import re
import shlex
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.conftest import REPOSITORY, environment

_SERVERS = REPOSITORY / ".test-cache" / "servers"


@dataclass(frozen=True)
class Ssh:
    """A server of every file that this user can read."""

    port: int
    env: dict[str, str]  # by which a client finds the agent, and knows the server's host key

    def url(self, path: Path) -> str:
        """The ssh URL of a repository on this machine."""
        return f"ssh://{getpass.getuser()}@127.0.0.1:{self.port}{path}"


def _key(path: Path) -> None:
    argv = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)]
    subprocess.run(argv, check=True, stdin=subprocess.DEVNULL)


def _configuration(folder: Path, port: int) -> Path:
    text = f"""
      Port {port}
      ListenAddress 127.0.0.1
      HostKey {folder}/host
      AuthorizedKeysFile {folder}/user.pub
      PasswordAuthentication no
      PermitRootLogin yes
      StrictModes no
      UsePAM no
      PidFile none
    """
    (folder / "sshd_config").write_text(text)
    return folder / "sshd_config"


def _command(folder: Path, port: int) -> list[str]:
    """Start sshd so that, as root, it finds the folder and the user that it gives rights up for."""
    library = next(_SERVERS.rglob("libwrap.so.0")).parent
    sshd = [str(_SERVERS / "usr/sbin/sshd"), "-D", "-e", "-f", str(_configuration(folder, port))]
    session = _SERVERS / "usr/lib/openssh/sshd-session"
    if session.exists():
        sshd += ["-o", f"SshdSessionPath={session}"]
    start = f"export LD_LIBRARY_PATH={library}; exec {shlex.join(sshd)}"
    if os.geteuid() != 0:
        return ["bash", "-c", start]
    users = f"{Path('/etc/passwd').read_text()}sshd:x:65533:65534::/run/sshd:/usr/sbin/nologin\n"
    (folder / "passwd").write_text(users)
    mounts = f"""
      mount --bind {folder}/passwd /etc/passwd
      mount -t tmpfs -o mode=755 tmpfs /run
      mkdir -p /run/sshd
    """
    return ["unshare", "--mount", "bash", "-c", f"set -e; {mounts} {start}"]


@contextlib.contextmanager
def sshd(folder: Path) -> Iterator[Ssh]:
    """Serve ssh on a free port of 127.0.0.1, with keys of its own in *folder*."""
    folder.mkdir()
    for name in ("host", "user", "stranger"):
        _key(folder / name)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    known = folder / "known_hosts"
    known.write_text(f"[127.0.0.1]:{port} {(folder / 'host.pub').read_text()}")
    server = subprocess.Popen(
        _command(folder, port), env=environment(), stderr=subprocess.PIPE, text=True
    )
    try:
        assert server.stderr is not None
        for line in server.stderr:
            if "Server listening" in line:
                break
        else:
            raise AssertionError(f"sshd ended with {server.wait()}")
        with _agent(folder) as agent:
            options = f"-o UserKnownHostsFile={known} -o IdentitiesOnly=no -o IdentityFile=none"
            command = f"ssh -F none -o BatchMode=yes {options}"
            yield Ssh(port, {"SSH_AUTH_SOCK": agent, "GIT_SSH_COMMAND": command})
    finally:
        server.kill()
        server.communicate()


@contextlib.contextmanager
def _agent(folder: Path) -> Iterator[str]:
    said = subprocess.run(["ssh-agent", "-s"], capture_output=True, text=True, check=True).stdout
    found = dict(re.findall(r"(SSH_\w+)=([^;]+);", said))
    try:
        env = environment(**found)
        subprocess.run(
            ["ssh-add", "-q", str(folder / "user")], env=env, check=True, capture_output=True
        )
        yield found["SSH_AUTH_SOCK"]
    finally:
        os.kill(int(found["SSH_AGENT_PID"]), 15)
