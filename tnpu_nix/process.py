"""The only module that starts processes: argument lists, time-outs, credentials masked."""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from tnpu_nix.errors import TnpuError

# Who asks, in a URL: a password or a token may be part of it. "git@" is what ssh URLs have.
_CREDENTIALS = re.compile(r"(?P<scheme>[a-zA-Z][a-zA-Z0-9+.-]*://)(?!git@)[^/@\s]+@")


# A shorter one would be masked in words that have nothing to do with it.
_SHORTEST_SECRET = 6
_secrets: set[str] = set()

# From Linux' prctl(2).
_PR_SET_PDEATHSIG = 1


class TimedOutError(TnpuError):
    """A program gave no answer in the time that it had."""


@dataclass(frozen=True)
class Completed:
    """A process that ended: its argument list, exit status and output as text."""

    argv: tuple[str, ...]
    status: int
    stdout: str
    stderr: str


def mask(text: str) -> str:
    """Return *text* with every user and password in a URL, and all that `hide` was told of, as ***.

    A server, or a trace that the user has turned on, may repeat a token.
    """
    for secret in _secrets:
        text = text.replace(secret, "***")
    return _CREDENTIALS.sub(r"\g<scheme>***@", text)


def hide(secret: str) -> None:
    """Have `mask` replace a secret from now on, if it is long enough to be one."""
    if len(secret) >= _SHORTEST_SECRET:
        _secrets.add(secret)


def _missing(program: str, error: OSError) -> TnpuError:
    if isinstance(error, FileNotFoundError) and error.filename == program:
        return TnpuError(
            f"{program} is not installed (not found on PATH)",
            f"install {program}, or put it on PATH, and run the command again",
        )
    return TnpuError(
        f"{program} could not be started: {error.filename}: {error.strerror}",
        f"check that {program} and the folder it is started in can be used",
    )


def _start(
    words: Sequence[str],
    cwd: Path | None,
    env: Mapping[str, str] | None,
    stdin: int,
    stdout: int | IO[str],
) -> subprocess.Popen[str]:
    """Start a program in a process group of its own, with a pipe for standard error."""
    try:
        return subprocess.Popen(
            words,
            cwd=cwd,
            env=None if env is None else dict(env),
            stdin=stdin,
            stdout=stdout,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
            preexec_fn=_die_with_parent,
        )
    except OSError as error:
        raise _missing(words[0], error) from error


def _die_with_parent() -> None:
    """In a new child: have the kernel end it should this process be killed."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def _end_group(process: subprocess.Popen[str]) -> None:
    """End the process and all that it started; they share a process group.

    First in a way that lets them clean up after themselves.
    """
    for kind in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, kind)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=5.0)
            return
    process.wait()


def run(
    argv: Sequence[str | Path],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    timeout: float | None = 120.0,
    stdin: str | None = None,
) -> Completed:
    """Run a program to its end and return what it printed, whatever its exit status.

    Args:
        argv: program and arguments; never a shell line.
        env: the whole environment of the child; None means this process's own.
        timeout: seconds, None for no limit; past it the whole process group is killed.
        stdin: text for standard input; without it the child reads end-of-file at once.

    Raises:
        TnpuError: the program is missing or could not be started.
        TimedOutError: it ran into the time-out.
    """
    words = tuple(str(word) for word in argv)
    source = subprocess.DEVNULL if stdin is None else subprocess.PIPE
    process = _start(words, cwd, env, source, subprocess.PIPE)
    try:
        stdout, stderr = process.communicate(stdin, timeout=timeout)
    except subprocess.TimeoutExpired as error:
        raise TimedOutError(
            f"{Path(words[0]).name} gave no answer within {timeout:g} seconds and was stopped",
            "check the network and the server, then run the command again",
        ) from error
    finally:
        if process.returncode is None:
            _end_group(process)
    return Completed(words, process.returncode, mask(stdout), mask(stderr))


@contextlib.contextmanager
def stream_stderr(
    argv: Sequence[str | Path],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    stdout_file: Path,
) -> Iterator[subprocess.Popen[str]]:
    """Run a program whose standard error is read line by line while it runs.

    Standard output goes to *stdout_file*, so that neither pipe can fill and stall the other.
    On leaving the block a program that still runs is killed with all that it started.

    Raises:
        TnpuError: the program is missing or could not be started.
    """
    words = tuple(str(word) for word in argv)
    with stdout_file.open("w") as sink:
        process = _start(words, cwd, env, subprocess.DEVNULL, sink)
        try:
            yield process
        finally:
            if process.poll() is None:
                _end_group(process)
            if process.stderr is not None:
                process.stderr.close()
