"""The netrc file, read as curl does, by which Nix reads it: Python's own module differs.

It takes the last of several entries for a host, where curl takes the first, and words that it does
not know for an error, which it reports with the word: maybe half a password.

Source: curl's lib/netrc.c, and its manual on .netrc.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

# A word in quotes, in which a backslash takes away the meaning of what follows; or a plain one.
_WORD = re.compile(r'"((?:[^"\\]|\\.)*)"|(\S+)')
_ESCAPED = {"n": "\n", "r": "\r", "t": "\t"}


@dataclass
class Entry:
    """What the file says of a host."""

    host: str | None  # None: of all that are not named before
    login: str = ""
    password: str = field(default="", repr=False)


def find(text: str, host: str) -> Entry | None:
    """Return the first entry for a host that says who we are; None if there is none."""
    ours = (one for one in entries(text) if one.host in (None, host.lower()))
    return next((one for one in ours if one.login or one.password), None)


def entries(text: str) -> Iterator[Entry]:
    """Yield the entries of a netrc file in order; what is none of its words is passed over."""
    entry: Entry | None = None
    words = _words(text)
    for word in words:
        match word.lower():
            case "machine" | "default" as kind:
                if entry is not None:
                    yield entry
                entry = Entry(next(words, "").lower() if kind == "machine" else None)
            case "login" if entry is not None:
                entry.login = next(words, "")
            case "password" if entry is not None:
                entry.password = next(words, "")
    if entry is not None:
        yield entry


def _words(text: str) -> Iterator[str]:
    lines = iter(text.splitlines())
    for line in lines:
        for match in _WORD.finditer(line):
            quoted, plain = match.groups()
            if plain is not None and plain.startswith("#"):
                break
            if plain is not None and plain.lower() == "macdef":
                for rest in lines:  # a macro ends with an empty line
                    if not rest.strip():
                        break
                break
            yield plain if quoted is None else _unescaped(quoted)


def _unescaped(quoted: str) -> str:
    return re.sub(r"\\(.)", lambda match: _ESCAPED.get(match[1], match[1]), quoted)
