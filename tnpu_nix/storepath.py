"""Nix's own ways of writing a hash, and what a source is called in the store: without asking Nix.

Nix takes 30 ms to say each, and every command would ask it for five.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Sequence

STORE = "/nix/store"
DIGITS = "0123456789abcdfghijklmnpqrsvwxyz"  # of base32 as Nix writes it: no e, o, t, u
_SIZES = {"md5": 16, "sha1": 20, "sha256": 32, "sha512": 64}  # bytes of hashes
_LENGTH = 20  # bytes of the hash in a store path
# Source: Nix's manual, "Store Path": a digest of 160 bits, and a name of at most 211 characters, in
# which a dot or two do not stand alone, nor before the first dash.
_BASE_NAME = re.compile(rf"[{DIGITS}]{{32}}-(?!\.\.?(?:-|\Z))[0-9a-zA-Z+._?=-]{{1,211}}")


def is_store_path(text: str) -> bool:
    """Tell whether *text* is the path of a store object, there or not; nothing below one is.

    What is none can mean anything to Nix, where it takes a path for what it is to work on.
    """
    folder, _, name = text.rpartition("/")
    return folder == STORE and _BASE_NAME.fullmatch(name) is not None


def root_of(path: str) -> str | None:
    """Return the store path that a file of an image belongs to; None if to none.

    Both without ``/`` at their start, as layers name files.
    """
    parts = path.split("/", 3)
    if len(parts) < 3 or parts[:2] != ["nix", "store"] or not _BASE_NAME.fullmatch(parts[2]):
        return None
    return "/".join(parts[:3])


def sri_from_base32(digest: str) -> str:
    """Return the SRI form of a sha256 in Nix's base32, as `sha256` in nix-prefetch-git's answer.

    Source of the encoding: Nix's manual, "Base-32 strings": digits run from the last bits to the
    first, over the bytes in reverse.

    Raises:
        ValueError: *digest* is not 52 digits of that alphabet.
    """
    if len(digest) != 52:
        raise ValueError(f"{digest!r} is not a sha256 in base32")
    return sri(f"sha256:{digest}")


def sri(text: str) -> str:
    """Return a hash as Nix writes it in SRI form, so that two spellings of it compare.

    Raises:
        ValueError: it is none.
    """
    algorithm, digest = digest_of(text)
    return f"{algorithm}-{base64.b64encode(digest).decode()}"


def base32(data: bytes) -> str:
    """Return bytes in Nix's base32."""
    number = int.from_bytes(data, "little")
    count = -(-len(data) * 8 // 5)
    return "".join(DIGITS[number >> 5 * place & 31] for place in reversed(range(count)))


def fixed_output_path(sri_hash: str, name: str) -> str:
    """Return the store path of a source with that NAR hash and name, there or not.

    Source: Nix's manual, "Complete Store Path Calculation", for what has the content address of a
    recursive sha256 and no references.
    """
    digest = base64.b64decode(sri_hash.removeprefix("sha256-"))
    return _store_path("source", digest, name)


def digest_of(text: str) -> tuple[str, bytes]:
    """Return the algorithm and the bytes of a hash as Nix writes it.

    That is ``ALGORITHM:`` with base16, base32 or base64, or SRI.

    Raises:
        ValueError: it is none.
    """
    algorithm, separator, digits = text.partition(":" if ":" in text else "-")
    size = _SIZES.get(algorithm, 0)
    if separator == "-" or len(digits) == -(-size // 3) * 4:
        found = base64.b64decode(digits, validate=True)
    elif len(digits) == 2 * size:
        found = bytes.fromhex(digits)
    else:
        number = 0
        for character in digits:
            number = number * 32 + DIGITS.index(character)
        if number >> 8 * size or base32(number.to_bytes(size, "little")) != digits:
            raise ValueError(f"{text!r} is no hash")
        return algorithm, number.to_bytes(size, "little")
    if not size or len(found) != size:
        raise ValueError(f"{text!r} is no hash")
    return algorithm, found


def content_addressed_path(
    address: str, name: str, references: Sequence[str], refers_to_itself: bool
) -> str:
    """Return the store path of what has a content address, as narinfos give it in ``CA:``.

    Args:
        references: store paths, without the path's own.

    Source: Nix's manual, as for `fixed_output_path`.

    Raises:
        ValueError: it is no such address.
    """
    found = re.fullmatch(r"(text|fixed):(r:)?([a-z0-9]+:[0-9a-zA-Z+/=]+)", address)
    if found is None or (found[1] == "text" and found[2]):
        raise ValueError(f"{address!r} is no content address")
    algorithm, digest = digest_of(found[3])
    listed = "".join(f":{one}" for one in sorted(references))
    if algorithm == "sha256" and found[1] == "text":
        return _store_path(f"text{listed}", digest, name)
    if algorithm == "sha256" and found[2]:
        return _store_path(f"source{listed}{':self' if refers_to_itself else ''}", digest, name)
    if found[1] == "text" or references or refers_to_itself:
        raise ValueError(f"{address!r} cannot have references")
    inner = f"fixed:out:{found[2] or ''}{algorithm}:{digest.hex()}:"
    return _store_path("output:out", hashlib.sha256(inner.encode()).digest(), name)


def _store_path(kind: str, digest: bytes, name: str) -> str:
    """Return the store path of a kind of object with that sha256."""
    whole = hashlib.sha256(f"{kind}:sha256:{digest.hex()}:{STORE}:{name}".encode()).digest()
    folded = bytearray(_LENGTH)
    for place, byte in enumerate(whole):
        folded[place % _LENGTH] ^= byte
    return f"{STORE}/{base32(bytes(folded))}-{name}"
