"""What was built, into a cache: signed, only what is missing, and what is damaged there anew."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from tnpu_nix import git, process
from tnpu_nix.build import PUSHING, Log, Watcher, run_logged
from tnpu_nix.cache import keys, local, mend, narinfo, records, settings, stores, turns, verify
from tnpu_nix.cache.access import Access, UnavailableError
from tnpu_nix.cache.current import OPTIONAL, Current, paths_of
from tnpu_nix.cache.narinfo import PathInfo
from tnpu_nix.cache.repair import beyond_caches
from tnpu_nix.cache.stores import Cache
from tnpu_nix.errors import TnpuError
from tnpu_nix.nix import Nix, failure
from tnpu_nix.terminal import size_text

Say = Callable[[str], None]
# What Nix 2.8 fails with when another push was quicker with a path.
_OVERTAKEN = "coroutine has finished"


@dataclass(frozen=True)
class Target:
    """Where a push goes, and how it is signed."""

    cache: Cache
    key_file: Path | None  # None: the server signs, or the paths are signed already
    public_key: str | None

    @property
    def url(self) -> str:
        """The URL as Nix is given it: with the path of the key, never with the key."""
        if self.key_file is None or not self.cache.is_binary_cache:
            return self.cache.url
        return self.cache.with_parameter("secret-key", quote(str(self.key_file.absolute())))


def target(
    one: Cache, key_file: Path | None, unsigned: bool, trusted: Sequence[str], nix: Nix, say: Say
) -> Target:
    """Return where a push goes to, signed with the key of a file.

    Raises:
        TnpuError: there is no key, and the push is not said to be unsigned.
    """
    if unsigned:
        return Target(one, None, None)
    if key_file is None:
        raise TnpuError(
            "no signing key: what it does not sign nobody would take from the cache",
            f"name its file with --key-file or in {keys.VARIABLE}; `tnpu-nix cache keygen NAME`"
            " makes one; --unsigned is for a server that signs",
        )
    public = keys.public_of(key_file, nix, say)
    if public not in trusted:
        say(f"warning: {public} is not among [cache] public-keys: pulls will refuse what it signs")
    return Target(one, key_file, public)


def built(wanted: dict[str, list[str]], all_of_them: bool, nix: Nix, say: Say) -> list[str]:
    """Return the store paths of the outputs that are built; those that are not are named.

    Raises:
        TnpuError: none is, or *all_of_them* were asked for.
    """
    here = local.valid(nix, paths_of(wanted))
    lacking = [name for name, paths in wanted.items() if any(path not in here for path in paths)]
    if all_of_them and lacking:
        raise TnpuError(f"not built: {', '.join(lacking)}", nix.words("build", lacking[0]))
    if not here:
        hint = f"{nix.words('build')}, then push"
        raise TnpuError("nothing is built under the current pins", hint)
    unexpected = [name for name in lacking if name not in OPTIONAL]
    if unexpected:
        say(f"not built here, and so not pushed: {', '.join(unexpected)}")
    return [path for path in paths_of(wanted) if path in here]


def sources(now: Current, nix: Nix, say: Say) -> list[str]:
    """Return the store paths of the pins' sources that are in the store; the others are named."""
    here = local.valid(nix, list(now.sources.values()))
    lacking = [name for name, path in now.sources.items() if path not in here]
    if lacking:
        say(f"not in the store here, and so not pushed: the sources of {', '.join(lacking)}")
    return list(here)


@dataclass(frozen=True)
class Pushed:
    """What a push did."""

    url: str
    paths: int  # in the closure
    uploaded: list[str]  # store paths that the cache lacked, or had damaged
    mended: list[str]  # those of them that it had damaged
    signed: list[str]  # store paths that were there without our signature
    size: int  # bytes of what was uploaded, unpacked


def push(
    now: Current,
    paths: Sequence[str],
    target: Target,
    nix: Nix,
    access: Access,
    watch: Watcher,
    say: Say,
    repair: bool = False,
) -> Pushed:
    """Upload the closure of *paths*, which are in the store, to a cache.

    Args:
        repair: also download what the cache has of it, to find altered content.

    Raises:
        TnpuError: the cache cannot be used or is full, or a path is not to be read here, or is not
            what it was when it was built.
    """
    trusted = [target.public_key] if target.public_key else []
    checking = settings.checking(nix, trusted, access)
    writing = settings.writing(nix, trusted, access)
    closure = _closure(paths, checking)
    try:
        with _prepared(target, now, closure, access, say):
            there = _there(target.cache, list(closure), checking, access)
            bad = mend.damaged(target.cache, closure, there, access)
            if repair:
                rest = [path for path in there if path not in bad]
                bad += _altered_there(target.cache, rest, checking, say)
            missing = [path for path in closure if path not in there]
            _refuse_altered([*missing, *bad], closure, now, checking)
            to_do = _Missing(dict.fromkeys(missing), closure, there, target, writing, watch)
            return _upload(paths, bad, to_do, access, say)
    except UnavailableError as error:
        raise _unavailable(target.cache, str(error)) from error
    except OSError as error:
        raise _unavailable(target.cache, error.strerror or str(error)) from error


def _unavailable(one: Cache, reason: str) -> TnpuError:
    hint = "check the URL, the rights and the netrc file; what was uploaded before is whole"
    if "full" in reason or "No space" in reason:
        hint = "make room there (`tnpu-nix cache prune`), then push again: it goes on from here"
    return TnpuError(f"{one.address} takes no push: {reason}", hint)


@contextlib.contextmanager
def _prepared(
    target: Target, now: Current, closure: Iterable[str], access: Access, say: Say
) -> Iterator[None]:
    """See that there is a cache, hold its lock, write the record of this set first, and its end."""
    one = target.cache
    with contextlib.ExitStack() as stack:
        if one.folder is not None:
            own = one.folder / records.FOLDER
            own.mkdir(parents=True, exist_ok=True)
            stack.enter_context(turns.turn_of(own, target.public_key, say))
            stack.enter_context(records.locked(one.folder, False, say))
        mend.begin(one, access)
        push = records.Push(now, frozenset(closure))
        records.begin(one, push, access, say)
        try:
            yield
        finally:
            records.end(one, push, access)


def _closure(paths: Sequence[str], nix: Nix) -> dict[str, PathInfo]:
    closure = local.closure(nix, paths)
    if lost := local.gone(nix, closure):
        raise TnpuError(
            f"{lost[0]} is gone from the disk although Nix has it in its books",
            f"{nix.words('cache', 'pull')} brings it back from a cache,"
            f" {nix.words('build')} without one",
        )
    return closure


def _altered_there(one: Cache, paths: Sequence[str], nix: Nix, say: Say) -> list[str]:
    """Return those of *paths* whose NAR in a cache is not what its narinfo says."""
    say(f"checking {len(paths)} paths in {one.address}")
    # A signature that is wanting is added later, without an upload.
    return [fault.path for fault in verify.check(["--store", one.url, "--no-trust"], paths, nix)]


def _refuse_altered(
    paths: Sequence[str], closure: dict[str, PathInfo], now: Current, nix: Nix
) -> None:
    """Raise if the disk has one of *paths* otherwise than Nix's database: it would be signed so.

    Nix itself uploads such a path under the hash that it had when it was built, and everyone who
    downloads it refuses it.
    """
    altered = local.altered(nix, paths)
    if not altered:
        return
    names = [
        name
        for name, its in now.outputs.items()
        if not narinfo.reached(closure, its).isdisjoint(altered)
    ]
    what = f"altered on the disk since it was built: {', '.join(altered)}; nothing was uploaded"
    if not names:
        raise beyond_caches(what, altered, nix)
    hint = f"{nix.words('cache', 'pull', '--repair', *names)} fetches it anew, or says what else"
    raise TnpuError(what, f"{hint} brings it back; then push again")


def _upload(
    paths: Sequence[str], bad: list[str], to_do: _Missing, access: Access, say: Say
) -> Pushed:
    target, closure, missing = to_do.target, to_do.closure, list(to_do.left)
    failed = None
    if bad:
        say(f"damaged in {target.cache.address}, and uploaded anew: {len(bad)} paths")
        try:
            _mend(bad, to_do, access)
        except (TnpuError, UnavailableError) as error:
            failed = error  # what is missing there is none the less of use
    if missing:
        total = size_text(sum(closure[path].nar_size for path in missing))
        say(f"{len(missing)} of {len(closure)} paths are missing there, {total}")
        try:
            to_do.upload(paths)
        except TnpuError as error:
            raise failed or error from None
    if failed is not None:
        raise failed
    signed = _sign(target, list(closure), to_do.nix)
    uploaded = [*missing, *bad]
    count = sum(closure[path].nar_size for path in uploaded)
    return Pushed(target.cache.url, len(closure), uploaded, bad, signed, count)


@dataclass
class _Missing:
    """What a cache lacks yet of a closure that is pushed."""

    left: dict[str, None]
    closure: dict[str, PathInfo]
    there: dict[str, PathInfo]  # what the cache had of it
    target: Target
    nix: Nix
    watch: Watcher

    def upload(self, paths: Sequence[str]) -> None:
        """Upload what is left of *paths* and all that they refer to."""
        within = narinfo.reached(self.closure, paths)
        wanted = [path for path in self.left if path in within]
        if wanted:
            _copy(paths, len(wanted), self.target, self.nix, self.watch)
        for path in wanted:
            del self.left[path]


def _mend(bad: list[str], missing: _Missing, access: Access) -> None:
    """Put damaged paths into a cache anew, each after all that it refers to."""
    target, closure, nix = missing.target, missing.closure, missing.nix
    cache, key_file = target.cache, target.key_file
    mend.refuse_others(cache, bad)
    for path in sorted(bad, key=lambda one: len(narinfo.reached(closure, [one]))):
        missing.upload(closure[path].references)
        info = closure[path]
        others = mend.of_others(missing.there[path], info, target.public_key)
        mend.upload_anew(cache, key_file, info, closure, others, nix, access)


def _there(one: Cache, paths: Sequence[str], nix: Nix, access: Access) -> dict[str, PathInfo]:
    found = stores.infos(one, paths, nix, access)
    return {path: info for path, info in found.items() if info is not None}


def _copy(paths: Sequence[str], missing: int, target: Target, nix: Nix, watch: Watcher) -> None:
    if target.key_file is not None and not target.cache.is_binary_cache:
        # A store on another machine keeps the signatures that it is given.
        argv = [
            "nix",
            "store",
            "sign",
            "--recursive",
            "--key-file",
            str(target.key_file.absolute()),
            *paths,
        ]
        done = process.run(argv, env=nix.environment(), timeout=None)
        if done.status != 0:
            raise failure("signing what is pushed", done.stderr)
    said = ""
    # Each time at least one path more is there.
    for _ in range(missing + 1):
        failed = _copy_once(paths, target, nix, watch)
        if failed is None:
            return
        said = failed
        if _OVERTAKEN not in said:
            break
    for pattern, reason in mend.REASONS:
        if pattern.search(said):
            raise _unavailable(target.cache, reason)
    raise failure(f"pushing to {target.cache.address}", said)


def _copy_once(paths: Sequence[str], target: Target, nix: Nix, watch: Watcher) -> str | None:
    """Run nix once; return None, or what it said when it failed."""
    argv = ["nix", "copy", "--to", target.url, "--log-format", "internal-json", "-v", *paths]
    log = Log(watch, PUSHING)
    with git.temporary_folder() as scratch:
        status = run_logged(argv, nix, log, scratch / "answer")
    return None if status == 0 else "\n".join(log.messages)


def _sign(target: Target, paths: Sequence[str], nix: Nix) -> list[str]:
    """Add our signature to what others had pushed before; return those paths."""
    if not target.cache.is_binary_cache or target.key_file is None:
        return []
    unsigned = mend.unsigned(target.cache, paths, nix)
    if not unsigned:
        return []
    argv = ["nix", "store", "sign", "--store", target.cache.url]
    argv += ["--key-file", str(target.key_file.absolute()), *unsigned]
    with mend.one_at_a_time(target.cache):
        done = process.run(argv, env=nix.environment(), timeout=None)
    if done.status != 0:
        raise failure("signing what was there already", done.stderr)
    return unsigned
