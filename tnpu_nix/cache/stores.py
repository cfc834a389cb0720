"""Caches by their store URL, and what they say of store paths."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

from tnpu_nix import process
from tnpu_nix.cache import narinfo
from tnpu_nix.cache.access import Access, NotThereError, UnavailableError, all_at_once
from tnpu_nix.cache.narinfo import PathInfo
from tnpu_nix.errors import TnpuError
from tnpu_nix.nix import Nix
from tnpu_nix.repository import carries_password
from tnpu_nix.terminal import uncoloured

INFO = "nix-cache-info"
_AT_A_TIME = 500  # paths in one argument list
Found = dict[str, PathInfo | None]


@dataclass(frozen=True)
class Cache:
    """A place where built outputs lie, by the URL that Nix knows it by."""

    url: str

    @property
    def address(self) -> str:
        """The URL without its parameters."""
        return self.url.partition("?")[0].rstrip("/")

    @property
    def scheme(self) -> str:
        """``file``, ``https``, ``ssh``…; empty for a folder's path."""
        return self.url.partition("://")[0] if "://" in self.url else ""

    @property
    def folder(self) -> Path | None:
        """The folder of a ``file://`` cache, None for any other."""
        return Path(self.address.removeprefix("file://")) if self.scheme == "file" else None

    @property
    def is_web(self) -> bool:
        """Whether it is asked over HTTP."""
        return self.scheme in ("http", "https")

    @property
    def is_binary_cache(self) -> bool:
        """Whether it consists of narinfo and NAR files, and so needs signatures in them."""
        return self.scheme in ("file", "http", "https", "s3")

    def with_parameter(self, name: str, value: str) -> str:
        """Return the URL with one more parameter."""
        return f"{self.url}{'&' if '?' in self.url else '?'}{name}={value}"


def cache(url: str) -> Cache:
    """Return the cache of a store URL.

    Raises:
        TnpuError: it is no store URL, or holds what it must not.
    """
    if carries_password(url):
        raise TnpuError(
            "the URL of a cache holds a user name or password",
            "keep credentials in a netrc file (`tnpu-nix cache use` prints the line)",
        )
    if re.search(r"[\s\"'`$\\]", url) or not (
        url.startswith("/") or re.match(r"[a-z0-9+-]+://.", url)
    ):
        raise TnpuError(
            f"{url!r} is no store URL",
            "give file:///folder, https://, ssh:// or s3://; no blanks, quotes, $ or backslashes",
        )
    if url.startswith("file:") and "%" in url.partition("?")[0]:
        raise TnpuError(
            f"{url} is a folder of one name to some versions of Nix, and of another to others",
            "name one without a % in it, or a link to it: newer versions take %20 for a blank",
        )
    try:
        parts = urlsplit(url)
        usable = parts.port != 0 and (not url.startswith("http") or bool(parts.hostname))
    except ValueError:
        usable = False
    if "#" in url or not usable:
        raise TnpuError(
            f"{url!r} is no URL of a cache",
            "mend its host or port; # begins a comment in nix.conf, and cannot be in it",
        )
    parameters = [key for key, _ in parse_qsl(url.partition("?")[2], keep_blank_values=True)]
    if "trusted" in parameters:
        raise TnpuError(
            f"{url} would have Nix take unsigned paths (trusted)",
            "leave the parameter out and give the cache's key instead",
        )
    return Cache(url)


@dataclass(frozen=True)
class Answer:
    """What one cache said."""

    cache: Cache
    found: Found  # empty where there is trouble
    trouble: str | None  # why the cache is of no use now


def ask_all(
    caches: Sequence[Cache], paths: Sequence[str], nix: Nix, access: Access
) -> list[Answer]:
    """Ask every cache for every path, all at once; a cache in trouble does not hold up the rest."""

    def ask(one: Cache) -> Answer:
        try:
            return Answer(one, infos(one, paths, nix, access), None)
        except UnavailableError as error:
            return Answer(one, {}, str(error))

    patient = Access(access.timeout * 10, access.netrc)  # each has its own time-out inside
    return all_at_once(ask, caches, patient)


def answering(answers: Sequence[Answer], say: Callable[[str], None]) -> list[Cache]:
    """Return the caches that can be used, and say what is wrong with the others."""
    for one in answers:
        if one.trouble is not None:
            say(f"going on without {one.cache.address}: {one.trouble}")
    return [one.cache for one in answers if one.trouble is None]


def infos(one: Cache, paths: Sequence[str], nix: Nix, access: Access) -> Found:
    """Return what a cache knows of each path, None where it does not have it.

    Raises:
        UnavailableError: the cache is of no use now.
    """
    if one.folder is not None:
        return _from_folder(one.folder, paths)
    if one.is_web:
        return _from_web(one, paths, access)
    found: Found = {}
    for start in range(0, len(paths), _AT_A_TIME):
        found |= _from_nix(one, paths[start : start + _AT_A_TIME], nix, access)
    return found


def _from_folder(folder: Path, paths: Iterable[str]) -> Found:
    try:
        if not (folder / INFO).is_file():
            raise UnavailableError("there is no binary cache in this folder")
        _check(folder.joinpath(INFO).read_text(errors="replace"))
        return {path: _read(folder, path) for path in paths}
    except OSError as error:
        raise UnavailableError(f"it cannot be read: {error.strerror}") from error


def _read(folder: Path, path: str) -> PathInfo | None:
    try:
        text = (folder / f"{narinfo.hash_part(path)}.narinfo").read_bytes()
    except FileNotFoundError:
        return None
    return narinfo.parse(path, text.decode(errors="replace"))


def _from_web(one: Cache, paths: Sequence[str], access: Access) -> Found:
    from tnpu_nix.cache import wire  # costs more time than a folder takes to answer

    def ask(path: str) -> PathInfo | None:
        url = f"{one.address}/{narinfo.hash_part(path)}.narinfo"
        try:
            body, _ = wire.request(url, access)
        except NotThereError:
            return None
        return narinfo.parse(path, body.decode(errors="replace"))

    # First, and alone: there is nothing to ask of a cache that is dead.
    all_at_once(lambda it: greet(it, access), [one], access)
    return dict(zip(paths, all_at_once(ask, paths, access), strict=True))


def greet(one: Cache, access: Access) -> None:
    """See that a binary cache answers at an HTTP address.

    Raises:
        UnavailableError: it is none, or of no use now.
    """
    from tnpu_nix.cache import wire

    try:
        said, _ = wire.request(f"{one.address}/{INFO}", access)
    except NotThereError as error:
        if "403" in str(error):
            raise UnavailableError(str(error)) from error
        raise UnavailableError("it has no nix-cache-info (404): not a binary cache") from error
    _check(said.decode(errors="replace"))


def _check(info: str) -> None:
    """Raise if Nix could not use a cache with this nix-cache-info, nor any other beside it."""
    pairs = (line.partition(": ") for line in info.splitlines())
    fields = {key: value.strip() for key, _, value in pairs}
    folder = fields.get("StoreDir")
    if folder is None:
        raise UnavailableError(f"its {INFO} names no StoreDir: not a binary cache")
    if folder != narinfo.STORE:
        raise UnavailableError(f"its paths are for the store {folder[:80]!r}")
    if not re.fullmatch(r"-?[0-9]{1,9}", fields.get("Priority", "0")):
        raise UnavailableError(f"the Priority in its {INFO} is no number")


def _from_nix(one: Cache, paths: Sequence[str], nix: Nix, access: Access) -> Found:
    if not one.scheme and not Path(one.address).is_dir():
        raise UnavailableError("there is no such folder")  # nix would make it a store
    argv = ["nix", "path-info", "--json", "--store", one.url, *paths]
    try:
        # A shell or a cloud's client takes longer to start than a request over HTTP.
        done = process.run(argv, env=nix.environment(), timeout=max(access.timeout, 10.0))
        if done.status == 0:
            return dict.fromkeys(paths) | narinfo.from_nix(json.loads(done.stdout))
    except process.TimedOutError as error:
        raise UnavailableError(access.no_answer) from error
    except (ValueError, KeyError, TypeError) as error:
        raise UnavailableError("nix printed no answer that can be read") from error
    said = [line for line in done.stderr.splitlines() if line.strip()]
    reason = next((line for line in said if "error:" in line), said[-1] if said else "no reason")
    reason = uncoloured(reason)
    reason = re.sub(r"^\s*(error(?: \(ignored\))?:\s*)+", "", reason)
    raise UnavailableError(" ".join(reason.split())[:200])


def subsets(caches: Sequence[Cache]) -> list[list[Cache]]:
    """Return what to try when one of the caches is bad, and nobody knows which.

    All but one, beginning without the first, then one alone; nothing where there is but one.
    """
    if len(caches) < 2:
        return []
    without = [[one for one in caches if one != bad] for bad in caches]
    return without + ([[one] for one in caches] if len(caches) > 2 else [])


@dataclass(frozen=True)
class Closure:
    """Paths and all that they refer to, as one cache has them."""

    infos: dict[str, PathInfo]
    missing: dict[str, str]  # path that the cache lacks → the path that refers to it


def closure(one: Cache, roots: Iterable[str], nix: Nix, access: Access) -> Closure:
    """Walk the references of *roots* through one cache; roots that it lacks are left out.

    Raises:
        UnavailableError: the cache is of no use now.
    """
    found = Closure({}, {})
    asked: dict[str, str | None] = dict.fromkeys(roots)
    layer = list(asked)
    while layer:
        following = []
        for path, info in infos(one, layer, nix, access).items():
            if info is None:
                referrer = asked[path]
                if referrer is not None:
                    found.missing[path] = referrer
                continue
            found.infos[path] = info
            new = [reference for reference in info.references if reference not in asked]
            asked |= dict.fromkeys(new, path)
            following += new
        layer = following
    return found
