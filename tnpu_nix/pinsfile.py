"""Reading and editing pins.toml: every fault with its line and key, all at once."""

from __future__ import annotations

import bisect
import re
import stat
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import tomlkit
from pydantic import ValidationError
from tomlkit.exceptions import TOMLKitError
from tomlkit.items import Table

from tnpu_nix.errors import TnpuError
from tnpu_nix.pins import PIN_NAMES, VERSION, Toolchain
from tnpu_nix.place import FILE_NAME as FILE_NAME
from tnpu_nix.repository import same_repository_key

_AT_LINE = re.compile(r"\s*\(at line (\d+), column \d+\)")
_LONE_NEWLINE = re.compile(r"(?<!\r)\n")
# pydantic's kinds of finding in the words of TOML.
_WORDS = {
    "extra_forbidden": "unknown key",
    "model_type": "must be a table",
    "dict_type": "must be a table",
    "string_type": "must be a string",
    "list_type": "must be a list",
    "int_type": "must be a whole number",
    "bool_type": "must be true or false",
    "greater_than": "must be more than {gt}",
    "greater_than_equal": "must be at least {ge}",
    "less_than": "must be less than {lt}",
    "less_than_equal": "must be at most {le}",
}
# A value of several lines ends in a line that holds one of these.
_CLOSING = ("]", "}", '"""', "'''")
KeyPath = tuple[str | int, ...]


@dataclass(frozen=True)
class _Fault:
    path: KeyPath
    words: str
    missing: bool = False  # the key is not in the file


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
        # Asked first: opening a fifo would wait for somebody to write into it.
        if not stat.S_ISREG(path.stat().st_mode):
            kind = "a folder" if path.is_dir() else "not a regular file"
            raise TnpuError(f"{path} is {kind}", "put a file, or a link to one, in its place")
        return path.read_bytes().decode("utf-8")
    except FileNotFoundError as error:
        if path.is_symlink():
            what = f"{path} is a link to {path.readlink()}, which does not exist"
            raise TnpuError(what, "mend the link") from error
        raise TnpuError(f"{path} does not exist", "name a project with --project DIR") from error
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise TnpuError(f"{path.name}:{line}: not UTF-8", "save the file as UTF-8") from error
    except OSError as error:
        raise TnpuError(f"{path} cannot be read: {error.strerror}", "check its rights") from error


def parse(text: str, name: str = FILE_NAME) -> Toolchain:
    """Check the text of a pins.toml and return the model; raises as `load` does."""
    data = data_of(text, name)
    if (version := version_of(text, name)) < VERSION:
        raise TnpuError(
            f"{name} is of version {version}, and this tnpu-nix works with version {VERSION}",
            "`tnpu-nix upgrade` brings the file to that version, comments and order kept",
        )
    toolchain, found = _validate(data)
    found += [*_shared_repositories(data), *_nested_links(data)]
    if toolchain is None or found:
        raise _report(name, text, found)
    return toolchain


def version_of(text: str, name: str = FILE_NAME) -> int:
    """Return the version of a file's format: VERSION, or that of an older one.

    A file that does not say is of version 0 if its pins are tables at the top level, as files
    were kept by hand, and of version 1 otherwise.

    Raises:
        TnpuError: the file is not TOML, or of a newer version.
    """
    data = data_of(text, name)
    version = data.get("version")
    if version is None:
        tables = [data[one] for one in PIN_NAMES if isinstance(data.get(one), dict)]
        return 0 if "pins" not in data and any("url" in table for table in tables) else 1
    if type(version) is not int or version < 0:
        return VERSION  # a fault of the key, like others
    if version > VERSION:
        raise TnpuError(
            f"{name} is of version {version}, and this tnpu-nix knows version {VERSION}",
            "use a newer tnpu-nix",
        )
    return version


def data_of(text: str, name: str = FILE_NAME) -> dict[str, Any]:
    """Return what a TOML text holds; raises TnpuError, with the line, if it is none."""
    if text.startswith("\ufeff"):
        raise TnpuError(
            f"{name}:1: not TOML: the file starts with a byte order mark",
            "save the file as UTF-8 without a byte order mark",
        )
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        where = _AT_LINE.search(str(error))
        line = int(where.group(1)) if where else text.rstrip().count("\n") + 1
        fault = _AT_LINE.sub("", str(error)).replace(" (at end of document)", "")
    except RecursionError:
        line, fault = _line_of_limit(text), "lists or tables are nested too deeply"
    except ValueError:
        line, fault = _line_of_limit(text), "a number has too many digits"
    raise TnpuError(
        f"{name}:{line}: not TOML: {fault}", f"mend line {line} and run the command again"
    )


def _line_of_limit(text: str) -> int:
    """Return the line with which the parser, reading from the start, meets a limit of Python."""
    lines = text.split("\n")

    def fails(count: int) -> bool:
        try:
            tomllib.loads("\n".join(lines[:count]))
        except tomllib.TOMLDecodeError:
            return False  # cut off inside a value
        except (RecursionError, ValueError):
            return True
        return False

    return bisect.bisect_left(range(len(lines)), True, key=fails)


def _validate(data: Mapping[str, Any]) -> tuple[Toolchain | None, list[_Fault]]:
    try:
        return Toolchain.model_validate(data), []
    except ValidationError as error:
        return None, [_fault(one) for one in error.errors(include_url=False)]


def _fault(error: Mapping[str, Any]) -> _Fault:
    """Return pydantic's finding in the words of pins.toml."""
    kind = error["type"]
    # "[key]" is how pydantic says that the key itself is at fault, not its value.
    path = tuple(part for part in error["loc"] if part != "[key]")
    is_pin = len(path) == 2 and path[0] == "pins"
    if kind == "missing":
        what = "pin" if is_pin else "table" if len(path) == 1 else "key"
        return _Fault(path, f"missing {what}", missing=True)
    if kind == "extra_forbidden" and is_pin:
        return _Fault(path, f"unknown key (pins are {', '.join(PIN_NAMES)})")
    if kind in _WORDS:
        return _Fault(path, _WORDS[kind].format(**error.get("ctx", {})))
    return _Fault(path, str(error["msg"]).removeprefix("Value error, "))


def _shared_repositories(data: Mapping[str, Any]) -> Iterator[_Fault]:
    """Yield a fault for each pin whose URL names the repository of a pin before it."""
    first: dict[str, str] = {}
    for name, pin in _table(data, "pins").items():
        url = pin.get("url") if isinstance(pin, Mapping) else None
        if isinstance(url, str):
            other = first.setdefault(same_repository_key(url), name)
            if other != name:
                words = f"{_shown(other)} and {_shown(name)} are pins of one repository"
                yield _Fault(("pins", name, "url"), words)


def _nested_links(data: Mapping[str, Any]) -> Iterator[_Fault]:
    """Yield a fault for each link below another: it would lie in the other's component."""
    links = _table(_table(data, "image"), "links")
    for link in links:
        above = [str(one) for one in PurePosixPath(link).parents[:-1] if str(one) in links]
        if above:
            yield _Fault(("image", "links", link), f"lies below another link, {_shown(above[0])}")


def _table(data: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = data.get(key)
    return value if isinstance(value, Mapping) else {}


def _shown(part: str | int) -> str:
    """Return a key as it can stand in a message: one line, nothing that a terminal obeys."""
    return str(part) if isinstance(part, int) or (part and part.isprintable()) else repr(part)


def _report(name: str, text: str, found: Sequence[_Fault]) -> TnpuError:
    lines = _Lines(text, max(len(fault.path) for fault in found))
    found = sorted(dict.fromkeys(found), key=lines.of)
    count = "1 fault" if len(found) == 1 else f"{len(found)} faults"
    return TnpuError(
        f"{name} has {count}",
        "mend the lines above; docs/pins.md describes every table",
        tuple(
            f"{name}:{lines.of(fault)}: {'.'.join(map(_shown, fault.path))}: {fault.words}"
            for fault in found
        ),
    )


class _Lines:
    """Knows on which line each key of a TOML text begins, from one pass over the text.

    The text is cut into statements (the head of a table, or a key with its value), and each is
    given to the TOML parser together with the head that it stands under. The parser itself thus
    decides what is a key: no rule about quoted and dotted keys or inline tables is known twice.
    """

    def __init__(self, text: str, depth: int) -> None:
        """Read *text*, which is TOML; paths of more than *depth* parts are not wanted."""
        self._lines: dict[KeyPath, int] = {}
        # Tables that the text opens, and not just names on the way to a table below them.
        self._tables: dict[KeyPath, int] = {}
        head = ""
        table: KeyPath = ()
        for line, statement in _statements(text):
            if statement.lstrip().startswith("["):
                head, statement = statement, ""
                table = max(_paths(_parsed(head), depth), key=len)
                self._tables.setdefault(table, line)
            paths = list(_paths(_parsed(f"{head}\n{statement}"), depth))
            self._add_elements(line, statement, [path for path in paths if len(path) > len(table)])
            for path in paths:
                self._lines.setdefault(path, line)
                if len(path) > len(table):
                    self._tables.setdefault(path, line)

    def _add_elements(self, line: int, statement: str, paths: list[KeyPath]) -> None:
        lists = [path[:-1] for path in paths if isinstance(path[-1], int)]
        if lists:
            outermost = min(lists, key=len)
            for number, offset in enumerate(_elements(statement)):
                self._lines.setdefault((*outermost, number), line + offset)

    def begins(self, path: KeyPath) -> int | None:
        """Return the line of a key or table, None if the text has no such one."""
        return self._lines.get(path)

    def of(self, fault: _Fault) -> int:
        """Return the line, from 1, of the key, or of the table that lacks it; 1 if none does."""
        if fault.missing:
            return self._tables.get(fault.path[:-1], 1)
        return self._lines.get(fault.path, 1)


def line_of(text: str, path: KeyPath) -> int | None:
    """Return the line, from 1, on which a table or key of a TOML text begins; None if none does."""
    return _Lines(text, len(path)).begins(path)


def _statements(text: str) -> Iterator[tuple[int, str]]:
    """Yield each statement of a TOML text with the line, from 1, that it begins on.

    A statement is whole as soon as its lines are TOML by themselves.
    """
    lines: list[str] = []
    for number, line in enumerate(text.replace("\r\n", "\n").split("\n"), 1):
        lines.append(line)
        if len(lines) > 1 and not _may_close(line):
            continue
        statement = "\n".join(lines)
        parsed = _parsed(statement)
        if parsed is not None:
            if parsed:
                yield number - len(lines) + 1, statement
            lines = []


def _may_close(line: str) -> bool:
    """Tell, cheaply, whether a value of several lines may end here."""
    # Without a comment, a comma at the end says that more follows.
    goes_on = line.rstrip().endswith(",") and "#" not in line
    return not goes_on and any(mark in line for mark in _CLOSING)


def _elements(statement: str) -> Iterator[int]:
    """Yield the line, from 0, of each element of a list that spans several lines.

    Nothing, or only the first elements, where the list is not laid out line by line.
    """
    first, *others = statement.split("\n")
    opened = _parsed(f"{first}\n]")
    if opened is None:
        return
    yield from [0] * sum(isinstance(path[-1], int) for path in _paths(opened, 1000))
    chunk: list[str] = []
    for number, line in enumerate(others, 1):
        chunk.append(line)
        body = "x = [" + "\n".join(chunk)
        for closed in (f"{body}\n]", body):
            parsed = _parsed(closed)
            if parsed is not None:
                yield from [number - len(chunk) + 1] * len(parsed["x"])
                chunk = []
                break


def _parsed(text: str) -> dict[str, Any] | None:
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError):
        return None


def _paths(data: dict[str, Any] | None, depth: int) -> Iterator[KeyPath]:
    """Yield the path of every table, key and list element, down to *depth* parts."""
    todo: list[tuple[KeyPath, Any]] = [((), data)]
    while todo:
        path, value = todo.pop()
        if path:
            yield path
        if len(path) == depth:
            continue
        if isinstance(value, dict):
            todo += [((*path, key), one) for key, one in value.items()]
        elif isinstance(value, list):
            todo += [((*path, number), one) for number, one in enumerate(value)]


def edit(text: str, changes: Mapping[tuple[str, ...], Any]) -> str:
    """Return *text* with the values at the given key paths replaced.

    Comments, order and blank lines stay. A key that is not there yet is added to its table; a
    value that is equal already is left as it is spelled.
    """
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
        if path[-1] not in table:
            _add(table, path[-1], value)
        elif table[path[-1]] != value:
            table[path[-1]] = value
    return with_line_ends_of(text, tomlkit.dumps(document))


def with_line_ends_of(text: str, edited: str) -> str:
    """Return *edited* with CRLF throughout if *text* has that; tomlkit's own lines end in LF."""
    all_crlf = "\r\n" in text and not _LONE_NEWLINE.search(text)
    return _LONE_NEWLINE.sub("\r\n", edited) if all_crlf else edited


def _add(table: Any, key: str, value: Any) -> None:
    """Add a key behind the last one; what follows that one most often belongs to the next table."""
    body = table.value.body if isinstance(table, Table) else []
    following = []
    while body and body[-1][0] is None:
        following.append(body.pop())
    table[key] = value
    body.extend(reversed(following))
