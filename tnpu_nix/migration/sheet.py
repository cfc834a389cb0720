"""What files of assignments say: their variables, and the statements that were passed over."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Gap:
    """A part of a value that cannot be told without running the file, or at all."""

    source: str  # as it stands in the value; empty: the whole value is in doubt
    reason: str


@dataclass(frozen=True)
class Variable:
    """One variable, as a file leaves it."""

    name: str
    file: str
    line: int
    value: str = ""  # what a gap leaves open stands in it as it is written
    gaps: tuple[Gap, ...] = ()
    comments: tuple[str, ...] = ()  # lines above it and behind it, each with its "#"
    earlier: tuple[str, ...] = ()  # "value (line 3)", where it was assigned more than once


@dataclass(frozen=True)
class Remark:
    """A statement that is no assignment, and why it was passed over."""

    file: str
    line: int
    text: str
    reason: str


@dataclass
class Sheet:
    """What a file, or several that are read one after the other, said."""

    variables: dict[str, Variable] = field(default_factory=dict)
    remarks: list[Remark] = field(default_factory=list)
    head: list[str] = field(default_factory=list)  # comments at the top of a file
    loose: list[str] = field(default_factory=list)  # comments that stand above no variable


@dataclass(frozen=True)
class Value:
    """What a word stands for."""

    text: str
    gaps: tuple[Gap, ...] = ()


@dataclass(frozen=True)
class Assignment:
    """What a word assigns, before anything is done."""

    name: str
    value: Value
    appends: bool


def shaped(held: Variable, operator: str, source: str) -> Value:
    """Return a variable's value as ``${NAME:2:5}`` and its kin ask for it."""
    if not operator:
        return Value(held.value, held.gaps)
    if held.gaps:
        return Value(source, (Gap(source, f"rests on {held.name}, which is not known"),))
    if operator in ("^^", ",,"):
        return Value(held.value.upper() if operator == "^^" else held.value.lower())
    first, *length = (int(number) for number in operator.strip(":").split(":"))
    return Value(held.value[first : first + length[0]] if length else held.value[first:])
