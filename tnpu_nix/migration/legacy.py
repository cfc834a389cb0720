"""The files that held the pins before pins.toml: versions.env, and PyTorchSim's JSON files."""

from __future__ import annotations

import codecs
import json
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tnpu_nix.errors import TnpuError
from tnpu_nix.migration import shellfile
from tnpu_nix.migration.sheet import Remark, Sheet, Variable

# A file of pins is a page or two; what is longer is something else.
_LONGEST = 256 * 1024
_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


@dataclass
class Legacy:
    """What the files said, in the order in which they were named."""

    variables: list[Variable] = field(default_factory=list)
    remarks: list[Remark] = field(default_factory=list)
    head: list[str] = field(default_factory=list)  # comments at the top of the shell files
    loose: list[str] = field(default_factory=list)  # comments that stand above no variable


def read(paths: Sequence[Path]) -> Legacy:
    """Read shell files of assignments and JSON files; which is which, their text says.

    Shell files are read as a shell would that sources one after the other: a later one sees the
    variables of an earlier one, and overrides them. Nothing is run. A value in a JSON file
    becomes a variable whose name is the path to it: ``spike.release_tag``.

    Raises:
        TnpuError: a file cannot be read, or is neither.
    """
    sheet, found = Sheet(), Legacy()
    for path in paths:
        text = _text(path)
        if text.lstrip().startswith("{"):
            found.variables += _json(text, str(path))
        else:
            shellfile.read(text, str(path), sheet)
    found.variables = [*sheet.variables.values(), *found.variables]
    found.remarks, found.head, found.loose = sheet.remarks, sheet.head, sheet.loose
    return found


def _text(path: Path) -> str:
    """Return a file's text with ``\\n`` at the ends of lines, whatever wrote it."""
    try:
        # A pipe would be waited for, and a device may have no end.
        if not stat.S_ISREG(path.stat().st_mode):
            raise TnpuError(f"{path} cannot be read: it is no regular file", "name a file")
        with path.open("rb") as file:
            data = file.read(_LONGEST + 1)
    except OSError as error:
        raise TnpuError(f"{path} cannot be read: {error.strerror}", "name a file") from error
    encoding = next((name for mark, name in _MARKS if data.startswith(mark)), "utf-8")
    # A comment in another encoding is no reason to stop; no pin holds such a character.
    text = data.removeprefix(codecs.BOM_UTF8).decode(encoding, errors="replace")
    if len(data) > _LONGEST or "\0" in text:
        raise TnpuError(
            f"{path} is no file of pins: it is long, or holds bytes that are no text",
            "name setup/versions.env, or a JSON file of PyTorchSim's thirdparty/",
        )
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _json(text: str, name: str) -> Iterator[Variable]:
    """Yield every value of a JSON file, with the line on which its key stands."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        place = f":{error.lineno}" if isinstance(error, json.JSONDecodeError) else ""
        raise TnpuError(
            f"{name}{place}: begins as JSON does, and is none: {error}", "mend the file"
        ) from error
    at = -1
    for key, value in _leaves(data, ""):
        # Keys come in the order of the text, each behind the one before it.
        quoted = json.dumps(key.rsplit(".", 1)[-1], ensure_ascii=False)
        at = max(text.find(quoted, at + 1), at)
        shown = value if isinstance(value, str) else json.dumps(value)
        yield Variable(key, name, text.count("\n", 0, max(at, 0)) + 1, shown)


def _leaves(data: Any, above: str) -> Iterator[tuple[str, Any]]:
    if not isinstance(data, dict):
        yield above, data
        return
    for key, value in data.items():
        yield from _leaves(value, f"{above}.{key}" if above else key)
