"""Variables of the old files that say what a key of pins.toml says: build options and the like."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from tnpu_nix.migration.naming import words_of
from tnpu_nix.migration.placing import Unplaced, gap_words
from tnpu_nix.migration.sheet import Variable
from tnpu_nix.pins import Toolchain

# Only names that can mean nothing else. Key of pins.toml: names, without TNPU_ before them.
_NAMES = {
    ("llvm", "targets"): ("LLVM_TARGETS", "LLVM_TARGETS_TO_BUILD"),
    ("llvm", "assertions"): ("LLVM_ASSERTIONS", "LLVM_ENABLE_ASSERTIONS"),
    ("pk", "arch"): ("PK_ARCH", "RISCV_PK_ARCH"),
    ("pk", "abi"): ("PK_ABI", "RISCV_PK_ABI"),
    ("python", "version"): ("PYTHON_VERSION", "PYTHON_VER", "PY_VERSION", "PY_VER"),
    ("image", "name"): ("IMAGE_NAME",),
    ("image", "registry"): ("IMAGE_REGISTRY", "REGISTRY"),
    ("slurm", "partition"): ("SLURM_PARTITION",),
    ("slurm", "cpus"): ("SLURM_CPUS",),
    ("slurm", "time"): ("SLURM_TIME",),
    ("slurm", "memory"): ("SLURM_MEMORY", "SLURM_MEM"),
}
_KEY_OF = {name: key for key, names in _NAMES.items() for name in names}
_TRUE = ("1", "on", "true", "yes", "y")
_FALSE = ("0", "off", "false", "no", "n")


@dataclass(frozen=True)
class Option:
    """A key of pins.toml that a variable gives a value."""

    key: tuple[str, str]
    value: Any
    variable: Variable
    note: str = ""


def options(
    variables: Sequence[Variable],
) -> tuple[list[Option], list[Unplaced], list[Variable]]:
    """Return the options among variables, those that pins.toml cannot take, and all others."""
    found: list[Option] = []
    refused: list[Unplaced] = []
    others: list[Variable] = []
    for variable in variables:
        words = words_of(variable.name)
        key = _KEY_OF.get("_".join(words[1:] if words[:1] == ["TNPU"] else words))
        if key is None:
            others.append(variable)
            continue
        option = _option(key, variable)
        if isinstance(option, str):
            refused.append(Unplaced(variable, option))
        else:
            found.append(option)
    return _without_conflicts(found, refused), refused, others


def _option(key: tuple[str, str], variable: Variable) -> Option | str:
    if variable.gaps:
        return gap_words(variable.gaps)
    if not variable.value.strip():
        return "is empty"
    value, note = _converted(key, variable.value.strip())
    table = Toolchain.model_fields[key[0]].annotation
    try:
        table.model_validate({key[1]: value})  # type: ignore[union-attr]
    except ValidationError as error:
        said = str(error.errors(include_url=False)[0]["msg"]).removeprefix("Value error, ")
        return f"would be {'.'.join(key)}, which cannot be so: {said}"
    return Option(key, value, variable, note)


def _converted(key: tuple[str, str], text: str) -> tuple[Any, str]:
    """Return a value as pins.toml spells it, and what was made of it."""
    if key == ("llvm", "targets"):
        return re.split(r"[;,\s]+", text.strip("; ,")), ""
    if key == ("llvm", "assertions"):
        lower = text.lower()
        return (lower in _TRUE if lower in (*_TRUE, *_FALSE) else text), ""
    if key == ("slurm", "cpus"):
        return (int(text) if text.isascii() and text.isdecimal() else text), ""
    if key == ("python", "version") and (match := re.fullmatch(r"(3\.\d+)\.\d+", text)):
        return match[1], f"of {text}: nixpkgs says which 3.x.y it is"
    return text, ""


def _without_conflicts(found: list[Option], refused: list[Unplaced]) -> list[Option]:
    """Move options that give one key several values to *refused*."""
    kept = []
    for option in found:
        rivals = [one for one in found if one.key == option.key and one.value != option.value]
        if rivals:
            names = ", ".join(one.variable.name for one in rivals)
            reason = f"would be {'.'.join(option.key)}, of which {names} says something else"
            refused.append(Unplaced(option.variable, reason))
        else:
            kept.append(option)
    return kept
