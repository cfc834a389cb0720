"""`nix build`, watched: what is built, how long it takes, and why it failed."""

from __future__ import annotations

import json
import re
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tnpu_nix import flake, git, process, project, store
from tnpu_nix.errors import TnpuError
from tnpu_nix.flake import derivation_name
from tnpu_nix.images import base
from tnpu_nix.nix import Nix, failure
from tnpu_nix.pins import Base, Pin, Toolchain
from tnpu_nix.repository import checkout_name
from tnpu_nix.sources import fetch
from tnpu_nix.terminal import uncoloured

# Numbers of Nix's internal-json log, from ActivityType and ResultType in its source (logging.hh).
_COPY, _BUILD, _SUBSTITUTE = 100, 105, 108
_LOG_LINE, _PHASE = 101, 104
_LAST_LINES = 25
# What Nix says of a derivation that could not be built, in all its versions.
FAILED_AT = re.compile(r"(?:builder for|Cannot build|build of) '([^']+\.drv)")
# What activities are shown, and as what. A path that is fetched is also copied: only one counts.
BUILDING = {_BUILD: "building", _SUBSTITUTE: "fetching"}
MAKING = {_BUILD: "building"}
PUSHING = {_COPY: "pushing"}


@dataclass
class Activity:
    """A derivation that is being built, or a store path that is being copied from a cache."""

    name: str  # of the derivation or path, without its hash
    verb: str  # "building", "fetching" or "pushing"
    started: float = field(default_factory=time.monotonic)  # seconds, monotonic clock
    phase: str = ""
    log: deque[str] = field(default_factory=lambda: deque(maxlen=_LAST_LINES))
    seconds: float | None = None  # how long it took; None while it runs
    path: str = ""  # store path of the derivation, or what is copied
    source: str = ""  # URL of the cache that it is copied from; empty for a build


@dataclass(frozen=True)
class Built:
    """A finished build."""

    path: str  # store path of the target's first output
    paths: list[str]  # of all outputs that were asked for
    activities: list[Activity]  # what was built or fetched for it, in order
    warnings: tuple[str, ...] = ()  # of nix


Watcher = Callable[[dict[int, Activity], Activity | None], None]


def build(root: Path, target: str, nix: Nix, watch: Watcher) -> Built:
    """Build one output of the project's flake.

    Args:
        root: the project; its generated files are there and up to date.
        watch: called with the running activities, and the one that has just ended, if any.

    Raises:
        TnpuError: the build failed; the details are the last lines of the derivation's log.
    """
    with flake.copied(root) as copy, git.temporary_folder() as scratch:
        argv = ["nix", "build", *flake.installable(nix, copy, target), "--no-link"]
        argv += ["--json", "--log-format", "internal-json"]
        answer = scratch / "answer.json"
        log = Log(watch)
        if run_logged(argv, nix, log, answer) != 0:
            raise failed(target, log)
        outputs = json.loads(answer.read_text())[0]["outputs"]
    first = outputs.get("out") or next(iter(outputs.values()))
    return Built(first, list(outputs.values()), log.finished, tuple(log.warnings))


def run_logged(
    argv: list[str],
    nix: Nix,
    log: Log,
    answer: Path,
    until: Callable[[], bool] = lambda: False,
) -> int | None:
    """Run a nix that logs in internal-json, and return its exit status.

    Args:
        answer: the file for its standard output.
        until: asked after each line; once it is true nix is stopped, and None returned.
    """
    with process.stream_stderr(argv, env=nix.environment(), stdout_file=answer) as running:
        assert running.stderr is not None
        for line in running.stderr:
            log.read(process.mask(line))
            if until():
                return None
        return running.wait()


class Log:
    """Reads Nix's internal-json log: which activities run, and the messages of errors."""

    def __init__(self, watch: Watcher, verbs: Mapping[int, str] = BUILDING) -> None:
        self._watch = watch
        self._verbs = verbs
        self.running: dict[int, Activity] = {}
        self.finished: list[Activity] = []
        self.messages: list[str] = []  # errors, and what is no part of the log
        self.warnings: list[str] = []

    def read(self, line: str) -> None:
        """Take one line of standard error."""
        if not line.startswith("@nix "):
            self.messages.append(line.rstrip("\n"))
            return
        try:
            event = json.loads(line.removeprefix("@nix "))
        except ValueError:
            return  # cut short by a kill
        ended = self._take(event)
        self._watch(self.running, ended)

    def _take(self, event: dict[str, object]) -> Activity | None:
        action, number, kind = event.get("action"), event.get("id"), event.get("type")
        fields = event.get("fields")
        first, *rest = fields if isinstance(fields, list) and fields else [""]
        if action == "msg" and event.get("level") == 0:
            self.messages.append(str(event.get("msg", "")))
        elif action == "msg" and event.get("level") == 1:
            self.warnings.append(str(event.get("msg", "")))
        elif not isinstance(number, int):
            return None
        elif action == "start" and isinstance(kind, int) and kind in self._verbs:
            source = str(rest[0]) if kind != _BUILD and rest else ""
            self.running[number] = Activity(
                derivation_name(str(first)), self._verbs[kind], path=str(first), source=source
            )
        elif action == "result" and number in self.running and kind in (_LOG_LINE, _PHASE):
            if kind == _PHASE:
                self.running[number].phase = str(first)
            else:
                self.running[number].log.append(str(first))
        elif action == "stop" and number in self.running:
            ended = self.running.pop(number)
            ended.seconds = time.monotonic() - ended.started
            self.finished.append(ended)
            return ended
        return None


def failed(target: str, log: Log) -> TnpuError:
    """Return the error of a failed build, with the last lines of the derivation that failed."""
    said = uncoloured("\n".join(log.messages))
    named = FAILED_AT.search(said)
    failed = derivation_name(named.group(1)) if named else ""
    lines = next((list(one.log) for one in log.finished if one.name == failed and one.log), [])
    lines += [line for one in log.running.values() if one.name == failed for line in one.log]
    details = tuple(f"{failed}> {line}" for line in lines)
    mismatch = re.search(
        r"hash mismatch in .*?'([^']+)'.*?specified:\s*(\S+).*?got:\s*(\S+)", said, re.S
    )
    if mismatch:
        source = derivation_name(mismatch.group(1))
        return TnpuError(
            f"the hash in pins.toml does not match: {source} has {mismatch.group(3)},"
            f" not {mismatch.group(2)}",
            "`tnpu-nix bump NAME REV` of that pin writes the hash that belongs to the revision",
        )
    if failed and details:
        return TnpuError(
            f"building {target} failed in {failed}", "the end of its log is above", details, said
        )
    return failure(f"building {target}", said, details)


def check_generated(root: Path, toolchain: Toolchain) -> None:
    """Raise if a generated file is not as pins.toml says."""
    found = project.differences(root, toolchain)
    if found:
        names = ", ".join(one.path for one in found)
        raise TnpuError(f"not as pins.toml says: {names}", project.way_out(found))


def fetch_sources(
    root: Path,
    toolchain: Toolchain,
    target: str,
    nix: Nix,
    say: Callable[[str], None],
    using: Nix | None = None,
) -> None:
    """Put into the store the sources that *target* will be built from and that Nix cannot fetch.

    Nix is asked what it would build: what is there, or comes out of a cache, is left alone.

    Args:
        using: *nix* as it will build, where it may then take from caches that it has not here.

    Raises:
        TnpuError: a source is not to be had, or its hash is not the one in pins.toml.
    """
    if not _ours(toolchain, nix) and _our_base(toolchain, nix) is None:
        return
    with flake.copied(root) as copy:
        argv = ["nix", "build", *flake.installable(nix, copy, target), "--no-link"]
        planned = store.dry_run(argv, using or nix, f"evaluating {target}")
    fetch_sources_of(planned.built, toolchain, nix, say)


def fetch_sources_of(
    derivations: Iterable[str], toolchain: Toolchain, nix: Nix, say: Callable[[str], None]
) -> bool:
    """Put into the store those sources among *derivations*, all to be built, that Nix cannot fetch.

    Returns whether there were any.

    In the offline profile, whose builds have no network, that is all of them; else those for
    which a sandboxed build has no credentials. The image's base is among them.

    Raises:
        TnpuError: a source is not to be had, or its hash is not the one in pins.toml.
    """
    planned = set(map(derivation_name, derivations))
    pins = _ours(toolchain, nix).items()
    wanted = [name for name, pin in pins if checkout_name(pin.url, pin.rev) in planned]
    for name in wanted:
        fetch(toolchain, name, nix, say)
    if (laid := _our_base(toolchain, nix)) and laid.archive_name in planned:
        base.fetch(toolchain, nix, say)
        return True
    return bool(wanted)


def _our_base(toolchain: Toolchain, nix: Nix) -> Base | None:
    """Return the image's base if Nix cannot fetch it; None, too, if there is none."""
    laid = toolchain.image.base
    if laid is None or nix.offline_profile or base.has_credentials(toolchain, laid):
        return laid
    return None


def _ours(toolchain: Toolchain, nix: Nix) -> dict[str, Pin]:
    """Return the pins whose sources Nix cannot fetch."""
    pins = toolchain.pins.items()
    return {name: pin for name, pin in pins if nix.offline_profile or pin.needs_credentials}
