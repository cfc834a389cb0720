"""Putting comments, and whole tables, into the text of a pins.toml."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import tomlkit

from tnpu_nix import pinsfile

# TOML allows none of these in a comment.
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")


def worth(lines: Iterable[str]) -> list[str]:
    """Return the comment lines that say something: rulers and empty ones left out."""
    return [line for line in lines if re.search(r"\w", line)]


def table(path: Sequence[str], values: Mapping[str, Any]) -> str:
    """Return the text of one table, an empty line before it; one name alone may be a plain key."""
    lines = [f"{key} = {tomlkit.item(value).as_string()}\n" for key, value in values.items()]
    if list(path) == list(values):
        return "".join(lines)
    return "".join([f"\n[{'.'.join(path)}]\n", *lines])


def above(text: str, path: tuple[str, ...], lines: Sequence[str]) -> str:
    """Return *text* with comment lines above a table or key; those that it holds are left out."""
    wanted = _new(text, lines)
    number = pinsfile.line_of(text, path)
    if not wanted or number is None:
        return text
    newline = "\r\n" if "\r\n" in text else "\n"
    existing = text.split("\n")
    added = [one + newline.removesuffix("\n") for one in wanted]
    return "\n".join([*existing[: number - 1], *added, *existing[number - 1 :]])


def at_head(text: str, lines: Sequence[str]) -> str:
    """Return *text* with comment lines before everything but an editor's ``#:schema``."""
    wanted = _new(text, worth(lines))
    if not wanted:
        return text
    newline = "\r\n" if "\r\n" in text else "\n"
    head, rest = "", text
    if text.startswith("#:"):
        head, _, rest = text.partition("\n")
        head += "\n"
    return head + "".join(f"{one}{newline}" for one in [*wanted, ""]) + rest


def without(text: str, paths: Iterable[tuple[str, ...]]) -> str:
    """Return *text* without the given keys; comments, order and blank lines stay."""
    document = tomlkit.parse(text)
    for *above_it, key in paths:
        found: Any = document
        for part in above_it:
            found = found.get(part, {})
        if key in found:
            found.remove(key)
    return pinsfile.with_line_ends_of(text, tomlkit.dumps(document))


def _new(text: str, lines: Sequence[str]) -> list[str]:
    """Return those of *lines*, as TOML can hold them, that *text* does not have already."""
    have = {line.strip() for line in text.split("\n")}
    clean = [_CONTROL.sub(" ", line).strip() for line in lines]
    return [line for line in dict.fromkeys(clean) if line not in have]
