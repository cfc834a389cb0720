"""What a cache holds in a damaged state, held against the store here, and put there anew."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from urllib.parse import quote

from tnpu_nix import git, process
from tnpu_nix.cache import narinfo, records, wire
from tnpu_nix.cache.access import Access, NotThereError, UnavailableError, all_at_once
from tnpu_nix.cache.narinfo import PathInfo
from tnpu_nix.cache.stores import INFO, Cache
from tnpu_nix.errors import TnpuError
from tnpu_nix.nix import Nix, failure
from tnpu_nix.terminal import uncoloured

# What makes a binary cache of a folder (binary-cache-store.cc). By its priority Nix asks it before
# cache.nixos.org, which has 40.
INFO_TEXT = f"StoreDir: {narinfo.STORE}\nWantMassQuery: 1\nPriority: 30\n"
_UNTRUSTED = 2  # exit status of `nix store verify` for missing signatures alone (verify.cc)
# What nix says of a cache that takes no upload, in our words.
REASONS = (
    (re.compile(r"No space left on device|HTTP error 507"), "it is full"),
    (re.compile(r"HTTP error 401"), "it asks for a password (401); put one into a netrc file"),
    (re.compile(r"HTTP error 403|Permission denied"), "it refuses this user (403)"),
    (re.compile(r"HTTP error 404"), "it takes no uploads (404)"),
    (re.compile(r"HTTP error 405"), "it takes no uploads (405)"),
    (re.compile(r"HTTP error 413"), "it takes no file of that size (413)"),
    (re.compile(r"HTTP error (?=5)"), "it answers with an error of its own (5xx)"),
    (re.compile(r"Timeout was reached"), "it stopped answering"),
)


def begin(one: Cache, access: Access) -> None:
    """Write the file that makes a binary cache of a place, where it is absent.

    Nix does that for a place that it has never seen: of a URL it remembers that it has, also when
    the cache behind it has been emptied since.

    Raises:
        UnavailableError: the cache does not answer, or takes no upload.
        OSError: the folder of the cache cannot be written.
    """
    if one.folder is not None:
        if not (one.folder / INFO).exists():
            temporary = one.folder / f"{INFO}.tmp.{os.getpid()}"
            temporary.write_text(INFO_TEXT)
            temporary.rename(one.folder / INFO)
    elif one.is_web:
        url = f"{one.address}/{INFO}"
        with contextlib.suppress(NotThereError):
            wire.request(url, access)
            return
        try:
            wire.request(url, access, "PUT", INFO_TEXT.encode())
        except NotThereError as error:
            raise UnavailableError(refused(error)) from error


def damaged(
    one: Cache, closure: Mapping[str, PathInfo], there: Mapping[str, PathInfo], access: Access
) -> list[str]:
    """Return the paths that a cache has otherwise than the store here, without downloading NARs.

    Those are: a narinfo that cannot be read or says other things of the content, or that has a
    signature that is none; a NAR that is gone or has not the size that its narinfo gives.
    """

    def is_bad(path: str) -> bool:
        mine, its = closure[path], there[path]
        if not _says_the_same(its, mine):
            return True
        # Nix gives up at one under the name of a key that it trusts, with a good one beside it.
        if one.is_binary_cache and not all(map(narinfo.is_signature, its.signatures)):
            return True
        if its.file is None:
            return False
        # Not every server gives the size of a file, nor every narinfo.
        size = _file_size(one, its.file, access)
        return size == 0 or (None not in (size, its.file_size) and size != its.file_size)

    bad = all_at_once(is_bad, list(there), access)
    return [path for path, wrong in zip(there, bad, strict=True) if wrong]


def _says_the_same(its: PathInfo, mine: PathInfo) -> bool:
    """Tell whether a cache says of a path's content what the store here has: as is signed."""
    if its.fault or (its.nar_sri, its.nar_size) != (mine.nar_sri, mine.nar_size):
        return False
    return set(its.references) == set(mine.references)


def of_others(its: PathInfo, mine: PathInfo, public_key: str | None) -> list[str]:
    """Return the signatures of other keys that hold for a path when a cache has it anew."""
    if not _says_the_same(its, mine):
        return []
    own = f"{public_key.partition(':')[0]}:" if public_key else ":"
    found = its.signatures
    return [one for one in found if narinfo.is_signature(one) and not one.startswith(own)]


def _file_size(one: Cache, name: str, access: Access) -> int | None:
    """Return the size in bytes of a file in a cache, 0 if it is not there, None if unknown."""
    if one.folder is not None:
        path = one.folder / name
        return path.stat().st_size if path.is_file() else 0
    if one.is_web:
        try:
            return wire.request(f"{one.address}/{name}", access, "HEAD")[1]
        except NotThereError:
            return 0
    return None


def refuse_others(one: Cache, paths: Sequence[str]) -> None:
    """Raise if *paths*, damaged in a cache, lie in one of a kind that cannot be mended from here.

    Raises:
        TnpuError: it is such a one.
    """
    if one.folder is None and not one.is_web:
        raise TnpuError(
            f"damaged in {one.address}: {', '.join(paths)}",
            "remove these paths there, then push again",
        )


def upload_anew(
    one: Cache,
    key_file: Path | None,
    info: PathInfo,
    closure: Mapping[str, PathInfo],
    signatures: Sequence[str],
    nix: Nix,
    access: Access,
) -> None:
    """Replace what a cache has of one path: made whole in a folder first, then put there.

    `nix copy` itself leaves alone whatever a cache claims to have.

    Args:
        info: the path as the store here has it.
        closure: what it refers to, as the store here has that.
        signatures: what is signed with other keys than that of the file.

    Raises:
        UnavailableError: the cache takes no upload.
    """
    # One path a folder: all of them may be more than the disk of temporary files holds.
    with git.temporary_folder() as scratch:
        _make(one, key_file, info, closure, scratch, nix)
        name = f"{narinfo.hash_part(info.path)}.narinfo"
        text = (scratch / name).read_text()
        made = narinfo.parse(info.path, text)
        more = [one for one in signatures if one not in made.signatures]
        (scratch / name).write_text(text + "".join(f"Sig: {one}\n" for one in more))
        for file in filter(None, (made.file, name)):
            _put(one, file, scratch / file, access)


def _make(
    one: Cache,
    key_file: Path | None,
    info: PathInfo,
    closure: Mapping[str, PathInfo],
    folder: Path,
    nix: Nix,
) -> None:
    """Make a cache in a folder that has the NAR of one path alone."""
    # Nix puts no path where its references are not, and asks for their narinfos only.
    (folder / INFO).write_text(INFO_TEXT)
    for reference in info.references:
        stub = folder / f"{narinfo.hash_part(reference)}.narinfo"
        stub.write_text(narinfo.text(closure[reference]))
    url = f"file://{folder}?compression=" + _compression(one)
    if key_file is not None:
        url += f"&secret-key={quote(str(key_file.absolute()))}"
    argv = ["nix", "copy", "--no-recursive", "--to", url, info.path]
    done = process.run(argv, env=nix.environment(), timeout=None)
    if done.status != 0:
        raise failure("making the damaged paths anew", done.stderr)


def _compression(one: Cache) -> str:
    match = re.search(r"[?&]compression=([a-z0-9]+)", one.url)
    return match.group(1) if match else "xz"


def _put(one: Cache, name: str, file: Path, access: Access) -> None:
    try:
        if one.folder is not None:
            _put_into(one.folder, name, file)
            return
        with file.open("rb") as content:
            wire.request(f"{one.address}/{name}", access, "PUT", content)
    except NotThereError as error:
        raise UnavailableError(refused(error)) from error
    except OSError as error:
        # Said here: it is not the temporary folder that is full.
        raise UnavailableError(error.strerror or str(error)) from error


def refused(error: NotThereError) -> str:
    """Return what is said of a cache whose answer to an upload is 404 or 403."""
    return str(error) if "403" in str(error) else "it takes no uploads (404)"


def _put_into(folder: Path, name: str, file: Path) -> None:
    target = folder / name
    temporary = target.with_name(f"{target.name}.tmp.{os.getpid()}")
    try:
        target.parent.mkdir(exist_ok=True)
        shutil.copyfile(file, temporary)
        temporary.rename(target)
    finally:
        temporary.unlink(missing_ok=True)


def unsigned(one: Cache, paths: Sequence[str], nix: Nix) -> list[str]:
    """Return those of *paths* that a cache has without a good signature of the keys of *nix*.

    Raises:
        TnpuError: Nix cannot read a narinfo or a signature in it.
    """
    argv = ["nix", "store", "verify", "--no-contents", "--store", one.url, *paths]
    done = process.run(argv, env=nix.environment(), timeout=None)
    if done.status not in (0, _UNTRUSTED):
        raise failure(f"checking the signatures in {one.address}", done.stderr)
    said = uncoloured(done.stderr)
    found = re.findall(r"path '([^']+)' is untrusted", said)
    return [path for path in paths if path in found]


@contextlib.contextmanager
def one_at_a_time(one: Cache) -> Iterator[None]:
    """Keep two pushes from rewriting one narinfo of a `file://` cache at the same time."""
    if one.folder is None:
        yield
        return
    path = one.folder / records.FOLDER / "signing"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
