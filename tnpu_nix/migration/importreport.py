"""What an import found, for people and as data."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class Row:
    """One variable that speaks of a pin."""

    name: str
    place: str  # file:line
    says: str  # "url" or "rev"
    value: str
    verdict: str  # "wins", "tracked", "agrees", "disagrees" or "not compared"
    why: str
    earlier: tuple[str, ...] = ()  # values that a later assignment replaced


@dataclass
class PinReport:
    """One pin."""

    name: str
    url: str | None = None
    url_from: str = ""  # the variable, or the file that it was kept from
    rev: str | None = None  # 40 digits, or as the file has it where it was not asked for
    rev_from: str = ""
    ref: str | None = None  # the branch or tag that was followed
    track: str | None = None
    hash: str | None = None
    date: str | None = None
    rows: list[Row] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)  # what no file says, in words

    def lines(self) -> list[str]:
        """Return the pin, for people."""
        if not (self.url or self.rev or self.rows):
            return [f"{self.name}: left out: {'; '.join(self.missing)}"]
        lines = [self._head()]
        for key, value, source in (
            ("url", self.url, self.url_from),
            ("rev", self.rev, self.rev_from),
            ("track", self.track, ""),
            ("date", self.date, ""),
            ("hash", self.hash, ""),
        ):
            if value is not None:
                ref = f" ({self.ref})" if key == "rev" and self.ref else ""
                lines.append(f"  {key:<5} {value}{ref}" + (f"  from {source}" if source else ""))
        lines += self._rows()
        return lines + [f"  left out: {one}" for one in self.missing]

    def _head(self) -> str:
        revs = [row for row in self.rows if row.says == "rev"]
        if len(revs) < 2:
            return f"{self.name}: {revs[0].why}" if revs and revs[0].why else self.name
        against = sum(row.verdict == "disagrees" for row in revs)
        words = {0: "", 1: ", and 1 disagrees"}.get(against, f", and {against} disagree")
        return f"{self.name}: {len(revs)} variables name a revision{words}"

    def _rows(self) -> list[str]:
        """Return the variables, of each kind where there are several, or more to say of one."""
        shown = []
        for says in ("url", "rev"):
            rows = [row for row in self.rows if row.says == says]
            if len(rows) > 1 or any(row.earlier or (row.why and says == "url") for row in rows):
                shown += rows
        width = max((len(row.name) for row in shown), default=0)
        lines = []
        for row in shown:
            value = row.value[:12] if row.says == "rev" and len(row.value) == 40 else row.value
            lines.append(f"  {row.name:<{width}}  {row.verdict:<9}  {value}  {row.place}")
            lines += [f"    {row.why}"] if row.why else []
            lines += [f"    was {one} before; the later one counts" for one in row.earlier]
        return lines


@dataclass(frozen=True)
class OptionRow:
    """A key of pins.toml, beside the pins, that a variable gave a value."""

    key: str
    value: Any
    name: str
    place: str
    note: str = ""


@dataclass(frozen=True)
class RestRow:
    """A variable, or another statement, that has no place in pins.toml."""

    name: str
    place: str
    value: str
    reason: str
    comments: tuple[str, ...] = ()
    earlier: tuple[str, ...] = ()  # values of other assignments before it


@dataclass
class Report:
    """All that an import found."""

    pins: list[PinReport] = field(default_factory=list)
    options: list[OptionRow] = field(default_factory=list)
    not_placed: list[RestRow] = field(default_factory=list)
    comments: list[str] = field(default_factory=list)  # that stand above no variable
    kept: list[str] = field(default_factory=list)  # what no file says, and where it is from
    findings: list[str] = field(default_factory=list)  # what the sources say of each other
    files: list[str] = field(default_factory=list)  # that differ, below the project
    written: bool = False
    toml: str = ""  # what was found, where it does not make a whole pins.toml

    def as_json(self) -> dict[str, Any]:
        """Return the report as plain data."""
        return asdict(self)

    def lines(self) -> list[str]:
        """Return the report, for people."""
        lines = [line for pin in self.pins for line in pin.lines()]
        for option in self.options:
            note = f"; {option.note}" if option.note else ""
            value = json.dumps(option.value)  # strings and lists as TOML has them
            lines.append(f"{option.key} = {value}  from {option.name} {option.place}{note}")
        lines += ["not placed:"] if self.not_placed else []
        for row in self.not_placed:
            value = f" = {row.value}" if row.value else ""
            lines.append(f"  {row.name}{value}  {row.place}")
            lines += [f"    assigned {one} before" for one in row.earlier]
            lines += [f"    {row.reason}", *(f"    {one}" for one in row.comments)]
        lines += ["comments that stand above no variable:"] if self.comments else []
        lines += [f"  {one}" for one in self.comments]
        lines += [f"not in the files: {one}" for one in self.kept]
        return [*lines, *self.findings, *self._outcome()]

    def _outcome(self) -> list[str]:
        if self.toml:
            return ["what was found, as pins.toml would have it:", "", *self.toml.splitlines()]
        if not self.files:
            return ["nothing was written"]
        names = ", ".join(self.files) if len(self.files) < 9 else f"{len(self.files)} files"
        return [f"{'wrote' if self.written else 'would write'} {names}"]
