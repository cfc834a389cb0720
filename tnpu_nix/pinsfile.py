"""Reading and editing pins.toml: every fault with its line and key, all at once."""

from __future__ import annotations

import itertools
import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import tomlkit
from pydantic import ValidationError
from tomlkit.exceptions import TOMLKitError

from tnpu_nix.errors import TnpuError
from tnpu_nix.pins import PIN_NAMES, Toolchain
from tnpu_nix.repository import same_repository_key

FILE_NAME = "pins.toml"
_AT_LINE = re.compile(r"\s*\(at line (\d+), column \d+\)")
Path_ = tuple[str | int, ...]


def load(path: Path) -> Toolchain:
    """Read and check a pins.toml.

    Raises:
        TnpuError: the file is missing, unreadable, not TOML, or holds faults; its details list
            every fault as ``file:line: key: fault``.
    """
    return parse(read_text(path), path.name)


def read_text(path: Path) -> str:
    """Return the text of pins.toml, line endings as they are on disk."""
    try:
        return path.read_bytes().decode("utf-8")
    except FileNotFoundError as error:
        raise TnpuError(f"{path} does not exist", "name a project with --project DIR") from error
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise TnpuError(f"{path.name}:{line}: not UTF-8", "save the file as UTF-8") from error
    except OSError as error:
        raise TnpuError(f"{path} cannot be read: {error.strerror}", "check its rights") from error


def parse(text: str, name: str = FILE_NAME) -> Toolchain:
    """Check the text of a pins.toml and return the model; raises as `load` does."""
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        where = _AT_LINE.search(str(error))
        line = where.group(1) if where else str(text.count("\n") + 1)
        fault = _AT_LINE.sub("", str(error)).replace(" (at end of document)", "")
        raise TnpuError(
            f"{name}:{line}: not TOML: {fault}", f"mend line {line} and run the command again"
        ) from error
    toolchain, found = _validate(data)
    found += _shared_repositories(data)
    if toolchain is None or found:
        raise _faults(name, text, found)
    return toolchain


def _validate(data: Mapping[str, Any]) -> tuple[Toolchain | None, list[tuple[Path_, str]]]:
    try:
        return Toolchain.model_validate(data), []
    except ValidationError as error:
        return None, [(tuple(one["loc"]), _message(one)) for one in error.errors()]


def _message(error: Mapping[str, Any]) -> str:
    """Return pydantic's finding in the words of pins.toml."""
    kind, path = error["type"], tuple(error["loc"])
    if kind == "missing":
        is_pin = len(path) == 2 and path[0] == "pins"
        return "missing pin" if is_pin else "missing key"
    if kind == "extra_forbidden":
        known = (
            f" (pins are {', '.join(PIN_NAMES)})" if path[0] == "pins" and len(path) == 2 else ""
        )
        return f"unknown key{known}"
    return str(error["msg"]).removeprefix("Value error, ")


def _shared_repositories(data: Mapping[str, Any]) -> list[tuple[Path_, str]]:
    """Return a fault for each pair of pins whose URLs name one repository."""
    tables = data.get("pins")
    if not isinstance(tables, Mapping):
        return []
    urls = {
        name: pin["url"]
        for name, pin in tables.items()
        if isinstance(pin, Mapping) and isinstance(pin.get("url"), str)
    }
    return [
        (("pins", second, "url"), f"{first} and {second} are pins of one repository, {urls[first]}")
        for first, second in itertools.combinations(urls, 2)
        if same_repository_key(urls[first]) == same_repository_key(urls[second])
    ]


def _faults(name: str, text: str, found: Sequence[tuple[Path_, str]]) -> TnpuError:
    lines = _Lines(text)
    placed = sorted((lines.of(path), path, fault) for path, fault in dict.fromkeys(found))
    details = tuple(
        f"{name}:{line}: {'.'.join(str(part) for part in path if part != '[key]')}: {fault}"
        for line, path, fault in placed
    )
    count = "1 fault" if len(details) == 1 else f"{len(details)} faults"
    return TnpuError(
        f"{name} has {count}", "mend the lines above; docs/pins.md describes every table", details
    )


class _Lines:
    """Finds the line of a key by reading ever longer heads of the text with the TOML parser.

    The parser itself thus decides what is a key: no rule of TOML (quoted and dotted keys, inline
    tables, strings over several lines) is known twice.
    """

    def __init__(self, text: str) -> None:
        self._lines = text.splitlines()
        self._heads: list[tuple[int, dict[str, Any]]] = []
        for count in range(1, len(self._lines) + 1):
            try:
                head = tomllib.loads("\n".join(self._lines[:count]))
            except tomllib.TOMLDecodeError:
                continue  # the head ends inside a value
            self._heads.append((count, head))

    def of(self, path: Path_) -> int:
        """Return the line, from 1, where the key of *path*, or its nearest table, begins."""
        for depth in range(len(path), 0, -1):
            before = 0
            for count, head in self._heads:
                if _holds(head, path[:depth]):
                    return self._first_content(before, count)
                before = count
        return 1

    def _first_content(self, before: int, upto: int) -> int:
        for number in range(before + 1, upto + 1):
            line = self._lines[number - 1].strip()
            if line and not line.startswith("#"):
                return number
        return upto


def _holds(data: Any, path: Path_) -> bool:
    for part in path:
        if isinstance(data, Mapping) and part in data:
            data = data[str(part)]
        elif isinstance(data, list) and isinstance(part, int) and part < len(data):
            data = data[part]
        else:
            return False
    return True


def edit(text: str, changes: Mapping[tuple[str, ...], Any]) -> str:
    """Return *text* with the values at the given key paths replaced.

    Comments, order and blank lines stay. A key that is not there yet is added to its table; a
    value that is equal already is left as it is spelled.
    """
    # newline="" text: tomlkit keeps each line's own ending only if it sees it.
    try:
        document = tomlkit.parse(text)
    except TOMLKitError as error:
        raise TnpuError(f"{FILE_NAME} is not TOML: {error}", "mend the file") from error
    for path, value in changes.items():
        table: Any = document
        for part in path[:-1]:
            if part not in table:
                table[part] = tomlkit.table()
            table = table[part]
        if path[-1] not in table or table[path[-1]] != value:
            table[path[-1]] = value
    return tomlkit.dumps(document)
