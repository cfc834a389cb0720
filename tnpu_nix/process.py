"""The only module that starts processes: argument lists, time-outs, credentials masked."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import queue
import re
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from tnpu_nix.errors import TnpuError

# Who asks, in a URL: a password or a token may be part of it. "git@" is what ssh URLs have.
_CREDENTIALS = re.compile(r"(?P<scheme>[a-zA-Z][a-zA-Z0-9+.-]*://)(?!git@)[^/@\s]+@")


# A shorter one would be masked in words that have nothing to do with it.
_SHORTEST_SECRET = 6
_secrets: set[str] = set()

_GRACE = 5.0  # seconds to clean up in
_LOOK = 0.2  # seconds between two looks for an interrupt
# From Linux' prctl(2).
_PR_SET_PDEATHSIG = 1


class TimedOutError(TnpuError):
    """A program gave no answer in the time that it had."""


class ProgramFailedError(TnpuError):
    """A program ended with a failure; the details are the last lines of what it said."""


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


def _end_groups(processes: Sequence[subprocess.Popen[str]]) -> None:
    """End processes and all that they started, which share a process group with each.

    First in a way that lets them clean up after themselves.
    """
    left = list(processes)
    for kind in (signal.SIGTERM, signal.SIGKILL):
        for process in left:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, kind)
        until = time.monotonic() + _GRACE
        for process in left:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=max(0.0, until - time.monotonic()))
        left = [process for process in left if process.poll() is None]
    for process in left:
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
            _end_groups([process])
    return Completed(words, process.returncode, mask(stdout), mask(stderr))


def run_all(
    argvs: Iterable[Sequence[str]], *, env: Mapping[str, str], at_a_time: int
) -> Generator[tuple[int, Completed], None, None]:
    """Run programs beside each other, and yield each that has ended: its number, what it printed.

    Whoever stops asking, or is interrupted while waiting, has those that still run ended, with
    all that they started; the generator has to be closed for that (`contextlib.closing`).

    Raises:
        TnpuError: a program is missing or could not be started.
    """
    all_of_them = _Beside(deque(enumerate(tuple(argv) for argv in argvs)), env)
    count = len(all_of_them.waiting)
    try:
        for _ in range(min(at_a_time, count)):
            threading.Thread(target=all_of_them.work, daemon=True).start()
        for _ in range(count):
            outcome = all_of_them.outcome()
            if isinstance(outcome, TnpuError):
                raise outcome
            yield outcome
    finally:
        all_of_them.end()


@dataclass
class _Beside:
    """Programs that run beside each other.

    Threads start them, since interrupts come to the main one: in its hands a program might have
    been started that nobody knows of yet.
    """

    waiting: deque[tuple[int, tuple[str, ...]]]
    env: Mapping[str, str]
    running: dict[int, subprocess.Popen[str]] = field(default_factory=dict)
    ended: queue.SimpleQueue[tuple[int, Completed] | TnpuError] = field(
        default_factory=queue.SimpleQueue
    )
    lock: threading.Lock = field(default_factory=threading.Lock)

    def work(self) -> None:
        """Run one program after the other until none is waiting."""
        while True:
            with self.lock:
                if not self.waiting:
                    return
                number, words = self.waiting.popleft()
                try:
                    process = _start(words, None, self.env, subprocess.DEVNULL, subprocess.PIPE)
                except TnpuError as error:
                    self.ended.put(error)
                    return
                self.running[number] = process
            stdout, stderr = process.communicate()
            with self.lock:
                self.running.pop(number, None)
            done = Completed(words, process.returncode, mask(stdout), mask(stderr))
            self.ended.put((number, done))

    def outcome(self) -> tuple[int, Completed] | TnpuError:
        """Wait for the next program that ends."""
        while True:
            # An interrupt that comes just before this waits, or to a thread, does not wake it.
            with contextlib.suppress(queue.Empty):
                return self.ended.get(timeout=_LOOK)

    def end(self) -> None:
        """Start no more, and end those that run."""
        with self.lock:
            self.waiting.clear()
            left = list(self.running.values())
        _end_groups(left)


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
                _end_groups([process])
            if process.stderr is not None:
                process.stderr.close()


@contextlib.contextmanager
def stream_stdout(
    argv: Sequence[str | Path], *, env: Mapping[str, str] | None = None
) -> Iterator[IO[bytes]]:
    """Run a program whose standard output is read as bytes while it runs.

    On leaving the block a program that still runs is killed with all that it started. Whoever
    reads to the end and leaves learns there whether the program succeeded.

    Raises:
        TnpuError: the program is missing, could not be started, or ended with a failure.
    """
    words = tuple(str(word) for word in argv)
    readable, writable = os.pipe()
    with os.fdopen(readable, "rb", buffering=0) as output:
        with contextlib.suppress(OSError):  # past the user's share of pipe pages it stays small
            fcntl.fcntl(readable, fcntl.F_SETPIPE_SZ, 1 << 20)
        try:
            process = _start(words, None, env, subprocess.DEVNULL, writable)
        finally:
            os.close(writable)
        assert process.stderr is not None
        # A program may say more than a pipe holds, and would wait for someone to read it.
        said: deque[str] = deque(maxlen=25)
        listener = threading.Thread(target=said.extend, args=(process.stderr,), daemon=True)
        listener.start()
        try:
            yield output
            # What closes its output ends soon, or hangs and is ended here.
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=10.0)
        finally:
            status = process.poll()
            if status is None:
                _end_groups([process])
            listener.join(timeout=5.0)
    if status != 0:
        raise _failed(words[0], status, said)


def _failed(program: str, status: int | None, said: Iterable[str]) -> ProgramFailedError:
    lines = tuple(mask(line.rstrip("\n")) for line in said)
    return ProgramFailedError(
        f"{Path(program).name} failed: {lines[-1] if lines else f'exit status {status}'}",
        "its own words are above",
        lines[:-1],
    )
