"""What a cache says of store paths, and which of it a trusted key has signed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from tnpu_nix import git, process
from tnpu_nix.cache import narinfo, settings
from tnpu_nix.cache.narinfo import PathInfo
from tnpu_nix.cache.stores import INFO
from tnpu_nix.nix import Nix, failure
from tnpu_nix.terminal import uncoloured

_UNTRUSTED = 2  # exit status of `nix store verify` for a missing signature alone (verify.cc)


def signed(infos: Iterable[PathInfo], keys: Sequence[str], nix: Nix) -> list[PathInfo]:
    """Return what is signed by a trusted key.

    Nix looks at just what was read, in a folder, and not at the cache: one that lies could tell it
    something else than it has told us.

    Args:
        keys: public keys to trust, beside those of the user's nix.conf.

    Raises:
        TnpuError: Nix cannot check signatures.
    """
    usable = {one.path: one for one in infos if one.fault is None and _is_plain(one)}
    if not usable:
        return []
    trusting = replace(nix, config=(*nix.config, *settings.trusting(keys, "extra-")))
    with git.temporary_folder() as folder:
        (folder / INFO).write_text(f"StoreDir: {narinfo.STORE}\n")
        for one in usable.values():
            name = f"{narinfo.hash_part(one.path)}.narinfo"
            (folder / name).write_text(narinfo.text(one))
        argv = ["nix", "store", "verify", "--no-contents", "--sigs-needed", "1"]
        argv += ["--store", f"file://{folder}", *usable]
        done = process.run(argv, env=trusting.environment())
    if done.status not in (0, _UNTRUSTED):
        raise failure("checking signatures", done.stderr)
    said = uncoloured(done.stderr)
    refused = {path for path in usable if f"'{path}' is untrusted" in said}
    if done.status == _UNTRUSTED and not refused:
        raise failure("checking signatures", done.stderr)
    return [one for path, one in usable.items() if path not in refused]


def _is_plain(info: PathInfo) -> bool:
    """Tell whether a narinfo written of it says just that: no text of it holds a line end."""
    return not any(
        set("\r\n") & set(one) for one in (info.nar_hash, *info.signatures, *info.references)
    )
